//! Determines the derivatives that a function needs.

mod costs;
mod wrt;

pub(crate) use costs::{Costs, residual_vars};
pub(crate) use wrt::{Wrt, asked_for};

use crate::program::LoweredProgram;
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, pass};

/// Returns the programs derived from a function, each with a name, for `GRADLOOM_DUMP`.
pub(crate) fn programs(low: &LoweredProgram) -> Vec<(&'static str, Program)> {
    let wrt = Wrt::public().vars(low);
    let vjp = ad::vjp(&low.program, &wrt);
    let jvp = pass::dce(pass::cse(ad::jvp(&low.program, &wrt, Calls::Joint).program));
    vec![
        ("lowered", low.program.clone()),
        ("cse, dce", pass::cse(pass::dce(low.program.clone()))),
        ("jvp", jvp),
        ("vjp: primal", vjp.primal),
        ("vjp: pullback", vjp.pullback),
    ]
}
