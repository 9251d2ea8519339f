//! The ops of ONNX as methods of tensors.
//!
//! Each family is a table of names and functions. A function gets the inputs and attributes of a node from its
//! [`Call`], which notes the reads: a node with an attribute or an input that nothing reads is an error.
//! The specification: <https://onnx.ai/onnx/operators>.

mod control;
mod elementwise;
mod indexing;
mod linear;
mod movement;
mod nn;
mod quantized;
mod recurrent;
mod reduce;
mod windows;

use super::model::{Attribute, Element, Graph, Node};
use super::narrow::NarrowInt;
use super::{ImportError, Scope, Value, run_graph};
use gradloom::{DType, Tensor};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

pub(super) type Outputs = Result<Vec<Value>, ImportError>;
type Fallible<T> = Result<T, ImportError>;

/// Computes the outputs of a node.
pub(super) type Rule = fn(&Call<'_>) -> Outputs;

/// Ops of a family.
type Table = &'static [(&'static str, Rule)];

const TABLES: [Table; 10] = [
    control::OPS,
    elementwise::OPS,
    indexing::OPS,
    linear::OPS,
    movement::OPS,
    nn::OPS,
    quantized::OPS,
    recurrent::OPS,
    reduce::OPS,
    windows::OPS,
];

/// Returns the function of an op.
pub(super) fn find_rule(op: &str) -> Option<Rule> {
    let rule = TABLES
        .iter()
        .copied()
        .flatten()
        .find(|(name, _)| *name == op);
    rule.map(|(_, rule)| *rule)
}

/// Returns whether a node of constants may be computed once.
pub(super) fn is_foldable(node: &Node) -> bool {
    let is_graph = |(_, attribute): &(String, Attribute)| matches!(attribute, Attribute::Graph(_));
    !node.op.starts_with("Sequence")
        && node.op != "SplitToSequence"
        && !node.attributes.iter().any(is_graph)
}

/// Returns the names of inputs whose floats a node reads as numbers.
pub(super) fn constant_inputs(node: &Node) -> impl Iterator<Item = &str> {
    let at: &[usize] = match &*node.op {
        "Resize" => &[1, 2],
        "Upsample" | "Dropout" => &[1],
        "Range" => &[0, 1, 2],
        "Loop" | "If" => &[0, 1],
        _ => &[],
    };
    at.iter()
        .filter_map(|i| node.inputs.get(*i))
        .map(|name| &**name)
}

fn one(x: Tensor) -> Outputs {
    Ok(vec![Value::Tensor(x)])
}

fn all(tensors: impl IntoIterator<Item = Tensor>) -> Outputs {
    Ok(tensors.into_iter().map(Value::Tensor).collect())
}

/// A node with the values that it reads.
pub(super) struct Call<'a> {
    node: &'a Node,
    scope: &'a Scope<'a>,
    /// Bits of the inputs and attributes that were asked for.
    asked: Cell<[u64; 2]>,
    /// Outputs of narrow integers, and whether the op has said them.
    narrow: RefCell<BTreeMap<usize, NarrowInt>>,
}

/// How an op treats integers of fewer bits than those of tensors, which it computes in the wider dtype.
enum NarrowRule {
    /// Its first output has the type of the first inputs, as many as given, and elements of them.
    Keeps(usize),
    /// As `Keeps`, but the results may be out of range.
    Wraps(usize),
    /// Its outputs have types of their own.
    Leaves,
}

/// Returns how an op treats narrow integers, or `None` if it does not take them.
fn narrow_rule(op: &str) -> Option<NarrowRule> {
    const ALL: usize = usize::MAX;
    Some(match op {
        "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Split"
        | "Slice" | "Expand" | "Tile" | "DepthToSpace" | "SpaceToDepth" | "Trilu"
        | "ReverseSequence" | "Gather" | "GatherElements" | "GatherND" | "MaxPool" | "TopK"
        | "Compress" | "CenterCropPad" | "ReduceMax" | "ReduceMin" | "Unique" | "Sign" => {
            NarrowRule::Keeps(1)
        }
        "Concat" | "Max" | "Min" | "Clip" | "Where" => NarrowRule::Keeps(ALL),
        "Abs" | "Neg" | "BitwiseNot" | "Pow" => NarrowRule::Wraps(1),
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "BitShift" | "BitwiseAnd" | "BitwiseOr"
        | "BitwiseXor" => NarrowRule::Wraps(ALL),
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" => NarrowRule::Keeps(0),
        "Shape"
        | "Size"
        | "ArgMax"
        | "ArgMin"
        | "NonZero"
        | "Cast"
        | "CastLike"
        | "QuantizeLinear"
        | "DequantizeLinear"
        | "DynamicQuantizeLinear"
        | "MatMulInteger"
        | "ConvInteger"
        | "QLinearMatMul"
        | "QLinearConv"
        | "Constant"
        | "ConstantOfShape" => NarrowRule::Leaves,
        _ => return None,
    })
}

/// Returns numbers as the list of a shape.
fn as_lens(ints: &[i64]) -> Option<Vec<usize>> {
    ints.iter().map(|n| usize::try_from(*n).ok()).collect()
}

impl<'a> Call<'a> {
    pub(super) fn new(node: &'a Node, scope: &'a Scope<'a>) -> Call<'a> {
        Call {
            node,
            scope,
            asked: Cell::default(),
            narrow: RefCell::default(),
        }
    }

    fn ask(&self, kind: usize, i: usize) {
        let mut asked = self.asked.get();
        asked[kind] |= 1 << i.min(63);
        self.asked.set(asked);
    }

    fn fault<T>(&self, reason: impl Into<String>) -> Fallible<T> {
        Err(self.node.fault(reason))
    }

    fn unsupported<T>(&self, reason: impl Into<String>) -> Fallible<T> {
        Err(self.node.unsupported(reason))
    }

    pub(super) fn failed(&self, error: gradloom::Error) -> ImportError {
        ImportError::Op {
            op: self.node.op.clone(),
            node: self.node.name.clone(),
            source: Box::new(error),
        }
    }

    /// Checks that all inputs and attributes were read, and that there are enough results.
    pub(super) fn finish(&self, outputs: &[Value]) -> Fallible<()> {
        let [inputs, attributes] = self.asked.get();
        let is_read = |bits: u64, i: usize| bits >> i.min(63) & 1 == 1;
        let mut names = self.node.attributes.iter().enumerate();
        if let Some((_, (name, _))) = names.find(|(i, _)| !is_read(attributes, *i)) {
            return self.unsupported(format!("its attribute `{name}` is not"));
        }
        let mut names = self.node.inputs.iter().enumerate();
        if let Some((i, name)) = names.find(|(i, name)| !name.is_empty() && !is_read(inputs, *i)) {
            return self.unsupported(format!("its input {i}, `{name}`, is not"));
        }
        match self
            .node
            .outputs
            .get(outputs.len()..)
            .unwrap_or_default()
            .iter()
            .find(|name| !name.is_empty())
        {
            Some(name) => self.unsupported(format!("its output `{name}` is not")),
            None => Ok(()),
        }
    }

    /// Returns the type of an input of narrow integers.
    fn narrow(&self, i: usize) -> Option<NarrowInt> {
        let name = self.node.inputs.get(i).filter(|name| !name.is_empty())?;
        self.scope.narrow(name)
    }

    /// Says that an output has narrow integers.
    fn set_narrow(&self, output: usize, narrow: NarrowInt) {
        self.narrow.borrow_mut().insert(output, narrow);
    }

    /// Returns the outputs with their narrow types, in whose range they are.
    pub(super) fn narrowed(
        &self,
        outputs: Vec<Value>,
    ) -> Fallible<Vec<(Value, Option<NarrowInt>)>> {
        let inputs: Vec<Option<NarrowInt>> = (0..self.n_inputs()).map(|i| self.narrow(i)).collect();
        let mut said = self.narrow.borrow_mut();
        let mut wraps = false;
        if let Some(first) = inputs.iter().flatten().next() {
            let (n, is_kept) = match narrow_rule(&self.node.op) {
                // The other inputs are exponents or indices.
                Some(NarrowRule::Keeps(1) | NarrowRule::Wraps(1)) if inputs[0].is_none() => {
                    (0, false)
                }
                Some(NarrowRule::Keeps(0)) => (usize::MAX, false),
                Some(NarrowRule::Keeps(n)) => (n, true),
                Some(NarrowRule::Wraps(n)) => {
                    wraps = true;
                    (n, true)
                }
                Some(NarrowRule::Leaves) => (0, false),
                None => {
                    return self.unsupported(format!("its input of the dtype `{first}` is not"));
                }
            };
            let given = self
                .node
                .inputs
                .iter()
                .zip(&inputs)
                .filter(|(name, _)| !name.is_empty());
            // The first input of `Where` is a condition.
            let given = given.skip(usize::from(self.node.op == "Where"));
            let mut data = given.map(|(_, narrow)| *narrow).take(n);
            if data.any(|other| other != Some(*first)) {
                return self.fault(format!("has inputs of `{first}` and of another dtype"));
            }
            // The other outputs of these ops are indices, except for those of `Split`.
            let n_kept = if self.node.op == "Split" {
                outputs.len()
            } else {
                usize::from(is_kept)
            };
            said.extend((0..n_kept).map(|i| (i, *first)));
        }
        let outputs = outputs.into_iter().enumerate();
        let typed = outputs.map(|(i, value)| match (said.get(&i).copied(), value) {
            (Some(narrow), Value::Tensor(x)) if wraps => {
                (Value::Tensor(narrow.wrapped(&x)), Some(narrow))
            }
            (narrow, value) => (value, narrow),
        });
        Ok(typed.collect())
    }

    fn opset(&self) -> i64 {
        self.node.opset
    }

    fn n_inputs(&self) -> usize {
        self.node.inputs.len()
    }

    fn n_outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Returns an input, if it is given.
    fn value(&self, i: usize) -> Fallible<Option<Value>> {
        self.ask(0, i);
        let Some(name) = self.node.inputs.get(i).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        match self.scope.get(name) {
            Some(value) => Ok(Some(value)),
            None => self.fault(format!("reads `{name}`, which is absent")),
        }
    }

    fn optional(&self, i: usize) -> Fallible<Option<Tensor>> {
        match self.value(i)? {
            Some(Value::Tensor(x)) => Ok(Some(x)),
            Some(Value::Sequence(_)) => {
                self.fault(format!("has a sequence as input {i}, expected a tensor"))
            }
            None => Ok(None),
        }
    }

    fn x(&self, i: usize) -> Fallible<Tensor> {
        match self.optional(i)? {
            Some(x) => Ok(x),
            None => self.fault(format!("has no input {i}")),
        }
    }

    fn sequence(&self, i: usize) -> Fallible<Vec<Tensor>> {
        match self.value(i)? {
            Some(Value::Sequence(all)) => Ok(all),
            _ => self.fault(format!("has no sequence as input {i}")),
        }
    }

    /// Returns all inputs.
    fn xs(&self) -> Fallible<Vec<Tensor>> {
        (0..self.n_inputs()).map(|i| self.x(i)).collect()
    }

    /// Returns two inputs of one dtype.
    fn pair(&self) -> Fallible<(Tensor, Tensor)> {
        let (x, y) = (self.x(0)?, self.x(1)?);
        self.same_dtype(&[&x, &y])?;
        Ok((x, y))
    }

    fn same_dtype(&self, all: &[&Tensor]) -> Fallible<()> {
        match all.iter().find(|x| x.dtype() != all[0].dtype()) {
            Some(x) => self.fault(format!(
                "has inputs of {} and {}, expected one dtype",
                all[0].dtype(),
                x.dtype()
            )),
            None => Ok(()),
        }
    }

    /// Returns the integers of a tensor that can be read.
    fn read_ints(&self, x: &Tensor) -> Fallible<Vec<i64>> {
        if x.dtype().is_float() {
            return self.fault(format!("reads integers from {}", x.aval()));
        }
        x.cast(DType::I64)
            .try_to_vec()
            .map_err(|error| self.failed(error))
    }

    fn read_floats(&self, x: &Tensor) -> Fallible<Vec<f64>> {
        x.cast(DType::F64)
            .try_to_vec()
            .map_err(|error| self.failed(error))
    }

    /// Returns the integers of an input, if it is given.
    fn input_ints(&self, i: usize) -> Fallible<Option<Vec<i64>>> {
        self.optional(i)?.map(|x| self.read_ints(&x)).transpose()
    }

    fn input_floats(&self, i: usize) -> Fallible<Option<Vec<f64>>> {
        self.optional(i)?.map(|x| self.read_floats(&x)).transpose()
    }

    /// Returns the only integer of an input, if it is given.
    fn input_int(&self, i: usize) -> Fallible<Option<i64>> {
        match self.input_ints(i)?.as_deref() {
            Some([n]) => Ok(Some(*n)),
            Some(all) => self.fault(format!(
                "has {} numbers as input {i}, expected one",
                all.len()
            )),
            None => Ok(None),
        }
    }

    /// Returns the integers of an attribute in old versions, or of an input.
    fn ints_of(&self, name: &str, i: usize) -> Fallible<Option<Vec<i64>>> {
        match self.ints(name)? {
            Some(ints) => Ok(Some(ints)),
            None => self.input_ints(i),
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        let attributes = &self.node.attributes;
        let i = attributes.iter().position(|(own, _)| own == name)?;
        self.ask(1, i);
        Some(&attributes[i].1)
    }

    fn wrong<T>(&self, name: &str, expected: &str, found: &Attribute) -> Fallible<T> {
        self.fault(format!(
            "has the attribute `{name}` with the value {found:?}, expected {expected}"
        ))
    }

    fn int(&self, name: &str, default: i64) -> Fallible<i64> {
        Ok(self.int_or_none(name)?.unwrap_or(default))
    }

    fn int_or_none(&self, name: &str) -> Fallible<Option<i64>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(n)) => Ok(Some(*n)),
            Some(found) => self.wrong(name, "an integer", found),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Fallible<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    fn float(&self, name: &str, default: f64) -> Fallible<f64> {
        Ok(self.float_or_none(name)?.unwrap_or(default))
    }

    fn float_or_none(&self, name: &str) -> Fallible<Option<f64>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Float(x)) => Ok(Some(f64::from(*x))),
            Some(found) => self.wrong(name, "a float", found),
        }
    }

    fn text(&self, name: &str, default: &'static str) -> Fallible<&'a str> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(text)) => Ok(text),
            Some(found) => self.wrong(name, "a text", found),
        }
    }

    /// Returns an error if a text is not one of those that are supported.
    fn one_of(&self, name: &str, found: &str, supported: &[&str]) -> Fallible<()> {
        match supported.contains(&found) {
            true => Ok(()),
            false => self.unsupported(format!(
                "its attribute `{name}` is `{found}`, expected one of {supported:?}"
            )),
        }
    }

    fn ints(&self, name: &str) -> Fallible<Option<Vec<i64>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(all)) => Ok(Some(all.clone())),
            Some(found) => self.wrong(name, "integers", found),
        }
    }

    fn floats(&self, name: &str) -> Fallible<Option<Vec<f32>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(all)) => Ok(Some(all.clone())),
            Some(found) => self.wrong(name, "floats", found),
        }
    }

    fn texts(&self, name: &str) -> Fallible<Option<Vec<String>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(all)) => Ok(Some(all.clone())),
            Some(found) => self.wrong(name, "texts", found),
        }
    }

    fn graph(&self, name: &str) -> Fallible<&'a Graph> {
        match self.attribute(name) {
            Some(Attribute::Graph(graph)) => Ok(graph),
            Some(found) => self.wrong(name, "a graph", found),
            None => self.fault(format!("has no attribute `{name}`")),
        }
    }

    /// Runs a graph of an attribute.
    fn run(&self, graph: &Graph, inputs: Vec<Value>) -> Outputs {
        if inputs.len() != graph.inputs.len() {
            return self.fault(format!(
                "has a graph of {} inputs, expected {}",
                graph.inputs.len(),
                inputs.len()
            ));
        }
        let names = graph.inputs.iter().map(|name| &**name);
        let values = names.zip(inputs).collect();
        let outputs = run_graph(graph, values, BTreeMap::new(), Some(self.scope))?;
        let unpacked = outputs.into_iter().map(|(value, narrow)| match narrow {
            Some(narrow) => {
                self.unsupported(format!("its graph with an output of `{narrow}` is not"))
            }
            None => Ok(value),
        });
        unpacked.collect()
    }

    /// Marks attributes that have no effect on the outputs.
    fn without_effect(&self, names: &[&str]) {
        names.iter().for_each(|name| {
            self.attribute(name);
        });
    }

    /// Returns a dtype by its number.
    fn element(&self, ty: i64) -> Fallible<Element> {
        super::model::element_of(ty).or_else(|reason| self.unsupported(reason))
    }

    /// Returns a dtype by its number, which is not narrow.
    fn dtype(&self, ty: i64) -> Fallible<DType> {
        match self.element(ty)? {
            (dtype, None) => Ok(dtype),
            (_, Some(narrow)) => self.unsupported(format!("it makes `{narrow}`")),
        }
    }

    /// Returns `x` as the first output, converted to an element type.
    fn converted(&self, x: &Tensor, (dtype, narrow): Element) -> Outputs {
        let Some(narrow) = narrow else {
            return one(x.cast(dtype));
        };
        self.set_narrow(0, narrow);
        let x = if x.dtype() == DType::Bool {
            x.cast(dtype)
        } else {
            narrow.wrapped(&x.cast(DType::I64))
        };
        one(x)
    }

    /// Returns an axis that may count from the end.
    fn axis_of(&self, axis: i64, rank: usize) -> Fallible<usize> {
        let from_end = if axis < 0 { rank as i64 } else { 0 };
        match usize::try_from(axis.saturating_add(from_end)) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => self.fault(format!(
                "has the axis {axis}, out of range for the rank {rank}"
            )),
        }
    }

    fn axis(&self, default: i64, rank: usize) -> Fallible<usize> {
        self.axis_of(self.int("axis", default)?, rank)
    }

    fn axes_of(&self, axes: &[i64], rank: usize) -> Fallible<Vec<usize>> {
        axes.iter().map(|axis| self.axis_of(*axis, rank)).collect()
    }

    /// Returns lengths of a shape.
    fn lens(&self, ints: &[i64]) -> Fallible<Vec<usize>> {
        match as_lens(ints) {
            Some(lens) => Ok(lens),
            None => self.fault(format!(
                "has the shape {ints:?}, which has a negative length"
            )),
        }
    }
}

/// Returns a constant list of integers.
fn ints(all: &[usize]) -> Tensor {
    Tensor::from(all.iter().map(|n| *n as i64).collect::<Vec<i64>>())
}

/// Returns the elements of `x` from `start` to `stop` along an axis.
fn part(x: &Tensor, axis: usize, start: usize, stop: usize) -> Tensor {
    let mut starts = vec![0; axis];
    starts.push(start as i64);
    let mut stops = vec![i64::MAX; axis];
    stops.push(stop as i64);
    x.slice(starts, stops, vec![1i64; axis + 1])
}

/// Returns the numbers 0, 1, .. along an axis of a shape of length 1 elsewhere.
fn iota(axis: usize, rank: usize, len: usize, dtype: DType) -> Tensor {
    let mut shape = vec![1usize; rank];
    shape[axis] = len;
    Tensor::arange(len, dtype).reshape(shape)
}
