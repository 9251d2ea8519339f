//! The tensor type: a cheap handle to a value that may not be computed yet.

use crate::element::Element;
use crate::graph::handle::Handle;
use crate::graph::value::{Shared, ValueSource};
use crate::raise::{expect, raise};
use crate::tensor::record::record_many;
use crate::{Aval, DType, Error, Result};
use gradloom_ir::{Op, Static};
use gradloom_kernels::memory::pool::PooledVec;
use std::fmt;
use std::sync::Arc;

pub(crate) mod batch_prefix;
pub(crate) mod compose;
pub(crate) mod contract;
mod convert;
mod create;
mod display;
pub(crate) mod host_code;
mod indexing;
mod infer_cache;
mod linalg;
mod methods;
mod movement;
mod operators;
pub(crate) mod part;
pub(crate) mod record;
pub(crate) mod replay;

pub(crate) use create::shape_static;
pub use indexing::{AxisIndex, IntoAxisIndex, IntoIndex, NewAxis, RangeStep, Rest};
pub use indexing::{index_after, index_number};
pub(crate) use operators::number;
pub use operators::{Branch, Operand};

/// A tensor of numbers or truth values.
///
/// A tensor is a *promise* until its elements are read ([`Tensor::to_vec`], [`Tensor::item`],
/// printing) or [`evaluate`](crate::evaluate()) is called. Small calls of traced functions are
/// computed at once, because that is cheaper than a promise. A clone is another handle to the same
/// value, and values never change: `x += 1.0` makes `x` a handle to another value.
///
/// ```
/// use gradloom::Tensor;
///
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = (&x * 2.0 - 1.0).sum(0);
/// assert_eq!(y.shape(), [2]);
/// assert!(!y.is_realised());
/// assert_eq!(y.to_vec::<f32>(), [6.0, 10.0]);
/// assert!(y.is_realised());
/// ```
///
/// # Axes
///
/// `axis` is the number of an axis, and `axes` is one axis, several (`[0, 2]`), or all (`..`). Negative
/// axes count from the right. A reduction drops the axes that it reduces, and its form with the suffix
/// `_keepdims` keeps them with length 1.
///
/// # Panics
///
/// An op whose operands do not fit panics at the line of the call. Inside of a function or closure
/// that returns [`Result`] and is traced or differentiated, that function returns `Err` instead.
/// Dtypes are not converted implicitly; use [`Tensor::cast`].
pub struct Tensor(pub(crate) Handle);

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor::of(&self.0)
    }
}

impl Tensor {
    /// Returns the only handle to a new value.
    pub(crate) fn new(aval: &Aval, source: ValueSource) -> Tensor {
        Tensor(Handle::new(aval, source))
    }

    /// Returns another handle to a value.
    pub(crate) fn of(value: &Shared) -> Tensor {
        Tensor(Shared::clone(value).into())
    }

    /// Returns a number that identifies the value while it lives.
    pub(crate) fn address(&self) -> usize {
        Shared::as_ptr(&self.0) as usize
    }

    /// Returns the dtype and the shape.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!(x.aval().to_string(), "f32[2, 3]");
    /// ```
    pub fn aval(&self) -> &Aval {
        &self.0.aval
    }

    /// Returns the lengths of the axes, without those of a [batch prefix](Tensor::batch_dims).
    pub fn shape(&self) -> &[usize] {
        self.0.aval.shape()
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Returns the length of an axis. Negative axes count from the right: `x.dim(-1)`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!((x.dim(0), x.dim(-1)), (2, 3));
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        let rank = self.rank();
        let index = if axis < 0 { axis + rank as isize } else { axis };
        match usize::try_from(index)
            .ok()
            .and_then(|i| self.shape().get(i))
        {
            Some(n) => *n,
            None => raise(Error::NoAxis {
                axis,
                aval: self.aval().clone(),
            }),
        }
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.0.aval.dtype()
    }

    /// Returns the number of elements, the product of the shape. Each element of a batch prefix has as many.
    pub fn numel(&self) -> usize {
        self.0.aval.numel()
    }

    /// Returns whether the elements are ready, so that reading them computes nothing.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let y = Tensor::from([1.0f32, 2.0]) + 1.0;
    /// assert!(!y.is_realised());
    /// gradloom::evaluate(&y)?;
    /// assert!(y.is_realised());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    pub fn is_realised(&self) -> bool {
        self.physical_value().is_realised()
    }

    /// Returns a tensor of these elements, in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert!(Tensor::try_from_vec(vec![1.0f32, 2.0, 3.0], [2, 2]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the number of elements does not match the shape, or if the shape is too large or has too
    /// many axes.
    pub fn try_from_vec<T: Element>(data: Vec<T>, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape();
        check_shape(&shape)?;
        let numel = shape.iter().product();
        if data.len() != numel {
            return Err(Error::Length {
                len: data.len(),
                shape,
                numel,
            });
        }
        let aval = Aval::new(T::DTYPE, shape);
        let buffer = Arc::new(T::into_buffer(data.into()));
        Ok(Tensor::new(&aval, ValueSource::Elements(buffer)))
    }

    /// Returns a tensor of the elements whose bytes `owner` holds, in row-major order.
    ///
    /// The bytes of an element have the order of the machine. The elements stay in the memory of `owner`, such as a
    /// mapped file. The tensor and its clones keep it alive, and no operation writes to it. Elements that are not
    /// aligned for `T` are copied. Bools are copied too, and a byte other than 0 is `true`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let bytes = [1.0f32, 2.0].map(f32::to_ne_bytes).concat();
    /// let x = Tensor::try_from_bytes::<f32>(bytes, [2])?;
    /// assert_eq!((x + 1.0).to_vec::<f32>(), [2.0, 3.0]);
    /// assert!(Tensor::try_from_bytes::<f32>([0u8; 9], [2]).is_err());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the number of bytes does not match the shape, the shape is too large or has too many axes, or memory for a
    /// copy is short.
    pub fn try_from_bytes<T: Element>(
        owner: impl AsRef<[u8]> + Send + Sync + 'static,
        shape: impl IntoShape,
    ) -> Result<Tensor> {
        let shape = shape.into_shape();
        check_shape(&shape)?;
        let aval = Aval::new(T::DTYPE, shape);
        let owner = Arc::new(owner);
        let n = (*owner).as_ref().len();
        if aval.numel().checked_mul(size_of::<T>()) != Some(n) {
            return Err(Error::Bytes { len: n, aval });
        }
        let elements = PooledVec::<T>::of_bytes(owner, aval.numel());
        let elements =
            elements.map_err(|fault| Error::of_kernel("Tensor::try_from_bytes", fault))?;
        let buffer = Arc::new(T::into_buffer(elements));
        Ok(Tensor::new(&aval, ValueSource::Elements(buffer)))
    }

    /// Returns a tensor of these elements, in row-major order.
    ///
    /// [`Tensor::try_from_vec`] returns errors instead of panicking.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number of elements does not match the shape, or if the shape is too large or has too
    /// many axes.
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl IntoShape) -> Tensor {
        expect(Tensor::try_from_vec(data, shape))
    }

    /// Returns a tensor of rank 0 with one element.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert!(Tensor::scalar(0.5f64).shape().is_empty());
    /// ```
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let aval = Aval::new(T::DTYPE, []);
        let buffer = Arc::new(T::into_buffer(vec![value].into()));
        Tensor::new(&aval, ValueSource::Elements(buffer))
    }
}

/// Records an op with one result.
#[track_caller]
fn one(
    op: Op,
    statics: impl IntoIterator<Item = Static>,
    data: &[&Tensor],
    likes: &[&Aval],
) -> Tensor {
    expect(record::record_one(op, statics, data, likes))
}

/// Records an op with one result and without statics and like operands.
#[track_caller]
fn plain(op: Op, data: &[&Tensor]) -> Tensor {
    expect(record::record_elementwise(op, data))
}

/// Records an op with several results.
#[track_caller]
fn many(
    op: Op,
    statics: Vec<Static>,
    data: &[&Tensor],
    likes: &[&Aval],
    n_outs: usize,
) -> Vec<Tensor> {
    expect(record_many(op, statics, data, likes, n_outs))
}

/// Returns an error if a shape has too many axes or elements. Called before anything is allocated.
pub(crate) fn check_shape(shape: &[usize]) -> Result<()> {
    if shape.len() > gradloom_ir::MAX_RANK {
        return Err(Error::TooManyAxes {
            shape: shape.to_vec(),
        });
    }
    gradloom_ir::op::shape::check_size(&shape.into()).map_err(|_| Error::Overflow {
        shape: shape.to_vec(),
    })
}

/// Conversion to a shape: `[2, 3]`, `&[2, 3]`, `(2, 3)`, a slice, a `Vec`, or one length.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// assert_eq!(Tensor::zeros([2, 3], DType::F32).shape(), [2, 3]);
/// assert_eq!(Tensor::zeros(4, DType::F32).shape(), [4]);
/// assert!(Tensor::zeros([], DType::F32).shape().is_empty());
/// ```
pub trait IntoShape {
    /// Returns the lengths of the axes.
    fn into_shape(self) -> Vec<usize>;
}

impl IntoShape for () {
    fn into_shape(self) -> Vec<usize> {
        Vec::new()
    }
}

impl IntoShape for usize {
    fn into_shape(self) -> Vec<usize> {
        vec![self]
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Vec<usize> {
        self.to_vec()
    }
}

impl<const N: usize> IntoShape for &[usize; N] {
    fn into_shape(self) -> Vec<usize> {
        self.to_vec()
    }
}

macro_rules! tuples {
    ($($($name:ident: $ty:ident)*;)*) => {$(
        impl IntoShape for ($($ty,)*) {
            fn into_shape(self) -> Vec<usize> {
                let ($($name,)*) = self;
                vec![$($name),*]
            }
        }
    )*};
}

tuples! {
    a: usize;
    a: usize b: usize;
    a: usize b: usize c: usize;
    a: usize b: usize c: usize d: usize;
    a: usize b: usize c: usize d: usize e: usize;
    a: usize b: usize c: usize d: usize e: usize f: usize;
}

impl IntoShape for &[usize] {
    fn into_shape(self) -> Vec<usize> {
        self.to_vec()
    }
}

impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Vec<usize> {
        self
    }
}

impl IntoShape for &Vec<usize> {
    fn into_shape(self) -> Vec<usize> {
        self.clone()
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

/// Prints the aval, and whether the tensor is realised. Unlike `Display`, it computes nothing.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_realised() {
            "realised"
        } else {
            "promise"
        };
        write!(f, "Tensor({}, {state})", self.aval())
    }
}
