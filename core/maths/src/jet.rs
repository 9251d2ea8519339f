//! Truncated power series in one variable, for derivatives of functions that have no closed form.
//!
//! A function that is written with the operations of a [`Jet`] gives its value and its derivatives
//! at once. The rules are those of Knuth, The Art of Computer Programming, volume 2, 4.7.

use crate::{Plain, exp};

/// The first `K` coefficients of a power series: the value, the derivative, half of the second one, ..
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jet<const K: usize>(pub(crate) [f64; K]);

impl<const K: usize> Jet<K> {
    /// Returns a constant.
    pub(crate) fn constant(x: f64) -> Jet<K> {
        let mut c = [0.0; K];
        c[0] = x;
        Jet(c)
    }

    /// Returns `x + slope t`.
    pub(crate) fn line(x: f64, slope: f64) -> Jet<K> {
        let mut line = Jet::constant(x);
        if K > 1 {
            line.0[1] = slope;
        }
        line
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> f64 {
        self.0[0]
    }

    /// Returns the series with another value.
    pub(crate) fn with_value(mut self, value: f64) -> Jet<K> {
        self.0[0] = value;
        self
    }

    /// Returns the derivative of the given order.
    pub(crate) fn derivative(&self, order: usize) -> f64 {
        self.0[order] * factorial(order)
    }

    pub(crate) fn add(&self, other: &Jet<K>) -> Jet<K> {
        Jet(std::array::from_fn(|k| self.0[k] + other.0[k]))
    }

    pub(crate) fn sub(&self, other: &Jet<K>) -> Jet<K> {
        Jet(std::array::from_fn(|k| self.0[k] - other.0[k]))
    }

    pub(crate) fn scale(&self, factor: f64) -> Jet<K> {
        Jet(self.0.map(|c| c * factor))
    }

    pub(crate) fn over(&self, divisor: f64) -> Jet<K> {
        Jet(self.0.map(|c| c / divisor))
    }

    pub(crate) fn shift(&self, by: f64) -> Jet<K> {
        self.with_value(self.value() + by)
    }

    pub(crate) fn mul(&self, other: &Jet<K>) -> Jet<K> {
        Jet(std::array::from_fn(|k| {
            (0..=k).map(|j| self.0[j] * other.0[k - j]).sum()
        }))
    }

    pub(crate) fn div(&self, other: &Jet<K>) -> Jet<K> {
        let mut c = [0.0; K];
        for k in 0..K {
            let known: f64 = (0..k).map(|j| c[j] * other.0[k - j]).sum();
            c[k] = (self.0[k] - known) / other.0[0];
        }
        Jet(c)
    }

    /// Returns `f` of the series, where the value is `value` and the derivative `slope` times that of
    /// the series. `slope` need not know its last coefficient.
    pub(crate) fn integral(&self, value: f64, slope: &Jet<K>) -> Jet<K> {
        Jet(std::array::from_fn(|k| {
            let terms = (1..=k).map(|j| j as f64 * self.0[j] * slope.0[k - j]);
            if k == 0 {
                value
            } else {
                terms.sum::<f64>() / k as f64
            }
        }))
    }

    /// Returns the exponential, whose value the caller has computed.
    pub(crate) fn exp_with(&self, value: f64) -> Jet<K> {
        let mut c = [value; K];
        for k in 1..K {
            let sum: f64 = (1..=k).map(|j| j as f64 * self.0[j] * c[k - j]).sum();
            c[k] = sum / k as f64;
        }
        Jet(c)
    }

    pub(crate) fn exp(&self) -> Jet<K> {
        self.exp_with(exp::<Plain, f64>(self.value()))
    }

    pub(crate) fn sqrt(&self) -> Jet<K> {
        let mut c = [self.value().sqrt(); K];
        for k in 1..K {
            let known: f64 = (1..k).map(|j| c[j] * c[k - j]).sum();
            c[k] = (self.0[k] - known) / (2.0 * c[0]);
        }
        Jet(c)
    }

    /// Returns the polynomial with these coefficients, the lowest first.
    pub(crate) fn polynomial(&self, coefficients: &[f64]) -> Jet<K> {
        let mut sum = Jet::constant(0.0);
        for c in coefficients.iter().rev() {
            sum = self.mul(&sum).shift(*c);
        }
        sum
    }

    /// Returns a function of the series, given its derivatives at the value.
    pub(crate) fn compose(&self, derivatives: &[f64; K]) -> Jet<K> {
        let around = self.with_value(0.0);
        let mut sum = Jet::constant(0.0);
        for k in (0..K).rev() {
            sum = around.mul(&sum).shift(derivatives[k] / factorial(k));
        }
        sum
    }

    /// Returns whether each coefficient is at most `share` of that of `whole`.
    pub(crate) fn is_below(&self, share: f64, whole: &Jet<K>) -> bool {
        (0..K).all(|k| self.0[k].abs() <= share * whole.0[k].abs())
    }
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}
