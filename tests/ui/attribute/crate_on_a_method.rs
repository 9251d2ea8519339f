use gradloom::prelude::*;

#[derive(Tree)]
struct Scale {
    w: Tensor,
}

#[traced]
impl Scale {
    #[traced(crate = gradloom)]
    fn scaled(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {}
