use crate::{FileError, dtype};
use gradloom::Tensor;
use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A safetensors file. It is mapped into memory: opening it reads the header only.
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
    map: Mmap,
    /// Start of the elements in the file.
    start: usize,
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
        let file = File::open(path).map_err(read)?;
        // SAFETY: the map is only read. A program that changes the file meanwhile breaks the promise that the
        // docs of the crate ask for; elements are copied out before they are used.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let (n, header) =
            SafeTensors::read_metadata(&map).map_err(|error| format(error.to_string()))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let mut names = header.offset_keys();
        names.sort();
        Ok(TensorFile {
            path: path.to_owned(),
            start: n + size_of::<u64>(),
            map,
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
        let bytes = &self.map[self.start + start..self.start + stop];
        dtype::tensor(info.dtype, &info.shape, bytes)
    }

    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }
}
