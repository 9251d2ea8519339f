//! The handwritten digits: a gzip file of comma-separated lines, each with 64 pixels from 0 to 16
//! and a label from 0 to 9.

use flate2::read::GzDecoder;
use gradloom::prelude::*;
use std::io::{self, Read};

/// Number of pixels of an image.
pub const PIXELS: usize = 64;
/// Number of classes.
pub const CLASSES: usize = 10;
const BRIGHTEST: u8 = 16;

/// An error in a data file. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file is missing, is not a gzip file, or ends too early.
    #[error(
        "cannot read the digits: {source}; give the path of a gzip file of comma-separated lines"
    )]
    Unreadable {
        /// Error of the reader.
        #[from]
        source: io::Error,
    },
    /// A line does not have one column for each pixel and one for the label.
    #[error("line {line} has {found} of {} columns; give {PIXELS} pixels and a label", PIXELS + 1)]
    WrongColumnCount {
        /// Number of the line.
        line: usize,
        /// Number of columns found.
        found: usize,
    },
    /// A pixel is not an integer from 0 to 16.
    #[error(
        "line {line}, column {column}: `{found}` is not a pixel; give an integer from 0 to {BRIGHTEST}"
    )]
    PixelOutOfRange {
        /// Number of the line.
        line: usize,
        /// Number of the column, from 1.
        column: usize,
        /// Text found there.
        found: String,
    },
    /// A label is not an integer from 0 to 9.
    #[error("line {line}: `{found}` is not a label; give an integer from 0 to {}", CLASSES - 1)]
    LabelOutOfRange {
        /// Number of the line.
        line: usize,
        /// Text found there.
        found: String,
    },
    /// The file has no lines.
    #[error("the file holds no digits; give at least one line")]
    Empty,
}

/// Images and their labels, in host memory.
#[derive(Debug)]
pub struct Digits {
    /// Pixels from 0 to 1, image by image and row by row.
    images: Vec<f32>,
    labels: Vec<i64>,
}

impl Digits {
    /// Returns the data set that comes with the examples.
    pub fn bundled() -> Digits {
        let file = include_bytes!("../data/digits.csv.gz");
        Digits::read(file.as_slice()).expect("the bundled file is valid")
    }

    /// Reads a gzip file.
    ///
    /// # Errors
    ///
    /// A [`DataError`] names the bad line and the expected content.
    pub fn read(file: impl Read) -> Result<Digits, DataError> {
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text)?;
        Digits::parse(&text)
    }

    fn parse(text: &str) -> Result<Digits, DataError> {
        let mut digits = Digits {
            images: Vec::new(),
            labels: Vec::new(),
        };
        for (line, row) in text.lines().enumerate().map(|(i, row)| (i + 1, row)) {
            let columns: Vec<&str> = row.split(',').collect();
            let found = columns.len();
            let [pixels @ .., label] = columns.as_slice() else {
                return Err(DataError::WrongColumnCount { line, found });
            };
            if pixels.len() != PIXELS {
                return Err(DataError::WrongColumnCount { line, found });
            }
            for (i, text) in pixels.iter().enumerate() {
                let pixel = text.trim().parse::<u8>().ok().filter(|&p| p <= BRIGHTEST);
                let pixel = pixel.ok_or_else(|| DataError::PixelOutOfRange {
                    line,
                    column: i + 1,
                    found: (*text).to_owned(),
                })?;
                digits.images.push(f32::from(pixel) / f32::from(BRIGHTEST));
            }
            let known = label.trim().parse::<usize>().ok().filter(|&l| l < CLASSES);
            let label = known.ok_or_else(|| DataError::LabelOutOfRange {
                line,
                found: (*label).to_owned(),
            })?;
            digits.labels.push(label as i64);
        }
        match digits.len() {
            0 => Err(DataError::Empty),
            _ => Ok(digits),
        }
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the images `[indices, 64]` and labels `[indices]` at these indices.
    pub fn batch(&self, indices: &[i64]) -> (Tensor, Tensor) {
        let mut images = Vec::with_capacity(indices.len() * PIXELS);
        let mut labels = Vec::with_capacity(indices.len());
        for i in indices.iter().map(|&i| i as usize) {
            images.extend_from_slice(&self.images[i * PIXELS..][..PIXELS]);
            labels.push(self.labels[i]);
        }
        let n = indices.len();
        (
            Tensor::from_vec(images, [n, PIXELS]),
            Tensor::from_vec(labels, [n]),
        )
    }

    /// Splits the indices at random: four fifths for training and one fifth for testing, as
    /// `(train, test)`.
    pub fn split(&self, key: Key) -> (Vec<i64>, Vec<i64>) {
        let order = key.permutation(self.len()).to_vec::<i64>();
        let (test, train) = order.split_at(self.len() / 5);
        (train.to_vec(), test.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn line(pixel: &str, label: &str) -> String {
        format!("{}{pixel},{label}\n", "0,".repeat(PIXELS - 1))
    }

    fn error(file: &[u8]) -> String {
        Digits::read(file).unwrap_err().to_string()
    }

    #[test]
    fn the_bundled_file_holds_1797_digits() {
        let digits = Digits::bundled();
        assert_eq!(digits.len(), 1797);
        assert!(digits.images.iter().all(|p| (0.0..=1.0).contains(p)));
        for label in 0..CLASSES as i64 {
            assert!(digits.labels.iter().filter(|&&l| l == label).count() > 150);
        }
    }

    #[test]
    fn a_batch_holds_the_images_and_labels_asked_for() {
        let text = [line("16", "3"), line("8", "9")].concat();
        let digits = Digits::read(gzip(&text).as_slice()).unwrap();
        let (images, labels) = digits.batch(&[1, 0, 1]);
        assert_eq!(images.shape(), [3, PIXELS]);
        assert_eq!(images.to_vec::<f32>()[PIXELS - 1], 0.5);
        assert_eq!(labels.to_vec::<i64>(), [9, 3, 9]);
    }

    #[test]
    fn the_split_is_a_fifth_and_holds_every_index_once() {
        let digits = Digits::bundled();
        let (train, test) = digits.split(Key::new(0));
        assert_eq!((train.len(), test.len()), (1438, 359));
        let mut all = [train, test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..1797).collect::<Vec<i64>>());
    }

    #[test]
    fn the_error_of_a_bad_file_names_the_fault_and_its_place() {
        let good = line("16", "3");
        let cut = &gzip(&good)[..20];
        insta::assert_snapshot!(error(line("16", "3").as_bytes()), @"cannot read the digits: invalid gzip header; give the path of a gzip file of comma-separated lines");
        insta::assert_snapshot!(error(cut), @"cannot read the digits: incomplete deflate stream; give the path of a gzip file of comma-separated lines");
        insta::assert_snapshot!(error(&gzip("")), @"the file holds no digits; give at least one line");
        insta::assert_snapshot!(error(&gzip(&format!("{good}1,2,3\n"))), @"line 2 has 3 of 65 columns; give 64 pixels and a label");
        insta::assert_snapshot!(error(&gzip(&format!("{good}\n"))), @"line 2 has 1 of 65 columns; give 64 pixels and a label");
        insta::assert_snapshot!(error(&gzip(&line("17", "3"))), @"line 1, column 64: `17` is not a pixel; give an integer from 0 to 16");
        insta::assert_snapshot!(error(&gzip(&line("-1", "3"))), @"line 1, column 64: `-1` is not a pixel; give an integer from 0 to 16");
        insta::assert_snapshot!(error(&gzip(&line("0.5", "3"))), @"line 1, column 64: `0.5` is not a pixel; give an integer from 0 to 16");
        insta::assert_snapshot!(error(&gzip(&[good, line("0", "10")].concat())), @"line 2: `10` is not a label; give an integer from 0 to 9");
    }
}
