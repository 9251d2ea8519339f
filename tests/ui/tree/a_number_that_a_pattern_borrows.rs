use gradloom::prelude::*;

#[derive(Clone, Tree)]
enum Schedule {
    Warmup {
        #[tree(skip)]
        peak: f64,
    },
}

#[traced]
fn rate(schedule: &Schedule, step: &Tensor) -> Tensor {
    match schedule {
        Schedule::Warmup { peak } => step.cos() * (0.5 * peak),
    }
}

fn main() {
    rate(&Schedule::Warmup { peak: 1.0 }, &Tensor::scalar(1.0f64));
}
