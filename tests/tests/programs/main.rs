//! Small realistic programs, in the form that users write first. Their results are right, and a
//! repeated step neither records nor plans.
#![allow(deprecated)] // some functions here are recorded on purpose
// Written as users write first.
#![allow(
    clippy::assign_op_pattern,
    clippy::needless_borrows_for_generic_args,
    clippy::needless_range_loop
)]

mod actor_critic;
mod adaptive_ode;
mod batch_norm;
mod black_scholes;
mod cartpole;
mod char_gpt;
mod cnn;
mod contacts;
mod decoder;
mod experts;
mod gaussian_mixture;
mod gaussian_process;
mod graph_network;
mod hmc;
mod hyperparameters;
mod kalman;
mod logistic_newton;
mod maml;
mod meta_learning;
mod model_kit;
mod neural_ode;
mod newton;
mod own_adam;
mod per_example_gradients;
mod pinn;
mod recurrent;
mod renderer;
mod robot_arm;
mod training_loop;
mod transformer;
mod vae;
