use gradloom::prelude::*;

#[traced]
fn f(#[shape(f32; B)] x: &Tensor, #[nodiff] #[shape(i64; B)] n: &Tensor) -> Tensor {
    x * n
}

#[traced]
fn g(#[shape(f32; B)] x: &Tensor, #[nodiff] #[shape(i32; B)] n: &Tensor) -> Tensor {
    let doubled = n * 2;
    n.gt(0).select(doubled, x)
}

fn main() {}
