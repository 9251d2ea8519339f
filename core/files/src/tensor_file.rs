use crate::entry::{Contents, Entry, Fault};
use crate::{FileError, Format, archive, dtype, npy, safetensors, torch};
use gradloom::Tensor;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, Take};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file of tensors. Opening it reads the header only, and a tensor is read when it is asked for.
///
/// [`map`](Self::map) opens a file without copies of its tensors.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_files::{Format, TensorFile, save};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pair.npz");
/// save(&(Tensor::from(1.0f32), Tensor::from([2i64, 3])), &path).unwrap();
/// let file = TensorFile::open(&path).unwrap();
/// assert_eq!(file.format(), Format::Npz);
/// assert_eq!(file.names().collect::<Vec<_>>(), ["0", "1"]);
/// assert_eq!(file.tensor("1").unwrap().to_vec::<i64>(), [2, 3]);
/// ```
///
/// An npy file has one tensor, and its name is empty: that of a tree that is one tensor. In a checkpoint of PyTorch,
/// the tensor `checkpoint["model"]["layers.0.weight"]` has the name `model.layers.0.weight`, and the place in a list is
/// its index. No code of a checkpoint is executed: a name of Python that does not belong to weights is an error.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    /// The file that was opened, also if another has its name now. A read moves its place.
    file: Mutex<File>,
    /// The map of this file, if its tensors are not copied.
    map: Option<Arc<Mmap>>,
    format: Format,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Opens a file and checks its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a whole file of its [format](Format), has two tensors of one name, or its
    /// tensors are not in the file.
    pub fn open(path: impl AsRef<Path>) -> Result<TensorFile, FileError> {
        let path = path.as_ref();
        let read = |source| FileError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(read)?;
        let len = file.metadata().map_err(read)?.len();
        let mut start = Vec::new();
        let n_start = torch::OLD_MAGIC.len() as u64;
        let first: Take<&File> = (&file).take(n_start);
        { first }.read_to_end(&mut start).map_err(read)?;
        file.rewind().map_err(read)?;
        let (format, contents) = contents(&file, len, &start, Format::of_name(path));
        let Contents { entries, metadata } = contents.map_err(|fault| match fault {
            Fault::Io(source) => read(source),
            Fault::Format(reason) => FileError::Format {
                path: path.to_owned(),
                format,
                reason,
            },
        })?;
        Ok(TensorFile {
            path: path.to_owned(),
            file: Mutex::new(file),
            map: None,
            format,
            entries,
            metadata,
        })
    }

    /// Opens a file and maps it to memory, so that its tensors are not copied.
    ///
    /// The header is checked as by [`open`](Self::open). The system reads a page of the file when an element in it is
    /// first used. It may drop the page when memory is short, and processes that map the same file share it. The file
    /// stays mapped until this value and all of its tensors are dropped. No operation writes to the map: results of
    /// operations have memory of their own.
    ///
    /// These tensors are copied, as those of [`open`](Self::open):
    ///
    /// - elements that are not aligned for their dtype,
    /// - bools, because another byte than 0 and 1 would not be a bool (it is read as `true`),
    /// - integers that become a wider dtype, compressed arrays, strided arrays and big-endian ones, and everything on
    ///   a big-endian machine.
    ///
    /// A member of a zip archive is read once for its checksum when its tensor is asked for.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom_files::{TensorFile, save};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pair.safetensors");
    /// save(&(Tensor::from([1.0f32, 2.0]), Tensor::from(3i64)), &path).unwrap();
    /// // SAFETY: nothing writes to the file in this folder.
    /// let file = unsafe { TensorFile::map(&path) }.unwrap();
    /// let x = file.tensor("0").unwrap();
    /// assert_eq!((x + 1.0).to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// [`Loader::load_from`](crate::Loader::load_from) loads a tree of such tensors.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and if the system cannot map the file.
    ///
    /// # Safety
    ///
    /// No process may write to the file or make it shorter while it is mapped: the elements of a tensor would change,
    /// which is undefined behaviour. On Unix, a read of an element beyond the end of a shortened file ends the process
    /// with the signal `SIGBUS`. A file may be deleted, or be replaced by one that is renamed to its name, as
    /// [`save`](crate::save) does. The map then has the bytes of the file that was opened.
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<TensorFile, FileError> {
        let mut opened = TensorFile::open(path)?;
        let file = opened.file.get_mut();
        let file = file.unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller guarantees that the file does not change while it is mapped.
        let map = unsafe { Mmap::map(&*file) }.map_err(|source| FileError::Read {
            path: opened.path.clone(),
            source,
        })?;
        opened.map = Some(Arc::new(map));
        Ok(opened)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the texts that the file has beside the tensors. Numbers in a checkpoint of PyTorch are texts too.
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
    /// If there is no tensor of this name, its dtype has no counterpart, or its bytes are not those that were written.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FileError> {
        let path = || self.path.clone();
        let entry = self.entry(name).ok_or_else(|| FileError::Names {
            path: path(),
            missing: vec![name.to_owned()],
            unexpected: Vec::new(),
        })?;
        let Some(dtype) = entry.dtype else {
            return Err(FileError::UnknownDType {
                path: path(),
                name: name.to_owned(),
                found: entry.written.clone(),
            });
        };
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = entry.bytes(&file, self.map.as_ref());
        drop(file);
        let bytes = bytes.map_err(|error| match Fault::from(error) {
            Fault::Io(source) => FileError::Read {
                path: path(),
                source,
            },
            Fault::Format(reason) => FileError::Format {
                path: path(),
                format: self.format,
                reason: format!("`{name}`: {reason}"),
            },
        })?;
        dtype::tensor(dtype, &entry.shape, bytes)
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
}

/// Returns the format of a file and its contents. Without a known start, it has the format of its name.
fn contents(
    file: &File,
    len: u64,
    start: &[u8],
    named: Format,
) -> (Format, Result<Contents, Fault>) {
    let starts = |magic: &[u8]| start.starts_with(magic);
    let fault = |reason: &str| Err(Fault::Format(reason.to_owned()));
    if starts(npy::MAGIC) {
        return (Format::Npy, npy::contents(file, len));
    }
    if starts(torch::OLD_MAGIC) {
        let found = fault("it has the format before PyTorch 1.6; load it there and save it again");
        return (Format::PyTorch, found);
    }
    if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        return match archive::members(file) {
            Ok(members) if torch::has_pickle(&members) => {
                (Format::PyTorch, torch::contents(file, &members))
            }
            Ok(members) => (Format::Npz, npy::contents_of_members(file, members)),
            Err(fault) => (named, Err(fault)),
        };
    }
    let found = match named {
        Format::Safetensors => safetensors::contents(file, len),
        Format::Npy => fault("it does not begin with `\\x93NUMPY`"),
        Format::Npz | Format::PyTorch => fault("it does not begin as a zip archive"),
    };
    (named, found)
}
