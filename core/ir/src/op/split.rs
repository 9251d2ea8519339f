use super::class::linear_tangents;
use super::nd_array::{Application, NdArray};
use super::{
    Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, Param, axes, concat, shape,
};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

/// `y1, .. = split[sizes, axis] x, like x`: consecutive parts of the given sizes along an axis.
///
/// `sizes=all` makes equal parts, one for each result.
pub(super) static OP: Split = Split;

pub(super) struct Split;

impl OpDef for Split {
    fn name(&self) -> &'static str {
        "split"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 1)
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::Sizes.named("sizes"),
                StaticKind::Axis.named("axis"),
            ]
        }
    }
    fn shape(
        &self,
        statics: &[Static],
        args: &[&Aval],
        n_outs: usize,
    ) -> Result<Vec<Shape>, Fault> {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        let Some(dims) = x.dims() else {
            return Ok(vec![Shape::UNKNOWN; n_outs]);
        };
        let Some(axis) = shape::known_axis(&statics[1], dims.len())? else {
            sizes(&statics[0], Dim::Unknown, n_outs)?;
            return Ok(vec![Shape::from(vec![Dim::Unknown; dims.len()]); n_outs]);
        };
        let part = |size| {
            let mut dims = dims.to_vec();
            dims[axis] = size;
            Shape::from(dims)
        };
        Ok(sizes(&statics[0], dims[axis], n_outs)?
            .into_iter()
            .map(part)
            .collect())
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        // The like operand is checked too: zeros made for a missing cotangent have its dtype.
        shape::same_dtypes(args)
    }
    fn methods(&self) -> Vec<Method> {
        vec![
            Method::on_tensor(
                "split",
                &[Param::DataLike, Param::All, Param::Static, Param::Count],
            ),
            Method::on_tensor(
                "split_sizes",
                &[Param::DataLike, Param::Static, Param::Static, Param::Count],
            ),
        ]
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
        // The primal gives the shapes of all parts, including those without a cotangent.
        let like = eqn.args[1];
        let zeros = b.zeros_like(like);
        let likes = b.emit_many(Op::Split, &eqn.attrs, &[zeros, like], eqn.outs.len());
        vec![Some(concat::fill(b, eqn.attrs[1], cts, &likes))]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Split)
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
                "(x: f64[2, 4]) { a, b = split[sizes=all, axis=1] x, like x return a, b }",
                "(x: f64[3, 2]) { a, b, c = split[sizes=[1, 0, 2], axis=-2] x, like x return a, c }",
                "(x: f64[0]) { a, b = split[sizes=all, axis=0] x, like x return b, a }",
            ],
        )
    }
}

/// Returns the lengths of the parts of an axis of length `len`.
fn sizes(given: &Static, len: Dim, n_outs: usize) -> Result<Vec<Dim>, Fault> {
    if *given == Static::All {
        let refused = || Fault::Parts {
            asked: format!("{n_outs} equal parts"),
            len: len.to_string(),
        };
        if n_outs == 1 {
            return Ok(vec![len]);
        }
        let whole = len.poly_or_fresh(0);
        if n_outs == 0 || whole.is_never_multiple_of(n_outs as i128) {
            return Err(refused());
        }
        let part = whole.exact_div(n_outs as i128);
        return Ok(vec![part.map_or(Dim::Unknown, Dim::from); n_outs]);
    }
    let Some(sizes) = given.ints() else {
        return Ok(vec![Dim::Unknown; n_outs]);
    };
    let known: Result<Vec<usize>, _> = sizes.iter().map(|n| usize::try_from(*n)).collect();
    let known = known.map_err(|_| Fault::Static {
        name: "sizes",
        found: given.to_string(),
    })?;
    if known.len() != n_outs {
        return Err(Fault::Length {
            what: "the number of `sizes`".into(),
            found: known.len().to_string(),
            expected: format!("{n_outs}, the number of results"),
        });
    }
    let known: Vec<Dim> = known.into_iter().map(Dim::Known).collect();
    let total = known.iter().fold(Dim::Known(0), |total, n| total.plus(*n));
    if total.differs(len) {
        return Err(Fault::Parts {
            asked: format!("parts of {given}"),
            len: len.to_string(),
        });
    }
    Ok(known)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Vec<NdArray> {
    parts(of, of.axis(1, of.rank()))
}

/// Returns consecutive parts of the first operand along an axis, with the shapes of the results.
pub(super) fn parts(of: &Application<'_>, axis: usize) -> Vec<NdArray> {
    let mut start = 0;
    let part = |out: &Vec<usize>| {
        let part = NdArray::build(out, |mut i| {
            i[axis] += start;
            of.x().get(&i)
        });
        start += out[axis];
        part
    };
    of.outs.iter().map(part).collect()
}
