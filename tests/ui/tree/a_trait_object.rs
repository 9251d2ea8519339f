use gradloom::prelude::*;

trait Layer {
    fn apply(&self, x: &Tensor) -> Tensor;
}

#[derive(Tree)]
struct Net {
    layers: Vec<Box<dyn Layer>>,
}

fn main() {}
