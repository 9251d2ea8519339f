use super::active::{by_parts, numbers, placed, present, primal, tangents, transposed};
use super::attention::{Heads, floats};
use super::nd_array::{Application, NdArray, dot};
use super::pairs;
use super::pairs::Pairs;
use super::shape::same;
use super::{
    AxesRule, Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, Ops, axes, lanes,
};
use crate::{
    Attr, Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var,
};

/// `attention_jvp[causal, active] q, k, v, o, l, mask, dx..`: the Jacobian of `attention`.
///
/// It is applied to the tangents of those of `q`, `k` and `v` that `active` lists, with `o =
/// attention q, k, v, mask` and `l = attention_lse q, k, mask`:
///
/// ```text
/// p = exp(q k^T / sqrt(d) - l)    ds = (dq k^T + q dk^T) / sqrt(d)
/// do = (p ds) v - o sum(p ds) + p dv
/// ```
///
/// Here `p ds` is elementwise, and the sum is over the keys. A masked key has weight 0. The mask is
/// present if `attention` has one. The transpose is `attention_vjp`.
pub(super) static OP: AttentionJvp = AttentionJvp;

pub(super) struct AttentionJvp;

impl OpDef for AttentionJvp {
    fn name(&self) -> &'static str {
        "attention_jvp"
    }
    fn operands(&self) -> Operands {
        Operands::Many
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::KnownFlag.named("causal"),
                StaticKind::Active.named("active"),
            ]
        }
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let (n_given, active) = tangents(&statics[1], GIVEN..=GIVEN + 1, args.len())?;
        // A tangent has the shape of its primal, so each completes what is known of the other.
        let mut given: Vec<Aval> = args[..n_given].iter().map(|aval| (*aval).clone()).collect();
        for (&i, dx) in active.iter().zip(&args[n_given..]) {
            let primal = &mut given[i as usize].shape;
            *primal = same(primal, &dx.shape)?;
        }
        Ok(vec![checked(&given.iter().collect::<Vec<_>>())?])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let (n_given, active) = tangents(&statics[1], GIVEN..=GIVEN + 1, args.len())?;
        let known = &args[..n_given + active.len()];
        floats(known, (n_given > GIVEN).then_some(GIVEN))
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let active = numbers(b, eqn.attrs[1]);
        let n_given = eqn.args.len() - active.len();
        let Attention { of, sees } = Attention::of(eqn, n_given);
        if dx[..n_given].iter().all(Option::is_none) {
            let of = Attention { of, sees };
            return vec![of.tangent(b, placed(&active, &dx[n_given..]))];
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
        let n_given = eqn.args.len() - numbers(b, eqn.attrs[1]).len();
        transposed(b, eqn, Op::AttentionVjp, n_given, cts[0], linear)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::AttentionJvp)
    }
    fn count(&self) -> Count {
        Count::Attention {
            products: [3, 2],
            pair: Ops::new(4, 1),
        }
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::composite(AXES, |b, eqn| Some(parts(b, eqn))).aval_of(primal) }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-1.0, 1.0),
            &[
                "(q: f64[2, 3], k: f64[4, 3], v: f64[4, 2], o: f64[2, 2], l: f64[2], dq: f64[2, 3], dk: f64[4, 3], dv: f64[4, 2]) { y = attention_jvp[causal=false, active=[0, 1, 2]] q, k, v, o, l, dq, dk, dv return y }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], dq: f64[2, 3, 2], dv: f64[2, 2, 1]) { y = attention_jvp[causal=true, active=[0, 2]] q, k, v, o, l, dq, dv return y }",
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], dk: f64[3, 2]) { y = attention_jvp[causal=true, active=[1]] q, k, v, o, l, dk return y }",
                "(q: f64[2, 2], k: f64[0, 2], v: f64[0, 1], o: f64[2, 1], l: f64[2], dv: f64[0, 1]) { y = attention_jvp[causal=false, active=[2]] q, k, v, o, l, dv return y }",
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], mask: bool[2, 3], dq: f64[2, 2], dk: f64[3, 2], dv: f64[3, 1]) { y = attention_jvp[causal=false, active=[0, 1, 2]] q, k, v, o, l, mask, dq, dk, dv return y }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], mask: bool[2, 1, 2], dk: f64[2, 2, 2]) { y = attention_jvp[causal=true, active=[1]] q, k, v, o, l, mask, dk return y }",
            ],
        )
    }
}

/// The number of operands of an attention without mask and tangents.
pub(super) const GIVEN: usize = 5;

/// Queries, keys, values, the results of `attention` and `attention_lse`, and the visible keys.
pub(super) struct Attention {
    pub(super) of: [Var; GIVEN],
    pub(super) sees: Sees,
}

/// The keys that a query sees: up to its own index if `causal`, and only where the mask is true.
#[derive(Clone, Copy)]
pub(super) struct Sees {
    pub(super) causal: Attr,
    pub(super) mask: Option<Var>,
}

impl Attention {
    /// Returns the attention given by the first `n_given` operands of an equation.
    pub(super) fn of(eqn: &Eqn, n_given: usize) -> Attention {
        Attention {
            of: [0, 1, 2, 3, 4].map(|i| eqn.args[i]),
            sees: Sees {
                causal: eqn.attrs[0],
                mask: eqn.args[GIVEN..n_given].first().copied(),
            },
        }
    }

    /// Emits the tangent of the result, given those of queries, keys and values.
    pub(super) fn tangent(&self, b: &mut Builder, dx: [Option<Var>; 3]) -> Option<Var> {
        let active = present(&dx)?;
        let active = b.attr(active);
        let given = self.of.into_iter().chain(self.sees.mask);
        let args: Vec<Var> = given.chain(dx.into_iter().flatten()).collect();
        Some(b.emit(Op::AttentionJvp, &[self.sees.causal, active], &args))
    }
}

/// Returns the shape of the result of `attention`, given its operands and results.
pub(super) fn checked(args: &[&Aval]) -> Result<Shape, Fault> {
    let (o, l) = (&args[3].shape, &args[4].shape);
    let Some(heads) = Heads::of(&args[..3], args.get(GIVEN).copied())? else {
        return Ok(o.clone());
    };
    let out = same(&heads.mixed(), o)?;
    let queries = out.dims().and_then(<[_]>::split_last);
    let queries = Shape(queries.map(|(_, queries)| queries.into()));
    same(&same(&heads.one_each(), l)?, &queries)?;
    Ok(out)
}

/// Emits the weights of the keys for each query, `exp(q k^T / sqrt(d) - l)`.
pub(super) fn weights(b: &mut Builder, [q, k, l]: [Var; 3], sees: Sees) -> Var {
    let (q, k) = (scaled(b, q), swapped(b, k));
    let s = matmul(b, q, k);
    let last = b.attr(-1);
    let l = b.emit(Op::Unsqueeze, &[last], &[l]);
    let exponent = b.sub(s, l);
    // Masked exponents may be arbitrary, and their exponentials infinite.
    let exponent = seen(b, exponent, sees);
    let p = b.unary(Op::Exp, exponent);
    seen(b, p, sees)
}

/// Emits `x` where a query sees a key, and 0 elsewhere.
pub(super) fn seen(b: &mut Builder, x: Var, sees: Sees) -> Var {
    let x = match *b.static_of(sees.causal) == Static::Bool(true) {
        true => {
            let diagonal = b.attr(0);
            b.emit(Op::Tril, &[diagonal], &[x])
        }
        false => x,
    };
    let Some(mask) = sees.mask else {
        return x;
    };
    let zero = b.zeros_like(x);
    b.select(mask, x, zero)
}

/// Emits `x / sqrt(d)`, where `d` is the length of the last axis.
pub(super) fn scaled(b: &mut Builder, x: Var) -> Var {
    let [one, last, keep] = [b.attr(1.0), b.attr(-1), b.attr(true)];
    let ones = b.emit(Op::FullLike, &[one], &[x]);
    let count = b.sum(ones, x, last, keep);
    let scale = b.unary(Op::Rsqrt, count);
    b.mul(x, scale)
}

/// Emits `x` with its last two axes swapped.
pub(super) fn swapped(b: &mut Builder, x: Var) -> Var {
    let axes = [b.attr(-1), b.attr(-2)];
    b.emit(Op::SwapAxes, &axes, &[x])
}

/// Emits the sum over the last axis.
pub(super) fn over_keys(b: &mut Builder, x: Var, keepdims: bool) -> Var {
    let (last, keepdims) = (b.attr(-1), b.attr(keepdims));
    b.sum(x, x, last, keepdims)
}

/// Emits the matrix product.
pub(super) fn matmul(b: &mut Builder, x: Var, y: Var) -> Var {
    b.emit(Op::Matmul, &[], &[x, y, x, y])
}

const AXES: AxesRule = AxesRule {
    signature: |of| axes::heads(of, mask_at(of.data.len(), of.statics[1].ints())),
    batch: |b, of| lanes::heads(b, of, mask_at(of.args.len(), of.ints(1))),
};

/// Returns the position of the mask. If there is none, it is the number of operands.
fn mask_at(n_operands: usize, active: Option<&[i64]>) -> usize {
    match n_operands - active.unwrap_or_default().len() {
        n if n > GIVEN => GIVEN,
        _ => n_operands,
    }
}

/// Emits the tangent by the formula of [`OP`].
fn parts(b: &mut Builder, eqn: &Eqn) -> Vec<Var> {
    let active = numbers(b, eqn.attrs[1]);
    let n_given = eqn.args.len() - active.len();
    let Attention { of, sees } = Attention::of(eqn, n_given);

    let [q, k, v, o, l] = of;
    let tangents: Vec<Option<Var>> = eqn.args[n_given..].iter().map(|v| Some(*v)).collect();
    let [dq, dk, dv] = placed(&active, &tangents);
    let p = weights(b, [q, k, l], sees);
    let from_q = dq.map(|dq| {
        let (dq, k) = (scaled(b, dq), swapped(b, k));
        matmul(b, dq, k)
    });
    let from_k = dk.map(|dk| {
        let (q, dk) = (scaled(b, q), swapped(b, dk));
        matmul(b, q, dk)
    });
    let from_scores = b.add_tangents(from_q, from_k).map(|ds| {
        let w = b.mul(p, ds);
        let mixed = matmul(b, w, v);
        let total = over_keys(b, w, true);
        let shift = b.mul(o, total);
        b.sub(mixed, shift)
    });
    let from_v = dv.map(|dv| matmul(b, p, dv));
    vec![b.add_tangents(from_scores, from_v).expect("one is active")]
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let active = of.ints(1);
    let (args, tangents) = of.args.split_at(of.args.len() - active.len());
    let pairs = Pairs::new(of, args, GIVEN);
    let mut out = NdArray::zeros(of.out());
    for query in pairs.queries() {
        let mut along_o = 0.0;
        for pair in pairs.seen(query) {
            let (q, k, v) = (
                pairs.of_query(0, pair),
                pairs.of_key(1, pair),
                pairs.of_key(2, pair),
            );
            let p = pairs.weight(pair);
            for (which, dx) in active.iter().zip(tangents) {
                let ds = match which {
                    0 => dot(pairs::row(dx, pair.head, pair.query), k),
                    1 => dot(q, pairs::row(dx, pair.head, pair.key)),
                    _ => {
                        let dv = pairs::row(dx, pair.head, pair.key);
                        pairs::add(&mut out, pair.head, pair.query, p, dv);
                        continue;
                    }
                };
                let weight = p * ds * pairs.scale();
                pairs::add(&mut out, pair.head, pair.query, weight, v);
                along_o += weight;
            }
        }
        let o = pairs::row(&of.args[3], query.0, query.1);
        pairs::add(&mut out, query.0, query.1, -along_o, o);
    }
    out
}
