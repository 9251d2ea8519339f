//! Custom functions, kernels of the user, and parameters with backward passes: rows S4.1 to S4.42.

mod contexts;
mod errors;
mod functions;
mod kernels;
mod lifecycle;
mod params;
mod threads;
mod traced;
mod training;
