use gradloom::prelude::*;

#[traced]
use std::fmt;

fn main() {}
