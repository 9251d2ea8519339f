//! Tasks that may run for some rows at a time: kernels on rows, and elementwise groups.

use super::KernelFault;
use super::data::{Data, DataMut};
use super::fused::Group;
use super::memory::Prepared;
use super::pieces::Order;
use super::rows::{Way, past_caches};

/// A task that may run for some rows at a time.
pub(crate) enum Link {
    Group(Group),
    Rows(ByRow),
}

impl Link {
    /// The rows that it has, if it has rows of its own.
    pub(crate) fn n_rows(&self) -> Option<usize> {
        match self {
            Link::Group(_) => None,
            Link::Rows(kernel) => Some(kernel.n_rows),
        }
    }

    /// How many elements of an operand one of `n_rows` rows has, if these may be made just before.
    pub(crate) fn reads(&self, operand: usize, n_rows: usize) -> Option<usize> {
        match self {
            Link::Group(group) => group.reads(operand).map(|_| group.len() / n_rows),
            Link::Rows(kernel) => kernel.reads(operand),
        }
    }

    /// How many elements of a result one of `n_rows` rows has.
    pub(crate) fn writes(&self, result: usize, n_rows: usize) -> Option<usize> {
        match self {
            Link::Group(group) => group.writes(result).map(|_| group.len() / n_rows),
            Link::Rows(kernel) => kernel.outs[result],
        }
    }

    /// The number of rows of which it takes multiples, if it can be cut into `n_rows` rows.
    pub(crate) fn grain(&self, n_rows: usize) -> Option<usize> {
        let group = match self {
            Link::Group(group) => group,
            Link::Rows(kernel) => return (kernel.n_rows == n_rows).then_some(1),
        };
        let cols = group.len().checked_div(n_rows).filter(|cols| *cols > 0)?;
        let elements = match group.order() {
            Order::Any => 1,
            Order::Whole(piece) => piece,
            Order::Rows { block, .. } => block,
        };
        (cols * n_rows == group.len()).then(|| elements / gcd(elements, cols))
    }

    /// The kernel of all rows. `bytes` are those of each result.
    pub(crate) fn prepare(self, bytes: impl Iterator<Item = usize>) -> Prepared {
        match self {
            Link::Group(group) => group.prepare(),
            Link::Rows(kernel) => {
                let mut rows = kernel
                    .outs
                    .iter()
                    .zip(bytes)
                    .filter(|(row, _)| row.is_some());
                let past_caches = rows.any(|(_, bytes)| past_caches(bytes));
                kernel.prepare(past_caches)
            }
        }
    }
}

pub(crate) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

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
