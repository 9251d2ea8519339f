//! Hidden state, and user functions, traits and types that read and write it.
//!
//! The names are ones that a user may choose. Some deliberately collide with names of the standard
//! library or of ops. [`set`] sets all state from a single number, and [`snapshot`] shows it as
//! text: two functions with the same effects leave equal snapshots.

#![allow(non_snake_case, non_upper_case_globals, missing_docs)]
#![allow(clippy::should_implement_trait, clippy::len_without_is_empty)]

use gradloom::Tensor;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Add, Deref, Index, Mul, Neg};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

thread_local! {
    static LEVEL: Cell<f64> = const { Cell::new(1.0) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static SHARED: Rc<Cell<i64>> = Rc::new(Cell::new(1));
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// A thread-local with an upper-case name.
    pub static GAIN: Cell<f64> = const { Cell::new(1.0) };
    /// A thread-local with a lower-case name.
    pub static gain: Cell<f64> = const { Cell::new(1.0) };
}

/// An atomic number with an upper-case name.
pub static TICKS: AtomicU64 = AtomicU64::new(0);
/// An atomic number with a lower-case name.
pub static low: AtomicU64 = AtomicU64::new(0);
/// Lazily created tensors, which are also passed as arguments.
pub static lazy: LazyLock<Tensor> = LazyLock::new(|| Tensor::from([1.0f64, 2.0, 3.0]));
pub static LAZY: LazyLock<Tensor> = LazyLock::new(|| Tensor::from([3.0f64, 2.0, 1.0]));
/// Function pointers in constants and statics.
pub const POINTER: fn(f64) -> f64 = noisy;
pub const POINTERS: [fn(f64) -> f64; 2] = [f64::sqrt, noisy];
pub static HANDLER: fn(f64) -> f64 = noisy;
pub static handler: fn(f64) -> f64 = noisy;

static LOCK: Mutex<()> = Mutex::new(());

/// Locks the statics for one thread.
pub fn lock() -> MutexGuard<'static, ()> {
    match LOCK.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Sets all hidden state to the values for `k`.
pub fn set(k: u64) {
    let level = 0.5 + 0.25 * (k % 5) as f64;
    LEVEL.set(level);
    COUNT.set(k);
    SHARED.with(|cell| cell.set(k as i64 + 2));
    GAIN.set(level + 0.125);
    gain.set(level + 0.375);
    TICKS.store(k, Ordering::Relaxed);
    low.store(k + 1, Ordering::Relaxed);
    NOTES.take();
}

/// Returns all hidden state as text.
pub fn snapshot() -> String {
    let shared = SHARED.with(|cell| cell.get());
    let ticks = (TICKS.load(Ordering::Relaxed), low.load(Ordering::Relaxed));
    format!(
        "{} reads, shared {shared}, gains {} and {}, ticks {ticks:?}, notes {:?}",
        COUNT.get(),
        GAIN.get(),
        gain.get(),
        NOTES.with_borrow(Clone::clone)
    )
}

/// Returns the cell that arguments share.
pub fn cell() -> Rc<Cell<i64>> {
    SHARED.with(Clone::clone)
}

/// Reads hidden state and counts the read.
pub fn noise() -> f64 {
    COUNT.set(COUNT.get() + 1);
    LEVEL.get() + 0.125 * (COUNT.get() % 8) as f64
}

pub fn noisy(v: f64) -> f64 {
    v * noise()
}

pub fn Noise() -> f64 {
    noise()
}

pub fn roll() -> f64 {
    noise()
}

pub fn write_down(what: &str) {
    NOTES.with_borrow_mut(|notes| notes.push(what.to_owned()));
}

/// A user macro that reads hidden state.
#[macro_export]
macro_rules! ambient {
    () => {
        $crate::adversary::world::noise()
    };
}

/// An enum with an upper-case associated function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfg {
    Fast,
    Slow(i64),
}

impl Cfg {
    pub const READ: fn() -> f64 = noise;
    pub const SCALE: f64 = 1.5;

    pub fn Read() -> f64 {
        noise()
    }
}

/// A unit struct whose trait implementations have state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ambient;

impl Ambient {
    pub fn get(&self) -> f64 {
        noise()
    }
    pub fn abs(self) -> f64 {
        noise()
    }
}

impl fmt::Display for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", noise())
    }
}

impl From<Ambient> for f64 {
    fn from(_: Ambient) -> f64 {
        noise()
    }
}

impl From<Ambient> for Tensor {
    fn from(_: Ambient) -> Tensor {
        Tensor::scalar(noise())
    }
}

impl Iterator for Ambient {
    type Item = f64;
    fn next(&mut self) -> Option<f64> {
        Some(noise())
    }
}

impl Deref for Ambient {
    type Target = f64;
    fn deref(&self) -> &f64 {
        static TABLE: LazyLock<Vec<f64>> =
            LazyLock::new(|| (0..64).map(|i| 0.5 + 0.0625 * f64::from(i)).collect());
        &TABLE[(noise() * 8.0) as usize % 64]
    }
}

impl Index<usize> for Ambient {
    type Output = f64;
    fn index(&self, _: usize) -> &f64 {
        self
    }
}

impl Add<f64> for Ambient {
    type Output = f64;
    fn add(self, by: f64) -> f64 {
        noise() + by
    }
}

impl Mul<&Tensor> for Ambient {
    type Output = Tensor;
    fn mul(self, x: &Tensor) -> Tensor {
        x * noise()
    }
}

impl Neg for Ambient {
    type Output = f64;
    fn neg(self) -> f64 {
        -noise()
    }
}

/// An iterator for loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Few;

impl IntoIterator for Few {
    type Item = f64;
    type IntoIter = std::vec::IntoIter<f64>;
    fn into_iter(self) -> Self::IntoIter {
        vec![noise(), noise()].into_iter()
    }
}

/// A struct whose methods have the names of standard methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    pub n: usize,
}

impl Knob {
    pub fn len(&self) -> usize {
        noise();
        self.n + (COUNT.get() % 3) as usize
    }
    pub fn clamp(&self, lo: f64, hi: f64) -> f64 {
        noise().clamp(lo, hi)
    }
    pub fn next(&self) -> f64 {
        noise()
    }
    pub fn take(&self) -> f64 {
        noise()
    }
    pub fn replace(&self, by: f64) -> f64 {
        by * noise()
    }
    pub fn step(&self) -> f64 {
        noise()
    }
    pub fn forward(&self) -> f64 {
        noise()
    }
    pub fn max(self, other: f64) -> f64 {
        noise().max(other)
    }
    pub fn sum(&self) -> f64 {
        noise()
    }
    pub fn sqrt(&self) -> f64 {
        noise()
    }
    /// Only computes.
    pub fn double(&self) -> f64 {
        2.0 * self.n as f64
    }
}

/// A schedule, passed as a static argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sched {
    pub warm: usize,
}

impl Sched {
    pub fn step(&self) -> f64 {
        self.warm as f64 + noise()
    }
    pub fn forward(&self) -> f64 {
        self.warm as f64 * noise()
    }
    pub fn scale(&self) -> f64 {
        noise()
    }
}

/// A value whose conversions, sums and collections count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level(pub f64);

impl From<&Level> for f64 {
    fn from(level: &Level) -> f64 {
        level.0 * noise()
    }
}

impl From<Level> for f64 {
    fn from(level: Level) -> f64 {
        level.0 * noise()
    }
}

impl From<&Level> for Tensor {
    fn from(level: &Level) -> Tensor {
        Tensor::scalar(level.0 * noise())
    }
}

impl From<f64> for Level {
    fn from(v: f64) -> Level {
        Level(v * noise())
    }
}

impl FromStr for Level {
    type Err = ();
    fn from_str(_: &str) -> Result<Level, ()> {
        Ok(Level(noise()))
    }
}

impl FromIterator<f64> for Level {
    fn from_iter<I: IntoIterator<Item = f64>>(all: I) -> Level {
        Level(all.into_iter().sum::<f64>() * noise())
    }
}

impl std::iter::Sum<f64> for Level {
    fn sum<I: Iterator<Item = f64>>(all: I) -> Level {
        all.collect()
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Level) -> Option<std::cmp::Ordering> {
        let turned = noise() > 1.0;
        let order = self.0.partial_cmp(&other.0);
        order.map(|order| if turned { order.reverse() } else { order })
    }
}

/// A value whose `Default` and `Drop` count.
#[derive(Debug)]
pub struct Seeded(pub f64);

impl Default for Seeded {
    fn default() -> Seeded {
        Seeded(noise())
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        noise();
    }
}

/// Extension trait for tensors.
pub trait Modes: Sized {
    fn normal(&self) -> Tensor;
    fn mul_add(&self, lo: f64, hi: f64) -> Tensor;
    fn flatten(&self) -> Tensor;
    fn inspect(&self, what: &str) -> Tensor;
    fn first(&self) -> Tensor;
    fn scan(&self) -> Tensor;
    fn dropped(&self) -> Tensor;
    fn level() -> Tensor;
}

impl Modes for Tensor {
    fn normal(&self) -> Tensor {
        self * noise()
    }
    fn mul_add(&self, lo: f64, hi: f64) -> Tensor {
        let (lo, hi) = (self.full_like(lo - noise()), self.full_like(hi + noise()));
        self.maximum(&lo).minimum(&hi) * noise()
    }
    fn flatten(&self) -> Tensor {
        self + noise()
    }
    fn inspect(&self, what: &str) -> Tensor {
        write_down(what);
        self.clone()
    }
    fn first(&self) -> Tensor {
        self - noise()
    }
    fn scan(&self) -> Tensor {
        self * noise()
    }
    fn dropped(&self) -> Tensor {
        self * noise()
    }
    fn level() -> Tensor {
        Tensor::scalar(noise())
    }
}

/// Extension trait for numbers, text and lists.
pub trait Dial {
    fn first(&self) -> f64;
    fn next(&self) -> f64;
    fn flatten(&self) -> f64;
    fn turned(&self) -> f64;
}

impl Dial for f64 {
    fn first(&self) -> f64 {
        self * noise()
    }
    fn next(&self) -> f64 {
        self * noise()
    }
    fn flatten(&self) -> f64 {
        self * noise()
    }
    fn turned(&self) -> f64 {
        self * noise()
    }
}

/// Bound of type parameters.
pub trait Scale {
    /// Constant that is a function.
    const BY: fn() -> f64;
    fn scale(&self) -> f64;
}

impl Scale for f64 {
    const BY: fn() -> f64 = noise;
    fn scale(&self) -> f64 {
        self * noise()
    }
}
