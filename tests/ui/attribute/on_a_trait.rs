use gradloom::prelude::*;

#[traced]
trait T {
    fn f(&self) -> f64;
}

fn main() {}
