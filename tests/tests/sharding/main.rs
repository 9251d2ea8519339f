//! Programs for the devices of a mesh, beside the same computation without devices.

mod annotations;
mod automatic;
mod checkpoint;
mod collectives;
mod derivatives;
mod errors;
mod loops;
mod plan;
mod random;
mod ring;
mod safety;
mod spmd_axis;
mod training;

use gradloom::Tensor;
use gradloom::sharding::{Mesh, ShardingSpec};
use std::sync::Arc;

/// A mesh with the axes `a`, `b`, .. of these sizes.
struct Grid {
    mesh: Arc<Mesh>,
    names: Vec<&'static str>,
    sizes: Vec<usize>,
}

impl Grid {
    fn new(sizes: &[usize]) -> Grid {
        let names: Vec<&str> = ["a", "b", "c"][..sizes.len()].to_vec();
        let axes: Vec<(&str, usize)> = names.iter().copied().zip(sizes.iter().copied()).collect();
        Grid {
            mesh: Arc::new(Mesh::new("m", &axes).unwrap()),
            names,
            sizes: sizes.to_vec(),
        }
    }

    /// The meshes of the tests: (2), (4), (2, 2), (2, 3).
    fn all() -> Vec<Grid> {
        [&[2][..], &[4], &[2, 2], &[2, 3]].map(Grid::new).into()
    }

    fn n(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The spec of a tensor whose axis 0 is divided along all axes of the mesh.
    fn rows(&self) -> ShardingSpec {
        ShardingSpec::split(&self.mesh, &[&self.names]).unwrap()
    }

    /// Lists of axes: each axis, and all in both orders.
    fn choices(&self) -> Vec<Vec<&'static str>> {
        let mut all: Vec<Vec<&str>> = self.names.iter().map(|name| vec![*name]).collect();
        if self.names.len() > 1 {
            all.push(self.names.clone());
            all.push(self.names.iter().rev().copied().collect());
        }
        all
    }

    fn index(&self, device: usize, name: &str) -> usize {
        let at = self.names.iter().position(|n| *n == name).unwrap();
        device / self.sizes[at + 1..].iter().product::<usize>() % self.sizes[at]
    }

    /// Devices of the group of a device, in the order of the axes, and its position among them.
    fn group(&self, device: usize, axes: &[&str]) -> (Vec<usize>, usize) {
        let others = self.names.iter().filter(|name| !axes.contains(name));
        let others: Vec<&str> = others.copied().collect();
        let mut group: Vec<usize> = (0..self.n())
            .filter(|d| {
                others
                    .iter()
                    .all(|name| self.index(*d, name) == self.index(device, name))
            })
            .collect();
        group.sort_by_key(|d| {
            axes.iter()
                .map(|name| self.index(*d, name))
                .collect::<Vec<_>>()
        });
        let at = group.iter().position(|d| *d == device).unwrap();
        (group, at)
    }

    /// The result of `f` for the operands of the group of each device, one after the other.
    fn host(&self, x: &Tensor, axes: &[&str], f: impl Fn(&[Tensor], usize) -> Tensor) -> Tensor {
        let k = x.dim(0) / self.n();
        let parts: Vec<Tensor> = (0..self.n()).map(|d| x.i(d * k..(d + 1) * k)).collect();
        let outs = (0..self.n()).map(|device| {
            let (group, at) = self.group(device, axes);
            let operands: Vec<Tensor> = group.iter().map(|d| parts[*d].clone()).collect();
            f(&operands, at)
        });
        Tensor::concat(&outs.collect::<Vec<_>>(), 0)
    }
}

/// Checks that two tensors of `f64` are equal up to rounding.
#[track_caller]
fn assert_near(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.aval(), expected.aval(), "{what}");
    let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
    for (x, y) in found.iter().zip(&expected) {
        let near = (x - y).abs() <= 1e-12 * (1.0 + y.abs()) || x.is_nan() && y.is_nan();
        assert!(near, "{what}: {found:?} {expected:?}");
    }
}
