//! State of the lowering: four parts, and the values that locals have.

pub(in crate::lower) mod block_builder;
pub(in crate::lower) mod diagnostics;
pub(in crate::lower) mod host_state;
pub(in crate::lower) mod kinds;
pub(in crate::lower) mod names;
pub(in crate::lower) mod scope;
pub(in crate::lower) mod value;
