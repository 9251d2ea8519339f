//! The tensor: a cheap handle on a value that may not have been computed yet.

use crate::dtype::Element;
use crate::node::{Shared, Source};
use crate::record::{self, apply, expect, raise};
use crate::spare::Handle;
use crate::{Aval, DType, Error, Result};
use gradloom_ir::{Op, Static};
use std::fmt;
use std::sync::Arc;

mod convert;
mod create;
mod display;
mod movement;
mod nn;
mod operators;
mod reduce;

pub(crate) use create::shape_static;
pub(crate) use operators::number;
pub use operators::{Branch, Operand};

/// A tensor of numbers or truth values.
///
/// A tensor is a *promise* until something asks for its elements ([`Tensor::to_vec`], [`Tensor::item`], printing) or
/// [`evaluate`](crate::evaluate()) is called. The result of a traced function may be there at once, where to compute it
/// costs less than to promise it. A clone is another handle on the same value, and no operation changes
/// one: `x += 1.0` makes `x` a handle on another.
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
/// # Panics
///
/// An op whose operands do not fit panics at the line that calls it. Inside a function or closure that returns
/// [`Result`] and is traced or differentiated, it is the `Err` of that function. Dtypes never mix by themselves:
/// [`Tensor::cast`] one of them.
pub struct Tensor(pub(crate) Handle);

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor::of(&self.0)
    }
}

impl Tensor {
    /// The only handle on a value.
    pub(crate) fn new(aval: &Aval, source: Source) -> Tensor {
        Tensor(Handle::new(aval, source))
    }

    /// A handle on a value that has others.
    pub(crate) fn of(value: &Shared) -> Tensor {
        Tensor(Shared::clone(value).into())
    }

    /// What tells this value from others while it lives.
    pub(crate) fn address(&self) -> usize {
        Shared::as_ptr(&self.0) as usize
    }

    /// The dtype and the shape.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!(x.aval().to_string(), "f32[2, 3]");
    /// ```
    pub fn aval(&self) -> &Aval {
        &self.0.aval
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        self.0.aval.shape()
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The length of an axis, which may be counted from the right: `x.dim(-1)`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!((x.dim(0), x.dim(-1)), (2, 3));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such axis.
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

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.0.aval.dtype()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.0.aval.numel()
    }

    /// Whether the elements are there, so that reading them computes nothing.
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
        self.0.is_realised()
    }

    /// A tensor of given elements in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert!(Tensor::try_from_vec(vec![1.0f32, 2.0, 3.0], [2, 2]).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the number of values is not that of the shape, or the shape cannot be addressed.
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
        Ok(Tensor::new(&aval, Source::Elements(buffer)))
    }

    /// A tensor of given elements in row-major order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the number of values is not that of the shape.
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl IntoShape) -> Tensor {
        expect(Tensor::try_from_vec(data, shape))
    }

    /// A tensor of rank 0.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// assert_eq!(Tensor::scalar(0.5f64).shape(), []);
    /// ```
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let aval = Aval::new(T::DTYPE, []);
        let buffer = Arc::new(T::into_buffer(vec![value].into()));
        Tensor::new(&aval, Source::Elements(buffer))
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
    expect(record::one(op, statics, data, likes))
}

/// Records an op with one result and nothing but data operands.
#[track_caller]
fn plain(op: Op, data: &[&Tensor]) -> Tensor {
    expect(record::plain(op, data))
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
    expect(apply(op, statics, data, likes, n_outs))
}

/// A shape has to be addressable before anything is allocated for it.
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

/// A shape as users write it: `[2, 3]`, `&[2, 3]`, a slice, a `Vec`, or one length.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// assert_eq!(Tensor::zeros([2, 3], DType::F32).shape(), [2, 3]);
/// assert_eq!(Tensor::zeros(4, DType::F32).shape(), [4]);
/// assert_eq!(Tensor::zeros([], DType::F32).shape(), []);
/// ```
pub trait IntoShape {
    /// The lengths of the axes.
    fn into_shape(self) -> Vec<usize>;
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

/// Prints the aval and whether the elements are there. It computes nothing; `Display` does.
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

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        /// Unary ops, element by element. Integers are taken where the op has a meaning for them.
        ///
        /// ```
        /// # use gradloom::Tensor;
        /// let x = Tensor::from([-4.0f32, 0.0, 9.0]);
        /// assert_eq!(x.relu().sqrt().to_vec::<f32>(), [0.0, 0.0, 3.0]);
        /// assert_eq!(Tensor::from([-4i64, 9]).abs().to_vec::<i64>(), [4, 9]);
        /// ```
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If the dtype is not one that the op takes.
                #[track_caller]
                pub fn $name(&self) -> Tensor {
                    plain(Op::$op, &[self])
                }
            )*
        }
    };
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        /// Binary ops and comparisons, element by element, with NumPy broadcasting. A number takes the dtype of the
        /// tensor, as in `x.maximum(0.0)`.
        ///
        /// ```
        /// # use gradloom::Tensor;
        /// let x = Tensor::from([[1.0f32], [4.0]]);
        /// let y = Tensor::from([2.0f32, 3.0]);
        /// assert_eq!(x.maximum(&y).to_vec::<f32>(), [2.0, 3.0, 4.0, 4.0]);
        /// assert_eq!(x.pow(0.5).to_vec::<f32>(), [1.0, 2.0]);
        /// assert_eq!(x.lt(2.5).to_vec::<bool>(), [true, false]);
        /// ```
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If the shapes do not broadcast, the dtypes differ, or the number is not one of the dtype.
                #[track_caller]
                pub fn $name(&self, other: impl Operand) -> Tensor {
                    other.apply(Op::$op, self.clone())
                }
            )*
        }
    };
}

gradloom_ir::for_each_unary!(unary_methods);
gradloom_ir::for_each_binary!(binary_methods);
