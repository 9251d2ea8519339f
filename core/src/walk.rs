//! A walk over the lazy graph, operands before consumers, without recursion and without a map.

use crate::node::{OpNode, Value};
use std::sync::Arc;

/// Where a value comes from, by the numbers that the walk has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A leaf: the walk ends there.
    Leaf(u32),
    /// A result of a node.
    Node(u32, u32),
}

impl Source {
    /// The source as one word; different sources give different words.
    pub(crate) fn encode(self) -> u64 {
        match self {
            Source::Leaf(leaf) => u64::from(leaf) << 1 | 1,
            Source::Node(node, out) => u64::from(node) << 32 | u64::from(out) << 1,
        }
    }
}

/// What a walker says of a value.
pub(crate) enum Found {
    /// It has a number already.
    Numbered(Source),
    /// The node that computes it comes first.
    Behind(Arc<OpNode>),
}

/// Decides where the walk ends, and hears of the nodes in order.
pub(crate) trait Walker {
    /// Says where `value` comes from.
    fn find(&mut self, value: &Arc<Value>) -> Found;
    /// Gives a number to a node all of whose operands have one. `find` has to know it afterwards.
    fn finish(&mut self, node: Arc<OpNode>, args: &[Source]);
}

/// Walks to `roots` in the order of first use, and returns where they come from.
pub(crate) fn walk<'a>(
    roots: impl IntoIterator<Item = &'a Arc<Value>>,
    walker: &mut impl Walker,
) -> Vec<Source> {
    struct Frame {
        node: Arc<OpNode>,
        /// Where the sources of its operands begin in `sources`.
        base: usize,
    }
    let mut stack: Vec<Frame> = Vec::new();
    let mut sources: Vec<Source> = Vec::new();
    let mut found = Vec::new();
    for root in roots {
        let source = loop {
            let Some(frame) = stack.last() else {
                match walker.find(root) {
                    Found::Numbered(source) => break source,
                    Found::Behind(node) => stack.push(Frame { node, base: 0 }),
                }
                continue;
            };
            match frame.node.args.get(sources.len() - frame.base) {
                Some(arg) => match walker.find(arg) {
                    Found::Numbered(source) => sources.push(source),
                    Found::Behind(node) => stack.push(Frame {
                        node,
                        base: sources.len(),
                    }),
                },
                None => {
                    let Frame { node, base } = stack.pop().expect("the frame in hand");
                    walker.finish(node, &sources[base..]);
                    sources.truncate(base);
                }
            }
        };
        found.push(source);
    }
    found
}
