//! Vectors of bytes, for kernels that move elements of any type.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Size of a lane in bytes.
pub(crate) const LANE: usize = 16;

/// SIMD vector of lanes. All methods are `#[inline(always)]`.
pub(crate) trait Bytes: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// Loads a vector from `offsets[i * every]` bytes after `from`, for each lane `i`. Lane `i` of result
    /// `j` is lane `j` of that vector. There are [`LANES`](Self::LANES) results, then copies of the first.
    ///
    /// # Safety
    ///
    /// `offsets` must have an element for each lane. The bytes of a vector must be at each of these offsets from `from`.
    unsafe fn load(from: *const u8, offsets: &[usize], every: usize) -> [Self; 4];
    /// # Safety
    ///
    /// `from` must point to the bytes of a vector.
    unsafe fn load_one(from: *const u8) -> Self;
    /// Interleaves the elements of `SIZE` bytes of two vectors, lane by lane: those in the lower halves
    /// of the lanes, and those in the upper halves.
    fn interleave<const SIZE: usize>(self, other: Self) -> [Self; 2];
    /// # Safety
    ///
    /// `to` must have space for the vector.
    unsafe fn store(self, to: *mut u8);
    /// Stores with a non-temporal instruction, if there is one.
    ///
    /// # Safety
    ///
    /// `to` must have space for the vector and must be aligned to it.
    unsafe fn stream(self, to: *mut u8);
}

/// Vector of one lane.
#[cfg(target_arch = "x86_64")]
pub(crate) type OneLane = __m128i;
/// Vector of one lane.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type OneLane = Array;

/// Array that rustc may compile to a vector.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
pub(crate) struct Array([u8; LANE]);

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Bytes for Array {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn load(from: *const u8, offsets: &[usize], _: usize) -> [Array; 4] {
        // SAFETY: the caller guarantees a lane of bytes, which have no alignment.
        [Array(unsafe { from.add(offsets[0]).cast::<[u8; LANE]>().read() }); 4]
    }
    #[inline(always)]
    unsafe fn load_one(from: *const u8) -> Array {
        // SAFETY: the caller guarantees a lane of bytes, which have no alignment.
        Array(unsafe { from.cast::<[u8; LANE]>().read() })
    }
    #[inline(always)]
    fn interleave<const SIZE: usize>(self, other: Array) -> [Array; 2] {
        let mut halves = [self; 2];
        for i in 0..LANE {
            let (element, byte) = (i / SIZE, i % SIZE);
            let from = if element % 2 == 0 { self } else { other };
            halves[0].0[i] = from.0[element / 2 * SIZE + byte];
            halves[1].0[i] = from.0[LANE / 2 + element / 2 * SIZE + byte];
        }
        halves
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller guarantees space for a lane of bytes, which have no alignment.
        unsafe { to.cast::<[u8; LANE]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller guarantees space for the vector.
        unsafe { self.store(to) }
    }
}

/// Implements [`Bytes`] with the given instructions, which the CPU has: only code that is compiled for
/// the level, and that runs on CPUs of the level, names its vectors
/// ([`leveled`](crate::simd::leveled)).
#[cfg(target_arch = "x86_64")]
macro_rules! bytes {
    (
        $v:ident, $n:literal, $loadu:ident $store:ident $stream:ident;
        load: |$lane:ident| $load:expr;
        $($size:literal => $low:ident $high:ident,)*
    ) => {
        impl Bytes for $v {
            const LANES: usize = $n;
            #[inline(always)]
            unsafe fn load(from: *const u8, offsets: &[usize], every: usize) -> [$v; 4] {
                // SAFETY: the caller guarantees the offsets and the bytes there, and the CPU has the
                // instructions.
                unsafe {
                    let $lane = |i: usize| $loadu(from.add(*offsets.get_unchecked(i * every)).cast());
                    $load
                }
            }
            #[inline(always)]
            unsafe fn load_one(from: *const u8) -> $v {
                // SAFETY: the caller guarantees the bytes, and the CPU has the instruction.
                unsafe { $loadu(from.cast()) }
            }
            #[inline(always)]
            fn interleave<const SIZE: usize>(self, other: $v) -> [$v; 2] {
                match SIZE {
                    // SAFETY: the CPU has the instructions.
                    $($size => unsafe { [$low(self, other), $high(self, other)] },)*
                    _ => unreachable!("no instruction interleaves elements of {SIZE} bytes"),
                }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller guarantees the space, and the CPU has the instruction.
                unsafe { $store(to.cast(), self) }
            }
            #[inline(always)]
            unsafe fn stream(self, to: *mut u8) {
                // SAFETY: the caller guarantees space and alignment, and the CPU has the instruction.
                unsafe { $stream(to.cast(), self) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
bytes! {
    __m128i, 1, _mm_loadu_si128 _mm_storeu_si128 _mm_stream_si128;
    load: |lane| [lane(0); 4];
    1 => _mm_unpacklo_epi8 _mm_unpackhi_epi8,
    2 => _mm_unpacklo_epi16 _mm_unpackhi_epi16,
    4 => _mm_unpacklo_epi32 _mm_unpackhi_epi32,
    8 => _mm_unpacklo_epi64 _mm_unpackhi_epi64,
}

#[cfg(target_arch = "x86_64")]
bytes! {
    __m256i, 2, _mm256_loadu_si256 _mm256_storeu_si256 _mm256_stream_si256;
    load: |lane| {
        let (a, b) = (lane(0), lane(1));
        let low = _mm256_permute2x128_si256::<0x20>(a, b);
        [low, _mm256_permute2x128_si256::<0x31>(a, b), low, low]
    };
    1 => _mm256_unpacklo_epi8 _mm256_unpackhi_epi8,
    2 => _mm256_unpacklo_epi16 _mm256_unpackhi_epi16,
    4 => _mm256_unpacklo_epi32 _mm256_unpackhi_epi32,
    8 => _mm256_unpacklo_epi64 _mm256_unpackhi_epi64,
}

#[cfg(target_arch = "x86_64")]
bytes! {
    __m512i, 4, _mm512_loadu_si512 _mm512_storeu_si512 _mm512_stream_si512;
    load: |lane| {
        let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
        // Lanes 0 and 1, and lanes 2 and 3, of two vectors.
        let [ab, ab2] = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b)];
        let [cd, cd2] = [_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d)];
        [
            _mm512_shuffle_i32x4::<0x88>(ab, cd),
            _mm512_shuffle_i32x4::<0xdd>(ab, cd),
            _mm512_shuffle_i32x4::<0x88>(ab2, cd2),
            _mm512_shuffle_i32x4::<0xdd>(ab2, cd2),
        ]
    };
    1 => _mm512_unpacklo_epi8 _mm512_unpackhi_epi8,
    2 => _mm512_unpacklo_epi16 _mm512_unpackhi_epi16,
    4 => _mm512_unpacklo_epi32 _mm512_unpackhi_epi32,
    8 => _mm512_unpacklo_epi64 _mm512_unpackhi_epi64,
}

#[cfg(test)]
mod tests {
    use super::{Array, Bytes, LANE, OneLane};

    fn bytes(x: impl Bytes) -> [u8; LANE] {
        let mut to = [0; LANE];
        // SAFETY: a vector of one lane has `LANE` bytes.
        unsafe { x.store(to.as_mut_ptr()) };
        to
    }

    #[test]
    fn an_array_interleaves_as_a_vector_does() {
        fn interleaved<V: Bytes, const SIZE: usize>() -> [[u8; LANE]; 2] {
            let from: [u8; 2 * LANE] = std::array::from_fn(|i| i as u8);
            // SAFETY: there are two lanes of bytes.
            let [a, b] = [0, LANE].map(|at| unsafe { V::load_one(from[at..].as_ptr()) });
            a.interleave::<SIZE>(b).map(bytes)
        }
        assert_eq!(interleaved::<Array, 1>(), interleaved::<OneLane, 1>());
        assert_eq!(interleaved::<Array, 2>(), interleaved::<OneLane, 2>());
        assert_eq!(interleaved::<Array, 4>(), interleaved::<OneLane, 4>());
        assert_eq!(interleaved::<Array, 8>(), interleaved::<OneLane, 8>());
        assert_eq!(
            interleaved::<Array, 8>()[1][..9],
            [8, 9, 10, 11, 12, 13, 14, 15, 24]
        );
    }
}
