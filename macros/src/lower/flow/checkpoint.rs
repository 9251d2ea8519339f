//! Lowers `#[checkpoint(every = k)]` on a loop.
//!
//! Reverse mode saves the state of the loop every `k` iterations, and recomputes the iterations in
//! between when the sweep reaches them (Griewank and Walther, *Evaluating Derivatives*, ch. 12).

use crate::input::{is_checkpoint, unraw};
use crate::lower::{Abort, Cx, LowerResult, Value};
use crate::program::HostCode;
use crate::program::checkpoint::{Checkpoint, LoopHead, start};
use gradloom_ir::flow::Node;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Expr};

/// Methods that do not modify their receiver.
const READS: [&str; 36] = [
    "iter",
    "len",
    "clone",
    "copied",
    "cloned",
    "chars",
    "bytes",
    "lines",
    "keys",
    "values",
    "min",
    "max",
    "abs",
    "pow",
    "powi",
    "clamp",
    "isqrt",
    "div_ceil",
    "saturating_sub",
    "checked_sub",
    "wrapping_sub",
    "is_empty",
    "into_iter",
    "as_slice",
    "to_vec",
    "rev",
    "take",
    "skip",
    "step_by",
    "enumerate",
    "zip",
    "get",
    "first",
    "last",
    "windows",
    "chunks",
];

/// Returns the first `#[checkpoint]` in a body.
pub(in crate::lower) fn find(block: &syn::Block) -> Option<Attribute> {
    struct CheckpointFinder(Option<Attribute>);
    impl<'ast> syn::visit::Visit<'ast> for CheckpointFinder {
        fn visit_attribute(&mut self, attr: &'ast Attribute) {
            if self.0.is_none() && is_checkpoint(attr) {
                self.0 = Some(attr.clone());
            }
        }
    }
    let mut find = CheckpointFinder(None);
    syn::visit::Visit::visit_block(&mut find, block);
    find.0
}

impl Cx<'_> {
    /// Returns the number of iterations between two saved states, if the loop has a
    /// `#[checkpoint]`.
    pub(in crate::lower) fn checkpoint(
        &mut self,
        attrs: &[Attribute],
        of: &Expr,
    ) -> LowerResult<Option<TokenStream>> {
        let Some(attr) = attrs.iter().find(|a| is_checkpoint(a)) else {
            return Ok(None);
        };
        let option = attr.parse_args::<syn::MetaNameValue>().ok();
        let Some(option) = option.filter(|option| option.path.is_ident("every")) else {
            self.diagnostics.errors.push(
                attr,
                "`#[checkpoint]` needs the number of iterations between saved states; write `#[checkpoint(every = 10)]`",
            );
            return Err(Abort::Error);
        };
        let every = option.value;
        if crate::lower::host::literal(&every).and_then(|s| s.int()) == Some(0) {
            self.diagnostics.errors.push(
                &every,
                "a state is saved after at least 1 iteration; write a larger number, as in `every = 10`",
            );
            return Err(Abort::Error);
        }
        if crate::lower::expr::syntax::exits(of) || crate::lower::expr::syntax::has_return(of) {
            self.diagnostics.errors.push(
                attr,
                "a checkpointed loop is recomputed for its derivative, so it cannot `return`, use `?` or leave an outer loop; use `break`, and decide after the loop",
            );
            return Err(Abort::Error);
        }
        let host = self.static_value(&every)?;
        self.host.read(&host.reads);
        Ok(Some(host.expr.to_token_stream()))
    }

    /// Turns a lowered loop into one that can be recomputed in segments.
    pub(in crate::lower) fn checkpointed(
        &mut self,
        of: &Expr,
        turns: LoopHead,
        every: TokenStream,
        body: Vec<Node<HostCode>>,
    ) -> LowerResult<()> {
        let mut names = BTreeMap::new();
        crate::lower::host::in_tokens(of.to_token_stream(), &mut |ident| {
            names.entry(unraw(ident)).or_insert_with(|| ident.clone());
        });
        let (mut hosts, mut changing) = (turns.copies.clone(), Vec::new());
        let mut seen = BTreeSet::new();
        let mut outside = None;
        for scope in self.names.scopes.iter().rev() {
            for (name, local) in scope {
                let Some(mention) = names.get(name) else {
                    continue;
                };
                if !seen.insert(name.clone()) {
                    continue;
                }
                let mut values = vec![&local.value];
                while let Some(value) = values.pop() {
                    match value {
                        Value::Host(host) => {
                            let expr = &host.expr;
                            if let Ok(ident) = syn::parse2::<Ident>(expr.to_token_stream()) {
                                if self.names.host_mut.contains(&unraw(&ident)) {
                                    changing.push(ident.clone());
                                }
                                hosts.push(ident);
                            }
                        }
                        Value::Place(place)
                            if !place.root && matches!(place.expr, Expr::Path(_)) =>
                        {
                            outside = Some(mention);
                        }
                        Value::Uninit(_) => outside = Some(mention),
                        Value::Tuple(parts) => values.extend(parts),
                        Value::Closure(closure) => values.extend(closure.captured()),
                        _ => {}
                    }
                }
            }
        }
        for list in [&mut hosts, &mut changing] {
            let mut seen = BTreeSet::new();
            list.retain(|ident: &Ident| seen.insert(ident.to_string()));
        }
        if let Some(name) = outside {
            self.diagnostics.errors.push(
                name,
                format!("a checkpointed loop saves the locals it reads, and `{name}` is a reference or has no value yet; move the loop into its own traced function or method"),
            );
            return Err(Abort::Error);
        }
        self.host.push_node(Node::Scope {
            head: HostCode::Checkpoint(Box::new(Checkpoint {
                turns,
                every,
                hosts,
                changing,
            })),
            body,
        });
        Ok(())
    }

    /// Returns the iterator of a checkpointed `for` loop in a form that can be evaluated again.
    ///
    /// The iterator reads copies of the initial values of host locals that may change. `written` is the user's form of it.
    pub(in crate::lower) fn repeatable(
        &mut self,
        iterator: &Expr,
        written: &Expr,
    ) -> LowerResult<(Expr, Vec<Ident>)> {
        struct Copies<'a> {
            host_mut: &'a BTreeSet<String>,
            found: Vec<Ident>,
            used_up: Option<Ident>,
        }
        impl Copies<'_> {
            fn changing<'e>(&self, expr: &'e Expr) -> Option<&'e Ident> {
                match expr {
                    Expr::Path(p) => {
                        let ident = p.path.get_ident()?;
                        self.host_mut.contains(&unraw(ident)).then_some(ident)
                    }
                    Expr::Paren(p) => self.changing(&p.expr),
                    Expr::Field(f) => self.changing(&f.base),
                    _ => None,
                }
            }
        }
        impl<'ast> syn::visit::Visit<'ast> for Copies<'_> {
            fn visit_expr(&mut self, expr: &'ast Expr) {
                let by = match expr {
                    Expr::Reference(r) if r.mutability.is_some() => self.changing(&r.expr),
                    Expr::MethodCall(m) if !READS.contains(&&*m.method.to_string()) => {
                        self.changing(&m.receiver)
                    }
                    _ => None,
                };
                self.used_up = self.used_up.take().or_else(|| by.cloned());
                if let (Expr::Path(_), Some(ident)) = (expr, self.changing(expr))
                    && !self.found.contains(ident)
                {
                    self.found.push(ident.clone());
                }
                syn::visit::visit_expr(self, expr);
            }
        }
        let mut copies = Copies {
            host_mut: &self.names.host_mut,
            found: Vec::new(),
            used_up: None,
        };
        syn::visit::Visit::visit_expr(&mut copies, iterator);
        if let Some(used_up) = copies.used_up {
            self.diagnostics.errors.push(
                written,
                format!("a checkpointed loop evaluates its iterator again, and this may change `{used_up}`; put the items into an immutable local before the loop"),
            );
            return Err(Abort::Error);
        }
        let (mut iterator, mut idents) = (iterator.clone(), Vec::new());
        for changing in copies.found {
            let copy = self.host_ident(&Ident::new("before", Span::mixed_site()));
            self.builder.push_host(
                Vec::new(),
                quote!(let #copy = ::core::clone::Clone::clone(&#changing);),
            );
            iterator = crate::lower::host::hoisted::renamed(iterator, &changing, &copy);
            idents.push(copy);
        }
        Ok((iterator, idents))
    }

    /// Returns the head of a `for` loop, and that of its iterations from `start` on.
    pub(in crate::lower) fn for_turns(
        before: &TokenStream,
        iterator: &Expr,
        copies: Vec<Ident>,
    ) -> LoopHead {
        let start = start();
        let head = quote! {
            #before ::core::iter::Iterator::skip(::core::iter::IntoIterator::into_iter(#iterator), #start)
        };
        LoopHead {
            shown: quote!(#before #iterator),
            head,
            condition: None,
            copies,
        }
    }
}
