//! Balls that collide with each other and with walls, differentiated through the motion.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Ball {
    position: Tensor,
    velocity: Tensor,
    #[tree(skip)]
    radius: f64,
    #[tree(skip)]
    mass: f64,
}

#[derive(Clone, Debug, Tree)]
enum Wall {
    Floor {
        #[tree(skip)]
        height: f64,
    },
    Plane {
        #[tree(skip)]
        normal: [f64; 2],
        #[tree(skip)]
        offset: f64,
    },
}

#[derive(Clone, Debug, Tree)]
struct World {
    #[tree(skip)]
    gravity: f64,
    #[tree(skip)]
    stiffness: f64,
    #[tree(skip)]
    drag: Option<f64>,
    walls: Vec<Wall>,
    #[tree(skip)]
    dt: f64,
}

#[traced]
impl Wall {
    /// The depth of a ball in the wall, and the direction out of it.
    fn depth(&self, ball: &Ball) -> (Tensor, Tensor) {
        let (normal, offset) = match self {
            Wall::Floor { height } => ([0.0, 1.0], *height),
            Wall::Plane { normal, offset } => (*normal, *offset),
        };
        let normal = Tensor::from(normal);
        let distance = (&ball.position * &normal).sum(..) - offset;
        ((ball.radius - distance).relu(), normal)
    }
}

#[traced]
impl World {
    fn repulsion(&self, a: &Ball, b: &Ball) -> Tensor {
        let apart = &a.position - &b.position;
        let distance = (apart.square().sum(..) + 1e-12).sqrt();
        let overlap = (a.radius + b.radius - &distance).relu();
        apart / distance * overlap * self.stiffness
    }

    fn forces(&self, balls: &[Ball]) -> Vec<Tensor> {
        let mut forces: Vec<Tensor> = balls
            .iter()
            .map(|ball| {
                let mut force = Tensor::from([0.0, -self.gravity * ball.mass]);
                if let Some(drag) = self.drag {
                    force = force - &ball.velocity * drag;
                }
                for wall in &self.walls {
                    let (depth, normal) = wall.depth(ball);
                    force += normal * depth * self.stiffness;
                }
                force
            })
            .collect();
        for i in 0..balls.len() {
            for j in i + 1..balls.len() {
                let push = self.repulsion(&balls[i], &balls[j]);
                forces[i] += &push;
                forces[j] -= &push;
            }
        }
        forces
    }

    #[traced]
    fn step(&self, balls: Vec<Ball>) -> Vec<Ball> {
        let forces = self.forces(&balls);
        balls
            .into_iter()
            .zip(forces)
            .map(|(ball, force)| {
                let velocity = &ball.velocity + force * (self.dt / ball.mass);
                let position = &ball.position + &velocity * self.dt;
                Ball {
                    position,
                    velocity,
                    ..ball
                }
            })
            .collect()
    }

    #[traced]
    fn simulate(&self, balls: &[Ball], steps: usize) -> Vec<Ball> {
        let mut balls = balls.to_vec();
        for _ in 0..steps {
            balls = self.step(balls);
        }
        balls
    }
}

/// How far the first ball ends from the target.
#[traced]
fn miss(balls: &[Ball], #[nodiff] target: &Tensor, world: &World) -> Tensor {
    let last = world.simulate(balls, 40);
    (&last[0].position - target).square().sum(..)
}

fn balls() -> Vec<Ball> {
    let ball = |x: f64, y: f64, vx: f64| Ball {
        position: Tensor::from([x, y]),
        velocity: Tensor::from([vx, 0.1]),
        radius: 0.5,
        mass: 1.0 + 0.5 * x,
    };
    vec![
        ball(0.0, 0.6, 1.0),
        ball(1.1, 0.7, -1.0),
        ball(2.5, 1.0, 0.0),
    ]
}

fn world() -> World {
    let plane = Wall::Plane {
        normal: [1.0, 0.0],
        offset: -1.0,
    };
    World {
        gravity: 9.8,
        stiffness: 500.0,
        drag: Some(0.1),
        walls: vec![Wall::Floor { height: 0.0 }, plane],
        dt: 0.01,
    }
}

/// The motion in plain numbers: position and velocity of each ball.
fn reference(balls: &[Ball], world: &World, steps: usize) -> Vec<[[f64; 2]; 2]> {
    let pair = |t: &Tensor| [entries(t)[0], entries(t)[1]];
    let mut all: Vec<_> = balls
        .iter()
        .map(|b| [pair(&b.position), pair(&b.velocity)])
        .collect();
    for _ in 0..steps {
        let before = all.clone();
        for (i, ball) in balls.iter().enumerate() {
            let [x, v] = before[i];
            let drag = world.drag.unwrap_or(0.0);
            let mut force = [-drag * v[0], -drag * v[1] - world.gravity * ball.mass];
            for wall in &world.walls {
                let (normal, offset) = match wall {
                    Wall::Floor { height } => ([0.0, 1.0], *height),
                    Wall::Plane { normal, offset } => (*normal, *offset),
                };
                let depth = ball.radius + offset - x[0] * normal[0] - x[1] * normal[1];
                force = [0, 1].map(|k| force[k] + normal[k] * depth.max(0.0) * world.stiffness);
            }
            for j in (0..balls.len()).filter(|&j| j != i) {
                let apart = [x[0] - before[j][0][0], x[1] - before[j][0][1]];
                let distance = apart[0].hypot(apart[1]);
                let overlap = (ball.radius + balls[j].radius - distance).max(0.0);
                force = [0, 1].map(|k| force[k] + apart[k] / distance * overlap * world.stiffness);
            }
            let v = [0, 1].map(|k| v[k] + force[k] * world.dt / ball.mass);
            all[i] = [[0, 1].map(|k| x[k] + v[k] * world.dt), v];
        }
    }
    all
}

#[test]
fn the_motion_is_that_of_plain_numbers() {
    let expected = reference(&balls(), &world(), 40);
    let expected: Vec<f64> = expected.concat().concat();
    near(
        "the motion",
        &entries(&world().simulate(&balls(), 40)),
        &expected,
        1e-9,
    )
    .unwrap();
}

#[test]
fn without_walls_and_gravity_the_momentum_stays() {
    let world = World {
        gravity: 0.0,
        drag: None,
        walls: vec![],
        ..world()
    };
    let momentum = |balls: &[Ball]| -> f64 {
        balls
            .iter()
            .map(|ball| entries(&ball.velocity)[0] * ball.mass)
            .sum()
    };
    let after = world.simulate(&balls(), 40);
    near(
        "the momentum",
        &[momentum(&after)],
        &[momentum(&balls())],
        1e-12,
    )
    .unwrap();
    assert!(entries(&after[0].velocity)[0] < 0.9, "they collided");
}

#[test]
fn the_gradient_through_contacts_is_right_and_moves_the_ball_to_the_target() {
    let (mut balls, world, target) = (balls(), world(), Tensor::from([-0.5f64, 0.5]));
    let by = noise_like(&balls, 1);
    let slope = gradloom::tree::dot(&miss::grad(&balls, &target, &world).balls, &by);
    let run = |balls: &Vec<Ball>| miss(balls, &target, &world);
    near(
        "the slope",
        &entries(&slope),
        &differences(&run, &balls, &by, 1e-6),
        1e-5,
    )
    .unwrap();

    let before = miss(&balls, &target, &world).item::<f64>();
    for _ in 0..20 {
        let gradient = miss::grad(&balls, &target, &world).balls;
        for (ball, g) in balls.iter_mut().zip(&gradient) {
            ball.velocity = &ball.velocity - &g.velocity * 0.2;
        }
    }
    let after = miss(&balls, &target, &world).item::<f64>();
    assert!(after < 0.5 * before, "{before} and {after}");
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Wall::DEPTH_RECORDED, None);
    assert_eq!(World::FORCES_RECORDED, None);
    assert_eq!(World::STEP_RECORDED, None);
    assert_eq!(World::SIMULATE_RECORDED, None);
    assert_eq!(miss::RECORDED, None);
    let (mut balls, world, target) = (balls(), world(), Tensor::from([-0.5f64, 0.5]));
    finds(|| world.forces(&balls));
    finds(|| world.simulate(&balls, 3));
    let mut step = || {
        let (value, grads) = miss::value_and_grad(&balls, &target, &world);
        balls = gradloom::tree::sub(&balls, &gradloom::tree::scale(&grads.balls, 0.01));
        evaluate((&value, &balls)).unwrap();
    };
    step();
    plans_nothing(step);
}
