use gradloom::prelude::*;

#[traced(returns(f64; B))]
fn f(#[shape(f32; B, 3)] x: &Tensor) -> gradloom::Result<Tensor> {
    Ok(x.sum(1))
}

fn main() {}
