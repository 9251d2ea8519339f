//! The search for the first NaN or infinity that an op produces.

use crate::error::{Anomaly, Phase};
use crate::graph::engine::Engine;
use crate::graph::recording::{Watch, watching};
use crate::graph::value::{Producer, Shared, State, Value};
use crate::{Error, Result};
use gradloom_ir::Op;
use gradloom_kernels::memory::Buffer;
use std::cell::Cell;

thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Forward) };
}

/// Runs `f`, whose ops are those of a pullback.
pub(crate) fn in_backward<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the phase, even if `f` panics.
    struct PhaseGuard(Phase);
    impl Drop for PhaseGuard {
        fn drop(&mut self) {
            PHASE.set(self.0);
        }
    }
    let _before = PhaseGuard(PHASE.replace(Phase::Backward));
    f()
}

/// Runs `f` and fails at the first op whose result has a NaN or an infinity that its operands do not explain.
///
/// Each op of this thread is evaluated alone, as soon as it is recorded, those inside of traced functions and
/// of derivatives included. So `f` is slower, and its results have the same bits. The error names the op, the
/// index of the first such element, the pass (forward or backward), and the line of the call.
///
/// An infinity is not an anomaly if the op has no operands, or if an element that it is computed from is infinite, as
/// the `-inf` of a mask. For an op that is not elementwise, such as a sum or a product of matrices, any infinite element
/// of an operand counts, so an overflow beside one is not found. A NaN in a tensor that `f` was given is an anomaly.
///
/// ```should_panic
/// use gradloom::{Tensor, detect_anomaly};
///
/// let x = Tensor::from([1.0f32, 0.0]);
/// // Panics: `log` gave -inf at [1], in the forward pass.
/// detect_anomaly(|| (x.log() * 2.0).sum(..));
/// ```
///
/// # Panics
///
/// With [`Error::Anomaly`](crate::Error::Anomaly), at the line of the call. It is an `Err` inside of a function that returns `Result` and is
/// traced or differentiated.
pub fn detect_anomaly<R>(f: impl FnOnce() -> R) -> R {
    watching(Watch::Anomaly, f)
}

/// An op that was recorded, with its operands.
pub(super) struct Recorded {
    op: Op,
    /// The name of the op, or of the user's code that it runs.
    name: String,
    operands: Vec<Shared>,
}

/// Returns the op with these results.
pub(super) fn op_of(outs: &[Shared]) -> Recorded {
    let engine = Engine::lock();
    let of = |value: &Value, operands: &[Shared]| {
        let mut statics = value.more.iter().flat_map(|more| &more.statics);
        let code = statics.find_map(|value| value.code().map(|code| code.get().name()));
        Recorded {
            op: value.op,
            name: code.unwrap_or_else(|| value.op.def().name().to_owned()),
            operands: operands.to_vec(),
        }
    };
    match outs[0].producer(&engine.edges) {
        Producer::Op(args) => of(&outs[0], args),
        Producer::Part(op, _) => of(op, op.operands(&engine.edges)),
        Producer::Nothing => of(&outs[0], &[]),
    }
}

/// Searches the computed results of an op.
pub(super) fn search(outs: &[Shared], of: Recorded) -> Result<()> {
    let Recorded { op, name, operands } = of;
    let operands = &operands[..];
    if operands.is_empty() {
        return Ok(());
    }
    for out in outs {
        let nan = first_of(out, |_, x| x.is_nan());
        let has_nan = |x: &Shared| first_of(x, |_, x| x.is_nan()).is_some();
        let (index, found, operand) = match nan {
            Some((index, nan)) => (index, nan, operands.iter().position(has_nan)),
            None => match first_infinity(out, op, operands) {
                Some((index, found)) => (index, found, None),
                None => continue,
            },
        };
        // A NaN of an operand is that of a tensor from outside: the op that computed it would have failed.
        let (index, of) = match operand {
            Some(i) => {
                let given = first_of(&operands[i], |_, x| x.is_nan());
                (given.map_or(index, |(index, _)| index), &operands[i])
            }
            None => (index, out),
        };
        return Err(Error::Anomaly(Box::new(Anomaly {
            op: name,
            operand,
            found: found.to_string(),
            index: unravel(index, of.aval.physical_shape()),
            aval: of.aval.clone(),
            phase: PHASE.get(),
            at: None,
        })));
    }
    Ok(())
}

/// Returns the first infinite element of a result that no operand explains, with its index.
///
/// The element of an elementwise op is explained by the elements that it is computed from, and that of another op by
/// any element.
fn first_infinity(out: &Shared, op: Op, operands: &[Shared]) -> Option<(usize, f64)> {
    let first = first_of(out, |_, x| x.is_infinite())?;
    if !op.def().facts().elementwise {
        let is_infinite = |x: &Shared| first_of(x, |_, x| x.is_infinite()).is_some();
        return match operands.iter().any(is_infinite) {
            true => None,
            false => Some(first),
        };
    }
    let shape = out.aval.physical_shape();
    let operands: Vec<Vec<f64>> = operands.iter().map(|x| floats(x, shape)).collect();
    let explained = |i: usize| {
        operands
            .iter()
            .any(|x| x.get(i).is_some_and(|x| x.is_infinite()))
    };
    first_of(out, |i, x| x.is_infinite() && !explained(i))
}

/// Returns the elements of a computed float, repeated for a shape. Other values have none.
fn floats(value: &Shared, shape: &[usize]) -> Vec<f64> {
    let own = value.aval.physical_shape();
    let missing = shape.len().saturating_sub(own.len());
    let mut all = Vec::new();
    let _ = first_of(value, |_, x| {
        all.push(x);
        false
    });
    let at = |i: usize| {
        let index = unravel(i, shape);
        let along = own.iter().zip(&index[missing..]);
        along.fold(0, |at, (len, i)| at * len + if *len == 1 { 0 } else { *i })
    };
    match all.is_empty() || own == shape {
        true => all,
        false => (0..shape.iter().product()).map(|i| all[at(i)]).collect(),
    }
}

/// Returns the first element for which `is` holds, with its index, if the value is a computed float.
fn first_of(value: &Shared, mut is: impl FnMut(usize, f64) -> bool) -> Option<(usize, f64)> {
    let State::Ready(buffer) = value.state() else {
        return None;
    };
    match &**buffer {
        Buffer::F32(all) => all
            .iter()
            .map(|x| f64::from(*x))
            .enumerate()
            .find(|(i, x)| is(*i, *x)),
        Buffer::F64(all) => all.iter().copied().enumerate().find(|(i, x)| is(*i, *x)),
        Buffer::BF16(all) => all
            .iter()
            .map(|x| x.to_f64())
            .enumerate()
            .find(|(i, x)| is(*i, *x)),
        Buffer::F16(all) => all
            .iter()
            .map(|x| x.to_f64())
            .enumerate()
            .find(|(i, x)| is(*i, *x)),
        Buffer::I32(_) | Buffer::I64(_) | Buffer::I8(_) | Buffer::U8(_) | Buffer::Bool(_) => None,
    }
}

/// Returns the index along each axis of an element in row-major order.
fn unravel(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|len| {
            let along = element % len;
            element /= len;
            along
        })
        .collect();
    index.reverse();
    index
}
