//! Classes of ops: most ops are values of one, which implements `OpDef` for it.

mod bilinear;
mod elementwise;
mod factorization;
mod jacobian;
mod linear;
mod many;
mod nonlinear;
mod update;

pub use bilinear::Bilinear;
pub(super) use bilinear::{bilinear, same_numbers};
pub use elementwise::{Binary, BinaryRule, BinaryTranspose, Bits, Compare, Test, Unary, UnaryRule};
pub use factorization::Factorization;
pub(super) use factorization::square;
pub use jacobian::Jacobian;
pub(super) use jacobian::same_along_axis;
pub use linear::Linear;
pub(super) use linear::linear_tangents;
pub use many::{Many, ManyRule};
pub use nonlinear::{InferRule, Nonlinear, NonlinearRule};
pub use update::Update;
