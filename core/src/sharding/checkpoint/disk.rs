//! Changes of the folder of a checkpoint, each of which leaves a whole checkpoint.

use super::CheckpointError;
use super::index::INDEX;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// The folder of a checkpoint, for writing.
pub(super) struct Disk<'a> {
    pub(super) folder: &'a Path,
    /// Called before each change of the folder, so that tests can stop there.
    pub(super) before: &'a mut dyn FnMut() -> io::Result<()>,
}

impl Disk<'_> {
    fn change<T>(
        &mut self,
        path: &Path,
        change: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, CheckpointError> {
        let done = (self.before)().and_then(|()| change());
        done.map_err(|source| CheckpointError::Write {
            path: path.to_owned(),
            source,
        })
    }

    pub(super) fn create(&mut self) -> Result<(), CheckpointError> {
        let folder = self.folder;
        self.change(folder, || fs::create_dir_all(folder))
    }

    /// Writes a file under a temporary name and renames it when it is on the disk.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        let path = self.folder.join(name);
        let temporary = self.folder.join(format!("{name}.tmp"));
        let mut file = self.change(&path, || fs::File::create(&temporary))?;
        self.change(&path, || {
            file.write_all(bytes)?;
            file.sync_all()
        })?;
        drop(file);
        self.change(&path, || fs::rename(&temporary, &path))
    }

    /// Waits until the names of files are on the disk.
    pub(super) fn sync(&mut self) -> Result<(), CheckpointError> {
        let folder = self.folder;
        self.change(folder, || match cfg!(unix) {
            true => fs::File::open(folder)?.sync_all(),
            // A folder cannot be opened as a file elsewhere.
            false => Ok(()),
        })
    }

    /// Removes the files of other checkpoints, and those that a crash left.
    pub(super) fn remove_others(&mut self, kept: &BTreeSet<&str>) -> Result<(), CheckpointError> {
        let folder = self.folder;
        let names = self.change(folder, || {
            let entries = fs::read_dir(folder)?;
            let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
            names.collect::<io::Result<Vec<_>>>()
        })?;
        for name in names.into_iter().flatten() {
            let is_own = name == format!("{INDEX}.tmp")
                || name.starts_with("shard-")
                    && (name.ends_with(".safetensors") || name.ends_with(".safetensors.tmp"));
            if is_own && !kept.contains(&*name) {
                let path = folder.join(&name);
                self.change(&path, || fs::remove_file(&path))?;
            }
        }
        Ok(())
    }

    /// Removes the index, the other files of checkpoints, and the folder if it is empty then.
    pub(super) fn remove_all(&mut self) -> Result<(), CheckpointError> {
        let folder = self.folder;
        let index = folder.join(INDEX);
        self.change(&index, || match fs::remove_file(&index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        })?;
        self.sync()?;
        self.remove_others(&BTreeSet::new())?;
        self.change(folder, || match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => done,
        })
    }
}
