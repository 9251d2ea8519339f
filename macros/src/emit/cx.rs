//! Context for emitting the companions of one function: its signature in the forms that they need.

use super::cached_call::CachedCallEmitter;
use super::docs::Docs;
use super::names::ItemNames;
use super::program_text::Places;
use crate::derivative::Wrt;
use crate::input::{Func, Kind, OutShape, Param, classify, text};
use crate::report::Errors;
use gradloom_ir::Poly;
use gradloom_ir::ad::Hvp;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, GenericParam, Type};

/// Hidden part of the companions.
pub(crate) struct InternalItems {
    /// Functions that callers use, and the one that returns the residuals.
    pub(crate) associated: TokenStream,
    /// The struct of residuals.
    pub(crate) items: TokenStream,
}

/// Companions that run a loop.
///
/// A companion registers only the loops of its mode, so rustc generates no code for the others. The
/// function itself registers all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopUse {
    /// Both modes, or the function itself.
    All,
    Reverse,
    Forward,
    /// The second-order companion.
    Second,
}

impl LoopUse {
    pub(crate) const ALL: [LoopUse; 4] = [
        LoopUse::All,
        LoopUse::Reverse,
        LoopUse::Forward,
        LoopUse::Second,
    ];
}

/// Statements of a companion, and the value that they compute.
pub(crate) struct Steps {
    pub(crate) statements: TokenStream,
    pub(crate) value: TokenStream,
}

/// Function whose companions are emitted.
pub(crate) struct EmitCx<'a> {
    pub(crate) func: &'a Func,
    pub(crate) names: &'a ItemNames,
    pub(crate) rt: &'a TokenStream,
    pub(crate) places: &'a Places,
    pub(crate) docs: &'a Docs,
    pub(crate) calls: &'a CachedCallEmitter<'a>,
    /// Companions with loops of their own.
    pub(crate) loop_uses: &'a [LoopUse],
    /// The second-order program, if there is one.
    pub(crate) hvp: Option<&'a Hvp>,
    /// Parameters that callers may differentiate, if these are more than those of the public
    /// companions.
    pub(crate) callers: Option<&'a Wrt>,
    /// Positions of all parameters that callers may differentiate.
    pub(crate) asked_for: &'a [usize],
}

impl EmitCx<'_> {
    /// Returns the type whose associated functions are the companions.
    pub(crate) fn owner(&self) -> TokenStream {
        match &self.func.owner {
            Some(_) => ours!(Self),
            None => self.func.sig.ident.to_token_stream(),
        }
    }

    /// Returns the name of the function that registers the loops of some companions.
    pub(crate) fn name_of_loops(&self, used: LoopUse) -> &Ident {
        match used {
            LoopUse::All => &self.names.loops,
            LoopUse::Reverse => &self.names.reverse_loops,
            LoopUse::Forward => &self.names.forward_loops,
            LoopUse::Second => &self.names.second_loops,
        }
    }

    /// Returns the statement that registers the compiled loops of some companions.
    pub(crate) fn register(&self, owner: &TokenStream, uses: &[LoopUse]) -> TokenStream {
        let (rt, names) = (self.rt, self.names_of_loops(uses));
        match names.is_empty() {
            true => TokenStream::new(),
            false => ours!(#rt::register!(#(#owner::#names),*);),
        }
    }

    /// Returns the first statements of a companion whose ops are recorded on behalf of its caller,
    /// and which runs the compiled loops of `uses`.
    pub(crate) fn enter(&self, uses: &[LoopUse]) -> TokenStream {
        let (mark, register) = (self.calls.mark(), self.register(&ours!(Self), uses));
        ours!(#mark #register)
    }

    fn names_of_loops(&self, uses: &[LoopUse]) -> Vec<&Ident> {
        let uses = uses.iter().filter(|used| self.loop_uses.contains(used));
        uses.map(|used| self.name_of_loops(*used)).collect()
    }

    /// Returns the parameters of a companion: those of the user's function, each with a name.
    pub(crate) fn inputs(&self) -> Vec<TokenStream> {
        let inputs = self.func.sig.inputs.iter().zip(&self.func.params);
        let inputs = inputs.map(|(input, param)| match input {
            FnArg::Receiver(r) => {
                let mut r = r.clone();
                r.mutability = None;
                r.to_token_stream()
            }
            FnArg::Typed(p) => {
                let (ident, ty) = (&param.ident, &p.ty);
                ours!(#ident: #ty)
            }
        });
        inputs.collect()
    }

    /// Returns the statements that rebind static parameters declared `mut`, because host code may
    /// assign to them.
    pub(crate) fn mutable(&self) -> TokenStream {
        let names = self
            .func
            .params
            .iter()
            .filter(|p| p.mutable)
            .map(|p| &p.ident);
        ours!(#(let mut #names = #names;)*)
    }

    /// Returns the first statements of a companion: a parameter that borrows parts of a tree becomes
    /// a reference to its owned form.
    pub(crate) fn owned(&self) -> TokenStream {
        let views = self.func.params.iter().filter_map(|param| {
            let (ident, view) = (&param.ident, param.view.as_ref()?);
            let value = view.own(&ours!((&#ident)), self.rt);
            Some(ours!(let #ident = &#value;))
        });
        views.collect()
    }

    /// Returns an expression for a result and its pullback, in which the cotangents of frozen leaves
    /// are zero; `trees` are the parameters by position, each with a reference to a value of its
    /// structure.
    pub(crate) fn frozen<'p>(
        &self,
        both: TokenStream,
        trees: impl Iterator<Item = (usize, &'p Param, TokenStream)>,
    ) -> TokenStream {
        let rt = self.rt;
        let trees = trees.filter(|(_, param, _)| param.kind == Kind::Tree);
        trees.fold(both, |both, (i, _, x)| {
            let i = Literal::usize_unsuffixed(i);
            ours!(#rt::freeze(#both, #i, #x))
        })
    }

    /// Returns the arguments that one companion passes to another, without the receiver.
    pub(crate) fn arguments(&self) -> Vec<&Ident> {
        self.func
            .params
            .iter()
            .filter(|p| !p.receiver)
            .map(|p| &p.ident)
            .collect()
    }

    /// Returns the path of an emitted associated function, with the generic arguments that cannot
    /// be inferred.
    pub(crate) fn own(&self, name: &Ident) -> TokenStream {
        let generics = self.generics();
        ours!(Self::#name #generics)
    }

    /// Returns `::<T, N>`, or nothing if the function is not generic.
    pub(crate) fn generics(&self) -> TokenStream {
        turbofish(self.func)
    }

    /// Returns the `use<..>` bound of an `impl Fn`.
    ///
    /// It contains all type and const parameters, and the lifetimes in the types of the
    /// differentiated parameters and of the result.
    pub(crate) fn captures(&self) -> TokenStream {
        let types = self.func.diff().map(|(_, d)| &d.owned);
        let types: Vec<String> = types.chain([&self.func.output.ty]).map(text).collect();
        let owner = self.func.owner.iter().flat_map(|o| &o.generics.params);
        let generics: Vec<&GenericParam> = owner.chain(&self.func.sig.generics.params).collect();
        let lifetimes = generics.iter().filter_map(|g| match g {
            GenericParam::Lifetime(l) => Some(l.lifetime.to_token_stream()),
            _ => None,
        });
        let lifetimes = lifetimes.filter(|l| types.iter().any(|ty| ty.contains(&l.to_string())));
        let others = generics.iter().filter_map(|g| match g {
            GenericParam::Type(t) => Some(t.ident.to_token_stream()),
            GenericParam::Const(c) => Some(c.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        });
        let generics = lifetimes.chain(others);
        ours!(use<#(#generics),*>)
    }

    /// Returns `Result<ty>` as the user wrote it, or `ty` if the function returns no `Result`.
    pub(crate) fn returns(&self, ty: TokenStream) -> TokenStream {
        let Some(path) = &self.func.output.result else {
            return ty;
        };
        let mut path = path.clone();
        let last = path
            .path
            .segments
            .last_mut()
            .expect("`Result` is a segment");
        if let syn::PathArguments::AngleBracketed(args) = &mut last.arguments {
            let slot = args
                .args
                .iter_mut()
                .find(|a| matches!(a, syn::GenericArgument::Type(_)));
            if let Some(slot) = slot {
                *slot = syn::GenericArgument::Type(Type::Verbatim(ty));
            }
        }
        path.to_token_stream()
    }

    /// Returns a body that evaluates to a `Result` if the function returns one.
    pub(crate) fn body(&self, body: TokenStream, ty: &TokenStream) -> TokenStream {
        if self.func.output.result.is_none() {
            return body;
        }
        let (rt, returns) = (self.rt, self.returns(ty.clone()));
        let body = ours!({ #body });
        ours!(#rt::catch_as(|| -> #returns { ::core::result::Result::Ok(#body) }))
    }

    /// Returns statements and the value that they compute, of type `ty`.
    ///
    /// In a function that returns `Result`, the value is a block that evaluates to a `Result`.
    pub(crate) fn steps(
        &self,
        statements: TokenStream,
        value: TokenStream,
        ty: &TokenStream,
    ) -> Steps {
        match self.func.output.result {
            None => Steps { statements, value },
            Some(_) => Steps {
                statements: TokenStream::new(),
                value: self.body(ours!(#statements #value), ty),
            },
        }
    }

    pub(crate) fn question(&self) -> Option<TokenStream> {
        self.func.output.result.as_ref().map(|_| ours!(?))
    }

    pub(crate) fn diff(&self) -> Vec<&Param> {
        self.func.diff().map(|(_, p)| p).collect()
    }

    pub(crate) fn signature(
        &self,
        name: &Ident,
        inputs: &[TokenStream],
        returns: &TokenStream,
    ) -> TokenStream {
        let generics = &self.func.sig.generics;
        let written = generics.where_clause.iter().flat_map(|w| &w.predicates);
        let written = written.map(ToTokens::to_token_stream);
        let receiver = self.receiver_tree().filter(|_| !inputs.is_empty());
        let bounds: Vec<TokenStream> = written.chain(self.trees()).chain(receiver).collect();
        let bounds = (!bounds.is_empty()).then(|| ours!(where #(#bounds),*));
        ours!(fn #name #generics (#(#inputs),*) -> #returns #bounds)
    }

    /// Returns the `Tree` bound of the receiver of a method of a trait.
    ///
    /// A type that is not a tree has no companions. rustc does not check a bound with `for` before
    /// they are called.
    fn receiver_tree(&self) -> Option<TokenStream> {
        let receiver = self.func.params.iter().find(|param| param.receiver)?;
        let rt = self.rt;
        (self.func.of_trait().is_some() && receiver.kind == Kind::Tree)
            .then(|| ours!(for<'any> Self: #rt::Tree))
    }

    /// Returns `Tree` bounds for the types that the macro treats as trees.
    ///
    /// With the bounds rustc reports a type that is not a tree once, at the signature, and not at
    /// each use.
    fn trees(&self) -> Vec<TokenStream> {
        let rt = self.rt;
        let params = self.func.params.iter().filter(|p| p.kind == Kind::Tree);
        let output = &self.func.output;
        // Facts of a method that returns a number are for its callers only.
        let plain = !matches!(classify(&output.ty, &mut Errors::default()), Kind::Tree);
        let output = (output.shape == OutShape::Opaque && !plain).then_some(&output.ty);
        let types = params
            .filter(|p| !p.receiver)
            .map(|p| &p.owned)
            .chain(output);
        types
            // A bound cannot mention an unnamed lifetime.
            .filter(|ty| !text(ty).contains(['\'', '&']))
            .map(|ty| {
                let rt = super::statements::at(rt, ty.span());
                quote_spanned!(ty.span()=> #ty: #rt::Tree)
            })
            .chain(self.receiver_of_block())
            .collect()
    }

    /// Returns the `Tree` bound of the receiver of a method that is not of a trait.
    fn receiver_of_block(&self) -> Option<TokenStream> {
        let params = &self.func.params;
        let receiver = params.iter().find(|p| p.receiver && p.kind == Kind::Tree)?;
        let owner = self.func.owner.as_ref()?;
        let is_generic = !owner.generics.params.is_empty() || text(&owner.self_ty).contains('\'');
        let span = receiver.ident.span();
        let rt = super::statements::at(self.rt, span);
        (owner.of_trait.is_none() && !is_generic).then(|| quote_spanned!(span=> Self: #rt::Tree))
    }

    /// Returns the visibility of an associated item: that of the user's method, or of the enum of a
    /// function, which limits that of its items.
    pub(crate) fn vis(&self) -> TokenStream {
        match self.func.owner {
            None => ours!(pub),
            Some(_) => self.func.vis.to_token_stream(),
        }
    }

    /// Returns a polynomial as an optional formula of the run time.
    pub(crate) fn formula(&self, poly: &Option<Poly>) -> TokenStream {
        let rt = self.rt;
        let Some(poly) = poly else {
            return ours!(::core::option::Option::None);
        };
        let terms = poly.terms().iter().map(|term| {
            let coefficient = Literal::i128_unsuffixed(term.coefficient);
            let dims = term.names.iter().map(|name| name.as_str());
            ours!(#rt::Term { coefficient: #coefficient, dims: &[#(#dims),*] })
        });
        ours!(#rt::formula(&[#(#terms),*]))
    }

    /// Returns the documentation of the function that returns the residuals.
    pub(crate) fn forward_doc(&self) -> String {
        let function = &self.func.sig.ident;
        let sentence = format!("The result of `{function}`, and the residuals of its derivative.");
        self.docs.reverse(&sentence)
    }

    /// Returns a call of the hidden reverse-mode companion for the cotangents of the public
    /// parameters.
    pub(crate) fn public_fwd(&self, arguments: &[TokenStream]) -> TokenStream {
        match self.callers {
            Some(_) => {
                let own = self.own(&self.names.internal_own);
                ours!(#own(#(#arguments),*))
            }
            None => {
                let fwd = self.own(&self.names.internal_fwd);
                let asked = self.func.params.iter().map(|param| param.diff);
                ours!(#fwd(#(#arguments,)* [#(#asked),*]))
            }
        }
    }

    /// Returns all arguments for a hidden companion, the receiver first. By-value arguments are
    /// moved.
    pub(crate) fn forwarded(&self) -> Vec<TokenStream> {
        let params = self.func.params.iter();
        params.map(|param| passed(param, self.rt)).collect()
    }

    /// Returns all arguments for a hidden companion; by-value arguments are copied because they are
    /// needed afterwards.
    pub(crate) fn borrowed_args(&self) -> Vec<TokenStream> {
        let rt = self.rt;
        let args = self.func.params.iter().map(|param| {
            let ident = &param.ident;
            match param.diff && !param.by_ref {
                true => ours!(#rt::copy(&#ident)),
                false => passed(param, rt),
            }
        });
        args.collect()
    }
}

/// Returns the argument that a companion passes for a parameter of its own.
pub(super) fn passed(param: &Param, rt: &TokenStream) -> TokenStream {
    let ident = param.ident.to_token_stream();
    match &param.view {
        Some(view) => view.lend(&ident, rt),
        None => ident,
    }
}

/// Returns a copy of a host local. A random key is not `Clone`, and each run draws the same numbers.
pub(super) fn copy_host(rt: &TokenStream, host: &Ident) -> TokenStream {
    ours!({
        use #rt::{CopyByClone as _, CopyByMap as _};
        (&#rt::HostCopy(&#host)).copied()
    })
}

/// Returns `::<T, N>`, or nothing if the function is not generic.
pub(crate) fn turbofish(func: &Func) -> TokenStream {
    let generics = func.sig.generics.params.iter().filter_map(|g| match g {
        GenericParam::Type(t) => Some(&t.ident),
        GenericParam::Const(c) => Some(&c.ident),
        GenericParam::Lifetime(_) => None,
    });
    let generics: Vec<_> = generics.collect();
    match generics.is_empty() {
        true => TokenStream::new(),
        false => ours!(::<#(#generics),*>),
    }
}

/// Returns a single part as it is, and several as a tuple.
pub(crate) fn group(parts: &[TokenStream]) -> TokenStream {
    match parts {
        [one] => one.clone(),
        parts => ours!((#(#parts),*)),
    }
}

/// Returns an expression for a reference to a parameter.
pub(crate) fn reference(param: &Param) -> TokenStream {
    let ident = &param.ident;
    if param.by_ref {
        ours!(#ident)
    } else {
        ours!(&#ident)
    }
}

/// Returns the parameter's field in the struct of gradients.
pub(crate) fn field(param: &Param) -> Ident {
    if param.receiver {
        Ident::new(&param.name, Span::call_site())
    } else {
        param.ident.clone()
    }
}
