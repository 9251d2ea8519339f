//! An actor and a critic that learn to walk to the end of a corridor.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

/// A batch of environments: states and rewards are one per environment.
#[traced]
trait Environment {
    fn reset(&self, batch: usize) -> Tensor;
    fn observe(&self, state: &Tensor) -> Tensor;
    fn act(&self, state: &Tensor, action: &Tensor) -> (Tensor, Tensor);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Corridor {
    length: usize,
}

#[traced]
impl Environment for Corridor {
    fn reset(&self, batch: usize) -> Tensor {
        Tensor::zeros([batch], DType::I64)
    }

    fn observe(&self, state: &Tensor) -> Tensor {
        state.one_hot(self.length, DType::F64)
    }

    /// Action 0 goes back, action 1 forward. The last place pays 1 and is left for the first.
    fn act(&self, state: &Tensor, action: &Tensor) -> (Tensor, Tensor) {
        let moved = (state + action * 2 - 1).clamp(0, self.length as i64 - 1);
        let arrived = moved.eq(self.length as i64 - 1);
        let reward = arrived.cast(DType::F64) - 0.05;
        (arrived.select(0, &moved), reward)
    }
}

#[derive(Clone, Tree)]
struct Agent {
    actor: Tensor,
    critic: Tensor,
}

#[derive(Clone, Tree)]
struct Step {
    observation: Tensor,
    action: Tensor,
    reward: Tensor,
}

#[derive(Clone, Copy, Tree)]
struct Settings {
    #[tree(skip)]
    horizon: usize,
    #[tree(skip)]
    discount: f64,
    #[tree(skip)]
    entropy: f64,
}

#[traced]
fn sample(logits: &Tensor, key: Key) -> Tensor {
    let uniform = key.uniform(logits.shape(), DType::F64) + 1e-12;
    let gumbel = -(-uniform.log()).log();
    (logits + gumbel).argmax(-1)
}

#[traced]
fn rollout<E: Environment + Clone + Eq + 'static>(
    agent: &Agent,
    #[fixed] env: &E,
    state: &Tensor,
    settings: Settings,
    key: Key,
) -> (Tensor, Vec<Step>) {
    let mut state = state.clone();
    let mut steps = Vec::new();
    for key in key.split_many(settings.horizon) {
        let observation = env.observe(&state);
        let action = sample(&observation.matmul(&agent.actor), key);
        let (next, reward) = env.act(&state, &action);
        steps.push(Step {
            observation,
            action,
            reward,
        });
        state = next;
    }
    (state, steps)
}

#[traced]
fn loss<E: Environment + Clone + Eq + 'static>(
    agent: &Agent,
    #[fixed] env: &E,
    #[nodiff] state: &Tensor,
    settings: Settings,
    key: Key,
) -> (Tensor, Tensor, Tensor) {
    let (last, steps) = rollout(agent, env, state, settings, key);
    let mut value = env.observe(&last).matmul(&agent.critic).stop_gradient();
    let mut loss = Tensor::scalar(0.0f64);
    let mut total = Tensor::scalar(0.0f64);
    for step in steps.iter().rev() {
        value = &step.reward + value * settings.discount;
        let advantage = &value - step.observation.matmul(&agent.critic);
        let log_policy = step.observation.matmul(&agent.actor).log_softmax(-1);
        let chosen = (step.action.one_hot(2, DType::F64) * &log_policy).sum(-1);
        let entropy = -(log_policy.exp() * &log_policy).sum(-1);
        loss += (advantage.square() * 0.5
            - chosen * advantage.stop_gradient()
            - entropy * settings.entropy)
            .mean(..);
        total += step.reward.mean(..);
    }
    (loss / settings.horizon as f64, last, total)
}

const CORRIDOR: Corridor = Corridor { length: 5 };
const SETTINGS: Settings = Settings {
    horizon: 8,
    discount: 0.9,
    entropy: 0.01,
};

fn agent() -> Agent {
    let agent = Agent {
        actor: Tensor::zeros([5, 2], DType::F64),
        critic: Tensor::zeros([5], DType::F64),
    };
    evaluate(&agent).unwrap();
    agent
}

#[test]
fn the_last_place_pays_and_leads_to_the_first() {
    let state = Tensor::from([0i64, 0, 3, 3]);
    let (next, reward) = CORRIDOR.act(&state, &Tensor::from([0i64, 1, 0, 1]));
    assert_eq!(next.to_vec::<i64>(), [0, 1, 2, 0]);
    near(
        "the rewards",
        &entries(&reward),
        &[-0.05, -0.05, -0.05, 0.95],
        1e-14,
    )
    .unwrap();
}

#[test]
fn a_rollout_is_a_chain_of_steps_and_the_same_key_gives_it_again() {
    let (agent, state) = (agent(), CORRIDOR.reset(6));
    let (last, steps) = rollout(&agent, &CORRIDOR, &state, SETTINGS, Key::new(1));
    let mut state = state;
    for step in &steps {
        assert_eq!(
            entries(&step.observation),
            entries(&CORRIDOR.observe(&state))
        );
        let (next, reward) = CORRIDOR.act(&state, &step.action);
        assert_eq!(entries(&step.reward), entries(&reward));
        state = next;
    }
    assert_eq!(
        (steps.len(), state.to_vec::<i64>()),
        (8, last.to_vec::<i64>())
    );
    let again = rollout(&agent, &CORRIDOR, &CORRIDOR.reset(6), SETTINGS, Key::new(1));
    assert_eq!(again.0.to_vec::<i64>(), last.to_vec::<i64>());
}

#[test]
fn the_slope_in_the_critic_is_right() {
    // The horizon is 1 and the discount 0, so no stopped gradient depends on the critic.
    let settings = Settings {
        horizon: 1,
        discount: 0.0,
        entropy: 0.3,
    };
    let state = CORRIDOR.reset(6);
    let mut agent = agent();
    agent.critic = agent.critic + 0.05;
    let run = |critic: &Tensor| {
        let agent = Agent {
            actor: agent.actor.clone(),
            critic: critic.clone(),
        };
        loss(&agent, &CORRIDOR, &state, settings, Key::new(1)).0
    };
    let gradient = loss::grad(&agent, &CORRIDOR, &state, settings, Key::new(1)).agent;
    let by = noise_like(&agent.critic, 1);
    let slope = (&gradient.critic * &by).sum(..);
    // The policy is uniform: the stopped advantage is in the loss with the factor ln 2, but not in
    // the gradient.
    let rest = |critic: &Tensor| run(critic) - policy_part(critic, &state, settings);
    near(
        "the slope",
        &entries(&slope),
        &differences(&rest, &agent.critic, &by, 1e-3),
        1e-8,
    )
    .unwrap();
}

/// The part of the loss with the stopped advantage as a factor.
fn policy_part(critic: &Tensor, state: &Tensor, settings: Settings) -> Tensor {
    let agent = Agent {
        actor: Tensor::zeros([5, 2], DType::F64),
        critic: critic.clone(),
    };
    let (_, steps) = rollout(&agent, &CORRIDOR, state, settings, Key::new(1));
    let advantage = &steps[0].reward - steps[0].observation.matmul(critic);
    (advantage * 2.0f64.ln()).mean(..)
}

#[test]
fn the_agent_learns_to_walk_and_a_second_step_plans_nothing() {
    assert_eq!(sample::RECORDED, None);
    assert_eq!(rollout::RECORDED, None);
    assert_eq!(loss::RECORDED, None);
    let (mut agent, mut state) = (agent(), CORRIDOR.reset(32));
    finds(|| rollout(&agent, &CORRIDOR, &state, SETTINGS, Key::new(3)));
    finds(|| loss::grad(&agent, &CORRIDOR, &state, SETTINGS, Key::new(3)).agent);
    let adam = Adam {
        lr: 0.05,
        ..Adam::default()
    };
    let mut optimiser = adam.init(&agent);
    let mut step = |key: Key| {
        let ((value, last, reward), grads) =
            loss::value_and_grad(&agent, &CORRIDOR, &state, SETTINGS, key);
        state = last;
        (agent, optimiser) = adam.step(&agent, &grads.agent, &optimiser);
        evaluate((&value, &state, &agent, &optimiser)).unwrap();
        reward.item::<f64>()
    };
    let mut keys = Key::new(0).split_many(150).into_iter();
    let first = step(keys.next().unwrap());
    step(keys.next().unwrap());
    plans_nothing(|| {
        step(keys.next().unwrap());
    });
    let last = keys.map(step).last().unwrap();
    assert!(last > first + 1.0, "{first} and {last}");
    assert_eq!(agent.actor.argmax(-1).to_vec::<i64>()[..4], [1, 1, 1, 1]);
}
