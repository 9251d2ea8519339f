//! Products of square matrices: W5.

use super::inputs::fill;
use super::measure::{Timer, Unit, sum};
use gradloom::prelude::*;

/// Times the products: W5.
pub(super) fn products(timer: &mut Timer) -> Result<()> {
    for n in [64, 128, 256, 512, 1024, 2048] {
        let (x, y) = (fill(160, [n, n], 1.0), fill(161, [n, n], 1.0));
        let size = (n * n) as f64;
        let check = sum(&x.matmul(&y), f64::abs) / size;
        let flops = 2.0 * size * n as f64;
        timer.time(&format!("W5_{n}"), Unit::Gflops(flops), check, || {
            evaluate(&x.matmul(&y))
        })?;
    }
    Ok(())
}
