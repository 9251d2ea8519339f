//! Elements beside a record: a file in the safetensors format with one tensor, `value`.

use crate::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::path::Path;

/// Name of the tensor in a file.
const NAME: &str = "value";

/// Element type of stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `bool`
    Bool,
}

impl ElementType {
    const ALL: [(ElementType, Dtype, usize); 5] = [
        (ElementType::F32, Dtype::F32, 4),
        (ElementType::F64, Dtype::F64, 8),
        (ElementType::I32, Dtype::I32, 4),
        (ElementType::I64, Dtype::I64, 8),
        (ElementType::Bool, Dtype::BOOL, 1),
    ];
}

/// Elements of a tensor, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// The elements as `f64`.
    pub elements: Vec<f64>,
}

/// Writes elements, given as little-endian bytes, to a safetensors file.
///
/// ```
/// use gradloom_trace::{ElementType, read_values, write_values};
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("h.safetensors");
/// let bytes = [1.5f32, -2.0].map(f32::to_le_bytes);
/// write_values(&file, ElementType::F32, &[2], bytes.as_flattened())?;
/// assert_eq!(read_values(&file)?.elements, [1.5, -2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the number of bytes does not fit, or the file cannot be written.
pub fn write_values(path: &Path, ty: ElementType, shape: &[usize], bytes: &[u8]) -> Result<()> {
    let (_, dtype, _) = ElementType::ALL
        .into_iter()
        .find(|e| e.0 == ty)
        .expect("ALL has all");
    let view = TensorView::new(dtype, shape.to_vec(), bytes);
    let text = view.and_then(|view| safetensors::serialize([(NAME, view)], None));
    let text = text.map_err(|error| invalid(path, error.to_string()))?;
    crate::write::whole_file(path, &text)
}

/// Reads a file that [`write_values`] wrote, or another one with a single tensor.
///
/// # Errors
///
/// If the file cannot be read, is not in the safetensors format, or has no tensor of one of the
/// types of [`ElementType`].
pub fn read_values(path: &Path) -> Result<Values> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| invalid(path, e.to_string()))?;
    let mut tensors = file.tensors();
    let tensor = match (file.tensor(NAME), tensors.pop()) {
        (Ok(tensor), _) => tensor,
        (Err(_), Some((_, tensor))) if tensors.is_empty() => tensor,
        _ => return Err(invalid(path, format!("no tensor `{NAME}`"))),
    };
    let known = ElementType::ALL.into_iter().find(|e| e.1 == tensor.dtype());
    let Some((ty, _, size)) = known else {
        return Err(invalid(
            path,
            format!("elements of type {:?}", tensor.dtype()),
        ));
    };
    let elements = tensor.data().chunks_exact(size).map(|bytes| {
        let four = || bytes.try_into().expect("4 bytes");
        let eight = || bytes.try_into().expect("8 bytes");
        match ty {
            ElementType::F32 => f32::from_le_bytes(four()).into(),
            ElementType::F64 => f64::from_le_bytes(eight()),
            ElementType::I32 => i32::from_le_bytes(four()).into(),
            ElementType::I64 => i64::from_le_bytes(eight()) as f64,
            ElementType::Bool => f64::from(u8::from(bytes[0] != 0)),
        }
    });
    Ok(Values {
        shape: tensor.shape().to_vec(),
        elements: elements.collect(),
    })
}

fn invalid(path: &Path, what: String) -> Error {
    Error::Invalid {
        path: path.to_owned(),
        line: None,
        what,
    }
}
