//! Traits, type parameters, const generics and trait objects.

use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom::testing::check_no_call;
use std::cell::Cell;

#[traced]
trait Activation {
    fn apply(&self, x: &Tensor) -> Tensor;

    fn twice(&self, x: &Tensor) -> Tensor {
        let y = self.apply(x);
        self.apply(&y)
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Tanh;

#[traced]
impl Activation for Tanh {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.tanh()
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Square;

#[traced]
impl Activation for Square {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.square()
    }
}

#[derive(Clone, Tree)]
struct Scale {
    by: Tensor,
}

#[traced]
impl Activation for Scale {
    fn apply(&self, x: &Tensor) -> Tensor {
        x * &self.by
    }
}

/// Has an effect at each call.
#[derive(Clone, PartialEq, Eq)]
struct Counter;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

impl Activation for Counter {
    fn apply(&self, x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        x.tanh()
    }
}

#[derive(Clone, Tree)]
struct Net<A: Clone> {
    w: Tensor,
    #[tree(skip)]
    activation: A,
}

#[traced]
impl<A: Activation + Clone> Net<A> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.activation.apply(&x.matmul(&self.w))
    }

    fn deep(&self, x: &Tensor) -> Tensor {
        let h = self.forward(x);
        self.activation.twice(&h).sum(..)
    }
}

fn x() -> Tensor {
    Tensor::from([[0.5f64, -0.25], [1.0, 2.0]])
}

fn w() -> Tensor {
    Tensor::from([[0.3f64], [-0.7]])
}

/// Returns the number of plans that the second of two equal calls makes.
fn planned_again<T: Tree>(mut call: impl FnMut() -> T) -> usize {
    let mut n = 0;
    check_no_call(|| {
        evaluate(&call()).unwrap();
        let (_, log) = events::record(|| evaluate(&call()).unwrap());
        n = log
            .iter()
            .filter(|e| !matches!(e, Event::Hit { .. } | Event::Ran { .. }))
            .count();
    });
    n
}

fn close(a: &Tensor, b: &Tensor) {
    gradloom::tree::assert_close(a, b, 1e-9);
}

#[test]
fn a_method_of_a_type_parameter_is_cached() {
    let net = Net {
        w: w(),
        activation: Tanh,
    };
    close(&net.forward(&x()), &x().matmul(w()).tanh());
    assert_eq!(Net::<Tanh>::FORWARD_RECORDED, None);
    assert_eq!(Net::<Tanh>::DEEP_RECORDED, None);
    assert_eq!(planned_again(|| net.forward(&x())), 0);
    assert_eq!(planned_again(|| net.deep(&x())), 0);
    assert_eq!(planned_again(|| net.deep_grad(&x())), 0);
    assert_eq!(planned_again(|| net.deep_vjp(&x()).0), 0);
    assert_eq!(planned_again(|| net.deep_jvp(&x(), (&net, &x())).0), 0);
    let loss = |(net, x): &(Net<Tanh>, Tensor)| x.matmul(&net.w).tanh().tanh().tanh().sum(..);
    let wanted = grad(loss)(&(net.clone(), x()));
    let got = net.deep_grad(&x());
    close(&got.this.w, &wanted.0.w);
    close(&got.x, &wanted.1);
}

#[test]
fn instances_do_not_share_plans() {
    let tanh = Net {
        w: w(),
        activation: Tanh,
    };
    let square = Net {
        w: w(),
        activation: Square,
    };
    for _ in 0..3 {
        close(&tanh.forward(&x()), &x().matmul(w()).tanh());
        close(&square.forward(&x()), &x().matmul(w()).square());
    }
}

#[test]
fn an_impl_without_the_attribute_is_called_each_time() {
    let net = Net {
        w: w(),
        activation: Counter,
    };
    COUNT.set(0);
    for i in 1..=5 {
        close(&net.forward(&x()), &x().matmul(w()).tanh());
        assert_eq!(COUNT.get(), i);
    }
    for i in 1..=5 {
        evaluate(&net.deep(&x())).unwrap();
        assert_eq!(COUNT.get(), 5 + 3 * i);
    }
}

#[test]
fn a_default_method_has_the_values_of_its_impl() {
    close(&Tanh.twice(&x()), &x().tanh().tanh());
    close(&Square.twice(&x()), &x().square().square());
    let scale = Scale {
        by: Tensor::from(3.0f64),
    };
    let object: &dyn Activation = &scale;
    close(&object.twice(&x()), &(x() * 9.0));
}

#[test]
fn a_method_of_a_trait_has_companions() {
    let scale = Scale {
        by: Tensor::from(3.0f64),
    };
    let (y, pullback) = scale.apply_vjp(&x());
    close(&y, &(x() * 3.0));
    let (ct_scale, ct_x) = pullback(&y.ones_like());
    close(&ct_scale.by, &x().sum(..));
    close(&ct_x, &(x().ones_like() * 3.0));
    assert_eq!(Scale::APPLY_RECORDED, None);
    assert_eq!(planned_again(|| scale.apply(&x())), 0);
    assert_eq!(planned_again(|| Tanh.apply(&x())), 0);
}

/// Calls a method of a concrete type.
#[traced]
fn scaled(scale: &Scale, x: &Tensor) -> Tensor {
    let h = scale.apply(&x.exp());
    h.square().mean(..)
}

#[test]
fn a_method_of_a_concrete_type_is_differentiated_at_compile_time() {
    let scale = Scale {
        by: Tensor::from(3.0f64),
    };
    assert!(!scaled::PROGRAM.contains("recorded"), "{}", scaled::PROGRAM);
    assert_eq!(scaled::RECORDED, None);
    let f = |(s, x): &(Scale, Tensor)| (x.exp() * &s.by).square().mean(..);
    let wanted = grad(f)(&(scale.clone(), x()));
    let got = scaled::grad(&scale, &x());
    close(&got.scale.by, &wanted.0.by);
    close(&got.x, &wanted.1);
    assert_eq!(planned_again(|| scaled::grad(&scale, &x())), 0);
}

#[traced]
trait Function {
    fn eval(x: &Tensor) -> Tensor;
    fn with_scale(x: &Tensor, scale: f64) -> Tensor
    where
        Self: Sized,
    {
        Self::eval(x) * scale
    }
}

struct Sin;

#[traced]
impl Function for Sin {
    fn eval(x: &Tensor) -> Tensor {
        x.sin()
    }
}

struct Noisy;

impl Function for Noisy {
    fn eval(x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        x.sin()
    }
}

#[traced]
fn by_parameter<F: Function>(x: &Tensor) -> Tensor {
    let y = F::eval(x);
    <F as Function>::with_scale(&y, 2.0).sum(..)
}

#[test]
fn a_function_of_a_type_parameter_is_cached() {
    let f = |x: &Tensor| (x.sin().sin() * 2.0).sum(..);
    close(&by_parameter::<Sin>(&x()), &f(&x()));
    close(&by_parameter::grad::<Sin>(&x()).x, &grad(f)(&x()));
    assert_eq!(by_parameter::RECORDED, None);
    assert_eq!(planned_again(|| by_parameter::<Sin>(&x())), 0);
    assert_eq!(planned_again(|| by_parameter::grad::<Sin>(&x())), 0);
    COUNT.set(0);
    for i in 1..=4 {
        evaluate(&by_parameter::<Noisy>(&x())).unwrap();
        assert_eq!(COUNT.get(), 2 * i);
    }
}

mod foreign {
    use gradloom::Tensor;

    /// A trait without `#[traced]`, as of another crate.
    pub(super) trait Layer {
        const SCALE: f64;
        type Input;
        fn forward(&self, x: &Tensor) -> Tensor;
    }

    #[gradloom::traced]
    pub(super) trait Named {
        fn plain(&self, x: &Tensor) -> Tensor;
    }

    #[gradloom::traced]
    pub(super) trait Norm: Named {
        const EPS: f64;
        type Out;
        fn norm(&self, x: &Tensor) -> Tensor;
        fn centred(&self, x: &Tensor) -> Tensor {
            self.norm(&self.plain(x)) + Self::EPS
        }
    }
}

#[derive(Clone, Tree)]
struct Dense {
    w: Tensor,
}

#[traced]
impl foreign::Layer for Dense {
    const SCALE: f64 = 2.0;
    type Input = Tensor;

    fn forward(&self, x: &Tensor) -> Tensor {
        let h: Self::Input = x.matmul(&self.w);
        h * Self::SCALE
    }
}

#[test]
fn the_trait_may_be_of_another_crate() {
    let dense = Dense { w: w() };
    let (y, pullback) = dense.forward_vjp(&x());
    close(&y, &(x().matmul(w()) * 2.0));
    close(
        &pullback(&y.ones_like()).0.w,
        &(x().transpose().matmul(y.ones_like()) * 2.0),
    );
    assert_eq!(Dense::FORWARD_RECORDED, None);
    assert_eq!(planned_again(|| foreign::Layer::forward(&dense, &x())), 0);
}

#[traced(allow(recorded_call))]
fn of_untraced<L: foreign::Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
    layer.forward(x).sum(..)
}

#[test]
fn a_trait_without_the_attribute_is_a_reason() {
    let dense = Dense { w: w() };
    close(&of_untraced(&dense, &x()), &(x().matmul(w()) * 2.0).sum(..));
    let got = of_untraced::grad(&dense, &x());
    close(
        &got.layer.w,
        &(x().transpose().matmul(Tensor::ones([2, 1], DType::F64)) * 2.0),
    );
    let why = of_untraced::RECORDED.expect("the trait is not traced");
    assert!(
        why.contains("put `#[traced]` on it, or on its trait and the impls"),
        "{why}"
    );
    assert!(planned_again(|| of_untraced(&dense, &x())) > 0);
}

#[traced]
impl foreign::Named for Dense {
    fn plain(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w)
    }
}

#[traced]
impl foreign::Norm for Dense {
    const EPS: f64 = 0.5;
    type Out = Tensor;
    fn norm(&self, x: &Tensor) -> Tensor {
        let y: Self::Out = x / x.square().sum(..).sqrt();
        y
    }
}

use foreign::Norm;

#[traced]
fn normed<N: Norm + Tree>(n: &N, x: &Tensor) -> Tensor {
    (n.centred(x) * n.plain(x) * N::EPS).sum(..)
}

#[test]
fn supertraits_and_constants() {
    let dense = Dense { w: w() };
    let f = |(d, x): &(Dense, Tensor)| {
        let h = x.matmul(&d.w);
        ((&h / h.square().sum(..).sqrt() + 0.5) * h * 0.5).sum(..)
    };
    let at = (dense.clone(), x());
    close(&normed(&dense, &x()), &f(&at));
    let got = normed::grad(&dense, &x());
    let wanted = grad(f)(&at);
    close(&got.n.w, &wanted.0.w);
    close(&got.x, &wanted.1);
    assert_eq!(normed::RECORDED, None);
    assert_eq!(planned_again(|| normed(&dense, &x())), 0);
    assert_eq!(planned_again(|| normed::grad(&dense, &x())), 0);
}

#[traced]
trait Layer {
    fn forward(&self, x: &Tensor) -> Tensor;
}

/// A type that is not of this crate has no companions.
#[traced]
impl<A: Layer, B: Layer> Layer for (A, B) {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.1.forward(&self.0.forward(x))
    }
}

#[traced]
impl<L: Layer> Layer for Vec<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for layer in self {
            h = layer.forward(&h);
        }
        h
    }
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Stage<A: Clone> {
    w: Tensor,
    #[tree(skip)]
    activation: A,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w).tanh()
    }
}

/// Calls the inherent method, which has the companions.
#[traced]
impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.forward(x)
    }
}

#[traced]
impl<A: Activation + Clone> Layer for Stage<A> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.activation.apply(&x.matmul(&self.w))
    }
}

#[traced]
fn run<L: Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
    let y = layer.forward(x);
    y.square().sum(..)
}

#[traced]
fn run_all<L: Layer + Tree, const N: usize>(layers: &[L; N], x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for layer in layers {
        h = layer.forward(&h);
    }
    h.square().sum(..)
}

#[traced]
impl Linear {
    fn pairs(pair: &(Linear, Stage<Tanh>), x: &Tensor) -> Tensor {
        run(pair, x)
    }
}

fn square() -> Tensor {
    Tensor::from([[0.3f64, 0.1], [-0.7, 0.4]])
}

#[test]
fn layers_of_layers_are_cached() {
    let linear = Linear { w: square() };
    let stage = Stage {
        w: square(),
        activation: Square,
    };
    let both = (linear.clone(), stage.clone());
    let f = |(both, x): &((Linear, Stage<Square>), Tensor)| {
        x.matmul(&both.0.w)
            .tanh()
            .matmul(&both.1.w)
            .square()
            .square()
            .sum(..)
    };
    let at = (both.clone(), x());
    close(&run(&both, &x()), &f(&at));
    let (got, wanted) = (run::grad(&both, &x()), grad(f)(&at));
    close(&got.layer.0.w, &wanted.0.0.w);
    close(&got.layer.1.w, &wanted.0.1.w);
    close(&got.x, &wanted.1);
    assert_eq!(run::RECORDED, None);
    assert_eq!(planned_again(|| run(&both, &x())), 0);
    assert_eq!(planned_again(|| run::grad(&both, &x())), 0);
    let list = vec![stage.clone(), stage.clone(), stage];
    assert_eq!(planned_again(|| run(&list, &x())), 0);
    close(
        &run(&list, &x()),
        &run_all(&[list[0].clone(), list[1].clone(), list[2].clone()], &x()),
    );
    // No layer is called.
    assert_eq!(planned_again(|| run(&Vec::<Linear>::new(), &x())), 0);
    assert_eq!(Linear::PAIRS_RECORDED, None);
}

#[test]
fn an_untraced_layer_of_a_layer_is_called_each_time() {
    let list = vec![Scaled {
        by: Tensor::from(2.0f64),
    }];
    COUNT.set(0);
    for i in 1..=3 {
        evaluate(&run(&list, &x())).unwrap();
        assert_eq!(COUNT.get(), i);
    }
    for i in 1..=3 {
        evaluate(&run::grad(&list, &x())).unwrap();
        assert_eq!(COUNT.get(), 3 + i);
    }
    for i in 1..=3 {
        evaluate(&run_all(&[list[0].clone()], &x())).unwrap();
        assert_eq!(COUNT.get(), 6 + i);
    }
}

#[derive(Clone, Tree)]
struct Scaled {
    by: Tensor,
}

impl Layer for Scaled {
    fn forward(&self, x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        x * &self.by
    }
}

#[traced]
fn repeated<const N: usize>(x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for _ in 0..N {
        h = h.tanh();
    }
    h.sum(..)
}

#[derive(Clone, Tree)]
struct Stack<const N: usize> {
    layers: [Linear; N],
}

#[traced]
impl<const N: usize> Stack<N> {
    fn apply(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for layer in &self.layers {
            h = layer.forward(&h);
        }
        h.sum(..)
    }

    fn indexed(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for i in 0..N {
            h = self.layers[i].forward(&h);
        }
        h.sum(..)
    }
}

#[test]
fn const_parameters_count_loops() {
    let f = |x: &Tensor| x.tanh().tanh().tanh().sum(..);
    close(&repeated::<3>(&x()), &f(&x()));
    close(&repeated::grad::<3>(&x()).x, &grad(f)(&x()));
    assert_eq!(planned_again(|| repeated::grad::<3>(&x())), 0);
    let linear = Linear { w: square() };
    let stack = Stack {
        layers: [linear.clone(), linear],
    };
    let f = |(s, x): &(Stack<2>, Tensor)| {
        x.matmul(&s.layers[0].w)
            .tanh()
            .matmul(&s.layers[1].w)
            .tanh()
            .sum(..)
    };
    let at = (stack.clone(), x());
    let wanted = grad(f)(&at);
    for got in [stack.apply_grad(&x()).this, stack.indexed_grad(&x()).this] {
        close(&got.layers[0].w, &wanted.0.layers[0].w);
        close(&got.layers[1].w, &wanted.0.layers[1].w);
    }
    close(&stack.apply(&x()), &f(&at));
    assert_eq!(
        (Stack::<2>::APPLY_RECORDED, Stack::<2>::INDEXED_RECORDED),
        (None, None)
    );
    assert_eq!(planned_again(|| stack.apply_grad(&x())), 0);
    assert_eq!(planned_again(|| stack.indexed_grad(&x())), 0);
}

#[traced(allow(recorded_call))]
fn by_object(layer: &dyn Layer, x: &Tensor) -> Tensor {
    let y = layer.forward(x);
    y.square().sum(..)
}

#[test]
fn a_trait_object_is_recorded_with_a_reason() {
    let linear = Linear { w: square() };
    let f = |x: &Tensor| x.matmul(square()).tanh().square().sum(..);
    close(&by_object(&linear, &x()), &f(&x()));
    close(&by_object::grad(&linear, &x()).x, &grad(f)(&x()));
    let why = by_object::RECORDED.expect("a key cannot hold a trait object");
    assert!(why.contains("trait object"), "{why}");
    COUNT.set(0);
    let scaled = Scaled {
        by: Tensor::from(2.0f64),
    };
    for i in 1..=3 {
        evaluate(&by_object(&scaled, &x())).unwrap();
        assert_eq!(COUNT.get(), i);
    }
}

#[traced]
trait Combine<T> {
    const BY: f64;
    fn combine(&self, x: &Tensor, with: T) -> Tensor;
}

#[traced]
impl Combine<f64> for Linear {
    const BY: f64 = 2.0;
    fn combine(&self, x: &Tensor, with: f64) -> Tensor {
        x.matmul(&self.w) * with * Self::BY
    }
}

#[traced]
impl Combine<&Tensor> for Linear {
    const BY: f64 = 3.0;
    fn combine(&self, x: &Tensor, with: &Tensor) -> Tensor {
        x.matmul(&self.w) * with * <Self as Combine<&Tensor>>::BY
    }
}

#[traced]
fn combined<C: Combine<f64> + Tree>(c: &C, x: &Tensor) -> Tensor {
    c.combine(x, 0.5).sum(..)
}

#[traced]
fn combined_with<C: for<'a> Combine<&'a Tensor> + Tree>(c: &C, x: &Tensor) -> Tensor {
    let y = c.combine(x, x);
    y.sum(..)
}

#[test]
fn a_generic_trait_is_implemented_several_times() {
    let linear = Linear { w: square() };
    close(&combined(&linear, &x()), &(x().matmul(square())).sum(..));
    close(
        &combined_with(&linear, &x()),
        &(x().matmul(square()) * x() * 3.0).sum(..),
    );
    assert_eq!(combined::RECORDED, None);
    assert_eq!(planned_again(|| combined::grad(&linear, &x())), 0);
    assert_eq!(planned_again(|| combined_with::grad(&linear, &x())), 0);
}

/// Forms of calls of functions of a type parameter.
mod calls {
    use super::{Function, Layer};
    use gradloom::prelude::*;

    #[traced(allow(recorded_call))]
    pub(super) fn in_a_closure<L: Layer + Tree>(layers: &Vec<L>, x: &Tensor) -> Tensor {
        layers.iter().fold(x.clone(), |h, layer| layer.forward(&h))
    }

    #[traced(allow(recorded_call))]
    #[allow(clippy::useless_vec)] // the call is in a macro
    pub(super) fn in_a_macro<L: Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
        let all = vec![layer.forward(x)];
        all[0].clone()
    }

    #[traced(allow(recorded_call))]
    pub(super) fn by_the_trait<L: Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
        Layer::forward(layer, x)
    }

    #[traced(allow(recorded_call))]
    pub(super) fn by_the_type<L: Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
        L::forward(layer, x)
    }

    #[traced(allow(recorded_call))]
    pub(super) fn by_a_local<L: Layer + Tree>(layers: &(L, Tensor), x: &Tensor) -> Tensor {
        let layer = &layers.0;
        layer.forward(x) + &layers.1
    }

    #[traced(allow(recorded_call))]
    pub(super) fn in_a_condition<L: Layer + Tree>(layer: &L, x: &Tensor, by: bool) -> Tensor {
        if by { layer.forward(x) } else { x.tanh() }
    }

    #[traced(allow(recorded_call))]
    pub(super) fn of_a_result<L: Layer + Tree>(layers: &Vec<L>, x: &Tensor) -> Tensor {
        layers.first().unwrap().forward(x)
    }

    #[traced(allow(recorded_call))]
    pub(super) fn as_a_value<F: Function>(x: &Tensor) -> Tensor {
        [x].map(F::eval)[0].clone()
    }

    #[traced(allow(recorded_call))]
    pub(super) fn in_a_function<L: Layer + Tree>(layer: &L, x: &Tensor) -> Tensor {
        fn inner<L: Layer>(layer: &L, x: &Tensor) -> Tensor {
            layer.forward(x)
        }
        inner(layer, x)
    }
}

#[test]
fn every_form_of_a_call_has_the_effects_of_its_impl() {
    let scaled = Scaled {
        by: Tensor::from(2.0f64),
    };
    let (list, x) = (vec![scaled.clone()], x());
    let pair = (scaled.clone(), x.clone());
    let forms: [(&str, &dyn Fn() -> Tensor); 9] = [
        ("in_a_closure", &|| calls::in_a_closure(&list, &x)),
        ("in_a_macro", &|| calls::in_a_macro(&scaled, &x)),
        ("by_the_trait", &|| calls::by_the_trait(&scaled, &x)),
        ("by_the_type", &|| calls::by_the_type(&scaled, &x)),
        ("by_a_local", &|| calls::by_a_local(&pair, &x)),
        ("in_a_condition", &|| {
            calls::in_a_condition(&scaled, &x, true)
        }),
        ("of_a_result", &|| calls::of_a_result(&list, &x)),
        ("as_a_value", &|| calls::as_a_value::<Noisy>(&x)),
        ("in_a_function", &|| calls::in_a_function(&scaled, &x)),
    ];
    for (name, form) in forms {
        COUNT.set(0);
        for i in 1..=4 {
            evaluate(&form()).unwrap();
            assert_eq!(COUNT.get(), i, "{name}");
        }
    }
    COUNT.set(0);
    for _ in 0..3 {
        evaluate(&calls::in_a_condition(&scaled, &x, false)).unwrap();
    }
    assert_eq!(
        planned_again(|| calls::in_a_condition(&scaled, &x, false)),
        0
    );
    let linear = Linear { w: square() };
    let (list, pair) = (vec![linear.clone()], (linear.clone(), x.clone()));
    for (name, form) in [
        (
            "in_a_closure",
            &(|| calls::in_a_closure(&list, &x)) as &dyn Fn() -> Tensor,
        ),
        ("by_the_type", &|| calls::by_the_type(&linear, &x)),
        ("by_a_local", &|| calls::by_a_local(&pair, &x)),
        ("in_a_condition", &|| {
            calls::in_a_condition(&linear, &x, true)
        }),
    ] {
        assert_eq!(planned_again(form), 0, "{name}");
    }
}

#[derive(Clone, Tree)]
struct Wrapper<L: Clone> {
    inner: L,
}

/// Calls a traced impl of the same method.
impl<L: Layer + Clone> Layer for Wrapper<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        self.inner.forward(x)
    }
}

#[derive(Clone, Tree)]
struct Impure {
    w: Tensor,
}

#[traced(allow(recorded_call))]
impl Layer for Impure {
    fn forward(&self, x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        x * &self.w
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Overrides;

impl Activation for Overrides {
    fn apply(&self, x: &Tensor) -> Tensor {
        Tanh.apply(x)
    }
    fn twice(&self, x: &Tensor) -> Tensor {
        COUNT.set(COUNT.get() + 1);
        Tanh.twice(x)
    }
}

#[test]
fn effects_are_found_behind_traced_code() {
    let wrapper = Wrapper {
        inner: Linear { w: square() },
    };
    let both = (wrapper.inner.clone(), wrapper.clone());
    let impure = Impure { w: square() };
    let net = Net {
        w: square(),
        activation: Overrides,
    };
    let forms: [(&str, &dyn Fn() -> Tensor); 5] = [
        ("wrapper", &|| run(&wrapper, &x())),
        ("wrapper in a pair", &|| run(&both, &x())),
        ("gradient", &|| run::grad(&both, &x()).x),
        ("impure", &|| run(&impure, &x())),
        ("overridden", &|| net.deep(&x())),
    ];
    for (name, form) in forms {
        COUNT.set(0);
        for i in 1..=4 {
            evaluate(&form()).unwrap();
            assert_eq!(COUNT.get(), i, "{name}");
        }
    }
}

/// Calls an impl without companions.
#[traced(record)]
fn of_a_pair(pair: &(Linear, Linear), x: &Tensor) -> Tensor {
    pair.forward(x).sum(..)
}

#[test]
fn a_recorded_body_calls_an_impl_without_companions() {
    let linear = Linear { w: square() };
    let pair = (linear.clone(), linear);
    let f =
        |(p, x): &((Linear, Linear), Tensor)| x.matmul(&p.0.w).tanh().matmul(&p.1.w).tanh().sum(..);
    let at = (pair.clone(), x());
    close(&of_a_pair(&pair, &x()), &f(&at));
    let (got, wanted) = (of_a_pair::grad(&pair, &x()), grad(f)(&at));
    close(&got.pair.0.w, &wanted.0.0.w);
    close(&got.pair.1.w, &wanted.0.1.w);
    close(&got.x, &wanted.1);
}

#[derive(Clone, PartialEq, Eq)]
struct Metres(i64);

/// The attribute of a parameter also stands in the trait.
#[traced]
trait Scaling {
    fn scaled(&self, x: &Tensor, #[fixed] by: &Metres) -> Tensor;
}

#[traced]
impl Scaling for Linear {
    fn scaled(&self, x: &Tensor, #[fixed] by: &Metres) -> Tensor {
        x.matmul(&self.w) * by.0 as f64
    }
}

#[test]
fn a_trait_may_say_that_a_parameter_is_fixed() {
    let linear = Linear { w: square() };
    let expected = x().matmul(&linear.w) * 3.0;
    close(&linear.scaled(&x(), &Metres(3)), &expected);
}
