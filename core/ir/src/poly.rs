//! Polynomials in named dims: lengths and costs before the numbers are known.

use crate::symbol::Symbol;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// A polynomial with integer coefficients in named numbers, each of which is at least 0.
///
/// The form is canonical: terms of the highest degree first, then by name, without zeros. So equal
/// polynomials are equal values and print alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Poly {
    terms: Vec<Term>,
}

/// A coefficient times a product of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The factors in ascending order. A square contains its name twice.
    pub names: Vec<Symbol>,
    /// The coefficient, never 0.
    pub coefficient: i128,
}

/// Bounds on the size of a polynomial, because products of sums grow exponentially.
const MOST_TERMS: usize = 256;
const HIGHEST_DEGREE: usize = 64;

impl Poly {
    /// The polynomial 0.
    pub const ZERO: Poly = Poly { terms: Vec::new() };

    /// Returns the constant polynomial `n`.
    pub fn constant(n: i128) -> Poly {
        let terms = (n != 0).then(|| Term {
            names: Vec::new(),
            coefficient: n,
        });
        Poly {
            terms: terms.into_iter().collect(),
        }
    }

    /// Returns the polynomial that is the single name `name`.
    pub fn name(name: Symbol) -> Poly {
        Poly {
            terms: vec![Term {
                names: vec![name],
                coefficient: 1,
            }],
        }
    }

    /// Returns the terms, those of the highest degree first.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the number, if the polynomial contains no name.
    pub fn as_constant(&self) -> Option<i128> {
        match &*self.terms {
            [] => Some(0),
            [only] if only.names.is_empty() => Some(only.coefficient),
            _ => None,
        }
    }

    /// Returns the name, if the polynomial is a single name.
    pub fn as_name(&self) -> Option<Symbol> {
        match &*self.terms {
            [only] if only.coefficient == 1 && only.names.len() == 1 => Some(only.names[0]),
            _ => None,
        }
    }

    /// Returns the sum, or `None` if it exceeds the bounds on size.
    pub fn plus(&self, other: &Poly) -> Option<Poly> {
        // A fast path for the runtime, where every dim is a number.
        if let (Some(a), Some(b)) = (self.as_constant(), other.as_constant()) {
            return a.checked_add(b).map(Poly::constant);
        }
        let terms = self.terms.iter().chain(&other.terms);
        Poly::collect(terms.map(|t| (t.names.clone(), Some(t.coefficient))))
    }

    /// Returns the difference, or `None` if it exceeds the bounds on size.
    pub fn minus(&self, other: &Poly) -> Option<Poly> {
        self.plus(&other.times(&Poly::constant(-1))?)
    }

    /// Returns the product, or `None` if it exceeds the bounds on size.
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        if let (Some(a), Some(b)) = (self.as_constant(), other.as_constant()) {
            return a.checked_mul(b).map(Poly::constant);
        }
        let products = self.terms.iter().flat_map(|a| {
            other.terms.iter().map(move |b| {
                let mut names = [&*a.names, &*b.names].concat();
                names.sort_unstable();
                (names, a.coefficient.checked_mul(b.coefficient))
            })
        });
        Poly::collect(products)
    }

    /// Returns the product of all factors, or `None` if it exceeds the bounds on size.
    pub fn product<'a>(factors: impl IntoIterator<Item = &'a Poly>) -> Option<Poly> {
        let mut factors = factors.into_iter();
        factors.try_fold(Poly::constant(1), |product, f| product.times(f))
    }

    /// Returns the quotient by a positive number, if every coefficient is a multiple of it.
    pub fn exact_div(&self, n: i128) -> Option<Poly> {
        if n < 1 {
            return None;
        }
        let quotient = |t: &Term| {
            (t.coefficient % n == 0).then(|| Term {
                names: t.names.clone(),
                coefficient: t.coefficient / n,
            })
        };
        let terms = self.terms.iter().map(quotient).collect::<Option<_>>()?;
        Some(Poly { terms })
    }

    /// Returns the quotient by a polynomial of one term, if that divides every term.
    pub fn quotient(&self, by: &Poly) -> Option<Poly> {
        let [by] = &*by.terms else {
            return None;
        };
        let quotient = |t: &Term| {
            let mut names = t.names.clone();
            for name in &by.names {
                names.remove(names.iter().position(|n| n == name)?);
            }
            let coefficient = t.coefficient.checked_div(by.coefficient)?;
            let divides = t.coefficient.checked_rem(by.coefficient)? == 0;
            divides.then_some((names, Some(coefficient)))
        };
        let terms = self.terms.iter().map(quotient);
        Poly::collect(terms.collect::<Option<Vec<_>>>()?)
    }

    /// Returns whether the value is nonzero for all values of the names.
    pub fn is_never_zero(&self) -> bool {
        let (constant, others) = self.split();
        let one_sign = |sign: i128| {
            constant.signum() == sign && others.iter().all(|t| t.coefficient.signum() == sign)
        };
        one_sign(1) || one_sign(-1) || constant.wrapping_rem(self.divisor().max(1)) != 0
    }

    /// Returns whether the value is negative for all values of the names.
    pub fn is_negative(&self) -> bool {
        let (constant, others) = self.split();
        constant < 0 && others.iter().all(|t| t.coefficient < 0)
    }

    /// Returns whether the value is a multiple of `n` for no values of the names. False if `n < 1`.
    pub fn is_never_multiple_of(&self, n: i128) -> bool {
        n > 0 && self.split().0.wrapping_rem(gcd(self.divisor(), n)) != 0
    }

    /// Returns the value at given values of the names.
    ///
    /// Returns `None` if a value is missing or the result overflows.
    pub fn eval(&self, value: impl Fn(Symbol) -> Option<i128>) -> Option<i128> {
        self.terms.iter().try_fold(0i128, |sum, term| {
            let mut names = term.names.iter();
            let product = names.try_fold(term.coefficient, |n, s| n.checked_mul(value(*s)?))?;
            sum.checked_add(product)
        })
    }

    /// Splits off the constant term. The second part holds the terms with names.
    fn split(&self) -> (i128, &[Term]) {
        match self.terms.split_last() {
            Some((last, others)) if last.names.is_empty() => (last.coefficient, others),
            _ => (0, &self.terms),
        }
    }

    /// Returns the greatest common divisor of the coefficients of the terms with names, or 0.
    fn divisor(&self) -> i128 {
        let others = self.split().1.iter();
        others.fold(0, |d, t| gcd(d, t.coefficient))
    }

    /// Brings a sum of terms to canonical form.
    fn collect(terms: impl IntoIterator<Item = (Vec<Symbol>, Option<i128>)>) -> Option<Poly> {
        let mut sums: BTreeMap<(Reverse<usize>, Vec<Symbol>), i128> = BTreeMap::new();
        for (names, coefficient) in terms {
            if names.len() > HIGHEST_DEGREE {
                return None;
            }
            let sum = sums.entry((Reverse(names.len()), names)).or_insert(0);
            *sum = sum.checked_add(coefficient?)?;
            if sums.len() > MOST_TERMS {
                return None;
            }
        }
        let terms = sums
            .into_iter()
            .filter(|(_, coefficient)| *coefficient != 0);
        let terms = terms.map(|((_, names), coefficient)| Term { names, coefficient });
        Some(Poly {
            terms: terms.collect(),
        })
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.saturating_abs()
}

/// Prints `2*B*T + B - 1`.
impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.terms.iter();
        show(f, terms.map(|term| (term.coefficient, &term.names[..])))
    }
}

/// Prints a sum of products of a coefficient and names.
pub fn show<'a, N: fmt::Display + 'a>(
    f: &mut fmt::Formatter<'_>,
    terms: impl Iterator<Item = (i128, &'a [N])>,
) -> fmt::Result {
    let mut first = true;
    for (coefficient, names) in terms {
        f.write_str(match (first, coefficient < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        })?;
        first = false;
        let n = coefficient.unsigned_abs();
        if n != 1 || names.is_empty() {
            write!(f, "{n}")?;
        }
        for (k, name) in names.iter().enumerate() {
            let times = if k > 0 || n != 1 { "*" } else { "" };
            write!(f, "{times}{name}")?;
        }
    }
    if first { f.write_str("0") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::Poly;
    use crate::symbol::Symbol;

    fn name(n: &str) -> Poly {
        Poly::name(Symbol::new(n))
    }

    fn number(n: i128) -> Poly {
        Poly::constant(n)
    }

    #[test]
    fn equal_polynomials_are_equal_values() {
        let (b, t) = (name("B"), name("T"));
        // (B + 1) (T - 1) = T B - B + T - 1
        let left = b.plus(&number(1)).unwrap();
        let product = left.times(&t.minus(&number(1)).unwrap()).unwrap();
        let sum = t.times(&b).unwrap().minus(&b).unwrap();
        let sum = sum.plus(&t).unwrap().minus(&number(1)).unwrap();
        assert_eq!(product, sum);
        assert_eq!(product.to_string(), "B*T - B + T - 1");
        assert_eq!(b.minus(&b), Some(Poly::ZERO));
        assert_eq!(Poly::ZERO.to_string(), "0");
        assert_eq!(
            number(4).minus(&b.times(&b).unwrap()).unwrap().to_string(),
            "-B*B + 4"
        );
        let values = |s: Symbol| Some(if s == Symbol::new("B") { 3 } else { 5 });
        assert_eq!(product.eval(values), Some(16));
    }

    #[test]
    fn sign_and_divisibility_hold_for_all_values_of_the_names() {
        let (b, t) = (name("B"), name("T"));
        let grown = b.plus(&t).unwrap().plus(&number(1)).unwrap();
        assert!(grown.is_never_zero() && !grown.is_negative());
        assert!(!b.minus(&t).unwrap().is_never_zero());
        assert!(!b.minus(&number(3)).unwrap().is_never_zero());
        // An even number is never 3, but can be 4.
        let even = b.times(&number(2)).unwrap();
        assert!(even.minus(&number(3)).unwrap().is_never_zero());
        assert!(!even.minus(&number(4)).unwrap().is_never_zero());
        assert!(number(-1).minus(&b).unwrap().is_negative());
        assert!(!Poly::ZERO.is_never_zero());
        let odd = even.plus(&number(1)).unwrap();
        assert!(odd.is_never_multiple_of(4) && !odd.is_never_multiple_of(3));
        assert!(!even.is_never_multiple_of(4));
        assert_eq!(even.exact_div(2), Some(b.clone()));
        let product = even.times(&t).unwrap().minus(&even).unwrap();
        let quotient = product.quotient(&even).unwrap();
        assert_eq!(quotient.to_string(), "T - 1");
        assert_eq!(product.quotient(&t), None);
        assert_eq!(odd.exact_div(2), None);
    }

    #[test]
    fn polynomials_beyond_the_bounds_are_none() {
        assert_eq!(number(i128::MAX).plus(&number(1)), None);
        assert_eq!(
            number(i128::MAX)
                .times(&name("B"))
                .unwrap()
                .eval(|_| Some(2)),
            None
        );
        let sums: Vec<Poly> = (0..20)
            .map(|i| name(&format!("D{i}")).plus(&number(1)).unwrap())
            .collect();
        assert_eq!(Poly::product(&sums), None);
        let square = |p: Poly| p.times(&p.clone());
        let high = (0..8).try_fold(name("B"), |p, _| square(p));
        assert_eq!(high, None);
    }
}
