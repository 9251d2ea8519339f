use super::active::{along_cotangent, by_parts, cotangents, numbers, placed};
use super::layer_norm::with_vectors;
use super::nd_array::{Application, NdArray, indices};
use super::norm_jvp::Norm;
use super::norm_jvp::NormRows;
use super::shape::same;
use super::{
    Axes, AxesOf, AxesRule, Axis, Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts,
    Operands, Ops, axes, lanes, shape,
};
use crate::sharding::Reduction;
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

/// `ct.. = norm_vjp[centred, eps, active] x, w, ct`: the transpose of `norm_jvp`.
///
/// It has a result for each of `x`, `w` and `b` that `active` lists. With `n` and `r` as in
/// `norm_jvp`, and sums over all rows:
///
/// ```text
/// ct_x = r (ct w - mean(ct w) - n mean(n ct w))    ct_w = sum(ct n)    ct_b = sum(ct)
/// ```
pub(super) static OP: NormVjp = NormVjp;

pub(super) struct NormVjp;

impl OpDef for NormVjp {
    fn name(&self) -> &'static str {
        "norm_vjp"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(3, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::KnownFlag.named("centred"),
                StaticKind::Epsilon.named("eps"),
                StaticKind::Active.named("active"),
            ]
        }
    }
    fn shape(
        &self,
        statics: &[Static],
        args: &[&Aval],
        n_outs: usize,
    ) -> Result<Vec<Shape>, Fault> {
        let rows = same(&args[0].shape, &args[2].shape)?;
        let rows = with_vectors(&rows, &[(args[1], "the weight")])?;
        let active = cotangents(&statics[2], n_outs)?;
        let vector = match rows.dims().and_then(|dims| dims.last()) {
            Some(last) => Shape::from([*last]),
            None => args[1].shape.clone(),
        };
        let shape = |i: &i64| if *i == 0 { &rows } else { &vector }.clone();
        Ok(active.iter().map(shape).collect())
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::same_floats(args)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        if let Some(tangents) = along_cotangent(b, eqn, dx) {
            return tangents;
        }
        by_parts(b, &eqn.args, dx, |b| parts(b, eqn))
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let mut all = vec![None; 3];
        if linear[2] {
            let active = numbers(b, eqn.attrs[2]);
            all[2] = Norm::of(eqn).tangent(b, placed(&active, cts));
        }
        all
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::NormVjp)
    }
    fn count(&self) -> Count {
        Count::Rows {
            element: Ops::new(15, 0),
            row: Ops::new(5, 1),
        }
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::composite(AXES, |b, eqn| Some(parts(b, eqn))) }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 4], w: f64[4], ct: f64[2, 4]) { a, b, c = norm_vjp[centred=true, eps=0.01, active=[0, 1, 2]] x, w, ct return a, b, c }",
                "(x: f64[2, 2, 3], w: f64[3], ct: f64[2, 2, 3]) { a, b = norm_vjp[centred=false, eps=0.01, active=[0, 1]] x, w, ct return a, b }",
                "(x: f64[2, 3], w: f64[3], ct: f64[2, 3]) { a = norm_vjp[centred=true, eps=0.01, active=[0]] x, w, ct return a }",
                "(x: f64[2, 3], w: f64[3], ct: f64[2, 3]) { b, c = norm_vjp[centred=false, eps=0.01, active=[1, 2]] x, w, ct return b, c }",
                "(x: f64[3], w: f64[3], ct: f64[3]) { b, c = norm_vjp[centred=true, eps=0.01, active=[1, 2]] x, w, ct return b, c }",
                "(x: f64[0, 3], w: f64[3], ct: f64[0, 3]) { a, c = norm_vjp[centred=true, eps=0.01, active=[0, 2]] x, w, ct return a, c }",
            ],
        )
    }
}

/// The cotangent of a vector is a sum over the rows of each lane.
const AXES: AxesRule = AxesRule {
    signature,
    batch: |b, of| match of.ints(2)? {
        [0] => lanes::rows(b, of, &[true, false, true]),
        _ => lanes::simpler(b, of),
    },
};

/// Cotangents of the vectors are sums over rows. With that of `x` in another result, rows are neither
/// a factor nor summed.
fn signature(of: &AxesOf<'_>) -> Option<Axes> {
    let rank = of.data[0].len();
    let mut axes = axes::rows(of)?;
    let vectors = of.outs.iter().filter(|out| out.len() < rank).count();
    if vectors == 0 {
        return Some(axes);
    }
    // Rows of zeros add nothing to the sums unless their scale is infinite.
    let is_finite = of.statics[1].float().is_some_and(|eps| eps > 0.0);
    if vectors < of.outs.len() || !is_finite {
        return axes::unrelated(of);
    }
    for axis in axes.operands.iter_mut().flatten() {
        if let Axis::Factor(row) = *axis {
            *axis = Axis::Reduced(row, Reduction::Sum);
        }
    }
    Some(axes)
}

/// Emits the cotangents by the formula of [`OP`].
fn parts(b: &mut Builder, eqn: &Eqn) -> Vec<Var> {
    let (of, active) = (Norm::of(eqn), numbers(b, eqn.attrs[2]));

    let ct = eqn.args[2];
    let parts = of.parts(b);
    let over_rows = |b: &mut Builder, v: Var| match b.aval(of.x).shape.dims() {
        Some([_]) => v,
        _ => b.emit(Op::Unbroadcast, &[], &[v, of.w, of.x]),
    };
    let mut cotangent = |i: &i64| match i {
        0 => {
            let v = b.mul(ct, of.w);
            parts.project(b, v)
        }
        1 => {
            let v = b.mul(ct, parts.n);
            over_rows(b, v)
        }
        _ => over_rows(b, ct),
    };
    active.iter().map(&mut cotangent).collect()
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Vec<NdArray> {
    let rows = NormRows::new(of);
    let (w, ct) = (of.y(), &of.args[2]);
    let cotangent = |(which, out): (&i64, &Vec<usize>)| {
        let mut total = NdArray::zeros(out);
        for i in indices(&of.x().shape) {
            let column = i.len() - 1;
            match which {
                0 => {
                    let v: Vec<f64> = ct.row(&[column], &i);
                    let v: Vec<f64> = v.iter().zip(&w.data).map(|(ct, w)| ct * w).collect();
                    total.add(&i, rows.project(&i, &v));
                }
                1 => total.add(&i[column..], rows.normal(&i) * ct.get(&i)),
                _ => total.add(&i[column..], ct.get(&i)),
            }
        }
        total
    };
    of.ints(2).iter().zip(of.outs).map(cotangent).collect()
}
