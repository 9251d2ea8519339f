//! Annotations in unusual places.

#![no_implicit_prelude]
#![deny(warnings, unused_results, clippy::all)]
#![forbid(unsafe_code)]

use ::gradloom::{DType, Result, Tensor, Tree, traced};
use ::std::clone::Clone;
use ::std::convert::From;
use ::std::result::Result::{Err, Ok};
use ::std::string::ToString;
use ::std::{assert, assert_eq};

/// Arguments by value, one of which is assigned to.
#[traced(returns((f32; B, 3), (B)))]
fn by_value(#[shape(f32; B, 3)] mut x: Tensor, #[shape(_, 3)] y: Tensor) -> (Tensor, Tensor) {
    x += &y;
    let lengths = x.sum(1);
    (x, lengths)
}

/// A return from the middle, an error of the caller's own, and `?`.
#[traced(returns(B))]
fn early(#[shape(B, C)] x: &Tensor, #[shape(D)] y: &Tensor, n: i64) -> Result<Tensor> {
    if n == 0 {
        return Ok(y.clone());
    }
    let mut h = inner(x)?;
    for _ in 0..n {
        h = h.sin();
    }
    Ok(h)
}

#[traced(returns(_))]
fn inner(#[shape(B, C)] x: &Tensor) -> Result<Tensor> {
    Ok(x.sum(1))
}

/// The user's own `#[track_caller]`, raw names, and a dim that is called as something else.
#[traced(returns(x))]
#[track_caller]
fn r#match(#[shape(x, r#type)] x: &Tensor, #[shape(r#type)] r#type: &Tensor) -> Tensor {
    let lengths = x.matmul(r#type);
    lengths
}

#[derive(Clone, Tree)]
struct Pair<M: Tree + Clone> {
    inner: M,
    w: Tensor,
}

#[traced]
impl<M: Tree + Clone> Pair<M> {
    #[traced(returns(B, _))]
    fn forward<const N: usize>(&self, #[shape(B, I)] x: &Tensor) -> Tensor {
        let y = x.matmul(&self.w);
        y * (N as f32)
    }

    fn plain(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

mod deep {
    use super::{Tensor, traced};

    /// A rank that nobody knows, with a dtype.
    #[traced(returns(f64; ..))]
    pub(super) fn any(#[shape(f64; ..)] x: &Tensor) -> Tensor {
        x.square()
    }
}

#[::core::prelude::v1::test]
fn runs() {
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let (a, b) = by_value(x.clone(), x.clone());
    assert_eq!((a.shape(), b.shape()), (&[2, 3][..], &[2][..]));
    let (_, pullback) = by_value::vjp(x.clone(), x.clone());
    let (ct, _) = pullback(&(a, b));
    assert_eq!(ct.shape(), [2, 3]);

    let y = Tensor::from([1.0f32, 2.0, 3.0]);
    assert_eq!(early(&x, &y, 2).unwrap().shape(), [2]);
    let said = "`early`: `B` is 2 in axis 0 of `x`, and 3 in axis 0 of the result";
    for result in [
        early(&x, &y, 0),
        early::vjp(&x, &y, 0).map(|(y, _)| y),
        early::saved(&x, &y, 0).map(|(y, _)| y),
        early::jvp((&x, &y, 0), (&x, &y)).map(|(y, _)| y),
    ] {
        match result {
            Ok(y) => assert_eq!(y.shape(), [0]),
            Err(error) => assert_eq!(error.to_string(), said),
        }
    }

    assert_eq!(r#match(&x, &y).shape(), [2]);
    let pair = Pair {
        inner: (x.clone(), y.clone()),
        w: Tensor::from([[1.0f32], [2.0], [3.0]]),
    };
    assert_eq!(pair.forward::<2>(&x).shape(), [2, 1]);
    assert!(pair.plain(&pair.w).shape() == [3, 1]);
    assert_eq!(pair.inner.1.shape(), [3]);
    assert_eq!(deep::any(&x.cast(DType::F64)).dtype(), DType::F64);
    let any = deep::any::grad(&Tensor::from(2.0f64));
    assert_eq!(any.x.to_vec::<f64>(), [4.0]);
}
