use super::class::linear_tangents;
use super::nd_array::{Application, NdArray};
use super::{
    Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, Param, axes, shape,
};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

/// `x1, .. = unbind[axis] y`: the slice of `y` at each index of an axis, without that axis.
///
/// The inverse is `stack[axis]`.
pub(super) static OP: Unbind = Unbind;

pub(super) struct Unbind;

impl OpDef for Unbind {
    fn name(&self) -> &'static str {
        "unbind"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 0)
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
        let Some(dims) = args[0].shape.dims() else {
            return Ok(vec![Shape::UNKNOWN; n_outs]);
        };
        let mut rest = dims.to_vec();
        match shape::known_axis(&statics[0], dims.len())? {
            Some(axis) => {
                let found = rest.remove(axis);
                if found.differs(Dim::Known(n_outs)) {
                    return Err(Fault::Length {
                        what: format!("axis {axis}"),
                        found: found.to_string(),
                        expected: format!("{n_outs}, the number of results"),
                    });
                }
            }
            None => rest = vec![Dim::Unknown; dims.len().saturating_sub(1)],
        }
        Ok(vec![Shape::from(rest); n_outs])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        Ok(args[0].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor(
            "unbind",
            &[Param::Data, Param::Static, Param::Count],
        )]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        linear_tangents(b, eqn, dx[0])
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        // All results have the same shape, so an existing cotangent gives the shape of the missing
        // ones.
        let Some(sibling) = cts.iter().flatten().next().copied() else {
            return vec![None];
        };
        let zeros = cts.contains(&None).then(|| b.zeros_like(sibling));
        let args: Vec<Var> = cts.iter().filter_map(|ct| ct.or(zeros)).collect();
        vec![Some(b.emit(Op::Stack, &eqn.attrs, &args))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Unbind)
    }
    fn count(&self) -> Count {
        Count::View
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::view(axes::REDUCED) }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3]) { a, b, c = unbind[axis=1] x return a, b, c }",
                "(x: f64[2]) { a, b = unbind[axis=-1] x return b }",
                "(x: f64[1, 0]) { a = unbind[axis=0] x return a }",
            ],
        )
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Vec<NdArray> {
    let axis = of.axis(0, of.rank());
    let part = |(n, out): (usize, &Vec<usize>)| {
        NdArray::build(out, |mut i| {
            i.insert(axis, n);
            of.x().get(&i)
        })
    };
    of.outs.iter().enumerate().map(part).collect()
}
