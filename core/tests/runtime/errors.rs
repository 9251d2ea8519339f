//! Texts of all errors: each says what is wrong, then what to do.

use gradloom::{DType, Error, Key, Result, Tensor, evaluate, grad, jacfwd, jacrev, jvp, vjp};
use std::collections::BTreeMap;

fn text<T>(result: Result<T>) -> String {
    result.err().expect("the call fails").to_string()
}

/// Returns the message of the panic of `body`.
fn panic_of<T>(body: impl FnOnce() -> T + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(body).err().expect("`body` panics");
    payload
        .downcast_ref::<String>()
        .expect("the panic has a message")
        .clone()
}

/// [`panic_of`] for a function returned by a transform. Removes the place where it was made.
fn panic_of_made<T>(body: impl FnOnce() -> T + std::panic::UnwindSafe) -> String {
    let said = panic_of(body);
    let (said, _) = said
        .split_once("; in the function that")
        .expect("the message says where the function was made");
    said.to_owned()
}

#[test]
fn invalid_shapes_are_refused() {
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32; 5], [2, 3])), @"5 values do not fill the shape [2, 3], which has 6 elements");
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32; 5], [1 << 62, 4])), @"the shape [4611686018427387904, 4] has more elements than can be addressed");
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32], vec![1; 40])), @"the shape [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] has 40 axes, and the limit is 32");
    insta::assert_snapshot!(panic_of(|| Tensor::zeros([1 << 62, 4], DType::F32)), @"the shape [4611686018427387904, 4] has more elements than can be addressed");
}

#[test]
fn ops_refuse_operands_that_do_not_fit() {
    let (a, b) = (
        Tensor::zeros([3, 4], DType::F32),
        Tensor::zeros([4, 3], DType::F32),
    );
    insta::assert_snapshot!(panic_of(|| &a + &b), @"add: axis 0 is 3 on the left and 4 on the right: the left operand is f32[3, 4], the right operand is f32[4, 3]");
    insta::assert_snapshot!(panic_of(|| a.matmul(&a)), @"matmul: inner dimensions differ: the left operand is f32[3, 4], the right operand is f32[3, 4]");
    insta::assert_snapshot!(panic_of(|| a.sum(2)), @"sum: axis 2 is out of range for rank 2: the operand is f32[3, 4]");
    insta::assert_snapshot!(panic_of(|| &a + Tensor::zeros([4], DType::F64)), @"add: the dtypes are f32 and f64: the left operand is f32[3, 4], the right operand is f64[4]; cast the f32 operand, as in `.cast(DType::F64)`");
    insta::assert_snapshot!(panic_of(|| Tensor::from([true]) * 1.5), @"1.5 is not a value of bool; cast the tensor to a float first");
}

#[test]
fn a_number_that_does_not_fit_a_dtype_suggests_another_dtype() {
    let n = Tensor::from([1i32]);
    insta::assert_snapshot!(panic_of(|| Tensor::full([2], 1.5, DType::I64)), @"full: 1.5 is not a value of i64; give a float dtype");
    insta::assert_snapshot!(panic_of(|| Tensor::full([2], 1i64 << 40, DType::I32)), @"full: 1099511627776 is not a value of i32; give `DType::I64`");
    insta::assert_snapshot!(panic_of(|| &n + (1i64 << 40)), @"1099511627776 is not a value of i32; cast the tensor to i64 first");
    insta::assert_snapshot!(panic_of(|| n.full_like(0.5)), @"full_like: 0.5 is not a value of i32; cast the tensor to a float first");
}

#[test]
fn mixed_dtypes_suggest_a_cast_that_keeps_digits_and_gradients() {
    let (x, n) = (Tensor::from([1.0f32]), Tensor::from([1i64]));
    insta::assert_snapshot!(panic_of(|| &x + &n), @"add: the dtypes are f32 and i64: the left operand is f32[1], the right operand is i64[1]; cast the i64 operand, as in `.cast(DType::F32)`");
    insta::assert_snapshot!(panic_of(|| &n - &x), @"sub: the dtypes are i64 and f32: the left operand is i64[1], the right operand is f32[1]; cast the i64 operand, as in `.cast(DType::F32)`");
    insta::assert_snapshot!(panic_of(|| x.lt(n.cast(DType::I32))), @"lt: the dtypes are f32 and i32: the left operand is f32[1], the right operand is i32[1]; cast the i32 operand, as in `.cast(DType::F32)`");
    insta::assert_snapshot!(panic_of(|| n.cast(DType::I32) * &x), @"mul: the dtypes are i32 and f32: the left operand is i32[1], the right operand is f32[1]; cast the i32 operand, as in `.cast(DType::F32)`");
    insta::assert_snapshot!(panic_of(|| n.matmul(&x)), @"matmul: the dtypes are i64 and f32: the left operand is i64[1], the right operand is f32[1]; cast the i64 operand, as in `.cast(DType::F32)`");
}

#[test]
fn static_arguments_are_shown_as_users_write_them() {
    let x = Tensor::zeros([2, 3], DType::F32);
    insta::assert_snapshot!(panic_of(|| x.permute(..)), @"permute: `axes` cannot be `..`: the operand is f32[2, 3]");
    insta::assert_snapshot!(panic_of(|| x.sum(u64::MAX)), @"sum: `axes` cannot be 18446744073709551615: the operand is f32[2, 3]");
}

#[test]
fn random_draws_refuse_wrong_probabilities_and_dtypes() {
    let key = || Key::new(1);
    insta::assert_snapshot!(panic_of(|| key().bernoulli(2.0, [2])), @"bernoulli: `p` is 2.0, expected a value from 0 to 1");
    insta::assert_snapshot!(panic_of(|| key().bernoulli(f64::NAN, [2])), @"bernoulli: `p` is NaN, expected a value from 0 to 1");
    insta::assert_snapshot!(panic_of(|| key().uniform([2], DType::I32)), @"uniform: the dtype is i32, expected `f32` or `f64`");
    insta::assert_snapshot!(panic_of(|| key().normal([2], DType::Bool)), @"normal: the dtype is bool, expected `f32` or `f64`");
}

#[test]
fn an_invalid_number_of_threads_is_refused() {
    insta::assert_snapshot!(panic_of(|| gradloom::set_threads(0)), @"`set_threads(0)`: kernels use from 1 to 256 threads");
    insta::assert_snapshot!(panic_of(|| gradloom::set_threads(100_000)), @"`set_threads(100000)`: kernels use from 1 to 256 threads");
}

#[test]
fn optimisers_refuse_parameters_that_are_not_floats() {
    use gradloom::optim::{Adam, Optimiser, Sgd};
    let n = Tensor::from([1i64, 2]);
    let (sgd, adam) = (Sgd::default(), Adam::default());
    insta::assert_snapshot!(panic_of(|| sgd.step(&n, &n, &sgd.init(&n))), @"`parameters` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
    insta::assert_snapshot!(panic_of(|| adam.step(&n, &n, &adam.init(&n))), @"`parameters` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
}

#[test]
fn an_integer_divided_by_zero_is_an_error() {
    let (x, zero) = (
        Tensor::from([7i32, -7, i32::MIN]),
        Tensor::from([1i32, 0, -1]),
    );
    insta::assert_snapshot!(text(evaluate(&(&x / &zero))), @"`div`: integer division by 0 at element 1");
    insta::assert_snapshot!(text(evaluate(&((&x / 0).sum(..)))), @"`div`: integer division by 0 at element 0");
    insta::assert_snapshot!(text(evaluate(&(zero.pow(-1)))), @"`pow`: integer division by 0 at element 1");
    // All results stay pending, and the sum, which does not divide, can still be computed.
    let (quotient, sum) = (&x / &zero, &x + &zero);
    assert!(evaluate(&(quotient.clone(), sum.clone())).is_err());
    assert!(!quotient.is_realised() && !sum.is_realised());
    assert_eq!(sum.to_vec::<i32>(), [8, -7, i32::MAX]);
    // An empty tensor has no element to divide.
    assert_eq!(
        (Tensor::zeros([0], DType::I32) / 0).to_vec::<i32>(),
        [0i32; 0]
    );
}

#[test]
fn integers_wrap_and_divide_equally_in_groups_and_alone() {
    let x = Tensor::from([i32::MIN, i32::MAX, -7, 7]);
    let by = Tensor::from([-1i32, 2, 2, -2]);
    let quotient = [i32::MIN, i32::MAX / 2, -3, -3];
    assert_eq!((&x / &by).to_vec::<i32>(), quotient);
    assert_eq!(
        (-(&x / &by) + 1).to_vec::<i32>(),
        quotient.map(|q| q.wrapping_neg().wrapping_add(1))
    );
    assert_eq!(
        (&x / -1 + 1).to_vec::<i32>(),
        x.to_vec::<i32>()
            .iter()
            .map(|x| x.wrapping_neg().wrapping_add(1))
            .collect::<Vec<_>>()
    );
    assert_eq!((100 / &by).to_vec::<i32>(), [-100, 50, 50, -50]);
    assert_eq!(x.abs().to_vec::<i32>(), [i32::MIN, i32::MAX, 7, 7]);
    assert_eq!((-&x).to_vec::<i32>(), [i32::MIN, -i32::MAX, 7, -7]);
    assert_eq!(x.sum(..).item::<i32>(), -1);
    assert_eq!(by.pow(3).to_vec::<i32>(), [-1, 8, 8, -8]);
    let wide = Tensor::from([(1i64 << 32) + 5, i64::MIN]);
    assert_eq!(wide.cast(DType::I32).to_vec::<i32>(), [5, 0]);
    let floats = Tensor::from([1e20f64, -1e20, f64::NAN, -1.9]);
    assert_eq!(
        floats.cast(DType::I32).to_vec::<i32>(),
        [i32::MAX, i32::MIN, 0, -1]
    );
}

#[test]
fn the_panic_of_a_function_made_by_a_transform_says_where_it_was_made() {
    let x = Tensor::from([1.0f32, 2.0]);
    let said = panic_of(|| grad(|x: &Tensor| x * 2.0)(&x));
    let (said, at) = said
        .split_once(" made at ")
        .expect("the message says where the function was made");
    assert_eq!(
        said,
        "a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`; in the function that `grad`"
    );
    assert!(at.contains("errors.rs"), "{at}");
}

#[test]
fn messages_name_the_method_that_the_user_called() {
    let x = &Tensor::zeros([2, 3], DType::F32);
    let n = &Tensor::zeros([2, 3], DType::I64);
    let c = &Tensor::zeros([2, 3], DType::Bool);
    let three = &Tensor::zeros([3, 3, 3], DType::F32);
    macro_rules! names {
        ($($name:ident: $call:expr;)*) => {$(
            let said = panic_of(|| $call);
            let name = concat!(stringify!($name), ": ");
            assert!(said.starts_with(name), "{name}{said}");
        )*};
    }
    names! {
        permute: x.permute([0, 0]);
        swap_axes: x.swap_axes(0, 2);
        moveaxis: x.moveaxis(2, 0);
        reshape: x.reshape([4]);
        broadcast_to: x.broadcast_to([2]);
        broadcast_like: x.broadcast_like(Tensor::zeros([2], DType::F32));
        squeeze: x.squeeze(0);
        unsqueeze: x.unsqueeze(4);
        slice: x.slice([0], [3], [1]);
        split: x.split::<2>(1);
        split_sizes: x.split_sizes([1, 1], 1);
        unbind: x.unbind::<2>(1);
        concat: Tensor::concat(&[x, three], 0);
        stack: Tensor::stack(&[x, three], 0);
        full: Tensor::full([2], 1.5, DType::I32);
        arange: Tensor::arange(-1, DType::I32);
        full_like: n.full_like(1.5);
        sum: x.sum(2);
        sum_keepdims: x.sum_keepdims(2);
        mean: x.mean(2);
        mean_keepdims: x.mean_keepdims(2);
        max: x.max(2);
        max_keepdims: x.max_keepdims(2);
        min: x.min(2);
        min_keepdims: x.min_keepdims(2);
        argmax: x.argmax(2);
        argmax_keepdims: x.argmax_keepdims(2);
        argmin: x.argmin(2);
        argmin_keepdims: x.argmin_keepdims(2);
        logsumexp: n.logsumexp(0);
        logsumexp_keepdims: n.logsumexp_keepdims(0);
        softmax: x.softmax(2);
        log_softmax: x.log_softmax(2);
        normalize: x.normalize(2, 0.0);
        layer_norm: x.layer_norm(x, x, 0.0);
        rms_norm: x.rms_norm(x, 0.0);
        matmul: x.matmul(x);
        attention: x.attention(three, x);
        causal_attention: x.causal_attention(three, x);
        masked_attention: x.masked_attention(x, x, x);
        masked_causal_attention: x.masked_causal_attention(x, x, x);
        cross_entropy: x.cross_entropy(x);
        one_hot: x.one_hot(3, DType::F32);
        select: x.select(x, x);
        tanh: n.tanh();
        neg: -c;
        add: x + n;
        maximum: x.maximum(n);
        lt: x.lt(n);
        uniform: Key::new(0).uniform([2], DType::I64);
        normal: Key::new(0).normal([2], DType::I64);
        bernoulli: Key::new(0).bernoulli(-0.5, [2]);
    }
}

#[test]
fn a_number_that_exceeds_i64_is_refused() {
    insta::assert_snapshot!(panic_of(|| Tensor::full([1], u64::MAX, DType::I64)), @"full: 1.8446744073709552e19 is not a value of i64; give a float dtype");
    assert_eq!(
        Tensor::full([1], u64::MAX, DType::F64).to_vec::<f64>(),
        [u64::MAX as f64]
    );
}

/// Row S2.40 of the requirements.
#[test]
fn reads_refuse_a_wrong_dtype_shape_or_axis() {
    let x = Tensor::zeros([2, 3], DType::F32);
    insta::assert_snapshot!(text(x.try_to_vec::<f64>()), @"cannot read f32[2, 3] as f64; cast it first, as in `x.cast(DType::F64)`");
    insta::assert_snapshot!(text(x.try_item::<f32>()), @"`item` needs a tensor of one element, and this is f32[2, 3]");
    insta::assert_snapshot!(text(x.sum(..).try_item::<i64>()), @"cannot read f32[] as i64; cast it first, as in `x.cast(DType::I64)`");
    insta::assert_snapshot!(panic_of(|| x.dim(-3)), @"axis -3 is out of range for f32[2, 3], whose rank is 2");
}

#[test]
fn labels_and_memory_are_checked_during_evaluation() {
    let x = Tensor::zeros([2, 3], DType::F32);
    insta::assert_snapshot!(text(evaluate(&x.cross_entropy(Tensor::from([0i64, 7])))), @"`cross_entropy`: label 7 at row 1 is out of range for 3 classes");
    insta::assert_snapshot!(text(evaluate(&Tensor::zeros([1 << 30, 1 << 20], DType::F32))), @"`full`: cannot allocate 4503599627370496 bytes");
    insta::assert_snapshot!(panic_of(|| Key::new(0).normal([1 << 30, 1 << 20], DType::F32)), @"`normal`: cannot allocate 4503599627370496 bytes");
    insta::assert_snapshot!(panic_of(|| Key::new(0).permutation(1 << 50)), @"`permutation`: cannot allocate 9007199254740992 bytes");
}

#[test]
fn transforms_refuse_arguments_and_results_without_derivatives() {
    let ints = Tensor::from([1i64, 2]);
    let float = Tensor::from([1.0f32, 2.0]);
    insta::assert_snapshot!(panic_of_made(|| grad(|x: &Tensor| x.cast(DType::F32).sum(..))(&ints)), @"`argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
    let tree = (float.clone(), vec![float.clone(), ints.clone()]);
    insta::assert_snapshot!(panic_of(|| vjp(|x: &(Tensor, Vec<Tensor>)| x.0.clone(), &tree)), @"`argument.1[1]` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
    let map = BTreeMap::from([("labels".to_owned(), ints.clone())]);
    insta::assert_snapshot!(panic_of(|| vjp(|_: &BTreeMap<String, Tensor>| Tensor::from(1.0f32), &map)), @r#"`argument["labels"]` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`"#);
    insta::assert_snapshot!(panic_of_made(|| grad(|x: &Tensor| x * x)(&float)), @"a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`");
    insta::assert_snapshot!(panic_of_made(|| grad(|x: &Tensor| x.sum(..).cast(DType::I32))(&float)), @"a gradient needs a result that is a single float, and this is i32[]; sum it, or use `vjp`");
    insta::assert_snapshot!(panic_of_made(|| jacfwd(|x: &Tensor| x.argmax(0))(&float)), @"`result` is i64[], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
    insta::assert_snapshot!(panic_of_made(|| jacrev(|x: &Tensor| x.argmax(0))(&float)), @"`result` is i64[], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`");
}

#[test]
fn a_jacobian_of_too_high_rank_is_an_err_if_the_function_returns_result() {
    let x = Tensor::zeros([1; 20], DType::F32);
    let square = |x: &Tensor| -> Result<Tensor> { Ok(x * x) };
    for jacobian in [jacfwd(square)(&x), jacrev(square)(&x)] {
        let message = jacobian.unwrap_err().to_string();
        assert!(
            message.contains("the rank is 40, and the limit is 32"),
            "{message}"
        );
    }
}

#[test]
fn tangents_and_cotangents_of_a_wrong_shape_or_structure_are_refused() {
    let x = Tensor::from([1.0f32, 2.0]);
    let wide = Tensor::from([1.0f32, 2.0, 3.0]);
    insta::assert_snapshot!(panic_of(|| jvp(|x: &Tensor| x * x, &x, &wide)), @"the tangent of `argument` is f32[3], expected f32[2]");
    let (_, pullback) = vjp(|x: &Tensor| vec![x.sum(..), -x], &x);
    insta::assert_snapshot!(text(pullback.try_call(&vec![Tensor::from(1.0f64), x.clone()])), @"the cotangent of `result[0]` is f64[], expected f32[]");
    insta::assert_snapshot!(text(pullback.try_call(&vec![Tensor::from(1.0f32)])), @"the cotangent has 1 leaf, expected 2");
}

#[test]
fn a_panic_is_located_at_the_line_of_the_user() {
    use std::sync::{Arc, Mutex};
    // Only the panic hook sees locations. Other tests may panic meanwhile, but in other files or
    // lines.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = std::panic::take_hook();
    let lines = seen.clone();
    std::panic::set_hook(Box::new(move |info| {
        let at = info.location().unwrap();
        lines
            .lock()
            .unwrap()
            .push((at.file().to_owned(), at.line()));
    }));
    let x = Tensor::zeros([3], DType::F32);
    let here = line!() + 1;
    let _ = std::panic::catch_unwind(|| (&x + Tensor::zeros([4], DType::F32)).tanh());
    let _ = std::panic::catch_unwind(|| x.sum(1));
    let _ = std::panic::catch_unwind(|| x.matmul(Tensor::zeros([4], DType::F32)));
    let _ = std::panic::catch_unwind(|| x.to_vec::<f64>());
    let _ = std::panic::catch_unwind(|| jvp(|x: &Tensor| x.clone(), &x, &x.sum(0)));
    std::panic::set_hook(hook);
    let seen = seen.lock().unwrap();
    for line in here..here + 5 {
        assert!(
            seen.contains(&(file!().to_owned(), line)),
            "line {line}: {seen:?}"
        );
    }
}

#[test]
fn an_error_can_be_sent_and_shared_between_threads() {
    fn check<T: std::error::Error + Clone + PartialEq + Send + Sync + 'static>() {}
    check::<Error>();
}
