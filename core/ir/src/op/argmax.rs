use super::{Kernel, Laws, Method, Nonlinear, NonlinearRule, Operands, Param, shape};
use crate::DType;

/// `argmax[axis, keepdims] x`: the index of the largest element along `axis`, as `i64`; the first of equal ones, and
/// the first NaN where there is one.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "argmax",
    operands: Operands::Fixed(1, 0),
    statics: &["axis", "keepdims"],
    shape: |statics, args| {
        shape::int(&statics[0], "axis")?;
        shape::extremum(&args[0].shape, &statics[0], &statics[1])
    },
    dtype: |_, args| {
        shape::number(args[0].dtype, true)?;
        Ok(Some(DType::I64))
    },
    methods: &[
        Method::on_tensor(
            "argmax",
            &[Param::Data, Param::Static, Param::Switch(false)],
        ),
        Method::on_tensor(
            "argmax_keepdims",
            &[Param::Data, Param::Static, Param::Switch(true)],
        ),
    ],
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::Argmax,
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = argmax[axis=1, keepdims=false] x return y }",
            "(x: f64[2, 3]) { y = argmax[axis=-2, keepdims=true] x return y }",
            "(x: i64[4]) { y = argmax[axis=0, keepdims=false] x return y }",
            "(x: f64[0, 3]) { y = argmax[axis=1, keepdims=false] x return y }",
        ],
    ),
};
