//! Abstract values: the dtype and shape of a value, as far as they are known without computing it.

use crate::poly::Poly;
use crate::symbol::{self, Symbol, intern};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum DType {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

impl DType {
    /// All dtypes.
    pub const ALL: [DType; 5] = [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool];

    /// Returns whether values of this dtype can be differentiated.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// Returns whether values of this dtype are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I32 | DType::I64)
    }

    /// Returns the dtype of an elementwise op on operands of two dtypes: the table of promotion.
    ///
    /// | | `f32` | `f64` | `i32` | `i64` | `bool` |
    /// |---|---|---|---|---|---|
    /// | `f32` | `f32` | | | | `f32` |
    /// | `f64` | | `f64` | `f64` | `f64` | `f64` |
    /// | `i32` | | `f64` | `i32` | `i64` | `i32` |
    /// | `i64` | | `f64` | `i64` | `i64` | `i64` |
    /// | `bool` | `f32` | `f64` | `i32` | `i64` | `bool` |
    ///
    /// An integer is cast to the other dtype if that is wider, and a `bool` to any other dtype, as in
    /// NumPy. `None` stands for an error. A float is never cast, so a derivative has the dtype of its
    /// value.
    pub const fn promoted(self, other: DType) -> Option<DType> {
        use DType::{Bool, F32, F64, I32, I64};
        match (self, other) {
            (F32, F32) => Some(F32),
            (F64, F64 | I32 | I64) | (I32 | I64, F64) => Some(F64),
            (I32, I32) => Some(I32),
            (I64, I64 | I32) | (I32, I64) => Some(I64),
            (Bool, dtype) | (dtype, Bool) => Some(dtype),
            _ => None,
        }
    }

    /// Returns the size of an element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::Bool => 1,
        }
    }

    /// Returns the name in the text form: `f32`, `f64`, `i32`, `i64` or `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }

    /// Returns the dtype with this name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Blocks interning on all other threads until the returned guard is dropped.
///
/// A caller holds it while it forks the process.
#[doc(hidden)]
pub fn hold_interned() -> impl Sized + 'static {
    let symbols = symbol::hold();
    let polys = POLYS.lock().unwrap_or_else(|e| e.into_inner());
    (symbols, polys)
}

/// An interned polynomial that is neither a number nor a name. Made by [`Dim::from`].
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

/// Maximum number of axes of a tensor.
pub const MAX_RANK: usize = 32;

/// The length of an axis, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number. At run time every dim is known.
    Known(usize),
    /// A number that the user named. Equal names are equal numbers.
    Named(Symbol),
    /// A polynomial in named numbers, such as `2*B + 1`.
    Poly(DimPoly),
    /// An unknown number, which is checked at run time.
    Unknown,
}

impl Dim {
    /// Returns the number, if it is known.
    pub fn known(self) -> Option<usize> {
        match self {
            Dim::Known(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the length as a polynomial in the named dims, or `None` if it is unknown.
    pub fn poly(self) -> Option<Poly> {
        match self {
            Dim::Known(n) => Some(Poly::constant(n as i128)),
            Dim::Named(name) => Some(Poly::name(name)),
            Dim::Poly(poly) => Some(Poly::clone(&poly)),
            Dim::Unknown => None,
        }
    }

    /// Returns the length as a polynomial. An unknown length is a fresh name with index `i`.
    ///
    /// A fact that holds for all values of the fresh name holds for the length. [`Dim::from`]
    /// returns `Unknown` for a polynomial that contains a fresh name.
    pub(crate) fn poly_or_fresh(self, i: usize) -> Poly {
        let fresh = || Poly::name(Symbol::new(&format!("{FRESH}{i}")));
        self.poly().unwrap_or_else(fresh)
    }

    /// Returns whether the two lengths differ for all values of the names.
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

    /// Returns whether the two lengths are equal for all values of the names.
    pub fn same(self, other: Dim) -> bool {
        self == other && self != Dim::Unknown
    }

    /// Returns the more precise of two descriptions of one length.
    pub fn meet(self, other: Dim) -> Dim {
        match (self, other) {
            (Dim::Known(_), _) | (_, Dim::Unknown) => self,
            (_, Dim::Known(_)) | (Dim::Unknown, _) => other,
            // Both descriptions hold, and a name is more readable than a polynomial.
            (Dim::Poly(_), Dim::Named(_)) => other,
            _ => self,
        }
    }

    /// Returns the sum of the two lengths.
    pub fn plus(self, other: Dim) -> Dim {
        match (self, other) {
            // A saturated length is refused later by the check of the result's size.
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_add(b)),
            _ => match (self.poly(), other.poly()) {
                (Some(a), Some(b)) => a.plus(&b).map_or(Dim::Unknown, Dim::from),
                _ => Dim::Unknown,
            },
        }
    }
}

/// Prefix of the names that stand for unknown lengths.
const FRESH: &str = "?";

/// Converts to canonical form: a number, a name, or an interned polynomial.
///
/// Lengths are never negative, so a negative constant becomes `Unknown`.
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

/// The lengths of all axes, or `None` if the rank is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub Option<Vec<Dim>>);

impl Shape {
    /// A shape of unknown rank.
    pub const UNKNOWN: Shape = Shape(None);

    /// Returns the shape of rank 0.
    pub fn scalar() -> Shape {
        Shape(Some(Vec::new()))
    }

    /// Returns the dims, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.0.as_deref()
    }

    /// Returns the shape as numbers, if all of them are known.
    pub fn known(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().map(|d| d.known()).collect()
    }

    /// Returns the number of elements as a polynomial, or `None` if a length is unknown.
    pub fn elements(&self) -> Option<Poly> {
        let lens: Option<Vec<Poly>> = self.dims()?.iter().map(|d| d.poly()).collect();
        Poly::product(&lens?)
    }

    /// Returns whether the two shapes are equal for all values of the names.
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

/// Prints `[2, B, 2*B + 1, ?]`, or `[..]` if the rank is unknown.
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
    /// The aval of a value of unknown dtype and shape.
    pub const UNKNOWN: Aval = Aval {
        dtype: None,
        shape: Shape::UNKNOWN,
    };

    /// Returns the aval of a value whose dtype and shape are known.
    pub fn new(dtype: DType, shape: &[usize]) -> Aval {
        Aval {
            dtype: Some(dtype),
            shape: shape.into(),
        }
    }
}

/// Prints `f32[2, 3]`. A `?` stands for an unknown dtype.
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Some(dtype) => write!(f, "{dtype}{}", self.shape),
            None => write!(f, "?{}", self.shape),
        }
    }
}
