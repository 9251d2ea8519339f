//! The two float types.

/// `f32` or `f64`.
pub trait Float: Copy + 'static {
    /// The nearest number of this type.
    fn of(x: f64) -> Self;
    /// The same number, in double precision.
    fn to_f64(self) -> f64;
}

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Float for $t {
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

floats! { f32 f64 }
