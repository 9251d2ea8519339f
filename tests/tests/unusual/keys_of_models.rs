#![deny(warnings)]

use gradloom::prelude::*;

#[derive(Tree)]
struct Model {
    w: Tensor,
    key: Key,
}

#[traced]
fn dropped(model: &Model, x: &Tensor) -> Tensor {
    (x * &model.w).dropout(0.5, model.key.duplicate()).sum(..)
}

#[traced]
fn folded(model: &Model, x: &Tensor) -> Tensor {
    let key = model.key.duplicate().fold_in(3);
    (x * &model.w).dropout(0.5, key).sum(..)
}

#[traced]
impl Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        (x * &self.w).dropout(0.5, self.key.duplicate()).sum(..)
    }

    fn split(&self, x: &Tensor) -> Tensor {
        let (mask, noise) = self.key.duplicate().split();
        let y = (x * &self.w).dropout(0.5, mask);
        (y + noise.normal([8], DType::F32)).sum(..)
    }

    fn own_key(&self) -> Key {
        self.key.duplicate()
    }
}

#[traced]
fn of_a_method(model: &Model, x: &Tensor) -> Tensor {
    (x * &model.w).dropout(0.5, model.own_key()).sum(..)
}

#[test]
fn runs() {
    assert_eq!(
        [dropped::RECORDED, folded::RECORDED, of_a_method::RECORDED],
        [None; 3]
    );
    assert_eq!([Model::FORWARD_RECORDED, Model::SPLIT_RECORDED], [None; 2]);
    let x = Tensor::ones([8], DType::F32);
    let mut sums = Vec::new();
    for seed in [1, 2, 1] {
        let model = Model {
            w: Tensor::ones([8], DType::F32),
            key: Key::new(seed),
        };
        let want = x.dropout(0.5, Key::new(seed)).to_vec::<f32>();
        assert_eq!(dropped::grad(&model, &x).x.to_vec::<f32>(), want);
        assert_eq!(of_a_method::grad(&model, &x).x.to_vec::<f32>(), want);
        assert_eq!(model.forward_grad(&x).x.to_vec::<f32>(), want);
        let key = Key::new(seed).fold_in(3);
        let want = x.dropout(0.5, key).to_vec::<f32>();
        assert_eq!(folded::grad(&model, &x).x.to_vec::<f32>(), want);
        sums.push(model.split(&x).item::<f32>());
    }
    assert_eq!(sums[0], sums[2]);
    assert_ne!(sums[0], sums[1]);
}
