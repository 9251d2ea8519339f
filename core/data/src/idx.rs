use crate::DataError;
use flate2::read::GzDecoder;
use gradloom::{Element, Tensor};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// First bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads an IDX file, such as those of MNIST. It may be a gzip file.
///
/// The tensor has the shape that the file names. Integers of 8 and 16 bits become `i32`.
/// Format: <https://web.archive.org/web/2024/http://yann.lecun.com/exdb/mnist/>, section "The IDX file format".
///
/// ```
/// use gradloom_data::read_idx;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("labels.idx");
/// // Two bytes of zero, unsigned bytes, one axis of length 3.
/// std::fs::write(&path, [0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]).unwrap();
/// assert_eq!(read_idx(&path)?.to_vec::<i32>(), [7, 2, 1]);
/// # Ok::<(), gradloom_data::DataError>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, is not an IDX file, or has more or fewer bytes than its shape asks for.
pub fn read_idx(path: impl AsRef<Path>) -> Result<Tensor, DataError> {
    let path = path.as_ref();
    let read = |source| DataError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(read)?;
    parse(file, &path.display().to_string()).map_err(|fault| match fault {
        Fault::Io(source) => read(source),
        Fault::Data(error) => error,
    })
}

/// Reads an IDX file from bytes. Errors name it `idx`.
///
/// # Errors
///
/// Those of [`read_idx`].
pub fn parse_idx(bytes: impl Read) -> Result<Tensor, DataError> {
    parse(bytes, "idx").map_err(|fault| match fault {
        Fault::Io(source) => DataError::Read {
            path: "idx".into(),
            source,
        },
        Fault::Data(error) => error,
    })
}

enum Fault {
    Io(io::Error),
    Data(DataError),
}

fn parse(mut bytes: impl Read, file: &str) -> Result<Tensor, Fault> {
    let format = |reason: String| {
        Fault::Data(DataError::Format {
            file: file.to_owned(),
            format: "IDX",
            reason,
        })
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format("it is cut".to_owned()),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => format(error.to_string()),
        _ => Fault::Io(error),
    };
    let mut start = [0; 2];
    bytes.read_exact(&mut start).map_err(failed)?;
    let all = start.chain(bytes);
    let mut bytes: Box<dyn Read> = match start == GZIP {
        true => Box::new(GzDecoder::new(all)),
        false => Box::new(all),
    };
    let mut magic = [0; 4];
    bytes.read_exact(&mut magic).map_err(failed)?;
    let [0, 0, kind, rank] = magic else {
        return Err(format(format!(
            "it begins with {magic:02x?}, expected two zeros"
        )));
    };
    let size = match kind {
        0x08 | 0x09 => 1u64,
        0x0b => 2,
        0x0c | 0x0d => 4,
        0x0e => 8,
        _ => {
            return Err(format(format!(
                "its type of elements is {kind:#04x}, which is unknown"
            )));
        }
    };
    let mut shape = Vec::new();
    for _ in 0..rank {
        let mut len = [0; 4];
        bytes.read_exact(&mut len).map_err(failed)?;
        shape.push(u32::from_be_bytes(len) as usize);
    }
    let expected = shape.iter().try_fold(size, |n, d| n.checked_mul(*d as u64));
    let too_large = || {
        format(format!(
            "its shape {shape:?} has more elements than can be addressed"
        ))
    };
    let expected = expected.ok_or_else(too_large)?;
    // The memory grows with the bytes that are there, not with those that the shape asks for.
    let mut elements = Vec::new();
    let limit = expected.saturating_add(1);
    bytes
        .take(limit)
        .read_to_end(&mut elements)
        .map_err(failed)?;
    let found = elements.len() as u64;
    if found != expected {
        let found = if found > expected { "more" } else { "fewer" };
        return Err(format(format!(
            "it has {found} bytes of elements than the {expected} of its shape {shape:?}"
        )));
    }
    let tensor = match kind {
        0x08 => tensor(&elements, shape, |[x]: [u8; 1]| i32::from(x)),
        0x09 => tensor(&elements, shape, |x: [u8; 1]| {
            i32::from(i8::from_be_bytes(x))
        }),
        0x0b => tensor(&elements, shape, |x| i32::from(i16::from_be_bytes(x))),
        0x0c => tensor(&elements, shape, i32::from_be_bytes),
        0x0d => tensor(&elements, shape, f32::from_be_bytes),
        _ => tensor(&elements, shape, f64::from_be_bytes),
    };
    tensor.map_err(|error| Fault::Data(error.into()))
}

fn tensor<T: Element, const N: usize>(
    bytes: &[u8],
    shape: Vec<usize>,
    of_bytes: impl Fn([u8; N]) -> T,
) -> gradloom::Result<Tensor> {
    let (elements, _) = bytes.as_chunks::<N>();
    let elements = elements.iter().map(|x| of_bytes(*x));
    Tensor::try_from_vec(elements.collect::<Vec<T>>(), shape)
}
