//! Random numbers for generated graphs and functions.

use std::ops::Range;

/// A xorshift generator: small, and the same on every platform.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator. Different seeds give different numbers.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D);
        // The first outputs of similar seeds are similar, so skip them.
        for _ in 0..4 {
            rng.next();
        }
        rng
    }

    /// Returns 64 random bits.
    #[allow(clippy::should_implement_trait)] // the sequence is infinite
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % n as u64) as usize
    }

    /// Returns true with probability `1 / n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of several values.
    pub fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns a number in (-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Returns the number of random programs to check, `default` unless `GRADLOOM_PROGRAMS` says another, and the seeds to
/// draw them from.
pub fn seeds(default: u64) -> (u64, Range<u64>) {
    let Ok(asked) = std::env::var("GRADLOOM_PROGRAMS") else {
        return (default, 0..u64::MAX);
    };
    let number = |text: &str| {
        text.parse()
            .expect("`GRADLOOM_PROGRAMS` is `n` or `from..to`")
    };
    match asked.split_once("..") {
        Some((from, to)) => (u64::MAX, number(from)..number(to)),
        None => (number(&asked), 0..u64::MAX),
    }
}
