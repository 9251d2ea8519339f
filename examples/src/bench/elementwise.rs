//! Elementwise operations on arrays larger than the caches: workload W4.

use super::inputs::fill;
use super::measure::{Timer, Unit, sum};
use gradloom::prelude::*;

#[traced]
fn total(x: &Tensor) -> Tensor {
    let bell = (x * 1.5 + 0.5).tanh() * (-x.square()).exp();
    (bell + x.sigmoid() * x - (x.square() + 1.0).sqrt()).sum(..)
}

/// Times the values: W4f.
pub(super) fn values(timer: &mut Timer) -> Result<()> {
    let x = input();
    let check = total(&x).item::<f32>();
    timer.time("W4f", Unit::Millis, check.into(), || evaluate(&total(&x)))
}

/// Times the gradients: W4g.
pub(super) fn gradients(timer: &mut Timer) -> Result<()> {
    let x = input();
    let check = sum(&total::grad(&x).x, f64::abs);
    timer.time("W4g", Unit::Millis, check, || evaluate(&total::grad(&x).x))
}

fn input() -> Tensor {
    fill(140, 4 << 20, 2.0)
}
