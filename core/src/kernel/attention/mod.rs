//! Attention, its derivative and the transpose of that, by blocks of queries and keys: no weights are kept, and no matrix has
//! a row for each query and a column for each key.
//!
//! The softmax is made while the keys go by, from the greatest score so far (Milakov, Gimelshein: Online normalizer
//! calculation for softmax, 2018); derivatives make the weights again from the logarithms of the sums of exponentials
//! (Dao et al.: FlashAttention, 2022, arXiv:2205.14135). Blocks are cut, and sums are ordered, by shapes alone.

mod block;
mod cotangent;
mod forward;
mod heads;
mod room;
mod tangent;

use super::memory::Prepared;
use crate::Aval;
use crate::layout::numel;
use crate::plan::{Build, Place};
use block::Real;
use cotangent::n_parts;
use gradloom_ir::{Op, Static};
use heads::{Given, Heads, Rows};

/// `softmax(q k^T / sqrt(d)) v`
pub(super) fn attention<T: Real>(
    b: &mut Build,
    args: &[Place],
    causal: &Static,
    out: &Aval,
) -> Place {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let places = [0, 1, 2].map(|i| side_by_side(b, &args[i]));
    let [q, k, v] = places.each_ref().map(|x| Rows::new(&x.layout));
    let kernel: Prepared = Box::new(move |args, outs| {
        let [of_q, of_k, of_v] = [0, 1, 2].map(|i| T::slice(args[i]));
        let [out, lse] = outs else {
            unreachable!("the result, and a number for each query")
        };
        let values = Some(((of_v, &v), T::slice_mut(out)));
        forward::run(&heads, [(of_q, &q), (of_k, &k)], values, T::slice_mut(lse));
        Ok(())
    });
    let shape = out.shape();
    let lse = Aval::new(out.dtype(), &shape[..shape.len() - 1]);
    let made = b.strided_kernels(&places.each_ref(), &[out.clone(), lse], kernel);
    // A derivative asks for it as for the result of an op of its own.
    b.gives_along(
        Op::AttentionLse,
        std::slice::from_ref(causal),
        &args[..2],
        &made[1],
    );
    made[0].clone()
}

/// `log sum exp(q k^T / sqrt(d))`
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
    let places = [0, 1].map(|i| side_by_side(b, &args[i]));
    let [q, k] = places.each_ref().map(|x| Rows::new(&x.layout));
    let kernel: Prepared = Box::new(move |args, outs| {
        let [of_q, of_k] = [0, 1].map(|i| T::slice(args[i]));
        let lse = T::slice_mut(&mut outs[0]);
        forward::run(&heads, [(of_q, &q), (of_k, &k)], None, lse);
        Ok(())
    });
    b.strided_kernel(&places.each_ref(), out, kernel)
}

/// The tangent of the result, from those of queries, keys and values that are numbered.
pub(super) fn attention_jvp<T: Real>(
    b: &mut Build,
    args: &[Place],
    [causal, active]: [&Static; 2],
    out: &Aval,
) -> Place {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let (mut places, rows) = given(b, args);
    let mut at = [None, None, None];
    for (i, dx) in numbers(active).zip(&args[5..]) {
        let dx = side_by_side(b, dx);
        at[i] = Some((places.len(), Rows::new(&dx.layout)));
        places.push(dx);
    }
    let lse = places[4].layout.offset;
    let kernel: Prepared = Box::new(move |args, outs| {
        let of = Given {
            rows: &rows,
            data: [0, 1, 2, 3].map(|i| T::slice(args[i])),
            lse: &T::slice(args[4])[lse..],
        };
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

/// The cotangents of queries, keys and values that are numbered, from that of the result.
pub(super) fn attention_vjp<T: Real>(
    b: &mut Build,
    args: &[Place],
    [causal, active]: [&Static; 2],
    outs: &[Aval],
) -> Vec<Place> {
    let heads = heads(&args[..2], Some(&args[2]), causal);
    let (mut places, rows) = given(b, args);
    let ct = side_by_side(b, &args[5]);
    let ct_rows = Rows::new(&ct.layout);
    places.push(ct);
    let wanted = [0, 1, 2].map(|i| numbers(active).any(|n| n == i));
    // What the tasks after the first of each head add to the cotangents of keys and values.
    let more = n_parts(&heads) - 1;
    let mut avals = outs.to_vec();
    for (_, out) in numbers(active).zip(outs).filter(|(i, _)| *i > 0) {
        avals.push(Aval::new(out.dtype(), [more * numel(out.shape())]));
    }
    let lse = places[4].layout.offset;
    let kernel: Prepared = Box::new(move |args, outs| {
        let of = Given {
            rows: &rows,
            data: [0, 1, 2, 3].map(|i| T::slice(args[i])),
            lse: &T::slice(args[4])[lse..],
        };
        let n_wanted = wanted.iter().filter(|w| **w).count();
        let (cts, others) = outs.split_at_mut(n_wanted);
        let (mut cts, mut others) = (cts.iter_mut(), others.iter_mut());
        let mut next = |wanted: bool| wanted.then(|| T::slice_mut(cts.next().expect("one each")));
        let ct_q = next(wanted[0]);
        let of_keys = [next(wanted[1]), next(wanted[2])];
        let of_keys = of_keys.map(|ct| {
            let ct = ct?;
            Some((ct, T::slice_mut(others.next().expect("one each"))))
        });
        cotangent::run(&heads, &of, (T::slice(args[5]), &ct_rows), ct_q, of_keys);
        Ok(())
    });
    let places: Vec<&Place> = places.iter().collect();
    let mut made = b.strided_kernels(&places, &avals, kernel);
    made.truncate(outs.len());
    made
}

/// The sizes, from queries, keys and values.
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

/// Queries, keys, values, the result and the logarithms, and where the rows of the first four lie.
fn given(b: &mut Build, args: &[Place]) -> (Vec<Place>, [Rows; 4]) {
    let rows = [0, 1, 2, 3].map(|i| side_by_side(b, &args[i]));
    let of = rows.each_ref().map(|x| Rows::new(&x.layout));
    let mut places = rows.to_vec();
    places.push(b.contiguous(&args[4]));
    (places, of)
}

/// The value with elements of a row side by side: a copy where they are not.
fn side_by_side(b: &mut Build, x: &Place) -> Place {
    let last = x.rank() - 1;
    match x.layout.strides[last] == 1 || x.shape()[last] == 1 {
        true => x.clone(),
        false => b.contiguous(x),
    }
}

/// The numbers of the static argument `active`.
fn numbers(active: &Static) -> impl Iterator<Item = usize> {
    let numbers = active.ints().expect("the shape rule checks `active`");
    numbers.iter().map(|i| *i as usize)
}
