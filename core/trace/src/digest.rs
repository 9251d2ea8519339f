//! Hash and root mean square in one pass.

use crate::TraceRecord;

/// Number of elements that are converted, hashed and summed at a time. They fit the first cache,
/// and are enough for the widest vectors of the hash.
const CHUNK: usize = 4096;

/// Number of partial sums of squares.
const LANES: usize = 8;

/// Hash and root mean square of the elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// BLAKE3 of the elements as little-endian `f32`: 64 hex digits.
    pub blake3: String,
    /// Root mean square, summed in `f64`, or 0 if there are no elements.
    pub rms: f64,
    /// Number of elements.
    pub num_elements: usize,
}

impl Digest {
    /// Returns the record of a tensor with this digest, without the optional fields.
    ///
    /// ```
    /// # use gradloom_trace::digest_f32;
    /// let record = digest_f32(&[3.0, 4.0]).record("h", &[2], "F32");
    /// assert_eq!(record.rms, 12.5f64.sqrt());
    /// ```
    pub fn record(self, name: &str, shape: &[usize], dtype: &str) -> TraceRecord {
        TraceRecord {
            name: name.to_owned(),
            shape: shape.to_vec(),
            dtype: dtype.to_owned(),
            blake3: self.blake3,
            rms: self.rms,
            num_elements: self.num_elements,
            seq_index: None,
            layer_idx: None,
            stage: None,
        }
    }
}

/// Returns the digest of `n` elements that `fill` converts: it gets the position of the first one
/// and a slice to write to.
///
/// The hash covers the bits: -0.0 and 0.0 have different hashes, and so have NaN with different
/// payloads. The order of the sums depends on `n` only, so the result is the same everywhere.
///
/// ```
/// # use gradloom_trace::{digest, digest_f32};
/// let wide = [1.0f64, 2.0];
/// let found = digest(2, |start, out| {
///     for (y, x) in out.iter_mut().zip(&wide[start..]) {
///         *y = *x as f32;
///     }
/// });
/// assert_eq!(found, digest_f32(&[1.0, 2.0]));
/// ```
pub fn digest(n: usize, mut fill: impl FnMut(usize, &mut [f32])) -> Digest {
    let mut chunk = [0f32; CHUNK];
    let mut state = State::new();
    for start in (0..n).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(n - start)];
        fill(start, chunk);
        state.add(chunk);
    }
    state.finish(n)
}

/// [`digest`] of elements that need no conversion.
///
/// ```
/// # use gradloom_trace::digest_f32;
/// assert_ne!(digest_f32(&[0.0]).blake3, digest_f32(&[-0.0]).blake3);
/// assert_eq!(digest_f32(&[]).rms, 0.0);
/// ```
pub fn digest_f32(x: &[f32]) -> Digest {
    let mut state = State::new();
    x.chunks(CHUNK).for_each(|chunk| state.add(chunk));
    state.finish(x.len())
}

struct State {
    hasher: blake3::Hasher,
    squares: [f64; LANES],
    bytes: Box<[[u8; 4]; CHUNK]>,
}

impl State {
    fn new() -> State {
        State {
            hasher: blake3::Hasher::new(),
            squares: [0.0; LANES],
            bytes: Box::new([[0; 4]; CHUNK]),
        }
    }

    /// Adds elements. Every slice but the last has a multiple of [`LANES`] elements.
    fn add(&mut self, x: &[f32]) {
        let bytes = &mut self.bytes[..x.len()];
        for (to, x) in bytes.iter_mut().zip(x) {
            *to = x.to_le_bytes();
        }
        self.hasher.update(bytes.as_flattened());
        let (groups, rest) = x.as_chunks::<LANES>();
        for group in groups {
            for (sum, x) in self.squares.iter_mut().zip(group) {
                *sum += f64::from(*x) * f64::from(*x);
            }
        }
        for (sum, x) in self.squares.iter_mut().zip(rest) {
            *sum += f64::from(*x) * f64::from(*x);
        }
    }

    fn finish(self, n: usize) -> Digest {
        let sum: f64 = self.squares.iter().sum();
        let rms = match n {
            0 => 0.0,
            n => (sum / n as f64).sqrt(),
        };
        Digest {
            blake3: self.hasher.finalize().to_hex().to_string(),
            rms,
            num_elements: n,
        }
    }
}
