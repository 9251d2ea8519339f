//! `einsum` and `dot_general` against loops over all indices, and methods that consist of other ops.

use gradloom::events::Event;
use gradloom::prelude::*;
use gradloom_tests::noise;
use std::collections::BTreeMap;

/// Sums products over all indices, one by one. The text has no `...`.
fn by_loops(text: &str, xs: &[Tensor]) -> Tensor {
    let (left, right) = text.split_once("->").expect("the result is given");
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    let mut lens = BTreeMap::new();
    for (term, x) in terms.iter().zip(xs) {
        lens.extend(term.iter().copied().zip(x.shape().iter().copied()));
    }
    let letters: Vec<(char, usize)> = lens.into_iter().collect();
    let shape: Vec<usize> = right
        .chars()
        .map(|c| letters.iter().find(|l| l.0 == c).unwrap().1)
        .collect();
    let mut sums = vec![0.0; shape.iter().product()];
    let data: Vec<Vec<f64>> = xs.iter().map(|x| x.to_vec()).collect();
    for mut n in 0..letters.iter().map(|l| l.1).product::<usize>() {
        let mut at = BTreeMap::new();
        for (c, len) in &letters {
            at.insert(*c, (n % len, *len));
            n /= len;
        }
        let place = |term: &[char]| term.iter().fold(0, |p, c| p * at[c].1 + at[c].0);
        let factors = terms.iter().zip(&data).map(|(term, x)| x[place(term)]);
        sums[place(&right.chars().collect::<Vec<_>>())] += factors.product::<f64>();
    }
    Tensor::from_vec(sums, shape)
}

fn assert_near(x: &Tensor, y: &Tensor, what: &str) {
    assert_eq!(x.shape(), y.shape(), "{what}");
    let near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-11;
    assert!(
        x.to_vec::<f64>().iter().zip(&y.to_vec::<f64>()).all(near),
        "{what}\n{x}\n{y}"
    );
}

const CASES: &[(&str, &[&[usize]])] = &[
    ("ij->ji", &[&[2, 3]]),
    ("ij->", &[&[2, 3]]),
    ("ii->i", &[&[3, 3]]),
    ("ii->", &[&[3, 3]]),
    ("iji->j", &[&[3, 2, 3]]),
    ("iiij->ij", &[&[2, 2, 2, 3]]),
    ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
    ("ij,jk->ki", &[&[2, 3], &[3, 4]]),
    ("i,i->", &[&[3], &[3]]),
    ("i,j->ij", &[&[3], &[2]]),
    ("ij,ij->ij", &[&[3, 2], &[3, 2]]),
    ("ij,ij->", &[&[3, 2], &[3, 2]]),
    ("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 2]]),
    ("bthd,bshd->bhts", &[&[2, 3, 2, 4], &[2, 5, 2, 4]]),
    ("abcd,cdef->abef", &[&[2, 3, 2, 2], &[2, 2, 3, 2]]),
    ("abk,kcd->cadb", &[&[2, 3, 2], &[2, 3, 2]]),
    ("ij,k->ik", &[&[2, 3], &[4]]),
    ("bi,bi->b", &[&[2, 3], &[2, 3]]),
    ("ii,ij->j", &[&[3, 3], &[3, 2]]),
    ("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]),
    ("i,ij,j->", &[&[2], &[2, 3], &[3]]),
    ("ij,jk->ik", &[&[2, 0], &[0, 4]]),
    ("ab,b,ac->abc", &[&[2, 3], &[3], &[2, 2]]),
];

#[test]
fn einsum_sums_products_over_the_axes_that_the_result_lacks() {
    for (text, shapes) in CASES {
        let xs: Vec<Tensor> = shapes
            .iter()
            .zip(1..)
            .map(|(shape, k)| noise(shape, k))
            .collect();
        let y = Tensor::einsum(text, &xs);
        assert_near(&y, &by_loops(text, &xs), text);
        // It is linear in each operand.
        for i in 0..xs.len() {
            let of = |x: &Tensor| {
                let mut all = xs.clone();
                all[i] = x.clone();
                Tensor::einsum(text, &all)
            };
            let (again, dy) = jvp(of, &xs[i], &xs[i]);
            assert_near(&again, &y, text);
            assert_near(&dy, &y, text);
            let total = grad(|x: &Tensor| of(x).sum(..))(&xs[i]);
            assert_near(&(total * &xs[i]).sum(..), &y.sum(..), text);
            // Lanes are those of a batch.
            let lanes = Tensor::stack(&[&xs[i], &(&xs[i] * 2.0)], 0);
            let batch = vmap(of)(&lanes);
            assert_near(&batch, &Tensor::stack(&[&y, &(&y * 2.0)], 0), text);
        }
    }
}

#[test]
fn other_axes_broadcast() {
    let (x, y) = (noise(&[4, 1, 2, 3], 1), noise(&[5, 3, 2], 2));
    assert_near(
        &Tensor::einsum("...ij,...jk->...ik", &[&x, &y]),
        &x.matmul(&y),
        "matmul",
    );
    assert_near(
        &Tensor::einsum("...ij,...jk", &[&x, &y]),
        &x.matmul(&y),
        "implicit",
    );
    let z = noise(&[4, 1], 3);
    let expected = &x * z.unsqueeze([2, 3]);
    assert_near(
        &Tensor::einsum("...ij,...->...ij", &[&x, &z]),
        &expected,
        "times",
    );
}

/// Returns the message of a wrong call.
fn fault(call: &dyn Fn() -> Tensor) -> String {
    let fallible = |_: &Tensor| -> Result<Tensor> { Ok(call()) };
    let error = vjp(fallible, &Tensor::scalar(0.0f32)).expect_err("it does not fit");
    error.to_string()
}

#[test]
fn wrong_calls_are_refused_with_a_reason() {
    let x = |shape: &[usize]| Tensor::ones(shape, DType::F32);
    let error = |text: &str, xs: &[Tensor]| fault(&|| Tensor::einsum(text, xs));
    assert_eq!(
        error("ij,jk", &[x(&[2, 3]), x(&[4, 2])]),
        "einsum of `ij,jk`: `j` is 3 in operand 1 and 4 in operand 2"
    );
    assert_eq!(
        error("ij", &[x(&[2])]),
        "einsum of `ij`: operand 1 has rank 1, and `ij` has 2 axes"
    );
    assert_eq!(
        error("...i,...i", &[x(&[2, 1]), x(&[3, 1])]),
        "einsum of `...i,...i`: axis -1 of `...` is 2 in operand 1 and 3 in operand 2"
    );
    let dots = |summed: (&[i64], &[i64])| {
        fault(&|| x(&[2, 3]).dot_general(x(&[4, 2]), summed, (&[], &[])))
    };
    assert_eq!(
        dots((&[1], &[0])),
        "dot_general: the summed axis 1 on the left is 3, and axis 0 on the right is 4"
    );
    assert_eq!(
        dots((&[2], &[0])),
        "dot_general: axis 2 is out of range for rank 2"
    );
    assert_eq!(
        dots((&[0, 0], &[0, 1])),
        "dot_general: axis 0 is named twice"
    );
    assert_eq!(
        dots((&[0], &[])),
        "dot_general: 1 axes on the left are paired with 0 on the right"
    );
    assert_eq!(
        fault(&|| x(&[2]).cross(x(&[2]), 0)),
        "cross: axis 0 of f32[2] has length 2, expected 3"
    );
    assert_eq!(
        fault(&|| x(&[0]).median(0)),
        "quantile: axis 0 has length 0"
    );
    assert_eq!(
        fault(&|| x(&[2]).quantile(1.5, 0)),
        "quantile: 1.5 is not from 0 to 1"
    );
    assert_eq!(
        fault(&|| x(&[0]).pad_edge([1], [0])),
        "pad_edge: axis 0 has length 0, which is too short"
    );
    assert_eq!(
        fault(&|| x(&[2]).pad_edge([1, 2], [0])),
        "pad_edge: 2 and 1 numbers are given for 1 axes"
    );
}

#[test]
fn dot_general_orders_the_axes_of_the_result() {
    let (x, y) = (noise(&[2, 3, 4], 1), noise(&[4, 5, 2], 2));
    let z = x.dot_general(&y, (&[2], &[0]), (&[0], &[-1]));
    assert_near(&z, &Tensor::einsum("bik,kjb->bij", &[&x, &y]), "batch");
    let z = x.dot_general(&y, (&[0, 2], &[2, 0]), (&[], &[]));
    assert_near(&z, &Tensor::einsum("aik,kja->ij", &[&x, &y]), "two axes");
}

#[traced]
fn traced(x: &Tensor, y: &Tensor) -> Tensor {
    let z = Tensor::einsum("ij,kj->ik", &[x, y]);
    z.median(0) + z.trace() + z.tile([2]).sum(..) + z.repeat(2, 1).sum(..)
}

#[test]
fn a_traced_function_agrees_with_the_closure() {
    let args = (noise(&[3, 4], 1), noise(&[3, 4], 2));
    let (y, pullback) = traced::vjp(&args.0, &args.1);
    let (expected, of_closure) = gradloom::vjp(|(x, y): &(Tensor, Tensor)| traced(x, y), &args);
    assert_near(&y, &expected, "value");
    let (gx, gy) = pullback(&y);
    let (ex, ey) = of_closure.call(&y);
    assert_near(&gx, &ex, "x");
    assert_near(&gy, &ey, "y");
}

/// The cotangents of operands as a list.
macro_rules! listed {
    ($all:ident, $x:ident) => { [$all] };
    ($all:ident, $($x:ident),*) => {{
        let ($($x),*) = $all;
        [$($x),*]
    }};
}

/// Traced functions of a literal text, which are lowered, and the shapes of their operands.
macro_rules! lowered {
    ($($name:ident: $text:literal, $($x:ident: $shape:expr),*;)*) => {$(
        #[test]
        fn $name() {
            #[traced(order = 2)]
            fn product($($x: &Tensor),*) -> Tensor {
                Tensor::einsum($text, &[$($x),*]) * 2.0
            }
            assert_eq!(product::RECORDED, None);
            let mut seed = 0;
            let [$($x),*] = [$(&$shape[..]),*].map(|shape: &[usize]| {
                seed += 1;
                noise(shape, seed)
            });
            let all = [$($x.clone()),*];
            let expected = by_loops($text, &all) * 2.0;
            assert_near(&product($(&$x),*), &expected, $text);
            // It is linear in all operands together, as many times as there are some.
            let (y, pullback) = product::vjp($(&$x),*);
            let cotangents = pullback(&y);
            let of_all = gradloom::vjp(|all: &Vec<Tensor>| {
                Tensor::einsum($text, all) * 2.0
            }, &all.to_vec());
            let expected = of_all.1.call(&y);
            let found = listed!(cotangents, $($x),*);
            for (found, expected) in found.iter().zip(&expected) {
                assert_near(found, expected, $text);
            }
            let run = || product($(&$x),*).sum(..).item::<f64>();
            let first = run();
            let (second, events) = gradloom::events::record(run);
            assert_eq!(first.to_bits(), second.to_bits());
            let replans = |e: &Event| matches!(e, Event::Planned { .. });
            assert!(!events.iter().any(replans), "{events:?}");
        }
    )*};
}

lowered! {
    lowered_matrix_product: "ij,jk->ik", x: [2, 3], y: [3, 4];
    lowered_batch: "bij,bkj->kbi", x: [2, 3, 4], y: [2, 5, 4];
    lowered_groups: "abk,kcd->cadb", x: [2, 3, 2], y: [2, 3, 2];
    lowered_two_sums: "aij,ijb->ba", x: [2, 3, 4], y: [3, 4, 2];
    lowered_matrix_and_vector: "ij,j->i", x: [2, 3], y: [3];
    lowered_inner_product: "i,i->", x: [3], y: [3];
    lowered_outer_product: "i,j->ji", x: [3], y: [2];
    lowered_rows: "bi,bi->b", x: [2, 3], y: [2, 3];
    lowered_sums: "ij,kl->il", x: [2, 3], y: [2, 4];
    lowered_diagonal: "ii->i", x: [3, 3];
    lowered_trace: "ii->", x: [3, 3];
    lowered_diagonal_of_cube: "iji->ji", x: [3, 2, 3];
    lowered_transpose: "ijk->kji", x: [2, 3, 4];
    lowered_total: "ij->", x: [2, 3];
    lowered_diagonal_in_product: "ii,ij->j", x: [3, 3], y: [3, 2];
    lowered_chain: "ij,jk,kl->il", x: [2, 3], y: [3, 4], z: [4, 2];
    lowered_form: "i,ij,j->", x: [2], y: [2, 3], z: [3];
    lowered_empty: "ij,jk->ik", x: [2, 0], y: [0, 4];
    lowered_elementwise: "ab,b,ac->abc", x: [2, 3], y: [3], z: [2, 2];
}

#[traced]
fn lowered_pairs(x: &Tensor, y: &Tensor) -> Tensor {
    Tensor::einsum("bi,bi->bi", &[x, y]) + Tensor::einsum("ii->i", &[x])
}

#[test]
fn a_lowered_text_checks_the_lengths_of_axes() {
    assert_eq!(lowered_pairs::RECORDED, None);
    let (x, y) = (noise(&[3, 3], 1), noise(&[1, 3], 2));
    assert_eq!(
        fault(&|| lowered_pairs(&x, &y)),
        "einsum of `bi,bi->bi`: `b` is 3 in operand 1 and 1 in operand 2"
    );
    let wide = noise(&[2, 3], 1);
    assert_eq!(
        fault(&|| lowered_pairs(&wide, &wide)),
        "einsum of `ii->i`: `i` is 2 in operand 1 and 3 in operand 1"
    );
    let flat = noise(&[3], 1);
    assert_eq!(
        fault(&|| lowered_pairs(&flat, &flat)),
        "einsum of `bi,bi->bi`: operand 1 has rank 1, and `bi` has 2 axes"
    );
}

#[traced]
fn composed(x: &Tensor, y: &Tensor) -> Tensor {
    let repeated = x.repeat(2, -1).repeat(2, 0);
    x.cross(y, 1) * x.trace() + x.outer(y).sum(..) + repeated.square().sum(..)
}

#[test]
fn composed_methods_are_lowered_and_agree_with_closures() {
    assert_eq!(composed::RECORDED, None);
    let args = (noise(&[3, 3], 1), noise(&[3, 3], 2));
    let (y, pullback) = composed::vjp(&args.0, &args.1);
    let closure = |(x, y): &(Tensor, Tensor)| {
        let repeated = x.repeat(2, -1).repeat(2, 0);
        x.cross(y, 1) * x.trace() + x.outer(y).sum(..) + repeated.square().sum(..)
    };
    let (expected, of_closure) = gradloom::vjp(closure, &args);
    assert_near(&y, &expected, "value");
    let (gx, gy) = pullback(&y);
    let (ex, ey) = of_closure.call(&y);
    assert_near(&gx, &ex, "x");
    assert_near(&gy, &ey, "y");
}

#[test]
fn methods_of_several_ops_have_the_values_of_numpy() {
    let x = Tensor::from([[1.0f64, 7.0, 3.0], [5.0, 2.0, 9.0]]);
    assert_eq!(x.tile([2, 1]).shape(), [4, 3]);
    assert_eq!(
        x.tile([2]).to_vec::<f64>()[..6],
        [1.0, 7.0, 3.0, 1.0, 7.0, 3.0]
    );
    assert_eq!(x.repeat(0, 0).shape(), [0, 3]);
    assert_eq!(
        x.repeat(2, -1).to_vec::<f64>()[..6],
        [1.0, 1.0, 7.0, 7.0, 3.0, 3.0]
    );
    assert_eq!(x.median(1).to_vec::<f64>(), [3.0, 5.0]);
    assert_eq!(x.median(0).to_vec::<f64>(), [3.0, 4.5, 6.0]);
    assert_eq!(x.quantile(0.25, 1).to_vec::<f64>(), [2.0, 3.5]);
    let nan = Tensor::from([1.0f64, f64::NAN, 3.0]);
    assert!(nan.median(0).item::<f64>().is_nan());
    assert_eq!(
        Tensor::linspace(1.0, 2.0, 1, DType::F64).to_vec::<f64>(),
        [1.0]
    );
    assert_eq!(
        Tensor::linspace(0.0, 0.3, 4, DType::F64).to_vec::<f64>()[3],
        0.3
    );
    assert_eq!(Tensor::linspace(0.0, 0.3, 0, DType::F64).shape(), [0]);
    let y = Tensor::from([[1.0f64, 0.0, 2.0], [0.0, 1.0, 1.0]]);
    assert_eq!(
        x.cross(&y, 1).to_vec::<f64>(),
        [14.0, 1.0, -7.0, -7.0, -5.0, 5.0]
    );
    let z = Tensor::from([1.0f64, 2.0, 3.0]);
    assert_eq!(
        z.pad_reflect([4], [3]).to_vec::<f64>(),
        [1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0]
    );
    assert_eq!(
        z.pad_wrap([4], [1]).to_vec::<f64>(),
        [3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0]
    );
    let one = Tensor::from([5.0f64]);
    assert_eq!(one.pad_reflect([1], [1]).to_vec::<f64>(), [5.0; 3]);
    let places = Tensor::from([1.0f64, 2.0, 2.0, 4.0])
        .searchsorted(Tensor::from([[0.0f64, 2.0], [3.0, 5.0]]));
    assert_eq!(places.to_vec::<i64>(), [0, 1, 3, 4]);
}
