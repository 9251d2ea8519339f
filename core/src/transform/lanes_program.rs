//! Linear programs on all lanes: derivatives along many directions at once.

use crate::error::VmapFault;
use crate::raise::catch;
use crate::tensor::replay::{Bound, bind_shapes, replay_bound};
use crate::{Result, Tensor};
use gradloom_ir::batch::{Batch, Batching, batch};
use gradloom_ir::{Program, pass};

/// Returns a program on all lanes, simplified.
pub(super) fn on_all_lanes(
    program: &Program,
    each: &[bool],
    batching: impl Into<Batching>,
) -> Result<Batch> {
    let on_all = batch(program, each, batching);
    let Batch { program, each } = on_all.map_err(|op| VmapFault::NoRule { op }.into_error())?;
    let program = pass::simplify(program);
    Ok(Batch { program, each })
}

/// A program whose last parameters are directions, on a number of lanes of them.
pub(super) struct LanesProgram {
    program: Program,
    /// For each result, whether it differs between lanes, or `None` if it is zero.
    results: Vec<Option<bool>>,
}

impl LanesProgram {
    /// Returns the program on `n` lanes, which share its first `n_shared` parameters. It has the results that are not
    /// zero.
    pub(super) fn new(
        program: &Program,
        n_shared: usize,
        n: usize,
        nonzero: &[bool],
    ) -> Result<LanesProgram> {
        let each: Vec<bool> = (0..program.params.len()).map(|i| i >= n_shared).collect();
        let Batch { program, each } = on_all_lanes(program, &each, n)?;
        let mut each = each.into_iter();
        Ok(LanesProgram {
            program,
            results: nonzero
                .iter()
                .map(|nonzero| nonzero.then(|| each.next())?)
                .collect(),
        })
    }

    /// Returns the program for these results only. `None` stands for a further result that is zero.
    pub(super) fn with_zeros(self, nonzero: &[bool]) -> LanesProgram {
        let mut left = self.results.into_iter();
        let results = nonzero
            .iter()
            .map(|nonzero| nonzero.then(|| left.next().flatten())?);
        LanesProgram {
            program: self.program,
            results: results.collect(),
        }
    }

    /// Returns the results with their lanes along a first axis. Without it, they have the avals of `likes`.
    pub(super) fn run(
        &self,
        mut args: Vec<Bound>,
        likes: &[Tensor],
        n: usize,
    ) -> Result<Vec<Tensor>> {
        bind_shapes(&self.program, &mut args);
        let mut found = replay_bound(&self.program, &args)?.into_iter();
        let results = self.results.iter().zip(likes).map(|(each, like)| {
            let shape = [&[n], like.shape()].concat();
            let Some(each) = each else {
                return Tensor::zeros(shape, like.dtype());
            };
            let found = found.next().expect("a result for each that is not zero");
            match each {
                true => found.tensor().clone(),
                false => found.tensor().broadcast_to(shape),
            }
        });
        catch(|| Ok(results.collect()))
    }
}
