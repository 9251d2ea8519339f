use super::nd_array::{Application, NdArray};
use super::{
    Count, Diff, Eval, Kernel, Laws, Linearity, Method, OpDef, OpFacts, Operands, Param, axes,
    shape,
};
use crate::{
    Attr, Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var,
};

/// `concat[axis] x1, .., like x1, ..`: the operands concatenated along an axis.
pub(super) static OP: Concat = Concat;

pub(super) struct Concat;

impl OpDef for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }
    fn operands(&self) -> Operands {
        Operands::ManyLike
    }
    fn statics(&self) -> &'static [StaticArg] {
        const { &[StaticKind::Axis.named("axis")] }
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let n = args.len() / 2;
        for (x, like) in args[..n].iter().zip(&args[n..]) {
            shape::same(&x.shape, &like.shape)?;
        }
        let join = |rank| join(&statics[0], rank);
        Ok(vec![joined(&args[..n], join)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::all_promoted(&args[..args.len() / 2])
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_type("concat", &[Param::List, Param::Static])]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy = concat(dx1, ..)
        vec![Some(fill(b, eqn.attrs[0], dx, eqn.likes()))]
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
        let mut args = vec![ct];
        args.extend(eqn.likes());
        let parts = b.emit_many(Op::ConcatT, &eqn.attrs, &args, linear.len());
        parts
            .into_iter()
            .zip(linear)
            .map(|(part, linear)| Some(part).filter(|_| *linear))
            .collect()
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Concat)
    }
    fn count(&self) -> Count {
        Count::Copy
    }
    fn facts(&self) -> &OpFacts {
        const {
            &OpFacts::opaque(axes::ALONG)
                .moves()
                .linear(Linearity::From(0))
                .aval_of(|_, eqn, operand| eqn.data().len() + operand)
                .range(|of| of.all())
        }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3], y: f64[2, 1]) { z = concat[axis=1] x, y, like x, like y return z }",
                "(x: f64[2], y: f64[0], w: f64[1]) { z = concat[axis=-1] x, y, w, like x, like y, like w return z }",
                "(x: f64[2, 3]) { z = concat[axis=0] x, x, like x, like x return z }",
                "(x: i32[2, 3]) { z = concat[axis=0] x, like x return z }",
            ],
        )
    }
}

/// Emits `concat` of operands with the shapes of `likes`. An operand of `None` is zero.
pub(super) fn fill(b: &mut Builder, axis: Attr, xs: &[Option<Var>], likes: &[Var]) -> Var {
    let mut args = Vec::with_capacity(2 * likes.len());
    for (x, like) in xs.iter().zip(likes) {
        args.push(x.unwrap_or_else(|| b.zeros_like(*like)));
    }
    args.extend(likes);
    b.emit(Op::Concat, &[axis], &args)
}

/// Returns how `concat` joins operands of a rank.
pub(super) fn join(axis: &Static, rank: usize) -> Result<Join, Fault> {
    let axis = shape::known_axis(axis, rank)?;
    Ok(axis.map_or(Join::Somewhere, Join::Along))
}

/// How operands are joined.
pub(super) enum Join {
    /// Concatenated along this axis.
    Along(usize),
    /// Concatenated along an axis that is a host expression.
    Somewhere,
    /// Stacked along an additional axis: all operands have the same shape.
    Across,
}

/// Returns the shape of operands whose axes agree, except for the axis along which they are joined.
pub(super) fn joined(
    args: &[&Aval],
    join: impl FnOnce(usize) -> Result<Join, Fault>,
) -> Result<Shape, Fault> {
    let known = |(i, arg): (usize, &&Aval)| Some((i, arg.shape.dims()?.to_vec()));
    let Some((first, mut dims)) = args.iter().enumerate().find_map(known) else {
        return Ok(Shape::UNKNOWN);
    };
    let rank = dims.len();
    let join = join(rank)?;
    let mut total = Dim::Known(0);
    for (i, arg) in args.iter().enumerate() {
        let Some(others) = arg.shape.dims() else {
            total = Dim::Unknown;
            continue;
        };
        if others.len() != rank {
            return Err(Fault::Rank {
                found: others.len(),
                expected: format!("{rank}, as in operand {}", first + 1),
            });
        }
        for (axis, (dim, other)) in dims.iter_mut().zip(others).enumerate() {
            match join {
                Join::Somewhere => {}
                Join::Along(at) if at == axis => {
                    total = total.plus(*other);
                }
                _ if dim.differs(*other) => {
                    return Err(Fault::Length {
                        what: format!("axis {axis} of operand {}", i + 1),
                        found: other.to_string(),
                        expected: format!("{dim}, as in operand {}", first + 1),
                    });
                }
                _ => *dim = dim.meet(*other),
            }
        }
    }
    match join {
        _ if args.len() == 1 => {}
        Join::Along(axis) => dims[axis] = total,
        Join::Somewhere => dims.fill(Dim::Unknown),
        Join::Across => {}
    }
    Ok(Shape::from(dims))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(0, of.out().len());
    of.build(|mut i| {
        let mut part = 0;
        while i[axis] >= of.args[part].shape[axis] {
            i[axis] -= of.args[part].shape[axis];
            part += 1;
        }
        of.args[part].get(&i)
    })
}
