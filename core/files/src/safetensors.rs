use crate::{FileError, dtype};
use gradloom::Tensor;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Number of bytes of the length of a header.
const LENGTH: u64 = size_of::<u64>() as u64;

/// The longest header that the format allows, in bytes.
const LONGEST: u64 = 100_000_000;

/// A safetensors file. Opening it reads the header only, and a tensor is read when it is asked for.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_files::{TensorFile, save};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pair.safetensors");
/// save(&(Tensor::from(1.0f32), Tensor::from([2i64, 3])), &path).unwrap();
/// let file = TensorFile::open(&path).unwrap();
/// assert_eq!(file.names().collect::<Vec<_>>(), ["0", "1"]);
/// assert_eq!(file.tensor("1").unwrap().to_vec::<i64>(), [2, 3]);
/// ```
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    /// Start of the elements in the file.
    start: u64,
    header: Metadata,
    /// In order.
    names: Vec<String>,
    metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Opens a file and checks its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a whole safetensors file, or its tensors overlap.
    pub fn open(path: impl AsRef<Path>) -> Result<TensorFile, FileError> {
        let path = path.as_ref();
        let read = |source| FileError::Read {
            path: path.to_owned(),
            source,
        };
        let format = |reason: String| FileError::Format {
            path: path.to_owned(),
            reason,
        };
        let mut file = File::open(path).map_err(read)?;
        let len = file.metadata().map_err(read)?.len();
        let mut n = [0; LENGTH as usize];
        if len < LENGTH {
            return Err(format(format!(
                "it has {len} bytes, and no length of a header"
            )));
        }
        file.read_exact(&mut n).map_err(read)?;
        let n = u64::from_le_bytes(n);
        if n > LONGEST.min(len - LENGTH) {
            return Err(format(format!(
                "its header has {n} bytes, and the file {len}"
            )));
        }
        let mut header = vec![0; n as usize];
        file.read_exact(&mut header).map_err(read)?;
        let header: Metadata =
            serde_json::from_slice(&header).map_err(|error| format(error.to_string()))?;
        let (found, expected) = (len - LENGTH - n, header.data_len() as u64);
        if found != expected {
            return Err(format(format!(
                "it has {found} bytes of elements, and its header names {expected}"
            )));
        }
        let mut names = header.offset_keys();
        names.sort();
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(TensorFile {
            path: path.to_owned(),
            start: LENGTH + n,
            header,
            names,
            metadata: metadata.into_iter().collect(),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the texts that the header has beside the tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns a tensor.
    ///
    /// Numbers of 16 bits become `f32` or `i32`, those of 8 bits and unsigned ones of 32 bits the smallest integers that
    /// hold them.
    ///
    /// # Errors
    ///
    /// If there is no tensor of this name, or its dtype has no counterpart.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FileError> {
        let info = self.info(name).ok_or_else(|| FileError::Names {
            path: self.path.clone(),
            missing: vec![name.to_owned()],
            unexpected: Vec::new(),
        })?;
        if dtype::own(info.dtype).is_none() {
            return Err(FileError::UnknownDType {
                path: self.path.clone(),
                name: name.to_owned(),
                found: format!("{:?}", info.dtype),
            });
        }
        let (start, stop) = info.data_offsets;
        let bytes = self.bytes(start as u64, stop - start);
        let bytes = bytes.map_err(|source| FileError::Read {
            path: self.path.clone(),
            source,
        })?;
        dtype::tensor(info.dtype, &info.shape, &bytes)
    }

    /// Reads bytes from a place among the elements.
    fn bytes(&self, start: u64, n: usize) -> io::Result<Vec<u8>> {
        // A handle of its own has no place in common with those of other threads.
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.start + start))?;
        let mut bytes = vec![0; n];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }
}
