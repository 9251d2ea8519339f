//! Abstract values: the dtype and shape of a value, as far as they are known without computing it.

use crate::poly::Poly;
use crate::short_list::ShortList;
use crate::symbol::{self, Symbol, intern};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

/// The type of an element.
///
/// Elements of 8 and 16 bits take less memory, and an op computes on them in a wider dtype, see
/// [`DType::computed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum DType {
    F32,
    F64,
    /// The upper half of an `f32`: 8 bits of exponent, 7 of fraction.
    BF16,
    /// A float of IEEE 754 with 5 bits of exponent, 10 of fraction.
    F16,
    I32,
    I64,
    I8,
    U8,
    Bool,
}

impl DType {
    /// All dtypes.
    pub const ALL: [DType; 9] = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I32,
        DType::I64,
        DType::I8,
        DType::U8,
        DType::Bool,
    ];

    /// Returns whether values of this dtype can be differentiated.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
    }

    /// Returns whether values of this dtype are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I32 | DType::I64 | DType::I8 | DType::U8)
    }

    /// Returns the dtype in which an op computes on elements of this dtype.
    ///
    /// It is `f32` for `bf16` and `f16`, and `i32` for `i8` and `u8`. The result of the op is cast
    /// back: a float is rounded to the nearest, an integer wraps. Other dtypes are their own.
    pub const fn computed(self) -> DType {
        match self {
            DType::BF16 | DType::F16 => DType::F32,
            DType::I8 | DType::U8 => DType::I32,
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::Bool => self,
        }
    }

    /// Returns the dtype of an elementwise op on operands of two dtypes: the table of promotion.
    ///
    /// | | `f32` | `f64` | `bf16` | `f16` | `i32` | `i64` | `i8` | `u8` | `bool` |
    /// |---|---|---|---|---|---|---|---|---|---|
    /// | `f32` | `f32` | | `f32` | `f32` | | | `f32` | `f32` | `f32` |
    /// | `f64` | | `f64` | `f64` | `f64` | `f64` | `f64` | `f64` | `f64` | `f64` |
    /// | `bf16` | `f32` | `f64` | `bf16` | `f32` | | | `bf16` | `bf16` | `bf16` |
    /// | `f16` | `f32` | `f64` | `f32` | `f16` | | | `f16` | `f16` | `f16` |
    /// | `i32` | | `f64` | | | `i32` | `i64` | `i32` | `i32` | `i32` |
    /// | `i64` | | `f64` | | | `i64` | `i64` | `i64` | `i64` | `i64` |
    /// | `i8` | `f32` | `f64` | `bf16` | `f16` | `i32` | `i64` | `i8` | `i32` | `i8` |
    /// | `u8` | `f32` | `f64` | `bf16` | `f16` | `i32` | `i64` | `i32` | `u8` | `u8` |
    /// | `bool` | `f32` | `f64` | `bf16` | `f16` | `i32` | `i64` | `i8` | `u8` | `bool` |
    ///
    /// Each operand is cast to the smallest dtype that holds the numbers of both, as in NumPy. `None`
    /// stands for an error: `f32` and `f64` are not mixed, and integers of 32 or 64 bits not with
    /// floats that lose digits of them.
    pub const fn promoted(self, other: DType) -> Option<DType> {
        use DType::{BF16, Bool, F16, F32, F64, I8, I32, I64, U8};
        match (self, other) {
            (F64, F64 | BF16 | F16 | I32 | I64) | (BF16 | F16 | I32 | I64, F64) => Some(F64),
            (F32, F32 | BF16 | F16) | (BF16 | F16, F32) | (BF16, F16) | (F16, BF16) => Some(F32),
            (BF16, BF16) => Some(BF16),
            (F16, F16) => Some(F16),
            (I64, I64 | I32) | (I32, I64) => Some(I64),
            (I32, I32) | (I8, U8) | (U8, I8) => Some(I32),
            (I8, I8) => Some(I8),
            (U8, U8) => Some(U8),
            (Bool, dtype) | (dtype, Bool) => Some(dtype),
            (I8 | U8, dtype) | (dtype, I8 | U8) => Some(dtype),
            (F32, F64) | (F64, F32) => None,
            (F32 | BF16 | F16, I32 | I64) | (I32 | I64, F32 | BF16 | F16) => None,
        }
    }

    /// Returns the size of an element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::BF16 | DType::F16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns the name in the text form, such as `f32`, `bf16` or `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::BF16 => "bf16",
            DType::F16 => "f16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::I8 => "i8",
            DType::U8 => "u8",
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number. At run time every dim is known.
    Known(usize),
    /// A number that the user named. Equal names are equal numbers.
    Named(Symbol),
    /// A polynomial in named numbers, such as `2*B + 1`.
    Poly(DimPoly),
    /// An unknown number, which is checked at run time.
    #[default]
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
pub struct Shape(pub Option<Dims>);

/// The lengths of axes. Up to four need no allocation.
pub type Dims = ShortList<Dim, 4>;

impl Shape {
    /// A shape of unknown rank.
    pub const UNKNOWN: Shape = Shape(None);

    /// Returns the shape of rank 0.
    pub fn scalar() -> Shape {
        Shape(Some(Dims::default()))
    }

    /// Returns the dims, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.0.as_deref()
    }

    /// Returns the shape as numbers, if all of them are known.
    pub fn known(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().map(|d| d.known()).collect()
    }

    /// Returns the number of elements, or `None` if a length is not a known number.
    pub fn numel(&self) -> Option<usize> {
        self.dims()?.iter().map(|dim| dim.known()).product()
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

impl<T: Into<Dims>> From<T> for Shape {
    fn from(dims: T) -> Shape {
        Shape(Some(dims.into()))
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
