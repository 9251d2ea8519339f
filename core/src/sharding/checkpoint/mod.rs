//! Checkpoints: sharded trees on disk, which load onto any mesh.
//!
//! [`save_checkpoint`] writes a file for each device of a mesh, with its parts of the leaves, and an index.
//! [`load_checkpoint`] joins the parts, and places the leaves by other specs. The index says which file has which box of
//! a leaf, so a checkpoint is not tied to its mesh. Both need the cargo feature `checkpoint`.
//!
//! A folder has these files:
//!
//! | file | contents |
//! |---|---|
//! | `index.json` | the version, the mesh, the leaves with their specs, and the files with lengths, hashes and boxes |
//! | `shard-{device}-{hash}.safetensors` | the parts of a device: the tensor `{path}[0..2, 0..3]` is this box of a leaf |

mod boxes;
mod disk;
mod error;
mod index;
#[cfg(test)]
mod tests;

pub use error::CheckpointError;

use super::sharded::{carried_or, of_rank};
use super::tensor::placed;
use super::{Mesh, ShardingSpec, Specs};
use crate::element::le_bytes;
use crate::error::ShardingFault;
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_leaves};
use crate::{DType, Error, Tensor, Tree};
use boxes::{Region, check_cover, rows};
use disk::Disk;
use gradloom_kernels::memory::Buffer;
use index::{BoxEntry, FileEntry, INDEX, Index, LeafEntry, VERSION};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// Writes the leaves of a tree to a folder: a file for each device of a mesh, and an index.
///
/// The specs place the leaves, as those of [`sharded`](super::sharded()) do: a leaf without one has that of
/// [`Tensor::sharding`], or each device has it as a whole. Each box of a leaf is written once, by the device that has
/// the fewest bytes to write of those that hold it. Lengths need not be multiples of the numbers of parts.
///
/// The folder holds one checkpoint. A later one replaces it when it is complete: until then, and after a crash at any
/// time, the earlier one loads. Other files of a checkpoint in the folder are removed at the end. Only one process may
/// write to a folder at a time.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::sharding::{Mesh, ShardingSpec, load_checkpoint, save_checkpoint};
/// use std::sync::Arc;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let four = Arc::new(Mesh::new("four", &[("data", 4)])?);
/// let rows = ShardingSpec::split(&four, &[&["data"]])?;
/// let w = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0]).shard(&rows);
/// save_checkpoint(folder, &w, &four, None)?;
///
/// let two = Arc::new(Mesh::new("two", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&two, &[&["data"]])?;
/// let loaded = load_checkpoint(folder, &Tensor::zeros([5], DType::F32), rows.clone())?;
/// assert_eq!(loaded.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
/// assert_eq!(loaded.sharding(), Some(&rows));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a spec does not fit its leaf or the mesh, two leaves have the same path, a leaf cannot be computed, or a file
/// cannot be written.
pub fn save_checkpoint<T: Tree>(
    folder: impl AsRef<Path>,
    tree: &T,
    mesh: &Arc<Mesh>,
    specs: impl Into<Specs>,
) -> Result<()> {
    save(
        &mut Disk {
            folder: folder.as_ref(),
            before: &mut || Ok(()),
        },
        tree,
        mesh,
        &specs.into(),
    )
}

/// Returns a tree with the leaves that [`save_checkpoint`] wrote.
///
/// `like` gives the structure. Its leaves have the paths, dtypes and shapes of those in the checkpoint; their elements
/// are not read. The specs place the leaves of the result. They may be those of any mesh: a leaf without one has that of
/// the leaf of `like`, or none.
///
/// A file is read once, and only one at a time is in memory. Its length and hash are compared with those in the index.
///
/// # Errors
///
/// If a file is missing, or has another length or hash; the boxes of a leaf overlap or do not cover it; the leaves
/// differ from those of `like`; the version is unknown; or a spec does not fit its leaf.
pub fn load_checkpoint<T: Tree>(
    folder: impl AsRef<Path>,
    like: &T,
    specs: impl Into<Specs>,
) -> Result<T> {
    const CALL: &str = "load_checkpoint";
    let folder = folder.as_ref();
    let (own, names) = (leaves(like), names(like)?);
    let specs = specs.into().of_leaves(like, "specs");
    let specs = specs.map_err(|fault| refused(CALL, fault))?;
    let specs = own.iter().zip(specs).zip(&names);
    let specs = specs.map(|((leaf, spec), name)| {
        let spec = spec.or_else(|| leaf.sharding().cloned());
        let logical = |spec: ShardingSpec| -> Result<ShardingSpec, ShardingFault> {
            let mesh = spec.mesh().clone();
            let spec = of_rank(spec, leaf, name, &mesh)?;
            let dims = spec.dims()[leaf.batch_dims()..].to_vec();
            let replicated = spec.replicated_axes().to_vec();
            Ok(ShardingSpec::new(&mesh, dims, replicated, Vec::new())?)
        };
        spec.map(logical).transpose()
    });
    let specs = specs.collect::<Result<Vec<_>, ShardingFault>>();
    let specs = specs.map_err(|fault| refused(CALL, fault))?;

    let index = Index::read(folder)?;
    index.check_leaves(folder, &names, &own)?;
    check_boxes(folder, &index, &names, &own)?;
    let mut elements: BTreeMap<&str, (&Tensor, Vec<u8>)> = BTreeMap::new();
    for (name, leaf) in names.iter().zip(&own) {
        elements.insert(name, (leaf, vec![0; leaf.aval().bytes()]));
    }
    for file in &index.files {
        read_file(folder, file, &mut elements)?;
    }
    let mut loaded = Vec::with_capacity(own.len());
    for (name, spec) in names.iter().zip(specs) {
        let (like, bytes) = elements.remove(&**name).expect("the names are distinct");
        let of_leaf = |source: Error| CheckpointError::Tensor {
            leaf: name.clone(),
            source: Box::new(source),
        };
        let leaf = Tensor::try_from_le_bytes(like.dtype(), &bytes, like.physical_shape())
            .map_err(of_leaf)?;
        let leaf = leaf.with_batch_dims(like.batch_dims());
        loaded.push(match spec {
            Some(spec) => placed(&leaf, &spec, CALL).map_err(of_leaf)?,
            None => leaf,
        });
    }
    Ok(with_leaves(like, &loaded))
}

fn refused(call: &'static str, fault: ShardingFault) -> CheckpointError {
    CheckpointError::Specs(Box::new(fault.into_error(call)))
}

/// Returns the paths of the leaves, which are distinct. A tensor that is the whole tree is `value`.
fn names(tree: &impl Tree) -> Result<Vec<String>> {
    let mut names = paths(tree, "");
    let mut seen = BTreeSet::new();
    for name in &mut names {
        if name.is_empty() {
            *name = "value".to_owned();
        }
        if !seen.insert(name.clone()) {
            return Err(CheckpointError::RepeatedLeaf { leaf: name.clone() });
        }
    }
    Ok(names)
}

/// A leaf that is saved.
struct Source {
    name: String,
    leaf: Tensor,
    buffer: Arc<Buffer>,
    spec: ShardingSpec,
}

fn save<T: Tree>(disk: &mut Disk<'_>, tree: &T, mesh: &Arc<Mesh>, specs: &Specs) -> Result<()> {
    const CALL: &str = "save_checkpoint";
    let given = specs.of_leaves(tree, "specs");
    let given = given.map_err(|fault| refused(CALL, fault))?;
    let mut sources = Vec::new();
    for ((leaf, name), spec) in leaves(tree).into_iter().zip(names(tree)?).zip(given) {
        let spec = match carried_or(spec, &leaf, mesh) {
            Some(spec) => of_rank(spec, &leaf, &name, mesh).map_err(|f| refused(CALL, f))?,
            None => ShardingSpec::replicated(mesh, leaf.physical_shape().len()),
        };
        let buffer = leaf.buffer().map_err(|source| CheckpointError::Tensor {
            leaf: name.clone(),
            source: Box::new(source),
        })?;
        sources.push(Source {
            name,
            leaf,
            buffer,
            spec,
        });
    }
    disk.create()?;
    let mut files = Vec::new();
    for (device, regions) in assigned(&sources, mesh).into_iter().enumerate() {
        if !regions.is_empty() {
            files.push(write_file(disk, device, &regions)?);
        }
    }
    disk.sync()?;
    let entry = |source: &Source| LeafEntry {
        path: source.name.clone(),
        dtype: source.leaf.dtype().name().to_owned(),
        shape: source.leaf.physical_shape().to_vec(),
        batch_dims: source.leaf.batch_dims(),
        spec: source.spec.to_string(),
    };
    let index = Index {
        version: VERSION,
        mesh: mesh.to_string(),
        leaves: sources.iter().map(entry).collect(),
        files,
    };
    disk.write(INDEX, &index.to_json())?;
    disk.sync()?;
    let kept: BTreeSet<&str> = index.files.iter().map(|file| &*file.name).collect();
    disk.remove_others(&kept)
}

/// Returns the boxes that each device writes. Of the devices that hold a box, one with the fewest bytes writes it.
fn assigned<'a>(sources: &'a [Source], mesh: &Mesh) -> Vec<Vec<(&'a Source, Region)>> {
    let mut all = vec![Vec::new(); mesh.n_devices()];
    let mut load = vec![0; mesh.n_devices()];
    for source in sources {
        let shape = source.leaf.physical_shape();
        let mut holders: BTreeMap<Region, Vec<usize>> = BTreeMap::new();
        for device in 0..mesh.n_devices() {
            let ranges = source.spec.ranges(shape, device);
            let region = Region::new(ranges.expect("the spec has the rank of the leaf"));
            if region.numel() > 0 {
                holders.entry(region).or_default().push(device);
            }
        }
        for (region, devices) in holders {
            let device = devices.into_iter().min_by_key(|device| load[*device]);
            let device = device.expect("a box has a holder");
            load[device] += region.numel() * source.leaf.dtype().size();
            all[device].push((source, region));
        }
    }
    all
}

/// The dtypes of a checkpoint and their names in the files.
const DTYPES: [(DType, Dtype); 9] = [
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::BF16, Dtype::BF16),
    (DType::F16, Dtype::F16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::Bool, Dtype::BOOL),
];

fn dtype_in_file(dtype: DType) -> Dtype {
    let found = DTYPES.into_iter().find(|(own, _)| *own == dtype);
    found.expect("the list has all dtypes").1
}

/// Writes the boxes of a device, and returns the entry of the file.
fn write_file(
    disk: &mut Disk<'_>,
    device: usize,
    regions: &[(&Source, Region)],
) -> Result<FileEntry> {
    let parts = regions.iter().map(|(source, region)| {
        let rows = rows(source.leaf.physical_shape(), region);
        le_bytes(&source.buffer, rows.into_iter())
    });
    let parts: Vec<Vec<u8>> = parts.collect();
    let views = regions.iter().zip(&parts).map(|((source, region), bytes)| {
        let dtype = dtype_in_file(source.leaf.dtype());
        let view = TensorView::new(dtype, region.shape(), bytes);
        let view = view.expect("a box has a byte for each of its elements");
        (region.name_in_file(&source.name), view)
    });
    let bytes = safetensors::serialize(views, None).expect("the names of boxes are distinct");
    let hash = blake3::hash(&bytes).to_hex();
    let name = format!("shard-{device}-{}.safetensors", &hash[..16]);
    disk.write(&name, &bytes)?;
    let entry = |(source, region): &(&Source, Region)| BoxEntry {
        leaf: source.name.clone(),
        ranges: region.pairs(),
    };
    Ok(FileEntry {
        name,
        bytes: bytes.len() as u64,
        blake3: hash.to_string(),
        boxes: regions.iter().map(entry).collect(),
    })
}

/// Checks that the boxes of each leaf are inside of it, do not overlap, and cover it.
fn check_boxes(folder: &Path, index: &Index, names: &[String], own: &[Tensor]) -> Result<()> {
    let mut all: BTreeMap<&str, Vec<(Region, &str)>> = BTreeMap::new();
    for file in &index.files {
        for entry in &file.boxes {
            let found = all.entry(&entry.leaf).or_default();
            found.push((Region::of_pairs(&entry.ranges), &file.name));
        }
    }
    for (name, leaf) in names.iter().zip(own) {
        let found = all.remove(&**name).unwrap_or_default();
        check_cover(name, leaf.physical_shape(), found)?;
    }
    match all.first_key_value() {
        None => Ok(()),
        Some((leaf, boxes)) => Err(CheckpointError::Index {
            path: folder.join(INDEX),
            reason: format!(
                "`{}` has a box of `{leaf}`, which is not a leaf",
                boxes[0].1
            ),
        }),
    }
}

/// Checks that all files of a checkpoint are in a folder, with the lengths and hashes that the index lists.
///
/// No tensor is made, so this needs no tree. [`load_checkpoint`] checks the same, and that the leaves are those of a tree.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::sharding::{CheckpointError, Mesh, save_checkpoint, verify_checkpoint};
/// use std::sync::Arc;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let mesh = Arc::new(Mesh::new("one", &[("device", 1)])?);
/// save_checkpoint(folder, &Tensor::from([1.0f32]), &mesh, None)?;
/// verify_checkpoint(folder)?;
/// std::fs::write(folder.join("index.json"), "{}")?;
/// assert!(matches!(verify_checkpoint(folder), Err(CheckpointError::Index { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the index cannot be read, is not one, or has an unknown version, or a file is missing or has another length or
/// hash.
pub fn verify_checkpoint(folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    for file in &Index::read(folder)?.files {
        checked_bytes(&folder.join(&file.name), file)?;
    }
    Ok(())
}

/// Removes a checkpoint, and its folder if nothing else is in it.
///
/// The index is first, so a process that stops at any time leaves the whole checkpoint or none. What a process left
/// that stopped while it saved or removed one is removed too.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::sharding::{Mesh, remove_checkpoint, save_checkpoint};
/// use std::sync::Arc;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("step");
/// let mesh = Arc::new(Mesh::new("one", &[("device", 1)])?);
/// save_checkpoint(&folder, &Tensor::from([1.0f32]), &mesh, None)?;
/// remove_checkpoint(&folder)?;
/// assert!(!folder.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the folder cannot be read, or a file cannot be removed.
pub fn remove_checkpoint(folder: impl AsRef<Path>) -> Result<()> {
    Disk {
        folder: folder.as_ref(),
        before: &mut || Ok(()),
    }
    .remove_all()
}

/// Reads a file of a checkpoint, whose length and hash have to be those in the index.
fn checked_bytes(path: &Path, file: &FileEntry) -> Result<Vec<u8>> {
    let path = || path.to_owned();
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => CheckpointError::MissingFile { path: path() },
        _ => CheckpointError::Read {
            path: path(),
            source,
        },
    };
    let found = fs::metadata(path()).map_err(failed)?.len();
    if found != file.bytes {
        return Err(CheckpointError::Length {
            path: path(),
            found,
            expected: file.bytes,
        });
    }
    let bytes = fs::read(path()).map_err(failed)?;
    match *blake3::hash(&bytes).to_hex() == *file.blake3 {
        true => Ok(bytes),
        false => Err(CheckpointError::Changed { path: path() }),
    }
}

/// Reads a file, and copies its boxes to the elements of their leaves.
fn read_file(
    folder: &Path,
    file: &FileEntry,
    elements: &mut BTreeMap<&str, (&Tensor, Vec<u8>)>,
) -> Result<()> {
    let path = folder.join(&file.name);
    let bytes = checked_bytes(&path, file)?;
    let invalid = |reason: String| CheckpointError::File {
        path: path.clone(),
        reason,
    };
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| invalid(error.to_string()))?;
    for entry in &file.boxes {
        let region = Region::of_pairs(&entry.ranges);
        let name = region.name_in_file(&entry.leaf);
        let part = tensors.tensor(&name);
        let part = part.map_err(|_| invalid(format!("it has no tensor `{name}`")))?;
        let (leaf, whole) = elements
            .get_mut(&*entry.leaf)
            .expect("the leaf was checked");
        if part.dtype() != dtype_in_file(leaf.dtype()) || part.shape() != region.shape() {
            let (dtype, shape) = (part.dtype(), part.shape());
            return Err(invalid(format!(
                "its tensor `{name}` is {dtype:?}{shape:?}"
            )));
        }
        let size = leaf.dtype().size();
        let mut rest = part.data();
        for row in rows(leaf.physical_shape(), &region) {
            let (bytes, after) = rest.split_at(row.len() * size);
            whole[row.start * size..row.end * size].copy_from_slice(bytes);
            rest = after;
        }
    }
    Ok(())
}
