use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn new(w: Tensor) -> Linear {
        Linear { w }
    }
}

fn main() {
    drop(Linear::new(Tensor::scalar(1.0f32)).w);
}
