//! Who reads a variable.

use gradloom_ir::{Program, Var};

/// The equations that read each variable, ascending; the results of the program are read by one that is not there.
pub(super) struct Readers {
    /// Where the readers of each variable begin among all, and where those of the last end.
    starts: Vec<u32>,
    by: Vec<usize>,
}

impl Readers {
    pub(super) fn of(program: &Program) -> Readers {
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
        // Each start moves to the end of its readers, where those of the next begin.
        for (var, reader) in reads() {
            let next = &mut starts[var.0 as usize];
            by[*next as usize] = reader;
            *next += 1;
        }
        starts.pop();
        starts.insert(0, 0);
        Readers { starts, by }
    }

    /// The equations outside of a group (ascending) that read the variable.
    pub(super) fn outside(&self, var: Var, group: &[usize]) -> impl Iterator<Item = usize> {
        let at = var.0 as usize;
        let readers = match self.starts.get(at..at + 2) {
            Some(&[start, end]) => &self.by[start as usize..end as usize],
            _ => &[],
        };
        let readers = readers.iter().copied();
        readers.filter(|by| group.binary_search(by).is_err())
    }
}
