//! Nodes of a trace.

use crate::{Aval, DType};
use gradloom_ir::Static;
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Identity of a node. No two nodes of a process have the same one.
///
/// It is not a hash: nodes with equal contents have different identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    fn next() -> NodeId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NodeId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Static argument of a node: an axis, a shape, a number.
///
/// Equality compares the bits of floats, so a NaN equals itself, and `0.0` and `-0.0` differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Attribute {
    /// An integer, such as an axis.
    Int(i64),
    /// A float, such as an epsilon.
    Float(f64),
    /// A boolean option, such as `keepdims`.
    Bool(bool),
    /// A list of integers, such as a shape.
    Ints(Vec<i64>),
    /// A dtype.
    DType(DType),
    /// Any other text: `all` for all axes, the programs of a loop, or what a caller of
    /// [`TraceNode::new`] gives.
    Text(String),
}

impl Attribute {
    pub(super) fn of(value: &Static) -> Attribute {
        match value {
            Static::Int(n) => Attribute::Int(*n),
            Static::Float(x) => Attribute::Float(*x),
            Static::Bool(b) => Attribute::Bool(*b),
            Static::Ints(all) => Attribute::Ints(all.clone()),
            Static::DType(dtype) => Attribute::DType(*dtype),
            other => Attribute::Text(other.to_string()),
        }
    }

    /// Returns the attribute as words that are equal if and only if the attributes are.
    fn words(&self) -> (u8, u64, &[i64], &str) {
        match self {
            Attribute::Int(n) => (0, *n as u64, &[], ""),
            Attribute::Float(x) => (1, x.to_bits(), &[], ""),
            Attribute::Bool(b) => (2, u64::from(*b), &[], ""),
            Attribute::Ints(all) => (3, 0, all, ""),
            Attribute::DType(dtype) => (4, *dtype as u64, &[], ""),
            Attribute::Text(text) => (5, 0, &[], text),
        }
    }
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Attribute) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Attribute {}

impl std::hash::Hash for Attribute {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words().hash(state);
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Int(n) => write!(f, "{n}"),
            Attribute::Float(x) => write!(f, "{x:?}"),
            Attribute::Bool(b) => write!(f, "{b}"),
            Attribute::Ints(all) => write!(f, "{all:?}"),
            Attribute::DType(dtype) => write!(f, "{dtype}"),
            Attribute::Text(text) => f.write_str(text),
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident,)*) => {$(
        impl From<$ty> for Attribute {
            fn from(value: $ty) -> Attribute {
                Attribute::$variant(value.into())
            }
        }
    )*};
}
from! { i64 => Int, f64 => Float, bool => Bool, Vec<i64> => Ints, DType => DType, &str => Text, String => Text, }

/// A result of a node: the node, and the index of the result.
#[derive(Clone, Debug)]
pub struct NodeOutput {
    /// The node.
    pub node: Arc<TraceNode>,
    /// Index of the result among those of the node.
    pub index: usize,
}

impl NodeOutput {
    /// Returns dtype and shape of the result.
    pub fn aval(&self) -> &Aval {
        &self.node.outputs[self.index]
    }
}

/// One operation of a trace, or one of its inputs.
///
/// Prints as `add([3])`: the operation, and the shape of the first result.
///
/// ```
/// use gradloom::trace::{TraceContext, TracedTensor};
/// use gradloom::Tensor;
///
/// let trace = TraceContext::new();
/// let x = TracedTensor::input(&Tensor::from([1.0f32, -2.0]));
/// let y = x.relu()?;
/// let node = y.node();
/// assert_eq!(node.to_string(), "relu([2])");
/// assert_eq!(node.inputs()[0].node.id(), x.node().id());
/// # drop(trace);
/// # Ok::<(), gradloom::Error>(())
/// ```
pub struct TraceNode {
    id: NodeId,
    operation: Cow<'static, str>,
    name: Option<String>,
    inputs: Vec<NodeOutput>,
    outputs: Vec<Aval>,
    attributes: Vec<(Cow<'static, str>, Attribute)>,
    line: OnceLock<&'static Location<'static>>,
}

impl TraceNode {
    /// Returns a new node. An input of the trace is a node without inputs.
    ///
    /// The library makes the nodes of its own operations; this is for operations that it does not know.
    ///
    /// # Panics
    ///
    /// If there is no output, or an input is not one of its node.
    pub fn new(
        operation: impl Into<Cow<'static, str>>,
        inputs: Vec<NodeOutput>,
        outputs: Vec<Aval>,
        attributes: Vec<(Cow<'static, str>, Attribute)>,
    ) -> TraceNode {
        assert!(!outputs.is_empty(), "a node has at least one output");
        let exists = |input: &NodeOutput| input.index < input.node.outputs.len();
        assert!(
            inputs.iter().all(exists),
            "an input is an output of its node"
        );
        TraceNode {
            id: NodeId::next(),
            operation: operation.into(),
            name: None,
            inputs,
            outputs,
            attributes,
            line: OnceLock::new(),
        }
    }

    /// Returns the node with a name, which does not change how it prints.
    pub fn named(mut self, name: impl Into<String>) -> TraceNode {
        self.name = Some(name.into());
        self
    }

    /// Returns the identity of the node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the name of the operation, or `input` or `constant`.
    ///
    /// `mul` is called `multiply` in traces.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Returns the name that the user gave to an input.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the operands in order. An operand that is used twice is listed twice.
    pub fn inputs(&self) -> &[NodeOutput] {
        &self.inputs
    }

    /// Returns dtype and shape of each result.
    pub fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    /// Returns the shape of the first result.
    pub fn shape(&self) -> &[usize] {
        self.outputs[0].shape()
    }

    /// Returns the dtype of the first result.
    pub fn dtype(&self) -> DType {
        self.outputs[0].dtype()
    }

    /// Returns the static arguments with their names, in the order of the operation.
    ///
    /// A number beside a tensor, as in `x * 2.0`, is the attribute `number`.
    pub fn attributes(&self) -> &[(Cow<'static, str>, Attribute)] {
        &self.attributes
    }

    /// Returns a static argument by its name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        Some(&found?.1)
    }

    /// Returns the line of the user's call, if a call of a method recorded the node.
    ///
    /// Nodes of derivatives have none.
    pub fn line(&self) -> Option<&'static Location<'static>> {
        self.line.get().copied()
    }

    pub(super) fn set_line(&self, at: &'static Location<'static>) {
        // A node that has a line keeps it.
        let _ = self.line.set(at);
    }
}

impl fmt::Display for TraceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.operation, self.shape())
    }
}

/// Prints the node without those that it depends on.
impl fmt::Debug for TraceNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(|i| i.node.id.to_string()).collect();
        write!(f, "{} = {self} of [{}]", self.id, inputs.join(", "))
    }
}

/// Drops a chain of nodes without recursion.
impl Drop for TraceNode {
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.inputs);
        while let Some(input) = pending.pop() {
            if let Some(mut node) = Arc::into_inner(input.node) {
                pending.append(&mut node.inputs);
            }
        }
    }
}
