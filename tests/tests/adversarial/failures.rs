//! Failures are isolated: the error is the same each time, and everything else is unaffected.

use gradloom::{DType, Error, Result, Tensor, evaluate, grad, jvp, value_and_grad, vjp};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn scalar(x: f64) -> Tensor {
    Tensor::scalar(x)
}

/// Checks that everything still works on this thread after a failure.
#[track_caller]
fn all_is_well() {
    assert_eq!(grad(|x: &Tensor| x * x)(&scalar(3.0)).item::<f64>(), 6.0);
    // Outside a function that returns `Result`, a wrong shape is a panic with a message.
    let payload = catch_unwind(|| Tensor::from([1.0f64, 2.0]) + Tensor::from([1.0f64, 2.0, 3.0]))
        .unwrap_err();
    assert!(
        payload
            .downcast_ref::<String>()
            .unwrap()
            .starts_with("add: ")
    );
    // No transform is left active, so a realised value drops its op.
    let x = scalar(2.0);
    let y = grad(|x: &Tensor| x.exp())(&x);
    assert_eq!(y.item::<f64>(), 2f64.exp());
}

/// Rows S2.29, S2.31 of the requirements.
#[test]
fn a_failing_op_gives_the_same_error_each_time_and_affects_no_other() {
    let logits = Tensor::zeros([2, 3], DType::F64).exp();
    let labels = Tensor::from([0i64, 3]);
    let loss = logits.cross_entropy(&labels);
    let [sibling, other] = logits.split::<2>(0);
    let child = (&loss * 2.0).exp();
    let is_label = |e: Error| {
        assert!(
            matches!(
                e,
                Error::Label {
                    label: 3,
                    row: 1,
                    classes: 3,
                    ..
                }
            ),
            "{e}"
        )
    };
    for _ in 0..3 {
        is_label(evaluate(&loss).unwrap_err());
        is_label(child.try_item::<f64>().unwrap_err());
        is_label(evaluate(&(sibling.clone(), child.clone(), other.clone())).unwrap_err());
    }
    assert!(!sibling.is_realised() && !other.is_realised());
    assert_eq!(sibling.to_vec::<f64>(), [1.0; 3]);
    is_label(evaluate(&(loss.clone(), sibling.clone())).unwrap_err());
    assert_eq!(other.to_vec::<f64>(), [1.0; 3]);
    assert!(sibling.is_realised() && logits.to_vec::<f64>() == [1.0; 6]);
    for label in [i64::MIN, -1, i64::MAX] {
        let error = evaluate(&logits.cross_entropy(Tensor::from([label, 0]))).unwrap_err();
        assert!(
            matches!(error, Error::Label { label: l, row: 0, .. } if l == label),
            "{error}"
        );
    }
    all_is_well();
}

#[test]
fn a_gradient_at_a_label_out_of_range_fails_as_the_loss_does() {
    let labels = Tensor::from([0i64, 3]);
    let loss = |x: &Tensor| x.cross_entropy(&labels);
    let x = Tensor::zeros([2, 3], DType::F64);
    let (value, gradient) = value_and_grad(loss)(&x);
    let error = evaluate(&gradient).unwrap_err();
    assert_eq!(error, evaluate(&value).unwrap_err());
    assert!(
        matches!(
            error,
            Error::Label {
                op: "cross_entropy",
                label: 3,
                row: 1,
                ..
            }
        ),
        "{error}"
    );
    let (_, tangent) = jvp(loss, &x, &x.ones_like());
    assert_eq!(evaluate(&tangent).unwrap_err(), error);
}

#[test]
fn a_failure_in_one_thread_does_not_affect_another() {
    let labels = Tensor::from([7i64]);
    let logits = Tensor::zeros([1, 3], DType::F32);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (labels, logits) = (&labels, &logits);
            scope.spawn(move || {
                for _ in 0..10 {
                    if i % 2 == 0 {
                        assert!(evaluate(&logits.cross_entropy(labels)).is_err());
                    } else {
                        assert_eq!(logits.cross_entropy(labels - 7).item::<f32>(), 3f32.ln());
                    }
                }
            });
        }
    });
}

#[test]
fn a_panic_in_a_differentiated_function_leaves_other_values_usable() {
    let x = scalar(3.0);
    let before = x.exp();
    let kept = std::cell::RefCell::new(None);
    for depth in 0..3 {
        let body = |x: &Tensor| -> Tensor {
            let y = x * 2.0;
            *kept.borrow_mut() = Some(y.clone());
            match depth {
                0 => panic!("the user's own"),
                1 => grad(|z: &Tensor| {
                    if z.item::<f64>() > 0.0 {
                        panic!("nested")
                    } else {
                        z * &y
                    }
                })(x),
                _ => y + Tensor::from([1.0f64, 2.0]).matmul(x),
            }
        };
        assert!(catch_unwind(AssertUnwindSafe(|| grad(body)(&x))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| vjp(body, &x))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| jvp(body, &x, &x))).is_err());
        // A value that escaped from the function is still usable.
        assert_eq!(kept.take().unwrap().item::<f64>(), 6.0);
        all_is_well();
    }
    assert_eq!(before.item::<f64>(), 3f64.exp());
}

#[test]
fn functions_with_and_without_result_nest_in_any_way() {
    let wrong = |x: &Tensor| x + Tensor::from([1.0f64, 2.0]).matmul(x);
    // Inner function without `Result`, outer one with `Result`.
    let outer = |x: &Tensor| -> Result<Tensor> { Ok(grad(wrong)(x)) };
    assert!(matches!(grad(outer)(&scalar(1.0)), Err(Error::Op(_))));
    all_is_well();
    // The outer function recovers from the failure of the inner one.
    let recovers = |x: &Tensor| -> Result<Tensor> {
        let inner = value_and_grad(|x: &Tensor| -> Result<Tensor> { Ok(wrong(x)) })(x);
        assert!(matches!(inner, Err(Error::Op(_))));
        Ok(x * x * x)
    };
    assert_eq!(grad(recovers)(&scalar(2.0)).unwrap().item::<f64>(), 12.0);
    // Outer function without `Result`, inner one with `Result`.
    let outer = |x: &Tensor| {
        let error = grad(|x: &Tensor| -> Result<Tensor> { Ok(wrong(x)) })(x).unwrap_err();
        assert!(matches!(error, Error::Op(_)));
        x * x
    };
    assert_eq!(grad(outer)(&scalar(2.0)).item::<f64>(), 4.0);
    // A panic of the user passes through a function that returns `Result`.
    let panics = |_: &Tensor| -> Result<Tensor> { panic!("the user's own") };
    let payload = catch_unwind(|| grad(panics)(&scalar(1.0)).is_ok()).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the user's own"));
    all_is_well();
    // An error that depends on the data is an error of the function, too.
    let reads = |x: &Tensor| -> Result<Tensor> {
        let loss = Tensor::stack(&[x, x], 0).cross_entropy(Tensor::from(2i64));
        loss.try_item::<f64>()?;
        Ok(loss)
    };
    assert!(matches!(
        grad(reads)(&scalar(1.0)),
        Err(Error::Label { label: 2, .. })
    ));
    let reads = |x: &Tensor| -> Result<Tensor> {
        let loss = Tensor::stack(&[x, x], 0).cross_entropy(Tensor::from(2i64));
        Ok(x * loss.item::<f64>())
    };
    assert!(matches!(
        grad(reads)(&scalar(1.0)),
        Err(Error::Label { label: 2, .. })
    ));
    all_is_well();
}

#[test]
fn a_wrong_shape_in_a_spawned_thread_panics_in_that_thread() {
    let f = |x: &Tensor| -> Result<Tensor> {
        let thread =
            std::thread::spawn(|| Tensor::from([1.0f64, 2.0]) + Tensor::from([1.0f64, 2.0, 3.0]));
        let payload = thread.join().unwrap_err();
        assert!(
            payload
                .downcast_ref::<String>()
                .unwrap()
                .starts_with("add: ")
        );
        Ok(x * x)
    };
    assert_eq!(grad(f)(&scalar(2.0)).unwrap().item::<f64>(), 4.0);
    all_is_well();
}

#[test]
fn dropping_a_pullback_frees_its_residuals() {
    /// Returns the resident memory of this process in bytes, on systems that provide it.
    fn resident() -> Option<usize> {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: usize = statm.split(' ').nth(1)?.parse().ok()?;
        Some(pages * 4096)
    }
    let n = 1 << 20;
    let Some(before) = resident() else { return };
    let mut last = None;
    for _ in 0..64 {
        let x = Tensor::full([n], 0.5, DType::F64).abs();
        let (y, pullback) = vjp(|x: &Tensor| x.abs() * x, &x);
        evaluate(&y).unwrap();
        assert!(pullback.bytes() >= 8 * n);
        let ct = pullback.call(&y.ones_like());
        last = Some(ct.slice([0], [1], [1]).to_vec::<f64>());
    }
    assert_eq!(last.unwrap(), [1.0]);
    // The residuals add up to at least 512 MiB. Other tests running meanwhile also take memory.
    let grown = resident().unwrap().saturating_sub(before);
    assert!(grown < 300 << 20, "{grown} bytes more");
}
