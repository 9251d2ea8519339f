//! Arena allocation: values that live at the same time get disjoint ranges.

use gradloom_kernels::memory::ALIGN;
use std::collections::{BTreeMap, BTreeSet};

/// Live range of a value in tasks, from its first write to its last read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRange {
    pub(super) bytes: usize,
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Returns the offset of each value, and the size of the arena in bytes.
///
/// `lives` is sorted by `first`.
///
/// Each value goes to the smallest gap that fits (best fit), with the time of each release known in
/// advance.
pub(super) fn offsets(lives: &[LiveRange]) -> (Vec<usize>, usize) {
    let mut ends: Vec<(usize, usize)> =
        lives.iter().enumerate().map(|(i, l)| (l.last, i)).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let mut gaps = FreeRanges::default();
    let mut offsets = Vec::with_capacity(lives.len());
    let room = |bytes: usize| bytes.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
    for life in lives {
        while let Some((_, i)) = ends.next_if(|(last, _)| *last < life.first) {
            gaps.give(offsets[i], room(lives[i].bytes));
        }
        offsets.push(gaps.take(room(life.bytes)));
    }
    (offsets, gaps.end)
}

/// Free ranges of the arena below its end. Adjacent ranges are merged.
#[derive(Default)]
struct FreeRanges {
    /// Length of each range, by offset.
    by_offset: BTreeMap<usize, usize>,
    /// Length and offset of each range.
    by_length: BTreeSet<(usize, usize)>,
    end: usize,
}

impl FreeRanges {
    fn take(&mut self, bytes: usize) -> usize {
        if let Some(&(len, at)) = self.by_length.range((bytes, 0)..).next() {
            self.remove(at, len);
            if len > bytes {
                self.insert(at + bytes, len - bytes);
            }
            return at;
        }
        // A free range at the end of the arena is extended.
        let at = match self.by_offset.last_key_value() {
            Some((&at, &len)) if at + len == self.end => {
                self.remove(at, len);
                at
            }
            _ => self.end,
        };
        self.end = at.saturating_add(bytes);
        at
    }

    fn give(&mut self, at: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let (mut at, mut end) = (at, at + bytes);
        if let Some((&before, &len)) = self.by_offset.range(..at).next_back()
            && before + len == at
        {
            self.remove(before, len);
            at = before;
        }
        if let Some(&len) = self.by_offset.get(&end) {
            self.remove(end, len);
            end += len;
        }
        self.insert(at, end - at);
    }

    fn insert(&mut self, at: usize, len: usize) {
        self.by_offset.insert(at, len);
        self.by_length.insert((len, at));
    }

    fn remove(&mut self, at: usize, len: usize) {
        self.by_offset.remove(&at);
        self.by_length.remove(&(len, at));
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveRange, offsets};

    #[test]
    fn values_that_live_at_the_same_time_do_not_overlap() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((seed >> 33) % n) as usize
        };
        for _ in 0..200 {
            let lives: Vec<LiveRange> = (0..60)
                .map(|first| LiveRange {
                    bytes: 1 + below(1000),
                    first,
                    last: first + below(12),
                })
                .collect();
            let (at, end) = offsets(&lives);
            let busiest = (0..60).map(|t| {
                let alive = lives.iter().filter(|l| l.first <= t && t <= l.last);
                alive.map(|l| l.bytes.next_multiple_of(64)).sum::<usize>()
            });
            let busiest = busiest.max().unwrap();
            assert!(end <= 2 * busiest, "{end} bytes where {busiest} are alive");
            for (i, a) in lives.iter().enumerate() {
                assert!(at[i].is_multiple_of(64) && at[i] + a.bytes <= end);
                for (j, b) in lives.iter().enumerate().take(i) {
                    let apart_in_time = a.last < b.first || b.last < a.first;
                    let apart = at[i] + a.bytes <= at[j] || at[j] + b.bytes <= at[i];
                    assert!(
                        apart_in_time || apart,
                        "{a:?} at {}, {b:?} at {}",
                        at[i],
                        at[j]
                    );
                }
            }
        }
    }
}
