use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in 0..3 {
        y = y.sin();
        if y.rank() == 0 {
            break 'outer;
        }
    }
    y
}

fn main() {}
