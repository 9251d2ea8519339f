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
        total += x.tanh() * (i + 1) as f64;
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
            h += b;
        }
    }
    h.square().mean(..)
}

#[traced]
fn slice_of_references(xs: &[&Tensor]) -> Tensor {
    let mut total = xs[0] * 2.0;
    for x in xs {
        total *= x.sin();
    }
    total.sum(..)
}

#[traced]
fn slice_of_pairs(pairs: &[(Tensor, Tensor)]) -> Tensor {
    let mut total = pairs[0].0.zeros_like();
    for (w, x) in pairs {
        total += w.matmul(x);
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
        total += x * x;
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
        h += b;
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
    (a * &rest[0] * slice(rest)).sum(..)
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

// ---- Companions, methods, generics ----

#[derive(Clone, Debug, Tree)]
struct Net {
    layers: Vec<Layer>,
    bias: Option<Tensor>,
}

#[traced]
impl Net {
    fn forward(&self, xs: &[Tensor], bias: Option<&Tensor>) -> Tensor {
        let h = dense(&xs[0], &self.layers[0].w, bias);
        h + slice_of_layers(&self.layers) + slice(&xs[1..])
    }

    fn loss(&self, pair: (&Tensor, &Tensor)) -> Tensor {
        let (x, y) = pair;
        let own = self.forward(&[x.clone(), y * 2.0], self.bias.as_ref());
        let other = self.forward(&[x.sin(), y.clone()], None);
        let whole = optional_layer(Some(&self.layers[0]));
        (own * other).mean(..) + slice_of_layers(self.layers.as_slice()) * whole
    }
}

type OfNet = (Net, (Tensor, Tensor));

#[test]
fn methods_pass_borrowed_parts_to_each_other() {
    let net = Net {
        layers: vec![layer(3), layer(5)],
        bias: Some(noise(&[2, 2], 9).cast(DType::F64)),
    };
    assert!(
        !Net::LOSS_PROGRAM.starts_with("recorded"),
        "{}",
        Net::LOSS_PROGRAM
    );
    assert!(
        !Net::FORWARD_PROGRAM.starts_with("recorded"),
        "{}",
        Net::FORWARD_PROGRAM
    );
    assert_eq!(Net::LOSS_RECORDED, None);
    let x: OfNet = (net, pair());
    Companions {
        call: &|(net, pair): &OfNet| net.loss((&pair.0, &pair.1)),
        vjp: &|(net, pair): &OfNet, ct| {
            let (y, pullback) = net.loss_vjp((&pair.0, &pair.1));
            (y, pullback(ct))
        },
        jvp: &|(net, pair): &OfNet, dx| net.loss_jvp((&pair.0, &pair.1), (&dx.0, &dx.1)),
    }
    .check(&x);
    let (net, (a, b)) = &x;
    finds(|| net.loss_grad((a, b)));
}

#[traced(order = 2)]
fn cubed(xs: &[Tensor], scale: Option<&Tensor>) -> Tensor {
    let y = (&xs[0] * &xs[1] * &xs[0]).sum(..);
    match scale {
        Some(scale) => y * scale,
        None => y,
    }
}

#[test]
fn a_list_has_a_hessian_vector_product() {
    let (xs, dx) = (tensors::<2>(), tensors::<2>().map(|x| x.cos()).to_vec());
    let scale = Tensor::from(2.0f64);
    let (gradient, change) = cubed::hvp(
        (&xs[..], Some(&scale)),
        (&dx, &None::<Tensor>.or(Some(scale.zeros_like()))),
    );
    let plain = |xs: &Vec<Tensor>| cubed::grad(xs, Some(&scale)).xs;
    let (expected, derivative) = jvp(plain, &xs.to_vec(), &dx);
    gradloom::tree::assert_close(&gradient.xs, &expected, 1e-12);
    gradloom::tree::assert_close(&change.xs, &derivative, 1e-12);
}

#[traced(order = 2)]
fn product((a, b): (&Tensor, &Tensor)) -> Tensor {
    (a * b * a).sum(..)
}

#[test]
fn a_pattern_has_a_hessian_vector_product() {
    let (x, dx) = (pair(), pair());
    let (_, change) = product::hvp((&x.0, &x.1), &dx);
    let plain = |x: &(Tensor, Tensor)| product::grad((&x.0, &x.1)).arg_0;
    let (_, derivative) = jvp(plain, &x, &dx);
    gradloom::tree::assert_close(&change.arg_0, &derivative, 1e-12);
}

#[traced]
fn generic<T: Tree + Clone>(xs: &[Tensor], _models: &[T], rest: Option<&T>) -> Tensor {
    match rest {
        Some(_) => slice(xs) * 2.0,
        None => slice(xs),
    }
}

#[traced]
fn fallible(xs: &[Tensor], [n, m]: [usize; 2]) -> gradloom::Result<Tensor> {
    Ok(dense(&xs[0], &xs[1], Some(&xs[0])).reshape([n, m]))
}

#[traced(record, pure)]
fn recorded(xs: &[Tensor], bias: Option<&Tensor>, (a, b): (&Tensor, &Tensor)) -> Tensor {
    slice(xs) * dense(a, b, bias)
}

#[traced]
fn calls_recorded(a: &Tensor, b: &Tensor) -> Tensor {
    let c = a.sin();
    recorded(&[a.clone(), c.clone()], Some(&c), (b, &c)).sum(..)
}

#[traced]
fn through_nodiff(x: &Tensor, #[nodiff] weights: &[Tensor]) -> Tensor {
    (x * &weights[0]).sum(..)
}

#[traced]
fn differentiates_weights(x: &Tensor) -> Tensor {
    through_nodiff(x, &[x.sin()])
}

#[traced]
fn recursive(xs: &[Tensor]) -> Tensor {
    if xs.len() == 1 {
        return xs[0].sum(..);
    }
    recursive(&xs[1..]) * xs[0].sum(..)
}

#[traced]
fn checkpointed(xs: &[Tensor], (a, b): (&Tensor, &Tensor), bias: Option<&Tensor>) -> Tensor {
    let mut h = a.clone();
    #[checkpoint(every = 2)]
    for i in 0..4 {
        h = (h.matmul(b) + &xs[i % 2]).tanh();
        if let Some(bias) = bias {
            h += bias;
        }
    }
    h.sum(..)
}

#[test]
fn borrowed_parts_go_through_every_kind_of_call() {
    let xs = tensors::<2>();
    let twice = generic::grad(&xs, &[layer(1)], Some(&layer(2))).xs;
    let once = slice::grad(&xs).xs;
    let doubled: Vec<Tensor> = once.iter().map(|x| x * 2.0).collect();
    gradloom::tree::assert_close(&twice, &doubled, 1e-12);

    let y = fallible(&xs, [4, 1]).unwrap();
    assert_eq!(y.shape(), [4, 1]);
    assert!(fallible::vjp(&xs, [3, 1]).is_err());
    let (_, pullback) = fallible::vjp(&xs, [4, 1]).unwrap();
    assert_eq!(pullback(&y).len(), 2);

    check!(differentiates_weights, xs[0].clone(), |x: &Tensor| x);
    check!(recursive, tensors::<3>().to_vec(), |x: &Vec<Tensor>| x);
    assert!(!calls_recorded::PROGRAM.starts_with("recorded"));
    let f = |x: &(Tensor, Tensor)| calls_recorded(&x.0, &x.1);
    let g = calls_recorded::grad(&xs[0], &xs[1]);
    gradloom::tree::assert_close(&(g.a, g.b), &grad(f)(&pair()), 1e-12);
    assert!(
        !checkpointed::PROGRAM.starts_with("recorded"),
        "{}",
        checkpointed::PROGRAM
    );
    type All = (Vec<Tensor>, (Tensor, Tensor), Option<Tensor>);
    let all: All = (xs.to_vec(), pair(), Some(layer(7).w));
    let f = |x: &All| checkpointed(&x.0, (&x.1.0, &x.1.1), x.2.as_ref());
    Companions {
        call: &f,
        vjp: &|x: &All, ct| {
            let (y, pullback) = checkpointed::vjp(&x.0, (&x.1.0, &x.1.1), x.2.as_ref());
            (y, pullback(ct))
        },
        jvp: &|x: &All, dx| {
            checkpointed::jvp(
                (&x.0, (&x.1.0, &x.1.1), x.2.as_ref()),
                (&dx.0, &dx.1, &dx.2),
            )
        },
    }
    .check(&all);
}

// ---- Methods of borrowed parts ----

#[traced]
fn lowered_methods(xs: &[Tensor], ys: &[&Tensor], bias: Option<&Tensor>) -> Tensor {
    let mut h = xs.first().unwrap() * xs.last().unwrap() + ys[0] * ys[ys.len() - 1];
    if bias.is_some() {
        h += bias.unwrap();
    }
    if let [first, .., last] = ys {
        h *= *first + *last;
    }
    for (x, y) in xs.iter().zip(ys) {
        h += x * *y;
    }
    for y in ys.iter().copied() {
        h += y;
    }
    h.sum(..)
}

#[traced]
fn methods(xs: &[Tensor], ys: &[&Tensor], bias: Option<&Tensor>) -> Tensor {
    let mut h = xs.first().unwrap() * xs.last().unwrap() + ys[0] * ys[ys.len() - 1];
    if bias.is_some_and(|b| b.dim(0) > 1) {
        h += bias.unwrap();
    }
    if let [first, .., last] = ys {
        h *= *first + *last;
    }
    for (x, y) in xs.iter().zip(ys) {
        h += x * *y;
    }
    for y in ys.iter().copied() {
        h += y;
    }
    (h + bias.cloned().unwrap_or_else(|| xs[0].clone())).sum(..)
}

#[traced]
fn stacked(xs: &[Tensor], ys: &[&Tensor], bias: Option<&Tensor>) -> Tensor {
    let bias = bias.map(|b| b * 2.0).unwrap_or_else(|| xs[0].clone());
    (Tensor::stack(xs, 0).sum(0) * Tensor::concat(ys, 0).sum(..) * bias).sum(..)
}

#[traced]
fn split_first(xs: &[Tensor]) -> Tensor {
    let (first, rest) = xs.split_first().expect("not empty");
    let own = xs.to_vec();
    let mut h = first * &own[0];
    for x in rest {
        h += x;
    }
    let total: Tensor = xs.iter().map(|x| x.sin()).reduce(|a, b| a + b).unwrap();
    (h * total).sum(..)
}

#[traced]
fn moved(pair: (Tensor, &Tensor), [a, b]: [&Tensor; 2], Pair { mut x, .. }: Pair) -> Tensor {
    let (p, q) = pair;
    x += a * b;
    let both = (p, q);
    (x * &both.0 + both.1).sum(..)
}

#[test]
fn methods_of_borrowed_parts_have_derivatives() {
    let all = tensors::<3>();
    let ys = all.each_ref();
    let f = |xs: &Vec<Tensor>| methods(xs, &ys, Some(&all[1]));
    let g = methods::grad(&all, &ys, Some(&all[1]));
    gradloom::tree::assert_close(&g.xs, &grad(f)(&all.to_vec()), 1e-12);
    let f = |bias: &Tensor| methods(&all, &ys, Some(bias));
    gradloom::tree::assert_close(&g.bias.unwrap(), &grad(f)(&all[1]), 1e-12);
    let f = |ys: &Vec<Tensor>| methods(&all, &ys.iter().collect::<Vec<_>>(), Some(&all[1]));
    gradloom::tree::assert_close(&g.ys, &grad(f)(&all.to_vec()), 1e-12);

    let program = lowered_methods::PROGRAM;
    assert!(!program.starts_with("recorded"), "{program}");
    type All = (Vec<Tensor>, Vec<Tensor>, Option<Tensor>);
    let f = |x: &All| lowered_methods(&x.0, &Vec::from_iter(&x.1), x.2.as_ref());
    let g = lowered_methods::grad(&all, &ys, Some(&all[1]));
    let owned: All = (all.to_vec(), all.to_vec(), Some(all[1].clone()));
    gradloom::tree::assert_close(&(g.xs, g.ys, g.bias), &grad(f)(&owned), 1e-12);

    let f = |xs: &Vec<Tensor>| stacked(xs, &ys, None);
    let g = stacked::grad(&all, &ys, None).xs;
    gradloom::tree::assert_close(&g, &grad(f)(&all.to_vec()), 1e-12);
    let g = split_first::grad(&all).xs;
    let f = |xs: &Vec<Tensor>| split_first(xs);
    gradloom::tree::assert_close(&g, &grad(f)(&all.to_vec()), 1e-12);

    let [a, b, c] = all;
    let f = |p: &(Tensor, Tensor)| moved((p.0.clone(), &p.1), [&b, &c], of_pair());
    let g = moved::grad((a.clone(), &b), [&b, &c], of_pair()).pair;
    gradloom::tree::assert_close(&g, &grad(f)(&(a, b.clone())), 1e-12);
}
