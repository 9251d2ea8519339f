use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
}

#[traced]
fn f(x: &Tensor, steps: usize) -> Tensor {
    let mut state = State { h: x.clone() };
    #[checkpoint(every = 10)]
    for _ in 0..steps {
        state.h = state.h.tanh();
    }
    state.h
}

fn main() {}
