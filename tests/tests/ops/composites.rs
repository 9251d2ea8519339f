//! Methods that are composed of ops: derivatives, values, and lowering in traced functions.

use gradloom::prelude::*;
use gradloom::{hvp, vmap};
use gradloom_tests::noise;

#[traced(check)]
fn errors(#[shape(B, C)] x: &Tensor, #[shape(C)] t: &Tensor) -> Tensor {
    let elementwise = x.huber_loss(t, 0.7) + x.smooth_l1_loss(t, 1.3) + x.huber_loss(0.5, 0.7);
    elementwise.sum(..) + x.mse(t) + x.mae(t) + x.mse(0.25)
}

#[traced(check(range(p = 0.1..0.9, t = 0.1..0.9)))]
fn entropies(#[shape(B, C)] p: &Tensor, #[shape(B, C)] t: &Tensor) -> Tensor {
    let logits = p.logit();
    p.bce(t) + logits.bce_with_logits(t) + p.log().kl_div(t) + logits.squareplus(t)
}

#[traced(check(classes(labels = C), value(smoothing = 0.3)))]
fn rows(
    #[shape(B, C)] x: &Tensor,
    #[shape(B, C)] t: &Tensor,
    #[nodiff]
    #[shape(B)]
    labels: &Tensor,
    #[nodiff]
    #[shape(C)]
    w: &Tensor,
    smoothing: f64,
) -> Tensor {
    let hard = x.cross_entropy_rows(labels) + x.cross_entropy_smoothed(labels, 0.2);
    let soft = x.soft_cross_entropy(t.softmax(-1).smooth_labels(smoothing));
    let weights = w.exp();
    hard + soft + x.cross_entropy_with(labels, &weights, smoothing, -1)
        - x.cross_entropy_with(labels, &weights, 0.1, -100)
}

#[traced(check)]
fn norms(#[shape(B, C)] x: &Tensor, #[shape(B, C)] y: &Tensor) -> Tensor {
    let cosine = x.cosine_similarity(y, -1, 1e-8);
    cosine + x.norm(-1) + (x / x.norm_keepdims([0, 1])).sum(-1) + x.norm_l1(-1) + y.norm_max(..)
}

#[traced(check(value(eps = 0.1)))]
fn channels(
    #[shape(N, 4, H)] x: &Tensor,
    #[shape(4)] w: &Tensor,
    #[shape(4)] b: &Tensor,
    #[shape(4)] mean: &Tensor,
    eps: f64,
) -> Tensor {
    let trained = x.batch_norm(w, b, eps) + x.group_norm(2, w, b, eps) + x.instance_norm(w, b, 0.2);
    trained.tanh() + x.batch_norm_eval(w, b, mean, mean.square(), eps)
}

#[traced(check(dims(D = 6)))]
fn positions(#[shape(B, T, D)] x: &Tensor, #[shape(T, 3)] angles: &Tensor) -> Tensor {
    x.rotary(angles) * 2.0 - x.rotary_half(angles)
}

#[traced(check)]
fn selected(#[shape(B, C)] x: &Tensor, #[shape(C)] y: &Tensor) -> Tensor {
    let positive = x.gt(0.0);
    let safe = positive.safe_select(x, 1.0, |x| x.log() * y, y);
    let soft = x.softmax_where(x.lt(x.max_keepdims(-1) + 1.0), -1);
    safe + soft + x.clamp(-0.4, y) + x.lerp(y, 0.3)
}

#[traced(check)]
fn gated(#[shape(B, 4)] x: &Tensor) -> Tensor {
    x.glu(-1)
}

#[test]
fn traced_functions_lower_them_at_compile_time() {
    let programs = [
        errors::PROGRAM,
        entropies::PROGRAM,
        rows::PROGRAM,
        norms::PROGRAM,
        channels::PROGRAM,
        positions::PROGRAM,
        selected::PROGRAM,
        gated::PROGRAM,
    ];
    for program in programs {
        assert!(!program.contains("recorded"), "{program}");
    }
}

#[traced]
fn dropped(x: &Tensor, w: &Tensor, rate: f64, key: Key) -> Tensor {
    (x * w).dropout(rate, key) * w
}

#[test]
fn dropout_drops_at_the_rate_and_has_the_gradient_of_its_mask() {
    assert!(
        !dropped::PROGRAM.contains("recorded"),
        "{}",
        dropped::PROGRAM
    );
    let (x, w) = (
        noise(&[50, 40], 1).cast(DType::F64),
        noise(&[40], 2).cast(DType::F64),
    );
    for rate in [0.0, 0.3, 1.0] {
        let (y, pullback) = dropped::vjp(&x, &w, rate, Key::new(5));
        let kept = (&x * &w).dropout(rate, Key::new(5));
        assert_eq!(y.to_vec::<f64>(), (&kept * &w).to_vec::<f64>());
        let share = kept.ne(0.0).cast(DType::F64).mean(..).item::<f64>();
        assert!((share - (1.0 - rate)).abs() < 0.05, "{share} at {rate}");
        let (dx, dw) = pullback(&y.ones_like());
        let scale = if rate == 1.0 { 0.0 } else { 1.0 / (1.0 - rate) };
        let mask = kept.ne(0.0).cast(DType::F64) * scale;
        let close = |a: &Tensor, b: &Tensor| (a - b).abs().max(..).item::<f64>() < 1e-12;
        assert!(close(&dx, &(&mask * &w * &w)));
        assert!(close(&dw, &(&mask * &x * &w * 2.0).sum(0)));
    }
}

#[traced(allow(zero_gradient))]
fn drawn(logits: &Tensor, axis: i64, key: Key) -> Tensor {
    logits.categorical(axis, key)
}

#[test]
fn indices_are_drawn_with_the_probabilities_of_softmax() {
    assert!(!drawn::PROGRAM.contains("recorded"), "{}", drawn::PROGRAM);
    let logits = Tensor::from([0.5f64, f64::NEG_INFINITY, -1.0, 2.0]);
    let n = 20_000;
    let rows = logits.broadcast_to([n, 4]);
    let indices = drawn(&rows, -1, Key::new(3));
    assert_eq!(indices.shape(), [n]);
    let by_columns = drawn(&rows.swap_axes(0, 1), 0, Key::new(4));
    for indices in [indices, by_columns, rows.categorical(1, Key::new(5))] {
        let counts = indices.bincount(4).cast(DType::F64) / n as f64;
        let difference = (counts - logits.softmax(-1)).abs().max(..);
        assert!(difference.item::<f64>() < 0.02, "{difference:?}");
    }
}

/// Some of the numbers that are drawn are 0, whose logarithm is that of an excluded element.
#[test]
fn an_excluded_index_is_never_drawn() {
    let logits = Tensor::from([f32::NEG_INFINITY, 0.0]).broadcast_to([1 << 22, 2]);
    for seed in 0..8 {
        let indices = logits.categorical(1, Key::new(seed));
        assert_eq!(indices.min(..).item::<i64>(), 1, "{seed}");
    }
}

/// Near poles, and where products of derivatives would overflow in `f32`. The values are those of mpmath.
#[test]
fn rising_factorials_of_single_precision() {
    for (x, y, expected, slope) in [
        (1e-8f32, -1.0f32, -1.00000001, None),
        (1e-9, -2.0, 0.5, None),
        (1000.0, 12.0, 1.0679e36, Some(1.2744e34)),
    ] {
        let (x, y) = (Tensor::from(x), Tensor::from(y));
        let found = f64::from(x.poch(&y).item::<f32>());
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, {expected}");
        if let Some(slope) = slope {
            let found = grad(|x: &Tensor| x.poch(&y))(&x).item::<f32>();
            assert!(
                (f64::from(found) / slope - 1.0).abs() < 1e-2,
                "{found}, {slope}"
            );
        }
    }
}

#[test]
fn losses_have_the_values_of_their_definitions() {
    let x = Tensor::from([0.5f64, -2.0, 30.0, -800.0]);
    let t = Tensor::from([1.0f64, 0.0, 0.25, 1.0]);
    let huber = x.huber_loss(&t, 1.0).to_vec::<f64>();
    assert_eq!(huber, [0.125, 1.5, 29.25, 800.5]);
    let bce = x.bce_with_logits(&t).to_vec::<f64>();
    let of = |x: f64, t: f64| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
    for (found, (x, t)) in bce
        .iter()
        .zip([(0.5, 1.0), (-2.0, 0.0), (30.0, 0.25), (-800.0, 1.0)])
    {
        assert!((found - of(x, t)).abs() <= 1e-14 * of(x, t), "{found}");
    }
    // The second derivative at 0 is that of the smooth function.
    let at_0 = Tensor::from([0.0f64]);
    let ones = at_0.ones_like();
    let second =
        |f: fn(&Tensor) -> Tensor| hvp(|x: &Tensor| f(x).sum(..), &at_0, &ones).item::<f64>();
    let bend = second(|x| x.bce_with_logits(1.0));
    assert!((bend - 0.25).abs() < 1e-15, "{bend}");
    assert_eq!(second(|x| x.huber_loss(0.0, 1.0)), 1.0);
    // Certain probabilities.
    let p = Tensor::from([0.0f64, 1.0, 1e-20]);
    let certain = p.bce(Tensor::from([0.0f64, 1.0, 0.0])).to_vec::<f64>();
    assert_eq!(certain, [0.0, 0.0, 1e-20]);
}

#[test]
fn cross_entropy_takes_weights_smoothing_and_labels_to_ignore_as_pytorch_does() {
    let x = Tensor::from([
        [1.0f64, 2.0, 0.5],
        [0.1, -1.0, 3.0],
        [7.0, 8.0, 9.0],
        [0.0, 0.5, 0.2],
    ]);
    let (labels, w) = (
        Tensor::from([2, 0, -100, 1]),
        Tensor::from([0.2f64, 1.0, 3.0]),
    );
    let (logs, w_list) = (x.log_softmax(-1).to_vec::<f64>(), w.to_vec::<f64>());
    for smoothing in [0.0, 0.3] {
        let (mut total, mut weight) = (0.0, 0.0);
        for (row, label) in [(0, 2), (1, 0), (3, 1)] {
            let logs = &logs[row * 3..row * 3 + 3];
            let spread: f64 = logs.iter().zip(&w_list).map(|(l, w)| l * w).sum();
            let hard = logs[label] * w_list[label];
            total -= (1.0 - smoothing) * hard + smoothing / 3.0 * spread;
            weight += w_list[label];
        }
        let found = x.cross_entropy_with(&labels, &w, smoothing, -100);
        assert!((found.item::<f64>() - total / weight).abs() < 1e-14);
    }
    let loss = |x: &Tensor| x.cross_entropy_with(&labels, &w, 0.3, -100);
    let ignored = grad(loss)(&x).slice([2], [3], [1]).to_vec::<f64>();
    assert_eq!(ignored, [0.0; 3]);
}

#[test]
fn the_norm_has_gradient_0_at_0_and_keeps_nan() {
    let x = Tensor::from([[0.0f64, 0.0], [f64::NAN, 1.0], [3.0, 4.0]]);
    let norm = x.norm(-1).to_vec::<f64>();
    assert!(norm[0] == 0.0 && norm[1].is_nan() && norm[2] == 5.0);
    let zeros = Tensor::zeros([2, 3], DType::F32);
    let g = grad(|x: &Tensor| x.norm(..) + x.norm_keepdims(0).sum(..))(&zeros);
    assert_eq!(g.to_vec::<f32>(), [0.0; 6]);
    assert_eq!(
        Tensor::zeros([0, 2], DType::F32).norm(0).to_vec::<f32>(),
        [0.0; 2]
    );
}

#[test]
fn normalisation_takes_empty_batches_and_no_further_axes() {
    let (w, b) = (
        Tensor::ones([4], DType::F32),
        Tensor::zeros([4], DType::F32),
    );
    for shape in [
        vec![0, 4, 3],
        vec![2, 4, 0],
        vec![2, 4],
        vec![2, 4, 3, 1, 2],
    ] {
        let x = Tensor::ones(&shape, DType::F32);
        for y in [
            x.batch_norm(&w, &b, 0.1),
            x.group_norm(2, &w, &b, 0.1),
            x.instance_norm(&w, &b, 0.1),
        ] {
            assert_eq!(y.shape(), &shape);
            assert!(y.to_vec::<f32>().iter().all(|y| *y == 0.0));
        }
    }
}

#[test]
fn lanes_have_the_values_of_a_loop() {
    let x = noise(&[3, 2, 4, 5], 1).cast(DType::F64);
    let (w, b) = (
        noise(&[4], 2).cast(DType::F64),
        noise(&[4], 3).cast(DType::F64),
    );
    let f = |x: &Tensor| {
        let y = x.batch_norm(&w, &b, 0.1) + x.group_norm(2, &w, &b, 0.1);
        let labels = Tensor::from([0, 3]);
        let loss = x.sum(-1).cross_entropy_with(&labels, w.exp(), 0.1, 3);
        y.square().sum(..) + loss + x.norm(..) + x.huber_loss(0.1, 0.3).sum(..)
    };
    let found = vmap(grad(f))(&x);
    let lanes: Vec<Tensor> = (0..3)
        .map(|i| grad(f)(&x.slice([i], [i + 1], [1]).squeeze(0)))
        .collect();
    let error = (found - Tensor::stack(&lanes, 0)).abs().max(..);
    assert!(error.item::<f64>() < 1e-12, "{error}");
}

#[test]
fn errors_name_the_op_and_the_operands() {
    let message = |f: &dyn Fn() -> Tensor| gradloom_tests::panics::panic_of(|| drop(f())).0;
    let (x, w) = (
        Tensor::ones([2, 6, 3], DType::F32),
        Tensor::ones([6], DType::F32),
    );
    let text = message(&|| x.group_norm(4, &w, &w, 0.1));
    assert!(
        text.contains("36 elements cannot be reshaped to [2, 4, 1, 3]"),
        "{text}"
    );
    let text = message(&|| x.group_norm(0, &w, &w, 0.1));
    assert!(text.contains("36 elements cannot be reshaped"), "{text}");
    let text = message(&|| x.rotary(&w));
    assert!(text.contains("elements cannot be reshaped"), "{text}");
    let text = message(&|| x.mse(Tensor::ones([3], DType::F64)));
    assert!(text.contains("f32") && text.contains("f64"), "{text}");
    let text = message(&|| x.batch_norm(&x, &w, 0.1));
    assert!(text.contains("cannot be reshaped to [6, 1]"), "{text}");
}

#[traced(allow(zero_gradient))]
fn indicators(x: &Tensor, scale: f32, n: i64) -> (Tensor, Tensor, Tensor, Tensor) {
    let positive = x.gt(0.0);
    let scaled = positive.select(scale * 2.0, 0.0);
    (
        positive.select(1.0, 0.0),
        positive.select(0.5, 2.0f32),
        scaled,
        positive.select(n, -1),
    )
}

#[test]
fn a_mask_selects_between_two_numbers_of_one_type() {
    let x = Tensor::from([1.0f64, -1.0]);
    let (a, b, c, d) = indicators(&x, 1.5, 7);
    assert_eq!(a.to_vec::<f64>(), [1.0, 0.0]);
    assert_eq!(b.to_vec::<f32>(), [0.5, 2.0]);
    assert_eq!(c.to_vec::<f32>(), [3.0, 0.0]);
    assert_eq!(d.to_vec::<i64>(), [7, -1]);
    assert!(
        !indicators::PROGRAM.contains("recorded"),
        "{}",
        indicators::PROGRAM
    );
}

#[traced(check(value(counts = [2, 1, 1])))]
fn repeated(#[shape(B, C)] x: &Tensor, counts: [usize; 3]) -> Tensor {
    let padded = x.pad_reflect([1, 2], [0, 1]) + x.pad_edge([1, 2], [0, 1]);
    let ring = padded + x.pad_wrap([0, 1], [1, 2]);
    ring.sum(..) * x.tile(counts) + x.tile([2, 1]).square().sum(0)
}

#[traced(check(value(q = 0.7)))]
fn places(
    #[shape(B, 4)] x: &Tensor,
    #[nodiff]
    #[shape(3)]
    y: &Tensor,
    q: f64,
) -> Tensor {
    let middle = x.median(-1) * x.quantile(0.25, 0).sum(..) + x.quantile(q, 1);
    let found = y.sort(0).searchsorted(x).cast(DType::F64);
    middle + (found * x).sum(-1)
}

#[traced(check(value(axis = -1)))]
fn products(
    #[shape(2, 3, 4)] x: &Tensor,
    #[shape(4, 5, 2)] y: &Tensor,
    axis: i64,
) -> (Tensor, Tensor, Tensor) {
    let z = x.dot_general(y, (&[2], &[0]), (&[0], &[axis]));
    let whole = x.dot_general(y, (&[0, 2], &[2, 0]), (&[], &[]));
    (
        z,
        whole,
        x.dot_general(y.i((.., 0, 0)), (&[], &[]), (&[-1], &[0])),
    )
}

#[traced(check)]
fn others(
    #[shape(4, 1, 2, 3)] x: &Tensor,
    #[shape(5, 3, 2)] y: &Tensor,
    #[shape(3)] v: &Tensor,
) -> (Tensor, Tensor, Tensor, Tensor) {
    let z = Tensor::einsum("...ij,...jk->...ik", &[x, y]);
    let moved = Tensor::einsum("i...j,j->j...i", &[x, v]);
    let traces = Tensor::einsum("...ii", &[&z]);
    let both = Tensor::einsum("k...ij,j...,j->...ik", &[x, &y.sum(0), v]);
    (z, moved, traces, both)
}

#[traced(check)]
fn lists(#[shape(6, 2)] x: &Tensor) -> Tensor {
    let parts = x.chunks(3, 0);
    let rows = x.unbind_all(0);
    let grid = Tensor::meshgrid(&[&rows[0], &rows[1].sin()]);
    let t = Tensor::linspace(0.0, 1.0, x.dim(0), DType::F64).unsqueeze(-1);
    let mut sum = &grid[0] * &grid[1] + (x * t).sum(..);
    for part in &parts {
        sum += part.sum(..);
    }
    sum
}

#[test]
fn methods_that_depend_on_lengths_are_lowered() {
    let programs = [
        (repeated::PROGRAM, repeated::RECORDED),
        (places::PROGRAM, places::RECORDED),
        (products::PROGRAM, products::RECORDED),
        (others::PROGRAM, others::RECORDED),
    ];
    for (program, recorded) in programs {
        assert_eq!(recorded, None);
        assert!(!program.contains("call["), "{program}");
    }
    assert_eq!(lists::RECORDED, None);
    assert_eq!(lists::PROGRAM.matches("call[callee=`chunks`").count(), 1);
}

#[test]
fn lowered_methods_equal_those_of_closures() {
    let (x, y) = (noise(&[2, 3, 4], 1), noise(&[4, 5, 2], 2));
    let (z, whole, last) = products(&x, &y, -1);
    assert_eq!(
        (z.shape(), whole.shape(), last.shape()),
        (&[2, 3, 5][..], &[3, 5][..], &[4, 2, 3][..])
    );
    assert!(gradloom::tree::is_close(
        &z,
        &x.dot_general(&y, (&[2], &[0]), (&[0], &[-1])),
        1e-12
    ));
    let (x, y, v) = (
        noise(&[4, 1, 2, 3], 1),
        noise(&[5, 3, 2], 2),
        noise(&[3], 3),
    );
    let (z, moved, traces, both) = others(&x, &y, &v);
    assert!(gradloom::tree::is_close(&z, &x.matmul(&y), 1e-12));
    let by_hand = Tensor::einsum("i...j,j->j...i", &[&x, &v]);
    assert!(gradloom::tree::is_close(&moved, &by_hand, 1e-12));
    assert!(gradloom::tree::is_close(
        &traces,
        &Tensor::einsum("...ii", &[&z]),
        1e-12
    ));
    let by_hand = Tensor::einsum("k...ij,j...,j->...ik", &[&x, &y.sum(0), &v]);
    assert!(gradloom::tree::is_close(&both, &by_hand, 1e-12));
}

#[test]
fn an_infinite_element_beside_an_exact_quantile_is_not_nan() {
    let x = Tensor::from([f64::INFINITY, 1.0, 2.0]);
    assert_eq!(x.quantile(0.5, 0).item::<f64>(), 2.0);
    assert_eq!(x.quantile(1.0, 0).item::<f64>(), f64::INFINITY);
    let nan = Tensor::from([f64::NAN, 1.0, 2.0]);
    assert!(nan.median(0).item::<f64>().is_nan());
}

#[test]
fn the_axis_of_a_cross_product_has_length_3() {
    let of = |x: &Tensor| -> Result<Tensor> { Ok(x.cross(Tensor::ones([2, 3], DType::F64), 1)) };
    let error = vjp(of, &noise(&[2, 4], 1)).expect_err("the axis has another length");
    assert_eq!(
        error.to_string(),
        "cross: axis 1 of f64[2, 4] has length 4, expected 3"
    );
    let error = vjp(of, &noise(&[3], 1)).expect_err("there is no such axis");
    assert!(error.to_string().contains("axis 1"), "{error}");
}
