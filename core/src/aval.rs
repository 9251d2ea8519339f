//! Abstract values at run time: a known dtype and a known shape.

use crate::DType;
use gradloom_ir as ir;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Dtype and shape of a tensor, without its elements.
///
/// The aval of a tensor with a batch prefix has the prefix, too. Avals with different prefixes differ.
#[derive(Clone, Eq)]
pub struct Aval {
    /// Lengths of up to [`FEW`] axes, padded with zeros. All zero if `many` is set.
    few: [usize; FEW],
    /// Number of batch axes, and then the lengths of all axes, if there are more than [`FEW`] or any is a
    /// batch axis.
    many: Option<Arc<[usize]>>,
    dtype: DType,
    /// Number of axes, or 0 if `many` is set.
    rank: u8,
}

/// Largest rank whose shape is stored inline, so that a copy does not allocate.
const FEW: usize = 4;

impl PartialEq for Aval {
    #[inline]
    fn eq(&self, other: &Aval) -> bool {
        // Compares without branches, and without a call to `memcmp`.
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
        self.batch_dims().hash(state);
        self.physical_shape().hash(state);
    }
}

impl fmt::Debug for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Aval");
        fields.field("dtype", &self.dtype());
        if self.batch_dims() > 0 {
            fields.field("batch_shape", &self.batch_shape());
        }
        fields.field("shape", &self.shape()).finish()
    }
}

impl Aval {
    /// Returns the aval of a tensor with this dtype and shape.
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

    /// Returns the aval of a tensor of this shape, of which the first `batch_dims` axes are a batch prefix.
    pub(crate) fn batched(dtype: DType, shape: &[usize], batch_dims: usize) -> Aval {
        if batch_dims == 0 {
            return Aval::new(dtype, shape);
        }
        assert!(batch_dims <= shape.len(), "the batch axes are axes");
        let mut aval = Aval::new(dtype, []);
        aval.many = Some([&[batch_dims], shape].concat().into());
        aval
    }

    fn of(dtype: DType, shape: impl ExactSizeIterator<Item = usize>) -> Aval {
        let mut aval = Aval {
            few: [0; FEW],
            many: None,
            dtype,
            rank: 0,
        };
        if shape.len() > FEW {
            aval.many = Some(std::iter::once(0).chain(shape).collect());
            return aval;
        }
        aval.rank = shape.len() as u8;
        for (len, n) in aval.few.iter_mut().zip(shape) {
            *len = n;
        }
        aval
    }

    /// Copies the shape of `like` and sets the dtype.
    #[inline]
    pub(crate) fn become_like(&mut self, like: &Aval, dtype: DType) {
        (self.few, self.dtype, self.rank) = (like.few, dtype, like.rank);
        if self.many.is_some() || like.many.is_some() {
            self.many = like.many.clone();
        }
    }

    /// Returns the dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths of the axes, without those of the batch prefix.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        match &self.many {
            None => &self.few[..usize::from(self.rank)],
            Some(many) => &many[1 + many[0]..],
        }
    }

    /// Returns the number of axes of the batch prefix.
    #[inline]
    pub fn batch_dims(&self) -> usize {
        self.many.as_ref().map_or(0, |many| many[0])
    }

    /// Returns the lengths of the axes of the batch prefix.
    pub fn batch_shape(&self) -> &[usize] {
        &self.physical_shape()[..self.batch_dims()]
    }

    /// Returns the lengths of all axes: those of the batch prefix, and then those of the shape.
    pub fn physical_shape(&self) -> &[usize] {
        match &self.many {
            None => self.shape(),
            Some(many) => &many[1..],
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Returns the number of elements. Each element of the batch prefix has as many.
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// Returns the size of all elements in bytes, those of the whole batch prefix.
    pub fn bytes(&self) -> usize {
        self.physical_shape().iter().product::<usize>() * self.dtype().size()
    }

    /// Returns a hash: equal for equal avals, and rarely equal for different ones.
    #[inline]
    pub(crate) fn digest(&self) -> u64 {
        // Odd constants with well-mixed bits.
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

    /// Appends a unique encoding: two avals are equal if and only if their encodings are.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        let shape = self.physical_shape();
        out.push(
            self.dtype() as u64 | (shape.len() as u64) << 8 | (self.batch_dims() as u64) << 16,
        );
        out.extend(shape.iter().map(|n| *n as u64));
    }

    /// Returns the aval that the rules of an op see, which is that of one element of the batch prefix.
    pub(crate) fn to_ir(&self) -> ir::Aval {
        ir::Aval::new(self.dtype(), self.shape())
    }

    /// Converts an aval that the rules inferred.
    ///
    /// # Panics
    ///
    /// If a dtype or dim is unknown. Rules infer known avals from known operands.
    pub(crate) fn from_ir(aval: &ir::Aval) -> Aval {
        const KNOWN: &str = "a rule gives known avals for known operands";
        let dims = aval.shape.dims().expect(KNOWN);
        let known = |dim: &ir::Dim| dim.known().expect(KNOWN);
        Aval::of(aval.dtype.expect(KNOWN), dims.iter().map(known))
    }
}

/// Prints `f32[2, 3]`, or `f32[5 | 2, 3]` with a batch prefix of length 5.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.batch_dims() == 0 {
            return write!(f, "{}{:?}", self.dtype(), self.shape());
        }
        let list = |lens: &[usize]| {
            let lens: Vec<String> = lens.iter().map(usize::to_string).collect();
            lens.join(", ")
        };
        let (prefix, shape) = (list(self.batch_shape()), list(self.shape()));
        let gap = if shape.is_empty() { "" } else { " " };
        write!(f, "{}[{prefix} |{gap}{shape}]", self.dtype())
    }
}
