use gradloom::prelude::*;

#[traced]
fn f(
    #[shape(
        (A + B + C + D + E) * (A + B + C + D + E) * (A + B + C + D + E) * (A + B + C + D + E)
            * (A + B + C + D + E) * (A + B + C + D + E) * (A + B + C + D + E)
    )]
    x: &Tensor,
) -> Tensor {
    x.sin()
}

fn main() {}
