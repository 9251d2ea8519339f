#[gradloom::traced]
fn f(x: &gradloom::Tensor) -> gradloom::Tensor {
    x.tanh()
}

#[trace]
fn g(x: &gradloom::Tensor) -> gradloom::Tensor {
    x.tanh()
}

fn main() {}
