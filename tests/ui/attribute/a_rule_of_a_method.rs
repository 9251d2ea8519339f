use gradloom::prelude::*;

#[derive(Tree)]
struct Scale {
    by: Tensor,
}

fn back(x: &Tensor, _: &Tensor, ct: &Tensor) -> Tensor {
    x * ct
}

#[traced]
impl Scale {
    #[traced(vjp = back)]
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.by
    }
}

fn main() {}
