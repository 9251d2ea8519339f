//! `f::vmap` gives what a loop over the lanes gives, and a call like an earlier one finds its plan.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::{LaneAxes, Scan, Vmap, VmapAxes, prelude::*};
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds, log, makes_no_plan, plans_nothing};
use gradloom_tests::panics::panic_of;

/// Returns lane `i` of each leaf whose lanes are along axis 0.
fn lane<T: Tree>(tree: &T, i: usize) -> T {
    let i = i as i64;
    tree.map(&mut |x| x.slice([i], [i + 1], [1]).squeeze(0))
}

/// Compares the results for `n` lanes with those of a loop.
#[track_caller]
fn check<T: Tree>(all: &T, n: usize, one: impl Fn(usize) -> T) {
    for i in 0..n {
        gradloom::tree::assert_close(&lane(all, i), &one(i), 1e-12);
    }
}

#[derive(Clone, Debug, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

fn layer(n: usize) -> Layer {
    Layer {
        w: noise(&[4, n], 7),
        b: noise(&[n], 8),
    }
}

#[traced]
fn dense(#[shape(I)] x: &Tensor, layer: &Layer, n: usize, scale: f64) -> Tensor {
    let mut y = x.matmul(&layer.w) + &layer.b;
    for _ in 0..n {
        y = y.tanh() * scale;
    }
    y
}

#[test]
fn lanes_are_those_of_a_loop() {
    let (xs, layer) = (noise(&[5, 4], 1), layer(3));
    let all = dense::vmap((0, None), &xs, &layer, 2, 0.5);
    check(&all, 5, |i| dense(&lane(&xs, i), &layer, 2, 0.5));
    let columns = dense::vmap((1, None), &xs.transpose(), &layer, 2, 0.5);
    assert_eq!(bits(&columns), bits(&all));
    // Each lane has a bias of its own.
    let many = Layer {
        w: layer.w.clone(),
        b: noise(&[5, 3], 3),
    };
    let axes = (0, [("w", None), ("b", Some(0))]);
    check(&dense::vmap(axes, &xs, &many, 1, 0.5), 5, |i| {
        let layer = Layer {
            w: layer.w.clone(),
            b: lane(&many.b, i),
        };
        dense(&lane(&xs, i), &layer, 1, 0.5)
    });
    // The axes may be by name. Other arguments have their lanes along axis 0.
    let named = dense::vmap([("layer", None)], &xs, &layer, 2, 0.5);
    assert_eq!(bits(&named), bits(&all));
    let ensemble = Layer {
        w: noise(&[5, 4, 3], 3),
        b: noise(&[5, 3], 3),
    };
    check(&dense::vmap(0, &xs, &ensemble, 1, 0.5), 5, |i| {
        dense(&lane(&xs, i), &lane(&ensemble, i), 1, 0.5)
    });
}

#[test]
fn a_second_call_finds_its_plan() {
    let (xs, layer) = (noise(&[5, 4], 1), layer(3));
    finds(|| dense::vmap((0, None), &xs, &layer, 2, 0.5));
    finds(|| dense::vmap([("layer", None)], &xs, &layer, 2, 0.5));
    let axes: [LaneAxes; 2] = [(0, None).into(), (1, None).into()];
    let square = noise(&[4, 4], 2);
    let found = axes.map(|axes| bits(&dense::vmap(axes, &square, &layer, 2, 0.5)));
    assert_ne!(found[0], found[1]);
}

#[traced]
fn spread(x: &Tensor, w: &Tensor) -> (Tensor, (Tensor, Tensor)) {
    (x * w, (x.sum(..), w.square()))
}

#[traced(pure)]
fn columns(xs: &Tensor, w: &Tensor) -> Tensor {
    let (y, (total, square)) =
        spread::vmap(VmapAxes::new((0, None)).out_axes((1, (0, None))), xs, w);
    y.sum(1) * square + total.sum(..)
}

#[traced]
fn unmarked(xs: &Tensor, w: &Tensor) -> Tensor {
    spread::vmap(VmapAxes::new((0, None)), xs, w).0
}

#[test]
fn results_may_have_their_lanes_along_any_axis() {
    let (xs, w) = (noise(&[5, 4], 1), noise(&[4], 2));
    let axes = || VmapAxes::new((0, None)).out_axes((1, (0, None)));
    let (y, (total, square)) = spread::vmap(axes(), &xs, &w);
    assert_eq!(bits(&y), bits(&(&xs * &w).transpose()));
    gradloom::tree::assert_close(&total, &xs.sum(1), 1e-12);
    assert_eq!(bits(&square), bits(&w.square()));
    // It is the `Vmap` of a closure.
    let by_closure = Vmap::new(|(x, w): &(Tensor, Tensor)| spread(x, w));
    let by_closure = by_closure.in_axes((0, None)).out_axes((1, (0, None)));
    let expected = by_closure.call(&(xs.clone(), w.clone()));
    gradloom::tree::assert_close(&(y, (total, square)), &expected, 0.0);
    // The axes are part of the key of a call.
    finds(|| spread::vmap(axes(), &xs, &w).0);
    let other = spread::vmap(axes().out_axes((0, (0, None))), &xs, &w);
    assert_eq!(other.0.shape(), [5, 4]);
    // The receiver of a method.
    let layer = layer(3);
    let rows = layer.forward_vmap((None, 0), &xs);
    let axes = VmapAxes::new((None, 0)).out_axes(-1);
    assert_eq!(
        bits(&layer.forward_vmap(axes, &xs).transpose()),
        bits(&rows)
    );
    // In a traced body, and below a derivative.
    let by_hand = |w: &Tensor| (&xs * w).sum(0) * w.square() + xs.sum(..);
    gradloom::tree::assert_close(&columns(&xs, &w), &by_hand(&w), 1e-12);
    let expected = grad(|w: &Tensor| by_hand(w).sum(..))(&w);
    let found = grad(|w: &Tensor| columns(&xs, w).sum(..))(&w);
    gradloom::tree::assert_close(&found, &expected, 1e-12);
    finds(|| columns(&xs, &w));
    assert!(columns::RECORDED.is_none());
    // The macro does not follow the builder.
    assert!(unmarked::RECORDED.is_some());
    assert_eq!(bits(&unmarked(&xs, &w)), bits(&(&xs * &w)));
}

#[test]
fn lanes_may_share_all_arguments() {
    let (x, w) = (noise(&[4], 1), noise(&[4], 2));
    let axes = VmapAxes::new(None).axis_size(3);
    let (y, (total, _)) = spread::vmap(axes.clone(), &x, &w);
    assert_eq!((y.shape(), total.shape()), (&[3, 4][..], &[3][..]));
    check(&y, 3, |_| &x * &w);
    finds(|| spread::vmap(axes.clone(), &x, &w).0);
    let more = spread::vmap(axes.axis_size(2), &x, &w).0;
    assert_eq!(more.shape(), [2, 4]);
}

#[test]
fn messages_name_the_results_and_the_number_of_lanes() {
    let (xs, w) = (noise(&[5, 4], 1), noise(&[4], 2));
    let axes = || VmapAxes::new((0, None));
    let messages = [
        panic_of(|| drop(spread::vmap(axes().out_axes((2, 0)), &xs, &w))).0,
        panic_of(|| drop(spread::vmap(axes().out_axes((0, (1, 0))), &xs, &w))).0,
        panic_of(|| drop(spread::vmap(axes().out_axes((0,)), &xs, &w))).0,
        panic_of(|| drop(spread::vmap(axes().out_axes(None), &xs, &w))).0,
        panic_of(|| drop(spread::vmap(axes().axis_size(4), &xs, &w))).0,
    ];
    insta::assert_snapshot!(messages.join("\n"), @r"
    `vmap`: `result.0` is f64[5, 4], which has no axis 2 for the lanes
    `vmap`: `result.1.0` is f64[5], which has no axis 1 for the lanes
    `vmap`: `out_axes` has 1 entry, and none for `1.0`
    `vmap`: `result.0` differs between lanes, so its `out_axes` cannot be `None`
    `vmap`: the numbers of lanes differ: 5 in `x`, 4 by `axis_size`
    ");
}

#[traced]
fn loss(x: &Tensor, y: &Tensor, w: &Tensor) -> Tensor {
    (x.matmul(w).tanh() - y).square().sum(..)
}

#[test]
fn gradients_for_each_example() {
    let (xs, ys, w) = (noise(&[5, 4], 1), noise(&[5, 3], 2), noise(&[4, 3], 3));
    let per_example = |w: &Tensor| {
        let f = |(x, y): &(Tensor, Tensor)| loss::grad(x, y, w).w;
        vmap(f)(&(xs.clone(), ys.clone()))
    };
    let all = per_example(&w);
    assert_eq!(all.shape(), [5, 4, 3]);
    check(&all, 5, |i| loss::grad(&lane(&xs, i), &lane(&ys, i), &w).w);
    let step = |w: &Tensor| evaluate(&per_example(w)).unwrap();
    let other = w.sin();
    evaluate(&other).unwrap();
    step(&w);
    makes_no_plan(|| step(&other));
}

#[traced]
fn example_gradients(x: &Tensor, y: &Tensor, w: &Tensor) -> Tensor {
    loss::grad(x, y, w).w
}

#[test]
fn gradients_for_each_example_by_companion() {
    let (xs, ys, w) = (noise(&[5, 4], 1), noise(&[5, 3], 2), noise(&[4, 3], 3));
    let all = || example_gradients::vmap((0, 0, None), &xs, &ys, &w);
    check(&all(), 5, |i| {
        loss::grad(&lane(&xs, i), &lane(&ys, i), &w).w
    });
    finds(all);
    plans_nothing(|| evaluate(&all()).unwrap());
}

#[traced]
fn total(xs: &Tensor, ys: &Tensor, w: &Tensor) -> Tensor {
    loss::vmap((0, 0, None), xs, ys, w).sum(..)
}

#[traced]
fn total_of_the_batch(xs: &Tensor, ys: &Tensor, w: &Tensor) -> Tensor {
    (xs.matmul(w).tanh() - ys).square().sum(..)
}

#[test]
fn traced_bodies_may_call_it() {
    let (xs, ys, w) = (noise(&[5, 4], 1), noise(&[5, 3], 2), noise(&[4, 3], 3));
    gradloom::tree::assert_close(
        &total(&xs, &ys, &w),
        &total_of_the_batch(&xs, &ys, &w),
        1e-12,
    );
    let (found, expected) = (
        total::grad(&xs, &ys, &w),
        total_of_the_batch::grad(&xs, &ys, &w),
    );
    gradloom::tree::assert_close(&found.w, &expected.w, 1e-12);
    gradloom::tree::assert_close(&found.xs, &expected.xs, 1e-12);
    let (_, dy) = total::jvp((&xs, &ys, &w), (&xs, &ys, &w));
    let (_, expected) = total_of_the_batch::jvp((&xs, &ys, &w), (&xs, &ys, &w));
    gradloom::tree::assert_close(&dy, &expected, 1e-12);
    finds(|| total(&xs, &ys, &w));
    finds(|| total::value_and_grad(&xs, &ys, &w).1.w);
}

struct Loud {
    axis: i32,
}

impl From<Loud> for LaneAxes {
    fn from(loud: Loud) -> LaneAxes {
        println!("converted");
        loud.axis.into()
    }
}

#[traced]
fn loud(xs: &Tensor) -> Tensor {
    sine::vmap(Loud { axis: 0 }, xs)
}

#[traced]
fn sine(x: &Tensor) -> Tensor {
    x.sin()
}

#[traced]
fn of_a_method(layer: &Layer, xs: &Tensor, ys: &Tensor) -> Tensor {
    let axes = (None, 0);
    let x = layer.forward_vmap(axes, xs).sum(..);
    let some = [("xs", Some(0)), ("ys", None)];
    x + both::vmap(some, xs, ys).sum(..)
}

#[traced]
fn both(xs: &Tensor, ys: &Tensor) -> Tensor {
    xs.sin() * ys
}

#[test]
fn conversions_of_axes_in_traced_bodies_may_have_effects() {
    let (xs, ys) = (noise(&[5, 4], 1), noise(&[4], 2));
    loud(&xs);
    let (_, events) = log(|| loud(&xs));
    assert!(
        events[0].starts_with("recorded `macros::vmap::loud`"),
        "{events:?}"
    );
    let reason = loud::RECORDED.unwrap();
    assert!(reason.starts_with("`sine::vmap()` at line"), "{reason}");
    let layer = layer(3);
    finds(|| of_a_method(&layer, &xs, &ys));
    let expected = layer.forward(&xs).sum(..) + (xs.sin() * &ys).sum(..);
    gradloom::tree::assert_close(&of_a_method(&layer, &xs, &ys), &expected, 1e-12);
    finds(|| of_a_method::grad(&layer, &xs, &ys).layer);
}

#[traced(pure)]
fn builders(x: &Tensor, w: &Tensor) -> Tensor {
    let h = x * w;
    let turn = |h: &Tensor, x: &Tensor| (h + x, h * x);
    let (last, all) = Scan::new(turn).reverse().call(&h.zeros_like().sum(0), &h);
    let columns = Vmap::new(|x: &Tensor| x.square().sum(..));
    (last + all).sum(..) + columns.in_axes(1).call(&h).sum(..)
}

#[test]
fn traced_bodies_may_choose_axes_and_directions() {
    let (x, w) = (noise(&[5, 4], 1), noise(&[4], 2));
    let h = &x * &w;
    let mut state = Tensor::zeros([4], DType::F64);
    let mut expected = h.square().sum(..);
    for i in (0..5).rev() {
        expected = expected + (&state * lane(&h, i)).sum(..);
        state = state + lane(&h, i);
    }
    // The last state stands beside each turn.
    expected = expected + state.sum(..) * 5.0;
    gradloom::tree::assert_close(&builders(&x, &w), &expected, 1e-12);
    let by_closure = grad(|w: &Tensor| builders(&x, w))(&w);
    gradloom::tree::assert_close(&builders::grad(&x, &w).w, &by_closure, 1e-12);
    finds(|| builders(&x, &w));
    finds(|| builders::grad(&x, &w).w);
}

#[test]
fn transforms_may_stand_around_it() {
    let (xs, ys, w) = (noise(&[5, 4], 1), noise(&[5, 3], 2), noise(&[4, 3], 3));
    let f = |w: &Tensor| loss::vmap((0, 0, None), &xs, &ys, w).sum(..);
    let expected = total_of_the_batch::grad(&xs, &ys, &w).w;
    gradloom::tree::assert_close(&grad(f)(&w), &expected, 1e-12);
    gradloom::tree::assert_close(
        &hvp(f, &w, &w),
        &hvp(|w: &Tensor| total_of_the_batch(&xs, &ys, w), &w, &w),
        1e-12,
    );
    // A batch of batches.
    let batches = noise(&[2, 5, 4], 4);
    let nested = vmap(|xs: &Tensor| loss::vmap((0, 0, None), xs, &ys, &w))(&batches);
    check(&nested, 2, |i| {
        loss::vmap((0, 0, None), &lane(&batches, i), &ys, &w)
    });
    let inside = total::vmap((0, None, None), &batches, &ys, &w);
    check(&inside, 2, |i| total(&lane(&batches, i), &ys, &w));
}

#[traced]
fn clipped(x: &Tensor, steps: usize) -> Result<Tensor> {
    let mut x = x.clone();
    for i in 0..steps {
        x = if i % 2 == 0 { x.sin() } else { x.exp() };
    }
    Ok(x.matmul(Tensor::ones([4], DType::F64)))
}

#[derive(Debug)]
enum OwnError {
    Empty,
    Tensor(#[allow(dead_code)] Error),
}

impl From<Error> for OwnError {
    fn from(error: Error) -> OwnError {
        OwnError::Tensor(error)
    }
}

#[traced]
fn fallible(x: &Tensor, n: usize) -> std::result::Result<(Tensor, Tensor), OwnError> {
    if n == 0 {
        return Err(OwnError::Empty);
    }
    Ok((x.sin(), x.sum(..)))
}

#[test]
fn results_are_errors() {
    let xs = noise(&[5, 4], 1);
    let all = || clipped::vmap(0, &xs, 3).unwrap();
    check(&all(), 5, |i| clipped(&lane(&xs, i), 3).unwrap());
    finds(all);
    let error = clipped::vmap(0, &noise(&[5, 3], 1), 3).unwrap_err();
    assert!(
        error.to_string().contains("inner dimensions differ"),
        "{error}"
    );
    let error = clipped::vmap(2, &xs, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`vmap`: `x` is f64[5, 4], which has no axis 2 for the lanes"
    );
    let both = || fallible::vmap(0, &xs, 1).unwrap();
    check(&both(), 5, |i| fallible(&lane(&xs, i), 1).unwrap());
    finds(both);
    assert!(matches!(fallible::vmap(0, &xs, 0), Err(OwnError::Empty)));
    assert!(matches!(
        fallible::vmap(None, &xs, 1),
        Err(OwnError::Tensor(_))
    ));
}

/// A body that is traced at run time.
#[traced(record)]
fn recorded(xs: &[Tensor], by: Tensor) -> Vec<Tensor> {
    xs.iter().map(|x| x * &by).collect()
}

#[traced(pure, record)]
fn promised(xs: &[Tensor], by: Tensor) -> Vec<Tensor> {
    xs.iter().map(|x| x * &by).collect()
}

#[test]
fn bodies_traced_at_run_time_have_lanes() {
    let (xs, by) = (vec![noise(&[5, 4], 1), noise(&[5, 2], 2)], noise(&[5], 3));
    let all = || recorded::vmap(0, &xs, by.clone());
    check(&all(), 5, |i| recorded(&lane(&xs, i), lane(&by, i)));
    let all = || promised::vmap(0, &xs, by.clone());
    check(&all(), 5, |i| recorded(&lane(&xs, i), lane(&by, i)));
    finds(all);
    let axes = (&[Some(1), None][..], None);
    let some = recorded::vmap(axes, &xs, noise(&[], 4));
    assert_eq!(
        (some[0].shape(), some[1].shape()),
        (&[4, 5][..], &[4, 5, 2][..])
    );
}

#[traced]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }

    fn scaled(self, by: f64) -> Layer {
        Layer {
            w: self.w * by,
            b: self.b * by,
        }
    }
}

#[traced]
trait Apply {
    fn apply<const N: usize>(&self, x: &Tensor) -> Tensor;
    fn double(&self, x: &Tensor) -> Tensor;
}

#[traced]
impl Apply for Layer {
    fn apply<const N: usize>(&self, x: &Tensor) -> Tensor {
        self.forward(x) * N as f64
    }
    fn double(&self, x: &Tensor) -> Tensor {
        self.forward(x) * 2.0
    }
}

#[test]
fn methods_have_lanes() {
    let (xs, layer) = (noise(&[5, 4], 1), layer(3));
    let all = || layer.forward_vmap((None, 0), &xs);
    check(&all(), 5, |i| layer.forward(&lane(&xs, i)));
    finds(all);
    let ensemble = Layer {
        w: noise(&[2, 4, 3], 3),
        b: noise(&[2, 3], 3),
    };
    let x = lane(&xs, 0);
    let of_each = || Layer::forward_vmap(&ensemble, [("x", None)], &x);
    check(&of_each(), 2, |i| lane(&ensemble, i).forward(&x));
    let scaled = ensemble.clone().scaled_vmap(0, 2.0);
    check(&scaled, 2, |i| lane(&ensemble, i).scaled(2.0));
    check(&layer.double_vmap((None, 0), &xs), 5, |i| {
        layer.double(&lane(&xs, i))
    });
    check(&layer.apply_vmap::<3>((None, 0), &xs), 5, |i| {
        layer.apply::<3>(&lane(&xs, i))
    });
    finds(|| layer.apply_vmap::<3>((None, 0), &xs));
    finds(|| layer.apply_vmap::<2>((None, 0), &xs));
}

#[traced]
fn generic<T: Tree, const N: usize>(x: &Tensor, other: &T) -> (Tensor, T) {
    (x.sin() * N as f64, other.map(&mut |x| x * 2.0))
}

#[traced]
fn view(xs: &[Tensor], (w, v): (&Tensor, &Tensor), bias: Option<&Tensor>) -> Tensor {
    let y = &xs[0] * w + &xs[1] * v;
    match bias {
        Some(bias) => y + bias,
        None => y,
    }
}

#[test]
fn generic_functions_and_borrowed_parts_have_lanes() {
    let (xs, layer) = (noise(&[5, 4], 1), layer(5));
    let (first, second) = generic::vmap::<Layer, 2>(
        (0, 1),
        &xs,
        &Layer {
            w: layer.w.clone(),
            b: noise(&[2, 5], 1),
        },
    );
    check(&first, 5, |i| lane(&xs, i).sin() * 2.0);
    assert_eq!(
        (second.w.shape(), second.b.shape()),
        (&[5, 4][..], &[5, 2][..])
    );
    let parts = [xs.clone(), xs.cos()];
    let w = noise(&[4], 2);
    let all = || {
        view::vmap(
            (0, (None, 0), 0),
            &parts,
            (&w, &xs),
            Some(&w.sum(..).broadcast_to([5])),
        )
    };
    let expected = &xs * &w + xs.cos() * &xs + w.sum(..);
    gradloom::tree::assert_close(&all(), &expected, 1e-12);
    let without = view::vmap((0, (None, 0), None), &parts, (&w, &xs), None);
    gradloom::tree::assert_close(&without, &(&xs * &w + xs.cos() * &xs), 1e-12);
}

#[traced]
fn noisy(x: &Tensor, key: Key, #[nodiff] mask: &Tensor) -> Tensor {
    mask.select(&(x + key.normal([4], DType::F64)), 0.0)
}

#[test]
fn each_lane_has_its_own_key() {
    let xs = noise(&[3, 4], 1);
    let masks = xs.gt(0.0);
    let all = || noisy::vmap(0, &xs, Key::new(5).split_lanes(3), &masks);
    let keys = Key::new(5).split_many(3);
    check(&all(), 3, |i| {
        noisy(&lane(&xs, i), keys[i].duplicate(), &lane(&masks, i))
    });
    finds(all);
    let shared = noisy::vmap((0, None, None), &xs, Key::new(5), &lane(&masks, 0));
    check(&shared, 3, |i| {
        noisy(&lane(&xs, i), Key::new(5), &lane(&masks, 0))
    });
}

#[traced]
fn product(x: &Tensor, w: &Layer) -> Tensor {
    x * &w.b
}

#[traced(allow(recorded_call))]
fn reads(x: &Tensor) -> Tensor {
    x * x.sum(..).item::<f64>()
}

#[test]
fn messages_have_the_names_of_the_arguments() {
    let (xs, w) = (noise(&[5, 4], 1), layer(3));
    let messages = [
        panic_of(|| drop(product::vmap(0, &xs, &w))).0,
        panic_of(|| drop(product::vmap((0,), &xs, &w))).0,
        panic_of(|| drop(product::vmap((0, 0, 0), &xs, &w))).0,
        panic_of(|| drop(product::vmap((0, (0, None, 1)), &xs, &w))).0,
        panic_of(|| drop(product::vmap((0, [("c", None)]), &xs, &w))).0,
        panic_of(|| drop(product::vmap([("y", None)], &xs, &w))).0,
        panic_of(|| drop(product::vmap([("w", None), ("w", Some(0))], &xs, &w))).0,
        panic_of(|| drop(product::vmap((0, [("w", None), ("b", Some(1))]), &xs, &w))).0,
        panic_of(|| drop(product::vmap(None, &xs, &w))).0,
        panic_of(|| drop(w.forward_vmap(0, &xs))).0,
        panic_of(|| drop(reads::vmap(0, &xs))).0,
    ];
    insta::assert_snapshot!(messages.join("\n"), @r"
    `vmap`: the numbers of lanes differ: 5 in `x`, 4 in `w.w`, 3 in `w.b`
    `vmap`: `in_axes` has 1 entry, expected one for each of `x`, `w`
    `vmap`: `in_axes` has 3 entries, expected one for each of `x`, `w`
    `vmap`: `in_axes` has 3 entries, and none for `w.w`
    `vmap`: `in_axes` names `c`, and no such part has a tensor
    `vmap`: `in_axes` names `y`, and no such part has a tensor
    `vmap`: `in_axes` names `w` twice
    `vmap`: `w.b` is f64[3], which has no axis 1 for the lanes
    `vmap`: the lanes share all arguments, so give their number with `axis_size(n)`
    `vmap`: the numbers of lanes differ: 4 in `self.w`, 3 in `self.b`, 5 in `x`
    this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read
    ");
}
