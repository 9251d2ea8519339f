//! Promotion of dtypes: every pair of dtypes beside every op, in closures and traced functions.

use gradloom::events::Event;
use gradloom::prelude::*;
use gradloom::{grad, hvp, jvp, vmap};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The table of the book.
fn expected(x: DType, y: DType) -> Option<DType> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I32, I64, U8};
    let table = [
        (F32, [BF16, F16, I8, U8].as_slice(), F32),
        (F64, &[BF16, F16, I32, I64, I8, U8], F64),
        (BF16, &[I8, U8], BF16),
        (F16, &[I8, U8], F16),
        (BF16, &[F16], F32),
        (I32, &[I8, U8], I32),
        (I64, &[I32, I8, U8], I64),
        (I8, &[U8], I32),
    ];
    match (x, y) {
        (Bool, other) | (other, Bool) => Some(other),
        _ if x == y => Some(x),
        _ => {
            let fits = |a: DType, b: DType| {
                let row = table
                    .iter()
                    .find(|(of, others, _)| *of == a && others.contains(&b));
                row.map(|(.., dtype)| *dtype)
            };
            fits(x, y).or(fits(y, x))
        }
    }
}

/// The dtype, shape and elements of a tensor, or the message of the panic.
type Outcome = Result<(DType, Vec<usize>, Vec<f64>), String>;

fn outcome(f: impl FnOnce() -> Tensor) -> Outcome {
    let read = || {
        let z = f();
        let elements = z.cast(DType::F64).to_vec::<f64>();
        (z.dtype(), z.shape().to_vec(), elements)
    };
    catch_unwind(AssertUnwindSafe(read)).map_err(|payload| {
        let text = payload.downcast::<String>();
        *text.expect("the panic has a message")
    })
}

/// The operands, which every dtype but `bool` holds exactly.
fn operands(x: DType, y: DType) -> (Tensor, Tensor) {
    let left = Tensor::from([[3.0f64, 0.0, -2.0], [1.0, 7.0, -5.0]]);
    let right = Tensor::from([2.0f64, 3.0, 1.0]);
    (left.cast(x), right.cast(y))
}

/// Checks an op that casts its operands by the table against the op on cast operands.
fn check(name: &str, op: impl Fn(&Tensor, &Tensor) -> Tensor) {
    for (dx, dy) in DType::ALL
        .iter()
        .flat_map(|dx| DType::ALL.map(|dy| (*dx, dy)))
    {
        let (x, y) = operands(dx, dy);
        let found = outcome(|| op(&x, &y));
        let Some(dtype) = expected(dx, dy) else {
            let message = found.expect_err(&format!("{name} of {dx} and {dy}"));
            for part in [dx.name(), dy.name(), "as in `.cast(DType::"] {
                assert!(message.contains(part), "{name} of {dx} and {dy}: {message}");
            }
            for narrow in ["DType::I32", "DType::I64", "DType::Bool"] {
                let float = dx.is_float() || dy.is_float();
                assert!(!(float && message.contains(narrow)), "{name}: {message}");
            }
            continue;
        };
        let cast = outcome(|| op(&x.cast(dtype), &y.cast(dtype)));
        match (&found, &cast) {
            (Err(_), Err(_)) => {}
            _ => assert_eq!(found, cast, "{name} of {dx} and {dy}"),
        }
    }
}

/// Checks each op as a closure and as a traced function whose parameters have no annotated dtype.
macro_rules! ops {
    ($($name:ident |$x:ident, $y:ident| $body:block)*) => {$(
        #[test]
        fn $name() {
            #[traced(allow(zero_gradient))]
            fn lowered($x: &Tensor, $y: &Tensor) -> Tensor $body

            assert_eq!(lowered::RECORDED, None);
            check(stringify!($name), |$x, $y| $body);
            check(concat!(stringify!($name), ", traced"), lowered);
        }
    )*};
}

ops! {
    add |x, y| { x + y }
    sub |x, y| { x - y }
    mul |x, y| { x * y }
    div |x, y| { x / y }
    maximum |x, y| { x.maximum(y) }
    minimum |x, y| { x.minimum(y) }
    pow |x, y| { x.pow(y) }
    rem |x, y| { x.rem(y) }
    mod_floor |x, y| { x.mod_floor(y) }
    atan2 |x, y| { x.atan2(y) }
    hypot |x, y| { x.hypot(y) }
    logaddexp |x, y| { x.logaddexp(y) }
    eq |x, y| { x.eq(y) }
    ne |x, y| { x.ne(y) }
    lt |x, y| { x.lt(y) }
    le |x, y| { x.le(y) }
    gt |x, y| { x.gt(y) }
    ge |x, y| { x.ge(y) }
    bit_and |x, y| { x & y }
    bit_or |x, y| { x | y }
    bit_xor |x, y| { x ^ y }
    shift_left |x, y| { x << y }
    shift_right |x, y| { x >> y }
    select |x, y| { x.eq(x).select(x, y) }
    clamp |x, y| { x.clamp(y, y) }
    lerp |x, y| { x.lerp(y, y) }
    matmul |x, y| { x.matmul(y) }
    concat |x, y| { Tensor::concat(&[x, &y.unsqueeze(0)], 0) }
    stack |x, y| { Tensor::stack(&[&x.row(0), y], 1) }
}

/// Traced functions with annotated dtypes, and their pair of dtypes.
macro_rules! typed {
    ($($name:ident: $(#[$nx:ident])? $x:ident $dx:ident, $(#[$ny:ident])? $y:ident $dy:ident;)*) => {$(
        #[test]
        fn $name() {
            #[traced]
            fn arithmetic(
                w: &Tensor,
                $(#[$nx])? #[shape($x; 2, 3)] x: &Tensor,
                $(#[$ny])? #[shape($y; 3)] y: &Tensor,
            ) -> (Tensor, Tensor) {
                (x + y * x - y.maximum(x) / y, w * 2.0)
            }
            #[traced]
            fn chosen(
                w: &Tensor,
                $(#[$nx])? #[shape($x; 2, 3)] x: &Tensor,
                $(#[$ny])? #[shape($y; 3)] y: &Tensor,
            ) -> (Tensor, Tensor) {
                (x.gt(y).select(x, y.pow(2)) - x.rem(y) + x.clamp(y, 4), w * 2.0)
            }
            #[traced(allow(zero_gradient))]
            fn compared(
                w: &Tensor,
                $(#[$nx])? #[shape($x; 2, 3)] x: &Tensor,
                $(#[$ny])? #[shape($y; 3)] y: &Tensor,
            ) -> (Tensor, Tensor) {
                (x.le(y) & y.ne(x), w * 2.0)
            }
            #[traced]
            fn floats(
                w: &Tensor,
                $(#[$nx])? #[shape($x; 2, 3)] x: &Tensor,
                $(#[$ny])? #[shape($y; 3)] y: &Tensor,
            ) -> (Tensor, Tensor) {
                (x * 0.5 + 1.0 * y - (x / 2.0).pow(2), w * 2.0)
            }
            let (x, y) = operands(DType::$dx, DType::$dy);
            let dtype = expected(DType::$dx, DType::$dy).expect("the pair is promoted");
            let w = Tensor::scalar(1.0f32);
            let (u, v) = (x.cast(dtype), y.cast(dtype));
            let cases: [(&str, [Outcome; 2]); 4] = [
                (arithmetic::PROGRAM, [
                    outcome(|| arithmetic(&w, &x, &y).0),
                    outcome(|| &u + &v * &u - v.maximum(&u) / &v),
                ]),
                (chosen::PROGRAM, [
                    outcome(|| chosen(&w, &x, &y).0),
                    outcome(|| u.gt(&v).select(&u, v.pow(2)) - u.rem(&v) + u.clamp(&v, 4)),
                ]),
                (compared::PROGRAM, [
                    outcome(|| compared(&w, &x, &y).0),
                    outcome(|| u.le(&v) & v.ne(&u)),
                ]),
                (floats::PROGRAM, [
                    outcome(|| floats(&w, &x, &y).0),
                    outcome(|| {
                        let wide = |x: &Tensor| match x.dtype() {
                            DType::F32 => x.clone(),
                            _ => x.cast(DType::F64),
                        };
                        let (x, y) = (wide(&x), wide(&y));
                        &x * 0.5 + 1.0 * &y - (&x / 2.0).pow(2)
                    }),
                ]),
            ];
            for (program, [found, expected]) in cases {
                assert!(found.is_ok(), "{found:?}");
                assert_eq!(found, expected, "{program}");
            }
        }
    )*};
}

typed! {
    annotated_f32_and_f32: f32 F32, f32 F32;
    annotated_f64_and_f64: f64 F64, f64 F64;
    annotated_f64_and_i32: f64 F64, #[nodiff] i32 I32;
    annotated_f64_and_i64: f64 F64, #[nodiff] i64 I64;
    annotated_i32_and_f64: #[nodiff] i32 I32, f64 F64;
    annotated_i64_and_f64: #[nodiff] i64 I64, f64 F64;
    annotated_i32_and_i32: #[nodiff] i32 I32, #[nodiff] i32 I32;
    annotated_i32_and_i64: #[nodiff] i32 I32, #[nodiff] i64 I64;
    annotated_i64_and_i32: #[nodiff] i64 I64, #[nodiff] i32 I32;
    annotated_i64_and_i64: #[nodiff] i64 I64, #[nodiff] i64 I64;
}

#[traced(allow(zero_gradient))]
fn accuracy(
    #[shape(f32; N, C)] scores: &Tensor,
    #[nodiff]
    #[shape(i64; N)]
    labels: &Tensor,
) -> (Tensor, Tensor) {
    let right = scores.argmax(-1).eq(labels);
    (right.mean(..), right.sum(..))
}

#[traced(allow(zero_gradient))]
fn reduced(x: &Tensor) -> [Tensor; 6] {
    [
        x.sum(0),
        x.prod(1),
        x.cumsum(0),
        x.mean(..),
        x.var(0, 0),
        x.std(1, 0),
    ]
}

#[test]
fn reductions_of_bools_count_and_those_of_integers_are_floats() {
    let (guess, labels) = (Tensor::from([1i64, 2, 3, 0]), Tensor::from([1i64, 0, 3, 0]));
    let scores = guess.one_hot(4, DType::F32);
    for _ in 0..2 {
        let (share, count) = accuracy(&scores, &labels);
        assert_eq!((share.item::<f64>(), count.item::<i64>()), (0.75, 3));
    }
    assert_eq!(guess.eq(&labels).mean(..).item::<f64>(), 0.75);
    let x = Tensor::from([[1.0f64, 0.0, 1.0], [0.0, 0.0, 1.0]]);
    for dtype in [DType::Bool, DType::I32, DType::I64, DType::F32, DType::F64] {
        let x = x.cast(dtype);
        let eager = [
            x.sum(0),
            x.prod(1),
            x.cumsum(0),
            x.mean(..),
            x.var(0, 0),
            x.std(1, 0),
        ];
        let total = if dtype == DType::Bool {
            DType::I64
        } else {
            dtype
        };
        let mean = if dtype.is_float() { dtype } else { DType::F64 };
        let wide = [
            x.cast(total).sum(0),
            x.cast(total).prod(1),
            x.cast(total).cumsum(0),
            x.cast(mean).mean(..),
            x.cast(mean).var(0, 0),
            x.cast(mean).std(1, 0),
        ];
        for ((found, traced), wide) in eager.iter().zip(reduced(&x)).zip(&wide) {
            let expected = outcome(|| wide.clone());
            assert_eq!(outcome(|| found.clone()), expected, "{dtype}");
            assert_eq!(outcome(|| traced.clone()), expected, "{dtype}");
        }
        let lanes = vmap(|x: &Tensor| x.sum(..))(&x);
        assert_eq!(outcome(|| lanes), outcome(|| x.cast(total).sum(1)));
    }
}

#[traced]
fn masked(
    #[shape(f32; 3)] x: &Tensor,
    #[nodiff]
    #[shape(bool; 3)]
    mask: &Tensor,
) -> Tensor {
    (mask * x + x.square() * x.gt(2.0)).sum(..)
}

#[test]
fn a_mask_scales_a_tensor_and_its_gradient() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let mask = Tensor::from([true, false, true]);
    let (value, slope) = masked::value_and_grad(&x, &mask);
    assert_eq!(value.item::<f32>(), 13.0);
    assert_eq!(slope.x.to_vec::<f32>(), [1.0, 0.0, 7.0]);
    let closure = |x: &Tensor| (&mask * x + x.square() * x.gt(2.0)).sum(..);
    assert_eq!(grad(closure)(&x).to_vec::<f32>(), [1.0, 0.0, 7.0]);
    let masks = Tensor::from([[true, false, true], [false, true, true]]);
    let each = vmap(|mask: &Tensor| masked(&x, mask))(&masks);
    assert_eq!(each.to_vec::<f32>(), [13.0, 14.0]);
}

#[traced]
fn literals(x: &Tensor) -> (Tensor, Tensor, Tensor, Tensor, Tensor) {
    (
        x * 1.0,
        2.0 - x,
        x.maximum(2),
        x / 1,
        x.gt(0).select(x, 0.5),
    )
}

#[traced]
fn numbers(x: &Tensor, a: f32, b: f64, n: usize, m: i32) -> (Tensor, Tensor, Tensor, Tensor) {
    (x * a, x.pow(b), x + n, x - m)
}

#[test]
fn a_float_number_beside_integers_is_an_f64_and_an_integer_keeps_the_dtype() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        let (x, _) = operands(dtype, dtype);
        let float = if dtype.is_float() { dtype } else { DType::F64 };
        let u = x.cast(float);
        let eager = (
            &x * 1.0,
            2.0 - &x,
            x.maximum(2),
            &x / 1,
            x.gt(0).select(&x, 0.5),
        );
        let wide = (
            &u * 1.0,
            2.0 - &u,
            x.maximum(Tensor::scalar(2i64).cast(dtype)),
            &x * Tensor::scalar(1i64).cast(dtype),
            u.gt(0.0).select(&u, 0.5),
        );
        for found in [&eager, &literals(&x)] {
            for (found, wide) in [
                (&found.0, &wide.0),
                (&found.1, &wide.1),
                (&found.2, &wide.2),
                (&found.3, &wide.3),
                (&found.4, &wide.4),
            ] {
                assert_eq!(
                    outcome(|| found.clone()),
                    outcome(|| wide.clone()),
                    "{dtype}"
                );
            }
        }
        let found = numbers(&x, 1.5, 2.0, 3, -4);
        let dtypes = [&found.0, &found.1, &found.2, &found.3].map(|x| x.dtype());
        assert_eq!(dtypes, [float, float, dtype, dtype]);
        assert_eq!(outcome(|| found.0.clone()), outcome(|| &x * 1.5f32));
        assert_eq!(outcome(|| found.1.clone()), outcome(|| x.pow(2.0)));
        assert_eq!(outcome(|| found.2.clone()), outcome(|| &x + 3usize));
        assert_eq!(outcome(|| found.3.clone()), outcome(|| &x - -4));
    }
}

#[traced(allow(nan_gradient))]
fn mixed(x: &Tensor, #[nodiff] n: &Tensor) -> Tensor {
    let y = (x * n + n - x / n).pow(n) + n.atan2(x) + n.maximum(x);
    (n.gt(x).select(n, y) * 2.0 + n * 1.0).sum(..)
}

#[traced(order = 2, allow(nan_gradient))]
fn typed_mixed(
    #[shape(f64; 2, 3)] x: &Tensor,
    #[nodiff]
    #[shape(i32; 3)]
    n: &Tensor,
) -> Tensor {
    let y = (x * n + n - x / n).pow(n) + n.atan2(x) + n.maximum(x);
    (n.gt(x).select(n, y) * 2.0 + n * 1.0).sum(..)
}

fn plain(x: &Tensor, n: &Tensor) -> Tensor {
    let y = (x * n + n - x / n).pow(n) + n.atan2(x) + n.maximum(x);
    (n.gt(x).select(n, y) * 2.0 + n * 1.0).sum(..)
}

#[test]
fn a_derivative_has_the_dtype_of_the_float_beside_an_integer() {
    let x = Tensor::from([[3.5f64, 0.5, 2.5], [1.5, 7.5, 5.5]]);
    let (dx, n) = (x.sin(), Tensor::from([2i32, 3, 1]));
    let m = n.cast(DType::F64);
    let (u, g) = (plain(&x, &m), grad(|x: &Tensor| plain(x, &m))(&x));
    let du = jvp(|x: &Tensor| plain(x, &m), &x, &dx).1;
    let h = hvp(|x: &Tensor| plain(x, &m), &x, &dx);
    let same = |a: &Tensor, b: &Tensor| {
        assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()));
        let difference = (a - b).abs().max(..).item::<f64>();
        assert!(
            difference <= 1e-12 * b.abs().max(..).item::<f64>(),
            "{a} {b}"
        );
    };
    same(&mixed(&x, &n), &u);
    same(&typed_mixed(&x, &n), &u);
    same(&plain(&x, &n), &u);
    same(&mixed::grad(&x, &n).x, &g);
    same(&typed_mixed::grad(&x, &n).x, &g);
    same(&grad(|x: &Tensor| plain(x, &n))(&x), &g);
    same(&mixed::jvp((&x, &n), &dx).1, &du);
    same(&typed_mixed::jvp((&x, &n), &dx).1, &du);
    same(&jvp(|x: &Tensor| plain(x, &n), &x, &dx).1, &du);
    same(&typed_mixed::hvp((&x, &n), &dx).1.x, &h);
    same(&hvp(|x: &Tensor| plain(x, &n), &x, &dx), &h);
}

/// A parameter of unknown dtype that has a tangent only if it is a float.
#[traced]
fn scaled(x: &Tensor, y: &Tensor) -> Tensor {
    (x * y * 1.0).sum(..)
}

#[test]
fn a_gradient_with_respect_to_integers_is_refused_and_one_beside_them_is_not() {
    let (x, n) = operands(DType::F64, DType::I64);
    let message = outcome(|| scaled::grad(&x, &n).x).expect_err("`y` has integers");
    assert!(
        message.contains("`y` is i64[3], and only floats have gradients"),
        "{message}"
    );
    let dx = grad(|x: &Tensor| scaled(x, &n))(&x);
    assert_eq!(dx.to_vec::<f64>(), [2.0, 3.0, 1.0, 2.0, 3.0, 1.0]);
}

#[test]
fn lanes_of_a_batch_are_promoted() {
    let (x, n) = (
        Tensor::from([[1.5f64, 2.0], [3.0, 4.5]]),
        Tensor::from([[1i32, 2], [3, 4]]),
    );
    let z = vmap(|(x, n): &(Tensor, Tensor)| (x * n - n).maximum(n) * 0.5)(&(x.clone(), n.clone()));
    let wide = n.cast(DType::F64);
    let expected = ((&x * &wide) - &wide).maximum(&wide) * 0.5;
    assert_eq!(outcome(|| z), outcome(|| expected));
}

#[test]
fn an_assigning_operator_promotes() {
    let mut x = Tensor::from([1i32, 3]);
    x += Tensor::from([1i64 << 40, 0]);
    assert_eq!(x.to_vec::<i64>(), [(1 << 40) + 1, 3]);
    x *= 0.5;
    assert_eq!(x.to_vec::<f64>(), [((1i64 << 40) + 1) as f64 * 0.5, 1.5]);
}

#[test]
fn a_second_call_with_promoted_operands_does_not_replan() {
    let (x, n) = operands(DType::F64, DType::I32);
    let run = || typed_mixed(&x, &n).item::<f64>() + mixed(&x, &n).item::<f64>();
    let first = run();
    let (second, events) = gradloom::events::record(run);
    assert_eq!(first.to_bits(), second.to_bits());
    let replans = events
        .iter()
        .any(|event| matches!(event, Event::Planned { .. }));
    assert!(!replans, "{events:?}");
}

/// The shape and the dtype of one parameter are known, and those of the other are not.
#[traced]
fn joined(#[shape(f64; 2, 3)] x: &Tensor, #[nodiff] n: &Tensor) -> (Tensor, Tensor, Tensor) {
    let product = x.matmul(n) * n.matmul(x.t());
    (
        product,
        Tensor::concat(&[x.row(0), n.clone()], 0),
        Tensor::stack(&[n.clone(), x.row(1)], 0),
    )
}

#[test]
fn products_and_lists_of_floats_and_integers_have_derivatives() {
    let x = Tensor::from([[1.0f64, -2.0, 0.5], [3.0, 0.25, 2.0]]);
    let n = Tensor::from([2i64, -1, 3]);
    let m = n.cast(DType::F64);
    let (y, pullback) = joined::vjp(&x, &n);
    let (z, expected) = joined::vjp(&x, &m);
    assert_eq!(y.0.to_vec::<f64>(), z.0.to_vec::<f64>());
    let ones = (y.0.ones_like(), y.1.ones_like(), y.2.ones_like());
    assert_eq!(
        pullback(&ones).to_vec::<f64>(),
        expected(&ones).to_vec::<f64>()
    );
    let all = |x: &Tensor| {
        let (a, b, c) = joined(x, &n);
        a.sum(..) + b.square().sum(..) + c.square().sum(..)
    };
    let of_floats = |x: &Tensor| {
        let (a, b, c) = joined(x, &m);
        a.sum(..) + b.square().sum(..) + c.square().sum(..)
    };
    assert_eq!(
        grad(all)(&x).to_vec::<f64>(),
        grad(of_floats)(&x).to_vec::<f64>()
    );
}
