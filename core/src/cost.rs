//! Cost of a traced function, as formulas that are constants of the binary.

use std::fmt;

/// Cost of a traced function: `f::COST`, or `FORWARD_COST` on the type for a method `forward`.
///
/// Each number is a formula in the dims that `#[shape(..)]` names. A formula is exact or `None`,
/// never an estimate. It is `None` if a shape is unknown, or for bytes a dtype, and if the function
/// calls another one or is recorded at run time.
///
/// ```
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor) -> Tensor {
///     x.matmul(w).tanh()
/// }
///
/// let flops = dense::COST.value.flops.expect("all shapes are known");
/// assert_eq!(flops.to_string(), "2*B*I*O");
/// assert_eq!(flops.eval(&[("B", 64), ("I", 784), ("O", 10)]), Some(1_003_520));
/// assert!(dense::COST.value.bytes.is_none(), "the dtype is not known");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cost of computing the value.
    pub value: Work,
    /// Cost of one pullback, with a cotangent for each result, after the value is computed.
    pub pullback: Work,
    /// Size of the residuals in bytes, including arguments and results.
    pub saved: Option<Formula>,
}

/// Arithmetic and memory traffic.
///
/// Arithmetic follows the formula of an op, not its kernel: one operation per addition,
/// multiplication or comparison, `2 m k n` for a matrix product, and one per element that is
/// reduced. Moving elements is free. Equal computations count once; unused ones do not count.
///
/// Traffic assumes that ops run one after the other, and that each reads its operands and writes
/// its results. A view of an operand is free. Plans that fuse ops move less; a reshape of a
/// transposed value copies, and so moves more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Number of additions, multiplications, comparisons and similar operations.
    pub flops: Option<Formula>,
    /// Number of evaluations of functions such as `exp`, `tanh` or `sqrt`.
    ///
    /// Each takes many operations.
    pub transcendentals: Option<Formula>,
    /// Number of bytes read and written.
    pub bytes: Option<Formula>,
}

/// Polynomial in named dims, such as `2*B*I*O + B*O`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Formula {
    terms: &'static [Term],
}

/// Coefficient times a product of named dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Coefficient of the product.
    pub coefficient: i128,
    /// Names of the factors. A square contains its name twice.
    pub dims: &'static [&'static str],
}

impl Cost {
    /// Cost of which nothing is known.
    pub const UNKNOWN: Cost = Cost {
        value: Work::UNKNOWN,
        pullback: Work::UNKNOWN,
        saved: None,
    };
}

impl Work {
    /// Work of which nothing is known.
    pub const UNKNOWN: Work = Work {
        flops: None,
        transcendentals: None,
        bytes: None,
    };
}

impl Formula {
    /// Returns the sum of `terms`.
    pub const fn new(terms: &'static [Term]) -> Formula {
        Formula { terms }
    }

    /// Returns the terms of the sum.
    pub const fn terms(&self) -> &'static [Term] {
        self.terms
    }

    /// Evaluates the formula for these values of the dims.
    ///
    /// Returns `None` if a dim is missing, or if the result is negative or does not fit into a
    /// `u64`.
    pub fn eval(&self, dims: &[(&str, u64)]) -> Option<u64> {
        let value = |name: &str| {
            let found = dims.iter().find(|(n, _)| *n == name)?;
            Some(i128::from(found.1))
        };
        let total = self.terms.iter().try_fold(0i128, |total, term| {
            let mut dims = term.dims.iter();
            let product = dims.try_fold(term.coefficient, |n, d| n.checked_mul(value(d)?))?;
            total.checked_add(product)
        });
        u64::try_from(total?).ok()
    }
}

/// Prints `2*B*T + B - 1`.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.terms.iter();
        gradloom_ir::poly::show(f, terms.map(|term| (term.coefficient, term.dims)))
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints `2*B flops, B transcendentals, ? bytes`.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flops, functions, bytes) = (
            show(&self.flops),
            show(&self.transcendentals),
            show(&self.bytes),
        );
        write!(
            f,
            "{flops} flops, {functions} transcendentals, {bytes} bytes"
        )
    }
}

/// Prints one line each for the value, the pullback and the residuals.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            value, pullback, ..
        } = self;
        let saved = show(&self.saved);
        write!(
            f,
            "value: {value}\npullback: {pullback}\nsaved: {saved} bytes"
        )
    }
}

fn show(formula: &Option<Formula>) -> String {
    formula.map_or_else(|| "?".to_owned(), |formula| formula.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Formula, Term};

    const fn term(coefficient: i128, dims: &'static [&'static str]) -> Term {
        Term { coefficient, dims }
    }

    #[test]
    fn a_formula_evaluates_only_if_all_dims_have_values() {
        const F: Formula = Formula::new(&[term(2, &["B", "B"]), term(-1, &["T"]), term(3, &[])]);
        assert_eq!(F.to_string(), "2*B*B - T + 3");
        assert_eq!(F.eval(&[("T", 4), ("B", 3)]), Some(17));
        assert_eq!(F.eval(&[("B", 3)]), None);
        // Negative, and too large.
        assert_eq!(F.eval(&[("B", 0), ("T", 4)]), None);
        assert_eq!(F.eval(&[("B", u64::MAX), ("T", 0)]), None);
        assert_eq!(Formula::new(&[]).eval(&[]), Some(0));
        assert_eq!(Formula::new(&[]).to_string(), "0");
        const NEGATIVE: Formula = Formula::new(&[term(-1, &["B"])]);
        assert_eq!(NEGATIVE.to_string(), "-B");
    }
}
