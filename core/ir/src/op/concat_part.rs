use super::{Diff, Eval, Kernel, Laws, Method, OpDef, Operands, concat, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `concat_part[axis, index] y, like x1, ..`: the transpose of `concat` in one operand, the part of `y` where
/// operand `index` stood.
pub(super) struct ConcatPart;

impl OpDef for ConcatPart {
    fn name(&self) -> &'static str {
        "concat_part"
    }
    fn operands(&self) -> Operands {
        Operands::OneManyLike
    }
    fn statics(&self) -> &'static [&'static str] {
        &["axis", "index"]
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let Some(index) = shape::int(&statics[1], "index")? else {
            return Ok(vec![Shape::UNKNOWN]);
        };
        let part = usize::try_from(index).ok().and_then(|i| args[1..].get(i));
        let part = part.ok_or_else(|| Fault::Static { name: "index", found: index.to_string() })?;
        if let Some(dims) = part.shape.dims() {
            shape::known_axis(&statics[0], dims.len(), "axis")?;
        }
        Ok(vec![part.shape.clone()])
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
        let mut args = eqn.args.clone();
        vec![dx[0].map(|d| {
            args[0] = d;
            b.emit(Op::ConcatPart, &eqn.attrs, &args)
        })]
    }
    fn transpose(&self, b: &mut Builder, eqn: &Eqn, cts: &[Option<Var>], _: &[bool]) -> Vec<Option<Var>> {
        // The cotangent at its place, zeros elsewhere.
        let index = b.static_of(eqn.attrs[1]).int().and_then(|i| usize::try_from(i).ok());
        vec![cts[0].map(|ct| {
            let parts: Vec<Option<Var>> =
                (0..eqn.likes().len()).map(|i| Some(ct).filter(|_| index == Some(i))).collect();
            concat::fill(b, eqn.attrs[0], &parts, eqn.likes())
        })]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::ConcatPart)
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(z: f64[2, 4], x: f64[2, 3], y: f64[2, 1]) { p = concat_part[axis=1, index=1] z, like x, like y return p }",
                "(z: f64[2], x: f64[2], y: f64[0]) { p = concat_part[axis=-1, index=1] z, like x, like y return p }",
            ],
        )
    }
}
