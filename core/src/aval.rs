//! Abstract values at run time: dtype and shape, both known.

use crate::DType;
use gradloom_ir as ir;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The dtype and the shape of a tensor, without its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aval {
    dtype: DType,
    shape: Lens,
}

/// Shapes of at most so many axes are copied without an allocation.
const FEW: usize = 4;

/// The lengths of the axes.
#[derive(Clone)]
enum Lens {
    /// Of as many axes as the first number says.
    Few(u8, [usize; FEW]),
    Many(Arc<[usize]>),
}

impl Lens {
    fn new(lens: &[usize]) -> Lens {
        if lens.len() > FEW {
            return Lens::Many(lens.into());
        }
        let mut few = [0; FEW];
        few[..lens.len()].copy_from_slice(lens);
        Lens::Few(lens.len() as u8, few)
    }

    fn as_slice(&self) -> &[usize] {
        match self {
            Lens::Few(rank, lens) => &lens[..usize::from(*rank)],
            Lens::Many(lens) => lens,
        }
    }
}

impl PartialEq for Lens {
    fn eq(&self, other: &Lens) -> bool {
        match (self, other) {
            // What is beyond the rank is 0.
            (Lens::Few(n, a), Lens::Few(m, b)) => n == m && a == b,
            (Lens::Many(a), Lens::Many(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Lens {}

impl Hash for Lens {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Lens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl Aval {
    /// An abstract value.
    pub fn new(dtype: DType, shape: impl AsRef<[usize]>) -> Aval {
        Aval {
            dtype,
            shape: Lens::new(shape.as_ref()),
        }
    }

    /// The same shape with another dtype.
    pub(crate) fn with_dtype(&self, dtype: DType) -> Aval {
        Aval {
            dtype,
            shape: self.shape.clone(),
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// The number of bytes that the elements take.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// Appends an encoding that is equal for equal avals and only for them.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        let shape = self.shape();
        out.push(self.dtype as u64 | (shape.len() as u64) << 8);
        out.extend(shape.iter().map(|n| *n as u64));
    }

    pub(crate) fn to_ir(&self) -> ir::Aval {
        ir::Aval::new(self.dtype, self.shape())
    }

    /// The run time knows every dim, so what the rules infer from known avals is known.
    pub(crate) fn from_ir(aval: &ir::Aval) -> Aval {
        const KNOWN: &str = "a rule gives known avals for known operands";
        let dims = aval.shape.dims().expect(KNOWN);
        let known = |dim: &ir::Dim| dim.known().expect(KNOWN);
        let shape = match dims.len() <= FEW {
            true => {
                let mut few = [0; FEW];
                for (len, dim) in few.iter_mut().zip(dims) {
                    *len = known(dim);
                }
                Lens::Few(dims.len() as u8, few)
            }
            false => Lens::Many(dims.iter().map(known).collect()),
        };
        Aval {
            dtype: aval.dtype.expect(KNOWN),
            shape,
        }
    }
}

/// Prints `f32[2, 3]`.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape())
    }
}
