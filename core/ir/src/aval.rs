//! Abstract values: what is known of a value without computing it.

use std::fmt;
use std::sync::Mutex;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the variants are their own names
pub enum DType {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

impl DType {
    /// Every dtype.
    pub const ALL: [DType; 5] = [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool];

    /// Whether values of this dtype have derivatives.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// The size of an element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::Bool => 1,
        }
    }

    /// The name in the text form: `f32`, `f64`, `i32`, `i64`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }

    /// The dtype of a name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The interned name of a dim. Two symbols are equal when their names are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

static SYMBOLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Symbol {
    /// Interns `name`.
    pub fn new(name: &str) -> Symbol {
        // The table only grows, so a panic elsewhere cannot leave it half written.
        let mut table = SYMBOLS.lock().unwrap_or_else(|e| e.into_inner());
        let index = table.iter().position(|n| n == name).unwrap_or_else(|| {
            table.push(name.to_owned());
            table.len() - 1
        });
        Symbol(index as u32)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&SYMBOLS.lock().unwrap_or_else(|e| e.into_inner())[self.0 as usize])
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The length of an axis, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number. At run time every dim is one.
    Known(usize),
    /// A number that the user named: equal names are equal numbers.
    Named(Symbol),
    /// Nothing is known; the run time will check.
    Unknown,
}

impl Dim {
    /// The number, if it is known.
    pub fn known(self) -> Option<usize> {
        match self {
            Dim::Known(n) => Some(n),
            _ => None,
        }
    }

    /// Whether the two are different numbers for certain.
    pub fn differs(self, other: Dim) -> bool {
        matches!((self, other), (Dim::Known(a), Dim::Known(b)) if a != b)
    }

    /// Whether the two are the same number for certain.
    pub fn same(self, other: Dim) -> bool {
        self == other && self != Dim::Unknown
    }

    /// What is known of a number that is equal to both.
    pub fn meet(self, other: Dim) -> Dim {
        match (self, other) {
            (Dim::Known(_), _) | (_, Dim::Unknown) => self,
            (_, Dim::Known(_)) | (Dim::Unknown, _) => other,
            (Dim::Named(_), Dim::Named(_)) => self,
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Dim {
        Dim::Known(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(n) => write!(f, "{n}"),
            Dim::Named(name) => write!(f, "{name}"),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// The lengths of all axes, or nothing where not even the rank is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub Option<Vec<Dim>>);

impl Shape {
    /// A shape whose rank is not known.
    pub const UNKNOWN: Shape = Shape(None);

    /// The shape of a single number.
    pub fn scalar() -> Shape {
        Shape(Some(Vec::new()))
    }

    /// The dims, where the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.0.as_deref()
    }

    /// The shape as numbers, where all are known.
    pub fn known(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().map(|d| d.known()).collect()
    }

    /// Whether the two are the same shape for certain.
    pub fn same(&self, other: &Shape) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(*b)),
            _ => false,
        }
    }
}

impl From<Vec<Dim>> for Shape {
    fn from(dims: Vec<Dim>) -> Shape {
        Shape(Some(dims))
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(Some(dims.iter().map(|&n| Dim::Known(n)).collect()))
    }
}

/// Prints `[2, B, ?]`, and `[..]` where the rank is not known.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.0 else {
            return f.write_str("[..]");
        };
        f.write_str("[")?;
        for (i, dim) in dims.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

/// An abstract value: dtype and shape, each as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Aval {
    /// The dtype, if it is known.
    pub dtype: Option<DType>,
    /// The shape, as far as it is known.
    pub shape: Shape,
}

impl Aval {
    /// Nothing is known.
    pub const UNKNOWN: Aval = Aval {
        dtype: None,
        shape: Shape::UNKNOWN,
    };

    /// An abstract value that is known in full.
    pub fn new(dtype: DType, shape: &[usize]) -> Aval {
        Aval {
            dtype: Some(dtype),
            shape: shape.into(),
        }
    }
}

/// Prints `f32[2, 3]`; `?` stands for a dtype that is not known.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}{}", self.shape),
            None => write!(f, "?{}", self.shape),
        }
    }
}
