//! Watches of recorded ops: traces of nodes, modes of evaluation, and the search for NaN and infinity.

mod anomaly;
mod context;
mod lines;
mod log;
mod modes;
mod node;

pub use anomaly::detect_anomaly;
pub(crate) use anomaly::in_backward;
pub(crate) use context::on_log;
pub use context::{TraceContext, TraceHandle};
pub(crate) use lines::{line_of_op, note_line_of_ops, with_lines};
pub(crate) use log::leaf;
pub use modes::Mode;
pub(crate) use modes::{ModeGraph, active_mode, enter, join_graph, leave};
pub use node::{Attribute, NodeId, NodeOutput, TraceNode};

use crate::Result;
use crate::graph::recording::{Watch, watches};
use crate::graph::run;
use crate::graph::value::{NEVER, Shared};
use std::panic::Location;

/// Notes an op with these results. Returns whether the results have been computed.
///
/// # Errors
///
/// If the results are computed and that fails, or an element is not finite while this is watched for.
#[cold]
pub(crate) fn recorded(outs: &[Shared]) -> Result<bool> {
    if watches(Watch::Trace) {
        on_log(|log| log.record(outs));
    }
    if outs[0].depth() == NEVER {
        return Ok(false);
    }
    let searched = watches(Watch::Anomaly);
    let computed = searched || watches(Watch::OpByOp);
    if computed {
        let op = searched.then(|| anomaly::op_of(outs));
        run::realise(outs)?;
        if let Some(op) = op {
            anomaly::search(outs, op)?;
        }
    }
    if watches(Watch::Graph) {
        modes::note(outs);
    }
    Ok(computed)
}

/// Notes that the value `fresh` stands for `of`, so that ops on it are ops on the node of `of`.
#[cold]
pub(crate) fn stands_for(fresh: &Shared, of: &Shared) {
    if watches(Watch::Trace) {
        on_log(|log| log.alias(fresh, of));
    }
}

/// Notes the line of the user's call that recorded the latest nodes.
#[cold]
pub(crate) fn note_line(at: &'static Location<'static>) {
    let at = (!lines::is_of_transforms(at)).then_some(at);
    if watches(Watch::Trace) {
        on_log(|log| log.locate(at));
    }
    note_line_of_ops(at);
}

/// Notes the place of the user's call that made a transform, for ops that it has recorded last. Nodes of traces have no such
/// line, because the transform may be called elsewhere.
pub(crate) fn note_transform(at: &'static Location<'static>) {
    if !lines::is_of_transforms(at) {
        note_line_of_ops(Some(at));
    }
}

/// Notes that the latest nodes have no line: a derivative or a traced function recorded them.
#[cold]
pub(crate) fn note_no_line() {
    if watches(Watch::Trace) {
        on_log(|log| log.locate(None));
    }
}
