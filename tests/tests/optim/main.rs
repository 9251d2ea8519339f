//! Optimisers beside those of PyTorch and optax, and the laws of their composition.

mod compose;
mod few_bits;
mod lora;
mod reference;

use gradloom::{Tensor, Tree};

#[derive(Clone, Debug, Tree)]
struct Params {
    w: Tensor,
    b: Tensor,
    s: Tensor,
}

/// Fractions, as `goldens.py` makes them.
fn fractions<const N: usize>(shape: [usize; N], first: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let number = |i| (((first + i * 7) % 11) as f64 - 5.0) / 4.0;
    Tensor::from_vec((0..n).map(number).collect::<Vec<f64>>(), shape)
}

fn start() -> Params {
    Params {
        w: fractions([3, 4], 0),
        b: fractions([4], 1),
        s: fractions([], 2),
    }
}

fn slopes() -> Params {
    Params {
        w: fractions([3, 4], 3).abs() + 0.25,
        b: fractions([4], 4).abs() + 0.25,
        s: fractions([], 5).abs() + 0.25,
    }
}

/// Returns the gradient of the loss: `slope * x + cos(x)`.
fn gradient(x: &Params) -> Params {
    gradloom::tree::map2(x, &slopes(), |x, slope| slope * x + x.cos())
}
