//! Computations in which each result depends on the previous one: W7, a chain on so few elements
//! that it measures the fixed cost of an operation, and W12, a recurrent network.

use super::inputs::{fill, near_one, weight};
use super::measure::{Timer, Unit, norm, sum};
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

/// The same chain without `#[traced]`: each operation is recorded when it is called.
fn lazy_chain(x: &Tensor, shift: &Tensor, scale: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..TURNS {
        y = (y + shift) * scale;
    }
    y
}

/// Times the chains: W7.
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

/// A recurrent layer.
#[derive(Clone, Tree)]
struct Cell {
    input: Tensor,
    state: Tensor,
    bias: Tensor,
}

/// Returns the last state for `xs` of shape `[time, batch, feature]`.
#[traced]
fn last_state(cell: &Cell, xs: &Tensor) -> Tensor {
    let mut h = Tensor::zeros([xs.dim(1), cell.state.dim(0)], xs.dtype());
    for t in 0..xs.dim(0) as i64 {
        let x = xs.slice([t], [t + 1], [1]).squeeze(0);
        h = (x.matmul(&cell.input) + h.matmul(&cell.state) + &cell.bias).tanh();
    }
    h
}

#[traced]
fn energy(cell: &Cell, #[nodiff] xs: &Tensor) -> Tensor {
    last_state(cell, xs).square().mean(..)
}

/// Times gradients of the recurrent network: W12.
pub(super) fn recurrent_gradients(timer: &mut Timer) -> Result<()> {
    let xs = fill(120, [64, 32, 64], 1.0);
    let cell = Cell {
        input: weight(121, 64, 128),
        state: weight(122, 128, 128),
        bias: fill(123, 128, 0.1),
    };
    let call = || {
        let (value, grads) = energy::value_and_grad(&cell, &xs);
        evaluate((&value, &grads.cell))?;
        Ok(grads.cell)
    };
    let check = norm(&call()?);
    timer.time("W12", Unit::Millis, check, || call().map(drop))
}
