//! Arithmetic with or without a fused multiply-add.

/// The arithmetic that a scalar function uses.
///
/// On a CPU without a fused multiply-add, `mul_add` calls a slow function of the C library. So each
/// function is generic over this trait, and its two instances may differ in the last bits.
pub trait Arith: Copy + 'static {
    /// True if `a * b + c` is rounded only once.
    const FUSED: bool;

    /// Returns `a * b + c`.
    #[inline(always)]
    fn fma32(a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }

    /// Returns `a * b + c`.
    #[inline(always)]
    fn fma64(a: f64, b: f64, c: f64) -> f64 {
        if Self::FUSED {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }
}

/// Separate multiplication and addition, with two roundings.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Fused multiply-add, with one rounding.
///
/// The bits are the same on every CPU, but it is only fast if the CPU has the instruction.
#[derive(Clone, Copy, Debug)]
pub struct Fused;

impl Arith for Plain {
    const FUSED: bool = false;
}

impl Arith for Fused {
    const FUSED: bool = true;
}

/// The arithmetic of the baseline level of the target.
#[cfg(any(target_feature = "fma", target_arch = "aarch64"))]
pub type Base = Fused;

/// The arithmetic of the baseline level of the target.
#[cfg(not(any(target_feature = "fma", target_arch = "aarch64")))]
pub type Base = Plain;
