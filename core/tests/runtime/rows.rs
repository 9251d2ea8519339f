//! Row kernels with several results give each result the bits that it has when computed alone.

use super::fused::{bits, numbers};
use gradloom::testing::op_by_op;
use gradloom::{Tensor, explain, set_threads, value_and_grad, vjp};

const SHAPES: [&[usize]; 7] = [
    &[1, 5],
    &[33, 7],
    &[3000, 3],
    &[70, 1030],
    &[300, 1024],
    &[4, 70, 30],
    &[17],
];

#[test]
fn sums_in_the_derivative_of_a_norm_equal_sums_of_stored_values() {
    for shape in SHAPES {
        let last = &shape[shape.len() - 1..];
        let (x, w, b) = (numbers(shape, 1), numbers(last, 2), numbers(last, 3));
        let ct = numbers(shape, 4);
        let rows: Vec<i64> = (0..shape.len() as i64 - 1).collect();
        let n = x.normalize(-1, 1e-5);
        let want = bits(&[(&ct * &n).sum(&rows[..]), ct.sum(&rows[..])]);
        let all = || {
            let layer = |(x, w, b): &(Tensor, Tensor, Tensor)| x.layer_norm(w, b, 1e-5);
            let (_, pullback) = vjp(layer, &(x.clone(), w.clone(), b.clone()));
            let (ct_x, ct_w, ct_b) = pullback.call(&ct);
            [ct_x, ct_w, ct_b]
        };
        let of_x = op_by_op(|| bits(&all()[..1]));
        for threads in [1, 2, 3] {
            set_threads(threads);
            let together = bits(&all());
            assert_eq!(together[0], of_x[0], "{shape:?}, {threads} threads");
            assert_eq!(together[1..], want, "{shape:?}, {threads} threads");
            for (i, among_others) in together.iter().enumerate() {
                let one = bits(&all()[i..=i]);
                assert_eq!(&one[0], among_others, "result {i} alone, {shape:?}");
            }
        }
    }
}

#[test]
fn cross_entropy_and_its_derivative_are_computed_by_one_kernel() {
    for [n, classes] in [[1, 1], [3, 10], [70, 2100], [2500, 33]] {
        let logits = numbers(&[n, classes], 1) * 20.0;
        let labels: Vec<i64> = (0..n).map(|i| (i * 7 % classes) as i64).collect();
        let labels = Tensor::from(labels);
        let both = || {
            let loss = |x: &Tensor| x.cross_entropy(&labels);
            let (loss, grad) = value_and_grad(loss)(&logits);
            [loss, grad]
        };
        let one_by_one = op_by_op(|| bits(&both()));
        let text = explain(&both());
        assert!(!text.contains("cross_entropy_grad"), "{text}");
        for threads in [1, 2, 3] {
            set_threads(threads);
            assert_eq!(bits(&both()), one_by_one, "{n} x {classes}");
            for (i, result) in one_by_one.iter().enumerate() {
                assert_eq!(&bits(&both()[i..=i])[0], result, "{n} x {classes}");
            }
        }
    }
}
