//! Tensors with their nodes.

use crate::error::TraceFault;
use crate::observe::{
    Attribute, NodeOutput, TraceContext, TraceHandle, TraceNode, leaf, note_line,
};
use crate::raise::{catch, expect};
use crate::tensor::record::alias;
use crate::{DType, Result, Tensor};
use std::borrow::Cow;
use std::ops::{self, Deref};
use std::panic::Location;
use std::sync::Arc;

/// A tensor with the node of the operation that computed it.
///
/// The value is an ordinary tensor: it can be read, or passed on to code that knows no traces. Operations link
/// their nodes to those of their operands. If a [`TraceContext`] is active, it lists them; without one they link
/// nodes all the same.
///
/// A few operations are methods of their own; [`apply`](Self::apply) is for all others:
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::trace::TracedTensor;
///
/// let x = TracedTensor::named_input(&Tensor::from([[1.0f32, -2.0]]), "x");
/// let y = x.apply(|x| x.tanh().sum(-1))?;
/// assert_eq!(y.node().to_string(), "sum([1])");
/// assert_eq!(y.node().inputs()[0].node.to_string(), "tanh([1, 2])");
/// assert_eq!(y.shape(), [1]);
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TracedTensor {
    underlying: Tensor,
    output: NodeOutput,
}

impl TracedTensor {
    /// Returns the tensor as an input of the active trace.
    pub fn input(tensor: &Tensor) -> TracedTensor {
        TracedTensor::of_leaf(tensor, leaf("input", tensor.aval().clone()))
    }

    /// Returns the tensor as an input of the active trace, with a name.
    pub fn named_input(tensor: &Tensor, name: impl Into<String>) -> TracedTensor {
        TracedTensor::of_leaf(tensor, leaf("input", tensor.aval().clone()).named(name))
    }

    #[track_caller]
    fn of_leaf(tensor: &Tensor, node: TraceNode) -> TracedTensor {
        // Inputs that are made of one tensor are different inputs.
        let tensor = &alias(tensor);
        let Some(trace) = TraceContext::current() else {
            let node = Arc::new(node);
            return TracedTensor::new(tensor, NodeOutput { node, index: 0 });
        };
        let output = trace.on_log(|log| {
            let node = log.push(node);
            let output = NodeOutput { node, index: 0 };
            log.hold(tensor.physical_value(), output.clone());
            output
        });
        note_line(Location::caller());
        TracedTensor::new(tensor, output)
    }

    fn new(underlying: &Tensor, output: NodeOutput) -> TracedTensor {
        TracedTensor {
            underlying: underlying.clone(),
            output,
        }
    }

    /// Returns the result of an operation that the library does not know, with a node of this name.
    ///
    /// # Errors
    ///
    /// If a trace is active, and an operand is not one of its.
    pub fn of_operation(
        result: &Tensor,
        operation: impl Into<Cow<'static, str>>,
        operands: &[&TracedTensor],
        attributes: Vec<(Cow<'static, str>, Attribute)>,
    ) -> Result<TracedTensor> {
        let inputs = operands.iter().map(|x| x.output.clone()).collect();
        let avals = vec![result.aval().clone()];
        let node = Arc::new(TraceNode::new(operation, inputs, avals, attributes));
        let output = NodeOutput { node, index: 0 };
        if let Some(trace) = TraceContext::current() {
            trace.record_node(output.node.clone())?;
            trace.on_log(|log| log.hold(result.physical_value(), output.clone()));
        }
        Ok(TracedTensor::new(result, output))
    }

    /// Returns the tensor.
    pub fn underlying(&self) -> &Tensor {
        &self.underlying
    }

    /// Returns the node.
    pub fn node(&self) -> &Arc<TraceNode> {
        &self.output.node
    }

    /// Returns the index of the tensor among the results of its node.
    pub fn output_index(&self) -> usize {
        self.output.index
    }

    /// Returns the lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        self.underlying.shape()
    }

    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.underlying.dtype()
    }

    /// Returns the sum. The shapes are broadcast.
    ///
    /// # Errors
    ///
    /// If the operands do not fit, or are not of the active trace.
    #[track_caller]
    pub fn add(&self, other: &TracedTensor) -> Result<TracedTensor> {
        TracedTensor::traced(&[self, other], || &self.underlying + &other.underlying)
    }

    /// Returns the elementwise product. The shapes are broadcast.
    ///
    /// # Errors
    ///
    /// If the operands do not fit, or are not of the active trace.
    #[track_caller]
    pub fn multiply(&self, other: &TracedTensor) -> Result<TracedTensor> {
        TracedTensor::traced(&[self, other], || &self.underlying * &other.underlying)
    }

    /// Returns the matrix product, see [`Tensor::matmul`].
    ///
    /// # Errors
    ///
    /// If the operands do not fit, or are not of the active trace.
    #[track_caller]
    pub fn matmul(&self, other: &TracedTensor) -> Result<TracedTensor> {
        TracedTensor::traced(&[self, other], || self.underlying.matmul(&other.underlying))
    }

    /// Returns the elements, and 0 for those below 0.
    ///
    /// # Errors
    ///
    /// If the dtype has no such op, or the operand is not of the active trace.
    #[track_caller]
    pub fn relu(&self) -> Result<TracedTensor> {
        TracedTensor::traced(&[self], || self.underlying.relu())
    }

    /// Applies any function of a tensor. Each operation of it becomes a node.
    ///
    /// Tensors that `f` captures are constants of the trace, unless they are values of it.
    ///
    /// # Errors
    ///
    /// If an operation of `f` does not accept its operands, or the operand is not of the active trace.
    #[track_caller]
    pub fn apply(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Result<TracedTensor> {
        TracedTensor::traced(&[self], || f(&self.underlying))
    }

    /// Runs `f`, which computes on the tensors of the operands, and returns its result with its node.
    #[track_caller]
    fn traced(operands: &[&TracedTensor], f: impl FnOnce() -> Tensor) -> Result<TracedTensor> {
        let Some(trace) = TraceContext::current() else {
            // The nodes are those of a trace that nobody sees.
            let unseen = TraceContext::new();
            return TracedTensor::within(&unseen, operands, f);
        };
        let outside = |x: &&&TracedTensor| !trace.on_log(|log| log.contains(x.node()));
        if let Some(x) = operands.iter().find(outside) {
            return Err(TraceFault::outside(x.node(), &x.node().id()).into());
        }
        TracedTensor::within(&trace, operands, f)
    }

    fn within(
        trace: &TraceHandle,
        operands: &[&TracedTensor],
        f: impl FnOnce() -> Tensor,
    ) -> Result<TracedTensor> {
        trace.on_log(|log| {
            for x in operands {
                log.hold(x.underlying.physical_value(), x.output.clone());
            }
        });
        let result = catch(|| Ok(f()))?;
        let output = trace.on_log(|log| log.output_of(result.physical_value()));
        Ok(TracedTensor::new(&result, output))
    }
}

impl TraceHandle {
    /// Returns a tensor with its node, if the trace has met it.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::trace::{TraceContext, TracedTensor};
    ///
    /// let trace = TraceContext::new();
    /// let x = TracedTensor::input(&Tensor::from([1.0f32, 2.0]));
    /// let y = x.exp().sum(..); // methods of the tensor, which return tensors
    /// let y = trace.find(&y).unwrap();
    /// assert_eq!(y.node().to_string(), "sum([])");
    /// ```
    pub fn find(&self, tensor: &Tensor) -> Option<TracedTensor> {
        let output = self.on_log(|log| log.find(tensor.physical_value()))?;
        Some(TracedTensor::new(tensor, output))
    }
}

/// A traced tensor can be used where a tensor is read, and has the methods of tensors. They return tensors.
impl Deref for TracedTensor {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.underlying
    }
}

impl AsRef<Tensor> for TracedTensor {
    fn as_ref(&self) -> &Tensor {
        &self.underlying
    }
}

impl From<TracedTensor> for Tensor {
    fn from(x: TracedTensor) -> Tensor {
        x.underlying
    }
}

impl From<&TracedTensor> for NodeOutput {
    fn from(x: &TracedTensor) -> NodeOutput {
        x.output.clone()
    }
}

impl From<&Arc<TraceNode>> for NodeOutput {
    /// Returns the first result of the node.
    fn from(node: &Arc<TraceNode>) -> NodeOutput {
        let node = node.clone();
        NodeOutput { node, index: 0 }
    }
}

macro_rules! operators {
    ($($name:ident $method:ident $of:ident;)*) => {$(
        impl ops::$name<&TracedTensor> for &TracedTensor {
            type Output = TracedTensor;
            #[track_caller]
            fn $method(self, other: &TracedTensor) -> TracedTensor {
                expect(TracedTensor::$of(self, other))
            }
        }

        impl ops::$name<TracedTensor> for TracedTensor {
            type Output = TracedTensor;
            #[track_caller]
            fn $method(self, other: TracedTensor) -> TracedTensor {
                expect(TracedTensor::$of(&self, &other))
            }
        }
    )*};
}
operators! { Add add add; Mul mul multiply; }
