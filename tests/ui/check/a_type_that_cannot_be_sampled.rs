use gradloom::prelude::*;
use gradloom::testing::{Sample, Source};

#[derive(Tree)]
struct Mlp {
    layers: Vec<Tensor>,
}

fn main() {
    let _ = Option::<Mlp>::sample(&mut Source::new(0));
}
