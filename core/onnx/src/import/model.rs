//! The messages of a model as graphs: nodes with attributes, ports and constants.

use super::ImportError;
use super::narrow::NarrowInt;
use super::ops::{Rule, find_rule};
use super::wire::{Wire, fields};
use gradloom::{DType, Tensor, bf16, f16};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// The latest version of the operators whose changes the import knows.
const MAX_OPSET: i64 = 28;

/// Subgraphs that contain each other.
const MAX_DEPTH: usize = 32;

/// Length of an axis of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name, such as `batch`. Equal names are equal lengths.
    Named(String),
    /// Any length.
    Unknown,
}

/// An input or an output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: String,
    /// The dtype of its tensors.
    pub dtype: DType,
    /// The type in the model, if it is an integer of fewer bits. Elements out of its range are taken modulo its size.
    pub narrow: Option<NarrowInt>,
    /// The lengths of the axes, or `None` if the model does not say the rank.
    pub shape: Option<Vec<Dim>>,
}

/// Value of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Int(i64),
    Float(f32),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Tensor(Element, Tensor),
    Graph(Graph),
    /// A type without a use here.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: Vec<(String, Attribute)>,
    pub(super) rule: Rule,
    /// Version of the operators of the model.
    pub(super) opset: i64,
}

impl Node {
    pub(super) fn fault(&self, reason: impl Into<String>) -> ImportError {
        let (op, node, reason) = (self.op.clone(), self.name.clone(), reason.into());
        ImportError::Node { op, node, reason }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> ImportError {
        let (op, node, reason) = (self.op.clone(), self.name.clone(), reason.into());
        ImportError::Unsupported { op, node, reason }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) initializers: BTreeMap<String, Tensor>,
    /// The types of initializers of narrow integers.
    pub(super) narrow: BTreeMap<String, NarrowInt>,
}

/// The dtype of a tensor, and its type in the model if that is narrower.
pub(super) type Element = (DType, Option<NarrowInt>);

/// Facts of the file that its parts need.
pub(super) struct File<'a> {
    /// Folder of external data, if the model is a file.
    pub(super) folder: Option<&'a Path>,
    /// Versions of operators by their domains.
    opsets: BTreeMap<String, i64>,
}

impl File<'_> {
    /// Returns the version of the operators of the standard.
    fn opset(&self) -> Option<i64> {
        let names = ["", "ai.onnx"].into_iter();
        names
            .filter_map(|name| self.opsets.get(name))
            .next()
            .copied()
    }
}

/// Reads a `ModelProto`.
pub(super) fn read_model(
    bytes: &[u8],
    folder: Option<&Path>,
) -> Result<(Graph, [Vec<Port>; 2]), ImportError> {
    let mut file = File {
        folder,
        opsets: BTreeMap::new(),
    };
    let (mut graph, mut ir_version) = (None, 0);
    fields(bytes, |field, wire| {
        match field {
            1 => ir_version = wire.int()?,
            7 => graph = Some(wire.bytes()?),
            8 => {
                let (mut domain, mut version) = (String::new(), 1);
                fields(wire.bytes()?, |field, wire| {
                    match field {
                        1 => wire.text()?.clone_into(&mut domain),
                        2 => version = wire.int()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                file.opsets.insert(domain, version);
            }
            _ => {}
        }
        Ok(())
    })?;
    let bytes = graph.ok_or_else(|| ImportError::format("it has no graph"))?;
    match file.opset() {
        // Files before version 3 have the first version of the operators.
        None if ir_version >= 3 && file.opsets.is_empty() => {
            return Err(ImportError::format(
                "it does not say the version of its operators",
            ));
        }
        Some(version) if version > MAX_OPSET => {
            return Err(ImportError::format(format!(
                "it has operators of version {version}, expected up to {MAX_OPSET}"
            )));
        }
        _ => {}
    }
    let graph = read_graph(bytes, &file, 0)?;
    check_names(&graph, &BTreeSet::new())?;
    // The graphs of nodes need no dtypes here.
    let mut ports = [Vec::new(), Vec::new()];
    fields(bytes, |field, wire| {
        if let 11 | 12 = field
            && !graph.initializers.contains_key(port_name(wire)?)
        {
            ports[usize::from(field == 12)].push(read_port(wire.bytes()?)?);
        }
        Ok(())
    })?;
    Ok((graph, ports))
}

/// Checks that each value is computed once, and before it is read.
fn check_names<'a>(graph: &'a Graph, outer: &BTreeSet<&'a str>) -> Result<(), ImportError> {
    let mut known = outer.clone();
    let inputs: BTreeSet<&str> = graph.inputs.iter().map(|name| &**name).collect();
    if inputs.len() < graph.inputs.len() {
        return Err(ImportError::format("two inputs of a graph have one name"));
    }
    known.extend(inputs);
    known.extend(graph.initializers.keys().map(|name| &**name));
    for node in &graph.nodes {
        for name in node.inputs.iter().filter(|name| !name.is_empty()) {
            if !known.contains(&**name) {
                return Err(node.fault(format!(
                    "reads `{name}`, which no input, initializer or earlier node gives: the graph has a cycle, or is \
                     not complete"
                )));
            }
        }
        for (_, attribute) in &node.attributes {
            if let Attribute::Graph(graph) = attribute {
                check_names(graph, &known)?;
            }
        }
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            if !known.insert(name) {
                return Err(node.fault(format!(
                    "computes `{name}`, which another part of the graph gives too"
                )));
            }
        }
    }
    match graph.outputs.iter().find(|name| !known.contains(&***name)) {
        Some(name) => Err(ImportError::value(name, "no node computes this output")),
        None => Ok(()),
    }
}

fn read_graph(bytes: &[u8], file: &File<'_>, depth: usize) -> Result<Graph, ImportError> {
    if depth > MAX_DEPTH {
        return Err(ImportError::format(format!(
            "more than {MAX_DEPTH} graphs contain each other"
        )));
    }
    let mut graph = Graph::default();
    fields(bytes, |field, wire| {
        match field {
            1 => graph.nodes.push(read_node(wire.bytes()?, file, depth)?),
            5 => {
                let (name, (_, narrow), x) = read_tensor(wire.bytes()?, file.folder)?;
                graph
                    .narrow
                    .extend(narrow.map(|narrow| (name.clone(), narrow)));
                if graph.initializers.insert(name.clone(), x).is_some() {
                    return Err(ImportError::value(&name, "two initializers have this name"));
                }
            }
            11 => graph.inputs.push(port_name(wire)?.to_owned()),
            12 => graph.outputs.push(port_name(wire)?.to_owned()),
            15 => return Err(ImportError::format("sparse initializers are not supported")),
            _ => {}
        }
        Ok(())
    })?;
    // Old models list initializers among the inputs.
    let initializers = &graph.initializers;
    graph.inputs.retain(|name| !initializers.contains_key(name));
    Ok(graph)
}

fn read_node(bytes: &[u8], file: &File<'_>, depth: usize) -> Result<Node, ImportError> {
    let [mut name, mut op, mut domain] = [(); 3].map(|()| String::new());
    let (mut inputs, mut outputs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
    fields(bytes, |field, wire| {
        match field {
            1 => inputs.push(wire.text()?.to_owned()),
            2 => outputs.push(wire.text()?.to_owned()),
            3 => wire.text()?.clone_into(&mut name),
            4 => wire.text()?.clone_into(&mut op),
            5 => attributes.push(wire.bytes()?),
            7 => wire.text()?.clone_into(&mut domain),
            _ => {}
        }
        Ok(())
    })?;
    if name.is_empty() {
        name = outputs.first().cloned().unwrap_or_default();
    }
    let is_standard = domain.is_empty() || domain == "ai.onnx";
    let rule = if is_standard { find_rule(&op) } else { None };
    let rule = rule.ok_or_else(|| ImportError::Unsupported {
        op: op.clone(),
        node: name.clone(),
        reason: match is_standard {
            true => "the import has no such op".to_owned(),
            false => format!("it is of the domain `{domain}`"),
        },
    })?;
    let mut node = Node {
        name,
        op,
        inputs,
        outputs,
        attributes: Vec::new(),
        rule,
        opset: 1,
    };
    match file.opset() {
        Some(version) => node.opset = version,
        None if file.opsets.is_empty() => {}
        None => {
            return Err(node.fault("has no version: the model says those of other domains only"));
        }
    }
    for bytes in attributes {
        let attribute = read_attribute(bytes, file, depth)?;
        if node.attributes.iter().any(|(name, _)| *name == attribute.0) {
            return Err(node.fault(format!("has the attribute `{}` twice", attribute.0)));
        }
        node.attributes.push(attribute);
    }
    Ok(node)
}

fn read_attribute(
    bytes: &[u8],
    file: &File<'_>,
    depth: usize,
) -> Result<(String, Attribute), ImportError> {
    let (mut name, mut ty, mut reference) = (String::new(), None, false);
    let (mut float, mut int, mut text) = (0.0, 0, String::new());
    let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tensor, mut graph) = (None, None);
    // Files of the first version have no types.
    let mut found = 0;
    fields(bytes, |field, wire| {
        match field {
            1 => wire.text()?.clone_into(&mut name),
            2 => (float, found) = (wire.float()?, 1),
            3 => (int, found) = (wire.int()?, 2),
            4 => (text, found) = (String::from_utf8_lossy(wire.bytes()?).into_owned(), 3),
            5 => (tensor, found) = (Some(wire.bytes()?), 4),
            6 => (graph, found) = (Some(wire.bytes()?), 5),
            7 => {
                wire.floats(&mut floats)?;
                found = 6;
            }
            8 => {
                wire.ints(&mut ints)?;
                found = 7;
            }
            9 => {
                texts.push(String::from_utf8_lossy(wire.bytes()?).into_owned());
                found = 8;
            }
            20 => ty = Some(wire.int()?),
            21 => reference = true,
            _ => {}
        }
        Ok(())
    })?;
    let missing = || ImportError::format(format!("the attribute `{name}` has no value"));
    let value = match ty.unwrap_or(found) {
        _ if reference => Attribute::Other,
        1 => Attribute::Float(float),
        2 => Attribute::Int(int),
        3 => Attribute::Text(text),
        4 => {
            let (_, element, x) = read_tensor(tensor.ok_or_else(missing)?, file.folder)?;
            Attribute::Tensor(element, x)
        }
        5 => Attribute::Graph(read_graph(graph.ok_or_else(missing)?, file, depth + 1)?),
        6 => Attribute::Floats(floats),
        7 => Attribute::Ints(ints),
        8 => Attribute::Texts(texts),
        _ => Attribute::Other,
    };
    Ok((name, value))
}

/// Returns the dtype with a number in `TensorProto.DataType`.
pub(super) fn element_of(ty: i64) -> Result<Element, String> {
    if let Some(narrow) = NarrowInt::from_number(ty) {
        return Ok((narrow.dtype(), Some(narrow)));
    }
    let known = DType::ALL
        .into_iter()
        .find(|dtype| crate::proto::data_type(*dtype) == ty);
    let names = [
        "no dtype",
        "float",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "string",
        "bool",
        "float16",
        "double",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "bfloat16",
    ];
    let name = usize::try_from(ty).ok().and_then(|ty| names.get(ty));
    known.map(|dtype| (dtype, None)).ok_or_else(|| {
        let name = name.map_or_else(
            || format!("the type number {ty}"),
            |name| format!("`{name}`"),
        );
        format!("has the dtype {name}, expected `float`, `double`, `float16`, `bfloat16`, `bool`, `int64` or an integer of up to 32 bits")
    })
}

fn port_name(wire: Wire<'_>) -> Result<&str, ImportError> {
    let mut name = "";
    fields(wire.bytes()?, |field, wire| {
        if field == 1 {
            name = wire.text()?;
        }
        Ok(())
    })?;
    Ok(name)
}

fn read_port(bytes: &[u8]) -> Result<Port, ImportError> {
    let (mut name, mut dtype, mut shape, mut kind) = (String::new(), None, None, 1);
    fields(bytes, |field, wire| {
        match field {
            1 => wire.text()?.clone_into(&mut name),
            2 => fields(wire.bytes()?, |field, wire| {
                if field != 1 {
                    // A denotation has no effect.
                    kind = if field == 6 { kind } else { field };
                    return Ok(());
                }
                fields(wire.bytes()?, |field, wire| {
                    match field {
                        1 => dtype = Some(wire.int()?),
                        2 => shape = Some(read_dims(wire)?),
                        _ => {}
                    }
                    Ok(())
                })
            })?,
            _ => {}
        }
        Ok(())
    })?;
    if kind != 1 {
        return Err(ImportError::value(
            &name,
            "is not a tensor: sequences and optional values cannot be inputs or outputs",
        ));
    }
    let dtype = dtype
        .ok_or_else(|| "has no dtype".to_owned())
        .and_then(element_of);
    let (dtype, narrow) = dtype.map_err(|reason| ImportError::value(&name, reason))?;
    Ok(Port {
        name,
        dtype,
        narrow,
        shape,
    })
}

fn read_dims(wire: Wire<'_>) -> Result<Vec<Dim>, ImportError> {
    let mut dims = Vec::new();
    fields(wire.bytes()?, |_, wire| {
        let mut dim = Dim::Unknown;
        fields(wire.bytes()?, |field, wire| {
            match field {
                1 => dim = usize::try_from(wire.int()?).map_or(Dim::Unknown, Dim::Known),
                2 if !wire.text()?.is_empty() => dim = Dim::Named(wire.text()?.to_owned()),
                _ => {}
            }
            Ok(())
        })?;
        dims.push(dim);
        Ok(())
    })?;
    Ok(dims)
}

/// Reads a `TensorProto`: its name and elements.
pub(super) fn read_tensor(
    bytes: &[u8],
    folder: Option<&Path>,
) -> Result<(String, Element, Tensor), ImportError> {
    let (mut name, mut ty, mut dims) = (String::new(), 0, Vec::new());
    let (mut floats, mut ints, mut doubles) = (Vec::new(), Vec::new(), Vec::new());
    let (mut raw, mut external, mut is_external, mut is_part) =
        (None, BTreeMap::new(), false, false);
    fields(bytes, |field, wire| {
        match field {
            1 => wire.ints(&mut dims)?,
            2 => ty = wire.int()?,
            3 => is_part = true,
            4 => wire.floats(&mut floats)?,
            5 | 7 | 11 => wire.ints(&mut ints)?,
            8 => wire.text()?.clone_into(&mut name),
            9 => raw = Some(wire.bytes()?),
            10 => wire.doubles(&mut doubles)?,
            13 => {
                let [mut key, mut value] = [String::new(), String::new()];
                fields(wire.bytes()?, |field, wire| {
                    let text = if field == 1 { &mut key } else { &mut value };
                    wire.text()?.clone_into(text);
                    Ok(())
                })?;
                external.insert(key, value);
            }
            14 => is_external = wire.int()? == 1,
            _ => {}
        }
        Ok(())
    })?;
    let fault = |reason: String| ImportError::value(&name, reason);
    if is_part {
        return Err(fault(
            "is a part of a tensor, which is not supported".to_owned(),
        ));
    }
    let (dtype, narrow) = element_of(ty).map_err(fault)?;
    let size = narrow.map_or(dtype.size(), |narrow| narrow.bits() as usize / 8);
    let dims = dims
        .iter()
        .map(|len| usize::try_from(*len))
        .collect::<Result<Vec<usize>, _>>();
    let shape = dims.map_err(|_| fault("has a negative length".to_owned()))?;
    let numel = shape.iter().try_fold(size, |n, len| n.checked_mul(*len));
    let n_bytes = numel.ok_or_else(|| {
        fault(format!(
            "has the shape {shape:?}, which cannot be addressed"
        ))
    })?;
    let read;
    if is_external {
        read = read_external(&name, &external, n_bytes, folder)?;
        raw = Some(&read);
    }
    if let Some(found) = raw.map(<[u8]>::len).filter(|found| *found != n_bytes) {
        let ty = narrow.map_or_else(|| dtype.to_string(), |narrow| narrow.to_string());
        return Err(fault(format!(
            "has {found} bytes, expected {n_bytes} for {ty}{shape:?}"
        )));
    }
    if let Some(narrow) = narrow {
        if let Some(raw) = raw.take() {
            let number = |bytes: &[u8]| {
                bytes
                    .iter()
                    .rev()
                    .fold(0, |n, byte| n << 8 | i64::from(*byte))
            };
            ints = raw
                .chunks(size)
                .map(|bytes| narrow.of_number(number(bytes)))
                .collect();
        }
        if let Some(n) = ints.iter().find(|n| narrow.of_number(**n) != **n) {
            return Err(fault(format!(
                "has the element {n}, which is not an `{narrow}`"
            )));
        }
    }
    let tensor = match (raw, dtype) {
        (Some(raw), DType::F32) => elements(raw, f32::from_le_bytes, &shape),
        (Some(raw), DType::F64) => elements(raw, f64::from_le_bytes, &shape),
        (Some(raw), DType::I32) => elements(raw, i32::from_le_bytes, &shape),
        (Some(raw), DType::I64) => elements(raw, i64::from_le_bytes, &shape),
        (Some(raw), DType::Bool) => elements(raw, |[byte]: [u8; 1]| byte != 0, &shape),
        (None, DType::F32) => Tensor::try_from_vec(floats, &shape[..]),
        (None, DType::F64) => Tensor::try_from_vec(doubles, &shape[..]),
        (None, DType::I32) => {
            let ints = ints
                .iter()
                .map(|n| i32::try_from(*n))
                .collect::<Result<Vec<i32>, _>>();
            let ints =
                ints.map_err(|_| fault("has an element that is not an `int32`".to_owned()))?;
            Tensor::try_from_vec(ints, &shape[..])
        }
        (None, DType::I64) => Tensor::try_from_vec(ints, &shape[..]),
        (Some(raw), DType::BF16) => elements(raw, bf16::from_le_bytes, &shape),
        (Some(raw), DType::F16) => elements(raw, f16::from_le_bytes, &shape),
        // Integers have the bits.
        (None, DType::BF16) => {
            let all = ints.iter().map(|n| bf16::from_bits(*n as u16));
            Tensor::try_from_vec(all.collect::<Vec<_>>(), &shape[..])
        }
        (None, DType::F16) => {
            let all = ints.iter().map(|n| f16::from_bits(*n as u16));
            Tensor::try_from_vec(all.collect::<Vec<_>>(), &shape[..])
        }
        (_, DType::I8 | DType::U8) => unreachable!("integers of 8 bits are `NarrowInt`"),
        (None, DType::Bool) => {
            Tensor::try_from_vec(ints.iter().map(|n| *n != 0).collect(), &shape[..])
        }
    };
    let tensor = tensor.map_err(|error| fault(error.to_string()))?;
    Ok((name, (dtype, narrow), tensor))
}

fn elements<T: gradloom::Element, const N: usize>(
    raw: &[u8],
    of: impl Fn([u8; N]) -> T,
    shape: &[usize],
) -> gradloom::Result<Tensor> {
    let all = raw.as_chunks::<N>().0.iter().map(|bytes| of(*bytes));
    Tensor::try_from_vec(all.collect(), shape)
}

/// Reads the bytes of a tensor from a file beside the model.
fn read_external(
    name: &str,
    entries: &BTreeMap<String, String>,
    n_bytes: usize,
    folder: Option<&Path>,
) -> Result<Vec<u8>, ImportError> {
    use std::io::{Read, Seek, SeekFrom};
    let fault = |reason: String| ImportError::value(name, reason);
    let folder = folder
        .ok_or_else(|| fault("is in another file; read the model by `Model::load`".to_owned()))?;
    let location = entries
        .get("location")
        .ok_or_else(|| fault("does not say which file it is in".to_owned()))?;
    let number = |key: &str, default: u64| match entries.get(key) {
        Some(text) => text
            .parse()
            .map_err(|_| fault(format!("has the {key} `{text}`, expected a number"))),
        None => Ok(default),
    };
    let (offset, length) = (number("offset", 0)?, number("length", n_bytes as u64)?);
    if length != n_bytes as u64 {
        return Err(fault(format!("has {length} bytes, expected {n_bytes}")));
    }
    let is_inside = Path::new(location)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let path = folder.join(location);
    let outside = || {
        fault(format!(
            "is in `{location}`, which is outside of the folder of the model"
        ))
    };
    if !is_inside {
        return Err(outside());
    }
    let cannot_read = |source| ImportError::Read {
        path: path.clone(),
        source,
    };
    // A link may lead out of the folder, too.
    let real = path.canonicalize().map_err(cannot_read)?;
    if !real.starts_with(folder.canonicalize().map_err(cannot_read)?) {
        return Err(outside());
    }
    let mut file = std::fs::File::open(&real).map_err(cannot_read)?;
    let size = file.metadata().map_err(cannot_read)?.len();
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(fault(format!(
            "has the bytes {offset}..{offset}+{length} of `{location}`, which has {size}"
        )));
    }
    let mut bytes = vec![0; n_bytes];
    file.seek(SeekFrom::Start(offset)).map_err(cannot_read)?;
    file.read_exact(&mut bytes).map_err(cannot_read)?;
    Ok(bytes)
}
