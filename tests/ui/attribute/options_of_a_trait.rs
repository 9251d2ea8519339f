use gradloom::prelude::*;

#[traced(returns(B))]
trait Activation {
    fn apply(&self, x: &Tensor) -> Tensor;

    fn twice(&self, #[shape(B)] x: &Tensor) -> Tensor {
        self.apply(&self.apply(x))
    }
}

fn main() {}
