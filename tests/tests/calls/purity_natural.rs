//! Pure programs as people write them: the second call neither records nor plans.
#![allow(deprecated)] // some functions here are recorded on purpose
#![allow(clippy::assign_op_pattern)] // written as users write first

use gradloom::optim::{self, Adam, AdamState, AdamW, Sgd, SgdState};
use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<(Tensor, Tensor)>,
    #[tree(skip)]
    scale: f64,
}

fn net() -> Net {
    let layer = |i: u64, n: usize, m: usize| (noise(&[n, m], i), noise(&[m], i + 10));
    Net {
        layers: vec![layer(1, 1, 8), layer(2, 8, 8), layer(3, 8, 1)],
        scale: 0.5,
    }
}

#[traced]
fn value(net: &Net, x: &Tensor) -> Tensor {
    let (last, rest) = net.layers.split_last().unwrap();
    let mut h = x * net.scale;
    for (w, b) in rest {
        h = (h.matmul(w) + b).tanh();
    }
    h.matmul(&last.0) + &last.1
}

/// Returns the mean square of `u'' + u` at some points.
#[traced]
fn residual(net: &Net, #[nodiff] x: &Tensor) -> Tensor {
    let one = x.ones_like();
    let u = |x: &Tensor| value(net, x);
    let du = |x: &Tensor| jvp(u, x, &one).1;
    let (_, d2u) = jvp(du, x, &one);
    (d2u + value(net, x)).square().mean(..)
}

#[test]
fn a_physics_informed_network_reuses_its_plans() {
    assert_eq!((value::RECORDED, residual::RECORDED), (None, None));
    let (net, x) = (net(), noise(&[6, 1], 9));
    finds(|| residual(&net, &x));
    finds(|| residual::grad(&net, &x).net.layers);
}

#[traced]
fn mse(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (x.matmul(w).tanh() - y).square().mean(..)
}

/// Returns the loss on other data after three steps of gradient descent.
#[traced]
fn meta(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor, lr: f64) -> Tensor {
    let mut fast = w.clone();
    for _ in 0..3 {
        let step = mse::grad(&fast, x, y).w;
        fast = &fast - step * lr;
    }
    mse(&fast, x, y)
}

#[traced]
fn meta_by_closures(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor, lr: f64) -> Tensor {
    let loss = |w: &Tensor| mse(w, x, y);
    let fast = w - grad(loss)(w) * lr;
    mse(&fast, x, y)
}

#[test]
fn meta_learning_reuses_its_plans() {
    assert_eq!((meta::RECORDED, meta_by_closures::RECORDED), (None, None));
    let (w, x, y) = (noise(&[3, 2], 1), noise(&[4, 3], 2), noise(&[4, 2], 3));
    finds(|| meta(&w, &x, &y, 0.1));
    finds(|| meta::grad(&w, &x, &y, 0.1).w);
    finds(|| meta_by_closures(&w, &x, &y, 0.1));
    finds(|| meta_by_closures::grad(&w, &x, &y, 0.1).w);
}

#[derive(Clone, Tree)]
struct Running {
    mean: Tensor,
    var: Tensor,
}

#[derive(Clone, Tree)]
struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running: Running,
    #[tree(skip)]
    momentum: f64,
}

#[traced]
impl BatchNorm {
    fn forward(&self, x: &Tensor) -> (Tensor, Running) {
        let mean = x.mean(0);
        let var = (x - &mean).square().mean(0);
        let y = (x - &mean) / (&var + 1e-5).sqrt() * &self.weight + &self.bias;
        let keep = 1.0 - self.momentum;
        let running = Running {
            mean: &self.running.mean * keep + mean.stop_gradient() * self.momentum,
            var: &self.running.var * keep + var.stop_gradient() * self.momentum,
        };
        (y, running)
    }
}

#[derive(Clone, Tree)]
struct Block {
    w: Tensor,
    bn: BatchNorm,
}

#[traced]
impl Block {
    fn forward(&self, x: &Tensor) -> (Tensor, Running) {
        let (h, running) = self.bn.forward(&x.matmul(&self.w));
        (h.relu(), running)
    }
}

#[derive(Clone, Tree)]
struct Deep {
    blocks: Vec<Block>,
}

#[traced]
impl Deep {
    fn forward(&self, x: &Tensor) -> (Tensor, Vec<Running>) {
        let mut h = x.clone();
        let mut all = Vec::new();
        for block in &self.blocks {
            let (y, running) = block.forward(&h);
            h = y;
            all.push(running);
        }
        (h.square().mean(..), all)
    }
}

#[test]
fn batch_norm_with_running_state_reuses_its_plans() {
    let all = [
        BatchNorm::FORWARD_RECORDED,
        Block::FORWARD_RECORDED,
        Deep::FORWARD_RECORDED,
    ];
    assert_eq!(all, [None; 3]);
    let block = |i| Block {
        w: noise(&[3, 3], i),
        bn: BatchNorm {
            weight: noise(&[3], i + 1),
            bias: noise(&[3], i + 2),
            running: Running {
                mean: noise(&[3], i + 3),
                var: noise(&[3], i + 4),
            },
            momentum: 0.1,
        },
    };
    let deep = Deep {
        blocks: vec![block(1), block(11)],
    };
    let x = noise(&[5, 3], 7);
    finds(|| deep.blocks[0].bn.forward(&x));
    finds(|| deep.blocks[0].forward(&x));
    finds(|| deep.forward(&x));
}

#[derive(Clone, Tree)]
struct State {
    q: Tensor,
    p: Tensor,
}

#[traced]
fn energy(q: &Tensor, p: &Tensor) -> Tensor {
    (q.square() * 0.5 + q.cos()).sum(..) + p.square().sum(..) * 0.5
}

#[traced]
fn leapfrog(q: &Tensor, p: &Tensor, dt: f64) -> (Tensor, Tensor) {
    let half = p - energy::grad(q, p).q * (dt / 2.0);
    let q = q + energy::grad(q, &half).p * dt;
    let p = &half - energy::grad(&q, &half).q * (dt / 2.0);
    (q, p)
}

#[traced]
fn several_steps(start: &State, n: usize, dt: f64) -> State {
    let (mut q, mut p) = (start.q.clone(), start.p.clone());
    for _ in 0..n {
        (q, p) = leapfrog(&q, &p, dt);
    }
    State { q, p }
}

#[test]
fn a_leapfrog_step_reuses_its_plans() {
    assert_eq!((leapfrog::RECORDED, several_steps::RECORDED), (None, None));
    let (q, p) = (noise(&[4], 1), noise(&[4], 2));
    finds(|| leapfrog(&q, &p, 0.1));
    let start = State { q, p };
    finds(|| several_steps(&start, 3, 0.1));
}

#[traced]
fn iterated(x: &Tensor, factors: &[f64], n: usize) -> Tensor {
    fn double(v: f64) -> f64 {
        2.0 * v
    }
    fn power(v: f64, n: usize) -> f64 {
        if n == 0 { 1.0 } else { v * power(v, n - 1) }
    }
    let total = factors.iter().fold(0.0, |a, b| a + b);
    let (last, rest) = factors.split_last().expect("at least one factor");
    let most = rest.iter().copied().map(double).fold(f64::MIN, f64::max);
    let pairs: Vec<f64> = factors.windows(2).map(|w| w[0] * w[1]).collect();
    let of_pairs: f64 = pairs.iter().zip(factors).map(|(a, b)| a * b).sum();
    x * (total + power(*last, n)) + most * of_pairs
}

#[traced]
fn folded(net: &Net, x: &Tensor) -> Tensor {
    let n = net.layers.len();
    net.layers
        .iter()
        .enumerate()
        .fold(x.clone(), |h, (i, (w, b))| {
            let y = h.matmul(w) + b;
            if i + 1 < n { y.tanh() } else { y }
        })
}

#[traced]
fn with_companions(net: &Net, x: &Tensor) -> Tensor {
    let (y, pullback) = value::vjp(net, x);
    let (_, dx) = pullback(&y);
    let (_, dy) = value::jvp((net, x), (net, &dx));
    (dy * y).sum(..)
}

#[test]
fn iterators_functions_and_companions_are_pure() {
    let all = [
        iterated::RECORDED,
        folded::RECORDED,
        with_companions::RECORDED,
    ];
    assert_eq!(all, [None; 3]);
    let (net, x) = (net(), noise(&[6, 1], 9));
    finds(|| iterated(&x, &[1.0, 0.5, 0.25], 3));
    finds(|| folded(&net, &x));
    finds(|| with_companions(&net, &x));
}

fn twice(v: f64) -> f64 {
    v * 2.0
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Curve {
    Root,
    Wave,
}

/// Uses methods that not all numbers and lists have, in closures of each kind.
#[traced]
fn shaped(x: &Tensor, by: f64, n: usize, #[fixed] curve: Curve) -> Tensor {
    const HALF: f64 = const { 1.0f64.midpoint(0.0) };
    fn inner(v: f64, n: usize) -> f64 {
        v.abs().sqrt().min(n.isqrt() as f64)
    }
    let chosen = match curve {
        Curve::Root => |v: f64| v.abs(),
        Curve::Wave => |v: f64| v + 1.0,
    };
    let wave = |v: f64| v.sin().abs() * const { 2.0f64.abs() };
    let scale = move |v: f64| (v * by).exp().ln_1p();
    let mut sizes = x.shape().to_vec();
    sizes.push(n.next_power_of_two());
    sizes.sort_by_key(|size| size.abs_diff(3));
    let total: f64 = sizes.iter().map(|size| (*size as f64).sqrt()).sum();
    let largest = sizes
        .iter()
        .copied()
        .fold(0, |a, b| a.max(b).next_multiple_of(2));
    let first = sizes.first().map_or(1.0, |size| (*size as f64).cbrt());
    let all = vec![by.abs(); n.div_ceil(2)];
    let last = all[all.len() - 1].powi(2).clamp(0.0, 1.0);
    assert!(
        matches!(sizes.last(), Some(size) if size.is_power_of_two() || *size > 0),
        "{last}"
    );
    let mut rest = sizes.iter().peekable();
    let mut n_rest = 0;
    while rest.peek().is_some() {
        n_rest += rest.next().copied().unwrap_or(0).min(1);
    }
    let positive = (by > 0.0).then(|| by.sqrt());
    let positive = positive.map_or(HALF, |v| v.abs());
    x * (chosen(by) + wave(by) + scale(total) + first)
        + (last + inner(by, largest) + positive + n_rest as f64)
}

/// Has bodies whose closures become function pointers or boxes; they may be recorded, but compile.
#[traced(allow(recorded_call))]
fn pointed(x: &Tensor, by: f64) -> Tensor {
    let all = [|v: f64| v.sqrt(), |v: f64| v.cbrt()];
    let one: fn(f64) -> f64 = |v| v.abs();
    let boxed: Box<dyn Fn(f64) -> f64> = Box::new(|v| v.sin());
    let some: Option<fn(f64) -> f64> = Some(twice);
    let held = |v: f64| v.tanh();
    let kept: Box<dyn Fn(f64) -> f64> = Box::new(held);
    let sum: f64 = all.iter().map(|f| f(by.abs())).sum();
    x * (sum + one(by) + boxed(by) + kept(by) + some.map_or(0.0, |f| f(by)))
}

#[test]
fn methods_of_numbers_and_lists_are_pure() {
    assert_eq!(shaped::RECORDED, None);
    let x = noise(&[4, 3], 1);
    for curve in [Curve::Root, Curve::Wave] {
        finds(|| shaped(&x, 0.5, 3, curve));
        finds(|| shaped::vjp(&x, 0.5, 3, curve).0);
    }
    assert_eq!(pointed(&x, 0.5).shape(), [4, 3]);
}

#[derive(Clone, Tree)]
struct Scaled<T: Tree + Clone + 'static> {
    inner: T,
    #[tree(skip)]
    by: f64,
}

/// Asks about numbers in generic code.
#[traced]
impl<T: Tree + Clone + 'static> Scaled<T> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let by: f64 = self.by;
        x * by.abs().sqrt()
    }

    fn of<const N: usize>(&self, x: &Tensor, by: [f64; N]) -> Tensor {
        let total = by.iter().fold(0.0, |a, b| a + b.abs());
        x * (total.sqrt() * N.isqrt() as f64)
    }
}

#[test]
fn generic_methods_with_numbers_are_pure_for_each_instance() {
    let x = noise(&[4, 3], 1);
    let scaled = Scaled {
        inner: (x.clone(), x.exp()),
        by: 0.5,
    };
    finds(|| scaled.forward(&x));
    finds(|| scaled.of(&x, [0.5, -0.25]));
}

#[derive(Clone, Tree)]
struct Parts {
    y: Tensor,
    z: Tensor,
}

#[traced]
fn in_parts(x: &Tensor) -> (Tensor, Parts) {
    let (y, z) = (x.exp(), x.sin());
    (x.tanh(), Parts { y, z })
}

/// Calls methods on values whose types only rustc knows.
#[traced]
fn joined(x: &Tensor) -> Tensor {
    let (h, Parts { y, .. }) = in_parts(x);
    let (first, scale) = (h.slice([0], [1], [1]), h.rank());
    first.sum(..) * scale as f64 + y.transpose()
}

#[test]
fn methods_of_parts_of_results_are_pure() {
    assert_eq!(joined::RECORDED, None);
    let x = noise(&[4, 3], 1);
    finds(|| joined(&x));
    finds(|| joined::vjp(&x).0);
}

#[traced]
fn popped(x: &Tensor, by: &[f64], key: Option<Key>) -> Tensor {
    let mut factors = by.to_vec();
    let last = &mut factors;
    let factor = last.pop().unwrap_or(1.0) * last.len() as f64;
    let mut keys = key.map(|key| key.split_many(2));
    match keys.as_mut().and_then(|keys| keys.pop()) {
        Some(key) => x * factor + key.normal(x.shape(), x.dtype()),
        None => x * factor,
    }
}

#[test]
fn methods_of_mutable_references_to_locals_are_pure() {
    assert_eq!(popped::RECORDED, None);
    let x = noise(&[4, 3], 1);
    for key in [|| Some(Key::new(1)), || None] {
        finds(|| popped(&x, &[0.5, 2.0], key()));
        finds(|| popped::vjp(&x, &[0.5, 2.0], key()).0);
    }
    let plain = popped(&x, &[0.5, 2.0], None);
    assert_eq!(plain.to_vec::<f64>(), (&x * 2.0).to_vec::<f64>());
}

#[traced]
impl Parts {
    /// Has the name of a method of ranges.
    fn start(&self, n: usize) -> Parts {
        let zeros = Tensor::zeros([n], self.y.dtype());
        Parts {
            y: &zeros + &self.y,
            z: zeros,
        }
    }

    fn next(&self, t: f64, x: &Tensor) -> Parts {
        Parts {
            y: &self.y * t + x,
            z: &self.z + 1.0,
        }
    }

    fn rolled(&self, n: usize) -> (Tensor, Parts) {
        let mut state = self.start(n);
        let mut all = Vec::new();
        for i in 0..n {
            let t = f64::min(i as f64, 2.0);
            state = self.next(t, &state.y);
            all.push(state.y.clone());
        }
        (Tensor::stack(&all, 0), state)
    }
}

#[test]
fn methods_with_names_of_the_standard_library_are_pure() {
    assert_eq!(Parts::NEXT_RECORDED, None);
    assert_eq!(Parts::ROLLED_RECORDED, None);
    let parts = Parts {
        y: noise(&[3], 1),
        z: noise(&[3], 2),
    };
    finds(|| parts.rolled(3));
    finds(|| parts.rolled_vjp(3).0);
}

#[traced]
fn replaced(a: &Tensor, b: &Tensor) -> Tensor {
    let columns: [Tensor; 3] = a.unbind(1);
    let whole = product(&columns);
    let x: Vec<Tensor> = (0..3)
        .map(|i| {
            let mut columns = columns.clone();
            columns[i] = b.clone();
            product(&columns) / &whole
        })
        .collect();
    Tensor::stack(&x, 0)
}

#[traced]
fn product([a, b, c]: &[Tensor; 3]) -> Tensor {
    a * b * c
}

#[test]
fn annotated_arrays_of_tensors_are_pure() {
    assert_eq!(replaced::RECORDED, None);
    let (a, b) = (noise(&[3, 3], 1), noise(&[3], 2));
    finds(|| replaced(&a, &b));
}

#[traced]
fn noisy(net: &Net, x: &Tensor, key: Key) -> Tensor {
    let mut keys = key.split_many(2 * net.layers.len()).into_iter();
    let noisy = net.map(&mut |w| {
        let key = keys.next().unwrap();
        let shape: Vec<usize> = w.shape().to_vec();
        w + key.normal(shape, w.dtype()) * 0.1
    });
    let mean = tree::map2(net, &noisy, |a, b| (a + b) * 0.5);
    value(&noisy, x) + value(&mean, x)
}

#[test]
fn closures_over_the_leaves_of_a_tree_are_pure() {
    assert_eq!(noisy::RECORDED, None);
    let (net, x) = (net(), noise(&[6, 1], 9));
    finds(|| noisy(&net, &x, Key::new(1)));
    finds(|| noisy::vjp(&net, &x, Key::new(1)).0);
}

#[derive(Clone, Tree)]
struct Trained {
    w: Tensor,
    adam: AdamState<Tensor>,
    sgd: SgdState<Tensor>,
}

#[traced]
fn train(now: &Trained, x: &Tensor, y: &Tensor, lr: &Tensor) -> Trained {
    let gradient = mse::grad(&now.w, x, y).w;
    let gradient = optim::clip_by_norm(&gradient, 0.5);
    let adam = Adam {
        beta1: 0.8,
        ..Adam::default()
    };
    let (w, adam) = adam.step_with(lr, &now.w, &gradient, &now.adam);
    let (w, adam) = AdamW::default().step(&w, &gradient, &adam);
    let (w, sgd) = Sgd::default().step(&w, &gradient, &now.sgd);
    let w = tree::add(&w, &tree::scale(&gradient, 0.1));
    Trained {
        w: tree::sub(&w, &gradient),
        adam,
        sgd,
    }
}

#[test]
fn optimisers_are_pure() {
    assert_eq!(train::RECORDED, None);
    let (w, x, y) = (noise(&[3, 2], 1), noise(&[4, 3], 2), noise(&[4, 2], 3));
    let now = Trained {
        adam: Adam::default().init(&w),
        sgd: Sgd::default().init(&w),
        w,
    };
    finds(|| train(&now, &x, &y, &Tensor::scalar(0.1)));
}

/// Its code is compiled.
#[traced]
fn clipped(w: &Tensor) -> Tensor {
    let w = optim::clip_by_norm(w, 0.5);
    w.exp()
}

#[test]
fn a_clipped_tensor_has_a_derivative() {
    assert_eq!(clipped::RECORDED, None);
    let w = noise(&[3], 1);
    finds(|| clipped(&w));
    finds(|| clipped::vjp(&w).0);
}

#[traced(allow(recorded_call))]
fn until_small(parts: &Parts) -> Tensor {
    let (mut t, mut y) = (0.0, parts.y.clone());
    while t < 1.0 {
        let step = f64::min(0.3, 1.0 - t);
        let trial = parts.next(step, &y);
        if trial.z.item::<f64>() < 9.0 {
            y = trial.y;
        }
        t += step;
    }
    y
}

#[test]
fn the_reason_for_a_method_of_a_result_is_its_read() {
    let why = until_small::RECORDED.unwrap();
    assert!(why.contains("`.item()` at line"), "{why}");
}

#[traced]
impl Parts {
    fn with_y(&self, y: &Tensor) -> Self {
        Parts {
            y: y.clone(),
            ..self.clone()
        }
    }

    fn price(&self, by: f64) -> Tensor {
        (&self.y * &self.z).sin() * by
    }

    fn slopes(&self, by: f64) -> Tensor {
        let price = |y: &Tensor| self.with_y(y).price(by);
        let one = self.y.ones_like();
        let slope = |y: &Tensor| jvp(price, y, &one).1;
        jvp(slope, &self.y, &one).1
    }
}

#[test]
fn methods_of_results_of_traced_methods_are_pure() {
    assert_eq!(Parts::SLOPES_RECORDED, None);
    let parts = Parts {
        y: noise(&[3], 1),
        z: noise(&[3], 2),
    };
    finds(|| parts.slopes(0.5));
}

#[derive(Clone, Tree)]
struct Cell {
    h: Tensor,
    c: Tensor,
    #[tree(skip)]
    k: usize,
    #[tree(skip)]
    name: String,
}

#[traced]
fn step(x: &Tensor, s: &Cell) -> Cell {
    Cell {
        h: (x * &s.h + &s.c).tanh(),
        c: &s.c * 0.5,
        k: s.k,
        name: s.name.clone(),
    }
}

#[traced]
fn start(x: &Tensor) -> Cell {
    Cell {
        h: x.exp(),
        c: x.clone(),
        k: 1,
        name: String::new(),
    }
}

#[traced]
fn sel<T: Clone + Tree>(x: &[T], i: usize, c: &Tensor) -> (T, Tensor) {
    (x[i].clone(), c * 2.0)
}

mod mine {
    use super::*;

    #[derive(Clone, Tree)]
    pub(super) enum Maybe {
        Some(Tensor),
        #[allow(dead_code)] // it is matched
        No,
    }
}
use mine::Maybe;

/// Names the type of a variant by another path than its body.
#[traced]
fn imported_variant(x: &Tensor, or: &mine::Maybe) -> Tensor {
    match Maybe::Some(x * 2.0) {
        Maybe::Some(y) => y.exp(),
        Maybe::No => match or {
            Maybe::Some(y) => y.clone(),
            Maybe::No => x.clone(),
        },
    }
}

#[test]
fn variants_of_imported_types_are_pure() {
    assert_eq!(imported_variant::RECORDED, None);
    let x = noise(&[3], 1);
    finds(|| imported_variant(&x, &Maybe::Some(x.clone())));
}

/// Defines traced functions, and checks that a second call of each reuses the plan of the first.
macro_rules! forms {
    ($($name:ident($xs:ident, $p:ident) { $($body:tt)* })*) => {
        #[allow(unused, clippy::all)] // bodies are written as by users
        mod forms_of_values {
            use super::*;
            $(
                #[traced(allow(unused_parameter))]
                pub(super) fn $name($xs: &[Tensor], $p: &Cell) -> Tensor { $($body)* }
            )*
        }

        #[test]
        fn values_whose_types_only_the_body_tells_are_pure() {
            let [a, b, h, c] = [1, 2, 3, 4].map(|i| noise(&[3], i));
            let (xs, p) = ([a, b], Cell { h, c, k: 1, name: "a".to_owned() });
            $(
                assert_eq!(forms_of_values::$name::RECORDED, None, stringify!($name));
                finds(|| forms_of_values::$name(&xs, &p));
                finds(|| forms_of_values::$name::vjp(&xs, &p).0);
            )*
        }
    };
}

forms! {
    pushed_in_a_loop(xs, p) { let mut s = p.clone(); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } &l[0] * &l[1] }
    inserted(xs, p) { let mut l = Vec::new(); l.insert(0, p.h.clone()); l.insert(0, xs[0].clone()); &l[0] * &l[1] }
    extended(xs, p) { let mut l = Vec::new(); l.extend([p.h.clone(), xs[0].clone()]); &l[0] * &l[1] }
    resized(xs, p) { let mut l = Vec::new(); l.resize(2, p.h.clone()); &l[0] * &l[1] }
    pushed_by_a_closure(xs, p) { let mut l = Vec::new(); let mut add = |t: Tensor| l.push(t); add(p.h.clone()); add(xs[0].clone()); &l[0] * &l[1] }
    behind_a_box(xs, p) { let b = Box::new(p.h.clone()); &*b * &p.c }
    read_before_it_is_pushed(xs, p) { let mut l = Vec::new(); let mut y = p.h.clone(); for (i, x) in xs.iter().enumerate() { if i > 0 { y = &l[i - 1] * x; } l.push(x.clone()); } y }
    negated_field(xs, p) { let mut s = p.clone(); for x in xs { s = step(x, &s); } -&s.h + 1.0 }
    product_of_fields(xs, p) { let mut s = p.clone(); for x in xs { s = step(x, &s); } let y = &s.h * &s.c; y.sum(..) }
    map_by_key(xs, p) { let mut m = std::collections::BTreeMap::new(); for (i, x) in xs.iter().enumerate() { m.insert(i, x * 2.0); } &m[&0] * &m[&1] }
    values_of_a_map(xs, p) { let mut m = std::collections::BTreeMap::new(); for (i, x) in xs.iter().enumerate() { m.insert(i, x.clone()); } let mut y = p.h.clone(); for v in m.values() { y = y + v; } y }
    hash_map(xs, p) { let mut m = std::collections::HashMap::new(); let mut put = |t: &Tensor| { m.insert("a", t * 2.0); }; xs.iter().for_each(|x| put(x)); m["a"].exp() }
    deque(xs, p) { let mut d = std::collections::VecDeque::new(); d.push_back(p.h.clone()); d.push_front(xs[0].clone()); &d[0] * &d[1] }
    set(xs, p) { let mut d = std::collections::BTreeSet::new(); d.insert(3usize); d.insert(4); &xs[0] * d.len() as f64 }
    default_map(xs, p) { let mut m: std::collections::BTreeMap<usize, Tensor> = Default::default(); m.insert(1, p.h.clone()); &m[&1] * 2.0 }
    default_list(xs, p) { let mut m: Vec<_> = Default::default(); m.push(p.h.clone()); &m[0] * 2.0 }
    map_of_states(xs, p) { let mut m = std::collections::BTreeMap::new(); m.insert(1, p.clone()); m.insert(2, step(&xs[0], p)); &m[&2].h * 2.0 }
    hash_map_by_use(xs, p) { use std::collections::HashMap; let mut m = HashMap::new(); let mut put = |t: &Tensor| { m.insert("a", t * 2.0); }; xs.iter().for_each(|x| put(x)); &m["a"] * 3.0 }
    map_from_pairs(xs, p) { let m = std::collections::BTreeMap::from([(1, &xs[0] * 2.0)]); m.get(&1).unwrap() * 3.0 }
    list_of_states(xs, p) { let l = vec![p.clone(), step(&xs[0], p)]; &l[1].h * &l[0].c }
    selected_state(xs, p) { let l = vec![p.clone(), step(&xs[0], p)]; let (s, z) = sel(&l, 1, &xs[1]); &s.h * z }
    shadowed_state(xs, p) { let s = { let s = start(&xs[0]); Cell { h: s.h.exp(), c: s.c.clone(), k: 1, name: String::new() } }; &s.h * &s.c }
    part_before_a_continue(xs, p) { let mut t = xs[0].clone(); for k in [0usize, 2, 9] { let r = step(&t, p); if k == 2 { t = t + &r.c; continue; } t = t * &r.h; } t }
    field_in_a_closure(xs, p) { let l = vec![p.clone(), step(&xs[0], p)]; let f = |i: usize| &l[i].h * 2.0; f(0) + f(1) }
    field_of_an_item(xs, p) { let l = vec![p.clone(), step(&xs[0], p)]; l.iter().map(|s| &s.h * 2.0).fold(xs[0].clone(), |a, b| a + b) }
    field_behind_a_reference(xs, p) { let mut s = p.clone(); for x in xs { s = step(x, &s); } let r = &s; r.h.exp() * r.k as f64 }
    assigned_fields(xs, p) { let mut s = p.clone(); for x in xs { s = step(x, &s); } s.h = &s.h * 2.0; s.k += 1; s.h * s.k as f64 }
    states_of_a_loop(xs, p) { let mut l = Vec::new(); for x in xs { l.push(step(x, p)); } let mut y = p.h.clone(); for s in &l { y = &y * &s.h + s.k as f64; } y }
    borrowed_or_owned(xs, p) { let c = std::borrow::Cow::Borrowed(&xs[0]); &*c * 2.0 }
    shared(xs, p) { let c = std::rc::Rc::new(xs[0].clone()); &*c * 2.0 }
    chained_references(xs, p) { std::iter::once(&xs[0]).chain(xs.iter()).fold(p.h.clone(), |a, x| a + x) }
    chained_values(xs, p) { let mut y = p.h.clone(); for x in std::iter::once(p.h.clone()).chain(xs.iter().cloned()) { y = y * &x; } y }
    shared_argument(xs, p) { let c = std::rc::Rc::new(xs[0].clone()); step(&c, p).h }
    struct_inside(xs, p) { struct Own { n: f64 } let o = Own { n: 2.0 }; let s = step(&xs[0], p); &s.h * o.n }
    struct_with_a_tensor_inside(xs, p) { #[derive(Clone)] struct Own { t: Tensor } let o = Own { t: &xs[0] * 2.0 }; let s = step(&o.t, p); &s.h * 2.0 }
}

#[derive(Clone, Tree)]
struct Affine {
    w: Tensor,
    b: Tensor,
}

/// Methods with names of the standard library and of ops.
#[traced]
impl Affine {
    fn join(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
    fn mean(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
    fn push(&self, x: &Tensor) -> Tensor {
        x - &self.b
    }
    fn first(&self) -> Tensor {
        self.w.square().sum(..)
    }
    fn insert(&self, x: &Tensor, other: &Affine) -> Tensor {
        (x - &self.b) * &other.w
    }
    fn exp(&self, x: &Tensor) -> Tensor {
        x * &self.b
    }
}

#[derive(Clone, Tree)]
struct Several {
    head: Affine,
    all: Vec<Affine>,
}

#[traced]
fn own_names(m: &Affine, x: &Tensor) -> Tensor {
    let joined = m.join(x).tanh();
    let y = m.mean(&joined) + m.push(x) * m.first();
    (m.exp(&y) + m.insert(&y, m)).sum(..)
}

#[traced]
fn own_names_of_parts(m: &Several, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for layer in &m.all {
        y = layer.join(&y);
    }
    let copy = m.head.clone();
    let z = m.head.join(&copy.push(&y));
    m.all
        .iter()
        .fold(z, |h, layer| layer.push(&h) * layer.first())
        .sum(..)
}

#[traced]
fn own_names_of_locals(m: &Affine, x: &Tensor) -> Tensor {
    let made = Affine {
        w: &m.w * 2.0,
        b: m.b.clone(),
    };
    let all = vec![made.clone(), m.clone()];
    let mut y = made.join(x) + made.first();
    for layer in &all {
        y = layer.join(&y) + layer.mean(x);
    }
    let apply = |layer: &Affine, y: &Tensor| layer.push(y);
    y + all[0].first() + apply(&all[1], x)
}

#[test]
fn own_methods_with_names_of_the_standard_library_are_pure() {
    let all = [
        own_names::RECORDED,
        own_names_of_parts::RECORDED,
        own_names_of_locals::RECORDED,
    ];
    assert_eq!(all, [None; 3]);
    let affine = |i| Affine {
        w: noise(&[3, 3], i),
        b: noise(&[3], i + 1),
    };
    let (head, x) = (affine(1), noise(&[3, 3], 9));
    let several = Several {
        head: head.clone(),
        all: vec![affine(3), affine(5)],
    };
    finds(|| own_names(&head, &x));
    finds(|| own_names::grad(&head, &x).m);
    finds(|| own_names_of_parts(&several, &x));
    finds(|| own_names_of_parts::grad(&several, &x).m.all);
    finds(|| own_names_of_locals(&head, &x));
}

type Floats = Vec<f64>;
type Tensors = Vec<Tensor>;

struct Schedule {
    rates: Vec<f64>,
    n: usize,
}

#[derive(Clone, Tree)]
struct Collected {
    parts: Vec<Tensor>,
    #[tree(skip)]
    n: usize,
}

#[traced]
fn collected(x: &Tensor, by: f64, n: usize) -> Tensor {
    let powers: Floats = (0..n).map(|i| by * i as f64).collect();
    let schedule = Schedule {
        rates: powers.iter().map(|power| power + 1.0).collect(),
        n,
    };
    let scaled: Tensors = powers.iter().map(|power| x * *power).collect();
    Tensor::stack(&scaled, 0) * schedule.rates[1] + schedule.n as f64
}

#[traced]
fn collected_in_a_tree(x: &Tensor, n: usize) -> Collected {
    Collected {
        parts: (0..n).map(|i| x * i as f64).collect(),
        n,
    }
}

#[test]
fn lists_that_are_collected_in_a_field_or_behind_an_alias_are_pure() {
    assert_eq!(collected::RECORDED, None);
    assert_eq!(collected_in_a_tree::RECORDED, None);
    let x = noise(&[3], 1);
    finds(|| collected(&x, 0.5, 3));
    finds(|| collected_in_a_tree(&x, 3));
}

#[traced]
fn named_as_a_function(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        let activation = activation(&y);
        y = activation + 1.0;
    }
    let activation = { activation(&y) * 2.0 };
    activation.exp()
}

#[traced]
fn activation(x: &Tensor) -> Tensor {
    x.tanh()
}

#[traced]
fn behind_a_pointer(x: &Tensor) -> Tensor {
    let shared = std::rc::Rc::new(x.tanh());
    let other = std::rc::Rc::clone(&shared);
    (*shared).exp() + (*other).sum(..) + &*shared
}

#[traced]
fn pulled_back(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        let (value, pullback) = activation::vjp(&y);
        y = &y - pullback(&value) * 0.1;
    }
    y
}

#[traced]
fn pairs_with_numbers(x: &Tensor, n: usize) -> Tensor {
    let mut terms: Vec<(usize, Tensor)> = Vec::new();
    for i in 0..n {
        terms.push((i, x * i as f64));
    }
    let weighted: Vec<(f64, Tensor)> = vec![(0.5, x.tanh()), (2.0, x.exp())];
    let mut y = x.zeros_like();
    for (i, term) in &terms {
        y = y + term * *i as f64;
    }
    for (weight, term) in &weighted {
        y = y + term * *weight;
    }
    y
}

#[test]
fn locals_pointers_pullbacks_and_pairs_are_pure() {
    let all = [
        named_as_a_function::RECORDED,
        behind_a_pointer::RECORDED,
        pulled_back::RECORDED,
        pairs_with_numbers::RECORDED,
    ];
    assert_eq!(all, [None; 4]);
    let x = noise(&[3], 1);
    finds(|| named_as_a_function(&x, 3));
    finds(|| behind_a_pointer(&x));
    finds(|| pulled_back(&x, 3));
    finds(|| pairs_with_numbers(&x, 3));
}

/// Rules of closures, called at once and by name.
#[traced]
fn with_rules(x: &Tensor) -> Tensor {
    let soft = gradloom::custom_jvp(
        |x: &Tensor| (x.exp() + 1.0).log(),
        |x: &Tensor, _: &Tensor, dx: &Tensor| x.sigmoid() * dx,
    );
    let clipped = gradloom::custom_vjp(
        |x: &Tensor| x.square(),
        |x: &Tensor| (x.square(), x.clone()),
        |x: &Tensor, ct: &Tensor| (x * ct * 2.0).clamp(-1.0, 1.0),
    );
    (soft(x) + clipped(x)).sum(..)
}

#[test]
fn rules_of_closures_are_pure() {
    let x = noise(&[3], 1);
    assert_eq!(with_rules::RECORDED, None);
    finds(|| with_rules(&x));
    finds(|| with_rules::grad(&x).x);
}
