use gradloom::prelude::*;

#[traced]
trait Env {
    fn reward(&self, x: &Tensor) -> Tensor;
}

#[traced]
fn total<E: Env>(env: &E, x: &Tensor) -> Tensor {
    env.reward(x).sum(..)
}

fn main() {}
