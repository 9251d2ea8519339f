//! Errors that depend on values.

use crate::backend::cpu::tests::run::run_one;
use crate::backend::cpu::tests::view::View;
use gradloom_kernels::KernelFault;
use gradloom_kernels::memory::numel;

#[test]
fn a_label_out_of_range_is_reported() {
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
    let hot = |checked: bool| {
        let text = format!(
            "(labels: i64[3]) {{ y = one_hot[classes=2, dtype=f64, checked={checked}] labels return y }}"
        );
        run_one(&text, &[View::new(vec![1i64, 2, -1], &[3])])
    };
    let fault = KernelFault::Label {
        label: 2,
        classes: 2,
        row: 1,
    };
    assert_eq!(hot(true).unwrap_err(), fault);
    assert_eq!(
        hot(false).unwrap().data::<f64>(),
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn an_index_out_of_range_is_reported() {
    let x = View::new(vec![0.0; 6], &[3, 2]);
    let fault = |index| KernelFault::Index {
        index,
        len: 3,
        position: 1,
    };
    for index in [3, -4, i64::MIN, i64::MAX] {
        let indices = View::new(vec![-3, index], &[2]);
        let take = "(x: f64[3, 2], i: i64[2]) { y = take[axis=0, along=false, last=false] x, i, like x return y }";
        let found = run_one(take, &[x.clone(), indices.clone()]);
        assert_eq!(found.unwrap_err(), fault(index));
        let scatter = "(x: f64[3, 2], i: i64[2], u: f64[2, 2]) { y = scatter[axis=0, along=false, set=true] x, i, u, like x, like u return y }";
        let updates = View::new(vec![0.0; 4], &[2, 2]);
        let found = run_one(scatter, &[x.clone(), indices.clone(), updates.clone()]);
        assert_eq!(found.unwrap_err(), fault(index));
        let sum = "(x: f64[2, 2], i: i64[2]) { y = segment_sum[segments=3] x, i return y }";
        assert_eq!(run_one(sum, &[updates, indices]).unwrap_err(), fault(index));
    }
    let empty = "(x: f64[0], i: i64[1]) { y = take[axis=0, along=false, last=false] x, i, like x return y }";
    let found = run_one(
        empty,
        &[
            View::new(Vec::<f64>::new(), &[0]),
            View::new(vec![0i64], &[1]),
        ],
    );
    let fault = KernelFault::Index {
        index: 0,
        len: 0,
        position: 0,
    };
    assert_eq!(found.unwrap_err(), fault);
}

#[test]
fn integer_division_by_zero_is_a_fault() {
    let run = |op: &str, y: View| {
        let x = View::new(vec![7i64, -7, 0, i64::MIN], &[2, 2]);
        let shape = if y.shape().is_empty() { "" } else { "2" };
        let text = format!("(x: i64[2, 2], y: i64[{shape}]) {{ z = {op} x, y return z }}");
        run_one(&text, &[x, y])
    };
    let fault = |element| KernelFault::DivisionByZero { element };
    let by = |ys: [i64; 2]| View::new(ys.to_vec(), &[2]);
    assert_eq!(run("div", by([1, 0])).unwrap_err(), fault(1));
    assert_eq!(
        run("div", View::new(vec![0i64], &[])).unwrap_err(),
        fault(0)
    );
    assert_eq!(run("pow", by([-1, 2])).unwrap_err(), fault(2));
    let quotients = run("div", by([2, -1])).unwrap();
    assert_eq!(quotients.data::<i64>(), [3, 7, 0, i64::MIN]);
    let powers = run("pow", by([0, 1])).unwrap();
    assert_eq!(powers.data::<i64>(), [1, -7, 1, i64::MIN]);
}

#[test]
fn a_result_larger_than_memory_is_a_fault() {
    let x = View::splat(1.0f32, &[1 << 30, 1 << 28]);
    let y = run_one(
        "(x: f32[1073741824, 268435456]) { y = neg x return y }",
        std::slice::from_ref(&x),
    );
    assert_eq!(y.unwrap_err(), KernelFault::OutOfMemory { bytes: 1 << 60 });
    assert_eq!(numel(x.shape()), 1 << 58);
}
