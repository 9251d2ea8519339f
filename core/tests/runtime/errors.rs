//! The text of every error: what is wrong, then what to do.

use gradloom::{DType, Error, Key, Result, Tensor, evaluate, grad, jacfwd, jacrev, jvp, vjp};
use std::collections::BTreeMap;

fn text<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

/// The message of the panic of `body`.
fn panic_of<T>(body: impl FnOnce() -> T + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(body).err().expect("a panic");
    payload.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn what_is_not_a_shape() {
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32; 5], [2, 3])), @"5 values do not fill the shape [2, 3], which has 6 elements");
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32; 5], [1 << 62, 4])), @"the shape [4611686018427387904, 4] has more elements than can be addressed");
    insta::assert_snapshot!(text(Tensor::try_from_vec(vec![1.0f32], vec![1; 40])), @"the shape [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] has 40 axes, and the limit is 32");
    insta::assert_snapshot!(panic_of(|| Tensor::zeros([1 << 62, 4], DType::F32)), @"the shape [4611686018427387904, 4] has more elements than can be addressed");
}

#[test]
fn what_an_op_does_not_take() {
    let (a, b) = (
        Tensor::zeros([3, 4], DType::F32),
        Tensor::zeros([4, 3], DType::F32),
    );
    insta::assert_snapshot!(panic_of(|| &a + &b), @"add: axis 0 is 3 on the left and 4 on the right: the left operand is f32[3, 4], the right operand is f32[4, 3]");
    insta::assert_snapshot!(panic_of(|| a.matmul(&a)), @"matmul: inner dimensions differ: the left operand is f32[3, 4], the right operand is f32[3, 4]");
    insta::assert_snapshot!(panic_of(|| a.sum(2)), @"sum: axis 2 is out of range for rank 2: the operand is f32[3, 4]");
    insta::assert_snapshot!(panic_of(|| &a + Tensor::zeros([4], DType::F64)), @"add: the dtypes are f32 and f64: the left operand is f32[3, 4], the right operand is f64[4]; cast one of them, as in `x.cast(DType::F64)`");
    insta::assert_snapshot!(panic_of(|| Tensor::from([1i32]) * 1.5), @"1.5 is not a value of i32; cast the tensor to a float first");
}

#[test]
fn a_number_beyond_an_i64_is_not_one_of_its_values() {
    insta::assert_snapshot!(panic_of(|| Tensor::full([1], u64::MAX, DType::I64)), @"1.8446744073709552e19 is not a value of i64; cast the tensor to a float first");
    assert_eq!(
        Tensor::full([1], u64::MAX, DType::F64).to_vec::<f64>(),
        [u64::MAX as f64]
    );
}

#[test]
fn what_cannot_be_read() {
    let x = Tensor::zeros([2, 3], DType::F32);
    insta::assert_snapshot!(text(x.try_to_vec::<f64>()), @"cannot read f32[2, 3] as f64; cast it first, as in `x.cast(DType::F64)`");
    insta::assert_snapshot!(text(x.try_item::<f32>()), @"`item` needs a tensor of one element, and this is f32[2, 3]");
    insta::assert_snapshot!(text(x.sum(..).try_item::<i64>()), @"cannot read f32[] as i64; cast it first, as in `x.cast(DType::I64)`");
    insta::assert_snapshot!(panic_of(|| x.dim(-3)), @"axis -3 is out of range for f32[2, 3], whose rank is 2");
}

#[test]
fn what_only_the_data_can_tell() {
    let x = Tensor::zeros([2, 3], DType::F32);
    insta::assert_snapshot!(text(evaluate(&x.cross_entropy(Tensor::from([0i64, 7])))), @"`cross_entropy`: label 7 at row 1 is out of range for 3 classes");
    insta::assert_snapshot!(text(evaluate(&Tensor::zeros([1 << 30, 1 << 20], DType::F32))), @"`full`: no memory for 4503599627370496 bytes");
    insta::assert_snapshot!(panic_of(|| Key::new(0).normal([1 << 30, 1 << 20], DType::F32)), @"`random`: no memory for 4503599627370496 bytes");
    insta::assert_snapshot!(panic_of(|| Key::new(0).permutation(1 << 50)), @"`random`: no memory for 9007199254740992 bytes");
}

#[test]
fn what_has_no_derivative() {
    let ints = Tensor::from([1i64, 2]);
    let float = Tensor::from([1.0f32, 2.0]);
    insta::assert_snapshot!(panic_of(|| grad(|x: &Tensor| x.cast(DType::F32).sum(..))(&ints)), @"`argument` is i64[2], and only floats have gradients; mark the parameter `#[nodiff]` or cast it");
    let tree = (float.clone(), vec![float.clone(), ints.clone()]);
    insta::assert_snapshot!(panic_of(|| vjp(|x: &(Tensor, Vec<Tensor>)| x.0.clone(), &tree)), @"`argument.1[1]` is i64[2], and only floats have gradients; mark the parameter `#[nodiff]` or cast it");
    let map = BTreeMap::from([("labels".to_owned(), ints.clone())]);
    insta::assert_snapshot!(panic_of(|| vjp(|_: &BTreeMap<String, Tensor>| Tensor::from(1.0f32), &map)), @r#"`argument["labels"]` is i64[2], and only floats have gradients; mark the parameter `#[nodiff]` or cast it"#);
    insta::assert_snapshot!(panic_of(|| grad(|x: &Tensor| x * x)(&float)), @"a gradient needs a result that is a single float, and this is f32[2]; sum it, or use `vjp`");
    insta::assert_snapshot!(panic_of(|| grad(|x: &Tensor| x.sum(..).cast(DType::I32))(&float)), @"a gradient needs a result that is a single float, and this is i32[]; sum it, or use `vjp`");
    insta::assert_snapshot!(panic_of(|| jacfwd(|x: &Tensor| x.argmax(0))(&float)), @"`result` is i64[], and only floats have gradients; mark the parameter `#[nodiff]` or cast it");
    insta::assert_snapshot!(panic_of(|| jacrev(|x: &Tensor| x.argmax(0))(&float)), @"`result` is i64[], and only floats have gradients; mark the parameter `#[nodiff]` or cast it");
}

#[test]
fn a_jacobian_of_too_many_axes_is_an_err_where_the_function_returns_result() {
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
fn tangents_and_cotangents_that_do_not_match() {
    let x = Tensor::from([1.0f32, 2.0]);
    let wide = Tensor::from([1.0f32, 2.0, 3.0]);
    insta::assert_snapshot!(panic_of(|| jvp(|x: &Tensor| x * x, &x, &wide)), @"the tangent of `argument` is f32[3], and has to be f32[2]");
    let (_, pullback) = vjp(|x: &Tensor| vec![x.sum(..), -x], &x);
    insta::assert_snapshot!(text(pullback.try_call(&vec![Tensor::from(1.0f64), x.clone()])), @"the cotangent of `result[0]` is f64[], and has to be f32[]");
    insta::assert_snapshot!(text(pullback.try_call(&vec![Tensor::from(1.0f32)])), @"the cotangent has 1 leaf, and has to have 2");
}

#[test]
fn a_panic_is_at_the_line_of_the_user() {
    use std::sync::{Arc, Mutex};
    // The hook is the only way to see a location; other tests may panic meanwhile, in their own files and lines.
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
fn an_error_is_a_value_that_threads_may_share() {
    fn check<T: std::error::Error + Clone + PartialEq + Send + Sync + 'static>() {}
    check::<Error>();
}
