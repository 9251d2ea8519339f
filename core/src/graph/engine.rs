//! The state that all threads share.

use super::cut_program::{CutProgram, MAX_WORDS};
use super::value::Edges;
use crate::plan::cache::{Cache, DEFAULT_CAPACITY};
use crate::plan::lru::Lru;
use gradloom_kernels::fork;
use gradloom_kernels::lock::init_once;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// State that evaluations share, behind one lock.
///
/// Walks need the lock to follow edges and to stamp values, look-ups need it for the cache. Plans
/// are made and run without it.
pub(crate) struct Engine {
    pub(crate) edges: Edges,
    epoch: u64,
    pub(crate) cache: Cache,
    /// Programs that transforms have cut out of the graph lately.
    pub(crate) programs: Lru<CutProgram>,
}

static ENGINE: OnceLock<Mutex<Engine>> = OnceLock::new();

impl Engine {
    pub(crate) fn lock() -> MutexGuard<'static, Engine> {
        let engine = ENGINE.get().unwrap_or_else(Engine::shared);
        // A walk that panicked leaves stamps of its own epoch, which no later walk uses.
        engine.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Makes the engine, if no other thread has.
    #[cold]
    fn shared() -> &'static Mutex<Engine> {
        fork::set_outer_lock(|| Box::new(Engine::lock()));
        init_once(&ENGINE, || {
            Mutex::new(Engine {
                edges: Edges::new(),
                epoch: 0,
                cache: Cache::new(),
                programs: Lru::new(DEFAULT_CAPACITY, MAX_WORDS),
            })
        })
    }

    /// Returns the epoch for the next walk.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }
}
