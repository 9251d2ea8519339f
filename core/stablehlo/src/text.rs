//! The text of a function, and a method for each StableHLO op that the export emits.
//!
//! A [`Value`] is an SSA value with its type. Methods append a line and return its result. The types of
//! results are inferred from those of the operands where StableHLO infers them.

use crate::ExportError;
use gradloom_ir::mesh::MeshAxes;
use gradloom_ir::{DType, Static};
use half::{bf16, f16};
use std::fmt::Write;
use std::rc::Rc;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F64,
    BF16,
    F16,
    I32,
    I64,
    I8,
    U8,
    /// Words of random numbers.
    U32,
    /// Pairs of words of random numbers.
    U64,
    /// Bools.
    I1,
}

impl Element {
    pub(crate) fn of(dtype: DType) -> Element {
        match dtype {
            DType::F32 => Element::F32,
            DType::F64 => Element::F64,
            DType::I32 => Element::I32,
            DType::I64 => Element::I64,
            DType::BF16 => Element::BF16,
            DType::F16 => Element::F16,
            DType::I8 => Element::I8,
            DType::U8 => Element::U8,
            DType::Bool => Element::I1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::F64 => "f64",
            Element::I32 => "i32",
            Element::I64 => "i64",
            Element::BF16 => "bf16",
            Element::F16 => "f16",
            Element::I8 => "i8",
            Element::U8 => "ui8",
            Element::U32 => "ui32",
            Element::U64 => "ui64",
            Element::I1 => "i1",
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            Element::F32 | Element::F64 | Element::BF16 | Element::F16
        )
    }

    /// Returns the number of bits.
    pub(crate) fn width(self) -> i64 {
        match self {
            Element::F32 | Element::I32 | Element::U32 => 32,
            Element::F64 | Element::I64 | Element::U64 => 64,
            Element::BF16 | Element::F16 => 16,
            Element::I8 | Element::U8 => 8,
            Element::I1 => 1,
        }
    }

    /// Returns the kind of comparison of such elements.
    fn comparison(self) -> &'static str {
        match self {
            Element::F32 | Element::F64 | Element::BF16 | Element::F16 => "FLOAT",
            Element::I32 | Element::I64 | Element::I8 => "SIGNED",
            Element::U32 | Element::U64 | Element::U8 | Element::I1 => "UNSIGNED",
        }
    }

    /// Returns the least value: minus infinity of floats.
    pub(crate) fn least(self) -> Number {
        match self {
            Element::I32 => Number::Int(i32::MIN.into()),
            Element::I64 => Number::Int(i64::MIN),
            Element::I8 => Number::Int(i8::MIN.into()),
            Element::F32 | Element::F64 | Element::BF16 | Element::F16 => {
                Number::Float(f64::NEG_INFINITY)
            }
            Element::U32 | Element::U64 | Element::U8 | Element::I1 => Number::Int(0),
        }
    }

    /// Returns the greatest value: infinity of floats.
    pub(crate) fn greatest(self) -> Number {
        match self {
            Element::I32 => Number::Int(i32::MAX.into()),
            Element::I64 => Number::Int(i64::MAX),
            Element::I8 => Number::Int(i8::MAX.into()),
            Element::U8 => Number::Int(u8::MAX.into()),
            Element::F32 | Element::F64 | Element::BF16 | Element::F16 => {
                Number::Float(f64::INFINITY)
            }
            Element::U32 | Element::U64 => Number::Int(-1),
            Element::I1 => Number::Int(1),
        }
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

impl From<i32> for Number {
    fn from(n: i32) -> Number {
        Number::Int(n.into())
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
    /// Returns the literal of this number as an element.
    ///
    /// Floats that are not small integers are written as bits, because a reader rounds decimals twice.
    fn literal(self, element: Element) -> String {
        let float = |bits: String, x: f64| match x == x.trunc() && x.abs() < 1e6 && !is_minus_0(x) {
            true => format!("{x:.1}"),
            false => bits,
        };
        let (as_float, as_int) = match self {
            Number::Int(n) => (n as f64, n),
            Number::Float(x) => (x, x as i64),
        };
        match element {
            Element::F32 => float(
                format!("0x{:08X}", (as_float as f32).to_bits()),
                as_float as f32 as f64,
            ),
            Element::F64 => float(format!("0x{:016X}", as_float.to_bits()), as_float),
            Element::I32 => match self {
                Number::Int(n) => (n as i32).to_string(),
                Number::Float(x) => (x as i32).to_string(),
            },
            Element::BF16 => {
                let x = bf16::from_f64(as_float);
                float(format!("0x{:04X}", x.to_bits()), x.to_f64())
            }
            Element::F16 => {
                let x = f16::from_f64(as_float);
                float(format!("0x{:04X}", x.to_bits()), x.to_f64())
            }
            Element::I64 => as_int.to_string(),
            Element::I8 => (as_int as i8).to_string(),
            Element::U8 => (as_int as u8).to_string(),
            Element::U32 => (as_int as u32).to_string(),
            Element::U64 => (as_int as u64).to_string(),
            Element::I1 => (as_float != 0.0).to_string(),
        }
    }
}

fn is_minus_0(x: f64) -> bool {
    x == 0.0 && x.is_sign_negative()
}

/// A value of a function, with its type.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    name: Rc<str>,
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    fn ty(&self) -> String {
        type_of(self.element, &self.shape)
    }
}

/// Returns a type, as in `tensor<2x3xf32>`.
pub(crate) fn type_of(element: Element, shape: &[usize]) -> String {
    let mut text = "tensor<".to_owned();
    for len in shape {
        let _ = write!(text, "{len}x");
    }
    text + element.name() + ">"
}

fn names(values: &[Value]) -> String {
    let names: Vec<&str> = values.iter().map(|x| &*x.name).collect();
    names.join(", ")
}

fn types(values: &[Value]) -> String {
    let types: Vec<String> = values.iter().map(Value::ty).collect();
    types.join(", ")
}

/// Returns a list, as in `[1, 2]`.
fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// Returns an attribute that holds numbers.
fn array<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    match items.is_empty() {
        true => "array<i64>".to_owned(),
        false => format!("array<i64: {}>", items.join(", ")),
    }
}

/// The comparison of two values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The axes of a matrix product with batch axes: `[batch, contracted]` of both operands.
pub(crate) struct Contraction<'a> {
    pub(crate) batch: [&'a [usize]; 2],
    pub(crate) contracted: [&'a [usize]; 2],
}

/// Padding before, after and between the elements of an axis.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Margin {
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) interior: i64,
}

/// An axis of a convolution.
pub(crate) struct ConvAxis {
    pub(crate) stride: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) lhs_dilation: usize,
    pub(crate) rhs_dilation: usize,
}

/// The letters of the leading two axes of operands and result of a convolution, and the groups.
pub(crate) struct ConvAxes<'a> {
    pub(crate) letters: [&'a str; 3],
    pub(crate) axes: &'a [ConvAxis],
    pub(crate) feature_groups: usize,
    pub(crate) batch_groups: usize,
}

/// The text of a function body.
pub(crate) struct Text {
    body: String,
    depth: usize,
    next: usize,
    /// Names, Shardy forms and numbers of devices of the meshes of the module.
    meshes: Vec<(String, String, usize)>,
    /// Number of collectives.
    n_channels: usize,
    /// The devices of the `shard_map` that is being written.
    pub(crate) devices: Option<MeshAxes>,
}

impl Text {
    pub(crate) fn new() -> Text {
        Text {
            body: String::new(),
            depth: 2,
            next: 0,
            meshes: Vec::new(),
            n_channels: 0,
            devices: None,
        }
    }

    /// Returns the declarations of the module, and the lines of the function.
    pub(crate) fn finish(self) -> [String; 2] {
        let meshes = self.meshes.iter();
        let meshes = meshes.map(|(name, text, _)| format!("  sdy.mesh @{name} = {text}\n"));
        [meshes.collect(), self.body]
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.body, "{}{line}", "  ".repeat(self.depth));
    }

    /// Returns a value of this name, which the caller declares.
    pub(crate) fn named(&mut self, name: &str, element: Element, shape: &[usize]) -> Value {
        Value {
            name: name.into(),
            element,
            shape: shape.to_vec(),
        }
    }

    /// Appends `value = text` and returns the value.
    fn bind(&mut self, element: Element, shape: &[usize], text: &str) -> Value {
        let name = self.fresh();
        self.line(&format!("{name} = {text}"));
        self.named(&name, element, shape)
    }

    /// Appends `return values` of a region or a function.
    pub(crate) fn give(&mut self, op: &str, values: &[Value]) {
        match values.is_empty() {
            true => self.line(op),
            false => self.line(&format!("{op} {} : {}", names(values), types(values))),
        }
    }

    /// Returns values of these types with fresh names.
    fn fresh_like(&mut self, like: &[Value]) -> Vec<Value> {
        let one = |like: &Value| {
            let name = self.fresh();
            self.named(&name, like.element, &like.shape)
        };
        like.iter().map(one).collect()
    }

    /// Appends an op with regions. Each region has a block with parameters of the given types.
    ///
    /// `region` appends the body of a region, given its number and its parameters, and returns its results.
    fn with_regions<E>(
        &mut self,
        op: &str,
        args: &[Value],
        attrs: &str,
        params: &[Vec<Value>],
        outs: &[Value],
        mut region: impl FnMut(&mut Text, usize, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let (bound, results) = self.bind_all(outs);
        self.line(&format!("{bound}\"{op}\"({}){attrs} ({{", names(args)));
        for (i, params) in params.iter().enumerate() {
            if i > 0 {
                self.line("}, {");
            }
            self.depth += 1;
            let fresh = self.fresh_like(params);
            if !fresh.is_empty() {
                self.line(&format!("^bb0({}):", declarations(&fresh)));
            }
            let values = region(self, i, &fresh)?;
            self.give("stablehlo.return", &values);
            self.depth -= 1;
        }
        self.line(&format!(
            "}}) : ({}) -> {}",
            types(args),
            types_of_results(outs)
        ));
        Ok(results)
    }

    /// Returns the left side of an op with these results, and the results.
    fn bind_all(&mut self, outs: &[Value]) -> (String, Vec<Value>) {
        let name = self.fresh();
        let named = |name: String, out: &Value| Value {
            name: name.into(),
            ..out.clone()
        };
        match outs {
            [] => (String::new(), Vec::new()),
            [one] => (format!("{name} = "), vec![named(name, one)]),
            _ => {
                let all = outs.iter().enumerate();
                let all = all.map(|(i, out)| named(format!("{name}#{i}"), out));
                (format!("{name}:{} = ", outs.len()), all.collect())
            }
        }
    }
}

/// Returns the results of an op or a function as types.
fn types_of_results(outs: &[Value]) -> String {
    match outs {
        [one] => one.ty(),
        _ => format!("({})", types(outs)),
    }
}

/// Returns parameters, as in `%x: tensor<2xf32>, %y: tensor<f32>`.
fn declarations(params: &[Value]) -> String {
    let all: Vec<String> = params
        .iter()
        .map(|x| format!("{}: {}", x.name, x.ty()))
        .collect();
    all.join(", ")
}

/// Numbers.
impl Text {
    /// Appends a value all of whose elements are a number.
    pub(crate) fn full(
        &mut self,
        x: impl Into<Number>,
        element: Element,
        shape: &[usize],
    ) -> Value {
        let literal = x.into().literal(element);
        let ty = type_of(element, shape);
        self.bind(
            element,
            shape,
            &format!("stablehlo.constant dense<{literal}> : {ty}"),
        )
    }

    /// As [`full`](Text::full), with the type of another value.
    pub(crate) fn full_like(&mut self, x: impl Into<Number>, like: &Value) -> Value {
        self.full(x, like.element, &like.shape)
    }

    /// Appends the index along an axis.
    pub(crate) fn iota(&mut self, axis: usize, element: Element, shape: &[usize]) -> Value {
        // The op takes no bools.
        if element == Element::I1 {
            let index = self.iota(axis, Element::I32, shape);
            return self.convert(&index, element);
        }
        let ty = type_of(element, shape);
        self.bind(
            element,
            shape,
            &format!("stablehlo.iota dim = {axis} : {ty}"),
        )
    }
}

/// Elementwise ops.
impl Text {
    /// Appends an op whose operands and result have one type.
    pub(crate) fn same(&mut self, op: &str, args: &[&Value]) -> Value {
        let all: Vec<Value> = args.iter().copied().cloned().collect();
        let x = &all[0];
        debug_assert!(
            all.iter()
                .all(|y| y.shape == x.shape && y.element == x.element),
            "{op} of {all:?}"
        );
        let ty = match op.starts_with("chlo") {
            // These print the types of operands and results.
            true => format!("{} -> {}", types(&all), x.ty()),
            false => x.ty(),
        };
        self.bind(x.element, &x.shape, &format!("{op} {} : {ty}", names(&all)))
    }

    /// Appends a StableHLO op of one operand.
    pub(crate) fn unary(&mut self, op: &str, x: &Value) -> Value {
        self.same(&format!("stablehlo.{op}"), &[x])
    }

    /// Appends a StableHLO op of two operands.
    pub(crate) fn binary(&mut self, op: &str, x: &Value, y: &Value) -> Value {
        self.same(&format!("stablehlo.{op}"), &[x, y])
    }

    pub(crate) fn add(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("add", x, y)
    }

    pub(crate) fn sub(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("subtract", x, y)
    }

    pub(crate) fn mul(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("multiply", x, y)
    }

    pub(crate) fn div(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("divide", x, y)
    }

    pub(crate) fn max(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("maximum", x, y)
    }

    pub(crate) fn min(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("minimum", x, y)
    }

    pub(crate) fn and(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("and", x, y)
    }

    pub(crate) fn or(&mut self, x: &Value, y: &Value) -> Value {
        self.binary("or", x, y)
    }

    pub(crate) fn neg(&mut self, x: &Value) -> Value {
        self.unary("negate", x)
    }

    pub(crate) fn abs(&mut self, x: &Value) -> Value {
        self.unary("abs", x)
    }

    pub(crate) fn exp(&mut self, x: &Value) -> Value {
        self.unary("exponential", x)
    }

    pub(crate) fn log(&mut self, x: &Value) -> Value {
        self.unary("log", x)
    }

    pub(crate) fn sqrt(&mut self, x: &Value) -> Value {
        self.unary("sqrt", x)
    }

    /// Appends `x + n`.
    pub(crate) fn plus(&mut self, x: &Value, n: impl Into<Number>) -> Value {
        let n = self.full_like(n, x);
        self.add(x, &n)
    }

    /// Appends `x * n`.
    pub(crate) fn times(&mut self, x: &Value, n: impl Into<Number>) -> Value {
        let n = self.full_like(n, x);
        self.mul(x, &n)
    }

    /// Appends `n / x`.
    pub(crate) fn over(&mut self, n: impl Into<Number>, x: &Value) -> Value {
        let n = self.full_like(n, x);
        self.div(&n, x)
    }

    /// Appends a comparison.
    pub(crate) fn compare(&mut self, order: Order, x: &Value, y: &Value) -> Value {
        let direction = match order {
            Order::Eq => "EQ",
            Order::Ne => "NE",
            Order::Lt => "LT",
            Order::Le => "LE",
            Order::Gt => "GT",
            Order::Ge => "GE",
        };
        debug_assert!(
            x.shape == y.shape && x.element == y.element,
            "{x:?} and {y:?}"
        );
        let text = format!(
            "stablehlo.compare {direction}, {}, {}, {} : ({}, {}) -> {}",
            x.name,
            y.name,
            x.element.comparison(),
            x.ty(),
            y.ty(),
            type_of(Element::I1, &x.shape)
        );
        self.bind(Element::I1, &x.shape, &text)
    }

    /// Appends a comparison with a number.
    pub(crate) fn compare_to(&mut self, order: Order, x: &Value, n: impl Into<Number>) -> Value {
        let n = self.full_like(n, x);
        self.compare(order, x, &n)
    }

    /// Appends whether each element is NaN.
    pub(crate) fn is_nan(&mut self, x: &Value) -> Value {
        self.compare(Order::Ne, x, x)
    }

    pub(crate) fn select(&mut self, condition: &Value, x: &Value, y: &Value) -> Value {
        debug_assert!(
            x.shape == y.shape && x.element == y.element,
            "{x:?} and {y:?}"
        );
        debug_assert_eq!(x.shape, condition.shape);
        let text = format!(
            "stablehlo.select {}, {}, {} : {}, {}",
            condition.name,
            x.name,
            y.name,
            condition.ty(),
            x.ty()
        );
        self.bind(x.element, &x.shape, &text)
    }

    /// Appends `condition ? n : y`.
    pub(crate) fn replace(&mut self, condition: &Value, n: impl Into<Number>, y: &Value) -> Value {
        let n = self.full_like(n, y);
        self.select(condition, &n, y)
    }

    /// Appends the elements as another type, by the rule of StableHLO.
    pub(crate) fn convert(&mut self, x: &Value, element: Element) -> Value {
        self.retyped("convert", x, element)
    }

    /// Appends the bits as another type of the same width.
    pub(crate) fn bitcast(&mut self, x: &Value, element: Element) -> Value {
        self.retyped("bitcast_convert", x, element)
    }

    fn retyped(&mut self, op: &str, x: &Value, element: Element) -> Value {
        if x.element == element {
            return x.clone();
        }
        let ty = type_of(element, &x.shape);
        self.bind(
            element,
            &x.shape,
            &format!("stablehlo.{op} {} : ({}) -> {ty}", x.name, x.ty()),
        )
    }

    /// Appends whether each element is finite.
    pub(crate) fn is_finite(&mut self, x: &Value) -> Value {
        let ty = type_of(Element::I1, &x.shape);
        self.bind(
            Element::I1,
            &x.shape,
            &format!("stablehlo.is_finite {} : ({}) -> {ty}", x.name, x.ty()),
        )
    }
}

/// Ops that move elements.
impl Text {
    fn moved(&mut self, x: &Value, shape: &[usize], text: &str) -> Value {
        let ty = type_of(x.element, shape);
        self.bind(
            x.element,
            shape,
            &format!("stablehlo.{text} : ({}) -> {ty}", x.ty()),
        )
    }

    /// Appends `x` with its axis `i` as axis `axes[i]` of a shape.
    pub(crate) fn broadcast(&mut self, x: &Value, axes: &[usize], shape: &[usize]) -> Value {
        if x.shape == shape {
            return x.clone();
        }
        let text = format!("broadcast_in_dim {}, dims = {}", x.name, list(axes));
        self.moved(x, shape, &text)
    }

    /// Appends `x` broadcast to a shape, its last axes aligned with those of the shape.
    pub(crate) fn spread(&mut self, x: &Value, shape: &[usize]) -> Value {
        let axes: Vec<usize> = (shape.len() - x.rank()..shape.len()).collect();
        self.broadcast(x, &axes, shape)
    }

    pub(crate) fn reshape(&mut self, x: &Value, shape: &[usize]) -> Value {
        if x.shape == shape {
            return x.clone();
        }
        debug_assert_eq!(x.numel(), shape.iter().product::<usize>());
        let text = format!("reshape {}", x.name);
        self.moved(x, shape, &text)
    }

    /// Appends `x` with its axis `axes[i]` as axis `i`.
    pub(crate) fn transpose(&mut self, x: &Value, axes: &[usize]) -> Value {
        if axes.iter().enumerate().all(|(i, axis)| i == *axis) {
            return x.clone();
        }
        let shape: Vec<usize> = axes.iter().map(|axis| x.shape[*axis]).collect();
        let text = format!("transpose {}, dims = {}", x.name, list(axes));
        self.moved(x, &shape, &text)
    }

    /// Appends the range `[start, stop, step]` of each axis, with positive steps.
    pub(crate) fn slice(&mut self, x: &Value, ranges: &[[usize; 3]]) -> Value {
        let len = |[start, stop, step]: &[usize; 3]| (stop - start).div_ceil(*step);
        let shape: Vec<usize> = ranges.iter().map(len).collect();
        if shape == x.shape {
            return x.clone();
        }
        let parts: Vec<String> = ranges
            .iter()
            .map(|[start, stop, step]| match step {
                1 => format!("{start}:{stop}"),
                _ => format!("{start}:{stop}:{step}"),
            })
            .collect();
        let text = format!("slice {} [{}]", x.name, parts.join(", "));
        self.moved(x, &shape, &text)
    }

    /// Appends the range `start..stop` of one axis.
    pub(crate) fn part(&mut self, x: &Value, axis: usize, start: usize, stop: usize) -> Value {
        let mut ranges: Vec<[usize; 3]> = x.shape.iter().map(|len| [0, *len, 1]).collect();
        ranges[axis] = [start, stop, 1];
        self.slice(x, &ranges)
    }

    pub(crate) fn pad(&mut self, x: &Value, n: impl Into<Number>, margins: &[Margin]) -> Value {
        let all = |of: fn(&Margin) -> i64| margins.iter().map(of).collect::<Vec<i64>>();
        let (low, high, interior) = (all(|m| m.low), all(|m| m.high), all(|m| m.interior));
        let len = |(len, m): (&usize, &Margin)| {
            let len = *len as i64;
            (len + m.low + m.high + m.interior * (len - 1).max(0)) as usize
        };
        let shape: Vec<usize> = x.shape.iter().zip(margins).map(len).collect();
        if [&low, &high, &interior]
            .iter()
            .all(|all| all.iter().all(|n| *n == 0))
        {
            return x.clone();
        }
        let n = self.full(n, x.element, &[]);
        let text = format!(
            "stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
            x.name,
            n.name,
            list(&low),
            list(&high),
            list(&interior),
            x.ty(),
            n.ty(),
            type_of(x.element, &shape)
        );
        self.bind(x.element, &shape, &text)
    }

    pub(crate) fn concat(&mut self, parts: &[Value], axis: usize) -> Value {
        if let [one] = parts {
            return one.clone();
        }
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|x| x.shape[axis]).sum();
        let element = parts[0].element;
        let text = format!(
            "stablehlo.concatenate {}, dim = {axis} : ({}) -> {}",
            names(parts),
            types(parts),
            type_of(element, &shape)
        );
        self.bind(element, &shape, &text)
    }

    /// Appends `x` with reversed axes.
    pub(crate) fn reverse(&mut self, x: &Value, axes: &[usize]) -> Value {
        if axes.is_empty() {
            return x.clone();
        }
        let text = format!(
            "stablehlo.reverse {}, dims = {} : {}",
            x.name,
            list(axes),
            x.ty()
        );
        self.bind(x.element, &x.shape, &text)
    }

    /// Appends the part of these lengths from an index of each axis. StableHLO moves it inside.
    pub(crate) fn dynamic_slice(&mut self, x: &Value, starts: &[Value], lens: &[usize]) -> Value {
        if starts.is_empty() {
            return x.clone();
        }
        let args = [std::slice::from_ref(x), starts].concat();
        let text = format!(
            "stablehlo.dynamic_slice {}, sizes = {} : ({}) -> {}",
            names(&args),
            list(lens),
            types(&args),
            type_of(x.element, lens)
        );
        self.bind(x.element, lens, &text)
    }

    /// Appends `x` with a part replaced, from an index of each axis. StableHLO moves it inside.
    pub(crate) fn dynamic_update(&mut self, x: &Value, part: &Value, starts: &[Value]) -> Value {
        if starts.is_empty() {
            return part.clone();
        }
        let args = [&[x.clone(), part.clone()], starts].concat();
        let text = format!(
            "stablehlo.dynamic_update_slice {} : ({}) -> {}",
            names(&args),
            types(&args),
            x.ty()
        );
        self.bind(x.element, &x.shape, &text)
    }

    /// Appends the slices `x[i]` of axis `axis`, whose axes replace it.
    ///
    /// An index out of range counts as the nearest one.
    pub(crate) fn gather(&mut self, x: &Value, i: &Value, axis: usize) -> Value {
        let (before, after) = (&x.shape[..axis], &x.shape[axis + 1..]);
        let shape = [before, &i.shape, after].concat();
        let offsets: Vec<usize> = (0..axis).chain(axis + i.rank()..shape.len()).collect();
        let mut sizes = x.shape.clone();
        sizes[axis] = 1;
        let text = format!(
            "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, \
             collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = {}>, \
             slice_sizes = {}}}> : ({}, {}) -> {}",
            x.name,
            i.name,
            list(&offsets),
            i.rank(),
            array(&sizes),
            x.ty(),
            i.ty(),
            type_of(x.element, &shape)
        );
        self.bind(x.element, &shape, &text)
    }

    /// Appends `x` with slices of axis `axis` combined with updates, which have the shape of
    /// [`gather`](Text::gather). An index out of range has no effect.
    pub(crate) fn scatter(
        &mut self,
        x: &Value,
        i: &Value,
        updates: &Value,
        axis: usize,
        combine: impl Fn(&mut Text, &Value, &Value) -> Value,
    ) -> Value {
        let windows: Vec<usize> = (0..axis).chain(axis + i.rank()..updates.rank()).collect();
        let attrs = format!(
            " <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, \
             inserted_window_dims = [{axis}], scatter_dims_to_operand_dims = [{axis}], \
             index_vector_dim = {}>}}>",
            list(&windows),
            i.rank()
        );
        let one = self.named("", x.element, &[]);
        let args = [x.clone(), i.clone(), updates.clone()];
        let outs = self.with_regions::<()>(
            "stablehlo.scatter",
            &args,
            &attrs,
            &[vec![one.clone(), one]],
            std::slice::from_ref(x),
            |t, _, args| Ok(vec![combine(t, &args[0], &args[1])]),
        );
        first(outs)
    }
}

fn first(outs: Result<Vec<Value>, ()>) -> Value {
    outs.into_iter()
        .flatten()
        .next()
        .expect("the op has one result")
}

/// Ops that combine elements.
impl Text {
    /// Appends the combination of the elements over axes by a StableHLO op, which are dropped.
    pub(crate) fn reduce(
        &mut self,
        op: &str,
        x: &Value,
        init: impl Into<Number>,
        axes: &[usize],
    ) -> Value {
        if axes.is_empty() {
            return x.clone();
        }
        let init = self.full(init, x.element, &[]);
        let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
        let shape: Vec<usize> = kept.map(|axis| x.shape[axis]).collect();
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{op} across dimensions = {} : ({}, {}) -> {}",
            x.name,
            init.name,
            list(axes),
            x.ty(),
            init.ty(),
            type_of(x.element, &shape)
        );
        self.bind(x.element, &shape, &text)
    }

    /// Appends the combination of the elements of each window, which starts at each `strides`-th element.
    pub(crate) fn reduce_window(
        &mut self,
        x: &Value,
        init: impl Into<Number>,
        [window, strides]: [&[usize]; 2],
        combine: impl Fn(&mut Text, &Value, &Value) -> Value,
    ) -> Value {
        let init = self.full(init, x.element, &[]);
        let len = |axis: usize| match x.shape[axis].checked_sub(window[axis]) {
            Some(last) => last / strides[axis] + 1,
            None => 0,
        };
        let shape: Vec<usize> = (0..x.rank()).map(len).collect();
        let attrs = format!(
            " <{{window_dimensions = {}, window_strides = {}}}>",
            array(window),
            array(strides)
        );
        let out = self.named("", x.element, &shape);
        let outs = self.with_regions::<()>(
            "stablehlo.reduce_window",
            &[x.clone(), init.clone()],
            &attrs,
            &[vec![init.clone(), init.clone()]],
            &[out],
            |t, _, args| Ok(vec![combine(t, &args[0], &args[1])]),
        );
        first(outs)
    }

    /// Appends the sum of products over contracted axes: batch axes, then other ones of `x`, then of `y`.
    pub(crate) fn dot(&mut self, x: &Value, y: &Value, of: &Contraction<'_>) -> Value {
        let free = |x: &Value, side: usize| {
            let is_free = |axis: &usize| {
                !of.batch[side].contains(axis) && !of.contracted[side].contains(axis)
            };
            let axes: Vec<usize> = (0..x.rank())
                .filter(is_free)
                .map(|axis| x.shape[axis])
                .collect();
            axes
        };
        let batch: Vec<usize> = of.batch[0].iter().map(|axis| x.shape[*axis]).collect();
        let shape = [batch, free(x, 0), free(y, 1)].concat();
        let mut text = format!("stablehlo.dot_general {}, {}", x.name, y.name);
        if !of.batch[0].is_empty() {
            let _ = write!(
                text,
                ", batching_dims = {} x {}",
                list(of.batch[0]),
                list(of.batch[1])
            );
        }
        let _ = write!(
            text,
            ", contracting_dims = {} x {}, precision = [HIGHEST, HIGHEST] : ({}, {}) -> {}",
            list(of.contracted[0]),
            list(of.contracted[1]),
            x.ty(),
            y.ty(),
            type_of(x.element, &shape)
        );
        self.bind(x.element, &shape, &text)
    }

    /// Appends a convolution. `shape` is that of the result.
    pub(crate) fn convolution(
        &mut self,
        x: &Value,
        w: &Value,
        of: &ConvAxes<'_>,
        shape: &[usize],
    ) -> Value {
        let numbers: Vec<String> = (0..of.axes.len()).map(|i| i.to_string()).collect();
        let spec = |letters: &str| {
            let leading: Vec<String> = letters.chars().map(|c| c.to_string()).collect();
            format!("[{}]", [leading, numbers.clone()].concat().join(", "))
        };
        let all = |of_axis: &dyn Fn(&ConvAxis) -> String| {
            let items: Vec<String> = of.axes.iter().map(of_axis).collect();
            format!("[{}]", items.join(", "))
        };
        let [lhs, rhs, out] = of.letters.map(spec);
        let text = format!(
            "stablehlo.convolution({}, {}) dim_numbers = {lhs}x{rhs}->{out}, window = {{stride = {}, pad = {}, \
             lhs_dilate = {}, rhs_dilate = {}}} {{batch_group_count = {} : i64, feature_group_count = {} : i64, \
             precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}} : ({}, {}) -> {}",
            x.name,
            w.name,
            all(&|a| a.stride.to_string()),
            all(&|a| format!("[{}, {}]", a.low, a.high)),
            all(&|a| a.lhs_dilation.to_string()),
            all(&|a| a.rhs_dilation.to_string()),
            of.batch_groups,
            of.feature_groups,
            x.ty(),
            w.ty(),
            type_of(x.element, shape)
        );
        self.bind(x.element, shape, &text)
    }

    /// Appends values sorted together along an axis, equal ones in their order.
    ///
    /// `before` gets two elements of each value in turn: `x0, x1, y0, y1`.
    pub(crate) fn sort(
        &mut self,
        args: &[Value],
        axis: usize,
        before: impl Fn(&mut Text, &[Value]) -> Value,
    ) -> Vec<Value> {
        let attrs = format!(" <{{dimension = {axis} : i64, is_stable = true}}>");
        let params = args.iter().flat_map(|x| {
            let one = Value {
                name: "".into(),
                element: x.element,
                shape: Vec::new(),
            };
            [one.clone(), one]
        });
        let outs = self.with_regions::<()>(
            "stablehlo.sort",
            args,
            &attrs,
            &[params.collect()],
            args,
            |t, _, args| Ok(vec![before(t, args)]),
        );
        outs.unwrap_or_default()
    }

    /// Appends the lower triangular factor of symmetric matrices.
    pub(crate) fn cholesky(&mut self, x: &Value) -> Value {
        let text = format!("stablehlo.cholesky {}, lower = true : {}", x.name, x.ty());
        self.bind(x.element, &x.shape, &text)
    }

    /// Appends the solution of a triangular system of equations.
    pub(crate) fn triangular_solve(&mut self, a: &Value, b: &Value, of: Triangle) -> Value {
        let transpose = if of.transposed {
            "TRANSPOSE"
        } else {
            "NO_TRANSPOSE"
        };
        let text = format!(
            "\"stablehlo.triangular_solve\"({}, {}) <{{left_side = true, lower = {}, unit_diagonal = {}, \
             transpose_a = #stablehlo<transpose {transpose}>}}> : ({}, {}) -> {}",
            a.name,
            b.name,
            of.lower,
            of.unit,
            a.ty(),
            b.ty(),
            b.ty()
        );
        self.bind(b.element, &b.shape, &text)
    }
}

/// The elements of a triangular matrix that a solver reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Triangle {
    pub(crate) lower: bool,
    pub(crate) unit: bool,
    pub(crate) transposed: bool,
}

/// Control flow.
impl Text {
    /// Appends a loop on states. `condition` returns a bool and `body` the next states.
    pub(crate) fn while_loop<E>(
        &mut self,
        init: &[Value],
        mut condition: impl FnMut(&mut Text, &[Value]) -> Result<Value, E>,
        mut body: impl FnMut(&mut Text, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let params = [init.to_vec(), init.to_vec()];
        self.with_regions(
            "stablehlo.while",
            init,
            "",
            &params,
            init,
            |t, i, args| match i {
                0 => Ok(vec![condition(t, args)?]),
                _ => body(t, args),
            },
        )
    }

    /// Appends a loop of `turns` turns on states. `body` gets the number of the turn as an `i64` of rank 0.
    pub(crate) fn turns<E>(
        &mut self,
        turns: usize,
        init: &[Value],
        mut body: impl FnMut(&mut Text, &Value, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let zero = self.full(0, Element::I64, &[]);
        let init = [&[zero], init].concat();
        let mut outs = self.while_loop(
            &init,
            |t, states| Ok(t.compare_to(Order::Lt, &states[0], turns as i64)),
            |t, states| {
                let next = body(t, &states[0], &states[1..])?;
                let turn = t.plus(&states[0], 1);
                Ok([&[turn], &next[..]].concat())
            },
        )?;
        Ok(outs.split_off(1))
    }

    /// Appends the results of one of several branches, chosen by an `i32` that is in range.
    pub(crate) fn case<E>(
        &mut self,
        index: &Value,
        n: usize,
        outs: &[Value],
        mut branch: impl FnMut(&mut Text, usize) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let args = std::slice::from_ref(index);
        let params = vec![Vec::new(); n];
        self.with_regions("stablehlo.case", args, "", &params, outs, |t, i, _| {
            branch(t, i)
        })
    }
}

/// Several devices.
impl Text {
    /// Declares a mesh and returns its name: another one, if another mesh has the name.
    ///
    /// # Errors
    ///
    /// If another mesh has another number of devices: XLA divides a program over one list of devices.
    pub(crate) fn mesh(
        &mut self,
        name: &str,
        text: &str,
        n_devices: usize,
    ) -> Result<String, ExportError> {
        if let Some((name, ..)) = self.meshes.iter().find(|(_, other, _)| other == text) {
            return Ok(name.clone());
        }
        if let Some((first, form, n)) = self.meshes.first()
            && *n != n_devices
        {
            return Err(ExportError::Meshes {
                first: format!("@{first} {form}"),
                second: format!("@{name} {text}"),
            });
        }
        let mut own = name.to_owned();
        while self.meshes.iter().any(|(name, ..)| *name == own) {
            own += "_";
        }
        self.meshes.push((own.clone(), text.to_owned(), n_devices));
        Ok(own)
    }

    /// Returns the number of the next collective.
    pub(crate) fn channel(&mut self) -> usize {
        self.n_channels += 1;
        self.n_channels
    }

    /// Appends `x` with a sharding.
    pub(crate) fn sharding_constraint(&mut self, x: &Value, sharding: &str) -> Value {
        let text = format!("sdy.sharding_constraint {} {sharding} : {}", x.name, x.ty());
        self.bind(x.element, &x.shape, &text)
    }

    /// Appends a program that each device runs on its parts.
    pub(crate) fn manual<E>(
        &mut self,
        args: &[Value],
        attrs: &str,
        params: &[Value],
        outs: &[Value],
        body: impl FnOnce(&mut Text, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Vec<Value>, E> {
        let (bound, results) = self.bind_all(outs);
        let fresh = self.fresh_like(params);
        let head = format!("sdy.manual_computation({})", names(args));
        self.line(&format!(
            "{bound}{head}{attrs} ({}) {{",
            declarations(&fresh)
        ));
        self.depth += 1;
        let values = body(self, &fresh)?;
        self.give("sdy.return", &values);
        self.depth -= 1;
        self.line(&format!(
            "}} : ({}) -> {}",
            types(args),
            types_of_results(outs)
        ));
        Ok(results)
    }

    /// Appends the number of the device.
    pub(crate) fn partition_id(&mut self) -> Value {
        self.bind(Element::U32, &[], "stablehlo.partition_id : tensor<ui32>")
    }

    /// Appends a collective that combines elements.
    pub(crate) fn reduced(
        &mut self,
        op: &str,
        x: &Value,
        shape: &[usize],
        attrs: &str,
        combine: impl Fn(&mut Text, &Value, &Value) -> Value,
    ) -> Value {
        let one = self.named("", x.element, &[]);
        let out = self.named("", x.element, shape);
        let outs = self.with_regions::<()>(
            &format!("stablehlo.{op}"),
            std::slice::from_ref(x),
            &format!(" <{{{attrs}}}>"),
            &[vec![one.clone(), one]],
            &[out],
            |t, _, args| Ok(vec![combine(t, &args[0], &args[1])]),
        );
        first(outs)
    }

    /// Appends a collective that moves elements.
    pub(crate) fn moved_between(
        &mut self,
        op: &str,
        x: &Value,
        shape: &[usize],
        attrs: &str,
    ) -> Value {
        let ty = type_of(x.element, shape);
        let text = format!(
            "\"stablehlo.{op}\"({}) <{{{attrs}}}> : ({}) -> {ty}",
            x.name,
            x.ty()
        );
        self.bind(x.element, shape, &text)
    }
}
