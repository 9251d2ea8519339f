//! Helpers that plan programs and run them on views.

use crate::Aval;
use crate::backend::cpu::tests::cases::case;
use crate::backend::cpu::tests::view::View;
use crate::plan::{Donations, Plan};
use gradloom_ir::{Program, pass};
use gradloom_kernels::KernelFault;
use gradloom_kernels::task::Leaf;

/// Runs a program of one op with one result.
pub(super) fn run_one(text: &str, args: &[View]) -> Result<View, KernelFault> {
    run(&case(text).program, args).map(|mut outs| outs.remove(0))
}

pub(super) fn run(program: &Program, args: &[View]) -> Result<Vec<View>, KernelFault> {
    let leaves: Vec<_> = args.iter().map(|x| Leaf::Held(&x.buffer)).collect();
    let mut outs = Vec::new();
    plan(program, args)
        .try_run(&leaves, &mut Donations::new(), &mut outs, |_| ())
        .map_err(|(_, fault)| fault)?;
    let views = outs.into_iter().flatten().zip(&program.outs);
    Ok(views
        .map(|(buffer, out)| View::of(buffer, Aval::from_ir(program.aval(*out)).shape()))
        .collect())
}

pub(super) fn plan(program: &Program, args: &[View]) -> Plan {
    let leaves = args.iter().map(|x| (x.buffer.len(), x.layout.clone()));
    Plan::of(&pass::to_plan(program.clone()), &leaves.collect::<Vec<_>>())
}
