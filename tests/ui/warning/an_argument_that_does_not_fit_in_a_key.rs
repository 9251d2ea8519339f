#![deny(deprecated)]
use gradloom::prelude::*;

pub struct Schedule {
    pub rate: f64,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Mode {
    pub axis: usize,
}

#[traced]
fn scaled(x: &Tensor, #[fixed] by: &Schedule, #[fixed] mode: &Mode) -> Tensor {
    x.sum(mode.axis) * by.rate
}

fn main() {}
