use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
}

#[traced(returns(B, 3))]
fn f(#[shape(B, 3)] x: &Tensor) -> State {
    State { h: x.sin() }
}

fn main() {}
