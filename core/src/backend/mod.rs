//! Lowering of programs to tasks.
//!
//! A backend turns an op on [views](View) into tasks, which it adds to a [`TaskBuilder`]. The planner
//! knows tasks only, so another backend would stand beside [`cpu`].

mod builder;
pub(crate) mod cpu;
pub(crate) mod host_kernel;
mod view;

pub(crate) use builder::{
    BodyKinds, Eqns, InPlace, Member, Roots, Slice, Slices, Storage, StorageKind, TaskBuilder,
    TaskDraft, TaskKind, TaskWork,
};
pub(crate) use host_kernel::HostKernel;
pub(crate) use view::{Operand, View};
