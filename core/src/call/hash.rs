//! Hashes of functions, computed at compile time.

/// Combines a hash with the hashes of callees, in a way that constant evaluation supports.
pub(crate) const fn fold_hash(own: [u8; 32], callees: &[[u8; 32]]) -> [u8; 32] {
    let mut state = words(&own);
    let mut i = 0;
    while i < callees.len() {
        state = mix(state, words(&callees[i]));
        i += 1;
    }
    bytes(state)
}

/// Combines a hash with the words of a value.
pub(crate) const fn fold_words(own: [u8; 32], value: &[u64]) -> [u8; 32] {
    let mut state = words(&own);
    let mut i = 0;
    while i < value.len() {
        state = mix(state, [value[i], i as u64, value.len() as u64, 1]);
        i += 1;
    }
    bytes(state)
}

/// Mixes each word with its counterpart and its neighbour, so that the order and every bit count.
const fn mix(mut state: [u64; 4], other: [u64; 4]) -> [u64; 4] {
    let mut round = 0;
    while round < 4 {
        let mut word = 0;
        while word < 4 {
            let mixed = state[word] ^ other[word].rotate_left(17 * round + 1);
            let mixed = mixed.wrapping_add(state[(word + 1) % 4]);
            let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state[word] = mixed ^ (mixed >> 29);
            word += 1;
        }
        round += 1;
    }
    state
}

const fn bytes([a, b, c, d]: [u64; 4]) -> [u8; 32] {
    let halves = [join(a, b), join(c, d)];
    let mut bytes = [0; 32];
    let (low, high) = bytes.split_at_mut(16);
    low.copy_from_slice(&halves[0].to_le_bytes());
    high.copy_from_slice(&halves[1].to_le_bytes());
    bytes
}

const fn join(low: u64, high: u64) -> u128 {
    low as u128 | (high as u128) << 64
}

const fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [
        u64::from_le_bytes(words[0]),
        u64::from_le_bytes(words[1]),
        u64::from_le_bytes(words[2]),
        u64::from_le_bytes(words[3]),
    ]
}

#[cfg(test)]
mod tests {
    use super::{fold_hash, fold_words};

    #[test]
    fn a_hash_depends_on_each_callee_and_on_their_order() {
        let (own, a, mut b) = ([1u8; 32], [2u8; 32], [2u8; 32]);
        assert_eq!(fold_hash(own, &[]), own);
        b[31] ^= 0x80;
        let hashes = [
            fold_hash(own, &[a]),
            fold_hash(own, &[b]),
            fold_hash(own, &[a, b]),
            fold_hash(own, &[b, a]),
            own,
        ];
        for (i, x) in hashes.iter().enumerate() {
            assert!(hashes[..i].iter().all(|y| x != y), "{i}");
        }
    }

    #[test]
    fn a_hash_depends_on_each_bit_of_a_value() {
        let own = fold_words([1; 32], &[0]);
        for bit in 0..64 {
            assert_ne!(fold_words([1; 32], &[1 << bit]), own, "{bit}");
        }
    }
}
