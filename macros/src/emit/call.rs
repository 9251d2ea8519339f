//! Emits calls of traced functions and of their companions as statements.

use super::statements::{Emitter, HiddenCompanion, Tangents, tangents_ident};
use crate::input::{OutShape, unraw};
use crate::program::{Built, Call, CallArg, Callee, Source};
use gradloom_ir::{Eqn, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};

impl<'a> Emitter<'a> {
    fn info(&self, eqn: &Eqn) -> &'a Call {
        &self.low.calls[&eqn.attrs[0]]
    }

    /// Returns the arguments of a call, the receiver first.
    fn args(&self, call: &Call, operands: &[Var]) -> Vec<TokenStream> {
        let mut operands = operands.iter();
        let args = call.args.iter().map(|arg| self.arg(arg, &mut operands));
        args.collect()
    }

    /// Returns an argument, which takes the next operands.
    fn arg(&self, arg: &CallArg, operands: &mut std::slice::Iter<'_, Var>) -> TokenStream {
        let rt = self.rt;
        match arg {
            CallArg::Host(tokens) => tokens.clone(),
            CallArg::Tree(tokens) => {
                operands.next();
                tokens.clone()
            }
            CallArg::Tensor { by_ref } => {
                let x = self.ident(
                    *operands
                        .next()
                        .expect("one operand for each traced argument"),
                );
                if *by_ref {
                    ours!(&#x)
                } else {
                    ours!(#rt::share_tensor(&#x))
                }
            }
            CallArg::Built(built, parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.arg(part, operands)).collect();
                match built {
                    Built::Some => ours!(::core::option::Option::Some(#(#parts),*)),
                    Built::Tuple => ours!((#(#parts,)*)),
                    Built::TupleRef => ours!(&(#(#parts,)*)),
                    Built::Array => ours!([#(#parts),*]),
                    Built::ArrayRef => ours!(&[#(#parts),*]),
                }
            }
        }
    }

    /// Returns the call expression, of the user's function or of one of its companions.
    fn invoke(
        &self,
        call: &Call,
        companion: Option<HiddenCompanion>,
        mut args: Vec<TokenStream>,
        more: Option<TokenStream>,
    ) -> TokenStream {
        let span = call.span;
        let suffix = match companion {
            None => None,
            Some(HiddenCompanion::Forward) => Some("fwd"),
            Some(HiddenCompanion::Jvp) => Some("jvp"),
        };
        let hidden = |name: &Ident| match suffix {
            Some(suffix) => Ident::new(&format!("__traced_{}_{suffix}", unraw(name)), span),
            None => name.clone(),
        };
        let tokens = match &call.callee {
            Callee::Method { name, turbofish } => {
                let receiver = args.remove(0);
                let name = hidden(name);
                args.extend(more);
                quote_spanned!(span=> #receiver.#name #turbofish (#(#args),*))
            }
            Callee::Associated {
                ty,
                name,
                turbofish,
            } => {
                let name = hidden(name);
                args.extend(more);
                quote_spanned!(span=> #ty::#name #turbofish (#(#args),*))
            }
            Callee::Function(path) => {
                args.extend(more);
                match suffix {
                    None => quote_spanned!(span=> #path(#(#args),*)),
                    Some(suffix) => {
                        let name = Ident::new(&format!("__{suffix}"), span);
                        let (path, turbofish) = apart(path);
                        // Angle brackets force a type: if the function is not traced, rustc reports
                        // a missing type and not a missing crate.
                        quote_spanned!(span=> <#path>::#name #turbofish (#(#args),*))
                    }
                }
            }
        };
        if call.fallible {
            quote_spanned!(span=> #tokens?)
        } else {
            tokens
        }
    }

    fn pattern(&self, shape: &OutShape, outs: &mut std::slice::Iter<'_, Var>) -> TokenStream {
        match shape {
            OutShape::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.pattern(p, outs));
                ours!((#(#parts,)*))
            }
            _ => self
                .ident(*outs.next().expect("as many results as leaves"))
                .into_token_stream(),
        }
    }

    pub(super) fn call(&self, eqn: &Eqn) -> TokenStream {
        let call = self.info(eqn);
        let pattern = self.pattern(&call.shape, &mut eqn.outs.iter());
        let value = self.invoke(call, None, self.args(call, &eqn.args), None);
        ours!(let #pattern = #value;)
    }

    pub(super) fn call_fwd(&self, eqn: &Eqn) -> TokenStream {
        let call = self.info(eqn);
        let (saved, outs) = eqn.outs.split_last().expect("the residuals come last");
        let pattern = self.pattern(&call.shape, &mut outs.iter());
        let saved = self.ident(*saved);
        let active = self.active(eqn, call);
        let asked = (0..call.args.len()).map(|i| active.iter().any(|a| a.arg == i));
        let value = self.invoke(
            call,
            Some(HiddenCompanion::Forward),
            self.args(call, &eqn.args),
            Some(ours!([#(#asked),*])),
        );
        let split = self.split(call, &saved, &eqn.args);
        ours!(let (#pattern, #saved) = #value; #split)
    }

    /// Returns the statements that give each part of an argument a cotangent of its own.
    ///
    /// The last argument comes first, because the numbers of later parameters change.
    fn split(&self, call: &Call, saved: &Ident, operands: &[Var]) -> TokenStream {
        let rt = self.rt;
        let mut operands = operands.iter();
        let args = call.args.iter().enumerate().map(|(i, arg)| {
            let CallArg::Built(_, parts) = arg else {
                self.arg(arg, &mut operands);
                return TokenStream::new();
            };
            let lengths = parts.iter().map(|part| self.n_leaves(part, &mut operands));
            let lengths: Vec<TokenStream> = lengths.collect();
            match parts.len() {
                1 => TokenStream::new(),
                _ => {
                    ours!(let #saved = #rt::CompanionPullback::split(#saved, #i, &[#(#lengths),*]);)
                }
            }
        });
        let args: Vec<TokenStream> = args.collect();
        args.into_iter().rev().collect()
    }

    /// Returns the number of leaves of a part of an argument, which takes the next operand.
    fn n_leaves(&self, part: &CallArg, operands: &mut std::slice::Iter<'_, Var>) -> TokenStream {
        let (rt, x) = (self.rt, self.arg(part, operands));
        match part {
            CallArg::Tensor { .. } => ours!(1usize),
            _ => ours!({ use #rt::BorrowedPlace as _; #rt::n_leaves((#x).located()) }),
        }
    }

    /// Returns the active operands of a call.
    fn active(&self, eqn: &Eqn, call: &Call) -> Vec<CallOperand> {
        let (mut traced, mut slot) = (Vec::new(), 0);
        for (arg, form) in call.args.iter().enumerate() {
            let parts = match form {
                CallArg::Built(_, parts) => &**parts,
                form => std::slice::from_ref(form),
            };
            for part in parts {
                let is_tree = matches!(part, CallArg::Tree(_));
                if !matches!(part, CallArg::Host(_)) {
                    traced.push(CallOperand { arg, slot, is_tree });
                }
                slot += 1;
            }
        }
        let active = self.program.attr(eqn.attrs[1]).ints().unwrap_or(&[]);
        active.iter().map(|k| traced[*k as usize]).collect()
    }

    pub(super) fn call_jvp(&self, eqn: &Eqn, tangents: &Tangents) -> TokenStream {
        let rt = self.rt;
        let call = self.info(eqn);
        let active = self.active(eqn, call);
        let (args, dx) = eqn.args.split_at(eqn.args.len() - active.len());
        let (y, dy) = eqn.outs.split_at(eqn.outs.len() / 2);
        let (mut slot, mut operands) = (0, args.iter());
        let mut leaves = || {
            let k = active.iter().position(|operand| operand.slot == slot);
            slot += 1;
            let k = k?;
            let (dx, is_tree) = (dx[k], active[k].is_tree);
            Some(if !is_tree {
                let maybe = self.maybe.contains(dx);
                let dx = self.ident(dx);
                match maybe {
                    true => ours!(::std::vec![::core::clone::Clone::clone(&#dx)]),
                    false => ours!(#rt::leaf(&#dx)),
                }
            } else {
                let source = tangents
                    .to
                    .get(dx)
                    .and_then(|x| self.inputs.get(*x))
                    .map(|i| &i.source)
                    .expect("the tangent of a tree is a parameter's");
                let Source::Tree { param, .. } = source else {
                    unreachable!("a tree argument is a tree input")
                };
                let (given, at) = (tangents_ident(), self.find(source));
                ours!(#rt::part(&#given[#param], #at))
            })
        };
        let given = call.args.iter().map(|arg| match arg {
            CallArg::Built(_, parts) => {
                let parts = parts.iter().map(|part| {
                    let (length, leaves) = (self.n_leaves(part, &mut operands), leaves());
                    let leaves = leaves.unwrap_or(ours!(#rt::Leaves::new()));
                    ours!((#length, #leaves))
                });
                ours!(#rt::joined_leaves([#(#parts),*]))
            }
            arg => {
                self.arg(arg, &mut operands);
                leaves().unwrap_or(ours!(#rt::Leaves::new()))
            }
        });
        let given: Vec<TokenStream> = given.collect();
        let given = ours!([#(#given),*]);
        let pattern = self.pattern(&call.shape, &mut y.iter());
        let value = self.invoke(
            call,
            Some(HiddenCompanion::Jvp),
            self.args(call, args),
            Some(given),
        );
        let tangents = format_ident!(
            "tangents_of_{}",
            self.ident(y[0]),
            span = Span::mixed_site()
        );
        let each = y.iter().zip(dy).enumerate().map(|(i, (y, dy))| {
            let (y, maybe, dy) = (self.ident(*y), self.maybe.contains(*dy), self.ident(*dy));
            match maybe {
                true => ours!(let #dy = #rt::given_leaf(&#tangents, #i);),
                false => ours!(let #dy = #rt::tangent_of(&#tangents, #i, &#y);),
            }
        });
        ours!(let (#pattern, #tangents) = #value; #(#each)*)
    }

    pub(super) fn call_pull(&self, eqn: &Eqn) -> TokenStream {
        let rt = self.rt;
        let call = self.info(eqn);
        let active = self.active(eqn, call);
        let (saved, cts) = eqn.args.split_first().expect("the residuals come first");
        let saved = self.ident(*saved);
        let given = self.program.attr(eqn.attrs[2]).ints().unwrap_or(&[]);
        let cts = (0..call.shape.len()).map(|i| match given.iter().position(|g| *g == i as i64) {
            Some(k) if self.maybe.contains(cts[k]) => {
                let ct = self.ident(cts[k]);
                ours!(::core::clone::Clone::clone(&#ct))
            }
            Some(k) => {
                let ct = self.ident(cts[k]);
                ours!(::core::option::Option::Some(#rt::share_tensor(&#ct)))
            }
            None => ours!(::core::option::Option::None),
        });
        let pulled = format_ident!("cotangents_of_{}", saved, span = Span::mixed_site());
        let each = eqn.outs.iter().zip(active).map(|(out, operand)| {
            let take = match operand.is_tree {
                true => ours!(tree),
                false if self.maybe.contains(*out) => ours!(given),
                false => ours!(tensor),
            };
            let (out, slot) = (self.ident(*out), operand.slot);
            ours!(let #out = #pulled.#take(#slot);)
        });
        ours!(let #pulled = #saved.call(&[#(#cts),*]); #(#each)*)
    }
}

/// Operand of a call.
#[derive(Clone, Copy)]
struct CallOperand {
    /// Position of the argument that it belongs to.
    arg: usize,
    /// Position of its cotangent in the pullback, where each part of an argument has its own.
    slot: usize,
    is_tree: bool,
}

/// Splits `f::<T>` into the type `f` and the generic arguments of its companions, `::<T>`.
pub(super) fn apart(path: &syn::Path) -> (syn::Path, TokenStream) {
    let mut path = path.clone();
    let last = path.segments.last_mut();
    let arguments = last.map(|last| std::mem::take(&mut last.arguments));
    let turbofish = match arguments {
        Some(syn::PathArguments::AngleBracketed(mut arguments)) => {
            arguments.colon2_token.get_or_insert_default();
            arguments.to_token_stream()
        }
        _ => TokenStream::new(),
    };
    (path, turbofish)
}
