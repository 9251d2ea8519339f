use super::Bits;

bit_fns! { |x, y| x & y }

pub(super) static OP: Bits = Bits {
    name: "bit_and",
    fns: FNS,
    samples: &[
        "(x: i64[2, 3], y: i64[3]) { z = bit_and x, y return z }",
        "(x: bool[2, 1], y: bool[2, 3]) { z = bit_and x, y return z }",
        "(x: i64[], y: i64[2]) { z = bit_and x, y return z }",
        "(x: bool[0], y: bool[]) { z = bit_and x, y return z }",
    ],
};
