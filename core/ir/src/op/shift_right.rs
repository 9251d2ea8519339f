use super::Bits;
use super::loops::width;

bit_fns! { |x, y| if y >= 0 && (y as i64) < width(&x) {
    x >> y
} else {
    x >> (width(&x) - 1)
}, no bools }

pub(super) static OP: Bits = Bits {
    name: "shift_right",
    fns: FNS,
    samples: &[
        "(x: i64[2, 3], y: i64[3]) { z = shift_right x, y return z }",
        "(x: i32[2, 1], y: i32[2, 3]) { z = shift_right x, y return z }",
        "(x: i64[], y: i64[2]) { z = shift_right x, y return z }",
        "(x: i32[0], y: i32[]) { z = shift_right x, y return z }",
    ],
};
