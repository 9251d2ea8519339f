//! Lowers the nodes of a walk to a program.

use crate::Aval;
use crate::graph::topo::{Origin, OriginKind};
use crate::graph::value::Value;
use crate::plan::Lowered;
use gradloom_ir::hash::HashMap;
use gradloom_ir::{Attr, Eqn, Program, Static, Var};
use smallvec::SmallVec;

/// Builds a program node by node.
///
/// The parameters are the leaves, then one parameter for each distinct aval of a `Like` operand.
/// The latter have no values.
#[derive(Default)]
pub(crate) struct Lowering {
    program: Program,
    next: u32,
    leaves: Vec<Var>,
    /// Variable of the first result of each node.
    nodes: Vec<u32>,
    likes: Vec<(Aval, Var)>,
    // The maps are never iterated, so their order cannot affect the program.
    like_of: HashMap<Aval, Var>,
    attr_of: HashMap<Static, Attr>,
}

impl Lowering {
    /// Appends a leaf.
    pub(crate) fn leaf(&mut self, aval: &Aval) {
        let var = self.fresh(aval);
        self.leaves.push(var);
    }

    /// Appends the op of `node` with data operands `args`.
    pub(crate) fn node(&mut self, node: &Value, args: impl IntoIterator<Item = Origin>) {
        let more = node.more.as_deref();
        let likes = more.iter().flat_map(|more| &more.likes);
        let likes: SmallVec<[Var; 2]> = likes.map(|like| self.like(like)).collect();
        let args = args.into_iter().map(|s| self.var(s)).chain(likes).collect();
        let attrs = more.iter().flat_map(|more| &more.statics);
        let attrs = attrs.map(|s| self.attr(s)).collect();
        self.nodes.push(self.next);
        let outs = node.outs().iter().map(|aval| self.fresh(aval)).collect();
        self.program.eqns.push(Eqn {
            outs,
            op: node.op,
            attrs,
            args,
        });
    }

    /// Returns the parameter for the `Like` operands of this aval.
    fn like(&mut self, like: &Aval) -> Var {
        if let Some(var) = self.like_of.get(like) {
            return *var;
        }
        let var = self.fresh(like);
        self.like_of.insert(like.clone(), var);
        self.likes.push((like.clone(), var));
        var
    }

    /// Finishes the program with the results `outs`.
    pub(crate) fn finish(mut self, outs: &[Origin]) -> Lowered {
        self.program.outs = outs.iter().map(|s| self.var(*s)).collect();
        let likes = self.likes.iter().map(|(_, var)| *var);
        self.program.params = self.leaves.iter().copied().chain(likes).collect();
        Lowered {
            program: self.program,
            likes: self.likes.into_iter().map(|(aval, _)| aval).collect(),
        }
    }

    fn fresh(&mut self, aval: &Aval) -> Var {
        let var = Var(self.next);
        self.next += 1;
        self.program.avals.insert(var, aval.to_ir());
        var
    }

    fn var(&self, source: Origin) -> Var {
        match source.kind() {
            OriginKind::Leaf(leaf) => self.leaves[leaf as usize],
            OriginKind::Node(node, out) => Var(self.nodes[node as usize] + out),
        }
    }

    fn attr(&mut self, value: &Static) -> Attr {
        if let Some(attr) = self.attr_of.get(value) {
            return *attr;
        }
        let attr = Attr(self.program.attrs.len() as u32);
        self.program.attrs.push(value.clone());
        self.attr_of.insert(value.clone(), attr);
        attr
    }
}
