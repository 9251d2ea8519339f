use gradloom::Tree;
use gradloom::sharding::{
    CheckpointError, Mesh, load_checkpoint, remove_checkpoint, save_checkpoint, verify_checkpoint,
};
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checkpoints of a training run: one for each saved step, in one folder.
///
/// The state is any tree: parameters, the state of an optimiser, a [`Key`](gradloom::Key). Loading gives its bits back,
/// so a run that stopped goes on as if it had not.
///
/// ```
/// use gradloom::optim::AdamW;
/// use gradloom::prelude::*;
/// use gradloom_files::Checkpoints;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// let adam = AdamW::default();
/// let init = || {
///     let w = Tensor::from([3.0f32, -2.0]);
///     (adam.init(&w), w, Key::new(0))
/// };
/// let checkpoints = Checkpoints::new(folder).keep(2);
/// for _ in 0..2 {
///     // The second turn goes on where the first one stopped.
///     let found = checkpoints.latest()?;
///     for (step, error) in &found.skipped {
///         eprintln!("the checkpoint of step {step} is not used: {error}");
///     }
///     let (start, mut state) = match found.step {
///         Some(step) => (step, checkpoints.load(step, &init())?),
///         None => (0, init()),
///     };
///     for step in start + 1..=start + 3 {
///         let (adam_state, w, key) = state;
///         let (noise, key) = key.split();
///         let ct = &w + noise.normal([2], DType::F32);
///         let (w, adam_state) = adam.step(&w, &ct, &adam_state);
///         state = (adam_state, w, key);
///         checkpoints.save(step, &state)?;
///     }
/// }
/// assert_eq!(checkpoints.steps()?, [5, 6]);
/// # Ok::<(), gradloom::sharding::CheckpointError>(())
/// ```
///
/// The checkpoint of step 7 is the folder `step-7`, which
/// [`save_checkpoint`] writes for one device: an index with the hash of
/// each file, written last. So a process that stops at any time leaves each checkpoint whole or without an index, and
/// the last whole one stays. Only one process at a time may write to the folder.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    /// Number of checkpoints that stay, or all of them.
    n_kept: Option<usize>,
}

/// Result of [`Checkpoints::latest`].
#[derive(Debug)]
#[must_use = "`skipped` says which checkpoints are broken"]
pub struct Latest {
    /// The last step with a whole checkpoint.
    pub step: Option<u64>,
    /// The later steps, from the last one down, and why their checkpoints cannot be loaded.
    pub skipped: Vec<(u64, CheckpointError)>,
}

impl Checkpoints {
    /// Returns the checkpoints in a folder, which [`save`](Self::save) makes if it is missing.
    pub fn new(folder: impl Into<PathBuf>) -> Checkpoints {
        Checkpoints {
            folder: folder.into(),
            n_kept: None,
        }
    }

    /// Keeps the last `n` checkpoints: each save removes earlier ones. Without this, all stay.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    #[track_caller]
    pub fn keep(mut self, n: usize) -> Checkpoints {
        assert!(
            n > 0,
            "`Checkpoints::keep`: 0 checkpoints to keep, expected at least 1"
        );
        self.n_kept = Some(n);
        self
    }

    /// Writes the checkpoint of a step, and removes earlier ones when it is on the disk.
    ///
    /// One of the same step is replaced when the other is whole.
    ///
    /// # Errors
    ///
    /// If a leaf cannot be computed, two leaves have the same path, or a file cannot be written. The other checkpoints
    /// stay.
    pub fn save<T: Tree>(&self, step: u64, state: &T) -> Result<(), CheckpointError> {
        let mesh = Mesh::new("one", &[("device", 1)]).expect("a mesh may have one device");
        save_checkpoint(self.of_step(step), state, &Arc::new(mesh), None)?;
        sync(&self.folder).map_err(|source| CheckpointError::Write {
            path: self.folder.clone(),
            source,
        })?;
        let Some(n_kept) = self.n_kept else {
            return Ok(());
        };
        let mut others = self.steps()?;
        others.retain(|other| *other != step);
        others.sort_unstable_by_key(|other| Reverse((self.has_index(*other), *other)));
        let n_whole = others
            .iter()
            .filter(|other| self.has_index(**other))
            .count();
        for other in &others[n_whole.min(n_kept - 1)..] {
            remove_checkpoint(self.of_step(*other))?;
        }
        Ok(())
    }

    /// Returns the tree with the leaves of a checkpoint.
    ///
    /// `like` gives the structure. Its leaves have the paths, dtypes and shapes of those in the checkpoint; their
    /// elements are not read.
    ///
    /// # Errors
    ///
    /// If there is no checkpoint of this step, a file of it is missing, torn or changed, or its leaves are not those of
    /// `like`.
    pub fn load<T: Tree>(&self, step: u64, like: &T) -> Result<T, CheckpointError> {
        load_checkpoint(self.of_step(step), like, None)
    }

    /// Returns the last step whose checkpoint is whole, and the errors of those after it.
    ///
    /// The lengths and hashes of its files are those that its index lists. Without a folder there is no step.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn latest(&self) -> Result<Latest, CheckpointError> {
        let mut skipped = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match verify_checkpoint(self.of_step(step)) {
                Ok(()) => {
                    return Ok(Latest {
                        step: Some(step),
                        skipped,
                    });
                }
                Err(error) => skipped.push((step, error)),
            }
        }
        Ok(Latest {
            step: None,
            skipped,
        })
    }

    /// Returns the steps that have a checkpoint, whole or not, in order.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, CheckpointError> {
        let names = || -> io::Result<Vec<_>> {
            match fs::read_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                entries => entries?.map(|entry| Ok(entry?.file_name())).collect(),
            }
        };
        let names = names().map_err(|source| CheckpointError::Read {
            path: self.folder.clone(),
            source,
        })?;
        let step = |name: &std::ffi::OsString| {
            let step = name.to_str()?.strip_prefix("step-")?.parse().ok()?;
            // Only one text is the name of a step: `step-07` is not that of step 7.
            (name.to_str() == Some(&name_of_step(step))).then_some(step)
        };
        let mut steps: Vec<u64> = names.iter().filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    fn of_step(&self, step: u64) -> PathBuf {
        self.folder.join(name_of_step(step))
    }

    /// Returns whether a checkpoint was written to its end. Its files may have changed after that.
    fn has_index(&self, step: u64) -> bool {
        self.of_step(step).join("index.json").exists()
    }
}

fn name_of_step(step: u64) -> String {
    format!("step-{step}")
}

/// Waits until the names in a folder are on the disk.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => fs::File::open(folder)?.sync_all(),
        // A folder cannot be opened as a file elsewhere.
        false => Ok(()),
    }
}
