//! Custom functions in traced functions: the body is recorded, and `forward` runs at each call.

use gradloom::custom::Call;
use gradloom::prelude::*;
use gradloom::{CustomFunction, Param, custom_call};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static CALLS: AtomicUsize = AtomicUsize::new(0);
static PURE_CALLS: AtomicUsize = AtomicUsize::new(0);

/// x plus the number of the call, with a doubled cotangent.
struct Impure;

impl CustomFunction for Impure {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        let n = CALLS.fetch_add(1, Ordering::SeqCst);
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
        let n = CALLS.load(Ordering::SeqCst) as f64;
        assert_eq!(
            impure(&x).to_vec::<f64>(),
            [(1.0 + n) * 3.0, (2.0 + n) * 3.0]
        );
    }
    for _ in 0..3 {
        let n = CALLS.load(Ordering::SeqCst) as f64;
        assert_eq!(caller(&x).item::<f64>(), (3.0 + 2.0 * n) * 3.0);
        assert_eq!(CALLS.load(Ordering::SeqCst) as f64, n + 1.0);
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
