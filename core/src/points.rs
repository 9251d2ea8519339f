//! Hooks of trace points, which do nothing without the feature `trace`.

#[cfg(not(feature = "trace"))]
use crate::Tensor;

#[cfg(feature = "trace")]
pub(crate) use crate::dump::{NotedPoint, PointLabel, PointNotes, is_tracing, label_of};

/// A value with a name that a trace has met.
#[cfg(not(feature = "trace"))]
pub(crate) type NotedPoint = (Tensor, PointLabel);

/// Name and context of a point. There is none.
#[cfg(not(feature = "trace"))]
#[derive(Clone, Debug)]
pub(crate) enum PointLabel {}

#[cfg(not(feature = "trace"))]
impl PointLabel {
    pub(crate) fn dump_cotangent(&self, _: &Tensor) {
        match *self {}
    }
}

/// Returns the label of a value of a graph. There is none.
#[cfg(not(feature = "trace"))]
pub(crate) const fn label_of(_: &Tensor) -> Option<PointLabel> {
    None
}

/// The points that a trace meets. There are none.
#[cfg(not(feature = "trace"))]
pub(crate) enum PointNotes {}

#[cfg(not(feature = "trace"))]
impl PointNotes {
    pub(crate) const fn begin() -> Option<PointNotes> {
        None
    }

    pub(crate) fn take(&self) -> Vec<NotedPoint> {
        match *self {}
    }
}

/// Returns whether trace points are written on this thread.
#[cfg(not(feature = "trace"))]
pub(crate) const fn is_tracing() -> bool {
    false
}
