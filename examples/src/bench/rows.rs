//! Operations along the rows or columns of a matrix: W9.

use super::inputs::{fill, near_one};
use super::measure::{Timer, Unit, sum};
use gradloom::prelude::*;

/// Times the reductions: W9.
pub(super) fn reductions(timer: &mut Timer) -> Result<()> {
    let x = fill(130, [4096, 1024], 3.0);
    let (gain, bias) = (near_one(131, 1024, 0.1), fill(132, 1024, 0.1));
    let mut time = |name: &str, call: &(dyn Fn() -> Tensor + Sync)| {
        let check = sum(&call(), f64::abs);
        timer.time(name, Unit::Millis, check, || evaluate(&call()))
    };
    time("W9_softmax", &|| x.softmax(-1))?;
    time("W9_layernorm", &|| x.layer_norm(&gain, &bias, 1e-5))?;
    time("W9_sum0", &|| x.sum(0))?;
    time("W9_sum1", &|| x.sum(1))
}
