//! The graph of a model while nodes are appended, and the forms of nodes that several ops use.

use crate::proto::{self, Attribute, Message};
use gradloom_ir::{DType, Static};
use half::{bf16, f16};
use std::collections::{BTreeMap, BTreeSet};

/// A value of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn numel(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A number of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Float(x)
    }
}

impl From<i64> for Number {
    fn from(n: i64) -> Number {
        Number::Int(n)
    }
}

impl From<usize> for Number {
    fn from(n: usize) -> Number {
        Number::Int(n as i64)
    }
}

impl From<&Static> for Number {
    fn from(value: &Static) -> Number {
        match *value {
            Static::Int(n) => Number::Int(n),
            Static::Bool(is_true) => Number::Int(is_true.into()),
            _ => Number::Float(value.float().unwrap_or(f64::NAN)),
        }
    }
}

impl Number {
    /// Returns the number as a little-endian element.
    fn le_bytes(self, dtype: DType) -> Vec<u8> {
        let (float, int) = match self {
            Number::Int(n) => (n as f64, n),
            Number::Float(x) => (x, x as i64),
        };
        match dtype {
            DType::F32 => (float as f32).to_le_bytes().into(),
            DType::F64 => float.to_le_bytes().into(),
            DType::I32 => match self {
                Number::Int(n) => (n as i32).to_le_bytes().into(),
                Number::Float(x) => (x as i32).to_le_bytes().into(),
            },
            DType::BF16 => bf16::from_f64(float).to_le_bytes().into(),
            DType::F16 => f16::from_f64(float).to_le_bytes().into(),
            DType::I64 => int.to_le_bytes().into(),
            DType::I8 => (int as i8).to_le_bytes().into(),
            DType::U8 => vec![int as u8],
            DType::Bool => vec![u8::from(float != 0.0)],
        }
    }
}

/// The least number of a dtype: the identity of a maximum.
pub(crate) fn least(dtype: DType) -> Number {
    match dtype {
        DType::I8 => Number::Int(i8::MIN.into()),
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => Number::Float(f64::NEG_INFINITY),
        DType::I32 => Number::Int(i32::MIN.into()),
        DType::I64 => Number::Int(i64::MIN),
        DType::U8 | DType::Bool => Number::Int(0),
    }
}

/// The greatest number of a dtype: the identity of a minimum.
pub(crate) fn greatest(dtype: DType) -> Number {
    match dtype {
        DType::I8 => Number::Int(i8::MAX.into()),
        DType::U8 => Number::Int(u8::MAX.into()),
        DType::F32 | DType::F64 | DType::BF16 | DType::F16 => Number::Float(f64::INFINITY),
        DType::I32 => Number::Int(i32::MAX.into()),
        DType::I64 => Number::Int(i64::MAX),
        DType::Bool => Number::Int(1),
    }
}

/// Returns the shape to which two shapes broadcast.
pub(crate) fn joint_shape(x: &[usize], y: &[usize]) -> Vec<usize> {
    let rank = x.len().max(y.len());
    let len = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    let joint = |i: usize| match len(x, i) {
        1 => len(y, i),
        n => n,
    };
    (0..rank).map(joint).collect()
}

fn ints(lens: &[usize]) -> Vec<i64> {
    lens.iter().map(|len| *len as i64).collect()
}

/// A graph that is an attribute of a node, and the names that its nodes read.
#[derive(Debug)]
pub(crate) struct Subgraph {
    graph: Message,
    read: Vec<String>,
}

/// The nodes and initializers of a graph.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Nodes, with the names of their operands.
    nodes: Vec<(Message, Vec<String>)>,
    /// Constants, with their names.
    initializers: Vec<(Message, String)>,
    names: BTreeSet<String>,
    n_values: usize,
    /// Names of constants by dtype, shape and elements.
    constants: BTreeMap<(i64, Vec<usize>, Vec<u8>), String>,
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            nodes: Vec::new(),
            initializers: Vec::new(),
            names: BTreeSet::new(),
            n_values: 0,
            constants: BTreeMap::new(),
        }
    }

    /// Returns whether a name is one that no other value has or will have.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        // Names of other values have a point.
        !name.is_empty() && !name.contains('.') && !self.names.contains(name)
    }

    /// Returns a value with this name.
    pub(crate) fn named(&mut self, name: String, dtype: DType, shape: Vec<usize>) -> Value {
        self.names.insert(name.clone());
        Value { name, dtype, shape }
    }

    fn fresh(&mut self, dtype: DType, shape: &[usize]) -> Value {
        self.n_values += 1;
        Value {
            name: format!("v.{}", self.n_values),
            dtype,
            shape: shape.to_vec(),
        }
    }

    pub(crate) fn initializer(&mut self, x: &Value, bytes: &[u8]) {
        let tensor = proto::tensor(&x.name, x.dtype, &x.shape, bytes);
        self.initializers.push((tensor, x.name.clone()));
    }

    /// Returns the nodes, and the initializers that a node reads.
    pub(crate) fn finish(self) -> (Vec<Message>, Vec<Message>) {
        let read: BTreeSet<&str> = self.nodes.iter().flat_map(|n| &n.1).map(|s| &**s).collect();
        let kept = self.initializers.into_iter();
        let kept = kept
            .filter(|(_, name)| read.contains(&**name))
            .map(|(x, _)| x);
        let initializers = kept.collect();
        (
            self.nodes.into_iter().map(|(node, _)| node).collect(),
            initializers,
        )
    }

    fn push(&mut self, op: &str, inputs: &[&Value], outs: &[&str], attributes: &[Attribute<'_>]) {
        let names: Vec<&str> = inputs.iter().map(|x| &*x.name).collect();
        let node = proto::node(op, &names, outs, attributes);
        let names = names.into_iter().map(str::to_owned).collect();
        self.nodes.push((node, names));
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Removes the nodes after the first `n`, whose results are not read.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.nodes.truncate(n);
    }

    /// Appends a copy of `x` with a name.
    pub(crate) fn output(&mut self, x: &Value, name: String) -> Value {
        let y = Value { name, ..x.clone() };
        self.push("Identity", &[x], &[&y.name], &[]);
        y
    }

    /// Appends a node with one result.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &[Attribute<'_>],
        (dtype, shape): (DType, &[usize]),
    ) -> Value {
        let y = self.fresh(dtype, shape);
        self.push(op, inputs, &[&y.name], attributes);
        y
    }

    /// Appends a node with two results of one shape.
    pub(crate) fn node_of_two(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &[Attribute<'_>],
        dtypes: [DType; 2],
        shape: &[usize],
    ) -> [Value; 2] {
        let outs = dtypes.map(|dtype| self.fresh(dtype, shape));
        self.push(op, inputs, &[&outs[0].name, &outs[1].name], attributes);
        outs
    }

    /// Returns a graph with parameters of these types. `body` appends its nodes and returns its results.
    ///
    /// The nodes may read other values, too. Constants belong to the whole model.
    pub(crate) fn subgraph<E>(
        &mut self,
        params: &[(DType, Vec<usize>)],
        body: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Subgraph, E> {
        let params = params
            .iter()
            .map(|(dtype, shape)| self.fresh(*dtype, shape));
        let params: Vec<Value> = params.collect();
        let outer = std::mem::take(&mut self.nodes);
        let outs = body(self, &params)?;
        // A result is that of a node of the graph, and has a name of its own.
        let copies = outs.iter().map(|x| self.same("Identity", &[x]));
        let outs: Vec<Value> = copies.collect();
        let nodes = std::mem::replace(&mut self.nodes, outer);
        let mut graph = proto::graph("body", nodes.iter().map(|(node, _)| node));
        let info = |x: &Value| proto::value_info(&x.name, x.dtype, &x.shape);
        params.iter().for_each(|x| graph.message(11, &info(x)));
        outs.iter().for_each(|x| graph.message(12, &info(x)));
        let read = nodes.into_iter().flat_map(|(_, names)| names).collect();
        Ok(Subgraph { graph, read })
    }

    /// Appends a node with graphs as attributes, and results of these types.
    pub(crate) fn node_with(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &[Attribute<'_>],
        graphs: &[(&str, Subgraph)],
        outs: &[(DType, Vec<usize>)],
    ) -> Vec<Value> {
        let outs = outs.iter().map(|(dtype, shape)| self.fresh(*dtype, shape));
        let outs: Vec<Value> = outs.collect();
        let names: Vec<&str> = outs.iter().map(|x| &*x.name).collect();
        let of_graphs = graphs
            .iter()
            .map(|(name, of)| Attribute::Graph(name, &of.graph));
        let attributes: Vec<_> = attributes.iter().copied().chain(of_graphs).collect();
        self.push(op, inputs, &names, &attributes);
        let read = graphs.iter().flat_map(|(_, of)| of.read.iter().cloned());
        self.nodes
            .last_mut()
            .expect("a node is there")
            .1
            .extend(read);
        outs
    }

    /// Returns a constant.
    fn constant(&mut self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Value {
        let key = (proto::data_type(dtype), shape.to_vec(), bytes);
        if let Some(name) = self.constants.get(&key) {
            return Value {
                name: name.clone(),
                dtype,
                shape: shape.to_vec(),
            };
        }
        let x = self.fresh(dtype, shape);
        self.initializer(&x, &key.2);
        self.constants.insert(key, x.name.clone());
        x
    }

    /// Returns a constant of rank 0.
    pub(crate) fn number(&mut self, dtype: DType, n: impl Into<Number>) -> Value {
        self.constant(dtype, &[], n.into().le_bytes(dtype))
    }

    /// Returns a constant list of integers.
    pub(crate) fn ints(&mut self, all: &[i64]) -> Value {
        let bytes = all.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.constant(DType::I64, &[all.len()], bytes)
    }

    /// Appends a tensor of equal elements.
    pub(crate) fn full(&mut self, dtype: DType, n: impl Into<Number>, shape: &[usize]) -> Value {
        let x = self.number(dtype, n);
        self.expand(&x, shape)
    }

    /// Appends an op whose result has the type of its first operand.
    pub(crate) fn same(&mut self, op: &str, inputs: &[&Value]) -> Value {
        let (dtype, shape) = (inputs[0].dtype, inputs[0].shape.clone());
        self.node(op, inputs, &[], (dtype, &shape))
    }

    /// Appends an op of two operands, which broadcast.
    pub(crate) fn binary(&mut self, op: &str, x: &Value, y: &Value) -> Value {
        let shape = joint_shape(&x.shape, &y.shape);
        self.node(op, &[x, y], &[], (x.dtype, &shape))
    }

    /// Appends an op of a tensor and a number.
    pub(crate) fn with(&mut self, op: &str, x: &Value, n: impl Into<Number>) -> Value {
        let n = self.number(x.dtype, n);
        self.binary(op, x, &n)
    }

    /// Appends a comparison of two operands, which broadcast.
    pub(crate) fn compare(&mut self, op: &str, x: &Value, y: &Value) -> Value {
        let shape = joint_shape(&x.shape, &y.shape);
        self.node(op, &[x, y], &[], (DType::Bool, &shape))
    }

    /// Appends a comparison of a tensor and a number.
    pub(crate) fn compare_with(&mut self, op: &str, x: &Value, n: impl Into<Number>) -> Value {
        let n = self.number(x.dtype, n);
        self.compare(op, x, &n)
    }

    pub(crate) fn select(&mut self, condition: &Value, x: &Value, y: &Value) -> Value {
        let shape = joint_shape(&joint_shape(&condition.shape, &x.shape), &y.shape);
        self.node("Where", &[condition, x, y], &[], (x.dtype, &shape))
    }

    /// Appends `x` with a number where the condition is true.
    pub(crate) fn replace(&mut self, condition: &Value, n: impl Into<Number>, x: &Value) -> Value {
        let n = self.number(x.dtype, n);
        self.select(condition, &n, x)
    }

    /// Appends a conversion, if the dtype differs.
    pub(crate) fn convert(&mut self, x: &Value, dtype: DType) -> Value {
        if x.dtype == dtype {
            return x.clone();
        }
        let to = [Attribute::Int("to", proto::data_type(dtype))];
        self.node("Cast", &[x], &to, (dtype, &x.shape.clone()))
    }

    pub(crate) fn reshape(&mut self, x: &Value, shape: &[usize]) -> Value {
        if x.shape == shape {
            return x.clone();
        }
        let lens = self.ints(&ints(shape));
        // A length of 0 is one, and does not stand for that of the operand.
        let of = [Attribute::Int("allowzero", 1)];
        self.node("Reshape", &[x, &lens], &of, (x.dtype, shape))
    }

    /// Appends `x` broadcast to a shape.
    pub(crate) fn expand(&mut self, x: &Value, shape: &[usize]) -> Value {
        if x.shape == shape {
            return x.clone();
        }
        let lens = self.ints(&ints(shape));
        self.node("Expand", &[x, &lens], &[], (x.dtype, shape))
    }

    pub(crate) fn transpose(&mut self, x: &Value, axes: &[usize]) -> Value {
        if axes.iter().enumerate().all(|(i, axis)| i == *axis) {
            return x.clone();
        }
        let shape: Vec<usize> = axes.iter().map(|axis| x.shape[*axis]).collect();
        let perm = ints(axes);
        self.node(
            "Transpose",
            &[x],
            &[Attribute::Ints("perm", &perm)],
            (x.dtype, &shape),
        )
    }

    /// Appends the part of `x` with `n` elements along each of the first axes, given as first index, `n` and step.
    pub(crate) fn slice(&mut self, x: &Value, ranges: &[(i64, usize, i64)]) -> Value {
        let is_whole = |((first, n, step), len): (&(i64, usize, i64), &usize)| {
            *first == 0 && n == len && *step == 1
        };
        if ranges.iter().zip(&x.shape).all(is_whole) {
            return x.clone();
        }
        let mut shape = x.shape.clone();
        let [mut starts, mut ends, mut steps] = [(); 3].map(|()| Vec::new());
        for (i, (first, n, step)) in ranges.iter().enumerate() {
            shape[i] = *n;
            let end = first + *n as i64 * step;
            // A negative number would count from the end.
            starts.push(if *n == 0 { 0 } else { *first });
            ends.push(match *n {
                0 => 0,
                _ if end < 0 => i64::MIN,
                _ => end,
            });
            steps.push(if *n == 0 { 1 } else { *step });
        }
        let axes: Vec<i64> = (0..ranges.len() as i64).collect();
        let [starts, ends, axes, steps] = [starts, ends, axes, steps].map(|all| self.ints(&all));
        let inputs = [x, &starts, &ends, &axes, &steps];
        self.node("Slice", &inputs, &[], (x.dtype, &shape))
    }

    /// Appends the elements of `x` from `start` to `stop` along an axis.
    pub(crate) fn part(&mut self, x: &Value, axis: usize, start: usize, stop: usize) -> Value {
        let mut ranges: Vec<(i64, usize, i64)> = x.shape.iter().map(|len| (0, *len, 1)).collect();
        ranges[axis] = (start as i64, stop - start, 1);
        self.slice(x, &ranges)
    }

    pub(crate) fn concat(&mut self, parts: &[Value], axis: usize) -> Value {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|x| x.shape[axis]).sum();
        let inputs: Vec<&Value> = parts.iter().collect();
        let at = [Attribute::Int("axis", axis as i64)];
        self.node("Concat", &inputs, &at, (parts[0].dtype, &shape))
    }

    /// Appends the reduction of `x` over axes, which are dropped.
    pub(crate) fn reduce(&mut self, op: &str, x: &Value, axes: &[usize]) -> Value {
        if axes.is_empty() {
            return x.clone();
        }
        let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
        let shape: Vec<usize> = kept.map(|axis| x.shape[axis]).collect();
        let axes = self.ints(&ints(axes));
        let drop = [Attribute::Int("keepdims", 0)];
        self.node(op, &[x, &axes], &drop, (x.dtype, &shape))
    }

    /// Appends `x` with elements before and after each axis. A negative number removes elements.
    pub(crate) fn pad(&mut self, x: &Value, n: impl Into<Number>, margins: &[[i64; 2]]) -> Value {
        let added = margins.iter().map(|margin| margin.map(|n| n.max(0)));
        let added: Vec<[i64; 2]> = added.collect();
        let lens = x.shape.iter().zip(&added);
        let lens: Vec<i64> = lens
            .map(|(len, [low, high])| *len as i64 + low + high)
            .collect();
        let mut y = x.clone();
        if added.iter().any(|margin| *margin != [0, 0]) {
            let sides = [0, 1].map(|side| added.iter().map(move |margin| margin[side]));
            let pads: Vec<i64> = sides.into_iter().flatten().collect();
            let pads = self.ints(&pads);
            let n = self.number(x.dtype, n);
            let shape: Vec<usize> = lens.iter().map(|len| *len as usize).collect();
            y = self.node("Pad", &[x, &pads, &n], &[], (x.dtype, &shape));
        }
        // Not all readers take the negative numbers that ONNX allows.
        let removed = margins.iter().zip(&lens).map(|([low, high], len)| {
            let (low, high) = (-low.min(&0), -high.min(&0));
            (low, (len - low - high) as usize, 1)
        });
        let removed: Vec<(i64, usize, i64)> = removed.collect();
        self.slice(&y, &removed)
    }

    /// Appends the numbers 0, 1, .. along an axis of a shape, whose other axes have length 1.
    pub(crate) fn iota(&mut self, axis: usize, dtype: DType, shape: &[usize]) -> Value {
        let [start, stop, step] = [0, shape[axis], 1].map(|n| self.number(dtype, n));
        let numbers = [&start, &stop, &step];
        let numbers = self.node("Range", &numbers, &[], (dtype, &[shape[axis]]));
        let mut lens = vec![1; shape.len()];
        lens[axis] = shape[axis];
        self.reshape(&numbers, &lens)
    }
}
