//! The plan cache and its settings.
//!
//! A look-up compares the hash of a computation and then its **complete** key: equal hashes alone
//! are never enough. The cache bounds the number of plans and the total length of their keys; the
//! least recently used plan is evicted first.
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
use crate::plan::cache::{CacheSlot, report};
pub use crate::plan::cache::{DEFAULT_CAPACITY, Stats};

/// Sets the largest number of plans that the cache keeps. With 0, every evaluation plans again.
pub fn set_capacity(plans: usize) {
    let evicted = Engine::lock().cache.set_capacity(plans);
    report(&evicted);
}

/// Drops all plans. Realised tensors keep their elements.
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
    let dropped = Engine::lock().cache.take_all();
    dropped.iter().for_each(CacheSlot::evict);
    report(&dropped);
}

/// Returns the current size of the plan cache.
pub fn stats() -> Stats {
    Engine::lock().cache.stats()
}

/// Sets the number of hash bits in use.
///
/// Results never depend on it; tests use few bits to force collisions.
#[doc(hidden)]
pub fn set_hash_bits(bits: u32) {
    Engine::lock().cache.set_hash_bits(bits);
}
