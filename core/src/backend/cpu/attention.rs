//! Lowering of attention and its derivatives.

use super::Equation;
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::Op;
use gradloom_kernels::attention::{self, HeadRows, Heads, Primals};
use gradloom_kernels::memory::numel;

/// Lowers `attention`: `softmax(q k^T / sqrt(d)) v`.
pub(super) fn attention(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (args, out) = (of.args, of.out());
    let heads = heads(of, Some(&args[2]));
    let mut places: Vec<View> = args[..3].iter().map(|x| side_by_side(b, x)).collect();
    let rows = [0, 1, 2].map(|i| HeadRows::new(&places[i].layout));
    let mask = mask(b, args, 3, &mut places);
    let kernel = attention::attention(out.dtype(), heads, rows, mask);
    let shape = out.shape();
    let lse = Aval::new(out.dtype(), &shape[..shape.len() - 1]);
    let places: Vec<&View> = places.iter().collect();
    let made = b.strided_kernels(&places, &[out.clone(), lse], kernel);
    // Derivatives look it up as the result of the op `attention_lse`.
    b.offer_byproduct(
        Op::AttentionLse,
        of.statics,
        &[&args[..2], &args[3..]].concat(),
        &made[1],
    );
    made[0].clone()
}

/// Lowers `attention_lse`: `log sum exp(q k^T / sqrt(d))`.
pub(super) fn attention_lse(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (args, out) = (of.args, of.out());
    if let Some(place) = b.byproduct(Op::AttentionLse, of.statics, args) {
        return place;
    }
    let heads = heads(of, None);
    let mut places: Vec<View> = args[..2].iter().map(|x| side_by_side(b, x)).collect();
    let rows = [0, 1].map(|i| HeadRows::new(&places[i].layout));
    let mask = mask(b, args, 2, &mut places);
    let kernel = attention::attention_lse(out.dtype(), heads, rows, mask);
    let places: Vec<&View> = places.iter().collect();
    b.strided_kernel(&places, out, kernel)
}

/// Lowers `attention_jvp`: the tangent of the result, from the active tangents of queries, keys and
/// values.
pub(super) fn attention_jvp(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    let (args, out) = (of.args, of.out());
    let heads = heads(of, Some(&args[2]));
    let is_active = of.active();
    let n_active = is_active.iter().filter(|active| **active).count();
    let (primal, tangents) = args.split_at(args.len() - n_active);
    let (mut places, primals) = primals(b, primal);
    let mut tangents = tangents.iter();
    let tangents = is_active.map(|active| {
        if !active {
            return None;
        }
        let dx = side_by_side(b, tangents.next()?);
        let rows = HeadRows::new(&dx.layout);
        places.push(dx);
        Some((places.len() - 1, rows))
    });
    let kernel = attention::attention_jvp(out.dtype(), heads, primals, tangents);
    let places: Vec<&View> = places.iter().collect();
    b.strided_kernel(&places, out, kernel)
}

/// Lowers `attention_vjp`: the active cotangents of queries, keys and values, from that of the
/// result.
pub(super) fn attention_vjp(b: &mut TaskBuilder, of: &Equation<'_>) -> Vec<View> {
    let (args, outs) = (of.args, of.outs);
    let heads = heads(of, Some(&args[2]));
    let is_active = of.active();
    let (ct, before) = args
        .split_last()
        .expect("the last operand is the cotangent");
    let (mut places, primals) = primals(b, before);
    let ct = side_by_side(b, ct);
    let ct_rows = (places.len(), HeadRows::new(&ct.layout));
    places.push(ct);
    let more = attention::n_partial_sums(&heads);
    let mut avals = outs.to_vec();
    // Queries have no partial sums.
    for out in &outs[usize::from(is_active[0])..] {
        avals.push(Aval::new(out.dtype(), [more * numel(out.shape())]));
    }
    let dtype = outs[0].dtype();
    let kernel = attention::attention_vjp(dtype, heads, primals, ct_rows, is_active);
    let places: Vec<&View> = places.iter().collect();
    let mut made = b.strided_kernels(&places, &avals, kernel);
    made.truncate(outs.len());
    made
}

/// Returns the sizes, from the shapes of queries, keys and values.
fn heads(of: &Equation<'_>, values: Option<&View>) -> Heads {
    let (q, k) = (of.x().shape(), of.y().shape());
    let rank = q.len();
    Heads {
        n: numel(&q[..rank - 2]),
        queries: q[rank - 2],
        keys: k[rank - 2],
        features: q[rank - 1],
        of_values: values.map_or(0, |v| v.shape()[rank - 1]),
        causal: of.flag(),
    }
}

/// Prepares queries, keys, values, the result, the log-sum-exp and the optional mask.
fn primals(b: &mut TaskBuilder, args: &[View]) -> (Vec<View>, Primals) {
    let mut places: Vec<View> = args[..4].iter().map(|x| side_by_side(b, x)).collect();
    let rows = [0, 1, 2, 3].map(|i| HeadRows::new(&places[i].layout));
    let lse = b.contiguous(&args[4]);
    let offset = lse.layout.offset;
    places.push(lse);
    let mask = mask(b, args, 5, &mut places);
    let primals = Primals {
        rows,
        lse: offset,
        mask,
    };
    (places, primals)
}

/// Adds the optional mask, operand `at`, to the operands of a kernel, and returns its rows, one per
/// query.
///
/// A repeated dimension of the mask is not materialised.
fn mask(b: &mut TaskBuilder, args: &[View], at: usize, places: &mut Vec<View>) -> Option<HeadRows> {
    let given = args.get(at)?;
    let (q, k) = (args[0].shape(), args[1].shape());
    let scores = [&q[..q.len() - 1], &[k[k.len() - 2]]].concat();
    let mut mask = given.broadcast_to(&scores);
    if mask.layout.strides[scores.len() - 1] > 1 {
        mask = b.contiguous(given).broadcast_to(&scores);
    }
    let rows = HeadRows::new(&mask.layout);
    places.push(mask);
    Some(rows)
}

/// Returns `x` with contiguous rows, copied if necessary.
fn side_by_side(b: &mut TaskBuilder, x: &View) -> View {
    let last = x.rank() - 1;
    match x.layout.strides[last] == 1 || x.shape()[last] == 1 {
        true => x.clone(),
        false => b.contiguous(x),
    }
}
