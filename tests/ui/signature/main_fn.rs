use gradloom::prelude::*;

#[traced]
fn main() {}

