//! Static arguments: axes, shapes, dtypes and numbers that belong to the program, not to its data.

use super::{Code, Program, Programs};
use crate::mesh::{MeshAxes, Tiling};
use crate::sharding::{Mesh, Reduction, ShardingSpec};
use crate::{DType, Dim, Fault};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A static argument of an op: its name in the text form and in messages, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticArg {
    /// The name.
    pub name: &'static str,
    /// The values that it can have.
    pub kind: StaticKind,
}

/// The kind of a static argument: which values it can have, and what they mean.
///
/// Unless the kind says otherwise, a value may also be a host expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticKind {
    /// An axis. A negative one counts from the right.
    Axis,
    /// An index of an axis. A negative one counts from the end.
    Index,
    /// Some of the axes, or all of them.
    Axes,
    /// Axes of length 1 to drop or to insert.
    UnitAxes,
    /// All axes, in the order that they have in the result.
    Permutation,
    /// A shape.
    Shape,
    /// A shape. One length may be -1: it is inferred from the number of elements.
    Reshape,
    /// Lengths of consecutive parts of an axis, or `all` for equal parts.
    Sizes,
    /// The first index of a range of each of the leading axes.
    Starts,
    /// The ends of the ranges.
    Stops,
    /// The distances between the indices of the ranges.
    Steps,
    /// The lengths of a window along the last axes, each from 1 to 2^31 - 1.
    Window,
    /// Distances between neighbouring windows, or between elements of a window: one for all axes,
    /// or one for each, from 1 to 2^31 - 1.
    Strides,
    /// The padding of axes: one number for all, one for each, or one for each end, up to 2^31 - 1.
    /// `all` for padding that keeps the length.
    Padding,
    /// The number that all elements of the result are equal to.
    Number,
    /// A small number that is added to a divisor.
    Epsilon,
    /// A number from 0 to 1.
    Probability,
    /// A number of elements, or another integer that is not negative.
    Count,
    /// An integer of any sign, up to 2^31 - 1.
    Offset,
    /// Numbers of elements to add to each axis, or one number for all axes, up to 2^31 - 1.
    Margins,
    /// The number in places that hold no element of the operand.
    Fill,
    /// A boolean.
    Flag,
    /// A boolean that methods and derivatives set. It is never a host expression.
    KnownFlag,
    /// A number that is not negative and that methods and derivatives set. It is never a host expression.
    KnownCount,
    /// A dtype.
    DType,
    /// Those of the first three operands that have tangents, ascending. Derivatives set it, and it
    /// is never a host expression.
    Active,
    /// Positions of arguments or results of a call.
    Positions,
    /// The host path of a callee.
    Callee,
    /// The programs that the op runs.
    Programs,
    /// Host code, or its name in a program that was parsed.
    Code,
    /// Axes of a mesh, each with its number of devices.
    Mesh,
    /// How values are divided along the axes of a mesh, one for each.
    Tilings,
    /// How the values of several devices become one.
    Reduce,
    /// The positions in a group of the devices that send and receive: `[from, to, from, to]`.
    Pairs,
    /// How a tensor is placed on the devices of a mesh.
    Sharding,
    /// How tensors are placed on the devices of a mesh, one spec or none for each.
    Specs,
}

impl StaticKind {
    /// Returns the static argument of this kind with a name.
    pub const fn named(self, name: &'static str) -> StaticArg {
        StaticArg { name, kind: self }
    }
}

impl StaticArg {
    /// Checks that the value is one of its kind.
    ///
    /// The shape rule checks the conditions that depend on operands.
    pub fn check(&self, value: &Static) -> Result<(), Fault> {
        let list = |fits: fn(&[i64]) -> bool| value.ints().is_some_and(fits);
        let is_small = |n: &i64| n.unsigned_abs() <= i32::MAX as u64;
        let fits = match self.kind {
            StaticKind::KnownFlag => value.bool().is_some(),
            StaticKind::KnownCount => value.int().is_some_and(|n| n >= 0),
            StaticKind::Callee => value.is_host(),
            StaticKind::Programs => value.programs().is_some(),
            StaticKind::Code => value.code().is_some() || matches!(value, Static::Host(_)),
            StaticKind::Mesh => value.mesh().is_some(),
            StaticKind::Tilings => value.tilings().is_some(),
            StaticKind::Reduce => value.reduce().is_some(),
            StaticKind::Sharding => value.sharding().is_some(),
            StaticKind::Specs => value.specs().is_some(),
            StaticKind::Pairs => match value.ints() {
                Some(ends) if ends.len().is_multiple_of(2) && ends.iter().all(|end| *end >= 0) => {
                    return check_pairs(ends);
                }
                _ => false,
            },
            StaticKind::Active => list(|active| {
                let ascending = active.windows(2).all(|pair| pair[0] < pair[1]);
                ascending && !active.is_empty() && active.iter().all(|i| (0..3).contains(i))
            }),
            StaticKind::Shape => match value {
                Static::Dims(_, lens) => lens.iter().all(Option::is_some),
                other => other.is_host() || list(|lens| lens.iter().all(|len| *len >= 0)),
            },
            _ if value.is_host() => true,
            StaticKind::Offset => value.int().is_some_and(|n| is_small(&n)),
            StaticKind::Margins => value.ints().is_some_and(|all| all.iter().all(is_small)),
            StaticKind::Axis | StaticKind::Index => value.int().is_some(),
            StaticKind::Count => value.int().is_some_and(|n| n >= 0),
            StaticKind::Axes | StaticKind::Sizes => *value == Static::All || list(|_| true),
            StaticKind::UnitAxes
            | StaticKind::Permutation
            | StaticKind::Reshape
            | StaticKind::Starts
            | StaticKind::Stops
            | StaticKind::Steps
            | StaticKind::Positions => list(|_| true),
            StaticKind::Window | StaticKind::Strides => {
                list(|lens| lens.iter().all(|len| (1..=i32::MAX.into()).contains(len)))
            }
            StaticKind::Padding => {
                *value == Static::All || value.ints().is_some_and(|all| all.iter().all(is_small))
            }
            StaticKind::Number | StaticKind::Fill => {
                value.bool().is_some() || value.float().is_some()
            }
            StaticKind::Epsilon => value.float().is_some(),
            StaticKind::Probability => match value.float() {
                Some(p) if !(0.0..=1.0).contains(&p) => return Err(Fault::Probability { p }),
                p => p.is_some(),
            },
            StaticKind::Flag => value.bool().is_some(),
            StaticKind::DType => value.dtype().is_some(),
        };
        match fits {
            true => Ok(()),
            false => Err(value.refused(self.name)),
        }
    }
}

/// Checks that each device sends once and receives once at most.
fn check_pairs(ends: &[i64]) -> Result<(), Fault> {
    for (side, action) in ["sends", "receives"].into_iter().enumerate() {
        let mut devices: Vec<i64> = ends.iter().skip(side).step_by(2).copied().collect();
        devices.sort_unstable();
        if let Some(pair) = devices.windows(2).find(|pair| pair[0] == pair[1]) {
            let pairs = ends.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            return Err(Fault::Sharding {
                reason: format!(
                    "device {} {action} twice in {:?}",
                    pair[0],
                    Vec::from_iter(pairs)
                ),
            });
        }
    }
    Ok(())
}

/// The value of a static argument.
///
/// Equality compares bits: `0.0` and `-0.0` differ, and a NaN equals itself.
#[derive(Clone, Debug)]
pub enum Static {
    /// An integer, such as an axis.
    Int(i64),
    /// A float, such as an epsilon.
    Float(f64),
    /// A boolean option, such as `keepdims`.
    Bool(bool),
    /// A list of integers, such as a permutation or a shape.
    Ints(Vec<i64>),
    /// All axes.
    All,
    /// A dtype.
    DType(DType),
    /// A host expression, evaluated when the program runs. Its text is only for display.
    Host(String),
    /// A shape given by host expressions: the text, and the known part of each length.
    ///
    /// `None` stands for -1, the length to be inferred. An unknown length may also turn out to be
    /// -1.
    Dims(String, Vec<Option<Dim>>),
    /// Programs that the op runs.
    Programs(Programs),
    /// Host code, such as the rules of a custom function.
    Code(Code),
    /// Axes of a mesh.
    Mesh(MeshAxes),
    /// Divisions of values along the axes of a mesh.
    Tilings(Vec<Tiling>),
    /// How the values of several devices become one.
    Reduce(Reduction),
    /// How a tensor is placed on the devices of a mesh.
    Sharding(Box<ShardingSpec>),
    /// How tensors are placed on the devices of a mesh. One without a spec may be placed in any way.
    Specs(Arc<Mesh>, Vec<Option<ShardingSpec>>),
}

impl Static {
    /// Returns the integer, if this is a known integer.
    pub fn int(&self) -> Option<i64> {
        match self {
            Static::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the boolean, if it is known.
    pub fn bool(&self) -> Option<bool> {
        match self {
            Static::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns the list, if it is known. A single integer is a list of length one.
    pub fn ints(&self) -> Option<&[i64]> {
        match self {
            Static::Ints(ns) => Some(ns),
            Static::Int(n) => Some(std::slice::from_ref(n)),
            _ => None,
        }
    }

    /// Returns the number as a float, if it is known.
    pub fn float(&self) -> Option<f64> {
        match self {
            Static::Float(x) => Some(*x),
            Static::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// Returns the dtype, if it is known.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Static::DType(d) => Some(*d),
            _ => None,
        }
    }

    /// Returns the programs, if these are programs.
    pub fn programs(&self) -> Option<&[Program]> {
        match self {
            Static::Programs(programs) => Some(programs.all()),
            _ => None,
        }
    }

    /// Returns the host code, if this is host code.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Static::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Returns the axes, if these are axes of a mesh.
    pub fn mesh(&self) -> Option<&MeshAxes> {
        match self {
            Static::Mesh(mesh) => Some(mesh),
            _ => None,
        }
    }

    /// Returns the divisions, if these are divisions of values.
    pub fn tilings(&self) -> Option<&[Tiling]> {
        match self {
            Static::Tilings(all) => Some(all),
            _ => None,
        }
    }

    /// Returns the spec, if this is one.
    pub fn sharding(&self) -> Option<&ShardingSpec> {
        match self {
            Static::Sharding(spec) => Some(spec),
            _ => None,
        }
    }

    /// Returns the mesh and the specs, if these are specs of several tensors.
    pub fn specs(&self) -> Option<(&Arc<Mesh>, &[Option<ShardingSpec>])> {
        match self {
            Static::Specs(mesh, specs) => Some((mesh, specs)),
            _ => None,
        }
    }

    /// Returns how values become one, if this says it.
    pub fn reduce(&self) -> Option<Reduction> {
        match self {
            Static::Reduce(reduce) => Some(*reduce),
            _ => None,
        }
    }

    /// Returns whether the value is not known before the program runs.
    pub fn is_host(&self) -> bool {
        matches!(self, Static::Host(_) | Static::Dims(..))
    }

    /// Returns the error for a static argument `name` that cannot have this value.
    pub fn refused(&self, name: &'static str) -> Fault {
        let found = match self {
            Static::All => "`..`".to_owned(),
            Static::Dims(_, lens) => dims_text(lens),
            // Integers above `i64::MAX`, such as `usize::MAX`, are stored as floats.
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
            Static::Dims(text, _) => (7, text.len() as u64),
            Static::Programs(programs) => (8, programs.words().len() as u64),
            Static::Code(code) => (9, code.get().key().unwrap_or(0)),
            Static::Mesh(mesh) => (10, mesh.axes().len() as u64),
            Static::Tilings(all) => (11, all.len() as u64),
            Static::Reduce(reduce) => (12, *reduce as u64),
            Static::Sharding(spec) => (13, spec.rank() as u64),
            Static::Specs(_, specs) => (14, specs.len() as u64),
        }
    }

    /// Appends an encoding of this value. Two encodings are equal if and only if the values are, but for
    /// [host code](crate::HostCode::key) that does not change the value of its op.
    pub fn encode(&self, out: &mut Vec<u64>) {
        let (tag, bits) = self.bits();
        out.extend([u64::from(tag), bits]);
        match self {
            Static::Ints(ns) => out.extend(ns.iter().map(|n| *n as u64)),
            Static::Host(text) => out.extend(text.bytes().map(u64::from)),
            Static::Dims(text, lens) => {
                let known = dims_text(lens);
                out.extend(text.bytes().chain(known.bytes()).map(u64::from));
            }
            Static::Programs(programs) => out.extend(programs.words()),
            Static::Mesh(mesh) => mesh.encode(out),
            Static::Tilings(all) => all.iter().for_each(|tiling| tiling.encode(out)),
            Static::Sharding(_) | Static::Specs(..) => {
                let text = self.to_string();
                out.push(text.len() as u64);
                out.extend(text.bytes().map(u64::from));
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
            (Static::Dims(a, x), Static::Dims(b, y)) => a == b && x == y,
            (Static::Programs(a), Static::Programs(b)) => a == b,
            (Static::Code(a), Static::Code(b)) => a == b,
            (Static::Mesh(a), Static::Mesh(b)) => a == b,
            (Static::Tilings(a), Static::Tilings(b)) => a == b,
            (Static::Sharding(a), Static::Sharding(b)) => a == b,
            (Static::Specs(a, x), Static::Specs(b, y)) => a == b && x == y,
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
            Static::Host(text) | Static::Dims(text, _) => text.hash(state),
            Static::Programs(programs) => programs.words().hash(state),
            Static::Mesh(mesh) => mesh.hash(state),
            Static::Tilings(all) => all.hash(state),
            Static::Sharding(spec) => spec.hash(state),
            Static::Specs(mesh, specs) => (mesh, specs).hash(state),
            Static::Code(code) => code.hash(state),
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

impl From<Programs> for Static {
    fn from(programs: Programs) -> Static {
        Static::Programs(programs)
    }
}

impl From<Code> for Static {
    fn from(code: Code) -> Static {
        Static::Code(code)
    }
}

impl From<MeshAxes> for Static {
    fn from(mesh: MeshAxes) -> Static {
        Static::Mesh(mesh)
    }
}

impl From<Vec<Tiling>> for Static {
    fn from(all: Vec<Tiling>) -> Static {
        Static::Tilings(all)
    }
}

impl From<Reduction> for Static {
    fn from(reduce: Reduction) -> Static {
        Static::Reduce(reduce)
    }
}

impl From<ShardingSpec> for Static {
    fn from(spec: ShardingSpec) -> Static {
        Static::Sharding(Box::new(spec))
    }
}

impl From<Vec<i64>> for Static {
    fn from(ns: Vec<i64>) -> Static {
        Static::Ints(ns)
    }
}

/// Prints `3`, `0.5`, `true`, `[0, 1]`, `all`, `f32`, `{data: 4}`, `([{data}, {}])`, `sum`, or a host
/// expression between backticks.
impl fmt::Display for Static {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Static::Int(n) => write!(f, "{n}"),
            // The payload of a NaN is printed, so that equal text means equal bits.
            Static::Float(x) if x.is_nan() => write!(f, "nan:{:x}", x.to_bits()),
            Static::Float(x) => write!(f, "{x:?}"),
            Static::Bool(b) => write!(f, "{b}"),
            Static::Ints(ns) => write!(f, "{ns:?}"),
            Static::All => f.write_str("all"),
            Static::DType(d) => write!(f, "{d}"),
            Static::Host(text) => write!(f, "`{text}`"),
            Static::Dims(text, lens) => write!(f, "`{text}`:{}", dims_text(lens)),
            Static::Programs(programs) => fmt::Display::fmt(programs, f),
            Static::Code(code) => fmt::Display::fmt(code, f),
            Static::Mesh(mesh) => fmt::Display::fmt(mesh, f),
            Static::Tilings(all) => {
                let all: Vec<String> = all.iter().map(Tiling::to_string).collect();
                write!(f, "({})", all.join(", "))
            }
            Static::Reduce(reduce) => fmt::Display::fmt(reduce, f),
            // A spec only names its mesh.
            Static::Sharding(spec) => write!(f, "{} {spec}", spec.mesh()),
            Static::Specs(mesh, specs) => {
                let one = |spec: &Option<ShardingSpec>| {
                    spec.as_ref()
                        .map_or("_".to_owned(), ShardingSpec::to_string)
                };
                let specs: Vec<String> = specs.iter().map(one).collect();
                write!(f, "{mesh} ({})", specs.join(", "))
            }
        }
    }
}

/// Formats lengths as in `[B, 12, -1]`.
pub(crate) fn dims_text(lens: &[Option<Dim>]) -> String {
    let lens = lens
        .iter()
        .map(|len| len.map_or("-1".to_owned(), |d| d.to_string()));
    format!("[{}]", lens.collect::<Vec<_>>().join(", "))
}
