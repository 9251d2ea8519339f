//! The op table, the program IR and automatic differentiation.
//!
//! The macro uses this crate at compile time and the runtime uses it at run time. The crate does
//! not depend on syntax trees, tensors, devices or threads.
//!
//! A [`Program`] is a straight-line function in A-normal form: parameters, equations `outs =
//! op[statics] args` and results. Each [`Var`] is bound once. Tensors are operands. Axes, shapes
//! and numbers are *statics*: entries of a table stored with the program. An entry is a value if it
//! is known, and a host expression if it is not. An [`Aval`] holds the known part of a variable's
//! dtype and shape.
//!
//! Reading order: [`aval`], [`poly`], [`program`], [`builder`], [`op`], [`ad`], [`pass`], [`flow`],
//! [`cost`], [`text`], [`mod@verify`], [`sharding`], [`spmd`].

pub mod ad;
pub mod aval;
pub mod batch;
pub mod builder;
pub mod composites;
pub mod cost;
pub mod einsum;
mod entity;
mod fault;
pub mod flow;
pub mod hash;
pub mod indexing;
pub mod mesh;
pub mod op;
mod ops;
pub mod pass;
pub mod poly;
pub mod program;
pub mod sharding;
mod short_list;
pub mod spmd;
mod symbol;
pub mod text;
pub mod verify;

#[doc(hidden)]
pub use aval::hold_interned;
pub use aval::{Aval, DType, Dim, DimPoly, Dims, MAX_RANK, Shape};
pub use builder::Builder;
pub use composites::Composite;
pub use cost::Cost;
pub use entity::{Attr, Entity, SecondaryMap, Var};
pub use fault::{Fault, OpError};
pub use ops::{Kernel, Op};
pub use poly::Poly;
pub use program::{
    Code, Eqn, HostCode, Ids, Line, Program, Programs, RematHint, Static, StaticArg, StaticKind,
};
pub use short_list::ShortList;
pub use symbol::Symbol;
pub use verify::verify;
