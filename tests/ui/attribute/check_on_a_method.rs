use gradloom::prelude::*;

#[derive(Tree)]
struct Scale {
    w: Tensor,
}

#[traced]
impl Scale {
    #[traced(check)]
    fn scaled(&self, #[shape(B)] x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {}
