//! The random number generator, as pure functions of a key and a counter.
//!
//! Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3", 2011) maps a key and a 64-bit counter to two words. Element `i` of an array uses
//! counter `i`, so the elements can be drawn in any order, in parts or in parallel, with the same
//! result.

use std::iter;

/// The two words of a key.
pub type KeyWords = [u32; 2];

/// Returns the key of a seed: its high word, then its low word.
pub const fn seed(seed: u64) -> KeyWords {
    halves(seed)
}

/// Returns the high word and the low word of a number.
#[inline(always)]
pub const fn halves(n: u64) -> KeyWords {
    [(n >> 32) as u32, n as u32]
}

/// Encrypts a counter with the Threefry-2x32 block cipher.
#[inline(always)]
pub fn hash(key: KeyWords, counter: KeyWords) -> KeyWords {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    // The parity word of the key schedule, from the Skein hash.
    let schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = counter[0].wrapping_add(schedule[0]);
    let mut y = counter[1].wrapping_add(schedule[1]);
    for i in 0..5 {
        for r in ROTATIONS[i % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(r) ^ x;
        }
        x = x.wrapping_add(schedule[(i + 1) % 3]);
        y = y
            .wrapping_add(schedule[(i + 2) % 3])
            .wrapping_add(i as u32 + 1);
    }
    [x, y]
}

/// Returns key `i` of a split.
pub fn split(key: KeyWords, i: u64) -> KeyWords {
    hash(key, halves(i))
}

/// Derives a key from a number, such as a loop index or the index of a worker.
pub fn fold_in(key: KeyWords, data: u32) -> KeyWords {
    hash(key, [0, data])
}

/// Returns element `i` of an array of 32-bit random words.
#[inline(always)]
pub fn bits32(key: KeyWords, i: u64) -> u32 {
    let [x, y] = hash(key, halves(i));
    x ^ y
}

/// Returns element `i` of an array of 64-bit random words.
#[inline(always)]
pub fn bits64(key: KeyWords, i: u64) -> u64 {
    let [x, y] = hash(key, halves(i));
    u64::from(x) << 32 | u64::from(y)
}

/// Converts bits to a multiple of 2^-23 in `[0, 1)`. The bits become the mantissa of a number in
/// `[1, 2)`.
#[inline(always)]
pub fn uniform32(bits: u32) -> f32 {
    f32::from_bits(bits >> 9 | 1f32.to_bits()) - 1.0
}

/// Converts bits to a multiple of 2^-52 in `[0, 1)`.
#[inline(always)]
pub fn uniform64(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1f64.to_bits()) - 1.0
}

/// Returns a uniformly random permutation of `0..n`.
///
/// Each round is a stable sort by fresh random words. There are enough rounds that the probability
/// of any two elements having equal words in every round is below `1 / n`.
pub fn permutation(key: KeyWords, n: usize) -> Vec<i64> {
    rounds(key, n).fold((0..n as i64).collect(), |order, round| {
        let mut pairs: Vec<(u32, i64)> = order
            .into_iter()
            .enumerate()
            .map(|(i, x)| (bits32(round, i as u64), x))
            .collect();
        pairs.sort_by_key(|&(word, _)| word);
        pairs.into_iter().map(|(_, x)| x).collect()
    })
}

/// Returns the keys of the rounds of a permutation.
pub fn rounds(key: KeyWords, n: usize) -> impl Iterator<Item = KeyWords> {
    let rounds = (3.0 * (n.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
    let keys = iter::successors(Some(key), |&key| Some(split(key, 0)));
    keys.take(rounds).map(|key| split(key, 1))
}
