//! The grid of a mesh whose axes are cut into the parts that specs use.

use crate::Symbol;
use crate::sharding::{
    AxisRef, Link, Mesh, Part, Position, Reduction, ShardingError, ShardingSpec,
};
use std::sync::Arc;

/// An axis of a [`Grid`], by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Atom(pub(super) u8);

/// A mesh whose axes are cut so far that every axis of every spec is a list of *atoms*.
///
/// Passes work on atoms only, so parts of axes need no further care. An axis of size 1 has no atom.
#[derive(Clone, Debug)]
pub struct Grid {
    mesh: Arc<Mesh>,
    atoms: Vec<Position>,
    names: Vec<Symbol>,
}

/// A [`ShardingSpec`] in atoms.
///
/// It has no open dims, priorities or replicated axes: these only limit propagation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Layout {
    /// The atoms that split each dim, the major one first.
    pub(super) dims: Vec<Vec<Atom>>,
    /// The atoms along which the value is partial, ascending.
    pub(super) partial: Vec<(Atom, Reduction)>,
}

impl Layout {
    /// Returns the layout with everything added up.
    pub(super) fn reduced(&self) -> Layout {
        Layout {
            dims: self.dims.clone(),
            partial: Vec::new(),
        }
    }

    /// Returns whether an atom splits a dim.
    pub(super) fn splits(&self, atom: Atom) -> bool {
        self.dims.iter().any(|dim| dim.contains(&atom))
    }

    /// Returns whether an atom splits a dim, or the value is partial along it.
    pub(super) fn uses(&self, atom: Atom) -> bool {
        self.splits(atom) || self.partial.iter().any(|(partial, _)| *partial == atom)
    }
}

impl Grid {
    /// Cuts a mesh into the parts that `specs` use.
    ///
    /// # Errors
    ///
    /// If a spec refers to another mesh, or if parts of an axis overlap.
    pub(super) fn new<'a>(
        mesh: &Arc<Mesh>,
        specs: impl Iterator<Item = &'a ShardingSpec>,
    ) -> Result<Grid, ShardingError> {
        // For each axis, the products of sizes at which a part starts or ends, and a part that does.
        let mut cuts: Vec<Vec<(usize, Option<AxisRef>)>> = Vec::new();
        for axis in mesh.axes() {
            cuts.push(vec![(1, None), (axis.size, None)]);
        }
        for spec in specs {
            if spec.mesh() != mesh {
                return Err(ShardingError::OtherMesh {
                    found: spec.mesh().to_string(),
                    expected: mesh.to_string(),
                });
            }
            for axis in spec.axes() {
                let Position { axis: at, part } = axis.position(mesh)?;
                for cut in [part.pre, part.pre * part.size] {
                    if !cuts[at].iter().any(|(other, _)| *other == cut) {
                        cuts[at].push((cut, Some(axis)));
                    }
                }
            }
        }
        let (mut atoms, mut names) = (Vec::new(), Vec::new());
        for (axis, mut cuts) in cuts.into_iter().enumerate() {
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                let [(pre, first), (end, second)] = [pair[0], pair[1]];
                if !end.is_multiple_of(pre) {
                    let whole = AxisRef::new(mesh.axes()[axis].name.as_str());
                    return Err(ShardingError::Overlap {
                        first: first.unwrap_or(whole),
                        second: second.unwrap_or(whole),
                    });
                }
                if end > pre {
                    let size = end / pre;
                    let part = Part { pre, size };
                    atoms.push(Position { axis, part });
                    names.push(name_of(mesh, axis, part));
                }
            }
        }
        if atoms.len() > usize::from(u8::MAX) {
            return Err(ShardingError::TooManyDevices {
                sizes: mesh.axes().iter().map(|axis| axis.size).collect(),
            });
        }
        Ok(Grid {
            mesh: Arc::clone(mesh),
            atoms,
            names,
        })
    }

    /// Returns the mesh.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Returns the name and the size of each atom, the last one varying fastest.
    pub fn axes(&self) -> Vec<(Symbol, usize)> {
        let sizes = self.atoms.iter().map(|atom| atom.part.size);
        self.names.iter().copied().zip(sizes).collect()
    }

    /// Returns the number of positions of an atom.
    pub(super) fn size(&self, atom: Atom) -> usize {
        self.atoms[usize::from(atom.0)].part.size
    }

    /// Returns the number of parts of a dim.
    pub(super) fn n_parts(&self, atoms: &[Atom]) -> usize {
        atoms.iter().map(|atom| self.size(*atom)).product()
    }

    /// Returns the name of an atom among [`Grid::axes`].
    pub(super) fn name(&self, atom: Atom) -> Symbol {
        self.names[usize::from(atom.0)]
    }

    /// Returns the axis of the mesh that an atom is a part of.
    pub(super) fn axis(&self, atom: Atom) -> usize {
        self.atoms[usize::from(atom.0)].axis
    }

    /// Returns the links along an axis of the mesh, if they are known.
    pub(super) fn link(&self, atom: Atom) -> Option<Link> {
        self.mesh.axes()[self.axis(atom)].link
    }

    /// Returns the atoms of an axis or a part.
    pub(super) fn atoms(&self, axis: AxisRef) -> Vec<Atom> {
        let of = axis
            .position(&self.mesh)
            .expect("the mesh has the axes of its specs");
        let end = of.part.pre * of.part.size;
        let is_inside = |(_, atom): &(usize, &Position)| {
            atom.axis == of.axis
                && atom.part.pre >= of.part.pre
                && atom.part.pre * atom.part.size <= end
        };
        let inside = self.atoms.iter().enumerate().filter(is_inside);
        inside.map(|(i, _)| Atom(i as u8)).collect()
    }

    /// Returns the layout of a spec.
    pub(super) fn layout(&self, spec: &ShardingSpec) -> Layout {
        let atoms = |axes: &[AxisRef]| axes.iter().flat_map(|axis| self.atoms(*axis)).collect();
        let mut partial: Vec<(Atom, Reduction)> = Vec::new();
        for (axis, kind) in spec.partial() {
            partial.extend(self.atoms(*axis).into_iter().map(|atom| (atom, *kind)));
        }
        partial.sort_unstable();
        Layout {
            dims: spec.dims().iter().map(|dim| atoms(&dim.axes)).collect(),
            partial,
        }
    }

    /// Returns the spec of a layout, with closed dims.
    pub(super) fn spec(&self, layout: &Layout) -> ShardingSpec {
        let axis = |atom: &Atom| self.atoms[usize::from(atom.0)].axis_ref(&self.mesh);
        let dims = layout.dims.iter().map(|atoms| {
            let axes = atoms.iter().map(axis).collect();
            crate::sharding::DimSharding::closed(axes)
        });
        let partial = layout.partial.iter();
        let partial = partial.map(|(atom, kind)| (axis(atom), *kind)).collect();
        let spec = ShardingSpec::new(&self.mesh, dims.collect(), Vec::new(), partial);
        spec.expect("a layout uses each atom once")
    }

    /// Returns the shape of the part of a device, with the padding of the last parts.
    pub(super) fn local(&self, shape: &[usize], layout: &Layout) -> Vec<usize> {
        let lens = shape.iter().zip(&layout.dims);
        lens.map(|(len, atoms)| len.div_ceil(self.n_parts(atoms)))
            .collect()
    }
}

/// Returns the name of a part of an axis: that of the axis, if it is the whole.
fn name_of(mesh: &Mesh, axis: usize, part: Part) -> Symbol {
    let of = &mesh.axes()[axis];
    if part.size == of.size {
        return of.name;
    }
    let mut name = format!("{}_{}x{}", of.name, part.pre, part.size);
    while mesh.axis_index(&name).is_some() {
        name.push('_');
    }
    Symbol::new(&name)
}
