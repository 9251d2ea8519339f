use super::Bits;

bit_fns! { |x, y| {
    // Euclid's algorithm. The remainders by -1 of the least integer wrap.
    let (mut a, mut b) = (x, y);
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.wrapping_abs()
}, no bools }

pub(super) static OP: Bits = Bits {
    name: "gcd",
    fns: FNS,
    samples: &[
        "(x: i64[2, 3], y: i64[3]) { z = gcd x, y return z }",
        "(x: i32[2, 1], y: i32[2, 3]) { z = gcd x, y return z }",
        "(x: i64[], y: i64[2]) { z = gcd x, y return z }",
        "(x: i32[0], y: i32[]) { z = gcd x, y return z }",
    ],
};
