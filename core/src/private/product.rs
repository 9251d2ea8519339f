use crate::kernel::product_of_slices;

macro_rules! products {
    ($($name:ident: $t:ty;)*) => {$(
        /// Computes `out = a b`, `[m, k]` times `[k, n]`, with the kernel of the op.
        ///
        /// It exists for benchmarks. Each operand comes with the strides of its rows and columns;
        /// the result is in row-major order.
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
