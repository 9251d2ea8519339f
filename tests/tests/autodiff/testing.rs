//! `gradloom::testing` on closures: each law detects violations, and op-by-op evaluation works.

use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom::testing::{
    Sample, Source, adjoint_identity, companions_equal_run_time_derivatives, finite_differences,
    gradcheck, gradcheck_elements, lazy_equals_op_by_op, op_by_op,
};

type Check = std::result::Result<(), gradloom::testing::Failure>;

fn message(check: Check) -> String {
    check.expect_err("it is wrong").to_string()
}

#[test]
fn op_by_op_runs_each_op_as_its_own_plan() {
    let x = Source::new(0).normal([3, 2]);
    let (y, log) = events::record(|| op_by_op(|| (x.tanh() * 2.0).sum(0)));
    let ran = log
        .iter()
        .filter(|e| matches!(e, Event::Ran { .. }))
        .count();
    // `tanh`, the constant, `mul`, `sum`.
    assert_eq!(ran, 4, "{log:?}");
    assert!(y.is_realised());
    assert!(!x.tanh().is_realised(), "the mode ends with the closure");
    let _ = std::panic::catch_unwind(|| op_by_op(|| panic!("in the closure")));
    assert!(
        !x.tanh().is_realised(),
        "the mode also ends if the closure panics"
    );
}

#[test]
fn transforms_trace_and_nest_in_op_by_op() {
    let x = Tensor::scalar(0.5f64);
    let second = || grad(|x: &Tensor| grad(|x: &Tensor| x.sin() * x)(x))(&x);
    lazy_equals_op_by_op(second).unwrap();
    let expected = 2.0 * 0.5f64.cos() - 0.5 * 0.5f64.sin();
    assert!((op_by_op(second).item::<f64>() - expected).abs() < 1e-15);
}

#[test]
fn op_by_op_reports_an_error_in_the_data_at_its_call() {
    let (logits, labels) = (Tensor::zeros([1, 3], DType::F64), Tensor::from([7i64]));
    let result = gradloom::vjp(
        |x: &Tensor| -> Result<Tensor> { Ok(op_by_op(|| x.cross_entropy(&labels))) },
        &logits,
    );
    let error = result.err().unwrap();
    assert!(matches!(error, Error::Label { label: 7, .. }), "{error}");
}

#[test]
fn a_value_that_depends_on_laziness_is_detected() {
    let x = Tensor::from([1.0f64, 2.0]);
    let f = || {
        let y = &x * 2.0;
        if y.is_realised() { y + 1.0 } else { y }
    };
    let expected = "evaluated as one graph, compared with op by op: element 0 of `result` is 2.0, expected 3.0";
    assert_eq!(message(lazy_equals_op_by_op(f)), expected);
    lazy_equals_op_by_op(|| (&x * f64::NAN, x.lt(1.5), x.cast(DType::F32))).unwrap();
}

#[test]
fn a_wrong_derivative_is_detected() {
    let x = Tensor::from([0.5f64, 2.0]);
    let f = |x: &Tensor| x.square();
    let jvp = |x: &Tensor, dx: &Tensor| (x.square(), x * dx * 2.0);
    let vjp = |x: &Tensor, ct: &Tensor| (x.square(), x * ct * 2.0);
    companions_equal_run_time_derivatives(f, vjp, jvp, &x).unwrap();
    adjoint_identity(vjp, jvp, &x).unwrap();
    finite_differences(f, jvp, &x).unwrap();

    // Wrong by one part in a million.
    let jvp_off = |x: &Tensor, dx: &Tensor| (x.square(), x * dx * 2.000002);
    let vjp_off = |x: &Tensor, ct: &Tensor| (x.square(), x * ct * 2.000002);
    let value_off = |x: &Tensor, ct: &Tensor| (x.square() + 1e-9, x * ct * 2.0);
    let text = message(companions_equal_run_time_derivatives(f, vjp, jvp_off, &x));
    assert!(text.starts_with("the tangent of `jvp`"), "{text}");
    let text = message(companions_equal_run_time_derivatives(f, vjp_off, jvp, &x));
    assert!(text.starts_with("the cotangents of `vjp`"), "{text}");
    let text = message(companions_equal_run_time_derivatives(f, value_off, jvp, &x));
    assert!(text.starts_with("the value of `vjp`"), "{text}");
    assert!(adjoint_identity(vjp_off, jvp, &x).is_err());
    assert!(adjoint_identity(vjp, jvp_off, &x).is_err());
    assert!(finite_differences(f, jvp_off, &x).is_err());
    // Both modes are wrong in the same way, which only finite differences detect.
    adjoint_identity(vjp_off, jvp_off, &x).unwrap();

    let turned = |x: &Tensor, ct: &Tensor| (x.square(), (x * ct * 2.0).reshape([1, 2]));
    let text = message(companions_equal_run_time_derivatives(f, turned, jvp, &x));
    assert_eq!(text, "`argument` is f64[1, 2], expected f64[2]");
}

#[test]
fn differences_are_taken_in_f64_if_the_function_accepts_it() {
    let x = Tensor::from([0.5f32, 2.0]);
    let off = |x: &Tensor, dx: &Tensor| (x.sin(), x.cos() * dx * 1.0001);
    assert!(finite_differences(|x: &Tensor| x.sin(), off, &x).is_err());
    // This one only accepts `f32`, where differences are accurate to about a thousandth.
    let weights = Tensor::from([1.0f32, -1.0]);
    let f = |x: &Tensor| (x * &weights).sin();
    let jvp = |by: f64| {
        let weights = &weights;
        move |x: &Tensor, dx: &Tensor| {
            (
                f32_only(x, weights).sin(),
                f32_only(x, weights).cos() * weights * dx * by,
            )
        }
    };
    finite_differences(f, jvp(1.0), &x).unwrap();
    assert!(finite_differences(f, jvp(1.05), &x).is_err());
}

fn f32_only(x: &Tensor, weights: &Tensor) -> Tensor {
    x * weights
}

#[test]
fn a_kink_beside_the_point_is_stepped_over() {
    let x = Tensor::from([1e-4f64, -2e-5, 1.0]);
    gradcheck(|x: &Tensor| x.relu() + x.abs() * 2.0, &x).unwrap();
    let text = message(gradcheck(|x: &Tensor| x.relu(), &Tensor::scalar(0.0f64)));
    assert!(
        text.starts_with("the tangent of element 0 of `result` is 0.0, and differences give"),
        "{text}"
    );
    let label = (Tensor::scalar(1.0f64), Tensor::scalar(2i64));
    let sum = |(x, n): &(Tensor, Tensor)| x + n.cast(DType::F64);
    let texts = [
        message(gradcheck(sum, &label)),
        message(gradcheck_elements(sum, &label, 1).map(drop)),
    ];
    for text in texts {
        assert!(
            text.starts_with("`argument.1` is i64[], and only floats have gradients"),
            "{text}"
        );
    }
    let text = message(gradcheck(|x: &Tensor| x.log(), &Tensor::scalar(0.0f64)));
    let expected = "element 0 of `result` is -inf, so finite differences do not exist; sample arguments for which it is finite, as in `check(range(x = 0.5..2.0))`";
    assert_eq!(text, expected);
}

#[test]
fn closures_may_return_results_and_trees() {
    let mut source = Source::new(7);
    let pair = (source.normal([2, 3]), source.normal([3]));
    gradcheck(
        |(a, b): &(Tensor, Tensor)| Ok((a * b, b.exp(), a.argmax(0))),
        &pair,
    )
    .unwrap();
    let f = |(a, b): &(Tensor, Tensor)| -> Result<Tensor> {
        let wrong = gradloom::vjp(|x: &Tensor| Ok(x.matmul(a)), b);
        wrong.map(|(y, _)| y)
    };
    let text = message(gradcheck(f, &pair));
    assert!(text.contains("matmul"), "{text}");
}

#[test]
fn a_source_is_deterministic_and_its_dims_are_distinct() {
    let draw = || {
        let mut source = Source::new(3);
        let dims = ["B", "I", "O", "B", "H", "K"].map(|name| source.dim(name));
        assert_eq!(dims, [2, 3, 5, 2, 4, 6]);
        let unnamed = [(); 4].map(|()| source.unnamed_dim());
        assert_eq!(unnamed, [2, 3, 4, 2]);
        let x = source.uniform([50], 0.5..2.0).to_vec::<f64>();
        assert!(x.iter().all(|x| (0.5..2.0).contains(x)));
        let labels = source.labels([50], 3).to_vec::<i64>();
        assert!(
            (0..3).all(|class| labels.contains(&class))
                && labels.iter().all(|l| (0..3).contains(l))
        );
        let flags = source.flags([50]).to_vec::<bool>();
        assert!(flags.contains(&true) && flags.contains(&false));
        (x, labels, flags)
    };
    assert_eq!(draw(), draw());
    struct One(Tensor);
    impl Sample for One {
        fn sample(source: &mut Source) -> One {
            One(source.normal([2]))
        }
    }
    let (a, [b, c], Some(d)) = <(One, [One; 2], Option<Box<One>>)>::sample(&mut Source::new(0))
    else {
        panic!("an option is sampled as `Some`");
    };
    let more = Vec::<One>::sample(&mut Source::new(1));
    let all: Vec<Vec<f64>> = [a, b, c, *d]
        .iter()
        .chain(&more)
        .map(|x| x.0.to_vec())
        .collect();
    for (i, x) in all.iter().enumerate() {
        assert!(!all[..i].contains(x), "each call has numbers of its own");
    }
}
