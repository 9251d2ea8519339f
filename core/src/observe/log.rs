//! The list of nodes of a trace, and the nodes of the values that it has met.

use super::node::{Attribute, NodeOutput, TraceNode};
use crate::error::TraceFault;
use crate::graph::engine::Engine;
use crate::graph::value::{Producer, Shared};
use crate::{Aval, Result};
use gradloom_ir::{Op, Static};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;

/// Nodes in the order in which they were recorded.
#[derive(Default)]
pub(crate) struct Log {
    nodes: Vec<Arc<TraceNode>>,
    known: HashSet<super::NodeId>,
    /// Outputs by name, in the order of their first registration.
    outputs: Vec<(String, NodeOutput)>,
    /// Node of each value that is the only result of an op, by its sequence number.
    ops: HashMap<u64, NodeOutput>,
    /// Numbers beside tensors, by sequence number.
    numbers: HashMap<u64, Static>,
    /// Node of each other value, by its address. The value is held, so no other one gets the address.
    held: HashMap<usize, (Shared, NodeOutput)>,
    /// Number of nodes whose line has been noted.
    located: usize,
}

impl Log {
    pub(crate) fn nodes(&self) -> &[Arc<TraceNode>] {
        &self.nodes
    }

    pub(crate) fn outputs(&self) -> &[(String, NodeOutput)] {
        &self.outputs
    }

    /// Appends the node of an op with these results.
    pub(super) fn record(&mut self, outs: &[Shared]) {
        let (op, operands) = {
            let engine = Engine::lock();
            match outs[0].producer(&engine.edges) {
                Producer::Op(args) => (outs[0].clone(), args.to_vec()),
                Producer::Part(op, _) => (op.clone(), op.operands(&engine.edges).to_vec()),
                Producer::Nothing => return,
            }
        };
        let statics: &[Static] = op.more.as_ref().map_or(&[], |more| &more.statics);
        if op.op == Op::Scalar
            && let [number, ..] = statics
        {
            self.numbers.insert(op.seq_no, number.clone());
            return;
        }
        let names = op.op.def().statics().iter().map(|arg| arg.name);
        let attributes = names.zip(statics);
        let mut attributes: Vec<(Cow<'static, str>, Attribute)> = attributes
            .map(|(name, value)| (name.into(), Attribute::of(value)))
            .collect();
        let mut inputs = Vec::new();
        for operand in &operands {
            match self.numbers.get(&operand.seq_no) {
                Some(number) => attributes.push(("number".into(), Attribute::of(number))),
                None => inputs.push(self.output_of(operand)),
            }
        }
        let avals = outs.iter().map(|out| out.aval.clone()).collect();
        let node = TraceNode::new(operation(op.op), inputs, avals, attributes);
        let node = self.push(node);
        match outs {
            [out] if op.seq_no != 0 && Shared::ptr_eq(out, &op) => {
                self.ops.insert(op.seq_no, NodeOutput { node, index: 0 });
            }
            outs => {
                for (index, out) in outs.iter().enumerate() {
                    let node = node.clone();
                    self.hold(out, NodeOutput { node, index });
                }
            }
        }
    }

    /// Appends a node.
    pub(crate) fn push(&mut self, node: TraceNode) -> Arc<TraceNode> {
        let node = Arc::new(node);
        self.known.insert(node.id());
        self.nodes.push(node.clone());
        node
    }

    /// Appends a node that was made elsewhere, whose inputs are nodes of this trace.
    pub(crate) fn push_checked(&mut self, node: Arc<TraceNode>) -> Result<()> {
        let outside = node
            .inputs()
            .iter()
            .find(|input| !self.contains(&input.node));
        if let Some(input) = outside {
            return Err(TraceFault::outside(&input.node, &input.node.id()).into());
        }
        if self.known.insert(node.id()) {
            self.nodes.push(node);
        }
        Ok(())
    }

    pub(crate) fn contains(&self, node: &TraceNode) -> bool {
        self.known.contains(&node.id())
    }

    /// Names an output. A name that is registered again names the new output.
    pub(crate) fn register(&mut self, name: &str, output: NodeOutput) -> Result<()> {
        if !self.contains(&output.node) {
            return Err(TraceFault::outside(&output.node, &output.node.id()).into());
        }
        match self.outputs.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = output,
            None => self.outputs.push((name.to_owned(), output)),
        }
        Ok(())
    }

    /// Notes the node of a value that no recorded op computes.
    pub(crate) fn hold(&mut self, value: &Shared, output: NodeOutput) {
        self.held.insert(address(value), (value.clone(), output));
    }

    /// Notes that `fresh` is the same for the trace as `of`.
    pub(super) fn alias(&mut self, fresh: &Shared, of: &Shared) {
        let output = self.output_of(of);
        self.hold(fresh, output);
    }

    /// Returns the node of a value, if the trace has met it.
    pub(crate) fn find(&self, value: &Shared) -> Option<NodeOutput> {
        let held = self.held.get(&address(value)).map(|(_, output)| output);
        held.or_else(|| self.ops.get(&value.seq_no)).cloned()
    }

    /// Returns the node of the op that this value owns, with the index of its first known result.
    pub(crate) fn find_op(&self, op: &Shared) -> Option<NodeOutput> {
        let parts = || {
            self.held
                .values()
                .find(|(value, _)| value.seq_no == op.seq_no)
        };
        self.find(op)
            .or_else(|| parts().map(|(_, output)| output.clone()))
    }

    /// Returns the node of a value. A value from outside of the trace becomes a constant.
    pub(crate) fn output_of(&mut self, value: &Shared) -> NodeOutput {
        self.find(value).unwrap_or_else(|| {
            let node = leaf("constant", value.aval.clone());
            let node = self.push(node);
            let output = NodeOutput { node, index: 0 };
            self.hold(value, output.clone());
            output
        })
    }

    /// Sets the line of the nodes since the last call of this function.
    pub(super) fn locate(&mut self, at: Option<&'static Location<'static>>) {
        if let Some(at) = at {
            self.nodes[self.located..]
                .iter()
                .for_each(|node| node.set_line(at));
        }
        self.located = self.nodes.len();
    }
}

/// Returns a node without inputs.
pub(crate) fn leaf(operation: &'static str, aval: Aval) -> TraceNode {
    TraceNode::new(operation, Vec::new(), vec![aval], Vec::new())
}

/// Returns the name of an op in traces.
fn operation(op: Op) -> &'static str {
    match op {
        Op::Mul => "multiply",
        op => op.def().name(),
    }
}

fn address(value: &Shared) -> usize {
    Shared::as_ptr(value) as usize
}
