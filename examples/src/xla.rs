//! Tensors on the devices of a PJRT plugin.

use gradloom::{DType, Tensor};
use gradloom::{bf16, f16};
use gradloom_pjrt::{Buffer, Client, Element, PjrtError};
use std::error::Error;

/// Copies tensors to a device.
pub fn buffers(
    client: &Client,
    tensors: &[Tensor],
    device: usize,
) -> Result<Vec<Buffer>, PjrtError> {
    macro_rules! bytes {
        ($x:expr, $t:ty) => {
            $x.to_vec::<$t>()
                .into_iter()
                .flat_map(<$t>::to_ne_bytes)
                .collect()
        };
    }
    let buffer = |x: &Tensor| {
        let (element, bytes): (Element, Vec<u8>) = match x.dtype() {
            DType::F32 => (Element::F32, bytes!(x, f32)),
            DType::F64 => (Element::F64, bytes!(x, f64)),
            DType::I32 => (Element::I32, bytes!(x, i32)),
            DType::I64 => (Element::I64, bytes!(x, i64)),
            DType::BF16 => (Element::BF16, bytes!(x, bf16)),
            DType::F16 => (Element::F16, bytes!(x, f16)),
            DType::I8 => (Element::I8, bytes!(x, i8)),
            DType::U8 => (Element::U8, bytes!(x, u8)),
            DType::Bool => (
                Element::Bool,
                x.to_vec::<bool>().into_iter().map(u8::from).collect(),
            ),
        };
        client.buffer(element, x.shape(), &bytes, device)
    };
    tensors.iter().map(buffer).collect()
}

/// Reads the elements of a buffer of `f32`.
pub fn floats(buffer: &Buffer) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = buffer.to_bytes()?;
    let (elements, _) = bytes.as_chunks();
    Ok(elements.iter().map(|x| f32::from_ne_bytes(*x)).collect())
}

/// Reads the only element of a buffer of `f32`.
pub fn number(buffer: &Buffer) -> Result<f32, Box<dyn Error>> {
    match floats(buffer)?[..] {
        [x] => Ok(x),
        _ => Err("the buffer has another number of elements than 1".into()),
    }
}
