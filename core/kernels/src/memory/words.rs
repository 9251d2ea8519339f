//! Elements as integers of their size: code that only moves elements is compiled for each size, not for each dtype.

use crate::memory::data::{Data, DataMut, IN_PLACE};
use half::{bf16, f16};

/// Type whose values can be moved as [`Word`]s, of the same size and alignment. It has no padding.
pub trait Moved: Copy + Default + Send + Sync + 'static {
    type Word: Word;
}

/// Integer of the size of an element. Its default has the bits of the default of each dtype of that size.
///
/// A function that is generic over words can write no words but those that it has read, and defaults: valid elements.
pub trait Word: Moved<Word = Self> {
    /// Returns the elements of a kernel operand of this size.
    fn slice(data: Data<'_>) -> &[Self] {
        let size = data.dtype().expect(IN_PLACE).size();
        assert_eq!(size, size_of::<Self>());
        // SAFETY: the elements have the size and the alignment of words, and no padding.
        unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) }
    }

    /// Returns the elements of a kernel result of this size. The caller is generic over words.
    fn slice_mut<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self] {
        assert_eq!(data.dtype().size(), size_of::<Self>());
        let len = data.len();
        // SAFETY: the elements have the size and the alignment of words, and every bit pattern is valid; bools are bytes.
        unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), len) }
    }
}

macro_rules! words {
    ($($word:ty: $($t:ty),*;)*) => {$(
        impl Word for $word {}
        $(impl Moved for $t {
            type Word = $word;
        })*
    )*};
}

words! {
    u8: u8, i8, bool;
    u16: u16, f16, bf16;
    u32: u32, i32, f32;
    u64: u64, i64, f64;
}

#[inline(always)]
pub(crate) fn words_of<T: Moved>(elements: &[T]) -> &[T::Word] {
    // SAFETY: words have the size and the alignment of `T`, which has no padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
}

#[inline(always)]
pub(crate) fn word_of<T: Moved>(element: T) -> T::Word {
    words_of(&[element])[0]
}

/// # Safety
///
/// Only words of values of `T`, and defaults, may be written.
#[inline(always)]
pub(crate) unsafe fn words_of_mut<T: Moved>(elements: &mut [T]) -> &mut [T::Word] {
    // SAFETY: as in `words_of`, and the caller guarantees that valid values are written.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), elements.len()) }
}
