use super::Bits;

bit_fns! { |x| !x }

pub(super) static OP: Bits = Bits {
    name: "bit_not",
    fns: FNS,
    samples: &[
        "(x: i64[2, 3]) { y = bit_not x return y }",
        "(x: bool[2, 3]) { y = bit_not x return y }",
        "(x: bool[]) { y = bit_not x return y }",
        "(x: i32[0]) { y = bit_not x return y }",
    ],
};
