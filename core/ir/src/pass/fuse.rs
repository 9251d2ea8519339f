//! Fusion: which equations run in one loop.

use super::constants;
use crate::hash::HashMap;
use crate::op::Eval;
use crate::{Eqn, Kernel, Op, Program, SecondaryMap, Shape, Var};

/// The equations of a program as steps, in an order in which they can run. A step is one equation, or a *group*: elementwise
/// equations with results of one shape, each of which reads only elements at its own index. Members are ascending.
///
/// Equations have *stages*: an equation reads what earlier stages have made, and an elementwise equation also what
/// elementwise equations of its own stage and shape have. So a way from a group to itself leads through no other step. An
/// equation whose readers are all in one later group moves there: its operands live longer, and its result not at all.
/// An elementwise equation that may fail is no member of a group.
///
/// Where a shape is not known, it is taken for the same as others that are not: the groups are then a guess at those that
/// there are when the shapes are known.
pub fn fuse(program: &Program) -> Vec<Vec<usize>> {
    let eqns = &program.eqns;
    let maker = makers(program);
    let shapes = shapes(program);
    let mut stage = stages(program, &maker, &shapes);
    sink(program, &maker, &shapes, &mut stage);
    let group = groups(program, &maker, &shapes, &stage);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); eqns.len()];
    for (i, root) in group.iter().enumerate() {
        members[*root].push(i);
    }
    let mut steps: Vec<Vec<usize>> = members.into_iter().filter(|m| !m.is_empty()).collect();
    // Views of what earlier stages have made come first: the stage reads them.
    steps.sort_by_key(|step| {
        let first = step[0];
        (stage[first], !is_view(eqns[first].op), first)
    });
    steps
}

/// Whether each element of the result is computed from the elements at its index alone.
pub fn is_elementwise(op: Op) -> bool {
    match op.def().eval() {
        Eval::Unary(_) => !matches!(op, Op::Identity | Op::StopGradient),
        Eval::Binary(_) | Eval::Compare(_) => true,
        Eval::Kernel(kernel) => matches!(kernel, Kernel::Select | Kernel::Cast | Kernel::CastT),
        Eval::Call => false,
    }
}

/// Whether the equation fails for some values: a division of integers, unless the program knows that the divisor is not 0.
/// A group cannot fail, so such an equation is a step of its own. `constants` are those of the program.
pub fn may_fail(program: &Program, eqn: &Eqn, constants: &SecondaryMap<Var, f64>) -> bool {
    let wrong: fn(f64) -> bool = match eqn.op {
        Op::Div => |divisor| divisor == 0.0,
        // 0 to a negative power is 1 / 0.
        Op::Pow => |exponent| exponent < 0.0,
        _ => return false,
    };
    let dtype = program.aval(eqn.out()).dtype;
    let known = constants.get(eqn.args[1]).copied();
    dtype.is_some_and(|dtype| !dtype.is_float()) && known.is_none_or(wrong)
}

/// Whether the op computes nothing: its results are elements of its operand, or one number, in other places.
pub fn is_view(op: Op) -> bool {
    match op.def().eval() {
        Eval::Unary(_) => matches!(op, Op::Identity | Op::StopGradient),
        Eval::Kernel(kernel) => matches!(
            kernel,
            Kernel::Scalar
                | Kernel::Full
                | Kernel::FullLike
                | Kernel::BroadcastLike
                | Kernel::BroadcastTo
                | Kernel::SumT
                | Kernel::Transpose
                | Kernel::Permute
                | Kernel::PermuteT
                | Kernel::SwapAxes
                | Kernel::Moveaxis
                | Kernel::Reshape
                | Kernel::ReshapeT
                | Kernel::Squeeze
                | Kernel::Unsqueeze
                | Kernel::Slice
                | Kernel::ConcatPart
                | Kernel::Split
                | Kernel::Unbind
        ),
        _ => false,
    }
}

/// The equation that binds each variable.
fn makers(program: &Program) -> SecondaryMap<Var, usize> {
    let bound = program.eqns.iter().enumerate();
    bound
        .flat_map(|(i, eqn)| eqn.outs.iter().map(move |out| (*out, i)))
        .collect()
}

/// A number for the shape of each equation that may be in a group.
fn shapes(program: &Program) -> Vec<Option<usize>> {
    let mut known: HashMap<&Shape, usize> = HashMap::default();
    let divides = |eqn: &Eqn| matches!(eqn.op, Op::Div | Op::Pow);
    let constants = match program.eqns.iter().any(divides) {
        true => constants(program),
        false => SecondaryMap::new(),
    };
    let number = |eqn: &Eqn| {
        let shape = &program.aval(*eqn.outs.first()?).shape;
        let next = known.len();
        // Found by key alone, so the order of the map reaches nothing.
        let joins = is_elementwise(eqn.op) && !may_fail(program, eqn, &constants);
        joins.then(|| *known.entry(shape).or_insert(next))
    };
    program.eqns.iter().map(number).collect()
}

/// The earliest stage of each equation.
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
            let free = together || is_view(program.eqns[from].op);
            Some(stage[from] + usize::from(!free))
        };
        let earliest = eqn.data().iter().filter_map(after).max();
        stage.push(earliest.unwrap_or(0));
    }
    stage
}

/// Moves each equation whose readers are all in one later stage and of its shape to that stage.
fn sink(
    program: &Program,
    maker: &SecondaryMap<Var, usize>,
    shapes: &[Option<usize>],
    stage: &mut [usize],
) {
    /// What is known of the readers of an equation.
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

/// The first member of the group of each equation: equations of one stage and shape of which one reads another, or
/// which read the same.
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
    for (i, eqn) in program.eqns.iter().enumerate() {
        let Some(shape) = shapes[i] else { continue };
        for var in eqn.data() {
            let from = maker.get(*var).copied();
            let inside = from.filter(|f| shapes[*f] == Some(shape) && stage[*f] == stage[i]);
            // A number or a row that is read everywhere joins nothing.
            let whole = program.aval(*var).shape == program.aval(eqn.out()).shape;
            let other = inside
                .or_else(|| whole.then(|| *reader.entry((*var, stage[i], shape)).or_insert(i)));
            if let Some(other) = other {
                let (a, b) = (root(&mut parent, i), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    (0..shapes.len()).map(|i| root(&mut parent, i)).collect()
}
