//! Consumers of each variable.

use gradloom_ir::{Program, Var};

/// Indices of the equations that read each variable, ascending.
///
/// Outputs count as a reader `usize::MAX`.
pub(super) struct Consumers {
    /// Offset in `by` of the first reader of each variable, and the end of the last.
    starts: Vec<u32>,
    by: Vec<usize>,
}

impl Consumers {
    pub(super) fn of(program: &Program) -> Consumers {
        let reads = || {
            let eqns = program.eqns.iter().enumerate();
            let eqns = eqns.flat_map(|(i, eqn)| eqn.data().iter().map(move |var| (*var, i)));
            eqns.chain(program.outs.iter().map(|out| (*out, usize::MAX)))
        };
        let n_vars = reads()
            .map(|(var, _)| var.0 as usize + 1)
            .max()
            .unwrap_or(0);
        let mut starts = vec![0; n_vars + 1];
        reads().for_each(|(var, _)| starts[var.0 as usize + 1] += 1);
        for i in 0..n_vars {
            starts[i + 1] += starts[i];
        }
        let mut by = vec![0; starts[n_vars] as usize];
        // Each start advances to the end of its consumers, which is the start of the next variable.
        for (var, reader) in reads() {
            let next = &mut starts[var.0 as usize];
            by[*next as usize] = reader;
            *next += 1;
        }
        starts.pop();
        starts.insert(0, 0);
        Consumers { starts, by }
    }

    /// Returns the equations outside of `group` (sorted) that read `var`, ascending.
    pub(super) fn outside(&self, var: Var, group: &[usize]) -> impl Iterator<Item = usize> {
        let at = var.0 as usize;
        let consumers = match self.starts.get(at..at + 2) {
            Some(&[start, end]) => &self.by[start as usize..end as usize],
            _ => &[],
        };
        let consumers = consumers.iter().copied();
        consumers.filter(|by| group.binary_search(by).is_err())
    }
}
