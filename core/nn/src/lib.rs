//! Layers: structs of tensors with traced methods.
//!
//! A layer is an ordinary struct that derives [`Tree`](gradloom::Tree), so its gradient is a layer of
//! the same type, and its methods are `#[traced]`, so their derivatives are made at compile time. State,
//! as the running statistics of [`BatchNorm`] or a [`KeyValueCache`], goes in and comes out as a value.
//!
//! ```
//! use gradloom::prelude::*;
//! use gradloom_nn::{Layer, Linear};
//!
//! #[derive(Clone, Tree)]
//! struct Net { first: Linear, last: Linear }
//!
//! #[traced]
//! impl Layer for Net {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         let h = self.first.forward(x).relu();
//!         self.last.forward(&h)
//!     }
//! }
//!
//! #[traced]
//! fn loss(net: &Net, #[nodiff] x: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
//!     net.forward(x).cross_entropy(labels)
//! }
//!
//! let [a, b] = Key::new(0).split_n();
//! let net = Net { first: Linear::new(a, 4, 8), last: Linear::new(b, 8, 3) };
//! let (x, labels) = (Tensor::ones([2, 4], DType::F32), Tensor::from([0i64, 2]));
//! let gradient: Net = loss::grad(&net, &x, &labels).net;
//! assert_eq!(gradient.last.weight.shape(), [3, 8]);
//! ```
//!
//! Fields have the names and the layout that PyTorch gives them, such as `weight` of shape `[outputs, inputs]`,
//! so that published weights load by path. New layers have the default dtype of the thread, `f32` unless
//! [`gradloom::defaults::set_dtype`] changes it.

mod activation;
mod attention;
mod blocks;
mod conv;
pub mod init;
mod layer;
mod linear;
mod norm;
mod recurrent;
mod transformer;

pub use activation::Activation;
pub use attention::{KeyValueCache, MultiHeadAttention};
pub use blocks::{Chain, Residual, Sequential};
pub use conv::{Conv, ConvTranspose, Windows};
pub use layer::Layer;
pub use linear::{Embedding, Linear};
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use recurrent::{Gru, Lstm, LstmState};
pub use transformer::{DecoderLayer, EncoderLayer, FeedForward, NormPlace};
