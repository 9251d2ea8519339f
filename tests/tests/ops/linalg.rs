//! Linear algebra: factors of larger matrices and batches, singular matrices, and traced functions.

use gradloom::prelude::*;
use gradloom_tests::noise;

/// Returns the largest magnitude of the elements.
fn largest(x: &Tensor) -> f64 {
    match x.numel() {
        0 => 0.0,
        _ => x.cast(DType::F64).abs().max(..).item::<f64>(),
    }
}

fn assert_near(x: &Tensor, y: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(x.shape(), y.shape(), "{what}");
    let error = largest(&(x - y));
    assert!(error <= tolerance, "{what}: {error}");
}

/// Returns matrices with elements from -1 to 1 and `by` added to the diagonals.
fn matrices(shape: &[usize], by: f64, dtype: DType) -> Tensor {
    let x = noise(shape, 7);
    let ones = Tensor::ones(shape, DType::F64);
    (x + ones.tril(0).triu(0) * by).cast(dtype)
}

#[test]
fn products_of_the_factors_are_the_matrices() {
    for (dtype, tolerance) in [(DType::F32, 2e-4), (DType::F64, 1e-11)] {
        for shape in [
            &[1, 1][..],
            &[5, 5],
            &[40, 40],
            &[3, 2, 6, 6],
            &[131, 131],
            &[0, 0],
            &[2, 0, 3, 3],
        ] {
            let n = shape[shape.len() - 1];
            let what = format!("{dtype}{shape:?}");
            let x = matrices(shape, n as f64, dtype);
            let one = Tensor::eye(n as i64, dtype).broadcast_to(shape);
            let t = |x: &Tensor| x.swap_axes(-1, -2);
            let symmetric = (&x + t(&x)) / 2.0;

            let l = symmetric.cholesky();
            assert_near(
                &l.matmul(t(&l)),
                &symmetric,
                tolerance * n.max(1) as f64,
                &what,
            );
            assert_near(&l, &l.tril(0), 0.0, &what);

            assert_near(&x.matmul(x.inv()), &one, tolerance, &what);
            assert_near(
                &x.matmul(x.solve(&symmetric)),
                &symmetric,
                tolerance * n.max(1) as f64,
                &what,
            );
            let right = x.solve_lower(&symmetric);
            assert_near(
                &x.tril(0).matmul(right),
                &symmetric,
                tolerance * n.max(1) as f64,
                &what,
            );

            let (q, r) = x.qr();
            assert_near(&q.matmul(&r), &x, tolerance * n.max(1) as f64, &what);
            assert_near(&t(&q).matmul(&q), &one, tolerance, &what);
            assert_near(&r, &r.triu(0), 0.0, &what);

            let (w, v) = symmetric.eigh();
            assert_near(
                &v.matmul(w.diag(0)).matmul(t(&v)),
                &symmetric,
                tolerance * n.max(1) as f64,
                &what,
            );
            assert_near(&w.sort(-1), &w, 0.0, &what);

            let (u, s, vt) = x.svd();
            assert_near(
                &u.matmul(s.diag(0)).matmul(&vt),
                &x,
                tolerance * n.max(1) as f64,
                &what,
            );
            assert_near(&s.sort_descending(-1), &s, 0.0, &what);

            let (sign, log) = x.slogdet();
            assert_near(&s.log().sum(-1), &log, tolerance * n.max(1) as f64, &what);
            if n <= 6 {
                assert_near(
                    &(sign * log.exp() / x.det()),
                    &Tensor::ones(&shape[..shape.len() - 2], dtype),
                    tolerance,
                    &what,
                );
            }
        }
    }
}

#[test]
fn matrices_that_are_not_square_have_thin_factors() {
    let x = matrices(&[2, 5, 3], 3.0, DType::F64);
    let (q, r) = x.qr();
    assert_eq!((q.shape(), r.shape()), (&[2, 5, 3][..], &[2, 3, 3][..]));
    assert_near(&q.matmul(&r), &x, 1e-12, "qr");
    let wide = x.swap_axes(-1, -2);
    let (q, r) = wide.qr();
    assert_eq!((q.shape(), r.shape()), (&[2, 3, 3][..], &[2, 3, 5][..]));
    assert_near(&q.matmul(&r), &wide, 1e-12, "qr of wide matrices");
    assert_near(&r, &r.triu(0), 0.0, "r of wide matrices");
    for x in [x.clone(), x.swap_axes(-1, -2)] {
        let (u, s, vt) = x.svd();
        assert_eq!(s.shape(), [2, 3]);
        assert_near(&u.matmul(s.diag(0)).matmul(&vt), &x, 1e-12, "svd");
    }
}

/// These are the results of LAPACK.
#[test]
fn the_signs_of_qr_are_those_of_lapack() {
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let (_, r) = x.qr();
    let expected = [
        -3.1622776601683795,
        -4.427188724235731,
        0.0,
        -0.6324555320336759,
    ];
    assert_near(&r, &Tensor::from(expected).reshape([2, 2]), 1e-14, "r");
    // A column that is zero below the diagonal is not reflected.
    let upper = Tensor::from([[-2.0f64, 1.0], [0.0, 3.0]]);
    assert_near(&upper.qr().1, &upper, 1e-14, "r of a triangle");
}

#[test]
fn singular_matrices_have_no_finite_solution() {
    let singular = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]);
    let finite = |x: &Tensor| x.to_vec::<f64>().iter().any(|x| x.is_finite());
    assert!(!finite(&singular.inv()));
    assert!(!finite(&singular.solve(Tensor::from([1.0f64, 1.0]))));
    assert_eq!(singular.det().item::<f64>(), 0.0);
    let (sign, log) = singular.slogdet();
    assert_eq!(
        (sign.item::<f64>(), log.item::<f64>()),
        (0.0, f64::NEG_INFINITY)
    );

    let indefinite = Tensor::from([[1.0f64, 2.0], [2.0, 1.0]])
        .cholesky()
        .to_vec::<f64>();
    assert!(indefinite[0].is_nan() && indefinite[2].is_nan() && indefinite[1] == 0.0);

    let nan = Tensor::from([[1.0f64, f64::NAN], [2.0, 4.0]]);
    let (w, v) = nan.eigh();
    let (u, s, vt) = nan.svd();
    for x in [w, v, u, s, vt] {
        assert!(x.to_vec::<f64>().iter().all(|x| x.is_nan()));
    }
}

#[test]
fn the_gradient_of_the_determinant_of_a_singular_matrix_has_the_cofactors() {
    let slopes = |x: &Tensor| grad(|x: &Tensor| x.det().sum(..))(x);
    let x = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]);
    let expected = Tensor::from([[4.0f64, -2.0], [-2.0, 1.0]]);
    assert_near(&slopes(&x), &expected, 1e-14, "rank 1 of 2");
    let x = Tensor::from([[1.0f64, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]);
    let expected = Tensor::from([[4.0f64, 4.0, -4.0], [-2.0, -2.0, 2.0], [0.0, 0.0, 0.0]]);
    assert_near(&slopes(&x), &expected, 1e-13, "rank 2 of 3");
    let zeros = Tensor::zeros([3, 3], DType::F64);
    assert_near(&slopes(&zeros), &zeros, 0.0, "rank 0 of 3");
    assert_eq!(
        slopes(&Tensor::zeros([1, 1], DType::F64)).to_vec::<f64>(),
        [1.0]
    );
    // A batch, beside a regular matrix.
    let both = Tensor::stack(&[&zeros, &Tensor::eye(3, DType::F64)], 0);
    assert_near(&slopes(&both), &both, 1e-15, "a batch");
    // A matrix that is factorised by blocks: the last row repeats the first.
    let x = noise(&[20, 20], 4);
    let x = x.set(-1, x.row(0));
    let slopes = slopes(&x);
    let moved = |i: usize, j: usize| {
        let element = x.i((i, j)) + 1.0;
        x.set((i, j), &element).det().item::<f64>()
    };
    for (i, j) in [(0, 0), (19, 3), (7, 7)] {
        let (found, expected) = (slopes.i((i, j)).item::<f64>(), moved(i, j));
        let size = slopes.abs().max(..).item::<f64>();
        assert!(
            (found - expected).abs() <= 1e-11 * size,
            "{found} {expected}"
        );
    }
    assert!(slopes.to_vec::<f64>().iter().any(|x| x.abs() > 1e-6));
}

/// Neither the determinant nor a product of some pivots has to be a number that a float holds.
#[test]
fn cofactors_are_finite_where_the_determinant_overflows_or_underflows() {
    let slopes = |x: &Tensor| grad(|x: &Tensor| x.det().sum(..))(x).to_vec::<f64>();
    for n in [3, 20] {
        for (scale, rest) in [(1e200, 1e-250), (1e-200, 1e250), (1e-170, 1e20)] {
            // The block [[2, 1], [1, 1]] times the scale, and a diagonal of `rest` and ones.
            let mut x = vec![0.0; n * n];
            (0..n).for_each(|i| x[i * n + i] = 1.0);
            (x[0], x[1], x[n], x[n + 1]) = (2.0 * scale, scale, scale, scale);
            x[2 * n + 2] = rest;
            let found = slopes(&Tensor::from(x).reshape([n, n]));
            let near = |i: usize, want: f64| {
                let wrong = (found[i] - want).abs() > 1e-12 * want.abs();
                assert!(!wrong, "{n} {scale:e}, {i}: {} {want}", found[i]);
            };
            near(0, scale * rest);
            near(1, -scale * rest);
            near(n, -scale * rest);
            near(n + 1, 2.0 * scale * rest);
            assert!(found[2 * n + 2] == scale * scale);
            // Other cofactors are products with a zero.
            assert!(found[2] == 0.0 && found[n + 2] == 0.0 && found[2 * n] == 0.0);
        }
    }
    // The determinant of the first two is subnormal; that of the third is 1, and a part of its product is subnormal.
    for diagonal in [
        [1e-22f32, 1e-22, 1.0, 1.0],
        [2e-20, 2e-20, 1.0, 1.0],
        [1e-22, 1e-22, 1e22, 1e22],
    ] {
        let x = Tensor::from(diagonal).diag(0);
        let (det, slopes) = value_and_grad(|x: &Tensor| x.det().sum(..))(&x);
        let product = |skip: usize| {
            let others = (0..4).filter(|i| *i != skip);
            others.map(|i| f64::from(diagonal[i])).product::<f64>()
        };
        let close = |found: f32, want: f64| {
            let wrong = (f64::from(found) - want).abs() > 3e-7 * want + 1e-45;
            assert!(!wrong, "{diagonal:?}: {found} {want}");
        };
        close(det.item(), product(4));
        (0..4).for_each(|i| close(slopes.i((i, i)).item(), product(i)));
    }
    // Singular matrices whose squares a float cannot hold.
    for scale in [1e20f32, 1e-25, 1e37, 1e-40] {
        let x = Tensor::from([[scale, scale], [scale, scale]]);
        let found = grad(|x: &Tensor| x.det().sum(..))(&x).to_vec::<f32>();
        for (found, sign) in found.iter().zip([1.0, -1.0, -1.0, 1.0]) {
            // Subnormal numbers are 1.4e-45 apart.
            let close = (found / scale - sign).abs() < 1e-6f32.max(2e-45 / scale);
            assert!(close, "{scale}: {found}");
        }
    }
}

/// A factorisation of a scaled matrix is the scaled factorisation, also where squares of elements overflow or underflow.
#[test]
fn factorisations_do_not_depend_on_the_scale_of_the_matrix() {
    type Factors = fn(&Tensor) -> Vec<Tensor>;
    // The results, and for each the power of the scale of the matrix by which it is multiplied.
    let cases: [(&str, Factors, &[i32]); 6] = [
        (
            "svd",
            |x| {
                let (u, s, vt) = x.svd();
                vec![u, s, vt]
            },
            &[0, 1, 0],
        ),
        (
            "eigh",
            |x| {
                let (w, v) = x.eigh();
                vec![w, v]
            },
            &[1, 0],
        ),
        (
            "qr",
            |x| {
                let (q, r) = x.qr();
                vec![q, r]
            },
            &[0, 1],
        ),
        ("inv", |x| vec![x.inv()], &[-1]),
        ("pinv", |x| vec![x.pinv(1e-4)], &[-1]),
        ("solve", |x| vec![x.solve(x.transpose())], &[0]),
    ];
    // The derivative of `pinv` has products of two elements of the result.
    for (dtype, exponents, most_pinv, near) in [
        (DType::F32, [-100, -55, 55, 100], 55, 2e-4),
        (DType::F64, [-900, -550, 550, 900], 500, 1e-10),
    ] {
        for n in [4, 20] {
            let x = matrices(&[n, n], 3.0, dtype);
            let times = |x: &Tensor, k: i32| {
                // The power of two may be too large or too small for one factor.
                let half = k / 2;
                let power = |k: i32| Tensor::from(f64::exp2(f64::from(k))).cast(dtype);
                x * power(half) * power(k - half)
            };
            for (name, factors, degrees) in cases {
                let of = |x: &Tensor, k: i32| -> Vec<Tensor> {
                    let factors = factors(x);
                    let pairs = factors.iter().zip(degrees);
                    pairs.map(|(y, degree)| times(y, -k * degree)).collect()
                };
                let loss = |x: &Tensor, k: i32| {
                    let weighted = of(x, k).into_iter().enumerate().map(|(i, y)| {
                        let weights = noise(y.shape(), 7 + i as u64).cast(dtype);
                        (y * weights).sum(..)
                    });
                    weighted.reduce(|x, y| x + y).expect("a result")
                };
                let want = (of(&x, 0), grad(|x: &Tensor| loss(x, 0))(&x));
                for k in exponents {
                    let scaled = times(&x, k);
                    let what = format!("{name} of {n} rows of {dtype} times 2^{k}");
                    for (found, want) in of(&scaled, k).iter().zip(&want.0) {
                        assert_near(found, want, near, &what);
                    }
                    if name != "pinv" || k.abs() <= most_pinv {
                        let slopes = grad(|x: &Tensor| loss(x, k))(&scaled);
                        let size = want.1.abs().max(..).cast(DType::F64).item::<f64>();
                        assert_near(&times(&slopes, k), &want.1, near * size, &what);
                    }
                }
            }
        }
    }
}

/// A loss on all factors, whatever their signs.
#[traced]
fn loss(x: &Tensor, b: &Tensor) -> Tensor {
    let (q, r) = x.qr();
    let (w, _v) = x.eigh();
    let (_u, s, _vt) = x.svd();
    let (_sign, log) = x.slogdet();
    let square = x.matmul(x.transpose()).cholesky();
    let solved = x.solve(b) + x.solve_lower(b) + x.inv().matmul(b);
    (q * r).abs().sum(..)
        + w.square().sum(..)
        + s.sqrt().sum(..)
        + log
        + square.sum(..)
        + solved.sum(..)
        + x.det()
}

#[test]
fn a_traced_function_has_the_derivatives_of_the_closure() {
    let (x, b) = (matrices(&[4, 4], 5.0, DType::F64), noise(&[4, 2], 3));
    let (y, pullback) = loss::vjp(&x, &b);
    let (gx, gb) = pullback(&Tensor::from(1.0f64));
    let args = (x, b);
    let (expected, pullback) = vjp(|(x, b): &(Tensor, Tensor)| loss(x, b), &args);
    let (ex, eb) = pullback.call(&Tensor::from(1.0f64));
    assert_near(&y, &expected, 1e-12, "value");
    assert_near(&gx, &ex, 1e-10, "x");
    assert_near(&gb, &eb, 1e-10, "b");
}

#[test]
fn lanes_solve_their_own_systems() {
    let (x, b) = (matrices(&[3, 4, 4], 5.0, DType::F64), noise(&[3, 4], 3));
    let lanes = vmap(|(x, b): &(Tensor, Tensor)| x.solve(b))(&(x.clone(), b.clone()));
    assert_near(
        &lanes,
        &x.solve(b.unsqueeze(-1)).squeeze(-1),
        1e-14,
        "lanes",
    );
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let x = |shape: &[usize]| Tensor::ones(shape, DType::F32);
    let error = |f: &dyn Fn() -> Tensor| {
        let fallible = |_: &Tensor| -> Result<Tensor> { Ok(f()) };
        vjp(fallible, &Tensor::scalar(0.0f32))
            .expect_err("it does not fit")
            .to_string()
    };
    assert_eq!(
        error(&|| x(&[2, 3]).inv()),
        "inv: the number of columns is 3, expected 2, the number of rows: the operand is f32[2, 3]"
    );
    assert_eq!(
        error(&|| x(&[2, 2]).solve(x(&[3]))),
        "solve: the number of rows on the right is 3, expected 2, that of the matrices: \
         the left operand is f32[2, 2], the right operand is f32[3]"
    );
    assert!(error(&|| x(&[2, 2]).cast(DType::I64).det()).contains("expected a float"));
    assert!(error(&|| x(&[3, 2, 2]).solve(x(&[2]))).contains("at least 3 on the right"));
}
