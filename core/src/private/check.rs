//! Support for the tests that `#[traced(check)]` emits.

use crate::raise::expect;
use crate::testing::{
    Failure, Sizes, Source, adjoint_identity, companions_equal_run_time_derivatives,
    finite_differences, gradients_equal, lazy_equals_op_by_op,
};
use crate::{DType, Tensor, Tree, evaluate};
use std::fmt::Debug;

pub use crate::testing::Sample;

/// A differentiated argument and its name in messages.
pub struct Arg<T> {
    name: &'static str,
    value: T,
}

/// Creates the argument `name`.
pub fn arg<T>(name: &'static str, value: T) -> Arg<T> {
    Arg { name, value }
}

impl<T> Arg<T> {
    /// Returns the argument itself.
    pub fn get(&self) -> &T {
        &self.value
    }
}

impl<T: Tree> Tree for Arg<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.value.visit(f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.value.visit_mut(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        arg(self.name, self.value.map(f))
    }
    fn paths(&self, _: &str, out: &mut Vec<String>) {
        self.value.paths(self.name, out);
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        self.value.__frozen(out);
    }
}

/// Law that a test checks.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    LazyEqualsOpByOp,
    CompanionsEqualRunTimeDerivatives,
    AdjointIdentity,
    FiniteDifferences,
}

impl Law {
    fn named(name: &str) -> Law {
        match name {
            "lazy_equals_op_by_op" => Law::LazyEqualsOpByOp,
            "companions_equal_run_time_derivatives" => Law::CompanionsEqualRunTimeDerivatives,
            "adjoint_identity" => Law::AdjointIdentity,
            "finite_differences" => Law::FiniteDifferences,
            _ => unreachable!("the macro does not emit a test named `{name}`"),
        }
    }
}

/// Runs a test on several samples of arguments. `fixed` are the dims that the user has fixed.
///
/// # Panics
///
/// If the law does not hold. The message names the function and the dims.
pub fn on_samples(
    function: &str,
    law: &str,
    fixed: &[(&str, usize)],
    run: impl Fn(Law, &mut Source) -> Result<(), Failure>,
) {
    let law = Law::named(law);
    for sizes in Sizes::ALL {
        let mut sample = SampleGuard {
            function,
            source: Source::with_sizes(0, sizes, fixed),
            told: false,
        };
        if let Err(failure) = run(law, &mut sample.source) {
            sample.told = true;
            panic!("`{function}`{}: {failure}", with(&sample.source));
        }
    }
}

/// Formats the dims for messages, such as ` with B = 2, I = 3`. Empty if there are no dims.
fn with(source: &Source) -> String {
    match source.dims() {
        dims if dims.is_empty() => dims,
        dims => format!(" with {dims}"),
    }
}

/// Prints the dims of the sample if the function itself panics.
struct SampleGuard<'a> {
    function: &'a str,
    source: Source,
    told: bool,
}

impl Drop for SampleGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.told {
            eprintln!(
                "while `{}` was checked{}",
                self.function,
                with(&self.source)
            );
        }
    }
}

/// Checks a law of the function `f` and its companions.
///
/// `grad` is called if the result is a single float. It returns `None` if the function has no such
/// companion.
pub fn check_law<X: Tree, Y: Tree>(
    law: Law,
    x: &X,
    f: impl Fn(&X) -> Y,
    vjp: impl Fn(&X, &Y) -> (Y, X),
    jvp: impl Fn(&X, &X) -> (Y, Y),
    grad: impl Fn(&X) -> Option<(Y, X)>,
) -> Result<(), Failure> {
    match law {
        Law::LazyEqualsOpByOp => {
            lazy_equals_op_by_op(|| f(x))?;
            let mut source = Source::new(4);
            let (ct, dx) = (source.like(&f(x)), source.like(x));
            let in_message = |what: &str| {
                let what = what.to_owned();
                move |failure: Failure| Failure::new(format!("{what}: {failure}"))
            };
            lazy_equals_op_by_op(|| vjp(x, &ct)).map_err(in_message("`vjp`"))?;
            lazy_equals_op_by_op(|| jvp(x, &dx)).map_err(in_message("`jvp`"))
        }
        Law::CompanionsEqualRunTimeDerivatives => {
            companions_equal_run_time_derivatives(&f, &vjp, jvp, x)?;
            let ct = f(x).map(&mut Tensor::ones_like);
            let mut is_scalar = true;
            ct.visit(&mut |ct| is_scalar &= ct.rank() == 0 && ct.dtype().is_float());
            match is_scalar.then(|| grad(x)).flatten() {
                Some(found) => gradients_equal(&found, &vjp(x, &ct)),
                None => Ok(()),
            }
        }
        Law::AdjointIdentity => adjoint_identity(vjp, jvp, x),
        Law::FiniteDifferences => finite_differences(f, jvp, x),
    }
}

/// Evaluates a polynomial in named dims: a list of coefficients with their factors.
#[track_caller]
pub fn polynomial(source: &mut Source, text: &str, terms: &[(i128, &[&str])]) -> usize {
    let mut total = 0;
    for (coefficient, factors) in terms {
        let factors = factors.iter().map(|name| source.dim(name) as i128);
        total += coefficient * factors.product::<i128>();
    }
    usize::try_from(total).unwrap_or_else(|_| {
        let dims = source.dims();
        panic!("the dim `{text}` is {total} for {dims}; fix a dim, as in `check(dims(B = 4))`")
    })
}

/// Returns the result of a function on sampled arguments.
#[track_caller]
pub fn returned<T, E: Debug>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the function returned `Err`: {error:?}"))
}

/// Converts sampled numbers to a dtype and evaluates them.
#[track_caller]
pub fn in_dtype(x: Tensor, dtype: DType) -> Tensor {
    let x = x.cast(dtype);
    expect(evaluate(&x));
    x
}

/// Samples a tree.
pub fn sample<T: Sample>(source: &mut Source) -> T {
    T::sample(source)
}
