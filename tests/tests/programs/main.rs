//! Small real programs, written as a user writes them first: their results are right, and a step like one before neither records
//! nor plans.
#![allow(deprecated)] // some functions here are recorded on purpose

mod adaptive_ode;
mod batch_norm;
mod leapfrog;
mod maml;
mod newton;
mod pinn;
mod training_loop;
