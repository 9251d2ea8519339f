use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Net {
    w: Tensor,
}

#[traced(order = 2)]
impl Net {
    fn both(&self, x: &Tensor) -> (Tensor, Tensor) {
        (x * &self.w, x + &self.w)
    }
}

fn main() {
    let net = Net { w: Tensor::scalar(1.0f32) };
    net.both(&net.w);
}
