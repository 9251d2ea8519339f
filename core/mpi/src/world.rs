//! The ranks of a program, and how they agree.

use crate::error::{MpiError, Result};
use gradloom::sharding::Mesh;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::thread::panicking;

/// The processes that `mpirun` has started: rank `r` is device `r` of a mesh.
///
/// Make it first in `main`, and drop it last. Every method says whether all ranks have to call it together.
pub struct World {
    /// Communicators of groups, each by all groups of ranks that were made with it. They are freed before MPI ends.
    groups: RefCell<BTreeMap<Vec<Vec<usize>>, Rc<SimpleCommunicator>>>,
    comm: SimpleCommunicator,
    n_functions: Cell<usize>,
    /// The error of all calls, once a rank has left.
    over: RefCell<Option<MpiError>>,
    _universe: Universe,
    /// MPI is called by the thread that has initialised it.
    _thread: PhantomData<*const ()>,
}

/// What a rank does when it meets the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It calls a function with a plan, or with the number after the last plan if it has none.
    Call { function: usize, plan: usize },
    /// It has made something, with this hash.
    Made(u64),
    /// It has run the program of a call.
    Ran,
    /// It calls [`World::on_first_rank`].
    OnFirst,
    /// It drops its world.
    Leave,
}

impl Deed {
    fn encode(self) -> [u64; 3] {
        match self {
            Deed::Call { function, plan } => [0, function as u64, plan as u64],
            Deed::Made(hash) => [1, hash, 0],
            Deed::Ran => [2, 0, 0],
            Deed::OnFirst => [3, 0, 0],
            Deed::Leave => [LEAVE, 0, 0],
        }
    }

    /// Says what a rank did.
    fn show(code: &[u64]) -> String {
        match code[0] {
            0 => format!(
                "calls function {} with the shapes of its plan {}",
                code[1], code[2]
            ),
            1 | 2 => "is inside of a call".to_owned(),
            3 => "calls `on_first_rank`".to_owned(),
            _ => "leaves".to_owned(),
        }
    }
}

const LEAVE: u64 = 4;

/// Why a rank does not complete a call.
pub(crate) enum Stop {
    /// An error that all ranks get.
    Error(MpiError),
    /// A panic of this rank, which goes on when the others know of it.
    Panic(Box<dyn Any + Send>),
}

impl From<MpiError> for Stop {
    fn from(error: MpiError) -> Stop {
        Stop::Error(error)
    }
}

/// Ends all ranks if it is dropped by a panic that has begun since: the others wait for the rest of a call.
struct AbortOnPanic<'a> {
    world: &'a World,
    was_panicking: bool,
}

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if panicking() && !self.was_panicking {
            eprintln!(
                "rank {} panicked in the middle of a call, and ends all ranks",
                self.world.rank()
            );
            self.world.comm.abort(1);
        }
    }
}

impl World {
    /// Initialises MPI. All ranks have to do so.
    ///
    /// A program that was not started by `mpirun` is a world of one rank. A rank computes with as many threads as
    /// another program; with several ranks on a machine, set `GRADLOOM_THREADS` or call [`gradloom::set_threads`].
    ///
    /// ```
    /// let world = gradloom_mpi::World::new()?;
    /// assert!(world.rank() < world.size());
    /// # Ok::<(), gradloom_mpi::MpiError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the process has initialised MPI before, or the MPI library does not support threads.
    pub fn new() -> Result<World> {
        let (universe, level) =
            mpi::initialize_with_threading(Threading::Serialized).ok_or(MpiError::Initialised)?;
        if level < Threading::Serialized {
            return Err(MpiError::Threads);
        }
        Ok(World {
            groups: RefCell::default(),
            comm: universe.world(),
            n_functions: Cell::new(0),
            over: RefCell::default(),
            _universe: universe,
            _thread: PhantomData,
        })
    }

    /// Returns the number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.comm.rank() as usize
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.comm.size() as usize
    }

    /// Calls `f` on rank 0, and returns its result there, and `None` on the other ranks when it is done. All ranks have to
    /// call it together.
    ///
    /// Use it to write files that all ranks share, such as a [checkpoint](gradloom::sharding).
    ///
    /// ```
    /// # use gradloom_mpi::World;
    /// let world = World::new()?;
    /// let path = std::env::temp_dir().join("gradloom-mpi-example");
    /// world.on_first_rank(|| std::fs::write(&path, "done"))?;
    /// assert_eq!(std::fs::read(&path)?, b"done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// On all ranks, if `f` fails or panics on rank 0, or a rank has left.
    pub fn on_first_rank<T, E: Display>(
        &self,
        f: impl FnOnce() -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        self.run(|| {
            self.agree(Deed::OnFirst, None)?;
            let is_first = self.rank() == 0;
            let done = catch_unwind(AssertUnwindSafe(|| is_first.then(f).transpose()));
            self.meet(|_| Deed::Ran, done)
        })
    }

    /// Returns the position of this rank in a mesh.
    pub(crate) fn position(&self, mesh: &Mesh) -> Result<usize> {
        let place = |rank: usize| mesh.devices().iter().position(|device| *device == rank);
        // As the devices of a mesh are distinct, these are all of them.
        let all = (0..self.size()).all(|rank| place(rank).is_some());
        match place(self.rank()) {
            Some(position) if all && mesh.n_devices() == self.size() => Ok(position),
            _ => Err(MpiError::Devices {
                mesh: mesh.to_string(),
                n_devices: mesh.n_devices(),
                ranks: self.size(),
            }),
        }
    }

    /// Returns the number of another function.
    pub(crate) fn next_function(&self) -> usize {
        self.n_functions.replace(self.n_functions.get() + 1)
    }

    /// Returns the communicator of the group of this rank, given all groups. All ranks have to call it together.
    pub(crate) fn group(&self, groups: Vec<Vec<usize>>) -> Rc<SimpleCommunicator> {
        if let Some(found) = self.groups.borrow().get(&groups) {
            return found.clone();
        }
        let rank = self.rank();
        let mut places = groups.iter().enumerate().filter_map(|(color, group)| {
            let place = group.iter().position(|other| *other == rank)?;
            Some((color, place))
        });
        let (color, place) = places.next().expect("each rank is in a group");
        let color = Color::with_value(color as i32);
        let comm = self.comm.split_by_color_with_key(color, place as i32);
        let comm = Rc::new(comm.expect("a rank with a color gets a communicator"));
        self.groups.borrow_mut().insert(groups, comm.clone());
        comm
    }

    /// Runs a call. A panic of the user's code goes on at the end; any other panic ends all ranks.
    pub(crate) fn run<T>(&self, call: impl FnOnce() -> Result<T, Stop>) -> Result<T> {
        let abort = AbortOnPanic {
            world: self,
            was_panicking: panicking(),
        };
        let result = call();
        drop(abort);
        result.map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Panic(panic) => resume_unwind(panic),
        })
    }

    /// Tells all ranks how something ended. If it failed or panicked on one, it is an error on all of them.
    ///
    /// The deed of its result has to be the same on all ranks.
    pub(crate) fn meet<T, E: Display>(
        &self,
        deed: impl FnOnce(&T) -> Deed,
        result: std::thread::Result<Result<T, E>>,
    ) -> Result<T, Stop> {
        match result {
            Ok(Ok(value)) => {
                self.agree(deed(&value), None)?;
                Ok(value)
            }
            Ok(Err(error)) => {
                self.agree(Deed::Ran, Some(&error.to_string()))?;
                unreachable!("a failure is an error on all ranks")
            }
            Err(panic) => {
                let message = format!("it panicked: {}", panic_text(&*panic));
                let _ = self.agree(Deed::Ran, Some(&message));
                Err(Stop::Panic(panic))
            }
        }
    }

    /// Compares what the ranks do, and returns the same error on all of them if one failed or does something else.
    pub(crate) fn agree(&self, deed: Deed, failure: Option<&str>) -> Result<()> {
        if let Some(error) = &*self.over.borrow() {
            return Err(error.clone());
        }
        let text = failure.unwrap_or_default();
        // The length of the message and 1, or 0.
        let len = failure.map_or(0, |text| text.len() as u64 + 1);
        let own = [&deed.encode()[..], &[len]].concat();
        let all = self.all_gather(&own);
        let all: Vec<&[u64]> = all.chunks_exact(own.len()).collect();
        let failed = all.iter().position(|code| code[3] > 0);
        let message = failed.map(|rank| {
            let mut bytes = vec![0u8; all[rank][3] as usize - 1];
            if rank == self.rank() {
                bytes.copy_from_slice(text.as_bytes());
            }
            let root = self.comm.process_at_rank(rank as i32);
            root.broadcast_into(&mut bytes[..]);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let left = all.iter().position(|code| code[0] == LEAVE);
        let error = match (left, failed, message) {
            // All ranks end.
            (Some(_), ..) if all.iter().all(|code| code[0] == LEAVE) => return Ok(()),
            (Some(rank), failed, message) => {
                let of_rank = message.filter(|_| failed == Some(rank));
                let reason = of_rank.unwrap_or_else(|| "its `World` was dropped".to_owned());
                let error = MpiError::Left { rank, reason };
                *self.over.borrow_mut() = Some(error.clone());
                error
            }
            (None, Some(rank), message) => MpiError::Failed {
                rank,
                message: message.unwrap_or_default(),
            },
            (None, None, _) => {
                let Some(rank) = all.iter().position(|code| *code != all[0]) else {
                    return Ok(());
                };
                match [all[0][0], all[rank][0]] {
                    [1, 1] => MpiError::Program { rank },
                    _ => MpiError::Order {
                        first: Deed::show(all[0]),
                        rank,
                        other: Deed::show(all[rank]),
                    },
                }
            }
        };
        Err(error)
    }

    /// Returns the numbers of all ranks, one rank after the other. All ranks have to give as many.
    pub(crate) fn all_gather(&self, own: &[u64]) -> Vec<u64> {
        let mut all = vec![0; own.len() * self.size()];
        self.comm.all_gather_into(own, &mut all[..]);
        all
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let reason = panicking().then_some("it panicked");
        // The others know that this rank leaves. It has nobody to tell what they do.
        let _ = self.agree(Deed::Leave, reason);
        self.groups.take();
    }
}

/// Returns the text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "the message is on its terminal".to_owned())
}
