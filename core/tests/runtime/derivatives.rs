//! Transforms of closures.

use gradloom::{
    DType, Error, JacobianRows, Result, Tensor, Tree, evaluate, grad, hessian, hvp, jacfwd, jacrev,
    jvp, value_and_grad, vjp,
};
use std::cell::RefCell;

fn scalar(x: f64) -> Tensor {
    Tensor::scalar(x)
}

#[test]
fn a_nested_derivative_does_not_see_the_tangent_of_the_outer_one() {
    // d/dx [x * d/dy (x + y)] = 1, not 2: Siskind and Pearlmutter's perturbation confusion.
    let inner = |x: &Tensor| {
        let dy = grad(|y: &Tensor| x + y)(&scalar(1.0));
        x * dy
    };
    assert_eq!(grad(inner)(&scalar(1.0)).item::<f64>(), 1.0);
    let inner = |x: &Tensor| {
        let (_, dy) = jvp(|y: &Tensor| x + y, &scalar(1.0), &scalar(1.0));
        x * dy
    };
    assert_eq!(jvp(inner, &scalar(1.0), &scalar(1.0)).1.item::<f64>(), 1.0);
    // d/dx [x * d/dy (x y^2)] at y = 3 = d/dx [6 x^2] = 12 x.
    let inner = |x: &Tensor| x * grad(|y: &Tensor| x * y * y)(&scalar(3.0));
    assert_eq!(grad(inner)(&scalar(2.0)).item::<f64>(), 24.0);
    // The inner transform is applied to the argument of the outer one.
    let inner = |x: &Tensor| x * grad(|y: &Tensor| y * y * y)(x);
    assert_eq!(grad(inner)(&scalar(2.0)).item::<f64>(), 36.0);
}

#[test]
fn stop_gradient_is_constant_for_derivatives_of_any_order() {
    // f = stop(x^2) x: f' = stop(x^2), and f'' = 0.
    let f = |x: &Tensor| (x * x).stop_gradient() * x;
    assert_eq!(f(&scalar(3.0)).item::<f64>(), 27.0);
    assert_eq!(grad(f)(&scalar(3.0)).item::<f64>(), 9.0);
    assert_eq!(jvp(f, &scalar(3.0), &scalar(2.0)).1.item::<f64>(), 18.0);
    assert_eq!(grad(grad(f))(&scalar(3.0)).item::<f64>(), 0.0);
}

#[test]
fn derivatives_of_any_order_agree_with_the_power_rule() {
    let f = |x: &Tensor| x * x * x * x * x;
    let f1 = grad(f);
    let f2 = grad(&f1);
    let f3 = grad(&f2);
    let f4 = grad(&f3);
    let at = scalar(2.0);
    let values = [&f1(&at), &f2(&at), &f3(&at), &f4(&at)].map(|d| d.item::<f64>());
    assert_eq!(values, [80.0, 160.0, 240.0, 240.0]);
}

#[test]
fn captured_tensors_are_constants() {
    let w = Tensor::from([2.0f64, 3.0]);
    let f = |x: &Tensor| (x * &w).sum(..);
    assert_eq!(
        grad(f)(&Tensor::from([1.0f64, 1.0])).to_vec::<f64>(),
        [2.0, 3.0]
    );
    let promise = w.exp().log();
    let f = |x: &Tensor| (x * &promise).sum(..);
    let g = grad(f)(&Tensor::from([1.0f64, 1.0]));
    assert!(!promise.is_realised());
    assert_eq!(g.to_vec::<f64>(), promise.to_vec::<f64>());
}

#[test]
fn reading_values_in_a_closure_does_not_change_its_derivative() {
    let seen = RefCell::new(Vec::new());
    let f = |x: &Tensor| {
        let y = x * x;
        seen.borrow_mut().push(y.to_vec::<f64>());
        let z = &y * x;
        evaluate(&z).unwrap();
        if z.sum(..).item::<f64>() > 5.0 {
            z.sum(..)
        } else {
            y.sum(..)
        }
    };
    assert_eq!(
        grad(&f)(&Tensor::from([1.0f64, 2.0])).to_vec::<f64>(),
        [3.0, 12.0]
    );
    assert_eq!(
        grad(&f)(&Tensor::from([1.0f64, 0.5])).to_vec::<f64>(),
        [2.0, 1.0]
    );
    assert_eq!(seen.into_inner(), [[1.0, 4.0], [1.0, 0.25]]);
}

#[test]
fn a_value_that_escapes_the_closure_can_be_used() {
    let leaked = RefCell::new(None);
    let f = |x: &Tensor| {
        let y = x * x;
        *leaked.borrow_mut() = Some(y.clone());
        y.sum(..)
    };
    let x = Tensor::from([1.0f64, 3.0]);
    grad(f)(&x);
    let y = leaked.into_inner().unwrap();
    assert_eq!(y.to_vec::<f64>(), [1.0, 9.0]);
    assert_eq!(
        grad(|y: &Tensor| (y * y).sum(..))(&y).to_vec::<f64>(),
        [2.0, 18.0]
    );
}

#[test]
fn unused_arguments_and_constant_results_have_derivative_zero() {
    let x = (scalar(1.0), Tensor::from([1.0f64, 2.0]));
    let f = |(a, _): &(Tensor, Tensor)| (a * 2.0, Tensor::from([7i64]), Tensor::scalar(1.0f64));
    let (y, pullback) = vjp(f, &x);
    assert_eq!(y.0.item::<f64>(), 2.0);
    assert_eq!(y.1.to_vec::<i64>(), [7]);
    let ct = (scalar(3.0), Tensor::from([0i64]), scalar(5.0));
    let (ct_a, ct_b) = pullback.call(&ct);
    assert_eq!(ct_a.item::<f64>(), 6.0);
    assert_eq!(ct_b.to_vec::<f64>(), [0.0, 0.0]);
    let (_, dy) = jvp(f, &x, &x);
    assert_eq!(dy.0.item::<f64>(), 2.0);
    assert_eq!(dy.1.to_vec::<i64>(), [0]);
    assert_eq!(dy.2.item::<f64>(), 0.0);
}

#[test]
fn a_result_may_be_the_argument_or_occur_twice() {
    let f = |x: &Tensor| (x.clone(), x.clone(), -x);
    let (y, pullback) = vjp(f, &scalar(2.0));
    assert_eq!(y.2.item::<f64>(), -2.0);
    let ct = (scalar(1.0), scalar(10.0), scalar(100.0));
    assert_eq!(pullback.call(&ct).item::<f64>(), -89.0);
}

#[test]
fn a_pullback_is_linear_and_may_be_called_again() {
    let x = Tensor::from([0.5f64, -1.0, 2.0]);
    let (_, pullback) = vjp(|x: &Tensor| x.tanh(), &x);
    let one = pullback.call(&Tensor::ones([3], DType::F64));
    let two = pullback.call(&Tensor::full([3], 2.0, DType::F64));
    let ratio: Vec<f64> = (two / one).to_vec();
    assert_eq!(ratio, [2.0; 3]);
    // The only residual is the result of `tanh`.
    assert_eq!(pullback.bytes(), 24);
}

#[test]
fn the_pullback_of_a_sum_keeps_no_bytes() {
    let (_, pullback) = vjp(|x: &Tensor| x.sum(0), &Tensor::zeros([3, 4], DType::F32));
    assert_eq!(pullback.bytes(), 0);
    let ct = pullback.call(&Tensor::from([1.0f32, 2.0, 3.0, 4.0]));
    assert_eq!(ct.sum(..).item::<f32>(), 30.0);
}

#[test]
fn jacobians_in_both_modes_agree() {
    let w = Tensor::from_vec((0..6).map(|i| f64::from(i) * 0.3 - 0.7).collect(), [2, 3]);
    let f = |x: &Tensor| w.matmul(x).tanh();
    let x = Tensor::from([0.1f64, -0.4, 0.9]);
    let (forward, reverse) = (jacfwd(f)(&x), jacrev(f)(&x));
    assert_eq!(forward.shape(), [2, 3]);
    let worst = (&forward - &reverse).abs().max(..).item::<f64>();
    assert!(worst < 1e-15, "{worst}");
    let empty = jacrev(|x: &Tensor| x * x)(&Tensor::zeros([0], DType::F64));
    assert_eq!(empty.shape(), [0, 0]);
}

#[test]
fn hessian_and_hvp_agree_with_the_formula() {
    // f = sum x_i^2 x_{i+1}; f_ii = 2 x_{i+1}, f_{i,i+1} = 2 x_i.
    let f = |x: &Tensor| {
        let (a, b) = (x.slice([0], [2], [1]), x.slice([1], [3], [1]));
        (&a * &a * b).sum(..)
    };
    let x = Tensor::from([1.0f64, 2.0, 3.0]);
    let h = hessian(f)(&x);
    assert_eq!(
        h.to_vec::<f64>(),
        [4.0, 2.0, 0.0, 2.0, 6.0, 4.0, 0.0, 4.0, 0.0]
    );
    let v = Tensor::from([1.0f64, -1.0, 2.0]);
    assert_eq!(hvp(f, &x, &v).to_vec::<f64>(), h.matmul(&v).to_vec::<f64>());
}

/// A line in the plane with a frozen label.
#[derive(Clone, Debug, Tree)]
struct Line {
    slope: Tensor,
    offset: Vec<Tensor>,
    #[nodiff]
    label: Tensor,
}

fn line() -> Line {
    Line {
        slope: Tensor::from([2.0f64, 3.0]),
        offset: vec![Tensor::from([[5.0f64, 7.0]])],
        label: Tensor::from([1i64, 2, 3]),
    }
}

#[track_caller]
fn is(x: &Tensor, shape: &[usize], expected: &[f64]) {
    assert_eq!((x.shape(), x.to_vec::<f64>()), (shape, expected.to_vec()));
}

#[test]
fn a_jacobian_has_a_block_for_each_leaf_of_the_argument() {
    // y_i = slope_i offset_i, so the blocks are diagonal.
    let f = |line: &Line| &line.slope * line.offset[0].reshape([2]);
    for j in [jacfwd(f)(&line()), jacrev(f)(&line())] {
        is(&j.slope, &[2, 2], &[5.0, 0.0, 0.0, 7.0]);
        is(&j.offset[0], &[2, 1, 2], &[2.0, 0.0, 0.0, 3.0]);
        assert_eq!(j.label.shape(), [2, 3]);
        assert_eq!(j.label.cast(DType::F64).to_vec::<f64>(), [0.0; 6]);
    }
}

#[test]
fn a_jacobian_has_a_tree_of_blocks_for_each_leaf_of_the_result() {
    let x = (Tensor::from([2.0f64, 3.0]), vec![scalar(5.0)]);
    type Argument = (Tensor, Vec<Tensor>);
    let f = |(x, s): &Argument| {
        [
            (x * &s[0], None),
            (x.square().sum(..), Some(s[0].square() * &s[0])),
        ]
    };
    for j in [jacfwd(f)(&x), jacrev(f)(&x)] {
        let [
            ((xs_x, xs_s), None),
            ((norm_x, norm_s), Some((cube_x, cube_s))),
        ] = &j
        else {
            panic!("{j:?}");
        };
        is(xs_x, &[2, 2], &[5.0, 0.0, 0.0, 5.0]);
        is(&xs_s[0], &[2], &[2.0, 3.0]);
        is(norm_x, &[2], &[4.0, 6.0]);
        is(&norm_s[0], &[], &[0.0]);
        is(cube_x, &[2], &[0.0, 0.0]);
        is(&cube_s[0], &[], &[75.0]);
    }
    // The result is a struct.
    let f = |x: &Tensor| Line {
        slope: x.square(),
        offset: vec![x.sum(..)],
        label: Tensor::from([1i64]),
    };
    for j in [jacfwd(f)(&x.0), jacrev(f)(&x.0)] {
        is(j.row(|y| &y.slope), &[2, 2], &[4.0, 0.0, 0.0, 6.0]);
        is(j.row(|y| &y.offset[0]), &[2], &[1.0, 1.0]);
        assert_eq!(j.row(|y| &y.label).shape(), [1, 2]);
        let paths = gradloom::tree::leaves_with_paths(&j)
            .into_iter()
            .map(|(path, _)| path);
        assert_eq!(paths.collect::<Vec<_>>(), ["slope", "offset[0]", "label"]);
    }
}

#[test]
fn a_hessian_has_a_block_for_each_pair_of_leaves() {
    // f = sum slope^2 offset; f_ss = 2 offset, f_so = 2 slope, f_oo = 0.
    let f = |line: &Line| (line.slope.square() * &line.offset[0]).sum(..);
    let h = hessian(f)(&line());
    let (by_slope, by_offset) = (h.row(|l| &l.slope), h.row(|l| &l.offset[0]));
    is(&by_slope.slope, &[2, 2], &[10.0, 0.0, 0.0, 14.0]);
    is(&by_slope.offset[0], &[2, 1, 2], &[4.0, 0.0, 0.0, 6.0]);
    is(&by_offset.slope, &[1, 2, 2], &[4.0, 0.0, 0.0, 6.0]);
    is(&by_offset.offset[0], &[1, 2, 1, 2], &[0.0; 4]);
    assert_eq!(h.row(|l| &l.label).slope.shape(), [3, 2]);
    // It is the Jacobian of the gradient, in both modes. A block has the dtype of its row in forward mode.
    gradloom::tree::assert_close(&jacfwd(grad(f))(&line()), &h, 0.0);
    let reverse = jacrev(grad(f))(&line());
    let floats = |h: &JacobianRows<Line, Line>| {
        let of_row = |row: &Line| (row.slope.clone(), row.offset.clone());
        (of_row(h.row(|l| &l.slope)), of_row(h.row(|l| &l.offset[0])))
    };
    gradloom::tree::assert_close(&floats(&reverse), &floats(&h), 0.0);
    assert_eq!(h.row(|l| &l.slope).label.dtype(), DType::F64);
    assert_eq!(reverse.row(|l| &l.slope).label.dtype(), DType::I64);
    // A third derivative, and one for each lane.
    let third = jacfwd(hessian(f))(&line());
    let slopes = third.row(|h| &h.row(|l| &l.slope).slope);
    is(
        &slopes.offset[0],
        &[2, 2, 1, 2],
        &[2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0],
    );
    let lanes = line().map(&mut |leaf| Tensor::stack(&[leaf.clone(), leaf + leaf], 0));
    let all = gradloom::vmap(hessian(f))(&lanes);
    let slopes = &all.row(|l| &l.slope).slope;
    is(
        slopes,
        &[2, 2, 2],
        &[10.0, 0.0, 0.0, 14.0, 20.0, 0.0, 0.0, 28.0],
    );
}

#[test]
fn all_columns_of_a_jacobian_are_one_batch() {
    let n_runs = std::cell::Cell::new(0);
    let f = |(a, b): &(Tensor, Tensor)| {
        n_runs.set(n_runs.get() + 1);
        a.sin() * b.sum(..)
    };
    let x = (
        Tensor::zeros([7], DType::F64),
        Tensor::zeros([5], DType::F64),
    );
    let (forward, reverse) = (jacfwd(f)(&x), jacrev(f)(&x));
    assert_eq!(n_runs.get(), 2);
    assert_eq!(
        (forward.0.shape(), reverse.1.shape()),
        (&[7, 7][..], &[7, 5][..])
    );
    // A leaf without elements, and no leaves.
    let empty = (Tensor::zeros([0], DType::F64), scalar(2.0));
    let j = jacfwd(|(a, b): &(Tensor, Tensor)| a.sum(..) + b * b)(&empty);
    assert_eq!((j.0.shape(), j.1.item::<f64>()), (&[0][..], 4.0));
    assert!(jacrev(|_: &Vec<Tensor>| scalar(1.0))(&vec![]).is_empty());
}

#[test]
fn a_leaf_that_is_not_a_float_has_no_jacobian() {
    let x = (scalar(1.0), Tensor::from([1i64, 2]));
    let f = |(x, _): &(Tensor, Tensor)| -> Result<Tensor> { Ok(x.sin()) };
    let g = |x: &Tensor| -> Result<(Tensor, Tensor)> { Ok((x.sin(), x.argmax(0))) };
    let xs = Tensor::from([1.0f64, 2.0]);
    let texts = [
        jacfwd(f)(&x).unwrap_err().to_string(),
        jacrev(f)(&x).unwrap_err().to_string(),
        hessian(f)(&x).unwrap_err().to_string(),
        jacfwd(g)(&xs).unwrap_err().to_string(),
        jacrev(g)(&xs).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    `argument.1` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `argument.1` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `argument.1` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `result.1` is i64[], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `result.1` is i64[], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    ");
}

#[test]
#[should_panic(expected = "`row`: the closure returned a tensor that is not a leaf")]
fn a_row_is_that_of_a_leaf() {
    let h = hessian(|l: &Line| l.slope.square().sum(..))(&line());
    let other: &'static Tensor = Box::leak(Box::new(scalar(1.0)));
    h.row(|_| other);
}

#[test]
fn a_function_that_returns_result_makes_the_transform_return_its_error() {
    let f = |x: &Tensor| -> Result<Tensor> { Ok((x + Tensor::from([1.0f64, 2.0])).sum(..)) };
    let good = value_and_grad(f)(&Tensor::from([1.0f64, 2.0])).unwrap();
    assert_eq!(good.0.item::<f64>(), 6.0);
    let error = grad(f)(&Tensor::from([1.0f64, 2.0, 3.0])).unwrap_err();
    assert!(matches!(error, Error::Op(_)), "{error}");
    let g = |_: &Tensor| -> Result<Tensor> { Tensor::try_from_vec(vec![1.0f64], [2]) };
    assert!(matches!(
        jvp(g, &scalar(1.0), &scalar(1.0)),
        Err(Error::Length { .. })
    ));
}

#[test]
fn a_function_that_panics_leaves_no_open_trace() {
    let result = std::panic::catch_unwind(|| {
        grad(|x: &Tensor| x + Tensor::from([1.0f64, 2.0]).matmul(x))(&scalar(1.0))
    });
    assert!(result.is_err());
    assert_eq!(grad(|x: &Tensor| x * x)(&scalar(3.0)).item::<f64>(), 6.0);
}

/// S1.42: cotangents of broadcast operands have the shapes of the operands, for all pairs of shapes.
#[test]
fn cotangents_of_all_broadcasts() {
    let shapes: [&[usize]; 14] = [
        &[],
        &[1],
        &[3],
        &[0],
        &[1, 1],
        &[1, 3],
        &[2, 1],
        &[2, 3],
        &[2, 0],
        &[1, 2, 3],
        &[4, 1, 1],
        &[4, 2, 1],
        &[4, 1, 3],
        &[4, 2, 3],
    ];
    let fill = |shape: &[usize], step: f64| {
        let n: usize = shape.iter().product();
        Tensor::from_vec((0..n).map(|i| 1.0 + step * i as f64).collect(), shape)
    };
    // The index of the operand's element that is used at an index of the result.
    let of_operand = |at: &[usize], shape: &[usize]| -> usize {
        let at = &at[at.len() - shape.len()..];
        let digits = shape.iter().zip(at);
        digits.fold(0, |all, (len, i)| {
            all * len + if *len == 1 { 0 } else { *i }
        })
    };
    let mut n_pairs = 0;
    for x_shape in shapes {
        for y_shape in shapes {
            let rank = x_shape.len().max(y_shape.len());
            let len = |shape: &[usize], axis: usize| match axis + shape.len() >= rank {
                true => shape[axis + shape.len() - rank],
                false => 1,
            };
            let out: Option<Vec<usize>> = (0..rank)
                .map(|axis| match (len(x_shape, axis), len(y_shape, axis)) {
                    (n, m) if n == m || m == 1 => Some(n),
                    (1, m) => Some(m),
                    _ => None,
                })
                .collect();
            let Some(out) = out else { continue };
            n_pairs += 1;
            let (x, y) = (fill(x_shape, 0.5), fill(y_shape, -0.25));
            let (z, pullback) = vjp(
                |(x, y): &(Tensor, Tensor)| x * y + x,
                &(x.clone(), y.clone()),
            );
            assert_eq!(z.shape(), out);
            let ct = fill(&out, 0.125);
            let (ct_x, ct_y) = pullback.call(&ct);
            let (xs, ys, cts) = (x.to_vec::<f64>(), y.to_vec::<f64>(), ct.to_vec::<f64>());
            let (mut of_x, mut of_y) = (vec![0.0; xs.len()], vec![0.0; ys.len()]);
            for (i, ct) in cts.iter().enumerate() {
                let mut rest = i;
                let mut at = vec![0; rank];
                for axis in (0..rank).rev() {
                    at[axis] = rest % out[axis];
                    rest /= out[axis];
                }
                let (i, j) = (of_operand(&at, x_shape), of_operand(&at, y_shape));
                of_x[i] += ct * (ys[j] + 1.0);
                of_y[j] += ct * xs[i];
            }
            for (found, expected, shape) in [(ct_x, of_x, x_shape), (ct_y, of_y, y_shape)] {
                assert_eq!(found.shape(), shape);
                let found = found.to_vec::<f64>();
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
                assert!(
                    found.iter().zip(&expected).all(near),
                    "{x_shape:?} {y_shape:?}"
                );
            }
        }
    }
    assert!(n_pairs > 100, "{n_pairs}");
}
