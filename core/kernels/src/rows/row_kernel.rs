//! Tasks that can run on a block of rows at a time, as stages of a chain.

use crate::elementwise::group::Group;
use crate::elementwise::tile::gcd;
use crate::memory::data::{Data, DataMut};
use crate::memory::fault::KernelFault;
use crate::rows::forward::RowMode;
use crate::simd::vector::non_temporal;
use crate::task::{Kernel, Prepared};

/// A task that can run on a block of rows at a time: an elementwise group or a row kernel.
pub enum Fusable {
    Group(Group),
    Rows(RowKernel),
}

impl Fusable {
    /// Returns the number of rows of a kernel on rows, or of the sums over rows of a group. Other groups have no rows of
    /// their own.
    pub fn n_rows(&self) -> Option<usize> {
        match self {
            Fusable::Group(group) => group.n_rows(),
            Fusable::Rows(kernel) => Some(kernel.n_rows),
        }
    }

    /// Returns the elements per row of an operand, or `None` if the previous stage cannot produce it
    /// row by row.
    pub fn reads(&self, operand: usize, n_rows: usize) -> Option<usize> {
        match self {
            Fusable::Group(group) => group.reads(operand, n_rows).map(|part| part.len),
            Fusable::Rows(kernel) => kernel.reads(operand),
        }
    }

    /// Returns the elements per row of a result, or `None` if it is not written row by row.
    pub fn writes(&self, result: usize, n_rows: usize) -> Option<usize> {
        match self {
            Fusable::Group(group) => group.writes(result, n_rows).map(|part| part.len),
            Fusable::Rows(kernel) => kernel.outs[result],
        }
    }

    /// Returns the row count that a block must be a multiple of.
    ///
    /// Returns `None` if the stage does not divide into `n_rows` rows.
    pub fn row_multiple(&self, n_rows: usize) -> Option<usize> {
        let group = match self {
            Fusable::Group(group) => group,
            Fusable::Rows(kernel) => {
                return (kernel.n_rows == n_rows).then_some(kernel.together);
            }
        };
        let cols = group.len().checked_div(n_rows).filter(|cols| *cols > 0)?;
        let elements = group.multiple()?;
        (cols * n_rows == group.len()).then(|| elements / gcd(elements, cols))
    }

    /// Returns whether the time for a row may be far longer than that of reading and writing it.
    pub fn is_heavy(&self) -> bool {
        matches!(self, Fusable::Rows(kernel) if kernel.nanos.is_some())
    }

    /// Returns the kernel that runs on all rows. `bytes` are the sizes of the results.
    pub fn prepare(self, bytes: impl Iterator<Item = usize>) -> Kernel {
        match self {
            Fusable::Group(group) => group.prepare(),
            Fusable::Rows(kernel) => {
                let mut rows = kernel
                    .outs
                    .iter()
                    .zip(bytes)
                    .filter(|(row, _)| row.is_some());
                let non_temporal = rows.any(|(_, bytes)| non_temporal(bytes));
                Kernel::Slices(kernel.prepare(non_temporal))
            }
        }
    }
}

/// Kernel that computes each row of its results from the same row of its operands.
pub struct RowKernel {
    pub(crate) n_rows: usize,
    /// Elements per row of each operand; `None` for an operand that is read as a whole.
    pub(crate) args: Vec<Option<usize>>,
    /// Elements per row of each result; `None` for a result that is written after all rows.
    pub(crate) outs: Vec<Option<usize>>,
    /// Operand that is checked before any row is computed, with the check.
    check: Option<(usize, CheckFn)>,
    /// Estimated time on one thread for a row, if it is not that of reading and writing it.
    pub(crate) nanos: Option<usize>,
    /// Number of rows that are computed side by side. A block of a chain is a multiple of it.
    together: usize,
    rows: RowsFn,
    last: Option<LastFn>,
}

type CheckFn = Box<dyn Fn(Data<'_>) -> Result<(), KernelFault> + Send + Sync>;

/// Function that computes some rows from the slices of these rows of each operand and result.
type RowsFn = Box<dyn Fn(&[Data<'_>], &mut [DataMut<'_>], RowMode) + Send + Sync>;

/// Writes the results that are not computed by rows.
///
/// The other results are complete, except those that have no consumer outside of a chain.
type LastFn = Box<dyn Fn(&mut [DataMut<'_>]) + Send + Sync>;

impl RowKernel {
    /// Creates a kernel on rows.
    ///
    /// `rows` gets the slice of some rows of each operand and result. An operand with `None`
    /// elements per row comes as a whole, and such a result comes empty.
    pub(crate) fn new(
        n_rows: usize,
        args: impl Into<Vec<Option<usize>>>,
        outs: impl Into<Vec<Option<usize>>>,
        rows: impl Fn(&[Data<'_>], &mut [DataMut<'_>], RowMode) + Send + Sync + 'static,
    ) -> RowKernel {
        RowKernel {
            n_rows,
            args: args.into(),
            outs: outs.into(),
            check: None,
            nanos: None,
            together: 1,
            rows: Box::new(rows),
            last: None,
        }
    }

    /// Creates a kernel on rows from one that computes as many rows as it gets, and that cannot fail.
    ///
    /// `args` and `out` are elements per row; an operand with `None` is read as a whole.
    pub fn independent(
        n_rows: usize,
        args: impl Into<Vec<Option<usize>>>,
        out: usize,
        kernel: Prepared,
    ) -> RowKernel {
        RowKernel::new(n_rows, args, [Some(out)], move |args, outs, _| {
            kernel(args, outs).expect("a kernel on independent rows cannot fail");
        })
    }

    /// Sets the estimated time on one thread for a row, if it is not that of reading and writing it.
    pub fn taking(self, nanos: usize) -> RowKernel {
        let nanos = Some(nanos);
        RowKernel { nanos, ..self }
    }

    /// Sets the number of rows that the kernel computes side by side.
    pub fn together(self, together: usize) -> RowKernel {
        RowKernel { together, ..self }
    }

    /// Adds a check of an operand that runs before any row is computed.
    pub(crate) fn checked(
        self,
        operand: usize,
        check: impl Fn(Data<'_>) -> Result<(), KernelFault> + Send + Sync + 'static,
    ) -> RowKernel {
        let check = Some((operand, Box::new(check) as CheckFn));
        RowKernel { check, ..self }
    }

    /// Returns the elements per row of an operand, or `None` if it is read as a whole or checked
    /// first.
    pub(crate) fn reads(&self, operand: usize) -> Option<usize> {
        let checked = self.check.as_ref().is_some_and(|(i, _)| *i == operand);
        self.args[operand].filter(|_| !checked)
    }

    /// Adds a function that runs after all rows are computed.
    pub(crate) fn then(
        self,
        last: impl Fn(&mut [DataMut<'_>]) + Send + Sync + 'static,
    ) -> RowKernel {
        let last = Some(Box::new(last) as LastFn);
        RowKernel { last, ..self }
    }

    /// Returns the kernel that runs on all rows.
    pub fn prepare(self, non_temporal: bool) -> Prepared {
        Box::new(move |args, outs| {
            self.check(|i| args[i])?;
            self.run(args, outs, RowMode::alone(non_temporal));
            self.finish(outs);
            Ok(())
        })
    }

    /// Runs the check, if there is one. `args` returns an operand by its index.
    pub(crate) fn check<'a>(&self, args: impl Fn(usize) -> Data<'a>) -> Result<(), KernelFault> {
        match &self.check {
            Some((operand, check)) => check(args(*operand)),
            None => Ok(()),
        }
    }

    pub(crate) fn run(&self, args: &[Data<'_>], outs: &mut [DataMut<'_>], mode: RowMode) {
        (self.rows)(args, outs, mode);
    }

    pub(crate) fn finish(&self, outs: &mut [DataMut<'_>]) {
        if let Some(last) = &self.last {
            last(outs);
        }
    }
}
