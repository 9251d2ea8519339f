//! Layers with weights of 8 and 16 bits.

use gradloom::prelude::*;
use gradloom::{bf16, value_and_grad};
use gradloom_nn::{Activation, EncoderLayer, Layer, Linear, NormPlace};

fn layer() -> EncoderLayer {
    let key = Key::new(3);
    EncoderLayer::new(key, 64, 4, 256, Activation::Gelu, NormPlace::Before)
}

/// Returns the layer with matrices of another dtype.
fn cast(layer: &EncoderLayer, dtype: DType) -> EncoderLayer {
    layer.map(&mut |leaf| match leaf.rank() {
        2 => leaf.cast(dtype),
        _ => leaf.clone(),
    })
}

/// Returns the largest difference of two results, beside the largest magnitude.
fn difference(x: &Tensor, y: &Tensor) -> f32 {
    let of = |x: Tensor| x.abs().max(..).item::<f32>();
    of(x - y) / of(y.clone())
}

#[test]
fn a_layer_with_fewer_bits_is_near_the_layer() {
    let x = Key::new(4).normal([2, 7, 64], DType::F32);
    let y = layer().encode_before(&x);
    for (small, bound) in [
        (cast(&layer(), DType::BF16), 0.02),
        (cast(&layer(), DType::F16), 0.003),
        (layer().quantized(), 0.03),
    ] {
        let found = small.encode_before(&x);
        assert_eq!(found.dtype(), DType::F32);
        let difference = difference(&found, &y);
        assert!(difference > 0.0 && difference < bound, "{difference}");
    }
}

#[test]
fn quantised_rows_are_multiples_of_their_scales() {
    let zero = Linear {
        weight: Tensor::from([[0.0f32, 0.0], [-0.5, 1.0]]),
        scale: None,
        bias: None,
    };
    let small = zero.quantized();
    assert_eq!(small.weight.to_vec::<i8>(), [0, 0, -64, 127]);
    let scale = small
        .scale
        .as_ref()
        .expect("it is quantised")
        .to_vec::<f32>();
    assert_eq!(scale, [1.0, 1.0 / 127.0]);
    let y = small.forward(&Tensor::from([[2.0f32, 1.0]]));
    assert_eq!(y.to_vec::<f32>()[0], 0.0);
    assert!((y.to_vec::<f32>()[1] + 0.0079).abs() < 1e-4);
}

#[test]
#[should_panic(expected = "the weights are quantised already")]
fn quantised_weights_are_not_quantised_again() {
    let _ = layer().quantized().quantized();
}

/// A step by gradients of weights of 16 bits moves a copy of `f32`, which keeps small changes.
#[test]
fn training_with_weights_of_16_bits_lowers_the_loss() {
    let x = Key::new(4).normal([16, 7, 64], DType::F32);
    let target = x.i((.., 0..1)).tanh();
    let loss = |layer: &EncoderLayer| (layer.encode_before(&x) - &target).square().mean(..);
    let mut master = layer();
    let mut losses = Vec::new();
    for _ in 0..10 {
        let (value, slopes) = value_and_grad(loss)(&cast(&master, DType::BF16));
        assert_eq!(slopes.feed_forward.up.weight.dtype(), DType::BF16);
        losses.push(value.item::<f32>());
        let wide = slopes.map(&mut |leaf| leaf.cast(DType::F32));
        master = gradloom::tree::map2(&master, &wide, |w, slope| w - slope * 0.1);
    }
    assert!(losses.is_sorted_by(|a, b| a > b), "{losses:?}");
    let weight = cast(&master, DType::BF16).feed_forward.up.weight;
    assert_eq!(weight.to_vec::<bf16>().len(), 64 * 256);
}
