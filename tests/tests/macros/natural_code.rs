//! Forms that users of other libraries write first: shapes as tuples, ranges of axes, `clamp`,
//! maps of parameters.

use gradloom::prelude::*;
use gradloom_tests::observe::{finds, is_recorded, log, plans_nothing};
use std::collections::BTreeMap;

#[traced]
fn flattened(x: &Tensor) -> Tensor {
    x.reshape([x.dim(0), -1]) * 2.0
}

#[traced]
fn of_tuples(x: &Tensor, n: usize) -> Tensor {
    let shape = (n, 2);
    let y = x.sum((0, 2)).reshape((-1,));
    y.sum(..) * Tensor::ones((n, 2), DType::F64)
        + x.reshape((6, n)).sum(0).reshape((n, 1)).broadcast_to(shape)
}

#[traced]
fn of_ranges(x: &Tensor, n: i64) -> Tensor {
    x.sum(0..2) + x.mean(0..=1) + x.max(0..n)
}

#[test]
fn a_tuple_is_a_shape_and_a_range_is_a_list_of_axes() {
    let x = Tensor::arange(12, DType::F64).reshape([2, 3, 2]);
    assert_eq!(flattened(&x).shape(), [2, 6]);
    assert_eq!(
        flattened::vjp(&x).1(&Tensor::ones((2, 6), DType::F64)).shape(),
        [2, 3, 2]
    );
    assert_eq!(flattened::RECORDED, None);

    // Both columns of `x.reshape((6, 2)).sum(0)`, which are 30 and 36, plus the sum of all elements.
    assert_eq!(of_tuples(&x, 2).to_vec::<f64>(), [96.0, 96.0, 102.0, 102.0]);
    let (_, pullback) = of_tuples::vjp(&x, 2);
    let ones = Tensor::ones((2, 2), DType::F64);
    assert_eq!(pullback(&ones).to_vec::<f64>(), [6.0; 12]);

    assert_eq!(
        of_ranges(&x, 2).to_vec::<f64>(),
        [30.0 + 5.0 + 10.0, 36.0 + 6.0 + 11.0]
    );
    assert_eq!(of_ranges::RECORDED, None);
}

#[traced]
fn limited(x: &Tensor, high: f64) -> Tensor {
    x.clamp(-1.0, high).square()
}

#[traced(check)]
fn limited_in_a_model(#[shape(3)] x: &Tensor, #[shape(3)] low: &Tensor) -> Tensor {
    (x.clamp(low, 10.0) * x).sum(..)
}

#[test]
fn clamp_has_the_derivative_of_maximum_and_minimum() {
    let x = Tensor::from([-2.0f64, -1.0, 0.5, 2.0, 3.0, f64::NAN]);
    let y = x.clamp(-1.0, 2.0);
    assert_eq!(y.to_vec::<f64>()[..5], [-1.0, -1.0, 0.5, 2.0, 2.0]);
    assert!(y.to_vec::<f64>()[5].is_nan());

    let traced = limited::vjp(&x, 2.0).1(&x.ones_like()).to_vec::<f64>();
    let closure = vjp(|x: &Tensor| x.maximum(-1.0).minimum(2.0).square(), &x)
        .1
        .call(&x.ones_like());
    assert_eq!(traced[..5], [0.0, -1.0, 1.0, 2.0, 0.0]);
    assert_eq!(traced[..5], closure.to_vec::<f64>()[..5]);
    assert_eq!(limited::RECORDED, None);
}

#[traced]
fn weights_only(map: &BTreeMap<String, Tensor>, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for (k, v) in map {
        if k.starts_with("w") {
            y *= v;
        } else if k == "bias" {
            y += v;
        }
    }
    y
}

#[traced]
fn by_iter(map: &BTreeMap<&'static str, Tensor>, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for (i, (k, v)) in map.iter().enumerate() {
        if k.len() > i {
            y *= v;
        }
    }
    y
}

#[test]
fn the_key_of_a_map_is_a_host_value() {
    let leaf = |x: f64| Tensor::from([x]);
    let map = [("bias", 1.0), ("w1", 2.0), ("w2", 3.0), ("x", 9.0)];
    let owned: BTreeMap<String, Tensor> = map
        .iter()
        .map(|(k, v)| ((*k).to_owned(), leaf(*v)))
        .collect();
    let (y, pullback) = weights_only::vjp(&owned, &leaf(5.0));
    assert_eq!(y.to_vec::<f64>(), [36.0]);
    let (of_map, of_x) = pullback(&y.ones_like());
    assert_eq!(of_map["w1"].to_vec::<f64>(), [18.0]);
    assert_eq!(of_map["x"].to_vec::<f64>(), [0.0]);
    assert_eq!(of_x.to_vec::<f64>(), [6.0]);

    let short: BTreeMap<&'static str, Tensor> = map.iter().map(|(k, v)| (*k, leaf(*v))).collect();
    assert_eq!(by_iter(&short, &leaf(1.0)).to_vec::<f64>(), [2.0]);
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot(u8);

#[traced]
fn total(map: &BTreeMap<Slot, Tensor>) -> Tensor {
    map.values().fold(Tensor::scalar(0.0), |sum, x| sum + x)
}

#[test]
fn a_call_with_a_map_reuses_its_plan_only_for_the_same_keys() {
    let map = |keys: [&'static str; 2]| {
        let leaf =
            |(i, key): (usize, &'static str)| (key.to_owned(), Tensor::from([i as f64 + 2.0]));
        BTreeMap::from_iter(keys.into_iter().enumerate().map(leaf))
    };
    let x = Tensor::from([5.0f64]);
    assert_eq!(weights_only::RECORDED, None);
    for (keys, expected) in [
        (["w1", "w2"], 30.0),
        (["bias", "w"], 21.0),
        (["a", "w"], 15.0),
    ] {
        let map = map(keys);
        finds(|| weights_only(&map, &x));
        let step = || evaluate(&weights_only::vjp(&map, &x).1(&x)).unwrap();
        step();
        plans_nothing(step);
        assert_eq!(weights_only(&map, &x).to_vec::<f64>(), [expected]);
    }

    // The text of a user's type may hide a difference.
    let map = BTreeMap::from([(Slot(1), Tensor::scalar(3.0))]);
    is_recorded(|| total(&map));
    let (_, events) = log(|| total(&map));
    assert!(events[0].contains("holds a map by `"), "{events:?}");
}
