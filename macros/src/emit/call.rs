//! Emits calls of traced functions and of their companions as statements.

use super::statements::{Emitter, HiddenCompanion, Tangents, tangents_ident};
use crate::input::{OutShape, unraw};
use crate::program::{Built, Call, CallArg, Callee, Source};
use gradloom_ir::{Eqn, Op, Var};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
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
            CallArg::Var { by_ref, lent } => {
                let x = *operands
                    .next()
                    .expect("one operand for each traced argument");
                let source = self.low.input(x).map(|input| &input.source);
                let is_reference =
                    matches!(source, Some(Source::Param(i)) if self.func.params[*i].by_ref);
                let (x, is_tree) = (self.ident(x), self.low.trees.contains(&x));
                match (by_ref, is_tree) {
                    _ if lent.is_some() => ours!(#x.#lent()),
                    // A parameter of the callee that has a type parameter would be a `&&Tensor`.
                    (true, false) if is_reference => ours!(#rt::lent(&#x)),
                    (true, _) => ours!(&#x),
                    (false, true) => ours!(#rt::copy(&#x)),
                    (false, false) => ours!(#rt::share_tensor(&#x)),
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
                let receiver = match is_reference(&receiver) {
                    true => ours!((#receiver)),
                    false => receiver,
                };
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
                        let callee = companion_of(path, &name, self.rt);
                        quote_spanned!(span=> #callee (#(#args),*))
                    }
                }
            }
            Callee::Part { .. } | Callee::Inline(_) => unreachable!("no function is called"),
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
        let value = match &call.callee {
            Callee::Part { value, .. } => value.clone(),
            Callee::Inline(inline) => self.inline(inline, &self.references(call, &eqn.args)),
            _ => self.invoke(call, None, self.args(call, &eqn.args), None),
        };
        let ty = self.ascribed(call).map(|ty| ours!(: #ty));
        ours!(let #pattern #ty = #value;)
    }

    /// Returns the type of the results, if some are known to be tensors: a method of a tensor does
    /// not show it, because the user's type may have a `Deref`.
    fn ascribed(&self, call: &Call) -> Option<TokenStream> {
        let rt = self.rt;
        fn ty(
            shape: &OutShape,
            outs: &mut std::slice::Iter<'_, Var>,
            of: &dyn Fn(Var) -> TokenStream,
        ) -> TokenStream {
            match shape {
                OutShape::Tuple(parts) => {
                    let parts = parts.iter().map(|part| ty(part, outs, of));
                    ours!((#(#parts,)*))
                }
                _ => of(*outs.next().expect("as many results as leaves")),
            }
        }
        let is_tensor = |out: &Var| !self.low.trees.contains(out);
        call.outs.iter().any(is_tensor).then(|| {
            ty(
                &call.shape,
                &mut call.outs.iter(),
                &|out| match is_tensor(&out) {
                    true => ours!(#rt::Tensor),
                    false => ours!(_),
                },
            )
        })
    }

    /// Returns the statement that checks that arguments which are trees are not converted.
    fn taken(
        &self,
        call: &Call,
        saved: &Ident,
        active: &[CallOperand],
        operands: &[Var],
    ) -> Option<TokenStream> {
        let rt = self.rt;
        let is_method = matches!(call.callee, Callee::Method { .. });
        let mut operands = operands.iter();
        let mut given = Vec::new();
        for (i, arg) in call.args.iter().enumerate() {
            match arg {
                CallArg::Built(_, parts) => parts.iter().for_each(|part| {
                    self.arg(part, &mut operands);
                }),
                CallArg::Host(_) => {}
                arg => {
                    let is_tree = operands.clone().next().is_some_and(|x| self.is_tree(*x));
                    let is_active = active.iter().any(|operand| operand.arg == i);
                    // For receivers rustc finds out.
                    match is_tree && is_active && !(is_method && i == 0) {
                        true => {
                            let arg = self.arg(arg, &mut operands);
                            if is_reference(&arg) {
                                given.push(ours!((#i, (&#rt::PartOf(#arg)).n_leaves())));
                            }
                        }
                        false => {
                            self.arg(arg, &mut operands);
                        }
                    }
                }
            }
        }
        (!given.is_empty()).then(|| {
            ours!({ use #rt::by_type::{LocatedPart as _, PartWithoutPlace as _}; #saved.check_taken(&[#(#given),*]); })
        })
    }

    pub(super) fn call_fwd(&self, eqn: &Eqn) -> TokenStream {
        let rt = self.rt;
        let call = self.info(eqn);
        let (saved, outs) = eqn.outs.split_last().expect("the residuals come last");
        let pattern = self.pattern(&call.shape, &mut outs.iter());
        let saved = self.ident(*saved);
        if let Callee::Part { tree, value, place } = &call.callee {
            return ours!(let (#pattern, #saved) = #rt::part_fwd(#tree, #place, #value););
        }
        let active = self.active(eqn, call);
        let asked = (0..call.args.len()).map(|i| active.iter().any(|a| a.arg == i));
        let asked: Vec<bool> = asked.collect();
        if let Callee::Inline(inline) = &call.callee {
            let operands = self.references(call, &eqn.args);
            let value = self.inline_fwd(inline, &operands, &asked);
            return ours!(let (#pattern, #saved) = #value;);
        }
        let value = self.invoke(
            call,
            Some(HiddenCompanion::Forward),
            self.args(call, &eqn.args),
            Some(ours!([#(#asked),*])),
        );
        let taken = self.taken(call, &saved, &active, &eqn.args);
        let ty = self.ascribed(call).map(|ty| ours!(: (#ty, _)));
        let split = self.split(call, &saved, &eqn.args);
        let lengths = self
            .lengths(call, outs)
            .map(|lengths| ours!(let #saved = #saved.of_results([#(#lengths),*]);));
        ours!(let (#pattern, #saved)#ty = #value; #taken #split #lengths)
    }

    /// Returns the numbers of leaves of the results, if there are several and some are trees.
    fn lengths(&self, call: &Call, outs: &[Var]) -> Option<Vec<TokenStream>> {
        let rt = self.rt;
        let trees = call.outs.iter().any(|out| self.low.trees.contains(out));
        let length = |out: &Var| {
            let out = self.ident(*out);
            ours!(#rt::n_leaves(&#out))
        };
        (trees && outs.len() > 1).then(|| outs.iter().map(length).collect())
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
        let is_tree = operands.clone().next().is_some_and(|x| self.is_tree(*x));
        let (rt, x) = (self.rt, self.arg(part, operands));
        match part {
            CallArg::Var { .. } if !is_tree => ours!(1usize),
            _ => ours!({ use #rt::BorrowedPlace as _; #rt::n_leaves((#x).located()) }),
        }
    }

    /// Returns the active operands of a call.
    fn active(&self, eqn: &Eqn, call: &Call) -> Vec<CallOperand> {
        let (mut traced, mut slot) = (Vec::new(), 0);
        let mut operands = call.operands.iter();
        for (arg, form) in call.args.iter().enumerate() {
            let parts = match form {
                CallArg::Built(_, parts) => &**parts,
                form => std::slice::from_ref(form),
            };
            for part in parts {
                if !matches!(part, CallArg::Host(_)) {
                    let operand = operands
                        .next()
                        .expect("one operand for each traced argument");
                    let is_tree = self.is_tree(*operand);
                    traced.push(CallOperand { arg, slot, is_tree });
                }
                slot += 1;
            }
        }
        let active = self.program.attr(eqn.attrs[1]).ints().unwrap_or(&[]);
        active.iter().map(|k| traced[*k as usize]).collect()
    }

    fn is_tree(&self, operand: Var) -> bool {
        let source = self.inputs.get(operand).map(|input| &input.source);
        matches!(source, Some(Source::Tree { .. })) || self.low.trees.contains(&operand)
    }

    /// Returns whether each linear result of an equation is a tree, as a list of leaves.
    pub(super) fn linear_trees(&self, eqn: &Eqn) -> Vec<bool> {
        match eqn.op {
            Op::CallPull => {
                let active = self.active(eqn, self.info(eqn)).into_iter();
                active.map(|operand| operand.is_tree).collect()
            }
            Op::CallJvp => {
                let outs = &self.info(eqn).outs;
                let trees = outs.iter().map(|out| self.low.trees.contains(out));
                std::iter::repeat_n(false, outs.len())
                    .chain(trees)
                    .collect()
            }
            _ => {
                let any = eqn.args.iter().any(|x| self.lists.contains(*x));
                vec![any; eqn.outs.len()]
            }
        }
    }

    /// Returns the tangents of an operand of a call, as leaves.
    fn given(&self, dx: Var, tangents: &Tangents) -> TokenStream {
        let rt = self.rt;
        let x = tangents.to.get(dx).and_then(|x| self.inputs.get(*x));
        if let Some(source @ Source::Tree { param, .. }) = x.map(|input| &input.source) {
            let (given, at) = (tangents_ident(), self.find(source));
            return ours!(#rt::part(&#given[#param], #at));
        }
        let (list, maybe) = (self.lists.contains(dx), self.maybe.contains(dx));
        let dx = self.ident(dx);
        match (list, maybe) {
            (true, _) => ours!(::core::clone::Clone::clone(&#dx)),
            (false, true) => ours!(::std::vec![::core::clone::Clone::clone(&#dx)]),
            (false, false) => ours!(#rt::leaf(&#dx)),
        }
    }

    /// Returns the list of the tangents of an operand, if it is one.
    fn list(&self, dx: Var, tangents: &Tangents) -> Option<Ident> {
        let x = tangents.to.get(dx).and_then(|x| self.inputs.get(*x));
        let is_part = matches!(x, Some(input) if matches!(input.source, Source::Tree { .. }));
        (!is_part && self.lists.contains(dx)).then(|| self.ident(dx))
    }

    pub(super) fn call_jvp(&self, eqn: &Eqn, tangents: &Tangents) -> TokenStream {
        let rt = self.rt;
        let call = self.info(eqn);
        let active = self.active(eqn, call);
        let (args, dx) = eqn.args.split_at(eqn.args.len() - active.len());
        let (y, dy) = eqn.outs.split_at(eqn.outs.len() / 2);
        let pattern = self.pattern(&call.shape, &mut y.iter());
        let of_y = format_ident!(
            "tangents_of_{}",
            self.ident(y[0]),
            span = Span::mixed_site()
        );
        let called = match &call.callee {
            Callee::Part { value, place, .. } => {
                let list = self.list(dx[0], tangents).map(Ident::into_token_stream);
                let given = list.unwrap_or_else(|| self.given(dx[0], tangents));
                ours!(let (#pattern, #of_y) = (#value, #rt::part(&#given, #place));)
            }
            _ => {
                let (mut slot, mut operands) = (0, args.iter());
                let mut leaves = || {
                    let k = active.iter().position(|operand| operand.slot == slot);
                    slot += 1;
                    match k {
                        Some(k) => self.given(dx[k], tangents),
                        None => ours!(#rt::Leaves::new()),
                    }
                };
                let given = call.args.iter().map(|arg| match arg {
                    CallArg::Built(_, parts) => {
                        let parts = parts.iter().map(|part| {
                            let (length, leaves) = (self.n_leaves(part, &mut operands), leaves());
                            ours!((#length, #leaves))
                        });
                        ours!(#rt::join_leaves([#(#parts),*]))
                    }
                    arg => {
                        self.arg(arg, &mut operands);
                        leaves()
                    }
                });
                let given: Vec<TokenStream> = given.collect();
                let given = ours!([#(#given),*]);
                let value = match &call.callee {
                    Callee::Inline(inline) => {
                        self.inline_jvp(inline, &self.references(call, args), &given)
                    }
                    _ => {
                        let args = self.args(call, args);
                        self.invoke(call, Some(HiddenCompanion::Jvp), args, Some(given))
                    }
                };
                ours!(let (#pattern, #of_y) = #value;)
            }
        };
        if let Some(lengths) = self.lengths(call, y) {
            let locals = dy.iter().map(|dy| self.ident(*dy));
            let tensors = dy
                .iter()
                .zip(y)
                .filter(|(dy, _)| !self.lists.contains(**dy));
            let tensors = tensors.map(|(dy, y)| self.tangent_of(*dy, *y, &self.ident(*dy), 0));
            return ours!(#called let [#(#locals),*] = #rt::split_leaves(&#of_y, [#(#lengths),*]); #(#tensors)*);
        }
        let each = y.iter().zip(dy).enumerate().map(|(i, (y, dy))| {
            let local = self.ident(*dy);
            match self.lists.contains(*dy) {
                true => ours!(let #local: #rt::Leaves = #of_y;),
                false => self.tangent_of(*dy, *y, &of_y, i),
            }
        });
        ours!(#called #(#each)*)
    }

    /// Returns the statement that reads the tangent `dy` of a tensor from a list of leaves.
    fn tangent_of(&self, dy: Var, y: Var, leaves: &Ident, i: usize) -> TokenStream {
        let rt = self.rt;
        let (local, y) = (self.ident(dy), self.ident(y));
        match self.maybe.contains(dy) {
            true => ours!(let #local = #rt::given_leaf(&#leaves, #i);),
            false => ours!(let #local = #rt::tangent_of(&#leaves, #i, &#y);),
        }
    }

    pub(super) fn call_pull(&self, eqn: &Eqn) -> TokenStream {
        let rt = self.rt;
        let call = self.info(eqn);
        let active = self.active(eqn, call);
        let (saved, cts) = eqn.args.split_first().expect("the residuals come first");
        let saved = self.ident(*saved);
        let given = self.program.attr(eqn.attrs[2]).ints().unwrap_or(&[]);
        let ct_of = |i: usize| given.iter().position(|g| *g == i as i64).map(|k| cts[k]);
        let option = |ct: Option<Var>| match ct {
            Some(ct) if self.maybe.contains(ct) => {
                let ct = self.ident(ct);
                ours!(::core::clone::Clone::clone(&#ct))
            }
            Some(ct) => {
                let ct = self.ident(ct);
                ours!(::core::option::Option::Some(#rt::share_tensor(&#ct)))
            }
            None => ours!(::core::option::Option::None),
        };
        let is_tree = |i: usize| self.low.trees.contains(&call.outs[i]);
        let n_outs = call.outs.len();
        let called = match (n_outs, (0..n_outs).any(is_tree)) {
            (_, false) => {
                let cts = (0..n_outs).map(|i| option(ct_of(i)));
                ours!(#saved.call(&[#(#cts),*]))
            }
            (1, true) => {
                let ct = self.ident(ct_of(0).expect("the only result has a cotangent"));
                ours!(#saved.call(&#ct))
            }
            (_, true) => {
                let cts = (0..n_outs).map(|i| match (is_tree(i), ct_of(i)) {
                    (true, Some(ct)) => {
                        let ct = self.ident(ct);
                        ours!(::core::clone::Clone::clone(&#ct))
                    }
                    (true, None) => ours!(#rt::Leaves::new()),
                    (false, ct) => {
                        let ct = option(ct);
                        ours!(::std::vec![#ct])
                    }
                });
                ours!(#saved.call_results(&[#(#cts),*]))
            }
        };
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
        ours!(let #pulled = #called; #(#each)*)
    }

    /// Returns the statement that adds lists of leaves.
    pub(super) fn sum_of_lists(&self, eqn: &Eqn) -> TokenStream {
        let (rt, out) = (self.rt, self.ident(eqn.outs[0]));
        assert!(eqn.op == Op::Add, "`{}` of trees", eqn.op);
        let [x, y] = [0, 1].map(|i| self.ident(eqn.args[i]));
        ours!(let #out = #rt::sum_leaves(&#x, &#y);)
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

/// Returns whether an argument is `&..`.
fn is_reference(arg: &TokenStream) -> bool {
    let first = arg.clone().into_iter().next();
    matches!(first, Some(TokenTree::Punct(p)) if p.as_char() == '&')
}

/// Returns the hidden companion `name` of the function with this path.
///
/// A path in the type namespace has no fallback for functions that are not traced, but an import
/// has: a glob in an outer scope. An import of a bare name is ambiguous if the name hides another
/// one and comes from a macro, as all traced functions do. So each traced function declares its
/// name once more, as a macro, and the import is used only if that macro is not in scope.
pub(super) fn companion_of(path: &syn::Path, name: &Ident, rt: &TokenStream) -> TokenStream {
    let (function, turbofish) = apart(path);
    let span = name.span();
    // Angle brackets force a type.
    let declared = quote_spanned!(span=> <#function>::#name #turbofish);
    // A fallback takes no generic arguments. The marker has none, so it is imported all the same.
    if !turbofish.is_empty() || !is_importable(&function) {
        return declared;
    }
    let imported = quote_spanned! {span=> {
        use #function as __Traced;
        {
            #rt::traced_function(__Traced::__facts);
            __Traced::#name
        }
    }};
    let Some(ident) = function.get_ident() else {
        return quote_spanned!(span=> { use #rt::untraced::*; #imported });
    };
    let declaration = declaration(ident);
    // An import needs an item of its name in one namespace, so there is a function of that name.
    quote_spanned! {span=> {
        use #rt::untraced::*;
        {
            fn #declaration() {}
            use #declaration as __select;
            { __select!({ #declared } { #imported }) }
        }
    }}
}

/// Returns the name of the macro that a traced function declares in its scope.
pub(crate) fn declaration(function: &Ident) -> Ident {
    format_ident!("__traced_{}", unraw(function), span = Span::mixed_site())
}

/// Returns whether `use` accepts the path of a function. It accepts no associated functions.
fn is_importable(path: &syn::Path) -> bool {
    let is_type = |segment: &syn::PathSegment| {
        !segment.arguments.is_none() || unraw(&segment.ident).starts_with(char::is_uppercase)
    };
    !path.segments.iter().any(is_type)
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
