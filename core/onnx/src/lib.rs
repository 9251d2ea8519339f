//! Programs of gradloom as [ONNX](https://onnx.ai) models, for runtimes such as ONNX Runtime, and models as functions.
//!
//! [`export`] returns the bytes of a model with the parameters and results of a program, and [`write()`] puts them into
//! a file. The models are for inference: what belongs to training has no form, and is a named error.
//!
//! ```
//! use gradloom_ir::Program;
//! use gradloom_onnx::{Elements, export};
//!
//! let program: Program = "(x: f32[2, 3], w: f32[3]) { y = mul x, w  z = tanh y  return z }".parse()?;
//! let weights = [1.0f32, 2.0, 3.0];
//! // `w` is a constant of the model, so its only input is `x`.
//! let model = export(&program, "layer", &[(1, Elements::F32(&weights))])?;
//! assert!(model.windows(4).any(|bytes| bytes == b"Tanh"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Equal results
//!
//! Integers and bools are equal to those of gradloom, and floats up to rounding. These differ:
//!
//! - An op that fails in gradloom has the value, or the error, of the runtime: integer division by zero, and an index
//!   or a label out of range.
//! - The specification of ONNX leaves the order of NaN open, in `sort`, `argmax`, `max` and pooling for example.
//! - If `scatter` sets a slice twice, ONNX does not say which update counts.
//!
//! # Errors
//!
//! [`ExportError`] lists what has no ONNX form.
//!
//! # Import
//!
//! [`Model`] reads a model and runs it as a function of tensors, which transforms differentiate and batch.

mod equation;
mod error;
mod graph;
mod import;
mod ops;
mod proto;

pub use error::ExportError;
pub use import::{Dim, ImportError, Model, NarrowInt, Port, Weights, read_tensor};

use gradloom_ir::{DType, Program, pass};
use graph::{Graph, Value};
use half::{bf16, f16};
use proto::Message;
use std::path::Path;

/// The version of the operators of ONNX that the models use.
pub const OPSET: i64 = 21;

/// The version of the file format that belongs to [`OPSET`].
const IR_VERSION: i64 = 10;

/// The largest message that readers of Protocol Buffers accept, in bytes.
const MAX_BYTES: usize = i32::MAX as usize;

/// Elements of a parameter, in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub enum Elements<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    BF16(&'a [bf16]),
    F16(&'a [f16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I8(&'a [i8]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

impl Elements<'_> {
    fn dtype(&self) -> DType {
        match self {
            Elements::F32(_) => DType::F32,
            Elements::F64(_) => DType::F64,
            Elements::I32(_) => DType::I32,
            Elements::I64(_) => DType::I64,
            Elements::BF16(_) => DType::BF16,
            Elements::F16(_) => DType::F16,
            Elements::I8(_) => DType::I8,
            Elements::U8(_) => DType::U8,
            Elements::Bool(_) => DType::Bool,
        }
    }

    fn le_bytes(&self) -> Vec<u8> {
        match self {
            Elements::F32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::F64(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::I32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::I64(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::BF16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::F16(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::I8(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::U8(x) => x.to_vec(),
            Elements::Bool(x) => x.iter().map(|x| u8::from(*x)).collect(),
        }
    }
}

/// Returns the bytes of an ONNX model with one graph, which computes the program.
///
/// `name` is that of the graph. `constants` gives the elements of some parameters by their positions; they become
/// initializers, if an op reads them, and the other parameters are the inputs. An input has the name that the parameter has in the program,
/// or `arg.0`, `arg.1`, .. by its position. The outputs are `result.0`, `result.1`, ...
///
/// # Errors
///
/// If a length is not a number, an op has no ONNX form, a constant does not fit its parameter, or the model is larger
/// than 2 GiB.
pub fn export(
    program: &Program,
    name: &str,
    constants: &[(usize, Elements<'_>)],
) -> Result<Vec<u8>, ExportError> {
    let mut g = Graph::new();
    let mut args = Vec::with_capacity(program.params.len());
    let mut inputs = Vec::new();
    let mut given: Vec<Option<&Elements<'_>>> = vec![None; program.params.len()];
    for (position, elements) in constants {
        let n_params = program.params.len();
        let slot = given.get_mut(*position).filter(|slot| slot.is_none());
        *slot.ok_or(ExportError::Constant {
            position: *position,
            n_params,
        })? = Some(elements);
    }
    for (i, (param, elements)) in program.params.iter().zip(given).enumerate() {
        let unknown = |aval| ExportError::UnknownType { op: None, aval };
        let (dtype, shape) = equation::type_of(program, *param).map_err(unknown)?;
        let own = program.names.get(*param).filter(|own| g.is_free(own));
        let name = own.map_or_else(|| format!("arg.{i}"), |own| own.to_owned());
        let value = g.named(name, dtype, shape);
        match elements {
            None => inputs.push(value.clone()),
            Some(elements) => {
                let bytes = elements.le_bytes();
                let expected = value.numel() * dtype.size();
                if elements.dtype() != dtype || bytes.len() != expected {
                    return Err(ExportError::Elements {
                        parameter: value.name,
                        found: (elements.dtype(), bytes.len() / elements.dtype().size()),
                        expected: (dtype, value.shape),
                    });
                }
                g.initializer(&value, &bytes);
            }
        }
        args.push(value);
    }
    // Elements of 8 and 16 bits are stored as such, and computed on in the dtypes that this library uses.
    let widened = pass::widen(program.clone());
    let results = ops::program(&mut g, &widened, &args)?;
    // An output is the result of a node of its own: a parameter may be a result, and a value two results.
    let outputs: Vec<Value> = results
        .iter()
        .enumerate()
        .map(|(i, x)| g.output(x, format!("result.{i}")))
        .collect();

    let (nodes, initializers) = g.finish();
    let mut graph = proto::graph(name, &nodes);
    initializers.iter().for_each(|x| graph.message(5, x));
    let info = |x: &Value| proto::value_info(&x.name, x.dtype, &x.shape);
    inputs.iter().for_each(|x| graph.message(11, &info(x)));
    outputs.iter().for_each(|x| graph.message(12, &info(x)));
    let mut opset = Message::default();
    opset.int(2, OPSET);
    let mut model = Message::default();
    model.int(1, IR_VERSION);
    model.text(2, "gradloom");
    model.text(3, env!("CARGO_PKG_VERSION"));
    model.message(7, &graph);
    model.message(8, &opset);
    let bytes = model.into_bytes();
    match bytes.len() <= MAX_BYTES {
        true => Ok(bytes),
        false => Err(ExportError::TooLarge { bytes: bytes.len() }),
    }
}

/// Writes the model of [`export`] to a file.
///
/// # Errors
///
/// As [`export`], or if the file cannot be written.
pub fn write(
    path: impl AsRef<Path>,
    program: &Program,
    name: &str,
    constants: &[(usize, Elements<'_>)],
) -> Result<(), ExportError> {
    let path = path.as_ref();
    let bytes = export(program, name, constants)?;
    std::fs::write(path, bytes).map_err(|error| ExportError::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
