//! Benchmark inputs with the same bits in every framework: an integer hash of the index, scaled.

use gradloom::{IntoShape, Tensor, Tree};

/// Returns numbers in `-scale..scale`; each seed gives another sequence.
pub(crate) fn fill(seed: u32, shape: impl IntoShape, scale: f32) -> Tensor {
    let shape = shape.into_shape();
    Tensor::from_vec(numbers(seed, shape.iter().product(), scale), shape)
}

/// Returns a vector like that of [`fill`], centred on 1, for gains.
pub(super) fn near_one(seed: u32, n: usize, scale: f32) -> Tensor {
    let numbers = numbers(seed, n, scale);
    Tensor::from(numbers.iter().map(|x| 1.0 + x).collect::<Vec<_>>())
}

/// Returns a weight matrix, scaled so that its results have the magnitude of its inputs.
pub(super) fn weight(seed: u32, inputs: usize, outputs: usize) -> Tensor {
    fill(seed, [inputs, outputs], 1.0 / (inputs as f32).sqrt())
}

/// Returns a model with other weights of the same shapes: gains of norms near 1, the others in `-0.05..0.05`. The seeds
/// of the leaves follow each other from `seed`.
pub(super) fn model<M: Tree>(random: &M, seed: u32) -> M {
    let mut names = Vec::new();
    random.paths("", &mut names);
    let mut leaves = (seed..).zip(&names);
    random.map(&mut |leaf| {
        let (seed, name) = leaves.next().expect("each leaf has a name");
        match name.ends_with("norm.weight") {
            true => near_one(seed, leaf.numel(), 0.05),
            false => fill(seed, leaf.shape(), 0.05),
        }
    })
}

/// Returns `n` ids of words below `words`, as `[rows, n / rows]`.
pub(super) fn ids(n: usize, words: usize, rows: usize) -> Tensor {
    let ids = (0..n).map(|i| (i * 7919 % words) as i64);
    Tensor::from_vec(ids.collect::<Vec<i64>>(), [rows, n / rows])
}

/// Returns zeros that are input data, not a constant of the program.
pub(super) fn zeros(n: usize) -> Tensor {
    Tensor::from(vec![0.0f32; n])
}

/// Returns a class label from 0 to 9 for each row.
pub(super) fn labels(n: usize) -> Tensor {
    Tensor::from((0..n as i64).map(|i| i * 7 % 10).collect::<Vec<_>>())
}

fn numbers(seed: u32, n: usize, scale: f32) -> Vec<f32> {
    let offset = seed.wrapping_mul(0x9E37_79B9);
    let number = |i: u32| {
        let mut x = i.wrapping_add(offset);
        x ^= x >> 16;
        x = x.wrapping_mul(0x7FEB_352D);
        x ^= x >> 15;
        x = x.wrapping_mul(0x846C_A68B);
        x ^= x >> 16;
        let unit = (x >> 8) as f32 * (1.0 / 16_777_216.0);
        (2.0 * unit - 1.0) * scale
    };
    (0..n as u32).map(number).collect()
}
