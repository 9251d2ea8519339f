//! Batches: orders, threads made ahead, padding and buckets.

use gradloom::prelude::*;
use gradloom_data::{Batches, DataError, Dataset, Padded, Tensors, stack};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn numbers(n: usize) -> Tensors<Tensor> {
    Tensors::new(Tensor::arange(n, DType::I64)).unwrap()
}

fn order<D>(batches: &Batches<D>, epoch: u32) -> Vec<Vec<i64>>
where
    D: Dataset<Example = Tensor> + Send + Sync + 'static,
{
    batches
        .epoch(epoch)
        .map(|batch| batch.unwrap().to_vec())
        .collect()
}

#[test]
fn an_epoch_has_each_example_once_in_an_order_of_its_own() {
    let batches = Batches::new(numbers(103), 10).shuffle(Key::new(1));
    assert_eq!(batches.n_batches(), 11);
    let first = order(&batches, 0);
    assert_eq!(first.last().unwrap().len(), 3);
    let mut all = first.concat();
    all.sort_unstable();
    assert_eq!(all, (0..103).collect::<Vec<_>>());
    assert_ne!(first, order(&batches, 1));
    // Another value of the same key, with batches made ahead.
    let ahead = Batches::new(numbers(103), 10)
        .shuffle(Key::new(1))
        .prefetch(3);
    assert_eq!(first, order(&ahead, 0));
    assert_ne!(
        first,
        order(&Batches::new(numbers(103), 10).shuffle(Key::new(2)), 0)
    );
    let full = batches.drop_last(true);
    assert_eq!(
        (full.n_batches(), order(&full, 0)),
        (10, first[..10].to_vec())
    );
    assert_eq!(
        order(&Batches::new(numbers(0), 4).prefetch(1), 0),
        [[0; 0]; 0]
    );
    assert_eq!(
        order(&Batches::new(numbers(3), 2), 9),
        [vec![0, 1], vec![2]]
    );
}

#[test]
fn rows_of_trees_keep_shapes_and_dtypes() {
    let x = Tensor::arange(12, DType::F64).reshape([3, 2, 2]);
    let data = Tensors::new((x, vec![Tensor::from([true, false, true])])).unwrap();
    let (x, flags) = data.batch(&[2, 2, 0]).unwrap();
    assert_eq!(x.shape(), [3, 2, 2]);
    assert_eq!(x.to_vec::<f64>()[..5], [8.0, 9.0, 10.0, 11.0, 8.0]);
    assert_eq!(flags[0].to_vec::<bool>(), [true, true, true]);
    let (x, flags) = data.get(1).unwrap();
    assert_eq!((x.shape(), flags[0].shape()), (&[2, 2][..], &[][..]));
    let error = Tensors::new((Tensor::from([1.0f32, 2.0]), Tensor::from([1i64]))).unwrap_err();
    let expected = "the leaf `1` has the shape [1], expected 2 examples on axis 0";
    assert_eq!(error.to_string(), expected);
    assert!(Tensors::new(Tensor::from(1.0f32)).is_err());
}

/// Fails or panics at an index, and counts the examples that it makes.
struct Breaks {
    n: usize,
    error_at: Option<usize>,
    panic_at: Option<usize>,
    n_made: Arc<AtomicUsize>,
}

fn breaks(error_at: Option<usize>, panic_at: Option<usize>) -> (Breaks, Arc<AtomicUsize>) {
    let n_made = Arc::new(AtomicUsize::new(0));
    let data = Breaks {
        n: 1000,
        error_at,
        panic_at,
        n_made: n_made.clone(),
    };
    (data, n_made)
}

impl Dataset for Breaks {
    type Example = Tensor;
    fn len(&self) -> usize {
        self.n
    }
    fn get(&self, index: usize) -> Result<Tensor, DataError> {
        assert_ne!(Some(index), self.panic_at, "the camera is off");
        if Some(index) == self.error_at {
            return Err(DataError::Example {
                index,
                source: "no such photo".into(),
            });
        }
        self.n_made.fetch_add(1, Ordering::SeqCst);
        Ok(Tensor::from(index as i64))
    }
}

#[test]
fn errors_and_panics_of_the_thread_reach_the_caller_after_the_batches_before() {
    for n_ahead in [0, 1, 4] {
        let mut epoch = Batches::new(breaks(Some(7), None).0, 2)
            .prefetch(n_ahead)
            .epoch(0);
        for i in 0..3 {
            let batch = epoch.next().unwrap().unwrap();
            assert_eq!(batch.to_vec::<i64>(), [2 * i, 2 * i + 1]);
        }
        let error = epoch.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "example 7: no such photo");
        assert!(epoch.next().is_none());

        let mut epoch = Batches::new(breaks(None, Some(5)).0, 2)
            .prefetch(n_ahead)
            .epoch(0);
        assert!(epoch.next().unwrap().is_ok() && epoch.next().unwrap().is_ok());
        let panic = catch_unwind(AssertUnwindSafe(|| epoch.next())).unwrap_err();
        let text = panic.downcast::<String>().unwrap();
        assert!(text.contains("the camera is off"), "{text}");
        if n_ahead > 0 {
            assert!(epoch.next().is_none());
        }
    }
}

#[test]
fn a_thread_makes_a_bounded_number_of_batches_and_ends_with_its_epoch() {
    let (data, n_made) = breaks(None, None);
    let batches = Batches::new(data, 2).prefetch(3);
    let mut epoch = batches.epoch(0);
    epoch.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // One batch was taken, and three are ready.
    assert!(n_made.load(Ordering::SeqCst) <= 2 * 4);
    drop(epoch);
    std::thread::sleep(Duration::from_millis(200));
    let n = n_made.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(n_made.load(Ordering::SeqCst), n);
    // Only the batches themselves hold the dataset: the thread has ended.
    assert_eq!(Arc::strong_count(&n_made), 2);
    for epoch in 0..200 {
        drop(batches.epoch(epoch));
    }
}

struct Words(Vec<usize>);

impl Dataset for Words {
    type Example = (Tensor, Tensor, Tensor);
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Result<Self::Example, DataError> {
        let n = self.0[index];
        let words = Tensor::full([n], index as f64, DType::I64);
        let vectors = Tensor::full([n, 2], 1.0, DType::F32);
        Ok((words, vectors, Tensor::from(index as i64)))
    }
}

#[test]
fn sequences_are_padded_with_a_mask() {
    let words = || Padded::new(Words(vec![2, 0, 3]), 0.0);
    let ((words_of, vectors, labels), mask) = words().batch(&[0, 1, 2]).unwrap();
    assert_eq!(words_of.to_vec::<i64>(), [0, 0, 0, 0, 0, 0, 2, 2, 2]);
    assert_eq!(vectors.shape(), [3, 3, 2]);
    assert_eq!(vectors.to_vec::<f32>()[..6], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(labels.to_vec::<i64>(), [0, 1, 2]);
    let (yes, no) = (true, false);
    assert_eq!(
        mask.to_vec::<bool>(),
        [yes, yes, no, no, no, no, yes, yes, yes]
    );

    let (_, mask) = words().pad_to(5).batch(&[0]).unwrap();
    assert_eq!(mask.to_vec::<bool>(), [yes, yes, no, no, no]);
    let error = words().pad_to(2).batch(&[0, 2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a sequence has the length 3, and `pad_to` is 2"
    );
    let shape = |lengths: &[usize]| {
        words()
            .pad_to_one_of(lengths)
            .batch(&[2])
            .unwrap()
            .1
            .shape()
            .to_vec()
    };
    assert_eq!((shape(&[8, 4, 2]), shape(&[2])), (vec![1, 4], vec![1, 3]));
    let error = Padded::new(Words(vec![2, 1]), 0.5)
        .batch(&[0, 1])
        .unwrap_err();
    let expected = "the leaf `0` cannot be padded with 0.5, which is not a value of I64";
    assert_eq!(error.to_string(), expected);
    let ((x, ..), mask) = words().get(0).unwrap();
    assert_eq!(
        (x.shape(), mask.to_vec::<bool>()),
        (&[2][..], vec![yes, yes])
    );
}

#[test]
fn buckets_have_sequences_of_similar_length() {
    let lengths: Vec<usize> = (0..100).map(|i| i * 37 % 50).collect();
    let data = Padded::new(Words(lengths.clone()), 0.0).pad_to_one_of(&[10, 30]);
    let of = lengths.clone();
    let batches = Batches::new(data, 8)
        .shuffle(Key::new(3))
        .bucket(&[30, 10], move |i| of[i]);
    let mut seen = Vec::new();
    for (batch, indices) in batches.epoch(2).zip(batches.indices(2)) {
        let ((_, _, labels), mask) = batch.unwrap();
        let expected: Vec<i64> = indices.iter().map(|i| *i as i64).collect();
        assert_eq!(labels.to_vec::<i64>(), expected);
        let lens: Vec<usize> = indices.iter().map(|i| lengths[*i]).collect();
        let (shortest, longest) = (*lens.iter().min().unwrap(), *lens.iter().max().unwrap());
        match mask.dim(1) {
            10 => assert!(longest <= 10),
            30 => assert!(shortest > 10 && longest <= 30),
            n => assert!(shortest > 30 && n == longest),
        }
        seen.extend(indices);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let full = batches.drop_last(true);
    assert!(full.indices(2).iter().all(|batch| batch.len() == 8));
    assert_eq!(full.n_batches(), full.indices(5).len());
}

#[test]
fn examples_that_differ_are_errors_that_name_the_leaf() {
    let one = |n: usize, dtype| (Tensor::zeros([n], dtype), vec![Tensor::from(1.0f32)]);
    let error = stack(&[one(2, DType::F32), one(3, DType::F32)]).unwrap_err();
    let text = "the leaf `0` is f32[3] in one example of a batch, and f32[2] in the first one";
    assert_eq!(error.to_string(), text);
    assert!(stack(&[one(2, DType::F32), one(2, DType::F64)]).is_err());
    let mut short = one(2, DType::F32);
    short.1.clear();
    let error = stack(&[one(2, DType::F32), short]).unwrap_err().to_string();
    assert!(
        error.starts_with("the leaf `1[0]` is missing in one example"),
        "{error}"
    );
    let mut long = one(2, DType::F32);
    long.1.push(Tensor::from(2.0f32));
    assert!(stack(&[one(2, DType::F32), long]).is_err());
}

#[test]
#[should_panic(expected = "`Batches::new`: the size of a batch is 0, expected at least 1")]
fn a_batch_has_at_least_one_example() {
    let _ = Batches::new(numbers(3), 0);
}
