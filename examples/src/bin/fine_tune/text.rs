//! Comments of the source of this repository, with the part of the code that they are about, as numbers of words.

use gradloom::prelude::*;
use gradloom_data::{Batches, DataError, Dataset, Padded};
use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// Parts of the code, and the folders of each.
pub(crate) const PARTS: [(&str, &[&str]); 5] = [
    ("programs", &["core/ir/src"]),
    ("macro", &["macros/src"]),
    ("run time", &["core/src"]),
    ("kernels", &["core/kernels/src"]),
    (
        "exports",
        &["core/onnx/src", "core/stablehlo/src", "core/pjrt/src"],
    ),
];

/// The most words of a comment, with those that mark its ends. The rest is cut.
pub(crate) const LONGEST: usize = 64;

/// Lengths to which comments are padded.
const LENGTHS: [usize; 4] = [16, 24, 32, LONGEST];

/// The fewest words of a comment.
const SHORTEST: usize = 8;

/// A paragraph of a comment, and the number of its part.
pub(crate) struct Comment {
    text: String,
    part: usize,
}

/// Returns comments for training and for testing, up to `most` and `most / 4` of each part.
///
/// Those for testing are in other files. No text appears twice.
pub(crate) fn comments(
    key: Key,
    most: usize,
) -> Result<(Vec<Comment>, Vec<Comment>), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut train, mut test, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (part, key) in key.split_many(PARTS.len()).into_iter().enumerate() {
        let mut files = Vec::new();
        for folder in PARTS[part].1 {
            find(&root.join(folder), &mut files)?;
        }
        files.sort();
        let (mut of_train, mut of_test) = (Vec::new(), Vec::new());
        let [order, train_key, test_key] = key.split_n();
        for (i, file) in order
            .permutation(files.len())
            .to_vec::<i64>()
            .into_iter()
            .enumerate()
        {
            let own = if i % 4 == 0 {
                &mut of_test
            } else {
                &mut of_train
            };
            let texts = paragraphs(&fs::read_to_string(&files[file as usize])?);
            own.extend(texts.into_iter().filter(|text| seen.insert(text.clone())));
        }
        let chosen = |texts: Vec<String>, key: Key, most: usize| {
            let order = key.permutation(texts.len()).to_vec::<i64>();
            let comment = |i: i64| Comment {
                text: texts[i as usize].clone(),
                part,
            };
            let chosen = order.into_iter().take(most).map(comment);
            chosen.collect::<Vec<Comment>>()
        };
        train.extend(chosen(of_train, train_key, most));
        test.extend(chosen(of_test, test_key, most / 4));
    }
    Ok((train, test))
}

/// Finds the files of Rust in a folder and those below it.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the paragraphs of the documentation in a file, without headings and examples.
fn paragraphs(source: &str) -> Vec<String> {
    let (mut all, mut words, mut is_code) = (Vec::new(), Vec::new(), false);
    for line in source.lines().map(str::trim).chain([""]) {
        let text = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let text = text.unwrap_or_default().trim();
        is_code ^= text.starts_with("```");
        if !is_code && !text.is_empty() && !text.starts_with(['#', '`', '|']) {
            words.extend(text.split_whitespace());
        } else if !words.is_empty() {
            if words.len() >= SHORTEST {
                all.push(words.join(" "));
            }
            words.clear();
        }
    }
    all
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
