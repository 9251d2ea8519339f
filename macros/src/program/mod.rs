//! Result of lowering a body, from which the tokens are emitted.

pub(crate) mod checkpoint;
mod flow;
mod names;
mod straight;

pub(crate) use flow::{Declaration, Flowing, HostCode, Piece, Store};
pub(crate) use names::{at, ident_of, ours};
pub(crate) use straight::{Call, CallArg, Callee, HostStmt, Input, Lowered, Source};

/// Result of lowering a body.
#[derive(Debug)]
pub(crate) enum Body {
    /// Straight-line program.
    Straight(Box<Lowered>),
    /// Programs under host control flow.
    Flow(Box<Flowing>),
    /// The body is traced at run time, for the reason given.
    Recorded(String),
}
