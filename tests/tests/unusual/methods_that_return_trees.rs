//! A method whose result is written without `Tensor` is traced where it says so, and stays alone otherwise.

use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    fn new(w: Tensor) -> Layer {
        Layer { w }
    }

    #[traced]
    fn scaled(&self, by: &Tensor) -> Self {
        Layer { w: &self.w * by }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

#[test]
fn runs() {
    let layer = Layer::new(Tensor::scalar(3.0f64));
    let (scaled, pullback) = layer.scaled_vjp(&Tensor::scalar(2.0f64));
    assert_eq!(scaled.w.item::<f64>(), 6.0);
    let (ct_layer, ct_by) = pullback(&Layer::new(Tensor::scalar(1.0f64)));
    assert_eq!((ct_layer.w.item::<f64>(), ct_by.item::<f64>()), (2.0, 3.0));
    assert_eq!(scaled.forward(&Tensor::scalar(0.5f64)).item::<f64>(), 3.0);
}
