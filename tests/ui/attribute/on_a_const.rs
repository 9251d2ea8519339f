use gradloom::traced;

#[traced]
const N: usize = 2;

fn main() {}
