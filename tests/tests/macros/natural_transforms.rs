//! Results of transforms in traced functions: Jacobians of structs, trees of lanes, and functions of
//! trees on gradients.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;

#[derive(Clone, Tree)]
struct Line {
    w: Tensor,
    b: Tensor,
}

fn line() -> Line {
    Line {
        w: noise(&[3, 2], 1),
        b: noise(&[2], 2),
    }
}

#[traced]
fn loss(line: &Line, x: &Tensor) -> Tensor {
    (x.matmul(&line.w) + &line.b).square().mean(..)
}

#[traced]
fn row_of_hessian(line: &Line, x: &Tensor) -> Tensor {
    let h = hessian(|line: &Line| loss(line, x))(line);
    h.row(|line| &line.w).w.clone()
}

#[traced]
fn row_of_jacobian(line: &Line, x: &Tensor) -> Tensor {
    let step = |line: &Line| Line {
        w: &line.w * x.sum(..),
        b: line.b.sin(),
    };
    let j = gradloom::jacrev(step)(line);
    j.row(|line| &line.b).b.square().sum(..)
}

#[test]
fn rows_of_jacobians_of_structs_are_pure() {
    assert_eq!(row_of_hessian::RECORDED, None);
    assert_eq!(row_of_jacobian::RECORDED, None);
    let (line, x) = (line(), noise(&[4, 3], 3));
    assert_eq!(row_of_hessian(&line, &x).shape(), [3, 2, 3, 2]);
    let expected = line.b.cos().square().sum(..).item::<f64>();
    assert!((row_of_jacobian(&line, &x).item::<f64>() - expected).abs() < 1e-12);
    finds(|| row_of_hessian(&line, &x));
    finds(|| row_of_jacobian(&line, &x));
}

#[traced]
fn norm_of_gradient(line: &Line, x: &Tensor) -> Tensor {
    let g = grad(|line: &Line| loss(line, x))(line);
    tree::norm(&g)
}

#[traced]
fn norms_of_gradients(line: &Line, xs: &Tensor) -> Tensor {
    let norms = vmap(|x: &Tensor| {
        let g = grad(|line: &Line| loss(line, x))(line);
        tree::norm(&g)
    })(xs);
    norms.sum(..)
}

/// Gradients of each example, clipped and averaged.
#[traced]
fn private_step(line: &Line, #[nodiff] xs: &Tensor, clip: f64) -> Line {
    let each = vmap(|x: &Tensor| {
        let g = grad(|line: &Line| loss(line, x))(line);
        let scale = (clip / (tree::norm(&g) + 1e-6)).minimum(1.0);
        tree::map2(&g, &g, |a, _| a * &scale)
    })(xs);
    Line {
        w: &line.w - each.w.mean(0),
        b: &line.b - each.b.mean(0),
    }
}

#[traced]
fn lanes_of_a_struct(x: &Tensor, y: &Tensor) -> Tensor {
    let each = vmap(|(x, y): &(Tensor, Tensor)| Line {
        w: x * y,
        b: x.sum(..),
    })(&(x.clone(), y.clone()));
    each.w.mean(0).sum(..) + each.b.sum(..)
}

#[test]
fn functions_of_trees_take_gradients() {
    assert_eq!(norm_of_gradient::RECORDED, None);
    assert_eq!(norms_of_gradients::RECORDED, None);
    assert_eq!(private_step::RECORDED, None);
    assert_eq!(lanes_of_a_struct::RECORDED, None);
    let (line, xs) = (line(), noise(&[4, 3], 3));
    let norms = norms_of_gradients(&line, &xs).item::<f64>();
    let one = |i: usize| norm_of_gradient(&line, &xs.row(i)).item::<f64>();
    assert!((norms - (0..4).map(one).sum::<f64>()).abs() < 1e-12);
    // A large limit clips nothing.
    let next = private_step(&line, &xs, 1e9);
    let each = (0..4).map(|i| loss::grad(&line, &xs.row(i)).line.w * 0.25);
    let mean = each.reduce(|a, b| a + b).unwrap();
    let difference = (&line.w - &mean - &next.w).abs().max(..).item::<f64>();
    assert!(difference < 1e-12, "{difference}");
    finds(|| norm_of_gradient(&line, &xs.row(0)));
    finds(|| norms_of_gradients(&line, &xs));
    finds(|| private_step(&line, &xs, 1e9).w);
    finds(|| lanes_of_a_struct(&xs, &xs));
}
