//! Emits calls that reuse a cached plan: the code before and after a body that need not run.

mod by_type;
mod facts;
mod spots;
mod trait_calls;

use super::cx::{Steps, field, reference, turbofish};
use super::internal_items::nested;
use crate::input::args::Args;
use crate::input::generic::Params;
use crate::input::{Func, OutShape, Param};
use crate::program::{Body, Numbers};
use crate::purity::{Asked, Impurity, Question, TraitCall, Verdict, judge};
use by_type::siteless;
pub(crate) use by_type::unmarked;
pub(crate) use facts::Companion;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::ToTokens;
use spots::{BodyWithSpots, asked};
use syn::{Attribute, Block, Expr, FnArg, Pat, Path, Signature, Stmt};
use trait_calls::note_calls;

/// Permission for calls to skip the body.
pub(crate) enum Purity {
    /// A call can reuse a plan without running the body.
    Static,
    /// The body has no side effects, but no key can be formed for its calls; holds the reason.
    Pure(String, Span),
    /// Not known to be free of side effects; holds the reason.
    Impurity(String, Span),
}

/// Emitter for calls of a function and of its companions.
pub(crate) struct CachedCallEmitter<'a> {
    func: &'a Func,
    rt: &'a TokenStream,
    purity: Purity,
    /// Parameters on which a plan need not depend.
    numbers: Numbers,
    /// Constants and statics that the body mentions.
    globals: Vec<Path>,
    /// True if the user declares the body pure with `#[traced(pure)]`.
    promised: bool,
    /// Queries that rustc has to confirm for the body to be pure.
    questions: Vec<Question>,
    /// Copy of the body with queries that rustc has to confirm too.
    asked: Option<BodyWithSpots>,
    /// Queries whether the callees of a body traced at run time are `#[traced]`.
    callees: Vec<Question>,
    /// Calls that may run a function of a trait.
    noted: Vec<TraitCall>,
}

/// Cause of recorded calls of a function.
pub(crate) struct Cause {
    /// The reason, which ends with a remedy.
    pub(crate) why: String,
    /// The user's token that is the cause.
    pub(crate) span: Span,
    /// Constant that is true if the cause does not apply, if it depends on types that only rustc
    /// knows.
    pub(crate) unless: Option<TokenStream>,
}

impl<'a> CachedCallEmitter<'a> {
    /// Judges a body; `plain` is the body without attributes of this library.
    pub(crate) fn new(
        func: &'a Func,
        (block, plain): (&Block, &Block),
        body: &Body,
        args: &Args,
        rt: &'a TokenStream,
    ) -> Self {
        let Verdict {
            impure,
            globals,
            mut questions,
            spots,
            callees,
            noted,
        } = judge(func, block, body, args, rt);
        let mut impure = impure;
        let (asked, missing) = match spots.is_empty() || !func.has_companions() {
            true => (None, spots),
            false => asked(func, plain, spots, rt),
        };
        // A custom function notes at run time whether it is pure.
        let missing = missing.into_iter();
        for spot in missing.filter(|spot| spot.asked != Asked::Custom) {
            match spot.question() {
                Ok(question) => questions.push(question),
                Err(why) => impure = impure.or(Some(why)),
            }
        }
        let asked = asked.filter(|_| impure.is_none());
        let (globals, questions) = match impure {
            Some(_) => Default::default(),
            None => (globals, questions),
        };
        let purity = match (impure, siteless(func)) {
            (Some(Impurity { why, span }), _) => Purity::Impurity(with_remedy(why), span),
            (None, Some((why, span))) => Purity::Pure(why, span),
            (None, None) => Purity::Static,
        };
        CachedCallEmitter {
            func,
            rt,
            purity,
            numbers: body.numbers(),
            globals,
            promised: args.pure,
            questions,
            asked,
            callees,
            noted,
        }
    }

    /// Adds to the body the code that notes its calls of functions of traits.
    pub(crate) fn note_trait_calls(&self, block: &mut Block) {
        match self.purity {
            Purity::Static | Purity::Pure(..) => note_calls(block, &self.noted, self.rt),
            Purity::Impurity(..) => {}
        }
    }

    /// Returns the queries whether the callees of a body traced at run time are `#[traced]`.
    pub(crate) fn callees(&self) -> &[Question] {
        &self.callees
    }

    /// Returns the reason why each call is recorded, or `None` if calls can reuse plans.
    pub(crate) fn recorded(&self) -> Option<&str> {
        match &self.purity {
            Purity::Static => None,
            Purity::Pure(why, _) | Purity::Impurity(why, _) => Some(why),
        }
    }

    /// Returns the conditions, which rustc decides by types, under which the body itself has no side effects, or `None`
    /// if it may have some.
    pub(crate) fn has_no_effects(&self) -> Option<TokenStream> {
        match self.purity {
            Purity::Impurity(..) => None,
            Purity::Static | Purity::Pure(..) => Some(self.fit()),
        }
    }

    /// Returns the causes of recorded calls, for warnings.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        match &self.purity {
            Purity::Static => self.misfits(),
            Purity::Pure(why, span) | Purity::Impurity(why, span) => vec![Cause {
                why: why.clone(),
                span: *span,
                unless: None,
            }],
        }
    }

    /// Moves the body of the user's function into a function with the same signature, and calls
    /// that instead.
    ///
    /// An early return then leaves only the body, and rustc's messages refer to a function. For a
    /// method the function is returned, because it belongs into the impl block. Returns `None` if
    /// the body stays in place.
    pub(crate) fn set_aside(
        &self,
        sig: &mut Signature,
        block: &mut Block,
        attrs: &mut [Attribute],
    ) -> Option<TokenStream> {
        let Purity::Static = self.purity else {
            return None;
        };
        let mut own = sig.clone();
        own.ident = match &self.func.owner {
            // User code can see a local item whatever its hygiene, so only an unusual name avoids a
            // clash.
            None => Ident::new("__traced_body", sig.ident.span()),
            Some(_) => {
                let name = format!("__traced_{}_body", inner(&self.func.name()));
                Ident::new(&name, sig.ident.span())
            }
        };
        // Only the moved body assigns to its parameters.
        for (input, param) in sig.inputs.iter_mut().zip(&self.func.params) {
            match input {
                FnArg::Receiver(r) => r.mutability = None,
                FnArg::Typed(p) if param.pattern => {
                    let ident = &param.ident;
                    *p.pat = syn::parse_quote!(#ident);
                }
                FnArg::Typed(p) => {
                    if let Pat::Ident(ident) = &mut *p.pat {
                        ident.mutability = None;
                    }
                }
            }
        }
        // With `Result`, the body runs in a closure, which has no caller to report.
        let tracked = attrs.iter().any(|a| a.path().is_ident("track_caller"));
        let tracked =
            (tracked && self.func.output.result.is_none()).then(|| ours!(#[track_caller]));
        let (name, args) = (&own.ident, self.func.params.iter().map(|p| &p.ident));
        let generics = turbofish(self.func);
        let (call, beside, inside) = match &self.func.owner {
            None => {
                let function = quote::quote!(#tracked #own #block);
                let call = ours!(#name #generics (#(#args),*));
                (call, TokenStream::new(), Some(function))
            }
            Some(_) => {
                let (lints, expected) = (&self.func.attrs, expected(attrs));
                // Clippy reports on the parameters of the method itself.
                let function = quote::quote! {
                    #[allow(clippy::ptr_arg)] #(#lints)* #(#expected)* #tracked #own #block
                };
                (ours!(Self::#name #generics (#(#args),*)), function, None)
            }
        };
        let stmts = inside.into_iter().chain([call]);
        block.stmts = stmts
            .map(|tokens| Stmt::Expr(Expr::Verbatim(tokens), None))
            .collect();
        Some(beside)
    }

    /// Wraps the body of the user's function in the code that looks up a plan.
    ///
    /// The body has been [set aside](Self::set_aside) if a call can reuse a plan.
    pub(crate) fn wrap(&self, block: &mut Block) {
        let syn::ReturnType::Type(_, ty) = &self.func.sig.output else {
            return;
        };
        let (rt, stmts) = (self.rt, &block.stmts);
        // Generic functions of traits have no hooks.
        let path = self.func.path_in_trait();
        let path = path.filter(|_| !Params::new([&self.func.sig.generics]).decide());
        let enter_impl = path.map(|path| ours!(#rt::enter_impl(&#path);));
        let body = match self.purity {
            Purity::Pure(..) | Purity::Impurity(..) => {
                let count = self.count(Companion::Function);
                quote::quote!(#enter_impl #count #(#stmts)*)
            }
            Purity::Static => {
                let enter = self.enter(Companion::Function, &self.result(1), &[]);
                let y = Ident::new("y", Span::mixed_site());
                let end = self.end_recording(&ours!(y), 1);
                let body = quote::quote!({ #(#stmts)* });
                match &self.func.output.result {
                    None => ours!(#enter #enter_impl let #y: #ty = #body; #end),
                    Some(_) => ours!(#enter #enter_impl let #y: #ty = #body; #y.map(|y| #end)),
                }
            }
        };
        block.stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
    }

    /// Returns the first statement of a companion whose ops are recorded on behalf of its caller.
    pub(crate) fn mark(&self) -> TokenStream {
        let rt = self.rt;
        let fit = match self.purity {
            Purity::Impurity(..) => ours!(false),
            _ if self.is_settled() => return TokenStream::new(),
            _ => self.fit(),
        };
        let path = self.full_path(Companion::Function);
        ours!(#rt::note_fit(#fit, #path);)
    }

    /// Returns the body of a companion that returns the result and the gradients.
    ///
    /// The steps compute the result and nested pairs of gradients; `grads` is the struct that holds
    /// them.
    pub(crate) fn gradients(&self, steps: &Steps, grads: &Ident) -> TokenStream {
        let Steps { statements, value } = steps;
        let diff: Vec<&Param> = self.func.diff().map(|(_, param)| param).collect();
        let fields: Vec<TokenStream> = diff.iter().map(|d| field(d).to_token_stream()).collect();
        let locals = (0..diff.len()).map(|i| Ident::new(&format!("ct{i}"), Span::mixed_site()));
        let locals: Vec<Ident> = locals.collect();
        let question = self.func.output.result.as_ref().map(|_| ours!(?));
        let both = self.ok(ours!((y, #grads { #(#fields: #locals),* })));
        let parts = nested(locals.iter().map(ToTokens::to_token_stream));
        let Purity::Static = self.purity else {
            let count = self.count(Companion::Gradients);
            return ours! {
                #count
                #statements
                let (y, #parts) = #value #question;
                #both
            };
        };
        let found = diff.iter().zip(&fields).map(|(d, field)| {
            let x = reference(d);
            ours!(#field: results.like(#x))
        });
        let y = self.rebuilt(1);
        let found = self.ok(ours!((#y, #grads { #(#found),* })));
        let enter = self.enter(Companion::Gradients, &found, &[]);
        let recording = recording();
        let end = match self.func.output.shape.is_known() {
            true => ours!(let (y, #parts) = #recording.end(#value #question);),
            false => {
                let (rt, whole) = (self.rt, self.whole(1));
                ours! {
                    let both = #value #question;
                    let (y, #parts) = {
                        use #rt::by_type::*;
                        (&&#whole).end_beside(#recording, both)
                    };
                }
            }
        };
        ours! {
            #enter
            #statements
            // The recording ends before the gradients become fields: if the user has a struct with
            // the same name, rustc then reports only one error.
            #end
            #both
        }
    }

    /// Returns the body of a companion whose value consists of `times` results of the function, such
    /// as the result and its tangent; `tangents` are further parameters.
    pub(crate) fn results(
        &self,
        companion: Companion,
        times: usize,
        steps: &Steps,
        tangents: &[Ident],
    ) -> TokenStream {
        let Steps { statements, value } = steps;
        let Purity::Static = self.purity else {
            let count = self.count(companion);
            return ours!(#count #statements #value);
        };
        let enter = self.enter(companion, &self.result(times), tangents);
        match &self.func.output.result {
            None => {
                let end = self.end_recording(value, times);
                ours!(#enter #statements #end)
            }
            Some(_) => {
                let end = self.end_recording(&ours!(found), times);
                ours!(#enter let found = #value; found.map(|found| #end))
            }
        }
    }

    /// Returns the body of a companion that returns the gradients and their change along
    /// `tangents`.
    ///
    /// `body` computes both as structs; `tangents` are further parameters.
    pub(crate) fn hvp(&self, body: &TokenStream, grads: &Ident, tangents: &[Ident]) -> TokenStream {
        let Purity::Static = self.purity else {
            let count = self.count(Companion::Hvp);
            return ours!(#count #body);
        };
        let rt = self.rt;
        let diff: Vec<&Param> = self.func.diff().map(|(_, param)| param).collect();
        let found = diff.iter().map(|d| {
            let (field, x) = (field(d), reference(d));
            ours!(#field: results.like(#x))
        });
        let found = ours!(#grads { #(#found),* });
        let found = self.ok(ours!((#found, #found)));
        let enter = self.enter(Companion::Hvp, &found, tangents);
        let (recording, fields) = (recording(), diff.iter().map(|d| field(d)));
        let fields: Vec<TokenStream> = fields.map(|f| f.to_token_stream()).collect();
        let question = self.func.output.result.as_ref().map(|_| ours!(?));
        let both = self.ok(ours!((gradient, change)));
        ours! {
            #enter
            let (mut gradient, mut change) = { #body } #question;
            #recording.end_with(|f| {
                #(#rt::Tree::visit_mut(&mut gradient.#fields, f);)*
                #(#rt::Tree::visit_mut(&mut change.#fields, f);)*
            });
            #both
        }
    }

    /// Returns the statements that bind the result and the pullback.
    ///
    /// `checks` precede the recorded code. `forward` computes the result and the pullback that
    /// companions use among themselves.
    pub(crate) fn pullback(&self, checks: &TokenStream, forward: &TokenStream) -> TokenStream {
        let rt = self.rt;
        let Purity::Static = self.purity else {
            let count = self.count(Companion::Reverse);
            return ours! {
                #count
                #checks
                let (y, pull) = #forward;
                let pull = #rt::CallPullback::recorded(pull, &y);
            };
        };
        let (result, recording) = (self.rebuilt(1), recording());
        let wrt = self.func.diff().map(|(i, _)| i);
        let end = match self.func.output.shape.is_known() {
            true => ours!(#recording.end_pull(y, pull, &[#(#wrt),*])),
            false => {
                let whole = self.whole(1);
                ours! {{
                    use #rt::by_type::*;
                    (&&#whole).end_pull(#recording, y, pull, &[#(#wrt),*])
                }}
            }
        };
        let call = self.call(Companion::Reverse, &[]);
        ours! {
            let (y, pull) = match #rt::begin_call!(#call) {
                ::core::result::Result::Ok(mut results) => (#result, results.pullback()),
                ::core::result::Result::Err(#recording) => {
                    #checks
                    let (y, pull) = #forward;
                    #end
                }
            };
        }
    }

    /// Returns the statement that returns the results of a cached plan, or starts a recording.
    fn enter(&self, companion: Companion, found: &TokenStream, tangents: &[Ident]) -> TokenStream {
        let (rt, recording, call) = (self.rt, recording(), self.call(companion, tangents));
        ours!(let #recording = #rt::cached!(|results| #found; #call);)
    }

    /// Returns the description of a call; tangents are one more parameter of the key.
    fn call(&self, companion: Companion, tangents: &[Ident]) -> TokenStream {
        let n = Literal::usize_unsuffixed(self.func.params.len());
        let tangents = (!tangents.is_empty()).then(|| ours!(, tangents #n [#(#tangents),*]));
        let instance = self.instance().map(|instance| ours!(, instance #instance));
        let fit = (!self.is_settled()).then(|| {
            let (fit, why) = (self.fit(), self.known_reason());
            ours!(, if #fit, #why)
        });
        let facts = self.facts(companion);
        ours!(#facts #tangents #instance #fit)
    }

    /// Returns the value of [`Self::rebuilt`], as `Ok` if the function returns a `Result`.
    fn result(&self, times: usize) -> TokenStream {
        self.ok(self.rebuilt(times))
    }

    /// Returns the next result out of `results`, or a tuple of the next `times`.
    fn rebuilt(&self, times: usize) -> TokenStream {
        fn rebuilt(shape: &OutShape) -> TokenStream {
            match shape {
                OutShape::Tensor | OutShape::Opaque => ours!(results.tensor()),
                OutShape::Tuple(parts) => {
                    let parts = parts.iter().map(rebuilt);
                    ours!((#(#parts,)*))
                }
            }
        }
        let shape = &self.func.output.shape;
        match (shape.is_known(), times) {
            (false, _) => {
                let (rt, whole) = (self.rt, self.whole(times));
                ours! {{
                    use #rt::by_type::*;
                    (&&#whole).results(&mut results)
                }}
            }
            (true, 1) => rebuilt(shape),
            (true, _) => {
                let parts = (0..times).map(|_| rebuilt(shape));
                ours!((#(#parts,)*))
            }
        }
    }

    /// Returns the expression that ends the recording with the value `y`, which consists of `times`
    /// results.
    fn end_recording(&self, y: &TokenStream, times: usize) -> TokenStream {
        let (rt, recording) = (self.rt, recording());
        if self.func.output.shape.is_known() {
            return ours!(#recording.end(#y));
        }
        let whole = self.whole(times);
        ours! {{
            use #rt::by_type::*;
            (&&#whole).end(#recording, #y)
        }}
    }

    /// Returns the type of the result; if `times` is not 1, a tuple of `times` results.
    fn whole(&self, times: usize) -> TokenStream {
        let (rt, out) = (self.rt, &self.func.output.ty);
        let ty = match times {
            1 => ours!(#out),
            _ => {
                let parts = (0..times).map(|_| out);
                ours!((#(#parts,)*))
            }
        };
        ours!(#rt::OpaqueResult::<#ty>(::core::marker::PhantomData))
    }

    pub(crate) fn ok(&self, value: TokenStream) -> TokenStream {
        match &self.func.output.result {
            None => value,
            Some(_) => ours!(::core::result::Result::Ok(#value)),
        }
    }
}

/// Returns a form of `name` that can be part of another name.
///
/// rustc warns about double underscores inside a name, so leading and trailing underscores are
/// replaced by their counts.
fn inner(name: &str) -> String {
    let (rest, middle) = (name.trim_start_matches('_'), name.trim_matches('_'));
    let (before, after) = (name.len() - rest.len(), rest.len() - middle.len());
    match (before, after) {
        (0, 0) => name.to_owned(),
        _ => format!("{middle}_{before}_{after}"),
    }
}

/// Returns the `expect` attributes for the moved body, which fulfils the expectations; the original
/// function gets `allow` instead.
fn expected(attrs: &mut [Attribute]) -> Vec<Attribute> {
    let expect = attrs.iter_mut().filter(|a| a.path().is_ident("expect"));
    let taken = expect.map(|attr| {
        let taken = attr.clone();
        if let syn::Meta::List(list) = &mut attr.meta {
            list.path = syn::parse_quote!(allow);
        }
        taken
    });
    taken.collect()
}

/// Appends a remedy to a reason that has none.
fn with_remedy(why: String) -> String {
    match why.contains("; ") {
        true => why,
        false => format!("{why}; or declare that it has no side effects with `#[traced(pure)]`"),
    }
}

fn recording() -> Ident {
    Ident::new("recording", Span::mixed_site())
}

/// Possibility that a static value borrows, so that a key cannot store it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Borrowing {
    Never,
    Possible,
}

/// Returns the statement that adds a static value, given as a reference, to a key.
///
/// A key cannot store a value that may borrow. The call is then recorded, unless the type of the
/// value has size 0.
pub(crate) fn static_key(
    rt: &TokenStream,
    x: &TokenStream,
    borrowing: Borrowing,
    key: &impl ToTokens,
) -> TokenStream {
    let value = static_arg(rt, x, borrowing);
    ours! {{
        use #rt::by_type::*;
        (#value).add_to_key(#key);
    }}
}

/// Returns the expression whose methods rustc selects by the type of a static value.
pub(crate) fn static_arg(rt: &TokenStream, x: &TokenStream, borrowing: Borrowing) -> TokenStream {
    match borrowing {
        Borrowing::Never => ours!(&&&&&#rt::StaticArg(#x)),
        Borrowing::Possible => ours!(&&#rt::StaticArg(#x)),
    }
}
