#![deny(warnings)]
use gradloom::prelude::*;
#[derive(Tree)]
struct L {
    w: Tensor,
}
#[traced]
impl L {
    fn clash(&self, this: &Tensor) -> Tensor {
        this * &self.w
    }
}
#[traced(allow(recorded_call))]
fn pat((a, b): &(Tensor, Tensor), arg_0: &Tensor) -> Tensor {
    a * b + arg_0
}
#[traced]
fn inner(x: &Tensor) -> Tensor {
    #![allow(unused_variables)]
    let z = 1;
    x.sin()
}
#[traced]
fn names(
    saved: &Tensor,
    steps: usize,
    tangents: &Tensor,
    cotangents: &Tensor,
    pulled: &Tensor,
    given: &Tensor,
    copies: &Tensor,
) -> Tensor {
    let ct_x = saved * tangents;
    let d_x = cotangents * pulled;
    let pull = given * copies;
    let tree = ct_x + d_x * pull;
    let likes = tree.sin() * steps;
    let pullback = likes.cos();
    let y = pullback.exp();
    let dy = y.tanh();
    dy
}
#[traced]
fn names_recorded(
    saved: &Tensor,
    steps: usize,
    tangents: &Tensor,
    cotangents: &Tensor,
    pulled: &Tensor,
    given: &Tensor,
    copies: &Tensor,
    tree: &Tensor,
    pull: &Tensor,
    likes: &Tensor,
    field: &Tensor,
) -> Tensor {
    let mut h = saved.clone();
    for _ in 0..steps {
        h = h * tangents * cotangents * pulled * given * copies * tree * pull * likes * field;
    }
    h
}
mod tensor2 {
    use gradloom::prelude::*;
    #[derive(Tree)]
    pub struct Tensor2 {
        pub x: Tensor,
    }
    #[traced]
    pub fn of(t: &Tensor2) -> Tensor {
        t.x.sin()
    }
}
#[traced]
fn vjp(x: &Tensor) -> Tensor {
    x.sin()
}
#[traced]
fn grad(x: &Tensor) -> Tensor {
    vjp(x).cos()
}
#[traced]
fn saved(x: &Tensor) -> Tensor {
    grad(x)
}
#[allow(non_snake_case)]
#[traced]
fn __fwd(x: &Tensor) -> Tensor {
    x.sin()
}
#[traced]
fn r#match(x: &Tensor) -> Tensor {
    x.sin()
}
#[traced]
fn uses_match(x: &Tensor) -> Tensor {
    r#match(x)
}
fn noisy(x: f64) -> f64 {
    x + 0.5
}
/// A local of an inner block has the name of a function: after the block it is the function again.
#[traced(pure)]
fn items(x: &Tensor, turns: usize) -> Tensor {
    let mut h = {
        let noisy = Some(1.5).map(noisy).unwrap_or(0.0);
        (x * noisy).sin()
    };
    for _ in 0..turns {
        let number = Some(1.5).map(noisy).unwrap_or(0.0);
        h = h * number;
    }
    h
}
#[test]
fn runs() {
    assert_eq!(
        items(&Tensor::scalar(0.25f64), 1).item::<f64>(),
        0.5f64.sin() * 2.0
    );
    let t = &Tensor::scalar(1.0f32);
    let l = L { w: t.clone() };
    let (y, p) = l.clash_vjp(t);
    p(&y);
    l.clash_grad(t);
    pat::grad(&(t.clone(), t.clone()), t);
    inner::grad(t);
    names::grad(t, 2, t, t, t, t, t);
    names::jvp((t, 2, t, t, t, t, t), (t, t, t, t, t, t));
    names::saved(t, 2, t, t, t, t, t);
    names_recorded::grad(t, 2, t, t, t, t, t, t, t, t, t);
    names_recorded::jvp(
        (t, 2, t, t, t, t, t, t, t, t, t),
        (t, t, t, t, t, t, t, t, t, t),
    );
    tensor2::of::grad(&tensor2::Tensor2 { x: t.clone() });
    vjp::grad(t);
    grad::grad(t);
    saved::grad(t);
    __fwd::grad(t);
    uses_match::grad(t);
}
