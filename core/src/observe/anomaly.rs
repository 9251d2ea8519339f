//! The search for the first NaN or infinity that an op produces.

use crate::error::{Anomaly, Phase};
use crate::graph::engine::Engine;
use crate::graph::recording::{Watch, watching};
use crate::graph::value::{Producer, Shared, State};
use crate::{Error, Result};
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
/// An infinity is not an anomaly if an operand has one, as the `-inf` of a mask, or if the op has no operands. A
/// NaN in a tensor that `f` was given is one.
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

/// Returns the name of the op with these results, and its operands.
pub(super) fn op_of(outs: &[Shared]) -> (&'static str, Vec<Shared>) {
    let engine = Engine::lock();
    match outs[0].producer(&engine.edges) {
        Producer::Op(args) => (outs[0].op.def().name(), args.to_vec()),
        Producer::Part(op, _) => (op.op.def().name(), op.operands(&engine.edges).to_vec()),
        Producer::Nothing => ("", Vec::new()),
    }
}

/// Searches the computed results of an op.
pub(super) fn search(outs: &[Shared], op: &'static str, operands: &[Shared]) -> Result<()> {
    if operands.is_empty() {
        return Ok(());
    }
    for out in outs {
        let Some((index, found)) = first_of(out, |x| !x.is_finite()) else {
            continue;
        };
        let nan = first_of(out, f64::is_nan);
        let explained =
            |is: fn(f64) -> bool| operands.iter().position(|x| first_of(x, is).is_some());
        let (index, found, operand) = match nan {
            Some((index, nan)) => (index, nan, explained(f64::is_nan)),
            None if explained(f64::is_infinite).is_some() => continue,
            None => (index, found, None),
        };
        // A NaN of an operand is that of a tensor from outside: the op that computed it would have failed.
        let (index, of) = match operand {
            Some(i) => {
                let given = first_of(&operands[i], f64::is_nan);
                (given.map_or(index, |(index, _)| index), &operands[i])
            }
            None => (index, out),
        };
        return Err(Error::Anomaly(Box::new(Anomaly {
            op,
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

/// Returns the first element for which `is` holds, with its index, if the value is a computed float.
fn first_of(value: &Shared, is: impl Fn(f64) -> bool) -> Option<(usize, f64)> {
    let State::Ready(buffer) = value.state() else {
        return None;
    };
    match &**buffer {
        Buffer::F32(all) => all
            .iter()
            .map(|x| f64::from(*x))
            .enumerate()
            .find(|(_, x)| is(*x)),
        Buffer::F64(all) => all.iter().copied().enumerate().find(|(_, x)| is(*x)),
        Buffer::I32(_) | Buffer::I64(_) | Buffer::Bool(_) => None,
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
