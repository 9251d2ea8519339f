//! Lowers trees that calls return, and their parts.

use crate::input::{OutShape, text};
use crate::lower::state::kinds::Kind;
use crate::lower::state::names::spelt;
use crate::lower::{Base, Cx, LowerResult, Place, Value};
use crate::program::{Call, CallArg, Callee, Input, Source};
use gradloom_ir::{Aval, Op, Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Returns the result of a call as a tree, if it may be one.
    pub(in crate::lower) fn as_place(&mut self, value: Value) -> Value {
        let Value::Tensor { var, by_ref } = value else {
            return value;
        };
        if !self.forms || !self.builder.kinds.decide(var, Kind::Tree) {
            return value;
        }
        self.host.read(&[var]);
        let ident = self.named_by_host(var);
        Value::Place(Place {
            base: Base::Local(var),
            expr: syn::parse_quote!(#ident),
            by_ref,
            root: true,
            owned: !by_ref,
            lent: None,
        })
    }

    /// Returns a variable that holds a copy of a tree or of a part of one.
    pub(in crate::lower) fn tree(&mut self, place: &Place) -> LowerResult<Var> {
        match place.base {
            Base::Local(var) if place.root => Ok(var),
            Base::Local(var) => self.part(var, place, self.copy_of(place), false),
            Base::Param(param) => {
                let var = self.tree_input(param, place);
                self.part(var, place, self.copy_of(place), false)
            }
        }
    }

    /// Returns a copy of a part of a tree.
    pub(in crate::lower) fn copy_of(&self, place: &Place) -> TokenStream {
        let (rt, reference) = (&self.rt, self.located(place));
        match &place.expr {
            expr if place.root || matches!(expr, Expr::Path(_)) => quote!(#rt::copy(#reference)),
            Expr::Index(i) if matches!(&*i.index, Expr::Range(_)) => {
                quote!(#rt::copy_list(&#i))
            }
            expr => quote!({
                use #rt::by_type::*;
                (&#rt::PartOf(&#expr)).copied()
            }),
        }
    }

    /// Returns the variable of a tensor or a tree.
    pub(in crate::lower) fn tree_of(&mut self, value: Value) -> LowerResult<Var> {
        let var = match value {
            Value::Tensor { var, .. } => var,
            Value::Place(place) => self.tree(&place)?,
            _ => unreachable!("the value is a tensor or a tree"),
        };
        // The result of an op is a tree of one leaf.
        self.builder.kinds.decide(var, Kind::Tree);
        Ok(var)
    }

    /// Returns the tensor in a part of the tree `base`.
    pub(in crate::lower) fn leaf_of(
        &mut self,
        base: Var,
        place: &Place,
        like: Option<Var>,
    ) -> LowerResult<Var> {
        let (tokens, span) = (place.expr.to_token_stream(), place.expr.span());
        let rt = crate::program::at(&self.rt, span);
        let value = match like {
            None => quote_spanned!(span=> #rt::tensor_part(&#tokens)),
            Some(like) => {
                let like = self.named_by_host(like);
                quote_spanned!(span=> #rt::operand(#rt::operand_of(&#tokens), &#like))
            }
        };
        let ident = self.host_ident(&Ident::new("leaf", Span::mixed_site()));
        let reads = like.into_iter().chain([base]).collect();
        self.builder.push_host(reads, quote!(let #ident = #value;));
        self.part(base, place, quote!(#ident), true)
    }

    /// Appends the equation that takes a part of a tree; `value` is the part.
    fn part(
        &mut self,
        base: Var,
        place: &Place,
        value: TokenStream,
        is_leaf: bool,
    ) -> LowerResult<Var> {
        let (tokens, span) = (place.expr.to_token_stream(), place.expr.span());
        let key = format!("{base}: {tokens} {is_leaf}");
        if let Some(&var) = self.builder.leaves.get(&key) {
            return Ok(var);
        }
        let (rt, reference) = (self.rt.clone(), self.located(place));
        let (tree, found) = match (is_leaf, place.base) {
            (_, Base::Param(_)) => (reference.clone(), quote!(#rt::whole(#reference))),
            (is_leaf, Base::Local(_)) => {
                let root = self.named_by_host(base);
                let found = match is_leaf {
                    true => {
                        let rt = crate::program::at(&rt, span);
                        quote_spanned!(span=> #rt::find_leaf(&#root, #rt::operand_of(&#tokens)))
                    }
                    false if matches!(place.expr, Expr::Path(_)) => {
                        quote!(#rt::find(&#root, #reference))
                    }
                    false => quote_spanned!(span=> {
                        use #rt::by_type::*;
                        (&#rt::PartOf(&#tokens)).found_in(&#root)
                    }),
                };
                (quote!(&#root), found)
            }
        };
        let callee = Callee::Part {
            tree,
            value,
            place: found,
        };
        let attr = self.builder.b.attr(Static::Host(text(&tokens)));
        let args = vec![CallArg::var(true)];
        self.builder.calls.insert(
            attr,
            Call {
                callee,
                args,
                operands: vec![base],
                outs: Vec::new(),
                fallible: false,
                shape: OutShape::Tensor,
                span,
            },
        );
        let outs = self.emit_call(attr, vec![base], 1, span)?;
        match is_leaf {
            true => {}
            false if self.is_own_tree(place) => {
                self.builder.kinds.open_with_own_operators(outs[0]);
            }
            false => self.builder.kinds.open(outs[0]),
        }
        let mut name = spelt(&tokens).replace("__", "_");
        if syn::parse_str::<Ident>(&name).is_err() {
            name = format!("part_{name}");
        }
        self.name(outs[0], &Ident::new(&name, Span::mixed_site()));
        self.builder.leaves.insert(key, outs[0]);
        Ok(outs[0])
    }

    /// Appends a call equation, whose operands may be trees.
    pub(in crate::lower) fn emit_call(
        &mut self,
        attr: gradloom_ir::Attr,
        operands: Vec<Var>,
        n_outs: usize,
        span: Span,
    ) -> LowerResult<Vec<Var>> {
        let outs = self
            .builder
            .b
            .try_emit(Op::Call, &[attr], &operands, n_outs);
        let outs = outs.expect("a call takes any operands");
        for out in &outs {
            self.builder.spans.insert(*out, span);
        }
        let call = self.builder.calls.get_mut(&attr);
        call.expect("the call has been inserted").outs = outs.clone();
        Ok(outs)
    }

    /// Returns the input of the program for a part of a tree parameter.
    pub(in crate::lower) fn tree_input(&mut self, param: usize, place: &Place) -> Var {
        let tokens = place.expr.to_token_stream();
        let var = self.builder.b.param(Aval::UNKNOWN);
        let name = match &*spelt(&tokens) {
            "" => "part".to_owned(),
            name => name.to_owned(),
        };
        self.builder.inputs.push(Input {
            var,
            source: Source::Tree {
                param,
                place: tokens,
            },
            diff: self.func.params[param].diff,
        });
        self.name(var, &Ident::new(&name, Span::mixed_site()));
        var
    }

    /// Returns a reference to the tree at a place.
    pub(in crate::lower) fn located(&self, place: &Place) -> TokenStream {
        let (expr, rt) = (&place.expr, &self.rt);
        match (place.root, expr) {
            (true, _) => self.reference(place),
            // A name bound by a pattern may be a reference.
            (false, Expr::Path(_)) => quote!({ use #rt::BorrowedPlace as _; #expr.located() }),
            (false, expr) => quote!(&#expr),
        }
    }
}
