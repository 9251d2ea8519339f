//! Buffer pool: memory of dropped buffers, kept for later buffers of a similar size.
//!
//! Fresh pages are much slower to write than memory that was used before, and allocators return
//! large blocks to the system at once. So a large block goes to the pool when it is dropped, and a
//! later result of a similar size reuses it.

use crate::memory::aligned_vec::{ALIGN, AlignedVec};
use crate::memory::buffer::fresh;
use crate::memory::data::bools_of;
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use gradloom_ir::DType;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Size in bytes from which blocks are pooled.
pub const LARGE: usize = 32 << 10;

/// Largest size of one pool in bytes. The oldest blocks are freed first.
static CAPACITY: AtomicUsize = AtomicUsize::new(256 << 20);

/// Size in bytes and number of all [`PooledVec`]s that own memory.
///
/// Small ones that are kept for reuse are counted, and pooled memory is not.
static LIVING: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Returns size in bytes and number of all [`PooledVec`]s of the process that own memory.
pub fn living() -> [usize; 2] {
    LIVING.each_ref().map(|n| n.load(Ordering::Relaxed))
}

/// Returns the size in bytes of the memory in the pools.
pub fn pooled() -> usize {
    fn of<T: Element>() -> usize {
        lock(T::pool()).bytes
    }
    let mut bytes = 0;
    for dtype in DType::ALL {
        bytes += on_element!(dtype, of());
    }
    bytes
}

/// Elements whose memory returns to the pool when they are dropped, if it is large and their own.
#[derive(Debug)]
pub struct PooledVec<T: Element> {
    elements: AlignedVec<T>,
    /// Whether the memory was allocated by someone else, and is freed rather than kept.
    is_handed_over: bool,
}

/// Pooled memory, the oldest first.
#[derive(Debug)]
pub struct BufferPool<T> {
    vectors: VecDeque<AlignedVec<T>>,
    bytes: usize,
}

/// Sets how many bytes of large buffers that are not in use are kept for later results, for each dtype.
///
/// They are kept because fresh memory is slow to write. The default is 256 MiB. Buffers above the new limit are freed
/// at once, the oldest first. With 0, every large buffer is freed when it is dropped. The memory of a `Vec` that a
/// tensor was made from is never kept.
///
/// ```
/// use gradloom::{Tensor, set_kept_memory};
///
/// set_kept_memory(16 << 20);
/// drop(Tensor::from(vec![1.0f32; 1 << 20]) * 2.0);
/// ```
pub fn set_kept_memory(bytes: usize) {
    CAPACITY.store(bytes, Ordering::Relaxed);
    fn limit<T: Element>() {
        let excess = lock(T::pool()).take_excess();
        // The lock is released before the memory is freed.
        drop(excess);
    }
    for dtype in DType::ALL {
        on_element!(dtype, limit());
    }
}

/// Frees the memory of large buffers that are not in use.
///
/// The library keeps up to 256 MiB of them for each dtype, or as many as [`set_kept_memory`] says, because fresh memory is
/// slow to write.
/// The results after this call take longer once. Each thread also keeps small buffers and an arena
/// for intermediate values, which are freed when it ends.
///
/// ```
/// use gradloom::{Tensor, release_memory};
///
/// drop(Tensor::from(vec![1.0f32; 1 << 20]) * 2.0);
/// release_memory();
/// ```
pub fn release_memory() {
    fn release<T: Element>() {
        let kept = lock(T::pool()).take_all();
        // The lock is released before the memory is freed.
        drop(kept);
    }
    for dtype in DType::ALL {
        on_element!(dtype, release());
    }
}

impl<T: Element> PooledVec<T> {
    /// Returns `n` elements with unspecified values.
    pub fn scratch(n: usize) -> Result<PooledVec<T>, KernelFault> {
        let large = n.saturating_mul(size_of::<T>()) >= LARGE;
        let from_pool = large.then(|| lock(T::pool()).take(n));
        if let Some(mut vector) = from_pool.flatten() {
            vector.set_len(n);
            return Ok(PooledVec::new(vector));
        }
        fresh(n).map(PooledVec::new)
    }

    /// Returns the `n` elements whose bytes `owner` holds, in the byte order of the machine.
    ///
    /// The elements stay in the memory of `owner`, which is dropped after them. They are copied if they are not
    /// aligned. Bools are always copied, and a byte other than 0 is `true`.
    ///
    /// # Panics
    ///
    /// Panics if the owner holds another number of bytes.
    pub fn of_bytes<O: AsRef<[u8]> + Send + Sync + 'static>(
        owner: Arc<O>,
        n: usize,
    ) -> Result<PooledVec<T>, KernelFault> {
        let bytes = (*owner).as_ref();
        let len = n.checked_mul(size_of::<T>());
        assert_eq!(Some(bytes.len()), len, "the owner must hold `n` elements");
        let start = NonNull::from(bytes).cast::<T>();
        if T::TYPE != DType::Bool && start.is_aligned() {
            // SAFETY: `start` is aligned, and any bytes are numbers. They are borrowed from `owner`, which is not
            // borrowed mutably while the vector has a handle to it, so they do not change.
            return Ok(PooledVec::new(unsafe {
                AlignedVec::foreign(start, n, owner)
            }));
        }
        let mut copy = PooledVec::<T>::scratch(n)?;
        // SAFETY: the copy has as many bytes, and is borrowed mutably. Numbers may have any bytes, and bools get 0 or 1.
        let to = unsafe { std::slice::from_raw_parts_mut(copy.as_mut_ptr().cast(), bytes.len()) };
        to.copy_from_slice(bytes);
        if T::TYPE == DType::Bool {
            bools_of(to);
        }
        Ok(copy)
    }

    fn new(vector: AlignedVec<T>) -> PooledVec<T> {
        let bytes = bytes(&vector);
        if bytes > 0 {
            LIVING[0].fetch_add(bytes, Ordering::Relaxed);
            LIVING[1].fetch_add(1, Ordering::Relaxed);
        }
        PooledVec {
            elements: vector,
            is_handed_over: false,
        }
    }

    /// Returns the capacity in bytes, which is 0 for elements of another owner.
    pub fn capacity(&self) -> usize {
        bytes(&self.elements)
    }

    /// Returns whether the memory is its own. Elements of another owner are never written.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.elements.is_owned()
    }
}

impl<T> BufferPool<T> {
    pub(crate) const fn new() -> BufferPool<T> {
        BufferPool {
            vectors: VecDeque::new(),
            bytes: 0,
        }
    }

    fn take_all(&mut self) -> VecDeque<AlignedVec<T>> {
        self.bytes = 0;
        std::mem::take(&mut self.vectors)
    }

    /// Takes the smallest vector with capacity for `n` elements.
    ///
    /// Returns `None` if it is more than about twice as large.
    fn take(&mut self, n: usize) -> Option<AlignedVec<T>> {
        let fits = |vector: &AlignedVec<T>| vector.capacity() >= n && vector.capacity() / 2 <= n;
        let all = self.vectors.iter().enumerate().rev();
        let (i, _) = all
            .filter(|(_, vector)| fits(vector))
            .min_by_key(|(_, vector)| vector.capacity())?;
        let found = self.vectors.remove(i)?;
        self.bytes -= bytes(&found);
        Some(found)
    }

    /// Adds a vector, and returns the oldest vectors that exceed the capacity.
    fn put(&mut self, mut vector: AlignedVec<T>) -> Vec<AlignedVec<T>> {
        vector.align();
        self.bytes += bytes(&vector);
        self.vectors.push_back(vector);
        self.take_excess()
    }

    /// Takes the oldest vectors that exceed the capacity.
    fn take_excess(&mut self) -> Vec<AlignedVec<T>> {
        let capacity = CAPACITY.load(Ordering::Relaxed);
        let mut dropped = Vec::new();
        while self.bytes > capacity
            && let Some(oldest) = self.vectors.pop_front()
        {
            self.bytes -= bytes(&oldest);
            dropped.push(oldest);
        }
        dropped
    }
}

fn bytes<T>(vector: &AlignedVec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

fn lock<T>(pool: &Mutex<BufferPool<T>>) -> std::sync::MutexGuard<'_, BufferPool<T>> {
    // A panic cannot leave a pool half changed, so poisoning is ignored.
    pool.lock().unwrap_or_else(|e| e.into_inner())
}

impl<T: Element> Drop for PooledVec<T> {
    fn drop(&mut self) {
        let bytes = bytes(&self.elements);
        if bytes > 0 {
            LIVING[0].fetch_sub(bytes, Ordering::Relaxed);
            LIVING[1].fetch_sub(1, Ordering::Relaxed);
        }
        if bytes >= LARGE && !self.is_handed_over {
            let dropped = lock(T::pool()).put(std::mem::take(&mut self.elements));
            // The lock is released before the memory is freed.
            drop(dropped);
        }
    }
}

impl<T: Element> From<Vec<T>> for PooledVec<T> {
    fn from(data: Vec<T>) -> PooledVec<T> {
        let mut block = PooledVec::new(data.into());
        block.is_handed_over = true;
        let apart = size_of_val(&*block) >= LARGE && block.as_ptr().align_offset(ALIGN) != 0;
        // An aligned copy pays off because buffers are read often. If memory is short, the vector
        // stays.
        match apart.then(|| PooledVec::scratch(block.len())) {
            Some(Ok(mut aligned)) => {
                aligned.copy_from_slice(&block);
                aligned
            }
            _ => block,
        }
    }
}

impl<T: Element> Clone for PooledVec<T> {
    fn clone(&self) -> PooledVec<T> {
        match PooledVec::scratch(self.len()) {
            Ok(mut copy) => {
                copy.copy_from_slice(self);
                copy
            }
            Err(_) => self.to_vec().into(),
        }
    }
}

impl<T: Element> Deref for PooledVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T: Element> DerefMut for PooledVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, AlignedVec, BufferPool, CAPACITY, LARGE, PooledVec, lock};
    use crate::memory::Element;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn large_blocks_are_aligned_to_cache_lines() {
        for n in [1, 1000, LARGE, 3 * LARGE + 1] {
            for _ in 0..2 {
                let mut block = PooledVec::<f32>::scratch(n).unwrap();
                assert_eq!(block.len(), n);
                assert!(n < LARGE || block.as_ptr().align_offset(ALIGN) == 0);
                block.fill(n as f32);
                let copy = PooledVec::from(block.to_vec());
                assert!(n < LARGE || copy.as_ptr().align_offset(ALIGN) == 0);
                assert_eq!(*copy, *block);
            }
        }
    }

    #[test]
    fn elements_of_another_owner_stay_in_its_memory_until_they_are_dropped() {
        #[repr(align(8))]
        struct Owner {
            bytes: [u8; 12],
            _alive: Arc<()>,
        }
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        let alive = Arc::new(());
        let owner = || {
            Arc::new(Owner {
                bytes: [0, 0, 128, 63, 1, 0, 0, 0, 2, 0, 255, 0],
                _alive: alive.clone(),
            })
        };
        let floats = PooledVec::<f32>::of_bytes(owner(), 3).unwrap();
        assert_eq!((floats.len(), floats[0], floats.capacity()), (3, 1.0, 0));
        let copy = floats.clone();
        assert!(copy.is_owned() && !floats.is_owned());
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(floats);
        assert_eq!((Arc::strong_count(&alive), copy[0]), (1, 1.0));
        // Bools are copied, because a byte may not be a bool.
        let bools = PooledVec::<bool>::of_bytes(owner(), 12).unwrap();
        assert!(bools.is_owned() && bools[10] && bools[8] && !bools[9]);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn elements_that_are_not_aligned_are_copied() {
        struct Odd(Vec<u8>, usize);
        impl AsRef<[u8]> for Odd {
            fn as_ref(&self) -> &[u8] {
                &self.0[self.1..][..16]
            }
        }
        for skipped in 0..8 {
            let bytes = Odd((0..24).collect(), skipped);
            let is_aligned = bytes.as_ref().as_ptr().addr() % 8 == 0;
            let expected = i64::from_ne_bytes(std::array::from_fn(|i| (skipped + i) as u8));
            let numbers = PooledVec::<i64>::of_bytes(Arc::new(bytes), 2).unwrap();
            assert_eq!((numbers.len(), numbers[0]), (2, expected));
            assert_eq!(numbers.is_owned(), !is_aligned);
        }
    }

    #[test]
    #[should_panic = "foreign elements are never written"]
    fn elements_of_another_owner_are_never_written() {
        let mut elements = PooledVec::<u8>::of_bytes(Arc::new([1u8, 2]), 2).unwrap();
        elements[0] = 3;
    }

    #[test]
    fn the_memory_of_a_vec_is_not_kept() {
        // No other test has large buffers of this type.
        let kept = || lock(half::f16::pool()).bytes;
        let numbers = || vec![half::f16::ONE; LARGE];
        drop(PooledVec::from(numbers()));
        let first = kept();
        for _ in 0..10 {
            let given = PooledVec::from(numbers());
            let copy = given.clone();
            drop((given, copy));
        }
        // The aligned copies of one turn, which the next one takes again.
        assert!(kept() <= first + 4 * LARGE, "{} bytes", kept());
        drop(PooledVec::<half::f16>::scratch(LARGE));
        assert!(kept() > 0);
        super::release_memory();
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_pool_returns_the_smallest_fit_and_drops_the_oldest() {
        let mut pool = BufferPool::<bool>::new();
        for n in [LARGE, 3 * LARGE, 2 * LARGE] {
            assert!(pool.put(AlignedVec::zeroed(n).unwrap()).is_empty());
        }
        assert_eq!(pool.take(LARGE + 1).map(|v| v.capacity()), Some(2 * LARGE));
        assert!(pool.take(LARGE + 1).is_none(), "not three times as much");
        assert_eq!(pool.bytes, 4 * LARGE);
        let capacity = CAPACITY.load(Ordering::Relaxed);
        let dropped = pool.put(vec![false; capacity - LARGE].into());
        assert_eq!(dropped.len(), 2);
        assert!(pool.bytes <= capacity - LARGE);
        assert_eq!((pool.take_all().len(), pool.bytes), (1, 0));
        assert!(pool.take(capacity - LARGE).is_none());
    }
}
