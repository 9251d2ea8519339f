use gradloom::prelude::*;

#[derive(Tree)]
struct Env {
    state: Tensor,
    key: Key,
}

#[traced]
fn f(env: &Env) -> Tensor {
    &env.state * env.key.normal([2], DType::F32)
}

fn main() {}
