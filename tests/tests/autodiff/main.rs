//! Derivatives: companions, transforms, trees of gradients, orders above one.

mod agree;
mod checked;
mod frozen;
mod gradients_are_trees;
mod jacobians;
mod kept_derivatives;
mod losses;
mod nodiff;
mod panic_lines;
mod pullbacks;
mod random;
mod second_order;
mod testing;
mod tree_arithmetic;
