//! The index of a checkpoint, as JSON.

use super::CheckpointError;
use crate::{Aval, DType, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

/// Name of the index in the folder.
pub(super) const INDEX: &str = "index.json";

/// The version of the format that this release reads and writes.
pub(super) const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) version: u64,
    /// The mesh in its text form.
    pub(super) mesh: String,
    pub(super) leaves: Vec<LeafEntry>,
    pub(super) files: Vec<FileEntry>,
}

/// The part of the index that all versions have.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeafEntry {
    pub(super) path: String,
    pub(super) dtype: String,
    /// Lengths of all axes, with those of a batch prefix first.
    pub(super) shape: Vec<usize>,
    /// Number of axes of the batch prefix.
    pub(super) batch_dims: usize,
    /// The spec in its text form.
    pub(super) spec: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileEntry {
    pub(super) name: String,
    /// Length of the file.
    pub(super) bytes: u64,
    /// Hash of the file, as 64 hex digits.
    pub(super) blake3: String,
    pub(super) boxes: Vec<BoxEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BoxEntry {
    /// Path of the leaf.
    pub(super) leaf: String,
    /// The first index of each axis, and the index after the last.
    pub(super) ranges: Vec<[usize; 2]>,
}

impl Index {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("an index has no keys but texts");
        text.push(b'\n');
        text
    }

    /// Reads the index of a folder.
    pub(super) fn read(folder: &Path) -> Result<Index, CheckpointError> {
        let path = folder.join(INDEX);
        let text = fs::read(&path).map_err(|source| CheckpointError::Read {
            path: path.clone(),
            source,
        })?;
        let invalid = |reason: String| CheckpointError::Index {
            path: path.clone(),
            reason,
        };
        let parser = |error: serde_json::Error| invalid(error.to_string());
        let Version { version } = serde_json::from_slice(&text).map_err(parser)?;
        if version != VERSION {
            return Err(CheckpointError::Version {
                path,
                found: version,
                expected: VERSION,
            });
        }
        let index: Index = serde_json::from_slice(&text).map_err(parser)?;
        let mut seen = BTreeSet::new();
        for file in &index.files {
            if !seen.insert(&file.name) {
                return Err(CheckpointError::RepeatedFile {
                    path,
                    file: file.name.clone(),
                });
            }
            let mut parts = Path::new(&file.name).components();
            if !matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            ) {
                return Err(invalid(format!(
                    "`{}` is not the name of a file",
                    file.name
                )));
            }
        }
        Ok(index)
    }

    /// Checks that the leaves are those of a tree.
    pub(super) fn check_leaves(
        &self,
        folder: &Path,
        names: &[String],
        own: &[Tensor],
    ) -> Result<(), CheckpointError> {
        let path = folder.join(INDEX);
        let mut entries = BTreeMap::new();
        for entry in &self.leaves {
            if entries.insert(&*entry.path, entry).is_some() {
                let reason = format!("it lists the leaf `{}` twice", entry.path);
                return Err(CheckpointError::Index { path, reason });
            }
        }
        for (name, leaf) in names.iter().zip(own) {
            let Some(entry) = entries.remove(&**name) else {
                let leaf = name.clone();
                return Err(CheckpointError::MissingLeaf { path, leaf });
            };
            let dtype = DType::ALL
                .into_iter()
                .find(|dtype| dtype.name() == entry.dtype);
            let fits = entry.batch_dims <= entry.shape.len();
            let found = dtype.filter(|_| fits);
            let found = found.map(|dtype| Aval::batched(dtype, &entry.shape, entry.batch_dims));
            if found.as_ref() != Some(leaf.aval()) {
                let text = || format!("{}{:?}", entry.dtype, entry.shape);
                return Err(CheckpointError::Mismatch {
                    leaf: name.clone(),
                    found: found.map_or_else(text, |aval| aval.to_string()),
                    expected: leaf.aval().clone(),
                });
            }
        }
        match entries.into_keys().next() {
            None => Ok(()),
            Some(leaf) => Err(CheckpointError::ExtraLeaf {
                path,
                leaf: leaf.to_owned(),
            }),
        }
    }
}
