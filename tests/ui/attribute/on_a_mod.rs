use gradloom::traced;

#[traced]
mod m {}

fn main() {}
