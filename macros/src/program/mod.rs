//! Result of lowering a body, from which the tokens are emitted.

pub(crate) mod checkpoint;
mod flow;
mod names;
mod straight;

pub(crate) use flow::{Declaration, HostCode, LoweredFlow, Piece, Store};
pub(crate) use names::{at, ident_of, ours};
pub(crate) use straight::{Call, CallArg, Callee, HostStmt, Input, LoweredProgram, Source};

/// Result of lowering a body.
#[derive(Debug)]
pub(crate) enum Body {
    /// Straight-line program.
    Straight(Box<LoweredProgram>),
    /// Programs under host control flow.
    Flow(Box<LoweredFlow>),
    /// The body is traced at run time, for the reason given.
    Recorded(String),
}
