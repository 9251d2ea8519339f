//! Where a value of a plan is.

use crate::DType;
use crate::layout::Layout;

/// A value of a plan: elements of a root, in the order of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The leaf, the constant or the result of a kernel that has the elements.
    pub(super) root: u32,
    pub(super) dtype: DType,
    pub(crate) layout: Layout,
}

impl Place {
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    /// Other elements of the same root, or the same in another order.
    pub(crate) fn with(&self, layout: Layout) -> Place {
        Place { layout, ..*self }
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Place {
        self.with(self.layout.permute(axes))
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Place {
        self.with(self.layout.broadcast_to(shape))
    }

    /// `len` of the indices from `start` along `axis`.
    pub(crate) fn narrow(&self, axis: usize, start: usize, len: usize) -> Place {
        self.with(self.layout.narrow(axis, start, len, 1))
    }
}
