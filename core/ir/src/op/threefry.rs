//! The random number generator, for the definitions of the random ops.
//!
//! Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3", 2011) maps a key and a 64-bit counter to two words. Element `i` of an array uses
//! counter `i`.

use super::nd_array::{Application, NdArray};
use crate::{DType, Static};

/// The two words of a key.
pub(super) type Words = [u32; 2];

/// Returns what is drawn from each key of the first operand. `draw` is told the number of elements.
pub(super) fn per_key(
    of: &Application<'_>,
    mut draw: impl FnMut(Words, usize) -> Vec<f64>,
) -> NdArray {
    let (keys, _) = of.x().data.as_chunks::<2>();
    let n: usize = of.out().iter().product();
    let each = |[x, y]: &[f64; 2]| draw([*x as i64 as u32, *y as i64 as u32], n / keys.len());
    NdArray {
        shape: of.out().to_vec(),
        data: keys.iter().flat_map(each).collect(),
    }
}

/// Returns what is drawn from each key of the first operand, from the number of each element in
/// row-major order.
pub(super) fn draw(of: &Application<'_>, element: impl Fn(Words, u64) -> f64) -> NdArray {
    per_key(of, |key, n| {
        (0..n as u64).map(|i| element(key, i)).collect()
    })
}

/// Encrypts a counter.
pub(super) fn hash(key: Words, counter: u64) -> Words {
    // The last word is that of the key schedule of the Skein hash.
    let schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = ((counter >> 32) as u32).wrapping_add(schedule[0]);
    let mut y = (counter as u32).wrapping_add(schedule[1]);
    for round in 0..20 {
        x = x.wrapping_add(y);
        y = y.rotate_left([13, 15, 26, 6, 17, 29, 16, 24][round % 8]) ^ x;
        if round % 4 == 3 {
            let n = round / 4 + 1;
            x = x.wrapping_add(schedule[n % 3]);
            y = y.wrapping_add(schedule[(n + 1) % 3]).wrapping_add(n as u32);
        }
    }
    [x, y]
}

/// Returns element `i` of an array of 32-bit random words.
pub(super) fn word(key: Words, i: u64) -> u32 {
    let [x, y] = hash(key, i);
    x ^ y
}

/// Returns element `i` of an array of random numbers in `[0, 1)`, with the precision of a dtype.
///
/// It is a multiple of 2^-23 for `f32`, and of 2^-52 for `f64`.
pub(super) fn unit(key: Words, i: u64, dtype: &Static) -> f64 {
    if dtype.dtype() == Some(DType::F32) {
        return f64::from(word(key, i) >> 9) / (1u64 << 23) as f64;
    }
    let [x, y] = hash(key, i);
    let bits = u64::from(x) << 32 | u64::from(y);
    (bits >> 12) as f64 / (1u64 << 52) as f64
}
