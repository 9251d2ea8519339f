use gradloom::prelude::*;

use std::rc::Rc;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn scaled(self: Rc<Self>, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {
    let w = Tensor::scalar(1.0f32);
    Rc::new(Linear { w: w.clone() }).scaled(&w);
}
