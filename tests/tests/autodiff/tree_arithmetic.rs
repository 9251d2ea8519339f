//! The functions of `gradloom::tree`: values, errors, transforms, traced bodies.

use gradloom::prelude::*;
use gradloom::tree::{dot, sum};
use gradloom::{optim, tree};
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds, log};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Clone, Debug, Tree)]
struct Net {
    layers: Vec<Layer>,
    #[tree(skip)]
    name: &'static str,
}

fn net(seed: u64) -> Net {
    let layer = |i: u64, b: Option<Tensor>| Layer {
        w: noise(&[2, 3], seed + i),
        b,
    };
    Net {
        layers: vec![layer(0, Some(noise(&[3], seed + 9))), layer(1, None)],
        name: "net",
    }
}

fn numbers(tree: &impl Tree) -> Vec<f64> {
    let leaves = tree::leaves_with_paths(tree).into_iter();
    leaves.flat_map(|(_, x)| x.to_vec::<f64>()).collect()
}

#[test]
fn functions_of_trees_compute_what_loops_over_elements_do() {
    let (a, b) = (net(1), net(50));
    let (x, y) = (numbers(&a), numbers(&b));
    let each = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        x.iter().zip(&y).map(|(x, y)| f(*x, *y)).collect()
    };
    assert_eq!(numbers(&tree::add(&a, &b)), each(&|x, y| x + y));
    assert_eq!(numbers(&tree::sub(&a, &b)), each(&|x, y| x - y));
    assert_eq!(numbers(&tree::scale(&a, 3.0)), each(&|x, _| x * 3.0));
    let larger = tree::map2(&a, &b, |x, y| x.maximum(y));
    assert_eq!(numbers(&larger), each(&f64::max));
    assert_eq!(larger.name, "net");
    let near = |found: Tensor, expected: f64| {
        tree::assert_close(&found, &Tensor::from(expected), 1e-14);
    };
    near(tree::sum(&a), x.iter().sum());
    near(tree::dot(&a, &b), each(&|x, y| x * y).iter().sum());
    near(tree::norm(&a), x.iter().map(|x| x * x).sum::<f64>().sqrt());
}

#[test]
fn the_dtype_of_a_sum_is_that_of_the_leaves_or_f64() {
    let (single, double) = (Tensor::from([1.0f32, 2.0]), Tensor::from(0.5f64));
    let integers = Tensor::from([3i64]);
    assert_eq!(tree::sum(&single).dtype(), DType::F32);
    assert_eq!(tree::sum(&integers).item::<i64>(), 3);
    let mixed = (single, double, integers);
    assert_eq!(tree::sum(&mixed).item::<f64>(), 6.5);
    assert_eq!(tree::dot(&mixed, &mixed).item::<f64>(), 14.25);
    let empty: Vec<Tensor> = Vec::new();
    assert_eq!(tree::norm(&empty).item::<f32>(), 0.0);
}

#[test]
fn a_factor_is_cast_to_the_dtype_of_each_leaf() {
    let pair = (Tensor::from([1.0f32, 2.0]), Tensor::from([4.0f64]));
    for factor in [Tensor::from(0.5f32), Tensor::from(0.5f64)] {
        let (a, b) = tree::scale(&pair, &factor);
        assert_eq!(a.to_vec::<f32>(), [0.5, 1.0]);
        assert_eq!(b.to_vec::<f64>(), [2.0]);
    }
}

/// Returns the message of a function that fails.
fn message(f: impl Fn() -> Tensor) -> String {
    let f = |_: &Tensor| -> Result<Tensor> { Ok(f()) };
    grad(f)(&Tensor::from(1.0)).unwrap_err().to_string()
}

#[test]
fn trees_that_differ_are_errors_with_both_paths() {
    let a = net(1);
    let mut short = a.clone();
    short.layers.pop();
    let mut other = a.clone();
    other.layers[0].b = None;
    let mut wide = a.clone();
    wide.layers[1].w = noise(&[2, 4], 1);
    let keyed = |key: &str| BTreeMap::from([(key.to_owned(), noise(&[1], 1))]);
    let messages = [
        message(|| tree::dot(&a, &short)),
        message(|| tree::dot(&short, &a)),
        message(|| tree::add(&a, &other).layers[0].w.sum(..)),
        message(|| tree::sub(&a, &wide).layers[0].w.sum(..)),
        message(|| tree::sum(&tree::map2(&keyed("x"), &keyed("y"), |x, y| x * y))),
        message(|| tree::scale(&a, &noise(&[3], 1)).layers[0].w.sum(..)),
        message(|| tree::norm(&Tensor::from([1i64]))),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r#"
    `tree::dot`: the trees differ at leaf 2: `left.layers[1].w` is f64[2, 3], and `right` has no such leaf
    `tree::dot`: the trees differ at leaf 2: `left` has no such leaf, and `right.layers[1].w` is f64[2, 3]
    `tree::add`: the trees differ at leaf 1: `left.layers[0].b` is f64[3], and `right.layers[1].w` is f64[2, 3]
    `tree::sub`: the trees differ at leaf 2: `left.layers[1].w` is f64[2, 3], and `right.layers[1].w` is f64[2, 4]
    `tree::map2`: the trees differ at leaf 0: `left["x"]` is f64[1], and `right["y"]` is f64[1]
    the factor of `tree.layers[0].w` is f64[3], expected f64[]
    sqrt: the dtype is i64, expected a float: the operand is i64[]
    "#);
}

#[test]
fn trees_of_other_shapes_can_be_mapped_together() {
    let (rows, scales) = (vec![noise(&[2, 3], 1)], vec![noise(&[3], 2)]);
    let product = tree::map2(&rows, &scales, |row, scale| row * scale);
    assert_eq!(product[0].shape(), [2, 3]);
}

#[test]
fn derivatives_go_through_functions_of_trees() {
    let (x, dx) = (net(1), net(50));
    let energy = |x: &Net| tree::dot(x, x) * 0.5 + tree::norm(x) + tree::sum(&tree::scale(x, 2.0));
    let norm = tree::norm(&x);
    let expected = tree::add(&x, &tree::scale(&x, &(1.0 / norm)));
    let expected = expected.map(&mut |leaf| leaf + 2.0);
    tree::assert_close(&grad(energy)(&x), &expected, 1e-14);
    let squares = |x: &Net| tree::dot(x, &tree::map2(x, x, |a, b| a * b));
    let second = tree::map2(&x, &dx, |x, dx| x * dx * 6.0);
    tree::assert_close(&hvp(squares, &x, &dx), &second, 1e-13);
    let (_, tangent) = jvp(|x: &Net| tree::sub(&tree::add(x, x), x), &x, &dx);
    tree::assert_close(&tangent, &dx, 1e-14);
}

#[traced]
fn ridge(net: &Net, x: &Tensor) -> Tensor {
    let y = x.matmul(&net.layers[0].w);
    y.square().sum(..) + tree::dot(net, net) * 0.5 + tree::norm(net)
}

#[traced]
fn moved(net: &Net, direction: &Net, x: &Tensor) -> Tensor {
    let there = tree::add(net, &tree::scale(direction, 0.5));
    ridge(&there, x)
}

#[traced]
fn between(net: &Net, other: &Net) -> Net {
    tree::map2(net, other, |a, b| a * 0.25 + b * 0.75)
}

#[traced]
fn imported(net: &Net, other: &Net) -> Tensor {
    sum(net) * dot(net, other)
}

#[test]
fn traced_bodies_call_functions_of_trees_and_reuse_their_plans() {
    let found = [
        ridge::RECORDED,
        moved::RECORDED,
        between::RECORDED,
        imported::RECORDED,
    ];
    assert_eq!(found, [None; 4]);
    let (net, other, x) = (net(1), net(50), noise(&[4, 2], 3));
    assert!(ridge::PROGRAM.contains("tree::dot"), "{}", ridge::PROGRAM);
    let plain = |(net, x): &(Net, Tensor)| {
        let y = x.matmul(&net.layers[0].w);
        y.square().sum(..) + tree::dot(net, net) * 0.5 + tree::norm(net)
    };
    let grads = ridge::grad(&net, &x);
    let expected = grad(plain)(&(net.clone(), x.clone()));
    tree::assert_close(&(grads.net, grads.x), &expected, 1e-13);
    let grads = moved::grad(&net, &other, &x);
    tree::assert_close(&grads.direction, &tree::scale(&grads.net, 0.5), 1e-13);
    finds(|| ridge(&net, &x));
    finds(|| ridge::grad(&net, &x).net);
    finds(|| moved(&net, &other, &x));
    finds(|| moved::grad(&net, &other, &x).direction);
    finds(|| between(&net, &other));
    finds(|| imported(&net, &other));
    finds(|| tree::dot(&net, &other));
}

/// Reads values, so each call is recorded.
#[traced]
#[allow(deprecated)]
fn compared(net: &Net, other: &Net) -> Tensor {
    match tree::is_close(net, other, 1e-6) {
        true => tree::sum(net),
        false => tree::sum(other),
    }
}

/// Has effects in the closure, so each call is recorded.
#[traced]
#[allow(deprecated)]
fn counted(net: &Net) -> Net {
    let mut n = 0;
    tree::map2(net, net, |a, b| {
        n += 1;
        println!("{n}");
        a * b
    })
}

#[test]
fn a_traced_body_that_compares_trees_is_recorded() {
    assert!(compared::RECORDED.is_some() && counted::RECORDED.is_some());
    let (a, b) = (net(1), net(50));
    for other in [&a, &b] {
        let found = compared(&a, other);
        assert_eq!(bits(&found), bits(&tree::sum(other)));
    }
    let (_, events) = log(|| compared(&a, &b));
    assert!(events[0].starts_with("recorded `"), "{events:?}");
    let reasons = [compared::RECORDED, counted::RECORDED].map(Option::unwrap);
    assert!(reasons[0].contains("`tree::is_close()`"), "{}", reasons[0]);
    assert!(reasons[1].contains("`println!`"), "{}", reasons[1]);
}

#[test]
fn trees_are_close_up_to_a_tolerance() {
    let of = |x: [f64; 3]| vec![Tensor::from(x)];
    let close = |x, y, by| tree::is_close(&of(x), &of(y), by);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    assert!(close([1.0, nan, inf], [1.0, nan, inf], 0.0));
    assert!(close(
        [0.0, 1.0, 1e6],
        [1e-9, 1.0 + 1e-9, 1e6 + 1e-3],
        1.1e-9
    ));
    assert!(!close([0.0, 1.0, 1e6], [0.0, 1.0, 1e6 + 1e-2], 1.1e-9));
    assert!(!close([1.0, 0.0, 0.0], [inf, 0.0, 0.0], 1.0));
    assert!(!close([1.0, 0.0, 0.0], [nan, 0.0, 0.0], 1.0));
    let integers = |x: i64| Tensor::from([x]);
    assert!(!tree::is_close(
        &integers(i64::MAX),
        &integers(i64::MAX - 1),
        1.0
    ));
    assert!(tree::is_close(
        &Tensor::from([true]),
        &Tensor::from([true]),
        0.0
    ));
}

#[test]
#[should_panic(
    expected = "element 1 of `left.layers[0].b` is 0.5, and that of `right.layers[0].b` is 1.5, more than the tolerance 1e-3"
)]
fn a_failed_comparison_has_the_paths_and_the_elements() {
    let layers = |b: f64| Net {
        layers: vec![Layer {
            w: noise(&[1], 1),
            b: Some(Tensor::from([0.0, b])),
        }],
        name: "net",
    };
    tree::assert_close(&layers(0.5), &layers(1.5), 1e-3);
}

#[test]
fn clipping_bounds_the_norm() {
    let gradients = net(1);
    let norm = |net: &Net| tree::norm(net).item::<f64>();
    let clipped = optim::clip_by_norm(&gradients, 0.25);
    assert!((norm(&clipped) - 0.25).abs() < 1e-15);
    let same = optim::clip_by_norm(&gradients, norm(&gradients) * 2.0);
    assert_eq!(numbers(&same), numbers(&gradients));
    let zero = tree::scale(&gradients, 0.0);
    assert_eq!(norm(&optim::clip_by_norm(&zero, 1.0)), 0.0);
}

#[test]
fn models_and_summaries_print() {
    let net = Net {
        layers: vec![Layer {
            w: Tensor::from([1.0f32, 2.0]),
            b: None,
        }],
        name: "net",
    };
    insta::assert_snapshot!(format!("{net:?}\n{}", tree::summary(&net)), @r#"
    Net { layers: [Layer { w: Tensor(f32[2], realised), b: None }], name: "net" }
    path         dtype  shape  elements  bytes
    layers[0].w  f32    [2]           2      8
    total                             2      8
    "#);
    insta::assert_snapshot!(tree::summary(&Tensor::from(1i64)), @r"
    path   dtype  shape  elements  bytes
           i64    []            1      8
    total                       1      8
    ");
}
