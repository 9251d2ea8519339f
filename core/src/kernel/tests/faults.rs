//! What only values can tell that it is wrong.

use super::run::run_one;
use super::view::View;
use crate::kernel::KernelFault;
use crate::layout::numel;

#[test]
fn a_label_out_of_range_is_named() {
    let logits = View::new(vec![0.0; 6], &[2, 3]);
    let text = "(x: f64[2, 3], labels: i64[2]) { y = cross_entropy x, labels return y }";
    for label in [3, -1, i64::MIN] {
        let fault = run_one(text, &[logits.clone(), View::new(vec![2, label], &[2])]).unwrap_err();
        assert_eq!(
            fault,
            KernelFault::Label {
                label,
                classes: 3,
                row: 1
            }
        );
    }
    let hot = run_one(
        "(labels: i64[2]) { y = one_hot[classes=3, dtype=f64] labels return y }",
        &[View::new(vec![-1i64, 1], &[2])],
    );
    assert_eq!(hot.unwrap().data::<f64>(), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn a_result_that_fits_no_memory_is_a_fault() {
    let x = View::splat(1.0f32, &[1 << 30, 1 << 28]);
    let y = run_one(
        "(x: f32[1073741824, 268435456]) { y = neg x return y }",
        std::slice::from_ref(&x),
    );
    assert_eq!(y.unwrap_err(), KernelFault::OutOfMemory { bytes: 1 << 60 });
    assert_eq!(numel(x.shape()), 1 << 58);
}
