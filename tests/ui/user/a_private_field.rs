use gradloom::prelude::*;

mod net {
    use gradloom::prelude::*;

    #[derive(Tree)]
    pub struct Linear {
        w: Tensor,
    }
}

#[traced]
fn f(linear: &net::Linear, x: &Tensor) -> Tensor {
    x * &linear.w
}

fn main() {}
