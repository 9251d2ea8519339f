use gradloom::prelude::*;

#[traced]
fn dense(x: &Tensor, w: &Tensor, n: usize) -> Tensor {
    x.matmul(w) * n as f64
}

fn main() {
    let (x, w) = (&Tensor::scalar(1.0), &Tensor::scalar(1.0));
    dense::vmap("x", x, w, 2);
    dense::vmap((0, None, 2), (x, w));
}
