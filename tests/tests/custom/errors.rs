//! Each error of custom functions and of backward passes, with its text.

use gradloom::custom::{
    Call, GradientValidator, HostKernel, Kernel, KernelInput, KernelOutput, try_custom_call,
};
use gradloom::prelude::*;
use gradloom::{
    Backward, BackwardFault, CustomFault, CustomFunction, ForwardLevel, FunctionContext, Param,
    jvp, linearize, no_grad, scan,
};
use std::sync::Arc;

/// A function that breaks its contract in a chosen way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breach {
    None,
    NoOutputs,
    Count,
    Shape,
    DType,
    NotFinite,
    MissingTensor,
    MissingObject,
    MissingList,
    Fails,
}

struct Broken(Breach);

impl CustomFunction for Broken {
    type Input = Vec<Tensor>;
    type Output = Vec<Tensor>;
    type Saved = FunctionContext;
    const CHECK_FINITE: bool = true;

    fn forward(&self, x: &Vec<Tensor>, needs: &[bool]) -> Result<(Vec<Tensor>, FunctionContext)> {
        let y = match self.0 {
            Breach::NoOutputs => Vec::new(),
            _ => vec![&x[0] * 2.0],
        };
        Ok((y, FunctionContext::new(needs)))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Vec<Tensor>) -> Result<Vec<Tensor>> {
        let ct = &ct[0] * 2.0;
        Ok(match self.0 {
            Breach::Count => vec![ct.clone(), ct],
            Breach::Shape => vec![ct.sum(..)],
            Breach::DType => vec![ct.cast(DType::F32)],
            Breach::NotFinite => vec![ct / Tensor::from([1.0f64, 0.0])],
            Breach::MissingTensor => vec![call.saved.saved_tensor(1)?.clone()],
            Breach::MissingObject => vec![ct * *call.saved.object::<f64>()?],
            Breach::MissingList => call.saved.saved_tensors::<2>()?.to_vec(),
            Breach::Fails => return Err(Error::of_host("solver", "no convergence")),
            _ => vec![ct],
        })
    }
}

/// Returns the error of the gradient, with the number of the call replaced.
fn broken(breach: Breach) -> Error {
    let f = Arc::new(Broken(breach));
    let loss =
        |x: &Tensor| -> Result<Tensor> { Ok(try_custom_call(&f, &vec![x.clone()])?[0].sum(..)) };
    let mut error = grad(loss)(&Tensor::from([1.0f64, 2.0])).unwrap_err();
    if let Error::Custom { function, .. } = &mut error {
        *function = function.split('#').next().unwrap().to_owned();
    }
    error
}

#[track_caller]
fn check(breach: Breach, fault: fn(&CustomFault) -> bool, text: &str) {
    let error = broken(breach);
    assert_eq!(error.to_string(), text);
    let Error::Custom { fault: found, .. } = &error else {
        panic!("{error}")
    };
    assert!(fault(found), "{found:?}");
}

/// S4.24, S4.27, S4.28, S4.29, S4.32, S4.39: each breach is an error of its own, which names the function.
#[test]
fn each_breach_of_the_contract_is_an_error_of_its_own() {
    check(
        Breach::NoOutputs,
        |f| matches!(f, CustomFault::NoOutputs { .. }),
        "`Broken`: `forward` returned no tensor",
    );
    check(
        Breach::Count,
        |f| matches!(f, CustomFault::Count { .. }),
        "`Broken`: `backward` returned 2 tensors, expected 1",
    );
    check(
        Breach::Shape,
        |f| matches!(f, CustomFault::Shape { .. }),
        "`Broken`: `backward` returned [] as the shape for `input[0]`, expected [2]",
    );
    check(
        Breach::DType,
        |f| matches!(f, CustomFault::DType { .. }),
        "`Broken`: `backward` returned f32 for `input[0]`, expected f64",
    );
    check(
        Breach::NotFinite,
        |f| matches!(f, CustomFault::NotFinite { .. }),
        "`Broken`: `backward` returned inf at element 1 for `input[0]`",
    );
    check(
        Breach::MissingTensor,
        |f| matches!(f, CustomFault::ContextMissing { .. }),
        "`Broken`: the context has no saved tensor 1: `forward` did not save it",
    );
    check(
        Breach::MissingObject,
        |f| matches!(f, CustomFault::ContextMissing { .. }),
        "`Broken`: the context has no object of type `f64`: `forward` did not save it",
    );
    check(
        Breach::MissingList,
        |f| matches!(f, CustomFault::ContextMissing { .. }),
        "`Broken`: the context has no list of 2 saved tensors, but one of 0: `forward` did not save it",
    );
    check(
        Breach::Fails,
        |f| matches!(f, CustomFault::Failed { .. }),
        "`solver`: no convergence",
    );
}

/// The cube, whose rules read elements at a chosen place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    InForward,
    InBackward,
    Stopped,
    Nowhere,
}

struct Cube(Reads);

impl CustomFunction for Cube {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Vec<f64>;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Vec<f64>)> {
        let saved = match self.0 {
            Reads::InForward => x.to_vec(),
            Reads::Stopped => x.stop_gradient().to_vec(),
            _ => Vec::new(),
        };
        Ok((x * x * x, saved))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        let x = match self.0 {
            Reads::InForward => Tensor::from(call.saved.clone()),
            Reads::InBackward => Tensor::from(call.x.to_vec::<f64>()),
            Reads::Stopped => {
                assert_eq!(call.saved.len(), call.x.numel());
                call.x.clone()
            }
            Reads::Nowhere => call.x.clone(),
        };
        Ok(ct * x.square() * 3.0)
    }
}

/// A rule may read elements, but then a second derivative would lose what it computes from them.
#[test]
fn a_second_derivative_of_a_rule_that_reads_elements_is_an_error() {
    let x = Tensor::from([1.0f64, 2.0]);
    let cubes =
        |f: &Arc<Cube>, x: &Tensor| -> Result<Tensor> { Ok(try_custom_call(f, x)?.sum(..)) };
    for place in [
        Reads::InForward,
        Reads::InBackward,
        Reads::Stopped,
        Reads::Nowhere,
    ] {
        let f = Arc::new(Cube(place));
        let first = grad(|x: &Tensor| cubes(&f, x))(&x).unwrap();
        assert_eq!(first.to_vec::<f64>(), [3.0, 12.0], "{place:?}");
        let second = grad(|x: &Tensor| -> Result<Tensor> {
            Ok(grad(|x: &Tensor| cubes(&f, x))(x)?.sum(..))
        })(&x);
        let rule = match place {
            Reads::InForward => "forward",
            Reads::InBackward => "backward",
            Reads::Stopped | Reads::Nowhere => {
                assert_eq!(second.unwrap().to_vec::<f64>(), [6.0, 12.0], "{place:?}");
                continue;
            }
        };
        let text = second.unwrap_err().to_string();
        let text = text
            .split_once(": ")
            .expect("the error names the function")
            .1;
        let expected = format!(
            "`{rule}` reads elements, so a derivative of second order would lose what it computes from them: make it \
             of tensor operations, or read `x.stop_gradient()` if this part has no derivative"
        );
        assert_eq!(text, expected);

        let param = Param::new(x.clone()).unwrap();
        cubes(&f, &param.tensor()).unwrap().backward().unwrap();
        assert_eq!(
            param.grad().unwrap().to_vec::<f64>(),
            [3.0, 12.0],
            "{place:?}"
        );
    }
}

/// A function that multiplies by a tensor that is no argument, by tensor operations or on the host.
struct Captures {
    factor: Tensor,
    on_host: bool,
}

impl CustomFunction for Captures {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        let y = match self.on_host {
            false => x * &self.factor,
            true => {
                let factor = (&self.factor * 1.0).to_vec::<f64>()[0];
                x.stop_gradient() * factor
            }
        };
        Ok((y, ()))
    }

    fn backward(&self, _: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * &self.factor)
    }
}

/// S4.23: a captured value that is differentiated would lose its gradient.
#[test]
fn a_captured_value_that_a_transform_traces_is_an_error() {
    let x = Tensor::from([3.0f64]);
    for on_host in [false, true] {
        let call = |w: &Tensor, x: &Tensor| -> Result<Tensor> {
            let factor = w.clone();
            let f = Arc::new(Captures { factor, on_host });
            Ok(try_custom_call(&f, x)?.sum(..))
        };
        let expected = "`Captures`: `forward` captures f64[1], which a transform traces: pass it as an argument";
        let refused = |found: Result<Tensor>| {
            assert_eq!(found.unwrap_err().to_string(), expected, "{on_host}");
        };
        refused(grad(|w: &Tensor| call(w, &x))(&x));
        refused(grad(|w: &Tensor| call(&w.sin(), w))(&x));
        refused(call(&Param::new(x.clone()).unwrap().tensor(), &x));
        let constant = Tensor::from([2.0f64]);
        let slope = grad(|x: &Tensor| call(&constant, x))(&x).unwrap();
        assert_eq!(slope.item::<f64>(), 2.0);
        let stopped = grad(|w: &Tensor| call(&w.stop_gradient(), &x))(&x).unwrap();
        assert_eq!(stopped.item::<f64>(), 0.0);
    }
}

/// The text of an error, with the numbers of calls and lines replaced.
fn text(error: &Error) -> String {
    let (mut text, mut digits) = (String::new(), false);
    for c in error.to_string().replace(file!(), "FILE").chars() {
        if digits && (c.is_ascii_digit() || c == ':') {
            continue;
        }
        digits = c == '#' || c == ':' && text.ends_with("FILE");
        text.push(c);
    }
    text
}

/// S4.25: the error names the op and the place of the first pass.
#[test]
fn a_second_backward_pass_is_an_error_with_the_place_of_the_first() {
    let f = Arc::new(Broken(Breach::None));
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    let h = try_custom_call(&f, &vec![w.tensor()]).unwrap().remove(0);
    let y = h.sum(..);
    y.backward().unwrap();
    let error = y.backward().unwrap_err();
    assert_eq!(
        text(&error),
        "`backward` a second time through `sum`, which the call at FILE: has followed; use `retain_graph` there"
    );
    // A new result of an op that was followed.
    let error = (&h * 2.0).sum(..).backward().unwrap_err();
    assert_eq!(
        text(&error),
        "`backward` a second time through `Broken#`, which the call at FILE: has followed; use `retain_graph` there"
    );
    assert!(matches!(error, Error::Backward(f) if matches!(*f, BackwardFault::Second { .. })));
    assert_eq!(w.grad().unwrap().to_vec::<f64>(), [2.0, 2.0]);
}

/// Sum and difference of two numbers.
struct SumAndDifference;

impl CustomFunction for SumAndDifference {
    type Input = (Tensor, Tensor);
    type Output = (Tensor, Tensor);
    type Saved = ();

    fn forward(&self, (x, y): &(Tensor, Tensor), _: &[bool]) -> Result<((Tensor, Tensor), ())> {
        Ok(((x + y, x - y), ()))
    }

    fn backward(
        &self,
        _: &Call<'_, Self>,
        (sum, difference): &(Tensor, Tensor),
    ) -> Result<(Tensor, Tensor)> {
        Ok((sum + difference, sum - difference))
    }
}

/// S4.25: the error names the op also if it has several results, of which the first pass has used one.
#[test]
fn a_second_pass_through_one_of_several_results_names_their_op() {
    for computed_before in [false, true] {
        let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
        let [a, b] = (w.tensor() * 2.0).split::<2>(0);
        let f = Arc::new(SumAndDifference);
        let (c, d) = try_custom_call(&f, &(a.clone(), b.clone())).unwrap();
        let y = (&c * &d).sum(..);
        if computed_before {
            gradloom::evaluate((&a, &b, &c, &d, &y)).unwrap();
        }
        y.backward().unwrap();
        let line = line!() - 1;
        let first = format!("errors.rs:{line}:");
        gradloom::evaluate((&a, &b, &c, &d)).unwrap();
        for (y, name) in [(&a, "`split`"), (&b, "`split`"), (&d, "`SumAndDifference#")] {
            let error = (y * 3.0).sum(..).backward().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(&first), "{error}");
        }
    }
}

/// A tensor that is not a float, or that `stop_gradient` returns, leads to no parameter, and neither does what is
/// computed of it.
#[test]
fn a_path_to_a_parameter_ends_where_no_derivative_passes() {
    let w = Param::new(Tensor::from([[1.5f64, -2.5]])).unwrap();
    let x = w.tensor() * 2.0;
    let all = [
        (x.cast(DType::F32).cast(DType::F64), true),
        (x.cast(DType::I64).cast(DType::F64), false),
        (x.gt(0.0).cast(DType::F64) + 1.0, false),
        (x.stop_gradient() * 2.0, false),
        (x.argmax(-1).cast(DType::F64), false),
        (x.top_k(1, -1), true),
        (x.stop_gradient() * &x, true),
        (x.floor(), true),
    ];
    for (i, (y, leads)) in all.iter().enumerate() {
        assert_eq!(y.requires_grad(), *leads, "{i}");
        let pass = Backward::of(&y.sum(..)).retain_graph().run();
        assert_eq!(pass.is_ok(), *leads, "{i}");
        let w = Param::new(w.tensor().stop_gradient()).unwrap();
        let x = w.tensor();
        let rounded = x.cast(DType::I64).cast(DType::F64);
        (&x * &rounded).sum(..).backward().unwrap();
        assert_eq!(w.grad().unwrap().to_vec::<f64>(), [1.0, -2.0]);
    }
}

/// S4.24, S4.25: a context that was released by hand.
#[test]
fn a_released_context_is_an_error_with_the_place_of_the_release() {
    let f = Arc::new(Broken(Breach::None));
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    let y = try_custom_call(&f, &vec![w.tensor()])
        .unwrap()
        .remove(0)
        .sum(..);
    y.grad_fn().unwrap().release();
    let error = y.backward().unwrap_err();
    assert_eq!(
        text(&error),
        "`Broken#`: its context was released at FILE:; call `retain_graph` for a backward pass that keeps it"
    );
    assert!(w.grad().is_none());
}

/// S4.14, S4.23: a result that does not depend on a parameter, and one that is not a number.
#[test]
fn a_disconnected_result_and_one_without_a_seed_are_errors() {
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    let text = "`backward` of f64[], which does not depend on a `Param`: compute it from `Param::tensor`, outside of `no_grad`";
    for y in [
        Tensor::from(1.0f64),
        no_grad(|| w.tensor().sum(..)),
        w.tensor().argmax(0).cast(DType::F64),
    ] {
        assert_eq!(y.backward().unwrap_err().to_string(), text);
    }
    assert_eq!(
        w.tensor().backward().unwrap_err().to_string(),
        "a gradient needs a result that is a single float, and this is f64[2]; sum it, or use `vjp`"
    );
    assert_eq!(
        w.tensor()
            .backward_with(&Tensor::from([1.0f64]))
            .unwrap_err()
            .to_string(),
        "the cotangent of `result` is f64[1], expected f64[2]"
    );
}

/// S4.13, S4.15: values and gradients of parameters are checked.
#[test]
fn a_parameter_takes_floats_of_its_shape_only() {
    assert_eq!(
        Param::new(Tensor::from([true])).unwrap_err().to_string(),
        "a `Param` holds a float, and this is bool[1]; cast it, or keep it as a `Tensor`"
    );
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    assert_eq!(
        w.set(Tensor::from([1.0f32, 2.0])).unwrap_err().to_string(),
        "the parameter is f64[2], and this is f32[2]"
    );
    let error = w
        .accumulate_grad(&Tensor::from(1.0f64))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the gradient of `param#")
            && error.ends_with("is f64[], expected f64[2]"),
        "{error}"
    );
    let error = w
        .accumulate_grad(&Tensor::from([1i64, 2]))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("is i64[2], expected f64[2]"), "{error}");
}

/// S4.29: the validator can be used without a function.
#[test]
fn the_validator_checks_count_shape_dtype_and_numbers() {
    let x = Tensor::from([1.0f64, 2.0]);
    let check = GradientValidator::new("f");
    let texts = [
        check.check(&[&x], &[]),
        check.check(&[&x], &[&x.sum(..)]),
        check.check(&[&x], &[&x.cast(DType::I64)]),
        check.clone().finite().check(&[&x], &[&(&x / 0.0)]),
    ]
    .map(|checked| checked.unwrap_err().to_string());
    assert_eq!(
        texts,
        [
            "`f`: `backward` returned 0 tensors, expected 1",
            "`f`: `backward` returned [] as the shape for `input[0]`, expected [2]",
            "`f`: `backward` returned i64 for `input[0]`, expected f64",
            "`f`: `backward` returned inf at element 0 for `input[0]`",
        ]
    );
    // The gradient of an input that is not a float is not read.
    check.check(&[&Tensor::from([1i64])], &[&x]).unwrap();
}

/// A kernel that may fail.
struct Half;

impl Kernel for Half {
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        match x {
            [x] if x.dtype() == DType::F64 => Ok(vec![x.clone()]),
            _ => Err(Error::of_host("half", "it takes one f64")),
        }
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        for (y, x) in y[0]
            .as_mut_slice::<f64>()
            .iter_mut()
            .zip(x[0].as_slice::<f64>())
        {
            if *x < 0.0 {
                return Err(format!("{x} is negative"));
            }
            *y = x / 2.0;
        }
        Ok(())
    }
}

/// S4.42: errors of kernels, and their missing derivatives, name the kernel.
#[test]
fn errors_of_kernels_name_the_kernel() {
    let half = HostKernel::new(Half);
    let x = Tensor::from([1.0f64, 4.0]);
    assert_eq!(
        half.try_call(&[&Tensor::from(1.0f32)])
            .unwrap_err()
            .to_string(),
        "`half`: it takes one f64"
    );
    let y = half.call(&[&(&x - 2.0)]).remove(0);
    assert_eq!(
        y.try_to_vec::<f64>().unwrap_err().to_string(),
        "`Half`: -1 is negative"
    );
    // The evaluation can be retried, and others work.
    assert!(y.try_to_vec::<f64>().is_err());
    assert_eq!(half.call(&[&x])[0].to_vec::<f64>(), [0.5, 2.0]);
    let run = |x: &Tensor| -> Result<Tensor> { Ok(half.try_call(&[x])?.remove(0).sum(..)) };
    let text = "`Half`: the kernel has no derivative: implement `vjp`, or call it in `forward` of a `CustomFunction`";
    assert_eq!(grad(run)(&x).unwrap_err().to_string(), text);
    assert_eq!(jvp(run, &x, &x).unwrap_err().to_string(), text);
    let in_loop = |x: &Tensor| -> Result<Tensor> {
        let body = |(): &(), x: &Tensor| -> Result<((), Tensor)> {
            Ok(((), half.try_call(&[x])?.remove(0)))
        };
        Ok(scan(body, &(), x)?.1.sum(..))
    };
    assert_eq!(in_loop(&x).unwrap().item::<f64>(), 2.5);
    assert_eq!(grad(in_loop)(&x).unwrap_err().to_string(), text);
    let w = Param::new(x).unwrap();
    assert_eq!(
        run(&w.tensor())
            .unwrap()
            .backward()
            .unwrap_err()
            .to_string(),
        text
    );
}

/// A kernel with a derivative for reverse mode.
struct Doubled;

impl Kernel for Doubled {
    const DIFFERENTIABLE: bool = true;

    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(x.to_vec())
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        let x = x[0].as_slice::<f64>().iter();
        let y = y[0].as_mut_slice::<f64>().iter_mut();
        y.zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }

    fn vjp(&self, _: &[Tensor], _: &[Tensor], ct: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&ct[0] * 2.0])
    }
}

/// S4.42: forward mode of a kernel that has a rule for reverse mode names the kernel.
#[test]
fn forward_mode_of_a_kernel_names_the_kernel() {
    let doubled = HostKernel::new(Doubled);
    let x = Tensor::from([1.0f64, 4.0]);
    let run = |x: &Tensor| -> Result<Tensor> { Ok(doubled.try_call(&[x])?.remove(0).sum(..)) };
    assert_eq!(grad(run)(&x).unwrap().to_vec::<f64>(), [2.0, 2.0]);
    let text = "`Doubled`: the kernel has a rule for reverse mode only: use `grad` or `vjp`, or call it in `forward` of a `CustomFunction` with a `jvp`";
    let level = ForwardLevel::new();
    let dual = level.dual(&x, &x);
    let in_loop = |x: &Tensor| -> Result<Tensor> {
        let body = |(): &(), x: &Tensor| -> Result<((), Tensor)> {
            Ok(((), doubled.try_call(&[x])?.remove(0)))
        };
        Ok(scan(body, &(), x)?.1.sum(..))
    };
    for error in [
        jvp(run, &x, &x).unwrap_err(),
        jvp(in_loop, &x, &x).unwrap_err(),
        linearize(run, &x).map(|_| ()).unwrap_err(),
        level.try_tangent(&run(&dual).unwrap()).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

/// S4.22: a graph has no cycle by construction, and the verifier refuses a program that was parsed with one.
#[test]
fn a_parsed_program_with_a_cycle_is_refused() {
    let text = "(x: f64[2]) { y = custom[code=`f#1`, outs=1] z, x z = sin y return z }";
    let error = match text.parse::<gradloom_ir::Program>() {
        Err(error) => error.to_string(),
        Ok(program) => gradloom_ir::verify(&program).join("\n"),
    };
    assert!(error.contains('z'), "{error}");
}

/// S4.26: values do not change, so a saved tensor cannot.
#[test]
fn a_saved_tensor_keeps_its_value_when_its_variable_changes() {
    let f = Arc::new(Saves);
    let w = Param::new(Tensor::from([2.0f64])).unwrap();
    let mut x = w.tensor() * 1.0;
    let y = try_custom_call(&f, &x).unwrap();
    x += 100.0;
    w.set(Tensor::from([50.0f64])).unwrap();
    Backward::of(&y.sum(..)).run().unwrap();
    assert_eq!(w.grad().unwrap().item::<f64>(), 4.0);
    assert_eq!(x.item::<f64>(), 102.0);
}

/// x², which saves x.
struct Saves;

impl CustomFunction for Saves {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Tensor;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Tensor)> {
        Ok((x.square(), x.clone()))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.saved * 2.0)
    }
}

/// A layer that multiplies with what a closure returns.
struct Times<F>(F);

impl<F: Fn() -> Tensor + Send + Sync + 'static> CustomFunction for Times<F> {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        Ok((x * self.0(), ()))
    }

    fn backward(&self, _: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * self.0())
    }
}

/// Returns `x` times what the closure returns, by a custom function.
fn times(x: &Tensor, factor: impl Fn() -> Tensor + Send + Sync + 'static) -> Result<Tensor> {
    try_custom_call(&Arc::new(Times(factor)), x)
}

/// Returns the value of a parameter, asked for when the closure runs.
fn value_of(p: &Param) -> impl Fn() -> Tensor + Send + Sync + 'static {
    let p = p.clone();
    move || p.tensor()
}

/// A captured value that is differentiated is refused, also if the argument depends on the same transform or on
/// another parameter.
#[test]
fn a_captured_value_would_lose_its_gradient() {
    fn is_captured<T>(result: Result<T>) {
        match result.err() {
            Some(Error::Custom { fault, .. }) => {
                assert!(matches!(*fault, CustomFault::Captured { .. }), "{fault}");
            }
            other => panic!("{other:?}"),
        }
    }
    let three = Tensor::from(3.0f64);
    let of_x = |x: &Tensor| {
        let factor = x * 2.0;
        times(x, move || factor.clone())
    };
    is_captured(grad(of_x)(&three));
    let of_pair = |(x, w): &(Tensor, Tensor)| {
        let w = w.clone();
        times(x, move || w.clone())
    };
    is_captured(grad(of_pair)(&(three.clone(), Tensor::from(4.0f64))));
    let (p, q) = (
        Param::new(three.clone()).unwrap(),
        Param::new(Tensor::from(5.0f64)).unwrap(),
    );
    let h = p.tensor() * 2.0;
    is_captured(times(&h, value_of(&q)));
    is_captured(times(&h, value_of(&p)));
    // Constants may be captured, and so may parameters whose path is not asked for.
    let y = times(&h, || Tensor::from(7.0f64)).unwrap();
    y.backward().unwrap();
    assert_eq!(p.grad().unwrap().item::<f64>(), 14.0);
    assert!(no_grad(|| times(&h, value_of(&q))).is_ok());
}

/// A gradient of a lane of many is no gradient of a parameter.
#[test]
fn gradients_without_elements_are_refused() {
    let p = Param::new(Tensor::from(3.0f64)).unwrap();
    let x = Tensor::from([5.0f64, 6.0]);
    let _ = vmap(|x: &Tensor| {
        let y = x * p.tensor();
        assert_eq!(y.backward().unwrap_err(), Error::Lane);
        assert_eq!(p.accumulate_grad(&y).unwrap_err(), Error::Lane);
        y
    })(&x);
    assert!(p.grad().is_none());
}

/// A kernel that asks for the gradient of the parameter to which its result is added.
struct Peek(Param);

impl Kernel for Peek {
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(x.to_vec())
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        let _ = self.0.grad();
        y[0].as_mut_slice::<f64>()[0] = x[0].as_slice::<f64>()[0];
        Ok(())
    }
}

/// Adding to a slot may compute, and code that runs then may use the parameter.
#[test]
fn a_slot_is_not_locked_while_its_sum_is_computed() {
    let p = Param::new(Tensor::from(3.0f64)).unwrap();
    let kernel = HostKernel::new(Peek(p.clone()));
    for _ in 0..300 {
        let x = kernel.call(&[&Tensor::from(1.0f64)]).remove(0);
        p.accumulate_grad(&x).unwrap();
    }
    assert_eq!(p.grad().unwrap().item::<f64>(), 300.0);
}
