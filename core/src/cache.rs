//! The plan cache and its settings.
//!
//! A look-up compares the hash of a computation and then its **complete** key: equal hashes alone
//! are never enough. The cache bounds the number of plans and the total length of their keys; the
//! least recently used plan is evicted first.
//!
//! The recorded programs of closures that transforms ran are kept in the same way, with the derivatives
//! that transforms made of them: up to the same number, with keys of up to 1 MiB together. A program that
//! refers to host code, such as a custom function, is not kept: its derivative is made at each call.
//!
//! ```
//! use gradloom::{Tensor, cache};
//!
//! cache::set_capacity(64);
//! (Tensor::from([1.0f32, 2.0]) * 3.0).to_vec::<f32>();
//! let stats = cache::stats();
//! assert!(stats.plans >= 1 && stats.plans <= stats.capacity);
//! ```

use crate::graph::engine::Engine;
use crate::plan::cache::report;
pub use crate::plan::cache::{DEFAULT_CAPACITY, Stats};
use crate::plan::limit::set_limit;

/// Sets the largest number of plans that the cache keeps, and of recorded programs. With 0, every evaluation plans
/// again, and every transform of a closure differentiates again.
pub fn set_capacity(plans: usize) {
    let mut engine = Engine::lock();
    let evicted = engine.cache.set_capacity(plans);
    let programs = engine.programs.set_capacity(plans);
    drop(engine);
    report(&evicted);
    drop(programs);
}

/// Drops all plans and recorded programs. Realised tensors keep their elements.
///
/// ```
/// use gradloom::{Tensor, cache};
///
/// let y = Tensor::from([1.0f32, 2.0]) * 3.0;
/// gradloom::evaluate(&y)?;
/// cache::clear(); // y has been computed and stays
/// assert_eq!(y.to_vec::<f32>(), [3.0, 6.0]);
/// # Ok::<(), gradloom::Error>(())
/// ```
pub fn clear() {
    let mut engine = Engine::lock();
    let dropped = engine.cache.take_all();
    let programs = engine.programs.take_all();
    drop(engine);
    report(&dropped);
    drop(programs);
}

/// Sets how many bytes the values of one evaluation may take at a time: its results and the values between. The tensors
/// that it reads do not count. `None`, the default, is no limit.
///
/// A plan that would hold more drops values, and computes them again where they are read: those that are large, that are
/// not read for a long time, and that are fast to compute. The bits of the results are the same. [`explain`](crate::explain())
/// says how many bytes are held and which operations run again, and [`profile`](crate::profile()) how long these take. If
/// a limit is out of reach, the plan with the fewest bytes that was found runs, and `explain` says so.
///
/// Loops, custom functions and programs for several devices are not computed again, and the memory in their bodies is not
/// limited. All plans are dropped, since they were made for another limit.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::{explain, set_memory_limit};
///
/// let (x, w) = (Tensor::eye(64, DType::F32), Tensor::full([64, 64], 0.01, DType::F32));
/// let loss = |x: &Tensor| (0..16).fold(x.clone(), |h, _| h.matmul(&w).tanh()).sum(..);
/// let free = grad(loss)(&x).to_vec::<f32>();
/// set_memory_limit(Some(200 << 10));
/// let slope = grad(loss)(&x);
/// assert!(explain(&slope).to_string().contains("computed again"));
/// assert_eq!(slope.to_vec::<f32>(), free);
/// set_memory_limit(None);
/// ```
pub fn set_memory_limit(bytes: Option<usize>) {
    let mut engine = Engine::lock();
    set_limit(bytes.unwrap_or(usize::MAX));
    let dropped = engine.cache.take_all();
    drop(engine);
    report(&dropped);
}

/// Returns the current size of the plan cache.
pub fn stats() -> Stats {
    let engine = Engine::lock();
    engine.cache.stats(engine.programs.len())
}

/// Sets the number of hash bits in use.
///
/// Results never depend on it; tests use few bits to force collisions.
#[doc(hidden)]
pub fn set_hash_bits(bits: u32) {
    let mut engine = Engine::lock();
    engine.cache.set_hash_bits(bits);
    engine.programs.set_hash_bits(bits);
}
