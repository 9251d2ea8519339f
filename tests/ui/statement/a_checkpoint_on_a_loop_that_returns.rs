use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    #[checkpoint(every = 10)]
    for i in 0..steps {
        h = h.tanh();
        if i == 100 {
            return h;
        }
    }
    h.sin()
}

fn main() {}
