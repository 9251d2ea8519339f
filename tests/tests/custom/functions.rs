//! Custom functions under all transforms.

use gradloom::custom::{Call, try_custom_call};
use gradloom::prelude::*;
use gradloom::testing::gradcheck_elements;
use gradloom::{
    CustomFault, CustomFunction, Param, checkpoint, cond, custom_call, fori_loop, hessian, hvp,
    jacfwd, jacrev, jvp, linearize, scan,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// sin x by host code, so that no derivative can come from ops. It counts calls of its rules.
#[derive(Default)]
pub(crate) struct HostSin {
    pub(crate) forward: AtomicUsize,
    pub(crate) backward: AtomicUsize,
}

impl CustomFunction for HostSin {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        self.forward.fetch_add(1, Ordering::Relaxed);
        let values = x.try_to_vec::<f64>()?.into_iter().map(f64::sin).collect();
        Ok((Tensor::try_from_vec(values, x.shape())?, ()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        self.backward.fetch_add(1, Ordering::Relaxed);
        Ok(ct * call.x.cos())
    }

    fn jvp(&self, call: &Call<'_, Self>, dx: &Tensor) -> Result<Tensor> {
        Ok(dx * call.x.cos())
    }
}

/// exp x by host code. The derivative is the result, which the engine keeps.
struct HostExp;

impl CustomFunction for HostExp {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        let values = x.try_to_vec::<f64>()?.into_iter().map(f64::exp).collect();
        Ok((Tensor::try_from_vec(values, x.shape())?, ()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.y)
    }
}

/// The softplus of ops, which saves the sigmoid. Its cotangent is doubled, to be told from that of the ops.
struct DoubledSoftplus;

impl CustomFunction for DoubledSoftplus {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Tensor;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Tensor)> {
        Ok(((x.exp() + 1.0).log(), x.sigmoid()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(call.saved * ct * 2.0)
    }
}

fn doubled_softplus(x: &Tensor) -> Tensor {
    custom_call(&Arc::new(DoubledSoftplus), x)
}

fn close(x: &Tensor, y: &[f64]) {
    let x = x.to_vec::<f64>();
    assert_eq!(x.len(), y.len(), "{x:?} {y:?}");
    for (a, b) in x.iter().zip(y) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{x:?} {y:?}");
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// S4.1, S4.34: gradients flow through the user's rule, in all transforms.
#[test]
fn gradients_flow_through_the_rule_of_a_function_on_host_values() {
    let f = Arc::new(HostSin::default());
    let x = Tensor::from([0.5f64, 2.0]);
    close(&custom_call(&f, &x), &[0.5f64.sin(), 2f64.sin()]);
    let g = grad(|x: &Tensor| (custom_call(&f, x) * 3.0).sum(..))(&x);
    close(&g, &[3.0 * 0.5f64.cos(), 3.0 * 2f64.cos()]);
    let (y, pullback) = vjp(|x: &Tensor| custom_call(&f, x), &x);
    close(&y, &[0.5f64.sin(), 2f64.sin()]);
    // A pullback can be called many times.
    close(
        &pullback.call(&Tensor::from([1.0f64, 0.0])),
        &[0.5f64.cos(), 0.0],
    );
    close(
        &pullback.call(&Tensor::from([0.0f64, 1.0])),
        &[0.0, 2f64.cos()],
    );
    let (_, dy) = jvp(
        |x: &Tensor| custom_call(&f, x),
        &x,
        &Tensor::from([1.0f64, 2.0]),
    );
    close(&dy, &[0.5f64.cos(), 2.0 * 2f64.cos()]);
    let (_, df) = linearize(|x: &Tensor| custom_call(&f, x), &x);
    close(&df.call(&x.ones_like()), &[0.5f64.cos(), 2f64.cos()]);
}

/// S4.42: the rule is made of tensor operations, so it is differentiated again.
#[test]
fn the_rule_is_differentiated_again_for_second_order() {
    let f = Arc::new(HostSin::default());
    let x = Tensor::from([0.5f64, 2.0]);
    let loss = |x: &Tensor| custom_call(&f, x).sum(..);
    let second = grad(|x: &Tensor| grad(loss)(x).sum(..))(&x);
    close(&second, &[-0.5f64.sin(), -2f64.sin()]);
    let hv = hvp(loss, &x, &Tensor::from([1.0f64, 10.0]));
    close(&hv, &[-0.5f64.sin(), -10.0 * 2f64.sin()]);
    let exp = Arc::new(HostExp);
    let h = hessian(loss)(&x);
    close(&h, &[-0.5f64.sin(), 0.0, 0.0, -2f64.sin()]);
    // A Hessian is forward over reverse, and the rule reads the result, whose tangent needs the rule `jvp`.
    let forward = |x: &Tensor| -> Result<Tensor> { Ok(custom_call(&exp, x).sum(..)) };
    let error = hessian(forward)(&x).unwrap_err().to_string();
    assert_eq!(
        error,
        "`HostExp`: it has no rule `jvp`, which forward mode needs"
    );
    let third = grad(|x: &Tensor| {
        grad(|x: &Tensor| grad(|x: &Tensor| custom_call(&exp, x).sum(..))(x).sum(..))(x).sum(..)
    })(&x);
    close(&third, &[0.5f64.exp(), 2f64.exp()]);
    let saved = grad(|x: &Tensor| grad(|x: &Tensor| doubled_softplus(x).sum(..))(x).sum(..))(&x);
    let slope = |x: f64| 2.0 * sigmoid(x) * (1.0 - sigmoid(x));
    close(&saved, &[slope(0.5), slope(2.0)]);
}

/// S4.42: a missing rule is an error, never zero.
#[test]
fn a_missing_jvp_is_an_error_that_names_the_function() {
    let f = Arc::new(HostExp);
    let x = Tensor::from([0.5f64]);
    let tangent = |x: &Tensor| -> Result<Tensor> { Ok(custom_call(&f, x)) };
    let error = jvp(tangent, &x, &x).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`HostExp`: it has no rule `jvp`, which forward mode needs"
    );
    let error = try_in_vmap(&f, &x).unwrap_err();
    assert!(matches!(error, Error::Lane), "{error}");
}

/// sin x, with the shape of a lane's result but no rule for all lanes.
struct Unbatched;

impl CustomFunction for Unbatched {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        HostSin::default().forward(x, &[])
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.x.cos())
    }

    fn lane_result(&self, x: &Tensor) -> Option<Tensor> {
        Some(x.zeros_like())
    }
}

#[test]
fn messages_of_missing_rules_name_the_function_and_the_rule() {
    let (f, exp) = (Arc::new(Unbatched), Arc::new(HostExp));
    let x = Tensor::from([0.5f64, 2.0]);
    let tangent = |x: &Tensor| try_custom_call(&exp, x);
    let texts = [
        jvp(tangent, &x, &x).unwrap_err(),
        linearize(tangent, &x)
            .and_then(|(_, df)| df.try_call(&x))
            .unwrap_err(),
        jacfwd(tangent)(&x).unwrap_err(),
        try_in_vmap(&f, &x).unwrap_err(),
        try_in_vmap(&exp, &x).unwrap_err(),
    ];
    insta::assert_snapshot!(texts.map(|e| e.to_string()).join("\n"), @r"
    `HostExp`: it has no rule `jvp`, which forward mode needs
    `HostExp`: it has no rule `jvp`, which forward mode needs
    `HostExp`: it has no rule `jvp`, which forward mode needs
    `Unbatched`: it has no rule `batch`, which `vmap` needs
    this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read
    ");
}

fn try_in_vmap<F: CustomFunction<Input = Tensor, Output = Tensor>>(
    f: &Arc<F>,
    x: &Tensor,
) -> Result<Tensor> {
    vmap(|x: &Tensor| try_custom_call(f, x))(x)
}

/// S4.42: each element of the gradient and of the gradient of the gradient, by differences.
#[test]
fn gradcheck_reports_the_worst_element_of_orders_1_and_2() {
    let x = Tensor::from([0.5f64, 2.0]);
    let f = Arc::new(HostSin::default());
    for order in [1, 2] {
        let worst = gradcheck_elements(|x: &Tensor| custom_call(&f, x), &x, order).unwrap();
        assert!(worst.error() < 1e-7 && worst.order <= order, "{worst}");
    }
    let error = gradcheck_elements(|x: &Tensor| doubled_softplus(x), &x, 1).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the derivative of order 1 at element "),
        "{text}"
    );
    assert!(
        text.contains("of `argument` is ") && text.contains(", and differences give "),
        "{text}"
    );
    // The first derivative is right, and the second one is not, because the rule stops it.
    let wrong = Arc::new(DetachedSquare);
    let run = |x: &Tensor| custom_call(&wrong, x);
    gradcheck_elements(run, &x, 1).unwrap();
    let error = gradcheck_elements(run, &x, 2).unwrap_err().to_string();
    assert!(
        error.starts_with("the derivative of order 2 at element "),
        "{error}"
    );
}

/// x², whose rule has no derivative.
struct DetachedSquare;

impl CustomFunction for DetachedSquare {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        Ok((x.square(), ()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.x.stop_gradient() * 2.0)
    }
}

/// S4.42: functions of tensor operations work on lanes and in loops without a further rule.
#[test]
fn a_function_of_tensor_operations_works_under_vmap_and_in_loops() {
    let x = Tensor::from([[0.5f64, 2.0], [-1.0, 0.0]]);
    let flat = [0.5f64, 2.0, -1.0, 0.0];
    let values: Vec<f64> = flat.iter().map(|x| (x.exp() + 1.0).ln()).collect();
    let slopes: Vec<f64> = flat.iter().map(|x| 2.0 * sigmoid(*x)).collect();
    close(&vmap(doubled_softplus)(&x), &values);
    close(
        &vmap(grad(|x: &Tensor| doubled_softplus(x).sum(..)))(&x),
        &slopes,
    );
    close(
        &grad(|x: &Tensor| vmap(doubled_softplus)(x).sum(..))(&x),
        &slopes,
    );
    let rows = |x: &Tensor| {
        let (_, ys) = scan(|(): &(), x: &Tensor| ((), doubled_softplus(x)), &(), x);
        ys
    };
    close(&rows(&x), &values);
    close(&grad(|x: &Tensor| rows(x).sum(..))(&x), &slopes);
    let twice = |x: &Tensor| fori_loop(0..2, |_: &Tensor, x: &Tensor| doubled_softplus(x), x);
    let direct = |x: &Tensor| doubled_softplus(&doubled_softplus(x));
    let expected = grad(|x: &Tensor| direct(x).sum(..))(&x).to_vec::<f64>();
    close(&grad(|x: &Tensor| twice(x).sum(..))(&x), &expected);
    // A batch prefix is treated as lanes are.
    let prefixed = doubled_softplus(&x.incr_batch_dims()).decr_batch_dims();
    close(&prefixed, &values);
}

/// sin x with a rule for all lanes.
struct BatchedSin;

impl CustomFunction for BatchedSin {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        let values = x.try_to_vec::<f64>()?.into_iter().map(f64::sin).collect();
        Ok((Tensor::try_from_vec(values, x.shape())?, ()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.x.cos())
    }

    fn lane_result(&self, x: &Tensor) -> Option<Tensor> {
        Some(x.zeros_like())
    }

    fn batch(&self, x: &Tensor, lanes: &[bool], n: usize) -> Result<Tensor> {
        assert_eq!((lanes, x.shape()[0]), (&[true][..], n));
        try_custom_call(&Arc::new(BatchedSin), x)
    }
}

/// S4.42: a function that reads its argument has a rule for all lanes.
#[test]
fn a_batching_rule_computes_all_lanes_of_a_function_on_host_values() {
    let f = Arc::new(BatchedSin);
    let x = Tensor::from([[0.5f64, 2.0], [-1.0, 0.0]]);
    let flat = [0.5f64, 2.0, -1.0, 0.0];
    close(&try_in_vmap(&f, &x).unwrap(), &flat.map(f64::sin));
    let g = grad(|x: &Tensor| vmap(|x: &Tensor| custom_call(&f, x))(x).sum(..))(&x);
    close(&g, &flat.map(f64::cos));
    let inside = |x: &Tensor| -> Result<Tensor> {
        vmap(|x: &Tensor| -> Result<Tensor> {
            grad(|x: &Tensor| -> Result<Tensor> { Ok(try_custom_call(&f, x)?.sum(..)) })(x)
        })(x)
    };
    let error = inside(&x).unwrap_err().to_string();
    assert!(error.starts_with("`BatchedSin#"), "{error}");
    assert!(
        error.contains("`backward on lanes`, which a derivative inside of `vmap` needs"),
        "{error}"
    );
}

/// x², whose rules compute by host code.
struct HostSquare;

impl CustomFunction for HostSquare {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        Ok((x.square(), ()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        self.jvp(call, ct)
    }

    fn jvp(&self, call: &Call<'_, Self>, dx: &Tensor) -> Result<Tensor> {
        let (x, dx) = (call.x.try_to_vec::<f64>()?, dx.try_to_vec::<f64>()?);
        let dy = x.iter().zip(&dx).map(|(x, dx)| 2.0 * x * dx).collect();
        Tensor::try_from_vec(dy, call.x.shape())
    }
}

#[test]
fn jacobians_run_rules_that_read_elements_for_each_vector() {
    let f = Arc::new(HostSquare);
    let of = |x: &Tensor| custom_call(&f, x) * 0.5;
    let x = Tensor::from([0.5f64, 2.0]);
    for jacobian in [jacrev(of)(&x), jacfwd(of)(&x)] {
        assert_eq!(jacobian.shape(), [2, 2]);
        close(&jacobian, &[0.5, 0.0, 0.0, 2.0]);
    }
    let none = |x: &Tensor| of(x).slice([0], [0], [1]);
    assert_eq!(jacrev(none)(&x).shape(), [0, 2]);
    let empty = Tensor::zeros([0], DType::F64);
    assert_eq!(jacfwd(of)(&empty).shape(), [0, 0]);
}

/// No body computes all lanes at once, whether `vmap` is around it or not.
#[test]
fn a_function_with_a_rule_for_lanes_is_refused_in_bodies() {
    let f = Arc::new(BatchedSin);
    let x = Tensor::from([0.5f64, 2.0]);
    let turns = |x: &Tensor| -> Result<Tensor> {
        let turn =
            |(): &(), x: &Tensor| -> Result<((), Tensor)> { Ok(((), try_custom_call(&f, x)?)) };
        Ok(scan(turn, &(), x)?.1)
    };
    let again = checkpoint(|x: &Tensor| try_custom_call(&f, x));
    let branch = |x: &Tensor| {
        let sin = |x: &Tensor| try_custom_call(&f, x);
        cond(
            &x.sum(..).gt(Tensor::from(0.0f64)),
            sin,
            |x: &Tensor| Ok(x.clone()),
            x,
        )
    };
    type Body<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;
    let bodies: [Body<'_>; 2] = [&turns, &branch];
    for body in bodies {
        for found in [body(&x), vmap(body)(&Tensor::stack(&[&x, &x], 0))] {
            let Err(Error::Custom { function, fault }) = found else {
                panic!("{found:?}")
            };
            assert!(function.starts_with("BatchedSin#"), "{function}");
            assert_eq!(*fault, CustomFault::InBody);
        }
    }
    let lanes = Tensor::stack(&[&x, &x], 0);
    let error = vmap(|x: &Tensor| again(x))(&lanes).unwrap_err();
    assert!(matches!(error, Error::Custom { .. }), "{error}");
}

/// The sum, the product, and the number of elements. It counts calls of its rule.
#[derive(Default)]
struct Several {
    backward: AtomicUsize,
}

impl CustomFunction for Several {
    type Input = (Tensor, Tensor);
    type Output = (Tensor, Tensor, Tensor);
    type Saved = ();

    fn forward(&self, (x, y): &Self::Input, needs: &[bool]) -> Result<(Self::Output, ())> {
        assert_eq!(needs.len(), 2);
        Ok(((x + y, x * y, Tensor::from(x.numel() as i64)), ()))
    }

    fn backward(
        &self,
        call: &Call<'_, Self>,
        (sum, product, count): &Self::Output,
    ) -> Result<Self::Input> {
        self.backward.fetch_add(1, Ordering::Relaxed);
        assert_eq!(count.to_vec::<i64>(), [0]);
        let (x, y) = call.x;
        Ok((sum + product * y, sum + product * x))
    }
}

/// S4.7, S4.10, S4.35: k results give one call of the rule, with zeros for those that are not used.
#[test]
fn several_results_give_one_call_of_backward_with_all_cotangents() {
    let f = Arc::new(Several::default());
    let x = (Tensor::from([2.0f64, 3.0]), Tensor::from([5.0f64, 7.0]));
    let run = |pick: fn(&(Tensor, Tensor, Tensor)) -> Tensor| {
        let before = f.backward.load(Ordering::Relaxed);
        let g = grad(|x: &(Tensor, Tensor)| pick(&custom_call(&f, x)).sum(..))(&x);
        assert_eq!(f.backward.load(Ordering::Relaxed), before + 1);
        (g.0.to_vec::<f64>(), g.1.to_vec::<f64>())
    };
    assert_eq!(
        run(|y| &y.0 + &y.1 * 10.0),
        (vec![51.0, 71.0], vec![21.0, 31.0])
    );
    assert_eq!(run(|y| y.0.clone()), (vec![1.0, 1.0], vec![1.0, 1.0]));
    assert_eq!(run(|y| y.1.clone()), (vec![5.0, 7.0], vec![2.0, 3.0]));
    // The number of elements has no derivative, and the rule does not run.
    let before = f.backward.load(Ordering::Relaxed);
    let g = grad(|x: &(Tensor, Tensor)| custom_call(&f, x).2.cast(DType::F64))(&x);
    assert_eq!(g.0.to_vec::<f64>(), [0.0, 0.0]);
    assert_eq!(f.backward.load(Ordering::Relaxed), before);
}

/// S4.19, S4.38: a tensor that is used several times gets the sum of the contributions, one for each use.
#[test]
fn contributions_of_several_uses_add_up() {
    let f = Arc::new(HostSin::default());
    let x = Tensor::from([0.5f64, 2.0]);
    let square = grad(|x: &Tensor| {
        let y = custom_call(&f, x);
        (&y * &y).sum(..)
    })(&x);
    close(
        &square,
        &[
            2.0 * 0.5f64.sin() * 0.5f64.cos(),
            2.0 * 2f64.sin() * 2f64.cos(),
        ],
    );
    let before = f.backward.load(Ordering::Relaxed);
    let diamond = grad(|x: &Tensor| {
        let y = custom_call(&f, x);
        let (left, right) = (&y * 2.0, custom_call(&f, &y));
        (left + right + x).sum(..)
    })(&x);
    let slope = |x: f64| x.cos() * 2.0 + x.sin().cos() * x.cos() + 1.0;
    close(&diamond, &[slope(0.5), slope(2.0)]);
    assert_eq!(f.backward.load(Ordering::Relaxed), before + 2);
    let fan_out = grad(|x: &Tensor| {
        let y = custom_call(&f, x);
        let sum: Tensor = (0..100).map(|_| &y * 1.0).sum();
        sum.sum(..)
    })(&x);
    close(&fan_out, &[100.0 * 0.5f64.cos(), 100.0 * 2f64.cos()]);
}

/// S4.36, S4.40: several custom functions among built-in ones, against the same program of ops.
#[test]
fn custom_functions_compose_with_built_in_ones() {
    let f = Arc::new(HostSin::default());
    let (w, x) = (
        Tensor::from([[0.3f64, -0.2], [0.1, 0.7]]),
        Tensor::from([[1.0f64, 2.0], [-1.0, 0.5]]),
    );
    let model = |sin: &dyn Fn(&Tensor) -> Tensor, (w, x): &(Tensor, Tensor)| {
        let h = sin(&x.matmul(w)).softmax(-1);
        (sin(&h.matmul(w)).tanh() * sin(x)).mean(..)
    };
    let args = (w, x);
    let custom = grad(|x: &(Tensor, Tensor)| model(&|x| custom_call(&f, x), x))(&args);
    let built_in = grad(|x: &(Tensor, Tensor)| model(&|x| x.sin(), x))(&args);
    close(&custom.0, &built_in.0.to_vec::<f64>());
    close(&custom.1, &built_in.1.to_vec::<f64>());
}

/// S4.9: the result has a derivative only if an argument does, and then the rule is registered.
#[test]
fn a_call_without_a_derivative_keeps_no_context() {
    let f = Arc::new(HostSin::default());
    let y = custom_call(&f, &Tensor::from([1.0f64]));
    assert!(!y.requires_grad() && y.grad_fn().is_none());
    let w = Param::new(Tensor::from([1.0f64])).unwrap();
    let y = custom_call(&f, &w.tensor());
    assert!(y.requires_grad());
    assert!(y.grad_fn().unwrap().name().starts_with("HostSin#"));
}

/// S4.42: a promise is not computed unless the function reads it.
#[test]
fn forward_reads_no_value_that_the_user_does_not_read() {
    let x = Tensor::from([1.0f64, 2.0]) * 2.0;
    let y = doubled_softplus(&x);
    assert!(!x.is_realised() && !y.is_realised());
    let g = grad(|x: &Tensor| doubled_softplus(x).sum(..))(&x);
    assert!(!x.is_realised() && !g.is_realised());
    close(&g, &[2.0 * sigmoid(2.0), 2.0 * sigmoid(4.0)]);
}
