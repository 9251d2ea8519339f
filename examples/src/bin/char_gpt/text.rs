//! The text, its windows, and the losses of tables of characters.

use gradloom::prelude::*;
use gradloom_data::{DataError, Dataset};
use std::error::Error;
use std::fs;
use std::path::Path;

/// Windows of a text, a quarter of their length apart, with the characters that follow.
pub(crate) struct Windows {
    pub(crate) ids: Vec<i64>,
    pub(crate) context: usize,
}

impl Dataset for Windows {
    type Example = (Tensor, Tensor);

    fn len(&self) -> usize {
        (self.ids.len() - self.context - 1) * 4 / self.context
    }

    fn get(&self, index: usize) -> Result<(Tensor, Tensor), DataError> {
        let start = index * self.context / 4;
        let ids = &self.ids[start..][..=self.context];
        let (x, next) = (&ids[..self.context], &ids[1..]);
        Ok((Tensor::from(x.to_vec()), Tensor::from(next.to_vec())))
    }
}

/// Returns the chapters of the book, one after the other.
pub(crate) fn book() -> Result<String, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src");
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    let chapters = paths.iter().map(fs::read_to_string);
    Ok(chapters.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Returns the mean loss of two tables of probabilities on `test`: of single characters, and of pairs. Both are
/// the shares in `train`, where each count is one more than found.
pub(crate) fn losses_of_tables(train: &[i64], test: &[i64], n: usize) -> (f64, f64) {
    let (mut single, mut pairs) = (vec![1f64; n], vec![1f64; n * n]);
    for pair in train.windows(2) {
        single[pair[1] as usize] += 1.0;
        pairs[pair[0] as usize * n + pair[1] as usize] += 1.0;
    }
    let total: f64 = single.iter().sum();
    let (mut by_single, mut by_pairs) = (0.0, 0.0);
    for pair in test.windows(2) {
        let row = &pairs[pair[0] as usize * n..][..n];
        by_single -= (single[pair[1] as usize] / total).ln();
        by_pairs -= (row[pair[1] as usize] / row.iter().sum::<f64>()).ln();
    }
    let n_pairs = (test.len() - 1) as f64;
    (by_single / n_pairs, by_pairs / n_pairs)
}
