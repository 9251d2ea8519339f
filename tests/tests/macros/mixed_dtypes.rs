//! Companions of functions on operands of two dtypes, which the macro does not know.

use gradloom::prelude::*;

macro_rules! functions {
    ($($name:ident |$w:ident, $x:ident| $body:expr;)*) => {
        $(
            #[traced(order = 2)]
            fn $name($w: &Tensor, $x: &Tensor) -> Tensor {
                $body
            }
        )*

        #[test]
        fn gradients_have_the_dtypes_of_their_arguments() {
            use DType::*;
            for (a, b) in [(BF16, F32), (F32, BF16), (F16, F32), (BF16, F16), (BF16, F64), (F32, F32), (F16, F16)] {
                let w = Tensor::from([[1.0, 2.0], [3.0, 0.5]]).cast(a);
                let x = Tensor::from([[0.5, 1.0], [0.25, 1.5]]).cast(b);
                let (dw, dx) = (w.ones_like(), x.ones_like());
                $(
                    let what = format!("{} of {a} and {b}", stringify!($name));
                    let args = (w.clone(), x.clone());
                    let direction = (dw.clone(), dx.clone());
                    let closure = |(w, x): &(Tensor, Tensor)| $name(w, x);
                    let wide = (w.cast(F64), x.cast(F64));
                    let expected = [grad(closure)(&args), grad(closure)(&wide)];
                    let found = $name::grad(&w, &x);
                    near(&what, &(found.w, found.x), &expected);
                    let (y, pullback) = $name::vjp(&w, &x);
                    near(&what, &pullback(&y.ones_like()), &expected);
                    let (found, change) = $name::hvp((&w, &x), (&dw, &dx));
                    near(&what, &(found.w, found.x), &expected);
                    let wide_direction = (dw.cast(F64), dx.cast(F64));
                    let expected = [
                        gradloom::hvp(closure, &args, &direction),
                        gradloom::hvp(closure, &wide, &wide_direction),
                    ];
                    near(&what, &(change.w, change.x), &expected);
                    let tangent = $name::jvp((&w, &x), (&dw, &dx)).1;
                    assert_eq!(tangent.dtype(), y.dtype(), "{what}");
                )*
            }
        }
    };
}

functions! {
    multiplied |w, x| (x * w).sum(..);
    added |w, x| (x + w).square().sum(..);
    read |w, x| (x * w.row(0)).sum(..);
    product |w, x| x.matmul(w).sin().sum(..);
    largest |w, x| (x.maximum(w) * x).sum(..);
    chosen |w, x| x.gt(0.7).select(x, w).square().sum(..);
    joined |w, x| Tensor::concat(&[x, w], 0).square().sum(..);
    power |w, x| x.pow(w).sum(..);
    inside |w, x| (w.sin().exp() * x).sum(..) + (w.matmul(w) * x).sum(..);
    weights |w, x| (w.softmax(-1) * x).sum(..);
    logarithms |w, x| (w.log_softmax(0) * x + w.logsumexp(1)).sum(..);
    normal |w, x| (w.layer_norm(w.row(0), w.row(1), 1e-3) * x).sum(..);
    roots |w, x| (w.rms_norm(w.row(0), 1e-3) * x).sum(..);
    attended |w, x| {
        let rows = w.unsqueeze(0);
        (rows.attention(&rows, &rows) * x).sum(..)
    };
    convolved |w, x| {
        let image = w.unsqueeze((0, 1));
        (image.conv(&image, 1, 1, 1, 1).sum((0, 1)).row(0).sum(..) * x).sum(..)
    };
    pooled |w, x| (w.unsqueeze((0, 1)).max_pool(2, 1, 0).sum((0, 1)) * x).sum(..);
    summed |w, x| (w.cumsum(0) * x + w.cumprod(1) + w.cummax(0) * x).sum(..);
    most |w, x| (w.max(0) * x).sum(..) + (w.prod(1) * x).sum(..) + (w.var(0, 1) * x).sum(..);
    moved |w, x| (w.transpose().flip(0).pad((1, 0), (0, 1), (0, 0), 0.0).slice((1, 0), (3, 2), (1, 1)) * x).sum(..);
    matrices |w, x| (w.inv() * x).sum(..) + (w.det() * x).sum(..);
    picked |w, x| (w.take(Tensor::from([1i64, 0]), 0) * x + w.sort(0) * x).sum(..);
    squares |w, x| (w.square().mean(0) * x.square()).mean(..);
}

/// Compares cotangents with those of the closure, whose dtypes they have, and with those for `f64`. They must be as near to
/// the latter as the rounding of the dtype with the fewest bits allows, or as those of the closure.
fn near(what: &str, found: &(Tensor, Tensor), [expected, exact]: &[(Tensor, Tensor); 2]) {
    let dtypes = [expected.0.dtype(), expected.1.dtype()];
    let tolerance = match dtypes {
        _ if dtypes.contains(&DType::BF16) => 0.03,
        _ if dtypes.contains(&DType::F16) => 0.004,
        _ => 1e-6,
    };
    let pairs = [
        (&found.0, &expected.0, &exact.0),
        (&found.1, &expected.1, &exact.1),
    ];
    for (found, expected, exact) in pairs {
        assert_eq!(found.dtype(), expected.dtype(), "{what}");
        let [found, expected, exact] =
            [found, expected, exact].map(|x| x.cast(DType::F64).to_vec::<f64>());
        for ((found, expected), exact) in found.iter().zip(&expected).zip(&exact) {
            let allowed = f64::max(
                tolerance * exact.abs().max(1.0),
                2.0 * (expected - exact).abs(),
            );
            assert!(
                (found - exact).abs() <= allowed,
                "{what}: {found}, {expected} and {exact}"
            );
        }
    }
}
