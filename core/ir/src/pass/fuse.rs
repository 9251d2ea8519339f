//! Fusion: decides which equations run in one loop.

use super::constants;
use crate::hash::HashMap;
use crate::op::Fails;
use crate::{Eqn, Program, SecondaryMap, Shape, Var};

/// Partitions the equations of a program into steps, in an order in which they can run.
///
/// A step is one equation or a *group*: elementwise equations whose results have one shape, each of
/// which reads only elements at its own index. Members are in ascending order. An elementwise
/// equation that may fail is never in a group.
///
/// Each equation has a *stage*. It may read results of earlier stages; an elementwise equation may
/// also read results of elementwise equations of its own stage and shape. So no path leads from a
/// group through another step back to the group. An equation whose consumers are all in one later
/// group moves to that group: this extends the live ranges of its operands, but its own result
/// never reaches memory.
///
/// Unknown shapes are assumed to be equal if they are described alike. The groups are then an
/// estimate of those for known shapes.
pub fn fuse(program: &Program) -> Vec<Vec<usize>> {
    let eqns = &program.eqns;
    let maker = makers(program);
    let shapes = shapes(program);
    let mut stage = stages(program, &maker, &shapes);
    sink(program, &maker, &shapes, &mut stage);
    let group = groups(program, &maker, &shapes, &stage);
    let mut n_members = vec![0; eqns.len()];
    group.iter().for_each(|root| n_members[*root] += 1);
    let mut members: Vec<Vec<usize>> = n_members.into_iter().map(Vec::with_capacity).collect();
    for (i, root) in group.iter().enumerate() {
        members[*root].push(i);
    }
    let mut steps: Vec<Vec<usize>> = members.into_iter().filter(|m| !m.is_empty()).collect();
    // Views of earlier results come first, because other equations of the stage read them.
    steps.sort_by_cached_key(|step| {
        let first = step[0];
        (stage[first], !eqns[first].op.is_view(), first)
    });
    steps
}

/// Returns whether the equation fails for some values.
///
/// Only an integer division or power can fail, unless its divisor or exponent is a constant that is
/// safe. A group cannot fail, so such an equation is a step of its own. `constants` must be those
/// of `program`.
fn may_fail(program: &Program, eqn: &Eqn, constants: &SecondaryMap<Var, f64>) -> bool {
    let Fails::IntegerBy(wrong) = eqn.op.def().facts().fails else {
        return false;
    };
    let dtype = program.aval(eqn.out()).dtype;
    let known = constants.get(eqn.args[1]).copied();
    dtype.is_some_and(|dtype| !dtype.is_float()) && known.is_none_or(wrong)
}

/// Returns whether an equation may be a member of a group.
///
/// `constants` must be those of `program`.
pub fn joins_groups(program: &Program, eqn: &Eqn, constants: &SecondaryMap<Var, f64>) -> bool {
    eqn.op.def().facts().elementwise && !may_fail(program, eqn, constants)
}

/// Returns the index of the equation that binds each variable.
fn makers(program: &Program) -> SecondaryMap<Var, usize> {
    let bound = program.eqns.iter().enumerate();
    bound
        .flat_map(|(i, eqn)| eqn.outs.iter().map(move |out| (*out, i)))
        .collect()
}

/// Returns a number for the shape of each equation that may be in a group.
fn shapes(program: &Program) -> Vec<Option<usize>> {
    let mut known: HashMap<&Shape, usize> = HashMap::default();
    let divides = |eqn: &Eqn| matches!(eqn.op.def().facts().fails, Fails::IntegerBy(_));
    let constants = match program.eqns.iter().any(divides) {
        true => constants(program),
        false => SecondaryMap::new(),
    };
    let number = |eqn: &Eqn| {
        let shape = &program.aval(*eqn.outs.first()?).shape;
        let next = known.len();
        // The map is never iterated, so its order does not affect the result.
        let joins = joins_groups(program, eqn, &constants);
        joins.then(|| *known.entry(shape).or_insert(next))
    };
    program.eqns.iter().map(number).collect()
}

/// Returns the earliest stage of each equation.
fn stages(
    program: &Program,
    maker: &SecondaryMap<Var, usize>,
    shapes: &[Option<usize>],
) -> Vec<usize> {
    let mut stage: Vec<usize> = Vec::with_capacity(shapes.len());
    for (i, eqn) in program.eqns.iter().enumerate() {
        let after = |var: &Var| {
            let from = *maker.get(*var)?;
            let together = shapes[i].is_some() && shapes[i] == shapes[from];
            let free = together || program.eqns[from].op.is_view();
            Some(stage[from] + usize::from(!free))
        };
        let earliest = eqn.data().iter().filter_map(after).max();
        stage.push(earliest.unwrap_or(0));
    }
    stage
}

/// Moves each equation to the stage of its consumers, if they agree on stage and shape.
fn sink(
    program: &Program,
    maker: &SecondaryMap<Var, usize>,
    shapes: &[Option<usize>],
    stage: &mut [usize],
) {
    /// The stage of an equation's consumers.
    #[derive(Clone, Copy)]
    enum Readers {
        None,
        In(usize),
        Several,
    }
    let mut readers = vec![Readers::None; shapes.len()];
    for out in &program.outs {
        if let Some(from) = maker.get(*out) {
            readers[*from] = Readers::Several;
        }
    }
    for (i, eqn) in program.eqns.iter().enumerate().rev() {
        if let (Some(_), Readers::In(later)) = (shapes[i], readers[i]) {
            stage[i] = later;
        }
        for from in eqn.data().iter().filter_map(|var| maker.get(*var).copied()) {
            let together = shapes[i].is_some() && shapes[i] == shapes[from];
            readers[from] = match readers[from] {
                Readers::None if together => Readers::In(stage[i]),
                Readers::In(s) if together && s == stage[i] => Readers::In(s),
                _ => Readers::Several,
            };
        }
    }
}

/// Returns the first member of each equation's group.
///
/// Two equations of one stage and shape are in the same group if one reads the other or both read
/// the same value.
fn groups(
    program: &Program,
    maker: &SecondaryMap<Var, usize>,
    shapes: &[Option<usize>],
    stage: &[usize],
) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..shapes.len()).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let mut reader: HashMap<(Var, usize, usize), usize> = HashMap::default();
    reader.reserve(shapes.len());
    for (i, eqn) in program.eqns.iter().enumerate() {
        let Some(shape) = shapes[i] else { continue };
        for var in eqn.data() {
            let from = maker.get(*var).copied();
            let inside = from.filter(|f| shapes[*f] == Some(shape) && stage[*f] == stage[i]);
            // A shared number or row, which is broadcast, does not join groups.
            let whole = || program.aval(*var).shape == program.aval(eqn.out()).shape;
            let other = inside
                .or_else(|| whole().then(|| *reader.entry((*var, stage[i], shape)).or_insert(i)));
            if let Some(other) = other {
                let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    (0..shapes.len()).map(|i| root(&mut parent, i)).collect()
}
