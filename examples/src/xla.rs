//! Tensors on the devices of a PJRT plugin.

use gradloom::{DType, Tensor};
use gradloom_pjrt::{Buffer, Client, Element, PjrtError};
use std::error::Error;

/// Copies tensors to a device.
pub fn buffers(
    client: &Client,
    tensors: &[Tensor],
    device: usize,
) -> Result<Vec<Buffer>, PjrtError> {
    let buffer = |x: &Tensor| {
        let element = match x.dtype() {
            DType::F32 => Element::F32,
            DType::F64 => Element::F64,
            DType::I32 => Element::I32,
            DType::I64 => Element::I64,
            DType::BF16 => Element::BF16,
            DType::F16 => Element::F16,
            DType::I8 => Element::I8,
            DType::U8 => Element::U8,
            DType::Bool => Element::Bool,
        };
        client.buffer(element, x.shape(), &x.to_le_bytes(), device)
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
