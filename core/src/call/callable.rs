//! How the results of a call are made of its arguments: by its plan, or they are arguments themselves.

use super::function::Record;
use super::key::CallKey;
use super::pullback::Backward;
use super::{CallNode, CallPlan, bound_pending, let_go_of, spare_results};
use crate::buffer::Buffer;
use crate::graph::{self, Graph};
use crate::node::{Shared, Source, Value};
use crate::{Aval, Tensor};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// How to make the results of a call out of its arguments.
pub(super) struct Callable {
    /// Nothing, if all results are arguments.
    plan: Option<Arc<CallPlan>>,
    /// The results of the plan.
    avals: Box<[Aval]>,
    leaves: Box<[Leaf]>,
    /// What the body has made of host values: the last arguments of the plan.
    constants: Box<[Shared]>,
    /// Whether a result of the plan is several leaves.
    repeats: bool,
    /// The pullback, of a call whose last results are what that reads.
    backward: Option<Arc<Backward>>,
}

/// A leaf of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Argument(u32),
    Result(u32),
}

/// The most elements of all constants that a body makes of host values. With more the call is recorded each time, because a
/// site would keep them for each key.
const MOST_CONSTANTS: usize = 8 << 10;

/// How the results of a body are made of its arguments and constants.
pub(super) struct Made {
    /// What is computed, and which argument each leaf of it is.
    graph: Option<(Graph, Box<[u32]>)>,
    avals: Box<[Aval]>,
    leaves: Box<[Leaf]>,
    constants: Box<[Shared]>,
    repeats: bool,
}

impl Made {
    /// What a body has made. An error says why a site cannot know it.
    pub(super) fn of(
        args: &[Shared],
        results: &[Shared],
        graph: impl Fn(&[Shared]) -> Graph,
    ) -> Result<Made, &'static str> {
        // What is there and is no argument has been made of host values, and those that a pure body has are in the key.
        let mut known = Numbered::default();
        args.iter().for_each(|arg| known.push(arg));
        let mut argument = |value: &Shared| {
            let i = known.number(value);
            if i.is_none() && value.has_elements() && value.is_free() {
                known.push(value);
                return Some(known.values.len() - 1);
            }
            i
        };
        let mut targets = Numbered::default();
        let leaf = |result: &Shared| {
            if let Some(i) = argument(result) {
                return Leaf::Argument(i as u32);
            }
            let there = targets.number(result);
            Leaf::Result(there.unwrap_or_else(|| {
                targets.push(result);
                targets.values.len() - 1
            }) as u32)
        };
        let leaves: Box<[Leaf]> = results.iter().map(leaf).collect();
        let targets = targets.values;
        let n_results = leaves.iter().filter(|leaf| matches!(leaf, Leaf::Result(_)));
        let repeats = n_results.count() > targets.len();
        let mut computed = None;
        if !targets.is_empty() {
            let graph = graph(&targets);
            let leaves = graph.leaves.iter();
            let leaves = leaves.map(|leaf| Some(argument(leaf)? as u32));
            let leaves = leaves.collect::<Option<_>>();
            let leaves = leaves.ok_or(
                "the result depends on a tensor that is neither an argument nor made in the body",
            )?;
            computed = Some((graph, leaves));
        }
        let constants: Box<[Shared]> = known.values.drain(args.len()..).collect();
        let n_elements = constants.iter().map(|x| x.aval.numel());
        if n_elements.sum::<usize>() > MOST_CONSTANTS {
            return Err("the body makes large tensors of host values: pass them as arguments");
        }
        Ok(Made {
            graph: computed,
            avals: targets.iter().map(|x| x.aval.clone()).collect(),
            leaves,
            constants,
            repeats,
        })
    }

    /// A graph that is not looked up.
    pub(super) fn unseen(targets: &[Shared]) -> Graph {
        Graph::unseen(targets, graph::Results::Targets)
    }
}

/// How to compute results from arguments, if they depend on nothing but constants besides. The time that the plan takes is added to a
/// function.
pub(super) fn callable(
    args: &[Shared],
    results: &[Shared],
    backward: Option<Arc<Backward>>,
    function: Option<Arc<Record>>,
) -> Result<Callable, &'static str> {
    let planned = |targets: &[Shared]| Graph::of(targets, graph::Results::Targets);
    let made = Made::of(args, results, planned)?;
    let plan =
        |(graph, leaves): (Graph, _)| Arc::new(CallPlan::new(graph.plan(), leaves, function));
    Ok(Callable {
        plan: made.graph.map(plan),
        avals: made.avals,
        leaves: made.leaves,
        constants: made.constants,
        repeats: made.repeats,
        backward,
    })
}

/// A list of values that is searched by address.
#[derive(Default)]
struct Numbered {
    values: Vec<Shared>,
    /// The first position of each value. The list keeps the values, so no address is used twice.
    position: HashMap<*const Value, usize>,
}

impl Numbered {
    fn push(&mut self, value: &Shared) {
        let next = self.values.len();
        self.position
            .entry(std::ptr::from_ref(&**value))
            .or_insert(next);
        self.values.push(value.clone());
    }

    fn number(&self, value: &Shared) -> Option<usize> {
        self.position.get(&std::ptr::from_ref(&**value)).copied()
    }
}

impl Callable {
    /// Whether its plans may be used.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        let plan = self.plan.as_ref();
        let backward = self.backward.as_ref();
        plan.is_none_or(|plan| plan.entry.is_current())
            && backward.is_none_or(|backward| backward.is_current())
    }

    /// A difference of what a body has made from what is computed here.
    pub(super) fn difference(&self, made: &Made, backward: Option<&Backward>) -> Option<String> {
        match (&self.plan, &made.graph) {
            (Some(plan), Some((graph, leaves))) => {
                if let Some(difference) = graph.difference(&plan.entry) {
                    return Some(difference);
                }
                if plan.leaves != *leaves {
                    return Some("the operations are on other arguments".to_owned());
                }
            }
            (None, None) => {}
            _ => return Some("the results were arguments, or are arguments".to_owned()),
        }
        if self.leaves != made.leaves {
            return Some(
                "the results are in another order, or others of them are arguments".to_owned(),
            );
        }
        if self.constants.len() != made.constants.len() {
            return Some("another number of tensors is made of host values".to_owned());
        }
        for (old, new) in self.constants.iter().zip(&made.constants) {
            if let Some(difference) = other_elements(old, new) {
                return Some(difference);
            }
        }
        match (&self.backward, backward) {
            (Some(old), Some(new)) => old.difference(new),
            _ => None,
        }
    }

    /// What events call its plan.
    #[inline]
    pub(super) fn plan_id(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.entry.id)
    }

    /// The leaves of the result for the arguments of a key.
    #[inline]
    pub(super) fn leaves(self: &Arc<Self>, key: &CallKey<'_>) -> Leaves {
        let n = key.leaves.len();
        let arg = |i: usize| match i.checked_sub(n) {
            None => &*key.leaves[i],
            Some(i) => &self.constants[i],
        };
        self.at_once(arg)
            .unwrap_or_else(|| self.promise(key.args()))
    }

    /// The leaves of the result for the given arguments.
    pub(super) fn call(self: &Arc<Self>, args: Vec<Shared>) -> Leaves {
        let n = args.len();
        let arg = |i: usize| match i.checked_sub(n) {
            None => &args[i],
            Some(i) => &self.constants[i],
        };
        match self.at_once(arg) {
            Some(leaves) => {
                let_go_of(args);
                leaves
            }
            None => self.promise(args),
        }
    }

    /// The leaves of the result, if to compute them is no more work than to promise them.
    fn at_once<'a>(self: &Arc<Self>, arg: impl Fn(usize) -> &'a Shared + Copy) -> Option<Leaves> {
        let plan = self.plan.as_ref().filter(|plan| plan.is_small)?;
        let computed = plan.run_on(arg)?;
        Some(self.results(arg, computed))
    }

    /// The leaves of the result, as promises.
    pub(super) fn promise(self: &Arc<Self>, mut args: Vec<Shared>) -> Leaves {
        args.extend_from_slice(&self.constants);
        let mut leaves = self.results(|i| &args[i], Vec::new());
        match &self.plan {
            Some(plan) => {
                let call = CallNode::new(plan.clone(), args);
                bound_pending(&call);
                leaves.node = Some(call);
            }
            None => let_go_of(args),
        }
        leaves
    }

    fn results<'a>(
        self: &Arc<Self>,
        arg: impl Fn(usize) -> &'a Shared,
        computed: Vec<Option<Arc<Buffer>>>,
    ) -> Leaves {
        let kept = self.leaves.iter().filter_map(|leaf| match leaf {
            Leaf::Argument(i) => Some(Tensor::of(arg(*i as usize))),
            Leaf::Result(_) => None,
        });
        let kept = kept.collect::<SmallVec<_>>().into_iter();
        let n_repeated = if self.repeats { self.avals.len() } else { 0 };
        Leaves {
            call: self.clone(),
            next: 0,
            kept,
            computed,
            node: None,
            repeated: (0..n_repeated).map(|_| None).collect(),
        }
    }
}

/// The leaves of the result of a call, one after another.
pub(super) struct Leaves {
    call: Arc<Callable>,
    next: usize,
    /// Those that are arguments.
    kept: smallvec::IntoIter<[Tensor; 4]>,
    /// The results of the plan that nobody has taken, if it has run.
    computed: Vec<Option<Arc<Buffer>>>,
    /// The call, if it has not.
    node: Option<Arc<CallNode>>,
    /// The results so far, where one may be several leaves.
    repeated: SmallVec<[Option<Tensor>; 8]>,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        spare_results(std::mem::take(&mut self.computed));
    }
}

impl Leaves {
    /// The pullback of the call, if it has one.
    pub(super) fn backward(&self) -> Option<Arc<Backward>> {
        self.call.backward.clone()
    }

    #[inline]
    fn result(&mut self, i: u32) -> Tensor {
        let i = i as usize;
        let mut value = || {
            let source = match (self.computed.get_mut(i), &self.node) {
                (Some(buffer), _) => {
                    let buffer = buffer.take();
                    Source::Elements(buffer.expect("a result is asked for once"))
                }
                (None, Some(node)) => Source::Call(node.clone(), i),
                (None, None) => unreachable!("a plan computes what is no argument"),
            };
            Tensor::new(&self.call.avals[i], source)
        };
        match self.repeated.get_mut(i) {
            Some(made) => made.get_or_insert_with(value).clone(),
            None => value(),
        }
    }
}

impl Iterator for Leaves {
    type Item = Tensor;
    #[inline]
    fn next(&mut self) -> Option<Tensor> {
        let leaf = *self.call.leaves.get(self.next)?;
        self.next += 1;
        match leaf {
            Leaf::Argument(_) => self.kept.next(),
            Leaf::Result(i) => Some(self.result(i)),
        }
    }
}

/// The first element in which two constants differ.
fn other_elements(old: &Shared, new: &Shared) -> Option<String> {
    if old.aval != new.aval {
        return Some(format!("a constant was {} and is {}", old.aval, new.aval));
    }
    let differ = match (old.settle(), new.settle()) {
        (Some(old), Some(new)) => !old.is_same(new),
        _ => true,
    };
    let text = || format!("a constant {} has other elements", old.aval);
    differ.then(text)
}
