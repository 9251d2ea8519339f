use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn whole(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }

    fn half(&self, x: &Tensor) -> Tensor {
        let y = self.whole(x);
        y.
    }
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let linear = Linear { w: x.clone() };
    linear.whole_grad(x);
    let (y, pullback) = linear.half_vjp(x);
    pullback(&y);
}
