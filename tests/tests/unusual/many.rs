#![deny(warnings)]

use gradloom::prelude::*;

macro_rules! of_four {
    ($name:ident, $x:ident, $step:ident) => {
        #[traced]
        fn $name($x: &Tensor) -> Tensor {
            let h = $x.$step();
            h.$step() * $x
        }
    };
}

of_four!(sines, x, sin);
of_four!(exponentials, y, exp);

/// A function with as many parameters as it likes.
#[traced]
fn sixteen(
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    d: &Tensor,
    e: &Tensor,
    f: &Tensor,
    g: &Tensor,
    h: &Tensor,
    i: &Tensor,
    j: &Tensor,
    k: &Tensor,
    l: &Tensor,
    m: &Tensor,
    n: &Tensor,
    o: &Tensor,
    p: &Tensor,
) -> Tensor {
    a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p
}

#[test]
fn runs() {
    let x = &Tensor::scalar(0.5f32);
    sines::grad(x);
    exponentials::grad(x);
    let (y, pullback) = sixteen::vjp(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
    assert_eq!(y.item::<f32>(), 8.0);
    assert_eq!(pullback(x).15.item::<f32>(), 0.5);
    let xs = (x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
    let (_, dy) = sixteen::jvp(xs, xs);
    assert_eq!(dy.item::<f32>(), 8.0);
}
