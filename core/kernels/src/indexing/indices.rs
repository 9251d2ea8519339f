//! Indices of an axis, checked as a block.

use crate::memory::Element;

/// Integer type of indices.
pub(super) trait Index: Element + Into<i64> {}
impl Index for i32 {}
impl Index for i64 {}

/// Returns an index counted from the start of the axis.
#[inline(always)]
pub(super) fn from_start<I: Index>(index: I, n: usize) -> usize {
    let index: i64 = index.into();
    (if index < 0 { index + n as i64 } else { index }) as usize
}

/// Indices of an axis of length `n`, which may be known to be *plain*: in range, and counted from
/// the start.
#[derive(Clone, Copy)]
pub(super) struct Indices<'a, I> {
    list: &'a [I],
    n: usize,
    plain: bool,
}

/// Plain indices.
#[derive(Clone, Copy)]
pub(super) struct PlainIndices<'a, I>(&'a [I]);

impl<'a, I: Index> Indices<'a, I> {
    /// Wraps indices about which nothing is known.
    #[inline(always)]
    pub(super) fn new(list: &'a [I], n: usize) -> Self {
        Indices {
            list,
            n,
            plain: false,
        }
    }

    /// Notes whether the indices are plain.
    #[inline(always)]
    pub(super) fn checked(mut self) -> Self {
        self.plain = self.plain().is_some();
        self
    }

    /// Returns the indices if they are plain. Checks them if that is not known.
    #[inline(always)]
    pub(super) fn plain(self) -> Option<PlainIndices<'a, I>> {
        let fits = |index: I| {
            let index: i64 = index.into();
            (index as u64) < self.n as u64
        };
        // Without an early exit, so that the loop is vectorised.
        let all = || self.list.iter().fold(true, |all, index| all & fits(*index));
        (self.plain || all()).then_some(PlainIndices(self.list))
    }

    /// Returns `len` of the indices.
    #[inline(always)]
    pub(super) fn part(mut self, from: usize, len: usize) -> Self {
        self.list = &self.list[from..][..len];
        self
    }

    /// Splits the indices into pieces of `len` indices. The last piece may be shorter.
    #[inline(always)]
    pub(super) fn chunks(self, len: usize) -> impl Iterator<Item = Self> {
        self.list
            .chunks(len)
            .map(move |list| Indices { list, ..self })
    }

    /// Returns the indices.
    #[inline(always)]
    pub(super) fn list(self) -> &'a [I] {
        self.list
    }

    /// Returns the length of the axis.
    #[inline(always)]
    pub(super) fn n(self) -> usize {
        self.n
    }
}

impl<'a, I: Index> PlainIndices<'a, I> {
    /// Returns the indices as places, all of them less than the length of the axis.
    #[inline(always)]
    pub(super) fn places(self) -> impl Iterator<Item = usize> + 'a {
        self.0.iter().map(|index| {
            let index: i64 = (*index).into();
            index as usize
        })
    }
}
