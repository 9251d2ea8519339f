//! Estimates of time: a simple model of devices and links.
//!
//! A collective over `n` devices runs on a ring. With latency `a` and bandwidth `w` of a link, and
//! `b` bytes that a device sends in `s` rounds, it takes
//!
//! ```text
//! s a + b / w        s = n - 1, and 2 (n - 1) for an all-reduce
//! ```
//!
//! as in Thakur, Rabenseifner and Gropp: Optimization of collective communication operations in MPICH
//! (2005), with the rounds of a ring. Over several axes of a mesh, the slowest link counts. An equation
//! takes the longer of its arithmetic and its traffic to memory (Williams, Waterman and Patterson:
//! Roofline, 2009). Nothing overlaps.

use super::grid::Grid;
use super::reshard::Step;
use crate::sharding::Link;

/// The speed of a device, and of links whose speed the mesh does not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Floating-point operations per second.
    pub flops: f64,
    /// Bytes per second between a device and its memory.
    pub memory: f64,
    /// The links of axes without a link of their own.
    pub link: Link,
}

impl Default for Speed {
    /// A device of 100 TFLOP/s with 1 TB/s of memory, and links of 100 GB/s and 1 us.
    fn default() -> Speed {
        Speed {
            flops: 100e12,
            memory: 1e12,
            link: Link {
                bandwidth: 100_000_000_000,
                latency: 1000,
            },
        }
    }
}

impl Speed {
    /// Returns the seconds that a step takes in which each device sends `bytes`.
    pub(super) fn of_step(&self, grid: &Grid, step: &Step, bytes: u128) -> f64 {
        let atoms = step.over();
        let n = grid.n_parts(atoms);
        let rounds = match step {
            Step::Slice { .. } => return 0.0,
            Step::AllReduce { .. } => 2 * (n - 1),
            _ => n - 1,
        };
        let links = atoms
            .iter()
            .map(|atom| grid.link(*atom).unwrap_or(self.link));
        let slowest = links.clone().map(|link| link.bandwidth).min();
        let latency = links.map(|link| link.latency).max();
        let bandwidth = slowest.unwrap_or(self.link.bandwidth).max(1) as f64;
        rounds as f64 * latency.unwrap_or(0) as f64 * 1e-9 + bytes as f64 / bandwidth
    }

    /// Returns the seconds that an equation takes.
    pub(super) fn of_eqn(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops).max(bytes / self.memory)
    }
}
