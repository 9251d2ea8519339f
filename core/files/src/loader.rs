use crate::{FileError, Format, TensorFile, checkpoints, dtype, npy, safetensors};
use gradloom::{Tensor, Tree, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Saves the leaves of a tree by their paths.
///
/// The extension of the name says the [format](Format). The file appears when it is whole; one that was there before
/// stays until then.
///
/// # Errors
///
/// If a leaf cannot be computed, the format is only read, it is `.npy` and the tree is not one tensor, or the file
/// cannot be written.
pub fn save<T: Tree>(tree: &T, path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let (paths, leaves): (Vec<String>, Vec<Tensor>) =
        tree::leaves_with_paths(tree).into_iter().unzip();
    gradloom::evaluate(&leaves)?;
    let names = paths.iter().map(|path| (path.clone(), name_of(path)));
    let tensors: Vec<_> = distinct(names)?.into_iter().zip(leaves).collect();
    let format = Format::of_name(path);
    let bytes = match format {
        Format::Safetensors => Ok(safetensors::file(&tensors)),
        Format::Npz => npy::archive_file(&tensors),
        Format::Npy => match &*tensors {
            [(name, x)] if name.is_empty() => npy::file(x),
            _ => Err(format!(
                "it has one tensor without a name, and the tree has {:?}",
                tensors.iter().map(|(name, _)| name).collect::<Vec<_>>()
            )),
        },
        Format::PyTorch => Err("this format is only read; PyTorch loads `.safetensors`".to_owned()),
    };
    let bytes = bytes.map_err(|reason| FileError::Save {
        path: path.to_owned(),
        format,
        reason,
    })?;
    write_whole(path, &bytes).map_err(|source| FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Loads a tree of the structure, shapes and dtypes of `like`, whose tensors all have to be there.
///
/// # Errors
///
/// If the file is missing or broken, or its tensors are not those of the tree.
pub fn load<T: Tree>(like: &T, path: impl AsRef<Path>) -> Result<T, FileError> {
    Ok(Loader::new().load(like, path)?.0)
}

/// Writes a file under another name, and renames it when it is on the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new();
    // Others may read the file, as far as the umask lets them.
    #[cfg(unix)]
    temporary.permissions(PermissionsExt::from_mode(0o666));
    let mut file = temporary.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    checkpoints::sync(folder)
}

/// Returns the name of a leaf in a file: `layers.0.weight` for `layers[0].weight`.
fn name_of(path: &str) -> String {
    let mut name = String::new();
    for part in path
        .split(['.', '[', ']', '"'])
        .filter(|part| !part.is_empty())
    {
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(part);
    }
    name
}

/// Returns the names of leaves, which have to be distinct.
fn distinct(all: impl Iterator<Item = (String, String)>) -> Result<Vec<String>, FileError> {
    let mut leaves = BTreeMap::new();
    let mut names = Vec::new();
    for (leaf, name) in all {
        if let Some(first) = leaves.insert(name.clone(), leaf.clone()) {
            return Err(FileError::SameName {
                name,
                first,
                second: leaf,
            });
        }
        names.push(name);
    }
    Ok(names)
}

/// What a file and a tree do not share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Names of leaves that the file does not have. They keep their values.
    pub missing: Vec<String>,
    /// Tensors of the file that no leaf takes.
    pub unexpected: Vec<String>,
}

/// Loads a tree from a file with other names, or with a part of the tensors.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_files::{Loader, save};
///
/// #[derive(Clone, Tree)]
/// struct Old { kernel: Tensor, count: Tensor }
///
/// #[derive(Clone, Tree)]
/// struct New { weight: Tensor, bias: Tensor }
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("old.safetensors");
/// save(&Old { kernel: Tensor::from(1.0f32), count: Tensor::from(2i64) }, &path).unwrap();
///
/// let new = New { weight: Tensor::from(0.0f32), bias: Tensor::from(0.5f32) };
/// let loader = Loader::new().rename(|name| name.replace("weight", "kernel")).lenient();
/// let (new, report) = loader.load(&new, &path).unwrap();
/// assert_eq!((new.weight.item::<f32>(), new.bias.item::<f32>()), (1.0, 0.5));
/// assert_eq!((report.missing, report.unexpected), (vec!["bias".to_owned()], vec!["count".to_owned()]));
/// ```
pub struct Loader<'a> {
    rename: Box<dyn Fn(&str) -> String + 'a>,
    is_lenient: bool,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("is_lenient", &self.is_lenient)
            .finish_non_exhaustive()
    }
}

impl Default for Loader<'_> {
    fn default() -> Self {
        Loader::new()
    }
}

impl<'a> Loader<'a> {
    /// Returns a loader that expects each leaf under its own name, and nothing else.
    pub fn new() -> Loader<'a> {
        Loader {
            rename: Box::new(str::to_owned),
            is_lenient: false,
        }
    }

    /// Takes the tensor `rename(name)` for the leaf of that name, as in `layers.0.weight`.
    ///
    /// Several rules apply in their order, each to the name that the one before has made.
    pub fn rename(self, rename: impl Fn(&str) -> String + 'a) -> Loader<'a> {
        let before = self.rename;
        Loader {
            rename: Box::new(move |name| rename(&before(name))),
            is_lenient: self.is_lenient,
        }
    }

    /// Accepts leaves without a tensor, which keep their values, and tensors without a leaf.
    pub fn lenient(mut self) -> Loader<'a> {
        self.is_lenient = true;
        self
    }

    /// Returns the tree with the tensors of a file, and the names that they do not share.
    ///
    /// Shapes have to be equal. A dtype may be wider than that of the file, if it holds all numbers.
    ///
    /// # Errors
    ///
    /// If the file is missing or broken, a shape or a dtype does not fit, or, unless the loader is lenient, there are
    /// names that file and tree do not share.
    pub fn load<T: Tree>(
        &self,
        like: &T,
        path: impl AsRef<Path>,
    ) -> Result<(T, Report), FileError> {
        self.load_from(like, &TensorFile::open(path)?)
    }

    /// Returns the tree with the tensors of an open file, and the names that they do not share.
    ///
    /// If the file is [mapped](TensorFile::map), a leaf of the dtype of the file is a view of it.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom_files::{Loader, TensorFile, save};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.safetensors");
    /// let model = vec![Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32])];
    /// save(&model, &path).unwrap();
    /// // SAFETY: nothing writes to the file in this folder.
    /// let file = unsafe { TensorFile::map(&path) }.unwrap();
    /// let (loaded, _) = Loader::new().load_from(&model, &file).unwrap();
    /// assert_eq!(loaded[0].to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`load`](Self::load).
    pub fn load_from<T: Tree>(
        &self,
        like: &T,
        file: &TensorFile,
    ) -> Result<(T, Report), FileError> {
        let leaves = tree::leaves_with_paths(like);
        let names = leaves
            .iter()
            .map(|(path, _)| (path.clone(), (self.rename)(&name_of(path))));
        let names = distinct(names)?;
        let mut unexpected: BTreeSet<&str> = file.names().collect();
        let mut missing = Vec::new();
        let mut loaded = Vec::new();
        for (name, (path, leaf)) in names.iter().zip(&leaves) {
            unexpected.remove(&**name);
            loaded.push(match file.entry(name) {
                Some(_) => leaf_of(file, name, path, leaf)?,
                None => {
                    missing.push(name.clone());
                    leaf.clone()
                }
            });
        }
        let unexpected: Vec<String> = unexpected.into_iter().map(str::to_owned).collect();
        let is_whole = missing.is_empty() && unexpected.is_empty();
        if !(self.is_lenient || is_whole) {
            return Err(FileError::Names {
                path: file.path().to_owned(),
                missing,
                unexpected,
            });
        }
        let mut loaded = loaded.into_iter();
        let tree = like.map(&mut |_| loaded.next().expect("there is a tensor for each leaf"));
        Ok((
            tree,
            Report {
                missing,
                unexpected,
            },
        ))
    }
}

/// Returns a tensor of a file in the place of a leaf.
fn leaf_of(file: &TensorFile, name: &str, path: &str, leaf: &Tensor) -> Result<Tensor, FileError> {
    let entry = file.entry(name).expect("the caller has found it");
    if entry.shape != leaf.shape() {
        return Err(FileError::Shape {
            path: file.path().to_owned(),
            name: name.to_owned(),
            found: entry.shape.as_slice().into(),
            leaf: path.to_owned(),
            expected: leaf.shape().into(),
        });
    }
    let x = file.tensor(name)?;
    if !dtype::fits(x.dtype(), leaf.dtype()) {
        return Err(FileError::Narrower {
            path: file.path().to_owned(),
            name: name.to_owned(),
            found: entry.written.clone(),
            leaf: path.to_owned(),
            expected: leaf.dtype(),
            wider: x.dtype(),
        });
    }
    Ok(if x.dtype() == leaf.dtype() {
        x
    } else {
        x.cast(leaf.dtype())
    })
}
