//! The op table, the program IR and the differentiator. The macro runs this at compile time, the run time at
//! run time; nothing here knows of syntax, tensors, devices or threads.
//!
//! A [`Program`] is a straight-line function in A-normal form: parameters, equations `outs = op[statics] args`,
//! results. Each [`Var`] is bound once. Tensors are operands; axes, shapes and numbers are *statics*, entries
//! of a table beside the program that holds values where they are known and host expressions where not.
//! What is known of a variable without its value is its [`Aval`]: dtype and shape, each as far as known.
//!
//! Reading order: [`aval`], [`poly`], [`program`], [`builder`], [`op`], [`ad`], [`pass`], [`flow`], [`cost`], [`text`], [`mod@verify`].

pub mod ad;
pub mod aval;
pub mod builder;
pub mod cost;
mod entity;
mod fault;
pub mod flow;
pub mod hash;
pub mod op;
pub mod pass;
pub mod poly;
pub mod program;
mod statics;
pub mod text;
pub mod verify;

#[doc(hidden)]
pub use aval::hold_interned;
pub use aval::{Aval, DType, Dim, DimPoly, Shape, Symbol};
pub use builder::Builder;
pub use cost::Cost;
pub use entity::{Attr, Entity, SecondaryMap, Var};
pub use fault::{Fault, OpError};
pub use op::shape::MAX_RANK;
pub use op::{Kernel, Op};
pub use poly::Poly;
pub use program::{Eqn, Keep, Program};
pub use statics::Static;
pub use verify::verify;
