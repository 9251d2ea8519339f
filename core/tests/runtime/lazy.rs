//! Lazy evaluation: pending tensors and their realisation.

use gradloom::{DType, Error, Tensor, evaluate};
use std::thread;

fn x() -> Tensor {
    Tensor::from([[0.5f32, -1.25, 3.0], [2.0, 0.125, -0.75]])
}

/// Returns the stages of a computation, after calling `each` on them.
///
/// The ops include views, broadcasts, reductions, a product and several results of one op.
fn stages(x: &Tensor, each: impl Fn(&Tensor)) -> Vec<Tensor> {
    let mut all = Vec::new();
    let mut keep = |t: Tensor| {
        each(&t);
        all.push(t.clone());
        t
    };
    let a = keep(x.transpose());
    let b = keep(a.matmul(x));
    let c = keep(b.softmax(-1) * 3.0);
    let d = keep(&c - c.mean_keepdims(0));
    let [e, f, g] = d.split::<3>(1);
    let e = keep(e.tanh());
    let h = keep(Tensor::concat(&[&e, &f, &g], 0));
    let i = keep(h.reshape([3, 3]).permute([1, 0]).slice([1], [3], [1]));
    keep(i.exp().sum(..));
    all
}

/// Row S2.26 of the requirements.
#[test]
fn evaluating_everything_at_once_gives_the_bits_of_one_op_at_a_time() {
    let eager = stages(&x(), |t| evaluate(t).unwrap());
    let lazy = stages(&x(), |_| {});
    evaluate(&lazy).unwrap();
    for (eager, lazy) in eager.iter().zip(&lazy) {
        let bits = |t: &Tensor| {
            t.to_vec::<f32>()
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(eager), bits(lazy));
    }
}

#[test]
fn evaluation_realises_the_targets_and_operands_that_have_other_handles() {
    let x = x();
    let (a, c) = (x.tanh(), x.sin());
    let b = a.exp();
    evaluate(&b).unwrap();
    assert!(b.is_realised() && a.is_realised());
    assert!(!c.is_realised());
}

/// Row S2.22 of the requirements.
#[test]
fn programs_that_differ_only_in_aliasing_are_distinguished() {
    let (a, b) = (Tensor::from([2.0f32, 3.0]), Tensor::from([5.0f32, 7.0]));
    assert_eq!((&a * &a).to_vec::<f32>(), [4.0, 9.0]);
    assert_eq!((&a * &b).to_vec::<f32>(), [10.0, 21.0]);
    assert_eq!((&b * &a).to_vec::<f32>(), [10.0, 21.0]);
    assert_eq!((&a - &b).to_vec::<f32>(), [-3.0, -4.0]);
    assert_eq!((&b - &a).to_vec::<f32>(), [3.0, 4.0]);
}

#[test]
fn programs_that_differ_only_in_a_static_argument_are_distinguished() {
    let x = Tensor::from_vec((0..8).map(|i| i as f32).collect(), [2, 2, 2]);
    assert_eq!(x.sum(-1).to_vec::<f32>(), [1.0, 5.0, 9.0, 13.0]);
    assert_eq!(x.sum(-2).to_vec::<f32>(), [2.0, 4.0, 10.0, 12.0]);
    assert_eq!(x.sum(0).to_vec::<f32>(), [4.0, 6.0, 8.0, 10.0]);
    assert_eq!((&x * 0.0).sum(..).item::<f32>().to_bits(), 0.0f32.to_bits());
    assert_eq!(
        x.full_like(-0.0).to_vec::<f32>()[0].to_bits(),
        (-0.0f32).to_bits()
    );
    assert_eq!(
        x.full_like(0.0).to_vec::<f32>()[0].to_bits(),
        0.0f32.to_bits()
    );
}

/// Rows S2.16, S2.27 of the requirements.
#[test]
fn programs_that_differ_only_in_their_targets_are_distinguished() {
    let x = Tensor::from([1.0f64, 4.0]);
    let pair = || {
        let a = x.sqrt();
        let b = &a + 1.0;
        (a, b)
    };
    let b = pair().1;
    evaluate(&b).unwrap();
    let (a, b) = pair();
    evaluate(&[&b, &a].map(Tensor::clone)).unwrap();
    assert_eq!(a.to_vec::<f64>(), [1.0, 2.0]);
    assert_eq!(b.to_vec::<f64>(), [2.0, 3.0]);
    let (a, b) = pair();
    evaluate(&vec![a.clone(), b.clone(), a.clone()]).unwrap();
    assert_eq!(a.to_vec::<f64>(), [1.0, 2.0]);
    assert_eq!(b.to_vec::<f64>(), [2.0, 3.0]);
}

#[test]
fn a_view_as_a_target_is_contiguous() {
    let x = x();
    let t = x.transpose();
    assert_eq!(t.to_vec::<f32>(), [0.5, 2.0, -1.25, 0.125, 3.0, -0.75]);
    assert_eq!(x.slice([1], [2], [1]).to_vec::<f32>(), [2.0, 0.125, -0.75]);
    assert_eq!(t.to_ndarray::<f32>().t(), x.to_ndarray::<f32>());
}

#[test]
fn results_of_one_op_can_be_realised_separately() {
    let [a, b] = Tensor::from([1i64, 2, 3, 4]).split::<2>(0);
    assert_eq!(a.to_vec::<i64>(), [1, 2]);
    assert!(!b.is_realised());
    assert_eq!((&a + &b).to_vec::<i64>(), [4, 6]);
    assert_eq!(b.to_vec::<i64>(), [3, 4]);
}

/// Row S2.28 of the requirements.
#[test]
fn a_failed_evaluation_leaves_promises_that_can_be_evaluated_again() {
    let logits = Tensor::zeros([2, 3], DType::F32);
    let labels = Tensor::from([0i64, 3]);
    let doubled = &labels * 2;
    let loss = logits.cross_entropy(&labels);
    let error = evaluate(&(loss.clone(), doubled.clone())).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Label {
                label: 3,
                row: 1,
                classes: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(!loss.is_realised() && !doubled.is_realised());
    assert!(loss.try_item::<f32>().is_err());
    assert_eq!(doubled.to_vec::<i64>(), [0, 6]);
    // The plan that failed works for other labels.
    let loss = logits.cross_entropy(Tensor::from([0i64, 2]));
    assert_eq!(loss.item::<f32>(), 3.0f32.ln());
}

#[test]
fn a_result_that_exceeds_memory_is_an_error_and_not_an_abort() {
    let x = Tensor::zeros([1 << 30, 1 << 20], DType::F64);
    let error = evaluate(&x).unwrap_err();
    assert_eq!(
        error,
        Error::OutOfMemory {
            op: "full",
            bytes: 1 << 53
        }
    );
    assert_eq!(x.slice([0, 0], [1, 2], [1, 1]).to_vec::<f64>(), [0.0, 0.0]);
}

#[test]
fn the_error_for_memory_names_the_op_with_the_most_bytes() {
    let (x, c) = (Tensor::from([1.0f64]), Tensor::from([true]));
    let (numbers, bools) = (x.broadcast_to([1i64 << 40]), c.broadcast_to([1i64 << 42]));
    let few = Tensor::stack(&[&numbers, &numbers], 0).slice([0, 0], [1, 2], [1, 1]);
    let many = Tensor::concat(&[&bools, &bools], 0).slice([0], [2], [1]);
    let error = evaluate((&few, &many)).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { op: "stack", .. }),
        "{error}"
    );
}

/// Row S2.1 of the requirements.
#[test]
fn many_threads_may_evaluate_the_same_tensors() {
    let x = Tensor::from_vec((0..1000).map(|i| i as f64).collect(), 1000);
    for _ in 0..20 {
        let y = x.sin();
        let z = (&y * &y).sum(..);
        let w = y.sum(..) + &z;
        let values: Vec<(f64, f64)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|i| {
                    let (y, z, w) = (&y, &z, &w);
                    scope.spawn(move || {
                        if i % 2 == 0 {
                            evaluate(y).unwrap();
                        }
                        (z.item::<f64>(), w.item::<f64>())
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(values.iter().all(|v| *v == values[0]), "{values:?}");
    }
}

/// Rows S0.41, S1.4, S1.22, S2.4, S2.7, S2.8, S2.46 of the requirements.
#[test]
fn a_tensor_prints_its_aval_and_its_elements() {
    assert_eq!(
        Tensor::from([[1.0f32, 2.5], [-0.0, f32::NAN]]).to_string(),
        "f32[2, 2] [[1, 2.5], [-0, NaN]]"
    );
    assert_eq!(Tensor::from(true).to_string(), "bool[] true");
    assert_eq!(
        Tensor::zeros([2, 0], DType::I32).to_string(),
        "i32[2, 0] [[], []]"
    );
    assert_eq!(
        format!("{:.2}", Tensor::from([1.0f64 / 3.0])),
        "f64[1] [0.33]"
    );
    let long = Tensor::arange(2000, DType::I64);
    assert_eq!(
        long.to_string(),
        "i64[2000] [0, 1, 2, ..., 1997, 1998, 1999]"
    );
    assert!(format!("{long:#}").contains("997, 998"));
    let promise = Tensor::from([1.0f32]).tanh();
    assert_eq!(format!("{promise:?}"), "Tensor(f32[1], promise)");
    let failed = Tensor::zeros([1, 2], DType::F32).cross_entropy(Tensor::from([-1i64]));
    assert_eq!(
        failed.to_string(),
        "f32[] <`cross_entropy`: label -1 at row 0 is out of range for 2 classes>"
    );
}
