//! Topological walk over the lazy graph, operands first, without recursion or hash maps.

use crate::graph::value::Shared;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Origin of a value in a walk: the number of a leaf, or of a node and its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Origin(u64);

/// Decoded form of a [`Origin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginKind {
    /// Number of a leaf, where the walk ends.
    Leaf(u32),
    /// Number of a node, and the index of the result.
    Node(u32, u32),
}

impl Origin {
    pub(crate) fn leaf(leaf: u32) -> Origin {
        Origin(u64::from(leaf) << 1 | 1)
    }

    pub(crate) fn node(node: u32, out: u32) -> Origin {
        Origin(u64::from(out) << 33 | u64::from(node) << 1)
    }

    pub(crate) fn kind(self) -> OriginKind {
        let number = (self.0 >> 1) as u32;
        match self.0 & 1 {
            1 => OriginKind::Leaf(number),
            _ => OriginKind::Node(number, (self.0 >> 33) as u32),
        }
    }

    /// Returns the origin as one unique word.
    ///
    /// The word is small if the number is small and the origin is a leaf or a first result.
    #[inline]
    pub(crate) fn encode(self) -> u64 {
        self.0
    }

    /// Returns the origin that was encoded as `word`.
    #[inline]
    pub(crate) fn decode(word: u64) -> Origin {
        Origin(word)
    }
}

/// Mark of a walk on a value: the epoch of the walk, and the origin of the value in it.
///
/// It replaces a map from values to origins.
///
/// Relaxed atomics suffice, because the engine's lock serialises walks.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    epoch: AtomicU64,
    source: AtomicU64,
    /// Number of edges on which the walk reached the value.
    n_edges: AtomicU32,
}

/// Edge count that marks a target of the walk.
const ASKED_FOR: u32 = u32::MAX;

impl Stamp {
    /// Returns the origin that this walk assigned, if it has met the value.
    #[inline]
    pub(crate) fn get(&self, epoch: u64) -> Option<Origin> {
        self.is_of(epoch).then(|| self.last())
    }

    /// Returns whether this walk has met the value.
    #[inline]
    fn is_of(&self, epoch: u64) -> bool {
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// Returns the origin that the latest walk assigned.
    #[inline]
    pub(crate) fn last(&self) -> Origin {
        Origin(self.source.load(Ordering::Relaxed))
    }

    /// Assigns an origin in this walk, and resets the edge count.
    #[inline]
    pub(crate) fn set(&self, epoch: u64, source: Origin) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.source.store(source.0, Ordering::Relaxed);
        self.n_edges.store(0, Ordering::Relaxed);
    }

    /// Counts an edge to the value. The walk must have assigned its origin.
    #[inline]
    pub(crate) fn count_edge(&self) {
        // The engine's lock excludes other writers, so a load and a store suffice.
        let n_edges = self.n_edges.load(Ordering::Relaxed);
        self.n_edges.store(n_edges + 1, Ordering::Relaxed);
    }

    /// Marks a target of the walk, so that [`is_held`](Self::is_held) returns false.
    pub(crate) fn mark_asked_for(&self) {
        self.n_edges.store(ASKED_FOR, Ordering::Relaxed);
    }

    /// Marks the value as held from outside of the walk, unless it is a target.
    pub(crate) fn mark_held(&self) {
        if self.n_edges.load(Ordering::Relaxed) != ASKED_FOR {
            self.n_edges.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether some of the `n_handles` handles are not edges of the walk.
    ///
    /// Always false for targets.
    pub(crate) fn is_held(&self, n_handles: usize) -> bool {
        n_handles > self.n_edges.load(Ordering::Relaxed) as usize
    }
}

/// An op that a walk has met.
pub(crate) struct WalkNode<'a> {
    /// Value through which the walk met the op.
    pub(crate) value: &'a Shared,
    /// Value that owns the op: `value` itself, or the op if it has several results.
    pub(crate) op: &'a Shared,
    /// Data operands of the op.
    pub(crate) args: &'a [Shared],
    /// Index of `value` among the results of the op.
    pub(crate) out: u32,
    /// Number of operands visited so far.
    next: u32,
}

/// Stack of the ops whose operands a walk is visiting. Its memory is reused by later walks.
#[derive(Default)]
pub(crate) struct Stack<'a>(Vec<WalkNode<'a>>);

impl<'a> Stack<'a> {
    /// Pushes an op, whose operands are visited next.
    #[inline]
    pub(crate) fn push(&mut self, value: &'a Shared, op: &'a Shared, out: u32, args: &'a [Shared]) {
        self.0.push(WalkNode {
            value,
            op,
            args,
            out,
            next: 0,
        });
    }

    /// Returns the op whose operands the walk is visiting.
    pub(crate) fn reader(&self) -> Option<&WalkNode<'a>> {
        self.0.last()
    }

    /// Returns the empty stack with another lifetime, keeping its memory.
    pub(crate) fn emptied<'b>(self) -> Stack<'b> {
        Stack(emptied(self.0))
    }
}

/// Callbacks of a walk: decides where it ends, and receives ops in topological order.
pub(crate) trait Walker<'a> {
    /// Returns the epoch of the walk. Values stamped with it are not visited again.
    fn epoch(&self) -> u64;
    /// Assigns the origin of `value`, or pushes the op that computes it.
    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>);
    /// Assigns the origins of the op and of `node.value`. The operands already have theirs.
    fn finish(&mut self, node: &WalkNode<'a>);
}

/// Walks from `roots` in the order of first use, and stamps every value that it meets.
pub(crate) fn walk<'a>(
    roots: impl IntoIterator<Item = &'a Shared>,
    walker: &mut impl Walker<'a>,
    stack: &mut Stack<'a>,
) {
    let epoch = walker.epoch();
    for root in roots {
        if !root.stamp.is_of(epoch) {
            walker.find(root, stack);
        }
        while let Some(node) = stack.0.last_mut() {
            if let Some(arg) = node.args.get(node.next as usize) {
                node.next += 1;
                if !arg.stamp.is_of(epoch) {
                    walker.find(arg, stack);
                }
            } else {
                walker.finish(node);
                stack.0.pop();
            }
        }
    }
}

/// Returns the empty vector with another element type, keeping its memory.
pub(crate) fn emptied<T, U>(mut memory: Vec<T>) -> Vec<U> {
    memory.clear();
    let none = memory.into_iter().map(|_| unreachable!("it is empty"));
    // Elements of equal size and alignment are collected in place, without an allocation.
    none.collect()
}
