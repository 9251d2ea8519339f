//! Values of a plan, as views of storage.

use crate::DType;
use gradloom_kernels::elementwise::Source;
use gradloom_kernels::memory::Layout;
use gradloom_kernels::movement::placed::Placed;

/// A value of a plan: a view of the elements of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Index of the root: a leaf, a constant or a result of a kernel.
    pub(crate) root: u32,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

/// Operand of a group: a view, or the elements of one in other places.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) view: View,
    pub(crate) placed: Option<Placed>,
}

impl From<View> for Operand {
    fn from(view: View) -> Operand {
        Operand { view, placed: None }
    }
}

impl Operand {
    /// Returns the view, if the operand is one.
    pub(crate) fn as_view(&self) -> Option<&View> {
        self.placed.is_none().then_some(&self.view)
    }

    pub(crate) fn source(&self) -> (DType, Source) {
        let source = match &self.placed {
            None => Source::View(self.view.layout.clone()),
            Some(placed) => Source::Placed(placed.clone()),
        };
        (self.view.dtype, source)
    }
}

impl From<View> for Vec<View> {
    fn from(view: View) -> Vec<View> {
        vec![view]
    }
}

impl View {
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    /// Returns another view of the same root.
    pub(crate) fn with(&self, layout: Layout) -> View {
        View { layout, ..*self }
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> View {
        self.with(self.layout.permute(axes))
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> View {
        self.with(self.layout.broadcast_to(shape))
    }

    /// Selects `len` indices from `start` on along `axis`.
    pub(crate) fn narrow(&self, axis: usize, start: usize, len: usize) -> View {
        self.with(self.layout.narrow(axis, start, len, 1))
    }
}
