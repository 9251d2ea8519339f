use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, Operands, shape};

/// `one_hot_like labels, like x`: `one_hot` with the shape and the dtype of `x`, where the labels have the shape of
/// `x` without its last axis.
///
/// It is a part of the derivative of `cross_entropy`, and like that it fails on a label that is no class.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "one_hot_like",
    operands: Operands::Fixed(1, 1),
    statics: &[],
    shape: |_, args| shape::labelled(&args[1].shape, &args[0].shape),
    dtype: |_, args| {
        shape::integer(args[0].dtype, "an integer")?;
        Ok(args[1].dtype)
    },
    methods: &[],
    rule: NonlinearRule::Zero("labels have no derivative"),
    kernel: Kernel::OneHotLike,
    count: Count::Copy,
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(labels: i64[2], x: f64[2, 3]) { y = one_hot_like labels, like x return y }",
            "(labels: i32[], x: f64[3]) { y = one_hot_like labels, like x return y }",
            "(labels: i64[2, 0], x: f64[2, 0, 3]) { y = one_hot_like labels, like x return y }",
        ],
    ),
};
