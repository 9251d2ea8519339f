use crate::{DataError, Dataset};
use gradloom::Key;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::vec;

/// The batches of a dataset, in one order for each epoch.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{Batches, DataError, Tensors};
///
/// let data = Tensors::new(Tensor::arange(7, DType::I64))?;
/// let batches = Batches::new(data, 3).shuffle(Key::new(0)).drop_last(true);
/// assert_eq!(batches.n_batches(), 2);
/// let order = |epoch| -> Result<Vec<Vec<i64>>, DataError> {
///     batches.epoch(epoch).map(|batch| Ok(batch?.to_vec())).collect()
/// };
/// // The key and the number of an epoch give its order.
/// assert_eq!(order(3)?, order(3)?);
/// assert_ne!(order(3)?, order(4)?);
/// # Ok::<(), DataError>(())
/// ```
pub struct Batches<D> {
    dataset: Arc<D>,
    size: usize,
    /// Words of a key that is never used itself.
    key: Option<[u32; 2]>,
    last: Last,
    buckets: Option<Buckets>,
    n_ahead: usize,
}

/// Treatment of a last batch that is not full.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Last {
    Keep,
    Drop,
}

struct Buckets {
    /// Longest length of each bucket, in order.
    bounds: Vec<usize>,
    length: Box<dyn Fn(usize) -> usize + Send + Sync>,
}

impl<D: fmt::Debug> fmt::Debug for Batches<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("dataset", &self.dataset)
            .field("size", &self.size)
            .field("last", &self.last)
            .field("n_ahead", &self.n_ahead)
            .finish_non_exhaustive()
    }
}

impl<D: Dataset> Batches<D> {
    /// Returns batches of `size` examples, in the order of the dataset. The last batch may be smaller.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    #[track_caller]
    pub fn new(dataset: D, size: usize) -> Batches<D> {
        assert!(
            size > 0,
            "`Batches::new`: the size of a batch is 0, expected at least 1"
        );
        Batches {
            dataset: Arc::new(dataset),
            size,
            key: None,
            last: Last::Keep,
            buckets: None,
            n_ahead: 0,
        }
    }

    /// Takes the examples of each epoch in a random order. The key and the number of the epoch determine it.
    pub fn shuffle(mut self, key: Key) -> Batches<D> {
        self.key = Some(key.into_words());
        self
    }

    /// Drops batches that are not full: one at the end, or one of each bucket.
    pub fn drop_last(mut self, is_dropped: bool) -> Batches<D> {
        self.last = if is_dropped { Last::Drop } else { Last::Keep };
        self
    }

    /// Makes up to `n` batches ahead, on a thread of each epoch.
    ///
    /// An error or a panic there reaches the caller in its place among the batches. An [`Epoch`] that is dropped ends its
    /// thread after the batch that it makes.
    pub fn prefetch(mut self, n: usize) -> Batches<D> {
        self.n_ahead = n;
        self
    }

    /// Makes batches of examples of similar length: a bucket has those up to one of the bounds, the last bucket longer ones.
    ///
    /// `length` returns the length of an example. It is called for each example in each epoch.
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// use gradloom_data::{Batches, DataError, Tensors};
    ///
    /// let lengths = [1usize, 9, 2, 8];
    /// let data = Tensors::new(Tensor::arange(4, DType::I64))?;
    /// let batches = Batches::new(data, 2).bucket(&[4], move |index| lengths[index]);
    /// let batches = batches.epoch(0).map(|batch| Ok(batch?.to_vec::<i64>()));
    /// assert_eq!(batches.collect::<Result<Vec<_>, DataError>>()?, [[0, 2], [1, 3]]);
    /// # Ok::<(), DataError>(())
    /// ```
    pub fn bucket(
        mut self,
        bounds: &[usize],
        length: impl Fn(usize) -> usize + Send + Sync + 'static,
    ) -> Batches<D> {
        let mut bounds = bounds.to_vec();
        bounds.sort_unstable();
        self.buckets = Some(Buckets {
            bounds,
            length: Box::new(length),
        });
        self
    }

    /// Returns the dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// Returns the number of batches of an epoch.
    pub fn n_batches(&self) -> usize {
        self.in_batches(0..self.dataset.len()).len()
    }

    /// Returns the indices of each batch of an epoch.
    pub fn indices(&self, epoch: u32) -> Vec<Vec<usize>> {
        let n = self.dataset.len();
        match self.key {
            None => self.in_batches(0..n),
            Some(words) => {
                let order = Key::from_words(words).fold_in(epoch).permutation(n);
                let order = order.to_vec::<i64>();
                self.in_batches(order.into_iter().map(|index| index as usize))
            }
        }
    }

    /// Divides an order into batches, which appear when they are full.
    fn in_batches(&self, order: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut open: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut batches = Vec::new();
        for index in order {
            let bucket = self.buckets.as_ref().map_or(0, |buckets| {
                let length = (buckets.length)(index);
                buckets.bounds.partition_point(|bound| *bound < length)
            });
            let batch = open.entry(bucket).or_default();
            batch.push(index);
            if batch.len() == self.size {
                batches.push(std::mem::take(batch));
            }
        }
        if self.last == Last::Keep {
            batches.extend(open.into_values().filter(|batch| !batch.is_empty()));
        }
        batches
    }
}

impl<D> Batches<D>
where
    D: Dataset + Send + Sync + 'static,
    D::Example: Send,
{
    /// Returns the batches of an epoch. Epochs of one number are equal.
    pub fn epoch(&self, epoch: u32) -> Epoch<D> {
        let indices = self.indices(epoch).into_iter();
        let dataset = self.dataset.clone();
        let source = match self.n_ahead {
            0 => Source::Here { dataset, indices },
            n => {
                let (sender, batches) = sync_channel(n - 1);
                let make = move || {
                    for indices in indices {
                        let batch = dataset.batch(&indices);
                        let is_last = batch.is_err();
                        // Without a receiver, nobody wants the rest.
                        if sender.send(batch).is_err() || is_last {
                            return;
                        }
                    }
                };
                Source::Ahead {
                    batches,
                    thread: thread::spawn(make),
                }
            }
        };
        Epoch(Some(source))
    }
}

/// Batches of one epoch. After an error there are no more.
pub struct Epoch<D: Dataset>(Option<Source<D>>);

enum Source<D: Dataset> {
    Here {
        dataset: Arc<D>,
        indices: vec::IntoIter<Vec<usize>>,
    },
    Ahead {
        batches: Receiver<Result<D::Example, DataError>>,
        thread: JoinHandle<()>,
    },
}

impl<D: Dataset> fmt::Debug for Epoch<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").finish_non_exhaustive()
    }
}

impl<D: Dataset> Iterator for Epoch<D> {
    type Item = Result<D::Example, DataError>;

    /// Returns the next batch.
    ///
    /// # Panics
    ///
    /// If the thread that makes batches ahead has panicked, with the same panic.
    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.0.as_mut()? {
            Source::Here { dataset, indices } => indices.next().map(|batch| dataset.batch(&batch)),
            Source::Ahead { batches, .. } => batches.recv().ok(),
        };
        if !matches!(batch, Some(Ok(_)))
            && let Some(Source::Ahead { thread, batches }) = self.0.take()
        {
            drop(batches);
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        batch
    }
}
