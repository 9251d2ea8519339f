//! Convolutions and pooling in traced functions and in batches.

use gradloom::prelude::*;
use gradloom::vmap;
use gradloom_tests::noise;

#[traced]
fn energy(x: &Tensor, w: &Tensor, v: &Tensor) -> Tensor {
    let y = x.conv(w, 1, [1, 0, 0, 1], 1, 1).tanh();
    let y = y.conv_same(v, [2, 1]) + y.max_pool([2, 1], [2, 1], 0);
    let y = y.avg_pool([2, 2], 1, ..).upsample([1, 2]);
    y.conv_transpose(w, [2, 1], 0, [1, 2], 1).square().sum(..)
}

fn operands() -> (Tensor, Tensor, Tensor) {
    let noise = |shape: &[usize], seed| noise(shape, seed).cast(DType::F64);
    let w = noise(&[3, 2, 2, 2], 2);
    (noise(&[2, 2, 4, 5], 1), w, noise(&[3, 3, 3, 3], 3))
}

#[test]
fn a_traced_convolution_has_the_derivatives_of_the_run_time() {
    assert!(!energy::PROGRAM.contains("recorded"), "{}", energy::PROGRAM);
    let (x, w, v) = operands();
    let (y, pullback) = energy::vjp(&x, &w, &v);
    let ct = Tensor::ones([], DType::F64);
    let found = pullback(&ct);
    let f = |(x, w, v): &(Tensor, Tensor, Tensor)| energy(x, w, v);
    let all = (x, w, v);
    let (expected_y, pullback) = vjp(f, &all);
    let expected = pullback.call(&ct);
    assert_eq!(y.to_vec::<f64>(), expected_y.to_vec::<f64>());
    let pairs = [
        (found.0, expected.0),
        (found.1, expected.1),
        (found.2, expected.2),
    ];
    for (found, expected) in pairs {
        assert_eq!(found.to_vec::<f64>(), expected.to_vec::<f64>());
    }
}

#[test]
fn gradients_of_lanes_with_their_own_weights_are_those_of_a_loop() {
    let f = |(x, w, v): &(Tensor, Tensor, Tensor)| energy(x, w, v);
    let (x, w, v) = operands();
    let each = |t: &Tensor| Tensor::stack(&[t, &(t * 0.5), &(t + 0.25)], 0);
    let all = (each(&x), each(&w), each(&v));
    let found = vmap(grad(f))(&all);
    for i in 0..3 {
        let lane = |t: &Tensor| t.slice([i], [i + 1], [1]).squeeze(0);
        let expected = grad(f)(&(lane(&all.0), lane(&all.1), lane(&all.2)));
        let pairs = [
            (&found.0, expected.0),
            (&found.1, expected.1),
            (&found.2, expected.2),
        ];
        for (found, expected) in pairs {
            let error = (lane(found) - expected).abs().max(..).to_vec::<f64>();
            assert!(error[0] < 1e-12, "{error:?}");
        }
    }
}

#[test]
fn padding_that_moves_all_elements_out_of_the_windows_gives_zeros() {
    for dtype in [DType::F32, DType::F64, DType::I64] {
        for (len, padding) in [(1, [-2, 2]), (1, [2, -2]), (2, [-3, 3]), (2, [3, -3])] {
            let x = Tensor::ones([1, 1, len], dtype);
            let w = Tensor::ones([1, 1, 1], dtype);
            for y in [
                x.conv(&w, 1, padding, 1, 1),
                vmap(|x: &Tensor| x.conv(&w, 1, padding, 1, 1))(&x.unsqueeze(0)),
            ] {
                let zeros = vec![0.0; len];
                assert_eq!(y.cast(DType::F64).to_vec::<f64>(), zeros, "{padding:?}");
            }
        }
    }
    let x = Tensor::ones([1, 2, 3, 1], DType::F32);
    let w = Tensor::ones([2, 1, 1, 1], DType::F32);
    let f = |x: &Tensor| x.conv(&w, 1, [0, 0, 2, -2], 1, 2).sum(..);
    assert_eq!(f(&x).item::<f32>(), 0.0);
    assert_eq!(grad(f)(&x).to_vec::<f32>(), [0.0; 6]);
}
