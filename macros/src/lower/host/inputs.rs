//! Lowers the inputs of a program: parameters, leaves of trees, and tensors that depend on no
//! parameter.

use crate::input::{Kind, View, unraw};
use crate::lower::state::names::spelt;
use crate::lower::{Base, Content, Cx, Host, LowerResult, Place, Value};
use crate::program::{Input, Source, at};
use gradloom_ir::{Aval, Var};
use proc_macro2::{Ident, Span};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Declares the parameters as locals of the outermost scope.
    pub(in crate::lower) fn params(&mut self) {
        for (i, p) in self.func.params.iter().enumerate() {
            let value = match p.kind {
                Kind::Tensor => {
                    let var = self.builder.b.param(p.aval.clone());
                    self.name(var, &p.ident);
                    // The emitted code binds the parameter under the user's name, whatever its name
                    // in the program.
                    if let Some(name) = self.builder.b.name_of(var) {
                        self.names.idents.insert(name.to_owned(), p.ident.clone());
                    }
                    self.builder.inputs.push(Input {
                        var,
                        source: Source::Param(i),
                        diff: p.diff,
                    });
                    Value::Tensor {
                        var,
                        by_ref: p.by_ref,
                    }
                }
                Kind::Tree => {
                    let ident = &p.ident;
                    // The emitted code finds leaves in the parameter after the user may have
                    // shadowed it.
                    self.names.host_names.push(unraw(ident));
                    let place = Place {
                        base: Base::Param(i),
                        expr: syn::parse_quote!(#ident),
                        by_ref: p.by_ref,
                        root: true,
                        owned: false,
                        lent: None,
                    };
                    match &p.view {
                        Some(View::Tuple(parts)) => self.parts_of_view(&place, parts),
                        _ => Value::Place(place),
                    }
                }
                Kind::Static { number } => {
                    let ident = &p.ident;
                    if p.mutable {
                        self.names.host_mut.insert(unraw(ident));
                    }
                    self.names.host_names.push(unraw(ident));
                    if mentions_key(&p.owned) {
                        self.names.host_keys.insert(unraw(ident));
                    }
                    Value::Host(Host {
                        expr: syn::parse_quote!(#ident),
                        reads: Vec::new(),
                        content: Content::number(number && !p.by_ref),
                    })
                }
            };
            self.names.scopes[0].insert(unraw(&p.ident), value.into());
        }
    }

    /// Returns the parts of a parameter that is a tuple of references.
    fn parts_of_view(&self, place: &Place, parts: &[View]) -> Value {
        let parts = parts.iter().enumerate().map(|(i, part)| {
            let mut value = self.field(place, &syn::Member::from(i));
            if let Value::Place(place) = &mut value {
                place.by_ref = part.is_reference();
                place.owned = !place.by_ref;
            }
            value
        });
        Value::Tuple(parts.collect())
    }

    /// Binds the names of parameters that are patterns.
    pub(in crate::lower) fn patterns(&mut self) -> LowerResult<()> {
        let func = self.func;
        for (param, input) in func.params.iter().zip(&func.sig.inputs) {
            let syn::FnArg::Typed(typed) = input else {
                continue;
            };
            if !param.pattern {
                continue;
            }
            let value = self.names.lookup(&unraw(&param.ident));
            match value.expect("the parameter is declared").clone() {
                Value::Host(host) => self.bind_host(&typed.pat, None, &host, host.is_number())?,
                value => self.bind(&typed.pat, value)?,
            }
        }
        Ok(())
    }

    /// Returns the variable of a leaf of a tree parameter.
    pub(in crate::lower) fn leaf(&mut self, place: &Place, like: Option<Var>) -> LowerResult<Var> {
        let place = &self.hoisted_place(place);
        let param = match place.base {
            Base::Param(param) => param,
            Base::Local(var) if place.root => return Ok(var),
            Base::Local(var) => return self.leaf_of(var, place, like),
        };
        let tokens = place.expr.to_token_stream();
        let key = tokens.to_string();
        if let Some(&var) = self.builder.leaves.get(&key) {
            return Ok(var);
        }
        let var = self.builder.b.param(Aval::UNKNOWN);
        let mut name = spelt(&tokens).replace("__", "_");
        // `self`, or a name of underscores alone, is not a valid name of a local.
        if syn::parse_str::<Ident>(&name).is_err() {
            name = format!("part_{name}");
        }
        self.name(var, &Ident::new(&name, Span::mixed_site()));
        let (ident, span) = (self.ident(var), place.expr.span());
        // The user's span, so that rustc reports a value that is not an operand there.
        let rt = at(&self.rt, span);
        let bind = match like {
            Some(like) => {
                let like = self.named_by_host(like);
                quote_spanned!(span=> let #ident = #rt::operand(#rt::operand_of(&#tokens), &#like);)
            }
            None => quote_spanned!(span=> let #ident = #rt::tensor_part(&#tokens);),
        };
        self.builder.push_host(like.into_iter().collect(), bind);
        self.builder
            .input_hosts
            .insert(var, self.builder.hosts.len() - 1);
        self.builder.leaves.insert(key, var);
        let diff = self.func.params[param].diff;
        self.builder.inputs.push(Input {
            var,
            source: Source::Leaf {
                param,
                place: tokens,
            },
            diff,
        });
        Ok(var)
    }

    /// Returns the variable of a tensor that depends on no parameter.
    pub(in crate::lower) fn constant(
        &mut self,
        host: &Host,
        like: Option<Var>,
    ) -> LowerResult<Var> {
        self.keep_plain(host)?;
        let var = self.builder.b.param(Aval::UNKNOWN);
        let name = match &host.expr {
            Expr::Path(_) | Expr::Field(_) => {
                spelt(&host.expr.to_token_stream()).replace("__", "_")
            }
            _ => "constant".to_owned(),
        };
        let name = syn::parse_str::<Ident>(&name).map_or("constant", |_| &name);
        self.name(var, &Ident::new(name, Span::mixed_site()));
        let like = like.map(|like| (like, self.named_by_host(like)));
        let (ident, rt, expr) = (self.ident(var), &self.rt, &host.expr);
        let mut reads = host.reads.clone();
        let bind = match like {
            Some((like, local)) => {
                reads.push(like);
                quote!(let #ident = #rt::operand(#rt::operand_of(&(#expr)), &#local);)
            }
            None => quote!(let #ident = #rt::share_tensor(&(#expr));),
        };
        self.builder.push_host(reads, bind);
        self.builder
            .input_hosts
            .insert(var, self.builder.hosts.len() - 1);
        self.builder.inputs.push(Input {
            var,
            source: Source::Constant,
            diff: false,
        });
        Ok(var)
    }
}

/// Returns whether a static parameter is a random key, or holds some.
fn mentions_key(ty: &syn::Type) -> bool {
    let mut found = false;
    super::in_tokens(ty.to_token_stream(), &mut |ident| found |= ident == "Key");
    found
}
