#![deny(warnings)]

use gradloom::prelude::*;

/// Names of the user's that the expansion might have had for itself.
#[traced]
fn f(tape: &Tensor, ct_h: &Tensor, private: &Tensor) -> Tensor {
    let h = tape * ct_h;
    let ct = h.tanh();
    let dh = ct.sin() * private;
    let ct_ct = dh.exp();
    let saved = ct_ct.square();
    let residuals = saved + ct;
    let y = residuals.cos();
    let ct_y = y * 2.0;
    ct_y
}

#[traced]
fn of_raw_names(r#type: &Tensor, r#fn: &Tensor) -> Tensor {
    let r#match = r#type * r#fn;
    r#match.tanh()
}

#[traced]
fn of_letters(größe: &Tensor, v0: &Tensor, v1: &Tensor) -> Tensor {
    let __v2 = größe * v0;
    let v3 = __v2 * v1;
    v3.tanh()
}

#[traced]
fn shadows(x: &Tensor) -> Tensor {
    let x = x.sin();
    let x = x.exp();
    let y = {
        let x = x.cos();
        x.tanh()
    };
    x * y
}

fn f_vjp() -> u8 {
    1
}

fn f_jvp() -> u8 {
    2
}

#[test]
fn runs() {
    let x = &Tensor::scalar(0.5f32);
    assert_eq!(f_vjp() + f_jvp(), 3);
    f::grad(x, x, x);
    f::jvp((x, x, x), (x, x, x));
    of_raw_names::grad(x, x);
    of_raw_names::jvp((x, x), (x, x));
    of_letters::grad(x, x, x);
    of_letters::jvp((x, x, x), (x, x, x));
    let expected = 0.5f64.sin().exp() * 0.5f64.sin().exp().cos().tanh();
    let found = shadows(x).item::<f32>() as f64;
    assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
    shadows::grad(x);
}
