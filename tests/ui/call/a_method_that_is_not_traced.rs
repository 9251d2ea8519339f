use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

impl Linear {
    fn plain(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

#[traced]
fn f(x: &Tensor, linear: &Linear) -> Tensor {
    linear.plain(x).sin()
}

fn main() {
    let w = Tensor::scalar(1.0f32);
    f(&w, &Linear { w: w.clone() });
}
