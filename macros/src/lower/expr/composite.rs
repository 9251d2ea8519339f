//! Lowers methods that are composed of ops, by lowering their bodies at each call.

use super::op::is_number;
use super::syntax;
use crate::lower::{Content, Cx, Expected, Host, LowerResult, Value, host};
use gradloom_ir::Composite;
use gradloom_ir::composites::Role;
use gradloom_ir::einsum::Einsum;
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use std::collections::BTreeMap;
use syn::Expr;
use syn::visit::Visit;

/// Returns the composite method that a call has the form of.
pub(in crate::lower) fn composite_of(call: &syn::ExprMethodCall) -> Option<&'static Composite> {
    let composite = Composite::find(&call.method.to_string())?;
    (composite.params.len() == call.args.len() + 1).then_some(composite)
}

impl Cx<'_> {
    /// Lowers a call of a composite method.
    pub(in crate::lower) fn composite(
        &mut self,
        composite: &Composite,
        receiver: Value,
        call: &syn::ExprMethodCall,
        want: &Expected,
    ) -> LowerResult<Value> {
        let span = call.method.span();
        let x = self.tensor(receiver, None)?;
        let tensor = |var| Value::Tensor { var, by_ref: true };
        let mut params = composite.params.iter();
        let mut bound = vec![(params.next().expect("a receiver").0, tensor(x))];
        for ((name, role), arg) in params.zip(&call.args) {
            let value = match role {
                Role::Tensor | Role::Operand | Role::Other => {
                    match (self.eval(arg, &Expected::tensor())?, role) {
                        (Value::Host(host), Role::Other) if is_number(&host) => Value::Host(host),
                        (value, Role::Operand) => tensor(self.tensor(value, Some(x))?),
                        (value, _) => tensor(self.tensor(value, None)?),
                    }
                }
                Role::Counts | Role::Pairs => {
                    let Host { expr, reads, .. } = self.static_value(arg)?;
                    let rt = &self.rt;
                    Value::Host(Host {
                        expr: match role {
                            Role::Counts => syn::parse_quote!(#rt::counts(#expr)),
                            _ => syn::parse_quote!(#rt::pairs(#expr)),
                        },
                        reads,
                        content: Content::Plain,
                    })
                }
                Role::Static | Role::Float | Role::Int | Role::Count => {
                    Value::Host(self.static_value(arg)?)
                }
                Role::Key => {
                    let key = self.eval(arg, &Expected::tensor())?;
                    self.keep_number(&key)?;
                    key
                }
                Role::Function => match self.eval(arg, &Expected::tensor())? {
                    closure @ Value::Closure(_) => closure,
                    _ => return self.recorded("a function that is not a closure", span),
                },
            };
            bound.push((*name, value));
        }
        let body: TokenStream = composite.body.parse().expect("the body is Rust");
        self.body(bound, body, want, span)
    }

    /// Lowers a body that is not the user's, with these locals.
    fn body(
        &mut self,
        bound: Vec<(&str, Value)>,
        body: TokenStream,
        want: &Expected,
        span: Span,
    ) -> LowerResult<Value> {
        let parsed: Expr = syn::parse2(body.clone()).expect("the body is a block");
        if has_control(&parsed) {
            // Loops and branches expect every local of the caller in its slot.
            self.flush();
        }
        let outer = std::mem::replace(&mut self.names.scopes, vec![BTreeMap::new()]);
        let rt = &self.rt;
        let mut literals = BTreeMap::from([("rt", syn::parse_quote!(#rt))]);
        let done = bound.into_iter().try_for_each(|(name, value)| match value {
            Value::Host(host) if host::literal_static(&host.expr).is_some() => {
                literals.insert(name, host.expr);
                Ok(())
            }
            Value::Host(host) => {
                let ident = Ident::new(name, span);
                self.bind_host(&syn::parse_quote!(#ident), None, &host, host.is_number())
            }
            value => {
                let scope = self.names.scopes.last_mut().expect("there is a scope");
                scope.insert(name.to_owned(), value.into());
                Ok(())
            }
        });
        let value = done.and_then(|()| {
            let body = placed(body, &literals, span);
            self.eval(&syn::parse2(body).expect("the body is a block"), want)
        });
        self.names.scopes = outer;
        value
    }
}

/// Returns whether a body has loops or branches, or calls methods that have some.
fn has_control(body: &Expr) -> bool {
    struct Calls(bool);
    impl<'ast> Visit<'ast> for Calls {
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            let composite = Composite::find(&call.method.to_string());
            let body = composite.map(|composite| syn::parse_str(composite.body));
            self.0 |= body.is_some_and(|body| has_control(&body.expect("the body is a block")));
            syn::visit::visit_expr_method_call(self, call);
        }
    }
    let mut calls = Calls(syntax::has_control(body));
    calls.visit_expr(body);
    calls.0
}

impl Cx<'_> {
    /// Lowers `Tensor::einsum` of a literal text and a list that is written out.
    ///
    /// The text is known to be right, and to name as many tensors as are listed.
    pub(in crate::lower) fn einsum(
        &mut self,
        text: &syn::LitStr,
        list: &Expr,
        want: &Expected,
    ) -> LowerResult<Value> {
        let einsum = Einsum::parse(&text.value()).expect("the text is right");
        let vars = self.list(list)?;
        let shapes = vars.iter().map(|var| {
            let x = self.named_by_host(*var);
            quote!(#x.shape())
        });
        let (shapes, rt) = (shapes.collect::<Vec<_>>(), &self.rt);
        let lens = Host {
            expr: syn::parse_quote!(#rt::einsum_lengths(#text, &[#(#shapes),*])),
            reads: vars.clone(),
            content: Content::Plain,
        };
        let names: Vec<String> = (0..vars.len()).map(|i| format!("x{i}")).collect();
        let tensor = |var| Value::Tensor { var, by_ref: true };
        let tensors = names
            .iter()
            .map(|name| &**name)
            .zip(vars.into_iter().map(tensor));
        let bound = tensors.chain([("lens", Value::Host(lens))]).collect();
        let body: TokenStream = einsum.body().parse().expect("the body is Rust");
        self.body(bound, body, want, text.span())
    }
}

/// Returns the tokens of a body at `span`, with literals in place of their parameters.
fn placed(tokens: TokenStream, literals: &BTreeMap<&str, Expr>, span: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        if let TokenTree::Group(group) = &token {
            let inner = placed(group.stream(), literals, span);
            token = Group::new(group.delimiter(), inner).into();
        }
        token.set_span(span);
        match &token {
            TokenTree::Ident(ident) => match literals.get(&*ident.to_string()) {
                Some(literal @ (Expr::Range(_) | Expr::Unary(_))) => quote!((#literal)),
                Some(literal) => quote!(#literal),
                None => token.into(),
            },
            _ => token.into(),
        }
    });
    moved.collect()
}
