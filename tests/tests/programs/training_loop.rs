//! The training loop that users of other libraries write first: gradient, step, print the loss. It
//! does not call `evaluate`, on purpose.

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

/// The trained model, and the number of plans made in each tenth of the steps.
type Trained = (Linear, Vec<usize>);

/// Returns inputs and targets. The targets are a promise.
fn data() -> (Tensor, Tensor) {
    let x = noise(&[32, 3], 1);
    let y = x.matmul(Tensor::from([[1.0f64], [-2.0], [0.5]])) + 0.25;
    (x, y)
}

fn train(steps: usize, (x, y): (Tensor, Tensor), mut see: impl FnMut(&Tensor)) -> Trained {
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
            for _ in 0..steps / 10 {
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

fn learns(model: &Linear) {
    for (w, expected) in model.w.to_vec::<f64>().iter().zip([1.0, -2.0, 0.5]) {
        assert!((w - expected).abs() < 0.05, "{w} and {expected}");
    }
    assert!((model.b.to_vec::<f64>()[0] - 0.25).abs() < 0.05);
}

fn plans_at_first_only(planned: &[usize]) {
    assert!(planned[0] <= 8, "{planned:?}");
    assert_eq!(planned[1..], [0; 9], "{planned:?}");
}

#[test]
fn a_loop_that_reads_the_loss_plans_a_bounded_number_of_times() {
    let data = data();
    evaluate(&data).unwrap();
    let mut losses = Vec::new();
    let (model, planned) = train(STEPS, data, |loss| losses.push(loss.item::<f64>()));
    assert!(losses[STEPS - 1] < 1e-3, "{}", losses[STEPS - 1]);
    learns(&model);
    plans_at_first_only(&planned);
}

#[test]
fn a_loop_that_reads_nothing_plans_a_bounded_number_of_times() {
    let data = data();
    evaluate(&data).unwrap();
    let (model, planned) = train(STEPS, data, |_| {});
    learns(&model);
    plans_at_first_only(&planned);
}

/// Uses fewer steps, because a regression could make each step slower than the previous one.
#[test]
fn a_loop_on_data_that_is_a_promise_plans_a_bounded_number_of_times() {
    let mut losses = Vec::new();
    let (_, planned) = train(60, data(), |loss| losses.push(loss.item::<f64>()));
    assert!(losses[59] < losses[0], "{losses:?}");
    plans_at_first_only(&planned);
}
