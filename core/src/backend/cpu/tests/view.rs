//! Strided views of a shared buffer.

use crate::DType;
use gradloom_ir::op::{NdArray, indices};
use gradloom_kernels::memory::Buffer;
use gradloom_kernels::memory::element::Element;
use gradloom_kernels::memory::{Layout, numel};
use half::{bf16, f16};
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

    /// Returns the row-major view of a whole buffer.
    pub(super) fn of(buffer: Arc<Buffer>, shape: &[usize]) -> View {
        View {
            buffer,
            layout: Layout::contiguous(shape),
        }
    }

    /// Returns one number, broadcast to a shape.
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

    /// Returns the whole buffer.
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

    /// Copies the elements in row-major order to a buffer of their own.
    pub(super) fn to_copy(&self) -> View {
        fn of<T: Element>(view: &View) -> View {
            let shape = view.shape();
            let at = |index: Vec<usize>| {
                let axes = index.iter().zip(&view.layout.strides);
                view.layout.offset + axes.map(|(i, stride)| i * stride).sum::<usize>()
            };
            let data = indices(shape).into_iter().map(|i| view.data::<T>()[at(i)]);
            View::new(data.collect(), shape)
        }
        match self.dtype() {
            DType::F32 => of::<f32>(self),
            DType::F64 => of::<f64>(self),
            DType::I32 => of::<i32>(self),
            DType::BF16 => of::<bf16>(self),
            DType::F16 => of::<f16>(self),
            DType::I64 => of::<i64>(self),
            DType::I8 => of::<i8>(self),
            DType::U8 => of::<u8>(self),
            DType::Bool => of::<bool>(self),
        }
    }
}

pub(super) fn view_of(dtype: DType, nd: &NdArray) -> View {
    let data = || nd.data.iter();
    match dtype {
        DType::F32 => View::new(data().map(|x| *x as f32).collect(), &nd.shape),
        DType::F64 => View::new(nd.data.clone(), &nd.shape),
        DType::I32 => View::new(data().map(|x| *x as i32).collect(), &nd.shape),
        DType::BF16 => View::new(data().map(|x| bf16::from_f64(*x)).collect(), &nd.shape),
        DType::F16 => View::new(data().map(|x| f16::from_f64(*x)).collect(), &nd.shape),
        DType::I64 => View::new(data().map(|x| *x as i64).collect(), &nd.shape),
        DType::I8 => View::new(data().map(|x| *x as i8).collect(), &nd.shape),
        DType::U8 => View::new(data().map(|x| *x as u8).collect(), &nd.shape),
        DType::Bool => View::new(data().map(|x| *x != 0.0).collect(), &nd.shape),
    }
}

pub(super) fn array_of(view: &View) -> NdArray {
    let data = match &*view.to_copy().buffer {
        Buffer::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::F64(v) => v.to_vec(),
        Buffer::I32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::BF16(v) => v.iter().map(|x| x.to_f64()).collect(),
        Buffer::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
        Buffer::I64(v) => v.iter().map(|x| *x as f64).collect(),
        Buffer::I8(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::U8(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::Bool(v) => v.iter().map(|x| f64::from(u8::from(*x))).collect(),
    };
    NdArray {
        shape: view.shape().to_vec(),
        data,
    }
}

/// Returns the bits of the elements, with one bit pattern for every NaN.
pub(super) fn bits(view: &View) -> Vec<u64> {
    array_of(view)
        .data
        .iter()
        .map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() })
        .collect()
}

/// Returns views of the same elements with other layouts: axes reversed, with gaps, and with an
/// offset.
pub(super) fn elsewhere(dtype: DType, nd: &NdArray) -> Vec<View> {
    let rank = nd.shape.len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let shape: Vec<usize> = nd.shape.iter().rev().copied().collect();
    let data = indices(&shape)
        .into_iter()
        .map(|i| i.iter().rev().copied().collect::<Vec<_>>());
    let data = data.map(|i| nd.spread(&i)).collect();
    let transposed = view_of(dtype, &NdArray { shape, data }).permute(&reversed);

    let wide: Vec<usize> = nd.shape.iter().map(|len| 2 * len + 1).collect();
    let inside = |i: &[usize]| i.iter().all(|i| i % 2 == 1);
    let data = indices(&wide).into_iter().map(|i| match inside(&i) {
        true => nd.spread(&i.iter().map(|i| i / 2).collect::<Vec<_>>()),
        false => 7.0,
    });
    let mut gaps = view_of(
        dtype,
        &NdArray {
            data: data.collect(),
            shape: wide,
        },
    );
    for (axis, &len) in nd.shape.iter().enumerate() {
        gaps = gaps.with(gaps.layout.narrow(axis, 1, len, 2));
    }

    let data = [&[7.0, 7.0][..], &nd.data, &[7.0]].concat();
    let offset = view_of(
        dtype,
        &NdArray {
            shape: vec![data.len()],
            data,
        },
    );
    let offset = offset.with(offset.layout.narrow(0, 2, nd.data.len(), 1));
    vec![transposed, gaps, offset.reshape(&nd.shape)]
}
