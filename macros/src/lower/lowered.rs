//! What a straight-line body becomes: a program, and what the program does not say.

use crate::parse::OutShape;
use gradloom_ir::{Attr, Program, SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::BTreeMap;
use std::rc::Rc;
use syn::{AngleBracketedGenericArguments, PathArguments};

/// A program, and what it does not say.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// The number of equations of the whole function, of which the program may be a block.
    pub(crate) n_eqns: usize,
    /// Where each parameter of the program comes from, in their order.
    pub(crate) inputs: Vec<Input>,
    /// Host statements, in order.
    pub(crate) hosts: Vec<HostStmt>,
    /// The locals that hold static arguments which are host expressions.
    pub(crate) statics: BTreeMap<Attr, Ident>,
    /// The host statement that binds a static argument.
    pub(crate) static_hosts: BTreeMap<Attr, usize>,
    /// The host statement that binds a parameter of the program.
    pub(crate) input_hosts: SecondaryMap<Var, usize>,
    /// The calls of traced functions.
    pub(crate) calls: BTreeMap<Attr, Call>,
    /// The user's token behind each variable.
    pub(crate) spans: SecondaryMap<Var, Span>,
    /// The user's identifiers, by the name they have in the program.
    pub(crate) idents: Rc<BTreeMap<String, Ident>>,
}

/// A parameter of the program.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) var: Var,
    pub(crate) source: Source,
    /// Whether derivatives are taken with respect to it.
    pub(crate) diff: bool,
}

/// Where a parameter of the program comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A tensor parameter of the function.
    Param(usize),
    /// A tensor, or a number, in a tree parameter of the function. A host statement binds it.
    Leaf { param: usize, place: TokenStream },
    /// A tree, or a part of one, that a call takes as a whole.
    Tree { param: usize, place: TokenStream },
    /// A tensor that depends on no parameter. A host statement binds it.
    Constant,
}

impl Source {
    /// The parameter of the function that it is a part of.
    pub(crate) fn param(&self) -> Option<usize> {
        match self {
            Source::Param(param) | Source::Leaf { param, .. } | Source::Tree { param, .. } => {
                Some(*param)
            }
            Source::Constant => None,
        }
    }
}

/// A statement that is not about tensors, and stays as it is.
#[derive(Clone, Debug)]
pub(crate) struct HostStmt {
    /// It stands before this equation of the program.
    pub(crate) at: usize,
    /// The variables whose shapes or values it reads.
    pub(crate) reads: Vec<Var>,
    pub(crate) tokens: TokenStream,
}

/// A call of another traced function.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// In the order of the callee's parameters, the receiver first.
    pub(crate) args: Vec<CallArg>,
    /// Whether it returns a `Result`.
    pub(crate) fallible: bool,
    /// The structure of what it returns.
    pub(crate) shape: OutShape,
    pub(crate) span: Span,
}

/// Who is called.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function, by path: its companions are in the type of the same path.
    Function(syn::Path),
    /// An associated function: its companions stand beside it.
    Associated {
        ty: TokenStream,
        name: Ident,
        turbofish: PathArguments,
    },
    /// A method of the first argument.
    Method {
        name: Ident,
        turbofish: Option<AngleBracketedGenericArguments>,
    },
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(crate) enum CallArg {
    /// The next operand of the equation, a tensor; passed by reference or by value.
    Tensor { by_ref: bool },
    /// The next operand of the equation, a tree: this expression.
    Tree(TokenStream),
    /// A host expression.
    Host(TokenStream),
}
