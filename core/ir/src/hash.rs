//! A fast, deterministic hash for maps whose keys come from programs.
//!
//! Maps compare keys in full, so a collision costs only time. The hash is not hardened against
//! malicious keys: their author could as well write a longer program. It does not depend on the
//! process.

use std::hash::BuildHasherDefault;

/// A map with the hash of this module. Do not iterate it where the order matters.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Hasher>>;

/// A hasher that adds each word to the state and multiplies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hasher(u64);

/// An odd number with evenly spread bits.
const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;

impl Hasher {
    fn add(&mut self, word: u64) {
        self.0 = self.0.wrapping_add(word).wrapping_mul(FACTOR);
    }
}

impl std::hash::Hasher for Hasher {
    fn finish(&self) -> u64 {
        // Maps use the low bits, but the high bits depend on the whole key.
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
    }
    fn write_u8(&mut self, n: u8) {
        self.add(n.into());
    }
    fn write_u32(&mut self, n: u32) {
        self.add(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.add(n as u64);
    }
}

/// Returns the hash of a long list of words.
///
/// Four independent hashes, each of every fourth word, let the CPU compute them in parallel.
pub fn words(words: &[u64]) -> u64 {
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR);
        product as u64 ^ (product >> 64) as u64
    };
    let (fours, rest) = words.as_chunks::<4>();
    let mut hashes = [1, 2, 3, 4];
    for four in fours {
        for (hash, word) in hashes.iter_mut().zip(four) {
            *hash = fold(*hash, word.rotate_left(17));
        }
    }
    let rest = rest.iter().chain(&hashes);
    rest.fold(words.len() as u64, |hash, word| fold(hash, *word))
}

#[cfg(test)]
mod tests {
    use super::words;
    use std::collections::HashSet;

    #[test]
    fn lists_that_differ_in_length_or_order_have_different_hashes() {
        let mut seen = HashSet::new();
        for n in 0..40 {
            let list: Vec<u64> = (0..n).collect();
            assert!(seen.insert(words(&list)));
            for i in 0..list.len() {
                for bit in [0, 1, 31, 32, 63] {
                    let mut other = list.clone();
                    other[i] ^= 1 << bit << 7;
                    seen.insert(words(&other));
                }
                let mut other = list.clone();
                other.swap(0, i);
                assert!(i == 0 || seen.insert(words(&other)));
            }
            assert!(seen.insert(words(&vec![0; 50 + n as usize])));
        }
    }
}
