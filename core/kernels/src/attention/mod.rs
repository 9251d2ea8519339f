//! Attention, its Jacobian and the transpose of that, in blocks of queries and keys.
//!
//! The matrix of weights is never materialised. The softmax is computed online while the keys are
//! processed, relative to the greatest score so far (Milakov, Gimelshein: Online normalizer
//! calculation for softmax, 2018). Derivatives recompute the weights from the log-sum-exp of each
//! query (Dao et al.: FlashAttention, 2022, arXiv:2205.14135). Block boundaries and the order of
//! sums depend on shapes alone.
//!
//! Each function returns a kernel that gets all elements of the buffer of an operand, with the
//! layout of its rows.

mod block;
mod cotangent;
mod forward;
mod heads;
mod mask;
mod tangent;

use crate::memory::{Data, Element};
use crate::task::Prepared;
use block::AttentionFloat;
use gradloom_ir::DType;
use heads::DerivativeOperands;
pub use heads::{HeadRows, Heads};
use mask::Mask;

/// Computes `softmax(q k^T / sqrt(d)) v`: operands `q`, `k`, `v`, laid out as `rows`, and the
/// optional mask. The results are the output and the log-sum-exp of each query.
pub fn attention(
    dtype: DType,
    heads: Heads,
    rows: [HeadRows; 3],
    mask: Option<HeadRows>,
) -> Prepared {
    fn typed<T: AttentionFloat>(
        heads: Heads,
        [q, k, v]: [HeadRows; 3],
        mask: Option<HeadRows>,
    ) -> Prepared {
        Box::new(move |args, outs| {
            let [of_q, of_k, of_v] = [0, 1, 2].map(|i| T::slice(args[i]));
            let mask = seen(&mask, args, 3);
            let [out, lse] = outs else {
                unreachable!("the results are the output and the log-sum-exp of each query")
            };
            let values = Some(((of_v, &v), T::slice_mut(out)));
            let lse = T::slice_mut(lse);
            forward::run(&heads, [(of_q, &q), (of_k, &k)], mask, values, lse);
            Ok(())
        })
    }
    on_float!(dtype, typed(heads, rows, mask))
}

/// Computes `log sum exp(q k^T / sqrt(d))`: operands `q`, `k` and the optional mask.
pub fn attention_lse(
    dtype: DType,
    heads: Heads,
    rows: [HeadRows; 2],
    mask: Option<HeadRows>,
) -> Prepared {
    fn typed<T: AttentionFloat>(
        heads: Heads,
        [q, k]: [HeadRows; 2],
        mask: Option<HeadRows>,
    ) -> Prepared {
        Box::new(move |args, outs| {
            let [of_q, of_k] = [0, 1].map(|i| T::slice(args[i]));
            let mask = seen(&mask, args, 2);
            let lse = T::slice_mut(&mut outs[0]);
            forward::run(&heads, [(of_q, &q), (of_k, &k)], mask, None, lse);
            Ok(())
        })
    }
    on_float!(dtype, typed(heads, rows, mask))
}

/// Computes the tangent of the result: operands `primals`, then the active tangents of `q`, `k` and
/// `v`, each with its operand index and layout.
pub fn attention_jvp(
    dtype: DType,
    heads: Heads,
    primals: Primals,
    tangents: [Option<(usize, HeadRows)>; 3],
) -> Prepared {
    fn typed<T: AttentionFloat>(
        heads: Heads,
        primals: Primals,
        tangents: [Option<(usize, HeadRows)>; 3],
    ) -> Prepared {
        Box::new(move |args, outs| {
            let of = primals.of(args);
            let dx = tangents.each_ref().map(|tangent| {
                let (i, rows) = tangent.as_ref()?;
                Some((T::slice(args[*i]), rows))
            });
            tangent::run(&heads, &of, dx, T::slice_mut(&mut outs[0]));
            Ok(())
        })
    }
    on_float!(dtype, typed(heads, primals, tangents))
}

/// Returns how often [`attention_vjp`] needs the cotangents of keys and values beside the results,
/// for partial sums.
pub fn n_partial_sums(heads: &Heads) -> usize {
    cotangent::n_parts(heads) - 1
}

/// Computes the active cotangents of `q`, `k` and `v`: operands `primals`, then the cotangent of
/// the result, operand `ct.0`. Scratch for partial sums of `k` and `v` follows the results.
pub fn attention_vjp(
    dtype: DType,
    heads: Heads,
    primals: Primals,
    ct: (usize, HeadRows),
    active: [bool; 3],
) -> Prepared {
    fn typed<T: AttentionFloat>(
        heads: Heads,
        primals: Primals,
        (at, rows): (usize, HeadRows),
        active: [bool; 3],
    ) -> Prepared {
        Box::new(move |args, outs| {
            let of = primals.of(args);
            let n_active = active.iter().filter(|active| **active).count();
            let (cts, scratch) = outs.split_at_mut(n_active);
            let (mut cts, mut scratch) = (cts.iter_mut(), scratch.iter_mut());
            let mut next =
                |active: bool| active.then(|| T::slice_mut(cts.next().expect("one result each")));
            let ct_q = next(active[0]);
            let of_keys = [next(active[1]), next(active[2])];
            let of_keys = of_keys.map(|ct| {
                let ct = ct?;
                Some((ct, T::slice_mut(scratch.next().expect("one buffer each"))))
            });
            let ct = (T::slice(args[at]), &rows);
            cotangent::run(&heads, &of, ct, ct_q, of_keys);
            Ok(())
        })
    }
    on_float!(dtype, typed(heads, primals, ct, active))
}

/// Layouts of the operands that both derivatives read, the first ones of their kernels.
#[derive(Debug)]
pub struct Primals {
    /// Queries, keys, values and the result.
    pub rows: [HeadRows; 4],
    /// Offset of the log-sum-exps, the next operand.
    pub lse: usize,
    /// The mask, the next operand if there is one.
    pub mask: Option<HeadRows>,
}

impl Primals {
    fn of<'a, T: AttentionFloat>(&'a self, args: &[Data<'a>]) -> DerivativeOperands<'a, T> {
        DerivativeOperands {
            rows: &self.rows,
            data: [0, 1, 2, 3].map(|i| T::slice(args[i])),
            lse: &T::slice(args[4])[self.lse..],
            mask: seen(&self.mask, args, 5),
        }
    }
}

/// Returns the mask, operand `at` of a kernel.
fn seen<'a>(rows: &'a Option<HeadRows>, args: &[Data<'a>], at: usize) -> Option<Mask<'a>> {
    let rows = rows.as_ref()?;
    let data = bool::slice(args[at]);
    Some(Mask { data, rows })
}
