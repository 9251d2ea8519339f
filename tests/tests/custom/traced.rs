//! Custom functions in traced functions: the body is recorded, and `forward` runs at each call.

#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom as library;
use gradloom::custom::Call;
use gradloom::prelude::*;
use gradloom::{CustomFunction, Param, custom_call};
use gradloom_tests::observe::finds;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

thread_local! {
    /// Number of calls of `Impure::forward` in a test.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}
static PURE_CALLS: AtomicUsize = AtomicUsize::new(0);

/// x plus the number of the call, with a doubled cotangent.
struct Impure;

impl CustomFunction for Impure {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        let n = CALLS.replace(CALLS.get() + 1);
        Ok((x + n as f64, ()))
    }

    fn backward(&self, _: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * 2.0)
    }
}

/// The square with a doubled cotangent, which a plan may repeat.
struct Pure;

impl CustomFunction for Pure {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Tensor;
    const PURE: bool = true;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Tensor)> {
        PURE_CALLS.fetch_add(1, Ordering::SeqCst);
        Ok((x.square(), x.clone()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.saved * 4.0)
    }
}

#[traced]
fn impure(x: &Tensor) -> Tensor {
    let f = Arc::new(Impure);
    custom_call(&f, x) * 3.0
}

#[traced]
fn caller(x: &Tensor) -> Tensor {
    impure(&(x + 0.0)).sum(..)
}

#[traced(pure)]
fn pure(x: &Tensor) -> Tensor {
    let f = Arc::new(Pure);
    custom_call(&f, x) * 3.0
}

#[traced]
fn pure_caller(x: &Tensor) -> Tensor {
    pure(&(x + 0.0)).sum(..)
}

/// S4.42: a cached plan would not repeat `forward`, so a function that is not declared pure runs at each call.
#[test]
fn forward_of_an_impure_function_runs_at_each_call() {
    let x = Tensor::from([1.0f64, 2.0]);
    for _ in 0..5 {
        let n = CALLS.get() as f64;
        assert_eq!(
            impure(&x).to_vec::<f64>(),
            [(1.0 + n) * 3.0, (2.0 + n) * 3.0]
        );
    }
    for _ in 0..3 {
        let n = CALLS.get() as f64;
        assert_eq!(caller(&x).item::<f64>(), (3.0 + 2.0 * n) * 3.0);
        assert_eq!(CALLS.get() as f64, n + 1.0);
    }
}

/// S4.42: companions of a traced function, its traced callers, and closures use the rule.
#[test]
fn companions_use_the_rule() {
    let x = Tensor::from([1.0f64, 2.0]);
    for _ in 0..3 {
        let (_, pullback) = impure::vjp(&x);
        assert_eq!(pullback(&x.ones_like()).to_vec::<f64>(), [6.0, 6.0]);
        assert_eq!(caller::grad(&x).x.to_vec::<f64>(), [6.0, 6.0]);
        assert_eq!(grad(|x: &Tensor| caller(x))(&x).to_vec::<f64>(), [6.0, 6.0]);
        assert_eq!(pure_caller::grad(&x).x.to_vec::<f64>(), [12.0, 24.0]);
        assert_eq!(
            grad(|x: &Tensor| pure_caller(x))(&x).to_vec::<f64>(),
            [12.0, 24.0]
        );
        assert_eq!(pure_caller(&x).item::<f64>(), 15.0);
        let each = vmap(|x: &Tensor| pure_caller(x))(&x.reshape([2, 1]));
        assert_eq!(each.to_vec::<f64>(), [3.0, 12.0]);
        let w = Param::new(x.clone()).unwrap();
        pure_caller(&w.tensor()).backward().unwrap();
        assert_eq!(w.grad().unwrap().to_vec::<f64>(), [12.0, 24.0]);
    }
}

/// S4.42: calls of a function that is declared pure share a plan.
#[test]
fn forward_of_a_pure_function_does_not_run_again_in_a_cached_call() {
    let step = |x: f64| pure(&Tensor::from([x, 2.0, 3.0])).to_vec::<f64>();
    assert_eq!(step(1.0), [3.0, 12.0, 27.0]);
    // Debug builds record some calls again, to check the claim.
    gradloom::testing::check_no_call(|| {
        step(1.0);
        let before = PURE_CALLS.load(Ordering::SeqCst);
        assert_eq!(step(2.0), [12.0, 12.0, 27.0]);
        assert_eq!(PURE_CALLS.load(Ordering::SeqCst), before);
    });
}

static SHARED: LazyLock<Arc<Impure>> = LazyLock::new(|| Arc::new(Impure));

#[traced]
fn by_a_static(x: &Tensor) -> Tensor {
    custom_call(&SHARED, &x.sin())
}

#[traced]
fn by_a_full_path(x: &Tensor) -> Tensor {
    let f = Arc::new(Impure);
    gradloom::custom_call(&f, x)
}

#[traced]
fn by_another_path(x: &Tensor) -> Tensor {
    gradloom::custom::custom_call(&Arc::new(Impure), &x.sin())
}

#[traced]
fn by_a_renamed_crate(x: &Tensor) -> Tensor {
    library::custom_call(&SHARED.clone(), x)
}

#[traced]
fn fallible(x: &Tensor) -> Result<Tensor> {
    let y = gradloom::custom::try_custom_call(&Arc::new(Impure), x)?;
    Ok(y.sin())
}

#[traced]
fn pure_without_a_local(x: &Tensor) -> Tensor {
    custom_call(&Arc::new(Pure), &(x * 2.0))
}

#[traced]
fn pure_in_a_closure(x: &Tensor) -> Tensor {
    let f = Arc::new(Pure);
    vmap(|x: &Tensor| custom_call(&f, x))(x)
}

#[test]
fn any_expression_is_a_custom_function() {
    let x = Tensor::from([0.5f64, 2.0]);
    let ones = x.ones_like();
    // A doubled cotangent.
    let cos = x.cos() * 2.0;
    let gradient = |pullback: &dyn Fn(&Tensor) -> Tensor| pullback(&ones).to_vec::<f64>();
    for _ in 0..2 {
        assert_eq!(gradient(&by_a_static::vjp(&x).1), cos.to_vec::<f64>());
        assert_eq!(gradient(&by_a_full_path::vjp(&x).1), [2.0, 2.0]);
        assert_eq!(gradient(&by_another_path::vjp(&x).1), cos.to_vec::<f64>());
        assert_eq!(gradient(&by_a_renamed_crate::vjp(&x).1), [2.0, 2.0]);
        assert!(fallible(&x).is_ok());
        assert_eq!(gradient(&pure_without_a_local::vjp(&x).1), [8.0, 32.0]);
        assert_eq!(gradient(&pure_in_a_closure::vjp(&x).1), [2.0, 8.0]);
    }
    assert_eq!(pure_without_a_local::RECORDED, None);
    assert_eq!(pure_in_a_closure::RECORDED, None);
    finds(|| pure_without_a_local(&x));
    finds(|| pure_in_a_closure(&x));
}

/// Calls a custom function where rustc cannot be asked whether it is pure.
#[traced(pure)]
fn promised(x: &Tensor) -> Tensor {
    custom_call(&Arc::new(Impure), x)
}

#[traced]
fn caller_of_a_full_path(x: &Tensor) -> Tensor {
    by_a_full_path(&x.sin())
}

#[test]
fn the_report_and_the_constant_give_the_same_reason() {
    let x = Tensor::from([1.0f64]);
    let (_, report) = gradloom::report::of(|| {
        let caller = caller_of_a_full_path(&x);
        (caller, by_a_full_path(&x), promised(&x))
    });
    let why = |name: &str| {
        let mut functions = report.functions().iter();
        let found = functions.find(|f| f.name == format!("custom::traced::{name}"));
        found.unwrap().why.as_deref().map(str::to_owned)
    };
    assert_eq!(why("by_a_full_path").as_deref(), by_a_full_path::RECORDED);
    insta::assert_snapshot!(by_a_full_path::RECORDED.unwrap(), @"`gradloom::custom_call()` at line 144 may have side effects: `f` is not known to be a custom function with `PURE`; set `CustomFunction::PURE` if its `forward` and `backward` depend on their arguments alone");
    insta::assert_snapshot!(caller_of_a_full_path::RECORDED.unwrap(), @"`by_a_full_path` at line 204 is recorded: `gradloom::custom_call()` at line 144 may have side effects: `f` is not known to be a custom function with `PURE`; set `CustomFunction::PURE` if its `forward` and `backward` depend on their arguments alone");
    insta::assert_snapshot!(why("caller_of_a_full_path").unwrap(), @"the body calls `custom::traced::by_a_full_path`, which is recorded");
    insta::assert_snapshot!(why("promised").unwrap(), @"the body calls the custom function `Impure`, which does not set `PURE`; set it if its `forward` and `backward` depend on their arguments alone");
}
