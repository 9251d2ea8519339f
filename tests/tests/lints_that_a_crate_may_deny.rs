#![deny(
    warnings,
    future_incompatible,
    nonstandard_style,
    rust_2018_idioms,
    rust_2021_compatibility,
    unused
)]
#![deny(
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    unused_results,
    unused_qualifications,
    single_use_lifetimes,
    unused_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    elided_lifetimes_in_paths,
    variant_size_differences,
    let_underscore_drop,
    explicit_outlives_requirements,
    redundant_lifetimes,
    unused_import_braces,
    unused_extern_crates,
    unreachable_pub,
    keyword_idents,
    macro_use_extern_crate,
    meta_variable_misuse,
    unit_bindings,
    non_shorthand_field_patterns,
    deprecated
)]
#![forbid(unsafe_code)]
#![allow(
    clippy::assign_op_pattern,
    clippy::multiple_bound_locations,
    reason = "users may write these forms"
)]
//! Every lint that a crate may deny.
use gradloom::prelude::*;
/// A tree.
#[derive(Clone, Debug, Tree)]
pub enum Layer {
    /// One.
    Lin {
        /// The weight.
        w: Tensor,
    },
    /// Two.
    Two(Tensor, Tensor),
}
/// A tree.
#[derive(Clone, Debug, Tree)]
pub struct Net {
    /// The layers.
    pub layers: Vec<Layer>,
    /// Rates.
    #[tree(skip)]
    pub rates: Vec<f32>,
}
#[traced]
impl Net {
    /// Runs.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = x.clone();
        for layer in &self.layers {
            h = match layer {
                Layer::Lin { w } => h * w,
                Layer::Two(a, b) => h * a * b,
            };
        }
        for r in &self.rates {
            if *r > 2.0 {
                continue;
            }
            h = h * *r;
        }
        h
    }
    fn private(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.forward(x);
        Ok(y.sum(..))
    }
}
/// Dense.
#[traced]
pub fn dense(x: &Tensor, w: &Tensor, net: &Net) -> Tensor {
    let h = net.forward(x);
    h.matmul(w).tanh().sum(..)
}
/// Generic.
#[traced]
pub fn generic<T: Tree, const N: usize>(x: &Tensor, _t: &T) -> Tensor
where
    T: Clone,
{
    let mut h = x.clone();
    for _ in 0..N {
        h = h.sin();
    }
    h
}
#[traced]
fn steps(x: &Tensor, n: usize) -> Tensor {
    let mut i = 0;
    let mut h = x.clone();
    while i < n {
        h = h.sin();
        i += 1;
        if i == 3 {
            break;
        }
    }
    h
}
#[allow(unused_results)]
fn main() {
    let x = Tensor::from([1.0f32, 2.0]);
    let net = Net {
        layers: vec![
            Layer::Lin { w: x.clone() },
            Layer::Two(x.clone(), x.clone()),
        ],
        rates: vec![1.0, 3.0],
    };
    dense::grad(&x, &x, &net);
    steps::saved(&x, 2);
    generic::saved::<_, 2>(&x, &net);
    net.private_saved(&x).unwrap();
}
