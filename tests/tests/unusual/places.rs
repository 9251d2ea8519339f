#![deny(warnings)]

use gradloom::prelude::*;

mod one {
    use gradloom::prelude::*;

    #[traced]
    pub fn f(x: &Tensor) -> Tensor {
        x.sin()
    }
}

mod two {
    use gradloom::prelude::*;

    #[traced]
    pub(crate) fn f(x: &Tensor) -> Tensor {
        super::one::f(x).cos()
    }
}

#[test]
fn runs() {
    #[traced]
    fn f(x: &Tensor) -> Tensor {
        one::f(x) + two::f(x)
    }

    let x = Tensor::scalar(0.5f32);
    let (dy_dx, one, two) = (f::grad(&x), one::f::grad(&x), two::f::grad(&x));
    let [dy_dx, one, two] = [dy_dx.x, one.x, two.x].map(|g| g.item::<f32>());
    assert!((dy_dx - one - two).abs() < 1e-6);
    assert_ne!(one::f::HASH, two::f::HASH);
}
