#![deny(warnings)]

use gradloom::prelude::*;
use std::collections::BTreeMap;

#[traced]
fn unused(x: &Tensor, _y: &Tensor) -> Tensor {
    x.sin()
}

#[traced]
fn unchanged(x: &Tensor) -> Tensor {
    x.clone()
}

#[traced]
fn twice(x: &Tensor) -> (Tensor, (Tensor, Tensor)) {
    (x.clone(), (x.clone(), x.sin()))
}

#[traced]
fn trees(
    pair: &(Tensor, Tensor),
    list: &Vec<Tensor>,
    array: &[Tensor; 2],
    maybe: &Option<Tensor>,
    named: &BTreeMap<String, Tensor>,
) -> Vec<Tensor> {
    let mut all = vec![&pair.0 * &pair.1, list[0].sin(), array[0].matmul(&array[1])];
    all.extend(maybe.clone());
    all.extend(named.values().cloned());
    all
}

#[traced]
fn statics(x: &Tensor, axes: &[usize], keep: bool, name: &str, rate: f32, dtype: DType) -> Tensor {
    let y = x.sum_keepdims(axes) * rate;
    assert!(keep && !name.is_empty());
    y.cast(dtype)
}

#[traced(allow(recorded_call))]
fn pattern((x, y): &(Tensor, Tensor)) -> Tensor {
    x * y
}

#[traced]
fn parts(x: &Tensor) -> Tensor {
    let halves: [Tensor; 2] = x.split(0);
    let [a, b] = &halves;
    a * b
}

#[test]
fn runs() {
    let x = &Tensor::from([0.5f32, 1.0]);
    let (y, pullback) = unused::vjp(x, x);
    let (ct_x, ct_y) = pullback(&y);
    assert_eq!(ct_y.to_vec::<f32>(), [0.0, 0.0]);
    assert_ne!(ct_x.to_vec::<f32>(), [0.0, 0.0]);
    let (y, pullback) = unchanged::vjp(x);
    assert_eq!(pullback(&y).to_vec::<f32>(), x.to_vec::<f32>());
    let ((a, (b, c)), pullback) = twice::vjp(x);
    pullback(&(a, (b, c)));
    let pair = (x.clone(), x.clone());
    let array = [x.clone(), x.clone()];
    let named = BTreeMap::from([("a".to_owned(), x.clone())]);
    let (all, pullback) = trees::vjp(&pair, &vec![x.clone()], &array, &Some(x.clone()), &named);
    assert_eq!(all.len(), 5);
    pullback(&all);
    let (y, pullback) = statics::vjp(x, &[0], true, "name", 0.5, DType::F64);
    pullback(&y);
    let (y, pullback) = parts::vjp(x);
    pullback(&y);
    let (y, pullback) = pattern::vjp(&pair);
    pullback(&y);
}
