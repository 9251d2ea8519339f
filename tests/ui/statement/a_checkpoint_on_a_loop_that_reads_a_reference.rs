use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Model {
    layers: Vec<Layer>,
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
fn f(model: &Model, x: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    for layer in &model.layers {
        #[checkpoint(every = 10)]
        for _ in 0..steps {
            h = h.matmul(&layer.w).tanh();
        }
    }
    h
}

fn main() {}
