//! Random arrays, drawn from a key.
//!
//! Element `i` is a function of the key and of `i` ([`threefry`]), so threads may draw parts of an
//! array. Only integer arithmetic and unfused float arithmetic are used, so the bits are the same
//! at every SIMD level.

use crate::memory::buffer::Buffer;
use crate::memory::buffer::reserve;
use crate::memory::data::{Data, DataMut};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::pool::PooledVec;
use crate::order::sorted;
use crate::random::erf_inv::{self, ErfInv};
use crate::random::threefry::{self, KeyWords, halves};
use crate::simd::leveled::leveled;
use crate::task::Prepared;
use crate::threads::for_each_chunk;
use gradloom_ir::DType;
use std::marker::PhantomData;

/// Distribution of random elements.
pub(super) trait Draw: Copy + Send + Sync + 'static {
    /// Element type.
    type Item: Element;
    /// Approximate time per element in nanoseconds.
    const NANOS: f64;
    /// Draws the elements from index `at` on, a multiple of [`BLOCK`], in place of those in `ys`.
    fn block(self, key: KeyWords, at: KeyWords, ys: &mut [Self::Item; BLOCK]);
}

/// Number of elements that are drawn together.
///
/// They are four vectors of 16 words, because a round of the cipher waits for the one before.
const BLOCK: usize = 64;

/// Number of elements of a task for one thread.
const TASK: usize = 256 * BLOCK;

/// Uniform integers from 0 to 2^32 - 1.
#[derive(Clone, Copy)]
pub(super) struct Bits;

/// Uniform numbers in `[0, 1)`.
#[derive(Clone, Copy)]
pub(super) struct UniformDistribution<T>(pub(super) PhantomData<T>);

/// Numbers of the standard normal distribution.
#[derive(Clone, Copy)]
pub(super) struct NormalDistribution<T>(pub(super) PhantomData<T>);

/// Bools that are true with probability `.0`.
#[derive(Clone, Copy)]
pub(super) struct Bernoulli(pub(super) f32);

/// Random words in the upper halves, in the order of `i64`. The lower halves are those of the elements before.
#[derive(Clone, Copy)]
struct WordsAbove;

/// Fills an array with random elements.
pub(super) fn fill<D: Draw>(draw: D, key: KeyWords, ys: &mut [D::Item]) {
    let nanos = (ys.len() as f64 * D::NANOS) as usize;
    for_each_chunk(ys, TASK, nanos, |i, ys| {
        part(draw, key, (i * TASK) as u64, ys);
    });
}

/// Distribution of the elements of a random array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform integers from 0 to 2^32 - 1, as `i64`.
    Bits,
    /// Uniform numbers in `[0, 1)` of a float dtype.
    Uniform(DType),
    /// Numbers of the standard normal distribution of a float dtype.
    Normal(DType),
    /// Bools that are true with this probability, rounded to `f32`.
    Bernoulli(f64),
}

impl Distribution {
    /// Returns the dtype of the elements.
    pub fn dtype(self) -> DType {
        match self {
            Distribution::Bits => DType::I64,
            Distribution::Uniform(dtype) | Distribution::Normal(dtype) => dtype,
            Distribution::Bernoulli(_) => DType::Bool,
        }
    }

    /// Draws an array of `n` elements.
    pub fn array(self, key: KeyWords, n: usize) -> Result<Buffer, KernelFault> {
        fn typed<D: Draw>(draw: D, key: KeyWords, n: usize) -> Result<Buffer, KernelFault> {
            let mut data = PooledVec::scratch(n)?;
            fill(draw, key, &mut data);
            Ok(D::Item::into_buffer(data))
        }
        fn uniform<T: Unit>(key: KeyWords, n: usize) -> Result<Buffer, KernelFault> {
            typed(UniformDistribution::<T>(PhantomData), key, n)
        }
        fn normal<T: Unit>(key: KeyWords, n: usize) -> Result<Buffer, KernelFault> {
            typed(NormalDistribution::<T>(PhantomData), key, n)
        }
        match self {
            Distribution::Bits => typed(Bits, key, n),
            Distribution::Uniform(dtype) => on_float!(dtype, uniform(key, n)),
            Distribution::Normal(dtype) => on_float!(dtype, normal(key, n)),
            Distribution::Bernoulli(p) => typed(Bernoulli(p as f32), key, n),
        }
    }

    /// Returns the kernel that fills its result, an equal part from each key of the operand.
    pub fn kernel(self) -> Prepared {
        fn typed<D: Draw>(draw: D) -> Prepared {
            Box::new(move |args, outs| {
                for (key, ys) in parts::<D::Item>(args[0], &mut outs[0]) {
                    fill(draw, key, ys);
                }
                Ok(())
            })
        }
        fn uniform<T: Unit>() -> Prepared {
            typed(UniformDistribution::<T>(PhantomData))
        }
        fn normal<T: Unit>() -> Prepared {
            typed(NormalDistribution::<T>(PhantomData))
        }
        match self {
            Distribution::Bits => typed(Bits),
            Distribution::Uniform(dtype) => on_float!(dtype, uniform()),
            Distribution::Normal(dtype) => on_float!(dtype, normal()),
            Distribution::Bernoulli(p) => typed(Bernoulli(p as f32)),
        }
    }
}

/// Derives the words of a key from each key and its number.
pub fn fold_in() -> Prepared {
    Box::new(|args, outs| {
        let data = i64::slice(args[1]);
        for ((key, ys), data) in parts::<i64>(args[0], &mut outs[0]).zip(data) {
            let data = u64::from(*data as u32);
            ys.copy_from_slice(&threefry::split(key, data).map(i64::from));
        }
        Ok(())
    })
}

/// Writes the numbers from 0 on in a random order for each key.
pub fn permutation() -> Prepared {
    Box::new(|args, outs| {
        for (key, ys) in parts::<i64>(args[0], &mut outs[0]) {
            write_order(key, ys)?;
        }
        Ok(())
    })
}

/// Number of elements from which a permutation sorts by digits.
const MANY: usize = 1 << 10;

/// Returns the numbers below `n` in a random order: [`threefry::permutation`].
pub fn order(key: KeyWords, n: usize) -> Result<Buffer, KernelFault> {
    let mut data = PooledVec::scratch(n)?;
    write_order(key, &mut data)?;
    Ok(i64::into_buffer(data))
}

/// Writes the numbers from 0 on in a random order: [`threefry::permutation`].
pub(super) fn write_order(key: KeyWords, ys: &mut [i64]) -> Result<(), KernelFault> {
    let n = ys.len();
    if u32::try_from(n).is_err() {
        // The definition would panic if there is no memory for its result.
        let _memory: Vec<i64> = reserve(n)?;
        ys.copy_from_slice(&threefry::permutation(key, n));
        return Ok(());
    }
    (ys.iter_mut().zip(0..)).for_each(|(y, i)| *y = i);
    let mut other = PooledVec::scratch(n)?;
    for round in threefry::rounds(key, n) {
        // The random word of each number is above it.
        fill(WordsAbove, round, ys);
        if n < MANY {
            ys.sort_by_key(|x| x >> 32);
            continue;
        }
        let start = sorted(ys, &mut other, 4..8).as_ptr();
        if start != ys.as_ptr() {
            ys.copy_from_slice(&other);
        }
    }
    for y in ys {
        *y = i64::from(*y as u32);
    }
    Ok(())
}

/// Returns the words of each key, stored in the lower half of an `i64`, with its equal part of the
/// result.
fn parts<'a, T: Element>(
    keys: Data<'a>,
    ys: &'a mut DataMut<'_>,
) -> impl Iterator<Item = (KeyWords, &'a mut [T])> {
    let (keys, _) = i64::slice(keys).as_chunks::<2>();
    let ys = T::slice_mut(ys);
    let len = (ys.len() / keys.len().max(1)).max(1);
    let keys = keys.iter().map(|[x, y]| [*x as u32, *y as u32]);
    keys.zip(ys.chunks_mut(len))
}

leveled! {
    /// Draws the elements from index `at` on, a multiple of [`BLOCK`].
    fn part<A, D: Draw>(draw: D, key: KeyWords, at: u64, ys: &mut [D::Item]) {
        let (blocks, rest) = ys.as_chunks_mut::<BLOCK>();
        let mut at = at;
        for ys in blocks {
            draw.block(key, halves(at), ys);
            at += BLOCK as u64;
        }
        if !rest.is_empty() {
            let mut ys = [D::Item::default(); BLOCK];
            ys[..rest.len()].copy_from_slice(rest);
            draw.block(key, halves(at), &mut ys);
            rest.copy_from_slice(&ys[..rest.len()]);
        }
    }
}

/// Returns the two random words of each element of a block. The upper half of the index is the same
/// for all.
#[inline(always)]
fn hashes(key: KeyWords, at: KeyWords) -> ([u32; BLOCK], [u32; BLOCK]) {
    let (mut xs, mut ys) = ([0; BLOCK], [0; BLOCK]);
    let mut i = 0;
    while i < BLOCK {
        [xs[i], ys[i]] = threefry::hash(key, [at[0], at[1].wrapping_add(i as u32)]);
        i += 1;
    }
    (xs, ys)
}

/// Writes `f` of the index in the block and the two random words of each element.
#[inline(always)]
fn each<T>(key: KeyWords, at: KeyWords, out: &mut [T; BLOCK], f: impl Fn(usize, u32, u32) -> T) {
    let (xs, ys) = hashes(key, at);
    let mut i = 0;
    while i < BLOCK {
        out[i] = f(i, xs[i], ys[i]);
        i += 1;
    }
}

/// Float type of uniform and normal numbers.
pub(crate) trait Unit: Element + ErfInv {
    /// Returns a number in `[0, 1)` from the two random words of an element.
    fn unit(x: u32, y: u32) -> Self;
    /// Smallest number above -1.
    const LOW: Self;
    /// Square root of 2.
    const ROOT: Self;
    /// Approximate time of a uniform and of a normal number in nanoseconds.
    const NANOS: [f64; 2];
}

impl Unit for f32 {
    const LOW: f32 = -1f32.next_down();
    const ROOT: f32 = std::f32::consts::SQRT_2;
    const NANOS: [f64; 2] = [0.5, 1.0];

    #[inline(always)]
    fn unit(x: u32, y: u32) -> f32 {
        threefry::uniform32(x ^ y)
    }
}

impl Unit for f64 {
    const LOW: f64 = -1f64.next_down();
    const ROOT: f64 = std::f64::consts::SQRT_2;
    const NANOS: [f64; 2] = [0.5, 3.0];

    #[inline(always)]
    fn unit(x: u32, y: u32) -> f64 {
        threefry::uniform64(u64::from(x) << 32 | u64::from(y))
    }
}

impl Draw for Bits {
    type Item = i64;
    const NANOS: f64 = 0.5;

    #[inline(always)]
    fn block(self, key: KeyWords, at: KeyWords, out: &mut [i64; BLOCK]) {
        each(key, at, out, |_, x, y| i64::from(x ^ y));
    }
}

impl Draw for WordsAbove {
    type Item = i64;
    const NANOS: f64 = 0.5;

    #[inline(always)]
    fn block(self, key: KeyWords, at: KeyWords, out: &mut [i64; BLOCK]) {
        let numbers = *out;
        each(key, at, out, |i, x, y| {
            let number = u64::from(numbers[i] as u32);
            ((u64::from(x ^ y) << 32 | number) ^ 1 << 63) as i64
        });
    }
}

impl Draw for Bernoulli {
    type Item = bool;
    const NANOS: f64 = 0.5;

    #[inline(always)]
    fn block(self, key: KeyWords, at: KeyWords, out: &mut [bool; BLOCK]) {
        each(key, at, out, |_, x, y| threefry::uniform32(x ^ y) < self.0);
    }
}

impl<T: Unit> Draw for UniformDistribution<T> {
    type Item = T;
    const NANOS: f64 = T::NANOS[0];

    #[inline(always)]
    fn block(self, key: KeyWords, at: KeyWords, out: &mut [T; BLOCK]) {
        each(key, at, out, |_, x, y| T::unit(x, y));
    }
}

impl<T: Unit> Draw for NormalDistribution<T> {
    type Item = T;
    const NANOS: f64 = T::NANOS[1];

    #[inline(always)]
    fn block(self, key: KeyWords, at: KeyWords, out: &mut [T; BLOCK]) {
        let (xs, ys) = hashes(key, at);
        let mut w = [T::LOW; BLOCK];
        let mut tails = false;
        let mut i = 0;
        while i < BLOCK {
            out[i] = unit_about_0(xs[i], ys[i]);
            w[i] = erf_inv::w(out[i]);
            tails |= w[i] >= T::TAIL;
            i += 1;
        }
        if tails {
            normals(out, &w, true);
        } else {
            normals(out, &w, false);
        }
    }
}

/// Returns a number in `(-1, 1)`.
#[inline(always)]
fn unit_about_0<T: Unit>(x: u32, y: u32) -> T {
    let u = T::unit(x, y);
    (u + u + T::LOW).at_least(T::LOW)
}

/// Turns uniform numbers in `(-1, 1)`, with their `w`, into normal numbers.
#[inline(always)]
fn normals<T: Unit>(us: &mut [T; BLOCK], w: &[T; BLOCK], tails: bool) {
    let mut i = 0;
    while i < BLOCK {
        let p = T::centre(w[i]);
        let p = if tails && w[i] >= T::TAIL {
            T::tail(w[i])
        } else {
            p
        };
        us[i] = T::ROOT * (p * us[i]);
        i += 1;
    }
}
