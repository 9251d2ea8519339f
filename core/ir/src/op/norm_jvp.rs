use super::active::{by_parts, numbers, placed, present, primal, tangents, transposed};
use super::inv_std::moments;
use super::layer_norm::with_vectors;
use super::nd_array::{Application, NdArray, dot, mean};
use super::shape::same;
use super::{
    AxesRule, Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, Ops, axes, lanes,
    shape,
};
use crate::{
    Attr, Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var,
};

/// The tangent of the rows is the third operand, if they have one.
const AXES: AxesRule = AxesRule {
    batch: |b, of| {
        let has_tangent = of.ints(2)?.first() == Some(&0);
        lanes::rows(b, of, &[true, false, has_tangent])
    },
    ..axes::ROWS
};

/// `norm_jvp[centred, eps, active] x, w, dx..`: the Jacobian of `layer_norm` or `rms_norm`.
///
/// It is applied to the tangents of those of `x`, `w` and `b` that `active` lists. The norm is `y =
/// n w + b`, where `n` is a row of `x` divided by its root mean square. If `centred`, the mean of
/// the row is subtracted first: `layer_norm` is centred and `rms_norm` is not.
///
/// With `m` the mean of `x`, `v = mean((x - m)^2)` and `r = (v + eps)^(-1/2)`, so that `n = (x - m)
/// r`:
///
/// ```text
/// dv = 2 mean((x - m) dx)                   as the mean of x - m is 0
/// dr = -1/2 r^3 dv = -r^2 mean(n dx)
/// dn = (dx - mean(dx)) r + (x - m) dr
///    = r (dx - mean(dx) - n mean(n dx))
/// dy = dn w + n dw + db
/// ```
///
/// Without `centred`, the means of `x` and `dx` are 0 in these formulas. The transpose is
/// `norm_vjp`.
pub(super) static OP: NormJvp = NormJvp;

pub(super) struct NormJvp;

impl OpDef for NormJvp {
    fn name(&self) -> &'static str {
        "norm_jvp"
    }
    fn operands(&self) -> Operands {
        Operands::Many
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
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let (_, active) = tangents(&statics[2], 2..=2, args.len())?;
        let mut rows = args[0].shape.clone();
        let mut vectors = vec![(args[1], "the weight")];
        for (&i, &dx) in active.iter().zip(&args[2..]) {
            match i {
                0 => rows = same(&rows, &dx.shape)?,
                1 => vectors.push((dx, "the tangent of the weight")),
                _ => vectors.push((dx, "the tangent of the bias")),
            }
        }
        Ok(vec![with_vectors(&rows, &vectors)?])
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
        let (of, active) = (Norm::of(eqn), numbers(b, eqn.attrs[2]));
        if dx[..2].iter().all(Option::is_none) {
            return vec![of.tangent(b, placed(&active, &dx[2..]))];
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
        transposed(b, eqn, Op::NormVjp, 2, cts[0], linear)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::NormJvp)
    }
    fn count(&self) -> Count {
        Count::Rows {
            element: Ops::new(14, 0),
            row: Ops::new(5, 1),
        }
    }
    fn facts(&self) -> &OpFacts {
        const {
            // The bias has the aval of the weight.
            &OpFacts::composite(AXES, |b, eqn| Some(parts(b, eqn)))
                .aval_of(|program, eqn, operand| primal(program, eqn, operand).min(1))
        }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 4], w: f64[4], dx: f64[2, 4], dw: f64[4], db: f64[4]) { y = norm_jvp[centred=true, eps=0.01, active=[0, 1, 2]] x, w, dx, dw, db return y }",
                "(x: f64[2, 2, 3], w: f64[3], dx: f64[2, 2, 3], dw: f64[3]) { y = norm_jvp[centred=false, eps=0.01, active=[0, 1]] x, w, dx, dw return y }",
                "(x: f64[3], w: f64[3], dw: f64[3], db: f64[3]) { y = norm_jvp[centred=true, eps=0.01, active=[1, 2]] x, w, dw, db return y }",
                "(x: f64[0, 3], w: f64[3], dx: f64[0, 3], db: f64[3]) { y = norm_jvp[centred=true, eps=0.01, active=[0, 2]] x, w, dx, db return y }",
            ],
        )
    }
}

/// The operands of a norm: rows and a weight.
pub(super) struct Norm {
    centred: Attr,
    eps: Attr,
    pub(super) x: Var,
    pub(super) w: Var,
}

impl Norm {
    /// Returns the norm of a `layer_norm`, which is `centred`, or of an `rms_norm`.
    pub(super) fn new(b: &mut Builder, eqn: &Eqn, centred: bool, eps: Attr) -> Norm {
        Norm {
            centred: b.attr(centred),
            eps,
            x: eqn.args[0],
            w: eqn.args[1],
        }
    }

    /// Returns the norm of a `norm_jvp` or a `norm_vjp`.
    pub(super) fn of(eqn: &Eqn) -> Norm {
        Norm {
            centred: eqn.attrs[0],
            eps: eqn.attrs[1],
            x: eqn.args[0],
            w: eqn.args[1],
        }
    }

    /// Emits the tangent of the result, given those of rows, weight and bias.
    pub(super) fn tangent(&self, b: &mut Builder, dx: [Option<Var>; 3]) -> Option<Var> {
        let active = present(&dx)?;
        let attrs = [self.centred, self.eps, b.attr(active)];
        let args: Vec<Var> = [self.x, self.w]
            .into_iter()
            .chain(dx.into_iter().flatten())
            .collect();
        Some(b.emit(Op::NormJvp, &attrs, &args))
    }

    /// Emits `n` and `r` of the formula, by ops that have derivatives of their own.
    pub(super) fn parts(&self, b: &mut Builder) -> Parts {
        let (x, last, keepdims) = (self.x, b.attr(-1), b.attr(true));
        let centred = match b.static_of(self.centred) {
            Static::Bool(centred) => *centred,
            other => unreachable!("`centred` is a known boolean, not {other}"),
        };
        if centred {
            let n = b.emit(Op::Normalize, &[last, self.eps], &[x]);
            let r = b.emit(Op::InvStd, &[last, self.eps], &[x]);
            return Parts { centred, x, n, r };
        }
        let squares = b.unary(Op::Square, x);
        let mean = b.mean(squares, x, last, keepdims);
        let eps = b.emit(Op::Scalar, &[self.eps], &[x]);
        let mean = b.add(mean, eps);
        let r = b.unary(Op::Rsqrt, mean);
        let n = b.mul(x, r);
        Parts { centred, x, n, r }
    }
}

/// The values `n` and `r` of the formula.
pub(super) struct Parts {
    centred: bool,
    x: Var,
    pub(super) n: Var,
    r: Var,
}

impl Parts {
    /// Emits `r (v - mean(v) - n mean(n v))`, which maps the tangent of `x` to that of `n`.
    ///
    /// The term `mean(v)` is absent if the norm is not centred.
    pub(super) fn project(&self, b: &mut Builder, v: Var) -> Var {
        let Parts { centred, x, n, r } = *self;
        let (last, keepdims) = (b.attr(-1), b.attr(true));
        if centred {
            return b.emit(Op::NormalizeT, &[last], &[v, n, r]);
        }
        let along = b.mul(n, v);
        let along = b.mean(along, x, last, keepdims);
        let along = b.sum_t(along, x, last, keepdims);
        let along = b.mul(n, along);
        let rest = b.sub(v, along);
        b.mul(rest, r)
    }
}

/// Emits the tangent by the formula of [`OP`].
fn parts(b: &mut Builder, eqn: &Eqn) -> Vec<Var> {
    let (of, active) = (Norm::of(eqn), numbers(b, eqn.attrs[2]));

    let tangents: Vec<Option<Var>> = eqn.args[2..].iter().map(|v| Some(*v)).collect();
    let [dx, dw, db] = placed(&active, &tangents);
    let parts = of.parts(b);
    let from_x = dx.map(|dx| {
        let dn = parts.project(b, dx);
        b.mul(dn, of.w)
    });
    let from_w = dw.map(|dw| {
        let dw = b.broadcast(dw, of.w, of.x);
        b.mul(parts.n, dw)
    });
    let from_b = db.map(|db| b.broadcast(db, of.w, of.x));
    let all = [from_x, from_w, from_b].into_iter().flatten();
    let total = all.reduce(|total, part| b.add(total, part));
    vec![total.expect("`active` is not empty")]
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let rows = NormRows::new(of);
    let w = of.y();
    of.build(|i| {
        let tangents = of.ints(2).iter().zip(&of.args[2..]);
        let parts = tangents.map(|(which, dx)| match which {
            0 => rows.project(&i, &dx.row(&[i.len() - 1], &i)) * w.spread(&i),
            1 => rows.normal(&i) * dx.spread(&i),
            _ => dx.spread(&i),
        });
        parts.sum()
    })
}

/// The rows of `x` and the kind of norm, for the definitions of `norm_jvp` and `norm_vjp`.
pub(super) struct NormRows<'a> {
    x: &'a NdArray,
    centred: bool,
    eps: f64,
}

impl<'a> NormRows<'a> {
    pub(super) fn new(of: &Application<'a>) -> NormRows<'a> {
        NormRows {
            x: of.x(),
            centred: of.flag(0),
            eps: of.number(1),
        }
    }

    /// Returns `n` and `r` of the formula, for the row at an index.
    fn row(&self, i: &[usize]) -> (Vec<f64>, f64) {
        let row = self.x.row(&[i.len() - 1], i);
        let (m, r) = match self.centred {
            true => moments(&row, self.eps),
            false => (
                0.0,
                1.0 / (dot(&row, &row) / row.len() as f64 + self.eps).sqrt(),
            ),
        };
        (row.iter().map(|x| (x - m) * r).collect(), r)
    }

    /// Returns the element of `n` at an index.
    pub(super) fn normal(&self, i: &[usize]) -> f64 {
        self.row(i).0[i[i.len() - 1]]
    }

    /// Returns the element at an index of `r (v - mean(v) - n mean(n v))`, for a row `v`.
    pub(super) fn project(&self, i: &[usize], v: &[f64]) -> f64 {
        let (n, r) = self.row(i);
        let at = i[i.len() - 1];
        let shift = if self.centred { mean(v) } else { 0.0 };
        r * (v[at] - shift - n[at] * dot(&n, v) / n.len() as f64)
    }
}
