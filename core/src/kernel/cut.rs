//! Kernels on rows that may run for some rows at a time.

use super::KernelFault;
use super::data::{Data, DataMut};
use super::memory::Prepared;
use super::rows::Way;

/// A kernel that computes each row of its results from the same row of its operands.
pub(crate) struct ByRow {
    pub(super) n_rows: usize,
    /// How many elements of each operand a row has; none of one that is read as a whole.
    pub(super) args: Vec<Option<usize>>,
    /// How many elements of each result a row has; none of one that is written when all rows are there.
    pub(super) outs: Vec<Option<usize>>,
    /// The operand that is checked before any row is computed, and how.
    check: Option<(usize, Check)>,
    rows: Rows,
    last: Option<Last>,
}

type Check = Box<dyn Fn(Data<'_>) -> Result<(), KernelFault> + Send + Sync>;

/// Computes rows, from and to what these have of operands and results.
type Rows = Box<dyn Fn(&[Data<'_>], &mut [DataMut<'_>], Way) + Send + Sync>;

/// Writes the results that rows have no part of. All rows are in the others, but for those that nobody reads.
type Last = Box<dyn Fn(&mut [DataMut<'_>]) + Send + Sync>;

impl ByRow {
    /// `rows` gets the elements that some rows have of each operand, or all that are read as a whole, and those of each result, or none.
    pub(super) fn new(
        n_rows: usize,
        args: impl Into<Vec<Option<usize>>>,
        outs: impl Into<Vec<Option<usize>>>,
        rows: impl Fn(&[Data<'_>], &mut [DataMut<'_>], Way) + Send + Sync + 'static,
    ) -> ByRow {
        ByRow {
            n_rows,
            args: args.into(),
            outs: outs.into(),
            check: None,
            rows: Box::new(rows),
            last: None,
        }
    }

    /// Checks an operand before any row is computed.
    pub(super) fn checked(
        self,
        operand: usize,
        check: impl Fn(Data<'_>) -> Result<(), KernelFault> + Send + Sync + 'static,
    ) -> ByRow {
        let check = Some((operand, Box::new(check) as Check));
        ByRow { check, ..self }
    }

    /// How many elements of an operand a row has, if these may be made just before the row is computed.
    pub(super) fn reads(&self, operand: usize) -> Option<usize> {
        let checked = self.check.as_ref().is_some_and(|(i, _)| *i == operand);
        self.args[operand].filter(|_| !checked)
    }

    /// Calls `last` when all rows are there.
    pub(super) fn then(self, last: impl Fn(&mut [DataMut<'_>]) + Send + Sync + 'static) -> ByRow {
        let last = Some(Box::new(last) as Last);
        ByRow { last, ..self }
    }

    /// The kernel of all rows.
    pub(crate) fn prepare(self, past_caches: bool) -> Prepared {
        Box::new(move |args, outs| {
            self.check(|i| args[i])?;
            self.run(args, outs, Way::alone(past_caches));
            self.finish(outs);
            Ok(())
        })
    }

    /// `args` gives the operands by number.
    pub(super) fn check<'a>(&self, args: impl Fn(usize) -> Data<'a>) -> Result<(), KernelFault> {
        match &self.check {
            Some((operand, check)) => check(args(*operand)),
            None => Ok(()),
        }
    }

    pub(super) fn run(&self, args: &[Data<'_>], outs: &mut [DataMut<'_>], way: Way) {
        (self.rows)(args, outs, way);
    }

    pub(super) fn finish(&self, outs: &mut [DataMut<'_>]) {
        if let Some(last) = &self.last {
            last(outs);
        }
    }
}
