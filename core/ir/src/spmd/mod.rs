//! Sharded programs: one program for all devices of a mesh.
//!
//! [`shard`] decides how each value of a program is placed on the devices of a
//! [`Mesh`], given specs for some of its values. The work has three parts:
//!
//! 1. *Propagation* spreads the specs along the factors that each op declares, see
//!    [`Axes`](crate::op::Axes). Its result is a wish for each variable.
//! 2. *Choice* decides for each equation which of its factors are split, by the bytes that devices
//!    send. It inserts the steps that bring operands into place. Partial values are reduced where they
//!    are needed.
//! 3. *Partitioning*, [`Sharded::partition`], writes the program that each device runs, with
//!    collectives.
//!
//! An op whose signature has no factors is computed on whole operands by all devices: correct, and
//! [`Sharded::explain`] says so. Composite ops are taken apart where an axis that they combine is
//! split, so softmax over a split axis sends maxima and sums only.
//!
//! The derivative of a sharded program is the derivative of the program, sharded.

mod choose;
mod error;
mod explain;
mod factors;
mod grid;
mod inner;
mod local;
mod order;
mod partition;
mod propagate;
mod reshard;
mod time;

pub use error::SpmdError;
pub use explain::{Collective, Explanation, repeats_numbers};
pub use grid::Grid;
pub use partition::Partitioned;
pub use time::Speed;

use crate::op::control::{self, links::is_loop_or_branch};
use crate::sharding::{Mesh, ShardingError, ShardingSpec};
use crate::{
    Attr, Aval, Builder, Eqn, Op, Program, Programs, SecondaryMap, Static, StaticKind, Var, cost,
    pass,
};
use choose::{Choice, Computed, Item};
use factors::{Factors, shape_of};
use grid::Layout;
use propagate::Wish;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Specs for some parameters and results of a program.
///
/// Other values get one by a `sharding_constraint`, which is an equation of the program.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// The specs of the parameters. An empty list has none.
    ///
    /// A parameter without a spec gets one by propagation.
    pub params: Vec<Option<ShardingSpec>>,
    /// The specs of the results. An empty list has none.
    pub outs: Vec<Option<ShardingSpec>>,
}

/// A program with a spec for each value, and the steps between them.
#[derive(Clone, Debug)]
pub struct Sharded {
    /// The program. Some composite ops are taken apart.
    program: Program,
    grid: Grid,
    /// The factors of each equation.
    factors: Vec<Factors>,
    params: Vec<Layout>,
    outs: Vec<Layout>,
    items: Vec<Item>,
}

/// Decides how each value of a program is placed on the devices of a mesh.
///
/// # Errors
///
/// If a dtype or shape is not known, if a spec does not fit its value or the mesh, or if the program
/// calls another function.
///
/// ```
/// use gradloom_ir::Program;
/// use gradloom_ir::sharding::{Mesh, ShardingSpec};
/// use gradloom_ir::spmd::{Constraints, shard};
/// use std::sync::Arc;
///
/// let program: Program = "(x: f32[8, 4], w: f32[4, 6]) {
///     y = matmul x, w, like x, like w
///     return y
/// }".parse()?;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"], &[]])?;
/// let params = vec![Some(rows.clone()), Some(ShardingSpec::replicated(&mesh, 2))];
/// let sharded = shard(&program, &mesh, &Constraints { params, ..Default::default() })?;
/// assert_eq!(sharded.out_specs(), [rows]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shard(
    program: &Program,
    mesh: &Arc<Mesh>,
    constraints: &Constraints,
) -> Result<Sharded, SpmdError> {
    let program = order::ordered(inlined(program, mesh));
    if let Some(eqn) = program.eqns.iter().find(|eqn| eqn.op.is_call()) {
        return Err(SpmdError::Call {
            op: eqn.op.to_string(),
        });
    }
    let grid = check(&program, mesh, constraints)?;
    let (kept, exchanges) = place(&grid, program.clone(), constraints, Loops::Kept)?;
    if !exchanges {
        return Ok(kept);
    }
    let (unrolled, _) = place(&grid, program, constraints, Loops::Unrolled)?;
    Ok(match unrolled.sent() < kept.sent() {
        true => unrolled,
        false => kept,
    })
}

/// What becomes of a `scan` that has a split axis without a factor.
#[derive(Clone, Copy, PartialEq)]
enum Loops {
    /// It gets whole operands.
    Kept,
    /// Its turns are emitted one after the other, so that devices may exchange values in each.
    Unrolled,
}

/// The most equations of the turns of a loop that are emitted one after the other.
const MOST_UNROLLED: usize = 1 << 14;

/// Places the values of a program. Returns as well whether loops that can be unrolled were kept.
fn place(
    grid: &Grid,
    mut program: Program,
    constraints: &Constraints,
    loops: Loops,
) -> Result<(Sharded, bool), SpmdError> {
    loop {
        let factors = program.eqns.iter();
        let factors = factors.map(|eqn| Factors::new(&program, eqn));
        let factors: Vec<Factors> = factors.collect::<Result<_, _>>()?;
        let mut wishes = wishes(grid, &program, constraints)?;
        propagate::propagate(grid, &program, &factors, &mut wishes);
        let combines = |at: &usize| {
            let mut values = factors[*at].values(&program.eqns[*at]);
            values.any(|(var, axes)| {
                let wish = wishes.get(var).map(|wish| wish.dims.iter());
                let mut dims = wish.into_iter().flatten().zip(axes);
                dims.any(|(atoms, factor)| !atoms.is_empty() && factor.is_none())
            })
        };
        let combining: BTreeSet<usize> = (0..program.eqns.len()).filter(combines).collect();
        let simpler = pass::replace_some(&program, |at, b, eqn| {
            if !combining.contains(&at) {
                return None;
            }
            let of = &program.eqns[at];
            if loops == Loops::Unrolled && unrolls(&program, of) {
                return control::unroll(b, eqn);
            }
            let decompose = eqn.op.def().facts().decompose?;
            (!grows(&program, of)).then(|| decompose(b, eqn)).flatten()
        });
        match simpler {
            // Several ops may be taken apart into equal equations.
            Some(simpler) => program = pass::simplify(simpler),
            None => {
                let mut kept = combining.iter().map(|at| &program.eqns[*at]);
                let exchanges = kept.any(|eqn| unrolls(&program, eqn));
                let placed = choose(grid.clone(), program, constraints, factors, &wishes);
                return Ok((placed, exchanges));
            }
        }
    }
}

/// Returns whether the turns of an equation can be emitted one after the other.
fn unrolls(program: &Program, eqn: &Eqn) -> bool {
    if eqn.op != Op::Scan {
        return false;
    }
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let of = control::ScanParts::of(&statics);
    (1..=MOST_UNROLLED).contains(&of.turns.saturating_mul(of.body.eqns.len().max(1)))
}

/// Returns the program with the programs that run once in it: those of checkpoints, of custom rules, and of a `sharded`
/// for the same mesh, whose specs become constraints.
///
/// Derivatives are taken before a program is divided, so only the values of these ops count. An op that runs a
/// program has no axes that can be split.
fn inlined(program: &Program, mesh: &Arc<Mesh>) -> Program {
    let mut program = program.clone();
    while program
        .eqns
        .iter()
        .any(|eqn| runs_once(&program, eqn, mesh))
    {
        let mut b = Builder::after(&program);
        let mut equal: SecondaryMap<Var, Var> = SecondaryMap::new();
        let of = |equal: &SecondaryMap<Var, Var>, var: Var| equal.get(var).copied().unwrap_or(var);
        for eqn in &program.eqns {
            b.emit_for(&program, eqn);
            let mut eqn = eqn.clone();
            eqn.args.iter_mut().for_each(|arg| *arg = of(&equal, *arg));
            match runs_once(&program, &eqn, mesh) {
                true => {
                    let outs = inline(&mut b, &program, &eqn);
                    equal.extend(eqn.outs.iter().copied().zip(outs));
                }
                false => b.append(eqn),
            }
        }
        let outs = program.outs.iter().map(|out| of(&equal, *out)).collect();
        let mut next = b.finish(program.params.clone(), outs);
        for (var, by) in equal.iter() {
            if let Some(name) = next.names.remove(var)
                && !next.names.contains(*by)
            {
                next.names.insert(*by, name);
            }
        }
        program = next;
    }
    // Static arguments that loops and branches run.
    let loops = program.eqns.iter().filter(|eqn| is_loop_or_branch(eqn.op));
    let loops: BTreeSet<Attr> = loops.flat_map(|eqn| &eqn.attrs).copied().collect();
    for attr in loops {
        if let Some(programs) = program.attr(attr).programs() {
            let programs = programs.iter().map(|of| inlined(of, mesh)).collect();
            program.attrs[attr.0 as usize] = Programs::new(programs).into();
        }
    }
    program
}

/// Returns whether an equation runs one program once, on values that the devices of `mesh` divide.
fn runs_once(program: &Program, eqn: &Eqn, mesh: &Arc<Mesh>) -> bool {
    match eqn.op {
        Op::Checkpoint | Op::CustomJvp | Op::CustomVjp => true,
        Op::Sharded => {
            let specs = program.attr(eqn.attrs[1]).specs();
            specs.is_some_and(|(other, _)| other == mesh)
        }
        _ => false,
    }
}

/// Emits the program that an equation runs, and returns its results.
fn inline(b: &mut Builder, program: &Program, eqn: &Eqn) -> Vec<Var> {
    let statics = || eqn.attrs.iter().map(|attr| program.attr(*attr));
    let body = statics().find_map(Static::programs);
    let body = &body.expect("the op has a program")[0];
    // Only a `sharded` has specs: those of its operands, and those of its results.
    let mut specs = statics().filter_map(Static::specs).map(|(_, specs)| specs);
    let mut constrained = |b: &mut Builder, mut vars: Vec<Var>| {
        for (var, spec) in vars.iter_mut().zip(specs.next().unwrap_or_default()) {
            if let Some(spec) = spec {
                let spec = b.attr(spec.clone());
                *var = b.emit(Op::ShardingConstraint, &[spec], &[*var]);
            }
        }
        vars
    };
    let args = constrained(b, eqn.args.to_vec());
    let outs = control::inline(b, body, &args);
    constrained(b, outs)
}

/// Returns whether the decomposition of a composite op has a larger value than its operands and results.
///
/// Attention would store the scores of all pairs, for example. It gets whole operands instead.
fn grows(program: &Program, eqn: &Eqn) -> bool {
    let Some(decompose) = eqn.op.def().facts().decompose else {
        return true;
    };
    let bytes = |aval: &Aval| {
        let bytes = cost::bytes(aval).and_then(|bytes| bytes.as_constant());
        bytes.unwrap_or(i128::MAX)
    };
    let mut b = Builder::new();
    let mut alone = eqn.clone();
    for arg in &mut alone.args {
        *arg = b.param(program.aval(*arg).clone());
    }
    for attr in &mut alone.attrs {
        *attr = b.attr(program.attr(*attr).clone());
    }
    if decompose(&mut b, &alone).is_none() {
        return true;
    }
    let values = eqn.args.iter().chain(&eqn.outs);
    let most = values.map(|var| bytes(program.aval(*var))).max();
    let mut outs = b.eqns_from(0).iter().flat_map(|eqn| &eqn.outs);
    outs.any(|out| Some(bytes(b.aval(*out))) > most)
}

/// Returns the variables of `sharding_constraint` equations, with their specs.
fn inside(program: &Program) -> Vec<(Var, ShardingSpec)> {
    let spec = |eqn: &Eqn| {
        let at = eqn.op.static_at(StaticKind::Sharding)?;
        let spec = program.attr(eqn.attrs[at]).sharding()?;
        Some((eqn.out(), spec.clone()))
    };
    program.eqns.iter().filter_map(spec).collect()
}

/// Returns the grid for the specs, after a check that they fit.
fn check(
    program: &Program,
    mesh: &Arc<Mesh>,
    constraints: &Constraints,
) -> Result<Grid, SpmdError> {
    let Constraints { params, outs } = constraints;
    for (of, found, expected) in [
        ("parameters", params.len(), program.params.len()),
        ("results", outs.len(), program.outs.len()),
    ] {
        if found != 0 && found != expected {
            return Err(SpmdError::Count {
                of,
                found,
                expected,
            });
        }
    }
    let given = |vars: &'_ [Var], specs: &'_ [Option<ShardingSpec>]| -> Vec<(Var, ShardingSpec)> {
        let pairs = vars.iter().zip(specs);
        pairs
            .filter_map(|(var, spec)| Some((*var, spec.clone()?)))
            .collect()
    };
    let of_params = given(&program.params, params);
    let others = [given(&program.outs, outs), inside(program)].concat();
    for (var, spec) in of_params.iter().chain(&others) {
        let fault = |error| SpmdError::Spec {
            value: name_of(program, *var),
            error,
        };
        if spec.mesh() != mesh {
            return Err(fault(ShardingError::OtherMesh {
                found: spec.mesh().to_string(),
                expected: mesh.to_string(),
            }));
        }
        let rank = shape_of(program, *var)?.len();
        spec.check_rank(rank).map_err(fault)?;
    }
    for (var, spec) in &others {
        if let Some((axis, _)) = spec.partial().first() {
            return Err(SpmdError::Partial {
                value: name_of(program, *var),
                axis: *axis,
            });
        }
    }
    let all = of_params.iter().chain(&others);
    let name = |error| SpmdError::Spec {
        value: "all values".to_owned(),
        error,
    };
    Grid::new(mesh, all.map(|(_, spec)| spec)).map_err(name)
}

/// Returns the wish for each variable before propagation.
fn wishes(
    grid: &Grid,
    program: &Program,
    constraints: &Constraints,
) -> Result<SecondaryMap<Var, Wish>, SpmdError> {
    let mut wishes = SecondaryMap::new();
    let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
    for var in program.params.iter().chain(bound) {
        wishes.insert(*var, Wish::free(shape_of(program, *var)?.len()));
    }
    let specs = |vars: &[Var], specs: &[Option<ShardingSpec>]| -> Vec<(Var, Wish)> {
        let pairs = vars.iter().zip(specs);
        let wish = |(var, spec): (&Var, &Option<ShardingSpec>)| {
            Some((*var, Wish::constrained(grid, spec.as_ref()?)))
        };
        pairs.filter_map(wish).collect()
    };
    // The constraint of a parameter comes before that of the variable, and that before that of a result.
    wishes.extend(specs(&program.outs, &constraints.outs));
    let vars = inside(program).into_iter();
    wishes.extend(vars.map(|(var, spec)| (var, Wish::constrained(grid, &spec))));
    wishes.extend(specs(&program.params, &constraints.params));
    Ok(wishes)
}

/// Chooses how all equations are computed.
fn choose(
    grid: Grid,
    program: Program,
    constraints: &Constraints,
    factors: Vec<Factors>,
    wishes: &SecondaryMap<Var, Wish>,
) -> Sharded {
    let mut choice = Choice::new(&grid, &program, &factors, wishes);
    let wanted = |var: Var| Layout {
        dims: wishes.get(var).expect("a variable has a wish").dims.clone(),
        partial: Vec::new(),
    };
    let mut params = Vec::new();
    for (i, var) in program.params.iter().enumerate() {
        let spec = constraints.params.get(i).and_then(Option::as_ref);
        let mut layout = wanted(*var);
        if let Some(spec) = spec {
            layout.partial = grid.layout(spec).partial;
        }
        choice.bind(*var, layout.clone());
        params.push(layout);
    }
    let inside: SecondaryMap<Var, ShardingSpec> = inside(&program).into_iter().collect();
    for (var, _) in inside.iter() {
        choice.need(var);
    }
    for (at, eqn) in program.eqns.iter().enumerate() {
        choice.compute(at);
        for var in &eqn.outs {
            if let Some(spec) = inside.get(*var) {
                choice.pin(*var, &asked(&grid, spec, wanted(*var)));
            }
        }
    }
    let mut outs = Vec::new();
    for (i, var) in program.outs.iter().enumerate() {
        let spec = constraints.outs.get(i).and_then(Option::as_ref);
        let layout = match spec {
            Some(spec) => asked(&grid, spec, wanted(*var)),
            None => choice.cheaper(*var, wanted(*var)),
        };
        choice.bring(*var, &layout);
        outs.push(layout);
    }
    let items = choice.items;
    Sharded {
        program,
        grid,
        factors,
        params,
        outs,
        items,
    }
}

/// Returns the layout of a spec, with what propagation has added to open dims.
fn asked(grid: &Grid, spec: &ShardingSpec, wish: Layout) -> Layout {
    let asked = grid.layout(spec);
    let mut dims = asked.dims.iter().zip(&wish.dims).zip(spec.dims());
    // The wish of a parameter that is a result, too, is that of the parameter.
    let fits =
        dims.all(|((asked, wish), dim)| asked == wish || dim.is_open && wish.starts_with(asked));
    if fits { wish } else { asked }
}

impl Sharded {
    /// Returns the bytes that each device sends.
    fn sent(&self) -> u128 {
        let paths = self.items.iter().map(|item| match item {
            Item::Move { path, .. } => path.sent,
            Item::Compute(_) => 0,
        });
        paths.sum()
    }

    /// Returns the program whose values are placed. Some composite ops are taken apart.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the specs of the parameters.
    pub fn param_specs(&self) -> Vec<ShardingSpec> {
        self.params
            .iter()
            .map(|layout| self.grid.spec(layout))
            .collect()
    }

    /// Returns the specs of the results.
    pub fn out_specs(&self) -> Vec<ShardingSpec> {
        self.outs
            .iter()
            .map(|layout| self.grid.spec(layout))
            .collect()
    }

    /// Returns the spec with which each variable is computed.
    pub fn specs(&self) -> SecondaryMap<Var, ShardingSpec> {
        let params = self.program.params.iter().zip(&self.params);
        let mut specs: SecondaryMap<Var, ShardingSpec> = params
            .map(|(var, layout)| (*var, self.grid.spec(layout)))
            .collect();
        for item in &self.items {
            if let Item::Compute(Computed { eqn, results, .. }) = item {
                let outs = self.program.eqns[*eqn].outs.iter().zip(results);
                specs.extend(outs.map(|(var, layout)| (*var, self.grid.spec(layout))));
            }
        }
        specs
    }
}

/// Returns the name of a variable in messages.
fn name_of(program: &Program, var: Var) -> String {
    let name = program.names.get(var).cloned();
    name.unwrap_or_else(|| var.to_string())
}

/// Returns the number of bytes of a variable, all of whose parts are together.
fn bytes_of(program: &Program, var: Var) -> u128 {
    let aval = program.aval(var);
    let lens = aval.shape.known().unwrap_or_default().into_iter();
    let size = aval.dtype.map_or(0, |dtype| dtype.size());
    lens.map(|len| len as u128).product::<u128>() * size as u128
}
