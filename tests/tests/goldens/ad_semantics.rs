//! Derivatives of derivatives, constants, and functions that use their arguments in unusual ways.

use gradloom::{Tensor, Vmap, grad, jacrev, jvp, traced, vmap};

#[traced]
fn recomputed_block(x: &Tensor, w: &Tensor) -> Tensor {
    #[recompute]
    let h = x.matmul(w).tanh();
    #[recompute]
    let z = h.matmul(w);
    z.sin()
}

crate::goldens! {
    diamond_deep(x) {
        let mut y = x.clone();
        for _ in 0..20 {
            y = 0.5 * (&y + &y) + 0.01 * &y * &y;
        }
        y
    }
    unused_input(x, _y) { x * 2.0 }
    output_is_input(x, y) -> (Tensor, Tensor, Tensor) { (x.clone(), y.clone(), x.clone()) }
    stop_gradient(x) { x * (x * x).stop_gradient() + x.sin().stop_gradient() }
    straight_through(x) { x + (x.round() - x).stop_gradient() }
    vmap_last_axis(x) { (x * x).cumsum(0) }
    checkpoint_block(x, w) { recomputed_block(x, w) }
    zero_cotangent(x) -> (Tensor, Tensor) { (x * x, x.sin()) }
    linear_function_hvp_zero(x) { 3.0 * x - x.flip(0) + 2.0 }
    @plain {
        nested_grad_product(x) {
            vmap(|x: &Tensor| x * grad(|y: &Tensor| x * y.pow(3.0))(x))(x)
        }
        third_derivative(x) {
            vmap(grad(|t: &Tensor| grad(|t: &Tensor| grad(|t: &Tensor| t.sin() * t.pow(3.0))(t))(t)))(x)
        }
        grad_as_function(x) { grad(|v: &Tensor| (v.tanh().square() * v).sum(..))(x) }
        jacobian_full(x) {
            jacrev(|v: &Tensor| {
                let [a, b, c] = v.unbind(0);
                Tensor::stack(&[&a * &b, b.sin(), c.square() * &a], 0)
            })(x)
        }
        jvp_inside(x, t) { jvp(|v: &Tensor| v.exp() * v, x, t).1 }
        mixed_partial(x, y) {
            let of_pair = |(a, b): &(Tensor, Tensor)| {
                grad(|a: &Tensor| grad(|b: &Tensor| (a * b).sin() + a.square() * b)(b))(a)
            };
            vmap(of_pair)(&(x.clone(), y.clone()))
        }
        per_example_gradients(w, x, t) {
            let gradient = |(w, x, t): &(Tensor, Tensor, Tensor)| {
                grad(|w: &Tensor| (x.matmul(w).tanh() - t).square())(w)
            };
            let batched = Vmap::new(gradient).in_axes((None, 0, 0));
            batched.call(&(w.clone(), x.clone(), t.clone()))
        }
        vmap_in_axis1(x, y) {
            let scaled = Vmap::new(|(a, b): &(Tensor, Tensor)| a * b.sum(..));
            scaled.in_axes((1, None)).out_axes(1).call(&(x.clone(), y.clone()))
        }
    }
}
