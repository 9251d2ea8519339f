//! Random numbers: arrays that are drawn with a key.
//!
//! Element `i` is a function of the key and of `i` ([`threefry`]), so an array may be drawn in parts by several threads. All
//! is integer arithmetic, and floats without fused multiplications: the bits are the same at every level of the CPU.

use super::data::Data;
use super::memory::Prepared;
use super::threads::for_each_chunk;
use super::{KernelFault, leveled::leveled};
use crate::Aval;
use crate::buffer::reserve;
use crate::dtype::Element;
use crate::plan::{Build, Place};
use crate::random::erf_inv::{self, ErfInv};
use crate::random::threefry::{self, Words, halves};
use std::marker::PhantomData;

/// What is drawn.
pub(crate) trait Draw: Copy + Send + Sync + 'static {
    /// The type of a number.
    type Item: Element;
    /// About how many nanoseconds one takes.
    const NANOS: f64;
    /// Draws the elements from number `at` on, which is a multiple of their number.
    fn block(self, key: Words, at: Words, ys: &mut [Self::Item; BLOCK]);
}

/// So many elements are drawn at once: four vectors of 16 words, because a round of the cipher waits for the one before.
const BLOCK: usize = 64;

/// So many elements are a task for one thread.
const TASK: usize = 256 * BLOCK;

/// Words, from 0 to 2^32 - 1.
#[derive(Clone, Copy)]
pub(crate) struct Bits;

/// Numbers from 0 to below 1.
#[derive(Clone, Copy)]
pub(crate) struct Uniform<T>(PhantomData<T>);

/// Numbers of the normal distribution.
#[derive(Clone, Copy)]
pub(crate) struct Normal<T>(PhantomData<T>);

/// Coin flips that are true with this probability.
#[derive(Clone, Copy)]
pub(crate) struct Flips(pub(crate) f32);

/// Words with the number of the element below them, in the order of `i64`: no two are equal.
#[derive(Clone, Copy)]
struct Numbered;

impl<T> Uniform<T> {
    pub(crate) const DRAW: Uniform<T> = Uniform(PhantomData);
}

impl<T> Normal<T> {
    pub(crate) const DRAW: Normal<T> = Normal(PhantomData);
}

/// Draws an array.
pub(crate) fn fill<D: Draw>(draw: D, key: Words, ys: &mut [D::Item]) {
    let nanos = (ys.len() as f64 * D::NANOS) as usize;
    for_each_chunk(ys, TASK, nanos, |i, ys| {
        part(draw, key, (i * TASK) as u64, ys);
    });
}

/// An array as the result of a kernel on the words of a key.
pub(super) fn draw<D: Draw>(b: &mut Build, key: &Place, out: &Aval, draw: D) -> Place {
    let key = b.contiguous(key);
    let kernel: Prepared = Box::new(move |args, outs| {
        fill(draw, words(args[0]), D::Item::slice_mut(&mut outs[0]));
        Ok(())
    });
    b.kernel(&[&key], out, kernel)
}

pub(super) fn uniform<T: Unit>(b: &mut Build, key: &Place, out: &Aval) -> Place {
    draw(b, key, out, Uniform::<T>::DRAW)
}

pub(super) fn normal<T: Unit>(b: &mut Build, key: &Place, out: &Aval) -> Place {
    draw(b, key, out, Normal::<T>::DRAW)
}

/// The key that a number makes of a key.
pub(super) fn fold_in(b: &mut Build, key: &Place, data: u64, out: &Aval) -> Place {
    let key = b.contiguous(key);
    let kernel: Prepared = Box::new(move |args, outs| {
        let made = threefry::split(words(args[0]), data);
        i64::slice_mut(&mut outs[0]).copy_from_slice(&made.map(i64::from));
        Ok(())
    });
    b.kernel(&[&key], out, kernel)
}

pub(super) fn permutation(b: &mut Build, key: &Place, out: &Aval) -> Place {
    let key = b.contiguous(key);
    let kernel: Prepared = Box::new(move |args, outs| {
        let ys = i64::slice_mut(&mut outs[0]);
        ys.copy_from_slice(&order(words(args[0]), ys.len())?);
        Ok(())
    });
    b.kernel(&[&key], out, kernel)
}

/// The numbers below `n` in a random order: [`threefry::permutation`], with words and places sorted as one number.
pub(crate) fn order(key: Words, n: usize) -> Result<Vec<i64>, KernelFault> {
    let [mut order, mut next, mut drawn]: [Vec<i64>; 3] = [reserve(n)?, reserve(n)?, reserve(n)?];
    if u32::try_from(n).is_err() {
        return Ok(threefry::permutation(key, n));
    }
    order.extend(0..n as i64);
    for round in threefry::rounds(key, n) {
        drawn.resize(n, 0);
        fill(Numbered, round, &mut drawn);
        drawn.sort_unstable();
        next.clear();
        next.extend(drawn.iter().map(|x| order[*x as u32 as usize]));
        std::mem::swap(&mut order, &mut next);
    }
    Ok(order)
}

/// The words of a key, each in the lower half of an `i64`.
fn words(key: Data<'_>) -> Words {
    let key = i64::slice(key);
    [key[0] as u32, key[1] as u32]
}

leveled! {
    /// Draws the elements from number `at` on, a multiple of [`BLOCK`].
    fn part<A, D: Draw>(draw: D, key: Words, at: u64, ys: &mut [D::Item]) {
        let (blocks, rest) = ys.as_chunks_mut::<BLOCK>();
        let mut at = at;
        for ys in blocks {
            draw.block(key, halves(at), ys);
            at += BLOCK as u64;
        }
        if !rest.is_empty() {
            let mut ys = [D::Item::default(); BLOCK];
            draw.block(key, halves(at), &mut ys);
            rest.copy_from_slice(&ys[..rest.len()]);
        }
    }
}

/// The two words of each element of a block. The upper half of their numbers is the same.
#[inline(always)]
fn hashes(key: Words, at: Words) -> ([u32; BLOCK], [u32; BLOCK]) {
    let (mut xs, mut ys) = ([0; BLOCK], [0; BLOCK]);
    let mut i = 0;
    while i < BLOCK {
        [xs[i], ys[i]] = threefry::hash(key, [at[0], at[1].wrapping_add(i as u32)]);
        i += 1;
    }
    (xs, ys)
}

/// Writes what is made of the number of each element in its block and of its two words.
#[inline(always)]
fn each<T>(key: Words, at: Words, out: &mut [T; BLOCK], f: impl Fn(usize, u32, u32) -> T) {
    let (xs, ys) = hashes(key, at);
    let mut i = 0;
    while i < BLOCK {
        out[i] = f(i, xs[i], ys[i]);
        i += 1;
    }
}

/// A float type that uniform numbers are drawn of.
pub(crate) trait Unit: Element + ErfInv {
    /// A number from 0 to below 1 of the two words of an element.
    fn unit(x: u32, y: u32) -> Self;
    /// The least number above -1.
    const LOW: Self;
    /// The square root of 2.
    const ROOT: Self;
    /// About how many nanoseconds a uniform and a normal number take.
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
    fn block(self, key: Words, at: Words, out: &mut [i64; BLOCK]) {
        each(key, at, out, |_, x, y| i64::from(x ^ y));
    }
}

impl Draw for Numbered {
    type Item = i64;
    const NANOS: f64 = 0.5;

    #[inline(always)]
    fn block(self, key: Words, at: Words, out: &mut [i64; BLOCK]) {
        each(key, at, out, |i, x, y| {
            let number = u64::from(at[1].wrapping_add(i as u32));
            ((u64::from(x ^ y) << 32 | number) ^ 1 << 63) as i64
        });
    }
}

impl Draw for Flips {
    type Item = bool;
    const NANOS: f64 = 0.5;

    #[inline(always)]
    fn block(self, key: Words, at: Words, out: &mut [bool; BLOCK]) {
        each(key, at, out, |_, x, y| threefry::uniform32(x ^ y) < self.0);
    }
}

impl<T: Unit> Draw for Uniform<T> {
    type Item = T;
    const NANOS: f64 = T::NANOS[0];

    #[inline(always)]
    fn block(self, key: Words, at: Words, out: &mut [T; BLOCK]) {
        each(key, at, out, |_, x, y| T::unit(x, y));
    }
}

impl<T: Unit> Draw for Normal<T> {
    type Item = T;
    const NANOS: f64 = T::NANOS[1];

    #[inline(always)]
    fn block(self, key: Words, at: Words, out: &mut [T; BLOCK]) {
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

/// A number from above -1 to below 1.
#[inline(always)]
fn unit_about_0<T: Unit>(x: u32, y: u32) -> T {
    let u = T::unit(x, y);
    (u + u + T::LOW).at_least(T::LOW)
}

/// Normal numbers of uniform numbers about 0, which have these `w`.
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
