//! Parameters that borrow parts of a tree, and parameters that are patterns.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds};

/// Checks a traced function of one parameter against transforms of itself and differences.
///
/// It is compiled, and a second call of it or of its companions reuses a plan. The closure returns
/// the argument that borrows from its owned form.
macro_rules! check {
    ($f:ident, $x:expr, |$view:ident: &$ty:ty| $argument:expr) => {{
        assert!(!$f::PROGRAM.starts_with("recorded"), "{}", $f::PROGRAM);
        assert_eq!($f::RECORDED, None);
        let x: $ty = $x;
        Companions {
            call: &|$view: &$ty| $f($argument),
            vjp: &|$view: &$ty, ct| {
                let (y, pullback) = $f::vjp($argument);
                (y, pullback(ct))
            },
            jvp: &|$view: &$ty, dx| $f::jvp($argument, dx),
        }
        .check(&x);
        let $view = &x;
        finds(|| $f($argument));
        finds(|| $f::value_and_grad($argument).0);
        finds(|| $f::vjp($argument).0);
        finds(|| $f::jvp($argument, &x));
        assert_eq!(bits(&$f::saved($argument).0), bits(&$f($argument)));
        x
    }};
}

fn tensors<const N: usize>() -> [Tensor; N] {
    std::array::from_fn(|i| noise(&[2, 2], i as u64 + 1).cast(DType::F64))
}

#[derive(Clone, Debug, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
}

fn layer(seed: u64) -> Layer {
    let [w, b] = [seed, seed + 1].map(|seed| noise(&[2, 2], seed).cast(DType::F64));
    Layer { w, b: Some(b) }
}

// ---- Lists ----

#[traced]
fn slice(xs: &[Tensor]) -> Tensor {
    let mut total = xs[0].zeros_like();
    for (i, x) in xs.iter().enumerate() {
        total = total + x.tanh() * (i + 1) as f64;
    }
    (total * &xs[xs.len() - 1]).sum(..)
}

#[traced]
fn slice_in_a_pattern(xs: &[Tensor]) -> Tensor {
    match xs {
        [] => Tensor::from(0.0f64),
        [x] => x.sum(..),
        [first, .., last] => (first * last).sum(..),
    }
}

#[traced]
fn slice_of_layers(layers: &[Layer]) -> Tensor {
    let mut h = layers[0].w.tanh();
    for layer in layers {
        h = h.matmul(&layer.w);
        if let Some(b) = &layer.b {
            h = h + b;
        }
    }
    h.square().mean(..)
}

#[traced]
fn slice_of_references(xs: &[&Tensor]) -> Tensor {
    let mut total = xs[0] * 2.0;
    for x in xs {
        total = total * x.sin();
    }
    total.sum(..)
}

#[traced]
fn slice_of_pairs(pairs: &[(Tensor, Tensor)]) -> Tensor {
    let mut total = pairs[0].0.zeros_like();
    for (w, x) in pairs {
        total = total + w.matmul(x);
    }
    total.square().sum(..)
}

#[traced]
fn array_of_references(xs: [&Tensor; 2]) -> Tensor {
    let [a, b] = xs;
    (a.matmul(b) - xs[0] * xs[1]).square().sum(..)
}

#[traced]
fn reference_to_an_array(xs: &[Tensor; 3]) -> Tensor {
    let mut total = xs[0].zeros_like();
    for x in xs {
        total = total + x * x;
    }
    (total * &xs[1]).sum(..)
}

#[test]
fn a_list_that_borrows_has_a_gradient_of_its_own() {
    let xs = check!(slice, tensors::<3>().to_vec(), |xs: &Vec<Tensor>| &xs[..]);
    let gradient: Vec<Tensor> = slice::grad(&xs).xs;
    assert_eq!(gradient.len(), 3);
    check!(slice, tensors::<2>().to_vec(), |xs: &Vec<Tensor>| xs
        .as_slice());
    check!(slice_in_a_pattern, tensors::<3>().to_vec(), |xs: &Vec<
        Tensor,
    >| &xs[..]);
    check!(slice_of_layers, vec![layer(3), layer(5)], |xs: &Vec<
        Layer,
    >| &xs[..]);
    check!(slice_of_references, tensors::<3>().to_vec(), |xs: &Vec<
        Tensor,
    >| &xs
        .iter()
        .collect::<Vec<_>>()[..]);
    check!(array_of_references, tensors::<2>(), |xs: &[Tensor; 2]| xs
        .each_ref());
    check!(reference_to_an_array, tensors::<3>(), |xs: &[Tensor; 3]| xs);
    let pairs = vec![tensors::<2>().into(), tensors::<2>().into()];
    check!(slice_of_pairs, pairs, |xs: &Vec<(Tensor, Tensor)>| &xs[..]);
}

#[test]
fn an_empty_slice_and_a_slice_of_another_length_are_other_calls() {
    let xs = tensors::<3>();
    let sum = |n: usize| slice_in_a_pattern(&xs[..n]).item::<f64>();
    assert_eq!(sum(0), 0.0);
    assert_eq!(sum(1), xs[0].sum(..).item::<f64>());
    assert_eq!(sum(3), (&xs[0] * &xs[2]).sum(..).item::<f64>());
    assert!(slice_in_a_pattern::grad(&[]).xs.is_empty());
}

#[test]
fn one_tensor_at_two_places_of_a_list_has_two_gradients() {
    let x = Tensor::from(3.0f64);
    let gradient = array_of_references_product::grad([&x, &x]).xs;
    assert_eq!(gradient.map(|g| g.item::<f64>()), [6.0, 9.0]);
}

#[traced]
fn array_of_references_product(xs: [&Tensor; 2]) -> Tensor {
    xs[0] * xs[0] + xs[1] * 9.0
}

// ---- Options ----

#[traced]
fn optional(bias: Option<&Tensor>) -> Tensor {
    match bias {
        Some(b) => b.square().sum(..),
        None => Tensor::from(1.0f64),
    }
}

#[traced]
fn dense(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let mut h = x.matmul(w);
    if let Some(b) = bias {
        h = h + b;
    }
    h.tanh()
}

#[traced]
fn optional_layer(layer: Option<&Layer>) -> Tensor {
    let Some(layer) = layer else {
        return Tensor::from(0.0f64);
    };
    if layer.b.is_none() {
        return layer.w.sum(..);
    }
    dense(&layer.w, &layer.w, layer.b.as_ref()).sum(..)
}

#[test]
fn an_option_of_a_reference_has_an_optional_gradient() {
    let b = noise(&[2, 2], 1).cast(DType::F64);
    check!(optional, Some(b.clone()), |b: &Option<Tensor>| b.as_ref());
    assert_eq!(optional::grad(Some(&b)).bias.unwrap().shape(), [2, 2]);
    assert!(optional::grad(None).bias.is_none());
    check!(optional_layer, Some(layer(3)), |x: &Option<Layer>| x
        .as_ref());
    let bare = Layer {
        b: None,
        ..layer(3)
    };
    check!(optional_layer, Some(bare), |x: &Option<Layer>| x.as_ref());
    assert!(optional_layer::grad(None).layer.is_none());
}

// ---- Tuples ----

#[traced]
fn pair_of_references(pair: (&Tensor, &Tensor)) -> Tensor {
    let (a, b) = pair;
    (a.matmul(b) - pair.0).square().sum(..)
}

#[traced]
fn mixed_pair(pair: (Tensor, &[Tensor])) -> Tensor {
    let (a, rest) = pair;
    (a * slice(rest)).sum(..)
}

#[traced]
fn owned_pair(pair: (Tensor, Tensor)) -> Tensor {
    dense(&pair.0, &pair.1, Some(&pair.0)).sum(..)
}

#[traced]
fn reference_to_a_pair(pair: &(Tensor, Tensor)) -> Tensor {
    pair_of_references((&pair.0, &pair.1)) + pair_of_references((&pair.1, &pair.0))
}

#[test]
fn a_tuple_of_references_has_a_gradient_of_its_own() {
    check!(pair_of_references, pair(), |x: &(Tensor, Tensor)| (
        &x.0, &x.1
    ));
    let gradient: (Tensor, Tensor) = pair_of_references::grad((&pair().0, &pair().1)).pair;
    assert_eq!(gradient.0.shape(), [2, 2]);
    let mixed = (pair().0, tensors::<2>().to_vec());
    check!(mixed_pair, mixed, |x: &(Tensor, Vec<Tensor>)| (
        x.0.clone(),
        &x.1[..]
    ));
    check!(owned_pair, pair(), |x: &(Tensor, Tensor)| x.clone());
    check!(reference_to_a_pair, pair(), |x: &(Tensor, Tensor)| x);
}

fn pair() -> (Tensor, Tensor) {
    tensors::<2>().into()
}

// ---- Patterns ----

#[derive(Clone, Debug, Tree)]
struct Pair {
    x: Tensor,
    y: Tensor,
    #[tree(skip)]
    n: usize,
}

fn of_pair() -> Pair {
    let (x, y) = pair();
    Pair { x, y, n: 3 }
}

#[traced]
fn tuple_pattern((a, b): (&Tensor, &Tensor)) -> Tensor {
    (a.matmul(b) - a).square().sum(..)
}

#[traced]
fn owned_array_pattern([a, b]: [Tensor; 2]) -> Tensor {
    dense(&a, &b, Some(&b)).sum(..) + owned(b)
}

#[traced]
fn owned(x: Tensor) -> Tensor {
    x.sin().sum(..)
}

#[traced]
fn struct_pattern(Pair { x, y, n }: &Pair) -> Tensor {
    let mut h = x.clone();
    for _ in 0..*n {
        h = h.matmul(y).tanh();
    }
    dense(&h, y, None).sum(..)
}

#[traced]
fn owned_struct_pattern(Pair { x, y, n }: Pair) -> Tensor {
    (x * n as f64 + owned(y)).square().sum(..)
}

#[traced]
fn reference_pattern(&(ref a, ref b): &(Tensor, Tensor)) -> Tensor {
    tuple_pattern((a, b))
}

#[traced]
fn mutable(mut x: Tensor) -> Tensor {
    for _ in 0..2 {
        x = x.sin();
    }
    x.sum(..)
}

#[traced]
fn ignored(x: &Tensor, #[nodiff] _: &Tensor, [n, m]: [usize; 2]) -> Tensor {
    x.sum(..) * (n * m) as f64
}

#[test]
fn a_parameter_may_be_a_pattern() {
    check!(tuple_pattern, pair(), |x: &(Tensor, Tensor)| (&x.0, &x.1));
    check!(owned_array_pattern, tensors::<2>(), |x: &[Tensor; 2]| x
        .clone());
    check!(struct_pattern, of_pair(), |x: &Pair| x);
    check!(owned_struct_pattern, of_pair(), |x: &Pair| x.clone());
    check!(reference_pattern, pair(), |x: &(Tensor, Tensor)| x);
    check!(mutable, pair().0, |x: &Tensor| x.clone());
    let gradient = ignored::grad(&pair().0, &pair().1, [2, 3]).x;
    assert_eq!(gradient.to_vec::<f64>(), [6.0; 4]);
    assert_eq!(ignored::RECORDED, None);
    assert!(
        !ignored::PROGRAM.starts_with("recorded"),
        "{}",
        ignored::PROGRAM
    );
}
