//! Traced functions whose calls reuse a plan: they give the bits of their ops and record nothing.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::optim::{Adam, Sgd};
use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, is_recorded, log};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Checks that a second call with the same arguments reuses the plan of the first, and that both
/// agree with evaluation op by op.
#[track_caller]
fn finds<T: Tree>(f: impl Fn() -> T) {
    let first = bits(&f());
    let (second, events) = log(&f);
    let at_once = match &events[..] {
        [hit] if hit == "hit p1" => false,
        [hit, ran] if hit == "hit p1" && ran == "ran p1" => true,
        _ => panic!(
            "a call that records nothing finds its plan, and runs it if it is small: {events:?}"
        ),
    };
    second.visit(&mut |leaf| assert!(leaf.is_realised() || !at_once));
    assert_eq!(bits(&second), first);
    assert_eq!(bits(&op_by_op(&f)), first);
}

#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    (x.matmul(w) + b).tanh()
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activation {
    Relu,
    Tanh,
}

#[derive(Clone, Tree)]
struct Mlp {
    layers: Vec<Linear>,
    #[tree(skip)]
    activation: Activation,
    #[tree(skip)]
    gain: f32,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.w);
        match &self.b {
            Some(b) => y + b,
            None => y,
        }
    }
}

#[traced]
fn loss(model: &Mlp, #[nodiff] x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        h = layer.forward(&h);
        if i + 1 < model.layers.len() {
            h = match model.activation {
                Activation::Relu => h.relu(),
                Activation::Tanh => h.tanh(),
            };
        }
    }
    let gain: f32 = model.gain;
    (h * gain).square().mean(..)
}

fn mlp(sizes: &[usize]) -> Mlp {
    let layer = |(i, pair): (usize, &[usize])| Linear {
        w: noise(&[pair[0], pair[1]], 2 * i as u64),
        b: (i % 2 == 0).then(|| noise(&[pair[1]], 2 * i as u64 + 1)),
    };
    Mlp {
        layers: sizes.windows(2).enumerate().map(layer).collect(),
        activation: Activation::Tanh,
        gain: 0.5,
    }
}

#[test]
fn functions_and_their_derivatives_reuse_their_plans() {
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    finds(|| dense(&x, &w, &b));
    finds(|| dense::jvp((&x, &w, &b), (&x, &w, &b)));
    let (model, x) = (mlp(&[3, 5, 4, 2]), noise(&[4, 3], 9));
    finds(|| loss(&model, &x));
    finds(|| {
        let (value, grads) = loss::value_and_grad(&model, &x);
        (value, grads.model)
    });
    finds(|| loss::grad(&model, &x).model);
    finds(|| loss::jvp((&model, &x), &model));
    finds(|| model.layers[0].forward(&x));
}

#[traced(order = 2)]
fn bowl(x: &Tensor, y: &Tensor) -> Tensor {
    ((x * y).tanh() * x).sum(..)
}

#[traced(order = 2)]
fn deep_bowl(model: &Mlp, #[nodiff] x: &Tensor) -> Tensor {
    loss(model, x)
}

#[test]
fn second_derivatives_reuse_their_plans() {
    let (x, y) = (noise(&[4, 3], 1), noise(&[4, 3], 2));
    finds(|| {
        let (gradient, change) = bowl::hvp((&x, &y), (&y, &x));
        (gradient.x, gradient.y, change.x, change.y)
    });
    let (model, x) = (mlp(&[3, 5, 4, 2]), noise(&[4, 3], 9));
    finds(|| {
        let (gradient, change) = deep_bowl::hvp((&model, &x), &model);
        (gradient.model, change.model)
    });
}

/// Row S1.25 of the requirements.
#[test]
fn a_key_covers_structure_and_static_values() {
    let x = noise(&[4, 3], 9);
    let value = |model: &Mlp| bits(&loss(model, &x));
    let plain = |model: &Mlp| bits(&op_by_op(|| loss(model, &x)));
    let base = mlp(&[3, 5, 2]);
    let mut models = vec![base.clone(), mlp(&[3, 5, 5, 2]), mlp(&[3, 2])];
    for _ in 0..2 {
        let mut other = base.clone();
        other.activation = Activation::Relu;
        models.push(other.clone());
        other.gain = -0.5;
        models.push(other.clone());
        other.layers[0].b = None;
        models.push(other.clone());
        other.layers[1].b = base.layers[1].b.clone().or(Some(noise(&[2], 7)));
        models.push(other);
        models.push(base.clone());
    }
    for model in &models {
        assert_eq!(value(model), plain(model));
    }
}

#[traced]
fn shifted(x: &Tensor, by: f32, times: usize, axes: &[usize], #[fixed] side: Activation) -> Tensor {
    let mut y = x.clone();
    for _ in 0..times {
        y /= by;
    }
    if side == Activation::Relu {
        y = y.relu();
    }
    y.sum(axes)
}

#[test]
fn static_arguments_are_compared_by_their_bits() {
    let x = noise(&[2, 3], 4);
    for (by, times, axes) in [
        (2.0f32, 1, &[0usize][..]),
        (2.0, 2, &[0]),
        (2.0, 2, &[1]),
        (2.0, 2, &[0, 1]),
        (0.0, 1, &[]),
        (-0.0, 1, &[]),
        (f32::NAN, 1, &[]),
    ] {
        for side in [Activation::Relu, Activation::Tanh, Activation::Relu] {
            let call = || shifted(&x, by, times, axes, side);
            assert_eq!(
                bits(&call()),
                bits(&op_by_op(call)),
                "{by} {times} {axes:?}"
            );
        }
        finds(|| shifted(&x, by, times, axes, Activation::Tanh));
    }
}

#[traced]
fn difference(x: &Tensor, y: &Tensor) -> Tensor {
    (x * 3.0 - y).exp()
}

#[test]
fn arguments_may_be_the_same_value() {
    let (x, y) = (noise(&[3], 1), noise(&[3], 2));
    for (a, b) in [(&x, &x), (&x, &y), (&y, &y), (&y, &x), (&x, &x)] {
        assert_eq!(
            bits(&difference(a, b)),
            bits(&op_by_op(|| difference(a, b)))
        );
        let tangent = difference::jvp((a, b), (a, b));
        assert_eq!(
            bits(&tangent),
            bits(&op_by_op(|| difference::jvp((a, b), (a, b))))
        );
    }
    let column = noise(&[2, 1], 3);
    assert_eq!(difference(&x, &column).shape(), [2, 3]);
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

fn count() -> f32 {
    CALLS.fetch_add(1, Ordering::Relaxed) as f32
}

#[traced]
fn counted(x: &Tensor) -> Tensor {
    let n = count();
    x * n
}

#[traced]
fn calls_counted(x: &Tensor) -> Tensor {
    counted(x) + x
}

#[traced]
fn norm_first(x: &Tensor) -> Tensor {
    let n = x.square().sum(..).item::<f32>();
    x * n
}

thread_local! {
    static SCALE: Cell<f32> = const { Cell::new(1.0) };
}

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    let by: f32 = SCALE.get();
    x * by
}

#[traced]
fn printed(x: &Tensor) -> Tensor {
    println!("{:?}", x.shape());
    x * 2.0
}

thread_local! {
    static NEXT: Cell<f32> = const { Cell::new(0.0) };
}

#[traced]
fn scaled_once(x: &Tensor) -> Tensor {
    let by: f32 = NEXT.take();
    x * by
}

static LAST: AtomicUsize = AtomicUsize::new(0);

#[traced]
fn scaled_by_the_last(x: &Tensor, now: usize) -> Tensor {
    let by = LAST.swap(now, Ordering::Relaxed) as f32;
    x * by
}

struct Ones;

impl Iterator for Ones {
    type Item = f32;
    fn next(&mut self) -> Option<f32> {
        Some(count())
    }
}

#[traced]
fn counted_by_an_iterator(x: &Tensor) -> Tensor {
    let n = Ones.next().unwrap_or(0.0);
    x * n
}

static SHIFT: LazyLock<Tensor> = LazyLock::new(|| Tensor::from([1.0f32, 2.0]));

#[traced]
fn shifted_by_a_static(x: &Tensor) -> Tensor {
    x * 3.0 + &*SHIFT
}

#[traced]
fn calls_shifted(x: &Tensor) -> Tensor {
    shifted_by_a_static(x) * 2.0
}

const SCALE_BY: f64 = 2.5;
const AXES: [i64; 2] = [0, 1];

mod numbers {
    pub(super) const FACTORS: &[f64] = &[0.5, 0.25];
}

#[traced]
fn with_constants(x: &Tensor) -> Tensor {
    const OWN: f64 = 4.0;
    assert!(x.rank() == AXES.len());
    let mut y = x * SCALE_BY + f64::EPSILON;
    for by in numbers::FACTORS.iter() {
        let by: f64 = *by;
        y = y * by + OWN;
    }
    y.sum(AXES)
}

#[test]
fn globals_named_by_a_body_are_part_of_the_key_if_possible() {
    let x = Tensor::from([10.0f32, 20.0]);
    for _ in 0..2 {
        // The argument is first the tensor of the static, and then another one.
        assert_eq!(shifted_by_a_static(&SHIFT).to_vec::<f32>(), [4.0, 8.0]);
        assert_eq!(shifted_by_a_static(&x).to_vec::<f32>(), [31.0, 62.0]);
        assert_eq!(calls_shifted(&SHIFT).to_vec::<f32>(), [8.0, 16.0]);
        assert_eq!(calls_shifted(&x).to_vec::<f32>(), [62.0, 124.0]);
        let (_, dy) = calls_shifted::jvp(&SHIFT, &SHIFT);
        assert_eq!(dy.to_vec::<f32>(), [6.0, 12.0]);
        assert_eq!(calls_shifted::jvp(&x, &x).0.to_vec::<f32>(), [62.0, 124.0]);
    }
    finds(|| with_constants(&noise(&[4, 3], 1)));
    finds(|| with_constants::jvp(&noise(&[4, 3], 1), &noise(&[4, 3], 2)));
}

#[traced]
fn in_the_order_of_a_map(x: &Tensor, #[fixed] factors: HashMap<u8, u8>) -> Tensor {
    let mut y = x.clone();
    for (add, factor) in factors {
        y = (y + add as f32) * factor as f32;
    }
    y
}

#[derive(Clone, Tree)]
struct WithMap {
    w: Tensor,
    #[tree(skip)]
    factors: HashMap<u8, i8>,
}

#[traced]
fn in_the_order_of_a_field(all: &WithMap) -> Tensor {
    let mut y = all.w.clone();
    for (k, v) in &all.factors {
        y = y * (*k as f64 * 0.37) + *v as f64;
    }
    y
}

#[test]
fn equal_maps_keep_their_own_iteration_orders() {
    let w = Tensor::from([1.0f64, 2.0]);
    let entries = || (0..7u8).map(|k| (k + 1, 3 * k as i8 - 5));
    let of = |factors: HashMap<u8, i8>| WithMap {
        w: w.clone(),
        factors,
    };
    let maps: Vec<WithMap> = (0..20).map(|_| of(entries().collect())).collect();
    for all in &maps {
        assert_eq!(
            bits(&in_the_order_of_a_field(all)),
            bits(&op_by_op(|| in_the_order_of_a_field(all)))
        );
    }
    finds(|| in_the_order_of_a_field(&maps[0]));
}

#[traced]
fn along_a_range(x: &Tensor, turns: std::ops::RangeInclusive<usize>) -> Tensor {
    let mut y = x.clone();
    for i in turns {
        y = y * 2.0 + i as f64;
    }
    y
}

#[test]
fn an_exhausted_range_differs_from_one_with_a_single_number() {
    let x = Tensor::from([1.0f64]);
    let mut walked = 0..=3;
    assert_eq!(walked.by_ref().count(), 4);
    assert_eq!(bits(&along_a_range(&x, walked.clone())), bits(&x));
    for end in [3..=3, 3..=4] {
        finds(|| along_a_range(&x, end.clone()));
    }
    assert_eq!(bits(&along_a_range(&x, walked)), bits(&x));
}

#[traced(record)]
fn recorded(x: &Tensor) -> Tensor {
    x * 2.0
}

#[test]
fn a_function_with_side_effects_runs_at_each_call() {
    let x = Tensor::from([1.0f32, 2.0]);
    let before = CALLS.load(Ordering::Relaxed);
    for i in 0..3 {
        let n = (before + i) as f32;
        assert_eq!(counted(&x).to_vec::<f32>(), [n, 2.0 * n]);
    }
    for i in 3..6 {
        let n = (before + i) as f32;
        assert_eq!(calls_counted(&x).to_vec::<f32>(), [n + 1.0, 2.0 * n + 2.0]);
    }
    for i in 6..9 {
        let n = (before + i) as f32;
        let (y, dy) = calls_counted::jvp(&x, &x);
        assert_eq!(
            [y.to_vec::<f32>(), dy.to_vec()],
            [[n + 1.0, 2.0 * n + 2.0]; 2]
        );
    }
    assert_eq!(norm_first(&x).to_vec::<f32>(), [5.0, 10.0]);
    assert_eq!(norm_first(&(&x * 2.0)).to_vec::<f32>(), [40.0, 80.0]);
    let twice = Tensor::from([2.0f32, 4.0]);
    assert_eq!(norm_first(&twice).to_vec::<f32>(), [40.0, 80.0]);
    for by in [1.0f32, 2.0, 3.0] {
        SCALE.set(by);
        assert_eq!(scaled(&x).to_vec::<f32>(), [by, 2.0 * by]);
    }
    for by in [1.0f32, 2.0, 3.0] {
        NEXT.set(by);
        assert_eq!(scaled_once(&x).to_vec::<f32>(), [by, 2.0 * by]);
    }
    for by in [0.0f32, 2.0, 2.0] {
        assert_eq!(scaled_by_the_last(&x, 2).to_vec::<f32>(), [by, 2.0 * by]);
    }
    let before = CALLS.load(Ordering::Relaxed);
    for i in 0..3 {
        let n = (before + i) as f32;
        assert_eq!(counted_by_an_iterator(&x).to_vec::<f32>(), [n, 2.0 * n]);
    }
    // Equal maps that were built separately may iterate in different orders.
    for _ in 0..8 {
        let factors: HashMap<u8, u8> = (0..8).map(|i| (i, i / 2)).collect();
        let (mut y, mut z) = (1.0f32, 2.0f32);
        for (add, factor) in factors.clone() {
            let step = |y: f32| (y + f32::from(add)) * f32::from(factor);
            (y, z) = (step(y), step(z));
        }
        assert_eq!(in_the_order_of_a_map(&x, factors).to_vec::<f32>(), [y, z]);
    }
    is_recorded(|| printed(&x));
    is_recorded(|| recorded(&x));
}

#[traced]
fn power(x: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        return x.ones_like();
    }
    let rest = power(x, n - 1);
    x * &rest
}

#[derive(Tree)]
struct Pair {
    first: Tensor,
    rest: Vec<Tensor>,
    #[tree(skip)]
    n: usize,
}

#[traced]
fn pair(x: &Tensor, n: usize) -> Pair {
    let y = x.exp();
    Pair {
        first: x.clone(),
        rest: vec![y.clone(), y],
        n,
    }
}

#[traced]
fn constant(x: &Tensor) -> (Tensor, Tensor) {
    (x.clone(), Tensor::full([2], 1.5f64, DType::F32))
}

#[traced]
fn checked(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if w.dim(0) > 3 {
        return Err(Error::Overflow { shape: vec![] });
    }
    Ok(x.matmul(w).softmax(-1).mean(..))
}

/// Row S1.26 of the requirements.
#[test]
fn functions_with_all_forms_of_results_reuse_their_plans() -> Result<()> {
    let x = noise(&[2, 2], 5);
    for n in [0, 1, 4, 2, 4] {
        assert_eq!(bits(&power(&x, n)), bits(&op_by_op(|| power(&x, n))));
    }
    finds(|| power(&x, 4));
    for n in [7, 8, 7] {
        let found = pair(&x, n);
        assert_eq!((found.n, found.rest.len()), (n, 2));
        assert_eq!(bits(&found.first), bits(&x));
        assert_eq!(bits(&found), bits(&op_by_op(|| pair(&x, n))));
    }
    for _ in 0..3 {
        assert_eq!(constant(&x).1.to_vec::<f32>(), [1.5, 1.5]);
        assert_eq!(bits(&constant(&x).0), bits(&x));
    }
    let (w, wide, wrong) = (noise(&[2, 3], 1), noise(&[4, 3], 1), noise(&[3, 3], 1));
    finds(|| checked(&x, &w).unwrap());
    finds(|| checked::grad(&x, &w).unwrap().w);
    for _ in 0..2 {
        assert!(matches!(checked(&x, &wide), Err(Error::Overflow { .. })));
        assert!(checked(&x, &wrong).is_err());
        assert!(checked::value_and_grad(&x, &wrong).is_err());
    }
    Ok(())
}

#[test]
fn annotations_are_checked_at_each_new_shape() {
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    dense(&x, &w, &b);
    let wrong = std::panic::catch_unwind(|| dense(&x, &w, &noise(&[1], 3)));
    assert!(wrong.is_err());
    finds(|| dense(&x, &w, &b));
}

#[test]
fn each_of_many_lengths_finds_its_call_again() {
    let (w, b) = (noise(&[3, 2], 2), noise(&[2], 3));
    let batches: Vec<Tensor> = (1..=100).map(|len| noise(&[len, 3], len as u64)).collect();
    let run = || {
        for x in &batches {
            dense(x, &w, &b);
        }
    };
    run();
    let ((), events) = log(run);
    let hits = events.iter().filter(|event| event.starts_with("hit"));
    assert_eq!(hits.count(), 100, "{events:?}");
    assert!(
        !events.iter().any(|event| event.contains("planned")),
        "{events:?}"
    );
}

#[test]
fn transforms_differentiate_through_cached_calls() {
    let x = noise(&[3], 1);
    for _ in 0..2 {
        let gradient = grad(|x: &Tensor| difference(x, x).sum(..))(&x);
        let plain = grad(|x: &Tensor| (x * 3.0 - x).exp().sum(..))(&x);
        assert_eq!(bits(&gradient), bits(&plain));
        let nested = grad(|x: &Tensor| grad(|y: &Tensor| difference(y, x).sum(..))(x).sum(..));
        let plain = grad(|x: &Tensor| grad(|y: &Tensor| (y * 3.0 - x).exp().sum(..))(x).sum(..));
        assert_eq!(bits(&nested(&x)), bits(&plain(&x)));
        let captured = difference(&x, &x);
        let gradient = grad(|y: &Tensor| (y * &captured).sum(..))(&x);
        assert_eq!(bits(&gradient), bits(&difference(&x, &x)));
    }
}

#[test]
fn a_training_step_reuses_three_plans() -> Result<()> {
    let x = noise(&[4, 3], 9);
    let train = |log_from: usize| -> Result<(Mlp, Vec<String>)> {
        let (sgd, adam) = (
            Sgd {
                momentum: 0.9,
                ..Sgd::default()
            },
            Adam::default(),
        );
        let mut model = mlp(&[3, 5, 2]);
        let (mut velocity, mut moments) = (sgd.init(&model), adam.init(&model));
        let mut all = Vec::new();
        for i in 0..6 {
            let (result, events) = log(|| {
                let (value, grads) = loss::value_and_grad(&model, &x);
                (model, velocity) = sgd.step(&model, &grads.model, &velocity);
                (model, moments) = adam.step(&model, &grads.model, &moments);
                evaluate(&(value, model.clone()))
            });
            result?;
            if i >= log_from {
                all.extend(events);
            }
        }
        evaluate(&(velocity, moments))?;
        Ok((model, all))
    };
    let (model, events) = train(5)?;
    assert_eq!(
        events,
        ["hit p1", "ran p1", "hit p2", "ran p2", "hit p3", "ran p3"]
    );
    let (plain, _) = op_by_op(|| train(6))?;
    assert_eq!(bits(&model), bits(&plain));
    Ok(())
}

#[test]
fn steps_that_overwrite_their_arguments_give_the_bits_of_steps_that_do_not() -> Result<()> {
    // Parameters so large that several threads share the update.
    let first = (noise(&[40, 1000], 1), noise(&[1000], 2));
    let train = |keep: bool| -> Result<Vec<Vec<u64>>> {
        let (sgd, adam) = (
            Sgd {
                momentum: 0.9,
                ..Sgd::default()
            },
            Adam::default(),
        );
        let mut model = first.clone();
        let (mut velocity, mut moments) = (sgd.init(&model), adam.init(&model));
        let mut kept = Vec::new();
        for _ in 0..4 {
            if keep {
                let now = (model.clone(), velocity.clone(), moments.mean.clone());
                kept.push((bits(&now), now));
            }
            let grads = (model.0.tanh(), model.1.square());
            evaluate(&grads)?;
            (model, velocity) = sgd.step(&model, &grads, &velocity);
            (model, moments) = adam.step(&model, &grads, &moments);
            evaluate(&(model.clone(), velocity.clone(), moments.clone()))?;
        }
        for (before, now) in &kept {
            assert_eq!(bits(now), *before);
        }
        Ok([bits(&model), bits(&velocity), bits(&moments.mean)].concat())
    };
    let kept = train(true)?;
    assert_eq!(train(false)?, kept);
    assert_eq!(op_by_op(|| train(false))?, kept);
    assert_eq!(
        bits(&first),
        bits(&(noise(&[40, 1000], 1), noise(&[1000], 2)))
    );
    Ok(())
}

#[test]
fn each_thread_has_plans_of_its_own() {
    let (x, y) = (noise(&[64], 1), noise(&[64], 2));
    let expected = bits(&difference(&x, &y));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(bits(&difference(&x, &y)), expected);
                }
                finds(|| difference(&x, &y));
            });
        }
    });
}
