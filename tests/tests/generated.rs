//! Random traced functions: their values agree with op-by-op interpretation, and their companions
//! with transforms of the plain function and with finite differences.
//!
//! `GRADLOOM_SEED=7 GRADLOOM_FUNCTIONS=1000 cargo test -p gradloom-tests --test generated`
//! generates and tests other functions.

use gradloom::{Tensor, Tree, evaluate};
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A generated function on lists of leaves, with a choice of static arguments.
pub struct Case {
    name: &'static str,
    source: &'static str,
    program: &'static str,
    /// Shapes of the differentiated leaves.
    shapes: &'static [&'static [usize]],
    /// Number of choices of static arguments.
    cases: usize,
    call: fn(&[Tensor], usize) -> Vec<Tensor>,
    /// The function without `#[traced]`, evaluated op by op.
    plain: fn(&[Tensor], usize) -> Vec<Tensor>,
    vjp: fn(&[Tensor], usize, &[Tensor]) -> Lists,
    jvp: fn(&[Tensor], usize, &[Tensor]) -> Lists,
    gradient: Option<Gradient>,
}

type Lists = (Vec<Tensor>, Vec<Tensor>);

type Gradient = fn(&[Tensor], usize) -> (Tensor, Vec<Tensor>);

macro_rules! parts {
    ($($part:ident $file:literal)*) => {$(
        #[allow(unused, unused_comparisons, unreachable_pub, deprecated, clippy::all)]
        mod $part {
            use crate::list;
            include!(concat!(env!("OUT_DIR"), "/", $file));

            #[test]
            fn generated_functions_agree_with_interpretation_transforms_and_differences() {
                crate::check(CASES);
            }
        }
    )*};
}

parts! { part_0 "functions_0.rs" part_1 "functions_1.rs" part_2 "functions_2.rs" part_3 "functions_3.rs" }

/// Returns the leaves of a tree.
fn list(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.clone()));
    out
}

/// Returns leaves for an argument that is not differentiated.
pub fn unchanged(shapes: &[&[usize]]) -> Vec<Tensor> {
    let leaves = shapes.iter().zip(5_000..);
    leaves.map(|(shape, seed)| noise(shape, seed)).collect()
}

/// Evaluates the result of an op and returns it.
pub fn now<T: Tree>(x: T) -> T {
    look(&x);
    x
}

/// Evaluates a variable.
pub fn look(x: &impl Tree) {
    if let Err(e) = evaluate(x) {
        panic!("{e}");
    }
}

thread_local! {
    /// Conditions on values that plain functions have evaluated, in order.
    static DECISIONS: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// Logs a condition on values.
pub fn decide(condition: bool) -> bool {
    DECISIONS.with_borrow_mut(|d| d.push(condition));
    condition
}

/// Returns the result of a plain function, and the conditions on values that it evaluated.
fn decided<T>(f: impl FnOnce() -> T) -> (T, Vec<bool>) {
    DECISIONS.take();
    let y = f();
    (y, DECISIONS.take())
}

fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for k in 0..case.cases {
            let found = catch_unwind(AssertUnwindSafe(|| case.check(k)));
            let message = match found {
                Ok(Ok(())) => continue,
                Ok(Err(message)) => message,
                Err(_) => "it panics".to_owned(),
            };
            wrong.push(format!(
                "{}, case {k}: {message}\n{}\n{}",
                case.name, case.source, case.program
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong; the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(3)].join("\n\n")
    );
}

impl Case {
    fn check(&self, k: usize) -> Result<(), String> {
        let companions = Companions {
            call: &|x: &Vec<Tensor>| (self.call)(x, k),
            vjp: &|x, ct: &Vec<Tensor>| (self.vjp)(x, k, ct),
            jvp: &|x, dx| (self.jvp)(x, k, dx),
        };
        let plain = |x: &Vec<Tensor>| (self.plain)(x, k);
        let arguments = |seed: usize| -> Vec<Tensor> {
            let seeds = seed as u64 * 100..;
            let leaves = self.shapes.iter().zip(seeds);
            leaves.map(|(shape, seed)| noise(shape, seed)).collect()
        };
        let x = arguments(k);
        companions.agree_with_transforms(&plain, &x)?;
        if let Some(gradient) = self.gradient {
            let ((y, g), one) = (gradient(&x, k), vec![Tensor::scalar(1.0f64)]);
            let (z, ct) = (self.vjp)(&x, k, &one);
            near("value_and_grad", &entries(&y), &entries(&z), 0.0)?;
            near("value_and_grad", &entries(&g), &entries(&ct), 0.0)?;
        }
        // Finite differences are invalid if a condition changes within the step. Try another point
        // then.
        let mut outcome = Ok(());
        for seed in 0..5 {
            let x = arguments(k + seed * 10);
            let (_, here) = decided(|| plain(&x));
            let crossed = Cell::new(false);
            let watched = |x: &Vec<Tensor>| {
                let (y, there) = decided(|| plain(x));
                crossed.set(crossed.get() || here != there);
                y
            };
            outcome = companions.agree_with_differences(&watched, &x);
            if outcome.is_ok() || !crossed.get() {
                break;
            }
        }
        outcome
    }
}
