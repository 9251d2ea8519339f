//! Lowers a body to pieces: straight-line blocks, and the host code between them.
//!
//! A local that is declared outside of a loop or a branch and assigned inside of it lives in a
//! *slot*, a mutable local of the emitted code, while control passes from block to block. Within a
//! block it is a variable like any other.

use super::slots::settle;
use crate::lower::{Abort, Cx, LowerResult};
use crate::program::{Declaration, HostCode, Store};
use gradloom_ir::flow::Node;
use proc_macro2::Ident;
use std::collections::BTreeMap;
use std::rc::Rc;

impl Cx<'_> {
    /// Lowers the body of the function.
    pub(in crate::lower) fn function(&mut self, block: &syn::Block) -> LowerResult<()> {
        self.function_body(block)?;
        self.flush();
        match self.host.flow.left {
            true => Ok(()),
            false => Err(Abort::Recorded(
                "its body does not end in a value".to_owned(),
            )),
        }
    }

    /// Lowers code in its own scope, and ends the scope's last block.
    pub(in crate::lower) fn scope<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> LowerResult<T>,
    ) -> LowerResult<(T, Vec<Node<HostCode>>)> {
        self.host.flow.open.push(Vec::new());
        self.names.scopes.push(BTreeMap::new());
        let value = inner(self);
        self.flush();
        self.names.scopes.pop();
        let nodes = self.host.flow.open.pop().expect("the list has been opened");
        Ok((value?, nodes))
    }

    /// Reserves a place for a declaration, which [`Cx::declare`] fills in.
    pub(in crate::lower) fn declaration(&mut self) -> usize {
        self.flush();
        let pieces = &mut self.host.flow;
        pieces.declarations.push(Declaration::Nothing);
        let id = pieces.declarations.len() - 1;
        self.host
            .push_node(Node::Host(HostCode::Declare(id, Declaration::Nothing)));
        id
    }

    /// Ends the open block: stores values in their slots, and starts another block.
    pub(in crate::lower) fn flush(&mut self) {
        self.flush_before(&[]);
    }

    /// Ends the open block before code that may assign to some locals repeatedly, in scopes of its
    /// own.
    pub(in crate::lower) fn flush_before(&mut self, assigned: &[Ident]) {
        self.keep_old_values(assigned);
        let mut pending = Vec::new();
        for local in self.names.scopes.iter_mut().flat_map(BTreeMap::values_mut) {
            if let Some(slot) = &local.slot {
                settle(slot, &mut local.value, &mut pending);
            }
        }
        for (target, value) in pending {
            let store = match self.host.flow.undeclared.remove(&target) {
                true => Store::Declare,
                false => Store::Assign,
            };
            self.store(target, value, store);
        }
        if self.builder.is_empty() && self.builder.stores.is_empty() {
            return;
        }
        let raw = self.builder.end_block();
        self.host.flow.blocks.push(Rc::new(raw));
        let index = self.host.flow.blocks.len() - 1;
        self.host.push_node(Node::Block(index));
    }
}
