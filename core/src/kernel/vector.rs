//! Vectors of each level of the CPU, for the loops on rows: those that rustc makes of arrays spill, and it adds up in no order
//! but that of the source.
//!
//! What a loop does is written once, for any [`Vector`], and a [leveled](super::leveled) function chooses the type.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::number::{Float, Number};
use gradloom_maths::{Arith, Base};
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// Four of the widest vectors, which are independent of each other: an addition takes several cycles.
pub(super) const LANES: usize = 64;

/// The vectors of a level. Only code that runs on a CPU of this level names it: [`leveled`](super::leveled) sees to that.
pub(crate) trait Simd: Arith {
    /// Of `f32`.
    type F32: Floats<T = f32>;
    /// Of `f64`.
    type F64: Floats<T = f64>;
}

/// Some numbers that are computed with at once. All methods are `#[inline(always)]`.
pub(crate) trait Vector: Copy {
    type T: Number;
    /// How many numbers it holds.
    const N: usize;
    /// As many vectors as make up [`LANES`] numbers.
    type Lanes: Copy + AsRef<[Self]> + AsMut<[Self]>;
    fn lanes(self) -> Self::Lanes;
    /// Adds the upper half of the lanes to the lower one until one vector is left.
    fn fold(lanes: Self::Lanes) -> Self;
    /// The same, until one number is left.
    fn total(self) -> Self::T;
    fn splat(x: Self::T) -> Self;
    /// # Safety
    ///
    /// There are [`N`](Self::N) numbers.
    unsafe fn load(from: *const Self::T) -> Self;
    /// The first `n` numbers; the others are zero.
    ///
    /// # Safety
    ///
    /// There are `n` numbers, and `n` is at most [`N`](Self::N).
    unsafe fn load_some(from: *const Self::T, n: usize) -> Self;
    /// # Safety
    ///
    /// There is room for [`N`](Self::N) numbers.
    unsafe fn store(self, to: *mut Self::T);
    /// Stores the first `n` numbers.
    ///
    /// # Safety
    ///
    /// There is room for `n` numbers, and `n` is at most [`N`](Self::N).
    unsafe fn store_some(self, to: *mut Self::T, n: usize);
    /// Stores past the caches, where there is such an instruction. [`fence`] comes before others may read.
    ///
    /// # Safety
    ///
    /// There is room for [`N`](Self::N) numbers, at a multiple of the size of the vector.
    unsafe fn stream(self, to: *mut Self::T);
    /// The first `n` numbers of this, and then those of `other`.
    fn keep(self, n: usize, other: Self) -> Self;
    /// The numbers of this where a bit is set, the lowest for the first, and those of `other` elsewhere.
    fn choose(self, bits: u16, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// A vector of floats.
pub(crate) trait Floats: Vector<T: Float> {
    fn minus(self, other: Self) -> Self;
    /// `self * b + c`, as the arithmetic of the level rounds it.
    fn fma(self, b: Self, c: Self) -> Self;
    /// The greater of each pair, or the number of `other` where one of them is NaN.
    fn most(self, other: Self) -> Self;
    /// The greatest number. Of zeros it may be either.
    fn greatest(self) -> Self::T;
    /// `self 2^n` rounded once, where `self` is between 1/2 and 2 or NaN and `n` is an integer of which
    /// [`Float::EXP_LEAST`] is a logarithm, or a greater one up to 0.
    fn scaled(self, n: Self) -> Self;
}

/// Waits until what was [streamed](Vector::stream) is where others see it.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for the cache line at an address, which may be any.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction, and it never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The level of every CPU of the target.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Arith for Portable {
    const FUSED: bool = Base::FUSED;
}

impl Simd for Portable {
    type F32 = Array<f32>;
    type F64 = Array<f64>;
}

/// Numbers side by side, which are a vector if rustc finds so.
#[derive(Clone, Copy)]
pub(crate) struct Array<T>([T; WIDTH]);

const WIDTH: usize = 16;

impl<T: Number> Array<T> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        let mut out = self;
        for i in 0..WIDTH {
            out.0[i] = f(self.0[i], other.0[i]);
        }
        out
    }
}

impl<T: Number> Vector for Array<T> {
    type T = T;
    const N: usize = WIDTH;
    type Lanes = [Self; LANES / WIDTH];
    #[inline(always)]
    fn lanes(self) -> Self::Lanes {
        [self; LANES / WIDTH]
    }
    #[inline(always)]
    fn fold(lanes: Self::Lanes) -> Self {
        fold4(lanes)
    }
    #[inline(always)]
    fn total(self) -> T {
        let mut xs = self.0;
        let mut half = WIDTH / 2;
        while half > 0 {
            for i in 0..half {
                xs[i] = xs[i].plus(xs[i + half]);
            }
            half /= 2;
        }
        xs[0]
    }
    #[inline(always)]
    fn splat(x: T) -> Self {
        Array([x; WIDTH])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller's.
        Array(unsafe { from.cast::<[T; WIDTH]>().read() })
    }
    #[inline(always)]
    unsafe fn load_some(from: *const T, n: usize) -> Self {
        // SAFETY: the caller's.
        let xs = unsafe { std::slice::from_raw_parts(from, n) };
        let mut out = Self::splat(T::ZERO);
        out.0[..n].copy_from_slice(xs);
        out
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[T; WIDTH]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut T, n: usize) {
        // SAFETY: the caller's.
        let to = unsafe { std::slice::from_raw_parts_mut(to, n) };
        to.copy_from_slice(&self.0[..n]);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut T) {
        // SAFETY: the caller's.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    fn keep(self, n: usize, other: Self) -> Self {
        let mut out = other;
        for i in 0..WIDTH {
            out.0[i] = if i < n { self.0[i] } else { other.0[i] };
        }
        out
    }
    #[inline(always)]
    fn choose(self, bits: u16, other: Self) -> Self {
        let mut out = other;
        for i in 0..WIDTH {
            out.0[i] = if bits >> i & 1 == 1 {
                self.0[i]
            } else {
                other.0[i]
            };
        }
        out
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.zip(other, T::plus)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.zip(other, T::times)
    }
}

impl<T: Float> Floats for Array<T> {
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.zip(other, T::minus)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut out = c;
        for i in 0..WIDTH {
            out.0[i] = self.0[i].fma::<Base>(b.0[i], c.0[i]);
        }
        out
    }
    #[inline(always)]
    fn most(self, other: Self) -> Self {
        self.zip(other, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn greatest(self) -> T {
        let mut most = self.0[0];
        for x in self.0 {
            most = if x > most { x } else { most };
        }
        most
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Self {
        self.zip(n, T::scaled)
    }
}

#[inline(always)]
fn fold2<V: Vector>([a, b]: [V; 2]) -> V {
    a.plus(b)
}

#[inline(always)]
fn fold4<V: Vector>([a, b, c, d]: [V; 4]) -> V {
    fold2([a.plus(c), b.plus(d)])
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fold8<V: Vector>(x: [V; 8]) -> V {
    let [a, b, c, d, e, f, g, h] = x;
    fold4([a.plus(e), b.plus(f), c.plus(g), d.plus(h)])
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fold16<V: Vector>(x: [V; 16]) -> V {
    let mut half = [x[0]; 8];
    for i in 0..8 {
        half[i] = x[i].plus(x[i + 8]);
    }
    fold8(half)
}
