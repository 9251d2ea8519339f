//! `linearize` and `linear_transpose` against forward and reverse mode.

use gradloom::{
    DType, Result, Tensor, cond, fori_loop, grad, jvp, linear_transpose, linearize, scan, traced,
    vjp, vmap, while_loop,
};

fn x() -> Tensor {
    Tensor::from([0.5f64, -1.25, 2.0])
}

fn close(found: &Tensor, expected: &Tensor) {
    let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(&expected) {
        assert!(
            (a - b).abs() <= 1e-12 * b.abs().max(1.0),
            "{found:?} {expected:?}"
        );
    }
}

/// Functions with loops and without, by name.
type Case = (&'static str, fn(&Tensor) -> Tensor);

const CASES: [Case; 8] = [
    ("smooth", |x| (x * x.sin()).sum(..) * x.exp()),
    ("linear", |x| x.cumsum(0) - 2.0 * x.flip(0)),
    ("constant", |x| x.ones_like()),
    ("step", |x| x.floor() + x.gt(0.0).select(x, 0.0)),
    ("scan", |x| {
        scan(
            |c: &Tensor, x: &Tensor| (c * x + 1.0, c.sin()),
            &x.sum(..),
            x,
        )
        .1
    }),
    ("loop", |x| {
        fori_loop(0..3, |_: &Tensor, y: &Tensor| y.tanh() * x, x)
    }),
    ("while", |x| {
        while_loop(
            |y: &Tensor| y.sum(..).lt(9.0),
            |y: &Tensor| y * 1.5 + 1.0,
            x,
        )
    }),
    ("cond", |x| {
        cond(
            &x.sum(..).gt(0.0),
            |x: &Tensor| x.square(),
            |x: &Tensor| x.cos(),
            x,
        )
    }),
];

#[test]
fn the_map_of_a_linearised_function_is_forward_mode() {
    for (name, f) in CASES {
        println!("{name}");
        let (y, map) = linearize(f, &x());
        close(&y, &f(&x()));
        for seed in 0..3 {
            let dx = Tensor::from([1.0, -0.5 * f64::from(seed), 0.25]);
            close(&map.call(&dx), &jvp(f, &x(), &dx).1);
        }
        // The map can be differentiated and has lanes.
        let basis = Tensor::eye(3, DType::F64);
        let rows = vmap(|dx: &Tensor| map.call(dx))(&basis);
        close(
            &rows.slice([1], [2], [1]).squeeze(0),
            &map.call(&Tensor::from([0.0, 1.0, 0.0])),
        );
        let (_, again) = linearize(|dx: &Tensor| map.call(dx), &x());
        close(&again.call(&x()), &map.call(&x()));
    }
}

#[test]
fn second_derivatives_pass_through_a_linearised_function() {
    let f = |x: &Tensor| (x * x * x).sum(..);
    let along = |x: &Tensor| linearize(f, x).1.call(&x.ones_like());
    close(&grad(along)(&x()), &(x() * 6.0));
}

#[test]
fn residuals_are_what_the_derivative_reads() {
    let (_, sum) = linearize(|x: &Tensor| x + x, &x());
    assert_eq!(sum.bytes(), 0);
    let (_, sin) = linearize(|x: &Tensor| x.sin(), &x());
    assert_eq!(sin.bytes(), 24);
}

#[test]
fn a_transposed_function_is_the_pullback() {
    let a = Tensor::from([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]);
    let linear = |x: &Tensor| (a.matmul(x), x.cumsum(0) / 2.0 + 7.0);
    let transposed = linear_transpose(linear, &x().zeros_like());
    let ct = (Tensor::from([1.0, -2.0]), Tensor::from([0.5, 0.25, 4.0]));
    close(&transposed.call(&ct), &vjp(linear, &x()).1.call(&ct));
    // The transpose of the transpose is the function without what it adds.
    let back = linear_transpose(|ct: &(Tensor, Tensor)| transposed.call(ct), &ct);
    let y = back.call(&x());
    close(&y.0, &a.matmul(x()));
    close(&y.1, &(x().cumsum(0) / 2.0));
    let of_pair = linear_transpose(|(x, y): &(Tensor, Tensor)| x - y, &(x(), x()));
    let (left, right) = of_pair.call(&x());
    close(&left, &x());
    close(&right, &-x());
    let summed = |x: &Tensor| scan(|c: &Tensor, x: &Tensor| (c + x, c * 2.0), &x.sum(..), x).1;
    close(
        &linear_transpose(summed, &x()).call(&x()),
        &vjp(summed, &x()).1.call(&x()),
    );
}

#[test]
fn functions_that_are_not_linear_are_refused() {
    let refused = |f: fn(&Tensor) -> Result<Tensor>| linear_transpose(f, &x()).unwrap_err();
    let texts = [
        refused(|x| Ok(x * x)),
        refused(|x| Ok(x.sin())),
        refused(|x| Ok(x.floor())),
        refused(|x| Ok(x.gt(0.0).select(x, 0.0))),
        refused(|x| Ok(x.gt(0.0).cast(DType::F64))),
    ];
    let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    `linear_transpose`: the function is not linear in its argument, because of `mul`
    `linear_transpose`: the function is not linear in its argument, because of `sin`
    `linear_transpose`: the function is not linear in its argument, because of `floor`
    `linear_transpose`: the function is not linear in its argument, because of `gt`
    `linear_transpose`: the function is not linear in its argument, because of `gt`
    ");
}

#[test]
fn linear_branches_are_transposed() {
    let choose = |p: bool| {
        move |x: &Tensor| {
            let condition = Tensor::from(p);
            cond(&condition, |x: &Tensor| x * 3.0, |x: &Tensor| x.clone(), x)
        }
    };
    let ct = Tensor::from([1.0f64, 2.0, 3.0]);
    close(
        &linear_transpose(choose(true), &x()).call(&ct),
        &(&ct * 3.0),
    );
    close(&linear_transpose(choose(false), &x()).call(&ct), &ct);
    let squares = |x: &Tensor| -> Result<Tensor> {
        let condition = Tensor::from(true);
        Ok(cond(
            &condition,
            |x: &Tensor| x * x,
            |x: &Tensor| x.clone(),
            x,
        ))
    };
    let error = linear_transpose(squares, &x()).unwrap_err();
    insta::assert_snapshot!(error, @"`linear_transpose`: the function is not linear in its argument, because of `switch`");
}

#[test]
fn a_tangent_that_does_not_fit_is_refused() {
    let (_, map) = linearize(|x: &Tensor| x.sin(), &x());
    let error = map.try_call(&Tensor::from([1.0f64])).unwrap_err();
    insta::assert_snapshot!(error, @"the tangent of `argument` is f64[1], expected f64[3]");
}

#[traced]
fn newton(x: &Tensor) -> Tensor {
    let (y, df) = linearize(|x: &Tensor| x * x - 2.0, x);
    let ct = linear_transpose(|dx: &Tensor| dx * 3.0, x).call(x);
    x - y / df.call(&x.ones_like()) + ct * 0.0
}

#[test]
fn traced_functions_linearise_closures() {
    let f = |x: &Tensor| x - (x * x - 2.0) / (2.0 * x);
    for _ in 0..2 {
        close(&newton(&x()), &f(&x()));
        let (_, pullback) = newton::vjp(&x());
        close(&pullback(&x()), &vjp(f, &x()).1.call(&x()));
    }
    assert_eq!(newton::RECORDED, None);
}
