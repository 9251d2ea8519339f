//! The error type of the crate.

use crate::{Aval, DType};
use gradloom_ir::OpError;
use gradloom_ir::sharding::ShardingError;
use gradloom_kernels::KernelFault;
use std::fmt;
use std::panic::Location;

/// Result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of an operation on tensors, a transform or an evaluation.
///
/// ```
/// use gradloom::prelude::*;
///
/// let product = |(x, y): &(Tensor, Tensor)| -> Result<Tensor> { Ok(x.matmul(y).sum(..)) };
/// let operands = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, 2.0, 3.0]));
/// let error: Error = grad(product)(&operands).unwrap_err();
/// assert!(error.to_string().contains("matmul"));
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An op does not accept its operands or static arguments.
    #[error(transparent)]
    Op(#[from] OpError),

    /// The number of values does not match the shape.
    #[error("{len} values do not fill the shape {shape:?}, which has {numel} elements")]
    Length {
        /// Number of values.
        len: usize,
        /// Shape that the values should fill.
        shape: Vec<usize>,
        /// Number of elements of that shape.
        numel: usize,
    },

    /// The number of bytes is not that of the elements.
    #[error("{len} bytes are not {aval}, which has {}", aval.numel() as u128 * aval.dtype().size() as u128)]
    Bytes {
        /// Number of bytes.
        len: usize,
        /// Dtype and shape of the elements.
        aval: Aval,
    },

    /// A shape has more elements than can be addressed.
    #[error("the shape {shape:?} has more elements than can be addressed")]
    Overflow {
        /// The shape.
        shape: Vec<usize>,
    },

    /// A shape has more axes than supported.
    #[error("the shape {shape:?} has {} axes, and the limit is {}", shape.len(), gradloom_ir::MAX_RANK)]
    TooManyAxes {
        /// The shape.
        shape: Vec<usize>,
    },

    /// An axis is out of range for a tensor.
    #[error("axis {axis} is out of range for {aval}, whose rank is {}", aval.shape().len())]
    NoAxis {
        /// Axis as the caller gave it.
        axis: isize,
        /// Aval of the tensor.
        aval: Aval,
    },

    /// Elements were read as a type other than the dtype of the tensor.
    #[error("cannot read {aval} as {asked}; cast it first, as in `x.cast(DType::{asked:?})`")]
    ElementType {
        /// Aval of the tensor.
        aval: Aval,
        /// Requested dtype.
        asked: DType,
    },

    /// `item` was called on a tensor that does not have exactly one element.
    #[error("`item` needs a tensor of one element, and this is {aval}")]
    NotAnItem {
        /// Aval of the tensor.
        aval: Aval,
    },

    /// A label is not the index of a class.
    #[error("`{op}`: label {label} at row {row} is out of range for {classes} classes")]
    Label {
        /// Op that read the label.
        op: &'static str,
        /// The label.
        label: i64,
        /// Index of the label among all labels, in row-major order.
        row: usize,
        /// Number of classes.
        classes: usize,
    },

    /// An index is not one of an axis.
    #[error(
        "`{op}`: index {index} at position {position} is out of range for an axis of length {len}"
    )]
    Index {
        /// Op that read the index.
        op: &'static str,
        /// The index.
        index: i64,
        /// Position of the index among all indices, in row-major order.
        position: usize,
        /// Length of the axis.
        len: usize,
    },

    /// The arguments of a method that consists of several ops do not fit.
    #[error("{call}: {reason}")]
    Arguments {
        /// The method, with the text of `einsum`.
        call: String,
        /// The reason.
        reason: String,
    },

    /// An integer was divided by 0.
    #[error("`{op}`: integer division by 0 at element {element}")]
    DivisionByZero {
        /// Op that failed: `div`, or `pow` with a negative exponent.
        op: &'static str,
        /// Index of the element in the result, in row-major order.
        element: usize,
    },

    /// Memory is too short for a result.
    #[error("`{op}`: cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// Op whose result could not be allocated.
        op: &'static str,
        /// Size of the result.
        bytes: usize,
    },

    /// The process was forked while another thread of the parent computed the value.
    ///
    /// That thread does not exist in this process, so the value never becomes ready.
    #[error(
        "the process was forked while another thread computed this value; fork when no thread computes, or call `exec` in the child"
    )]
    Forked,

    /// An argument or a result of a traced function does not match its annotation.
    #[error("`{function}`: {fault}")]
    Annotation {
        /// Path of the function.
        function: &'static str,
        /// The mismatch.
        fault: Box<AnnotationFault>,
    },

    /// A gradient was requested with respect to a tensor that is not a float.
    #[error(
        "`{path}` is {aval}, and only floats have gradients; {}",
        remedy_for_integers(path)
    )]
    NotDifferentiable {
        /// Path of the argument, or of its leaf.
        path: String,
        /// Aval of the leaf.
        aval: Aval,
    },

    /// A gradient was requested of a result that is not a single float.
    #[error(
        "a gradient needs a result that is a single float, and this is {aval}; sum it, or use `vjp`"
    )]
    NotScalar {
        /// Aval of the result.
        aval: Aval,
    },

    /// A tangent or cotangent differs from its primal in shape or dtype.
    #[error("the {what} of `{path}` is {found}, expected {expected}")]
    Mismatch {
        /// `tangent` or `cotangent`.
        what: &'static str,
        /// Path of the argument or result, or of its leaf.
        path: String,
        /// Aval of the tangent or cotangent.
        found: Box<Aval>,
        /// Aval of the primal.
        expected: Box<Aval>,
    },

    /// A value was read inside of a function that `vmap` applies to many lanes, or that a loop repeats.
    #[error(
        "this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read"
    )]
    Lane,

    /// An argument or a result of `vmap` does not fit.
    #[error("`vmap`: {0}")]
    Vmap(Box<VmapFault>),

    /// An argument or a result of a loop or a conditional does not fit.
    #[error("`{by}`: {fault}")]
    Control {
        /// Function that was called, such as `scan`.
        by: &'static str,
        /// The misfit.
        fault: Box<ControlFault>,
    },

    /// A tensor with a batch prefix does not fit.
    #[error("{method}: {fault}")]
    BatchPrefix {
        /// Method that was called, such as `incr_batch_dims`.
        method: &'static str,
        /// The misfit.
        fault: Box<PrefixFault>,
    },

    /// A value was read that has no elements, because it stands for an argument of a function that is
    /// traced without running.
    #[error(
        "this value has no elements, because `trace` records the function without its arguments: return what you want to read, or trace a part that reads nothing"
    )]
    Abstract,

    /// A trace does not accept what it is given.
    #[error("{0}")]
    Trace(Box<TraceFault>),

    /// An op produced a NaN or an infinity inside of [`detect_anomaly`](crate::detect_anomaly).
    #[error("{0}")]
    Anomaly(Box<Anomaly>),
    /// A custom function or a kernel of the user breaks its contract.
    #[error("`{function}`: {fault}")]
    Custom {
        /// Name of the function.
        function: String,
        /// The breach.
        fault: Box<CustomFault>,
    },

    /// A backward pass to parameters is not possible.
    #[error("{0}")]
    Backward(Box<BackwardFault>),

    /// A mesh, a spec or a program for devices does not fit.
    #[error("{call}: {fault}")]
    Sharding {
        /// Function that was called, such as `shard_map`.
        call: &'static str,
        /// The misfit.
        fault: Box<ShardingFault>,
    },

    /// A computation failed on a device of a mesh.
    #[error("device {device}: {error}{}", of_part(error))]
    Device {
        /// Number of the device, in row-major order of its position in the mesh.
        device: usize,
        /// The error.
        error: Box<Error>,
    },

    /// Two trees that belong together have different structures.
    #[error(
        "the {what} has {found} lea{}, expected {expected}",
        if *found == 1 { "f" } else { "ves" }
    )]
    Structure {
        /// Name of the tree that does not match.
        what: &'static str,
        /// Number of its leaves.
        found: usize,
        /// Expected number of leaves.
        expected: usize,
    },

    /// A pattern of paths matches no parameter.
    #[error(
        "the pattern `{pattern}` matches no parameter; the parameters are {}",
        paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Paths of all leaves of the tree.
        paths: Vec<String>,
    },

    /// Two trees whose leaves are paired have different structures, shapes or dtypes.
    #[error("`{function}`: the trees differ at leaf {leaf}: {left}, and {right}")]
    Trees {
        /// Function that pairs the leaves, such as `tree::add`.
        function: &'static str,
        /// Index of the first leaf that differs.
        leaf: usize,
        /// Path of this leaf in the left tree, with its dtype and shape.
        left: Box<str>,
        /// Path of this leaf in the right tree, with its dtype and shape.
        right: Box<str>,
    },
}

impl Error {
    /// Adds the place of the user's call to an anomaly that has none.
    pub(crate) fn at(mut self, at: &Location<'_>) -> Error {
        if let Error::Anomaly(anomaly) = &mut self {
            anomaly.at.get_or_insert_with(|| at.to_string());
        }
        self
    }

    /// Returns an error of code of the user, such as a kernel.
    ///
    /// ```
    /// let error = gradloom::Error::of_host("solver", "no convergence after 100 steps");
    /// assert_eq!(error.to_string(), "`solver`: no convergence after 100 steps");
    /// ```
    pub fn of_host(function: impl Into<String>, message: impl Into<String>) -> Error {
        let message = message.into();
        CustomFault::Failed { message }.into_error(function)
    }

    /// Converts an error of a kernel, adding the name of the op.
    pub(crate) fn of_kernel(op: &'static str, fault: KernelFault) -> Error {
        match fault {
            KernelFault::Label {
                label,
                classes,
                row,
            } => Error::Label {
                op,
                label,
                row,
                classes,
            },
            KernelFault::Index {
                index,
                len,
                position,
            } => Error::Index {
                op,
                index,
                position,
                len,
            },
            KernelFault::DivisionByZero { element } => Error::DivisionByZero { op, element },
            KernelFault::OutOfMemory { bytes } => Error::OutOfMemory { op, bytes },
            KernelFault::Within { op, fault } => Error::of_kernel(op, *fault),
            KernelFault::Device { device, fault } => Error::Device {
                device,
                error: Box::new(Error::of_kernel(op, *fault)),
            },
            KernelFault::Host { kernel, message } => {
                CustomFault::Failed { message }.into_error(kernel)
            }
        }
    }
}

/// Returns a note for errors with a position: a device knows its part only.
fn of_part(error: &Error) -> &'static str {
    match error {
        Error::Label { .. } | Error::Index { .. } | Error::DivisionByZero { .. } => {
            ", counted in the part of the device"
        }
        _ => "",
    }
}

/// Prints the same text as `Display`, because `fn main() -> Result<()>` and `unwrap` show this one.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The first NaN or infinity of a computation, see [`detect_anomaly`](crate::detect_anomaly).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Anomaly {
    /// Op that produced the element, or that has an operand with it: its name, or that of a custom function or kernel.
    pub op: String,
    /// Index of the operand that has the element, if it was given and not computed.
    pub operand: Option<usize>,
    /// The element: `NaN`, `inf` or `-inf`.
    pub found: String,
    /// Index of the first such element along each axis.
    pub index: Vec<usize>,
    /// Dtype and shape of the tensor that has the element.
    pub aval: Aval,
    /// Pass that recorded the op.
    pub phase: Phase,
    /// Place of the call that recorded the op, as `file:line:column`.
    pub at: Option<String>,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Anomaly {
            op,
            operand,
            found,
            index,
            aval,
            phase,
            at,
        } = self;
        match operand {
            Some(operand) => write!(
                f,
                "operand {operand} of `{op}`, which was not computed here, has {found} at {index:?}"
            )?,
            None => write!(f, "`{op}` gave {found} at {index:?}")?,
        }
        write!(f, " of {aval}, in the {phase} pass")?;
        match at {
            Some(at) => write!(f, ", called at {at}"),
            None => Ok(()),
        }
    }
}

/// Pass of a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The ops that compute values, and tangents of forward mode.
    Forward,
    /// The ops of a pullback.
    Backward,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
        })
    }
}

/// Fault of a use of a trace.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// A context was used that is closed, or inside of which another one is open.
    #[error("Trace context is not active: it is closed, or another one was opened inside of it")]
    Inactive,
    /// A node belongs to another trace, or to none.
    #[error(
        "node {node}, `{text}`, is not a node of this trace: make it while the trace is active, or make an input of it"
    )]
    Outside {
        /// Identity of the node.
        node: String,
        /// The node as it prints.
        text: String,
    },
    /// A saved trace has no header.
    #[error("the text does not begin with `gradloom trace {version}`", version = crate::error::TRACE_VERSION)]
    NoHeader,
    /// A saved trace has another version.
    #[error("the trace has version {found}, and this library reads version {version}", version = crate::error::TRACE_VERSION)]
    Version {
        /// Version in the header.
        found: String,
    },
    /// The text of a saved trace is not a program.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The message of the parser.
        message: String,
    },
    /// The program of a saved trace is not valid.
    #[error("the program is not valid: {0}")]
    Invalid(String),
    /// An argument does not have the dtype and shape with which the function was traced.
    #[error("`{path}` is {found}, and the function was traced with {expected}")]
    Argument {
        /// Path of the leaf.
        path: String,
        /// Aval of the leaf.
        found: Aval,
        /// Aval of the traced argument.
        expected: String,
    },
    /// A program was called with another number of arguments.
    #[error("the program takes {expected} arguments, and {found} are given")]
    Count {
        /// Number of arguments.
        found: usize,
        /// Number of parameters.
        expected: usize,
    },
    /// An argument of a [`ProgramPlan`](crate::trace::ProgramPlan) is traced by a transform.
    #[error(
        "`{path}` is traced by a transform, and a planned program has no derivative; use `trace::run`, which records its operations"
    )]
    Watched {
        /// Name of the parameter.
        path: String,
    },
}

/// Version of the text form of traces.
pub(crate) const TRACE_VERSION: u32 = 1;

impl TraceFault {
    /// Returns the fault of a node that is not one of the trace.
    pub(crate) fn outside(node: &impl fmt::Display, id: &impl fmt::Display) -> TraceFault {
        TraceFault::Outside {
            node: id.to_string(),
            text: node.to_string(),
        }
    }
}

impl From<TraceFault> for Error {
    fn from(fault: TraceFault) -> Error {
        Error::Trace(Box::new(fault))
    }
}

/// Misfit of an argument, an axis or a result of `vmap`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VmapFault {
    /// A leaf does not have the axis of the lanes.
    #[error("`{path}` is {aval}, which has no axis {axis} for the lanes")]
    NoAxis {
        /// Path of the leaf.
        path: String,
        /// Requested axis.
        axis: isize,
        /// Aval of the leaf.
        aval: Aval,
    },
    /// The arguments have different numbers of lanes.
    #[error("the numbers of lanes differ: {}", counts_text(counts, asked.map(|n| (n, "axis_size"))))]
    Counts {
        /// Paths of the leaves, with their numbers of lanes.
        counts: Vec<(String, usize)>,
        /// Number that `axis_size` requests.
        asked: Option<usize>,
    },
    /// Nothing tells the number of lanes.
    #[error("the lanes share all arguments, so give their number with `axis_size(n)`")]
    NoLanes,
    /// A result was requested without lanes, but lanes have different values.
    #[error("`{path}` differs between lanes, so its `out_axes` cannot be `None`")]
    Differs {
        /// Path of the result.
        path: String,
    },
    /// Axes are given for a part that does not exist.
    #[error("`{what}` names `{part}`, and no such part has a tensor")]
    NoPart {
        /// `in_axes` or `out_axes`.
        what: &'static str,
        /// The part.
        part: String,
    },
    /// Axes are given twice for a part.
    #[error("`{what}` names `{part}` twice")]
    Twice {
        /// `in_axes` or `out_axes`.
        what: &'static str,
        /// The part.
        part: String,
    },
    /// A tuple of axes is too short.
    #[error("`{what}` has {parts} entr{}, and none for `{path}`", y_or_ies(*parts))]
    NotCovered {
        /// `in_axes` or `out_axes`.
        what: &'static str,
        /// Path of a leaf without an entry.
        path: String,
        /// Number of entries.
        parts: usize,
    },
    /// A tuple of axes does not have an entry for each argument of a traced function.
    #[error(
        "`in_axes` has {found} entr{}, expected one for each of {}",
        y_or_ies(*found),
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    Entries {
        /// Number of entries.
        found: usize,
        /// Names of the arguments.
        names: Vec<String>,
    },
    /// An op cannot be applied to lanes.
    #[error("`{op}` cannot be applied to lanes")]
    NoRule {
        /// The op.
        op: gradloom_ir::Op,
    },
    /// A mesh axis cannot split the lanes.
    #[error("`{axis}` cannot split the lanes: {reason}")]
    MeshAxis {
        /// Name of the axis, by `spmd_axis_name`.
        axis: String,
        /// The reason.
        reason: String,
    },
}

impl VmapFault {
    pub(crate) fn into_error(self) -> Error {
        Error::Vmap(Box::new(self))
    }
}

/// Misfit of an argument or a result of a loop or a conditional.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlFault {
    /// A leaf has no axis for the turns.
    #[error("`{path}` is {aval}, which has no axis 0 for the turns")]
    NoSlices {
        /// Path of the leaf.
        path: String,
        /// Aval of the leaf.
        aval: Aval,
    },
    /// The operands have different numbers of slices.
    #[error("the numbers of turns differ: {}", counts_text(counts, asked.map(|n| (n, "turns"))))]
    Turns {
        /// Paths of the leaves, with their lengths along axis 0.
        counts: Vec<(String, usize)>,
        /// Number that `turns` requests.
        asked: Option<usize>,
    },
    /// Nothing tells the number of turns.
    #[error("no operand has slices, so give the number of turns by `turns`")]
    NoTurns,
    /// A condition is not a truth value.
    #[error("the condition is {aval}, expected bool[]")]
    Condition {
        /// Aval of the condition.
        aval: Aval,
    },
    /// An index is not an integer.
    #[error("the index is {aval}, expected i32[] or i64[]")]
    Index {
        /// Aval of the index.
        aval: Aval,
    },
    /// There is no branch.
    #[error("there is no branch")]
    NoBranches,
    /// The functions of a rule capture a value that a transform traces.
    #[error("a function captures {aval}, which a transform traces: pass it as an argument")]
    Captured {
        /// Aval of the value.
        aval: Aval,
    },
    /// A rule for the derivative of a function calls this function.
    #[error("a rule calls its own function: it gets the result as an argument")]
    CallsItself,
    /// The results of an op shall be kept that does not exist.
    #[error(
        "no op has the name `{name}`: the names to keep are those that a program prints, such as `matmul`"
    )]
    NoOp {
        /// The name.
        name: &'static str,
    },
    /// A function that has to be linear is not.
    #[error("the function is not linear in its argument, because of `{op}`")]
    NotLinear {
        /// Name of the op.
        op: &'static str,
    },
    /// The tangent that a rule returns is not linear in that of the argument.
    #[error("the rule is not linear in the tangent of the argument, because of `{op}`")]
    NonlinearRule {
        /// Name of the op.
        op: &'static str,
    },
    /// A function with a reverse-mode rule was differentiated in forward mode.
    #[error(
        "it has a rule for reverse mode only: use `grad` or `vjp`, or give a rule for forward mode by `custom_jvp` or `#[traced(jvp = ..)]`"
    )]
    ReverseOnly,
    /// The gradient of a loop with a condition was differentiated in reverse mode.
    #[error(
        "its gradient cannot be differentiated in reverse mode: use forward mode, as `hvp` and `jvp` do, or a loop with a known number of turns, such as `scan`"
    )]
    Irreversible,
}

impl ControlFault {
    pub(crate) fn into_error(self, by: &'static str) -> Error {
        let fault = Box::new(self);
        Error::Control { by, fault }
    }
}

/// Misfit of a mesh, a spec or a program for devices.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingFault {
    /// A collective was called outside of a program for devices.
    #[error(
        "it works on the values of several devices, so call it inside of a function that `shard_map` runs"
    )]
    Outside,
    /// A mesh or a spec is not valid.
    #[error("{0}")]
    Spec(#[from] ShardingError),
    /// A spec refers to another mesh.
    #[error("{spec} does not refer to {mesh}")]
    OtherMesh {
        /// The spec.
        spec: String,
        /// The mesh.
        mesh: String,
    },
    /// A spec is partial.
    #[error(
        "{spec} is partial, and a tensor outside of a program for devices is whole: leave `partial` out, and reduce the \
         results of devices by `all_reduce`"
    )]
    Partial {
        /// The spec.
        spec: String,
    },
    /// Specs cut an axis in parts that do not fit each other.
    #[error("the specs cut \"{axis}\" in parts that overlap")]
    Parts {
        /// Name of the axis.
        axis: String,
    },
    /// A mesh does not have an axis.
    #[error("there is no axis \"{axis}\" in {mesh}")]
    NoAxis {
        /// Name of the axis.
        axis: String,
        /// The mesh.
        mesh: String,
    },
    /// A group of devices does not have a position.
    #[error("a group of {n} devices has no position {position}")]
    NoPosition {
        /// The position.
        position: usize,
        /// Number of devices of a group.
        n: usize,
    },
    /// A spec does not have the number of dims of its leaf.
    #[error(
        "`{path}` is {aval}, and its spec has {dims} dim{}: {spec}",
        if *dims == 1 { "" } else { "s" }
    )]
    Rank {
        /// Path of the leaf.
        path: String,
        /// Aval of the leaf.
        aval: Aval,
        /// Number of dims of the spec.
        dims: usize,
        /// The spec.
        spec: String,
    },
    /// An axis cannot be divided in equal parts.
    #[error("`{path}` is {aval}: {reason}; pad it")]
    Uneven {
        /// Path of the leaf.
        path: String,
        /// Aval of the leaf.
        aval: Aval,
        /// Axis, length and number of parts.
        reason: String,
    },
    /// A result differs between devices, and its spec does not say so.
    #[error(
        "`{path}` may differ between the devices along {}, and its spec does not divide it there: use `all_reduce` or `all_gather`, or name the axis in `out_specs`",
        quoted(axes)
    )]
    Differs {
        /// Path of the leaf.
        path: String,
        /// Names of the axes.
        axes: Vec<String>,
    },
    /// A value is not a float.
    #[error("the operand is {aval}, expected a float")]
    NotAFloat {
        /// Aval of the value.
        aval: Aval,
    },
    /// An entry of the specs names a part that does not exist.
    #[error("`{what}` has an entry for `{part}`, which names no tensor")]
    NoPart {
        /// `in_specs` or `out_specs`.
        what: &'static str,
        /// Name of the part.
        part: String,
    },
    /// A part of a tuple or an element of a list has no spec.
    #[error("`{what}` has {entries} entries, and none for {}", if path.is_empty() { "a single tensor".to_owned() } else { format!("`{path}`") })]
    NotCovered {
        /// `in_specs` or `out_specs`.
        what: &'static str,
        /// Path of the leaf.
        path: String,
        /// Number of entries.
        entries: usize,
    },
    /// The program for the devices is wrong.
    #[error("{reason}")]
    Program {
        /// The reason.
        reason: String,
    },
}

impl ShardingFault {
    pub(crate) fn into_error(self, call: &'static str) -> Error {
        let fault = Box::new(self);
        Error::Sharding { call, fault }
    }
}

/// Returns names in quotation marks.
fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("\"{name}\""));
    names.collect::<Vec<_>>().join(", ")
}

/// Breach of the contract of a custom function or of a kernel of the user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomFault {
    /// A derivative or a batch needs a rule that the function does not have.
    #[error("it has no rule `{rule}`, which {needed_by} needs")]
    NoRule {
        /// Name of the method that is missing.
        rule: &'static str,
        /// Transform that needs it.
        needed_by: &'static str,
    },
    /// A function has no result.
    #[error("`{rule}` returned no tensor")]
    NoOutputs {
        /// Name of the method that says so: `forward`, or `avals` of a kernel.
        rule: &'static str,
    },
    /// A rule returned another number of tensors than expected.
    #[error("`{rule}` returned {found} tensor{}, expected {expected}", if *found == 1 { "" } else { "s" })]
    Count {
        /// Name of the rule.
        rule: &'static str,
        /// Number of tensors that it returned.
        found: usize,
        /// Expected number.
        expected: usize,
    },
    /// A rule returned a tensor of another shape than that of its primal.
    #[error("`{rule}` returned {found:?} as the shape for `{path}`, expected {expected:?}")]
    Shape {
        /// Name of the rule.
        rule: &'static str,
        /// Path of the input or result.
        path: String,
        /// Shape that the rule returned.
        found: Vec<usize>,
        /// Shape of the primal.
        expected: Vec<usize>,
    },
    /// A rule returned a tensor of another dtype than that of its primal.
    #[error("`{rule}` returned {found} for `{path}`, expected {expected}")]
    DType {
        /// Name of the rule.
        rule: &'static str,
        /// Path of the input or result.
        path: String,
        /// Dtype that the rule returned.
        found: DType,
        /// Dtype of the primal.
        expected: DType,
    },
    /// A rule returned a number that is not finite, and the function checks this.
    #[error("`{rule}` returned {value} at element {element} for `{path}`")]
    NotFinite {
        /// Name of the rule.
        rule: &'static str,
        /// Path of the input or result.
        path: String,
        /// Index of the element, in row-major order.
        element: usize,
        /// The number.
        value: f64,
    },
    /// Something was asked of a context that `forward` did not save.
    #[error("the context has no {what}: `forward` did not save it")]
    ContextMissing {
        /// The thing, such as `saved tensor 2`.
        what: String,
    },
    /// The context was released.
    #[error(
        "its context was released at {at}; call `retain_graph` for a backward pass that keeps it"
    )]
    ContextReleased {
        /// Place of the call that released it.
        at: String,
    },
    /// A derivative of a rule was asked for, which read elements on its way.
    #[error(
        "`{rule}` reads elements, so a derivative of second order would lose what it computes from them: make it of tensor \
         operations, or read `x.stop_gradient()` if this part has no derivative"
    )]
    ReadsElements {
        /// Name of the rule.
        rule: &'static str,
    },
    /// The function reads a value that a transform traces and that is not an argument.
    #[error("`forward` captures {aval}, which a transform traces: pass it as an argument")]
    Captured {
        /// Aval of the value.
        aval: Aval,
    },
    /// A function with `lane_result` was called where values stand for those of a body.
    #[error(
        "a function with `lane_result` cannot be called in the body of a loop, a branch, a checkpoint or a rule: make \
         `forward` of tensor operations, and leave `lane_result` out"
    )]
    InBody,
    /// A kernel with a rule for reverse mode was differentiated in forward mode.
    #[error(
        "the kernel has a rule for reverse mode only: use `grad` or `vjp`, or call it in `forward` of a `CustomFunction` with a `jvp`"
    )]
    ReverseOnly,
    /// A kernel without a derivative was differentiated.
    #[error(
        "the kernel has no derivative: implement `vjp`, or call it in `forward` of a `CustomFunction`"
    )]
    NoDerivative,
    /// Code of the user returned an error: see [`Error::of_host`].
    #[error("{message}")]
    Failed {
        /// Message of the code.
        message: String,
    },
    /// A program that was parsed has no code for its custom functions.
    #[error("the program was parsed from text, which does not hold the code of custom functions")]
    Parsed,
}

impl CustomFault {
    pub(crate) fn into_error(self, function: impl Into<String>) -> Error {
        let (function, fault) = (function.into(), Box::new(self));
        Error::Custom { function, fault }
    }
}

/// Reason why a backward pass to parameters is not possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackwardFault {
    /// A parameter would not be a float.
    #[error("a `Param` holds a float, and this is {aval}; cast it, or keep it as a `Tensor`")]
    NotFloat {
        /// Aval of the value.
        aval: Aval,
    },
    /// The result does not depend on a parameter.
    #[error(
        "`backward` of {aval}, which does not depend on a `Param`: compute it from `Param::tensor`, outside of `no_grad`"
    )]
    Disconnected {
        /// Aval of the result.
        aval: Aval,
    },
    /// An earlier backward pass has followed a part of the graph.
    #[error(
        "`backward` a second time through `{node}`, which the call at {first} has followed; use `retain_graph` there"
    )]
    Second {
        /// The first op that was followed before.
        node: String,
        /// Place of the earlier call.
        first: String,
    },
    /// A tensor is a node of an earlier epoch of a graph, see [`engine`](crate::engine).
    #[error(
        "`{path}` is of epoch {found} of the graph, which has been released, and this is epoch {epoch}: record it again"
    )]
    Stale {
        /// Path of the tensor.
        path: String,
        /// Its epoch.
        found: u64,
        /// Epoch of the graph.
        epoch: u64,
    },
    /// A tensor is not a node of a graph.
    #[error(
        "`{path}`, {aval}, is not in this graph: make it one of its inputs by `ModeGuard::input`, or compute it from one"
    )]
    Outside {
        /// Path of the tensor.
        path: String,
        /// Its aval.
        aval: Aval,
    },
    /// A result does not depend on the argument of `pull_back`.
    #[error("`pull_back` of {aval}, which does not depend on the argument")]
    Independent {
        /// Aval of the result.
        aval: Aval,
    },
    /// A value of another shape or dtype would replace a parameter.
    #[error("the parameter is {expected}, and this is {found}")]
    Set {
        /// Aval of the new value.
        found: Aval,
        /// Aval of the parameter.
        expected: Aval,
    },
}

impl BackwardFault {
    pub(crate) fn into_error(self) -> Error {
        Error::Backward(Box::new(self))
    }
}

fn y_or_ies(n: usize) -> &'static str {
    if n == 1 { "y" } else { "ies" }
}

/// Misfit of a tensor with a batch prefix.
///
/// Avals print the prefix before a bar: `f32[5 | 3, 4]`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixFault {
    /// The prefixes of two operands have different lengths.
    #[error(
        "the batch prefixes of {left} and {right} do not align: a batch axis is {} on the left and {} on the right",
        lens[0], lens[1]
    )]
    Lengths {
        /// Lengths of corresponding axes.
        lens: [usize; 2],
        /// Aval of one operand.
        left: Aval,
        /// Aval of another one.
        right: Aval,
    },
    /// The logical shape has no axis that could join the prefix.
    #[error("the logical shape of {aval} has no axis that could join the batch prefix")]
    NoAxis {
        /// Aval of the tensor.
        aval: Aval,
    },
    /// There is no batch prefix.
    #[error("{aval} has no batch prefix")]
    NoPrefix {
        /// Aval of the tensor.
        aval: Aval,
    },
    /// A physical axis is out of range.
    #[error(
        "physical axis {axis} is out of range: {aval} has {} axes, of which {} are the batch prefix",
        aval.physical_shape().len(), aval.batch_dims()
    )]
    NoPhysicalAxis {
        /// The axis.
        axis: isize,
        /// Aval of the tensor.
        aval: Aval,
    },
    /// An axis of the prefix is out of range.
    #[error("batch axis {axis} is out of range: the batch prefix of {aval} has rank {}", aval.batch_dims())]
    NoBatchAxis {
        /// The axis.
        axis: isize,
        /// Aval of the tensor.
        aval: Aval,
    },
    /// A destination is not an axis of the logical shape of the result.
    #[error(
        "logical destination {axis} is out of range: the result of {aval} has logical rank {}",
        aval.rank() + 1
    )]
    NoDestination {
        /// The destination.
        axis: isize,
        /// Aval of the tensor.
        aval: Aval,
    },
    /// A value that all elements share has a cotangent, and there is no element.
    #[error(
        "{aval} is a cotangent of a value that the elements of a batch prefix share, and the prefix is empty; pass a closure to `gradloom::vjp` or `gradloom::grad`"
    )]
    Empty {
        /// Aval of the cotangent.
        aval: Aval,
    },
    /// A traced function whose companion is called changes the prefix.
    #[error(
        "a traced function changes a batch prefix, on the way to or from {aval}: use `gradloom::vjp` or `gradloom::grad` of a closure that calls it"
    )]
    Changed {
        /// Aval of the result, or of the argument.
        aval: Aval,
    },
    /// An op cannot be applied to each element of a prefix.
    #[error("it cannot be applied to each element of a batch prefix")]
    NoRule,
}

impl PrefixFault {
    pub(crate) fn into_error(self, method: &'static str) -> Error {
        let fault = Box::new(self);
        Error::BatchPrefix { method, fault }
    }
}

fn counts_text(counts: &[(String, usize)], asked: Option<(usize, &str)>) -> String {
    let counts = counts.iter().map(|(path, n)| format!("{n} in `{path}`"));
    let asked = asked.map(|(n, by)| format!("{n} by `{by}`"));
    counts.chain(asked).collect::<Vec<_>>().join(", ")
}

/// Mismatch between an argument or result and its annotation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnnotationFault {
    /// The dtype differs.
    DType {
        /// Name of the argument or result.
        what: &'static str,
        /// Its dtype.
        found: DType,
        /// Annotated dtype.
        expected: DType,
    },
    /// The rank differs.
    Rank {
        /// Name of the argument or result.
        what: &'static str,
        /// Its rank.
        found: usize,
        /// Annotated rank.
        expected: usize,
        /// Source text of the annotated dims.
        written: &'static str,
    },
    /// The length of an axis differs from the annotated number or sum.
    Length {
        /// Name of the argument or result.
        what: &'static str,
        /// Axis with the wrong length.
        axis: usize,
        /// Length of that axis.
        found: usize,
        /// Annotated length.
        expected: i128,
        /// Source text of the annotated sum, or `None` if the annotation is a number.
        written: Option<&'static str>,
    },
    /// Two axes with the same name have different lengths.
    Name {
        /// Name that both axes have.
        name: &'static str,
        /// Argument or result that binds the name, with the axis and its length.
        first: (&'static str, usize, usize),
        /// Argument or result that disagrees, with the axis and its length.
        second: (&'static str, usize, usize),
    },
    /// The mesh does not have an axis that splits a dim.
    MeshAxis {
        /// Name of the argument or result.
        what: &'static str,
        /// Dim that the axis splits.
        dim: usize,
        /// Name of the axis.
        axis: &'static str,
        /// The mesh.
        mesh: String,
    },
    /// Mesh axes split a tensor that is a part of one device already.
    Part {
        /// Name of the argument or result.
        what: &'static str,
    },
}

impl fmt::Display for AnnotationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnnotationFault::DType {
                what,
                found,
                expected,
            } => write!(f, "{what} is {found}, expected {expected}"),
            AnnotationFault::Rank {
                what,
                found,
                expected,
                written,
            } => write!(
                f,
                "{what} has rank {found}, expected rank {expected}, as in {written}"
            ),
            AnnotationFault::Length {
                what,
                axis,
                found,
                expected,
                written: None,
            } => write!(f, "axis {axis} of {what} is {found}, expected {expected}"),
            AnnotationFault::Length {
                what,
                axis,
                found,
                expected,
                written: Some(written),
            } => write!(
                f,
                "axis {axis} of {what} is {found}, expected `{written}`, which is {expected}"
            ),
            AnnotationFault::Name {
                name,
                first,
                second,
            } => write!(
                f,
                "`{name}` is {} in axis {} of {}, and {} in axis {} of {}",
                first.2, first.1, first.0, second.2, second.1, second.0
            ),
            AnnotationFault::MeshAxis {
                what,
                dim,
                axis,
                mesh,
            } => write!(
                f,
                "the annotation of {what} splits dim {dim} over `{axis}`, and there is no such axis in {mesh}"
            ),
            AnnotationFault::Part { what } => write!(
                f,
                "the annotation of {what} has mesh axes, which split a whole tensor, and inside of `shard_map` {what} is \
                 the part of a device; call a function without mesh axes there"
            ),
        }
    }
}

/// Returns the remedy for a leaf that is not a float: a field of a model can be frozen.
fn remedy_for_integers(path: &str) -> &'static str {
    let mut members = path.split('.').skip(1);
    match members.any(|member| !member.starts_with(|c: char| c.is_ascii_digit())) {
        true => "mark the field `#[nodiff]`, cast it, or mark the parameter `#[nodiff]`",
        false => "cast it, or mark the parameter `#[nodiff]`",
    }
}
