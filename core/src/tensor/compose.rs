//! Methods that consist of other ops, which give their derivatives.

use super::Tensor;
use crate::raise::raise;
use crate::{DType, Error};

/// Returns an axis counted from the left.
#[track_caller]
fn axis_of(x: &Tensor, axis: i64) -> usize {
    let rank = x.rank() as i64;
    let found = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&found) {
        raise(Error::NoAxis {
            axis: axis as isize,
            aval: x.aval().clone(),
        });
    }
    found as usize
}

fn lens(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|len| *len as i64).collect()
}

/// Ops that repeat, combine and order elements.
impl Tensor {
    /// The whole tensor repeated along each axis: `counts` has a number for each of the last axes.
    ///
    /// More numbers than axes add axes in front.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.tile([2]).to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
    /// assert_eq!(x.tile([3, 1]).shape(), [3, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the result is too large.
    #[track_caller]
    pub fn tile(&self, counts: impl AsRef<[usize]>) -> Tensor {
        let counts = counts.as_ref();
        let rank = self.rank().max(counts.len());
        let at =
            |list: &[usize], i: usize| (i + list.len()).checked_sub(rank).map_or(1, |i| list[i]);
        let pair = |i: usize| [at(counts, i), at(self.shape(), i)];
        let (split, wide): (Vec<_>, Vec<_>) = (0..rank).map(|i| ([1, pair(i)[1]], pair(i))).unzip();
        let whole: Vec<usize> = (0..rank)
            .map(|i| at(counts, i).saturating_mul(at(self.shape(), i)))
            .collect();
        self.reshape(lens(&split.concat()))
            .broadcast_to(lens(&wide.concat()))
            .reshape(lens(&whole))
    }

    /// The median along an axis: the middle element, or the mean of both. NaN if there is one.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0, 8.0]);
    /// assert_eq!(x.median(0).item::<f32>(), 2.5);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or has length 0, or the dtype is no float.
    #[track_caller]
    pub fn median(&self, axis: i64) -> Tensor {
        self.quantile(0.5, axis)
    }

    /// The element at the fraction `q` of the sorted elements along an axis. NaN if there is one.
    ///
    /// Between two elements, the result is interpolated.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.quantile(0.25, 0).item::<f32>(), 1.5);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or has length 0, `q` is not from 0 to 1, or the dtype is no float.
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: i64) -> Tensor {
        let at = axis_of(self, axis);
        let n = self.shape()[at];
        let refuse = |reason: String| -> ! {
            let call = "quantile".to_owned();
            raise(Error::Arguments { call, reason })
        };
        if n == 0 {
            refuse(format!("axis {axis} has length 0"));
        }
        if !(0.0..=1.0).contains(&q) {
            refuse(format!("{q} is not from 0 to 1"));
        }
        if !self.dtype().is_float() {
            refuse(format!("the dtype is {}, expected a float", self.dtype()));
        }
        let sorted = self.sort(axis);
        let element = |i: usize| {
            let [mut starts, mut stops] = [vec![0; at + 1], vec![i64::MAX; at + 1]];
            (starts[at], stops[at]) = (i as i64, i as i64 + 1);
            sorted
                .slice(starts, stops, vec![1; at + 1])
                .squeeze(at as i64)
        };
        let place = q * (n - 1) as f64;
        let (low, fraction) = (place.floor(), place.fract());
        let value = match fraction == 0.0 {
            true => element(low as usize),
            false => {
                let (x, y) = (element(low as usize), element(low as usize + 1));
                x * (1.0 - fraction) + y * fraction
            }
        };
        // NaN is the last of the sorted elements.
        let last = element(n - 1);
        last.ne(&last).select(&last, &value)
    }

    /// For each of `values`, the first index at which it keeps an ascending vector sorted, as `i64`.
    ///
    /// It is the number of elements that are less. It has no derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 4.0]);
    /// let places = x.searchsorted(&Tensor::from([2.0f32, 9.0]));
    /// assert_eq!(places.to_vec::<i64>(), [1, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtypes differ.
    #[track_caller]
    pub fn searchsorted(&self, values: impl AsRef<Tensor>) -> Tensor {
        let less = self.lt(values.as_ref().unsqueeze(-1));
        less.cast(DType::I64).sum(-1)
    }

    /// The elements at `index(place, len)` for each `place` of each padded axis of length `len`.
    #[track_caller]
    fn padded_from(
        &self,
        call: &str,
        low: &[usize],
        high: &[usize],
        index: impl Fn(i64, i64) -> Option<i64>,
    ) -> Tensor {
        if [low.len(), high.len()] != [self.rank(); 2] {
            raise(Error::Arguments {
                call: call.to_owned(),
                reason: format!(
                    "{} and {} numbers are given for {} axes",
                    low.len(),
                    high.len(),
                    self.rank()
                ),
            });
        }
        let mut x = self.clone();
        for (axis, (low, high)) in low.iter().zip(high).enumerate() {
            if *low == 0 && *high == 0 {
                continue;
            }
            let len = self.shape()[axis] as i64;
            let places = -(*low as i64)..len + *high as i64;
            let indices: Option<Vec<i64>> = places.map(|place| index(place, len)).collect();
            let Some(indices) = indices else {
                raise(Error::Arguments {
                    call: call.to_owned(),
                    reason: format!("axis {axis} has length {len}, which is too short"),
                });
            };
            x = x.take(Tensor::from(indices), axis as i64);
        }
        x
    }

    /// Elements added at both ends of each axis: those inside, mirrored at the first and last element.
    ///
    /// `low` and `high` are the numbers of elements for each axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.pad_reflect([2], [1]).to_vec::<f32>(), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the numbers are not one for each axis, or a padded axis has length 0.
    #[track_caller]
    pub fn pad_reflect(&self, low: impl AsRef<[usize]>, high: impl AsRef<[usize]>) -> Tensor {
        self.padded_from("pad_reflect", low.as_ref(), high.as_ref(), |place, len| {
            // A single element is its own mirror image.
            let period = (2 * (len - 1)).max(1);
            let at = place.rem_euclid(period);
            (len > 0).then(|| at.min(period - at).min(len - 1))
        })
    }

    /// Elements added at both ends of each axis: the first and the last one, repeated.
    ///
    /// `low` and `high` are the numbers of elements for each axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.pad_edge([2], [1]).to_vec::<f32>(), [1.0, 1.0, 1.0, 2.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the numbers are not one for each axis, or a padded axis has length 0.
    #[track_caller]
    pub fn pad_edge(&self, low: impl AsRef<[usize]>, high: impl AsRef<[usize]>) -> Tensor {
        self.padded_from("pad_edge", low.as_ref(), high.as_ref(), |place, len| {
            (len > 0).then(|| place.clamp(0, len - 1))
        })
    }

    /// Elements added at both ends of each axis: those of the other end, as if the axis were a ring.
    ///
    /// `low` and `high` are the numbers of elements for each axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.pad_wrap([1], [1]).to_vec::<f32>(), [3.0, 1.0, 2.0, 3.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the numbers are not one for each axis, or a padded axis has length 0.
    #[track_caller]
    pub fn pad_wrap(&self, low: impl AsRef<[usize]>, high: impl AsRef<[usize]>) -> Tensor {
        self.padded_from("pad_wrap", low.as_ref(), high.as_ref(), |place, len| {
            (len > 0).then(|| place.rem_euclid(len))
        })
    }

    /// Returns `count` evenly spaced numbers from `start` to `stop`, including both.
    ///
    /// A single number is `start`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3, DType::F32).to_vec::<f32>(), [0.0, 0.5, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is no float, or there are too many numbers.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        if !dtype.is_float() {
            raise(Error::Arguments {
                call: "linspace".into(),
                reason: format!("the dtype is {dtype}, expected a float"),
            });
        }
        let steps = count.max(2) - 1;
        let t = Tensor::arange(count as i64, DType::F64) / steps as f64;
        ((1.0 - &t) * start + t * stop).cast(dtype)
    }

    /// Returns each of these vectors repeated to the shape of their lengths, along its own axis.
    ///
    /// The first vector varies along the first axis.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let grid = Tensor::meshgrid(&[Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 4.0])]);
    /// assert_eq!(grid[0].to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0]);
    /// assert_eq!(grid[1].to_vec::<f32>(), [3.0, 4.0, 3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the result is too large.
    #[track_caller]
    pub fn meshgrid<T: AsRef<Tensor>>(tensors: &[T]) -> Vec<Tensor> {
        let whole: Vec<i64> = tensors.iter().map(|x| x.as_ref().numel() as i64).collect();
        let along = |(axis, x): (usize, &T)| {
            let mut shape = vec![1; whole.len()];
            shape[axis] = whole[axis];
            x.as_ref().reshape(shape).broadcast_to(whole.clone())
        };
        tensors.iter().enumerate().map(along).collect()
    }
}
