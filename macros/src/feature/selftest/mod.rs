//! Emits the tests of `#[traced(check)]` beside the function.

mod sampling;

use crate::emit::cx::{field, group};
use crate::emit::names::{ItemNames, allow};
use crate::input::generic::without_lifetimes;
use crate::input::{Func, Kind, OutShape, Param};
use gradloom_ir::{DType, Dim};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use sampling::{Draw, ElementDistribution, Sampling};
use syn::spanned::Spanned;

/// Returns a module of tests, and the function that they call.
///
/// The function is outside of the module, so that the user's types are in scope.
pub(crate) fn selftest_items(func: &Func, sampling: &Sampling, rt: &TokenStream) -> TokenStream {
    let names = ItemNames::new(func);
    let cx = TestCx { func, rt };
    let (run, module) = (&names.check, &names.checks);
    let body = cx.body(&names, sampling);
    let (allow, attrs) = (allow(), &func.attrs);
    let tests = sampling.laws.iter().map(|law| {
        let name = Ident::new(law, func.sig.ident.span());
        ours! {
            #[::core::prelude::v1::test]
            fn #name() {
                super::#run(#law);
            }
        }
    });
    ours! {
        #(#attrs)*
        #[cfg(test)]
        #allow
        fn #run(__law: &str) { #body }

        #(#attrs)*
        #[cfg(test)]
        #allow
        #[allow(unnameable_test_items)]
        mod #module { #(#tests)* }
    }
}

struct TestCx<'a> {
    func: &'a Func,
    rt: &'a TokenStream,
}

impl TestCx<'_> {
    fn body(&self, names: &ItemNames, sampling: &Sampling) -> TokenStream {
        let (rt, func) = (self.rt, self.func);
        let name = text_name(func);
        let fixed = sampling.fixed.iter().map(|(dim, n)| ours!((#dim, #n)));
        // Variables for the dims that the user's expressions mention.
        let dims = sampling
            .mentioned
            .iter()
            .map(|(name, dim)| ours!(let #dim: usize = __source.dim(#name);));
        let params = || func.params.iter().zip(&sampling.draws);
        let drawn = params()
            .filter(|(param, _)| !is_static(param))
            .map(|(param, draw)| self.drawn(param, draw));
        let diff: Vec<&Param> = func.diff().map(|(_, p)| p).collect();
        let locals: Vec<Ident> = diff.iter().map(|d| local(d)).collect();
        let args = self.list(&diff, &locals);
        let x = pattern(&locals);

        let arguments: Vec<TokenStream> = params()
            .map(|(param, draw)| self.argument(param, draw))
            .collect();
        let f = self.path(&func.sig.ident);
        let value = self.unwrapped(ours!(#f(#(#arguments),*)));

        let vjp = self.companion(&names.vjp);
        let pair = self.unwrapped(ours!(#vjp(#(#arguments),*)));
        let cts: Vec<Ident> = prefixed("ct", &diff);
        let ct_tokens: Vec<TokenStream> = cts.iter().map(|ct| ours!(#ct)).collect();
        let ct_pattern = group(&ct_tokens);
        let pulled = self.list(&diff, &cts);

        let jvp = self.companion(&names.jvp);
        let receiver = arguments
            .iter()
            .zip(&func.params)
            .filter(|(_, p)| p.receiver)
            .map(|(a, _)| a);
        let others: Vec<TokenStream> = arguments
            .iter()
            .zip(&func.params)
            .filter(|(_, p)| !p.receiver)
            .map(|(a, _)| a.clone())
            .collect();
        let others = group(&others);
        let dx: Vec<Ident> = prefixed("d", &diff);
        let dx_pattern = pattern(&dx);
        let tangents: Vec<TokenStream> = dx.iter().map(|dx| ours!(#dx.get())).collect();
        let tangents = group(&tangents);
        let tangent = self.unwrapped(ours!(#jvp(#(#receiver,)* #others, #tangents)));
        let grad = self.grad(names, &arguments, &diff, &x);
        ours! {
            #rt::on_samples(#name, __law, &[#(#fixed),*], |__law, __source| {
                #(#dims)*
                #(#drawn)*
                let __args = #args;
                #rt::check_law(
                    __law,
                    &__args,
                    |#x| #value,
                    |#x, __ct| {
                        let (__y, __pullback) = #pair;
                        let #ct_pattern = __pullback(__ct);
                        (__y, #pulled)
                    },
                    |#x, #dx_pattern| #tangent,
                    #grad,
                )
            });
        }
    }

    /// Returns the closure that computes the gradient, or one that returns `None` if there is no
    /// `grad`.
    fn grad(
        &self,
        names: &ItemNames,
        arguments: &[TokenStream],
        diff: &[&Param],
        x: &TokenStream,
    ) -> TokenStream {
        if self.func.output.shape != OutShape::Tensor {
            return ours!(|_| ::core::option::Option::None);
        }
        let grad = self.companion(&names.value_and_grad);
        let pair = self.unwrapped(ours!(#grad(#(#arguments),*)));
        let fields: Vec<TokenStream> = diff
            .iter()
            .map(|d| {
                let field = field(d);
                ours!(__grads.#field)
            })
            .collect();
        let grads = self.list(diff, &fields);
        ours! {
            |#x| {
                let (__y, __grads) = #pair;
                ::core::option::Option::Some((__y, #grads))
            }
        }
    }

    /// Returns the statement that samples an argument: `let x = ..;`.
    fn drawn(&self, param: &Param, draw: &Draw) -> TokenStream {
        let (rt, x, ty) = (self.rt, local(param), without_lifetimes(&param.owned));
        let value = match draw {
            Draw::Value(value) => ours!(#value),
            Draw::Sample => {
                // A missing `Sample` impl is reported at the user's type.
                let (rt, source) = (crate::emit::statements::at(rt, ty.span()), ours!(__source));
                quote_spanned!(ty.span()=> #rt::sample::<#ty>(#source))
            }
            Draw::Numbers {
                dims,
                numbers,
                dtype,
            } => {
                let n = dims.len();
                let dims = dims.iter().map(|d| dim(d, rt));
                let (drawn, natural) = match numbers {
                    ElementDistribution::Normal => (ours!(__source.normal(__shape)), DType::F64),
                    ElementDistribution::Uniform(a, b) => {
                        let range =
                            ours!(::core::ops::Range { start: (#a) as f64, end: (#b) as f64 });
                        (ours!(__source.uniform(__shape, #range)), DType::F64)
                    }
                    ElementDistribution::Classes(classes) => {
                        (ours!(__source.labels(__shape, #classes)), DType::I64)
                    }
                    ElementDistribution::Flags => (ours!(__source.flags(__shape)), DType::Bool),
                };
                let drawn = match dtype {
                    Some(dtype) if *dtype != natural => {
                        let dtype = format_ident!("{dtype:?}");
                        ours!(#rt::in_dtype(#drawn, #rt::DType::#dtype))
                    }
                    _ => drawn,
                };
                ours!({
                    let __shape: [usize; #n] = [#(#dims),*];
                    #drawn
                })
            }
        };
        ours!(let #x: #ty = #value;)
    }

    /// Returns the argument of a call; differentiated arguments are in scope as `Arg`s.
    fn argument(&self, param: &Param, draw: &Draw) -> TokenStream {
        let (rt, x) = (self.rt, local(param));
        if let Some(view) = &param.view {
            let owned = match param.diff {
                true => ours!(#x.get()),
                false => ours!((&#x)),
            };
            return view.lend(&owned, rt);
        }
        match (draw, param.diff, param.by_ref) {
            (Draw::Value(value), ..) if is_static(param) => ours!(#value),
            (_, true, true) => ours!(#x.get()),
            (_, true, false) => ours!(#rt::copy(#x.get())),
            (_, false, true) => ours!(&#x),
            (_, false, false) => ours!(#rt::copy(&#x)),
        }
    }

    /// Returns `(arg("x", x), (arg("w", w), ()))`, a tree of any number of arguments.
    fn list(&self, params: &[&Param], locals: &[impl ToTokens]) -> TokenStream {
        let rt = self.rt;
        let pairs = params.iter().zip(locals).rev();
        pairs.fold(ours!(()), |rest, (param, local)| {
            let name = param.shown_name();
            ours!((#rt::arg(#name, #local), #rest))
        })
    }

    /// Returns the path of the user's function or method.
    fn path(&self, ident: &Ident) -> TokenStream {
        match &self.func.owner {
            Some(owner) => {
                let ty = without_lifetimes(&owner.self_ty);
                ours!(<#ty>::#ident)
            }
            None => ours!(#ident),
        }
    }

    fn companion(&self, companion: &Ident) -> TokenStream {
        match &self.func.owner {
            Some(_) => self.path(companion),
            None => {
                let function = &self.func.sig.ident;
                ours!(#function::#companion)
            }
        }
    }

    /// Returns the call, unwrapped if the function returns a `Result`.
    fn unwrapped(&self, call: TokenStream) -> TokenStream {
        let rt = self.rt;
        match self.func.output.result {
            Some(_) => ours!(#rt::returned(#call)),
            None => call,
        }
    }
}

/// Returns the name for messages: `dense`, or `Linear::forward`.
fn text_name(func: &Func) -> String {
    match &func.owner {
        Some(owner) => format!("{}::{}", crate::input::text(&owner.self_ty), func.name()),
        None => func.name(),
    }
}

fn is_static(param: &Param) -> bool {
    matches!(param.kind, Kind::Static { .. })
}

/// Returns the local that holds an argument.
fn local(param: &Param) -> Ident {
    if param.receiver {
        return Ident::new("this", Span::mixed_site());
    }
    let mut ident = param.ident.clone();
    ident.set_span(Span::mixed_site());
    ident
}

fn prefixed(prefix: &str, params: &[&Param]) -> Vec<Ident> {
    let names = params
        .iter()
        .map(|p| format_ident!("{prefix}_{}", p.name, span = Span::mixed_site()));
    names.collect()
}

/// Returns the nested pattern `(x, (w, ()))`.
fn pattern(locals: &[Ident]) -> TokenStream {
    locals
        .iter()
        .rev()
        .fold(ours!(()), |rest, local| ours!((#local, #rest)))
}

fn dim(dim: &Dim, rt: &TokenStream) -> TokenStream {
    match dim {
        Dim::Known(n) => ours!(#n),
        Dim::Named(name) => {
            let name = name.to_string();
            ours!(__source.dim(#name))
        }
        Dim::Poly(poly) => {
            let text = poly.to_string();
            let terms = poly.terms().iter().map(|term| {
                let (n, factors) = (term.coefficient, term.names.iter().map(ToString::to_string));
                ours!((#n, &[#(#factors),*]))
            });
            ours!(#rt::polynomial(__source, #text, &[#(#terms),*]))
        }
        Dim::Unknown => ours!(__source.unnamed_dim()),
    }
}
