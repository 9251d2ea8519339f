//! From a closure to a program.

use super::Outcome;
use super::replay::Bound;
use crate::node::{OpNode, Value};
use crate::record::traced_input;
use crate::tree::{leaves, with_leaves};
use crate::{Aval, Error, Result, Tensor, Tree};
use gradloom_ir::{Builder, Program, Var};
use std::collections::HashMap;
use std::sync::Arc;

/// A closure as a program.
pub(crate) struct Trace<Y> {
    /// `x..., captured... -> y...`.
    pub(crate) program: Program,
    /// How many parameters stand for the leaves of the argument.
    pub(crate) n_inputs: usize,
    /// What the closure used besides its argument: the arguments after the leaves.
    pub(crate) captured: Vec<Bound>,
    /// The result on fresh values: its structure, and the avals of its leaves.
    pub(crate) y: Y,
}

impl<Y> Trace<Y> {
    /// The parameters to differentiate by.
    pub(crate) fn wrt(&self) -> &[Var] {
        &self.program.params[..self.n_inputs]
    }

    /// The arguments of the program, for given leaves.
    pub(crate) fn args(&self, x: &[Tensor]) -> Vec<Bound> {
        x.iter()
            .cloned()
            .map(Bound::Tensor)
            .chain(self.captured.iter().cloned())
            .collect()
    }
}

/// Runs `f` once on fresh values equal to the leaves of `x`.
///
/// # Errors
///
/// If a leaf is not a float, or `f` fails.
pub(crate) fn trace<X: Tree, R: Outcome>(f: impl FnOnce(&X) -> R, x: &X) -> Result<Trace<R::Tree>> {
    let leaves_x = leaves(x);
    for (i, leaf) in leaves_x.iter().enumerate() {
        if !leaf.dtype().is_float() {
            return Err(Error::NotDifferentiable {
                path: path(x, i),
                aval: leaf.aval().clone(),
            });
        }
    }
    let inputs: Vec<Tensor> = leaves_x.iter().map(traced_input).collect();
    let fresh = with_leaves(x, &inputs);
    let y = R::run(|| f(&fresh))?;
    let (program, captured) = cut(&inputs, &leaves(&y));
    Ok(Trace {
        program,
        n_inputs: inputs.len(),
        captured,
        y,
    })
}

/// Where leaf `i` of an argument stands, as a user would write it.
pub(crate) fn path(tree: &impl Tree, i: usize) -> String {
    let mut paths = Vec::new();
    tree.paths("argument", &mut paths);
    paths.swap_remove(i)
}

/// The program from `inputs` to `outs`. What does not depend on an input is a further parameter.
fn cut(inputs: &[Tensor], outs: &[Tensor]) -> (Program, Vec<Bound>) {
    let mut cx = Cut::default();
    let mut params: Vec<Var> = Vec::with_capacity(inputs.len());
    for x in inputs {
        let param = cx.b.param(x.aval().to_ir());
        cx.values.insert(Arc::as_ptr(&x.0), param);
        params.push(param);
    }
    for node in active_nodes(inputs, outs) {
        let attrs: Vec<_> = node.statics.iter().map(|s| cx.b.attr(s.clone())).collect();
        let data: Vec<Var> = node.args.iter().map(|x| cx.value(x)).collect();
        let likes: Vec<Var> = node.likes.iter().map(|l| cx.like(l)).collect();
        let args: Vec<Var> = data.into_iter().chain(likes).collect();
        let outs = cx.b.emit_many(node.op, &attrs, &args, node.outs.len());
        cx.nodes.insert(Arc::as_ptr(&node), outs);
    }
    let outs = outs.iter().map(|y| cx.value(&y.0)).collect();
    params.extend(cx.params);
    (cx.b.finish(params, outs), cx.captured)
}

/// The program under construction. The maps are looked up by address and never iterated.
#[derive(Default)]
struct Cut {
    b: Builder,
    /// Inputs and captured values.
    values: HashMap<*const Value, Var>,
    /// The results of nodes that depend on an input.
    nodes: HashMap<*const OpNode, Vec<Var>>,
    likes: HashMap<Aval, Var>,
    /// The parameters after the inputs, and what they are bound to.
    params: Vec<Var>,
    captured: Vec<Bound>,
}

impl Cut {
    fn value(&mut self, x: &Arc<Value>) -> Var {
        if let Some(var) = self.values.get(&Arc::as_ptr(x)) {
            return *var;
        }
        let promise = x.state().promise.clone();
        if let Some((node, index)) = promise
            && let Some(outs) = self.nodes.get(&Arc::as_ptr(&node))
        {
            return outs[index];
        }
        let var = self.capture(x.aval.clone(), Bound::Tensor(Tensor(x.clone())));
        self.values.insert(Arc::as_ptr(x), var);
        var
    }

    fn like(&mut self, aval: &Aval) -> Var {
        if let Some(var) = self.likes.get(aval) {
            return *var;
        }
        let var = self.capture(aval.clone(), Bound::Aval(aval.clone()));
        self.likes.insert(aval.clone(), var);
        var
    }

    fn capture(&mut self, aval: Aval, bound: Bound) -> Var {
        let var = self.b.param(aval.to_ir());
        self.params.push(var);
        self.captured.push(bound);
        var
    }
}

/// The nodes between `inputs` and `outs` that depend on an input, producers before consumers.
///
/// The walk keeps its own stack: a graph may be a chain of a million nodes.
fn active_nodes(inputs: &[Tensor], outs: &[Tensor]) -> Vec<Arc<OpNode>> {
    let is_input: HashMap<*const Value, ()> =
        inputs.iter().map(|x| (Arc::as_ptr(&x.0), ())).collect();
    // The producer of a value that may depend on an input.
    let producer = |x: &Arc<Value>| {
        if is_input.contains_key(&Arc::as_ptr(x)) {
            return None;
        }
        let promise = x.state().promise.clone();
        promise.map(|(node, _)| node).filter(|node| node.traced)
    };
    // Whether a visited node depends on an input; `false` while it is on the stack.
    let mut active: HashMap<*const OpNode, bool> = HashMap::new();
    let mut order = Vec::new();
    for out in outs {
        let mut stack: Vec<(Arc<OpNode>, usize)> = Vec::new();
        let mut next = producer(&out.0);
        loop {
            if let Some(node) = next.take()
                && !active.contains_key(&Arc::as_ptr(&node))
            {
                active.insert(Arc::as_ptr(&node), false);
                stack.push((node, 0));
            }
            let Some((node, at)) = stack.last_mut() else {
                break;
            };
            if let Some(arg) = node.args.get(*at) {
                *at += 1;
                next = producer(arg);
                continue;
            }
            let (node, _) = stack.pop().expect("the node that was just looked at");
            let depends = |x: &Arc<Value>| {
                is_input.contains_key(&Arc::as_ptr(x))
                    || producer(x).is_some_and(|p| active.get(&Arc::as_ptr(&p)) == Some(&true))
            };
            if node.args.iter().any(depends) {
                active.insert(Arc::as_ptr(&node), true);
                order.push(node);
            }
        }
    }
    order
}
