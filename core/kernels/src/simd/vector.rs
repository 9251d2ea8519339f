//! SIMD vectors for each level of the CPU, for the loops on rows.
//!
//! The array code that rustc vectorises spills registers, and it keeps the order of additions of
//! the source. A loop is written once, for any [`Vector`], and a [leveled](super::leveled) function
//! chooses the type.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::memory::words::Payload;
use crate::simd::bytes::{Bytes, OneLane};
use crate::simd::number::{Float, Number};
use gradloom_maths::{Arith, Base};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

/// Number of lanes of a sum: four of the widest vectors, independent of each other to hide the
/// latency of additions.
pub(crate) const LANES: usize = 64;

/// Size in bytes from which a result is written with non-temporal stores.
const NON_TEMPORAL_BYTES: usize = 8 << 20;

/// Vector types of a SIMD level. Only a [`leveled`](super::leveled) function names a level, and it
/// runs on CPUs of the level only.
pub(crate) trait Simd: Arith {
    /// Vector of `f32`.
    type F32: Floats<T = f32>;
    /// Vector of `f64`.
    type F64: Floats<T = f64>;
    /// Vector of bytes.
    type Bytes: Bytes;
}

/// SIMD vector. All methods are `#[inline(always)]`.
pub(crate) trait Vector: Copy {
    type T: Number;
    /// Number of elements.
    const N: usize;
    /// Array of vectors with [`LANES`] elements in all.
    type Lanes: Copy + AsRef<[Self]> + AsMut<[Self]>;
    fn lanes(self) -> Self::Lanes;
    /// Adds the upper half of the lanes to the lower half until one vector is left.
    fn fold(lanes: Self::Lanes) -> Self;
    /// Adds the upper half to the lower half until one number is left.
    fn total(self) -> Self::T;
    fn splat(x: Self::T) -> Self;
    /// # Safety
    ///
    /// `from` must point to [`N`](Self::N) numbers.
    unsafe fn load(from: *const Self::T) -> Self;
    /// Loads the first `n` numbers; the others are zero.
    ///
    /// # Safety
    ///
    /// `from` must point to `n` numbers, at most [`N`](Self::N).
    unsafe fn load_some(from: *const Self::T, n: usize) -> Self;
    /// # Safety
    ///
    /// `to` must have space for [`N`](Self::N) numbers.
    unsafe fn store(self, to: *mut Self::T);
    /// Stores the first `n` numbers.
    ///
    /// # Safety
    ///
    /// `to` must have space for `n` numbers, at most [`N`](Self::N).
    unsafe fn store_some(self, to: *mut Self::T, n: usize);
    /// Stores with a non-temporal instruction, if there is one. Other threads may read after a
    /// [`fence`].
    ///
    /// # Safety
    ///
    /// `to` must have space for [`N`](Self::N) numbers and must be aligned to the vector.
    unsafe fn stream(self, to: *mut Self::T);
    /// Returns the first `n` numbers of `self` and the others of `other`.
    fn keep(self, n: usize, other: Self) -> Self;
    /// Returns the numbers of `self` whose bit is set, lowest bit first, and those of `other`
    /// elsewhere.
    fn choose(self, bits: u16, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Returns `self * b + c`, rounded as the arithmetic of the level does.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Returns the [greater](Number::greater) of each pair.
    fn greater(self, other: Self) -> Self;
    /// Returns the numbers of `x` where `self` is [above](Number::above) `other`, and those of `y`
    /// elsewhere.
    fn choose_above(self, other: Self, x: Self, y: Self) -> Self;
    /// Returns the numbers of `self` and `other`, in turn.
    fn interleave(self, other: Self) -> [Self; 2];
    /// Returns the numbers with an even index and those with an odd one, of `self` followed by `other`.
    fn deinterleave(self, other: Self) -> [Self; 2];
}

/// SIMD vector of floats.
pub(crate) trait Floats: Vector<T: Float> {
    fn minus(self, other: Self) -> Self;
    /// Returns the greater of each pair, or the number of `other` if one of the pair is NaN.
    fn most(self, other: Self) -> Self;
    /// Returns the greatest number. The sign of a zero is unspecified.
    fn greatest(self) -> Self::T;
    /// Returns NaN where `x` or `y` is NaN, and the numbers of `self` elsewhere.
    fn mark_nan(self, x: Self, y: Self) -> Self;
    fn any_nan(self) -> bool;
    /// Returns the bits of numbers that are equal, lowest bit first. Zeros are equal.
    fn equal(self, other: Self) -> u16;
    /// Returns `self 2^n`, rounded once.
    ///
    /// `self` must be between 1/2 and 2, or NaN. `n` must be an integer from `EXP_LEAST log2(e)` up
    /// to 0, see [`Float::EXP_LEAST`].
    fn scaled(self, n: Self) -> Self;
}

/// Waits until [streamed](Vector::stream) stores are visible to other threads.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Returns whether a result of this size is written with non-temporal stores.
///
/// A large result would evict more from the caches than it leaves there for the next task.
pub(crate) fn non_temporal(bytes: usize) -> bool {
    bytes >= NON_TEMPORAL_BYTES
}

/// Copies a row with non-temporal stores, if it fills whole vectors. Other threads may read it after a
/// [`fence`].
#[inline(always)]
pub(crate) fn copy_streamed<T: Payload>(from: &[T], to: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let n = size_of_val(from) / size_of::<__m128i>();
        let (x, y) = (
            from.as_ptr().cast::<__m128i>(),
            to.as_mut_ptr().cast::<__m128i>(),
        );
        let whole =
            from.len() == to.len() && size_of_val(from).is_multiple_of(size_of::<__m128i>());
        if whole && y.is_aligned() {
            for i in 0..n {
                // SAFETY: both rows have `n` vectors, and the address of the result is aligned to
                // a vector. Every x86-64 CPU has SSE2.
                unsafe { _mm_stream_si128(y.add(i), _mm_loadu_si128(x.add(i))) };
            }
            return;
        }
    }
    to.copy_from_slice(from);
}

/// Prefetches the cache line at an address, which may be invalid.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE, and a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches the cache lines of `len` elements from `first` on, which need not exist.
#[inline(always)]
pub(crate) fn prefetch_elements<T>(xs: &[T], first: usize, len: usize) {
    let start = xs.as_ptr().wrapping_add(first);
    for at in (0..len).step_by(64 / size_of::<T>()) {
        prefetch(start.wrapping_add(at));
    }
}

/// Level of every CPU of the target.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Arith for Portable {
    const FUSED: bool = Base::FUSED;
}

impl Simd for Portable {
    type F32 = Array<f32>;
    type F64 = Array<f64>;
    type Bytes = OneLane;
}

/// Array that rustc may compile to vectors.
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
        // SAFETY: the caller guarantees `WIDTH` numbers, and an array has the alignment of its
        // elements.
        Array(unsafe { from.cast::<[T; WIDTH]>().read() })
    }
    #[inline(always)]
    unsafe fn load_some(from: *const T, n: usize) -> Self {
        // SAFETY: the caller guarantees `n` numbers.
        let xs = unsafe { std::slice::from_raw_parts(from, n) };
        let mut out = Self::splat(T::ZERO);
        out.0[..n].copy_from_slice(xs);
        out
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller guarantees space for `WIDTH` numbers, and an array has the alignment of
        // its elements.
        unsafe { to.cast::<[T; WIDTH]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut T, n: usize) {
        // SAFETY: the caller guarantees space for `n` numbers.
        let to = unsafe { std::slice::from_raw_parts_mut(to, n) };
        to.copy_from_slice(&self.0[..n]);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut T) {
        // SAFETY: the caller guarantees space for `WIDTH` numbers.
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
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut out = c;
        for i in 0..WIDTH {
            out.0[i] = self.0[i].fma::<Base>(b.0[i], c.0[i]);
        }
        out
    }
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        self.zip(other, T::greater)
    }
    #[inline(always)]
    fn choose_above(self, other: Self, x: Self, y: Self) -> Self {
        let mut out = y;
        for i in 0..WIDTH {
            let above = self.0[i].above(other.0[i]);
            out.0[i] = if above { x.0[i] } else { y.0[i] };
        }
        out
    }
    #[inline(always)]
    fn interleave(self, other: Self) -> [Self; 2] {
        let mut out = [self, other];
        for i in 0..WIDTH {
            out[2 * i / WIDTH].0[2 * i % WIDTH] = self.0[i];
            out[2 * i / WIDTH].0[2 * i % WIDTH + 1] = other.0[i];
        }
        out
    }
    #[inline(always)]
    fn deinterleave(self, other: Self) -> [Self; 2] {
        let (both, mut out) = ([self, other], [self, other]);
        for i in 0..WIDTH {
            out[0].0[i] = both[2 * i / WIDTH].0[2 * i % WIDTH];
            out[1].0[i] = both[2 * i / WIDTH].0[2 * i % WIDTH + 1];
        }
        out
    }
}

impl<T: Float> Floats for Array<T> {
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.zip(other, T::minus)
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
    fn mark_nan(self, x: Self, y: Self) -> Self {
        let mut out = self;
        for i in 0..WIDTH {
            let nan = !x.0[i].is_number() | !y.0[i].is_number();
            out.0[i] = if nan { T::of(f64::NAN) } else { self.0[i] };
        }
        out
    }
    #[inline(always)]
    fn any_nan(self) -> bool {
        self.0.iter().fold(false, |any, x| any | !x.is_number())
    }
    #[inline(always)]
    fn equal(self, other: Self) -> u16 {
        let mut bits = 0;
        for i in 0..WIDTH {
            bits |= u16::from(self.0[i] == other.0[i]) << i;
        }
        bits
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
