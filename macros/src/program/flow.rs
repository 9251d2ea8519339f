//! Result of lowering a body with control flow: blocks, and the host code between them.

use super::checkpoint::Checkpoint;
use super::straight::{Input, LoweredProgram};
use crate::input::text;
use gradloom_ir::Var;
use gradloom_ir::flow::Flow;
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use std::fmt;

/// Body with host control flow.
#[derive(Debug)]
pub(crate) struct LoweredFlow {
    /// The blocks, and the host code that runs them.
    pub(crate) flow: Flow<HostCode>,
    /// Emission data of each block.
    pub(crate) pieces: Vec<Piece>,
    /// Tensor parameters of the function.
    pub(crate) inputs: Vec<Input>,
}

/// Emission data of a block.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) low: LoweredProgram,
    /// Kind of store for each result of the block.
    pub(crate) stores: Vec<Store>,
}

/// Kind of store by which a result of a block reaches other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// First value of a slot.
    Declare,
    /// Assigned to a slot.
    Assign,
    /// Bound to a local of its own name.
    Fresh,
    /// Earlier value of a slot, bound to a local of its own.
    Let,
    /// Result of the function.
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
