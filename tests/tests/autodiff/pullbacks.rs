//! `vjp` companions whose calls and pullbacks reuse plans, with the same bits as their ops.

use gradloom::cache;
use gradloom::prelude::*;
use gradloom::testing::op_by_op;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, log};
use std::sync::Mutex;

/// Serialises a test that empties the cache with tests that rely on it.
static TURN: Mutex<()> = Mutex::new(());

/// Checks that a repeated derivative and its pullback reuse their plans, and that they agree with
/// evaluation op by op.
#[track_caller]
fn finds<Y: Tree, X: Tree, P: Fn(&Y) -> X>(f: impl Fn() -> (Y, P)) {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let both = || {
        let (y, pullback) = f();
        let x = pullback(&y);
        (y, x)
    };
    let first = bits(&both());
    let (second, events) = log(both);
    let hits = events.iter().filter(|e| e.starts_with("hit"));
    assert_eq!(hits.count(), 2, "{events:?}");
    let others = events.iter().filter(|e| !e.starts_with("hit"));
    for other in others {
        assert!(other.starts_with("ran"), "{events:?}");
    }
    assert_eq!(bits(&second), first);
    assert_eq!(bits(&op_by_op(both)), first);
    // A pullback may be called again, even after the call was recorded.
    let (y, pullback) = op_by_op(&f);
    assert_eq!(bits(&pullback(&y)), bits(&second.1));
    let (y, pullback) = f();
    assert_eq!(bits(&op_by_op(|| pullback(&y))), bits(&second.1));
    assert_eq!(bits(&pullback(&y)), bits(&second.1));
}

/// Checks that a derivative and its pullback are recorded each time.
#[track_caller]
fn is_recorded<Y: Tree, X: Tree, P: Fn(&Y) -> X>(f: impl Fn() -> (Y, P)) {
    let both = || {
        let (y, pullback) = f();
        let x = pullback(&y);
        (y, x)
    };
    let first = bits(&both());
    let (second, events) = log(both);
    assert!(!events.iter().any(|e| e.starts_with("hit")), "{events:?}");
    assert_eq!(bits(&second), first);
}

#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    (x.matmul(w) + b).tanh()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activation {
    Relu,
    Tanh,
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Clone, Tree)]
struct Mlp {
    layers: Vec<Layer>,
    #[tree(skip)]
    activation: Activation,
}

#[traced]
impl Mlp {
    fn forward(&self, #[nodiff] x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for layer in &self.layers {
            h = h.matmul(&layer.w);
            if let Some(b) = &layer.b {
                h += b;
            }
            h = match self.activation {
                Activation::Relu => h.relu(),
                Activation::Tanh => h.tanh(),
            };
        }
        h
    }
}

#[traced]
fn scores(x: &Tensor, w: &Tensor, #[nodiff] labels: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let scores = x.matmul(w);
    let loss = scores.cross_entropy(labels);
    Ok((loss, scores.argmax(-1), scores))
}

fn mlp(sizes: &[usize]) -> Mlp {
    let layer = |(i, pair): (usize, &[usize])| Layer {
        w: noise(&[pair[0], pair[1]], 2 * i as u64),
        b: (i % 2 == 0).then(|| noise(&[pair[1]], 2 * i as u64 + 1)),
    };
    Mlp {
        layers: sizes.windows(2).enumerate().map(layer).collect(),
        activation: Activation::Tanh,
    }
}

#[traced]
fn parts(x: &Tensor, y: &Tensor, n: usize) -> (Tensor, (Tensor, Tensor, Tensor)) {
    let e = x.exp() * y;
    let last = if n > 1 { e.sin() } else { x.clone() };
    (x + 1.0, (x.clone(), e, last))
}

/// Arguments of which one has no influence, one is a result, and one is read only for its shape.
#[traced(allow(zero_gradient, unused_parameter))]
fn constant(x: &Tensor, y: &Tensor, z: &Tensor) -> (Tensor, Tensor, Tensor) {
    (x.sign() * 2.0, y.clone(), z.ones_like())
}

#[traced]
fn branches(x: &Tensor, deep: bool) -> Tensor {
    let mut y = x.sin();
    let mut i = 0;
    while i < 3 {
        if deep {
            y = dense(&y, x, &x.mean(0)) * x;
        }
        i += 1;
    }
    y
}

#[test]
fn derivatives_and_pullbacks_reuse_their_plans() -> Result<()> {
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    finds(|| dense::vjp(&x, &w, &b));
    let x = x.cast(DType::F32);
    let (x32, w32, b32) = (&x, &w.cast(DType::F32), &b.cast(DType::F32));
    evaluate(&vec![x32.clone(), w32.clone(), b32.clone()])?;
    finds(|| dense::vjp(x32, w32, b32));
    let x = noise(&[4, 3], 9);
    for sizes in [&[3, 5, 4, 2][..], &[3, 2], &[3, 5, 4, 2]] {
        let mut model = mlp(sizes);
        finds(|| model.forward_vjp(&x));
        model.activation = Activation::Relu;
        finds(|| model.forward_vjp(&x));
        model.layers[0].b = None;
        finds(|| model.forward_vjp(&x));
    }
    let labels = Tensor::from([0i64, 1, 1, 0]);
    finds(|| scores::vjp(&x, &w, &labels).unwrap());
    let column = noise(&[4, 1], 4);
    for n in [0, 1, 3] {
        finds(|| parts::vjp(&x, &column, n));
    }
    finds(|| constant::vjp(&x, &w, &b));
    let square = noise(&[3, 3], 5);
    finds(|| branches::vjp(&square, true));
    finds(|| branches::vjp(&square, false));
    Ok(())
}

#[test]
fn large_derivatives_are_promises_and_are_computed_together() -> Result<()> {
    let (x, w, b) = (noise(&[400, 30], 1), noise(&[30, 20], 2), noise(&[20], 3));
    finds(|| dense::vjp(&x, &w, &b));
    let (y, pullback) = dense::vjp(&x, &w, &b);
    let grads = pullback(&y);
    drop(pullback);
    assert!(!y.is_realised() && !grads.0.is_realised());
    evaluate(&grads)?;
    assert!(y.is_realised(), "the cotangent is the result");
    assert_eq!(
        bits(&grads),
        bits(&op_by_op(|| dense::vjp(&x, &w, &b).1(&y)))
    );
    Ok(())
}

#[test]
fn arguments_and_cotangents_may_be_the_same_value() {
    let (x, y) = (noise(&[3, 3], 1), noise(&[3, 3], 2));
    let bias = noise(&[3], 3);
    for (a, b) in [(&x, &x), (&x, &y), (&y, &y), (&y, &x), (&x, &x)] {
        for ct in [&x, &y, &noise(&[3, 3], 4)] {
            let call = || dense::vjp(a, b, &bias).1(ct);
            assert_eq!(bits(&call()), bits(&op_by_op(call)));
        }
        let results = || {
            let (mut parts, pullback) = parts::vjp(a, b, 2);
            parts.1.0 = parts.0.clone();
            let one = pullback(&parts);
            parts.1.0 = a.clone();
            (one, pullback(&parts))
        };
        assert_eq!(bits(&results()), bits(&op_by_op(results)));
    }
}

#[traced(record)]
fn recorded(x: &Tensor) -> Tensor {
    x * 2.0
}

#[traced]
fn repeated(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    #[checkpoint(every = 2)]
    for _ in 0..6 {
        y = y.sin() * x;
    }
    y
}

#[test]
fn a_function_marked_record_has_no_plans() {
    let x = noise(&[3], 1);
    is_recorded(|| recorded::vjp(&x));
}

#[test]
fn pullbacks_of_checkpointed_loops_recompute_iterations() {
    let x = noise(&[3], 1);
    let call = || {
        let (y, pullback) = repeated::vjp(&x);
        (pullback(&y), y)
    };
    let expected = bits(&op_by_op(call));
    (0..3).for_each(|_| assert_eq!(bits(&call()), expected));
}

#[test]
fn pullbacks_outlive_the_cache_and_accept_promises() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    let ct = noise(&[4, 2], 4);
    let expected = bits(&op_by_op(|| dense::vjp(&x, &w, &b).1(&ct)));
    for _ in 0..2 {
        let (y, pullback) = dense::vjp(&x, &w, &b);
        cache::clear();
        assert_eq!(bits(&pullback(&ct)), expected);
        cache::clear();
        assert_eq!(bits(&pullback(&ct)), expected);
        assert_eq!(bits(&pullback(&(&ct * 1.0))), expected);
        assert_eq!(bits(&y), bits(&dense(&x, &w, &b)));
    }
    let zeros = dense::vjp(&x, &w, &b).1(&ct.zeros_like());
    assert_eq!(bits(&zeros.2), [[0, 0]]);
}

#[test]
fn pullbacks_can_be_differentiated() {
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    let ct = noise(&[4, 2], 4);
    let through = |x: &Tensor| (x.matmul(&w) + &b).tanh();
    for _ in 0..3 {
        // Differentiate a planned pullback with respect to the cotangent.
        let (_, pullback) = dense::vjp(&x, &w, &b);
        let gradient = grad(|ct: &Tensor| pullback(ct).0.square().sum(..))(&ct);
        let (_, plain) = vjp(through, &x);
        let expected = grad(|ct: &Tensor| plain.call(ct).square().sum(..))(&ct);
        assert_eq!(bits(&gradient), bits(&expected));
        assert_eq!(bits(&pullback(&ct).0), bits(&plain.call(&ct)));
        // Differentiate a recorded pullback with respect to the argument.
        let gradient = grad(|x: &Tensor| dense::vjp(x, &w, &b).1(&ct).0.sum(..))(&x);
        let expected = grad(|x: &Tensor| vjp(through, x).1.call(&ct).sum(..))(&x);
        assert_eq!(bits(&gradient), bits(&expected));
    }
}

#[test]
fn pullbacks_run_on_other_threads_concurrently_and_later() {
    let (x, w, b) = (noise(&[40, 3], 1), noise(&[3, 200], 2), noise(&[200], 3));
    let ct = noise(&[40, 200], 4);
    let expected = bits(&op_by_op(|| dense::vjp(&x, &w, &b).1(&ct)));
    for _ in 0..3 {
        let (y, pullback) = dense::vjp(&x, &w, &b);
        let (pullback, ct) = (&pullback, &ct);
        std::thread::scope(|scope| {
            let run = || bits(&pullback(ct));
            let all: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            for found in all {
                assert_eq!(found.join().unwrap(), expected);
            }
        });
        let other = std::thread::spawn({
            let (x, w, b) = (x.clone(), w.clone(), b.clone());
            move || dense::vjp(&x, &w, &b)
        });
        let (y_other, pullback) = other.join().unwrap();
        assert_eq!(bits(&pullback(ct)), expected);
        assert_eq!(bits(&y_other), bits(&y));
    }
}

#[test]
fn errors_are_the_same_with_and_without_a_plan() -> Result<()> {
    let (x, w, b) = (noise(&[4, 3], 1), noise(&[3, 2], 2), noise(&[2], 3));
    let message = |f: &dyn Fn()| {
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
        *payload.downcast::<String>().expect("a `String` message")
    };
    // One line makes all pullbacks, because their messages name it.
    let pullback = || dense::vjp(&x, &w, &b).1;
    let mut messages = Vec::new();
    for _ in 0..2 {
        let pullback = pullback();
        messages.push([
            message(&|| drop(pullback(&x))),
            message(&|| drop(dense::vjp(&w, &x, &b))),
            message(&|| drop(dense::vjp(&x, &w, &Tensor::from([1i64, 2])))),
        ]);
    }
    assert_eq!(messages[0], messages[1]);
    let expected = op_by_op(|| {
        let pullback = pullback();
        message(&|| drop(pullback(&x)))
    });
    assert_eq!(messages[0][0], expected);

    // Wrong data is found when a result is evaluated. Other values are unaffected.
    for n in [4, 4000] {
        let x = noise(&[n, 3], 1);
        let labels = |last: i64| {
            let labels: Vec<i64> = (0..n as i64)
                .map(|i| if i == 2 { last } else { 0 })
                .collect();
            Tensor::from(labels)
        };
        let (right, wrong) = (labels(1), labels(7));
        let expected = bits(&scores::vjp(&x, &w, &right)?.0);
        for _ in 0..3 {
            let (y, pullback) = scores::vjp(&x, &w, &wrong)?;
            let ct = (y.0.ones_like(), y.1.clone(), noise(&[n, 2], 5));
            evaluate(&(ct.0.clone(), ct.2.clone()))?;
            assert!(evaluate(&y.0).is_err());
            let grads = pullback(&ct);
            assert!(evaluate(&grads).is_err());
            assert!(evaluate(&y).is_err());
            assert!(evaluate(&pullback(&ct)).is_err());
            assert_eq!(bits(&scores::vjp(&x, &w, &right)?.0), expected);
        }
    }
    Ok(())
}
