use gradloom::prelude::*;

mod net {
    use gradloom::prelude::*;

    #[traced]
    fn dense(x: &Tensor) -> Tensor {
        x.tanh()
    }
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    net::dense::grad(x);
}
