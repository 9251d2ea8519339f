#![deny(deprecated)]
use gradloom::prelude::*;

trait Activation {
    fn apply(&self, x: &Tensor) -> Tensor;
    fn at(x: &Tensor) -> Tensor;
}

#[traced]
fn of_a_value<A: Activation + Tree>(activation: &A, x: &Tensor) -> Tensor {
    activation.apply(x)
}

#[traced]
fn of_a_type<A: Activation>(x: &Tensor) -> Tensor {
    A::at(x)
}

#[traced]
fn of_an_object(activation: &dyn Activation2, x: &Tensor) -> Tensor {
    activation.apply(x)
}

#[traced]
trait Activation2 {
    fn apply(&self, x: &Tensor) -> Tensor;
}

fn main() {}
