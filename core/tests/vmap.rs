//! `vmap` gives what a loop over the lanes gives, also around and inside of other transforms.

use gradloom::prelude::*;
use gradloom::{LaneAxes, Vmap, vjp};

fn noise(shape: &[usize], seed: u64) -> Tensor {
    Key::new(seed).normal(shape, DType::F64)
}

fn lane(x: &Tensor, i: usize) -> Tensor {
    x.slice([i as i64], [i as i64 + 1], [1]).squeeze(0)
}

#[track_caller]
fn near(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.shape(), expected.shape());
    let pairs = found
        .to_vec::<f64>()
        .into_iter()
        .zip(expected.to_vec::<f64>());
    for (x, y) in pairs {
        assert!(
            (x - y).abs() <= 1e-12 * (1.0 + y.abs()),
            "{found:?}\n{expected:?}"
        );
    }
}

/// Compares `vmap` of a function with a loop over the lanes of its argument.
#[track_caller]
fn check(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    let lanes: Vec<Tensor> = (0..x.dim(0)).map(|i| f(&lane(x, i))).collect();
    near(&vmap(&f)(x), &Tensor::stack(&lanes, 0));
}

fn net(w: &Tensor, x: &Tensor) -> Tensor {
    x.matmul(w).tanh().sum(-1).square().mean(..)
}

#[test]
fn values_and_derivatives_are_those_of_a_loop() {
    let w = noise(&[4, 3], 1);
    let x = noise(&[5, 2, 4], 2);
    let f = |x: &Tensor| net(&w, x);
    check(f, &x);
    check(|x: &Tensor| grad(f)(x), &x);
    check(|x: &Tensor| grad(|w: &Tensor| net(w, x))(&w), &x);
    check(|x: &Tensor| hvp(f, x, &x.cos()), &x);
    check(|x: &Tensor| jacrev(|x: &Tensor| x.matmul(&w).tanh())(x), &x);
    check(|x: &Tensor| jacfwd(|x: &Tensor| x.matmul(&w).tanh())(x), &x);
    check(|x: &Tensor| hessian(f)(x), &x);
    check(|x: &Tensor| jvp(f, x, &x.sin()).1, &x);
    check(
        |x: &Tensor| grad(|x: &Tensor| vmap(f)(&Tensor::stack(&[x, x], 0)).sum(..))(x),
        &x,
    );
}

#[test]
fn gradients_flow_through_lanes() {
    let (w, x) = (noise(&[4, 3], 1), noise(&[5, 2, 4], 2));
    let by_lanes = grad(|w: &Tensor| vmap(|x: &Tensor| net(w, x))(&x).sum(..))(&w);
    let total = |w: &Tensor| {
        (0..5)
            .map(|i| net(w, &lane(&x, i)))
            .reduce(|a, b| a + b)
            .unwrap()
    };
    near(&by_lanes, &grad(total)(&w));
    let (_, pullback) = vjp(|x: &Tensor| vmap(|x: &Tensor| net(&w, x))(x), &x);
    let ct = noise(&[5], 3);
    let found = pullback.call(&ct);
    for i in 0..5 {
        near(
            &lane(&found, i),
            &(grad(|x: &Tensor| net(&w, x))(&lane(&x, i)) * lane(&ct, i)),
        );
    }
}

#[test]
fn lanes_nest() {
    let (x, y) = (noise(&[3, 4], 1), noise(&[2, 4], 2));
    let all = vmap(|x: &Tensor| vmap(|y: &Tensor| (x * y).sum(..).exp())(&y))(&x);
    near(&all, &x.matmul(y.transpose()).exp());
}

#[traced]
fn layer(x: &Tensor, w: &Tensor) -> Tensor {
    x.matmul(w).softplus()
}

#[traced]
fn stacked(x: &Tensor, w: &Tensor, #[fixed] n: usize) -> Tensor {
    let mut x = x.clone();
    for _ in 0..n {
        x = layer(&x, w);
    }
    x
}

#[test]
fn traced_functions_have_lanes() {
    let (x, w) = (noise(&[3, 4], 1), noise(&[4, 4], 2));
    check(|x: &Tensor| layer(x, &w), &x);
    check(|x: &Tensor| stacked(x, &w, 3), &x);
    check(|x: &Tensor| stacked::vjp(x, &w, 2).1(&x.cos()).0, &x);
    let ws = noise(&[3, 4, 4], 3);
    check(|w: &Tensor| stacked(&lane(&x, 0), w, 2), &ws);
}

#[test]
fn axes_are_chosen_for_each_part() {
    let (x, w) = (noise(&[2, 5, 3], 1), noise(&[3], 2));
    let f = |(x, w): &(Tensor, Tensor)| x * w;
    let y = Vmap::new(f)
        .in_axes((1, None))
        .out_axes(-1)
        .call(&(x.clone(), w.clone()));
    near(&y, &(&x * &w).moveaxis(1, -1));
    // All lanes share the second result.
    let both = |(x, w): &(Tensor, Tensor)| (x.sum(..), w * 2.0);
    let some: (LaneAxes, LaneAxes) = (0.into(), None.into());
    let (sums, shared) = Vmap::new(both)
        .in_axes((1, None))
        .out_axes(some)
        .call(&(x.clone(), w.clone()));
    near(&sums, &x.sum([0, 2]));
    near(&shared, &(&w * 2.0));
    let (_, repeated) = Vmap::new(both).in_axes((1, None)).call(&(x, w.clone()));
    near(&repeated, &(&w * 2.0).broadcast_to([5, 3]));
    let n = Vmap::new(|w: &Tensor| w * 2.0)
        .in_axes(None)
        .axis_size(3)
        .call(&w);
    near(&n, &(&w * 2.0).broadcast_to([3, 3]));
}

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
    b: Tensor,
}

#[test]
fn fields_of_a_model_have_axes() {
    let model = Dense {
        w: noise(&[3, 4, 2], 1),
        b: noise(&[2], 2),
    };
    let x = noise(&[4], 3);
    let f = |(m, x): &(Dense, Tensor)| x.matmul(&m.w) + &m.b;
    let axes = ([("w", Some(0)), ("b", None)], None);
    let y = Vmap::new(f).in_axes(axes).call(&(model.clone(), x.clone()));
    for i in 0..3 {
        near(&lane(&y, i), &(x.matmul(lane(&model.w, i)) + &model.b));
    }
}

#[test]
fn elements_of_a_list_have_axes() {
    let x = vec![noise(&[2, 3], 1), noise(&[2], 2)];
    let sum = |x: &Vec<Tensor>| &x[0] + x[1].sum(..);
    let y = Vmap::new(sum).in_axes(&[Some(1), None][..]).call(&x);
    near(&y, &(x[0].transpose() + x[1].sum(..)));
    let of_each = |(x, y): &(Vec<Tensor>, Tensor)| &x[0] + &x[1] * y.sum(..);
    let lanes = (vec![x[0].clone(), x[1].clone()], x[1].clone());
    let y = Vmap::new(of_each).in_axes((&[0, 0][..], None)).call(&lanes);
    near(&y, &(&x[0] + x[1].unsqueeze(1) * x[1].sum(..)));
    let one_axis = Vmap::new(|x: &Vec<Tensor>| Ok(&x[0] + 1.0)).in_axes(&[0][..]);
    let error = one_axis.call(&x).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"`vmap`: `in_axes` has 1 entry, and none for `[1]`");
}

#[test]
fn shapes_of_captured_tensors_may_be_rearranged() {
    let (table, v) = (noise(&[4, 3], 1), noise(&[4], 2));
    let rows = Tensor::from([[0i64, 3], [1, 1]]);
    let each = |rows: &Tensor| table.exp().take(rows, 0);
    let lanes: Vec<Tensor> = (0..2).map(|i| each(&lane(&rows, i))).collect();
    near(&vmap(each)(&rows), &Tensor::stack(&lanes, 0));
    check(
        |x: &Tensor| grad(|v: &Tensor| v.matmul(x).sum(..))(&v.exp()),
        &noise(&[3, 4, 2], 3),
    );
}

#[test]
fn no_lanes_and_one_lane() {
    for n in [0, 1] {
        let x = noise(&[n, 3], 1);
        let y = vmap(|x: &Tensor| (x.softmax(0), x.sum(..)))(&x);
        assert_eq!((y.0.shape(), y.1.shape()), (&[n, 3][..], &[n][..]));
        near(&y.0, &x.softmax(1));
    }
}

#[test]
fn integers_and_bools_have_lanes() {
    let labels = Tensor::from([0i64, 2, 1]);
    let x = noise(&[3, 3], 1);
    let losses =
        vmap(|(x, label): &(Tensor, Tensor)| x.cross_entropy(label))(&(x.clone(), labels.clone()));
    for i in 0..3 {
        near(
            &lane(&losses, i),
            &lane(&x, i).cross_entropy(lane(&labels, i)),
        );
    }
    let masks = x.gt(0.0);
    check(|x: &Tensor| x.gt(0.0).select(x, -1.0), &x);
    assert_eq!(
        vmap(|m: &Tensor| m.clone())(&masks).to_vec::<bool>(),
        masks.to_vec::<bool>()
    );
}

fn fails(f: impl Fn(&(Tensor, Tensor)) -> Result<Tensor>, axes: impl Into<LaneAxes>) -> String {
    let x = (noise(&[2, 3], 1), noise(&[3, 3], 2));
    Vmap::new(f).in_axes(axes).call(&x).unwrap_err().to_string()
}

#[test]
fn misfits_are_named() {
    let sum = |(x, y): &(Tensor, Tensor)| Ok(x + y);
    insta::assert_snapshot!(fails(sum, 0), @"`vmap`: the numbers of lanes differ: 2 in `argument.0`, 3 in `argument.1`");
    insta::assert_snapshot!(fails(sum, (0, 2)), @"`vmap`: `argument.1` is f64[3, 3], which has no axis 2 for the lanes");
    insta::assert_snapshot!(fails(sum, None), @"`vmap`: the lanes share all arguments, so give their number with `axis_size(n)`");
    insta::assert_snapshot!(fails(sum, (0,)), @"`vmap`: `in_axes` has 1 entry, and none for `1`");
    insta::assert_snapshot!(fails(sum, &[0][..]), @"`vmap`: `in_axes` names `[0]`, and no such part has a tensor");
    insta::assert_snapshot!(fails(sum, [("0", 0), ("0", 1)]), @"`vmap`: `in_axes` names `0` twice");
    insta::assert_snapshot!(fails(sum, [("w", 0)]), @"`vmap`: `in_axes` names `w`, and no such part has a tensor");
    insta::assert_snapshot!(fails(|(x, y)| Ok(y * x.sum(..).item::<f64>()), (0, None)), @"this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read");
    let differs = Vmap::new(|x: &Tensor| Ok(x * 2.0))
        .out_axes(None)
        .call(&noise(&[2], 1));
    insta::assert_snapshot!(differs.unwrap_err(), @"`vmap`: `result` differs between lanes, so its `out_axes` cannot be `None`");
}

#[test]
#[should_panic(expected = "differs between the lanes of `vmap`")]
fn a_value_that_leaves_a_lane_cannot_be_read() {
    let kept = std::cell::RefCell::new(None);
    vmap(|x: &Tensor| {
        *kept.borrow_mut() = Some(x.sin());
        x.cos()
    })(&noise(&[2], 1));
    kept.take().unwrap().to_vec::<f64>();
}

#[test]
fn each_lane_has_the_numbers_of_its_own_key() {
    let draw = |key: &Key| {
        let [a, b] = key.duplicate().split_n();
        (
            a.normal([2], DType::F64),
            b.permutation(5),
            key.duplicate().uniform([3], DType::F64),
        )
    };
    let found = vmap(draw)(&Key::new(3).split_lanes(4));
    for (i, key) in Key::new(3).split_many(4).into_iter().enumerate() {
        let (normal, order, uniform) = draw(&key);
        near(&lane(&found.0, i), &normal);
        near(&lane(&found.1, i).cast(DType::F64), &order.cast(DType::F64));
        near(&lane(&found.2, i), &uniform);
    }
}
