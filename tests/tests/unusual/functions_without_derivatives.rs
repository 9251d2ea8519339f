#![deny(warnings)]

use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Model {
    w: Tensor,
}

#[traced]
impl Model {
    fn logits(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w)
    }

    fn right(#[nodiff] &self, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
        self.logits(x).argmax(-1).eq(labels)
    }
}

#[traced]
fn accuracy(#[nodiff] model: &Model, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    model.right(x, labels).mean(..)
}

#[traced]
fn energy(#[nodiff] model: &Model, #[nodiff] x: &Tensor) -> Tensor {
    model.logits(x).square().sum(..)
}

#[traced]
fn parts(#[nodiff] model: Model, #[nodiff] x: Tensor) -> (Tensor, Model) {
    (model.logits(&x), model.clone())
}

#[traced]
fn iterated(#[nodiff] x: &Tensor, n: usize) -> gradloom::Result<Tensor> {
    let mut y = x.clone();
    for _ in 0..n {
        y = y * x;
    }
    Ok(y.sum(..))
}

#[traced]
fn of_any_tree<T: Tree>(#[nodiff] _tree: &T, #[nodiff] x: &Tensor) -> Tensor {
    x.sum(..)
}

#[traced(record, pure)]
fn recorded(#[nodiff] x: &Tensor) -> Tensor {
    (x * x).sum(..)
}

// A gradient that a caller computes goes through the calls.
#[traced]
fn caller(model: &Model, x: &Tensor) -> Tensor {
    energy(model, x) + recorded(x) + iterated(x, 1).unwrap()
}

#[test]
fn runs() {
    assert_eq!([accuracy::RECORDED, Model::RIGHT_RECORDED], [None; 2]);
    assert_eq!([energy::RECORDED, caller::RECORDED], [None; 2]);
    assert!(accuracy::PROGRAM.contains("mean["), "{}", accuracy::PROGRAM);
    let model = Model {
        w: Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]),
    };
    let x = Tensor::from([[1.0f32, 2.0], [4.0, 3.0]]);
    let labels = Tensor::from([1i64, 1]);
    for _ in 0..2 {
        assert_eq!(accuracy(&model, &x, &labels).item::<f64>(), 0.5);
        let gradients = caller::grad(&model, &x);
        assert_eq!(gradients.x.to_vec::<f32>(), [6.0, 12.0, 24.0, 18.0]);
        let w = gradients.model.w.to_vec::<f32>();
        assert_eq!(w, [34.0, 28.0, 28.0, 26.0]);
        assert_eq!(
            parts(model.clone(), x.clone()).0.to_vec::<f32>(),
            x.to_vec::<f32>()
        );
        assert_eq!(of_any_tree(&model, &x).item::<f32>(), 10.0);
    }
    let closure = grad(|model: &Model| energy(model, &x));
    assert_eq!(closure(&model).w.to_vec::<f32>(), [34.0, 28.0, 28.0, 26.0]);
    let axes = (None, Some(0), Some(0));
    let each = accuracy::vmap(axes, &model, &x.reshape((2, 1, 2)), &labels.reshape((2, 1)));
    assert_eq!(each.to_vec::<f64>(), [1.0, 0.0]);
}
