//! Each warning of the macro is justified, and its advice helps.
#![allow(deprecated)] // these functions trigger warnings on purpose

use gradloom::prelude::*;

/// Checks the gradient at points where the first operand of `select` is not taken: it is NaN, and
/// zero with the advised form.
macro_rules! nan_without_the_safe_form {
    ($($name:ident: |$x:ident| $f:expr;)*) => {$(
        #[test]
        fn $name() {
            #[traced]
            fn warned($x: &Tensor, c: &Tensor, y: &Tensor) -> Tensor { c.gt(0.0).select(&$f, y).sum(..) }

            #[traced]
            fn advised(x: &Tensor, c: &Tensor, y: &Tensor) -> Tensor {
                let c = c.gt(0.0);
                let $x = c.select(x, &x.ones_like());
                c.select(&$f, y).sum(..)
            }

            for at in [0.0, 1e300] {
                let x = Tensor::from_vec(vec![at, 2.0], [2]);
                let c = Tensor::from_vec(vec![0.0, 1.0], [2]);
                let [warned, advised] = [warned::grad(&x, &c, &x).x, advised::grad(&x, &c, &x).x];
                let [warned, advised] = [warned, advised].map(|g| g.to_vec::<f64>());
                assert_eq!(warned[1], advised[1]);
                assert_eq!(advised[0], 0.0);
                if warned[0].is_nan() {
                    return;
                }
            }
            panic!("no gradient is NaN");
        }
    )*};
}

nan_without_the_safe_form! {
    the_gradient_of_a_logarithm_behind_select: |x| x.log();
    the_gradient_of_a_root_behind_select: |x| x.sqrt();
    the_gradient_of_a_reciprocal_root_behind_select: |x| x.rsqrt();
    the_gradient_of_a_reciprocal_behind_select: |x| x.reciprocal();
    the_gradient_of_a_quotient_behind_select: |x| 1.0 / x;
    the_gradient_of_an_exponential_behind_select: |x| x.exp();
    the_gradient_of_expm1_behind_select: |x| x.expm1();
    the_gradient_of_a_power_behind_select: |x| x.pow(0.5);
}

#[test]
fn recomputing_a_value_reduces_residuals() {
    #[traced(allow(large_residual))]
    fn kept(#[shape(N, 1)] x: &Tensor) -> Tensor {
        let waves = (x * Tensor::arange(1000, DType::F64)).tanh();
        (&waves * &waves).sum(..)
    }
    #[traced]
    fn again(#[shape(N, 1)] x: &Tensor) -> Tensor {
        #[recompute]
        let waves = (x * Tensor::arange(1000, DType::F64)).tanh();
        (&waves * &waves).sum(..)
    }
    let x = Tensor::from_vec(vec![0.25, 0.5], [2, 1]);
    let ((_, large), (_, small)) = (kept::saved(&x), again::saved(&x));
    assert!(
        small.bytes() < large.bytes(),
        "{} {}",
        small.bytes(),
        large.bytes()
    );
    assert_eq!(
        kept::grad(&x).x.to_vec::<f64>(),
        again::grad(&x).x.to_vec::<f64>()
    );
}
