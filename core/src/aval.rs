//! Abstract values at run time: dtype and shape, both known.

use crate::DType;
use gradloom_ir as ir;
use std::fmt;
use std::sync::Arc;

/// The dtype and the shape of a tensor, without its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aval {
    dtype: DType,
    shape: Arc<[usize]>,
}

impl Aval {
    /// An abstract value.
    pub fn new(dtype: DType, shape: impl Into<Arc<[usize]>>) -> Aval {
        Aval {
            dtype,
            shape: shape.into(),
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of bytes that the elements take.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// Appends an encoding that is equal for equal avals and only for them.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        out.push(self.dtype as u64 | (self.shape.len() as u64) << 8);
        out.extend(self.shape.iter().map(|n| *n as u64));
    }

    pub(crate) fn to_ir(&self) -> ir::Aval {
        ir::Aval::new(self.dtype, &self.shape)
    }

    /// The run time knows every dim, so what the rules infer from known avals is known.
    pub(crate) fn from_ir(aval: &ir::Aval) -> Aval {
        let shape = aval
            .shape
            .known()
            .expect("a rule gives known shapes for known operands");
        Aval::new(
            aval.dtype
                .expect("a rule gives a known dtype for known operands"),
            shape,
        )
    }
}

/// Prints `f32[2, 3]`.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}
