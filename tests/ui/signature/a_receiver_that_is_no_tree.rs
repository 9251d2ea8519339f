use gradloom::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Camera {
    width: usize,
}

#[traced]
impl Camera {
    fn scale(&self, x: &Tensor) -> Tensor {
        x * self.width as f64
    }

    fn shift(&self, x: &Tensor) -> Tensor {
        x + self.width as f64
    }
}

fn main() {
    let camera = Camera { width: 2 };
    camera.shift(&camera.scale(&Tensor::scalar(1.0f64)));
}
