//! Result of lowering a block: a program, and its relation to the user's code.

use crate::input::OutShape;
use gradloom_ir::{Attr, Program, SecondaryMap, Var};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use syn::{AngleBracketedGenericArguments, PathArguments};

/// Program with the data that its emission needs.
#[derive(Debug)]
pub(crate) struct LoweredProgram {
    pub(crate) program: Program,
    /// Number of equations of the whole function, of which the program may be one block.
    pub(crate) n_eqns: usize,
    /// Source of each parameter of the program, in order.
    pub(crate) inputs: Vec<Input>,
    /// Host statements, in order.
    pub(crate) hosts: Vec<HostStmt>,
    /// Locals that hold static arguments which are host expressions.
    pub(crate) statics: BTreeMap<Attr, Ident>,
    /// Index of the host statement that binds a static argument.
    pub(crate) static_hosts: BTreeMap<Attr, usize>,
    /// Index of the host statement that binds a parameter of the program.
    pub(crate) input_hosts: SecondaryMap<Var, usize>,
    /// Calls of traced functions.
    pub(crate) calls: BTreeMap<Attr, Call>,
    /// Variables of the function that are emitted as trees.
    pub(crate) trees: Rc<BTreeSet<Var>>,
    /// The user's token for each variable.
    pub(crate) spans: SecondaryMap<Var, Span>,
    /// The user's identifiers, by their names in the program.
    pub(crate) idents: Rc<BTreeMap<String, Ident>>,
}

impl LoweredProgram {
    /// Returns the parameter that a variable is.
    pub(crate) fn input(&self, var: Var) -> Option<&Input> {
        self.inputs.iter().find(|input| input.var == var)
    }
}

/// Parameter of the program.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) var: Var,
    pub(crate) source: Source,
    /// True if derivatives are taken with respect to it.
    pub(crate) diff: bool,
}

/// Source of a parameter of the program.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Tensor parameter of the function.
    Param(usize),
    /// Tensor or number in a tree parameter of the function, bound by a host statement.
    Leaf { param: usize, place: TokenStream },
    /// Tree, or subtree, that is passed to a call as a whole.
    Tree { param: usize, place: TokenStream },
    /// Tensor that depends on no parameter, bound by a host statement.
    Constant,
}

impl Source {
    /// Returns the position of the function's parameter that it is a part of.
    pub(crate) fn param(&self) -> Option<usize> {
        match self {
            Source::Param(param) | Source::Leaf { param, .. } | Source::Tree { param, .. } => {
                Some(*param)
            }
            Source::Constant => None,
        }
    }
}

/// Host statement, which is emitted as it is.
#[derive(Clone, Debug)]
pub(crate) struct HostStmt {
    /// Number of equations of the program that precede it.
    pub(crate) at: usize,
    /// Variables whose shapes or values it reads.
    pub(crate) reads: Vec<Var>,
    pub(crate) tokens: TokenStream,
}

/// Call of another traced function.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// Arguments in the order of the callee's parameters, the receiver first.
    pub(crate) args: Vec<CallArg>,
    /// Variables of the arguments that are tensors or trees.
    pub(crate) operands: Vec<Var>,
    /// Variables of the results.
    pub(crate) outs: Vec<Var>,
    /// True if the callee returns a `Result`.
    pub(crate) fallible: bool,
    /// Structure of the result.
    pub(crate) shape: OutShape,
    pub(crate) span: Span,
}

/// Callee of a call.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// Function, by path; its companions are associated items of the type with the same path.
    Function(syn::Path),
    /// Associated function; its companions are beside it.
    Associated {
        ty: TokenStream,
        name: Ident,
        turbofish: PathArguments,
    },
    /// Method of the first argument.
    Method {
        name: Ident,
        turbofish: Option<AngleBracketedGenericArguments>,
    },
    /// No function: code of the body.
    Inline(Inline),
    /// No function: a part of a tree, which is given by reference, and the position of the part
    /// among the leaves of the tree.
    Part {
        tree: TokenStream,
        value: TokenStream,
        place: TokenStream,
    },
}

impl CallArg {
    /// Returns the next operand, by reference or by value.
    pub(crate) fn var(by_ref: bool) -> CallArg {
        CallArg::Var { by_ref, lent: None }
    }
}

/// Code of the body that is not lowered to equations.
#[derive(Clone, Debug)]
pub(crate) struct Inline {
    pub(crate) code: TokenStream,
    /// Local of each operand, and whether it is a reference.
    pub(crate) operands: Vec<(Ident, bool)>,
    pub(crate) effect: Effect,
}

/// What code does with the tensors of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It moves them to its result.
    Moves,
    /// It computes with them, so it is recorded for its derivative.
    Records,
}

/// Argument of a call.
#[derive(Clone, Debug)]
pub(crate) enum CallArg {
    /// The next operand of the equation.
    Var {
        by_ref: bool,
        /// Method that lends it, such as `as_ref` of an option.
        lent: Option<Ident>,
    },
    /// The next operand of the equation, a part of a tree parameter, passed as this expression.
    Tree(TokenStream),
    /// Value built of the next operands, for each of which it has one element.
    Built(Built, Vec<CallArg>),
    /// Host expression.
    Host(TokenStream),
}

/// Expression that builds an argument of its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Built {
    /// `Some(x)`.
    Some,
    /// `(x, y)`.
    Tuple,
    /// `[x, y]`.
    Array,
    /// `&(x, y)`.
    TupleRef,
    /// `&[x, y]`.
    ArrayRef,
}
