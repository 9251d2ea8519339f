//! A walk over the lazy graph, operands before consumers, without recursion and without a map.

use crate::node::Shared;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where a value comes from, by the numbers that the walk has given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Source(u64);

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A leaf: the walk ends there.
    Leaf(u32),
    /// A result of a node.
    Node(u32, u32),
}

impl Source {
    pub(crate) fn leaf(leaf: u32) -> Source {
        Source(u64::from(leaf) << 1 | 1)
    }

    pub(crate) fn node(node: u32, out: u32) -> Source {
        Source(u64::from(out) << 33 | u64::from(node) << 1)
    }

    pub(crate) fn kind(self) -> Kind {
        let number = (self.0 >> 1) as u32;
        match self.0 & 1 {
            1 => Kind::Leaf(number),
            _ => Kind::Node(number, (self.0 >> 33) as u32),
        }
    }

    /// The source as one word; different sources give different words, and leaves and first results with small numbers give
    /// small ones.
    #[inline]
    pub(crate) fn encode(self) -> u64 {
        self.0
    }

    /// The source of a word.
    #[inline]
    pub(crate) fn decode(word: u64) -> Source {
        Source(word)
    }
}

/// Where a walk met a value: the walk's epoch and the source. A walk needs no map from values to numbers.
///
/// Walks hold the engine's lock, which orders them; so relaxed atomics do.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    epoch: AtomicU64,
    source: AtomicU64,
    /// Number of edges on which the walk came to the value.
    n_edges: AtomicU32,
}

/// The number of edges of a value that the walk was asked for.
const ASKED_FOR: u32 = u32::MAX;

impl Stamp {
    /// The source that this walk gave, if it has met the value.
    #[inline]
    pub(crate) fn get(&self, epoch: u64) -> Option<Source> {
        self.is_of(epoch).then(|| self.last())
    }

    /// Whether this walk has met the value.
    #[inline]
    fn is_of(&self, epoch: u64) -> bool {
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// The source that the last walk gave that met the value.
    #[inline]
    pub(crate) fn last(&self) -> Source {
        Source(self.source.load(Ordering::Relaxed))
    }

    /// Gives a source in this walk.
    #[inline]
    pub(crate) fn set(&self, epoch: u64, source: Source) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.source.store(source.0, Ordering::Relaxed);
        self.n_edges.store(0, Ordering::Relaxed);
    }

    /// Counts an edge to the value, after the walk has given its source.
    #[inline]
    pub(crate) fn count_edge(&self) {
        // Under the engine's lock nobody else writes: no atomic addition is needed.
        let n_edges = self.n_edges.load(Ordering::Relaxed);
        self.n_edges.store(n_edges + 1, Ordering::Relaxed);
    }

    /// Says that the walk was asked for the value, so that [`is_held`](Self::is_held) is false.
    pub(crate) fn mark_asked_for(&self) {
        self.n_edges.store(ASKED_FOR, Ordering::Relaxed);
    }

    /// Says that something outside of the walk holds the value, if the walk was not asked for it.
    pub(crate) fn mark_held(&self) {
        if self.n_edges.load(Ordering::Relaxed) != ASKED_FOR {
            self.n_edges.store(0, Ordering::Relaxed);
        }
    }

    /// Whether some of `n_handles` handles are neither edges of the walk nor those of its targets.
    pub(crate) fn is_held(&self, n_handles: usize) -> bool {
        n_handles > self.n_edges.load(Ordering::Relaxed) as usize
    }
}

/// An op that a walk has met.
pub(crate) struct Node<'a> {
    /// What was asked for.
    pub(crate) value: &'a Shared,
    /// The value that has the op: the same, or the op where that has several results.
    pub(crate) op: &'a Shared,
    /// Its operands.
    pub(crate) args: &'a [Shared],
    /// Which result of the op was asked for.
    pub(crate) out: u32,
    /// How many operands have been looked at.
    next: u32,
}

/// The ops whose operands a walk is at; and the memory of it, for the next.
#[derive(Default)]
pub(crate) struct Stack<'a>(Vec<Node<'a>>);

impl<'a> Stack<'a> {
    /// An op is next.
    #[inline]
    pub(crate) fn push(&mut self, value: &'a Shared, op: &'a Shared, out: u32, args: &'a [Shared]) {
        self.0.push(Node {
            value,
            op,
            args,
            out,
            next: 0,
        });
    }

    /// The same memory, for another walk.
    pub(crate) fn emptied<'b>(self) -> Stack<'b> {
        Stack(emptied(self.0))
    }
}

/// Decides where the walk ends, and hears of the ops in order.
pub(crate) trait Walker<'a> {
    /// The epoch of the walk. What has a stamp of it is not asked for again.
    fn epoch(&self) -> u64;
    /// Stamps `value` with where it comes from, or pushes the op that computes it.
    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>);
    /// Stamps the value behind `node`, and the op, with where they come from. The operands have their stamps.
    fn finish(&mut self, node: &Node<'a>);
}

/// Walks to `roots` in the order of first use. Then they have stamps.
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

/// The same memory, for references that live shorter or longer.
pub(crate) fn emptied<T, U>(mut memory: Vec<T>) -> Vec<U> {
    memory.clear();
    let none = memory.into_iter().map(|_| unreachable!("it is empty"));
    // For types of one size this is done in place.
    none.collect()
}
