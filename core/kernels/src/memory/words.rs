//! Elements as integers of their size.
//!
//! Code that only moves elements is compiled for each size, not for each dtype.

use crate::memory::data::{Data, DataMut};
use gradloom_ir::DType;
use half::{bf16, f16};

/// Type whose values can be moved as words.
///
/// # Safety
///
/// A word must have the size and the alignment of the type, which has no padding. A word of zeros must be its default.
pub unsafe trait Payload: Copy + Default + Send + Sync + 'static {
    type Word: Word;
}

/// Integer of the size of an element.
///
/// Code that is generic over words must write only elements of the dtype of the result, and defaults.
///
/// # Safety
///
/// Every bit pattern must be valid.
pub unsafe trait Word: Payload<Word = Self> {
    /// Returns the elements of a kernel operand as words. `dtype` is that of the result.
    ///
    /// # Panics
    ///
    /// If the operand has another dtype.
    fn slice(data: Data<'_>, dtype: DType) -> &[Self] {
        assert_eq!(data.dtype(), Some(dtype), "elements keep their dtype");
        assert_eq!(dtype.size(), size_of::<Self>());
        // SAFETY: the elements have the size and the alignment of words, and no padding.
        unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) }
    }

    /// Returns the elements of a kernel result as words.
    fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self] {
        assert_eq!(data.dtype().size(), size_of::<Self>());
        let len = data.len();
        // SAFETY: the elements have the size and the alignment of words, and every bit pattern is valid: results of bools are
        // bytes.
        unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), len) }
    }
}

macro_rules! words {
    ($($word:ty: $($t:ty),*;)*) => {$(
        // SAFETY: every bit pattern is an integer.
        unsafe impl Word for $word {}
        $(
            const _: () = assert!(size_of::<$t>() == size_of::<$word>() && align_of::<$t>() == align_of::<$word>());
            // SAFETY: the sizes and alignments are equal, as asserted. Zero, and false, have no bits that are set.
            unsafe impl Payload for $t {
                type Word = $word;
            }
        )*
    )*};
}

words! {
    u8: u8, i8, bool;
    u16: u16, f16, bf16;
    u32: u32, i32, f32;
    u64: u64, i64, f64;
}

/// Returns elements as words.
#[inline(always)]
pub(crate) fn words_of<T: Payload>(elements: &[T]) -> &[T::Word] {
    // SAFETY: words have the size and the alignment of `T`, which has no padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
}

/// Returns an element as a word.
#[inline(always)]
pub(crate) fn word_of<T: Payload>(element: T) -> T::Word {
    words_of(&[element])[0]
}

/// Returns elements as words.
///
/// # Safety
///
/// Only words of values of `T`, and defaults, may be written.
#[inline(always)]
pub(crate) unsafe fn words_of_mut<T: Payload>(elements: &mut [T]) -> &mut [T::Word] {
    // SAFETY: as in `words_of`, and the caller guarantees that valid values are written.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) }
}
