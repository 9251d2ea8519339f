//! Sharded programs: one program for all devices of a mesh.
//!
//! [`shard`] decides how each value of a program is placed on the devices of a
//! [`Mesh`](crate::sharding::Mesh), given specs for some of its values. The work has three parts:
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
mod local;
mod partition;
mod propagate;
mod reshard;
mod time;

pub use error::SpmdError;
pub use explain::{Collective, Explanation};
pub use grid::Grid;
pub use partition::Partitioned;
pub use time::Speed;

use crate::sharding::{Mesh, ShardingError, ShardingSpec};
use crate::{Program, SecondaryMap, Var, pass};
use choose::{Choice, Computed, Item};
use factors::{Factors, shape_of};
use grid::Layout;
use propagate::Wish;
use std::sync::Arc;

/// Specs for some values of a program.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// The specs of the parameters. An empty list has none.
    ///
    /// A parameter without a spec gets one by propagation.
    pub params: Vec<Option<ShardingSpec>>,
    /// The specs of the results. An empty list has none.
    pub outs: Vec<Option<ShardingSpec>>,
    /// The specs of other variables.
    pub vars: Vec<(Var, ShardingSpec)>,
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
    let mut program = program.clone();
    let mut constraints = constraints.clone();
    if let Some(eqn) = program.eqns.iter().find(|eqn| eqn.op.is_call()) {
        return Err(SpmdError::Call {
            op: eqn.op.to_string(),
        });
    }
    let grid = check(&program, mesh, &constraints)?;
    loop {
        let factors = program.eqns.iter();
        let factors = factors.map(|eqn| Factors::new(&program, eqn));
        let factors: Vec<Factors> = factors.collect::<Result<_, _>>()?;
        let mut wishes = wishes(&grid, &program, &constraints)?;
        propagate::propagate(&grid, &program, &factors, &mut wishes);
        let combines = |at: usize| {
            let mut values = factors[at].values(&program.eqns[at]);
            values.any(|(var, axes)| {
                let wish = wishes.get(var).map(|wish| wish.dims.iter());
                let mut dims = wish.into_iter().flatten().zip(axes);
                dims.any(|(atoms, factor)| !atoms.is_empty() && factor.is_none())
            })
        };
        let Some((simpler, equal)) = pass::decompose_some(&program, combines) else {
            return Ok(choose(grid, program, &constraints, factors, &wishes));
        };
        // Several ops may be taken apart into equal equations.
        program = match constraints.vars.is_empty() {
            true => pass::simplify(simpler),
            false => simpler,
        };
        for (var, _) in &mut constraints.vars {
            *var = equal.get(*var).copied().unwrap_or(*var);
        }
    }
}

/// Returns the grid for the specs, after a check that they fit.
fn check(
    program: &Program,
    mesh: &Arc<Mesh>,
    constraints: &Constraints,
) -> Result<Grid, SpmdError> {
    let Constraints { params, outs, vars } = constraints;
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
    let others = [given(&program.outs, outs), vars.clone()].concat();
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
    let vars = constraints.vars.iter();
    wishes.extend(vars.map(|(var, spec)| (*var, Wish::constrained(grid, spec))));
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
    for (var, _) in &constraints.vars {
        choice.need(*var);
    }
    let pins = |choice: &mut Choice<'_>, vars: &[Var]| {
        for (var, spec) in &constraints.vars {
            if vars.contains(var) {
                choice.pin(*var, &grid.layout(spec));
            }
        }
    };
    pins(&mut choice, &program.params);
    for (at, eqn) in program.eqns.iter().enumerate() {
        choice.compute(at);
        pins(&mut choice, &eqn.outs);
    }
    let mut outs = Vec::new();
    for (i, var) in program.outs.iter().enumerate() {
        let spec = constraints.outs.get(i).and_then(Option::as_ref);
        let layout = match spec {
            // Propagation may have added atoms to open dims of the result.
            Some(spec) => {
                let (asked, wish) = (grid.layout(spec), wanted(*var));
                let dims = asked.dims.iter().zip(&wish.dims).zip(spec.dims());
                let fits = dims.into_iter().all(|((asked, wish), dim)| {
                    asked == wish || dim.is_open && wish.starts_with(asked)
                });
                if fits { wish } else { asked }
            }
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

impl Sharded {
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
