//! `#[checkpoint(every = k)]` on a loop: reverse mode keeps what the loop starts from at every `k`-th turn, and runs the
//! turns between two of these again when it comes back to them (Griewank and Walther, *Evaluating Derivatives*, ch. 12).

use super::blocks::HostCode;
use super::{Cx, R, Stop, Value};
use gradloom_ir::flow::Node;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::{Attribute, Expr};

/// A loop whose turns are run again.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    /// What stands before the brace, where the turns from `start` on are run.
    pub(crate) head: TokenStream,
    /// The head as the user wrote it.
    pub(crate) shown: TokenStream,
    /// How many turns lie between two states that are kept.
    pub(crate) every: TokenStream,
    /// Host locals that the loop reads: each is cloned.
    pub(crate) hosts: Vec<Ident>,
    /// Those of them that may change.
    pub(crate) changing: Vec<Ident>,
}

/// The attribute of a loop.
pub(crate) fn is_checkpoint(attr: &Attribute) -> bool {
    attr.path().is_ident("checkpoint")
}

/// The first checkpoint of a body.
pub(super) fn find(block: &syn::Block) -> Option<Attribute> {
    struct Find(Option<Attribute>);
    impl<'ast> syn::visit::Visit<'ast> for Find {
        fn visit_attribute(&mut self, attr: &'ast Attribute) {
            if self.0.is_none() && is_checkpoint(attr) {
                self.0 = Some(attr.clone());
            }
        }
    }
    let mut find = Find(None);
    syn::visit::Visit::visit_block(&mut find, block);
    find.0
}

/// The local that says from which turn on a loop is run.
pub(crate) fn start() -> Ident {
    Ident::new("start", Span::mixed_site())
}

impl Cx<'_> {
    /// How many turns of a loop lie between two states, if it is a checkpointed one.
    pub(super) fn checkpoint(&mut self, attrs: &[Attribute], of: &Expr) -> R<Option<TokenStream>> {
        let Some(attr) = attrs.iter().find(|a| is_checkpoint(a)) else {
            return Ok(None);
        };
        let mut every: Option<Expr> = None;
        let parsed = attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("every") {
                return Err(meta.error("`#[checkpoint]` takes `every = k`"));
            }
            every = Some(meta.value()?.parse()?);
            Ok(())
        });
        if let Err(error) = parsed {
            self.errors.push_error(error);
            return Err(Stop::Error);
        }
        let Some(every) = every else {
            self.errors.push(
                attr,
                "`#[checkpoint]` has to say after how many turns it keeps the state; write `#[checkpoint(every = 10)]`",
            );
            return Err(Stop::Error);
        };
        if super::host::literal(&every).and_then(|s| s.int()) == Some(0) {
            self.errors
                .push(&every, "a state is kept after 1 turn or more, not after 0");
            return Err(Stop::Error);
        }
        if super::syntax::exits(of) || super::syntax::has_return(of) {
            self.errors.push(
                attr,
                "a checkpointed loop is run again for its derivative, so it cannot `return`, use `?` or leave a loop around it; `break`, and decide after the loop",
            );
            return Err(Stop::Error);
        }
        let host = self.static_value(&every)?;
        self.force(&host.reads);
        Ok(Some(host.expr.to_token_stream()))
    }

    /// A loop that has been lowered, as one that is run again in pieces.
    pub(super) fn checkpointed(
        &mut self,
        of: &Expr,
        head: TokenStream,
        shown: TokenStream,
        every: TokenStream,
        body: Vec<Node<HostCode>>,
    ) -> R<()> {
        let mut names = BTreeSet::new();
        mentioned(of.to_token_stream(), &mut names);
        let (mut hosts, mut changing) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let mut outside = None;
        for scope in self.scopes.iter().rev() {
            for (name, local) in scope {
                if !names.contains(name) || !seen.insert(name.clone()) {
                    continue;
                }
                match &local.value {
                    Value::Host(host) => {
                        let expr = &host.expr;
                        if let Ok(ident) = syn::parse2::<Ident>(expr.to_token_stream()) {
                            if self.host_mut.contains(&crate::parse::unraw(&ident)) {
                                changing.push(ident.clone());
                            }
                            hosts.push(ident);
                        }
                    }
                    Value::Place(place) if !place.root && matches!(place.expr, Expr::Path(_)) => {
                        outside = Some(name.clone());
                    }
                    Value::Uninit(_) => outside = Some(name.clone()),
                    _ => {}
                }
            }
        }
        if let Some(name) = outside {
            self.errors.push_at(
                of.span(),
                format!("a checkpointed loop keeps what it reads, and `{name}` is a reference or has no value yet; put the loop into a traced function or method of its own"),
            );
            return Err(Stop::Error);
        }
        self.push_node(Node::Scope {
            head: HostCode::Checkpoint(Box::new(Checkpoint {
                head,
                shown,
                every,
                hosts,
                changing,
            })),
            body,
        });
        Ok(())
    }

    /// The head of a `for` loop, and that of its turns from `start` on.
    pub(super) fn for_head(before: &TokenStream, iterator: &Expr) -> (TokenStream, TokenStream) {
        let start = start();
        let again = quote! {
            #before ::core::iter::Iterator::skip(::core::iter::IntoIterator::into_iter(#iterator), #start)
        };
        (quote!(#before #iterator), again)
    }
}

fn mentioned(tokens: TokenStream, names: &mut BTreeSet<String>) {
    super::host::in_tokens(tokens, &mut |ident| {
        names.insert(crate::parse::unraw(ident));
    });
}
