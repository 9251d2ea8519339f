//! Abstract values at run time: dtype and shape, both known.

use crate::DType;
use gradloom_ir as ir;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The dtype and the shape of a tensor, without its values.
#[derive(Clone, Eq)]
pub struct Aval {
    /// The lengths of the axes, where there are few: then what is beyond them is 0. Otherwise all are 0.
    few: [usize; FEW],
    /// The lengths of the axes, where there are many.
    many: Option<Arc<[usize]>>,
    dtype: DType,
    /// The number of axes, where there are few.
    rank: u8,
}

/// Shapes of at most so many axes are copied without an allocation.
const FEW: usize = 4;

impl PartialEq for Aval {
    #[inline]
    fn eq(&self, other: &Aval) -> bool {
        // Without a branch, and without a call for so few words.
        let differences = self.few.iter().zip(&other.few).map(|(n, m)| n ^ m);
        differences.fold(0, |all, one| all | one) == 0
            && (self.dtype, self.rank) == (other.dtype, other.rank)
            && match (&self.many, &other.many) {
                (None, None) => true,
                (many, others) => many == others,
            }
    }
}

impl Hash for Aval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dtype().hash(state);
        self.shape().hash(state);
    }
}

impl fmt::Debug for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Aval");
        fields.field("dtype", &self.dtype());
        fields.field("shape", &self.shape()).finish()
    }
}

impl Aval {
    /// An abstract value.
    ///
    /// ```
    /// # use gradloom::{Aval, DType};
    /// let aval = Aval::new(DType::F32, [2, 3]);
    /// assert_eq!(aval.to_string(), "f32[2, 3]");
    /// assert_eq!((aval.numel(), aval.bytes()), (6, 24));
    /// ```
    pub fn new(dtype: DType, shape: impl AsRef<[usize]>) -> Aval {
        Aval::of(dtype, shape.as_ref().iter().copied())
    }

    fn of(dtype: DType, shape: impl ExactSizeIterator<Item = usize>) -> Aval {
        let mut aval = Aval {
            few: [0; FEW],
            many: None,
            dtype,
            rank: 0,
        };
        if shape.len() > FEW {
            aval.many = Some(shape.collect());
            return aval;
        }
        aval.rank = shape.len() as u8;
        for (len, n) in aval.few.iter_mut().zip(shape) {
            *len = n;
        }
        aval
    }

    /// Takes the shape of another, with a dtype.
    #[inline]
    pub(crate) fn become_like(&mut self, like: &Aval, dtype: DType) {
        (self.few, self.dtype, self.rank) = (like.few, dtype, like.rank);
        if self.many.is_some() || like.many.is_some() {
            self.many = like.many.clone();
        }
    }

    /// The type of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of the axes.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        match &self.many {
            None => &self.few[..usize::from(self.rank)],
            Some(many) => many,
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// The number of bytes that the elements take.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype().size()
    }

    /// A number that is equal for equal avals, and mostly for no others.
    #[inline]
    pub(crate) fn digest(&self) -> u64 {
        // Odd numbers whose bits look random.
        const FACTORS: [u64; FEW] = [
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            0xf135_7aea_2e62_a9c5,
        ];
        let terms = self.few.iter().zip(FACTORS);
        let few = terms.fold(0, |sum: u64, (n, factor)| {
            sum.wrapping_add((*n as u64).wrapping_mul(factor))
        });
        let many = self.many.iter().flat_map(|many| many.iter());
        many.fold(few, |sum, n| (sum ^ *n as u64).wrapping_mul(FACTORS[0]))
            ^ (u64::from(self.rank) << 8 | self.dtype as u64)
    }

    /// Appends an encoding that is equal for equal avals and only for them.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        let shape = self.shape();
        out.push(self.dtype() as u64 | (shape.len() as u64) << 8);
        out.extend(shape.iter().map(|n| *n as u64));
    }

    pub(crate) fn to_ir(&self) -> ir::Aval {
        ir::Aval::new(self.dtype(), self.shape())
    }

    /// The run time knows every dim, so what the rules infer from known avals is known.
    pub(crate) fn from_ir(aval: &ir::Aval) -> Aval {
        const KNOWN: &str = "a rule gives known avals for known operands";
        let dims = aval.shape.dims().expect(KNOWN);
        let known = |dim: &ir::Dim| dim.known().expect(KNOWN);
        Aval::of(aval.dtype.expect(KNOWN), dims.iter().map(known))
    }
}

/// Prints `f32[2, 3]`.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype(), self.shape())
    }
}
