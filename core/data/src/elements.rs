//! Elements in host memory: batches are copies of rows, which need no plan.

use gradloom::{DType, Element, Error, Tensor, bf16, f16};

macro_rules! elements {
    ($($variant:ident $ty:ty),*) => {
        /// Elements of a tensor.
        #[derive(Debug)]
        pub(crate) enum Elements {
            $($variant(Vec<$ty>),)*
        }

        impl Elements {
            /// Computes a tensor, and returns its elements.
            pub(crate) fn new(x: &Tensor) -> Result<Elements, Error> {
                Ok(match x.dtype() {
                    $(DType::$variant => Elements::$variant(x.try_to_vec::<$ty>()?),)*
                })
            }

            /// Returns a tensor of these rows, each of `n` elements.
            pub(crate) fn rows(&self, rows: &[usize], n: usize, shape: Vec<usize>) -> Result<Tensor, Error> {
                match self {
                    $(Elements::$variant(x) => {
                        let rows = rows.iter().flat_map(|row| &x[row * n..][..n]);
                        Tensor::try_from_vec(rows.copied().collect::<Vec<$ty>>(), shape)
                    })*
                }
            }
        }

        /// Returns the elements of tensors one after the other, each filled up with a number to `n` elements.
        ///
        /// `None` stands for a number that is not one of the dtype. The tensors have the dtype of the first one.
        pub(crate) fn joined(
            parts: &[Tensor],
            n: usize,
            value: f64,
            shape: Vec<usize>,
        ) -> Option<Result<Tensor, Error>> {
            match parts.first().map_or(DType::F32, Tensor::dtype) {
                $(DType::$variant => {
                    let value = <$ty as Number>::of(value)?;
                    Some(join::<$ty>(parts, n, value, shape))
                })*
            }
        }
    };
}

elements! { F32 f32, F64 f64, BF16 bf16, F16 f16, I32 i32, I64 i64, I8 i8, U8 u8, Bool bool }

fn join<T: Element + Copy>(
    parts: &[Tensor],
    n: usize,
    value: T,
    shape: Vec<usize>,
) -> Result<Tensor, Error> {
    let mut all = Vec::with_capacity(parts.len() * n);
    for (i, part) in parts.iter().enumerate() {
        all.extend(part.try_to_vec::<T>()?);
        all.resize((i + 1) * n, value);
    }
    Tensor::try_from_vec(all, shape)
}

/// An element that a number is converted to, if it is one.
trait Number: Sized {
    fn of(value: f64) -> Option<Self>;
}

impl Number for f64 {
    fn of(value: f64) -> Option<f64> {
        Some(value)
    }
}

impl Number for f32 {
    fn of(value: f64) -> Option<f32> {
        let narrow = value as f32;
        (value.is_nan() || f64::from(narrow) == value).then_some(narrow)
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn of(value: f64) -> Option<$ty> {
                let narrow = value as $ty;
                // The greatest `i64` is rounded up to 2^63, which is none.
                (narrow as f64 == value && value < I64_END).then_some(narrow)
            }
        }
    )*};
}

integers! { i32 i64 i8 u8 }

/// 2^63, the first number that is too large for an `i64`.
const I64_END: f64 = -(i64::MIN as f64);

macro_rules! half_floats {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn of(value: f64) -> Option<$ty> {
                let narrow = <$ty>::from_f64(value);
                (value.is_nan() || narrow.to_f64() == value).then_some(narrow)
            }
        }
    )*};
}

half_floats! { bf16 f16 }

impl Number for bool {
    fn of(value: f64) -> Option<bool> {
        (value == 0.0 || value == 1.0).then_some(value == 1.0)
    }
}
