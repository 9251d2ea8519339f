//! Inputs with the same bits as those of `examples/src/bench/inputs.rs`: an integer hash of the index, scaled.

use candle_core::{Device, Result, Shape, Tensor};

/// Returns numbers in `-scale..scale`; each seed gives another sequence.
pub fn fill(seed: u32, shape: impl Into<Shape>, scale: f32) -> Result<Tensor> {
    let shape = shape.into();
    Tensor::from_vec(
        numbers(seed, shape.elem_count(), scale),
        shape,
        &Device::Cpu,
    )
}

/// Returns a gain of a norm.
pub fn near_one(seed: u32, n: usize) -> Result<Tensor> {
    fill(seed, n, 0.05)? + 1.0
}

/// Returns `n` ids of words below `words`, as `[rows, n / rows]`.
pub fn ids(n: usize, words: usize, rows: usize) -> Result<Tensor> {
    let ids: Vec<u32> = (0..n).map(|i| (i * 7919 % words) as u32).collect();
    Tensor::from_vec(ids, (rows, n / rows), &Device::Cpu)
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
