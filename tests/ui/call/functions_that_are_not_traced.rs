use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Halves {
    left: Tensor,
    right: Tensor,
}

fn halves(x: &Tensor) -> Halves {
    Halves {
        left: x * 0.5,
        right: x * 0.5,
    }
}

fn checked(halves: &Halves, _steps: usize) -> gradloom::Result<(Halves, Tensor)> {
    Ok((halves.clone(), halves.left.clone()))
}

#[traced]
fn f(x: &Tensor) -> gradloom::Result<Tensor> {
    let parts = halves(x);
    let (parts, left) = checked(&parts, 2)?;
    Ok(&parts.right * left)
}

fn main() {}
