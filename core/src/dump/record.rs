//! Records of tensors.

use super::state::{Session, may_be_on, session};
use crate::element::{elements, le_bytes};
use crate::{DType, Tensor};
use gradloom_kernels::memory::Buffer;
use gradloom_trace::{Digest, ElementType, Error, digest, digest_f32};
use half::{bf16, f16};
use std::iter;
use std::panic::Location;

/// Writes the record of a tensor, if `GRADLOOM_TRACE_DIR` names a folder.
///
/// The tensor is computed if it is a promise. The hash and the root mean square are those of its
/// elements as `f32`, in row-major order. A call without a folder does nothing, which takes less than
/// 5 ns.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::dump::{Config, dump_trace, read, with_config};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let x = Tensor::from([[1i64, 2], [3, 4]]);
/// with_config(Config::new(folder), || dump_trace("blk0/h", &x))?;
/// let record = &read(folder)?.entries[0].record;
/// assert_eq!((&record.shape[..], &*record.dtype), (&[2, 2][..], "I64"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the tensor cannot be computed, the folder cannot be created, or a file cannot be written. The
/// message has the name or the path.
#[track_caller]
#[inline]
pub fn dump_trace(name: &str, x: &Tensor) -> Result<(), Error> {
    dump_trace_with_context(name, x, None, None, None)
}

/// [`dump_trace`] with the index of the token or step, the index of the layer, and the stage.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::dump::{Config, dump_trace_with_context, read, with_config};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let x = Tensor::from([1.0f32, 2.0]);
/// with_config(Config::new(folder), || {
///     dump_trace_with_context("attn_norm", &x, Some(0), Some(3), Some("attention"))
/// })?;
/// assert_eq!(read(folder)?.entries[0].record.layer_idx, Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`dump_trace`].
#[track_caller]
#[inline]
pub fn dump_trace_with_context(
    name: &str,
    x: &Tensor,
    seq_index: Option<usize>,
    layer_idx: Option<usize>,
    stage: Option<&str>,
) -> Result<(), Error> {
    match may_be_on() {
        false => Ok(()),
        true => dump_if_on(name, x, seq_index, layer_idx, stage, Location::caller()),
    }
}

#[cold]
fn dump_if_on(
    name: &str,
    x: &Tensor,
    seq_index: Option<usize>,
    layer_idx: Option<usize>,
    stage: Option<&str>,
    at: &Location<'_>,
) -> Result<(), Error> {
    let session = session().filter(|session| session.writer.config().takes(name));
    let Some(session) = session else {
        return Ok(());
    };
    let buffer = x.buffer().map_err(|error| Error::Tensor {
        name: name.to_owned(),
        source: Box::new(error),
    })?;
    let context = Context {
        seq_index,
        layer_idx,
        stage,
        source: at.to_string(),
    };
    write(&session, name, x, &buffer, context)
}

/// Optional facts of a record.
pub(super) struct Context<'a> {
    pub(super) seq_index: Option<usize>,
    pub(super) layer_idx: Option<usize>,
    pub(super) stage: Option<&'a str>,
    pub(super) source: String,
}

/// Writes the record of a computed tensor.
pub(super) fn write(
    session: &Session,
    name: &str,
    x: &Tensor,
    buffer: &Buffer,
    context: Context<'_>,
) -> Result<(), Error> {
    let (found, ty) = digest_of(buffer);
    let dtype = format!("{ty:?}");
    let mut record = found.record(name, x.physical_shape(), &dtype);
    record.seq_index = context.seq_index;
    record.layer_idx = context.layer_idx;
    record.stage = context.stage.map(str::to_owned);
    let numel = x.physical_shape().iter().product();
    let bytes = session
        .writer
        .config()
        .values
        .then(|| le_bytes(buffer, iter::once(0..numel)));
    let values = bytes.as_deref().map(|bytes| (ty, bytes));
    session.writer.write(&record, Some(context.source), values)
}

/// Returns the digest of the elements as `f32`, in one pass, and the type that they have.
fn digest_of(buffer: &Buffer) -> (Digest, ElementType) {
    fn converted<T: Copy>(x: &[T], convert: impl Fn(T) -> f32) -> Digest {
        digest(x.len(), |start, out| {
            for (y, x) in out.iter_mut().zip(&x[start..]) {
                *y = convert(*x);
            }
        })
    }
    match buffer.dtype() {
        DType::F32 => (digest_f32(elements(buffer)), ElementType::F32),
        DType::F64 => (
            converted(elements(buffer), |x: f64| x as f32),
            ElementType::F64,
        ),
        DType::BF16 => (converted(elements(buffer), bf16::to_f32), ElementType::BF16),
        DType::F16 => (converted(elements(buffer), f16::to_f32), ElementType::F16),
        DType::I8 => (
            converted(elements(buffer), |x: i8| x.into()),
            ElementType::I8,
        ),
        DType::U8 => (
            converted(elements(buffer), |x: u8| x.into()),
            ElementType::U8,
        ),
        DType::I32 => (
            converted(elements(buffer), |x: i32| x as f32),
            ElementType::I32,
        ),
        DType::I64 => (
            converted(elements(buffer), |x: i64| x as f32),
            ElementType::I64,
        ),
        DType::Bool => {
            let digest = converted(elements(buffer), |x: bool| f32::from(u8::from(x)));
            (digest, ElementType::Bool)
        }
    }
}
