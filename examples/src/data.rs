//! The handwritten digits: a gzip file of comma-separated lines, each with 64 pixels from 0 to 16
//! and a label from 0 to 9.

use flate2::read::GzDecoder;
use gradloom::prelude::*;
use gradloom_data::{Dataset as _, Table, Tensors};
use std::io::{self, Read};

/// Number of pixels of an image.
pub const PIXELS: usize = 64;
/// Number of classes.
pub const CLASSES: usize = 10;
const BRIGHTEST: i32 = 16;

/// An error in a data file. Rows count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file is missing.
    #[error(
        "cannot read the digits: {source}; give the path of a gzip file of comma-separated lines"
    )]
    Unreadable {
        /// Error of the system.
        #[from]
        source: io::Error,
    },
    /// The file is not a gzip file of lines of integers.
    #[error("{0}; give a gzip file of comma-separated integers")]
    Table(#[from] gradloom_data::DataError),
    /// A row does not have one column for each pixel and one for the label.
    #[error("the table has {found} of {} columns; give {PIXELS} pixels and a label", PIXELS + 1)]
    WrongColumnCount {
        /// Number of columns found.
        found: usize,
    },
    /// A pixel or a label is out of range.
    #[error(
        "row {row}, column `{column}`: {found} is out of range; give an integer from 0 to {largest}"
    )]
    OutOfRange {
        /// Number of the row.
        row: usize,
        /// Name of the column: its number, from 0.
        column: String,
        /// Number found there.
        found: i32,
        /// The largest number.
        largest: i32,
    },
}

/// Images and their labels, in host memory.
#[derive(Debug)]
pub struct Digits(Tensors<(Tensor, Tensor)>);

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
    /// A [`DataError`] names the bad row and the expected content.
    pub fn read(file: impl Read) -> Result<Digits, DataError> {
        let table = Table::parse_without_names(GzDecoder::new(file))?;
        let found = table.names().len();
        let Some((label, pixels)) = table.names().split_last().filter(|_| found == PIXELS + 1)
        else {
            return Err(DataError::WrongColumnCount { found });
        };
        let column = |name: &String, largest: i32| {
            let x = table.column::<i32>(name)?;
            let numbers = x.to_vec::<i32>();
            match numbers.iter().position(|n| !(0..=largest).contains(n)) {
                None => Ok(x),
                Some(row) => Err(DataError::OutOfRange {
                    row: row + 1,
                    column: name.clone(),
                    found: numbers[row],
                    largest,
                }),
            }
        };
        let pixels = pixels.iter().map(|name| column(name, BRIGHTEST));
        let images = Tensor::stack(&pixels.collect::<Result<Vec<_>, _>>()?, 1);
        let images = images.cast(DType::F32) / f64::from(BRIGHTEST);
        let labels = column(label, CLASSES as i32 - 1)?.cast(DType::I64);
        Ok(Digits(Tensors::new((images, labels))?))
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the images `[indices, 64]` and labels `[indices]` at these indices.
    pub fn batch(&self, indices: &[i64]) -> (Tensor, Tensor) {
        let indices: Vec<usize> = indices.iter().map(|i| *i as usize).collect();
        self.0.batch(&indices).expect("the images are in memory")
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
        let (images, labels) = digits.batch(&(0..1797).collect::<Vec<i64>>());
        let pixels = images.to_vec::<f32>();
        assert!(pixels.iter().all(|p| (0.0..=1.0).contains(p)));
        let labels = labels.to_vec::<i64>();
        for label in 0..CLASSES as i64 {
            assert!(labels.iter().filter(|&&l| l == label).count() > 150);
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
        insta::assert_snapshot!(error(line("16", "3").as_bytes()), @"`table` is not a whole CSV file: invalid gzip header; give a gzip file of comma-separated integers");
        insta::assert_snapshot!(error(cut), @"`table` is not a whole CSV file: incomplete deflate stream; give a gzip file of comma-separated integers");
        insta::assert_snapshot!(error(&gzip("")), @"the table has 0 of 65 columns; give 64 pixels and a label");
        let ragged = error(&gzip(&format!("{good}1,2,3\n")));
        assert!(
            ragged.contains("line: 2") && ragged.contains("3 fields"),
            "{ragged}"
        );
        insta::assert_snapshot!(error(&gzip("1,2,3\n")), @"the table has 3 of 65 columns; give 64 pixels and a label");
        insta::assert_snapshot!(error(&gzip(&line("17", "3"))), @"row 1, column `63`: 17 is out of range; give an integer from 0 to 16");
        insta::assert_snapshot!(error(&gzip(&line("-1", "3"))), @"row 1, column `63`: -1 is out of range; give an integer from 0 to 16");
        insta::assert_snapshot!(error(&gzip(&line("0.5", "3"))), @"`table`, row 1, column `63`: `0.5` is not a value of type i32; give a gzip file of comma-separated integers");
        insta::assert_snapshot!(error(&gzip(&[good, line("0", "10")].concat())), @"row 2, column `64`: 10 is out of range; give an integer from 0 to 9");
    }
}
