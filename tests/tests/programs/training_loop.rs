//! The loop that a user of other libraries writes first: gradient, step, print the loss. Nothing is evaluated on purpose.

use gradloom::events::{self, Event};
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::noise;

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[traced]
fn loss(model: &Linear, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (model.forward(x) - y).square().mean(..)
}

const STEPS: usize = 300;

/// Inputs and targets. The targets are a promise.
fn data() -> (Tensor, Tensor) {
    let x = noise(&[32, 3], 1);
    let y = x.matmul(&Tensor::from([[1.0f64], [-2.0], [0.5]])) + 0.25;
    (x, y)
}

/// The model after training, and how often a plan was made in each tenth of the steps.
fn train((x, y): (Tensor, Tensor), mut see: impl FnMut(&Tensor)) -> (Linear, Vec<usize>) {
    let adam = Adam {
        lr: 0.05,
        ..Adam::default()
    };
    let mut model = Linear {
        w: noise(&[3, 1], 2),
        b: Tensor::from([0.0f64]),
    };
    let mut state = adam.init(&model);
    let mut planned = Vec::new();
    for _ in 0..10 {
        let ((), events) = events::record(|| {
            for _ in 0..STEPS / 10 {
                let (value, grads) = loss::value_and_grad(&model, &x, &y);
                (model, state) = adam.step(&model, &grads.model, &state);
                see(&value);
            }
        });
        let plans = |event: &&Event| matches!(event, Event::Planned { .. });
        planned.push(events.iter().filter(plans).count());
    }
    (model, planned)
}

fn check((model, planned): (Linear, Vec<usize>)) {
    for (w, expected) in model.w.to_vec::<f64>().iter().zip([1.0, -2.0, 0.5]) {
        assert!((w - expected).abs() < 0.05, "{w} and {expected}");
    }
    assert!((model.b.to_vec::<f64>()[0] - 0.25).abs() < 0.05);
    assert!(planned[0] <= 8, "{planned:?}");
    assert_eq!(planned[1..], [0; 9], "{planned:?}");
}

#[test]
fn a_loop_that_reads_the_loss_plans_a_bounded_number_of_times() {
    let data = data();
    evaluate(&data).unwrap();
    let mut losses = Vec::new();
    let trained = train(data, |loss| losses.push(loss.item::<f64>()));
    assert!(losses[STEPS - 1] < 1e-3, "{}", losses[STEPS - 1]);
    check(trained);
}

#[test]
fn a_loop_that_reads_nothing_plans_a_bounded_number_of_times() {
    let data = data();
    evaluate(&data).unwrap();
    check(train(data, |_| {}));
}

#[test]
fn a_loop_on_data_that_is_a_promise_plans_a_bounded_number_of_times() {
    check(train(data(), |loss| {
        loss.item::<f64>();
    }));
}
