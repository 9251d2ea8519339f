//! Replay of programs: each equation is recorded on the tensors that its operands are bound to.

use crate::graph::recording::is_watched;
use crate::tensor::host_code::run_rule;
use crate::tensor::infer_cache::Statics;
use crate::tensor::record::{record_elementwise, record_many, record_one};
use crate::{Aval, Result, Tensor, observe};
use gradloom_ir::{Attr, Entity, Eqn, Op, Program, SecondaryMap, Static, Var, pass};
use smallvec::{SmallVec, smallvec};

/// Binding of a variable of a program.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// A tensor.
    Tensor(Tensor),
    /// Only a dtype and shape, for variables that are used only as `Like` operands.
    Aval(Aval),
}

impl Bound {
    pub(crate) fn aval(&self) -> &Aval {
        match self {
            Bound::Tensor(x) => x.aval(),
            Bound::Aval(aval) => aval,
        }
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        match self {
            Bound::Tensor(x) => x,
            Bound::Aval(_) => unreachable!("only `Like` operands are bound to an aval"),
        }
    }

    /// Returns the tensor, if it is one.
    pub(crate) fn into_tensor(self) -> Option<Tensor> {
        match self {
            Bound::Tensor(x) => Some(x),
            Bound::Aval(_) => None,
        }
    }

    /// Returns the binding, of which a tensor has no batch prefix: programs know all axes.
    fn physical(&self) -> Bound {
        match self {
            Bound::Tensor(x) => Bound::Tensor(x.physical()),
            other => other.clone(),
        }
    }

    /// Returns the binding, or only its aval.
    pub(crate) fn kept(&self, shape_only: bool) -> Bound {
        match self {
            Bound::Tensor(x) if shape_only => Bound::Aval(x.aval().clone()),
            other => other.clone(),
        }
    }

    /// Returns the number of bytes that the binding keeps alive.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Bound::Tensor(x) => x.aval().bytes(),
            Bound::Aval(_) => 0,
        }
    }
}

/// Records the equations of a program on tensors, and returns its results as promises.
///
/// An argument may have a batch prefix: the program is that of one element.
///
/// # Errors
///
/// If an op does not accept its operands.
///
/// # Panics
///
/// If the numbers of arguments and parameters differ, or a static argument is a host expression.
pub fn replay(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>> {
    let args: Vec<Bound> = args.iter().cloned().map(Bound::Tensor).collect();
    Ok(replay_as_bound(program, args.into_iter())?
        .iter()
        .map(|b| b.tensor().clone())
        .collect())
}

/// Replays a traced program on physical tensors. Its parameters may be bound to avals.
///
/// Tracing drops batch prefixes from values, so the arguments lose theirs here, in one place. The caller gives
/// the results the prefixes that the traced function returned: see `tree::with_physical`.
pub(crate) fn replay_bound(program: &Program, args: &[Bound]) -> Result<Vec<Bound>> {
    replay_as_bound(program, args.iter().map(Bound::physical))
}

fn replay_as_bound(
    program: &Program,
    args: impl ExactSizeIterator<Item = Bound>,
) -> Result<Vec<Bound>> {
    let mut env = Env::new(program, args.map(Some));
    let mut uses = uses(program, env.values.len());
    for eqn in &program.eqns {
        env.run(eqn, |attr| program.attr(attr).clone())?;
        if is_watched() {
            let line = eqn.outs.first().and_then(|out| program.lines.get(*out));
            observe::note_line_of_ops(line.copied());
        }
        // Drops bindings after their last use, so that evaluating the graph does not keep their
        // values.
        for arg in &eqn.args {
            uses[arg.index()] -= 1;
        }
        for var in eqn.args.iter().chain(&eqn.outs) {
            if uses[var.index()] == 0 {
                env.set(*var, None);
            }
        }
    }
    if is_watched() {
        observe::note_no_line();
    }
    let outs = program.outs.iter();
    let outs = outs.map(|v| {
        env.get(*v)
            .expect("every result of a program is bound")
            .clone()
    });
    Ok(outs.collect())
}

/// Binds zeros to the parameters that are bound to avals and read as data.
///
/// A batching rule may rearrange a like operand, of which only dtype and shape matter.
pub(crate) fn bind_shapes(program: &Program, bound: &mut [Bound]) {
    for (param, bound) in program.params.iter().zip(bound) {
        if let Bound::Aval(aval) = bound
            && program.eqns.iter().any(|eqn| eqn.data().contains(param))
        {
            *bound = Bound::Tensor(Tensor::zeros(aval.shape(), aval.dtype()));
        }
    }
}

/// Replays a program, reusing the values of variables that are `known`. Equations that only these
/// need are skipped.
pub(crate) fn replay_known(
    program: &Program,
    mut args: Vec<Bound>,
    known: &[(Var, Tensor)],
) -> Result<Vec<Bound>> {
    if known.is_empty() {
        return replay_bound(program, &args);
    }
    let values: SecondaryMap<Var, &Tensor> = known.iter().map(|(v, x)| (*v, x)).collect();
    let mut rest = program.clone();
    rest.eqns.retain(|eqn| {
        let outs = eqn.outs.iter().map(|out| values.get(*out));
        let Some(outs) = outs.collect::<Option<Vec<_>>>() else {
            return true;
        };
        rest.params.extend(&eqn.outs);
        args.extend(outs.into_iter().map(|x| Bound::Tensor((*x).clone())));
        false
    });
    replay_bound(&pass::dce(rest), &args)
}

/// Returns how often each variable is an operand or a result of the program.
fn uses(program: &Program, n_vars: usize) -> Vec<u32> {
    let mut uses = vec![0; n_vars];
    let operands = program.eqns.iter().flat_map(|eqn| &eqn.args);
    for var in operands.chain(&program.outs) {
        uses[var.index()] += 1;
    }
    uses
}

/// Bindings of the variables of a program during a replay.
pub(crate) struct Env {
    values: Vec<Option<Bound>>,
}

impl Env {
    pub(crate) fn new(
        program: &Program,
        args: impl ExactSizeIterator<Item = Option<Bound>>,
    ) -> Env {
        assert_eq!(
            args.len(),
            program.params.len(),
            "a program takes one argument for each parameter"
        );
        let mut values = vec![None; program.n_vars() as usize];
        for (param, arg) in program.params.iter().zip(args) {
            values[param.index()] = arg;
        }
        Env { values }
    }

    pub(crate) fn get(&self, var: Var) -> Option<&Bound> {
        self.values[var.index()].as_ref()
    }

    pub(crate) fn set(&mut self, var: Var, value: Option<Bound>) {
        self.values[var.index()] = value;
    }

    /// Records an equation.
    pub(crate) fn run(&mut self, eqn: &Eqn, statik: impl Fn(Attr) -> Static) -> Result<()> {
        let outs = self.record(eqn, statik)?;
        for (var, out) in eqn.outs.iter().zip(outs) {
            self.set(*var, Some(Bound::Tensor(out)));
        }
        Ok(())
    }

    fn record(&self, eqn: &Eqn, statik: impl Fn(Attr) -> Static) -> Result<SmallVec<[Tensor; 1]>> {
        let get = |v: &Var| self.get(*v).expect("an operand is bound before it is used");
        let statics: Statics = eqn.attrs.iter().map(|a| statik(*a)).collect();
        let data: SmallVec<[&Tensor; 4]> = eqn.data().iter().map(|v| get(v).tensor()).collect();
        let likes: SmallVec<[&Aval; 2]> = eqn.likes().iter().map(|v| get(v).aval()).collect();
        let has_operands_only = statics.is_empty() && likes.is_empty();
        Ok(match (eqn.op, eqn.outs.len()) {
            (Op::CustomTangent | Op::CustomCotangent | Op::CustomLanes, _) => {
                run_rule(eqn.op, &statics, &data)?.into()
            }
            (op, 1) if has_operands_only => smallvec![record_elementwise(op, &data)?],
            (op, 1) => smallvec![record_one(op, statics, &data, &likes)?],
            (op, n_outs) => record_many(op, statics, &data, &likes, n_outs)?.into(),
        })
    }
}
