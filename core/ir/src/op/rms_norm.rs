use super::layer_norm::with_vectors;
use super::{Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, Operands, Ops, Param, shape};
use crate::{DType, Op};

/// `rms_norm[eps] x, w`: `x / sqrt(mean(x^2) + eps) w` over the last axis, of which `w` has the length.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "rms_norm",
    operands: Operands::Fixed(2, 0),
    statics: &["eps"],
    shape: |statics, args| {
        shape::float(&statics[0], "eps")?;
        with_vectors(&args[0].shape, &[(args[1], "the weight")])
    },
    dtype: |_, args| {
        let dtype = args.iter().try_fold(None, |dtype: Option<DType>, arg| {
            shape::same_dtype(dtype, arg.dtype)
        });
        shape::number(dtype?, false)
    },
    methods: &[Method::on_tensor(
        "rms_norm",
        &[Param::Data, Param::Data, Param::Static],
    )],
    // With r = (mean(x^2) + eps)^(-1/2) and n = x r:
    //
    //   dr = -r^3 mean(x dx) = -r^2 mean(n dx)
    //   dy = (dx r + x dr) w + n dw = (dx - n mean(n dx)) r w + n dw
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (x, w, y, eps) = (eqn.args[0], eqn.args[1], eqn.out(), eqn.attrs[0]);
        let (last, keepdims) = (b.attr(-1), b.attr(true));
        let squares = b.unary(Op::Square, x);
        let mean = b.mean(squares, x, last, keepdims);
        let eps = b.emit(Op::Scalar, &[eps], &[x]);
        let mean = b.add(mean, eps);
        let r = b.unary(Op::Rsqrt, mean);
        let n = b.mul(x, r);
        let from_x = dx[0].map(|dx| {
            let along = b.mul(n, dx);
            let along = b.mean(along, x, last, keepdims);
            let along = b.sum_t(along, x, last, keepdims);
            let along = b.mul(n, along);
            let rest = b.sub(dx, along);
            let factor = b.mul(r, w);
            b.mul(rest, factor)
        });
        let from_w = dx[1].map(|dw| {
            let dw = b.broadcast(dw, w, y);
            b.mul(n, dw)
        });
        b.add_tangents(from_x, from_w)
    }),
    kernel: Kernel::RmsNorm,
    count: Count::Rows {
        element: Ops::new(4, 0),
        row: Ops::new(2, 1),
    },
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 4], w: f64[4]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[2, 2, 3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
            "(x: f64[0, 3], w: f64[3]) { y = rms_norm[eps=0.01] x, w return y }",
        ],
    ),
};
