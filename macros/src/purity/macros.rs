//! Judges macros whose arguments are expressions.

use super::ty::{Probe, Ty, Val};
use super::{PurityVisitor, Remedy, place};
use crate::method_table::{CONSTANTS, MACROS, PANICS};
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Expr, Macro, Pat};

impl PurityVisitor<'_> {
    pub(super) fn mac(&mut self, mac: &Macro) -> Val {
        let name = mac.path.segments.last().map(|s| s.ident.to_string());
        let name = name.unwrap_or_default();
        let val = match &*name {
            name if PANICS.contains(&name) => Some(Val::unknown()),
            name if CONSTANTS.contains(&name) => Some(Ty::Text.into()),
            "matches" => self.matched(mac),
            "vec" => self.listed(mac),
            name if MACROS.contains(&name) => self.shown(mac, name),
            _ => None,
        };
        val.unwrap_or_else(|| {
            let what = format!("{name}!");
            self.found(
                &what,
                mac.path.span(),
                "its effects are not known",
                Remedy::Move,
            )
        })
    }

    /// Judges `vec![..]`.
    fn listed(&mut self, mac: &Macro) -> Option<Val> {
        let mut elem = Val::unknown();
        let open = mac.delimiter.span().open();
        for (i, part) in arguments(&mac.tokens)?.iter().enumerate() {
            let val = self.expr(part).at(place(open, i + 1));
            self.moved(&val, "vec!", part.span());
            elem.unify(&Val { at: None, ..val });
        }
        // rustc knows the items of a list of the user's values better than the macro.
        let probe = match elem.ty {
            Ty::Opaque => elem.exact().cloned(),
            _ => None,
        };
        let probe = probe.and_then(|elem| Probe::exact(ours!(::std::vec![#elem])));
        Some(Val::list(elem).with(probe))
    }

    /// Judges a macro that compares or formats its arguments.
    fn shown(&mut self, mac: &Macro, name: &str) -> Option<Val> {
        let what = format!("{name}!");
        let compared = if name.ends_with("_eq") || name.ends_with("_ne") {
            2
        } else {
            1
        };
        for (i, part) in arguments(&mac.tokens)?.into_iter().enumerate() {
            // `name = value`
            let part = match part {
                Expr::Assign(e) => *e.right,
                part => part,
            };
            let val = self.expr(&part);
            // Operands of a comparison are formatted only if it fails, and then the macro panics.
            if name == "format" || i >= compared {
                self.known(
                    &val,
                    &what,
                    part.span(),
                    "the type of the formatted value is not known",
                );
            }
            if let Expr::Lit(lit) = &part
                && let syn::Lit::Str(text) = &lit.lit
            {
                for name in crate::input::format_names(&text.value()) {
                    match self.local(&name).cloned() {
                        Some(local) => {
                            self.known(
                                &local,
                                &what,
                                part.span(),
                                "the type of the formatted value is not known",
                            );
                        }
                        None if self.names.contains(&name) => {}
                        None => {
                            self.found(
                                &what,
                                part.span(),
                                "what it shows is not known",
                                Remedy::Move,
                            );
                        }
                    }
                }
            }
        }
        Some(Ty::Text.into())
    }

    /// Judges `matches!`.
    fn matched(&mut self, mac: &Macro) -> Option<Val> {
        let parse = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<syn::Token![,]>()?;
            let pat = Pat::parse_multi_with_leading_vert(input)?;
            let guard = match input.parse::<Option<syn::Token![if]>>()? {
                Some(_) => Some(input.parse::<Expr>()?),
                None => None,
            };
            input.parse::<Option<syn::Token![,]>>()?;
            Ok((value, pat, guard))
        };
        let (value, pat, guard) = parse.parse2(mac.tokens.clone()).ok()?;
        let val = self.expr(&value);
        self.scope(|judge| {
            judge.pattern(&pat, &val);
            guard.iter().for_each(|guard| {
                judge.expr(guard);
            });
        });
        Some(Ty::Scalar.into())
    }
}

/// Returns the arguments of a macro, if they are expressions.
fn arguments(tokens: &TokenStream) -> Option<Vec<Expr>> {
    let parse = |input: ParseStream<'_>| {
        let mut parts: Vec<Expr> = Vec::new();
        while !input.is_empty() {
            parts.push(input.parse()?);
            if input.peek(syn::Token![;]) {
                input.parse::<syn::Token![;]>()?;
            } else if !input.is_empty() {
                input.parse::<syn::Token![,]>()?;
            }
        }
        Ok(parts)
    };
    parse.parse2(tokens.clone()).ok()
}
