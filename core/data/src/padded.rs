use crate::dataset::stack_leaves;
use crate::elements::joined;
use crate::{DataError, Dataset};
use gradloom::{Tensor, tree};

/// Sequences of different lengths, padded to the longest one of a batch, with a mask.
///
/// All leaves of an example that have an axis are sequences of the same length, along axis 0. Leaves of rank 0, such as a
/// label, stay. A batch is `(examples, mask)`. The mask `bool[examples, longest]` is true where an element is one of a
/// sequence.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{Batches, DataError, Dataset, Padded};
///
/// struct Words(Vec<Vec<i64>>);
///
/// impl Dataset for Words {
///     type Example = Tensor;
///     fn len(&self) -> usize {
///         self.0.len()
///     }
///     fn get(&self, index: usize) -> Result<Tensor, DataError> {
///         Ok(Tensor::from(self.0[index].clone()))
///     }
/// }
///
/// let words = Words(vec![vec![1, 2, 3], vec![4], vec![5, 6]]);
/// let mut epoch = Batches::new(Padded::new(words, -1.0), 2).epoch(0);
/// let (x, mask) = epoch.next().unwrap()?;
/// assert_eq!(x.to_vec::<i64>(), [1, 2, 3, 4, -1, -1]);
/// assert_eq!(mask.to_vec::<bool>(), [true, true, true, true, false, false]);
/// let (x, _) = epoch.next().unwrap()?;
/// assert_eq!(x.shape(), [1, 2]);
/// # Ok::<(), DataError>(())
/// ```
///
/// Each length is a shape of its own, for which a function is planned again. [`pad_to`](Self::pad_to) gives all batches
/// one shape, and [`Batches::bucket`](crate::Batches::bucket) few.
#[derive(Debug)]
pub struct Padded<D> {
    dataset: D,
    value: f64,
    lengths: Vec<usize>,
    is_limit: bool,
}

impl<D: Dataset> Padded<D> {
    /// Pads with a number, which has to be a value of the dtype of each sequence.
    pub fn new(dataset: D, value: f64) -> Padded<D> {
        Padded {
            dataset,
            value,
            lengths: Vec::new(),
            is_limit: false,
        }
    }

    /// Pads to this length. A longer sequence is an error.
    pub fn pad_to(mut self, length: usize) -> Padded<D> {
        (self.lengths, self.is_limit) = (vec![length], true);
        self
    }

    /// Pads to the first of these lengths that is not too short, or to the longest sequence if all are.
    ///
    /// With the bounds of [`Batches::bucket`](crate::Batches::bucket) each bucket has one shape.
    pub fn pad_to_one_of(mut self, lengths: &[usize]) -> Padded<D> {
        (self.lengths, self.is_limit) = (lengths.to_vec(), false);
        self.lengths.sort_unstable();
        self
    }

    fn padded(
        &self,
        examples: &[D::Example],
    ) -> Result<(D::Example, Vec<usize>, usize), DataError> {
        let lengths = examples.iter().map(length).collect::<Result<Vec<_>, _>>()?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let found = self.lengths.iter().copied().find(|n| *n >= longest);
        let n = match (found, &*self.lengths) {
            (Some(n), _) => n,
            (None, [expected]) if self.is_limit => {
                return Err(DataError::TooLong {
                    found: longest,
                    expected: *expected,
                });
            }
            (None, _) => longest,
        };
        let join = |path: &str, parts: &[Tensor]| {
            let row = |x: &Tensor| x.shape().get(1..).unwrap_or_default().to_vec();
            let first = &parts[0];
            for x in parts {
                if (x.dtype(), x.rank(), row(x)) != (first.dtype(), first.rank(), row(first)) {
                    return Err(DataError::Stack {
                        leaf: path.to_owned(),
                        found: x.aval().to_string(),
                        expected: first.aval().to_string(),
                    });
                }
            }
            let sequence = &[n][..first.rank().min(1)];
            let shape = [&[parts.len()], sequence, &row(first)].concat();
            let numel = shape[1..].iter().product();
            match joined(parts, numel, self.value, shape) {
                Some(x) => Ok(x?),
                None => Err(DataError::PadValue {
                    leaf: path.to_owned(),
                    value: self.value,
                    dtype: first.dtype(),
                }),
            }
        };
        Ok((stack_leaves(examples, join)?, lengths, n))
    }
}

/// Returns the length of the sequences of an example, or 0 without one.
fn length<T: gradloom::Tree>(example: &T) -> Result<usize, DataError> {
    let mut length = None;
    for (path, x) in tree::leaves_with_paths(example) {
        if let Some(found) = x.shape().first() {
            let expected = *length.get_or_insert(*found);
            if *found != expected {
                return Err(DataError::Examples {
                    leaf: path,
                    found: x.shape().to_vec(),
                    expected,
                });
            }
        }
    }
    Ok(length.unwrap_or(0))
}

impl<D: Dataset> Dataset for Padded<D> {
    type Example = (D::Example, Tensor);

    fn len(&self) -> usize {
        self.dataset.len()
    }

    /// Returns an example as it is, with a mask that is true.
    fn get(&self, index: usize) -> Result<Self::Example, DataError> {
        let example = self.dataset.get(index)?;
        let mask = Tensor::from(vec![true; length(&example)?]);
        Ok((example, mask))
    }

    fn batch(&self, indices: &[usize]) -> Result<Self::Example, DataError> {
        let examples = indices.iter().map(|index| self.dataset.get(*index));
        let (examples, lengths, n) = self.padded(&examples.collect::<Result<Vec<_>, _>>()?)?;
        let mask = lengths.iter().flat_map(|len| (0..n).map(move |i| i < *len));
        let mask = Tensor::try_from_vec(mask.collect::<Vec<bool>>(), [lengths.len(), n])?;
        Ok((examples, mask))
    }
}
