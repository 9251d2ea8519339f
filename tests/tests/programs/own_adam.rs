//! Adam with arithmetic on trees, a schedule of the learning rate, and clipping.

use gradloom::prelude::*;
use gradloom::{optim, tree};
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Debug, Tree)]
enum Schedule {
    Constant(#[tree(skip)] f64),
    Warmup {
        #[tree(skip)]
        steps: usize,
        #[tree(skip)]
        peak: f64,
    },
    Cosine {
        #[tree(skip)]
        total: usize,
        #[tree(skip)]
        peak: f64,
    },
}

#[traced]
impl Schedule {
    fn rate(&self, step: &Tensor) -> Tensor {
        match self {
            Schedule::Constant(rate) => step.full_like(*rate),
            Schedule::Warmup { steps, peak } => (step / *steps as f64).minimum(1.0) * *peak,
            Schedule::Cosine { total, peak } => {
                let part = (step / *total as f64).minimum(1.0);
                ((part * std::f64::consts::PI).cos() + 1.0) * 0.5 * *peak
            }
        }
    }
}

#[derive(Clone, Debug, Tree)]
struct Adam {
    #[tree(skip)]
    beta1: f64,
    #[tree(skip)]
    beta2: f64,
    #[tree(skip)]
    eps: f64,
    schedule: Schedule,
    #[tree(skip)]
    clip: Option<f64>,
}

#[derive(Clone, Tree)]
struct Moments<P> {
    first: P,
    second: P,
    step: Tensor,
}

#[traced]
fn zeros<P: Tree + Clone + 'static>(params: &P) -> P {
    params.map(&mut |leaf| leaf.zeros_like())
}

#[traced]
impl Adam {
    #[traced]
    fn init<P: Tree + Clone + 'static>(&self, params: &P) -> Moments<P> {
        Moments {
            first: zeros(params),
            second: zeros(params),
            step: Tensor::scalar(0.0f64),
        }
    }

    #[traced]
    fn step<P: Tree + Clone + 'static>(
        &self,
        params: &P,
        grads: &P,
        state: &Moments<P>,
    ) -> (P, Moments<P>) {
        let grads = match self.clip {
            Some(most) => {
                let factor = (most / (tree::norm(grads) + 1e-12)).minimum(1.0);
                grads.map(&mut |leaf| leaf * &factor)
            }
            None => grads.clone(),
        };
        let step = &state.step + 1.0;
        let first = tree::map2(&state.first, &grads, |m, g| {
            m * self.beta1 + g * (1.0 - self.beta1)
        });
        let second = tree::map2(&state.second, &grads, |v, g| {
            v * self.beta2 + g.square() * (1.0 - self.beta2)
        });
        let first_scale = 1.0 - (&step * self.beta1.ln()).exp();
        let second_scale = 1.0 - (&step * self.beta2.ln()).exp();
        let update = tree::map2(&first, &second, |m, v| {
            (m / &first_scale) / ((v / &second_scale).sqrt() + self.eps)
        });
        let rate: Tensor = self.schedule.rate(&step);
        let params = tree::map2(params, &update, |p, u| p - u * &rate);
        (
            params,
            Moments {
                first,
                second,
                step,
            },
        )
    }
}

#[derive(Clone, Tree)]
struct Net {
    layers: Vec<(Tensor, Tensor)>,
    scale: Option<Tensor>,
}

#[traced]
fn loss(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, (w, b)) in net.layers.iter().enumerate() {
        h = h.matmul(w) + b;
        if i + 1 < net.layers.len() {
            h = h.tanh();
        }
    }
    if let Some(scale) = &net.scale {
        h = h * scale;
    }
    (h.squeeze(1) - y).square().mean(..)
}

/// The gradient and the step in one plan.
#[traced]
fn train(
    adam: &Adam,
    net: &Net,
    state: &Moments<Net>,
    x: &Tensor,
    y: &Tensor,
) -> (Tensor, Net, Moments<Net>) {
    let (value, grads) = loss::value_and_grad(net, x, y);
    let (net, state) = adam.step(net, &grads.net, state);
    (value, net, state)
}

fn start() -> Net {
    let [a, b] = Key::new(6).split_n();
    let net = Net {
        layers: vec![
            (a.normal([2, 8], DType::F64), Tensor::zeros([8], DType::F64)),
            (b.normal([8, 1], DType::F64), Tensor::zeros([1], DType::F64)),
        ],
        scale: Some(Tensor::from([1.0f64])),
    };
    evaluate(&net).unwrap();
    net
}

fn data() -> (Tensor, Tensor) {
    let x = Key::new(7).normal([16, 2], DType::F64);
    let y = x.sin().sum(-1);
    evaluate((&x, &y)).unwrap();
    (x, y)
}

fn adam(schedule: Schedule, clip: Option<f64>) -> Adam {
    Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        schedule,
        clip,
    }
}

#[test]
fn it_is_the_optimiser_of_the_library() {
    let (x, y) = data();
    for clip in [None, Some(0.1)] {
        let mine = adam(Schedule::Constant(0.02), clip);
        let theirs = optim::Adam {
            lr: 0.02,
            ..optim::Adam::default()
        };
        let (mut net, mut state) = (start(), mine.init(&start()));
        let (mut other, mut other_state) = (start(), theirs.init(&start()));
        for _ in 0..10 {
            (_, net, state) = train(&mine, &net, &state, &x, &y);
            let mut gradient = loss::grad(&other, &x, &y).net;
            if let Some(most) = clip {
                gradient = optim::clip_by_norm(&gradient, most);
            }
            (other, other_state) = theirs.step(&other, &gradient, &other_state);
        }
        near("the net", &entries(&net), &entries(&other), 1e-9).unwrap();
        assert_eq!(state.step.item::<f64>(), 10.0);
    }
}

#[test]
fn the_schedules_are_those_of_plain_numbers() {
    for step in [1.0, 3.0, 10.0, 50.0] {
        let rate = |schedule: Schedule| entries(&schedule.rate(&Tensor::scalar(step)));
        assert_eq!(rate(Schedule::Constant(0.1)), [0.1]);
        let warmup = f64::min(step / 5.0, 1.0) * 0.3;
        near(
            "warmup",
            &rate(Schedule::Warmup {
                steps: 5,
                peak: 0.3,
            }),
            &[warmup],
            1e-14,
        )
        .unwrap();
        let part = f64::min(step / 20.0, 1.0) * std::f64::consts::PI;
        let cosine = (part.cos() + 1.0) * 0.15;
        near(
            "cosine",
            &rate(Schedule::Cosine {
                total: 20,
                peak: 0.3,
            }),
            &[cosine],
            1e-14,
        )
        .unwrap();
    }
}

#[test]
fn a_step_with_its_gradient_is_one_plan_and_lowers_the_loss() {
    assert_eq!(zeros::RECORDED, None);
    assert_eq!(Schedule::RATE_RECORDED, None);
    assert_eq!(Adam::STEP_RECORDED, None);
    assert_eq!(train::RECORDED, None);
    let (x, y) = data();
    for schedule in [
        Schedule::Warmup {
            steps: 5,
            peak: 0.03,
        },
        Schedule::Cosine {
            total: 80,
            peak: 0.05,
        },
    ] {
        let adam = adam(schedule, Some(1.0));
        let (mut net, mut state) = (start(), adam.init(&start()));
        evaluate(&state).unwrap();
        finds(|| adam.step(&net, &net, &state));
        finds(|| train(&adam, &net, &state, &x, &y));
        let mut step = || {
            let value;
            (value, net, state) = train(&adam, &net, &state, &x, &y);
            evaluate((&value, &net, &state)).unwrap();
            value.item::<f64>()
        };
        let before = step();
        plans_nothing(|| {
            step();
        });
        let after = (0..78).map(|_| step()).last().unwrap();
        assert!(after < 0.2 * before, "{before} and {after}");
    }
}
