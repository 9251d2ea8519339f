//! The messages of ONNX models in the wire format of Protocol Buffers.
//!
//! Numbers of fields are those of `onnx.proto3` of <https://github.com/onnx/onnx> (Apache-2.0). The wire format:
//! <https://protobuf.dev/programming-guides/encoding>.

use gradloom_ir::DType;

/// A message: its fields, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// Appends a field of an integer.
    pub(crate) fn int(&mut self, field: u64, n: i64) {
        self.varint(field << 3);
        self.varint(n as u64);
    }

    /// Appends a field of an `f32`.
    fn float(&mut self, field: u64, x: f32) {
        self.varint(field << 3 | 5);
        self.0.extend(x.to_le_bytes());
    }

    /// Appends a field of bytes.
    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Appends a field of text.
    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Appends a field of a message.
    pub(crate) fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Returns the number of an element type: `TensorProto.DataType`.
pub(crate) fn data_type(dtype: DType) -> i64 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::BF16 => 16,
    }
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attribute<'a> {
    Int(&'a str, i64),
    Ints(&'a str, &'a [i64]),
    Float(&'a str, f32),
    Text(&'a str, &'a str),
    Graph(&'a str, &'a Message),
}

/// `AttributeProto`.
fn attribute(of: &Attribute<'_>) -> Message {
    let mut m = Message::default();
    match *of {
        Attribute::Float(name, x) => {
            m.text(1, name);
            m.float(2, x);
            m.int(20, 1);
        }
        Attribute::Int(name, n) => {
            m.text(1, name);
            m.int(3, n);
            m.int(20, 2);
        }
        Attribute::Text(name, text) => {
            m.text(1, name);
            m.text(4, text);
            m.int(20, 3);
        }
        Attribute::Graph(name, graph) => {
            m.text(1, name);
            m.message(6, graph);
            m.int(20, 5);
        }
        Attribute::Ints(name, all) => {
            m.text(1, name);
            all.iter().for_each(|n| m.int(8, *n));
            m.int(20, 7);
        }
    }
    m
}

/// `NodeProto`.
pub(crate) fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Attribute<'_>],
) -> Message {
    let mut m = Message::default();
    inputs.iter().for_each(|name| m.text(1, name));
    outputs.iter().for_each(|name| m.text(2, name));
    m.text(4, op);
    attributes
        .iter()
        .for_each(|of| m.message(5, &attribute(of)));
    m
}

/// `GraphProto` without initializers.
pub(crate) fn graph<'a>(name: &str, nodes: impl IntoIterator<Item = &'a Message>) -> Message {
    let mut m = Message::default();
    nodes.into_iter().for_each(|node| m.message(1, node));
    m.text(2, name);
    m
}

/// `TensorProto`.
pub(crate) fn tensor(name: &str, dtype: DType, shape: &[usize], bytes: &[u8]) -> Message {
    let mut m = Message::default();
    shape.iter().for_each(|len| m.int(1, *len as i64));
    m.int(2, data_type(dtype));
    m.text(8, name);
    m.bytes(9, bytes);
    m
}

/// `ValueInfoProto` of a tensor.
pub(crate) fn value_info(name: &str, dtype: DType, lens: &[usize]) -> Message {
    let mut shape = Message::default();
    for len in lens {
        let mut dim = Message::default();
        dim.int(1, *len as i64);
        shape.message(1, &dim);
    }
    let mut tensor = Message::default();
    tensor.int(1, data_type(dtype));
    tensor.message(2, &shape);
    let mut ty = Message::default();
    ty.message(1, &tensor);
    let mut m = Message::default();
    m.text(1, name);
    m.message(2, &ty);
    m
}
