//! Batch prefixes: an op on tensors with a prefix gives what a loop over the prefix gives.

use gradloom::__private::replay;
use gradloom::prelude::*;
use gradloom::{
    Error, Scan, Vmap, cond, custom_jvp, custom_vjp, fori_loop, linearize, scan, switch, tree,
    while_loop,
};
use gradloom_ir::op::{Eval, Laws, NdArray};
use gradloom_ir::{Op, Program, Var};

fn noise(shape: &[usize], seed: u64) -> Tensor {
    Key::new(seed).normal(shape, DType::F64)
}

fn lane(x: &Tensor, i: usize) -> Tensor {
    x.slice([i as i64], [i as i64 + 1], [1]).squeeze(0)
}

/// Compares dtypes, shapes, prefixes and elements.
#[track_caller]
fn near(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.aval(), expected.aval());
    let pairs = found
        .to_vec::<f64>()
        .into_iter()
        .zip(expected.to_vec::<f64>());
    for (x, y) in pairs {
        let is_near = (x - y).abs() <= 1e-12 * (1.0 + y.abs());
        assert!(is_near, "{found}\n{expected}");
    }
}

fn fails<T>(f: impl FnOnce() -> Result<T>) -> String {
    match f() {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// Returns the error of an op, which is an `Err` inside of a closure that a transform runs.
fn fault(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> String {
    fails(|| {
        vjp(
            |_: &Tensor| -> Result<Tensor> { Ok(f(x)) },
            &Tensor::from(0.0f64),
        )
    })
}

/// Compares an op on `x` with a prefix of one axis with a loop over this axis.
#[track_caller]
fn as_loop(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    let lanes: Vec<Tensor> = (0..x.dim(0)).map(|i| f(&lane(x, i))).collect();
    near(
        &f(&x.incr_batch_dims()),
        &Tensor::stack(&lanes, 0).incr_batch_dims(),
    );
}

/// Rows S0.40, S0.43, S1.11 of the requirements.
#[test]
fn s1_30_s1_39_s1_40_the_logical_shape_is_the_physical_one_after_the_prefix() {
    let x = Tensor::zeros([5, 3, 4], DType::F32);
    assert_eq!((x.batch_dims(), x.physical_shape()), (0, &[5, 3, 4][..]));
    let x = x.incr_batch_dims();
    assert_eq!((x.batch_shape(), x.shape()), (&[5][..], &[3, 4][..]));
    assert_eq!((x.rank(), x.dim(0), x.dim(-1), x.numel()), (2, 3, 4, 12));
    for n in 0..=3 {
        let mut x = Tensor::zeros([5, 3, 4], DType::I64);
        for _ in 0..n {
            x = x.incr_batch_dims();
        }
        assert_eq!(x.batch_dims(), n);
        assert_eq!(x.shape(), &x.physical_shape()[n..]);
        assert_eq!(x.batch_shape(), &x.physical_shape()[..n]);
        assert_eq!([x.batch_shape(), x.shape()].concat(), [5, 3, 4]);
    }
    let many = Tensor::zeros([1, 2, 3, 4, 5, 6], DType::F32).incr_batch_dims();
    assert_eq!(many.shape(), [2, 3, 4, 5, 6]);
    assert_ne!(x.aval(), Tensor::zeros([3, 4], DType::F32).aval());
    assert_ne!(x.aval(), Tensor::zeros([5, 3, 4], DType::F32).aval());
}

#[test]
fn s1_41_the_result_has_the_longest_prefix_and_prefixes_are_aligned() {
    let (x, y) = (noise(&[2, 5, 3], 1), noise(&[5, 3], 2));
    let z = x.incr_batch_dims().incr_batch_dims() * y.incr_batch_dims();
    assert_eq!((z.batch_dims(), z.shape()), (2, &[3][..]));
    near(&z.decr_batch_dims().decr_batch_dims(), &(&x * &y));
    // Logical axes are aligned with logical axes, whatever the prefixes.
    let matrices = noise(&[5, 4, 3], 3);
    let z = y.incr_batch_dims() + matrices.incr_batch_dims();
    near(&z.decr_batch_dims(), &(y.unsqueeze(1) + &matrices));
    let z = noise(&[4, 3], 4) - y.incr_batch_dims();
    near(&z.decr_batch_dims(), &(noise(&[4, 3], 4) - y.unsqueeze(1)));
    // A batch axis of length 1 is shared, for ops of all kinds.
    let one = noise(&[1, 3], 5);
    let z = y.incr_batch_dims().maximum(one.incr_batch_dims());
    near(&z.decr_batch_dims(), &y.maximum(&one));
    let z = one
        .incr_batch_dims()
        .matmul(matrices.incr_batch_dims().transpose());
    near(
        &z.decr_batch_dims(),
        &one.squeeze(0).matmul(matrices.permute([0, 2, 1])),
    );
    let whole = one.incr_batch_dims().sum(0);
    assert_eq!((whole.batch_shape(), whole.shape()), (&[1][..], &[][..]));
    // Promotion, scalars and comparisons.
    let z = (Tensor::from([1i64, 2]).incr_batch_dims() + y.slice([0], [2], [1]).incr_batch_dims())
        * 2.0;
    assert_eq!((z.dtype(), z.physical_shape()), (DType::F64, &[2, 3][..]));
    assert_eq!(
        y.incr_batch_dims().gt(0.0).aval().to_string(),
        "bool[5 | 3]"
    );
    // Lengths that differ are an error that names both.
    let (x, y) = (noise(&[2, 3], 6), noise(&[4, 3], 7));
    let text = fault(|x| x.incr_batch_dims() + y.incr_batch_dims(), &x);
    assert_eq!(
        text,
        "add: the batch prefixes of f64[2 | 3] and f64[4 | 3] do not align: a batch axis is 2 on the left and 4 on the right"
    );
    let text = fault(|x| x.incr_batch_dims().matmul(y.incr_batch_dims()), &x);
    assert!(
        text.starts_with("matmul: the batch prefixes of f64[2 | 3] and f64[4 | 3]"),
        "{text}"
    );
    // A logical misfit is one of the logical shapes.
    let text = fault(|x| x.incr_batch_dims() + Tensor::zeros([2], DType::F64), &x);
    assert!(
        text.contains("axis 0 is 3 on the left and 2 on the right"),
        "{text}"
    );
}

/// Rows S1.58, S2.38 of the requirements.
#[test]
fn s1_43_to_s1_47_view_operations_act_on_logical_axes() {
    let x = noise(&[5, 3, 1, 4], 1);
    as_loop(|x| x.unsqueeze(0), &x);
    as_loop(|x| x.unsqueeze(-1), &x);
    as_loop(|x| x.squeeze(1), &x);
    as_loop(|x| x.swap_axes(0, -1), &x);
    as_loop(|x| x.moveaxis(0, 2), &x);
    as_loop(|x| x.broadcast_to([2, 3, 6, 4]), &x);
    as_loop(|x| x.permute([2, 0, 1]), &x);
    as_loop(|x| x.reshape([12]), &x);
    as_loop(|x| x.transpose(), &x);
    assert!(fault(|x| x.incr_batch_dims().squeeze(0), &x).starts_with("squeeze: axis 0 is 3"));
    let text = fault(|x| x.incr_batch_dims().broadcast_to([2, 2, 4]), &x);
    assert!(
        text.contains("[2, 2, 4]") && text.contains("f64[3, 1, 4]"),
        "{text}"
    );
    assert!(
        fault(|x| x.incr_batch_dims().swap_axes(0, 3), &x)
            .contains("axis 3 is out of range for rank 3")
    );
}

#[test]
fn s1_48_s1_49_counting_moves_nothing() {
    let x = noise(&[2, 3], 1);
    let both = x.incr_batch_dims().incr_batch_dims();
    assert_eq!((both.batch_dims(), both.shape()), (2, &[][..]));
    assert_eq!(both.to_vec::<f64>(), x.to_vec::<f64>());
    near(&both.decr_batch_dims().decr_batch_dims(), &x);
    let text = fault(
        |x| x.incr_batch_dims().incr_batch_dims().incr_batch_dims(),
        &x,
    );
    assert_eq!(
        text,
        "incr_batch_dims: the logical shape of f64[2, 3 |] has no axis that could join the batch prefix"
    );
    assert_eq!(
        fault(|x| x.decr_batch_dims(), &x),
        "decr_batch_dims: f64[2, 3] has no batch prefix"
    );
}

#[test]
fn s1_50_any_physical_axis_moves_to_the_front_of_the_prefix() {
    let x = noise(&[2, 5, 3, 4], 1);
    for axis in -4..4 {
        let y = x.move_axis_to_batch_dims(axis);
        near(&y.decr_batch_dims(), &x.moveaxis(axis, 0));
        assert_eq!(y.batch_dims(), 1);
        let z = x.incr_batch_dims().move_axis_to_batch_dims(axis);
        assert_eq!(z.batch_dims(), 2);
        assert_eq!(z.physical_shape(), x.moveaxis(axis, 0).shape());
        assert_eq!(z.to_vec::<f64>(), x.moveaxis(axis, 0).to_vec::<f64>());
    }
    let text = fault(|x| x.incr_batch_dims().move_axis_to_batch_dims(4), &x);
    assert_eq!(
        text,
        "move_axis_to_batch_dims: physical axis 4 is out of range: f64[2 | 5, 3, 4] has 4 axes, of which 1 are the batch prefix"
    );
    let text = fault(|x| x.sum(..).move_axis_to_batch_dims(0), &x);
    assert!(text.contains("physical axis 0 is out of range"), "{text}");
    let text = fault(
        |x| {
            x.sum([1, 2, 3])
                .incr_batch_dims()
                .move_axis_to_batch_dims(0)
        },
        &x,
    );
    assert!(text.contains("no axis that could join"), "{text}");
}

#[test]
fn s1_51_a_batch_axis_moves_to_a_logical_place() {
    let x = noise(&[2, 5, 3, 4], 1);
    let batched = x.incr_batch_dims().incr_batch_dims();
    assert_eq!((batched.batch_dims(), batched.shape()), (2, &[3, 4][..]));
    let y = batched.move_axis_from_batch_dims(0, 2);
    assert_eq!(y.physical_shape(), [5, 3, 4, 2]);
    assert_eq!((y.batch_dims(), y.shape()), (1, &[3, 4, 2][..]));
    near(&y.decr_batch_dims(), &x.moveaxis(0, 3));
    for (axis, to) in [(0, 0), (1, 0), (1, 1), (0, 1), (-1, 2), (-2, -1), (1, -3)] {
        let y = batched.move_axis_from_batch_dims(axis, to);
        let from = axis.rem_euclid(2);
        let to = 1 + to.rem_euclid(3);
        near(&y.decr_batch_dims(), &x.moveaxis(from, to));
        // The way back.
        let back = y.move_axis_to_batch_dims(to);
        let back = if from == 0 {
            back
        } else {
            back.decr_batch_dims()
                .decr_batch_dims()
                .swap_axes(0, 1)
                .incr_batch_dims()
                .incr_batch_dims()
        };
        near(&back, &batched);
    }
    let text = fault(|_| batched.move_axis_from_batch_dims(2, 0), &x);
    assert_eq!(
        text,
        "move_axis_from_batch_dims: batch axis 2 is out of range: the batch prefix of f64[2, 5 | 3, 4] has rank 2"
    );
    let text = fault(|_| batched.move_axis_from_batch_dims(0, 3), &x);
    assert_eq!(
        text,
        "move_axis_from_batch_dims: logical destination 3 is out of range: the result of f64[2, 5 | 3, 4] has logical rank 3"
    );
    assert!(
        fault(|x| x.move_axis_from_batch_dims(0, 0), &x).contains("batch axis 0 is out of range")
    );
}

/// The seed document's `_batch_tensor`: an axis becomes the first batch axis, or one of length 1 does.
fn batch_tensor(x: &Tensor, axis: Option<isize>) -> Tensor {
    let n = x.batch_dims() as isize;
    match axis {
        Some(axis) if axis < 0 => x.move_axis_to_batch_dims(axis),
        Some(axis) => x.move_axis_to_batch_dims(n + axis),
        None if n == 0 => x.unsqueeze(0).incr_batch_dims(),
        None => x.unsqueeze(0).move_axis_to_batch_dims(n),
    }
}

/// The seed document's `_unbatch_tensor`: the first batch axis goes back, or one of length 1 is removed.
fn unbatch_tensor(y: &Tensor, axis: Option<isize>) -> Tensor {
    match axis {
        Some(axis) => y.move_axis_from_batch_dims(0, axis),
        None => y.move_axis_from_batch_dims(0, 0).squeeze(0),
    }
}

/// The seed document's `vmap`, for functions of two tensors.
fn own_vmap<F: Fn(&Tensor, &Tensor) -> Tensor>(
    f: F,
    [a, b]: [Option<isize>; 2],
    out: isize,
) -> impl Fn(&Tensor, &Tensor) -> Tensor {
    move |x, y| unbatch_tensor(&f(&batch_tensor(x, a), &batch_tensor(y, b)), Some(out))
}

#[test]
fn s1_52_vmap_is_written_with_view_operations() {
    let f = |x: &Tensor, w: &Tensor| (x.matmul(w) + 1.0).tanh().sum_keepdims(-1) * x;
    let (x, w) = (noise(&[3, 5, 4], 1), noise(&[4, 4, 3], 2));
    let cases = [
        ([Some(0), None], 0, noise(&[5, 3, 4], 3), noise(&[4, 4], 4)),
        ([Some(1), None], 1, x.clone(), noise(&[4, 4], 4)),
        ([Some(-2), Some(2)], 2, noise(&[3, 3, 4], 5), w.clone()),
        ([None, Some(-1)], -1, noise(&[2, 4], 6), w),
    ];
    for (axes, out, x, w) in &cases {
        let ours = Vmap::new(|(x, w): &(Tensor, Tensor)| f(x, w))
            .in_axes((axes[0], axes[1]))
            .out_axes(*out);
        let axes: [Option<isize>; 2] = axes.map(|axis| axis.map(|axis: i32| axis as isize));
        let own = own_vmap(f, axes, *out as isize);
        near(&own(x, w), &ours.call(&(x.clone(), w.clone())));
    }
    // Nested.
    let inner = |x: &Tensor, w: &Tensor| own_vmap(f, [Some(0), None], 0)(x, w);
    let nested = own_vmap(inner, [Some(1), Some(0)], 1);
    let ours = Vmap::new(|(x, w): &(Tensor, Tensor)| {
        Vmap::new(|(x, w): &(Tensor, Tensor)| f(x, w))
            .in_axes((0, None))
            .call(&(x.clone(), w.clone()))
    });
    let ours = ours.in_axes((1, 0)).out_axes(1);
    let (x, w) = (noise(&[2, 5, 3, 4], 7), noise(&[5, 4, 4], 8));
    near(&nested(&x, &w), &ours.call(&(x.clone(), w.clone())));
    // Around derivatives, and inside of them.
    let g = |x: &Tensor| own_vmap(f, [Some(0), None], 0)(x, &lane(&w, 0)).sum(..);
    let h = |x: &Tensor| vmap(|x: &Tensor| f(x, &lane(&w, 0)))(x).sum(..);
    let x = lane(&x, 0);
    near(&grad(g)(&x), &grad(h)(&x));
    near(&hvp(g, &x, &x.cos()), &hvp(h, &x, &x.cos()));
    let each = |x: &Tensor, w: &Tensor| grad(|x: &Tensor| f(x, w).sum(..))(x);
    let ours = vmap(|x: &Tensor| each(x, &lane(&w, 0)))(&x);
    near(&own_vmap(each, [Some(0), None], 0)(&x, &lane(&w, 0)), &ours);
    // A function of no operand with lanes.
    near(
        &unbatch_tensor(&batch_tensor(&x, None).sin(), None),
        &x.sin(),
    );
}

#[test]
fn s1_53_view_operations_have_derivatives_in_both_modes() {
    let x = noise(&[2, 5, 3], 1);
    type View = fn(&Tensor) -> Tensor;
    let views: [(View, View); 9] = [
        (|x| x.unsqueeze(1), |x| x.unsqueeze(1)),
        (|x| x.unsqueeze(1).squeeze(1), |x| x.clone()),
        (|x| x.swap_axes(0, 2), |x| x.swap_axes(0, 2)),
        (|x| x.moveaxis(0, 1), |x| x.moveaxis(0, 1)),
        (
            |x| x.broadcast_to([2, 2, 5, 3]),
            |x| x.broadcast_to([2, 2, 5, 3]),
        ),
        (|x| x.incr_batch_dims().sin().decr_batch_dims(), |x| x.sin()),
        (
            |x| {
                x.incr_batch_dims()
                    .incr_batch_dims()
                    .sum(0)
                    .decr_batch_dims()
                    .decr_batch_dims()
            },
            |x| x.sum(2),
        ),
        (
            |x| x.move_axis_to_batch_dims(1).transpose().decr_batch_dims(),
            |x| x.permute([1, 2, 0]),
        ),
        (
            |x| {
                let y = x.incr_batch_dims().incr_batch_dims();
                y.move_axis_from_batch_dims(0, 1).cos().decr_batch_dims()
            },
            |x| x.moveaxis(0, 2).cos(),
        ),
    ];
    for (view, like) in views {
        let f = |x: &Tensor| view(&x.square());
        let g = |x: &Tensor| like(&x.square());
        let dx = x.cos();
        near(&f(&x), &g(&x));
        near(&jvp(f, &x, &dx).1, &jvp(g, &x, &dx).1);
        let ct = g(&x).sin();
        near(&vjp(f, &x).1.call(&ct), &vjp(g, &x).1.call(&ct));
        near(&linearize(f, &x).1.call(&dx), &jvp(g, &x, &dx).1);
        let losses = (
            |x: &Tensor| (f(x) * &ct).sum(..),
            |x: &Tensor| (g(x) * &ct).sum(..),
        );
        near(&grad(losses.0)(&x), &grad(losses.1)(&x));
        near(&hvp(losses.0, &x, &dx), &hvp(losses.1, &x, &dx));
        near(&vmap(f)(&x.unsqueeze(0)), &vmap(g)(&x.unsqueeze(0)));
        // The lane is a tensor without elements, to which the prefix belongs.
        near(
            &vmap(grad(losses.0))(&x.unsqueeze(0)),
            &vmap(grad(losses.1))(&x.unsqueeze(0)),
        );
    }
}

#[test]
fn s1_53_cotangents_have_the_prefix_of_the_primal() {
    let (x, w) = (noise(&[5, 3, 4], 1), noise(&[4, 2], 2));
    let batched = x.incr_batch_dims();
    let f = |(x, w): &(Tensor, Tensor)| x.matmul(w).tanh();
    let args = (batched.clone(), w.clone());
    let (y, pullback) = vjp(f, &args);
    assert_eq!(y.aval().to_string(), "f64[5 | 3, 2]");
    let (plain, plain_pullback) = vjp(f, &(x.clone(), w.clone()));
    near(&y.decr_batch_dims(), &plain);
    let (cx, cw) = pullback.call(&y.cos());
    let (px, pw) = plain_pullback.call(&plain.cos());
    near(&cx, &px.incr_batch_dims());
    // All elements of the prefix share the matrix.
    near(&cw, &pw);
    assert_eq!(pullback.zero_cotangent().aval(), y.aval());
    let (dx, dw) = (batched.sin(), w.sin());
    let (_, dy) = jvp(f, &args, &(dx.clone(), dw.clone()));
    let (_, plain) = jvp(f, &(x.clone(), w.clone()), &(x.sin(), w.sin()));
    near(&dy, &plain.incr_batch_dims());
    near(&linearize(f, &args).1.call(&(dx.clone(), dw)), &dy);
    // One loss for each element of the prefix.
    let loss = |x: &Tensor| x.matmul(&w).square().sum(..);
    near(
        &grad(loss)(&batched),
        &vmap(grad(loss))(&x).incr_batch_dims(),
    );
    near(
        &hvp(loss, &batched, &dx),
        &Vmap::new(|(x, v): &(Tensor, Tensor)| hvp(loss, x, v))
            .call(&(x.clone(), x.sin()))
            .incr_batch_dims(),
    );
    let (values, gradient) = value_and_grad(loss)(&batched);
    near(&values.decr_batch_dims(), &vmap(loss)(&x));
    near(&gradient, &grad(loss)(&batched));
    let (_, unused) =
        grad(|(x, _): &(Tensor, Tensor)| loss(x))(&(batched.clone(), batched.clone()));
    assert_eq!(unused.aval(), batched.aval());
    // A second time.
    near(
        &grad(|x: &Tensor| grad(loss)(x).square().sum(..))(&batched),
        &vmap(grad(|x: &Tensor| grad(loss)(x).square().sum(..)))(&x).incr_batch_dims(),
    );
    // Tangents and cotangents with another prefix are refused.
    let error = jvp(|x: &Tensor| -> Result<Tensor> { Ok(x.sin()) }, &batched, &x)
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the tangent of `argument` is f64[5, 3, 4], expected f64[5 | 3, 4]"
    );
    let error = vjp(|x: &Tensor| x.sin(), &batched)
        .1
        .try_call(&x)
        .unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    let error = vjp(|x: &Tensor| x.sin(), &x)
        .1
        .try_call(&batched.unsqueeze(0))
        .unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    let one = vjp(|x: &Tensor| x.sin(), &lane(&x, 0)).1;
    assert!(matches!(
        one.try_call(&batched).unwrap_err(),
        Error::Mismatch { .. }
    ));
}

#[test]
fn reading_and_printing_show_all_elements() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let y = x.incr_batch_dims();
    assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(y.to_string(), "f32[2 | 2] [[1, 2], [3, 4]]");
    assert_eq!(
        y.incr_batch_dims().to_string(),
        "f32[2, 2 |] [[1, 2], [3, 4]]"
    );
    assert_eq!(format!("{y:?}"), "Tensor(f32[2 | 2], realised)");
    assert_eq!(y.to_ndarray::<f32>().shape(), [2, 2]);
    let error = y.sum(..).try_item::<f32>().unwrap_err();
    assert!(error.to_string().contains("f32[2 |]"), "{error}");
    assert_eq!(
        y.slice([0], [1], [1])
            .sum(..)
            .move_axis_from_batch_dims(0, 0)
            .sum(..)
            .item::<f32>(),
        4.0
    );
    let sum = &y + 1.0;
    assert!(!sum.is_realised());
    evaluate(&sum).unwrap();
    assert!(sum.is_realised());
    assert!(gradloom::explain(&(&y + 1.0).sum(0)).contains("loop"));
    assert_eq!(y.zeros_like().aval(), y.aval());
    assert_eq!(y.full_like(3).to_vec::<f32>(), [3.0; 4]);
}

#[test]
fn other_transforms_take_tensors_with_a_prefix() {
    let (x, w) = (noise(&[5, 3, 4], 1), noise(&[5, 4], 2));
    let (bx, bw) = (x.incr_batch_dims(), w.incr_batch_dims());
    let both = |f: fn(&Tensor, &Tensor) -> Tensor| {
        let lanes: Vec<Tensor> = (0..5).map(|i| f(&lane(&x, i), &lane(&w, i))).collect();
        near(&f(&bx, &bw), &Tensor::stack(&lanes, 0).incr_batch_dims());
    };
    both(|x, w| vmap(|x: &Tensor| (x * 2.0).sin().sum(..))(x) + w.sum(..));
    both(|x, w| vmap(|x: &Tensor| x * w)(x));
    both(|x, w| {
        Vmap::new(|x: &Tensor| x.sum(..) * w)
            .in_axes(1)
            .out_axes(1)
            .call(x)
    });
    both(|x, w| vmap(|(x, w): &(Tensor, Tensor)| x * w)(&(x.clone(), w.broadcast_to([3, 4]))));
    both(|x, w| {
        Vmap::new(|(x, w): &(Tensor, Tensor)| x * w)
            .in_axes((0, None))
            .call(&(x.clone(), w.clone()))
    });
    both(|x, w| {
        let (last, all) = scan(|h: &Tensor, x: &Tensor| ((h + x).sin(), h * x), w, x);
        last + all.sum(0)
    });
    both(|x, w| {
        Scan::new(|h: &Tensor, x: &Tensor| ((h * x).sin(), h * 1.0))
            .reverse()
            .call(w, x)
            .1
    });
    both(|x, w| gradloom::map(|x: &Tensor| x.sin() * w, x));
    both(|x, w| {
        fori_loop(
            0..3,
            |i: &Tensor, y: &Tensor| y.sin() + i.cast(DType::F64) * x,
            &(x * w),
        )
    });
    both(|x, w| {
        cond(
            &Tensor::from(true),
            |x: &Tensor| x * w,
            |x: &Tensor| x + w,
            x,
        )
    });
    both(|x, w| {
        switch(
            &Tensor::from(1i64),
            &[&|x: &Tensor| x * w, &|x: &Tensor| x + w],
            x,
        )
    });
    both(|x, w| gradloom::checkpoint(|x: &Tensor| x.sin() * 2.0)(x) * w);
    both(|x, w| {
        let (_, y) = while_loop(
            |(i, _): &(Tensor, Tensor)| i.lt(3),
            |(i, y): &(Tensor, Tensor)| (i + 1, y.sin()),
            &(Tensor::from(0i64), x * w),
        );
        y
    });
    let soft = |x: &Tensor| {
        custom_jvp(
            |x: &Tensor| x.exp(),
            |_: &Tensor, _: &Tensor, dx: &Tensor| dx * 3.0,
        )(x)
    };
    near(&soft(&bx).decr_batch_dims(), &x.exp());
    near(
        &grad(|x: &Tensor| soft(x).sum(..))(&bx),
        &(bx.zeros_like() + 3.0),
    );
    let own = |x: &Tensor| {
        custom_vjp(
            |x: &Tensor| x.exp(),
            |x: &Tensor| (x.exp(), x.clone()),
            |x: &Tensor, ct: &Tensor| x * ct,
        )(x)
    };
    near(&grad(|x: &Tensor| own(x).sum(..))(&bx), &bx);
    // Derivatives through a loop.
    let last = |w: &Tensor| {
        scan(|h: &Tensor, x: &Tensor| ((h * x).sin(), ()), w, &bx)
            .0
            .sum(..)
    };
    let of_lane = |i: usize| {
        let x = lane(&x, i);
        grad(|w: &Tensor| {
            scan(|h: &Tensor, x: &Tensor| ((h * x).sin(), ()), w, &x)
                .0
                .sum(..)
        })(&lane(&w, i))
    };
    let lanes: Vec<Tensor> = (0..5).map(of_lane).collect();
    near(
        &grad(last)(&bw),
        &Tensor::stack(&lanes, 0).incr_batch_dims(),
    );
    // A state that gets a prefix, and a condition that has one.
    let start = Tensor::zeros([4], DType::F64);
    let text = fails(|| {
        scan(
            |h: &Tensor, x: &Tensor| -> Result<(Tensor, ())> { Ok((h + x, ())) },
            &start,
            &bx,
        )
    });
    assert_eq!(
        text,
        "the next state of `carry` is f64[5 | 4], expected f64[4]"
    );
    let text = fails(|| {
        cond(
            &bw.sum(..).gt(0.0),
            |x: &Tensor| -> Result<Tensor> { Ok(x * 1.0) },
            |x: &Tensor| Ok(x * 2.0),
            &bx,
        )
    });
    assert_eq!(text, "`cond`: the condition is bool[5 |], expected bool[]");
    let text = fails(|| {
        switch(
            &Tensor::from([0i64, 1]).incr_batch_dims(),
            &[&|x: &Tensor| -> Result<Tensor> { Ok(x.clone()) }],
            &x,
        )
    });
    assert_eq!(
        text,
        "`switch`: the index is i64[2 |], expected i32[] or i64[]"
    );
    // Per-element Jacobians are those of `vmap`.
    assert!(matches!(
        jacrev(|x: &Tensor| -> Result<Tensor> { Ok(x.sin()) })(&bx),
        Err(Error::Mismatch { .. })
    ));
    assert!(matches!(
        jacfwd(|x: &Tensor| -> Result<Tensor> { Ok(x.sin()) })(&bx),
        Err(Error::Mismatch { .. })
    ));
    near(
        &jacfwd(|s: &Tensor| (s * &bx).sum(0))(&Tensor::from(2.0f64)),
        &bx.sum(0),
    );
}

#[traced]
fn layer(x: &Tensor, w: &Tensor) -> Tensor {
    let rows = x.dim(0);
    let h = x.matmul(w).tanh();
    (h * (rows as f64)).sum(0)
}

#[traced]
fn energy(x: &Tensor, w: &Tensor) -> Tensor {
    layer(x, w).square().sum(..)
}

#[traced]
fn repeated(x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    let mut y = x * 1.0;
    for _ in 0..n {
        y = y.matmul(w).sin();
    }
    y.sum(..)
}

#[traced]
fn by_views(x: &Tensor) -> Tensor {
    let y = x.move_axis_to_batch_dims(1);
    let y = y.softmax(0) * (y.batch_dims() as f64);
    y.move_axis_from_batch_dims(0, 1)
}

#[traced]
fn prefixed(x: &Tensor) -> Tensor {
    x.sin().incr_batch_dims()
}

#[traced]
fn prefixed_or_not(x: &Tensor, more: bool) -> Result<Tensor> {
    Ok(if more { x.incr_batch_dims() } else { x * 2.0 })
}

#[traced]
fn whole(x: &Tensor) -> Tensor {
    x.decr_batch_dims()
}

#[traced(pure, record)]
fn inner(h: &Tensor, x: &Tensor) -> Tensor {
    (h.sin() * x).sum(..) * h
}

#[traced]
fn outer(x: &Tensor, w: &Tensor) -> (Tensor, Tensor, Tensor) {
    let h = w * 2.0;
    let a = inner(&h, w);
    let b = inner(&h, x);
    ((&a * x + &h * x).cos(), (w * w + &a).sum(..), b * w)
}

#[test]
fn companions_add_cotangents_of_what_elements_share_once() {
    let (x, w) = (noise(&[5, 4], 1).incr_batch_dims(), noise(&[4], 2));
    let (deep, wide) = (noise(&[2, 5, 4], 3), noise(&[1, 4], 4));
    let deep = deep.incr_batch_dims().incr_batch_dims();
    for (x, w) in [
        (&x, &w),
        (&w, &x),
        (&x, &x),
        (&deep, &x),
        (&x, &wide.incr_batch_dims()),
    ] {
        let plain = |(x, w): &(Tensor, Tensor)| {
            let inner = |h: &Tensor, x: &Tensor| (h.sin() * x).sum(..) * h;
            let h = w * 2.0;
            let a = inner(&h, w);
            (
                (&a * x + &h * x).cos(),
                (w * w + &a).sum(..),
                inner(&h, x) * w,
            )
        };
        let args = (x.clone(), w.clone());
        let (y, pullback) = outer::vjp(x, w);
        let ct = (y.0.cos(), y.1.cos(), y.2.cos());
        let (ex, ew) = vjp(plain, &args).1.call(&ct);
        let (cx, cw) = pullback(&ct);
        near(&cx, &ex);
        near(&cw, &ew);
        let (dx, dw) = (x.sin(), w.sin());
        let (_, dy) = outer::jvp((x, w), (&dx, &dw));
        let (_, expected) = jvp(plain, &args, &(dx, dw));
        near(&dy.0, &expected.0);
        near(&dy.1, &expected.1);
        near(&dy.2, &expected.2);
    }
}

#[test]
fn traced_functions_take_and_return_prefixes() {
    let (x, w) = (noise(&[5, 3, 4], 1), noise(&[4, 4], 2));
    let (bx, bw) = (x.incr_batch_dims(), noise(&[5, 4, 4], 3).incr_batch_dims());
    for _ in 0..3 {
        // The plan of the physical shape does not serve the logical one, nor the reverse.
        near(&layer(&x, &w), &(x.matmul(&w).tanh() * 5.0).sum(0));
        near(
            &layer(&bx, &w).decr_batch_dims(),
            &vmap(|x: &Tensor| layer(x, &w))(&x),
        );
        near(
            &layer(&lane(&x, 0), &w),
            &lane(&layer(&bx, &w).decr_batch_dims(), 0),
        );
    }
    let one = |x: &Tensor, w: &Tensor| (x.matmul(w).tanh() * 3.0).sum(0).square().sum(..);
    near(&energy(&bx, &bw), &one(&bx, &bw));
    // Companions agree with transforms of closures, also for what the elements share.
    for w in [&w, &bw] {
        for x in [&lane(&x, 0), &bx] {
            let args = (x.clone(), w.clone());
            let found = energy::grad(x, w);
            let (gx, gw) = grad(|(x, w): &(Tensor, Tensor)| one(x, w))(&args);
            near(&found.x, &gx);
            near(&found.w, &gw);
            let (y, pullback) = layer::vjp(x, w);
            let (cx, cw) = pullback(&y.cos());
            let (ex, ew) = vjp(
                |(x, w): &(Tensor, Tensor)| (x.matmul(w).tanh() * 3.0).sum(0),
                &args,
            )
            .1
            .call(&y.cos());
            near(&cx, &ex);
            near(&cw, &ew);
            let (_, dy) = layer::jvp((x, w), (&x.sin(), &w.sin()));
            near(
                &dy,
                &jvp(
                    |(x, w): &(Tensor, Tensor)| layer(x, w),
                    &args,
                    &(x.sin(), w.sin()),
                )
                .1,
            );
            near(
                &repeated(x, w, 3),
                &(0..3).fold(x.clone(), |y, _| y.matmul(w).sin()).sum(..),
            );
            let found = repeated::grad(x, w, 3);
            let (gx, gw) = grad(|(x, w): &(Tensor, Tensor)| {
                (0..3).fold(x.clone(), |y, _| y.matmul(w).sin()).sum(..)
            })(&args);
            near(&found.x, &gx);
            near(&found.w, &gw);
        }
    }
    for _ in 0..3 {
        near(&by_views(&lane(&x, 0)), &lane(&x, 0).softmax(0));
        near(&prefixed(&x), &x.sin().incr_batch_dims());
        let (y, pullback) = vjp(prefixed, &x);
        near(&y, &x.sin().incr_batch_dims());
        near(&pullback.call(&y), &(x.cos() * x.sin()));
        near(
            &by_views::vjp(&lane(&x, 0)).1(&lane(&x, 1)),
            &vjp(|x: &Tensor| x.softmax(0), &lane(&x, 0))
                .1
                .call(&lane(&x, 1)),
        );
    }
    // A companion relies on the rule for the prefix of a result.
    let text = fails(|| prefixed_or_not::vjp(&x, true).map(|(y, _)| y));
    assert_eq!(
        text,
        "vjp: a traced function changes a batch prefix, on the way to or from f64[5 | 3, 4]: use `gradloom::vjp` or `gradloom::grad` of a closure that calls it"
    );
    assert!(prefixed_or_not::vjp(&x, false).is_ok());
    let text = std::panic::catch_unwind(|| whole::vjp(&bx).1(&x)).unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("changes a batch prefix"), "{text}");
    near(&vjp(whole, &bx).1.call(&x), &bx);
    let text = fails(|| -> Result<Tensor> {
        vjp(
            |x: &Tensor| -> Result<Tensor> {
                Ok(layer(x, &noise(&[3, 4, 4], 1).incr_batch_dims()))
            },
            &bx,
        )
        .map(|(y, _)| y)
    });
    assert!(
        text.contains("f64[5 | 3, 4] and f64[3 | 4, 4] do not align"),
        "{text}"
    );
}

#[test]
fn trees_and_keys_take_prefixes() {
    let x = noise(&[5, 3], 1);
    let model = vec![x.incr_batch_dims(), x.clone()];
    let twice = tree::add(&model, &model);
    near(&twice[0], &(&x * 2.0).incr_batch_dims());
    assert!(tree::is_close(&twice, &tree::scale(&model, 2.0), 1e-12));
    assert!(fault(|x| tree::add(x, &x.incr_batch_dims()), &x).contains("f64[5 | 3]"));
    let adam = gradloom::optim::Adam::default();
    let (next, _) = adam.step(&model, &twice, &adam.init(&model));
    assert_eq!(next[0].aval(), model[0].aval());
    let keys = Key::new(0).split_lanes(3);
    let all = vmap(|key: &Key| key.duplicate().normal([2], DType::F64))(&keys);
    let prefixed = keys.map(&mut |words| words.incr_batch_dims());
    near(&prefixed.normal([2], DType::F64), &all.incr_batch_dims());
    let one = Key::new(0)
        .split_lanes(1)
        .map(&mut |words| words.incr_batch_dims());
    assert_eq!(one.normal([2], DType::F64).aval().to_string(), "f64[1 | 2]");
}

/// Draws the value of a parameter for which a sample is valid.
fn draw(
    random: &mut Random,
    program: &Program,
    param: Var,
    laws: &Laws,
    prefix: &[usize],
) -> Tensor {
    let aval = program.aval(param);
    let one = aval.shape.known().expect("samples have known shapes");
    let shape = [prefix, &one].concat();
    let drawn = NdArray::build(&shape, |i| {
        let unit = random.unit();
        match aval.dtype {
            Some(DType::Bool) => f64::from(unit < 0.5),
            Some(DType::I32 | DType::I64) => (unit * 3.0).floor(),
            _ => laws.domain.0 + (laws.domain.1 - laws.domain.0) * unit + laws.added(&i),
        }
    });
    let dtype = aval.dtype.expect("samples have known dtypes");
    Tensor::from_vec(drawn.data, shape).cast(dtype)
}

/// A linear congruential generator, which gives the same numbers in every run.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.cast(DType::F64).to_vec::<f64>()
}

/// Returns the part of a tensor for an index of the longest prefix.
fn part(x: &Tensor, index: &[usize]) -> Tensor {
    let n = x.batch_dims();
    let mut part = (0..n).fold(x.clone(), |x, _| x.decr_batch_dims());
    for (i, len) in index[index.len() - n..].iter().zip(x.batch_shape()) {
        part = lane(&part, if *len == 1 { 0 } else { *i });
    }
    part
}

/// Compares a program on operands with prefixes with a loop over the elements of the longest prefix.
fn check(random: &mut Random, program: &Program, laws: &Laws, prefixes: &[&[usize]]) {
    let drawn = program.params.iter().zip(prefixes).map(|(param, prefix)| {
        let x = draw(random, program, *param, laws, prefix);
        (0..prefix.len()).fold(x, |x, _| x.incr_batch_dims())
    });
    let args: Vec<Tensor> = drawn.collect();
    let context = || format!("{program}\n{prefixes:?}");
    let found = replay(program, &args).unwrap_or_else(|e| panic!("{e}\n{}", context()));
    let n = prefixes.iter().map(|prefix| prefix.len()).max().unwrap();
    let lens: Vec<usize> = (1..=n)
        .rev()
        .map(|end| {
            prefixes
                .iter()
                .filter_map(|p| p.iter().nth_back(end - 1))
                .copied()
                .max()
                .unwrap()
        })
        .collect();
    let mut expected = vec![Vec::new(); found.len()];
    for flat in 0..lens.iter().product() {
        let mut rest = flat;
        let mut index: Vec<usize> = lens
            .iter()
            .rev()
            .map(|len| {
                let i = rest % len;
                rest /= len;
                i
            })
            .collect();
        index.reverse();
        let parts: Vec<Tensor> = args.iter().map(|x| part(x, &index)).collect();
        let outs = replay(program, &parts).unwrap();
        for (expected, out) in expected.iter_mut().zip(outs) {
            expected.push(out);
        }
    }
    evaluate((&found, &expected)).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            (found.batch_shape(), found.dtype()),
            (&lens[..], expected[0].dtype()),
            "{}",
            context()
        );
        assert_eq!(found.shape(), expected[0].shape(), "{}", context());
        let expected: Vec<f64> = expected.iter().flat_map(numbers).collect();
        for (x, y) in numbers(found).iter().zip(&expected) {
            let near =
                (x - y).abs() <= 1e-9 * (1.0 + y.abs()) || x == y || x.is_nan() && y.is_nan();
            assert!(near, "{found}\n{expected:?}\n{}", context());
        }
    }
}

/// Row S1.35b of the requirements.
#[test]
fn every_op_on_a_prefix_gives_what_a_loop_over_its_elements_gives() {
    let mut random = Random(1);
    let mut checked = 0;
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        let laws = op.def().laws();
        let texts: Vec<String> = match op.def().eval() {
            Eval::Unary(_) | Eval::Test(_) => {
                vec![format!("(x: f64[2, 3]) {{ y = {op} x return y }}")]
            }
            Eval::Binary(_) | Eval::Compare(_) => ["f64[2, 3]", "f64[2, 1]", "f64[3]", "f64[]"]
                .map(|y| format!("(x: f64[2, 3], y: {y}) {{ z = {op} x, y return z }}"))
                .to_vec(),
            _ => laws.samples.iter().map(|s| s.to_string()).collect(),
        };
        for text in texts {
            let program: Program = text.parse().unwrap_or_else(|e| panic!("{text}\n{e}"));
            // Of a like operand only dtype and shape matter.
            let is_data = |p: &Var| program.eqns.iter().any(|eqn| eqn.data().contains(p));
            let data: Vec<bool> = program.params.iter().map(is_data).collect();
            let n = data.len();
            // All operands alike, each operand alone, and prefixes of several lengths.
            let mut choices: Vec<Vec<&[usize]>> = vec![vec![&[2]; n], vec![&[1, 2]; n]];
            for i in 0..n {
                let all: [&[usize]; 4] = [&[2, 3], &[3], &[], &[2, 1]];
                choices.push((0..n).map(|j| all[(i + j) % 4]).collect());
                let alone: [&[usize]; 2] = [&[], &[2]];
                choices.push((0..n).map(|j| alone[usize::from(i == j)]).collect());
            }
            for mut prefixes in choices {
                let only_data = prefixes.iter_mut().zip(&data);
                only_data.for_each(|(prefix, data)| {
                    if !data {
                        *prefix = &[];
                    }
                });
                if prefixes.iter().any(|prefix| !prefix.is_empty()) {
                    check(&mut random, &program, &laws, &prefixes);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}
