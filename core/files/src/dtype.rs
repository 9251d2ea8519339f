//! Dtypes of files, and their elements.

use crate::FileError;
use crate::bytes::Bytes;
use gradloom::{DType, Element, Tensor};
use half::{bf16, f16};
use safetensors::Dtype;

/// Returns the dtype in a file.
pub(crate) fn in_file(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}

/// Returns the smallest dtype that holds all numbers of a dtype in a file.
pub(crate) fn own(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::I16 | Dtype::U16 | Dtype::I32 => DType::I32,
        Dtype::U32 | Dtype::I64 => DType::I64,
        Dtype::BF16 => DType::BF16,
        Dtype::F16 => DType::F16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        _ => return None,
    })
}

/// Returns whether each number of one dtype is one of another.
pub(crate) fn fits(narrow: DType, wide: DType) -> bool {
    let is_promoted = narrow.promoted(wide) == Some(wide) && narrow != DType::Bool;
    narrow == wide || is_promoted || (narrow, wide) == (DType::F32, DType::F64)
}

/// Returns the tensor of these little-endian elements, in the dtype that [`own`] gives.
///
/// Elements of a map stay there if they have this dtype and are not bools, which could have other bytes than 0 and 1.
pub(crate) fn tensor(dtype: Dtype, shape: &[usize], bytes: Bytes) -> Result<Tensor, FileError> {
    macro_rules! read {
        ($ty:ty) => {
            match bytes {
                Bytes::Mapped { .. } if cfg!(target_endian = "little") => {
                    Tensor::try_from_bytes::<$ty>(bytes, shape)
                }
                _ => Tensor::try_from_le_bytes(<$ty>::DTYPE, bytes.as_ref(), shape),
            }
        };
        ($from:ty, $to:ty) => {{
            let (elements, _) = bytes.as_ref().as_chunks::<{ size_of::<$from>() }>();
            let elements = elements
                .iter()
                .map(|x| <$to>::from(<$from>::from_le_bytes(*x)));
            Tensor::try_from_vec(elements.collect::<Vec<$to>>(), shape)
        }};
    }
    Ok(match dtype {
        Dtype::U8 => read!(u8),
        Dtype::I8 => read!(i8),
        Dtype::I16 => read!(i16, i32),
        Dtype::U16 => read!(u16, i32),
        Dtype::I32 => read!(i32),
        Dtype::U32 => read!(u32, i64),
        Dtype::I64 => read!(i64),
        Dtype::F16 => read!(f16),
        Dtype::BF16 => read!(bf16),
        Dtype::F32 => read!(f32),
        Dtype::F64 => read!(f64),
        Dtype::BOOL => Tensor::try_from_le_bytes(DType::Bool, bytes.as_ref(), shape),
        _ => unreachable!("`own` has no dtype for it"),
    }?)
}
