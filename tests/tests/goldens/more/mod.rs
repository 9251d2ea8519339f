//! More functions, for the cases of `tests/goldens/more`.

mod ad_semantics;
mod broadcasting;
mod control_flow;
mod conv_pool;
mod dtype;
mod elementwise_binary;
mod elementwise_unary;
mod indexing;
mod matmul;
mod models;
mod movement;
mod nn;
mod reduction;

use crate::function::Function;

/// Functions by family.
pub(crate) const FAMILIES: &[(&str, &[Function])] = &[
    ("more_ad_semantics", ad_semantics::FUNCTIONS),
    ("more_control_flow", control_flow::FUNCTIONS),
    ("more_conv_pool", conv_pool::FUNCTIONS),
    ("more_dtype", dtype::FUNCTIONS),
    ("more_matmul", matmul::FUNCTIONS),
    ("more_nn", nn::FUNCTIONS),
    ("more_broadcasting", broadcasting::FUNCTIONS),
    ("more_elementwise_binary", elementwise_binary::FUNCTIONS),
    ("more_elementwise_unary", elementwise_unary::FUNCTIONS),
    ("more_indexing", indexing::FUNCTIONS),
    ("more_models", models::FUNCTIONS),
    ("more_movement", movement::FUNCTIONS),
    ("more_reduction", reduction::FUNCTIONS),
];
