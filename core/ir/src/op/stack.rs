use super::concat::{Join, joined};
use super::nd_array::{Application, NdArray};
use super::{
    Count, Diff, Eval, Kernel, Laws, Linearity, Method, OpDef, OpFacts, Operands, Param, axes,
    shape,
};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

/// `stack[axis] x1, ..`: operands of one shape, stacked along an additional axis.
///
/// The inverse is `unbind[axis]`.
pub(super) static OP: Stack = Stack;

pub(super) struct Stack;

impl OpDef for Stack {
    fn name(&self) -> &'static str {
        "stack"
    }
    fn operands(&self) -> Operands {
        Operands::Many
    }
    fn statics(&self) -> &'static [StaticArg] {
        const { &[StaticKind::Axis.named("axis")] }
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let Some(dims) = joined(args, |_| Ok(Join::Across))?.0 else {
            return Ok(vec![Shape::UNKNOWN]);
        };
        let axis = shape::known_axis(&statics[0], dims.len() + 1)?;
        let stacked = match axis.map(|axis| dims.split_at(axis)) {
            Some((before, after)) => [before, &[Dim::Known(args.len())], after].concat(),
            None => vec![Dim::Unknown; dims.len() + 1],
        };
        Ok(vec![Shape::from(stacked)])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::all_promoted(args)
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_type("stack", &[Param::List, Param::Static])]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy = stack(dx1, ..)
        let mut args = Vec::with_capacity(dx.len());
        for (d, x) in dx.iter().zip(&eqn.args) {
            args.push(d.unwrap_or_else(|| b.zeros_like(*x)));
        }
        vec![Some(b.emit(Op::Stack, &eqn.attrs, &args))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let Some(ct) = cts[0] else {
            return vec![None; linear.len()];
        };
        let parts = b.emit_many(Op::Unbind, &eqn.attrs, &[ct], linear.len());
        parts
            .into_iter()
            .zip(linear)
            .map(|(part, linear)| Some(part).filter(|_| *linear))
            .collect()
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Stack)
    }
    fn count(&self) -> Count {
        Count::Copy
    }
    fn facts(&self) -> &OpFacts {
        const {
            &OpFacts::opaque(axes::INSERTED)
                .moves()
                .linear(Linearity::From(0))
                .range(|of| of.all())
        }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3], y: f64[2, 3]) { z = stack[axis=1] x, y return z }",
                "(x: f64[], y: f64[]) { z = stack[axis=-1] x, y, x return z }",
                "(x: f64[0, 2]) { z = stack[axis=0] x return z }",
            ],
        )
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|mut i| {
        let part = i.remove(of.axis(0, of.out().len()));
        of.args[part].get(&i)
    })
}
