//! Laws of schedules, groups, micro-batches, loss scales and averages.

use super::{Params, gradient, start};
use gradloom::events::{self, Event};
use gradloom::optim::{
    Adafactor, Adagrad, Adam, AdamState, AdamW, Average, Frozen, Lamb, Lbfgs, Lion, LionState,
    RmsProp, Schedule, Sgd,
};
use gradloom::prelude::*;
use gradloom::sharding::{Mesh, ShardingSpec, sharded};
use gradloom::tree;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs `body` with each optimiser that is a few numbers.
macro_rules! for_each_optimiser {
    ($optimiser:ident => $body:expr) => {{
        let momentum = Sgd {
            momentum: 0.9,
            ..Sgd::default()
        };
        for_each_optimiser!($optimiser => $body;
            Sgd::default() momentum Adam::default() AdamW::default() Lion::default()
            Lamb::default() RmsProp::default() Adagrad::default() Adafactor::default());
    }};
    ($optimiser:ident => $body:expr; $($value:expr)*) => {$({
        let $optimiser = $value;
        $body
    })*};
}

fn linear(w: &Tensor, x: &Tensor, y: &Tensor) -> Tensor {
    (x.matmul(w) - y).square().mean(..)
}

#[test]
fn micro_batches_are_one_large_batch() {
    let (x, y) = (
        noise(&[8, 3], 1).cast(DType::F64),
        noise(&[8], 2).cast(DType::F64),
    );
    let adam = AdamW {
        lr: 0.1,
        ..AdamW::default()
    };
    let adam = adam.clipped_by_norm(0.7);
    let micro = adam.clone().accumulated(4);
    let mut large = noise(&[3], 3).cast(DType::F64);
    let mut small = large.clone();
    let (mut state, mut micro_state) = (adam.init(&large), micro.init(&small));
    for _ in 0..5 {
        let grads = grad(|w: &Tensor| linear(w, &x, &y))(&large);
        (large, state) = adam.step(&large, &grads, &state);
        for i in 0..4 {
            let (x, y) = (x.i(2 * i..2 * i + 2), y.i(2 * i..2 * i + 2));
            let grads = grad(|w: &Tensor| linear(w, &x, &y))(&small);
            let before = small.clone();
            (small, micro_state) = micro.step(&small, &grads, &micro_state);
            assert_eq!(tree::is_close(&before, &small, 0.0), i < 3);
        }
        tree::assert_close(&small, &large, 1e-12);
    }
    tree::assert_close(&micro_state.inner, &state, 1e-12);
}

#[test]
fn a_learning_rate_schedule_plans_once() {
    let adam = AdamW::default();
    let mut params = (Tensor::from([1.0f32, 2.0]), Tensor::scalar(3.0f64));
    let mut state = adam.init(&params);
    let planned = plans(|| {
        for n in 1..=5 {
            let lr = Tensor::scalar(0.1 / f64::from(n));
            let grads = params.clone();
            (params, state) = adam.step_with(&lr, &params, &grads, &state);
            evaluate(&(params.clone(), state.clone())).unwrap();
        }
    });
    assert_eq!(planned, 1);
    assert_eq!(state.step.item::<i64>(), 5);
    assert_eq!(params.1.dtype(), DType::F64);
}

/// Returns the number of plans that `run` makes.
fn plans(run: impl FnOnce()) -> usize {
    let ((), log) = events::record(run);
    let planned = log.iter().filter(|e| matches!(e, Event::Planned { .. }));
    planned.count()
}

/// Returns the number of plans that `steps` steps make after the first ones.
fn later_plans(steps: usize, mut step: impl FnMut(usize)) -> usize {
    (0..3).for_each(&mut step);
    plans(|| (3..steps).for_each(step))
}

#[test]
fn a_hundred_steps_plan_once() {
    let schedule = Schedule::linear(0.0, 0.1, 10).then(10, Schedule::cosine(0.1, 0.0, 60));
    let plans = later_plans(100, |step| {
        schedule.at(step).item::<f64>();
    });
    assert_eq!(plans, 0);
    for_each_optimiser!(optimiser => {
        let optimiser = optimiser
            .group(["s"], optimiser)
            .scheduled(schedule.clone())
            .clipped_by_norm(1.0)
            .accumulated(2)
            .loss_scaled();
        let mut x = start();
        let mut state = optimiser.init(&x);
        let average = Average { decay: 0.99 };
        let mut averages = average.init(&x);
        let plans = later_plans(100, |_| {
            let grads = tree::scale(&gradient(&x), &state.scale);
            (x, state) = optimiser.step(&x, &grads, &state);
            averages = average.update(&x, &averages);
            evaluate(&x).unwrap();
            evaluate(&state).unwrap();
            evaluate(&averages).unwrap();
        });
        assert_eq!(plans, 0);
        assert_eq!(state.inner.inner.step.item::<i64>(), 50);
        assert!(tree::norm(&gradient(&x)).item::<f64>() < tree::norm(&gradient(&start())).item());
    });
}

#[test]
fn a_group_without_decay_keeps_what_has_no_gradient() {
    let decayed = AdamW {
        weight_decay: 0.5,
        lr: 0.1,
        ..AdamW::default()
    };
    let plain = AdamW {
        weight_decay: 0.0,
        ..decayed
    };
    let adam = decayed.group(["b"], plain).group(["s"], Frozen);
    let x = start();
    let zeros = tree::scale(&x, 0.0);
    let (next, state) = adam.step(&x, &zeros, &adam.init(&x));
    tree::assert_close(&next.w, &(&x.w * 0.95), 1e-15);
    tree::assert_close(&next.b, &x.b, 0.0);
    let (next, _) = adam.step(&next, &gradient(&x), &state);
    tree::assert_close(&next.s, &x.s, 0.0);
    assert!(!tree::is_close(&next.b, &x.b, 0.01));
    let mut paths = Vec::new();
    state.paths("state", &mut paths);
    assert!(
        paths.contains(&"state.rest.group.mean[\"b\"]".to_owned()),
        "{paths:?}"
    );
}

#[test]
fn a_schedule_keeps_the_ratio_of_the_rates_of_groups() {
    let sgd = |lr| Sgd {
        lr,
        ..Sgd::default()
    };
    let groups = sgd(0.1)
        .group(["b"], sgd(0.3))
        .scheduled(Schedule::constant(1.0));
    let x = start();
    let ones = x.map(&mut |x| x.ones_like());
    let (next, _) = groups.step(&x, &ones, &groups.init(&x));
    tree::assert_close(&next.w, &(&x.w - 1.0), 1e-15);
    tree::assert_close(&next.b, &(&x.b - 3.0), 1e-15);
}

#[test]
#[should_panic(
    expected = "the pattern `*.bais` matches no parameter; the parameters are `w`, `b`, `s`"
)]
fn a_pattern_that_matches_nothing_is_refused() {
    Sgd::default().group(["w", "*.bais"], Frozen).init(&start());
}

#[test]
#[should_panic(
    expected = "the rate of the group, 0.1, has no ratio to that of the others, which is 0"
)]
fn a_rate_without_a_ratio_is_refused() {
    let still = Sgd {
        lr: 0.0,
        ..Sgd::default()
    };
    let moves = Sgd {
        lr: 0.1,
        ..Sgd::default()
    };
    let groups = still.group(["w"], moves);
    let x = start();
    groups.step_with(&Tensor::from(1.0), &x, &x, &groups.init(&x));
}

#[test]
#[should_panic(expected = "the sum of squares of `parameters.w` is f64[2], expected f64[3, 4]")]
fn the_state_of_another_model_is_refused() {
    let x = start();
    let other = Params {
        w: Tensor::from([1.0, 2.0]),
        ..start()
    };
    let adagrad = Adagrad::default();
    adagrad.step(&x, &x, &adagrad.init(&other));
}

#[test]
#[should_panic(
    expected = "the mean of squares by rows of `parameters[0]` is f64[1, 3], expected f64[2, 1]"
)]
fn a_factored_state_of_another_model_is_refused() {
    let x = vec![noise(&[2, 3], 1).cast(DType::F64)];
    let adafactor = Adafactor::default();
    let mut state = adafactor.init(&x);
    std::mem::swap(&mut state.row, &mut state.column);
    adafactor.step(&x, &x, &state);
}

#[test]
#[should_panic(expected = "the number of micro-batches is 0, expected at least 1")]
fn no_micro_batches_are_refused() {
    let sgd = Sgd::default().accumulated(0);
    sgd.step(&start(), &start(), &sgd.init(&start()));
}

#[test]
fn empty_trees_and_mixed_dtypes_have_steps() {
    for_each_optimiser!(optimiser => {
        let none: Vec<Tensor> = Vec::new();
        let all = optimiser.clipped_by_norm(1.0).accumulated(2).loss_scaled();
        let (next, state) = all.step(&none, &none, &all.init(&none));
        evaluate(&state).unwrap();
        assert!(next.is_empty());

        let mixed = (noise(&[3, 2], 1).cast(DType::F32), noise(&[], 2).cast(DType::F64), Tensor::zeros([0, 2], DType::F32));
        let state = optimiser.init(&mixed);
        let (next, _) = optimiser.step(&mixed, &mixed, &state);
        evaluate(&next).unwrap();
        assert_eq!([next.0.dtype(), next.1.dtype()], [DType::F32, DType::F64]);
        assert_eq!(next.2.shape(), [0, 2]);
        assert!(next.1.item::<f64>().is_finite());
        assert!(tree::norm(&tree::sub(&next, &mixed)).item::<f64>() > 0.0);
        // A step in single precision is near that in double precision.
        let double = mixed.map(&mut |x| x.cast(DType::F64));
        let (exact, _) = optimiser.step(&double, &double, &optimiser.init(&double));
        tree::assert_close(&next.map(&mut |x| x.cast(DType::F64)), &exact, 1e-6);
    });
}

#[derive(Clone, Tree)]
struct Table {
    weights: Tensor,
    #[nodiff]
    index: Tensor,
    #[nodiff]
    mask: Tensor,
}

#[test]
fn integers_stay() {
    let table = Table {
        weights: noise(&[2, 3], 1),
        index: Tensor::from([1i64, 2]),
        mask: Tensor::from([true, false]),
    };
    for_each_optimiser!(optimiser => {
        let all = optimiser
            .group(["weights"], optimiser)
            .clipped_by_norm(1.0)
            .clipped_by_value(0.5)
            .accumulated(1)
            .loss_scaled();
        let (next, state) = all.step(&table, &table, &all.init(&table));
        evaluate(&state).unwrap();
        assert_eq!(next.index.to_vec::<i64>(), [1, 2]);
        assert_eq!(next.mask.to_vec::<bool>(), [true, false]);
        assert!(!tree::is_close(&next.weights, &table.weights, 0.0));
    });
    let average = Average { decay: 0.5 };
    let state = average.update(&table, &average.init(&table));
    tree::assert_close(&average.value(&state), &table, 1e-6);

    // Without `#[nodiff]`, a frozen group takes them.
    let counted = vec![noise(&[2], 1), Tensor::from([1i64])];
    let sgd = Sgd::default().group(["[1]"], Frozen);
    let (next, _) = sgd.step(&counted, &counted, &sgd.init(&counted));
    assert_eq!(next[1].to_vec::<i64>(), [1]);
}

#[test]
#[should_panic(expected = "`parameters[0]` is i64[1], and only floats have gradients")]
fn integers_that_are_trained_are_refused() {
    let x = vec![Tensor::from([1i64])];
    let lion = Lion::default();
    lion.step(&x, &x, &lion.init(&x));
}

#[test]
fn a_loss_scale_skips_steps_and_adapts() {
    let sgd = Sgd {
        lr: 1.0,
        momentum: 0.5,
        ..Sgd::default()
    };
    let scaled = gradloom::optim::LossScaled {
        interval: 2,
        ..sgd.loss_scaled()
    };
    let (mut x, mut state) = (start(), scaled.init(&start()));
    let (mut plain, mut of_plain) = (start(), sgd.init(&start()));
    let mut expected = 65536.0;
    for (i, factor) in [1.0, 2.0, 0.5, 1.0, 2.0, 0.5, 0.5].into_iter().enumerate() {
        let skipped = factor == 0.5;
        let mut grads = tree::scale(&gradient(&x), &state.scale);
        if skipped {
            grads.b = &grads.b / if i == 2 { 0.0 } else { f64::NAN };
        } else {
            (plain, of_plain) = sgd.step(&plain, &gradient(&plain), &of_plain);
        }
        (x, state) = scaled.step(&x, &grads, &state);
        expected *= factor;
        assert_eq!(state.scale.item::<f32>(), expected);
        tree::assert_close(&x, &plain, 1e-14);
        tree::assert_close(&state.inner, &of_plain, 1e-14);
    }
}

#[test]
fn an_average_is_exact_for_constants() {
    let average = Average { decay: 0.999 };
    let x = (start(), noise(&[2], 1));
    let mut state = average.init(&x);
    for _ in 0..3 {
        state = average.update(&x, &state);
        tree::assert_close(&average.value(&state), &x, 1e-6);
        tree::assert_close(&average.value(&state).0, &x.0, 1e-13);
    }
}

#[derive(Clone, Tree)]
struct Trained {
    w: Tensor,
    lion: LionState<Tensor>,
    lamb: AdamState<Tensor>,
}

#[traced]
fn train(now: &Trained, g: &Tensor, lr: &Tensor) -> Trained {
    let lion = Lion {
        beta1: 0.8,
        ..Lion::default()
    };
    let (w, lion) = lion.step_with(lr, &now.w, g, &now.lion);
    let (w, lamb) = Lamb::default().step(&w, g, &now.lamb);
    Trained { w, lion, lamb }
}

#[test]
fn steps_in_traced_functions_are_pure() {
    assert_eq!(train::RECORDED, None);
    let (w, g) = (noise(&[3, 2], 1), noise(&[3, 2], 2));
    let now = Trained {
        lion: Lion::default().init(&w),
        lamb: Lamb::default().init(&w),
        w,
    };
    finds(|| train(&now, &g, &Tensor::scalar(0.1)));
}

type Whole =
    gradloom::optim::AccumulatedState<Tensor, gradloom::optim::ScheduledState<LionState<Tensor>>>;

#[traced(pure, record)]
fn whole_step(w: &Tensor, #[nodiff] state: &Whole, #[nodiff] x: &Tensor) -> (Tensor, Whole) {
    let grads = grad(|w: &Tensor| x.matmul(w).square().mean(..))(w);
    whole().step(w, &grads, state)
}

fn whole() -> impl Optimiser<State<Tensor> = Whole> {
    Lion::default()
        .scheduled(Schedule::linear(0.0, 0.1, 5))
        .clipped_by_norm(1.0)
        .accumulated(2)
}

#[test]
fn a_whole_step_is_one_plan() {
    let (w, x) = (noise(&[3], 1), noise(&[4, 3], 2));
    let state = whole().init(&w);
    finds(|| whole_step(&w, &state, &x));
}

#[test]
fn steps_on_devices_are_those_on_one() {
    let mesh = Arc::new(Mesh::new("m", &[("a", 2)]).unwrap());
    let rows = ShardingSpec::split(&mesh, &[&["a"]]).unwrap();
    let (w, g) = (noise(&[4, 6], 1), noise(&[4, 6], 2));
    for_each_optimiser!(optimiser => {
        let state = optimiser.init(&w);
        let step = |(w, g): &(Tensor, Tensor)| optimiser.step(w, g, &state).0;
        let divided = sharded(step, &mesh, (rows.clone(), rows.clone()), None);
        tree::assert_close(&divided(&(w.clone(), g.clone())), &step(&(w.clone(), g.clone())), 1e-6);
    });
}

#[test]
fn lbfgs_keeps_frozen_leaves_and_stops_at_a_minimum() {
    let table = Table {
        weights: noise(&[2, 3], 1).cast(DType::F64),
        index: Tensor::from([1i64, 2]),
        mask: Tensor::from([true, false]),
    };
    let f = value_and_grad(|t: &Table| (&t.weights - 2.0).square().sum(..));
    let lbfgs = Lbfgs::default();
    let (mut x, mut state) = (table.clone(), lbfgs.init(&table, &f));
    for _ in 0..8 {
        (x, state) = lbfgs.step(&x, &state, &f);
    }
    tree::assert_close(&x.weights, &(table.weights.zeros_like() + 2.0), 1e-12);
    assert_eq!(x.index.to_vec::<i64>(), [1, 2]);
    let (same, _) = lbfgs.step(&x, &state, &f);
    tree::assert_close(&same, &x, 0.0);
}

#[test]
fn lbfgs_avoids_losses_that_are_not_numbers() {
    let f = value_and_grad(|x: &Tensor| (x - x.log()).sum(..));
    let lbfgs = Lbfgs {
        lr: 100.0,
        ..Lbfgs::default()
    };
    let mut x = Tensor::from([3.0, 0.2]);
    let mut state = lbfgs.init(&x, &f);
    for _ in 0..20 {
        let before = state.value.item::<f64>();
        (x, state) = lbfgs.step(&x, &state, &f);
        assert!(state.value.item::<f64>() <= before);
    }
    tree::assert_close(&x, &Tensor::from([1.0, 1.0]), 1e-6);
}

#[test]
fn groups_of_maps_have_paths() {
    let x: BTreeMap<String, Tensor> = [("a.w", 1.0), ("a.b", 2.0)]
        .map(|(name, x)| (name.to_owned(), Tensor::from([x])))
        .into();
    let sgd = Sgd {
        lr: 1.0,
        ..Sgd::default()
    };
    let groups = sgd.group(["*.b\"]"], Frozen);
    let (next, _) = groups.step(&x, &x, &groups.init(&x));
    assert_eq!(next["a.w"].to_vec::<f64>(), [0.0]);
    assert_eq!(next["a.b"].to_vec::<f64>(), [2.0]);
}
