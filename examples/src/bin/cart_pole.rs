//! Balances a pole on a cart by a policy gradient: episodes as lanes of `vmap`, their steps by `scan`.
//! The dynamics are those of Barto, Sutton, Anderson, "Neuronlike adaptive elements", 1983.
//!
//! `cargo run --release --bin cart_pole [-- --short]`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom::scan;
use gradloom_examples::chart;
use gradloom_examples::command::is_short;
use gradloom_examples::model::Linear;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const GRAVITY: f64 = 9.8;
const MASS: f64 = 1.1;
const POLE_MASS: f64 = 0.1;
/// Half of the length of the pole.
const LENGTH: f64 = 0.5;
const FORCE: f64 = 10.0;
const DT: f64 = 0.02;
/// An episode ends if the cart is this far from the middle.
const EDGE: f64 = 2.4;
/// An episode ends if the pole leans this far: 12 degrees, in radians.
const LEAN: f64 = 0.2095;

/// A perceptron from the place, velocity, angle and rotation to the log-odds of a push to the right.
#[derive(Clone, Tree)]
struct Policy {
    hidden: Linear,
    out: Linear,
}

#[traced]
impl Policy {
    fn log_odds(&self, state: &Tensor) -> Tensor {
        let hidden = self.hidden.forward(state).tanh();
        self.out.forward(&hidden).squeeze(-1)
    }
}

/// Returns the state after one step with a force to the right.
#[traced]
fn push(state: &Tensor, force: &Tensor) -> Tensor {
    let [place, velocity, angle, rotation] = state.unbind::<4>(0);
    let sin = angle.sin();
    let cos = angle.cos();
    let share = (force + rotation.square() * &sin * (POLE_MASS * LENGTH)) / MASS;
    let inertia = (4.0 / 3.0 - cos.square() * (POLE_MASS / MASS)) * LENGTH;
    let turn = (sin * GRAVITY - &cos * &share) / inertia;
    let speed_up = share - &turn * &cos * (POLE_MASS * LENGTH / MASS);
    Tensor::stack(
        &[
            place + &velocity * DT,
            velocity + speed_up * DT,
            angle + &rotation * DT,
            rotation + turn * DT,
        ],
        0,
    )
}

/// Plays an episode with random actions of the policy. Returns the states `[steps, 4]`, whether each
/// action is a push to the right, and whether the pole stood before it, both as 0 or 1.
fn episode(policy: &Policy, key: &Key, steps: usize) -> (Tensor, Tensor, Tensor) {
    let (start, turns) = key.duplicate().split();
    let start = start.uniform([4], DType::F32) * 0.1 - 0.05;
    let turn = |(state, stands, key): &(Tensor, Tensor, Key), _: &Tensor| {
        let (now, later) = key.duplicate().split();
        let chance = policy.log_odds(state).sigmoid();
        let right = now.uniform([], DType::F32).lt(&chance).cast(DType::F32);
        let next = push(state, &((&right * 2.0 - 1.0) * FORCE));
        let inside = next.i(0).abs().lt(EDGE) & next.i(2).abs().lt(LEAN);
        // The state stays as it is after the end, so that its numbers do not grow.
        let next = stands.gt(0.0).select(&next, state);
        let next_stands = inside.select(stands, 0.0);
        (
            (next, next_stands, later),
            (state.clone(), right, stands.clone()),
        )
    };
    let init = (start, Tensor::from(1.0f32), turns);
    scan(turn, &init, &Tensor::arange(steps, DType::I64)).1
}

/// Plays `n` episodes.
fn play(policy: &Policy, key: Key, n: usize, steps: usize) -> (Tensor, Tensor, Tensor) {
    vmap(|key: &Key| episode(policy, key, steps))(&key.split_lanes(n))
}

/// Returns the number of steps after each action, compared with the mean of the episodes that are as old.
fn advantages(stands: &Tensor) -> Tensor {
    let to_come = stands.cumsum_reverse(1);
    let mean = to_come.sum(0) / stands.sum(0).maximum(1.0);
    let advantage = (to_come - mean) * stands;
    let variance = advantage.square().sum(..) / stands.sum(..);
    advantage / (variance.sqrt() + 1e-6)
}

/// Returns a function whose gradient is the policy gradient.
#[traced]
fn loss(
    policy: &Policy,
    #[nodiff] states: &Tensor,
    #[nodiff] rights: &Tensor,
    #[nodiff] weights: &Tensor,
) -> Tensor {
    let against = (1.0 - rights * 2.0) * policy.log_odds(states);
    // The logarithm of the probability of the action is `-softplus(against)`.
    (against.softplus() * weights).mean(..)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (iterations, lanes, steps, wanted) = match is_short()? {
        false => (150, 64, 200, 195.0),
        true => (40, 32, 100, 60.0),
    };
    let clock = Instant::now();
    let [hidden, out, before, after, mut key] = Key::new(0).split_n();
    let mut policy = Policy {
        hidden: Linear::init(hidden, 4, 32),
        out: Linear::init(out, 32, 1),
    };
    // At the start, both actions have nearly the same probability in all states.
    policy.out.w *= 0.01;
    evaluate(&policy)?;
    let mean_length = |policy: &Policy, key: Key| {
        let (_, _, stands) = play(policy, key, 256, steps);
        stands.sum(1).mean(..).item::<f32>()
    };
    let length_before = mean_length(&policy, before);

    let adam = Adam {
        lr: 1e-2,
        ..Adam::default()
    };
    let mut state = adam.init(&policy);
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(["iteration", "mean length"]);
    let mut curve = Vec::new();
    for iteration in 1..=iterations {
        let (now, later) = key.split();
        key = later;
        let (states, rights, stands) = play(&policy, now, lanes, steps);
        let advantages = advantages(&stands);
        let length = stands.sum(1).mean(..);
        evaluate((&states, &rights, &advantages, &length))?;
        let gradient = loss::grad(&policy, &states, &rights, &advantages);
        (policy, state) = adam.step(&policy, &gradient.policy, &state);
        let length = length.item::<f32>();
        curve.push(1.0 - length / steps as f32);
        if iteration % (iterations / 5) == 0 {
            table.add_row([iteration.to_string(), format!("{length:.1}")]);
        }
    }
    println!("{table}");
    let length_after = mean_length(&policy, after);
    let svg = Path::new("target/cart-pole-loss.svg");
    chart::curves(
        svg,
        "Share of the steps after the pole fell",
        &[("training", curve)],
    )?;
    println!("curve: {}", svg.display());
    println!("time: {:.1} s", clock.elapsed().as_secs_f64());
    println!(
        "mean length of 256 episodes of up to {steps} steps: {length_before:.1} before, {length_after:.1} after"
    );
    if length_after.is_nan() || length_after < wanted {
        Err(format!("the mean length is less than {wanted} steps"))?;
    }
    Ok(())
}
