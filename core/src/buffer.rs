//! Storage of elements, and views of it.

use crate::DType;
use crate::dtype::Element;
use crate::kernel::{KernelFault, Source};
use crate::layout::{Layout, numel};
use std::sync::{Arc, OnceLock};

/// The elements of a realised tensor.
#[derive(Clone, Debug)]
pub enum Buffer {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

impl Buffer {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Buffer::F32(_) => DType::F32,
            Buffer::F64(_) => DType::F64,
            Buffer::I32(_) => DType::I32,
            Buffer::I64(_) => DType::I64,
            Buffer::Bool(_) => DType::Bool,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Buffer::F32(v) => v.len(),
            Buffer::F64(v) => v.len(),
            Buffer::I32(v) => v.len(),
            Buffer::I64(v) => v.len(),
            Buffer::Bool(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Evaluates an expression with `$xs` bound to the elements of a buffer, whatever their type.
macro_rules! on_elements {
    ($buffer:expr, $xs:ident => $e:expr) => {
        match $buffer {
            $crate::buffer::Buffer::F32($xs) => $e,
            $crate::buffer::Buffer::F64($xs) => $e,
            $crate::buffer::Buffer::I32($xs) => $e,
            $crate::buffer::Buffer::I64($xs) => $e,
            $crate::buffer::Buffer::Bool($xs) => $e,
        }
    };
}

/// An empty vector with room for `n` elements. Every buffer of a kernel comes from here.
pub(crate) fn reserve<T: Element>(n: usize) -> Result<Vec<T>, KernelFault> {
    let bytes = n.saturating_mul(size_of::<T>());
    let mut data = Vec::new();
    if bytes > LARGE && bytes > memory() || data.try_reserve_exact(n).is_err() {
        return Err(KernelFault::OutOfMemory { bytes });
    }
    Ok(data)
}

/// From this size on it is asked whether the machine has so much memory.
const LARGE: usize = 1 << 30;

/// The bytes of memory and swap space that the machine has, where that can be told.
///
/// A system may grant more than it has, and end the process that uses what it was granted.
fn memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = |name: &str| {
            let line = info.lines().find_map(|l| l.strip_prefix(name))?;
            let kib: usize = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
            kib.checked_mul(1024)
        };
        total("MemTotal:").map_or(usize::MAX, |n| n + total("SwapTotal:").unwrap_or(0))
    })
}

/// Elements of a shared buffer, in the order of a layout. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) layout: Layout,
}

impl View {
    /// The view of a whole buffer in row-major order.
    pub(crate) fn new<T: Element>(data: Vec<T>, shape: &[usize]) -> View {
        assert_eq!(
            data.len(),
            numel(shape),
            "as many elements as the shape has"
        );
        View {
            buffer: Arc::new(T::into_buffer(data)),
            layout: Layout::contiguous(shape),
        }
    }

    /// One number, repeated.
    pub(crate) fn splat<T: Element>(value: T, shape: &[usize]) -> View {
        View::new(vec![value], &[]).broadcast_to(shape)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.buffer.dtype()
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    pub(crate) fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// The whole buffer, of which this views some elements.
    pub(crate) fn data<T: Element>(&self) -> &[T] {
        T::of_buffer(&self.buffer).expect("the dtype rule holds")
    }

    /// The elements in row-major order, if they lie so.
    pub(crate) fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let data = self.data();
        let start = self.layout.offset;
        self.layout.is_contiguous().then(|| match self.numel() {
            0 => &data[..0],
            n => &data[start..start + n],
        })
    }

    /// Whether this views its whole buffer in row-major order.
    pub(crate) fn is_whole(&self) -> bool {
        self.layout.is_contiguous() && self.numel() == self.buffer.len()
    }

    /// The elements in row-major order, piece by piece.
    pub(crate) fn source<T: Element>(&self) -> Source<'_, T> {
        Source::new(self.data(), &self.layout)
    }

    /// The same elements in a vector.
    pub(crate) fn to_vec<T: Element>(&self) -> Result<Vec<T>, KernelFault> {
        let mut out = reserve(self.numel())?;
        match self.as_slice::<T>() {
            Some(data) => out.extend_from_slice(data),
            None => {
                let view = self.straight::<T>()?;
                let mut xs = view.source::<T>();
                while out.len() < self.numel() {
                    out.extend_from_slice(xs.next_chunk(self.numel() - out.len()));
                }
            }
        }
        Ok(out)
    }

    /// This view, or a copy of it where reading in row-major order would jump from cache line to cache line.
    pub(crate) fn straight<T: Element>(&self) -> Result<View, KernelFault> {
        let runs = self.layout.runs();
        let Some((&(cols, jump), outer)) = runs.split_last() else {
            return Ok(self.clone());
        };
        let Some(row_axis) = outer.iter().position(|run| run.1 == 1) else {
            return Ok(self.clone());
        };
        if jump <= 1 || self.numel() < 1024 {
            return Ok(self.clone());
        }
        /// A tile is this many rows and columns: whole cache lines on both sides.
        const TILE: usize = 16;
        let lens: Vec<usize> = runs.iter().map(|run| run.0).collect();
        let to = Layout::contiguous(&lens);
        let (rows, row_stride) = (lens[row_axis], to.strides[row_axis]);
        let data = self.data::<T>();
        let mut out = reserve::<T>(self.numel())?;
        out.resize(self.numel(), T::default());
        let mut tile = [T::default(); TILE * TILE];
        let mut copy_matrix = |from: usize, at: usize| {
            for i0 in (0..rows).step_by(TILE) {
                let n = TILE.min(rows - i0);
                for j0 in (0..cols).step_by(TILE) {
                    let m = TILE.min(cols - j0);
                    for j in 0..m {
                        let column = from + i0 + (j0 + j) * jump;
                        for (i, &x) in data[column..column + n].iter().enumerate() {
                            tile[i * TILE + j] = x;
                        }
                    }
                    for i in 0..n {
                        let row = at + (i0 + i) * row_stride + j0;
                        out[row..row + m].copy_from_slice(&tile[i * TILE..i * TILE + m]);
                    }
                }
            }
        };
        // The matrices lie along the axes that are left: offsets in the buffer and in the copy.
        let mut corners = vec![(self.layout.offset, 0)];
        for (axis, &(len, stride)) in outer.iter().enumerate() {
            if axis != row_axis {
                let along = |&(from, at): &(usize, usize)| {
                    let steps = 0..len;
                    let to = to.strides[axis];
                    steps.map(move |i| (from + i * stride, at + i * to))
                };
                corners = corners.iter().flat_map(along).collect();
            }
        }
        for (from, at) in corners {
            copy_matrix(from, at);
        }
        Ok(View::new(out, self.shape()))
    }

    /// The same elements in row-major order, in a buffer without others: this view itself if it is such a one.
    pub(crate) fn to_whole(&self) -> Result<View, KernelFault> {
        if self.is_whole() {
            return Ok(View {
                buffer: self.buffer.clone(),
                layout: Layout::contiguous(self.shape()),
            });
        }
        self.to_copy()
    }

    /// The same elements in row-major order, in a buffer that nothing else views.
    pub(crate) fn to_copy(&self) -> Result<View, KernelFault> {
        fn copy<T: Element>(view: &View, _: &[T]) -> Result<View, KernelFault> {
            Ok(View::new(view.to_vec::<T>()?, view.shape()))
        }
        on_elements!(&*self.buffer, xs => copy(self, xs))
    }

    pub(crate) fn with(&self, layout: Layout) -> View {
        View {
            buffer: self.buffer.clone(),
            layout,
        }
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> View {
        self.with(self.layout.permute(axes))
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> View {
        self.with(self.layout.broadcast_to(shape))
    }

    /// The elements in row-major order in another shape. Copies only if no strides can say it.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<View, KernelFault> {
        match self.layout.reshape(shape) {
            Some(layout) => Ok(self.with(layout)),
            None => {
                let copy = self.to_copy()?;
                Ok(copy.with(Layout::contiguous(shape)))
            }
        }
    }
}
