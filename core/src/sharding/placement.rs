//! From meshes and specs of users to those of the IR, whose meshes have no parts of axes.

use crate::error::ShardingFault;
use crate::sharding::{AxisRef, Mesh, ShardingSpec};
use crate::{Aval, Result};
use gradloom_ir::Symbol;
use gradloom_ir::mesh::{MeshAxes, Tiling};
use std::sync::Arc;

/// A mesh whose axes are cut so that each part of an axis that a spec names consists of whole axes.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    mesh: Arc<Mesh>,
    axes: MeshAxes,
    /// For each axis of the mesh, its parts: the numbers of positions before and in each, and the name.
    parts: Vec<Vec<(usize, usize, Symbol)>>,
}

/// Returns an error if a spec is one of another mesh, or partial.
pub(super) fn check_spec(spec: &ShardingSpec, mesh: &Arc<Mesh>) -> Result<(), ShardingFault> {
    if spec.mesh() != mesh {
        return Err(ShardingFault::OtherMesh {
            spec: spec.to_string(),
            mesh: mesh.to_string(),
        });
    }
    if !spec.partial().is_empty() {
        let spec = spec.to_string();
        return Err(ShardingFault::Partial { spec });
    }
    Ok(())
}

impl Devices {
    /// Returns the mesh, cut for some specs.
    pub(super) fn of<'a>(
        mesh: &Arc<Mesh>,
        specs: impl Iterator<Item = &'a ShardingSpec>,
    ) -> Result<Devices, ShardingFault> {
        let mut cuts: Vec<Vec<usize>> = mesh.axes().iter().map(|axis| vec![1, axis.size]).collect();
        for spec in specs {
            check_spec(spec, mesh)?;
            for axis in spec.dims().iter().flat_map(|dim| &dim.axes) {
                let at = mesh.axis_index(axis.name.as_str());
                let at = at.expect("the axes of a spec are in its mesh");
                if let Some(part) = axis.part {
                    cuts[at].extend([part.pre, part.pre * part.size]);
                }
            }
        }
        let mut taken: Vec<String> = mesh
            .axes()
            .iter()
            .map(|axis| axis.name.to_string())
            .collect();
        let mut parts = Vec::new();
        for (axis, mut cuts) in mesh.axes().iter().zip(cuts) {
            cuts.sort_unstable();
            cuts.dedup();
            let own: Vec<(usize, usize, Symbol)> = match cuts.len() {
                0..=2 => vec![(1, axis.size, axis.name)],
                _ => {
                    let pairs = cuts.windows(2).map(|ends| (ends[0], ends[1]));
                    let whole = pairs.map(|(pre, end)| match end.is_multiple_of(pre) {
                        true => Ok((pre, end / pre)),
                        false => Err(ShardingFault::Parts {
                            axis: axis.name.to_string(),
                        }),
                    });
                    let whole: Vec<(usize, usize)> = whole.collect::<Result<_, _>>()?;
                    let named = whole.into_iter().map(|(pre, size)| {
                        let mut name = format!("{}_{pre}_{size}", axis.name);
                        while taken.contains(&name) {
                            name.push('_');
                        }
                        taken.push(name.clone());
                        (pre, size, Symbol::new(&name))
                    });
                    named.collect()
                }
            };
            parts.push(own);
        }
        let axes = parts.iter().flatten().map(|(_, size, name)| (*name, *size));
        let axes =
            MeshAxes::new(axes.collect()).map_err(|reason| ShardingFault::Program { reason })?;
        Ok(Devices {
            mesh: mesh.clone(),
            axes,
            parts,
        })
    }

    /// Returns the axes, without parts.
    pub(super) fn axes(&self) -> &MeshAxes {
        &self.axes
    }

    /// Returns the axes that a name or a part stands for.
    fn names(&self, axis: AxisRef) -> Option<Vec<Symbol>> {
        let at = self.mesh.axis_index(axis.name.as_str())?;
        let inside = |(pre, size, _): &&(usize, usize, Symbol)| match axis.part {
            None => true,
            Some(part) => *pre >= part.pre && pre * size <= part.pre * part.size,
        };
        Some(
            self.parts[at]
                .iter()
                .filter(inside)
                .map(|(.., name)| *name)
                .collect(),
        )
    }

    /// Returns the axes of a group, given by names of the mesh.
    pub(super) fn group(&self, names: &[&str]) -> Result<MeshAxes, ShardingFault> {
        let mut all = Vec::new();
        for name in names {
            let found = self.names(AxisRef::new(name));
            let found = found.ok_or_else(|| ShardingFault::NoAxis {
                axis: (*name).to_owned(),
                mesh: self.mesh.to_string(),
            })?;
            let size = |name: &Symbol| {
                self.axes
                    .position(*name)
                    .map_or(1, |at| self.axes.axes()[at].1)
            };
            all.extend(found.iter().map(|name| (*name, size(name))));
        }
        MeshAxes::new(all).map_err(|reason| ShardingFault::Program { reason })
    }

    /// Returns how a leaf is divided. `None` stands for a leaf that is not.
    pub(super) fn tiling(
        &self,
        spec: Option<&ShardingSpec>,
        aval: &Aval,
        path: &str,
    ) -> Result<Tiling, ShardingFault> {
        let dims = spec.map_or(&[][..], |spec| spec.dims());
        let rank = aval.shape().len();
        if dims.len() > rank {
            return Err(ShardingFault::Rank {
                path: path.to_owned(),
                aval: aval.clone(),
                dims: dims.len(),
                spec: spec.map_or_else(String::new, ShardingSpec::to_string),
            });
        }
        let axes = dims.iter().map(|dim| {
            let names = dim.axes.iter().filter_map(|axis| self.names(*axis));
            names.flatten().collect()
        });
        let batch = vec![Vec::new(); aval.batch_dims()];
        let rest = vec![Vec::new(); rank - dims.len()];
        Ok(Tiling(batch.into_iter().chain(axes).chain(rest).collect()))
    }

    /// Returns the aval of the part of a leaf that a device has, without a batch prefix.
    pub(super) fn local(
        &self,
        tiling: &Tiling,
        aval: &Aval,
        path: &str,
    ) -> Result<Aval, ShardingFault> {
        let shape = tiling.local(&self.axes, aval.physical_shape());
        let shape = shape.map_err(|reason| ShardingFault::Uneven {
            path: path.to_owned(),
            aval: aval.clone(),
            reason,
        })?;
        Ok(Aval::new(aval.dtype(), shape))
    }
}
