//! `sin`, `cos` and `tan`.
//!
//! With `x = n pi/2 + r` and `|r| <= pi/4`, the result is a minimax polynomial (Remez) of `r`,
//! which `n` chooses. `f32` is computed in double precision.
//!
//! The reduction of huge arguments costs more than everything else, and `sin` always computes it,
//! because it has no branch. `fast_sin` omits it, for loops whose arguments are all
//! [`in_fast_range`].

use crate::pi::{Reduced, reduce, reduce_huge, reduce_short};
use crate::{Arith, Float};

/// The parts of the trigonometric functions that depend on the type.
pub trait Trig: Copy {
    /// The greatest argument for which the simple reduction is accurate.
    const MODERATE: Self;
    /// Returns `sin(x + quarter pi/2)`.
    fn sine<A: Arith>(x: Self, quarter: u64, may_be_huge: bool) -> Self;
    /// Returns `tan(x)`.
    fn tangent<A: Arith>(x: Self, may_be_huge: bool) -> Self;
}

impl Trig for f32 {
    const MODERATE: f32 = 67_108_864.0;

    #[inline(always)]
    fn sine<A: Arith>(x: f32, quarter: u64, may_be_huge: bool) -> f32 {
        let (n, r) = reduced_short::<A>(x, may_be_huge);
        let n = n.wrapping_add(quarter);
        let (sin, cos) = short_sin_cos::<A>(r);
        let y = if n & 1 == 0 { sin } else { cos };
        (if n & 2 == 0 { y } else { -y }) as f32
    }
    #[inline(always)]
    fn tangent<A: Arith>(x: f32, may_be_huge: bool) -> f32 {
        let (n, r) = reduced_short::<A>(x, may_be_huge);
        let (sin, cos) = short_sin_cos::<A>(r);
        let even = n & 1 == 0;
        let (top, bottom) = if even { (sin, cos) } else { (-cos, sin) };
        (top / bottom) as f32
    }
}

impl Trig for f64 {
    const MODERATE: f64 = 1_048_576.0;

    #[inline(always)]
    fn sine<A: Arith>(x: f64, quarter: u64, may_be_huge: bool) -> f64 {
        let Reduced { n, r } = reduced::<A>(x, may_be_huge);
        let n = n.wrapping_add(quarter);
        let (sin, cos) = sin_cos::<A>(r);
        let y = if n & 1 == 0 { sin } else { cos };
        if n & 2 == 0 { y } else { -y }
    }
    #[inline(always)]
    fn tangent<A: Arith>(x: f64, may_be_huge: bool) -> f64 {
        let Reduced { n, r } = reduced::<A>(x, may_be_huge);
        let (sin, cos) = sin_cos::<A>(r);
        let even = n & 1 == 0;
        let (top, bottom) = if even { (sin, cos) } else { (-cos, sin) };
        top / bottom
    }
}

/// Returns whether the `fast_*` functions accept this argument. NaN is accepted.
#[inline(always)]
pub fn in_fast_range<T: Float>(x: T) -> bool {
    (x.abs() <= T::MODERATE) | x.is_nan()
}

/// Returns the sine, to 1 ulp.
#[inline(always)]
pub fn sin<A: Arith, T: Float>(x: T) -> T {
    keep_zero(x, T::sine::<A>(x, 0, true))
}

/// Returns the cosine, to 1 ulp.
#[inline(always)]
pub fn cos<A: Arith, T: Float>(x: T) -> T {
    T::sine::<A>(x, 1, true)
}

/// Returns the tangent, to 2 ulp.
#[inline(always)]
pub fn tan<A: Arith, T: Float>(x: T) -> T {
    keep_zero(x, T::tangent::<A>(x, true))
}

/// Returns [`sin`] of an argument [in its fast range](in_fast_range).
#[inline(always)]
pub fn fast_sin<A: Arith, T: Float>(x: T) -> T {
    keep_zero(x, T::sine::<A>(x, 0, false))
}

/// Returns [`cos`] of an argument [in its fast range](in_fast_range).
#[inline(always)]
pub fn fast_cos<A: Arith, T: Float>(x: T) -> T {
    T::sine::<A>(x, 1, false)
}

/// Returns [`tan`] of an argument [in its fast range](in_fast_range).
#[inline(always)]
pub fn fast_tan<A: Arith, T: Float>(x: T) -> T {
    keep_zero(x, T::tangent::<A>(x, false))
}

/// Returns `y`, but a zero `x` unchanged, because the reduction loses the sign of zero.
#[inline(always)]
fn keep_zero<T: Float>(x: T, y: T) -> T {
    if x == T::of(0.0) { x } else { y }
}

#[inline(always)]
fn reduced<A: Arith>(x: f64, may_be_huge: bool) -> Reduced {
    let near = reduce(x);
    if !may_be_huge {
        return near;
    }
    let (far, is_near) = (reduce_huge::<A>(x), in_fast_range(x));
    Reduced {
        n: if is_near { near.n } else { far.n },
        r: (
            if is_near { near.r.0 } else { far.r.0 },
            if is_near { near.r.1 } else { far.r.1 },
        ),
    }
}

#[inline(always)]
fn reduced_short<A: Arith>(x: f32, may_be_huge: bool) -> (u64, f64) {
    let near = reduce_short(f64::from(x));
    if !may_be_huge {
        return near;
    }
    let (far, is_near) = (reduce_huge::<A>(f64::from(x)), in_fast_range(x));
    (
        if is_near { near.0 } else { far.n },
        if is_near { near.1 } else { far.r.0 },
    )
}

/// Returns sine and cosine to the precision of an `f32`.
#[inline(always)]
fn short_sin_cos<A: Arith>(r: f64) -> (f64, f64) {
    use crate::float::Real;
    let z = r * r;
    let s = z.polynomial::<A, 4>([
        2.718114782069251e-06,
        -0.00019839311636942893,
        0.00833332930329293,
        -0.16666666640788824,
    ]);
    let c = z.polynomial::<A, 4>([
        -2.720568371165886e-07,
        2.4799459299334542e-05,
        -0.0013888883496825418,
        0.041666666619453584,
    ]);
    let cos = c.fma::<A>(z, -0.5).fma::<A>(z, 1.0);
    ((s * z).fma::<A>(r, r), cos)
}

/// Returns sine and cosine.
///
/// The rounding errors of the first terms are corrected as in FreeBSD's msun.
#[inline(always)]
fn sin_cos<A: Arith>((r, rest): (f64, f64)) -> (f64, f64) {
    use crate::float::Real;
    let z = r * r;
    let s = z.polynomial::<A, 5>([
        1.589621191501895e-10,
        -2.50507475195481e-08,
        2.7557313620346057e-06,
        -0.00019841269829588146,
        0.008333333333322118,
    ]);
    let cube = z * r;
    let sin = r - ((z * (0.5 * rest - cube * s) - rest) - cube * -0.1666666666666663);
    let c = z.polynomial::<A, 6>([
        -1.1358515654873933e-11,
        2.0875700480344345e-09,
        -2.7557314177026443e-07,
        2.4801587288845605e-05,
        -0.0013888888888873051,
        0.041666666666666595,
    ]);
    let half = 0.5 * z;
    let first = 1.0 - half;
    let cos = first + (((1.0 - first) - half) + (z * (z * c) - r * rest));
    (sin, cos)
}
