//! Result of lowering a body, from which the tokens are emitted.

mod block;
pub(crate) mod checkpoint;
mod flow;
mod names;

pub(crate) use block::{
    Built, Call, CallArg, Callee, Effect, HostStmt, Inline, Input, LoweredProgram, Source,
};
pub(crate) use flow::{Declaration, HostCode, LoweredFlow, NumberOperand, Numbers, Piece, Store};
pub(crate) use names::{at, ident_of, ours};

/// Result of lowering a body.
#[derive(Debug)]
pub(crate) enum Body {
    /// Programs, and the host code between them.
    Compiled(Box<LoweredFlow>),
    /// The body is traced at run time, for the reason given.
    Recorded(String),
}

impl Body {
    /// Returns the programs of the body; a body that is traced at run time has none.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &LoweredProgram> {
        let flow = match self {
            Body::Compiled(flow) => Some(flow),
            Body::Recorded(_) => None,
        };
        flow.into_iter().flat_map(|flow| flow.programs())
    }

    /// Returns the number parameters that are only operands of arithmetic with tensors.
    pub(crate) fn numbers(&self) -> Numbers {
        match self {
            Body::Compiled(flow) => flow.numbers.clone(),
            Body::Recorded(_) => Numbers::default(),
        }
    }

    /// Returns the program of a straight-line body.
    pub(crate) fn straight(&self) -> Option<&LoweredProgram> {
        match self {
            Body::Compiled(flow) => flow.straight(),
            Body::Recorded(_) => None,
        }
    }
}
