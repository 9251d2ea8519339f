//! Result of lowering a body with control flow: blocks, and the host code between them.

use super::block::{Input, LoweredProgram};
use super::checkpoint::Checkpoint;
use crate::input::text;
use gradloom_ir::Var;
use gradloom_ir::flow::{Flow, Node};
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// Lowered body with host control flow.
#[derive(Debug)]
pub(crate) struct LoweredFlow {
    /// The blocks, and the host code that runs them.
    pub(crate) flow: Flow<HostCode>,
    /// The blocks of `flow`, in its order, with the data for their emission.
    pub(crate) pieces: Vec<Piece>,
    /// Tensor parameters of the function.
    pub(crate) inputs: Vec<Input>,
    /// Variables that are emitted as trees.
    pub(crate) trees: Rc<BTreeSet<Var>>,
    pub(crate) numbers: Numbers,
}

/// Number parameters that are only operands of arithmetic with tensors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// Positions of the parameters.
    pub(crate) params: Vec<usize>,
    /// Operands of tensors that are computed from them, and `true` for other numbers whose arithmetic may
    /// overflow.
    pub(crate) values: Vec<NumberOperand>,
}

/// Operand of a tensor that is a number, computed from parameters.
#[derive(Clone, Debug)]
pub(crate) struct NumberOperand {
    /// Set of the parameters, by their positions in [`Numbers::params`].
    pub(crate) params: u64,
    /// Expression, in a function that returns an `Option`.
    pub(crate) tokens: TokenStream,
}

impl LoweredFlow {
    /// Returns the programs of the blocks.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &LoweredProgram> {
        self.pieces.iter().map(|piece| &piece.low)
    }

    /// Returns the text of the function for users; a straight line is printed as a program.
    pub(crate) fn text(&self) -> String {
        match self.straight() {
            Some(low) => low.program.to_string(),
            None => self.flow.to_string(),
        }
    }

    /// Returns the inputs of the function and of its blocks, each once.
    pub(crate) fn all_inputs(&self) -> Vec<&Input> {
        let inner = self.programs().flat_map(|low| &low.inputs);
        let mut inputs: Vec<&Input> = self.inputs.iter().chain(inner).collect();
        inputs.sort_by_key(|i| i.var);
        inputs.dedup_by_key(|i| i.var);
        inputs
    }

    /// Returns the variables of a parameter: the parameter itself, or the parts of it that are read.
    pub(crate) fn vars(&self, param: usize) -> Vec<Var> {
        let inputs = self.all_inputs().into_iter();
        let inputs = inputs.filter(|i| i.source.param() == Some(param));
        inputs.map(|i| i.var).collect()
    }

    /// Returns the program of a straight line: a single block, whose results are those of the
    /// function.
    pub(crate) fn straight(&self) -> Option<&LoweredProgram> {
        match (&*self.flow.body, &*self.pieces) {
            ([Node::Block(0), Node::Return(_)], [piece]) => Some(&piece.low),
            _ => None,
        }
    }
}

/// Block with the data for its emission.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) low: LoweredProgram,
    /// Kind of store for each result of the block.
    pub(crate) stores: Vec<Store>,
}

/// Kind of store by which a result of a block reaches other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// `let slot = result`: the first value of a slot.
    Declare,
    /// `slot = result`: a later value of a slot.
    Assign,
    /// `let result = ..`: the result is not in a slot, and other blocks read it by its name.
    Fresh,
    /// `let result = slot`: the value that a slot has before it is assigned to again.
    Let,
    /// The function returns the result.
    Result,
}

/// Host code between blocks.
#[derive(Clone, Debug)]
pub(crate) enum HostCode {
    /// Code that is emitted as it is.
    Code(TokenStream),
    /// The code before the opening brace of a scope.
    Head(TokenStream),
    /// Loop with `#[checkpoint]`.
    Checkpoint(Box<Checkpoint>),
    /// Declaration, by its number, of a local that later code may assign to.
    Declare(usize, Declaration),
    /// Code that leaves the function with an error.
    Fail(TokenStream),
}

/// Kind of a declared local; `Nothing` if no code assigns to it.
#[derive(Clone, Debug)]
pub(crate) enum Declaration {
    Nothing,
    Tensor(Var),
    Host(Ident),
}

impl ToTokens for HostCode {
    /// Appends the user's code in the node.
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            HostCode::Code(code) | HostCode::Head(code) | HostCode::Fail(code) => {
                tokens.extend(code.clone())
            }
            HostCode::Checkpoint(c) => {
                let (turns, every) = (&c.turns, &c.every);
                tokens.extend([turns.head.clone(), every.clone()]);
                tokens.extend(turns.condition.clone());
            }
            HostCode::Declare(..) => {}
        }
    }
}

impl fmt::Display for HostCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostCode::Code(tokens) | HostCode::Fail(tokens) => f.write_str(&text(tokens)),
            HostCode::Head(tokens) => f.write_str(&head_text(tokens)),
            HostCode::Checkpoint(c) => write!(
                f,
                "#[checkpoint(every = {})] {}",
                text(&c.every),
                head_text(&c.turns.shown)
            ),
            HostCode::Declare(_, Declaration::Host(ident)) => write!(f, "let {ident};"),
            HostCode::Declare(..) => Ok(()),
        }
    }
}

/// Returns the code before a brace, formatted for reading.
fn head_text(head: &TokenStream) -> String {
    let statement = quote::quote!(fn f() { #head {} });
    let arm = quote::quote!(fn f() { match x { #head {} } });
    for (code, skip) in [(statement, 1), (arm, 2)] {
        let Ok(file) = syn::parse2::<syn::File>(code) else {
            continue;
        };
        let code = prettyplease::unparse(&file);
        let line = code.lines().nth(skip).unwrap_or_default().trim();
        let line = line.trim_end_matches("{}").trim_end_matches('{').trim_end();
        // A head of several lines is printed as its tokens.
        if !line.is_empty() && code.lines().count() <= 2 * skip + 3 {
            return line.to_owned();
        }
    }
    text(head)
}
