//! Equations on the parts of a device.

use super::choose::Computed;
use super::factors::{Factors, shape_of};
use super::grid::{Grid, Layout};
use crate::{Aval, Eqn, Program, Static, StaticKind, Var};

/// An equation as a device computes it.
pub(super) struct LocalEqn {
    /// The static arguments.
    pub(super) statics: Vec<Static>,
    /// The shapes of the results.
    pub(super) outs: Vec<Vec<usize>>,
}

/// Returns the shape of the part of a device.
pub(super) fn local_shape(grid: &Grid, program: &Program, var: Var, layout: &Layout) -> Vec<usize> {
    let shape = shape_of(program, var).expect("all shapes are known");
    grid.local(&shape, layout)
}

impl LocalEqn {
    /// Returns `None` if the op does not take the parts of its operands, or does not give those of its
    /// results.
    pub(super) fn new(
        grid: &Grid,
        program: &Program,
        factors: &Factors,
        computed: &Computed,
    ) -> Option<LocalEqn> {
        let eqn = &program.eqns[computed.eqn];
        let shape = |(var, layout): (&Var, &Layout)| local_shape(grid, program, *var, layout);
        let shapes = |vars: &[Var], layouts: &[Layout]| -> Vec<Vec<usize>> {
            vars.iter().zip(layouts).map(shape).collect()
        };
        let data = shapes(eqn.data(), &computed.operands);
        let likes = shapes(eqn.likes(), &computed.likes);
        let outs = shapes(&eqn.outs, &computed.results);
        let mut statics = statics(program, eqn, &data, &outs);
        if let Some(inner) = &factors.inner {
            let programs = statics
                .iter()
                .position(|value| value.programs().is_some())?;
            statics[programs] = inner.local(grid, &computed.split)?.into();
        }
        let avals = eqn.args.iter().zip(data.iter().chain(&likes));
        let avals: Vec<Aval> = avals
            .map(|(var, shape)| Aval {
                dtype: program.aval(*var).dtype,
                shape: shape.as_slice().into(),
            })
            .collect();
        let avals: Vec<&Aval> = avals.iter().collect();
        let found = eqn.op.infer(&statics, &avals, outs.len()).ok()?;
        let found = found.iter().map(|aval| aval.shape.known());
        let fits = found.eq(outs.iter().map(|shape| Some(shape.clone())));
        fits.then_some(LocalEqn { statics, outs })
    }
}

/// Returns the static arguments with the shapes of parts in place of those of whole values.
fn statics(program: &Program, eqn: &Eqn, data: &[Vec<usize>], outs: &[Vec<usize>]) -> Vec<Static> {
    let whole = |var: &Var| shape_of(program, *var).expect("all shapes are known");
    let kinds = eqn.op.def().statics().iter().map(|arg| arg.kind);
    let statics = kinds.zip(&eqn.attrs).map(|(kind, attr)| {
        let value = program.attr(*attr);
        match kind {
            StaticKind::Stops => return stops(value, &whole(&eqn.args[0]), &data[0]),
            StaticKind::Shape | StaticKind::Reshape => {}
            _ => return value.clone(),
        }
        // A shape is that of the result, or of the operand if the op is a transpose.
        let values = eqn.outs.iter().zip(outs);
        let mut values = values.chain(eqn.data().iter().zip(data));
        let found = values.find(|(var, _)| names(value, &whole(var)));
        match found {
            Some((_, local)) => local
                .iter()
                .map(|len| *len as i64)
                .collect::<Vec<_>>()
                .into(),
            None => value.clone(),
        }
    });
    statics.collect()
}

/// Returns the ends of ranges. Along an axis that is split, the range is the whole part.
fn stops(value: &Static, whole: &[usize], local: &[usize]) -> Static {
    let Some(stops) = value.ints() else {
        return value.clone();
    };
    let lens = whole.iter().zip(local);
    let stops = stops.iter().zip(lens).map(
        |(stop, (whole, local))| {
            if whole == local { *stop } else { i64::MAX }
        },
    );
    stops.collect::<Vec<_>>().into()
}

/// Returns whether a static argument names a shape, in which -1 stands for any length.
fn names(value: &Static, shape: &[usize]) -> bool {
    value.ints().is_some_and(|lens| {
        let same = |(asked, len): (&i64, &usize)| *asked == -1 || *asked == *len as i64;
        lens.len() == shape.len() && lens.iter().zip(shape).all(same)
    })
}
