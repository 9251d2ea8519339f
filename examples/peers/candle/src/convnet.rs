//! The network with two convolutions of W11.

use crate::Call;
use crate::inputs::fill;
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::loss::cross_entropy;

const RATE: f64 = 0.01;

/// Training steps, from the same weights in each call.
pub fn step() -> Result<Call> {
    let (weights, x) = (weights()?, images()?);
    let labels: Vec<u32> = (0..32).map(|i| i * 7 % 10).collect();
    let labels = Tensor::new(labels, &Device::Cpu)?;
    Ok(Box::new(move || {
        let loss = cross_entropy(&scores(&x, &weights)?, &labels)?;
        let grads = loss.backward()?;
        let mut out = vec![loss];
        for weight in &weights {
            let grad = grads.get(weight).expect("the loss depends on each weight");
            out.push((weight.as_tensor() - grad * RATE)?);
        }
        Ok(out)
    }))
}

/// Scores of the classes.
pub fn class_scores() -> Result<Call> {
    let (weights, x) = (weights()?, images()?);
    Ok(Box::new(move || Ok(vec![scores(&x, &weights)?])))
}

fn scores(x: &Tensor, weights: &[Var]) -> Result<Tensor> {
    let [k1, b1, k2, b2, w, b] = weights else {
        unreachable!("there are six weights");
    };
    let mut h = x.clone();
    for (k, b) in [(k1, b1), (k2, b2)] {
        let b = b.reshape((1, b.dim(0)?, 1, 1))?;
        h = h
            .conv2d(k, 1, 1, 1, 1)?
            .broadcast_add(&b)?
            .relu()?
            .max_pool2d(2)?;
    }
    h.flatten_from(1)?.matmul(w)?.broadcast_add(b)
}

fn images() -> Result<Tensor> {
    fill(110, (32, 1, 28, 28), 1.0)
}

fn weights() -> Result<Vec<Var>> {
    let zeros = |n| Tensor::zeros(n, DType::F32, &Device::Cpu);
    [
        fill(111, (16, 1, 3, 3), 1.0 / 9f32.sqrt())?,
        zeros(16)?,
        fill(112, (32, 16, 3, 3), 1.0 / 144f32.sqrt())?,
        zeros(32)?,
        fill(113, (1568, 10), 1.0 / 1568f32.sqrt())?,
        zeros(10)?,
    ]
    .iter()
    .map(Var::from_tensor)
    .collect()
}
