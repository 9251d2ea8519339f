//! How a call obtains each leaf of its result: from its plan, or directly from an argument.

use super::pullback::CachedPullback;
use crate::function::Record;
use crate::graph::call_node::{CallNode, CallPlan, bound_pending, recycle_args, recycle_results};
use crate::graph::handle::Handle;
use crate::graph::pending;
use crate::graph::pending::Graph;
use crate::graph::recorded_numbers::{NumberLeaves, NumberValue};
use crate::graph::value::{Shared, Value, ValueSource};
use crate::tree::key::CallKey;
use crate::{Aval, Tensor};
use gradloom_kernels::memory::Buffer;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A compiled call: its plan, and the origin of each leaf of the result.
pub(super) struct CachedCall {
    /// `None` if all results are arguments.
    plan: Option<Arc<CallPlan>>,
    /// Avals of the results of the plan.
    avals: Box<[Aval]>,
    leaves: Box<[LeafOrigin]>,
    /// Numbers that each call computes from its arguments. They follow the leaves of the key.
    number_leaves: Option<Arc<NumberLeaves>>,
    /// Tensors that the body made of host values. They are the last arguments of the plan.
    constants: Box<[Shared]>,
    /// The numbers of the body that are leaves of the plan, and so among the constants.
    numbers: SmallVec<[u32; 4]>,
    /// True if one result of the plan is several leaves.
    repeats: bool,
    /// Pullback of the call, if it has one. Its residuals are the last results.
    backward: Option<Arc<CachedPullback>>,
}

/// Origin of a leaf of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeafOrigin {
    Argument(u32),
    Result(u32),
}

/// Largest total number of elements of the constants of a call.
///
/// A site would keep them for each key, so a call with more is recorded each time.
const MOST_CONSTANTS: usize = 8 << 10;

/// How the results of a recorded body follow from its arguments and constants.
pub(super) struct RecordedBody {
    /// The computation, and the argument index of each leaf of its graph.
    graph: Option<(Graph, Box<[u32]>)>,
    avals: Box<[Aval]>,
    leaves: Box<[LeafOrigin]>,
    constants: Box<[Shared]>,
    repeats: bool,
}

impl RecordedBody {
    /// Analyses the results of a body.
    ///
    /// # Errors
    ///
    /// The reason why a site cannot cache the call.
    pub(super) fn of(
        args: &[Shared],
        results: &[Shared],
        graph: impl Fn(&[Shared]) -> Graph,
    ) -> Result<RecordedBody, &'static str> {
        if results.iter().any(|result| result.aval.batch_dims() > 0) {
            return Err("a result has a batch prefix");
        }
        // A realised value that is not an argument was made of host values. Those of a pure body
        // are determined by the key, so it is a constant.
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
                return LeafOrigin::Argument(i as u32);
            }
            let there = targets.number(result);
            LeafOrigin::Result(there.unwrap_or_else(|| {
                targets.push(result);
                targets.values.len() - 1
            }) as u32)
        };
        let leaves: Box<[LeafOrigin]> = results.iter().map(leaf).collect();
        let targets = targets.values;
        let n_results = leaves
            .iter()
            .filter(|leaf| matches!(leaf, LeafOrigin::Result(_)));
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
            return Err("the body makes large tensors from host values: pass them as arguments");
        }
        Ok(RecordedBody {
            graph: computed,
            avals: targets.iter().map(|x| x.aval.clone()).collect(),
            leaves,
            constants,
            repeats,
        })
    }
}

/// Plans the computation of `results` from `args`, of which the last are `number_leaves`, and from constants that
/// the body captured. The run time of the plan is charged to `function`.
pub(super) fn cached_call(
    args: &[Shared],
    number_leaves: Option<NumberLeaves>,
    results: &[Shared],
    backward: Option<Arc<CachedPullback>>,
    function: Option<Arc<Record>>,
) -> Result<CachedCall, &'static str> {
    let planned = |targets: &[Shared]| Graph::of(targets, pending::ResultSet::Targets);
    let made = RecordedBody::of(args, results, planned)?;
    let plan = |(graph, leaves): (Graph, _)| -> Result<_, &'static str> {
        let plan = graph.plan();
        let plan = plan.map_err(|_| "the body calls a collective of several devices")?;
        Ok(Arc::new(CallPlan::new(plan, leaves, function)))
    };
    let numbers = made.graph.as_ref().map(|(graph, _)| graph.numbers.clone());
    Ok(CachedCall {
        numbers: numbers.unwrap_or_default(),
        plan: made.graph.map(plan).transpose()?,
        avals: made.avals,
        leaves: made.leaves,
        number_leaves: number_leaves.map(Arc::new),
        constants: made.constants,
        repeats: made.repeats,
        backward,
    })
}

/// A list of values with an index by address.
#[derive(Default)]
struct Numbered {
    values: Vec<Shared>,
    /// First position of each value. The list owns the values, so no address is reused.
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

impl CachedCall {
    /// Returns whether its plans are still in the cache.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        let plan = self.plan.as_ref();
        let backward = self.backward.as_ref();
        plan.is_none_or(|plan| plan.entry.is_current())
            && backward.is_none_or(|backward| backward.is_current())
    }

    /// Returns the graph of a later recording, without looking it up in the plan cache.
    pub(super) fn unseen(&self, targets: &[Shared]) -> Graph {
        Graph::unseen_like(targets, &self.numbers)
    }

    /// Describes the first difference between this call and a later recording, if any.
    pub(super) fn difference(
        &self,
        made: &RecordedBody,
        backward: Option<&CachedPullback>,
    ) -> Option<String> {
        match (&self.plan, &made.graph) {
            (Some(plan), Some((graph, leaves))) => {
                if let Some(difference) = graph.difference(&plan.entry) {
                    return Some(difference);
                }
                if plan.leaves != *leaves {
                    return Some("the operations use other arguments".to_owned());
                }
            }
            (None, None) => {}
            _ => {
                return Some(
                    "either this recording or the cached plan returns only arguments, and the other one does not".to_owned(),
                );
            }
        }
        if self.leaves != made.leaves {
            return Some(
                "the results are in a different order, or different ones are arguments".to_owned(),
            );
        }
        if self.constants.len() != made.constants.len() {
            return Some("a different number of tensors is made of host values".to_owned());
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

    /// Id of its plan in events.
    #[inline]
    pub(super) fn plan_id(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.entry.id)
    }

    /// Returns the numbers that each call computes from its arguments.
    pub(super) fn number_leaves(&self) -> Option<&Arc<NumberLeaves>> {
        self.number_leaves.as_ref()
    }

    /// Returns whether the call can have these values of its numbers.
    #[inline]
    pub(super) fn accepts(&self, values: &[NumberValue]) -> bool {
        let leaves = self.number_leaves.as_ref();
        leaves.is_none_or(|leaves| leaves.accept(values))
    }

    /// Returns the leaves of the result for the arguments of `key`.
    #[inline]
    pub(super) fn leaves(self: &Arc<Self>, key: &CallKey<'_>) -> ResultLeaves {
        match &self.number_leaves {
            None => self.leaves_beside(key, SmallVec::new()),
            Some(leaves) => self.leaves_beside(key, leaves.tensors(&key.values)),
        }
    }

    /// Returns the leaves of the result for the arguments of `key` and for `numbers`.
    #[inline]
    fn leaves_beside(
        self: &Arc<Self>,
        key: &CallKey<'_>,
        numbers: SmallVec<[Handle; 2]>,
    ) -> ResultLeaves {
        let (n, n_numbers) = (key.leaves.len(), numbers.len());
        let arg = |i: usize| match i.checked_sub(n) {
            None => &*key.leaves[i],
            Some(i) if i < n_numbers => &*numbers[i],
            Some(i) => &self.constants[i - n_numbers],
        };
        if let Some(leaves) = self.at_once(arg) {
            return leaves;
        }
        let mut args = key.args();
        args.extend(numbers.into_iter().map(Handle::into_shared));
        self.promise(args)
    }

    /// Returns the leaves of the result for `args`.
    pub(super) fn call(self: &Arc<Self>, args: Vec<Shared>) -> ResultLeaves {
        let n = args.len();
        let arg = |i: usize| match i.checked_sub(n) {
            None => &args[i],
            Some(i) => &self.constants[i],
        };
        match self.at_once(arg) {
            Some(leaves) => {
                recycle_args(args);
                leaves
            }
            None => self.promise(args),
        }
    }

    /// Computes the leaves of the result immediately, if that costs no more than to promise them.
    fn at_once<'a>(
        self: &Arc<Self>,
        arg: impl Fn(usize) -> &'a Shared + Copy,
    ) -> Option<ResultLeaves> {
        let plan = self.plan.as_ref().filter(|plan| plan.is_small)?;
        let computed = plan.run_on(arg)?;
        Some(self.results(arg, computed))
    }

    /// Returns the leaves of the result as promises.
    pub(super) fn promise(self: &Arc<Self>, mut args: Vec<Shared>) -> ResultLeaves {
        args.extend_from_slice(&self.constants);
        let mut leaves = self.results(|i| &args[i], Vec::new());
        match &self.plan {
            Some(plan) => {
                let call = CallNode::new(plan.clone(), args);
                bound_pending(&call);
                leaves.node = Some(call);
            }
            None => recycle_args(args),
        }
        leaves
    }

    fn results<'a>(
        self: &Arc<Self>,
        arg: impl Fn(usize) -> &'a Shared,
        computed: Vec<Option<Arc<Buffer>>>,
    ) -> ResultLeaves {
        let kept = self.leaves.iter().filter_map(|leaf| match leaf {
            LeafOrigin::Argument(i) => Some(Tensor::of(arg(*i as usize))),
            LeafOrigin::Result(_) => None,
        });
        let kept = kept.collect::<SmallVec<_>>().into_iter();
        let n_repeated = if self.repeats { self.avals.len() } else { 0 };
        ResultLeaves {
            call: self.clone(),
            next: 0,
            kept,
            computed,
            node: None,
            repeated: (0..n_repeated).map(|_| None).collect(),
        }
    }
}

/// Iterator over the leaves of the result of a call.
pub(super) struct ResultLeaves {
    call: Arc<CachedCall>,
    next: usize,
    /// The leaves that are arguments.
    kept: smallvec::IntoIter<[Tensor; 4]>,
    /// Results of the plan that have not been taken, if it has run.
    computed: Vec<Option<Arc<Buffer>>>,
    /// The call, if it is pending.
    node: Option<Arc<CallNode>>,
    /// Results returned so far, if one result may be several leaves.
    repeated: SmallVec<[Option<Tensor>; 8]>,
}

impl Drop for ResultLeaves {
    fn drop(&mut self) {
        recycle_results(std::mem::take(&mut self.computed));
    }
}

impl ResultLeaves {
    /// Returns the pullback of the call, if it has one.
    pub(super) fn backward(&self) -> Option<Arc<CachedPullback>> {
        self.call.backward.clone()
    }

    #[inline]
    fn result(&mut self, i: u32) -> Tensor {
        let i = i as usize;
        let mut value = || {
            let source = match (self.computed.get_mut(i), &self.node) {
                (Some(buffer), _) => {
                    let buffer = buffer.take();
                    ValueSource::Elements(buffer.expect("each result is taken once"))
                }
                (None, Some(node)) => ValueSource::Call(node.clone(), i),
                (None, None) => unreachable!("a result of the plan is either computed or promised"),
            };
            Tensor::new(&self.call.avals[i], source)
        };
        match self.repeated.get_mut(i) {
            Some(made) => made.get_or_insert_with(value).clone(),
            None => value(),
        }
    }
}

impl Iterator for ResultLeaves {
    type Item = Tensor;
    #[inline]
    fn next(&mut self) -> Option<Tensor> {
        let leaf = *self.call.leaves.get(self.next)?;
        self.next += 1;
        match leaf {
            LeafOrigin::Argument(_) => self.kept.next(),
            LeafOrigin::Result(i) => Some(self.result(i)),
        }
    }
}

/// Describes how two constants differ, if they do.
fn other_elements(old: &Shared, new: &Shared) -> Option<String> {
    if old.aval != new.aval {
        return Some(format!("a constant was {} and is {}", old.aval, new.aval));
    }
    let differ = match (old.detach_if_ready(), new.detach_if_ready()) {
        (Some(old), Some(new)) => !old.is_same(new),
        _ => true,
    };
    let text = || match old.aval.numel() {
        1 => format!(
            "a constant was {} and is {}",
            Tensor::of(old),
            Tensor::of(new)
        ),
        _ => format!("a constant {} has different elements", old.aval),
    };
    differ.then(text)
}
