//! Integers of fewer bits than those of tensors: their values are kept in a wider dtype, modulo the narrow type.

use gradloom::{DType, Tensor};
use std::fmt;

/// An integer type of ONNX whose elements are stored in a wider dtype here.
///
/// A tensor of this type has the dtype [`NarrowInt::dtype`]. After each op, its elements are those of the narrow type,
/// as they would be if it had been computed in it.
///
/// ```
/// use gradloom::DType;
/// use gradloom_onnx::NarrowInt;
///
/// assert_eq!(NarrowInt::I8.range(), (-128, 127));
/// assert_eq!(NarrowInt::I8.dtype(), DType::I32);
/// assert_eq!(NarrowInt::U32.to_string(), "uint32");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum NarrowInt {
    U8,
    I8,
    U16,
    I16,
    U32,
}

impl NarrowInt {
    const ALL: [(NarrowInt, i64, &str, u32); 5] = [
        (NarrowInt::U8, 2, "uint8", 8),
        (NarrowInt::I8, 3, "int8", 8),
        (NarrowInt::U16, 4, "uint16", 16),
        (NarrowInt::I16, 5, "int16", 16),
        (NarrowInt::U32, 12, "uint32", 32),
    ];

    fn facts(self) -> (i64, &'static str, u32) {
        let found = NarrowInt::ALL.into_iter().find(|(own, ..)| *own == self);
        let (_, ty, name, bits) = found.expect("all types are listed");
        (ty, name, bits)
    }

    /// Returns the type with a number in `TensorProto.DataType`.
    pub(super) fn from_number(ty: i64) -> Option<NarrowInt> {
        let found = NarrowInt::ALL.into_iter().find(|(_, own, ..)| *own == ty);
        found.map(|(narrow, ..)| narrow)
    }

    pub(super) fn bits(self) -> u32 {
        self.facts().2
    }

    fn is_signed(self) -> bool {
        matches!(self, NarrowInt::I8 | NarrowInt::I16)
    }

    /// Returns the dtype that stores the elements: `i64` for 32 bits, `i32` for fewer.
    pub fn dtype(self) -> DType {
        if self.bits() == 32 {
            DType::I64
        } else {
            DType::I32
        }
    }

    /// Returns the least and the greatest element.
    pub fn range(self) -> (i64, i64) {
        match self.is_signed() {
            true => (-1 << (self.bits() - 1), (1 << (self.bits() - 1)) - 1),
            false => (0, (1 << self.bits()) - 1),
        }
    }

    /// Returns the element of the narrow type that a number is modulo its size.
    pub(super) fn of_number(self, n: i64) -> i64 {
        let (low, high) = self.range();
        ((n - low) & (high - low)) + low
    }

    /// Returns integers modulo the size of the narrow type.
    pub(super) fn wrapped(self, x: &Tensor) -> Tensor {
        let (low, high) = self.range();
        (x.cast(self.dtype()) - low).bit_and(high - low) + low
    }
}

impl fmt::Display for NarrowInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().1)
    }
}
