#![no_implicit_prelude]
#![deny(warnings)]
#![forbid(unsafe_code)]

use ::gradloom::{Tensor, Tree, traced};

#[derive(Tree)]
struct Net {
    layers: ::std::vec::Vec<Tensor>,
    #[tree(skip)]
    rates: ::std::vec::Vec<f32>,
}

#[traced(allow(recorded_call))]
fn loops(net: &Net, x: &Tensor, n: usize) -> Tensor {
    let mut h = ::std::clone::Clone::clone(x);
    for w in &net.layers {
        if w.rank() == 3 {
            continue;
        }
        h = h * w;
    }
    for rate in &net.rates {
        h = h * *rate;
    }
    let mut k = 0;
    while k < n {
        h = h.tanh();
        k += 1;
        if k == 5 {
            break;
        }
    }
    #[checkpoint(every = 2)]
    for _ in 0..n {
        h = h.sin();
    }
    h.sum(..)
}

#[traced]
fn exits(x: &Tensor, n: usize) -> ::gradloom::Result<Tensor> {
    if n == 0 {
        return ::std::result::Result::Ok(x.sum(..));
    }
    let y = match n {
        1 => x.sin(),
        2 | 3 => x.cos(),
        _ => x.exp(),
    };
    let z = inner(&y)?;
    ::std::result::Result::Ok(z.sum(..))
}

#[traced]
fn inner(x: &Tensor) -> ::gradloom::Result<Tensor> {
    ::std::result::Result::Ok(x * 2.0)
}

#[traced(record)]
fn recorded(x: &Tensor) -> Tensor {
    x.tanh()
}

#[::core::prelude::v1::test]
fn runs() {
    let x = &Tensor::scalar(1.0f32);
    let net = Net {
        layers: ::std::vec![x.sin(), x.cos()],
        rates: ::std::vec![0.5],
    };
    loops::grad(&net, x, 3);
    loops::jvp((&net, x, 3), (&net, x));
    for n in [0, 1, 2, 5] {
        exits::grad(x, n).unwrap();
        exits::jvp((x, n), x).unwrap();
    }
    recorded::grad(x);
}
