use gradloom::prelude::*;

#[derive(Tree)]
struct Scale {
    by: Tensor,
}

fn back(x: &Tensor, _: &Tensor, ct: &Tensor) -> Tensor {
    x * ct
}

#[traced(vjp = back)]
impl Scale {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.by
    }
}

fn main() {}
