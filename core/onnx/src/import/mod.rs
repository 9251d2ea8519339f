//! Models as functions of tensors.

mod error;
mod model;
mod narrow;
mod ops;
mod wire;

pub use error::ImportError;
pub use model::{Dim, Port};
pub use narrow::NarrowInt;

use gradloom::__private::catch;
use gradloom::{DType, Tensor};
use model::{Graph, Node};
use ops::{Call, is_foldable};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Weights of a model by their names: a [`Tree`](gradloom::Tree) for gradients and optimisers.
pub type Weights = BTreeMap<String, Tensor>;

/// Reads a tensor from the bytes of a `TensorProto`, such as the inputs of the tests of ONNX: its name and elements.
///
/// Elements of a [`NarrowInt`] type have the dtype that stores them.
///
/// ```
/// // Field 1 is a length, 2 the dtype `int64`, 7 the elements, 8 the name.
/// let bytes = [0x08, 2, 0x10, 7, 0x3a, 2, 5, 6, 0x42, 1, b'x'];
/// let (name, x) = gradloom_onnx::read_tensor(&bytes)?;
/// assert_eq!((&*name, x.to_vec::<i64>()), ("x", vec![5, 6]));
/// # Ok::<(), gradloom_onnx::ImportError>(())
/// ```
///
/// # Errors
///
/// If the bytes are not a whole tensor, the dtype is not supported, or the elements are in another file.
pub fn read_tensor(bytes: &[u8]) -> Result<(String, Tensor), ImportError> {
    let (name, _, x) = model::read_tensor(bytes, None)?;
    Ok((name, x))
}

/// Value of a node.
#[derive(Clone, Debug)]
enum Value {
    Tensor(Tensor),
    Sequence(Vec<Tensor>),
}

/// An ONNX model: a function of its inputs and weights, computed by the methods of [`Tensor`].
///
/// Transforms of closures see each op, so a model is differentiated, batched, traced and exported as any function.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_ir::Program;
/// use gradloom_onnx::{Elements, Model, export};
///
/// let program: Program = "(x: f32[2], w: f32[2]) { y = mul x, w  z = abs y  return z }".parse()?;
/// let bytes = export(&program, "layer", &[(1, Elements::F32(&[1.0, 0.5]))])?;
///
/// let model = Model::read(&bytes)?;
/// let x = Tensor::from([0.0f32, -2.0]);
/// let y = &model.run(&[("x", &x)])?[0];
/// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0]);
///
/// let loss = |w: &gradloom_onnx::Weights| {
///     let model = model.with_weights(w).unwrap();
///     model.run(&[("x", &x)]).unwrap()[0].square().sum(..)
/// };
/// let gradient = grad(loss)(model.weights());
/// assert_eq!(gradient["w"].shape(), [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    graph: Arc<Graph>,
    /// Inputs and outputs.
    ports: Arc<[Vec<Port>; 2]>,
    weights: Weights,
}

impl Model {
    /// Reads a model from a file. Tensors may be in other files of the same folder.
    ///
    /// # Errors
    ///
    /// As [`Model::read`], if a file cannot be read, or if one is outside of the folder.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, ImportError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ImportError::Read {
            path: path.to_owned(),
            source,
        })?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        Model::new(&bytes, Some(folder.unwrap_or(Path::new("."))))
    }

    /// Reads a model from the bytes of its file.
    ///
    /// Nodes whose inputs are constants are computed once, here.
    ///
    /// # Errors
    ///
    /// If the bytes are not a whole model, an op or a dtype is not supported, a node reads a value that is not computed
    /// before it, or a node of constants does not accept them.
    pub fn read(bytes: &[u8]) -> Result<Model, ImportError> {
        Model::new(bytes, None)
    }

    fn new(bytes: &[u8], folder: Option<&Path>) -> Result<Model, ImportError> {
        let (mut graph, ports) = model::read_model(bytes, folder)?;
        let numbers: Vec<String> = graph
            .nodes
            .iter()
            .flat_map(ops::constant_inputs)
            .map(str::to_owned)
            .collect();
        let all = std::mem::take(&mut graph.initializers);
        let (weights, constants) = all
            .into_iter()
            .partition(|(name, x)| x.dtype().is_float() && !numbers.contains(name));
        graph.initializers = constants;
        fold(&mut graph)?;
        Ok(Model {
            graph: Arc::new(graph),
            ports: Arc::new(ports),
            weights,
        })
    }

    /// Returns the inputs that [`Model::run`] takes.
    pub fn inputs(&self) -> &[Port] {
        &self.ports[0]
    }

    /// Returns the outputs, in the order of the results of [`Model::run`].
    pub fn outputs(&self) -> &[Port] {
        &self.ports[1]
    }

    /// Returns the initializers of floats, by their names.
    ///
    /// Numbers that decide about shapes, such as the scales of `Resize`, are part of the model.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the model with other weights. Their shapes may differ where the ops allow it.
    ///
    /// # Errors
    ///
    /// If a weight is missing or unknown, or has another dtype.
    pub fn with_weights(&self, weights: &Weights) -> Result<Model, ImportError> {
        for (name, own) in &self.weights {
            let other = weights
                .get(name)
                .ok_or_else(|| ImportError::value(name, "this weight is missing"))?;
            if other.dtype() != own.dtype() {
                let reason = format!(
                    "this weight has the dtype {}, expected {}",
                    other.dtype(),
                    own.dtype()
                );
                return Err(ImportError::value(name, reason));
            }
        }
        match weights
            .keys()
            .find(|name| !self.weights.contains_key(*name))
        {
            Some(name) => Err(ImportError::value(name, "the model has no such weight")),
            None => Ok(Model {
                graph: self.graph.clone(),
                ports: self.ports.clone(),
                weights: weights.clone(),
            }),
        }
    }

    /// Computes the outputs for inputs by their names. The results are promises.
    ///
    /// A shape that depends on the elements of a tensor is read, so it cannot depend on an argument of a transform.
    ///
    /// # Errors
    ///
    /// If an input is missing, unknown or given twice, does not have its dtype and shape, or an op does not accept its
    /// operands.
    pub fn run(&self, inputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, ImportError> {
        let mut values = BTreeMap::new();
        for (name, x) in inputs {
            if !self.inputs().iter().any(|port| port.name == *name) {
                let names: Vec<&str> = self.inputs().iter().map(|port| &*port.name).collect();
                return Err(ImportError::value(
                    name,
                    format!("the model has no such input; its inputs are {names:?}"),
                ));
            }
            if values.insert(*name, Value::Tensor((*x).clone())).is_some() {
                return Err(ImportError::value(name, "this input is given twice"));
            }
        }
        let mut lens = BTreeMap::new();
        for port in self.inputs() {
            let Some(Value::Tensor(x)) = values.get(&*port.name) else {
                return Err(ImportError::value(&port.name, "this input is missing"));
            };
            check_port(port, x, &mut lens)?;
        }
        let weights = self.weights.iter();
        values.extend(weights.map(|(name, x)| (&**name, Value::Tensor(x.clone()))));
        let narrow = self.inputs().iter();
        let narrow = narrow.filter_map(|port| port.narrow.map(|narrow| (&*port.name, narrow)));
        let narrow: BTreeMap<&str, NarrowInt> = narrow.collect();
        // Elements out of range are not those of the input.
        for (name, narrow) in &narrow {
            if let Some(Value::Tensor(x)) = values.get_mut(name) {
                *x = narrow.wrapped(x);
            }
        }
        let outputs = run_graph(&self.graph, values, narrow, None)?;
        let ports = self.outputs().iter().zip(outputs);
        ports
            .map(|(port, (value, narrow))| {
                let name = |dtype: DType, narrow: Option<NarrowInt>| {
                    narrow.map_or_else(|| dtype.to_string(), |narrow| narrow.to_string())
                };
                let expected = name(port.dtype, port.narrow);
                let reason = match value {
                    Value::Tensor(x) if (x.dtype(), narrow) == (port.dtype, port.narrow) => {
                        return Ok(x);
                    }
                    Value::Tensor(x) => {
                        let found = name(x.dtype(), narrow);
                        format!("this output has the dtype {found}, expected {expected}")
                    }
                    Value::Sequence(_) => "this output is a sequence".to_owned(),
                };
                Err(ImportError::value(&port.name, reason))
            })
            .collect()
    }
}

/// Checks the dtype and shape of an input. `lens` has the lengths of names so far.
fn check_port<'a>(
    port: &'a Port,
    x: &Tensor,
    lens: &mut BTreeMap<&'a str, usize>,
) -> Result<(), ImportError> {
    let fits = |(dim, len): (&'a Dim, &usize)| match dim {
        Dim::Known(expected) => expected == len,
        Dim::Named(name) => lens.entry(name).or_insert(*len) == len,
        Dim::Unknown => true,
    };
    let shape_fits = port
        .shape
        .as_ref()
        .is_none_or(|dims| dims.len() == x.rank() && dims.iter().zip(x.shape()).all(fits));
    if x.dtype() == port.dtype && shape_fits {
        return Ok(());
    }
    let dims = port.shape.iter().flatten().map(|dim| match dim {
        Dim::Known(n) => n.to_string(),
        Dim::Named(name) => lens
            .get(&**name)
            .map_or_else(|| name.clone(), |n| format!("{name}={n}")),
        Dim::Unknown => "?".to_owned(),
    });
    let dims: Vec<String> = dims.collect();
    let reason = format!(
        "this input is {}, expected {}[{}]",
        x.aval(),
        port.dtype,
        dims.join(", ")
    );
    Err(ImportError::value(&port.name, reason))
}

/// Values of a graph that runs, inside of those of the graph around it.
struct Scope<'a> {
    values: BTreeMap<&'a str, Value>,
    /// Types of values of narrow integers.
    narrow: BTreeMap<&'a str, NarrowInt>,
    graph: &'a Graph,
    outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let own = self.values.get(name).cloned();
        let own = own.or_else(|| {
            self.graph
                .initializers
                .get(name)
                .cloned()
                .map(Value::Tensor)
        });
        own.or_else(|| self.outer?.get(name))
    }

    /// Returns the type of a value of narrow integers.
    fn narrow(&self, name: &str) -> Option<NarrowInt> {
        let is_own = self.values.contains_key(name) || self.graph.initializers.contains_key(name);
        match self
            .narrow
            .get(name)
            .or_else(|| self.graph.narrow.get(name))
        {
            None if !is_own => self.outer?.narrow(name),
            found => found.copied(),
        }
    }
}

/// Runs a graph on the values of its inputs.
fn run_graph<'a>(
    graph: &'a Graph,
    values: BTreeMap<&'a str, Value>,
    narrow: BTreeMap<&'a str, NarrowInt>,
    outer: Option<&'a Scope<'a>>,
) -> Result<Vec<(Value, Option<NarrowInt>)>, ImportError> {
    let mut scope = Scope {
        values,
        narrow,
        graph,
        outer,
    };
    for node in &graph.nodes {
        let outputs = run_node(node, &scope)?;
        let names = node.outputs.iter().filter(|name| !name.is_empty());
        debug_assert!(names.count() <= outputs.len(), "outputs are checked");
        for (name, (value, narrow)) in node.outputs.iter().zip(outputs) {
            scope.narrow.extend(narrow.map(|narrow| (&**name, narrow)));
            scope.values.insert(name, value);
        }
    }
    let outputs = graph.outputs.iter();
    outputs
        .map(|name| {
            let value = scope.get(name).map(|value| (value, scope.narrow(name)));
            value.ok_or_else(|| ImportError::value(name, "this output is absent"))
        })
        .collect()
}

fn run_node(
    node: &Node,
    scope: &Scope<'_>,
) -> Result<Vec<(Value, Option<NarrowInt>)>, ImportError> {
    let call = Call::new(node, scope);
    let result = catch(|| Ok((node.rule)(&call)));
    let outputs = result.map_err(|error| call.failed(error))??;
    call.finish(&outputs)?;
    call.narrowed(outputs)
}

/// Computes the nodes whose inputs are constants.
fn fold(graph: &mut Graph) -> Result<(), ImportError> {
    for node in std::mem::take(&mut graph.nodes) {
        let inputs = node.inputs.iter().filter(|name| !name.is_empty());
        let is_constant = inputs
            .clone()
            .all(|name| graph.initializers.contains_key(name));
        if !is_constant || !is_foldable(&node) {
            graph.nodes.push(node);
            continue;
        }
        let scope = Scope {
            values: BTreeMap::new(),
            narrow: BTreeMap::new(),
            graph,
            outer: None,
        };
        let outputs = run_node(&node, &scope)?;
        for (name, (value, narrow)) in node.outputs.into_iter().zip(outputs) {
            if let Value::Tensor(x) = value
                && !name.is_empty()
            {
                graph
                    .narrow
                    .extend(narrow.map(|narrow| (name.clone(), narrow)));
                graph.initializers.insert(name, x);
            }
        }
    }
    Ok(())
}
