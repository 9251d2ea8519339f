//! Host code around the blocks.

use super::blocks::FlowState;
use super::loops::EnclosingLoop;
use super::value::Value;
use crate::program::{Declaration, HostCode};
use gradloom_ir::Var;
use gradloom_ir::flow::Node;
use proc_macro2::TokenStream;
use syn::Expr;

/// State of the host code around the open block.
#[derive(Clone, Default)]
pub(super) struct HostState {
    /// True while a static argument is lowered, where a place is a host value.
    pub(super) reads_places: bool,
    /// Blocks so far, if the body may have control flow.
    pub(super) flow: Option<FlowState>,
}

impl HostState {
    /// Returns the state of a body with control flow.
    pub(super) fn pieces_mut(&mut self) -> &mut FlowState {
        self.flow.as_mut().expect("the body may have control flow")
    }

    pub(super) fn push_node(&mut self, node: Node<HostCode>) {
        let open = self.pieces_mut().open.last_mut();
        open.expect("a list is open").push(node);
    }

    pub(super) fn push_code(&mut self, tokens: TokenStream) {
        self.push_node(Node::Host(HostCode::Code(tokens)));
    }

    pub(super) fn declare(&mut self, id: usize, declaration: Declaration) {
        self.pieces_mut().declarations[id] = declaration;
    }

    /// Records that host code outside of the blocks reads variables.
    pub(super) fn read(&mut self, vars: &[Var]) {
        self.pieces_mut().read.extend(vars);
    }

    /// Makes sure that variables which host code outside of the blocks reads are computed.
    pub(super) fn force(&mut self, reads: &[Var]) {
        if self.flow.is_some() {
            self.read(reads);
        }
    }

    /// Returns the value of a statement: `()`, or `Never` if it is unreachable.
    pub(super) fn unit(&mut self) -> Value {
        match self.pieces_mut().left {
            true => Value::Never,
            false => Value::Host(super::Host {
                expr: syn::parse_quote!(()),
                reads: Vec::new(),
                number: false,
            }),
        }
    }

    /// Returns the loop or block that a label names, or the innermost one.
    pub(super) fn around_mut(
        &mut self,
        label: Option<&syn::Lifetime>,
    ) -> Option<&mut EnclosingLoop> {
        let mut around = self.pieces_mut().around.iter_mut().rev();
        match label {
            Some(label) => {
                let name = label.ident.to_string();
                around.find(|a| a.label.as_deref() == Some(&name))
            }
            None => around.next(),
        }
    }

    /// Returns the loop or block that a `break` leaves.
    pub(super) fn broken_by(&mut self, e: &syn::ExprBreak) -> Option<&mut EnclosingLoop> {
        match &e.label {
            Some(_) => self.around_mut(e.label.as_ref()),
            None => {
                let mut around = self.pieces_mut().around.iter_mut().rev();
                around.find(|a| a.is_loop)
            }
        }
    }

    pub(super) fn outside(&mut self) -> EnclosingLoop {
        let around = self.pieces_mut().around.pop();
        around.expect("the loop has been pushed")
    }

    /// Names the value of the next branch after the target of an assignment.
    pub(super) fn hint(&mut self, left: &Expr) {
        if let (Expr::Path(p), Some(pieces)) = (left, &mut self.flow) {
            pieces.hint = p.path.get_ident().cloned();
        }
    }
}
