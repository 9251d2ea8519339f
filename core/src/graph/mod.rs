//! The lazy graph: values, the ops and calls that promise them, and their computation.

pub(crate) mod call_node;
pub(crate) mod cut_program;
pub(crate) mod engine;
pub(crate) mod handle;
mod partial;
pub(crate) mod pending;
pub(crate) mod recorded_numbers;
pub(crate) mod recording;
pub(crate) mod run;
pub(crate) mod seq_no;
pub(crate) mod to_program;
pub(crate) mod topo;
pub(crate) mod trace_scope;
pub(crate) mod value;
