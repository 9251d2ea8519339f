//! `#[traced(check)]` on functions of all kinds: the emitted tests pass, and fail where a companion
//! is wrong.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::testing::{Sample, Source};

#[traced(check)]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    (x.matmul(w) + b).tanh()
}

#[traced(check(classes(labels = C)))]
fn classifier(
    #[shape(B, I)] x: &Tensor,
    #[shape(I, H)] w1: &Tensor,
    #[shape(H, C)] w2: &Tensor,
    #[nodiff]
    #[shape(B)]
    labels: &Tensor,
) -> Tensor {
    let h = x.matmul(w1).relu();
    h.matmul(w2).cross_entropy(labels)
}

#[traced(check(dims(D = 4), value(n_heads = 2)))]
fn attention(
    #[shape(T, D)] x: &Tensor,
    #[shape(D, 12)] qkv: &Tensor,
    #[shape(D, D)] out: Tensor,
    n_heads: usize,
) -> Tensor {
    let (t, d) = (x.dim(0), x.dim(1));
    let heads = x.matmul(qkv).reshape([t, 3, n_heads, d / n_heads]);
    let [q, k, v] = heads.permute([1, 2, 0, 3]).unbind(0);
    let scores = q.matmul(k.swap_axes(-1, -2)) / 1.5;
    let mixed = scores.softmax(-1).matmul(v);
    mixed.permute([1, 0, 2]).reshape([t, d]).matmul(out)
}

#[traced(check)]
fn padded(
    #[shape(N, D)] q: &Tensor,
    #[shape(M, D)] k: &Tensor,
    #[shape(M, E)] v: &Tensor,
    #[nodiff]
    #[shape(bool; M)]
    mask: &Tensor,
) -> Tensor {
    q.masked_attention(k, v, mask) + q.masked_causal_attention(k, v, mask)
}

#[traced(check(range(x = 0.5..2.0, y = -1.0..1)))]
fn logarithms(#[shape(_, 3)] x: &Tensor, #[shape(3)] y: &Tensor) -> (Tensor, Tensor) {
    (x.log() * y, x.pow(y))
}

#[traced(check(value(shape = &[B, 2], axis = -1, dtype = DType::F64)))]
fn statics(#[shape(B, 2)] x: &Tensor, shape: &[usize], axis: i64, dtype: DType) -> Tensor {
    (x.reshape(shape) * 2.0).sum(axis).cast(dtype)
}

#[traced(check(value(steps = 3)))]
fn looped(#[shape(N)] x: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..steps {
        if i % 2 == 0 {
            h = h.sin();
        } else {
            h = &h * x;
        }
    }
    h
}

#[traced(check(range(a = 1.0..2.0)))]
fn square_root(#[shape()] a: &Tensor) -> Result<Tensor> {
    let mut x = a.clone();
    while (&x * &x - a).item::<f64>().abs() > 1e-12 {
        x = (&x + a / &x) * 0.5;
    }
    Ok(x)
}

#[traced(check)]
fn fallible(#[shape(B, B)] x: &Tensor, #[shape(B, _)] w: Tensor) -> Result<(Tensor, Tensor)> {
    let y = x.matmul(&w);
    Ok((y.square().sum(0), y.argmax(0)))
}

#[derive(Tree)]
struct Linear {
    w: Tensor,
    b: Option<Tensor>,
    #[tree(skip)]
    gain: f64,
}

impl Linear {
    fn from(source: &mut Source, i: &str, o: &str) -> Linear {
        let (i, o) = (source.dim(i), source.dim(o));
        Linear {
            w: source.normal([i, o]),
            b: (o > 2).then(|| source.normal([o])),
            gain: 0.5,
        }
    }
}

impl Sample for Linear {
    fn sample(source: &mut Source) -> Linear {
        Linear::from(source, "I", "O")
    }
}

#[traced(check(value(by = 2.0)))]
impl Linear {
    fn forward(&self, #[shape(B, I)] x: &Tensor) -> Tensor {
        let h = x.matmul(&self.w);
        match &self.b {
            Some(b) => h + b,
            None => h,
        }
    }

    fn scaled(&self, #[shape(B, I)] x: Tensor, by: f64) -> Tensor {
        self.forward(&x) * by * self.gain
    }

    fn norm(self) -> Result<Tensor> {
        Ok(self.w.square().sum(..))
    }
}

#[derive(Tree)]
struct Mlp {
    layers: Vec<Linear>,
    scale: (Tensor, Tensor),
}

impl Sample for Mlp {
    fn sample(source: &mut Source) -> Mlp {
        let layers = vec![
            Linear::from(source, "I", "H"),
            Linear::from(source, "H", "O"),
        ];
        let o = source.dim("O");
        let scale = (source.uniform([o], 0.5..1.5), source.normal([]));
        Mlp { layers, scale }
    }
}

#[traced(check(dims(O = 3), classes(labels = 3)))]
fn loss(
    model: &Mlp,
    #[shape(B, I)] x: &Tensor,
    #[nodiff]
    #[shape(B)]
    labels: &Tensor,
) -> Tensor {
    let mut h = x.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        h = layer.forward(&h);
        if i + 1 < model.layers.len() {
            h = h.tanh();
        }
    }
    let h = h * &model.scale.0 + &model.scale.1;
    h.cross_entropy(labels)
}

#[traced(check(value(parts = vec![Tensor::from([1.0f32, 2.0]), Tensor::from([0.5f32, -1.0])], kind = Kind::Cosine)))]
fn of_values(parts: Vec<Tensor>, #[fixed] kind: Kind) -> Tensor {
    let y = &parts[0] * parts[1].exp();
    match kind {
        Kind::Sine => y.sin(),
        Kind::Cosine => y.cos(),
    }
}

#[allow(dead_code)]
#[derive(Clone, Copy)]
enum Kind {
    Sine,
    Cosine,
}

#[traced(check)]
fn single_precision(#[shape(B, 3)] x: &Tensor) -> Tensor {
    (x.cast(DType::F32) * Tensor::from([0.5f32, 1.0, 2.0])).tanh()
}

#[traced(check)]
fn sums_of_dims(#[shape(B, 2 * T + 1)] x: &Tensor, #[shape(B, T * T - 1)] y: &Tensor) -> Tensor {
    let both = Tensor::concat(&[x, y], 1);
    both.sin().sum(0)
}

#[traced(check(classes(labels = 4), range(steps = 0..9)), returns(f32;))]
fn dtypes(
    #[shape(f32; B, 4)] x: &Tensor,
    #[nodiff]
    #[shape(i32; B)]
    labels: &Tensor,
    #[nodiff]
    #[shape(bool; B, 1)]
    mask: &Tensor,
    #[nodiff]
    #[shape(i64; 4)]
    steps: &Tensor,
) -> Tensor {
    let kept = mask.select(x, &(x * 0.5));
    (kept + steps.cast(DType::F32)).cross_entropy(labels)
}

// `stop_gradient` hides part of the function from the derivatives, but not from finite differences.
#[traced(check(skip(finite_differences)))]
fn normalised(#[shape(B, I)] x: &Tensor) -> Tensor {
    x / (x.square().sum_keepdims(-1) + 1.0).stop_gradient()
}

#[traced(check, record)]
fn of_many(model: &(Linear, [Box<Linear>; 2]), #[shape(B, I)] x: &Tensor) -> Tensor {
    let (first, rest) = model;
    rest.iter()
        .fold(first.forward(x), |y, layer| y + layer.forward(x))
}

#[allow(clippy::too_many_arguments)]
#[traced(check)]
fn eleven(
    #[shape(N)] a: &Tensor,
    #[shape(N)] b: &Tensor,
    #[shape(N)] c: &Tensor,
    #[shape(N)] d: &Tensor,
    #[shape(N)] e: &Tensor,
    #[shape(N)] f: &Tensor,
    #[shape(N)] g: &Tensor,
    #[shape(N)] h: &Tensor,
    #[shape(N)] i: &Tensor,
    #[shape(N)] source: &Tensor,
    #[shape(N)] law: &Tensor,
) -> Tensor {
    a * b + c * d - e * f + g / (h.square() + 1.0) + i.sin() * source * law
}

/// A tree with a lifetime.
#[derive(Tree)]
struct Named<'a> {
    w: Tensor,
    #[tree(skip)]
    name: &'a str,
}

impl Sample for Named<'_> {
    fn sample(source: &mut Source) -> Self {
        let i = source.dim("I");
        Named {
            w: source.normal([i]),
            name: "w",
        }
    }
}

#[traced(check)]
impl<'a> Named<'a> {
    fn apply(&self, #[shape(B, I)] x: &Tensor) -> Tensor {
        let by = self.name.len() as f64;
        x * &self.w * by
    }
}

#[allow(clippy::needless_lifetimes)]
#[traced(check(value(name = "a".to_owned(), r#in = 2.0, key = Key::new(3))))]
fn r#type<'b>(#[shape(B)] r#fn: &'b Tensor, name: String, r#in: f64, key: Key) -> Tensor {
    let (noise, more) = (key.normal(r#fn.shape(), DType::F64), name.len());
    r#fn * r#in * noise + more
}

#[derive(Debug)]
struct Own(#[allow(dead_code)] Error);

impl From<Error> for Own {
    fn from(error: Error) -> Own {
        Own(error)
    }
}

type Several = (Tensor, Vec<Tensor>);

#[traced(check)]
fn own_error(
    #[shape(B, I)] x: &Tensor,
    #[shape(I)] y: Tensor,
    #[nodiff]
    #[shape(I)]
    z: Tensor,
) -> std::result::Result<Several, Own> {
    Ok((x * &y, vec![x.exp(), z * x]))
}

#[derive(Tree)]
struct Scale(Tensor);

#[traced(check(value(self = Scale(Tensor::from([0.5, 2.0])))))]
impl Scale {
    fn sine(&self) -> Tensor {
        self.0.sin()
    }
}

/// A constant with the name of a dim. The annotations do not refer to it.
#[allow(dead_code)]
const B: usize = 77;

#[traced(check(value(n = B)))]
fn divided(#[shape(B, I)] x: &Tensor, n: usize) -> Tensor {
    assert_eq!(x.dim(0), n);
    x / n
}

#[no_implicit_prelude]
mod strict {
    use ::gradloom::{Result, Tensor, traced};

    #[traced(check)]
    fn own(#[shape(B, I)] x: &Tensor) -> Result<Tensor> {
        ::gradloom::Result::Ok(x.sin())
    }
}

/// The run time with one macro replaced, so that every cotangent is doubled.
mod doubling {
    pub(crate) mod __private {
        pub(crate) use doubled as pullback;
        pub(crate) use gradloom::__private::*;

        macro_rules! doubled {
            ($name:literal, $pull:ident: $ct:ty, $($likes:tt)*) => {{
                let pullback = gradloom::__private::pullback!($name, $pull: $ct, $($likes)*);
                move |ct: $ct| pullback(ct).map(&mut |ct| ct * 2.0)
            }};
        }
        pub(crate) use doubled;
    }
}

/// The run time with one function replaced, so that the cotangent of a loss starts as 2.
mod seeding {
    pub(crate) mod __private {
        pub(crate) use gradloom::__private::*;

        pub(crate) fn gradients<Y>(
            (y, pull): (Y, CompanionPullback),
            loss: impl FnOnce(&Y) -> &Tensor,
        ) -> (Y, LeafCotangents) {
            let cotangents = pull.call(&[Some(loss(&y).ones_like() * 2.0)]);
            (y, cotangents)
        }
    }
}

/// The run time with one function replaced, so that every tangent is zero.
mod forgetting {
    pub(crate) mod __private {
        pub(crate) use gradloom::__private::*;

        pub(crate) fn with_tangent<Y: Tree>((y, _): (Y, Leaves)) -> (Y, Y) {
            gradloom::__private::with_tangent((y, Leaves::new()))
        }
    }
}

/// Returns the message of a test, or `None` if it passes.
fn failure(test: fn(&str), law: &'static str) -> Option<String> {
    let payload = std::panic::catch_unwind(|| test(law)).err()?;
    Some(*payload.downcast::<String>().expect("a `String` message"))
}

#[test]
fn the_emitted_tests_fail_where_a_companion_is_wrong() {
    // Declared inside a function, the emitted tests are not run by the harness.
    mod wrong_vjp {
        use gradloom::prelude::*;

        #[traced(check, crate = crate::checked::doubling)]
        fn f(#[shape(B, I)] x: &Tensor, #[shape(I)] w: &Tensor) -> Tensor {
            (x * w).sin()
        }
        pub(super) const TEST: fn(&str) = __f_check;
    }
    mod wrong_jvp {
        use gradloom::prelude::*;

        #[traced(check, crate = crate::checked::forgetting)]
        fn f(#[shape(B, I)] x: &Tensor, #[shape(I)] w: &Tensor) -> Tensor {
            (x * w).sin()
        }
        pub(super) const TEST: fn(&str) = __f_check;
    }
    mod wrong_grad {
        use gradloom::prelude::*;

        #[traced(check, crate = crate::checked::seeding)]
        fn f(#[shape(B)] x: &Tensor) -> Tensor {
            x.sin().sum(..)
        }
        pub(super) const TEST: fn(&str) = __f_check;
    }
    let message = failure(wrong_vjp::TEST, "companions_equal_run_time_derivatives").unwrap();
    let begin = "`f` with B = 2, I = 3: the cotangents of `vjp` against those of the run time: element 0 of `x` is";
    assert!(message.starts_with(begin), "{message}");
    let message = failure(wrong_vjp::TEST, "adjoint_identity").unwrap();
    let begin = "`f` with B = 2, I = 3: <ct, jvp(dx)> is ";
    assert!(message.starts_with(begin), "{message}");
    assert_eq!(failure(wrong_vjp::TEST, "finite_differences"), None);
    assert_eq!(failure(wrong_vjp::TEST, "lazy_equals_op_by_op"), None);

    let message = failure(wrong_jvp::TEST, "companions_equal_run_time_derivatives").unwrap();
    let begin = "`f` with B = 2, I = 3: the tangent of `jvp` against that of the run time: element 0 of `result` is 0.0, expected";
    assert!(message.starts_with(begin), "{message}");
    let message = failure(wrong_jvp::TEST, "finite_differences").unwrap();
    let begin =
        "`f` with B = 2, I = 3: the tangent of element 0 of `result` is 0.0, and differences give";
    assert!(message.starts_with(begin), "{message}");
    assert!(failure(wrong_jvp::TEST, "adjoint_identity").is_some());
    assert_eq!(failure(wrong_jvp::TEST, "lazy_equals_op_by_op"), None);

    let message = failure(wrong_grad::TEST, "companions_equal_run_time_derivatives").unwrap();
    let begin = "`f` with B = 2: the gradients of `value_and_grad` against those of `vjp`: element 0 of `x` is";
    assert!(message.starts_with(begin), "{message}");
}
