//! Operations on few numbers, each on the result of the one before: W7, which is what an operation costs by itself.

use super::inputs::{fill, near_one};
use super::measure::{Timer, Unit, sum};
use gradloom::prelude::*;

const TURNS: usize = 500;

#[traced]
fn traced_chain(x: &Tensor, shift: &Tensor, scale: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..TURNS {
        y = (y + shift) * scale;
    }
    y
}

/// The same without `#[traced]`: each operation is recorded when it is called.
fn lazy_chain(x: &Tensor, shift: &Tensor, scale: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..TURNS {
        y = (y + shift) * scale;
    }
    y
}

/// W7.
pub(super) fn chains(timer: &mut Timer) -> Result<()> {
    let (x, shift, scale) = (
        fill(150, 16, 1.0),
        fill(151, 16, 0.01),
        near_one(152, 16, 0.001),
    );
    type Chain = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
    let chains: [(&str, Chain); 2] = [("W7", traced_chain), ("W7_eager", lazy_chain)];
    for (name, chain) in chains {
        let check = sum(&chain(&x, &shift, &scale), |y| y);
        timer.time(name, Unit::NanosOf(2 * TURNS), check, || {
            evaluate(&chain(&x, &shift, &scale))
        })?;
    }
    Ok(())
}
