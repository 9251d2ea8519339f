//! Inverse kinematics of a planar arm, by Gauss-Newton with the Jacobian in forward mode.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Arm {
    #[tree(skip)]
    lengths: Vec<f64>,
}

/// Position and direction of the hand.
#[derive(Clone, Tree)]
struct Pose {
    position: Tensor,
    angle: Tensor,
}

#[traced]
impl Arm {
    /// Returns the positions of the joints and of the hand, and the direction of the hand.
    fn forward(&self, angles: &Tensor) -> (Vec<Tensor>, Tensor) {
        let mut joints = vec![Tensor::zeros([2], angles.dtype())];
        let mut angle = Tensor::zeros([1], angles.dtype());
        for (i, &length) in self.lengths.iter().enumerate() {
            angle += angles.slice([i], [i + 1], [1]);
            let link = Tensor::concat(&[angle.cos(), angle.sin()], 0) * length;
            let next = joints.last().unwrap() + link;
            joints.push(next);
        }
        (joints, angle)
    }

    fn hand(&self, angles: &Tensor) -> Pose {
        let (mut joints, angle) = self.forward(angles);
        Pose {
            position: joints.pop().unwrap(),
            angle,
        }
    }

    fn reach(&self, angles: &Tensor) -> Tensor {
        let pose = self.hand(angles);
        Tensor::concat(&[pose.position, pose.angle], 0)
    }

    /// Takes a damped step towards a position and a direction of the hand.
    fn step(&self, angles: &Tensor, #[nodiff] target: &Tensor, damping: f64) -> Tensor {
        let jacobian = jacfwd(|angles: &Tensor| self.reach(angles))(angles);
        let error = target - self.reach(angles);
        let n = error.dim(0);
        let eye = Tensor::arange(n, DType::I64).one_hot(n, error.dtype());
        let normal = jacobian.matmul(&jacobian.t()) + eye * damping;
        angles + jacobian.t().matmul(&solve3(&normal, &error))
    }
}

/// Solves a system of three equations by Cramer's rule.
#[traced]
fn solve3(a: &Tensor, b: &Tensor) -> Tensor {
    let columns: [Tensor; 3] = a.unbind(1);
    let det = det3(&columns);
    let x: Vec<Tensor> = (0..3)
        .map(|i| {
            let mut columns = columns.clone();
            columns[i] = b.clone();
            det3(&columns) / &det
        })
        .collect();
    Tensor::stack(&x, 0)
}

#[traced]
fn det3([a, b, c]: &[Tensor; 3]) -> Tensor {
    (a * cross(b, c)).sum(..)
}

#[traced]
fn cross(a: &Tensor, b: &Tensor) -> Tensor {
    let rotated = |x: &Tensor, by: usize| {
        Tensor::concat(&[x.slice([by], [3], [1]), x.slice([0], [by], [1])], 0)
    };
    rotated(a, 1) * rotated(b, 2) - rotated(a, 2) * rotated(b, 1)
}

const JOINTS: usize = 4;

fn arm() -> Arm {
    Arm {
        lengths: vec![1.0, 0.8, 0.6, 0.4],
    }
}

fn angles() -> Tensor {
    noise(&[JOINTS], 1)
}

#[test]
fn the_jacobian_is_that_of_the_closed_form() {
    let (arm, angles) = (arm(), angles());
    let jacobian = jacfwd(|angles: &Tensor| arm.reach(angles))(&angles);
    let turned = entries(&angles);
    let sum = |k: usize| turned[..=k].iter().sum::<f64>();
    let column = |i: usize| {
        let links = (i..JOINTS).map(|k| (arm.lengths[k], sum(k)));
        links.fold([0.0, 0.0, 1.0], |[x, y, one], (length, angle)| {
            [x - length * angle.sin(), y + length * angle.cos(), one]
        })
    };
    let expected: Vec<f64> = (0..3)
        .flat_map(|r| (0..JOINTS).map(move |i| column(i)[r]))
        .collect();
    near("the jacobian", &entries(&jacobian), &expected, 1e-14).unwrap();
    let reverse = jacrev(|angles: &Tensor| arm.reach(angles))(&angles);
    near("in reverse mode", &entries(&reverse), &expected, 1e-14).unwrap();
}

#[test]
fn the_links_have_their_lengths() {
    let (joints, _) = arm().forward(&angles());
    let lengths: Vec<f64> = joints
        .windows(2)
        .map(|pair| (&pair[1] - &pair[0]).square().sum(..).sqrt().item())
        .collect();
    near("the lengths", &lengths, &arm().lengths, 1e-14).unwrap();
}

#[test]
fn the_solution_reaches_the_target() {
    let (arm, mut now) = (arm(), angles());
    let target = Tensor::from([0.9f64, 1.4, 2.0]);
    for _ in 0..25 {
        now = arm.step(&now, &target, 1e-6);
    }
    near(
        "the hand",
        &entries(&arm.reach(&now)),
        &entries(&target),
        1e-12,
    )
    .unwrap();
}

#[test]
fn the_solution_of_three_equations_is_right() {
    let (a, x) = (noise(&[3, 3], 2), noise(&[3], 3));
    near(
        "x",
        &entries(&solve3(&a, &a.matmul(&x))),
        &entries(&x),
        1e-12,
    )
    .unwrap();
}

#[test]
fn the_derivatives_are_right() {
    Companions {
        call: &|angles: &Tensor| arm().reach(angles),
        vjp: &|angles, ct| {
            let (y, pullback) = arm().reach_vjp(angles);
            (y, pullback(ct).1)
        },
        jvp: &|angles, dangles| arm().reach_jvp(angles, (&arm(), dangles)),
    }
    .check(&angles());
    Companions {
        call: &|(a, b): &(Tensor, Tensor)| solve3(a, b),
        vjp: &|(a, b), ct| {
            let (y, pullback) = solve3::vjp(a, b);
            (y, pullback(ct))
        },
        jvp: &|(a, b), (da, db)| solve3::jvp((a, b), (da, db)),
    }
    .check(&(noise(&[3, 3], 2), noise(&[3], 3)));
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Arm::FORWARD_RECORDED, None);
    assert_eq!(Arm::HAND_RECORDED, None);
    assert_eq!(Arm::STEP_RECORDED, None);
    assert_eq!(solve3::RECORDED, None);
    let (arm, mut now) = (arm(), angles());
    let target = Tensor::from([0.9f64, 1.4, 2.0]);
    finds(|| arm.hand(&now));
    finds(|| arm.step(&now, &target, 1e-6));
    let mut step = || {
        now = arm.step(&now, &target, 1e-6);
        evaluate(&now).unwrap();
    };
    step();
    plans_nothing(&mut step);
}
