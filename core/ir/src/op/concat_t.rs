use super::class::linear_tangents;
use super::nd_array::{Application, NdArray};
use super::split;
use super::{
    Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, axes, concat, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, StaticKind, Var};

/// `x1, .. = concat_t[axis] y, like x1, ..`: the transpose of `concat`.
///
/// Each result is the part of `y` at the position of that operand. One equation makes all of them,
/// so the derivative of `concat` is linear in the number of operands.
pub(super) static OP: ConcatT = ConcatT;

pub(super) struct ConcatT;

impl OpDef for ConcatT {
    fn name(&self) -> &'static str {
        "concat_t"
    }
    fn operands(&self) -> Operands {
        Operands::OneManyLike
    }
    fn statics(&self) -> &'static [StaticArg] {
        const { &[StaticKind::Axis.named("axis")] }
    }
    fn shape(
        &self,
        statics: &[Static],
        args: &[&Aval],
        n_outs: usize,
    ) -> Result<Vec<Shape>, Fault> {
        let parts = &args[1..];
        if n_outs != parts.len() {
            return Err(Fault::Length {
                what: "the number of results".into(),
                found: n_outs.to_string(),
                expected: format!("{}, the number of like operands", parts.len()),
            });
        }
        let whole = concat::joined(parts, |rank| concat::join(&statics[0], rank))?;
        shape::check_size(&whole)?;
        shape::same(&whole, &args[0].shape)?;
        Ok(parts.iter().map(|part| part.shape.clone()).collect())
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dx1, .. = concat_t(dy)
        linear_tangents(b, eqn, dx[0])
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        vec![Some(concat::fill(b, eqn.attrs[0], cts, eqn.likes()))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::ConcatT)
    }
    fn count(&self) -> Count {
        Count::View
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::view(axes::ALONG) }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(z: f64[2, 4], x: f64[2, 3], y: f64[2, 1]) { p, q = concat_t[axis=1] z, like x, like y return p, q }",
                "(z: f64[2], x: f64[2], y: f64[0]) { p, q = concat_t[axis=-1] z, like x, like y return q }",
                "(z: f64[3], x: f64[1], y: f64[2]) { p, q = concat_t[axis=0] z, like x, like y return q }",
                "(z: f64[2, 3]) { p = concat_t[axis=0] z, like z return p }",
            ],
        )
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Vec<NdArray> {
    split::parts(of, of.axis(0, of.rank()))
}
