//! Comments of the source of this repository, with the part of the code that they are about, as numbers of words.

use flate2::read::GzDecoder;
use gradloom::prelude::*;
use gradloom_data::{Batches, DataError, Dataset, Padded};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Read};
use tokenizers::Tokenizer;

/// Parts of the code.
pub(crate) const PARTS: [&str; 5] = ["programs", "macro", "run time", "kernels", "exports"];

/// The most words of a comment, with those that mark its ends. The rest is cut.
pub(crate) const LONGEST: usize = 64;

/// Lengths to which comments are padded.
const LENGTHS: [usize; 4] = [16, 24, 32, LONGEST];

/// A paragraph of a comment, and the number of its part.
pub(crate) struct Comment {
    text: String,
    part: usize,
}

/// Returns comments for training and for testing, up to `most` and `most / 4` of each part.
///
/// Those for testing are of other files of the source. No text appears twice.
pub(crate) fn comments(most: usize) -> io::Result<(Vec<Comment>, Vec<Comment>)> {
    let file = include_bytes!("../../../data/comments.tsv.gz");
    let mut lines = String::new();
    GzDecoder::new(&file[..]).read_to_string(&mut lines)?;
    let of = |set: &str, most: usize| {
        let comments = (0..PARTS.len()).flat_map(|part| {
            let start = format!("{part}\t{set}\t");
            let texts = lines
                .lines()
                .filter_map(move |line| line.strip_prefix(&*start));
            texts.take(most).map(move |text| Comment {
                text: text.to_owned(),
                part,
            })
        });
        comments.collect()
    };
    Ok((of("train", most), of("test", most / 4)))
}

/// Words as numbers.
pub(crate) enum Words {
    /// Those of the published model.
    Published(Box<Tokenizer>),
    /// Those of a text, in order. Others have the number 0.
    OfText(Vec<String>),
}

impl Words {
    /// Returns the words of comments.
    pub(crate) fn of(comments: &[Comment]) -> Words {
        let words: BTreeSet<String> = comments.iter().flat_map(|s| split(&s.text)).collect();
        Words::OfText(words.into_iter().collect())
    }

    /// Returns the count of numbers that words may have.
    pub(crate) fn len(&self) -> usize {
        match self {
            Words::Published(tokenizer) => tokenizer.get_vocab_size(true),
            Words::OfText(words) => words.len() + 1,
        }
    }

    /// Returns the words of a comment as numbers.
    fn ids(&self, text: &str) -> Result<Vec<i64>, Box<dyn Error>> {
        match self {
            Words::Published(tokenizer) => {
                let found = tokenizer.encode(text, true).map_err(|e| e.to_string())?;
                Ok(found.get_ids().iter().map(|id| i64::from(*id)).collect())
            }
            Words::OfText(words) => {
                let id = |word| words.binary_search(&word).map_or(0, |i| i as i64 + 1);
                Ok(split(text).take(LONGEST).map(id).collect())
            }
        }
    }
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Comments as numbers of words, with the numbers of their parts.
pub(crate) struct Numbers {
    ids: Vec<Vec<i64>>,
    parts: Vec<i64>,
}

impl Dataset for Numbers {
    type Example = (Tensor, Tensor);

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn get(&self, index: usize) -> Result<(Tensor, Tensor), DataError> {
        let ids = Tensor::from(self.ids[index].clone());
        Ok((ids, Tensor::scalar(self.parts[index])))
    }
}

/// Returns batches `((ids, parts), mask)` of comments of similar length.
pub(crate) fn batches(
    comments: &[Comment],
    words: &Words,
    size: usize,
) -> Result<Batches<Padded<Numbers>>, Box<dyn Error>> {
    let ids = comments.iter().map(|comment| words.ids(&comment.text));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
    let parts = comments.iter().map(|comment| comment.part as i64).collect();
    let padded = Padded::new(Numbers { ids, parts }, 0.0).pad_to_one_of(&LENGTHS);
    Ok(Batches::new(padded, size).bucket(&LENGTHS, move |i| lengths[i]))
}
