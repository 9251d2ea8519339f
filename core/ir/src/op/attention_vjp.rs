use super::active::{along_cotangent, by_parts, cotangents, numbers, placed};
use super::attention::floats;
use super::attention_jvp::{
    Attention, GIVEN, checked, matmul, over_keys, scaled, swapped, weights,
};
use super::nd_array::{Application, NdArray, dot};
use super::pairs;
use super::pairs::{Pair, Pairs};
use super::shape::same;
use super::{
    AxesRule, Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, Ops, axes, lanes,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, StaticKind, Var};

/// `ct_x, .. = attention_vjp[causal, active] q, k, v, o, l, mask, ct`.
///
/// This is the transpose of `attention_jvp`.
///
/// It has a result for each of `q`, `k` and `v` that `active` lists:
///
/// ```text
/// p = exp(q k^T / sqrt(d) - l)    ds = p (ct v^T - sum(ct o)) / sqrt(d)
/// ct_q = ds k    ct_k = ds^T q    ct_v = p^T ct
/// ```
pub(super) static OP: AttentionVjp = AttentionVjp;

pub(super) struct AttentionVjp;

impl OpDef for AttentionVjp {
    fn name(&self) -> &'static str {
        "attention_vjp"
    }
    fn operands(&self) -> Operands {
        Operands::Between(GIVEN + 1, GIVEN + 2)
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::KnownFlag.named("causal"),
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
        let (ct, given) = args
            .split_last()
            .expect("the last operand is the cotangent");
        same(&checked(given)?, &ct.shape)?;
        let active = cotangents(&statics[1], n_outs)?;
        let shapes = active.iter().map(|i| args[*i as usize].shape.clone());
        Ok(shapes.collect())
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        floats(args, (args.len() > GIVEN + 1).then_some(GIVEN))
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
        let mut all = vec![None; eqn.args.len()];
        if let (Some(ct), Some(true)) = (all.last_mut(), linear.last()) {
            let active = numbers(b, eqn.attrs[1]);
            *ct = of_cotangent(eqn).0.tangent(b, placed(&active, cts));
        }
        all
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::AttentionVjp)
    }
    fn count(&self) -> Count {
        Count::Attention {
            products: [3, 2],
            pair: Ops::new(4, 1),
        }
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::composite(AXES, |b, eqn| Some(parts(b, eqn))) }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-1.0, 1.0),
            &[
                "(q: f64[2, 3], k: f64[4, 3], v: f64[4, 2], o: f64[2, 2], l: f64[2], ct: f64[2, 2]) { a, b, c = attention_vjp[causal=false, active=[0, 1, 2]] q, k, v, o, l, ct return a, b, c }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], ct: f64[2, 3, 1]) { a, b = attention_vjp[causal=true, active=[0, 2]] q, k, v, o, l, ct return a, b }",
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], ct: f64[2, 1]) { b = attention_vjp[causal=true, active=[1]] q, k, v, o, l, ct return b }",
                "(q: f64[2, 2], k: f64[0, 2], v: f64[0, 1], o: f64[2, 1], l: f64[2], ct: f64[2, 1]) { a, c = attention_vjp[causal=false, active=[0, 2]] q, k, v, o, l, ct return a, c }",
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], mask: bool[2, 3], ct: f64[2, 1]) { a, b, c = attention_vjp[causal=false, active=[0, 1, 2]] q, k, v, o, l, mask, ct return a, b, c }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], mask: bool[2, 1, 2], ct: f64[2, 3, 1]) { b = attention_vjp[causal=true, active=[1]] q, k, v, o, l, mask, ct return b }",
            ],
        )
    }
}

const AXES: AxesRule = AxesRule {
    signature: |of| axes::heads(of, mask_at(of.data.len())),
    batch: |b, of| lanes::heads(b, of, mask_at(of.args.len())),
};

/// Returns the position of the mask. If there is none, it is the number of operands.
fn mask_at(n_operands: usize) -> usize {
    match n_operands {
        n if n > GIVEN + 1 => GIVEN,
        n => n,
    }
}

/// Returns the attention and the cotangent of an equation.
fn of_cotangent(eqn: &Eqn) -> (Attention, Var) {
    let n_given = eqn.args.len() - 1;
    (Attention::of(eqn, n_given), eqn.args[n_given])
}

/// Emits the cotangents by the formula of [`OP`].
fn parts(b: &mut Builder, eqn: &Eqn) -> Vec<Var> {
    let active = numbers(b, eqn.attrs[1]);

    let (Attention { of, sees }, ct) = of_cotangent(eqn);
    let [q, k, v, o, l] = of;
    let p = weights(b, [q, k, l], sees);
    let v = swapped(b, v);
    let dp = matmul(b, ct, v);
    let along_o = b.mul(ct, o);
    let along_o = over_keys(b, along_o, true);
    let ds = b.sub(dp, along_o);
    let ds = b.mul(p, ds);
    let mut cotangent = |i: &i64| match i {
        0 => {
            let k = scaled(b, k);
            matmul(b, ds, k)
        }
        1 => {
            let (ds, q) = (swapped(b, ds), scaled(b, q));
            matmul(b, ds, q)
        }
        _ => {
            let p = swapped(b, p);
            matmul(b, p, ct)
        }
    };
    active.iter().map(&mut cotangent).collect()
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Vec<NdArray> {
    let (ct, args) = of.args.split_last().expect("the last operand is `ct`");
    let pairs = Pairs::new(of, args, GIVEN);
    let mut outs: Vec<NdArray> = of.outs.iter().map(|out| NdArray::zeros(out)).collect();
    for pair in pairs.queries().flat_map(|query| pairs.seen(query)) {
        let Pair { head, query, key } = pair;
        let (q, k, v) = (
            pairs.of_query(0, pair),
            pairs.of_key(1, pair),
            pairs.of_key(2, pair),
        );
        let (o, ct) = (pairs.of_query(3, pair), pairs::row(ct, head, query));
        let p = pairs.weight(pair);
        let ds = p * (dot(ct, v) - dot(ct, o)) * pairs.scale();
        for (out, which) in outs.iter_mut().zip(of.ints(1)) {
            match which {
                0 => pairs::add(out, head, query, ds, k),
                1 => pairs::add(out, head, key, ds, q),
                _ => pairs::add(out, head, key, p, ct),
            }
        }
    }
    outs
}
