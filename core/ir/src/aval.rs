//! Abstract values: what is known of a value without computing it.

use crate::Poly;
use std::collections::BTreeSet;
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

/// The interned name of a dim. Two symbols are equal when their names are, and in order as these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(&'static String);

static SYMBOLS: Mutex<BTreeSet<&'static String>> = Mutex::new(BTreeSet::new());

impl Symbol {
    /// Interns `name`.
    pub fn new(name: &str) -> Symbol {
        Symbol(intern(&SYMBOLS, name.to_owned()))
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The one copy of a value that lives as long as the process, so that a dim is `Copy`.
fn intern<T: Ord>(table: &Mutex<BTreeSet<&'static T>>, value: T) -> &'static T {
    // The table only grows, so a panic elsewhere cannot leave it half written.
    let mut table = table.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(found) = table.get(&value) {
        return found;
    }
    let kept: &'static T = Box::leak(Box::new(value));
    table.insert(kept);
    kept
}

/// Keeps other threads from interning as long as what is returned lives: while the process is forked.
#[doc(hidden)]
pub fn hold_interned() -> impl Sized + 'static {
    let symbols = SYMBOLS.lock().unwrap_or_else(|e| e.into_inner());
    let polys = POLYS.lock().unwrap_or_else(|e| e.into_inner());
    (symbols, polys)
}

/// An interned polynomial that is neither a number nor a name. [`Dim::from`] makes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DimPoly(&'static Poly);

static POLYS: Mutex<BTreeSet<&'static Poly>> = Mutex::new(BTreeSet::new());

impl std::ops::Deref for DimPoly {
    type Target = Poly;

    fn deref(&self) -> &Poly {
        self.0
    }
}

impl fmt::Debug for DimPoly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)
    }
}

/// The length of an axis, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number. At run time every dim is one.
    Known(usize),
    /// A number that the user named: equal names are equal numbers.
    Named(Symbol),
    /// A sum or product of named numbers, such as `2*B + 1`.
    Poly(DimPoly),
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

    /// The length as a polynomial in the named dims, if something is known of it.
    pub fn poly(self) -> Option<Poly> {
        match self {
            Dim::Known(n) => Some(Poly::constant(n as i128)),
            Dim::Named(name) => Some(Poly::name(name)),
            Dim::Poly(poly) => Some(Poly::clone(&poly)),
            Dim::Unknown => None,
        }
    }

    /// The length as a polynomial, where one of which nothing is known is a name of its own: the `i`-th of those.
    ///
    /// What is certain for all values of that name is certain of the length, and [`Dim::from`] gives `Unknown` for a
    /// polynomial that depends on it.
    pub(crate) fn poly_or_fresh(self, i: usize) -> Poly {
        let fresh = || Poly::name(Symbol::new(&format!("{FRESH}{i}")));
        self.poly().unwrap_or_else(fresh)
    }

    /// Whether the two are different numbers for certain: for all values of the names.
    pub fn differs(self, other: Dim) -> bool {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a != b,
            (Dim::Unknown, _) | (_, Dim::Unknown) => false,
            _ => match (self.poly(), other.poly()) {
                (Some(a), Some(b)) => a.minus(&b).is_some_and(|d| d.is_never_zero()),
                _ => false,
            },
        }
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
            // Both are right, and the name says more.
            (Dim::Poly(_), Dim::Named(_)) => other,
            _ => self,
        }
    }

    /// The sum.
    pub fn plus(self, other: Dim) -> Dim {
        match (self, other) {
            // What cannot be addressed is refused with the size of the result.
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_add(b)),
            _ => match (self.poly(), other.poly()) {
                (Some(a), Some(b)) => a.plus(&b).map_or(Dim::Unknown, Dim::from),
                _ => Dim::Unknown,
            },
        }
    }
}

/// How the name of a length begins of which nothing is known.
const FRESH: &str = "?";

/// The canonical form: a number, a name, or what is neither. A length is never negative, so of what would be one
/// nothing is known.
impl From<Poly> for Dim {
    fn from(poly: Poly) -> Dim {
        if let Some(n) = poly.as_constant() {
            return match usize::try_from(n) {
                Ok(n) => Dim::Known(n),
                Err(_) if n < 0 => Dim::Unknown,
                Err(_) => Dim::Known(usize::MAX),
            };
        }
        let mut names = poly.terms().iter().flat_map(|t| &t.names);
        if names.any(|name| name.as_str().starts_with(FRESH)) {
            return Dim::Unknown;
        }
        match poly.as_name() {
            Some(name) => Dim::Named(name),
            None => Dim::Poly(DimPoly(intern(&POLYS, poly))),
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
            Dim::Poly(poly) => fmt::Display::fmt(&**poly, f),
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

    /// The number of elements as a polynomial in the named dims, where every length is known that far.
    pub fn elements(&self) -> Option<Poly> {
        let lens: Option<Vec<Poly>> = self.dims()?.iter().map(|d| d.poly()).collect();
        Poly::product(&lens?)
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

/// Prints `[2, B, 2*B + 1, ?]`, and `[..]` where the rank is not known.
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
