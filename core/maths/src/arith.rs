//! With or without a fused multiply-add.

/// The arithmetic that a scalar function is made of.
///
/// Where the CPU has no fused multiply-add, `mul_add` is a call of a slow function of the C library. So a function is
/// written once, in terms of this trait, and the two instances may differ in the last bits.
pub trait Arith: Copy + 'static {
    /// Whether `a * b + c` is rounded once.
    const FUSED: bool;

    /// `a * b + c`.
    #[inline(always)]
    fn fma32(a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }

    /// `a * b + c`.
    #[inline(always)]
    fn fma64(a: f64, b: f64, c: f64) -> f64 {
        if Self::FUSED {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }
}

/// Two roundings.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// One rounding. The bits are right everywhere; it is fast where the CPU has the instruction.
#[derive(Clone, Copy, Debug)]
pub struct Fused;

impl Arith for Plain {
    const FUSED: bool = false;
}

impl Arith for Fused {
    const FUSED: bool = true;
}

/// The arithmetic of every CPU that the crate is compiled for.
#[cfg(any(target_feature = "fma", target_arch = "aarch64"))]
pub type Base = Fused;

/// The arithmetic of every CPU that the crate is compiled for.
#[cfg(not(any(target_feature = "fma", target_arch = "aarch64")))]
pub type Base = Plain;
