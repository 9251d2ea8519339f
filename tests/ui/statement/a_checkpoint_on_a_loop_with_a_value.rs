use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, steps: usize) -> Tensor {
    let mut h = x.clone();
    let mut i = 0;
    #[checkpoint(every = 10)]
    loop {
        h = h.tanh();
        i += 1;
        if i == steps {
            break h.sin();
        }
    }
}

fn main() {}
