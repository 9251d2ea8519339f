//! Conversions of floats of 16 bits, by integer arithmetic that the compiler turns into vectors.

use half::{bf16, f16};

/// An element of 8 or 16 bits that an `f32` holds exactly.
pub trait Widen: Copy {
    /// Returns the same number.
    fn widen(self) -> f32;
}

impl Widen for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Widen for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7fff) << 13;
        // The exponent is 112 too small; the product also gives subnormal numbers theirs.
        let finite = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
        let is_finite = magnitude < 0x7c00 << 13;
        let magnitude = match is_finite {
            true => finite.to_bits(),
            false => magnitude | 0x7f80_0000,
        };
        f32::from_bits(magnitude | (bits & 0x8000) << 16)
    }
}

impl Widen for i8 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

impl Widen for u8 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from(self)
    }
}

/// A float of 16 bits.
pub trait Half<T> {
    /// Returns the nearest float of 16 bits, of two the even one.
    fn round(x: T) -> Self;
}

impl Half<f32> for bf16 {
    #[inline(always)]
    fn round(x: f32) -> bf16 {
        let bits = x.to_bits();
        // Half of the last place that is kept, less 1 if the number is even.
        let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let bits = match x.is_nan() {
            true => bits >> 16 | 0x40,
            false => nearest,
        };
        bf16::from_bits(bits as u16)
    }
}

impl Half<f32> for f16 {
    #[inline(always)]
    fn round(x: f32) -> f16 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        // The sum with 1/2 rounds a number below 2^-14 to a multiple of 2^-24, the least subnormal.
        let least = (f32::from_bits(magnitude) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000);
        let exponent = magnitude.wrapping_sub(112 << 23);
        let normal = exponent.wrapping_add(0xfff + (exponent >> 13 & 1)) >> 13;
        // From 65520 on, numbers are rounded to infinity.
        let large = match x.is_nan() {
            true => 0x7e00 | (magnitude >> 13 & 0x3ff),
            false => 0x7c00,
        };
        let magnitude = match (magnitude < 0x3880_0000, magnitude >= 0x477f_f000) {
            (true, _) => least,
            (_, true) => large,
            _ => normal,
        };
        f16::from_bits((magnitude | bits >> 16 & 0x8000) as u16)
    }
}

impl Half<f64> for bf16 {
    #[inline(always)]
    fn round(x: f64) -> bf16 {
        bf16::from_f64(x)
    }
}

impl Half<f64> for f16 {
    #[inline(always)]
    fn round(x: f64) -> f16 {
        f16::from_f64(x)
    }
}

#[cfg(test)]
mod tests {
    use super::{Half, Widen};
    use half::{bf16, f16};

    #[test]
    fn widening_gives_the_number_of_each_float() {
        for bits in 0..=u16::MAX {
            let (x, y) = (bf16::from_bits(bits), f16::from_bits(bits));
            assert_eq!(x.is_nan(), x.widen().is_nan(), "bf16 {bits:x}");
            assert_eq!(y.is_nan(), y.widen().is_nan(), "f16 {bits:x}");
            if !x.is_nan() {
                assert_eq!(x.widen().to_bits(), x.to_f32().to_bits(), "bf16 {bits:x}");
            }
            if !y.is_nan() {
                assert_eq!(y.widen().to_bits(), y.to_f32().to_bits(), "f16 {bits:x}");
            }
        }
    }

    #[test]
    fn rounding_gives_the_nearest_float() {
        // All numbers between neighbours of 16 bits, at their ends, in the middle and beside it.
        for bits in 0..=u32::from(u16::MAX) {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(bits << 16 | low);
                let found: bf16 = Half::round(x);
                let same = found.to_bits() == bf16::from_f32(x).to_bits();
                assert!(same || found.is_nan() && x.is_nan(), "bf16 of {x:e}");
            }
            let low = f16::from_bits(bits as u16);
            let high = f16::from_bits(bits as u16 + u16::from(bits < u32::from(u16::MAX)));
            let middle = (low.to_f32() + high.to_f32()) / 2.0;
            for x in [low.to_f32(), middle, middle.next_down(), middle.next_up()] {
                let found: f16 = Half::round(x);
                let same = found.to_bits() == f16::from_f32(x).to_bits();
                assert!(same || found.is_nan() && x.is_nan(), "f16 of {x:e}");
            }
        }
        for x in [
            65504.0,
            65519.996,
            65520.0,
            1e30,
            f32::INFINITY,
            5.9e-8,
            2.9e-8,
            2.98e-8,
        ] {
            for x in [x, -x] {
                let found: f16 = Half::round(x);
                assert_eq!(found.to_bits(), f16::from_f32(x).to_bits(), "f16 of {x:e}");
            }
        }
    }
}
