//! Emits code of the body that is not a program: code that moves tensors between trees, and code that
//! is recorded.

use super::internal_items::nested;
use super::statements::Emitter;
use crate::program::{Call, Effect, Inline};
use gradloom_ir::Var;
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;

impl Emitter<'_> {
    /// Returns the value of the code; `args` are references to its operands.
    pub(super) fn inline(&self, inline: &Inline, args: &[TokenStream]) -> TokenStream {
        let rt = self.rt;
        let binds = inline
            .operands
            .iter()
            .zip(args)
            .map(|((name, by_ref), arg)| {
                let bound = match by_ref {
                    true => arg.clone(),
                    false => ours!((&#rt::PartOf(#arg)).copied()),
                };
                ours!(let mut #name = #bound;)
            });
        let (code, used) = (&inline.code, uses(rt));
        ours!({ #used #(#binds)* #code })
    }

    /// Returns the value of the code and its pullback.
    pub(super) fn inline_fwd(
        &self,
        inline: &Inline,
        args: &[TokenStream],
        asked: &[bool],
    ) -> TokenStream {
        let (rt, code, used) = (self.rt, &inline.code, uses(self.rt));
        match inline.effect {
            Effect::Moves => {
                let binds = self.moved(inline, args);
                ours!({
                    #used
                    let mut moved = #rt::MovedLeaves::new();
                    #binds
                    let value = { #code };
                    let pullback = moved.pullback(&value);
                    (value, pullback)
                })
            }
            Effect::Records => {
                let Recording { captured, recorded } = self.recording(inline, args);
                let likes = args.iter().enumerate().map(|(i, _)| {
                    let name = operand(i);
                    ours!(#rt::avals(&#name))
                });
                ours!({
                    #used
                    #captured
                    #rt::record_vjp([#(#likes),*], &[#(#asked),*], #recorded)
                })
            }
        }
    }

    /// Returns the value of the code and its tangents, given those of its operands.
    pub(super) fn inline_jvp(
        &self,
        inline: &Inline,
        args: &[TokenStream],
        given: &TokenStream,
    ) -> TokenStream {
        let (rt, code, used) = (self.rt, &inline.code, uses(self.rt));
        match inline.effect {
            Effect::Moves => {
                let binds = self.moved(inline, args);
                ours!({
                    #used
                    let mut moved = #rt::MovedLeaves::new();
                    #binds
                    let value = { #code };
                    let tangents = moved.tangents(&value, &#given);
                    (value, tangents)
                })
            }
            Effect::Records => {
                let Recording { captured, recorded } = self.recording(inline, args);
                ours!({
                    #used
                    #captured
                    #rt::record_jvp(&#given, #recorded)
                })
            }
        }
    }

    /// Returns the statements that bind the operands of code that moves tensors.
    fn moved(&self, inline: &Inline, args: &[TokenStream]) -> TokenStream {
        let rt = self.rt;
        let binds = inline
            .operands
            .iter()
            .zip(args)
            .map(|((name, by_ref), arg)| {
                let reference = by_ref.then(|| ours!(&));
                ours!(let mut #name = #reference (&#rt::PartOf(#arg)).moved_by(&mut moved);)
            });
        ours!(#(#binds)*)
    }

    /// Returns the parts of a call that records the code.
    fn recording(&self, inline: &Inline, args: &[TokenStream]) -> Recording {
        let rt = self.rt;
        let names: Vec<Ident> = (0..args.len()).map(operand).collect();
        let captures = names
            .iter()
            .zip(args)
            .map(|(name, arg)| ours!(let #name = (&#rt::PartOf(#arg)).captured();));
        let arguments = names.iter().enumerate().map(|(i, name)| ours!(#i &#name));
        let arguments = ours!(#rt::arguments![#(#arguments),*]);
        let pattern = nested(names.iter().map(|name| ours!(#name)));
        let binds = inline
            .operands
            .iter()
            .zip(&names)
            .map(|((user, by_ref), name)| {
                let take = match by_ref {
                    true => ours!(by_ref),
                    false => ours!(owned),
                };
                ours!(let mut #user = #name.#take();)
            });
        let code = &inline.code;
        Recording {
            captured: ours!(#(#captures)*),
            recorded: ours!(#arguments, |#pattern| { #(#binds)* #code }),
        }
    }

    /// Returns references to the operands of the code.
    pub(super) fn references(&self, call: &Call, operands: &[Var]) -> Vec<TokenStream> {
        use crate::program::CallArg;
        let args = call.args.iter().zip(operands).map(|(arg, x)| match arg {
            CallArg::Tree(reference) => reference.clone(),
            _ => {
                let (rt, is_tree, x) = (self.rt, self.low.trees.contains(x), self.ident(*x));
                match is_tree {
                    true => ours!(&#x),
                    false => ours!(#rt::tensor_ref(&#x)),
                }
            }
        });
        args.collect()
    }
}

/// Parts of a call that records code.
struct Recording {
    /// Statements that bind the operands in the form that the closure takes.
    captured: TokenStream,
    /// What every call of the run time that records code ends with: the operands, and the closure.
    recorded: TokenStream,
}

/// Returns the local for operand `i`.
fn operand(i: usize) -> Ident {
    format_ident!("operand_{i}", span = Span::mixed_site())
}

fn uses(rt: &TokenStream) -> TokenStream {
    ours!(use #rt::by_type::{SkippedPart as _, TreeOperand as _};)
}
