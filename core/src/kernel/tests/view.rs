//! Elements of a shared buffer, in the order of a layout.

use crate::DType;
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::kernel::gather::Gather;
use crate::kernel::on_element;
use crate::layout::{Layout, numel};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) buffer: Arc<Buffer>,
    pub(super) layout: Layout,
}

impl View {
    pub(super) fn new<T: Element>(data: Vec<T>, shape: &[usize]) -> View {
        assert_eq!(data.len(), numel(shape));
        View::of(Arc::new(T::into_buffer(data.into())), shape)
    }

    /// The view of a whole buffer in row-major order.
    pub(super) fn of(buffer: Arc<Buffer>, shape: &[usize]) -> View {
        View {
            buffer,
            layout: Layout::contiguous(shape),
        }
    }

    /// One number, repeated.
    pub(super) fn splat<T: Element>(value: T, shape: &[usize]) -> View {
        View::new(vec![value], &[]).broadcast_to(shape)
    }

    pub(super) fn dtype(&self) -> DType {
        self.buffer.dtype()
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(super) fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    /// The whole buffer.
    pub(super) fn data<T: Element>(&self) -> &[T] {
        T::of_buffer(&self.buffer).unwrap()
    }

    pub(super) fn with(&self, layout: Layout) -> View {
        View {
            buffer: self.buffer.clone(),
            layout,
        }
    }

    pub(super) fn permute(&self, axes: &[usize]) -> View {
        self.with(self.layout.permute(axes))
    }

    pub(super) fn broadcast_to(&self, shape: &[usize]) -> View {
        self.with(self.layout.broadcast_to(shape))
    }

    pub(super) fn reshape(&self, shape: &[usize]) -> View {
        self.with(self.layout.reshape(shape).unwrap())
    }

    /// The same elements in row-major order, in a buffer that nothing else views.
    pub(super) fn to_copy(&self) -> View {
        fn of<T: Element>(view: &View) -> View {
            let mut out = vec![T::default(); numel(view.shape())];
            Gather::new(&view.layout).read(view.data::<T>(), 0, &mut out);
            View::new(out, view.shape())
        }
        on_element!(self.dtype(), of(self))
    }
}
