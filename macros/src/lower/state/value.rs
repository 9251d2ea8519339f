//! Symbolic values of locals and expressions.

use crate::input::OutShape;
use crate::lower::expr::closure;
use crate::lower::flow::slots;
use gradloom_ir::Var;
use proc_macro2::{Ident, Span};
use std::rc::Rc;
use syn::Expr;

/// Symbolic value of a local or an expression.
#[derive(Clone, Debug)]
pub(in crate::lower) enum Value {
    /// Tensor, or a tree that a call returned; `by_ref` is true if the user's expression is a
    /// reference to it.
    Tensor { var: Var, by_ref: bool },
    /// Tree, or a part of one.
    Place(Place),
    /// Several values: a tuple, or the results of an op.
    Tuple(Vec<Value>),
    /// Host value.
    Host(Host),
    /// Closure, whose body is lowered at each call.
    Closure(Rc<closure::Closure>),
    /// Local that has no value yet, with the number of its declaration.
    Uninit(usize),
    /// No value: the expression diverges.
    Never,
    /// Value of code for which an error has been reported.
    Poison,
}

/// Tree that a place is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Base {
    /// Parameter of the function.
    Param(usize),
    /// Result of a call.
    Local(Var),
}

impl Base {
    /// Returns the variable that code with the tree reads.
    pub(in crate::lower) fn reads(self) -> Vec<Var> {
        match self {
            Base::Param(_) => Vec::new(),
            Base::Local(var) => vec![var],
        }
    }
}

/// Tree, or a part of one.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Place {
    pub(in crate::lower) base: Base,
    pub(in crate::lower) expr: Expr,
    pub(in crate::lower) by_ref: bool,
    /// True if it is the whole tree.
    pub(in crate::lower) root: bool,
    /// True if it is a copy, which may be moved.
    pub(in crate::lower) owned: bool,
    /// Method with which the user lends it, as in `self.bias.as_ref()`.
    pub(in crate::lower) lent: Option<Ident>,
}

impl Place {
    /// Returns the variable that code with the place reads.
    pub(in crate::lower) fn reads(&self) -> Vec<Var> {
        self.base.reads()
    }

    /// Returns whether the place is a local that a pattern or a branch binds to a reference.
    pub(in crate::lower) fn is_bound_reference(&self) -> bool {
        !self.root && self.by_ref && matches!(self.expr, Expr::Path(_))
    }

    /// Returns the place as host code reads it: a part, a reference to it or a copy of it.
    pub(in crate::lower) fn as_host(&self) -> Expr {
        match &self.expr {
            expr if self.by_ref && !self.root && !self.is_bound_reference() => {
                syn::parse_quote!(&#expr)
            }
            expr if self.owned && !self.root => {
                syn::parse_quote!(::core::clone::Clone::clone(&#expr))
            }
            expr => expr.clone(),
        }
    }

    /// Moves the span of the parameter's name to `span`, for messages.
    pub(in crate::lower) fn stands_at(&mut self, span: Span) {
        if let Expr::Path(p) = &mut self.expr
            && let [segment] = &mut *p.path.segments.iter_mut().collect::<Vec<_>>()
        {
            let hygiene = segment.ident.span();
            segment.ident.set_span(span.resolved_at(hygiene));
        }
    }
}

/// Host expression in terms of the emitted locals.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Host {
    pub(in crate::lower) expr: Expr,
    pub(in crate::lower) reads: Vec<Var>,
    pub(in crate::lower) content: Content,
}

impl Host {
    /// Returns whether it is known to be a number.
    pub(in crate::lower) fn is_number(&self) -> bool {
        self.content == Content::Number
    }
}

/// What is known of a host value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lower) enum Content {
    Number,
    /// No tensor that has a derivative.
    Plain,
    /// Parts of trees, which may be tensors.
    Parts,
}

impl Content {
    /// Returns `Number` if the value is known to be one.
    pub(in crate::lower) fn number(is_number: bool) -> Content {
        match is_number {
            true => Content::Number,
            false => Content::Plain,
        }
    }
}

/// Structure that the context expects of an expression.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Expected {
    /// Structure of the results of a call.
    pub(in crate::lower) shape: OutShape,
    /// Number of results of an op such as `split`.
    pub(in crate::lower) count: Option<usize>,
    /// Type, if it is written.
    pub(in crate::lower) ty: Option<syn::Type>,
}

impl Expected {
    pub(in crate::lower) fn tensor() -> Expected {
        Expected {
            shape: OutShape::Tensor,
            count: None,
            ty: None,
        }
    }
}

/// Local of the user's function.
#[derive(Clone, Debug)]
pub(in crate::lower) struct Local {
    pub(in crate::lower) value: Value,
    /// Storage between blocks, if more than one block assigns to the local.
    pub(in crate::lower) slot: Option<slots::Slot>,
}

impl From<Value> for Local {
    fn from(value: Value) -> Local {
        Local { value, slot: None }
    }
}
