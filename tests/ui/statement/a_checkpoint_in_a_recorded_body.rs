use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, steps: usize) -> Tensor {
    let step = |h: &Tensor, i: usize| {
        if i == 0 {
            return h.sin();
        }
        h.tanh()
    };
    let mut h = x.clone();
    #[checkpoint(every = 10)]
    for i in 0..steps {
        h = step(&h, i);
    }
    h
}

fn main() {}
