use crate::kernel::product_of_slices;

macro_rules! products {
    ($($name:ident: $t:ty;)*) => {$(
        /// `out = a b`, `[m, k]` times `[k, n]`, as the op computes it, for those who measure it. With the operands are the
        /// strides of their rows and columns; the result is in row-major order.
        pub fn $name(
            mkn: [usize; 3],
            a: (&[$t], [usize; 2]),
            b: (&[$t], [usize; 2]),
            out: &mut [$t],
        ) {
            product_of_slices(mkn, a, b, out);
        }
    )*};
}

products! {
    product_f32: f32;
    product_f64: f64;
}
