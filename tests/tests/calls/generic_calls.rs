//! Generic functions: each instance reuses its own plans, with the bits of its ops.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds, is_recorded, log};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::LazyLock;

#[traced(order = 2)]
fn scaled<const N: usize>(x: &Tensor) -> Tensor {
    (x.sin() * N as f64).sum(..)
}

#[traced]
fn sides<const LEFT: bool, const BY: i8, const NAME: char>(x: &Tensor) -> Tensor {
    let by = f64::from(BY) + f64::from(NAME as u32);
    if LEFT { x * by } else { x / by }
}

#[test]
fn const_parameters_distinguish_instances() {
    assert_eq!((scaled::RECORDED, sides::RECORDED), (None, None));
    let x = noise(&[4, 3], 1);
    let (two, three) = (scaled::<2>(&x), scaled::<3>(&x));
    assert_eq!(bits(&(two / 2.0 * 3.0)), bits(&three));
    finds(|| scaled::<2>(&x));
    finds(|| scaled::<3>(&x));
    finds(|| scaled::grad::<2>(&x).x);
    finds(|| scaled::grad::<3>(&x).x);
    finds(|| scaled::jvp::<2>(&x, &x));
    finds(|| scaled::jvp::<3>(&x, &x));
    finds(|| scaled::hvp::<2>(&x, &x).1.x);
    finds(|| scaled::hvp::<3>(&x, &x).1.x);
    for _ in 0..2 {
        let (y, pullback) = scaled::vjp::<2>(&x);
        let (z, other) = scaled::vjp::<3>(&x);
        let (dy, dz) = (pullback(&y.ones_like()), other(&z.ones_like()));
        assert_eq!(bits(&dy), bits(&scaled::grad::<2>(&x).x));
        assert_eq!(bits(&dz), bits(&scaled::grad::<3>(&x).x));
    }
    finds(|| sides::<true, 2, 'a'>(&x));
    finds(|| sides::<false, 2, 'a'>(&x));
    finds(|| sides::<true, -2, 'a'>(&x));
    finds(|| sides::<true, 2, 'b'>(&x));
}

#[traced]
fn beside<T: Tree>(_tree: &T, x: &Tensor) -> Tensor {
    x.sin()
}

#[traced]
fn beside_itself(x: &Tensor, n: usize) -> Tensor {
    let mut y = beside(x, x);
    for _ in 0..n {
        y = beside(x, &y);
    }
    y.sum(..)
}

#[test]
fn a_parameter_that_is_a_reference_is_passed_to_a_type_parameter() {
    let x = noise(&[4, 3], 1);
    let expected = grad(|x: &Tensor| x.sin().sin().sum(..))(&x);
    assert_eq!(bits(&beside_itself::grad(&x, 1).x), bits(&expected));
    let tangent = beside_itself::jvp((&x, 1), &x).1;
    assert!((tangent - (expected * &x).sum(..)).item::<f64>().abs() < 1e-12);
}

#[test]
fn plans_of_one_instance_do_not_evict_those_of_another() {
    let x = noise(&[2], 1);
    macro_rules! all {
        ($($n:literal)*) => {
            [$(bits(&scaled::<$n>(&x))),*]
        };
    }
    let call =
        || all!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30);
    let first = call();
    let (second, events) = log(call);
    assert_eq!(first, second);
    let hits = events.iter().filter(|e| e.starts_with("hit")).count();
    assert_eq!(hits, 30);
}

/// Calls other instances of itself.
#[traced]
fn halved<const N: usize>(x: &Tensor) -> Tensor {
    match N {
        0 => x.clone(),
        1 => x.sin() * N as f64,
        2 => halved::<1>(x) * 2.0,
        3 => halved::<2>(x).sin(),
        _ => halved::<3>(x) * N as f64,
    }
}

#[test]
fn instances_call_each_other() {
    assert_eq!(halved::RECORDED, None);
    let x = noise(&[5], 1);
    let expected = [
        x.clone(),
        x.sin(),
        x.sin() * 2.0,
        (x.sin() * 2.0).sin(),
        (x.sin() * 2.0).sin() * 4.0,
    ];
    for _ in 0..2 {
        let found = [
            halved::<0>(&x),
            halved::<1>(&x),
            halved::<2>(&x),
            halved::<3>(&x),
            halved::<4>(&x),
        ];
        assert_eq!(bits(&found.to_vec()), bits(&expected.to_vec()));
    }
    finds(|| halved::<4>(&x));
    finds(|| halved::jvp::<4>(&x, &x));
    finds(|| halved::jvp::<3>(&x, &x));
}

#[derive(Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    fn times<const N: usize>(&self, x: &Tensor) -> Tensor {
        x * &self.w * N as f64
    }

    fn sines<const N: usize>(x: &Tensor) -> Tensor {
        (x * N as f64).sin()
    }
}

#[traced]
fn several(layer: &Layer, x: &Tensor) -> Tensor {
    let (a, b) = (layer.times::<2>(x), layer.times::<3>(x));
    let (c, d) = (Layer::sines::<2>(x), Layer::sines::<3>(x));
    (a * b + c * d).sum(..) + scaled::<2>(x) / scaled::<3>(x)
}

#[test]
fn callers_of_an_instance_use_its_companions() {
    assert_eq!(several::RECORDED, None);
    let (x, w) = (noise(&[3], 1), noise(&[3], 2));
    let layer = Layer { w };
    let plain = |x: &Tensor| {
        let (a, b) = (x * &layer.w * 2.0, x * &layer.w * 3.0);
        let (c, d) = ((x * 2.0).sin(), (x * 3.0).sin());
        let (e, f) = ((x.sin() * 2.0).sum(..), (x.sin() * 3.0).sum(..));
        (a * b + c * d).sum(..) + e / f
    };
    assert_eq!(bits(&several(&layer, &x)), bits(&plain(&x)));
    let close = |a: &Tensor, b: &Tensor| {
        let pairs = a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>());
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-12)
    };
    let gradient = grad(plain)(&x);
    assert!(close(&several::grad(&layer, &x).x, &gradient));
    let tangent = jvp(plain, &x, &x).1;
    let (_, found) = several::jvp(
        (&layer, &x),
        (
            &Layer {
                w: layer.w.zeros_like(),
            },
            &x,
        ),
    );
    assert!(close(&found, &tangent));
    finds(|| several(&layer, &x));
    finds(|| several::grad(&layer, &x).layer);
}

trait Activation {
    const GAIN: f64;
    fn apply(&self, x: &Tensor) -> Tensor;
}

#[derive(Tree)]
struct Scaled {
    by: Tensor,
}

#[derive(Tree)]
struct Shifted {
    by: Tensor,
}

impl Activation for Scaled {
    const GAIN: f64 = 2.0;
    fn apply(&self, x: &Tensor) -> Tensor {
        (x * &self.by).tanh()
    }
}

impl Activation for Shifted {
    const GAIN: f64 = -3.0;
    fn apply(&self, x: &Tensor) -> Tensor {
        (x + &self.by).tanh()
    }
}

#[traced]
fn gained<A: Activation>(x: &Tensor) -> Tensor {
    x * A::GAIN
}

#[traced(pure)]
fn through<A: Activation + Tree>(x: &Tensor, activation: &A) -> Tensor {
    let h = activation.apply(x);
    h.square().sum(..)
}

#[traced]
fn through_what(x: &Tensor, activation: &impl_free::Named) -> Tensor {
    activation.forward(x)
}

#[traced]
fn unknown<A: Activation + Tree>(x: &Tensor, activation: &A) -> Tensor {
    activation.apply(x)
}

mod impl_free {
    use gradloom::prelude::*;
    #[derive(Tree)]
    pub(super) struct Named {
        pub(super) w: Tensor,
    }
    #[traced]
    impl Named {
        pub(super) fn forward(&self, x: &Tensor) -> Tensor {
            x * &self.w
        }
    }
}

#[test]
fn type_parameters_distinguish_instances() {
    assert_eq!((gained::RECORDED, through::RECORDED), (None, None));
    // An inferred type in a path is still part of the instance.
    assert_eq!(through_what::RECORDED, None);
    let why = unknown::RECORDED.expect("a method of a type parameter may count its calls");
    assert!(why.starts_with("`.apply()` at line "), "{why}");
    assert!(why.contains("`#[traced(pure)]` declares"));
    let (x, by) = (noise(&[4, 3], 1), noise(&[3], 2));
    let (scaled, shifted) = (Scaled { by: by.clone() }, Shifted { by });
    assert_ne!(bits(&gained::<Scaled>(&x)), bits(&gained::<Shifted>(&x)));
    finds(|| gained::<Scaled>(&x));
    finds(|| gained::<Shifted>(&x));
    for _ in 0..2 {
        let (a, b) = (through(&x, &scaled), through(&x, &shifted));
        assert_eq!(bits(&a), bits(&op_by_op(|| through(&x, &scaled))));
        assert_eq!(bits(&b), bits(&op_by_op(|| through(&x, &shifted))));
        assert_ne!(bits(&a), bits(&b));
    }
    finds(|| through(&x, &scaled));
    finds(|| {
        let grads = through::grad(&x, &scaled);
        (grads.x, grads.activation)
    });
    finds(|| through::grad(&x, &shifted).activation);
    finds(|| through::jvp((&x, &scaled), (&x, &scaled)));
    finds(|| through::jvp((&x, &shifted), (&x, &shifted)));
    is_recorded(|| unknown(&x, &scaled));
}

#[derive(Tree)]
struct Pair<L, R> {
    left: L,
    right: R,
}

#[traced(pure)]
impl<L: Activation + Tree, R: Activation + Tree> Pair<L, R> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.left.apply(x);
        self.right.apply(&h)
    }
}

#[derive(Clone, Copy)]
struct Relu;
#[derive(Clone, Copy)]
struct Tanh;

impl Activation for Relu {
    const GAIN: f64 = 1.0;
    fn apply(&self, x: &Tensor) -> Tensor {
        x.relu()
    }
}

impl Activation for Tanh {
    const GAIN: f64 = 1.0;
    fn apply(&self, x: &Tensor) -> Tensor {
        x.tanh()
    }
}

/// A model whose type parameter selects the activation.
#[derive(Clone, Tree)]
struct Net<A> {
    layers: Vec<Tensor>,
    #[tree(skip)]
    activation: A,
    #[tree(skip)]
    kind: PhantomData<A>,
}

#[traced(pure)]
impl<A: Activation + Clone> Net<A> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for w in &self.layers {
            h = self.activation.apply(&h.matmul(w));
        }
        h.square().mean(..)
    }
}

#[test]
fn methods_of_generic_types_reuse_their_plans() {
    assert_eq!(Pair::<Scaled, Scaled>::FORWARD_RECORDED, None);
    let (x, by) = (noise(&[4, 3], 1), noise(&[3], 2));
    let scaled = || Scaled { by: by.clone() };
    let shifted = || Shifted { by: by.clone() };
    let (a, b) = (
        Pair {
            left: scaled(),
            right: shifted(),
        },
        Pair {
            left: shifted(),
            right: scaled(),
        },
    );
    assert_ne!(bits(&a.forward(&x)), bits(&b.forward(&x)));
    finds(|| a.forward(&x));
    finds(|| b.forward(&x));
    for _ in 0..2 {
        let (y, pullback) = a.forward_vjp(&x);
        let (z, other) = b.forward_vjp(&x);
        let expected = op_by_op(|| bits(&a.forward_vjp(&x).1(&y)));
        assert_eq!(bits(&pullback(&y)), expected);
        let expected = op_by_op(|| bits(&b.forward_vjp(&x).1(&z)));
        assert_eq!(bits(&other(&z)), expected);
    }
    fn net<A>(activation: A) -> Net<A> {
        Net {
            layers: vec![noise(&[3, 3], 3), noise(&[3, 2], 4)],
            activation,
            kind: PhantomData,
        }
    }
    let (relu, tanh) = (net(Relu), net(Tanh));
    finds(|| relu.forward(&x));
    finds(|| tanh.forward(&x));
    finds(|| relu.forward_grad(&x).this.layers);
    finds(|| tanh.forward_grad(&x).this.layers);
}

#[traced(pure)]
fn applied<F: Fn(&Tensor) -> Tensor + 'static>(x: &Tensor, #[fixed] f: &F) -> Tensor {
    f(x) * 2.0
}

#[traced(pure)]
fn times<T: Eq + Clone + Into<f64> + 'static>(x: &Tensor, #[fixed] by: T) -> Tensor {
    let by: f64 = by.into();
    x * by
}

#[traced(pure)]
fn long<T: Eq + Clone + AsRef<str>>(x: &Tensor, #[fixed] name: T) -> Tensor {
    let n = name.as_ref().len() as f64;
    x * n
}

#[test]
fn fixed_values_of_generic_types_are_compared_if_possible() {
    let x = noise(&[3], 1);
    // A closure without captures is identified by its type.
    finds(|| applied(&x, &Tensor::sin));
    finds(|| applied(&x, &|x: &Tensor| x.cos()));
    finds(|| applied(&x, &|x: &Tensor| x.tanh()));
    finds(|| applied::vjp(&x, &|x: &Tensor| x.tanh()).0);
    for by in [1.0, 2.0, 3.0] {
        let f = move |x: &Tensor| x * by;
        is_recorded(|| applied(&x, &f));
        assert_eq!(bits(&applied(&x, &f)), bits(&(&x * by * 2.0)));
    }
    for by in [1u8, 2, 3, 2] {
        finds(|| times(&x, by));
        finds(|| times(&x, i16::from(by) - 4));
    }
    let why = long::RECORDED.expect("a borrowed key may not outlive the call");
    assert!(why.contains("with the bound `T: 'static`"), "{why}");
    for name in ["a", "ab", "abc"].map(str::to_owned) {
        is_recorded(|| long(&x, name.as_str()));
        assert_eq!(bits(&long(&x, &name)), bits(&(&x * name.len() as f64)));
    }
}

#[derive(Clone, Tree)]
struct Named<'a> {
    w: Tensor,
    #[tree(skip)]
    name: &'a str,
}

#[derive(Clone, Tree)]
struct Labelled<'a> {
    w: Tensor,
    #[tree(skip)]
    label: Cow<'a, str>,
}

#[traced]
fn named<'a>(net: &Named<'a>, x: &Tensor, names: &[&str]) -> Tensor {
    let n = net.name.len() + names.len();
    (x * &net.w * n as f64).sum(..)
}

#[traced]
fn labelled<'a>(net: &Labelled<'a>, x: &Tensor) -> Tensor {
    let n = net.label.len();
    (x * &net.w * n as f64).sum(..)
}

#[test]
fn borrowed_text_is_part_of_the_key() {
    assert_eq!(named::RECORDED, None);
    let (x, w) = (noise(&[3], 1), noise(&[3], 2));
    for name in ["a", "ab", "abc", "ab"].map(str::to_owned) {
        let net = Named {
            w: w.clone(),
            name: &name,
        };
        finds(|| named(&net, &x, &["x", &name]));
        finds(|| named::grad(&net, &x, &["x", &name]).net.w);
        let expected = (&x * &w * (name.len() + 1) as f64).sum(..);
        assert_eq!(bits(&named(&net, &x, &["y"])), bits(&expected));
        let label = Cow::from(&*name);
        let net = Labelled {
            w: w.clone(),
            label,
        };
        is_recorded(|| labelled(&net, &x));
    }
}

#[traced(pure, record)]
fn both<T: Tree + Clone + 'static>(x: &Tensor, tree: &T) -> (Tensor, T) {
    (x.exp(), tree.clone())
}

#[traced(pure, record)]
fn both_for_a_while<T: Tree + Clone>(x: &Tensor, tree: &T) -> (Tensor, T) {
    (x.exp(), tree.clone())
}

#[test]
fn results_of_generic_types_reuse_their_plans() {
    let x = noise(&[3], 1);
    finds(|| both(&x, &vec![x.clone()]));
    finds(|| both(&x, &(x.clone(), x.clone())));
    finds(|| both::jvp((&x, &x), (&x, &x)));
    let why = both_for_a_while::RECORDED.expect("the result may borrow");
    assert!(why.contains("with the bound `T: 'static`"), "{why}");
    is_recorded(|| both_for_a_while(&x, &x));
}

static SHIFT: LazyLock<Tensor> = LazyLock::new(|| Tensor::from([1.0f64]));

/// A zero-sized value that dereferences to a tensor stored elsewhere.
struct Handle;

impl Deref for Handle {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &SHIFT
    }
}

static HANDLE: Handle = Handle;

#[traced]
fn by_a_lazy_tensor(x: &Tensor) -> Tensor {
    x * 3.0 + &*SHIFT
}

#[traced]
fn by_a_handle(x: &Tensor) -> Tensor {
    x * 3.0 + &*HANDLE
}

struct Opaque(f64);

#[traced]
fn by_an_opaque(x: &Tensor, #[fixed] by: &Opaque) -> Tensor {
    let by: f64 = by.0;
    x * by
}

struct Unit;

#[traced]
fn by_a_type(x: &Tensor, #[fixed] _by: Unit) -> Tensor {
    x * 2.0
}

#[traced]
fn by_a_pointer(x: &Tensor, #[fixed] f: fn(f64) -> f64) -> Tensor {
    let _ = f;
    x * 2.0
}

#[traced]
fn by_a_map(x: &Tensor, #[fixed] by: &HashMap<u8, u8>) -> Tensor {
    let _ = by;
    x * 2.0
}

#[traced]
fn by_a_cell(x: &Tensor, #[fixed] by: &dyn Fn() -> f64) -> Tensor {
    let _ = by;
    x * 2.0
}

thread_local! {
    static STATE: Cell<f64> = const { Cell::new(1.0) };
}

#[traced]
fn by_a_state(x: &Tensor) -> Tensor {
    let _ = &STATE;
    x * 2.0
}

const SITE: f64 = 2.0;

#[traced]
fn by_a_name_of_ours(x: &Tensor) -> Tensor {
    x * SITE
}

#[test]
fn recorded_names_the_type_that_prevents_caching() {
    let of_a_static = "may be mutable or hold a tensor";
    let of_an_argument = "cannot be part of a cache key";
    for (what, said, why) in [
        ("`SHIFT`", of_a_static, by_a_lazy_tensor::RECORDED),
        ("`HANDLE`", of_a_static, by_a_handle::RECORDED),
        ("`STATE`", of_a_static, by_a_state::RECORDED),
        ("`by`", of_an_argument, by_an_opaque::RECORDED),
        ("`by`", of_an_argument, by_a_cell::RECORDED),
        ("`f`", of_an_argument, by_a_pointer::RECORDED),
    ] {
        let why = why.expect(what);
        assert!(why.starts_with(what) && why.contains(said), "{why}");
    }
    let x = Tensor::from([2.0f64]);
    is_recorded(|| by_a_lazy_tensor(&x));
    is_recorded(|| by_a_handle(&x));
    is_recorded(|| by_a_state(&x));
    is_recorded(|| by_an_opaque(&x, &Opaque(2.0)));
    is_recorded(|| by_a_cell(&x, &|| 1.0));
    assert_eq!((by_a_type::RECORDED, by_a_map::RECORDED), (None, None));
    finds(|| by_a_type(&x, Unit));
    is_recorded(|| by_a_pointer(&x, f64::sin));
    let map: HashMap<u8, u8> = (0..3).map(|i| (i, i)).collect();
    assert_eq!(by_a_map::RECORDED, None);
    finds(|| by_a_map(&x, &map));
    assert_eq!(by_a_name_of_ours(&x).to_vec::<f64>(), [4.0]);
}
