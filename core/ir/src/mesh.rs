//! Named axes of a mesh of devices, and how values are divided along them.
//!
//! A mesh is a grid of devices. The position of a device is an index for each axis, and devices are
//! numbered in row-major order. The *group* of a device along some axes has the devices that differ
//! from it in these axes only.

pub use crate::sharding::Reduction as Reduce;

use crate::Symbol;
use std::fmt;

/// Axes of a mesh in order, each with its number of devices.
///
/// As the static argument of a collective op, these are the axes along which devices work together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeshAxes(Vec<(Symbol, usize)>);

/// A set of axes of one mesh, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AxisSet(u64);

/// The largest number of axes of a mesh.
pub const MAX_MESH_AXES: usize = 64;

impl MeshAxes {
    /// Creates axes from names and numbers of devices.
    ///
    /// # Errors
    ///
    /// In words, if a name occurs twice, an axis has no devices, there are more than [`MAX_MESH_AXES`]
    /// axes, or more devices than `i32::MAX`.
    pub fn new(axes: Vec<(Symbol, usize)>) -> Result<MeshAxes, String> {
        for (i, (name, len)) in axes.iter().enumerate() {
            if axes[..i].iter().any(|(other, _)| other == name) {
                return Err(format!("the axis `{name}` occurs twice"));
            }
            if *len == 0 {
                return Err(format!("the axis `{name}` has no devices"));
            }
        }
        let total = axes
            .iter()
            .try_fold(1usize, |n, (_, len)| n.checked_mul(*len));
        match total {
            Some(n) if n <= i32::MAX as usize && axes.len() <= MAX_MESH_AXES => Ok(MeshAxes(axes)),
            Some(n) if n <= i32::MAX as usize => {
                Err(format!("a mesh has up to {MAX_MESH_AXES} axes"))
            }
            _ => Err("the mesh has too many devices".to_owned()),
        }
    }

    /// Returns names and numbers of devices.
    pub fn axes(&self) -> &[(Symbol, usize)] {
        &self.0
    }

    /// Returns the number of devices.
    pub fn n_devices(&self) -> usize {
        self.0.iter().map(|(_, len)| len).product()
    }

    /// Returns the position of an axis.
    pub fn position(&self, name: Symbol) -> Option<usize> {
        self.0.iter().position(|(axis, _)| *axis == name)
    }

    /// Returns the index of a device along each axis.
    pub fn coordinates(&self, device: usize) -> Vec<usize> {
        let mut rest = device;
        let mut found: Vec<usize> = self
            .0
            .iter()
            .rev()
            .map(|(_, len)| {
                let index = rest % len;
                rest /= len;
                index
            })
            .collect();
        found.reverse();
        found
    }

    /// Returns the positions in this mesh of the axes of a group.
    ///
    /// # Errors
    ///
    /// In words, if this mesh lacks an axis, or has another number of devices along it.
    pub fn positions(&self, group: &MeshAxes) -> Result<Vec<usize>, String> {
        let one = |(name, len): &(Symbol, usize)| {
            let at = self
                .position(*name)
                .ok_or_else(|| format!("the mesh {self} has no axis `{name}`"))?;
            match self.0[at].1 == *len {
                true => Ok(at),
                false => Err(format!(
                    "the axis `{name}` has {} devices in the mesh {self}, expected {len}",
                    self.0[at].1
                )),
            }
        };
        group.0.iter().map(one).collect()
    }

    /// Returns all groups along axes, given by position. Each lists its devices in the row-major order of
    /// these axes.
    pub fn groups(&self, along: &[usize]) -> Vec<Vec<usize>> {
        let len = |at: usize| self.0[at].1;
        let stride = |at: usize| -> usize { self.0[at + 1..].iter().map(|(_, len)| len).product() };
        // Offsets of the devices of a group from its first one.
        let mut members = vec![0];
        for &at in along {
            let step = stride(at);
            members = members
                .iter()
                .flat_map(|first| (0..len(at)).map(move |i| first + i * step))
                .collect();
        }
        let is_first = |device: &usize| {
            let index = self.coordinates(*device);
            along.iter().all(|at| index[*at] == 0)
        };
        (0..self.n_devices())
            .filter(is_first)
            .map(|first| members.iter().map(|offset| first + offset).collect())
            .collect()
    }

    /// Appends an encoding. Two encodings are equal if and only if the axes are.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        out.push(self.0.len() as u64);
        for (name, len) in &self.0 {
            out.extend([*len as u64, name.as_str().len() as u64]);
            out.extend(name.as_str().bytes().map(u64::from));
        }
    }
}

/// Prints `{data: 4, model: 2}`.
impl fmt::Display for MeshAxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.0.iter().map(|(name, len)| format!("{name}: {len}"));
        write!(f, "{{{}}}", axes.collect::<Vec<_>>().join(", "))
    }
}

impl AxisSet {
    /// The empty set.
    pub const EMPTY: AxisSet = AxisSet(0);

    /// Returns a set of axes, given by position.
    pub fn of(positions: impl IntoIterator<Item = usize>) -> AxisSet {
        AxisSet(positions.into_iter().fold(0, |set, at| set | 1 << at))
    }

    /// Returns the axes of both sets.
    pub fn union(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 | other.0)
    }

    /// Returns the axes that are not in `other`.
    pub fn minus(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & !other.0)
    }

    /// Returns whether there are no axes.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the positions in ascending order.
    pub fn positions(self) -> impl Iterator<Item = usize> {
        (0..MAX_MESH_AXES).filter(move |at| self.0 >> at & 1 == 1)
    }

    /// Returns these axes of a mesh.
    pub fn named(self, mesh: &MeshAxes) -> MeshAxes {
        MeshAxes(self.positions().map(|at| mesh.0[at]).collect())
    }
}

/// The axes of a mesh that each dim of a value is divided along, in order.
///
/// A device has one of the equal parts of the value. A dim without axes is not divided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiling(pub Vec<Vec<Symbol>>);

impl Tiling {
    /// Returns the tiling of a value that is not divided.
    pub fn whole(rank: usize) -> Tiling {
        Tiling(vec![Vec::new(); rank])
    }

    /// Returns the positions of the axes of each dim.
    ///
    /// # Errors
    ///
    /// In words, if the mesh lacks an axis, or an axis occurs twice.
    pub fn positions(&self, mesh: &MeshAxes) -> Result<Vec<Vec<usize>>, String> {
        let mut seen = Vec::new();
        let mut one = |name: &Symbol| {
            let at = mesh
                .position(*name)
                .ok_or_else(|| format!("the mesh {mesh} has no axis `{name}`"))?;
            if seen.contains(&at) {
                return Err(format!("the axis `{name}` occurs twice in {self}"));
            }
            seen.push(at);
            Ok(at)
        };
        let dims = self.0.iter();
        dims.map(|names| names.iter().map(&mut one).collect())
            .collect()
    }

    /// Returns the shape of a part, for the shape of the value.
    ///
    /// # Errors
    ///
    /// In words, if the number of dims differs, the tiling is not one of this mesh, or a dim has no equal parts.
    pub fn local(&self, mesh: &MeshAxes, shape: &[usize]) -> Result<Vec<usize>, String> {
        let parts = self.parts(mesh)?;
        if parts.len() != shape.len() {
            return Err(format!(
                "{self} has {} dims, and the value {}",
                parts.len(),
                shape.len()
            ));
        }
        let one = |(i, (len, n)): (usize, (&usize, &usize))| match len.is_multiple_of(*n) {
            true => Ok(len / n),
            false => Err(format!(
                "axis {i} has length {len}, which {n} devices cannot divide equally"
            )),
        };
        shape.iter().zip(&parts).enumerate().map(one).collect()
    }

    /// Returns the shape of the value, for the shape of a part.
    ///
    /// # Errors
    ///
    /// In words, if the number of dims differs, or the tiling is not one of this mesh.
    pub fn global(&self, mesh: &MeshAxes, shape: &[usize]) -> Result<Vec<usize>, String> {
        let parts = self.parts(mesh)?;
        match parts.len() == shape.len() {
            true => Ok(shape
                .iter()
                .zip(parts)
                .map(|(len, n)| len.saturating_mul(n))
                .collect()),
            false => Err(format!(
                "{self} has {} dims, and the value {}",
                parts.len(),
                shape.len()
            )),
        }
    }

    /// Returns the number of parts of each dim.
    fn parts(&self, mesh: &MeshAxes) -> Result<Vec<usize>, String> {
        let dims = self.positions(mesh)?;
        let n = |dim: Vec<usize>| dim.iter().map(|at| mesh.0[*at].1).product();
        Ok(dims.into_iter().map(n).collect())
    }

    /// Returns the first index along each dim of the part that a device has.
    ///
    /// # Errors
    ///
    /// As [`positions`](Self::positions).
    pub fn start(
        &self,
        mesh: &MeshAxes,
        device: usize,
        local: &[usize],
    ) -> Result<Vec<usize>, String> {
        let index = mesh.coordinates(device);
        let dims = self.positions(mesh)?;
        let part = |dim: &Vec<usize>| {
            dim.iter()
                .fold(0, |part, at| part * mesh.0[*at].1 + index[*at])
        };
        Ok(dims
            .iter()
            .zip(local)
            .map(|(dim, len)| part(dim) * len)
            .collect())
    }

    /// Returns all axes that divide a dim.
    ///
    /// # Errors
    ///
    /// As [`positions`](Self::positions).
    pub fn axes(&self, mesh: &MeshAxes) -> Result<AxisSet, String> {
        Ok(AxisSet::of(self.positions(mesh)?.into_iter().flatten()))
    }

    /// Appends an encoding. Two encodings are equal if and only if the tilings are.
    pub(crate) fn encode(&self, out: &mut Vec<u64>) {
        out.push(self.0.len() as u64);
        for dim in &self.0 {
            out.push(dim.len() as u64);
            for name in dim {
                out.push(name.as_str().len() as u64);
                out.extend(name.as_str().bytes().map(u64::from));
            }
        }
    }
}

/// Prints `[{data}, {}]`.
impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |names: &Vec<Symbol>| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!("{{{}}}", names.join(", "))
        };
        let dims: Vec<String> = self.0.iter().map(dim).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}
