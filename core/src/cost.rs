//! What a traced function costs, as formulas that the binary knows before it runs.

use std::fmt;

/// What a traced function costs: `f::COST`, and for a method `forward` the associated `FORWARD_COST`.
///
/// Each number is a formula in the dims that `#[shape(..)]` names. It is never a guess: where a shape is not known, or
/// for bytes a dtype, or where the function calls another or is recorded when it runs, there is `None`.
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
    /// What the value costs.
    pub value: Work,
    /// What pulling one cotangent of each result back costs, after the value is there.
    pub pullback: Work,
    /// The bytes that reverse mode keeps from the value to the pullback, arguments and results among them.
    pub saved: Option<Formula>,
}

/// Arithmetic and memory traffic.
///
/// The arithmetic of an op is that of its formula, whatever its kernel does: one operation for each addition,
/// multiplication or comparison, `2 m k n` for a matrix product, one for each element that is reduced. Moving elements
/// is none. Equal computations count once, and those that nothing needs do not count.
///
/// The traffic is that of one op after the other: each reads its operands and writes its results. A view of an operand
/// is free. Plans that fuse ops move less; a reshape of a transposed value copies, and moves more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Additions, multiplications, comparisons and the like.
    pub flops: Option<Formula>,
    /// Evaluations of functions such as `exp`, `tanh` or `sqrt`, which take many operations each.
    pub transcendentals: Option<Formula>,
    /// Bytes read and written.
    pub bytes: Option<Formula>,
}

/// A polynomial in named dims, such as `2*B*I*O + B*O`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Formula {
    terms: &'static [Term],
}

/// A coefficient times a product of named dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The coefficient.
    pub coefficient: i128,
    /// The names of the factors; a square has its name twice.
    pub dims: &'static [&'static str],
}

impl Cost {
    /// Nothing is known.
    pub const UNKNOWN: Cost = Cost {
        value: Work::UNKNOWN,
        pullback: Work::UNKNOWN,
        saved: None,
    };
}

impl Work {
    /// Nothing is known.
    pub const UNKNOWN: Work = Work {
        flops: None,
        transcendentals: None,
        bytes: None,
    };
}

impl Formula {
    /// The sum of the terms.
    pub const fn new(terms: &'static [Term]) -> Formula {
        Formula { terms }
    }

    /// The terms.
    pub const fn terms(&self) -> &'static [Term] {
        self.terms
    }

    /// The number for these values of the dims, or `None` where one is missing or the number does not fit.
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

/// Prints a line for the value, one for the pullback, and one for what is saved.
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
    fn a_formula_has_a_value_where_all_dims_have_one() {
        const F: Formula = Formula::new(&[term(2, &["B", "B"]), term(-1, &["T"]), term(3, &[])]);
        assert_eq!(F.to_string(), "2*B*B - T + 3");
        assert_eq!(F.eval(&[("T", 4), ("B", 3)]), Some(17));
        assert_eq!(F.eval(&[("B", 3)]), None);
        // Below 0, and above the largest number.
        assert_eq!(F.eval(&[("B", 0), ("T", 4)]), None);
        assert_eq!(F.eval(&[("B", u64::MAX), ("T", 0)]), None);
        assert_eq!(Formula::new(&[]).eval(&[]), Some(0));
        assert_eq!(Formula::new(&[]).to_string(), "0");
        const NEGATIVE: Formula = Formula::new(&[term(-1, &["B"])]);
        assert_eq!(NEGATIVE.to_string(), "-B");
    }
}
