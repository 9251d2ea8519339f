//! What locals and expressions are while a body is lowered.

use super::{closure, slots};
use crate::parse::OutShape;
use gradloom_ir::Var;
use proc_macro2::Span;
use std::rc::Rc;
use syn::Expr;

/// What a local or an expression is, symbolically.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A tensor; `by_ref` says whether the user's expression is a reference to it.
    Tensor { var: Var, by_ref: bool },
    /// A tree parameter, or a part of it.
    Place(Place),
    /// Several values: a tuple, or the results of an op.
    Tuple(Vec<Value>),
    /// Something that is not about tensors.
    Host(Host),
    /// A closure: it is lowered where it is called.
    Closure(Rc<closure::Closure>),
    /// A local that has no value yet.
    Uninit(usize),
    /// Nothing: control does not come back from here.
    Never,
    /// Something about which an error has been reported.
    Poison,
}

/// A tree parameter, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) param: usize,
    pub(super) expr: Expr,
    pub(super) by_ref: bool,
    /// Whether it is the parameter itself.
    pub(super) root: bool,
    /// Whether it is a copy, which may be moved.
    pub(super) owned: bool,
}

impl Place {
    /// Whether it is a local that a pattern or a branch binds to a reference.
    pub(super) fn is_bound_reference(&self) -> bool {
        !self.root && self.by_ref && matches!(self.expr, Expr::Path(_))
    }

    /// Moves the parameter's name to where it is read, for messages.
    pub(super) fn stands_at(&mut self, span: Span) {
        if let Expr::Path(p) = &mut self.expr
            && let [segment] = &mut *p.path.segments.iter_mut().collect::<Vec<_>>()
        {
            let hygiene = segment.ident.span();
            segment.ident.set_span(span.resolved_at(hygiene));
        }
    }
}

/// A host expression, with the names of the emitted locals in it.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) expr: Expr,
    pub(super) reads: Vec<Var>,
    /// Whether it is known to be a number.
    pub(super) number: bool,
}

/// What the context wants of an expression.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// The structure of the results of a call.
    pub(super) shape: OutShape,
    /// The number of results of an op such as `split`.
    pub(super) count: Option<usize>,
}

impl Want {
    pub(super) fn one() -> Want {
        Want {
            shape: OutShape::Tensor,
            count: None,
        }
    }
}

/// A local of the user's.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) value: Value,
    /// Where its value lives between blocks, if more than one block assigns to it.
    pub(super) slot: Option<slots::Slot>,
}

impl From<Value> for Local {
    fn from(value: Value) -> Local {
        Local { value, slot: None }
    }
}
