use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Net {
    w: Tensor,
}

#[traced]
impl Net {
    fn doubled(&self) -> Tensor {
        &self.w * 2.0
    }
}

#[traced]
fn f(net: &Net, x: &Tensor) -> Tensor {
    let scale: f64 = net.doubled();
    x * scale
}

fn main() {}
