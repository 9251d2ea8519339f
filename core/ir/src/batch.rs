//! Batching: a program for one value becomes a program for many, its *lanes*, at once.

use crate::op::{Lane, apply};
use crate::{Aval, Builder, Dim, Op, Program, Shape};

/// A program on all lanes of a batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The program. A value that differs between lanes has them along its first axis.
    pub program: Program,
    /// For each result, true if it differs between lanes. Lanes share the others.
    pub each: Vec<bool>,
}

/// Transforms a program for one lane to one for `len` lanes.
///
/// `each` tells for each parameter whether it differs between lanes.
///
/// # Errors
///
/// The op of an equation that cannot be applied to a batch, or not with what is known of its shapes.
pub fn batch(program: &Program, each: &[bool], len: usize) -> Result<Batch, Op> {
    let mut b = Builder::new();
    let args: Vec<Lane> = program
        .params
        .iter()
        .zip(each)
        .map(|(param, each)| {
            let mut aval: Aval = program.aval(*param).clone();
            if *each {
                let lens = aval.shape.dims().unwrap_or_default().iter().copied();
                aval.shape = Shape(Some([Dim::Known(len)].into_iter().chain(lens).collect()));
            }
            let var = b.param(aval);
            if let Some(name) = program.names.get(*param) {
                b.name(var, name);
            }
            match each {
                true => Lane::Each(var),
                false => Lane::Shared(var),
            }
        })
        .collect();
    let outs = apply(&mut b, program, &args, len)?;
    let params = args.into_iter().map(Lane::var).collect();
    Ok(Batch {
        each: outs.iter().map(|out| out.is_each()).collect(),
        program: b.finish(params, outs.into_iter().map(Lane::var).collect()),
    })
}
