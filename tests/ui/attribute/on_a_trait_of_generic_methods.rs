use gradloom::prelude::*;

#[traced]
trait Layer {
    fn apply<T: Tree>(&self, scale: &T, x: &Tensor) -> Tensor;
}

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Layer for Linear {
    fn apply<T: Tree>(&self, _scale: &T, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

fn main() {}
