//! Axes of a mesh, and parts of them.

use super::{Mesh, ShardingError};
use crate::Symbol;
use std::fmt;

/// An axis of a mesh, or a part of one.
///
/// Prints as `"x"`, and a part as `"x":(2)4`: see [`Part`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisRef {
    /// The name of the axis.
    pub name: Symbol,
    /// The part, or `None` for the whole axis.
    pub part: Option<Part>,
}

/// A part of an axis: a *sub-axis*.
///
/// An axis whose size is a product is also a grid, in row-major order. The part `(pre)size` is the
/// axis of this grid with `size` positions that follows axes with `pre` positions in total. So the
/// axis `"x"` of size 8 is the grid `"x":(1)2`, `"x":(2)4`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The product of the sizes of the parts before this one.
    pub pre: usize,
    /// The number of positions.
    pub size: usize,
}

/// The positions of an axis in its mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The index of the axis in the mesh.
    pub(crate) axis: usize,
    /// The part; that of a whole axis is `(1)size`.
    pub(crate) part: Part,
}

impl AxisRef {
    /// Returns a whole axis.
    pub fn new(name: &str) -> AxisRef {
        AxisRef {
            name: Symbol::new(name),
            part: None,
        }
    }

    /// Returns the part `(pre)size` of an axis.
    pub fn part(name: &str, pre: usize, size: usize) -> AxisRef {
        AxisRef {
            name: Symbol::new(name),
            part: Some(Part { pre, size }),
        }
    }

    /// Returns the position in a mesh.
    pub(crate) fn position(self, mesh: &Mesh) -> Result<Position, ShardingError> {
        let unknown = || ShardingError::UnknownAxis {
            axis: self.name.to_string(),
            mesh: mesh.to_string(),
        };
        let axis = mesh.axis_index(self.name.as_str()).ok_or_else(unknown)?;
        let size = mesh.axes()[axis].size;
        let part = self.part.unwrap_or(Part { pre: 1, size });
        let is_split = self.part.is_none() || part.size > 1;
        let fits = |end: usize| is_split && end > 0 && size.is_multiple_of(end);
        match part.pre.checked_mul(part.size) {
            Some(end) if fits(end) => Ok(Position { axis, part }),
            _ => Err(ShardingError::NotAPart { axis: self, size }),
        }
    }
}

impl Position {
    /// Returns the axis that is here. A part with all positions is the whole axis.
    pub(crate) fn axis_ref(self, mesh: &Mesh) -> AxisRef {
        let of = &mesh.axes()[self.axis];
        let is_whole = self.part.size == of.size;
        AxisRef {
            name: of.name,
            part: (!is_whole).then_some(self.part),
        }
    }

    /// Returns whether some grid has both parts as distinct axes. Different axes of a mesh have one.
    pub(super) fn is_apart(self, other: Position) -> bool {
        let precedes = |a: Part, b: Part| b.pre.is_multiple_of(a.pre * a.size);
        let (a, b) = (self.part, other.part);
        self.axis != other.axis || a != b && (precedes(a, b) || precedes(b, a))
    }

    /// Returns the joint part, if `next` follows this part in its grid.
    pub(super) fn joined(self, next: Position) -> Option<Position> {
        let follows = self.axis == next.axis && self.part.pre * self.part.size == next.part.pre;
        follows.then_some(Position {
            axis: self.axis,
            part: Part {
                pre: self.part.pre,
                size: self.part.size * next.part.size,
            },
        })
    }
}

impl From<&str> for AxisRef {
    fn from(name: &str) -> AxisRef {
        AxisRef::new(name)
    }
}

impl fmt::Display for AxisRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.name)?;
        match self.part {
            Some(part) => write!(f, ":{part}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for AxisRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints `(2)4`.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}){}", self.pre, self.size)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
