//! Boxes of tensors: a range of indices of each axis.

use super::CheckpointError;
use std::fmt;
use std::ops::Range;

/// A range of indices of each axis of a leaf, as pairs of the first index and the index after the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region(Vec<[usize; 2]>);

impl Region {
    pub(super) fn new(ranges: Vec<Range<usize>>) -> Region {
        Region(
            ranges
                .iter()
                .map(|range| [range.start, range.end])
                .collect(),
        )
    }

    pub(super) fn of_pairs(pairs: &[[usize; 2]]) -> Region {
        Region(pairs.to_vec())
    }

    pub(super) fn pairs(&self) -> Vec<[usize; 2]> {
        self.0.clone()
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        self.0.iter().map(|[start, end]| end - start).collect()
    }

    pub(super) fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// Returns the name of the tensor in a file that has this box of a leaf.
    pub(super) fn name_in_file(&self, leaf: &str) -> String {
        format!("{leaf}{self}")
    }

    /// Returns whether the box is one of a leaf of this shape and has elements.
    fn is_inside(&self, shape: &[usize]) -> bool {
        let fits = |([start, end], len): (&[usize; 2], &usize)| start < end && end <= len;
        self.0.len() == shape.len() && self.0.iter().zip(shape).all(fits)
    }

    fn overlaps(&self, other: &Region) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        pairs.all(|(a, b)| a[0] < b[1] && b[0] < a[1])
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.iter().map(|[start, end]| format!("{start}..{end}"));
        write!(f, "[{}]", ranges.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the positions of the elements of a box among those of the whole, in runs, in row-major order.
pub(super) fn rows(shape: &[usize], region: &Region) -> Vec<Range<usize>> {
    let is_whole = |(len, range): &(&usize, &[usize; 2])| **range == [0, **len];
    let pairs = shape.iter().zip(&region.0).rev();
    let split = shape.len() - pairs.take_while(is_whole).count();
    // The axes after the last one that is cut are contiguous.
    let inner: usize = shape[split..].iter().product();
    let Some(([start, end], outer)) = region.0[..split].split_last() else {
        return std::iter::once(0..inner).collect();
    };
    let mut rows = vec![0];
    for (len, [start, end]) in shape.iter().zip(outer) {
        let inside = |row: usize| (*start..*end).map(move |i| row * len + i);
        rows = rows.into_iter().flat_map(inside).collect();
    }
    let run = |row: usize| {
        let first = row * shape[split - 1];
        (first + start) * inner..(first + end) * inner
    };
    rows.into_iter().map(run).collect()
}

/// Checks that boxes, each with its file, are inside of a leaf, do not overlap, and cover it.
pub(super) fn check_cover(
    leaf: &str,
    shape: &[usize],
    mut found: Vec<(Region, &str)>,
) -> Result<(), CheckpointError> {
    if let Some((region, file)) = found.iter().find(|(region, _)| !region.is_inside(shape)) {
        return Err(CheckpointError::Outside {
            leaf: leaf.to_owned(),
            region: region.to_string(),
            file: (*file).to_owned(),
            shape: shape.to_vec(),
        });
    }
    // Boxes that begin after the end of one along axis 0 do not overlap it.
    found.sort();
    for (i, (a, file)) in found.iter().enumerate() {
        let near = found[i + 1..]
            .iter()
            .take_while(|(b, _)| match (a.0.first(), b.0.first()) {
                (Some(a), Some(b)) => b[0] < a[1],
                _ => true,
            });
        if let Some((b, other)) = near.into_iter().find(|(b, _)| a.overlaps(b)) {
            return Err(CheckpointError::Overlap {
                leaf: leaf.to_owned(),
                regions: [a, b].map(Region::to_string),
                files: [file, other].map(|file| (*file).to_owned()),
            });
        }
    }
    let covered: usize = found.iter().map(|(region, _)| region.numel()).sum();
    let numel: usize = shape.iter().product();
    match covered == numel {
        true => Ok(()),
        false => Err(CheckpointError::NotCovered {
            leaf: leaf.to_owned(),
            covered,
            numel,
        }),
    }
}
