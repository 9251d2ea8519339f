//! Emits the items beside the user's function: companions, the struct of residuals, the struct of
//! gradients.

use crate::derivative::{Wrt, asked_for};
use crate::digest::Digest;
use crate::emit::annotations::Checks;
use crate::emit::cached_call::CachedCallEmitter;
use crate::emit::cached_call::Cause;
use crate::emit::call::declaration;
use crate::emit::cx::{EmitCx, InternalItems, LoopUse};
use crate::emit::docs::Docs;
use crate::emit::facts::FactItems;
use crate::emit::flow::derivatives;
use crate::emit::names::{ItemNames, allow};
use crate::emit::program_text::Places;
use crate::feature::compiled_loops::Loops;
use crate::feature::{closures, hvp};
use crate::input::args::Args;
use crate::input::{Func, Owner, text};
use crate::program::Body;
use proc_macro2::TokenStream;
use syn::Block;

/// Reason why the body of a function without tensors as arguments is not lowered.
pub(super) const NO_TENSOR: &str = "it takes no tensor";

/// Emitted companions of one function.
pub(crate) struct Companions {
    /// Items beside the function or the impl block.
    pub(crate) items: TokenStream,
    /// Statement that registers the compiled loops, if there are any.
    pub(crate) register: Option<TokenStream>,
    /// Reasons why each call is recorded.
    pub(crate) causes: Vec<Cause>,
}

/// Emits the companions of a function whose body has been lowered.
pub(crate) fn companions(
    func: &Func,
    body: &Body,
    rt: &TokenStream,
    block: &Block,
    digest: &Digest,
    calls: &CachedCallEmitter<'_>,
) -> Companions {
    if !func.takes_tensors() {
        return without_derivatives(func, rt, block, digest, calls);
    }
    let names = ItemNames::new(func);
    let places = Places::new(&names.saved);
    let callers = Wrt::callers(func, body);
    let asked_for = asked_for(func, body, callers.as_ref());
    let (program, staged) = match body {
        Body::Compiled(flow) => (
            flow.text(),
            Some(derivatives(
                func,
                flow,
                rt,
                &names,
                &places,
                callers.as_ref(),
            )),
        ),
        Body::Recorded(reason) => (format!("recorded at run time: {reason}"), None),
    };
    let constant = names.program.to_string();
    let docs = Docs::new(
        func,
        body,
        &program,
        &constant,
        staged.as_ref().map(|s| &s.reverse),
        calls.recorded(),
    );
    let hvp = body.straight().and_then(|low| hvp::program(func, low));
    let closures = closures::bodies(func, block, rt);
    let loops = Loops::new(body, &closures, hvp.as_ref());
    let loop_uses = loops.uses();
    let cx = EmitCx {
        func,
        names: &names,
        rt,
        places: &places,
        docs: &docs,
        loop_uses: &loop_uses,
        hvp: hvp.as_ref(),
        calls,
        callers: callers.as_ref(),
        asked_for: &asked_for,
    };
    let constants = cx.facts(body, staged.as_ref().map(|s| &s.reverse));
    // The run time may differentiate a closure that calls the function, in any mode.
    let register = cx.register(&cx.owner(), &LoopUse::ALL);
    let loops = cx.loops(&loops);
    let InternalItems {
        associated: internal,
        items,
    } = match staged {
        Some(staged) => cx.internal_items(staged),
        None => cx.recorded(),
    };
    let public = cx.public(&program, body);
    let FactItems {
        associated: facts,
        items: fact_items,
        causes,
    } = cx.fact_items(body, block, digest);
    let annotations = Checks::new(func, rt).map(|checks| checks.item());
    let asking = calls.asking(&cx);
    let grads = cx.grads_struct();
    let failed = places.failed(rt);
    let associated = ours!(#public #facts #constants #internal #annotations #asking #loops);
    let items = ours!(#items #grads #fact_items #failed);
    let items = match &func.owner {
        Some(owner) => cx.of_a_method(owner, &items, &associated),
        None => {
            let (items, traced) = (cx.of_a_function(&items, &associated), cx.traced_impl());
            ours!(#items #traced)
        }
    };
    Companions {
        items,
        register: (!register.is_empty()).then_some(register),
        causes: calls.causes().into_iter().chain(causes).collect(),
    }
}

/// Emits the companions of a function of random keys, such as `fn init(key: Key) -> Tensor`: it has
/// lanes, but no derivatives.
fn without_derivatives(
    func: &Func,
    rt: &TokenStream,
    block: &Block,
    digest: &Digest,
    calls: &CachedCallEmitter<'_>,
) -> Companions {
    let body = Body::Recorded(NO_TENSOR.to_owned());
    let names = ItemNames::new(func);
    let program = format!("recorded at run time: {NO_TENSOR}");
    let constant = names.program.to_string();
    let docs = Docs::new(func, &body, &program, &constant, None, calls.recorded());
    let cx = EmitCx {
        func,
        names: &names,
        rt,
        places: &Places::new(&names.saved),
        docs: &docs,
        loop_uses: &[],
        hvp: None,
        calls,
        callers: None,
        asked_for: &[],
    };
    let FactItems {
        associated: facts,
        items,
        causes,
    } = cx.fact_items(&body, block, digest);
    let (program, vmap) = (cx.program(&program), cx.vmap());
    let annotations = Checks::new(func, rt).map(|checks| checks.item());
    let asking = calls.asking(&cx);
    let associated = ours!(#program #vmap #facts #annotations #asking);
    let items = match &func.owner {
        Some(owner) => cx.of_a_method(owner, &items, &associated),
        None => cx.of_a_function(&items, &associated),
    };
    Companions {
        items,
        register: None,
        causes: calls.causes().into_iter().chain(causes).collect(),
    }
}

/// Emits the facts of a function that makes a tree from no tensors, such as `fn new(key: Key)`.
///
/// It has no derivative, but functions that call it are cached if it only computes.
pub(crate) fn facts_of_builder(
    func: &Func,
    (block, plain): (&Block, &Block),
    args: &Args,
    rt: &TokenStream,
) -> TokenStream {
    let body = Body::Recorded(NO_TENSOR.to_owned());
    let calls = CachedCallEmitter::new(func, (block, plain), &body, args, rt);
    let digest = Digest::new(func, block, args);
    let names = ItemNames::new(func);
    let docs = Docs::new(func, &body, "", "", None, calls.recorded());
    let cx = EmitCx {
        func,
        names: &names,
        rt,
        places: &Places::new(&names.saved),
        docs: &docs,
        loop_uses: &[],
        hvp: None,
        calls: &calls,
        callers: None,
        asked_for: &[],
    };
    let facts = cx.fact_items(&body, plain, &digest);
    let (asking, associated) = (calls.asking(&cx), facts.associated);
    let associated = ours!(#associated #asking);
    func.owner.as_ref().map_or_else(TokenStream::new, |owner| {
        cx.of_a_method(owner, &facts.items, &associated)
    })
}

impl EmitCx<'_> {
    /// Returns an impl block with the companions of a method, and the items beside it.
    fn of_a_method(
        &self,
        owner: &Owner,
        items: &TokenStream,
        associated: &TokenStream,
    ) -> TokenStream {
        let (allow, attrs, ty) = (allow(), &self.func.attrs, &owner.self_ty);
        let (params, _, bounds) = owner.generics.split_for_impl();
        ours! {
            #(#attrs)*
            #allow
            impl #params #ty #bounds {
                #associated
            }

            #items
        }
    }

    /// Returns `enum dense`, whose associated items are the companions of `fn dense`, and the items
    /// beside it.
    fn of_a_function(&self, items: &TokenStream, associated: &TokenStream) -> TokenStream {
        let (rt, allow, attrs) = (self.rt, allow(), &self.func.attrs);
        let (vis, function) = (&self.func.vis, &self.func.sig.ident);
        let doc = format!(
            "The companions of the function `{function}`: its derivatives, and its program."
        );
        let doc = self.docs.other(&doc);
        let declaration = declaration(function);
        ours! {
            #(#attrs)*
            #allow
            #[doc = #doc]
            #vis enum #function {
                #[doc(hidden)]
                __TRACED,
            }

            #(#attrs)*
            #allow
            #[doc(hidden)]
            #vis use #rt::if_declared as #declaration;

            #items

            #(#attrs)*
            #allow
            impl #function {
                #associated
            }
        }
    }

    /// Returns the implementation of `Traced` for the enum beside a function.
    fn traced_impl(&self) -> TokenStream {
        let (n, rt) = (self.names, self.rt);
        let (allow, attrs) = (allow(), &self.func.attrs);
        let function = &self.func.sig.ident;
        let (program, hash, saved) = (&n.program, &n.hash, &n.saved);
        let (cost, points, kernels, recorded) = (&n.cost, &n.points, &n.kernels, &n.recorded);
        ours! {
            #(#attrs)*
            #allow
            impl #rt::Traced for #function {
                type Saved = #saved;
                const PROGRAM: &'static str = Self::#program;
                const HASH: [u8; 32] = Self::#hash;
                const COST: #rt::Cost = Self::#cost;
                const POINTS: &'static [#rt::Point] = Self::#points;
                const KERNELS: &'static [&'static str] = Self::#kernels;
                const RECORDED: ::core::option::Option<&'static str> = Self::#recorded;
            }
        }
    }

    /// Returns the constant `PROGRAM`.
    fn program(&self, program: &str) -> TokenStream {
        let (vis, name) = (self.vis(), &self.names.program);
        let user = text(&self.func.sig.ident);
        let doc = self.docs.program(&format!("The program of `{user}`."));
        ours! {
            #[doc = #doc]
            #vis const #name: &'static str = #program;
        }
    }

    /// Returns the companions that users call.
    fn public(&self, program: &str, body: &Body) -> TokenStream {
        let func = self.func;
        let vis = self.vis();
        let program = self.program(program);
        if !func.has_derivative() {
            let vmap = self.vmap();
            return ours!(#program #vmap);
        }
        let given = self.given();
        let vjp = self.vjp(&given.checks);
        let jvp = self.jvp(&given);
        let grads = func
            .output
            .shape
            .starts_with_tensor()
            .then(|| self.grad_functions(&vis, &given.checks));
        let second = self.hvp_companion(body, &given);
        let vmap = self.vmap();
        ours! {
            #program

            #vjp

            #jvp

            #grads

            #second

            #vmap
        }
    }
}
