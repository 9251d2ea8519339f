//! Host code around the blocks.

use super::assemble::RawBlock;
use super::loops::EnclosingLoop;
use super::value::Value;
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
#[derive(Clone, Default)]
pub(super) struct HostState {
    /// True while a static argument is lowered, where a place is a host value.
    pub(super) reads_places: bool,
    /// Blocks so far, if the body may have control flow.
    pub(super) flow: Option<FlowState>,
}

/// State of a body with control flow during lowering.
#[derive(Clone)]
pub(super) struct FlowState {
    /// Open lists of nodes, the innermost last.
    pub(super) open: Vec<Vec<Node<HostCode>>>,
    pub(super) blocks: Vec<Rc<RawBlock>>,
    /// Slots whose next store is their declaration.
    pub(super) undeclared: BTreeSet<Var>,
    pub(super) declarations: Vec<Declaration>,
    /// Aval of every value stored in a slot, to compute the avals at loop heads.
    pub(super) stored: Vec<(Var, Aval)>,
    pub(super) results: Vec<Var>,
    /// Loops and labelled blocks around the current statement.
    pub(super) enclosing: Vec<super::loops::EnclosingLoop>,
    /// True if the current statement is unreachable.
    pub(super) left: bool,
    /// True if parts of trees that are values of branches are read as tensors.
    pub(super) as_tensors: bool,
    /// Variables that host code reads.
    pub(super) read: BTreeSet<Var>,
    /// Name of the local that the next branch is bound to.
    pub(super) hint: Option<Ident>,
}

impl FlowState {
    pub(super) fn new() -> FlowState {
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
    /// Returns the state of a body with control flow.
    pub(super) fn flow_mut(&mut self) -> &mut FlowState {
        self.flow.as_mut().expect("the body may have control flow")
    }

    pub(super) fn push_node(&mut self, node: Node<HostCode>) {
        let open = self.flow_mut().open.last_mut();
        open.expect("a list is open").push(node);
    }

    pub(super) fn push_code(&mut self, tokens: TokenStream) {
        self.push_node(Node::Host(HostCode::Code(tokens)));
    }

    pub(super) fn declare(&mut self, id: usize, declaration: Declaration) {
        self.flow_mut().declarations[id] = declaration;
    }

    /// Records that host code outside of the blocks reads variables.
    pub(super) fn read(&mut self, vars: &[Var]) {
        self.flow_mut().read.extend(vars);
    }

    /// Makes sure that variables which host code outside of the blocks reads are computed.
    pub(super) fn force(&mut self, reads: &[Var]) {
        if self.flow.is_some() {
            self.read(reads);
        }
    }

    /// Returns the value of a statement: `()`, or `Never` if it is unreachable.
    pub(super) fn unit(&mut self) -> Value {
        match self.flow_mut().left {
            true => Value::Never,
            false => Value::Host(super::Host {
                expr: syn::parse_quote!(()),
                reads: Vec::new(),
                number: false,
            }),
        }
    }

    /// Returns the loop or block that a label names, or the innermost one.
    pub(super) fn enclosing_mut(
        &mut self,
        label: Option<&syn::Lifetime>,
    ) -> Option<&mut EnclosingLoop> {
        let mut enclosing = self.flow_mut().enclosing.iter_mut().rev();
        match label {
            Some(label) => {
                let name = label.ident.to_string();
                enclosing.find(|a| a.label.as_deref() == Some(&name))
            }
            None => enclosing.next(),
        }
    }

    /// Returns the loop or block that a `break` leaves.
    pub(super) fn broken_by(&mut self, e: &syn::ExprBreak) -> Option<&mut EnclosingLoop> {
        match &e.label {
            Some(_) => self.enclosing_mut(e.label.as_ref()),
            None => {
                let mut enclosing = self.flow_mut().enclosing.iter_mut().rev();
                enclosing.find(|a| a.is_loop)
            }
        }
    }

    pub(super) fn outside(&mut self) -> EnclosingLoop {
        let enclosing = self.flow_mut().enclosing.pop();
        enclosing.expect("the loop has been pushed")
    }

    /// Names the value of the next branch after the target of an assignment.
    pub(super) fn hint(&mut self, left: &Expr) {
        if let (Expr::Path(p), Some(pieces)) = (left, &mut self.flow) {
            pieces.hint = p.path.get_ident().cloned();
        }
    }
}
