#![no_implicit_prelude]
#![deny(warnings)]
#![forbid(unsafe_code)]
#![allow(non_camel_case_types)]

use ::gradloom::{Tensor, Tree, traced};

/// The names of what the expansion uses are the user's.
#[derive(::std::clone::Clone, Tree)]
pub struct Model<T: Tree> {
    pub given: T,
    pub change: Tensor,
}

#[traced(order = 2)]
pub fn gradient(
    tangents: &Tensor,
    tree: (Tensor, Tensor),
    mut change: Tensor,
    #[nodiff] cotangents: Tensor,
    copies: i64,
) -> Tensor {
    let (d_tangents, y) = tree;
    let given = tangents * &d_tangents;
    change = change * y + given;
    (change * cotangents).square().sum(copies)
}

#[traced(order = 2)]
impl<T: Tree> Model<T> {
    pub fn pull(&self, tree: Tensor, names: &[&str]) -> ::gradloom::Result<Tensor> {
        let gradient = &self.change;
        let mut y = gradient * tree;
        for _ in names {
            y = y.sin();
        }
        ::std::result::Result::Ok(y.sum(..))
    }

    #[traced(order = 1)]
    pub fn fwd(&self, x: &Tensor) -> Tensor {
        (x * &self.change).sum(..)
    }

    #[cfg(any())]
    pub fn gone(&self) -> Tensor {
        self.change.exp()
    }

    fn __hidden(self, d_self: &Tensor) -> Tensor {
        (self.change / d_self).sum(..)
    }
}

#[traced(order = 2, allow(recorded_call))]
fn r#type(r#fn: &Tensor, [a, b]: [Tensor; 2]) -> Tensor {
    (r#fn * a / b).sum(..)
}

#[::core::prelude::v1::test]
fn runs() {
    use ::std::clone::Clone as _;
    use ::std::convert::From as _;
    let x = Tensor::from([1.0f64, 2.0]);
    let pair = || (x.clone(), x.clone());
    let (first, second) = gradient::hvp((&x, pair(), x.clone(), x.clone(), 0), (&x, &pair(), &x));
    ::std::assert_eq!(first.change.shape(), [2]);
    ::std::assert_eq!(second.tree.1.shape(), [2]);

    let model = Model {
        given: pair(),
        change: x.clone(),
    };
    let found = model.pull_hvp((x.clone(), &["a", "b"]), (&model, &x));
    let (first, second) = ::std::result::Result::unwrap(found);
    ::std::assert_eq!(first.this.change.shape(), [2]);
    ::std::assert_eq!(second.this.given.0.to_vec::<f64>(), [0.0, 0.0]);
    model.fwd(&x);
    let (_, second) = model.clone().__hidden_hvp(&x, (&model, &x));
    ::std::assert_eq!(second.this.change.shape(), [2]);
    let (_, second) = r#type::hvp((&x, [x.clone(), x.clone()]), (&x, &[x.clone(), x.clone()]));
    ::std::assert_eq!(second.r#fn.shape(), [2]);
}
