//! Everything that can go wrong for a user.

use crate::annotation::AnnotationFault;
use crate::kernel::KernelFault;
use crate::{Aval, DType};
use gradloom_ir::OpError;
use std::fmt;

/// The result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
///
/// ```
/// use gradloom::prelude::*;
///
/// let product = |(x, y): &(Tensor, Tensor)| -> Result<Tensor> { Ok(x.matmul(y).sum(..)) };
/// let operands = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, 2.0, 3.0]));
/// let error: Error = grad(product)(&operands).unwrap_err();
/// assert!(error.to_string().contains("matmul"));
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An op does not take these operands.
    #[error(transparent)]
    Op(#[from] OpError),

    /// The number of values is not that of the shape.
    #[error("{len} values do not fill the shape {shape:?}, which has {numel} elements")]
    Length {
        /// How many values there are.
        len: usize,
        /// The shape.
        shape: Vec<usize>,
        /// How many elements the shape has.
        numel: usize,
    },

    /// A shape has more elements than can be addressed.
    #[error("the shape {shape:?} has more elements than can be addressed")]
    Overflow {
        /// The shape.
        shape: Vec<usize>,
    },

    /// More axes than are supported.
    #[error("the shape {shape:?} has {} axes, and the limit is {}", shape.len(), gradloom_ir::MAX_RANK)]
    TooManyAxes {
        /// The shape.
        shape: Vec<usize>,
    },

    /// The length of an axis that the tensor does not have.
    #[error("axis {axis} is out of range for {aval}, whose rank is {}", aval.shape().len())]
    NoAxis {
        /// The axis as it was given.
        axis: isize,
        /// The tensor.
        aval: Aval,
    },

    /// Elements were asked for in another type than the tensor's.
    #[error("cannot read {aval} as {asked}; cast it first, as in `x.cast(DType::{asked:?})`")]
    ElementType {
        /// The tensor.
        aval: Aval,
        /// The dtype that was asked for.
        asked: DType,
    },

    /// A single value was asked of a tensor that has more or none.
    #[error("`item` needs a tensor of one element, and this is {aval}")]
    NotAnItem {
        /// The tensor.
        aval: Aval,
    },

    /// A label that is no class.
    #[error("`{op}`: label {label} at row {row} is out of range for {classes} classes")]
    Label {
        /// The op that read the label.
        op: &'static str,
        /// The label.
        label: i64,
        /// Where it stands among the labels, in row-major order.
        row: usize,
        /// How many classes there are.
        classes: usize,
    },

    /// An integer is divided by 0.
    #[error("`{op}`: element {element} is divided by 0, which no integer is the result of")]
    DivisionByZero {
        /// The op: `div`, or `pow` with a negative exponent.
        op: &'static str,
        /// Which element of the result, in row-major order.
        element: usize,
    },

    /// There is not enough memory for a result.
    #[error("`{op}`: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The op whose result it was.
        op: &'static str,
        /// The size of the result.
        bytes: usize,
    },

    /// The value was being computed by another thread when this process was forked, and that thread is not in this process.
    #[error(
        "the process was forked while another thread computed this value; fork when no thread computes, or call `exec` in the child"
    )]
    Forked,

    /// An argument or a result of a traced function is not what its annotation says.
    #[error("`{function}`: {fault}")]
    Annotation {
        /// The function.
        function: &'static str,
        /// What does not agree.
        fault: Box<AnnotationFault>,
    },

    /// A gradient with respect to something that is not a float.
    #[error(
        "`{path}` is {aval}, and only floats have gradients; cast it, or mark the parameter `#[nodiff]` or the field `#[tree(skip)]`"
    )]
    NotDifferentiable {
        /// Which argument, or which leaf of it.
        path: String,
        /// What it is.
        aval: Aval,
    },

    /// A gradient of something that is not a single float.
    #[error(
        "a gradient needs a result that is a single float, and this is {aval}; sum it, or use `vjp`"
    )]
    NotScalar {
        /// What the function returned.
        aval: Aval,
    },

    /// A tangent or cotangent of another shape or dtype than its primal.
    #[error("the {what} of `{path}` is {found}, and has to be {expected}")]
    Mismatch {
        /// `tangent` or `cotangent`.
        what: &'static str,
        /// Which argument or result, or which leaf of it.
        path: String,
        /// What it is.
        found: Box<Aval>,
        /// The aval of the primal.
        expected: Box<Aval>,
    },

    /// Two trees that belong together have different structures.
    #[error(
        "the {what} has {found} lea{}, and has to have {expected}",
        if *found == 1 { "f" } else { "ves" }
    )]
    Structure {
        /// Which tree.
        what: &'static str,
        /// How many leaves it has.
        found: usize,
        /// How many it has to have.
        expected: usize,
    },
}

impl Error {
    /// What goes wrong in a kernel, with the name of the op.
    pub(crate) fn of_kernel(op: &'static str, fault: KernelFault) -> Error {
        match fault {
            KernelFault::Label {
                label,
                classes,
                row,
            } => Error::Label {
                op,
                label,
                row,
                classes,
            },
            KernelFault::DivisionByZero { element } => Error::DivisionByZero { op, element },
            KernelFault::OutOfMemory { bytes } => Error::OutOfMemory { op, bytes },
        }
    }
}

/// The same text as `Display`: it is what `fn main() -> Result<()>` and `unwrap` show.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
