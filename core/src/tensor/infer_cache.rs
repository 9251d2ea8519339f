//! Memoised shape and dtype inference: a program repeats the same ops.

use crate::graph::value::OpData;
use crate::{Aval, Result, Tensor};
use gradloom_ir::{self as ir, Op, Static};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Static arguments of an op.
pub(crate) type Statics = SmallVec<[Static; 1]>;

/// Result of inference for an op with one result.
#[derive(Clone)]
pub(crate) struct Inferred {
    /// Aval of the result.
    pub(crate) out: Aval,
    /// Statics and like operands, if there are any. Equal ops share them.
    pub(crate) more: Option<Arc<OpData>>,
}

/// Entry of the memo table: an op with the avals of its operands, and the inferred result.
struct Entry {
    op: Op,
    data: SmallVec<[Aval; 2]>,
    inferred: Inferred,
}

/// Number of entries of the table of a thread.
const SLOTS: usize = 128;

/// Limits of memoised ops: those with more operands, or longer statics, are inferred each time.
const MOST_OPERANDS: usize = 8;
const MOST_WORDS: usize = 64;

thread_local! {
    static CACHE: RefCell<Vec<Option<Entry>>> = const { RefCell::new(Vec::new()) };
}

/// Infers the result of `out = op[statics] data, likes`, using the table of this thread. Takes the statics unless it fails.
pub(crate) fn infer_one(
    op: Op,
    statics: &mut Statics,
    data: &[&Tensor],
    likes: &[&Aval],
) -> Result<Inferred> {
    let slot = slot(op, statics, data, likes);
    let known = CACHE.try_with(|entry| {
        let entry = entry.try_borrow().ok()?;
        let entry = entry.get(slot)?.as_ref()?;
        entry
            .is(op, statics, data, likes)
            .then(|| entry.inferred.clone())
    });
    if let Ok(Some(inferred)) = known {
        return Ok(inferred);
    }
    let refers_to_code = statics.first().is_some_and(|value| value.code().is_some());
    let out = infer(op, statics, data, likes, 1)?.remove(0);
    let more = (!statics.is_empty() || !likes.is_empty()).then(|| {
        let likes = likes.iter().map(|l| (*l).clone()).collect();
        Arc::new(OpData::new(std::mem::take(statics), likes, Box::default()))
    });
    let inferred = Inferred { out, more };
    let words = inferred.more.as_ref().map_or(0, |more| more.words.len());
    // Memoised host code would outlive its last user.
    if data.len() > MOST_OPERANDS || words > MOST_WORDS || refers_to_code {
        return Ok(inferred);
    }
    let answer = Entry {
        op,
        data: data.iter().map(|x| x.aval().clone()).collect(),
        inferred: inferred.clone(),
    };
    // Thread-locals are gone while a thread exits; then nothing is memoised.
    let _ = CACHE.try_with(|entry| {
        if let Ok(mut entry) = entry.try_borrow_mut() {
            entry.resize_with(SLOTS, || None);
            entry[slot] = Some(answer);
        }
    });
    Ok(inferred)
}

impl Entry {
    fn is(&self, op: Op, statics: &[Static], data: &[&Tensor], likes: &[&Aval]) -> bool {
        let (s, l): (&[Static], &[Aval]) = match &self.inferred.more {
            Some(more) => (&more.statics, &more.likes),
            None => (&[], &[]),
        };
        self.op == op
            && (self.data.len(), l.len(), s.len()) == (data.len(), likes.len(), statics.len())
            && self.data.iter().zip(data).all(|(a, x)| a == x.aval())
            && l.iter().zip(likes).all(|(a, b)| a == *b)
            && s == statics
    }
}

/// Returns the index of the entry for an op.
fn slot(op: Op, statics: &[Static], data: &[&Tensor], likes: &[&Aval]) -> usize {
    /// Odd constant with well-mixed bits.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(7) ^ word).wrapping_mul(FACTOR);
    let mut hash = mix(op as u64, data.len() as u64);
    for statik in statics {
        hash = match statik {
            Static::Int(n) => mix(hash, *n as u64),
            Static::Float(x) => mix(hash, x.to_bits()),
            Static::Ints(all) => all.iter().fold(hash, |hash, n| mix(hash, *n as u64)),
            _ => hash,
        };
    }
    for x in data {
        hash = mix(hash, x.aval().digest());
    }
    for like in likes {
        hash = mix(hash, like.digest());
    }
    // The high bits depend on all inputs.
    (hash >> 32) as usize % SLOTS
}

/// Infers the avals of the results by the rules of the op.
pub(crate) fn infer(
    op: Op,
    statics: &[Static],
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Result<Vec<Aval>> {
    let avals = data.iter().map(|x| x.aval()).chain(likes.iter().copied());
    let avals: SmallVec<[ir::Aval; 3]> = avals.map(Aval::to_ir).collect();
    let args: SmallVec<[&ir::Aval; 3]> = avals.iter().collect();
    let outs = op.infer(statics, &args, n_outs)?;
    Ok(outs.iter().map(Aval::from_ir).collect())
}

#[cfg(test)]
mod tests {
    use super::{Statics, infer_one};
    use crate::{Aval, DType, Tensor};
    use gradloom_ir::{Op, Static};
    use std::sync::Arc;

    #[test]
    fn equal_ops_share_their_statics_and_others_do_not() {
        let like = Aval::new(DType::F32, [2, 3]);
        let number = |x: f64, like: &Aval| {
            let mut statics: Statics = [Static::Float(x)].into_iter().collect();
            infer_one(Op::Scalar, &mut statics, &[], &[like])
                .unwrap()
                .more
                .unwrap()
        };
        let zero = number(0.0, &like);
        assert!(Arc::ptr_eq(&zero, &number(0.0, &like)));
        let longer = Aval::new(DType::F32, [2, 4]);
        for other in [number(-0.0, &like), number(0.0, &longer)] {
            assert_ne!(other.words, zero.words);
        }
        assert!(Arc::ptr_eq(&zero, &number(0.0, &like)));
    }

    #[test]
    fn an_error_is_returned_each_time() {
        let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32]));
        let product = || {
            infer_one(
                Op::Matmul,
                &mut Statics::new(),
                &[&x, &y],
                &[x.aval(), y.aval()],
            )
        };
        assert!(product().is_err() && product().is_err());
    }
}
