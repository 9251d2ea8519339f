use super::{Count, Kernel, Linear, Operands, concat, shape};
use crate::{Fault, Shape, Var};

/// `concat_part[axis, index] y, like x1, ..`: the transpose of `concat` in operand `index`.
///
/// It is the part of `y` at the position of that operand.
pub(super) static OP: Linear = Linear {
    name: "concat_part",
    operands: Operands::OneManyLike,
    statics: &["axis", "index"],
    shape: |statics, args| {
        let join = |rank| concat::join(&statics[0], rank);
        let whole = concat::joined(&args[1..], join)?;
        shape::check_size(&whole)?;
        shape::same(&whole, &args[0].shape)?;
        let Some(index) = shape::int(&statics[1], "index")? else {
            return Ok(Shape::UNKNOWN);
        };
        let part = usize::try_from(index).ok().and_then(|i| args[1..].get(i));
        let part = part.ok_or_else(|| Fault::Static {
            name: "index",
            found: index.to_string(),
        })?;
        Ok(part.shape.clone())
    },
    dtype: |_, args| shape::same_dtypes(args),
    methods: &[],
    // The cotangent at the position of the operand, zeros elsewhere.
    transpose: |b, eqn, ct| {
        let index = b
            .static_of(eqn.attrs[1])
            .int()
            .and_then(|i| usize::try_from(i).ok());
        let parts: Vec<Option<Var>> = (0..eqn.likes().len())
            .map(|i| Some(ct).filter(|_| index == Some(i)))
            .collect();
        concat::fill(b, eqn.attrs[0], &parts, eqn.likes())
    },
    kernel: Kernel::ConcatPart,
    count: Count::View,
    samples: &[
        "(z: f64[2, 4], x: f64[2, 3], y: f64[2, 1]) { p = concat_part[axis=1, index=1] z, like x, like y return p }",
        "(z: f64[2], x: f64[2], y: f64[0]) { p = concat_part[axis=-1, index=1] z, like x, like y return p }",
    ],
};
