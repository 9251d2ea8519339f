//! Host code around the blocks.

use super::value::{Content, Value};
use crate::lower::flow::assemble::RawBlock;
use crate::lower::flow::loops::EnclosingLoop;
use crate::lower::numbers::OperandPlace;
use crate::program::{Declaration, HostCode};
use gradloom_ir::Aval;
use gradloom_ir::Var;
use gradloom_ir::flow::Node;
use proc_macro2::Ident;
use proc_macro2::TokenStream;
use std::collections::BTreeSet;
use std::rc::Rc;
use syn::Expr;

/// State of the host code around the open block.
#[derive(Clone)]
pub(in crate::lower) struct HostState {
    /// True while a static argument is lowered. A place such as `model.scale` is then a host value.
    pub(in crate::lower) reads_places: bool,
    /// True in a static argument that is a call of a method, whose value is not a tensor.
    pub(in crate::lower) is_static: bool,
    /// Numbers that are operands of tensors.
    pub(in crate::lower) number_operands: BTreeSet<OperandPlace>,
    /// Blocks so far.
    pub(in crate::lower) flow: FlowState,
}

/// Blocks and host code so far.
#[derive(Clone)]
pub(in crate::lower) struct FlowState {
    /// Nodes of each scope that is not complete yet, the innermost last.
    pub(in crate::lower) open: Vec<Vec<Node<HostCode>>>,
    pub(in crate::lower) blocks: Vec<Rc<RawBlock>>,
    /// Slots without a value so far. The next store to such a slot declares it.
    pub(in crate::lower) undeclared: BTreeSet<Var>,
    pub(in crate::lower) declarations: Vec<Declaration>,
    /// Aval of every value stored in a slot, to compute the avals at loop heads.
    pub(in crate::lower) stored: Vec<(Var, Aval)>,
    pub(in crate::lower) results: Vec<Var>,
    /// Loops and labelled blocks around the current statement.
    pub(in crate::lower) enclosing: Vec<crate::lower::flow::loops::EnclosingLoop>,
    /// True if the current statement is unreachable.
    pub(in crate::lower) left: bool,
    /// True if parts of trees that are values of branches are read as tensors.
    pub(in crate::lower) as_tensors: bool,
    /// Variables that host code reads.
    pub(in crate::lower) read: BTreeSet<Var>,
    /// Name of the local that the next branch is bound to.
    pub(in crate::lower) hint: Option<Ident>,
}

impl FlowState {
    pub(in crate::lower) fn new() -> FlowState {
        FlowState {
            open: vec![Vec::new()],
            blocks: Vec::new(),
            undeclared: BTreeSet::new(),
            declarations: Vec::new(),
            stored: Vec::new(),
            results: Vec::new(),
            enclosing: Vec::new(),
            left: false,
            as_tensors: false,
            read: BTreeSet::new(),
            hint: None,
        }
    }
}

impl HostState {
    pub(in crate::lower) fn new() -> HostState {
        HostState {
            reads_places: false,
            is_static: false,
            number_operands: BTreeSet::new(),
            flow: FlowState::new(),
        }
    }

    /// Returns whether each call of the function reaches the current statement.
    pub(in crate::lower) fn is_always_reached(&self) -> bool {
        match &*self.flow.open {
            [outermost] => !outermost
                .iter()
                .any(|node| matches!(node, Node::Scope { .. })),
            _ => false,
        }
    }

    pub(in crate::lower) fn push_node(&mut self, node: Node<HostCode>) {
        let open = self.flow.open.last_mut();
        open.expect("a list is open").push(node);
    }

    pub(in crate::lower) fn push_code(&mut self, tokens: TokenStream) {
        self.push_node(Node::Host(HostCode::Code(tokens)));
    }

    pub(in crate::lower) fn declare(&mut self, id: usize, declaration: Declaration) {
        self.flow.declarations[id] = declaration;
    }

    /// Records that host code outside of the blocks reads variables, so that they are computed.
    pub(in crate::lower) fn read(&mut self, vars: &[Var]) {
        self.flow.read.extend(vars);
    }

    /// Returns the value of a statement: `()`, or `Never` if it is unreachable.
    pub(in crate::lower) fn unit(&mut self) -> Value {
        match self.flow.left {
            true => Value::Never,
            false => Value::Host(crate::lower::Host {
                expr: syn::parse_quote!(()),
                reads: Vec::new(),
                content: Content::Plain,
            }),
        }
    }

    /// Returns the loop or block that a label names, or the innermost one.
    pub(in crate::lower) fn enclosing_mut(
        &mut self,
        label: Option<&syn::Lifetime>,
    ) -> Option<&mut EnclosingLoop> {
        let mut enclosing = self.flow.enclosing.iter_mut().rev();
        match label {
            Some(label) => {
                let name = label.ident.to_string();
                enclosing.find(|a| a.label.as_deref() == Some(&name))
            }
            None => enclosing.next(),
        }
    }

    /// Returns the loop or block that a `break` leaves.
    pub(in crate::lower) fn broken_by(&mut self, e: &syn::ExprBreak) -> Option<&mut EnclosingLoop> {
        match &e.label {
            Some(_) => self.enclosing_mut(e.label.as_ref()),
            None => {
                let mut enclosing = self.flow.enclosing.iter_mut().rev();
                enclosing.find(|a| a.is_loop)
            }
        }
    }

    pub(in crate::lower) fn outside(&mut self) -> EnclosingLoop {
        let enclosing = self.flow.enclosing.pop();
        enclosing.expect("the loop has been pushed")
    }

    /// Names the value of the next branch after the target of an assignment.
    pub(in crate::lower) fn hint(&mut self, left: &Expr) {
        if let Expr::Path(p) = left {
            self.flow.hint = p.path.get_ident().cloned();
        }
    }
}
