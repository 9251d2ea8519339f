//! The opcodes of Python's pickles that a file of weights needs, on values that nothing executes.
//!
//! A pickle is a program for a machine with a stack. It may call any function of Python. This machine knows the few
//! that rebuild tensors; any other name is an error.
//!
//! Protocols 2 to 4 of <https://github.com/python/cpython/blob/main/Lib/pickletools.py>.

use safetensors::Dtype;
use std::collections::HashMap;
use std::rc::Rc;

/// A value that a pickle makes.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    Tuple(Rc<[Value]>),
    /// A list or a dict, by its place in [`Pickle::containers`]: others may refer to it before it is full.
    Container(usize),
    Global(Global),
    Storage(Rc<Storage>),
    Tensor(Rc<View>),
}

/// A list, or the pairs of a dict in the order of insertion.
#[derive(Debug)]
pub(crate) enum Container {
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
}

/// A name of Python that a pickle may use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Global {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildParameter,
    Storage(&'static str, Option<Dtype>),
}

/// Elements of one or more tensors, in a member of the archive.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) key: Rc<str>,
    /// Its dtype: the name in PyTorch, and the counterpart.
    pub(crate) dtype: (&'static str, Option<Dtype>),
    pub(crate) numel: usize,
}

/// A tensor: a view of a storage.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) storage: Rc<Storage>,
    /// Number of elements before the first one.
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

impl Global {
    fn of_name(module: &str, name: &str) -> Result<Global, String> {
        let storage = |name, dtype| Ok(Global::Storage(name, Some(dtype)));
        match (module, name) {
            ("collections", "OrderedDict") => Ok(Global::OrderedDict),
            ("torch", "Size") => Ok(Global::Size),
            ("torch._utils", "_rebuild_tensor_v2") => Ok(Global::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Ok(Global::RebuildParameter),
            ("torch", "FloatStorage") => storage("float32", Dtype::F32),
            ("torch", "DoubleStorage") => storage("float64", Dtype::F64),
            ("torch", "HalfStorage") => storage("float16", Dtype::F16),
            ("torch", "BFloat16Storage") => storage("bfloat16", Dtype::BF16),
            ("torch", "LongStorage") => storage("int64", Dtype::I64),
            ("torch", "IntStorage") => storage("int32", Dtype::I32),
            ("torch", "ShortStorage") => storage("int16", Dtype::I16),
            ("torch", "CharStorage") => storage("int8", Dtype::I8),
            ("torch", "ByteStorage") => storage("uint8", Dtype::U8),
            ("torch", "BoolStorage") => storage("bool", Dtype::BOOL),
            ("torch", "ComplexFloatStorage") => Ok(Global::Storage("complex64", None)),
            ("torch", "ComplexDoubleStorage") => Ok(Global::Storage("complex128", None)),
            _ => Err(format!(
                "it uses `{module}.{name}`, which is not part of a file of weights; save a `state_dict`"
            )),
        }
    }
}

/// A pickle that was read to its end.
pub(crate) struct Pickle {
    pub(crate) root: Value,
    pub(crate) containers: Vec<Container>,
}

impl Pickle {
    /// Reads a pickle.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Pickle, String> {
        let mut machine = Machine {
            rest: bytes,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            containers: Vec::new(),
        };
        loop {
            let position = bytes.len() - machine.rest.len();
            let at = |reason: String| format!("at byte {position} of its pickle: {reason}");
            let [opcode] = machine.bytes().map_err(at)?;
            if opcode == b'.' {
                let root = machine.pop().map_err(at)?;
                return match (machine.stack.is_empty(), machine.rest) {
                    (true, []) => Ok(Pickle {
                        root,
                        containers: machine.containers,
                    }),
                    _ => Err(at("it ends too early".to_owned())),
                };
            }
            machine.step(opcode).map_err(at)?;
        }
    }
}

struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    /// Lengths that the stack had at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    containers: Vec<Container>,
}

impl Machine<'_> {
    fn step(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            // PROTO
            0x80 => {
                let [version] = self.bytes()?;
                if !(2..=5).contains(&version) {
                    return Err(format!("its protocol {version} is not one from 2 to 5"));
                }
            }
            // FRAME: the length of a part, which is read like the others.
            0x95 => drop(self.bytes::<8>()?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            // BININT, BININT1, BININT2, LONG1
            b'J' => {
                let number = i32::from_le_bytes(self.bytes()?);
                self.stack.push(Value::Int(number.into()));
            }
            b'K' => {
                let [number] = self.bytes()?;
                self.stack.push(Value::Int(number.into()));
            }
            b'M' => {
                let number = u16::from_le_bytes(self.bytes()?);
                self.stack.push(Value::Int(number.into()));
            }
            0x8a => {
                let [n] = self.bytes()?;
                let number = self.slice(n.into())?;
                let sign = number.last().map_or(0, |byte| (*byte as i8 >> 7) as u8);
                let mut wide = [sign; 8];
                let wide_enough = wide.get_mut(..number.len());
                wide_enough
                    .ok_or("an integer has more than 64 bits")?
                    .copy_from_slice(number);
                self.stack.push(Value::Int(i64::from_le_bytes(wide)));
            }
            b'G' => {
                let number = f64::from_be_bytes(self.bytes()?);
                self.stack.push(Value::Float(number));
            }
            // BINUNICODE, SHORT_BINUNICODE
            b'X' => {
                let n = u32::from_le_bytes(self.bytes()?);
                self.push_text(n as usize)?;
            }
            0x8c => {
                let [n] = self.bytes()?;
                self.push_text(n.into())?;
            }
            // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
            b')' => self.push_tuple(self.stack.len())?,
            n @ 0x85..=0x87 => {
                let n = usize::from(n - 0x84);
                let start = self.stack.len().checked_sub(n);
                self.push_tuple(start.ok_or("the stack is too short for a tuple")?)?;
            }
            b't' => {
                let start = self.pop_mark()?;
                self.push_tuple(start)?;
            }
            b']' => self.push_container(Container::List(Vec::new())),
            b'}' => self.push_container(Container::Dict(Vec::new())),
            // APPEND, APPENDS, SETITEM, SETITEMS
            b'a' => self.extend(self.stack.len().saturating_sub(1))?,
            b's' => self.extend(self.stack.len().saturating_sub(2))?,
            b'e' | b'u' => {
                let start = self.pop_mark()?;
                self.extend(start)?;
            }
            // BINPUT, LONG_BINPUT, MEMOIZE
            b'q' => {
                let [place] = self.bytes()?;
                self.memoise(place.into())?;
            }
            b'r' => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.memoise(place)?;
            }
            0x94 => self.memoise(self.memo.len() as u32)?,
            // BINGET, LONG_BINGET
            b'h' => {
                let [place] = self.bytes()?;
                self.recall(place.into())?;
            }
            b'j' => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.recall(place)?;
            }
            // GLOBAL, STACK_GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let global = Global::of_name(&module, &name)?;
                self.stack.push(Value::Global(global));
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => {
                    let global = Global::of_name(&module, &name)?;
                    self.stack.push(Value::Global(global));
                }
                _ => return Err("the name of a global is not a text".to_owned()),
            },
            // BINPERSID
            b'Q' => {
                let id = self.pop()?;
                let storage = storage(&id).ok_or("a persistent id is not that of a storage")?;
                self.stack.push(Value::Storage(Rc::new(storage)));
            }
            // REDUCE
            b'R' => {
                let (args, function) = (self.pop()?, self.pop()?);
                let made = self.call(&function, &args)?;
                self.stack.push(made);
            }
            // BUILD: `_metadata` of a `state_dict`, which has the versions of its modules.
            b'b' => {
                self.pop()?;
                match self.top()? {
                    Value::Container(at) if matches!(self.containers[*at], Container::Dict(_)) => {}
                    other => return Err(format!("it sets attributes of {other:?}")),
                }
            }
            _ => {
                return Err(format!(
                    "the opcode {opcode:#04x} is not one of a file of weights"
                ));
            }
        }
        Ok(())
    }

    fn slice(&mut self, n: usize) -> Result<&[u8], String> {
        let (slice, rest) = self.rest.split_at_checked(n).ok_or("it is cut")?;
        self.rest = rest;
        Ok(slice)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or("it is cut")?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn line(&mut self) -> Result<String, String> {
        let n = self.rest.iter().position(|byte| *byte == b'\n');
        let line = self.slice(n.ok_or("it is cut")?)?.to_vec();
        self.bytes::<1>()?;
        String::from_utf8(line).map_err(|error| error.to_string())
    }

    fn push_text(&mut self, n: usize) -> Result<(), String> {
        let text = str::from_utf8(self.slice(n)?).map_err(|error| error.to_string())?;
        let text = Value::Text(text.into());
        self.stack.push(text);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.top()?;
        Ok(self.stack.pop().expect("the stack has a top"))
    }

    /// Returns the last value, which has to be after the last mark.
    fn top(&self) -> Result<&Value, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.get(bottom..).and_then(<[Value]>::last);
        top.ok_or_else(|| "the stack is empty".to_owned())
    }

    fn pop_mark(&mut self) -> Result<usize, String> {
        self.marks
            .pop()
            .ok_or_else(|| "there is no mark".to_owned())
    }

    fn push_tuple(&mut self, start: usize) -> Result<(), String> {
        let parts = self.stack.drain(start..).collect();
        self.stack.push(Value::Tuple(parts));
        Ok(())
    }

    fn push_container(&mut self, container: Container) {
        self.stack.push(Value::Container(self.containers.len()));
        self.containers.push(container);
    }

    /// Adds the values from this place of the stack to the container before them.
    fn extend(&mut self, start: usize) -> Result<(), String> {
        if start > self.stack.len() {
            return Err("the stack is too short".to_owned());
        }
        let values: Vec<Value> = self.stack.drain(start..).collect();
        let Value::Container(at) = *self.top()? else {
            return Err("values are added to one that is not a list or dict".to_owned());
        };
        match &mut self.containers[at] {
            Container::List(list) => list.extend(values),
            Container::Dict(pairs) => {
                let (keys, rest) = values.as_chunks::<2>();
                if !rest.is_empty() {
                    return Err("a key of a dict has no value".to_owned());
                }
                pairs.extend(keys.iter().map(|[key, value]| (key.clone(), value.clone())));
            }
        }
        Ok(())
    }

    fn memoise(&mut self, place: u32) -> Result<(), String> {
        let value = self.top()?.clone();
        self.memo.insert(place, value);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Result<(), String> {
        let value = self.memo.get(&place).cloned();
        self.stack
            .push(value.ok_or_else(|| format!("the memo has no value {place}"))?);
        Ok(())
    }

    /// Returns the result of one of the known functions.
    fn call(&mut self, function: &Value, args: &Value) -> Result<Value, String> {
        let (Value::Global(function), Value::Tuple(args)) = (function, args) else {
            return Err("it calls a value that is not a function".to_owned());
        };
        match (function, &**args) {
            (Global::OrderedDict, []) => {
                self.containers.push(Container::Dict(Vec::new()));
                Ok(Value::Container(self.containers.len() - 1))
            }
            (Global::Size, [Value::Tuple(dims)]) => Ok(Value::Tuple(dims.clone())),
            (Global::RebuildParameter, [tensor @ Value::Tensor(_), _, _]) => Ok(tensor.clone()),
            (
                Global::RebuildTensor,
                [
                    Value::Storage(storage),
                    Value::Int(offset),
                    Value::Tuple(shape),
                    Value::Tuple(strides),
                    _,
                    _,
                    metadata @ ..,
                ],
            ) if metadata.iter().all(|value| self.is_nothing(value)) => {
                let view = View {
                    storage: storage.clone(),
                    offset: length(&Value::Int(*offset)).ok_or("an offset is negative")?,
                    shape: lengths(shape).ok_or("a shape has other values than lengths")?,
                    strides: lengths(strides).ok_or("strides have other values than lengths")?,
                };
                Ok(Value::Tensor(Rc::new(view)))
            }
            _ => Err(format!(
                "it calls {function:?} with arguments that are not supported"
            )),
        }
    }

    /// Returns whether a tensor has no further properties, such as a sign that is still to be changed.
    fn is_nothing(&self, value: &Value) -> bool {
        match value {
            Value::None => true,
            Value::Container(at) => match &self.containers[*at] {
                Container::List(list) => list.is_empty(),
                Container::Dict(pairs) => pairs.is_empty(),
            },
            _ => false,
        }
    }
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    }
}

fn lengths(values: &[Value]) -> Option<Vec<usize>> {
    values.iter().map(length).collect()
}

/// Returns the storage of `("storage", type, key, device, number of elements)`.
fn storage(id: &Value) -> Option<Storage> {
    let Value::Tuple(id) = id else {
        return None;
    };
    let [
        Value::Text(kind),
        Value::Global(Global::Storage(name, dtype)),
        Value::Text(key),
        _,
        numel,
    ] = &**id
    else {
        return None;
    };
    (&**kind == "storage").then_some(Storage {
        key: key.clone(),
        dtype: (*name, *dtype),
        numel: length(numel)?,
    })
}
