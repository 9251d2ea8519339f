use crate::DataError;
use csv::{ReaderBuilder, StringRecord};
use gradloom::{Element, Tensor};
use std::any::type_name;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// A CSV file, whose columns become tensors.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{DataError, Table, Tensors};
///
/// let table = Table::parse("height,width,kind\n1.5,2,0\n3,4.5,1\n".as_bytes())?;
/// let x = table.columns::<f32>(&["height", "width"])?;
/// let y = table.column::<i64>("kind")?;
/// assert_eq!((x.shape(), y.shape()), (&[2, 2][..], &[2][..]));
/// let data = Tensors::new((x, y))?;
///
/// let broken = Table::parse("age\n31\nold\n".as_bytes())?;
/// let error = broken.column::<f32>("age").unwrap_err().to_string();
/// assert_eq!(error, "`table`, row 2, column `age`: `old` is not a value of type f32");
/// # Ok::<(), DataError>(())
/// ```
#[derive(Debug)]
pub struct Table {
    /// The file, in errors.
    file: String,
    names: Vec<String>,
    rows: Vec<StringRecord>,
}

impl Table {
    /// Reads a file, whose first line has the names of the columns.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not UTF-8, a line has another number of cells than the first one, or two columns
    /// have the same name.
    pub fn open(path: impl AsRef<Path>) -> Result<Table, DataError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| DataError::Read {
            path: path.to_owned(),
            source,
        })?;
        Table::read(file, path.display().to_string(), true)
    }

    /// Reads a text, whose first line has the names of the columns. Errors name it `table`.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn parse(text: impl Read) -> Result<Table, DataError> {
        Table::read(text, "table".to_owned(), true)
    }

    /// Reads a text without names. The columns are called `0`, `1` and so on.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub fn parse_without_names(text: impl Read) -> Result<Table, DataError> {
        Table::read(text, "table".to_owned(), false)
    }

    fn read(text: impl Read, file: String, has_headers: bool) -> Result<Table, DataError> {
        let format = |reason: String| DataError::Format {
            file: file.clone(),
            format: "CSV",
            reason,
        };
        let mut reader = ReaderBuilder::new()
            .has_headers(has_headers)
            .from_reader(text);
        let names = reader
            .headers()
            .map_err(|error| format(error.to_string()))?;
        let names: Vec<String> = match has_headers {
            true => names.iter().map(str::to_owned).collect(),
            false => (0..names.len()).map(|i| i.to_string()).collect(),
        };
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(format(format!("two columns have the name `{name}`")));
        }
        let rows = reader.records().collect::<Result<_, _>>();
        let rows = rows.map_err(|error| format(error.to_string()))?;
        Ok(Table { file, names, rows })
    }

    /// Returns the names of the columns, from left to right.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns a column as a tensor `T[rows]`. Spaces around a value are ignored.
    ///
    /// # Errors
    ///
    /// If there is no such column, or a cell is not a value of the type. The error names its row.
    pub fn column<T: Element + FromStr>(&self, name: &str) -> Result<Tensor, DataError> {
        let cells = self.cells::<T, _>(&[name])?;
        Ok(Tensor::try_from_vec(cells, [self.rows.len()])?)
    }

    /// Returns columns as a tensor `T[rows, columns]`.
    ///
    /// # Errors
    ///
    /// Those of [`column`](Self::column).
    pub fn columns<T: Element + FromStr>(
        &self,
        names: &[impl AsRef<str>],
    ) -> Result<Tensor, DataError> {
        let cells = self.cells::<T, _>(names)?;
        Ok(Tensor::try_from_vec(cells, [self.rows.len(), names.len()])?)
    }

    /// Returns the texts of a column.
    ///
    /// # Errors
    ///
    /// If there is no such column.
    pub fn texts(&self, name: &str) -> Result<Vec<&str>, DataError> {
        let column = self.position(name)?;
        Ok(self.rows.iter().map(|row| &row[column]).collect())
    }

    fn position(&self, name: &str) -> Result<usize, DataError> {
        let position = self.names.iter().position(|other| other == name);
        position.ok_or_else(|| DataError::Column {
            file: self.file.clone(),
            column: name.to_owned(),
            found: self.names.clone(),
        })
    }

    /// Returns the values of columns, row by row.
    fn cells<T: FromStr, N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<T>, DataError> {
        let columns = names.iter().map(|name| self.position(name.as_ref()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut cells = Vec::with_capacity(self.rows.len() * columns.len());
        for (i, row) in self.rows.iter().enumerate() {
            for column in &columns {
                let found = &row[*column];
                let cell = found.trim().parse().map_err(|_| DataError::Cell {
                    file: self.file.clone(),
                    row: i + 1,
                    column: self.names[*column].clone(),
                    found: found.to_owned(),
                    expected: type_name::<T>(),
                })?;
                cells.push(cell);
            }
        }
        Ok(cells)
    }
}
