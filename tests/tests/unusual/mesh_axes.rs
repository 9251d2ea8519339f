//! Mesh axes in annotations change no type, and names may be keywords.
#![deny(warnings)]

use gradloom::prelude::*;

#[derive(Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    #[traced(returns(B@data, O@(model, _)))]
    fn call(&self, #[shape(B@data, _@())] x: &Tensor) -> Result<Tensor> {
        Ok(x.matmul(&self.w))
    }
}

#[traced(returns((2 * B@r#type), ()))]
fn pair(#[shape(2 * B@r#type)] x: Tensor) -> (Tensor, Tensor) {
    if x.dim(0) == 0 {
        return (x.clone(), x.sum(..));
    }
    (x.sin(), x.sum(..))
}

#[test]
fn runs() {
    let layer = Layer {
        w: Tensor::ones([3, 4], DType::F32),
    };
    let x = Tensor::ones([2, 3], DType::F32);
    assert_eq!(layer.call(&x).unwrap().shape(), [2, 4]);
    assert_eq!(pair(Tensor::ones([4], DType::F32)).0.shape(), [4]);
    let (y, _) = pair::vjp(Tensor::ones([4], DType::F32));
    assert_eq!(y.1.item::<f32>(), 4.0);
}
