//! More derivatives of derivatives, and rules that the user wrote.

use gradloom::{
    Tensor, Vmap, checkpoint, custom_jvp, custom_vjp, fori_loop, grad, hessian, hvp, jacfwd,
    jacrev, linear_transpose, linearize, value_and_grad, vjp, vmap,
};

crate::goldens! {
    a_custom_jvp(x) -> Tensor {
        let s = custom_jvp(
            |x: &Tensor| x.exp().log1p(),
            |x: &Tensor, _: &Tensor, dx: &Tensor| 2.0 * dx * x,
        );
        s(x) * x
    }
    a_custom_vjp(x) -> Tensor {
        let clip = custom_vjp(
            |x: &Tensor| x.clone(),
            |x: &Tensor| (x.clone(), ()),
            |(): &(), ct: &Tensor| ct.clamp(-0.1, 0.1),
        );
        clip(&(x * x))
    }
    a_gradient_reversal(x) -> Tensor {
        let reversed = custom_vjp(
            |x: &Tensor| x.clone(),
            |x: &Tensor| (x.clone(), ()),
            |(): &(), ct: &Tensor| -2.0 * ct,
        );
        reversed(x).sin()
    }
    a_stop_gradient_norm(x) -> Tensor { x / x.norm(..).stop_gradient() }
    a_int_arg_through(x, #[nodiff] n) -> Tensor {
        let n = n.cast(x.dtype());
        x * &n + x.gt(0.0).cast(x.dtype()) * &n
    }
    a_shared_diamond(x) -> Tensor {
        let a = x.sin();
        let b = &a * &a;
        let c = &a + &b;
        b * &c + a / (1.0 + &c * &c)
    }
    a_two_outputs_one_unused(x) -> (Tensor, Tensor) { (x.exp(), x.floor()) }
    a_implicit_fixed_point(a, b) -> Tensor {
        let x = fori_loop(0..60, |_: &Tensor, x: &Tensor| 0.5 * (a * x).cos() + b, b).stop_gradient();
        let g = 0.5 * (a * &x).cos() + b;
        let d = 1.0 + 0.5 * a * (a * &x).sin();
        &x + (g - &x) / d.stop_gradient()
    }
    a_checkpoint_nested(x, w) -> Tensor {
        let inner = checkpoint(|y: &Tensor| y.matmul(w).sin());
        checkpoint(|x: &Tensor| inner(x).matmul(w).tanh())(x)
    }
    @plain {
        a_hessian(x) { hessian(|v: &Tensor| v.pow(3).sum(..) + v.i(0) * v.i(1))(x) }
        a_jacfwd(x) { jacfwd(|v: &Tensor| Tensor::stack(&[v.i(0) * v.i(1), v.i(2).exp()], 0))(x) }
        a_vjp_inside(x, c) {
            let (y, pullback) = vjp(|v: &Tensor| v.sin() * v, x);
            pullback.call(c) + y
        }
        a_hvp_inside(x, t) { hvp(|v: &Tensor| v.pow(4).sum(..), x, t) }
        a_value_and_grad(w, x) -> (Tensor, Tensor) {
            value_and_grad(|w: &Tensor| x.matmul(w).tanh().sum(..))(w)
        }
        a_nested_vmap(x, y) { vmap(|a: &Tensor| vmap(|b: &Tensor| (a * b).sum(..))(y))(x) }
        a_vmap_matmul_axes(a, b) {
            let dot = |(a, b): &(Tensor, Tensor)| a.matmul(b);
            Vmap::new(dot).in_axes((2, 0)).out_axes(-1).call(&(a.clone(), b.clone()))
        }
        a_linearize(x, t) {
            let (y, g) = linearize(|v: &Tensor| v.exp() * v, x);
            g.call(t) + g.call(&(2.0 * t)) + y
        }
        a_linear_transpose(w, c) { linear_transpose(|v: &Tensor| v.cumsum(0) * 2.0, w).call(c) }
        a_laplacian(x) { hessian(|v: &Tensor| (v.sin() * v.flip(0)).sum(..))(x).trace() }
        a_jac_batched(x) {
            vmap(jacrev(|v: &Tensor| Tensor::stack(&[v.i(0) * v.i(1), v.i(1).square()], 0)))(x)
        }
        a_grad_wrt_two(x, y) -> (Tensor, Tensor) {
            grad(|(x, y): &(Tensor, Tensor)| (x * y.exp()).sum(..))(&(x.clone(), y.clone()))
        }
        a_meta_step(w, lr, x) {
            let l = |w: &Tensor| (x.matmul(w) - 1.0).square().sum(..);
            l(&(w - lr * grad(l)(w)))
        }
    }
}
