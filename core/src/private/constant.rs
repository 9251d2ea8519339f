//! Values of constants and statics in the hash of a function that names them.
//!
//! Only rustc knows the type of a constant. The type of a closure that never runs selects one of
//! the kinds below, and an inherent function of that kind reads the value. A trait cannot read it,
//! because trait functions are not `const`.

use crate::call::hash::fold_words;
use std::marker::PhantomData;

/// Kind of values that can be read at compile time.
pub struct ReadableKind<T: ?Sized>(PhantomData<fn(&T)>);

/// Kind of all other values, which do not contribute to the hash.
pub struct OpaqueKind<T: ?Sized>(PhantomData<fn(&T)>);

/// A constant or static that the user's code names. rustc determines its kind.
pub struct Constant<'a, T: ?Sized>(pub &'a T);

/// Kind of a constant, as a type: its value can be read at compile time, or not.
pub trait ConstantKind {
    /// The kind as a value.
    const KIND: Self;
}

impl<T: ?Sized> ConstantKind for ReadableKind<T> {
    const KIND: Self = ReadableKind(PhantomData);
}

impl<T: ?Sized> ConstantKind for OpaqueKind<T> {
    const KIND: Self = OpaqueKind(PhantomData);
}

/// Returns the kind that a closure returns. The closure never runs.
pub const fn kind_of<K: ConstantKind, F: Fn() -> K>(_: &F) -> K {
    K::KIND
}

/// A type whose values can be read at compile time.
pub trait Readable {}

/// Implemented for constants whose values can be read.
pub trait ByValue<T: ?Sized>: Sized {
    /// Returns their kind.
    fn kind(self) -> ReadableKind<T> {
        ConstantKind::KIND
    }
}

impl<T: Readable + ?Sized> ByValue<T> for &&Constant<'_, T> {}

/// Implemented for all constants; method resolution prefers [`ByValue`].
pub trait ByName<T: ?Sized>: Sized {
    /// Returns their kind.
    fn kind(self) -> OpaqueKind<T> {
        ConstantKind::KIND
    }
}

impl<T: ?Sized> ByName<T> for &Constant<'_, T> {}

/// Type without values. A call that returns it ends the control flow, so that code after the call
/// is not compiled.
pub enum Never {}

impl<T: ?Sized> ReadableKind<T> {
    /// Returns whether values of this kind can be read.
    pub const fn is_readable(&self) -> bool {
        true
    }

    /// Precedes code that reads a value.
    pub const fn require(&self) {}
}

impl<T: ?Sized> OpaqueKind<T> {
    /// Returns whether values of this kind can be read.
    pub const fn is_readable(&self) -> bool {
        false
    }

    /// Precedes code that reads a value, which is not compiled for this kind: a constant that is
    /// read would be dropped, and a constant expression may not drop most types.
    pub const fn require(&self) -> Never {
        panic!("a value of this kind is not readable")
    }

    /// Returns the hash unchanged.
    pub const fn fold(self, hash: [u8; 32], _: &T) -> [u8; 32] {
        hash
    }
}

/// Implements hashing for scalars and for lists of them. The expression is the word that encodes a
/// scalar.
macro_rules! scalars {
    ($($ty:ty: |$x:ident| $word:expr;)*) => {$(
        impl Readable for $ty {}
        impl Readable for [$ty] {}
        impl<const N: usize> Readable for [$ty; N] {}
        impl<const N: usize, const M: usize> Readable for [[$ty; N]; M] {}
        impl Readable for &[$ty] {}
        impl<const N: usize> Readable for &[$ty; N] {}
        impl Readable for Option<$ty> {}
        impl Readable for ($ty, $ty) {}
        impl Readable for ($ty, $ty, $ty) {}
        impl Readable for ($ty, $ty, $ty, $ty) {}

        impl ReadableKind<$ty> {
            /// Adds the value to a hash.
            pub const fn fold(self, hash: [u8; 32], $x: &$ty) -> [u8; 32] {
                fold_words(hash, &[$word])
            }
        }

        impl ReadableKind<[$ty]> {
            /// Adds the length and the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], list: &[$ty]) -> [u8; 32] {
                let mut hash = fold_words(hash, &[list.len() as u64]);
                let mut i = 0;
                while i < list.len() {
                    hash = <ReadableKind<$ty>>::KIND.fold(hash, &list[i]);
                    i += 1;
                }
                hash
            }
        }

        impl<const N: usize> ReadableKind<[$ty; N]> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], list: &[$ty; N]) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, list)
            }
        }

        impl<const N: usize, const M: usize> ReadableKind<[[$ty; N]; M]> {
            /// Adds the rows to a hash.
            pub const fn fold(self, hash: [u8; 32], rows: &[[$ty; N]; M]) -> [u8; 32] {
                fold_words(<ReadableKind<[$ty]>>::KIND.fold(hash, rows.as_flattened()), &[N as u64])
            }
        }

        impl ReadableKind<($ty, $ty)> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], pair: &($ty, $ty)) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, &[pair.0, pair.1])
            }
        }

        impl ReadableKind<($ty, $ty, $ty)> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], triple: &($ty, $ty, $ty)) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, &[triple.0, triple.1, triple.2])
            }
        }

        impl ReadableKind<($ty, $ty, $ty, $ty)> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], of: &($ty, $ty, $ty, $ty)) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, &[of.0, of.1, of.2, of.3])
            }
        }

        impl ReadableKind<&[$ty]> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], list: &&[$ty]) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, *list)
            }
        }

        impl<const N: usize> ReadableKind<&[$ty; N]> {
            /// Adds the elements to a hash.
            pub const fn fold(self, hash: [u8; 32], list: &&[$ty; N]) -> [u8; 32] {
                <ReadableKind<[$ty]>>::KIND.fold(hash, *list)
            }
        }

        impl ReadableKind<Option<$ty>> {
            /// Adds an optional value to a hash.
            pub const fn fold(self, hash: [u8; 32], value: &Option<$ty>) -> [u8; 32] {
                match value {
                    Some(value) => <ReadableKind<$ty>>::KIND.fold(fold_words(hash, &[1]), value),
                    None => fold_words(hash, &[0]),
                }
            }
        }
    )*};
}
scalars! {
    u8: |x| *x as u64;
    u16: |x| *x as u64;
    u32: |x| *x as u64;
    u64: |x| *x;
    usize: |x| *x as u64;
    i8: |x| *x as u64;
    i16: |x| *x as u64;
    i32: |x| *x as u64;
    i64: |x| *x as u64;
    isize: |x| *x as u64;
    bool: |x| *x as u64;
    char: |x| *x as u64;
    f32: |x| x.to_bits() as u64;
    f64: |x| x.to_bits();
    crate::DType: |x| *x as u64;
}

impl Readable for &str {}

impl ReadableKind<&str> {
    /// Adds the text to a hash.
    pub const fn fold(self, hash: [u8; 32], text: &&str) -> [u8; 32] {
        <ReadableKind<[u8]>>::KIND.fold(hash, text.as_bytes())
    }
}
