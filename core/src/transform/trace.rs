//! From a closure to a program.

use super::Outcome;
use super::replay::Bound;
use crate::age::age_of_all;
use crate::evaluate::Engine;
use crate::events::{self, Event};
use crate::lower::{Lowered, Lowering};
use crate::node::{Behind, Edges, Shared};
use crate::record::traced_input;
use crate::scope::Scope;
use crate::tree::{leaves, with_leaves};
use crate::walk::{Kind, Node, Source, Stack, Walker, walk};
use crate::{Result, Tensor, Tree, check};
use gradloom_ir::{Program, Var};
use std::sync::Arc;

/// A closure as a program.
pub(crate) struct Trace<Y> {
    /// `x..., captured... -> y...`.
    pub(crate) program: Program,
    /// How many parameters stand for the leaves of the argument.
    pub(crate) n_inputs: usize,
    /// What the closure used besides its argument: the arguments after the leaves.
    pub(crate) captured: Vec<Bound>,
    /// Variables that the closure has computed, because it has read values.
    pub(crate) known: Vec<(Var, Tensor)>,
    /// The result on fresh values: its structure, and the avals of its leaves.
    pub(crate) y: Y,
}

impl<Y> Trace<Y> {
    /// The parameters to differentiate by.
    pub(crate) fn wrt(&self) -> &[Var] {
        &self.program.params[..self.n_inputs]
    }
}

/// The arguments of a traced program, for given leaves of the argument and what the closure captured.
pub(crate) fn args(x: &[Tensor], captured: &[Bound]) -> Vec<Bound> {
    let x = x.iter().cloned().map(Bound::Tensor);
    x.chain(captured.iter().cloned()).collect()
}

/// Runs `f` once on fresh values equal to the leaves of `x`.
///
/// # Errors
///
/// If a leaf is not a float, or `f` fails.
pub(crate) fn trace<X: Tree, R: Outcome>(f: impl FnOnce(&X) -> R, x: &X) -> Result<Trace<R::Tree>> {
    let leaves_x = leaves(x);
    check::floats(x, "argument")?;
    /// Closes the scope when `f` panics, too.
    struct Close(Arc<Scope>);
    impl Drop for Close {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let close = Close(Scope::open());
    let since = age_of_all();
    let inputs: Vec<Tensor> = leaves_x
        .iter()
        .map(|leaf| traced_input(leaf, &close.0))
        .collect();
    let fresh = with_leaves(x, &inputs);
    let y = R::run(|| f(&fresh))?;
    let Part {
        program,
        captured,
        nodes,
    } = cut(&inputs, since, &leaves(&y), true);
    drop(close);
    let known = known(&program, nodes);
    events::emit(Event::Traced {
        equations: program.eqns.len(),
    });
    Ok(Trace {
        program,
        n_inputs: inputs.len(),
        captured,
        known,
        y,
    })
}

/// The variables of a program whose values have been computed while it was traced. A value that another transform traces is not one:
/// that transform needs the op.
fn known(program: &Program, nodes: Vec<Shared>) -> Vec<(Var, Tensor)> {
    let computed = program.eqns.iter().zip(nodes);
    let computed = computed.filter(|(eqn, node)| {
        matches!(eqn.outs[..], [_]) && node.has_elements() && !node.is_traced()
    });
    computed
        .map(|(eqn, node)| (eqn.out(), Tensor(node.into())))
        .collect()
}

/// The program from `inputs` to `outs` that begins with nodes younger than `since`, and what its parameters after the inputs
/// are bound to: the older values that it reads.
pub(crate) fn cut_behind(inputs: &[Tensor], since: u64, outs: &[Tensor]) -> (Program, Vec<Bound>) {
    let part = cut(inputs, since, outs, false);
    (part.program, part.captured)
}

/// A part of the graph as a program.
struct Part {
    program: Program,
    /// What its parameters after the inputs are bound to.
    captured: Vec<Bound>,
    /// The value behind each equation.
    nodes: Vec<Shared>,
}

/// The program from `inputs` to `outs`, and what its parameters after the inputs are bound to: values that are older than
/// `since` and, if it is to be `dependent`, those that do not depend on an input. No node that depends on the inputs is older
/// than `since`.
fn cut(inputs: &[Tensor], since: u64, outs: &[Tensor], dependent: bool) -> Part {
    let mut engine = Engine::lock();
    let mut cut = Cut {
        epoch: engine.next_epoch(),
        edges: &engine.edges,
        since,
        dependent,
        n_inputs: inputs.len(),
        nodes: Vec::new(),
        captured: Vec::new(),
    };
    for (i, input) in inputs.iter().enumerate() {
        input.0.stamp.set(cut.epoch, Source::leaf(i as u32));
    }
    let roots = || outs.iter().map(|out| &*out.0);
    walk(roots(), &mut cut, &mut Stack::default());
    let sources: Vec<Source> = roots().map(|root| root.stamp.last()).collect();
    let Cut {
        nodes, captured, ..
    } = cut;
    drop(engine);
    let mut lowering = Lowering::default();
    for leaf in inputs.iter().chain(&captured) {
        lowering.leaf(leaf.aval());
    }
    for (node, args) in &nodes {
        lowering.node(node, args.iter().copied());
    }
    let Lowered { program, likes } = lowering.finish(&sources);
    let captured = captured.into_iter().map(Bound::Tensor);
    Part {
        program,
        captured: captured.chain(likes.into_iter().map(Bound::Aval)).collect(),
        nodes: nodes.into_iter().map(|(node, _)| node).collect(),
    }
}

/// A walk that ends at the inputs, at older values and, if the nodes have to be dependent, at values that do not depend on inputs.
struct Cut<'a> {
    epoch: u64,
    edges: &'a Edges,
    since: u64,
    dependent: bool,
    n_inputs: usize,
    nodes: Vec<(Shared, Vec<Source>)>,
    captured: Vec<Tensor>,
}

impl Cut<'_> {
    /// A captured value is a leaf.
    fn capture(&mut self, value: &Shared) {
        let leaf = Source::leaf((self.n_inputs + self.captured.len()) as u32);
        value.stamp.set(self.epoch, leaf);
        self.captured.push(Tensor::of(value));
    }
}

impl<'a> Walker<'a> for Cut<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        let behind = match value.age <= self.since {
            true => Behind::Nothing,
            false => value.behind(self.edges),
        };
        match behind {
            Behind::Nothing => self.capture(value),
            Behind::Op(args) => stack.push(value, value, 0, args),
            Behind::Part(op, out) => match op.stamp.get(self.epoch).map(Source::kind) {
                Some(Kind::Node(node, _)) => value.stamp.set(self.epoch, Source::node(node, out)),
                Some(_) => self.capture(value),
                None => stack.push(value, op, out, op.operands(self.edges)),
            },
        }
    }

    fn finish(&mut self, node: &Node<'a>) {
        let args: Vec<Source> = node.args.iter().map(|arg| arg.stamp.last()).collect();
        let depends = !self.dependent
            || args.iter().any(|source| match source.kind() {
                Kind::Node(..) => true,
                Kind::Leaf(leaf) => (leaf as usize) < self.n_inputs,
            });
        if !depends {
            // An op with several results is no leaf itself: its results are, if they are asked for.
            node.op.stamp.set(self.epoch, Source::leaf(u32::MAX));
            self.capture(node.value);
            return;
        }
        let number = self.nodes.len() as u32;
        node.op.stamp.set(self.epoch, Source::node(number, 0));
        let source = Source::node(number, node.out);
        node.value.stamp.set(self.epoch, source);
        self.nodes.push((node.op.clone(), args));
    }
}
