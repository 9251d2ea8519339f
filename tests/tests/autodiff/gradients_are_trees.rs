//! The struct of gradients implements `Tree` if its fields do.

use gradloom::prelude::*;
use gradloom::tree;

#[derive(Tree)]
struct Model {
    w: Tensor,
    layers: Vec<Tensor>,
}

#[traced]
fn loss(model: &Model, x: &Tensor, #[nodiff] scale: &Tensor) -> Tensor {
    let h = (x * &model.w).tanh();
    let y = h * &model.layers[0] + &model.layers[1];
    (y * scale).square().sum(..)
}

#[traced]
fn power<T: Tree + Clone>(x: &T, w: &Tensor) -> Tensor {
    let _ = x;
    w.square().sum(..)
}

#[traced]
fn product(a: &Tensor, r#type: &Tensor) -> Tensor {
    (a * r#type).sum(..)
}

fn arguments() -> (Model, Tensor, Tensor) {
    let numbers = |a: f32| Tensor::from([a, 2.0 * a, -a]);
    let layers = vec![numbers(0.5), numbers(0.25)];
    let w = numbers(1.0);
    (Model { w, layers }, numbers(2.0), numbers(0.1))
}

/// Row S1.27 of the requirements.
#[test]
fn the_leaves_of_gradients_are_those_of_the_fields_in_order() {
    let (model, x, scale) = arguments();
    let grads = loss::grad(&model, &x, &scale);
    let mut paths = Vec::new();
    grads.paths("grads", &mut paths);
    assert_eq!(
        paths,
        [
            "grads.model.w",
            "grads.model.layers[0]",
            "grads.model.layers[1]",
            "grads.x"
        ]
    );
    let mut n = 0;
    grads.visit(&mut |leaf| {
        n += 1;
        assert_eq!(leaf.shape(), [3]);
    });
    assert_eq!(n, 4);
}

#[test]
fn all_gradients_are_evaluated_and_scaled_as_one() {
    let (model, x, scale) = arguments();
    let (value, grads) = loss::value_and_grad(&model, &x, &scale);
    evaluate(&(value, grads)).unwrap();

    let mut grads = loss::grad(&model, &x, &scale);
    let halves = grads.map(&mut |g| g * 0.5);
    grads.visit_mut(&mut |g| *g = &*g * 0.5);
    assert_eq!(halves.x.to_vec::<f32>(), grads.x.to_vec::<f32>());
    let (a, b) = (&halves.model.layers[1], &grads.model.layers[1]);
    assert_eq!(a.to_vec::<f32>(), b.to_vec::<f32>());
}

#[test]
fn gradients_implement_clone_and_debug_if_their_fields_do() {
    let (a, b) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 4.0]));
    let grads = product::grad(&a, &b).clone();
    assert_eq!(
        format!("{grads:?}"),
        format!(
            "ProductGrads {{ a: {:?}, type: {:?} }}",
            grads.a, grads.r#type
        )
    );
    // `Model` is neither `Clone` nor `Debug`. That does not affect other gradients.
    let (model, x, scale) = arguments();
    let generic = power::grad(&(x.clone(), scale), &x).clone();
    assert_eq!(generic.w.to_vec::<f32>(), (&x * 2.0).to_vec::<f32>());
    drop(model);
}

#[test]
fn gradients_have_jacobians() {
    let (model, x, scale) = arguments();
    let j = jacfwd(|x: &Tensor| loss::grad(&model, x, &scale))(&x);
    let of_closure = grad(|(model, x): &(Model, Tensor)| loss(model, x, &scale));
    let expected = jacfwd(|x: &Tensor| of_closure(&(model.map(&mut Tensor::clone), x.clone())))(&x);
    tree::assert_close(j.row(|g| &g.x), &expected.1, 1e-6);
    tree::assert_close(
        j.row(|g| &g.model.layers[0]),
        expected.0.row(|model| &model.layers[0]),
        1e-6,
    );
}

#[traced]
fn slopes(x: &Tensor, y: &Tensor) -> Tensor {
    let (by_x, by_y) = jacrev(|(x, y): &(Tensor, Tensor)| x * y)(&(x.clone(), y.clone()));
    by_x.sum(0) + by_y.sum(0)
}

#[test]
fn traced_bodies_may_have_jacobians_of_tuples() {
    let x = Tensor::from([1.0f32, 2.0]);
    assert_eq!(slopes(&x, &(&x * 10.0)).to_vec::<f32>(), [11.0, 22.0]);
    assert_eq!(slopes(&x, &(&x * 10.0)).to_vec::<f32>(), [11.0, 22.0]);
}
