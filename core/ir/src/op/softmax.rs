use super::{Count, Kernel, Laws, Method, Nonlinear, NonlinearRule, Operands, Ops, Param, shape};

/// `softmax[axis] x`: `exp(x) / sum(exp(x))` along `axis`, without overflow.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "softmax",
    operands: Operands::Fixed(1, 0),
    statics: &["axis"],
    shape: |statics, args| shape::along(&args[0].shape, &statics[0]),
    dtype: |_, args| shape::number(args[0].dtype, false),
    methods: &[Method::on_tensor("softmax", &[Param::Data, Param::Static])],
    // dy = y dx - y sum(y dx)
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, y, axis) = (dx[0]?, eqn.out(), eqn.attrs[0]);
        let keepdims = b.attr(true);
        let ydx = b.mul(y, dx);
        let total = b.sum(ydx, y, axis, keepdims);
        let total = b.sum_t(total, y, axis, keepdims);
        let shift = b.mul(y, total);
        Some(b.sub(ydx, shift))
    }),
    kernel: Kernel::Softmax,
    count: Count::Rows {
        element: Ops::new(4, 1),
        row: Ops::new(0, 0),
    },
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = softmax[axis=-1] x return y }",
            "(x: f64[3, 2, 2]) { y = softmax[axis=0] x return y }",
            "(x: f64[2, 0]) { y = softmax[axis=1] x return y }",
        ],
    ),
};
