//! Strided layouts: the positions of the elements of a view in its buffer.

use smallvec::{SmallVec, smallvec};

/// Offset, shape and strides of a view.
///
/// The element with index `i` lies at `offset + sum over axes of i[axis] * strides[axis]`. No
/// stride is negative, because no op reverses an axis. A stride of 0 repeats an element.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    pub offset: usize,
    pub shape: SmallVec<[usize; 4]>,
    pub strides: SmallVec<[usize; 4]>,
}

/// Returns the number of elements of a shape.
pub fn numel(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Returns the distance of element `i` in row-major order from the first one, for axes of these lengths and strides.
#[inline]
pub(crate) fn distance(axes: &[(usize, usize)], mut i: usize) -> usize {
    let mut distance = 0;
    for (len, stride) in axes.iter().rev() {
        distance += i % len * stride;
        i /= len;
    }
    distance
}

impl Clone for Layout {
    /// Copies lengths and strides as slices, which is cheaper than element by element.
    fn clone(&self) -> Layout {
        Layout {
            offset: self.offset,
            shape: SmallVec::from_slice(&self.shape),
            strides: SmallVec::from_slice(&self.strides),
        }
    }
}

impl Layout {
    /// Returns the layout of row-major order without gaps.
    pub fn contiguous(shape: &[usize]) -> Layout {
        let mut strides: SmallVec<[usize; 4]> = smallvec![0; shape.len()];
        let mut stride = 1;
        for (s, &len) in strides.iter_mut().zip(shape).rev() {
            *s = stride;
            // Without elements, any stride is valid.
            stride *= len.max(1);
        }
        Layout {
            offset: 0,
            shape: SmallVec::from_slice(shape),
            strides,
        }
    }

    pub fn numel(&self) -> usize {
        numel(&self.shape)
    }

    /// Returns whether the elements lie in row-major order without gaps, from any offset.
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        for (&len, &s) in self.shape.iter().zip(&self.strides).rev() {
            if len == 0 {
                return true;
            }
            if len != 1 && s != stride {
                return false;
            }
            stride *= len;
        }
        true
    }

    /// Returns the layout in which axis `i` is axis `axes[i]` of `self`.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        Layout {
            offset: self.offset,
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
        }
    }

    /// Broadcasts as NumPy does: axes are aligned from the right.
    ///
    /// # Panics
    ///
    /// If the shapes do not broadcast.
    pub fn broadcast_to(&self, shape: &[usize]) -> Layout {
        if *self.shape == *shape {
            return self.clone();
        }
        let fresh = shape.len() - self.shape.len();
        let strides = shape.iter().enumerate().map(|(axis, &len)| {
            let Some(i) = axis.checked_sub(fresh) else {
                return 0;
            };
            assert!(
                self.shape[i] == len || self.shape[i] == 1,
                "shapes that broadcast"
            );
            if self.shape[i] == len {
                self.strides[i]
            } else {
                0
            }
        });
        Layout {
            offset: self.offset,
            shape: shape.into(),
            strides: strides.collect(),
        }
    }

    /// Selects `len` indices along `axis`: every `step`th one from `start` on.
    pub fn narrow(&self, axis: usize, start: usize, len: usize, step: usize) -> Layout {
        let mut to = self.clone();
        to.shape[axis] = len;
        // An empty view reads nothing and its buffer may be empty, so its offset has to be 0.
        to.offset = match to.shape.contains(&0) {
            true => 0,
            false => self.offset + start * self.strides[axis],
        };
        // With at most one index the step is not used, so any step is valid.
        if len > 1 {
            to.strides[axis] *= step;
        }
        to
    }

    /// Selects `index` along `axis` and removes the axis.
    pub fn take(&self, axis: usize, index: usize) -> Layout {
        let axes: Vec<usize> = (0..self.shape.len()).filter(|a| *a != axis).collect();
        self.narrow(axis, index, 1, 1).permute(&axes)
    }

    /// Returns the layout with another shape and the same elements in row-major order.
    ///
    /// Returns `None` if that needs a copy.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        assert_eq!(
            self.numel(),
            numel(shape),
            "a reshape keeps the number of elements"
        );
        if self.numel() == 0 {
            return Some(Layout::contiguous(shape));
        }
        // Both shapes are walked from the right. `left` elements with distance `stride` remain of
        // the current run of evenly spaced axes; each axis of the result takes its length off the
        // run's right end.
        let mut from = self.runs().into_iter().rev();
        let (mut left, mut stride) = (1, 1);
        let mut strides: SmallVec<[usize; 4]> = smallvec![0; shape.len()];
        for (s, &len) in strides.iter_mut().zip(shape).rev() {
            if len == 1 {
                continue;
            }
            if left == 1 {
                (left, stride) = from.next()?;
            }
            if !left.is_multiple_of(len) {
                return None;
            }
            *s = stride;
            stride *= len;
            left /= len;
        }
        Some(Layout {
            offset: self.offset,
            shape: shape.into(),
            strides,
        })
    }

    /// Returns `(length, stride)` of the axes, with evenly spaced neighbours merged.
    ///
    /// Unit axes are dropped.
    pub fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::with_capacity(self.shape.len());
        for (&len, &stride) in self.shape.iter().zip(&self.strides) {
            if len == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((outer, s)) if *s == len * stride => (*outer, *s) = (*outer * len, stride),
                _ => runs.push((len, stride)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    fn offsets(l: &Layout) -> Vec<usize> {
        let mut all = vec![l.offset];
        for (&len, &stride) in l.shape.iter().zip(&l.strides) {
            all = all
                .iter()
                .flat_map(|o| (0..len).map(move |i| o + i * stride))
                .collect();
        }
        all
    }

    #[test]
    fn a_reshape_without_a_copy_keeps_the_order_of_the_elements() {
        let layouts = [
            Layout::contiguous(&[4, 6]),
            Layout::contiguous(&[6, 4]).permute(&[1, 0]),
            Layout::contiguous(&[4, 12]).narrow(1, 1, 6, 2),
            Layout::contiguous(&[6]).broadcast_to(&[4, 6]),
            Layout::contiguous(&[4, 1]).broadcast_to(&[4, 6]),
            Layout::contiguous(&[]).broadcast_to(&[4, 6]),
        ];
        let shapes: [&[usize]; 6] = [
            &[24],
            &[2, 2, 6],
            &[4, 3, 2],
            &[1, 4, 1, 6, 1],
            &[8, 3],
            &[2, 12],
        ];
        let mut done = String::new();
        for l in &layouts {
            for shape in shapes {
                let to = l.reshape(shape);
                if let Some(to) = &to {
                    assert_eq!(offsets(to), offsets(l), "{l:?} to {shape:?}");
                }
                done.push(if to.is_some() { 'v' } else { 'c' });
            }
            done.push(' ');
        }
        assert_eq!(done, "vvvvvv cvvvcc vvvvvv cvvvcc cvvvcc vvvvvv ");
    }

    #[test]
    fn an_empty_view_starts_at_the_start_of_its_buffer() {
        let l = Layout::contiguous(&[0, 5, 4]);
        assert_eq!(l.narrow(1, 3, 2, 1).offset, 0);
        let l = Layout::contiguous(&[3, 5, 4]).narrow(1, 3, 2, 1);
        assert_eq!((l.offset, l.narrow(0, 2, 0, 1).offset), (12, 0));
    }

    #[test]
    fn an_empty_layout_is_contiguous_and_takes_every_shape() {
        let l = Layout::contiguous(&[3, 0]).permute(&[1, 0]);
        assert!(l.is_contiguous());
        assert_eq!(l.reshape(&[0, 7]).unwrap().shape[..], [0, 7]);
    }
}
