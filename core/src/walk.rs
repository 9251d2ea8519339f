//! A walk over the lazy graph, operands before consumers, without recursion and without a map.

use crate::node::{Behind, Value};
use std::sync::Arc;

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
        Source(u64::from(node) << 32 | u64::from(out) << 1)
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0 & 1 {
            1 => Kind::Leaf((self.0 >> 1) as u32),
            _ => Kind::Node((self.0 >> 32) as u32, (self.0 as u32) >> 1),
        }
    }

    /// The source as one word; different sources give different words.
    pub(crate) fn encode(self) -> u64 {
        self.0
    }

    /// The source of a word.
    pub(crate) fn decode(word: u64) -> Source {
        Source(word)
    }
}

/// What a walker says of a value.
pub(crate) enum Found {
    /// It has a number already.
    Numbered(Source),
    /// The op that computes it comes first, and before that its operands.
    Behind(Node),
}

/// An op that a walk has met.
pub(crate) struct Node {
    /// What was asked for.
    pub(crate) value: Arc<Value>,
    /// The op, if that is another value.
    pub(crate) of: Option<Arc<Value>>,
    /// Which result of the op was asked for.
    pub(crate) out: u32,
}

impl Node {
    /// The op that is behind a value; `args` gets its operands.
    pub(crate) fn behind(value: Arc<Value>, behind: Behind, args: &mut Args) -> Node {
        match behind {
            Behind::Nothing => unreachable!("an op is behind the value"),
            Behind::Op => Node {
                value,
                of: None,
                out: 0,
            },
            Behind::Part(of, out) => {
                of.behind(|arg| args.push(arg));
                Node {
                    value,
                    of: Some(of),
                    out,
                }
            }
        }
    }
}

/// The operands that are still needed, and where those come from that have been found.
pub(crate) struct Args<'a> {
    epoch: u64,
    list: &'a mut Vec<Arg>,
}

enum Arg {
    Known(Source),
    Ask(Arc<Value>),
}

impl Args<'_> {
    /// The next operand.
    #[inline]
    pub(crate) fn push(&mut self, arg: &Arc<Value>) {
        self.list.push(match arg.stamp.get(self.epoch) {
            Some(source) => Arg::Known(source),
            None => Arg::Ask(arg.clone()),
        });
    }
}

/// Decides where the walk ends, and hears of the ops in order.
pub(crate) trait Walker {
    /// The epoch of the walk. What has a stamp of it is not asked for again as an operand.
    fn epoch(&self) -> u64;
    /// Says where `value` comes from. If from an op, `args` gets its operands.
    fn find(&mut self, value: Arc<Value>, args: &mut Args<'_>) -> Found;
    /// Says where the value behind `node` comes from. The operands of the op come from `args`.
    fn finish(&mut self, node: Node, args: impl ExactSizeIterator<Item = Source>) -> Source;
}

/// The memory of a walk, for the next.
#[derive(Default)]
pub(crate) struct Stack {
    frames: Vec<Frame>,
    args: Vec<Arg>,
}

struct Frame {
    node: Node,
    /// Where its operands begin.
    base: usize,
    /// The operand that is asked for.
    next: usize,
}

/// Walks to `roots` in the order of first use, and returns where they come from.
pub(crate) fn walk<'a>(
    roots: impl IntoIterator<Item = &'a Arc<Value>>,
    walker: &mut impl Walker,
    stack: &mut Stack,
) -> Vec<Source> {
    let epoch = walker.epoch();
    let Stack { frames, args: list } = stack;
    // A walk that panicked may have left something.
    frames.clear();
    list.clear();
    let mut find = |root: &Arc<Value>| {
        let mut value = root.clone();
        loop {
            let base = list.len();
            let mut found = match walker.find(value, &mut Args { epoch, list }) {
                Found::Numbered(source) => Some(source),
                Found::Behind(node) => {
                    let next = base;
                    frames.push(Frame { node, base, next });
                    None
                }
            };
            value = loop {
                let Some(frame) = frames.last_mut() else {
                    return found.unwrap_or_default();
                };
                if let Some(source) = found {
                    list[frame.next] = Arg::Known(source);
                    frame.next += 1;
                }
                if let Some(asked) = ask(list, &mut frame.next) {
                    break asked;
                }
                let Some(Frame { node, base, .. }) = frames.pop() else {
                    unreachable!("the op in hand");
                };
                let sources = list[base..].iter().map(|arg| match arg {
                    Arg::Known(source) => *source,
                    Arg::Ask(_) => unreachable!("all operands have been found"),
                });
                found = Some(walker.finish(node, sources));
                list.truncate(base);
            };
        }
    };
    roots.into_iter().map(&mut find).collect()
}

/// The first operand from `next` on that has not been found.
#[inline]
fn ask(list: &mut [Arg], next: &mut usize) -> Option<Arc<Value>> {
    while let Some(arg) = list.get_mut(*next) {
        if let Arg::Ask(_) = arg
            && let Arg::Ask(value) = std::mem::replace(arg, Arg::Known(Source::default()))
        {
            return Some(value);
        }
        *next += 1;
    }
    None
}
