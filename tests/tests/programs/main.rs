//! Small realistic programs, in the form that users write first. Their results are right, and a
//! repeated step neither records nor plans.
#![allow(deprecated)] // some functions here are recorded on purpose

mod adaptive_ode;
mod batch_norm;
mod leapfrog;
mod maml;
mod newton;
mod pinn;
mod training_loop;
mod transformer;
