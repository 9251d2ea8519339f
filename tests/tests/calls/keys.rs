//! Random keys as arguments of traced functions: the plan draws the random numbers.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, log};

/// Checks that calls with other keys reuse the plan of the first, and that each gives the numbers
/// of evaluation op by op, where draws are not planned.
#[track_caller]
fn finds<T: Tree>(f: impl Fn(Key) -> T) {
    let mut seen = Vec::new();
    for seed in 0..4 {
        let (y, events) = log(|| f(Key::new(seed)));
        let hit = events.first().is_some_and(|e| e == "hit p1") && events.len() < 3;
        assert!(seed == 0 || hit, "{events:?}");
        let found = bits(&y);
        assert_eq!(found, bits(&op_by_op(|| f(Key::new(seed)))));
        assert!(!seen.contains(&found), "two keys give the same numbers");
        seen.push(found);
    }
}

#[traced]
fn dropout(x: &Tensor, p: f64, key: Key) -> Tensor {
    let keep = key.bernoulli(1.0 - p, x.shape());
    keep.select(&(x / (1.0 - p)), &Tensor::zeros_like(x))
}

#[traced]
fn perceptron(w: &Tensor, v: &Tensor, #[nodiff] x: &Tensor, key: Key) -> Tensor {
    let [first, second] = key.split_n();
    let h = dropout(&x.matmul(w).tanh(), 0.25, first);
    dropout(&h.matmul(v), 0.5, second).square().mean(..)
}

#[test]
fn a_call_with_another_key_reuses_the_plan() {
    for n in [4, 200] {
        let x = noise(&[n, n], 1);
        finds(|key| dropout(&x, 0.5, key));
    }
}

#[test]
fn companions_with_another_key_reuse_their_plans() {
    let [w, v, x] = [1, 2, 3].map(|seed| noise(&[6, 6], seed));
    finds(|key| perceptron(&w, &v, &x, key));
    finds(|key| {
        let (y, g) = perceptron::value_and_grad(&w, &v, &x, key);
        (y, g.w, g.v)
    });
    finds(|key| perceptron::jvp((&w, &v, &x, key), (&v, &w)));
    finds(|key| perceptron::vjp(&w, &v, &x, key).0);
}

#[test]
fn a_pullback_reads_what_the_call_drew() {
    let [w, v, x] = [1, 2, 3].map(|seed| noise(&[6, 6], seed));
    for seed in 0..3 {
        let (y, pullback) = perceptron::vjp(&w, &v, &x, Key::new(seed));
        let grads = pullback(&Tensor::ones_like(&y));
        let (_, want) = perceptron::value_and_grad(&w, &v, &x, Key::new(seed));
        for (g, want) in [(&grads.0, &want.w), (&grads.1, &want.v)] {
            assert!((g - want).abs().max(..).item::<f64>() < 1e-15);
        }
    }
}

#[traced]
fn all_draws(like: &Tensor, key: Key) -> (Tensor, Tensor, Tensor, Tensor, Tensor) {
    let dtype = like.dtype();
    let [a, b, c, d, e] = key.fold_in(3).split_n();
    (
        a.bits([2, 3]),
        b.uniform([5], dtype),
        c.normal([3, 40], dtype),
        d.bernoulli(0.5, [100]),
        e.permutation(70),
    )
}

/// A random walk that draws its steps in a loop.
#[traced]
fn walk(x: &Tensor, steps: usize, key: Key) -> Tensor {
    let mut x = x.clone();
    let mut key = key;
    for i in 0..steps {
        let (now, later) = key.split();
        let step = now.fold_in(i as u32).normal(x.shape(), x.dtype());
        x = (x + step * 0.5).tanh();
        key = later;
    }
    x
}

#[traced]
fn noises(x: &Tensor, keys: Vec<Key>, more: Option<Key>) -> Tensor {
    let mut y = x.clone();
    for key in keys {
        y *= key.uniform([3], DType::F64);
    }
    match more {
        Some(key) => y + key.normal([3], DType::F64),
        None => y,
    }
}

#[test]
fn keys_can_be_split_and_used_in_loops_and_lists() {
    for dtype in [DType::F32, DType::F64] {
        let like = Tensor::zeros([1], dtype);
        gradloom::evaluate(&like).unwrap();
        finds(|key| all_draws(&like, key));
    }
    let x = noise(&[3], 5);
    finds(|key| walk(&x, 4, key));
    finds(|key| walk::jvp((&x, 4, key), &x));
    finds(|key| noises(&x, key.split_many(3), None));
    finds(|key| {
        let (a, b) = key.split();
        noises(&x, a.split_many(2), Some(b))
    });
}

/// The plan draws the same numbers as code outside any function.
#[test]
fn a_plan_draws_the_numbers_of_the_key() {
    let like = Tensor::scalar(0f32);
    for _ in 0..2 {
        let [a, b, c, d, e] = Key::new(9).fold_in(3).split_n();
        let drawn = all_draws(&like, Key::new(9));
        assert_eq!(bits(&drawn.0), bits(&a.bits([2, 3])));
        assert_eq!(bits(&drawn.1), bits(&b.uniform([5], DType::F32)));
        assert_eq!(bits(&drawn.2), bits(&c.normal([3, 40], DType::F32)));
        assert_eq!(bits(&drawn.3), bits(&d.bernoulli(0.5, [100])));
        assert_eq!(bits(&drawn.4), bits(&e.permutation(70)));
    }
}

#[traced]
fn reads_words(x: &Tensor, key: Key) -> Tensor {
    let [a, _] = key.fold_in(1).into_words();
    x * f64::from(a % 7 + 1)
}

#[traced(pure)]
fn said_to_be_pure(x: &Tensor, key: Key) -> Tensor {
    let [a, _] = key.fold_in(1).into_words();
    x * f64::from(a % 7 + 1)
}

#[test]
fn a_function_that_reads_words_is_recorded() {
    let recorded = reads_words::RECORDED.unwrap();
    assert!(recorded.contains("`.into_words()` at line"), "{recorded}");
    let x = noise(&[3], 5);
    for seed in 0..4 {
        assert_eq!(
            bits(&said_to_be_pure(&x, Key::new(seed))),
            bits(&reads_words(&x, Key::new(seed)))
        );
        let y = reads_words(&x, Key::new(seed));
        let [a, _] = Key::new(seed).fold_in(1).into_words();
        assert_eq!(bits(&y), bits(&(&x * f64::from(a % 7 + 1))));
    }
}

/// A key created in the body is a constant of the plan, however many numbers it draws.
#[traced]
fn own_key(x: &Tensor) -> Tensor {
    x * Key::new(7).uniform([100, 200], DType::F64)
}

#[test]
fn a_key_that_the_body_makes_is_a_constant() {
    let x = noise(&[100, 200], 5);
    let want = bits(&(&x * Key::new(7).uniform([100, 200], DType::F64)));
    assert_eq!(bits(&own_key(&x)), want);
    let (y, events) = log(|| own_key(&x));
    assert_eq!(events, ["hit p1"]);
    assert_eq!(bits(&y), want);
}

#[test]
fn errors_of_draws_are_reported_at_the_call() {
    #[traced]
    fn of(x: &Tensor, key: Key, dtype: DType) -> Tensor {
        x * key.uniform([2], dtype)
    }
    let x = noise(&[2], 1);
    let panic = std::panic::catch_unwind(|| of(&x, Key::new(0), DType::I32)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("the dtype is i32, expected `f32` or `f64`"),
        "{message}"
    );
}

// ---- Keys in trees ----

#[derive(Tree)]
struct Env {
    state: Tensor,
    key: Key,
}

fn env(seed: u64) -> Env {
    let state = noise(&[40], 5);
    let key = Key::new(seed);
    Env { state, key }
}

#[traced]
fn stepped(env: Env, x: &Tensor) -> Env {
    let [now, later] = env.key.split_n();
    let state = &env.state * 0.5 + x * now.normal([40], DType::F64);
    Env { state, key: later }
}

#[traced]
fn drawn(x: &Tensor, key: Key) -> (Tensor, Key) {
    let (now, later) = key.split();
    (x * now.uniform([40], DType::F64), later)
}

#[traced]
fn of_env(env: Env, x: &Tensor) -> Tensor {
    let [first, second] = env.key.split_n();
    let keep = first.bernoulli(0.5, x.shape()).select(x, &env.state);
    dropout(&keep.square(), 0.5, second).sum(..)
}

#[traced]
fn of_env_in_a_pattern(Env { state, key }: Env, x: &Tensor) -> Tensor {
    dropout(&(x * state), 0.25, key).sum(..)
}

#[traced]
fn of_pair(pair: (Tensor, Key)) -> Tensor {
    let (x, key) = pair;
    (&x * key.normal([40], DType::F64)).sum(..)
}

#[test]
fn a_key_is_a_field_of_a_tree_and_part_of_a_result() {
    let x = noise(&[40], 7);
    for program in [
        of_env::PROGRAM,
        of_env_in_a_pattern::PROGRAM,
        of_pair::PROGRAM,
    ] {
        assert!(!program.starts_with("recorded"), "{program}");
    }
    let recorded = [stepped::RECORDED, drawn::RECORDED, of_env::RECORDED];
    assert_eq!(recorded, [None; 3]);
    let env = |key: Key| Env { key, ..env(0) };
    finds(|key| stepped(env(key), &x));
    finds(|key| drawn(&x, key));
    finds(|key| of_env(env(key), &x));
    finds(|key| of_env_in_a_pattern(env(key), &x));
    finds(|key| of_pair((x.clone(), key)));
    finds(|key| of_env::grad(env(key), &x).x);
    finds(|key| of_env::jvp((env(key), &x), (&env(Key::new(9)), &x)));

    let (now, later) = Key::new(4).split();
    let state = env(Key::new(0)).state * 0.5 + &x * now.normal([40], DType::F64);
    let next = stepped(env(Key::new(4)), &x);
    assert_eq!(bits(&next.state), bits(&state));
    assert_eq!(next.key.into_words(), later.into_words());
}

#[test]
fn the_gradient_of_a_tree_with_a_key_is_that_of_its_floats() {
    let x = noise(&[40], 7);
    for seed in 0..3 {
        let f = |state: &Tensor| {
            let (state, key) = (state.clone(), Key::new(seed));
            of_env(Env { state, key }, &x)
        };
        let expected = grad(f)(&env(seed).state);
        let gradient = of_env::grad(env(seed), &x).env;
        assert_eq!(bits(&gradient.state), bits(&expected));
        assert_eq!(gradient.key.into_words(), [0, 0]);
        let (y, pullback) = of_env::vjp(env(seed), &x);
        assert_eq!(bits(&pullback(&y.ones_like()).0.state), bits(&expected));
        let draws =
            |pair: &(Tensor, Key)| (&pair.0 * of_pair((pair.0.clone(), Key::new(seed)))).sum(..);
        let gradient = grad(draws)(&(x.clone(), Key::new(0)));
        assert_eq!(gradient.1.into_words(), [0, 0]);
    }
}

// ---- Draws as operands ----

#[traced]
fn in_one_breath(x: &Tensor, key: Key) -> Tensor {
    let [a, b] = key.split_n();
    a.bernoulli(0.5, x.shape()).select(&(x * 2.0), x) + b.normal(x.shape(), x.dtype()).abs() * x
}

#[traced]
fn checkpointed(x: &Tensor, key: Key, keys: Vec<Key>) -> Tensor {
    let (mut x, mut key) = (x.clone(), key);
    #[checkpoint(every = 2)]
    for _ in 0..5 {
        let (now, later) = key.split();
        let noise = now.normal([40], DType::F64);
        x = (x.square() + noise).tanh();
        key = later;
    }
    for key in keys {
        x *= key.uniform([40], DType::F64);
    }
    x.sum(..)
}

#[test]
fn a_draw_is_an_operand_and_loops_with_draws_run_again() {
    let x = noise(&[40], 7);
    for program in [
        dropout::PROGRAM,
        in_one_breath::PROGRAM,
        checkpointed::PROGRAM,
    ] {
        assert!(!program.starts_with("recorded"), "{program}");
    }
    finds(|key| in_one_breath(&x, key));
    finds(|key| in_one_breath::vjp(&x, key).0);
    let keys = || Key::new(3).split_many(2);
    finds(|key| checkpointed(&x, key, keys()));
    for seed in 0..3 {
        let f = |x: &Tensor| checkpointed(x, Key::new(seed), keys());
        let gradient = checkpointed::grad(&x, Key::new(seed), keys()).x;
        gradloom::tree::assert_close(&gradient, &grad(f)(&x), 1e-12);
    }
}

#[test]
fn a_closure_draws_from_words_that_it_captures() {
    let x = noise(&[40], 7);
    let words = Key::new(5).into_words();
    let f = |x: &Tensor| (x * Key::from_words(words).normal([40], DType::F64)).sum(..);
    let expected = Key::new(5).normal([40], DType::F64);
    assert_eq!(bits(&grad(f)(&x)), bits(&expected));
}

// ---- Keys that are copied, carried and spread over lanes ----

/// One draw for each number, of copies of one key.
#[traced]
fn folded(x: &Tensor, key: Key) -> Tensor {
    let mut h = x.clone();
    for i in 0..4u32 {
        h += key.duplicate().fold_in(i).normal([3], DType::F64);
    }
    h
}

/// Keys as the slices of a loop.
#[traced]
fn scanned(x: &Tensor, key: Key) -> Tensor {
    let keys = key.split_lanes(5);
    let turn = |h: &Tensor, key: &Key| {
        let h = h * key.duplicate().uniform([3], DType::F64);
        (h.clone(), h)
    };
    let (last, all) = gradloom::scan(turn, x, &keys);
    last + all.sum(0)
}

/// A key as a part of the state of a loop.
#[traced]
fn carried(x: &Tensor, key: Key) -> Tensor {
    let turn = |i: &Tensor, (h, key): &(Tensor, Key)| {
        let (now, later) = key.duplicate().split();
        (h + i.cast(DType::F64) * now.normal([3], DType::F64), later)
    };
    gradloom::fori_loop(0..4, turn, &(x.clone(), key)).0
}

#[traced]
fn of_a_borrowed_key(x: &Tensor, key: &Key) -> Tensor {
    x * key.duplicate().normal([3], DType::F64)
}

#[traced]
fn in_lanes(x: &Tensor, key: Key) -> Tensor {
    let keys = key.split_lanes(4);
    vmap(|key: &Key| key.duplicate().normal([3], DType::F64) * x)(&keys).sum(0)
}

#[test]
fn copies_of_keys_are_free_of_effects() {
    let x = noise(&[3], 5);
    let recorded = [
        folded::RECORDED,
        scanned::RECORDED,
        carried::RECORDED,
        of_a_borrowed_key::RECORDED,
        in_lanes::RECORDED,
    ];
    assert_eq!(recorded, [None; 5]);
    finds(|key| folded(&x, key));
    finds(|key| folded::jvp((&x, key), &x));
    finds(|key| scanned(&x, key));
    finds(|key| scanned::vjp(&x, key).0);
    finds(|key| carried(&x, key));
    finds(|key| of_a_borrowed_key(&x, &key));
    finds(|key| in_lanes(&x, key));
    let mut want = x.clone();
    for i in 0..4 {
        want += Key::new(7).fold_in(i).normal([3], DType::F64);
    }
    assert_eq!(bits(&folded(&x, Key::new(7))), bits(&want));
}

/// A method of the user's with the name of one of keys.
#[derive(Clone, Tree)]
struct Twin {
    w: Tensor,
}

#[traced]
impl Twin {
    fn duplicate(&self) -> Tensor {
        &self.w * 2.0
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let twice = self.duplicate();
        twice * x
    }
}

#[test]
fn a_method_of_a_model_may_have_the_name_of_one_of_keys() {
    let (twin, x) = (Twin { w: noise(&[3], 1) }, noise(&[3], 2));
    assert_eq!(Twin::FORWARD_RECORDED, None);
    gradloom_tests::observe::finds(|| twin.forward(&x));
}

// ---- Functions of keys only ----

#[traced]
fn init(key: Key) -> Tensor {
    let (w, scale) = key.split();
    w.normal([4, 3], DType::F64) * scale.uniform([3], DType::F64)
}

#[derive(Tree)]
struct Model {
    w: Tensor,
    layers: Vec<Tensor>,
}

/// A model of a size that is an argument.
#[traced]
fn init_model(key: Key, n: usize) -> Model {
    let [w, rest] = key.split_n();
    let layers = rest.split_many(n).into_iter();
    let layers = layers
        .map(|key| key.normal([3], DType::F64) * 0.1)
        .collect::<Vec<_>>();
    Model {
        w: w.normal([4, 3], DType::F64),
        layers,
    }
}

/// A function of a key whose dtype may be refused.
#[traced]
fn init_of(key: &Key, dtype: DType) -> Result<Tensor> {
    Ok(key.duplicate().normal([2], dtype))
}

/// A traced function that calls one of a key.
#[traced]
fn calls_init(x: &Tensor, key: Key) -> Tensor {
    let (first, second) = key.split();
    let w = init(first);
    let model = init_model(second, 2);
    x.matmul(&w) + &model.layers[1] * 2.0
}

struct Sampler;

#[traced]
impl Sampler {
    #[traced]
    fn sample(key: Key) -> Tensor {
        key.normal([3], DType::F64)
    }
}

#[test]
fn a_function_of_a_key_is_cached() {
    assert_eq!([init::RECORDED, init_model::RECORDED], [None; 2]);
    finds(init);
    finds(|key| init_model(key, 3));
    finds(|key| init_of(&key, DType::F64).unwrap());
    finds(Sampler::sample);
    let (w, scale) = Key::new(3).split();
    let want = w.normal([4, 3], DType::F64) * scale.uniform([3], DType::F64);
    assert_eq!(bits(&init(Key::new(3))), bits(&want));
    assert!(
        init::PROGRAM.contains("it takes no tensor"),
        "{}",
        init::PROGRAM
    );
    assert!(init_of(&Key::new(0), DType::I32).is_err());
    let x = noise(&[2, 4], 5);
    assert_eq!(calls_init::RECORDED, None);
    finds(|key| calls_init(&x, key));
    finds(|key| calls_init::vjp(&x, key).0);
}

#[test]
fn the_lanes_of_a_function_of_a_key_are_calls() {
    let all = init::vmap(0, Key::new(3).split_lanes(5));
    assert_eq!(all.shape(), [5, 4, 3]);
    for (i, key) in Key::new(3).split_many(5).into_iter().enumerate() {
        let one = init(key);
        gradloom::tree::assert_close(&all.i(i), &one, 1e-12);
    }
    finds(|key| init::vmap(0, key.split_lanes(5)));
    let models = init_model::vmap(0, Key::new(3).split_lanes(5), 2);
    assert_eq!(models.layers[1].shape(), [5, 3]);
}
