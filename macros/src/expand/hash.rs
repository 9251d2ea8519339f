//! The hash of a function: of its program, with the functions that it calls folded in.
//!
//! Straight-line code that calls itself never ends, so the hash constants of such functions refer to each other
//! without a cycle. With control flow there is recursion, and a cycle of constants is an error: such a function folds
//! in what its callees say to a fixed depth.

use super::cx::Cx;
use crate::lower::{Body, Callee, Lowered};
use crate::parse::unraw;
use proc_macro2::{Ident, Span, TokenStream};

/// How many calls deep the hash of a function with control flow goes.
const DEPTH: usize = 3;

impl Cx<'_> {
    /// The constant, and the function that gives it to a depth. `source` is what the user wrote.
    pub(super) fn hash(&self, body: &Body, program: &str, source: &str) -> TokenStream {
        let (n, p) = (self.names, self.p);
        let (head, vis) = self.associated();
        let hash = match body {
            Body::Straight(_) => blake3::hash(program.as_bytes()),
            // Host code steers the program, so the body stands for it.
            Body::Flow(_) | Body::Recorded(_) => {
                blake3::hash(format!("{}\n{source}", self.func.name()).as_bytes())
            }
        };
        let callees: Vec<Hash> = match body {
            Body::Straight(low) => callees([&**low]),
            Body::Flow(low) => callees(low.pieces.iter().map(|piece| &piece.low)),
            Body::Recorded(_) => Vec::new(),
        };
        let bytes = hash.as_bytes().iter();
        let own = ours!([#(#bytes),*]);
        let (name, hidden) = (&n.hash, &n.hidden_hash);
        let constants = callees.iter().map(|c| &c.constant);
        let functions = callees.iter().map(|c| &c.function);
        let whole = match (body, &*callees) {
            (_, []) => own.clone(),
            (Body::Flow(_), _) => ours!(Self::#hidden(#DEPTH)),
            _ => ours!(#p::fold_hash(#own, &[#(#constants),*])),
        };
        let to_depth = match &*callees {
            [] => own,
            _ => ours! {
                if depth == 0 {
                    return #own;
                }
                #p::fold_hash(#own, &[#(#functions(depth - 1)),*])
            },
        };
        let doc = format!("The hash of the program of `{}`.", self.func.sig.ident);
        ours! {
            #head
            #[doc = #doc]
            #vis const #name: [u8; 32] = #whole;

            #head
            #[doc(hidden)]
            #vis const fn #hidden(depth: usize) -> [u8; 32] { #to_depth }
        }
    }
}

/// How a callee says its hash.
struct Hash {
    constant: TokenStream,
    /// The function that takes a depth.
    function: TokenStream,
}

/// The functions that programs call, each once. A method is known by its name alone: its type is not.
fn callees<'a>(parts: impl IntoIterator<Item = &'a Lowered>) -> Vec<Hash> {
    let calls = parts.into_iter().flat_map(|low| low.calls.values());
    let hashes = calls.filter_map(|call| {
        let hash = |ty: TokenStream, prefix: &str, hidden: &str, span| {
            let constant = Ident::new(&format!("{prefix}HASH"), span);
            let function = Ident::new(&format!("{hidden}hash"), span);
            Hash {
                constant: ours!(#ty::#constant),
                function: ours!(#ty::#function),
            }
        };
        match &call.callee {
            Callee::Function(path) => {
                let (path, _) = super::call::apart(path);
                Some(hash(ours!(<#path>), "", "__", Span::mixed_site()))
            }
            Callee::Associated { ty, name, .. } => {
                let user = unraw(name);
                let prefix = format!("{}_", user.to_uppercase());
                let hidden = format!("__traced_{user}_");
                Some(hash(ty.clone(), &prefix, &hidden, name.span()))
            }
            Callee::Method { .. } => None,
        }
    });
    let mut unique: Vec<Hash> = Vec::new();
    for hash in hashes {
        let text = hash.constant.to_string();
        if !unique.iter().any(|u| u.constant.to_string() == text) {
            unique.push(hash);
        }
    }
    unique
}
