//! Values of PyTorch and optax, which `goldens.py` writes.

use super::{Params, fractions, gradient, slopes, start};
use gradloom::optim::{
    Adafactor, Adagrad, Adam, AdamW, Average, Lamb, Lbfgs, Lion, RmsProp, Schedule, Sgd,
    clip_by_norm,
};
use gradloom::prelude::*;
use gradloom::tree;

const STEPS: usize = 20;

/// Returns the leaves with their names, by which a case at a step has a line.
fn golden(case: &str, step: usize) -> Vec<(&'static str, Vec<f64>)> {
    let prefix = format!("{case}/{step}/");
    let lines = include_str!("torch.txt")
        .lines()
        .chain(include_str!("optax.txt").lines());
    lines
        .filter_map(|line| {
            let (leaf, numbers) = line.strip_prefix(&*prefix)?.split_once(' ')?;
            Some((
                leaf,
                numbers.split(' ').map(|x| x.parse().unwrap()).collect(),
            ))
        })
        .collect()
}

#[track_caller]
fn check(found: &impl Tree, case: &str, step: usize) {
    let golden = golden(case, step);
    let found = tree::leaves_with_paths(found);
    assert_eq!(found.len(), golden.len(), "{case}/{step}");
    for (name, expected) in &golden {
        let by_name = found
            .iter()
            .find(|(path, _)| path.is_empty() || path == name);
        let (_, x) = by_name.expect("a leaf with the name");
        let x = x.to_vec::<f64>();
        assert_eq!(x.len(), expected.len());
        for (x, e) in x.iter().zip(expected) {
            let near = (x - e).abs() <= 1e-12 * e.abs().max(1.0);
            assert!(near, "{case}/{step}/{name}: {x} is not {e}");
        }
    }
}

#[track_caller]
fn train(case: &str, optimiser: &impl Optimiser) {
    let mut x = start();
    let mut state = optimiser.init(&x);
    let average = Average { decay: 0.9 };
    let mut averages = average.init(&x);
    for step in 1..=STEPS {
        (x, state) = optimiser.step(&x, &gradient(&x), &state);
        averages = average.update(&x, &averages);
        if [1, 2, 10, STEPS].contains(&step) {
            check(&x, case, step);
            let case = format!("{case}_average");
            if !golden(&case, step).is_empty() {
                check(&average.value(&averages), &case, step);
            }
        }
    }
}

#[test]
fn steps_are_those_of_torch() {
    let sgd = Sgd {
        lr: 0.05,
        momentum: 0.9,
        nesterov: true,
    };
    train("sgd", &sgd);
    let adam = Adam {
        lr: 0.05,
        ..Adam::default()
    };
    train("adam", &adam);
    let adamw = AdamW {
        lr: 0.05,
        weight_decay: 0.1,
        ..AdamW::default()
    };
    train("adamw", &adamw);
    let rmsprop = RmsProp {
        lr: 0.02,
        decay: 0.9,
        ..RmsProp::default()
    };
    train("rmsprop", &rmsprop);
    let momentum = RmsProp {
        momentum: 0.8,
        ..rmsprop
    };
    train("rmsprop_momentum", &momentum);
    let adagrad = Adagrad {
        lr: 0.3,
        initial: 0.5,
        ..Adagrad::default()
    };
    train("adagrad", &adagrad);
    let adafactor = Adafactor {
        lr: 0.05,
        weight_decay: 0.1,
        ..Adafactor::default()
    };
    train("adafactor", &adafactor);
    let clip = Adafactor {
        lr: 0.5,
        decay: 0.6,
        min_scale: 2.0,
        clip: 1.1,
        ..Adafactor::default()
    };
    train("adafactor_clip", &clip);
}

#[test]
fn groups_are_those_of_torch() {
    let adamw = AdamW {
        lr: 0.05,
        weight_decay: 0.1,
        ..AdamW::default()
    };
    let plain = AdamW {
        weight_decay: 0.0,
        ..adamw
    };
    let fast = AdamW { lr: 0.2, ..adamw };
    train("groups", &adamw.group(["b"], plain).group(["s"], fast));
}

#[test]
fn steps_are_those_of_optax() {
    let lion = Lion {
        lr: 0.02,
        beta2: 0.95,
        weight_decay: 0.1,
        ..Lion::default()
    };
    train("lion", &lion);
    let lamb = Lamb {
        lr: 0.05,
        weight_decay: 0.1,
        ..Lamb::default()
    };
    train("lamb", &lamb);
    let plain = Lamb {
        weight_decay: 0.0,
        ..lamb
    };
    train("lamb_plain", &plain);
    let adam = Adam {
        lr: 0.05,
        ..Adam::default()
    };
    train("clipped", &adam.clipped_by_value(0.5));
    train("accumulated", &adam.accumulated(4));
    train("scheduled", &Sgd::default().scheduled(joined()));
}

#[test]
fn steps_of_lbfgs_are_those_of_torch() {
    let slopes = Tensor::from_vec((0..9).map(|i| 2f64.powi(i)).collect::<Vec<f64>>(), [9]);
    let loss = |x: &Tensor| (&slopes * x.square() * 0.5 + x.sin()).sum(..);
    for (case, lr) in [("lbfgs", 1.0), ("lbfgs_long", 3.0), ("lbfgs_short", 0.1)] {
        let lbfgs = Lbfgs {
            lr,
            history: 5,
            ..Lbfgs::default()
        };
        let f = value_and_grad(loss);
        let mut x = fractions([9], 0);
        let mut state = lbfgs.init(&x, &f);
        for step in 1..=STEPS {
            (x, state) = lbfgs.step(&x, &state, &f);
            check(&x, case, step);
            let value = loss(&x).item::<f64>();
            assert!((state.value.item::<f64>() - value).abs() <= 1e-13 * value.abs());
        }
    }
}

fn joined() -> Schedule {
    Schedule::linear(0.0, 0.3, 6).then(6, Schedule::cosine(0.3, 0.0, 14))
}

#[test]
fn schedules_are_those_of_torch_and_optax() {
    let steps = Schedule::constant(0.5)
        .then(10, Schedule::constant(0.05))
        .then(20, Schedule::constant(0.005));
    let warm_up = Schedule::linear(0.125, 0.5, 8).then(8, Schedule::cosine(0.5, 0.0, 20));
    for (case, schedule) in [
        ("exponential", Schedule::exponential(0.5, 0.9)),
        ("cosine", Schedule::cosine(0.5, 0.01, 40)),
        ("one_cycle", Schedule::one_cycle(0.5, 50)),
        ("steps", steps),
        ("warm_up", warm_up),
        ("joined", joined()),
    ] {
        let n = golden(case, 0)[0].1.len();
        check(&schedule.at(&Tensor::arange(n, DType::I64)), case, 0);
        let one_by_one: Vec<f64> = (0..n).map(|step| schedule.at(step).item()).collect();
        check(&Tensor::from_vec(one_by_one, [n]), case, 0);
    }
}

#[test]
fn clipped_gradients_are_those_of_torch() {
    // PyTorch adds 1e-6 to the norm.
    let found: Params = clip_by_norm(&slopes(), 0.5);
    let norm = tree::norm(&slopes()).item::<f64>();
    check(
        &tree::scale(&found, norm / (norm + 1e-6)),
        "clip_by_norm",
        0,
    );
}
