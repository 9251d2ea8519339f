//! The scalar functions of the elementwise ops, and loops over slices that apply them.
//!
//! Each loop is compiled for each [`Level`]. The scalar functions are public as [`super::element`],
//! so that loops that compute several ops at once give the same bits.
//!
//! A loop calls the scalar function directly. A call through a closure or function pointer might
//! not be inlined, and would then be compiled for the baseline level.
//!
//! [`Level`]: gradloom_maths::Level

use gradloom_maths::Versions;

/// The loop of a unary op in one dtype: operand and result, of equal length.
pub type UnaryLoop<T> = Versions<fn(&[T], &mut [T]), unsafe fn(&[T], &mut [T])>;

/// The loop of a binary op in one dtype: operands and result, of equal length.
pub type BinaryLoop<T> = Versions<fn(&[T], &[T], &mut [T]), unsafe fn(&[T], &[T], &mut [T])>;

/// The loop of a comparison in one dtype: operands and result, of equal length.
///
/// The result is the bytes of bools, 0 or 1. It is `u8` because its memory may have held other
/// values.
pub type CompareLoop<T> = Versions<fn(&[T], &[T], &mut [u8]), unsafe fn(&[T], &[T], &mut [u8])>;

/// The loop of a unary op whose results are bools, in one dtype: operand and result, of equal length.
pub type TestLoop<T> = Versions<fn(&[T], &mut [u8]), unsafe fn(&[T], &mut [u8])>;

/// The loop of an op of three operands in one dtype: operands and result, of equal length.
pub type TernaryLoop<T> =
    Versions<fn(&[T], &[T], &[T], &mut [T]), unsafe fn(&[T], &[T], &[T], &mut [T])>;

/// The loop of an op of four operands in one dtype: operands and result, of equal length.
pub type QuaternaryLoop<T> =
    Versions<fn(&[T], &[T], &[T], &[T], &mut [T]), unsafe fn(&[T], &[T], &[T], &[T], &mut [T])>;

/// The loops of a unary op, one for each dtype that it takes.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // the fields are named after the dtypes
pub struct UnaryFns {
    pub f32: UnaryLoop<f32>,
    pub f64: UnaryLoop<f64>,
    pub i32: Option<UnaryLoop<i32>>,
    pub i64: Option<UnaryLoop<i64>>,
}

/// The loops of a binary op, one for each dtype that it takes.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct BinaryFns {
    pub f32: BinaryLoop<f32>,
    pub f64: BinaryLoop<f64>,
    pub i32: Option<BinaryLoop<i32>>,
    pub i64: Option<BinaryLoop<i64>>,
    pub bool: Option<CompareLoop<bool>>,
}

/// The loops of a comparison, one for each dtype.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct CompareFns {
    pub f32: CompareLoop<f32>,
    pub f64: CompareLoop<f64>,
    pub i32: CompareLoop<i32>,
    pub i64: CompareLoop<i64>,
    pub bool: CompareLoop<bool>,
}

/// The loops of a test of floats, one for each dtype.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct TestFns {
    pub f32: TestLoop<f32>,
    pub f64: TestLoop<f64>,
}

/// The loops of an op on the bits of integers, or on bools.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum BitFns {
    /// One operand.
    One {
        i32: UnaryLoop<i32>,
        i64: UnaryLoop<i64>,
        bool: TestLoop<bool>,
    },
    /// Two operands.
    Two {
        i32: BinaryLoop<i32>,
        i64: BinaryLoop<i64>,
        /// `None` if the op takes no bools.
        bool: Option<CompareLoop<bool>>,
    },
}

impl BitFns {
    /// Returns the number of operands.
    pub fn n_operands(self) -> usize {
        match self {
            BitFns::One { .. } => 1,
            BitFns::Two { .. } => 2,
        }
    }
}

/// The loops of an op of three or four floats, one for each dtype.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum ManyFns {
    /// Three operands.
    Three {
        f32: TernaryLoop<f32>,
        f64: TernaryLoop<f64>,
    },
    /// Four operands.
    Four {
        f32: QuaternaryLoop<f32>,
        f64: QuaternaryLoop<f64>,
    },
}

impl ManyFns {
    /// Returns the number of operands.
    pub const fn n_operands(self) -> usize {
        match self {
            ManyFns::Three { .. } => 3,
            ManyFns::Four { .. } => 4,
        }
    }
}

/// Defines the module `element` of a unary op, with a function for each dtype, and its loops `FNS`.
///
/// - `unary_fns! { |x| float expression }`
/// - `unary_fns! { |x| float expression, int |x| integer expression }`
/// - `unary_fns! { |x| float expression, if all(test) simple expression }`: a loop uses the simple
///   expression if the test holds for all of its elements. The two expressions must agree where the
///   test holds.
///
/// In the expressions, `A` is the [`Arith`](gradloom_maths::Arith) of the level, for functions of
/// `gradloom_maths`.
macro_rules! unary_fns {
    (|$x:ident| $float:expr) => {
        element_fns! { f32 (x: f32) -> f32: |$x| $float, f64 (x: f64) -> f64: |$x| $float }
        unary_fns! { @ None, None }
    };
    (|$x:ident| $float:expr, int |$i:ident| $int:expr) => {
        element_fns! {
            f32 (x: f32) -> f32: |$x| $float, f64 (x: f64) -> f64: |$x| $float,
            i32 (x: i32) -> i32: |$i| $int, i64 (x: i64) -> i64: |$i| $int
        }
        unary_fns! { @ Some(unary_fns!(loop i32)), Some(unary_fns!(loop i64)) }
    };
    (|$x:ident| $float:expr, if all($test:expr) $simple:expr) => {
        element_fns! { f32 (x: f32) -> f32: |$x| $float, f64 (x: f64) -> f64: |$x| $float }
        const FNS: super::UnaryFns = super::UnaryFns {
            f32: unary_fns!(loop f32 |$x| if all($test) $simple),
            f64: unary_fns!(loop f64 |$x| if all($test) $simple),
            i32: None,
            i64: None,
        };
    };
    (@ $i32:expr, $i64:expr) => {
        const FNS: super::UnaryFns = super::UnaryFns {
            f32: unary_fns!(loop f32),
            f64: unary_fns!(loop f64),
            i32: $i32,
            i64: $i64,
        };
    };
    (loop $t:ident |$x:ident| if all($test:expr) $simple:expr) => {
        gradloom_maths::versions!(|xs: &[$t], ys: &mut [$t]| A => {
            let mut all = true;
            for &$x in xs {
                all &= $test;
            }
            if all {
                for (y, &$x) in ys.iter_mut().zip(xs) {
                    *y = $simple;
                }
            } else {
                for (y, &x) in ys.iter_mut().zip(xs) {
                    *y = element::$t::<A>(x);
                }
            }
        })
    };
    (loop $t:ident) => {
        gradloom_maths::versions!(|xs: &[$t], ys: &mut [$t]| A => {
            for (y, &x) in ys.iter_mut().zip(xs) {
                *y = element::$t::<A>(x);
            }
        })
    };
}

/// As `unary_fns!`, for binary ops, with `|x, y|` in place of `|x|` and without `if all`.
///
/// After `int |x, y| ..`, `bool |x, y| ..` is a function of bools.
macro_rules! binary_fns {
    (|$x:ident, $y:ident| $float:expr) => {
        element_fns! {
            f32 (x: f32, y: f32) -> f32: |$x, $y| $float, f64 (x: f64, y: f64) -> f64: |$x, $y| $float
        }
        binary_fns! { @ None, None, None }
    };
    (|$x:ident, $y:ident| $float:expr, int |$i:ident, $j:ident| $int:expr) => {
        element_fns! {
            f32 (x: f32, y: f32) -> f32: |$x, $y| $float, f64 (x: f64, y: f64) -> f64: |$x, $y| $float,
            i32 (x: i32, y: i32) -> i32: |$i, $j| $int, i64 (x: i64, y: i64) -> i64: |$i, $j| $int
        }
        binary_fns! { @ Some(binary_fns!(loop i32, i32)), Some(binary_fns!(loop i64, i64)), None }
    };
    (
        |$x:ident, $y:ident| $float:expr, int |$i:ident, $j:ident| $int:expr,
        bool |$a:ident, $b:ident| $bool:expr
    ) => {
        element_fns! {
            f32 (x: f32, y: f32) -> f32: |$x, $y| $float, f64 (x: f64, y: f64) -> f64: |$x, $y| $float,
            i32 (x: i32, y: i32) -> i32: |$i, $j| $int, i64 (x: i64, y: i64) -> i64: |$i, $j| $int,
            bool (x: bool, y: bool) -> bool: |$a, $b| $bool
        }
        binary_fns! {
            @ Some(binary_fns!(loop i32, i32)), Some(binary_fns!(loop i64, i64)),
            Some(binary_fns!(loop bool, u8))
        }
    };
    (@ $i32:expr, $i64:expr, $bool:expr) => {
        const FNS: super::BinaryFns = super::BinaryFns {
            f32: binary_fns!(loop f32, f32),
            f64: binary_fns!(loop f64, f64),
            i32: $i32,
            i64: $i64,
            bool: $bool,
        };
    };
    (loop $t:ident, $u:ty) => {
        gradloom_maths::versions!(|xs: &[$t], ys: &[$t], zs: &mut [$u]| A => {
            for ((z, &x), &y) in zs.iter_mut().zip(xs).zip(ys) {
                *z = <$u>::from(element::$t::<A>(x, y));
            }
        })
    };
}

/// As `binary_fns!`, for functions of the remainder and the divisor:
/// `remainder_fns! { |rest, y| expression, int |rest, y| expression }`.
///
/// A loop computes the remainders of a piece as vectors, and again one by one if any of them is not exact.
macro_rules! remainder_fns {
    (|$rest:ident, $y:ident| $float:expr, int |$i:ident, $j:ident| $int:expr) => {
        element_fns! {
            f32 (x: f32, y: f32) -> f32: |x, $y| { let $rest = x % $y; $float },
            f64 (x: f64, y: f64) -> f64: |x, $y| { let $rest = x % $y; $float },
            i32 (x: i32, y: i32) -> i32: |x, $j| {
                let $i = if $j == 0 { 0 } else { x.wrapping_rem($j) };
                $int
            },
            i64 (x: i64, y: i64) -> i64: |x, $j| {
                let $i = if $j == 0 { 0 } else { x.wrapping_rem($j) };
                $int
            }
        }
        const FNS: super::BinaryFns = super::BinaryFns {
            f32: remainder_fns!(loop f32 |$rest, $y| $float),
            f64: remainder_fns!(loop f64 |$rest, $y| $float),
            i32: Some(remainder_fns!(loop i32 |$i, $j| $int)),
            i64: Some(remainder_fns!(loop i64 |$i, $j| $int)),
            bool: None,
        };
    };
    (loop $t:ident |$rest:ident, $y:ident| $e:expr) => {
        gradloom_maths::versions!(|xs: &[$t], ys: &[$t], zs: &mut [$t]| A => {
            const PIECE: usize = 32;
            let (pieces, rest) = match <A as gradloom_maths::Arith>::FUSED {
                true => zs.as_chunks_mut::<PIECE>(),
                // Without its instruction, a fused multiply-add is slow.
                false => (&mut [][..], zs),
            };
            let done = pieces.len() * PIECE;
            let operands = xs.as_chunks::<PIECE>().0.iter().zip(ys.as_chunks::<PIECE>().0);
            for (zs, (xs, ys)) in pieces.iter_mut().zip(operands) {
                let mut all_exact = true;
                for i in 0..PIECE {
                    let ($rest, exact) = gradloom_maths::remainder::$t(xs[i], ys[i]);
                    let $y = ys[i];
                    zs[i] = $e;
                    all_exact &= exact;
                }
                if !all_exact {
                    for i in 0..PIECE {
                        zs[i] = element::$t::<A>(xs[i], ys[i]);
                    }
                }
            }
            for ((z, &x), &y) in rest.iter_mut().zip(&xs[done..]).zip(&ys[done..]) {
                *z = element::$t::<A>(x, y);
            }
        })
    };
}

/// As `unary_fns!`, for comparisons: `compare_fns! { |x, y| expression }`.
macro_rules! compare_fns {
    (|$x:ident, $y:ident| $e:expr) => {
        element_fns! {
            f32 (x: f32, y: f32) -> bool: |$x, $y| $e, f64 (x: f64, y: f64) -> bool: |$x, $y| $e,
            i32 (x: i32, y: i32) -> bool: |$x, $y| $e, i64 (x: i64, y: i64) -> bool: |$x, $y| $e,
            bool (x: bool, y: bool) -> bool: |$x, $y| $e
        }
        const FNS: super::CompareFns = super::CompareFns {
    f32: binary_fns!(loop f32, u8),
    f64: binary_fns!(loop f64, u8),
    i32: binary_fns!(loop i32, u8),
    i64: binary_fns!(loop i64, u8),
    bool: binary_fns!(loop bool, u8),
        };
    };
}

/// As `unary_fns!`, for tests of floats: `test_fns! { |x| expression }`.
macro_rules! test_fns {
    (|$x:ident| $e:expr) => {
        element_fns! { f32 (x: f32) -> bool: |$x| $e, f64 (x: f64) -> bool: |$x| $e }
        const FNS: super::TestFns = super::TestFns {
            f32: test_fns!(loop f32),
            f64: test_fns!(loop f64),
        };
    };
    (loop $t:ident) => {
        gradloom_maths::versions!(|xs: &[$t], ys: &mut [u8]| A => {
            for (y, &x) in ys.iter_mut().zip(xs) {
                *y = u8::from(element::$t::<A>(x));
            }
        })
    };
}

/// As `unary_fns!` and `binary_fns!`, for ops on bits.
///
/// - `bit_fns! { |x| expression }`
/// - `bit_fns! { |x, y| expression }`
/// - `bit_fns! { |x, y| expression, no bools }`
///
/// The function of `f64`, for definitions, converts to integers and back.
macro_rules! bit_fns {
    (|$x:ident| $e:expr) => {
        element_fns! {
            i32 (x: i32) -> i32: |$x| $e, i64 (x: i64) -> i64: |$x| $e, bool (x: bool) -> bool: |$x| $e,
            f64 (x: f64) -> f64: |x| i64::<A>(x as _) as _
        }
        const FNS: super::BitFns = super::BitFns::One {
            i32: unary_fns!(loop i32),
            i64: unary_fns!(loop i64),
            bool: test_fns!(loop bool),
        };
    };
    (|$x:ident, $y:ident| $e:expr) => {
        element_fns! {
            i32 (x: i32, y: i32) -> i32: |$x, $y| $e, i64 (x: i64, y: i64) -> i64: |$x, $y| $e,
            bool (x: bool, y: bool) -> bool: |$x, $y| $e,
            f64 (x: f64, y: f64) -> f64: |x, y| i64::<A>(x as _, y as _) as _
        }
        bit_fns! { @ Some(binary_fns!(loop bool, u8)) }
    };
    (|$x:ident, $y:ident| $e:expr, no bools) => {
        element_fns! {
            i32 (x: i32, y: i32) -> i32: |$x, $y| $e, i64 (x: i64, y: i64) -> i64: |$x, $y| $e,
            f64 (x: f64, y: f64) -> f64: |x, y| i64::<A>(x as _, y as _) as _
        }
        bit_fns! { @ None }
    };
    (@ $bool:expr) => {
        const FNS: super::BitFns = super::BitFns::Two {
            i32: binary_fns!(loop i32, i32),
            i64: binary_fns!(loop i64, i64),
            bool: $bool,
        };
    };
}

/// As `unary_fns!`, for ops of three or four floats, with the definition of the op.
macro_rules! many_fns {
    (|$x:ident, $y:ident, $z:ident| $e:expr) => {
        many_fns! { fns |$x, $y, $z| $e }
        const FNS: super::ManyFns = super::ManyFns::Three {
            f32: many_fns!(loop f32, xs x, ys y, zs z),
            f64: many_fns!(loop f64, xs x, ys y, zs z),
        };
        many_fns! { @ 0, 1, 2 }
    };
    (|$x:ident, $y:ident, $z:ident, $w:ident| $e:expr) => {
        many_fns! { fns |$x, $y, $z, $w| $e }
        const FNS: super::ManyFns = super::ManyFns::Four {
            f32: many_fns!(loop f32, xs x, ys y, zs z, ws w),
            f64: many_fns!(loop f64, xs x, ys y, zs z, ws w),
        };
        many_fns! { @ 0, 1, 2, 3 }
    };
    (fns |$($x:ident),*| $e:expr) => {
        mod element {
            use super::*;

            #[inline(always)]
            pub(super) fn f32<A: gradloom_maths::Arith>($($x: f32),*) -> f32 {
                $e
            }
            #[inline(always)]
            pub(super) fn f64<A: gradloom_maths::Arith>($($x: f64),*) -> f64 {
                $e
            }
        }
    };
    (@ $($i:literal),*) => {
        /// The definition of the op.
        pub(super) fn reference(of: &super::Application<'_>) -> super::NdArray {
            of.build(|i| {
                element::f64::<gradloom_maths::Plain>($(of.args[$i].spread(&i)),*)
            })
        }
    };
    (loop $t:ident, $($xs:ident $x:ident),*) => {
        gradloom_maths::versions!(|$($xs: &[$t],)* out: &mut [$t]| A => {
            for (i, y) in out.iter_mut().enumerate() {
                *y = element::$t::<A>($($xs[i]),*);
            }
        })
    };
}

/// Defines the module `element`, with a function named after each dtype.
macro_rules! element_fns {
    ($($t:ident ($($p:ident: $in:ty),*) -> $out:ty: |$($x:ident),*| $e:expr),*) => {
        // The op documents the functions. Bools compare like numbers: false is less than true.
        #[allow(missing_docs, clippy::bool_comparison)]
        pub(in crate::op) mod element {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[inline(always)]
                pub fn $t<A: gradloom_maths::Arith>($($p: $in),*) -> $out {
                    $(let $x = $p;)*
                    $e
                }
            )*
        }
    };
}

/// Returns the number of bits of an integer.
pub(super) const fn width<T>(_: &T) -> i64 {
    8 * size_of::<T>() as i64
}
