//! Elements beside a record: a file in the safetensors format with one tensor, `value`.

use crate::{Error, Result, TraceRecord};
use half::{bf16, f16};
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
    /// `bf16`
    BF16,
    /// `f16`
    F16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `i8`
    I8,
    /// `u8`
    U8,
    /// `bool`
    Bool,
}

impl ElementType {
    const ALL: [(ElementType, Dtype, usize); 9] = [
        (ElementType::F32, Dtype::F32, 4),
        (ElementType::F64, Dtype::F64, 8),
        (ElementType::BF16, Dtype::BF16, 2),
        (ElementType::F16, Dtype::F16, 2),
        (ElementType::I32, Dtype::I32, 4),
        (ElementType::I64, Dtype::I64, 8),
        (ElementType::I8, Dtype::I8, 1),
        (ElementType::U8, Dtype::U8, 1),
        (ElementType::Bool, Dtype::BOOL, 1),
    ];

    /// Returns the type that a record has as its dtype: such as `F32`.
    fn named(dtype: &str) -> Option<ElementType> {
        let mut types = ElementType::ALL.into_iter().map(|(ty, ..)| ty);
        types.find(|ty| format!("{ty:?}") == dtype)
    }
}

/// Elements of a tensor, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// The elements as `f64`.
    pub elements: Vec<f64>,
}

/// Shape and elements of a file, without rounding.
#[derive(Debug)]
pub(crate) struct Stored {
    ty: ElementType,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Elements,
}

/// Elements in row-major order, in a type that holds each of them exactly.
#[derive(Debug)]
pub(crate) enum Elements {
    /// Elements of `f32` and `f64`.
    Floats(Vec<f64>),
    /// Elements of `i32`, `i64` and `bool`.
    Integers(Vec<i64>),
}

impl Elements {
    /// Returns the elements as `f64`, which rounds large integers.
    pub(crate) fn floats(&self) -> impl Iterator<Item = f64> {
        let (floats, integers) = match self {
            Elements::Floats(x) => (&x[..], &[][..]),
            Elements::Integers(x) => (&[][..], &x[..]),
        };
        let rounded = integers.iter().map(|x| *x as f64);
        floats.iter().copied().chain(rounded)
    }
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
    let Stored {
        shape, elements, ..
    } = read_stored(path)?;
    let elements = match elements {
        Elements::Floats(x) => x,
        Elements::Integers(_) => elements.floats().collect(),
    };
    Ok(Values { shape, elements })
}

/// [`read_values`] without the conversion to `f64`.
fn read_stored(path: &Path) -> Result<Stored> {
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
    let chunks = tensor.data().chunks_exact(size);
    let four = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).expect("4 bytes");
    let two = |bytes: &[u8]| <[u8; 2]>::try_from(bytes).expect("2 bytes");
    let eight = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).expect("8 bytes");
    let elements = match ty {
        ElementType::F32 => {
            Elements::Floats(chunks.map(|x| f32::from_le_bytes(four(x)).into()).collect())
        }
        ElementType::F64 => {
            Elements::Floats(chunks.map(|x| f64::from_le_bytes(eight(x))).collect())
        }
        ElementType::BF16 => {
            Elements::Floats(chunks.map(|x| bf16::from_le_bytes(two(x)).into()).collect())
        }
        ElementType::F16 => {
            Elements::Floats(chunks.map(|x| f16::from_le_bytes(two(x)).into()).collect())
        }
        ElementType::I8 => Elements::Integers(chunks.map(|x| (x[0] as i8).into()).collect()),
        ElementType::U8 => Elements::Integers(chunks.map(|x| x[0].into()).collect()),
        ElementType::I32 => {
            Elements::Integers(chunks.map(|x| i32::from_le_bytes(four(x)).into()).collect())
        }
        ElementType::I64 => {
            Elements::Integers(chunks.map(|x| i64::from_le_bytes(eight(x))).collect())
        }
        ElementType::Bool => Elements::Integers(chunks.map(|x| (x[0] != 0).into()).collect()),
    };
    let shape = tensor.shape().to_vec();
    Ok(Stored {
        ty,
        shape,
        elements,
    })
}

/// Reads the elements of a record.
///
/// # Errors
///
/// As [`read_values`], and if the file has another shape than the record, or another element type.
/// A dtype that is not the name of an [`ElementType`] fits all types.
pub(crate) fn read_stored_of(record: &TraceRecord, path: &Path) -> Result<Stored> {
    let stored = read_stored(path)?;
    let contradiction = |expected, found| Error::Contradiction {
        path: path.to_owned(),
        name: record.name.clone(),
        expected,
        found,
    };
    if stored.shape != record.shape {
        return Err(contradiction(
            format!("the shape {:?}", record.shape),
            format!("the shape {:?}", stored.shape),
        ));
    }
    // Other programs write numbers of 16 bits as `f32`, and the dtype that they had.
    let widened =
        |ty| matches!(ty, ElementType::BF16 | ElementType::F16) && stored.ty == ElementType::F32;
    match ElementType::named(&record.dtype) {
        Some(ty) if ty != stored.ty && !widened(ty) => Err(contradiction(
            format!("the dtype {ty:?}"),
            format!("the dtype {:?}", stored.ty),
        )),
        _ => Ok(stored),
    }
}

fn invalid(path: &Path, what: String) -> Error {
    Error::Invalid {
        path: path.to_owned(),
        line: None,
        what,
    }
}
