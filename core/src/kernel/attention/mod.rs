//! Attention, its Jacobian and the transpose of that, in blocks of queries and keys.
//!
//! The matrix of weights is never materialised. The softmax is computed online while the keys are
//! processed, relative to the greatest score so far (Milakov, Gimelshein: Online normalizer
//! calculation for softmax, 2018). Derivatives recompute the weights from the log-sum-exp of each
//! query (Dao et al.: FlashAttention, 2022, arXiv:2205.14135). Block boundaries and the order of
//! sums depend on shapes alone.

mod block;
mod cotangent;
mod forward;
mod heads;
mod mask;
mod room;
mod tangent;

use super::data::Data;
use super::memory::Prepared;
use crate::Aval;
use crate::dtype::Element;
use crate::layout::numel;
use crate::plan::{Build, Place};
use block::Real;
use cotangent::n_parts;
use gradloom_ir::{Op, Static};
use heads::{Given, Heads, Rows};
use mask::Mask;

/// Lowers `attention`: `softmax(q k^T / sqrt(d)) v`.
pub(super) fn attention<T: Real>(
    b: &mut Build,
    args: &[Place],
    causal: &Static,
    out: &Aval,
) -> Place {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let mut places: Vec<Place> = args[..3].iter().map(|x| side_by_side(b, x)).collect();
    let [q, k, v] = [0, 1, 2].map(|i| Rows::new(&places[i].layout));
    let masked = mask(b, args, 3, &mut places);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [of_q, of_k, of_v] = [0, 1, 2].map(|i| T::slice(args[i]));
        let mask = seen(&masked, args, 3);
        let [out, lse] = outs else {
            unreachable!("the results are the output and the log-sum-exp of each query")
        };
        let values = Some(((of_v, &v), T::slice_mut(out)));
        let lse = T::slice_mut(lse);
        forward::run(&heads, [(of_q, &q), (of_k, &k)], mask, values, lse);
        Ok(())
    });
    let shape = out.shape();
    let lse = Aval::new(out.dtype(), &shape[..shape.len() - 1]);
    let of: Vec<&Place> = places.iter().collect();
    let made = b.strided_kernels(&of, &[out.clone(), lse], kernel);
    // Derivatives look it up as the result of the op `attention_lse`.
    b.gives_along(
        Op::AttentionLse,
        std::slice::from_ref(causal),
        &[&args[..2], &args[3..]].concat(),
        &made[1],
    );
    made[0].clone()
}

/// Lowers `attention_lse`: `log sum exp(q k^T / sqrt(d))`.
pub(super) fn attention_lse<T: Real>(
    b: &mut Build,
    args: &[Place],
    causal: &Static,
    out: &Aval,
) -> Place {
    if let Some(place) = b.given_along(Op::AttentionLse, std::slice::from_ref(causal), args) {
        return place;
    }
    let heads = heads(args, None, causal);
    let mut places: Vec<Place> = args[..2].iter().map(|x| side_by_side(b, x)).collect();
    let [q, k] = [0, 1].map(|i| Rows::new(&places[i].layout));
    let masked = mask(b, args, 2, &mut places);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [of_q, of_k] = [0, 1].map(|i| T::slice(args[i]));
        let mask = seen(&masked, args, 2);
        let lse = T::slice_mut(&mut outs[0]);
        forward::run(&heads, [(of_q, &q), (of_k, &k)], mask, None, lse);
        Ok(())
    });
    let places: Vec<&Place> = places.iter().collect();
    b.strided_kernel(&places, out, kernel)
}

/// Lowers `attention_jvp`: the tangent of the result, from the active tangents of queries, keys and
/// values.
pub(super) fn attention_jvp<T: Real>(
    b: &mut Build,
    args: &[Place],
    [causal, active]: [&Static; 2],
    out: &Aval,
) -> Place {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let (mut places, given) = given(b, &args[..args.len() - numbers(active).count()]);
    let mut at = [None, None, None];
    let tangents = &args[places.len()..];
    for (i, dx) in numbers(active).zip(tangents) {
        let dx = side_by_side(b, dx);
        at[i] = Some((places.len(), Rows::new(&dx.layout)));
        places.push(dx);
    }
    let kernel: Prepared = Box::new(move |args, outs| {
        let of = given.of(args);
        let dx = at.each_ref().map(|at| {
            let (i, rows) = at.as_ref()?;
            Some((T::slice(args[*i]), rows))
        });
        tangent::run(&heads, &of, dx, T::slice_mut(&mut outs[0]));
        Ok(())
    });
    let places: Vec<&Place> = places.iter().collect();
    b.strided_kernel(&places, out, kernel)
}

/// Lowers `attention_vjp`: the active cotangents of queries, keys and values, from that of the
/// result.
pub(super) fn attention_vjp<T: Real>(
    b: &mut Build,
    args: &[Place],
    [causal, active]: [&Static; 2],
    outs: &[Aval],
) -> Vec<Place> {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let (ct, before) = args
        .split_last()
        .expect("the last operand is the cotangent");
    let (mut places, given) = given(b, before);
    let (n_given, ct) = (places.len(), side_by_side(b, ct));
    let ct_rows = Rows::new(&ct.layout);
    places.push(ct);
    let wanted = [0, 1, 2].map(|i| numbers(active).any(|n| n == i));
    // The partial sums of the cotangents of keys and values, for all parts of a head but the first.
    let more = n_parts(&heads) - 1;
    let mut avals = outs.to_vec();
    for (_, out) in numbers(active).zip(outs).filter(|(i, _)| *i > 0) {
        avals.push(Aval::new(out.dtype(), [more * numel(out.shape())]));
    }
    let kernel: Prepared = Box::new(move |args, outs| {
        let of = given.of(args);
        let n_wanted = wanted.iter().filter(|w| **w).count();
        let (cts, others) = outs.split_at_mut(n_wanted);
        let (mut cts, mut others) = (cts.iter_mut(), others.iter_mut());
        let mut next =
            |wanted: bool| wanted.then(|| T::slice_mut(cts.next().expect("one result each")));
        let ct_q = next(wanted[0]);
        let of_keys = [next(wanted[1]), next(wanted[2])];
        let of_keys = of_keys.map(|ct| {
            let ct = ct?;
            Some((ct, T::slice_mut(others.next().expect("one buffer each"))))
        });
        let ct = (T::slice(args[n_given]), &ct_rows);
        cotangent::run(&heads, &of, ct, ct_q, of_keys);
        Ok(())
    });
    let places: Vec<&Place> = places.iter().collect();
    let mut made = b.strided_kernels(&places, &avals, kernel);
    made.truncate(outs.len());
    made
}

/// Returns the sizes, from the shapes of queries, keys and values.
fn heads(of: &[Place], values: Option<&Place>, causal: &Static) -> Heads {
    let (q, k) = (of[0].shape(), of[1].shape());
    let rank = q.len();
    Heads {
        n: numel(&q[..rank - 2]),
        queries: q[rank - 2],
        keys: k[rank - 2],
        features: q[rank - 1],
        of_values: values.map_or(0, |v| v.shape()[rank - 1]),
        causal: causal.bool().expect("the shape rule checks `causal`"),
    }
}

/// Layouts of the operands that both derivatives read, the first ones of their kernels.
struct GivenAt {
    rows: [Rows; 4],
    lse: usize,
    mask: Option<Rows>,
}

/// Prepares queries, keys, values, the result, the log-sum-exp and the optional mask.
fn given(b: &mut Build, args: &[Place]) -> (Vec<Place>, GivenAt) {
    let mut places: Vec<Place> = args[..4].iter().map(|x| side_by_side(b, x)).collect();
    let rows = [0, 1, 2, 3].map(|i| Rows::new(&places[i].layout));
    let lse = b.contiguous(&args[4]);
    let offset = lse.layout.offset;
    places.push(lse);
    let mask = mask(b, args, 5, &mut places);
    let given = GivenAt {
        rows,
        lse: offset,
        mask,
    };
    (places, given)
}

impl GivenAt {
    fn of<'a, T: Real>(&'a self, args: &[Data<'a>]) -> Given<'a, T> {
        Given {
            rows: &self.rows,
            data: [0, 1, 2, 3].map(|i| T::slice(args[i])),
            lse: &T::slice(args[4])[self.lse..],
            mask: seen(&self.mask, args, 5),
        }
    }
}

/// Adds the optional mask, operand `at`, to the operands of a kernel, and returns its rows, one per
/// query.
///
/// A repeated dimension of the mask is not materialised.
fn mask(b: &mut Build, args: &[Place], at: usize, places: &mut Vec<Place>) -> Option<Rows> {
    let given = args.get(at)?;
    let (q, k) = (args[0].shape(), args[1].shape());
    let scores = [&q[..q.len() - 1], &[k[k.len() - 2]]].concat();
    let mut mask = given.broadcast_to(&scores);
    if mask.layout.strides[scores.len() - 1] > 1 {
        mask = b.contiguous(given).broadcast_to(&scores);
    }
    let rows = Rows::new(&mask.layout);
    places.push(mask);
    Some(rows)
}

/// Returns the mask, operand `at` of a kernel.
fn seen<'a>(rows: &'a Option<Rows>, args: &[Data<'a>], at: usize) -> Option<Mask<'a>> {
    let rows = rows.as_ref()?;
    let data = bool::slice(args[at]);
    Some(Mask { data, rows })
}

/// Returns `x` with contiguous rows, copied if necessary.
fn side_by_side(b: &mut Build, x: &Place) -> Place {
    let last = x.rank() - 1;
    match x.layout.strides[last] == 1 || x.shape()[last] == 1 {
        true => x.clone(),
        false => b.contiguous(x),
    }
}

/// Returns the entries of the static argument `active`.
fn numbers(active: &Static) -> impl Iterator<Item = usize> {
    let numbers = active.ints().expect("the shape rule checks `active`");
    numbers.iter().map(|i| *i as usize)
}
