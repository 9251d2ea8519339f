//! Entries that are found by their complete keys, the least recently used of which are dropped.

use gradloom_ir::hash;
use std::sync::Arc;

/// Entry of an [`Lru`].
pub(crate) trait Keyed {
    /// Returns the complete key.
    fn key(&self) -> &[u64];

    /// Returns whether the entry was used without a look-up since the last call.
    fn take_touched(&self) -> bool {
        false
    }
}

/// A bounded set of entries.
///
/// A look-up compares the hash of a key and then the key itself.
pub(crate) struct Lru<E> {
    // Unsorted: for some hundred entries, a linear scan over hashes is cheaper than the graph walk.
    slots: Vec<Slot<E>>,
    /// Total length of all keys, in words.
    words: usize,
    max_words: usize,
    capacity: usize,
    hash_bits: u32,
    lookups: u64,
}

struct Slot<E> {
    hash: u64,
    /// Value of [`Lru::lookups`] at the last use.
    used: u64,
    entry: Arc<E>,
}

impl<E: Keyed> Lru<E> {
    /// Returns a set of up to `capacity` entries, whose keys have up to `max_words` words together.
    pub(crate) const fn new(capacity: usize, max_words: usize) -> Lru<E> {
        Lru {
            slots: Vec::new(),
            words: 0,
            max_words,
            capacity,
            hash_bits: 64,
            lookups: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the total length of all keys, in words.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Returns the entries with the times of their last uses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&E, u64)> {
        self.slots.iter().map(|slot| (&*slot.entry, slot.used))
    }

    /// Sets the largest number of entries, and returns those that exceed it.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Vec<Arc<E>> {
        self.capacity = capacity;
        self.shrink()
    }

    /// Sets the number of hash bits in use.
    pub(crate) fn set_hash_bits(&mut self, bits: u32) {
        self.hash_bits = bits;
        for slot in &mut self.slots {
            slot.hash = hash_of(slot.entry.key(), bits);
        }
    }

    /// Returns the entry for `key`, and marks it as used.
    pub(crate) fn find(&mut self, key: &[u64]) -> Option<Arc<E>> {
        self.lookups += 1;
        let hash = hash_of(key, self.hash_bits);
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.hash == hash && *slot.entry.key() == *key)?;
        slot.used = self.lookups;
        Some(slot.entry.clone())
    }

    /// Returns whether a key is too long for any entry.
    pub(crate) fn is_too_long(&self, key: &[u64]) -> bool {
        key.len() > self.max_words
    }

    /// Adds an entry, for whose key there is none, and returns those that exceed the bounds.
    pub(crate) fn insert(&mut self, entry: Arc<E>) -> Vec<Arc<E>> {
        self.words += entry.key().len();
        self.slots.push(Slot {
            hash: hash_of(entry.key(), self.hash_bits),
            used: self.lookups,
            entry,
        });
        self.shrink()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Arc<E>> {
        self.words = 0;
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().map(|slot| slot.entry).collect()
    }

    fn is_over(&self) -> bool {
        self.slots.len() > self.capacity || self.words > self.max_words
    }

    /// Removes the least recently used entries until the set is within its bounds.
    fn shrink(&mut self) -> Vec<Arc<E>> {
        let mut evicted = Vec::new();
        if self.is_over() {
            for slot in &mut self.slots {
                if slot.entry.take_touched() {
                    slot.used = self.lookups;
                }
            }
        }
        while self.is_over() {
            let oldest = (0..self.slots.len())
                .min_by_key(|i| self.slots[*i].used)
                .expect("a set over its bounds is not empty");
            let slot = self.slots.swap_remove(oldest);
            self.words -= slot.entry.key().len();
            evicted.push(slot.entry);
        }
        evicted
    }
}

fn hash_of(key: &[u64], bits: u32) -> u64 {
    hash::words(key) & u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}
