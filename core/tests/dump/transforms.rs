//! Trace points under transforms. No record is ever wrong: a value without elements has none.

use crate::{names_of, records_of};
use gradloom::dump::{Config, with_config};
use gradloom::prelude::*;
use gradloom::{Backward, Param, scan, tree};
use std::path::Path;

#[traced(order = 2)]
fn cube(x: &Tensor) -> Tensor {
    let square = x * x;
    (square * x).sum(..)
}

fn traced<T>(folder: &Path, f: impl FnOnce() -> T) -> T {
    with_config(Config::new(folder).points("*"), f)
}

/// Compares the result of `f` with and without a trace, bit by bit, and returns the names.
fn names<T: Tree>(f: impl Fn() -> T) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let plain = f();
    evaluate(&plain).unwrap();
    let found = traced(folder.path(), || {
        let found = f();
        evaluate(&found).unwrap();
        found
    });
    tree::assert_close(&found, &plain, 0.0);
    match folder.path().read_dir().unwrap().count() {
        0 => Vec::new(),
        _ => names_of(folder.path()),
    }
}

fn x() -> Tensor {
    Tensor::from([1.0f32, -2.0, 0.5])
}

#[test]
fn derivatives_of_closures_have_both_stages() {
    assert_eq!(
        names(|| grad(|x: &Tensor| cube(&(x * 2.0)))(&x())),
        ["cube/square", "cube/ct_square"]
    );
    assert_eq!(names(|| jvp(cube, &x(), &x())), ["cube/square"]);
}

#[test]
fn companions_have_the_points_of_the_body_once() {
    assert_eq!(names(|| cube(&x())), ["cube/square"]);
    assert_eq!(
        names(|| cube::grad(&x()).x),
        ["cube/square", "cube/ct_square"]
    );
    assert_eq!(
        names(|| cube::value_and_grad(&x()).0),
        ["cube/square", "cube/ct_square"]
    );
    assert_eq!(names(|| cube::jvp(&x(), &x())), ["cube/square"]);
    let hvp = names(|| cube::hvp(&x(), &x()).1.x);
    assert!(hvp.contains(&"cube/square".to_owned()), "{hvp:?}");
}

#[test]
fn second_derivatives_keep_their_bits() {
    let all = names(|| grad(|x: &Tensor| grad(cube)(x).sum(..))(&x()));
    assert!(all.iter().all(|name| name.starts_with("cube/")), "{all:?}");
}

#[test]
fn lanes_have_no_values_and_so_no_records() {
    assert_eq!(
        names(|| vmap(cube)(&Tensor::ones([2, 3], DType::F32))),
        [""; 0]
    );
    assert_eq!(
        names(|| cube::vmap(0, &Tensor::ones([2, 3], DType::F32))),
        [""; 0]
    );
    assert_eq!(
        names(|| vmap(grad(cube))(&Tensor::ones([2, 3], DType::F32))),
        [""; 0]
    );
}

/// A tensor with a batch prefix has all axes in its record.
#[test]
fn a_batch_prefix_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::ones([2, 3], DType::F32).incr_batch_dims();
    traced(folder.path(), || drop(cube(&x)));
    assert_eq!(records_of(folder.path())[0].shape, [2, 3]);
}

#[test]
fn the_body_of_a_scan_has_no_records() {
    let sum = || {
        let f = |h: &Tensor, x: &Tensor| {
            let h = cube(&(h + x));
            (h.clone(), h)
        };
        scan(f, &Tensor::from(0.5f32), &x())
    };
    assert_eq!(names(sum), [""; 0]);
}

/// A backward pass through the graph has the cotangents of the values with names that it meets, also the second time.
#[test]
fn backward_passes_to_parameters_have_points() {
    let gradient = || {
        let w = Param::new(x()).unwrap();
        let y = cube(&(w.tensor() * 2.0)) + cube(&w.tensor());
        Backward::of(&y).retain_graph().run().unwrap();
        y.backward().unwrap();
        w.grad().unwrap()
    };
    let pass = ["cube/ct_square", "cube/ct_square"];
    let both = ["cube/square", "cube/square"];
    assert_eq!(names(gradient), [both, pass, pass].concat());
}

#[traced(record)]
fn recorded(x: &Tensor, n: usize) -> Tensor {
    let mut list = Vec::new();
    for i in 0..n {
        let h = x * i as f64;
        list.push(h);
    }
    let all = Tensor::stack(&list.iter().collect::<Vec<_>>(), 0);
    all.square().sum(..)
}

/// A body that is traced at run time has points too.
#[test]
fn recorded_bodies_have_points() {
    assert_eq!(
        names(|| recorded(&x(), 2)),
        ["recorded/0/h", "recorded/1/h", "recorded/all"]
    );
    let backward = names(|| recorded::grad(&x(), 2).x);
    assert_eq!(
        backward[3..],
        ["recorded/ct_all", "recorded/1/ct_h", "recorded/0/ct_h"]
    );
}

#[traced]
fn shared(x: &Tensor, w: &Tensor) -> Tensor {
    let a = x.matmul(w);
    let b = (&a * x).tanh();
    let c = inner(&b, &a);
    (a + b * c).square().mean(..)
}

#[traced]
fn inner(x: &Tensor, y: &Tensor) -> Tensor {
    let both = x * y + x;
    both.sin() * y
}

/// The gradient keeps its bits although values are used in several functions.
#[test]
fn gradients_of_shared_values_keep_their_bits() {
    let x = Key::new(5).normal([3, 3], DType::F32);
    let w = Key::new(6).normal([3, 3], DType::F32);
    let found = names(|| {
        let grads = shared::grad(&x, &w);
        (grads.x, grads.w)
    });
    assert_eq!(
        found,
        [
            "shared/a",
            "shared/b",
            "shared/inner/both",
            "shared/c",
            "shared/ct_c",
            "shared/inner/ct_both",
            "shared/ct_b",
            "shared/ct_a",
        ]
    );
}
