//! Lowering of programs to tasks.
//!
//! A backend turns an op on [views](Place) into tasks, which it adds to a [`Build`]. The planner
//! knows tasks only, so another backend would stand beside [`cpu`].

mod builder;
pub(crate) mod cpu;
mod view;

pub(crate) use builder::{Build, Draft, Eqns, Kind, Member, Part, Root, What, Work};
pub(crate) use view::Place;
