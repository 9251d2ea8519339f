//! Copies of strided elements.

use crate::memory::layout::{Layout, distance, numel};
use crate::memory::words::Payload;
use crate::movement::blocks::Blocks;
use crate::movement::gather::Gather;
use crate::movement::{BYTES_PER_NANO, PART_BYTES};
use crate::threads::{for_each_part, worth};

/// Number of elements from which axes that change places are copied block by block.
const MANY: usize = 256;

/// Copy into row-major order, resolved for a layout.
pub(crate) struct Copy {
    offset: usize,
    order: Order,
}

/// Order in which the elements are copied.
enum Order {
    /// That of the result.
    Rows(Gather),
    /// Block by block.
    Blocks(Box<Blocks>),
}

impl Copy {
    /// Resolves a copy of elements of `size` bytes.
    pub(crate) fn new(layout: &Layout, size: usize) -> Copy {
        let blocks = Blocks::new(&layout.runs(), size);
        let blocks = blocks.filter(|_| layout.numel() >= MANY);
        let rows = || {
            Order::Rows(Gather::new(&Layout {
                offset: 0,
                ..layout.clone()
            }))
        };
        Copy {
            offset: layout.offset,
            order: blocks.map_or_else(rows, |blocks| Order::Blocks(Box::new(blocks))),
        }
    }

    /// Writes all of `out`.
    pub(crate) fn run<T: Payload>(&self, data: &[T], out: &mut [T]) {
        if out.is_empty() {
            return;
        }
        let data = &data[self.offset..];
        match &self.order {
            Order::Rows(gather) => gather.read(data, 0, out),
            Order::Blocks(blocks) => blocks.run(data, out),
        }
    }
}

/// Number of bytes of the result from which a copy has parts.
const LARGE: usize = 4 * PART_BYTES;

/// Multiple of indices of a part, so that it has whole cache lines of rows that become columns.
const GRAIN: usize = 16;

/// Copy into row-major order that several threads share.
pub(crate) struct CopyInParts {
    whole: Copy,
    parts: Option<Parts>,
}

/// Parts along an axis, at each index of the axes before it.
struct Parts {
    /// Lengths and strides of the axes before it.
    outer: Box<[(usize, usize)]>,
    len: usize,
    stride: usize,
    /// Number of elements of the result at an index of the axis.
    inner: usize,
    n_parts: usize,
    /// Number of indices of a part and its copy: of the first parts, and of the last one.
    copies: [(usize, Copy); 2],
}

impl CopyInParts {
    /// Resolves a copy of elements of `size` bytes.
    pub(crate) fn new(layout: &Layout, size: usize) -> CopyInParts {
        let large = layout.numel() * size >= LARGE;
        CopyInParts {
            whole: Copy::new(layout, size),
            parts: large.then(|| Parts::new(layout, size)),
        }
    }

    /// Writes all of `out`.
    pub(crate) fn run<T: Payload>(&self, data: &[T], out: &mut [T]) {
        let nanos = size_of_val(out) / BYTES_PER_NANO;
        match &self.parts {
            Some(parts) if worth(nanos) > 1 => parts.run(data, out, nanos),
            _ => self.whole.run(data, out),
        }
    }
}

impl Parts {
    /// `layout` has elements.
    fn new(layout: &Layout, size: usize) -> Parts {
        let inner = |axis: usize| numel(&layout.shape[axis + 1..]);
        let small = |axis: &usize| inner(*axis) * size <= PART_BYTES;
        let axis = (0..layout.shape.len()).find(small).unwrap_or(0);
        let (len, inner) = (layout.shape[axis], inner(axis));
        let n = (PART_BYTES / (inner * size))
            .next_multiple_of(GRAIN)
            .min(len);
        let copy = |n: usize| {
            let mut part = layout.narrow(axis, 0, n, 1);
            for axis in 0..axis {
                part = part.narrow(axis, 0, 1, 1);
            }
            let mut copy = Copy::new(&part, size);
            if let Order::Blocks(blocks) = &mut copy.order {
                blocks.whole = layout.numel();
            }
            (n, copy)
        };
        // The last part takes what is left, unless that is a part of its own.
        let n_parts = if len % n < GRAIN {
            (len / n).max(1)
        } else {
            len.div_ceil(n)
        };
        let axes = layout.shape.iter().zip(&layout.strides);
        Parts {
            outer: axes
                .take(axis)
                .map(|(len, stride)| (*len, *stride))
                .collect(),
            len,
            stride: layout.strides[axis],
            inner,
            n_parts,
            copies: [copy(n), copy(len - (n_parts - 1) * n)],
        }
    }

    fn run<T: Payload>(&self, data: &[T], out: &mut [T], nanos: usize) {
        let [(n, copy), (_, last)] = &self.copies;
        let n_parts = self.n_parts;
        let n_outer: usize = self.outer.iter().map(|axis| axis.0).product();
        let start = |i: usize| (i / n_parts * self.len + i % n_parts * n) * self.inner;
        for_each_part(out, n_outer * n_parts, nanos, start, |i, out| {
            let (outer, part) = (i / n_parts, i % n_parts);
            let at = distance(&self.outer, outer) + part * n * self.stride;
            let copy = if part + 1 == n_parts { last } else { copy };
            copy.run(&data[at..], out);
        });
    }
}

/// Copy of contiguous elements into a strided part of a result.
pub(crate) struct Scatter {
    layout: Layout,
    runs: Vec<(usize, usize)>,
    inner: (usize, usize),
}

impl Scatter {
    pub(crate) fn new(layout: &Layout) -> Scatter {
        let mut runs = layout.runs();
        let inner = runs.pop().unwrap_or((1, 1));
        Scatter {
            layout: layout.clone(),
            runs,
            inner,
        }
    }

    /// Writes `xs`, in row-major order, to the part.
    pub(crate) fn run<T: Payload>(&self, xs: &[T], out: &mut [T]) {
        self.combine(xs, out, |_, x| x);
    }

    /// Returns whether the part consists of contiguous rows in the order of memory.
    pub(crate) fn is_ascending(&self) -> bool {
        let (mut reach, stride) = self.inner;
        let ascends = |&(len, stride): &(usize, usize)| {
            let ascends = stride >= reach;
            reach += len.saturating_sub(1) * stride;
            ascends
        };
        stride == 1 && self.runs.iter().rev().all(ascends)
    }

    /// Writes the whole result, of which the part [ascends](Self::is_ascending).
    ///
    /// `read(i, row)` writes a row, which starts with element `i` of the part. Other elements are `value`.
    pub(crate) fn write_rows<T: Payload>(
        &self,
        out: &mut [T],
        value: T,
        read: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let len = self.inner.0;
        let n_rows = self.layout.numel() / len.max(1);
        let nanos = size_of_val(out) / BYTES_PER_NANO;
        let n_parts = size_of_val(out).div_ceil(PART_BYTES).min(n_rows).max(1);
        let first = |part: usize| part * n_rows / n_parts;
        // Other elements belong to the row before them.
        let start = |part: usize| {
            if part == 0 {
                0
            } else {
                self.start(first(part))
            }
        };
        for_each_part(out, n_parts, nanos, start, |part, out| {
            let (from, mut done) = (start(part), 0);
            for row in first(part)..first(part + 1) {
                let at = self.start(row) - from;
                out[done..at].fill(value);
                read(row * len, &mut out[at..at + len]);
                done = at + len;
            }
            out[done..].fill(value);
        });
    }

    /// Returns the index of the first element of a row.
    fn start(&self, row: usize) -> usize {
        self.layout.offset + distance(&self.runs, row)
    }

    /// Replaces each element of the part by its combination with that of `xs`, which is in row-major order.
    pub(crate) fn combine<T: Payload>(&self, xs: &[T], out: &mut [T], by: impl Fn(T, T) -> T) {
        if self.layout.numel() == 0 {
            return;
        }
        let (len, stride) = self.inner;
        let lens: Vec<usize> = self.runs.iter().map(|run| run.0).collect();
        for (row, piece) in xs.chunks_exact(len).enumerate().take(numel(&lens)) {
            let at = self.start(row);
            if stride == 1 {
                for (y, &x) in out[at..at + len].iter_mut().zip(piece) {
                    *y = by(*y, x);
                }
            } else {
                for (y, &x) in out[at..].iter_mut().step_by(stride).zip(piece) {
                    *y = by(*y, x);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Copy;
    use crate::memory::element::Element;
    use crate::memory::layout::Layout;
    use crate::memory::{Data, DataMut};
    use crate::movement::{scatter_onto, scatter_view};
    use gradloom_ir::{DType, Static};
    use half::f16;

    /// Random numbers below a bound.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            // Knuth's MMIX.
            self.0 = self.0.wrapping_mul(6364136223846793005);
            self.0 = self.0.wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }
    }

    /// Returns the positions of the elements in row-major order.
    pub(crate) fn positions(layout: &Layout) -> Vec<usize> {
        let axes = layout.shape.iter().zip(&layout.strides);
        axes.fold(vec![layout.offset], |starts, (&len, &stride)| {
            let along = |start: &usize| {
                let start = *start;
                (0..len).map(move |i| start + i * stride)
            };
            starts.iter().flat_map(along).collect()
        })
    }

    #[track_caller]
    fn check<T: Element>(layout: &Layout, len: usize, of: impl Fn(usize) -> T) {
        let data: Vec<T> = (0..len).map(&of).collect();
        let want: Vec<T> = positions(layout).iter().map(|i| data[*i]).collect();
        let mut out = vec![of(7); want.len()];
        Copy::new(layout, size_of::<T>()).run(&data, &mut out);
        assert!(out == want, "{layout:?} of {}", T::TYPE);
    }

    fn check_all(layout: &Layout, len: usize) {
        check(layout, len, |i| i as u8);
        check(layout, len, |i| i % 3 == 0);
        check(layout, len, |i| f16::from_bits(i as u16 & 0x3ff));
        check(layout, len, |i| i as i32);
        check(layout, len, |i| i as i64);
    }

    /// Returns all orders of `n` axes.
    pub(crate) fn permutations(n: usize) -> Vec<Vec<usize>> {
        let Some(last) = n.checked_sub(1) else {
            return vec![Vec::new()];
        };
        let insert = |axes: Vec<usize>| {
            (0..n).map(move |at| {
                let mut axes = axes.clone();
                axes.insert(at, last);
                axes
            })
        };
        permutations(last).into_iter().flat_map(insert).collect()
    }

    #[test]
    fn all_permutations_of_up_to_four_axes_are_copied() {
        let shapes: [&[usize]; 16] = [
            &[64, 64],
            &[200, 130],
            &[3, 700],
            &[1024, 33],
            &[0, 5],
            &[1],
            &[300],
            &[17, 8, 40],
            &[40, 3, 50],
            &[16, 64, 0],
            &[7, 13, 17, 19],
            &[16, 16, 16, 16],
            &[5, 64, 3, 16],
            &[300, 2, 3, 4],
            &[2, 1, 65, 66],
            &[3, 3, 3, 129],
        ];
        for shape in shapes {
            let layout = Layout::contiguous(shape);
            for axes in permutations(shape.len()) {
                check_all(&layout.permute(&axes), layout.numel());
            }
        }
    }

    #[test]
    fn parts_of_random_layouts_are_copied() {
        let mut random = Random(1);
        for _ in 0..600 {
            let rank = 1 + random.below(4);
            let most = [900, 90, 25, 12][rank - 1];
            let shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(most)).collect();
            let mut layout = Layout::contiguous(&shape);
            let len = layout.numel();
            for (axis, &n) in shape.iter().enumerate() {
                layout = match random.below(8) {
                    0 => {
                        let mut shape = layout.shape.to_vec();
                        shape[axis] = 1 + random.below(20);
                        layout.narrow(axis, n / 2, 1, 1).broadcast_to(&shape)
                    }
                    1 => {
                        let step = 1 + random.below(8);
                        let start = random.below(n);
                        layout.narrow(axis, start, (n - start).div_ceil(step), step)
                    }
                    2 => layout.narrow(axis, n / 3, n - n / 3, 1),
                    _ => layout,
                };
            }
            let mut axes: Vec<usize> = (0..rank).collect();
            for i in 0..rank {
                axes.swap(i, random.below(rank));
            }
            check_all(&layout.permute(&axes), len);
        }
    }

    #[test]
    fn parts_of_filled_tensors_are_written_from_views() {
        let parts: [(&[usize], &[usize]); 5] = [
            (&[40, 50], &[1, 2]),
            (&[33], &[1]),
            (&[3, 9, 70], &[1, 2, 1]),
            (&[2, 5, 4, 40], &[2, 1, 3, 1]),
            (&[0, 40], &[1, 1]),
        ];
        for (shape, steps) in parts {
            let part = |before: usize, after: usize| {
                let step = |axis: usize| {
                    if axis + 1 == shape.len() {
                        1
                    } else {
                        steps[axis]
                    }
                };
                let whole = (0..shape.len()).map(|i| before + shape[i] * step(i) + after);
                let whole = Layout::contiguous(&whole.collect::<Vec<_>>());
                let axes = 0..shape.len();
                let part = axes.fold(whole.clone(), |part, axis| {
                    part.narrow(axis, before, shape[axis], step(axis))
                });
                (part, whole.numel())
            };
            for (to, from) in [((0, 0), (1, 3)), ((2, 5), (0, 1)), ((7, 0), (3, 3))] {
                let ((to, len), (from, n)) = (part(to.0, to.1), part(from.0, from.1));
                let data: Vec<f32> = (0..n).map(|i| i as f32).collect();
                let mut want = vec![0.5; len];
                for (to, from) in positions(&to).into_iter().zip(positions(&from)) {
                    want[to] = data[from];
                }
                let value = Static::Float(0.5);
                let mut found = vec![9.0; len];
                let kernel = scatter_view(DType::F32, &from, &to, &value).unwrap();
                kernel(&[Data::F32(&data)], &mut [DataMut::F32(&mut found)]).unwrap();
                assert_eq!(found, want, "{from:?} to {to:?}");
                let dense: Vec<f32> = positions(&from).iter().map(|i| data[*i]).collect();
                let mut found = vec![9.0; len];
                let kernel = scatter_onto(DType::F32, &to, &value);
                kernel(&[Data::F32(&dense)], &mut [DataMut::F32(&mut found)]).unwrap();
                assert_eq!(found, want, "to {to:?}");
            }
        }
    }

    #[test]
    fn large_results_and_rows_in_one_set_of_the_cache_are_copied() {
        for shape in [[1024, 2080], [2048, 1024], [128, 16384]] {
            let layout = Layout::contiguous(&shape).permute(&[1, 0]);
            check(&layout, layout.numel(), |i| i as f32);
            check(&layout, layout.numel(), |i| i as f64);
            check(&layout, layout.numel(), |i| {
                f16::from_bits(i as u16 & 0x3ff)
            });
            check(&layout, layout.numel(), |i| i as u8);
        }
    }
}
