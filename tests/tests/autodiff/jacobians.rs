//! Jacobians and Hessians, compared with the derivatives along one basis vector after the other.

use gradloom::prelude::*;
use gradloom::{DType, JacobianTree, cond, custom_jvp, hessian, jacfwd, jacrev, scan};
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::noise;

/// Returns the trees with a one in one of the leaves, and zeros elsewhere.
fn basis<X: Tree>(x: &X) -> Vec<X> {
    let mut n = 0;
    x.visit(&mut |leaf| n += leaf.numel());
    let vector = |i: usize| {
        let mut next = 0;
        x.map(&mut |leaf| {
            let elements = (0..leaf.numel()).map(|_| {
                next += 1;
                f64::from(next == i + 1)
            });
            Tensor::from_vec(elements.collect(), leaf.shape())
        })
    };
    (0..n).map(vector).collect()
}

/// Returns the numbers of a Jacobian of the function whose columns these are, in the order of its blocks.
fn blocks<X: Tree, Y: Tree>(x: &X, y: &Y, columns: &[Vec<f64>]) -> Vec<f64> {
    let mut found = Vec::new();
    let mut row = 0;
    for rows in sizes(y) {
        let mut column = 0;
        for n in sizes(x) {
            let of_block = &columns[column..column + n];
            let rows = row..row + rows;
            found.extend(rows.flat_map(|i| of_block.iter().map(move |column| column[i])));
            column += n;
        }
        row += rows;
    }
    found
}

/// Returns the numbers of elements of the leaves.
fn sizes(tree: &impl Tree) -> Vec<usize> {
    let mut sizes = Vec::new();
    tree.visit(&mut |leaf| sizes.push(leaf.numel()));
    sizes
}

/// Compares both modes with the tangents along all basis vectors, twice: the second time the programs are known.
fn check<X: Tree, Y: JacobianTree>(what: &str, x: &X, f: impl Fn(&X) -> Y) {
    let columns: Vec<_> = basis(x).iter().map(|e| entries(&jvp(&f, x, e).1)).collect();
    let expected = blocks(x, &f(x), &columns);
    for _ in 0..2 {
        near(what, &entries(&jacfwd(&f)(x)), &expected, 1e-12).unwrap();
        near(what, &entries(&jacrev(&f)(x)), &expected, 1e-12).unwrap();
    }
}

/// Compares the Hessian with its products with all basis vectors, twice.
fn check_hessian<X: JacobianTree>(what: &str, x: &X, f: impl Fn(&X) -> Tensor) {
    let columns: Vec<_> = basis(x).iter().map(|v| entries(&hvp(&f, x, v))).collect();
    let expected = blocks(x, x, &columns);
    for _ in 0..2 {
        near(what, &entries(&hessian(&f)(x)), &expected, 1e-12).unwrap();
    }
}

fn rosenbrock(x: &Tensor) -> Tensor {
    let (after, before) = (x.i(1..), x.slice([0], [-1], [1]));
    ((after - before.square()).square() * 100.0 + (1.0 - before).square()).sum(..)
}

#[traced]
fn field(x: &Tensor, #[nodiff] a: &Tensor) -> Tensor {
    a.matmul(x).tanh() * x.sin()
}

#[test]
fn jacobians_of_tensors_agree_with_those_of_single_vectors() {
    let (x, a) = (noise(&[4], 1), noise(&[4, 4], 2));
    check("field", &x, |x| a.matmul(x).tanh() * x.sin());
    check("a traced field", &x, |x| field(x, &a));
    check("a sum", &x, |x| x.exp().sum(..));
    check("linear", &x, |x| a.matmul(x));
    check("softmax", &a, |x| x.softmax(0));
    check("the argument", &x, |x| x.clone());
    check("a constant", &x, |_| a.sin());
    check("a step function", &x, |x| x.floor());
    check("without elements", &Tensor::zeros([0], DType::F64), |x| {
        x.sin()
    });
    check("a number", &Tensor::from(0.5f64), |x| x * &a);
    check("a product of matrices", &a, |x| x.matmul(x).transpose());
    check("of a gradient", &x, |x| {
        grad(|x: &Tensor| a.matmul(x).exp().sum(..))(x)
    });
}

#[test]
fn jacobians_of_trees_agree_with_those_of_single_vectors() {
    let x = (noise(&[3], 1), (noise(&[2, 3], 2), Tensor::from(0.5f64)));
    let f = |(x, (w, b)): &(Tensor, (Tensor, Tensor))| {
        let h = w.matmul(x) + b;
        (h.tanh(), vec![b.square(), w.sum(0), x.ones_like()])
    };
    check("a tree", &x, f);
    check_hessian("a tree", &x, |x| {
        let (h, all) = f(x);
        h.square().sum(..) * &all[0] + (&all[1] * &all[2]).exp().sum(..)
    });
}

#[test]
fn hessians_agree_with_products_with_single_vectors() {
    let x = noise(&[5], 3);
    check_hessian("rosenbrock", &x, rosenbrock);
    check_hessian("linear", &x, |x| x.sum(..));
    check_hessian("a constant", &x, |_| Tensor::from(2.0f64));
    check_hessian("quadratic", &x, |x| (x * x).sum(..));
    check_hessian("of a traced function", &x, |x| {
        let a = noise(&[5, 5], 4);
        field(x, &a).prod(..)
    });
    let with_others = |x: &Tensor| (rosenbrock(x), x.sin());
    let alone = entries(&hessian(rosenbrock)(&x));
    near(
        "a tuple",
        &entries(&hessian(with_others)(&x)),
        &alone,
        1e-12,
    )
    .unwrap();
}

#[test]
fn jacobians_of_control_flow_and_custom_rules_agree_with_those_of_single_vectors() {
    let x = noise(&[3], 5);
    let turns = |x: &Tensor| {
        let step = |h: &Tensor, w: &Tensor| ((h * w).sin(), h.clone());
        scan(step, x, &noise(&[4, 3], 6)).0
    };
    check("scan", &x, turns);
    check_hessian("scan", &x, |x| turns(x).square().sum(..));
    let branch = |x: &Tensor| {
        cond(
            &x.sum(..).gt(0.0),
            |x: &Tensor| x.sin(),
            |x: &Tensor| x.exp(),
            x,
        )
    };
    check("cond", &x, branch);
    check_hessian("cond", &x, |x| branch(x).sum(..));
    let softplus = custom_jvp(
        |x: &Tensor| (x.exp() + 1.0).log(),
        |x: &Tensor, _: &Tensor, dx: &Tensor| x.sigmoid() * dx,
    );
    check("custom_jvp", &x, &softplus);
    check_hessian("custom_jvp", &x, |x| softplus(x).square().sum(..));
}

#[test]
fn a_function_that_reads_values_has_the_jacobian_of_the_branch_it_took() {
    let f = |x: &Tensor| match x.sum(..).item::<f64>() > 0.0 {
        true => x.square(),
        false => x.sin(),
    };
    for x in [noise(&[3], 1).abs(), -noise(&[3], 1).abs()] {
        check("a branch", &x, f);
        check_hessian("a branch", &x, |x| f(x).sum(..));
    }
}

#[test]
fn lanes_of_hessians_are_hessians_of_lanes() {
    let rows = noise(&[3, 4], 7);
    let all = vmap(|x: &Tensor| hessian(rosenbrock)(x))(&rows);
    for (i, row) in rows.rows().enumerate() {
        let one = entries(&hessian(rosenbrock)(&row));
        near("a lane", &entries(&all.i(i)), &one, 1e-12).unwrap();
    }
    let third = grad(|x: &Tensor| hessian(rosenbrock)(x).sum(..))(&noise(&[4], 8));
    assert!(entries(&third).iter().all(|x| x.is_finite()));
}
