//! Elements at indices.

use gradloom::Tensor;

crate::goldens! {
    take_axis0(x, #[nodiff] i) { x.take(i, 0) }
    take_duplicates(x, #[nodiff] i) { x.take(i, 0).square() }
    take_empty_index(x, #[nodiff] i) { x.take(i, 0) }
    one_hot_matmul(e, #[nodiff] t) { t.one_hot(5, e.dtype()).matmul(e) }
    scatter_add_duplicates(x, u, #[nodiff] i) { x.scatter_add(i, u, 0) }
    scatter_set(x, u, #[nodiff] i) { x.scatter_set(i, u, 0) }
    segment_sum(x, #[nodiff] s) { x.segment_sum(s, 4) }
    masked_sum(x, #[nodiff] m) { m.select(x, x.zeros_like()).square().sum(1) }
    top2_values(x) { x.top_k(2, 0) }
    permutation_inverse(x, #[nodiff] p) { x.take(p, 0).take(p.argsort(0), 0) * x }
    dynamic_slice(x, #[nodiff] s) {
        x.dynamic_slice(Tensor::stack(&[s, &s.zeros_like()], 0), [2, 3]).square()
    }
    dynamic_update_slice(x, u, #[nodiff] s) { x.dynamic_update_slice(s.unsqueeze(0), u) * x }
    update_in_loop(x) {
        let mut y = x.clone();
        for k in 0..3 {
            y = y.set(k, y.i(k) * y.i(k + 1));
        }
        y
    }
}
