//! Static arguments: axes, shapes, dtypes, numbers that are part of a program and not of its data.

use crate::{DType, Dim, Fault};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The value of a static argument. Equality is by bits: `0.0` and `-0.0` differ, a NaN equals itself.
#[derive(Clone, Debug)]
pub enum Static {
    /// A number such as an axis.
    Int(i64),
    /// A number such as an epsilon.
    Float(f64),
    /// A switch.
    Bool(bool),
    /// A list such as a permutation or a shape.
    Ints(Vec<i64>),
    /// Every axis.
    All,
    /// A dtype.
    DType(DType),
    /// A host expression, known when the program runs. The text is for people.
    Host(String),
    /// A list of host expressions that is the shape asked for, with what is known of each length. One of which nothing
    /// is known may be -1, and `None` is: the length that is inferred.
    Lens(String, Vec<Option<Dim>>),
}

impl Static {
    /// The integer, if it is known to be one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Static::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The switch, if it is known.
    pub fn bool(&self) -> Option<bool> {
        match self {
            Static::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The list, if it is known. A single number is a list of one.
    pub fn ints(&self) -> Option<&[i64]> {
        match self {
            Static::Ints(ns) => Some(ns),
            Static::Int(n) => Some(std::slice::from_ref(n)),
            _ => None,
        }
    }

    /// The number, if it is known.
    pub fn float(&self) -> Option<f64> {
        match self {
            Static::Float(x) => Some(*x),
            Static::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// The dtype, if it is known.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Static::DType(d) => Some(*d),
            _ => None,
        }
    }

    /// Whether the value is not known before the program runs.
    pub fn is_host(&self) -> bool {
        matches!(self, Static::Host(_) | Static::Lens(..))
    }

    /// The fault of an op whose static argument `name` cannot be this value, in the words of users.
    pub fn refused(&self, name: &'static str) -> Fault {
        let found = match self {
            Static::All => "`..`".to_owned(),
            // An integer above those of an `i64`, such as `usize::MAX`.
            Static::Float(x) if *x >= -(i64::MIN as f64) && *x <= u64::MAX as f64 => {
                (*x as u64).to_string()
            }
            other => other.to_string(),
        };
        Fault::Static { name, found }
    }

    fn bits(&self) -> (u8, u64) {
        match self {
            Static::Int(n) => (0, *n as u64),
            Static::Float(x) => (1, x.to_bits()),
            Static::Bool(b) => (2, u64::from(*b)),
            Static::Ints(ns) => (3, ns.len() as u64),
            Static::All => (4, 0),
            Static::DType(d) => (5, *d as u64),
            Static::Host(text) => (6, text.len() as u64),
            Static::Lens(text, _) => (7, text.len() as u64),
        }
    }

    /// Appends an encoding that is equal for equal values and only for them.
    pub fn encode(&self, out: &mut Vec<u64>) {
        let (tag, bits) = self.bits();
        out.extend([u64::from(tag), bits]);
        match self {
            Static::Ints(ns) => out.extend(ns.iter().map(|n| *n as u64)),
            Static::Host(text) => out.extend(text.bytes().map(u64::from)),
            Static::Lens(text, lens) => {
                let known = lens_text(lens);
                out.extend(text.bytes().chain(known.bytes()).map(u64::from));
            }
            _ => {}
        }
    }
}

impl PartialEq for Static {
    fn eq(&self, other: &Static) -> bool {
        match (self, other) {
            (Static::Ints(a), Static::Ints(b)) => a == b,
            (Static::Host(a), Static::Host(b)) => a == b,
            (Static::Lens(a, x), Static::Lens(b, y)) => a == b && x == y,
            _ => self.bits() == other.bits(),
        }
    }
}

impl Eq for Static {}

impl Hash for Static {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
        match self {
            Static::Ints(ns) => ns.hash(state),
            Static::Host(text) | Static::Lens(text, _) => text.hash(state),
            _ => {}
        }
    }
}

impl From<bool> for Static {
    fn from(b: bool) -> Static {
        Static::Bool(b)
    }
}

impl From<i64> for Static {
    fn from(n: i64) -> Static {
        Static::Int(n)
    }
}

impl From<f64> for Static {
    fn from(x: f64) -> Static {
        Static::Float(x)
    }
}

impl From<DType> for Static {
    fn from(d: DType) -> Static {
        Static::DType(d)
    }
}

impl From<Vec<i64>> for Static {
    fn from(ns: Vec<i64>) -> Static {
        Static::Ints(ns)
    }
}

/// Prints `3`, `0.5`, `true`, `[0, 1]`, `all`, `f32`, or a host expression between backticks.
impl fmt::Display for Static {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Static::Int(n) => write!(f, "{n}"),
            // A NaN keeps its payload, so that equal text is equal bits.
            Static::Float(x) if x.is_nan() => write!(f, "nan:{:x}", x.to_bits()),
            Static::Float(x) => write!(f, "{x:?}"),
            Static::Bool(b) => write!(f, "{b}"),
            Static::Ints(ns) => write!(f, "{ns:?}"),
            Static::All => f.write_str("all"),
            Static::DType(d) => write!(f, "{d}"),
            Static::Host(text) => write!(f, "`{text}`"),
            Static::Lens(text, lens) => write!(f, "`{text}`:{}", lens_text(lens)),
        }
    }
}

/// `[B, 12, -1]`.
pub(crate) fn lens_text(lens: &[Option<Dim>]) -> String {
    let lens = lens
        .iter()
        .map(|len| len.map_or("-1".to_owned(), |d| d.to_string()));
    format!("[{}]", lens.collect::<Vec<_>>().join(", "))
}
