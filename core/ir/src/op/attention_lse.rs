use super::active::by_parts;
use super::attention::{Heads, floats};
use super::attention_jvp::{Sees, matmul, over_keys, scaled, seen, swapped, weights};
use super::nd_array::{Application, NdArray};
use super::pairs::Pairs;
use super::{
    AxesRule, Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, Ops, axes, lanes,
};
use crate::{Builder, Eqn, Op, Shape, StaticKind, Var};

const AXES: AxesRule = AxesRule {
    signature: |of| axes::heads(of, 2),
    batch: |b, of| lanes::heads(b, of, 2),
};

/// `attention_lse[causal] q, k, mask`: `logsumexp(q k^T / sqrt(d))` over the keys, for each query.
///
/// The derivatives of [`attention`] need it, and its kernel computes it as a by-product. A query
/// that sees no key has the result -inf.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "attention_lse",
    operands: Operands::Between(2, 3),
    statics: &[StaticKind::KnownFlag.named("causal")],
    shape: |_, args| {
        let heads = Heads::of(&args[..2], args.get(2).copied())?;
        Ok(heads.map_or(Shape::UNKNOWN, |heads| heads.one_each()))
    },
    dtype: |_, args| floats(args, (args.len() > 2).then_some(2)),
    methods: &[],
    // dl = sum over keys of p ds, with s = q k^T / sqrt(d) and p = exp(s - l)
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (q, k) = (eqn.args[0], eqn.args[1]);
        let sees = Sees {
            causal: eqn.attrs[0],
            mask: eqn.args.get(2).copied(),
        };
        let p = weights(b, [q, k, eqn.out()], sees);
        let tangents = by_parts(b, &[q, k], dx, |b| {
            let (q, k) = (scaled(b, q), swapped(b, k));
            let s = matmul(b, q, k);
            let ps = b.mul(p, s);
            vec![over_keys(b, ps, false)]
        });
        tangents[0]
    }),
    kernel: Kernel::AttentionLse,
    count: Count::Attention {
        products: [1, 0],
        pair: Ops::new(3, 1),
    },
    facts: OpFacts::composite(AXES, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(q: f64[2, 3], k: f64[4, 3]) { l = attention_lse[causal=false] q, k return l }",
            "(q: f64[2, 4, 3], k: f64[2, 3, 3]) { l = attention_lse[causal=true] q, k return l }",
            "(x: f64[3, 2]) { l = attention_lse[causal=true] x, x return l }",
            "(q: f64[2, 3, 2], k: f64[2, 4, 2], mask: bool[3, 4]) { l = attention_lse[causal=false] q, k, mask return l }",
            "(q: f64[2, 0], k: f64[3, 0]) { l = attention_lse[causal=false] q, k return l }",
        ],
    ),
};

/// The `logsumexp` over the keys, with minus infinity in place of a masked score.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let sees = Sees {
        causal: eqn.attrs[0],
        mask: eqn.args.get(2).copied(),
    };
    let (q, k) = (scaled(b, eqn.args[0]), swapped(b, eqn.args[1]));
    let s = matmul(b, q, k);
    let infinity = b.scalar(f64::INFINITY, s);
    let least = b.neg(infinity);
    let ones = b.attr(1.0);
    let ones = b.emit(Op::FullLike, &[ones], &[s]);
    let zero = b.scalar(0.0, s);
    let visible = seen(b, ones, sees);
    let visible = b.binary(Op::Ne, visible, zero);
    let s = b.select(visible, s, least);
    let [last, no] = [b.attr(-1), b.attr(false)];
    Some(vec![b.emit(Op::Logsumexp, &[last, no], &[s])])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let pairs = Pairs::new(of, of.args, 2);
    let data = pairs.queries().map(|query| pairs.lse(query)).collect();
    let shape = of.out().to_vec();
    NdArray { shape, data }
}
