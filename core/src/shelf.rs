//! Memory that is kept for the next buffer of its size.
//!
//! Pages that are fresh from the system are an order of magnitude slower to write than memory that was used before, and an
//! allocator gives large blocks back as soon as they are free. So blocks of some size go to a shelf when they are dropped,
//! and the next result of about that size takes one from there.

use crate::buffer::fresh;
use crate::dtype::Element;
use crate::kernel::{ALIGN, KernelFault};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// Smaller blocks are the allocator's business, in bytes.
pub(crate) const LARGE: usize = 32 << 10;

/// What a shelf holds at most, in bytes. What lies there the longest goes first.
const CAPACITY: usize = 256 << 20;

/// Elements of more bytes lie at a multiple of a cache line, [`ALIGN`]: a vector that lies in two is read and written at half
/// the rate.
const ALIGNED: usize = 1 << 10;

/// Elements that go to a shelf when they are dropped.
#[derive(Debug)]
pub struct Block<T: Element> {
    data: Vec<T>,
    /// Elements of `data` that are skipped.
    skipped: usize,
}

/// The vectors that are kept, the oldest first.
#[derive(Debug)]
pub struct Shelf<T> {
    vectors: VecDeque<Vec<T>>,
    bytes: usize,
}

impl<T: Element> Block<T> {
    /// `n` elements, which hold what was left there.
    pub(crate) fn scratch(n: usize) -> Result<Block<T>, KernelFault> {
        let bytes = n.saturating_mul(size_of::<T>());
        let more = match bytes >= ALIGNED {
            true => n.saturating_add(ALIGN / size_of::<T>() - 1),
            false => n,
        };
        let from_shelf = (bytes >= LARGE).then(|| lock(T::shelf()).take(more));
        let mut data = match from_shelf.flatten() {
            Some(data) => data,
            None => fresh(more).map_err(|_| KernelFault::OutOfMemory { bytes })?,
        };
        let skipped = data.as_ptr().align_offset(ALIGN).min(more - n);
        data.truncate(skipped + n);
        data.resize(skipped + n, T::default());
        Ok(Block { data, skipped })
    }

    /// The bytes of its memory.
    pub(crate) fn room(&self) -> usize {
        bytes(&self.data)
    }
}

impl<T> Shelf<T> {
    pub(crate) const fn new() -> Shelf<T> {
        Shelf {
            vectors: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The smallest vector with room for `n` elements, if it is not twice as large.
    fn take(&mut self, n: usize) -> Option<Vec<T>> {
        let fits = |v: &Vec<T>| v.capacity() >= n && v.capacity() / 2 <= n;
        let all = self.vectors.iter().enumerate().rev();
        let (i, _) = all
            .filter(|(_, v)| fits(v))
            .min_by_key(|(_, v)| v.capacity())?;
        let found = self.vectors.remove(i)?;
        self.bytes -= bytes(&found);
        Some(found)
    }

    /// Keeps a vector, and returns those that there is no room for.
    fn put(&mut self, vector: Vec<T>) -> Vec<Vec<T>> {
        self.bytes += bytes(&vector);
        self.vectors.push_back(vector);
        let mut dropped = Vec::new();
        while self.bytes > CAPACITY
            && let Some(oldest) = self.vectors.pop_front()
        {
            self.bytes -= bytes(&oldest);
            dropped.push(oldest);
        }
        dropped
    }
}

fn bytes<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

fn lock<T>(shelf: &Mutex<Shelf<T>>) -> std::sync::MutexGuard<'_, Shelf<T>> {
    // No panic leaves a shelf half changed.
    shelf.lock().unwrap_or_else(|e| e.into_inner())
}

impl<T: Element> Drop for Block<T> {
    fn drop(&mut self) {
        if bytes(&self.data) >= LARGE {
            let dropped = lock(T::shelf()).put(std::mem::take(&mut self.data));
            // Memory is given back when the lock is.
            drop(dropped);
        }
    }
}

impl<T: Element> From<Vec<T>> for Block<T> {
    fn from(data: Vec<T>) -> Block<T> {
        let block = Block { data, skipped: 0 };
        let apart = size_of_val(&*block) >= LARGE && block.as_ptr().align_offset(ALIGN) != 0;
        // It is read more often than copied. Where there is no memory for that, it stays.
        match apart.then(|| Block::scratch(block.len())) {
            Some(Ok(mut aligned)) => {
                aligned.copy_from_slice(&block);
                aligned
            }
            _ => block,
        }
    }
}

impl<T: Element> Clone for Block<T> {
    fn clone(&self) -> Block<T> {
        self.to_vec().into()
    }
}

impl<T: Element> Deref for Block<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data[self.skipped..]
    }
}

impl<T: Element> DerefMut for Block<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.skipped..]
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, Block, CAPACITY, LARGE, Shelf};

    #[test]
    fn blocks_lie_at_a_multiple_of_a_cache_line() {
        for n in [1, 1000, LARGE, 3 * LARGE + 1] {
            for _ in 0..2 {
                let mut block = Block::<f32>::scratch(n).unwrap();
                assert_eq!(block.len(), n);
                assert!(n < LARGE || block.as_ptr().align_offset(ALIGN) == 0);
                block.fill(n as f32);
                let copy = Block::from(block.to_vec());
                assert!(n < LARGE || copy.as_ptr().align_offset(ALIGN) == 0);
                assert_eq!(*copy, *block);
            }
        }
    }

    #[test]
    fn a_shelf_gives_the_smallest_that_fits_and_forgets_the_oldest() {
        let mut shelf = Shelf::<u8>::new();
        for n in [LARGE, 3 * LARGE, 2 * LARGE] {
            assert!(shelf.put(Vec::with_capacity(n)).is_empty());
        }
        assert_eq!(shelf.take(LARGE + 1).map(|v| v.capacity()), Some(2 * LARGE));
        assert_eq!(shelf.take(LARGE + 1), None, "not three times as much");
        assert_eq!(shelf.bytes, 4 * LARGE);
        let dropped = shelf.put(Vec::with_capacity(CAPACITY - LARGE));
        assert_eq!(dropped.len(), 2);
        assert_eq!(shelf.bytes, CAPACITY - LARGE);
    }
}
