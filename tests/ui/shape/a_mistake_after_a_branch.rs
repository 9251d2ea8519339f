use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3, 3)] w: &Tensor, #[shape(4, 5)] v: &Tensor, deep: bool) -> Tensor {
    let h = if deep { x.matmul(w) } else { x.sin() };
    h.matmul(v)
}

fn main() {}
