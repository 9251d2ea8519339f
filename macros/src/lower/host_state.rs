//! Host code around the blocks.

use super::blocks::FlowState;

/// State of the host code around the open block.
#[derive(Clone, Default)]
pub(super) struct HostState {
    /// True while a static argument is lowered, where a place is a host value.
    pub(super) reads_places: bool,
    /// Blocks so far, if the body may have control flow.
    pub(super) flow: Option<FlowState>,
}
