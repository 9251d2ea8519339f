//! Argument reduction of the trigonometric functions modulo `pi / 2`.

use crate::Arith;
use crate::float::Real;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// A reduced argument, `x = n pi/2 + r` with `|r| <= pi/4` up to rounding.
///
/// Only the last two bits of `n` are meaningful. `r` is the sum of two parts.
#[derive(Clone, Copy)]
pub(crate) struct Reduced {
    pub(crate) n: u64,
    pub(crate) r: (f64, f64),
}

/// `pi / 2` in four parts. The products of the first three with `n` are exact for `|n| <= 2^20`.
const PARTS: [f64; 4] = [
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.4784276603689e-32,
];

/// Reduces `x` for `|x| <= 2^20` (Cody and Waite).
#[inline(always)]
pub(crate) fn reduce(x: f64) -> Reduced {
    let shifted = x * FRAC_2_PI + f64::MAGIC;
    let n = shifted - f64::MAGIC;
    // The first difference is exact. No `x` in this range is so close to a multiple of pi / 2 that
    // the parts lack digits.
    let (a, rest) = (x - n * PARTS[0]).two_sum(-n * PARTS[1]);
    let (a, more) = a.two_sum(-n * PARTS[2]);
    let rest = (rest + more) - n * PARTS[3];
    Reduced {
        n: shifted.to_bits(),
        r: a.two_sum(rest),
    }
}

/// `pi / 2` in three parts. The products of the first two with `n` are exact for `|n| <= 2^28`.
const SHORT_PARTS: [f64; 3] = [
    1.5707963109016418,
    1.5893254712295857e-08,
    6.123233995736766e-17,
];

/// Reduces an `f32` with `|x| <= 2^26`, for which one part of `r` has enough digits.
#[inline(always)]
pub(crate) fn reduce_short(x: f64) -> (u64, f64) {
    let shifted = x * FRAC_2_PI + f64::MAGIC;
    let n = shifted - f64::MAGIC;
    // The first two differences are exact.
    let r = ((x - n * SHORT_PARTS[0]) - n * SHORT_PARTS[1]) - n * SHORT_PARTS[2];
    (shifted.to_bits(), r)
}

/// The error of `FRAC_PI_2`: pi / 2 minus it.
const FRAC_PI_2_REST: f64 = 6.123233995736766e-17;

/// The digits of `2 / pi` after the binary point, preceded by 64 zeros.
const DIGITS: [u32; 64] = {
    let digits: [u32; 38] = [
        0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
        0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
        0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
        0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
        0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
        0x1f8d5d08, 0x56033046, 0xfc7b6bab,
    ];
    let mut padded = [0; 64];
    let mut i = 0;
    while i < digits.len() {
        padded[i + 2] = digits[i];
        i += 1;
    }
    padded
};

/// Reduces `x` for `|x| >= 2^20`.
///
/// The method is that of Payne and Hanek ("Radian reduction for trigonometric functions", SIGNUM
/// Newsletter 18, 1983). Write `x = m 2^e` with an integer `m` of 53 digits. A digit of `2 / pi`
/// whose product with `2^e` is a multiple of 4 does not matter. So the product of `m` with the next
/// 192 digits, modulo 4, is accurate to `2^-137`. No `x` is closer to a multiple of `pi / 2` than
/// `2^-62`.
#[inline(always)]
pub(crate) fn reduce_huge<A: Arith>(x: f64) -> Reduced {
    const LOW: u64 = 0xffff_ffff;
    let bits = x.to_bits();
    let m = (bits & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000;
    // The position of the first digit in the table, e + 62. It stays in range for infinity and NaN.
    let start = ((bits >> 52) & 0x7ff).wrapping_sub(1075 - 62) & 0x7ff;
    let (word, shift) = ((start >> 5) as usize, start & 31);
    let (m0, m1) = (m & LOW, m >> 32);
    // The product word by word, from the last word, with carries into the next two words.
    let mut words = [0; 6];
    let (mut next, mut after) = (0, 0);
    let mut i = 6;
    while i > 0 {
        i -= 1;
        let pair = (word + i) & 63;
        let pair = (u64::from(DIGITS[pair]) << 32) | u64::from(DIGITS[(pair + 1) & 63]);
        let digits = (pair >> (32 - shift)) & LOW;
        let (a, b) = (m0 * digits, m1 * digits);
        let sum = next + (a & LOW);
        words[i] = sum & LOW;
        next = after + (sum >> 32) + (a >> 32) + (b & LOW);
        after = b >> 32;
    }
    let top = (words[0] << 32) | words[1];
    // The first two digits are the integer part. Round to the nearest integer.
    let n = top.wrapping_add(1 << 61) >> 62;
    let rest = top.wrapping_sub(n << 62);
    const SCALES: [f64; 4] = [
        1.0 / (1u64 << 30) as f64,
        1.0 / (1u64 << 62) as f64,
        1.0 / (1u64 << 47) as f64 / (1u64 << 47) as f64,
        1.0 / (1u64 << 63) as f64 / (1u64 << 63) as f64,
    ];
    let head = f64::from((rest >> 32) as u32 as i32) * SCALES[0];
    let (a, more) = head.two_sum(f64::from(rest as u32) * SCALES[1]);
    let low = f64::from(words[2] as u32) * SCALES[2] + f64::from(words[3] as u32) * SCALES[3];
    let (a, low) = a.two_sum(more + low);
    // Multiply by pi / 2. The result is NaN if x is infinite.
    let (r, error) = a.two_product::<A>(FRAC_PI_2);
    let (r, rest) = r.fast_two_sum(error + a * FRAC_PI_2_REST + low * FRAC_PI_2 + x * 0.0);
    if x < 0.0 {
        Reduced {
            n: n.wrapping_neg(),
            r: (-r, -rest),
        }
    } else {
        Reduced { n, r: (r, rest) }
    }
}
