//! `#[traced]`: from the item to everything that is emitted for it.

use crate::annotation::declare;
use crate::expand::annotations::Checks;
use crate::expand::{StaticCall, checks, companions, paths};
use crate::half_typed;
use crate::lower::checkpoint::is_checkpoint;
use crate::lower::{self, text};
use crate::order;
use crate::parse::{self, Args, Func, Owner};
use crate::report::Errors;
use crate::warn;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Attribute, ImplItem, ImplItemFn, ItemFn, ItemImpl, Type};

/// The item with its companions; with errors, the item and the errors.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let tokens = if let Some(imp) = impl_block(&item) {
        methods(imp, &args, &mut errors)
    } else {
        match item_fn(&item) {
            Ok(func) => function(func, &args, &mut errors),
            Err(error) => {
                match syn::parse2::<syn::Item>(item.clone()) {
                    Ok(syn::Item::Verbatim(_)) if syn::parse2::<syn::TraitItemFn>(item.clone()).is_ok() => {
                        errors.push_at(error.span(), "`#[traced]` belongs on a function with a body; trace the function that computes");
                    }
                    Ok(other) => errors.push_at(
                        keyword(&other),
                        "`#[traced]` belongs on a function or on an impl block; move it to the function that computes",
                    ),
                    Err(_) if syn::parse2::<syn::Expr>(item.clone()).is_ok() => {
                        errors.push(&item, "`#[traced]` belongs on a function; write the closure as one");
                        // In the place of an expression stands one expression.
                        let errors = errors.into_tokens();
                        return quote!({ #errors #item });
                    }
                    Err(_) if syn::parse::Parser::parse2(syn::Block::parse_within, item.clone()).is_ok() => errors.push(
                        &item,
                        "`#[traced]` belongs on a function; put what this computes into one",
                    ),
                    // What rustc has accepted and syn does not know, or what neither does: the item says it better.
                    Err(_) => errors.push_error(error),
                }
                item
            }
        }
    };
    // The companions of an item with errors are typed as they would be, so that their callers see no second error.
    let errors = errors.into_tokens();
    quote!(#tokens #errors)
}

fn impl_block(item: &TokenStream) -> Option<ItemImpl> {
    let whole = syn::parse2(item.clone()).ok();
    whole.or_else(|| half_typed::methods(item.clone()))
}

fn item_fn(item: &TokenStream) -> syn::Result<ItemFn> {
    syn::parse2(item.clone()).or_else(|e| half_typed::function(item.clone()).ok_or(e))
}

/// Where an item that is no function starts.
fn keyword(item: &syn::Item) -> Span {
    let tokens = item.to_token_stream().into_iter();
    let word = tokens.into_iter().find(|t| {
        [
            "struct", "enum", "trait", "mod", "const", "static", "type", "use", "union",
        ]
        .contains(&&*t.to_string())
    });
    word.map_or_else(Span::call_site, |t| t.span())
}

/// Whether an attribute is `#[traced]`, under any path.
fn is_traced(attr: &Attribute) -> bool {
    attr.path()
        .segments
        .last()
        .is_some_and(|s| s.ident == "traced")
}

fn refuse_second(attrs: &mut Vec<Attribute>, errors: &mut Errors) {
    for attr in attrs.iter().filter(|a| is_traced(a)) {
        errors.push(attr, "`#[traced]` is here twice; remove one");
    }
    attrs.retain(|a| !is_traced(a));
}

fn function(mut func: ItemFn, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut func.attrs, errors);
    parenthesise(&mut func.block);
    misplaced(&mut func.attrs, errors);
    misspelt(&mut func.block, errors);
    let mut receiver = Errors::default();
    if let Some(this) = func.sig.receiver() {
        receiver.push(
            this,
            "a method is traced with its impl block; put `#[traced]` on the `impl`",
        );
    }
    let mut parsed = parse::signature(&func.vis, &func.attrs, &mut func.sig, None, errors);
    let is_method = !receiver.is_empty();
    errors.append(receiver);
    if !parsed.sound || is_method {
        take_keeps(&mut func.block);
        return half_typed::print_function(&func);
    }
    declare(&mut parsed, args.returns.as_ref(), errors);
    order::of_function(&mut parsed, args.order.as_ref(), errors);
    let private = paths::private(args);
    let body = body(&parsed, &func.block, args, &private, errors);
    let calls = StaticCall::of(&parsed, &func.block, &body, &private);
    let mut tokens = companions(&parsed, &body, &private, &text(&func.block), &calls);
    let tests = tests(&[&parsed], args, &private, errors);
    tokens.items.extend(tests);
    let warnings = match errors.is_empty() {
        true => warnings(&parsed, &func.block, &body, args, &[]),
        false => TokenStream::new(),
    };
    take_keeps(&mut func.block);
    let written = (&mut func.sig, &mut *func.block, &mut func.attrs);
    let register = tokens.register.take();
    around(&parsed, &calls, register, written, &private, errors);
    func.attrs.push(used());
    let func = half_typed::print_function(&func);
    crate::dump::dump(&parsed, &body, || {
        let items = &tokens.items;
        quote!(#func #items)
    });
    let items = tokens.items;
    quote!(#func #items #warnings)
}

/// The items that warn of what is probably not meant. `attrs` are those of the impl block.
fn warnings(
    func: &Func,
    block: &syn::Block,
    body: &lower::Body,
    args: &Args,
    attrs: &[Attribute],
) -> TokenStream {
    let attrs = attrs.iter().chain(&func.attrs).cloned();
    let attrs: Vec<Attribute> = attrs.collect();
    warn::tokens(&warn::warnings(func, block, body, &args.allow), &attrs)
}

/// The attributes of a `let` that say what reverse mode keeps.
const KEEPS: [&str; 2] = ["save", "recompute"];

/// Whether an attribute of a `let` says what reverse mode keeps.
pub(crate) fn keeps(attr: &Attribute) -> bool {
    KEEPS.iter().any(|name| attr.path().is_ident(name))
}

/// Takes attributes off the function that belong inside of it.
fn misplaced(attrs: &mut Vec<Attribute>, errors: &mut Errors) {
    attrs.retain(|attr| {
        let place = match attr.path().get_ident().map(ToString::to_string).as_deref() {
            Some("nodiff" | "fixed" | "shape") => "before a parameter",
            Some("save" | "recompute") => "before a `let` in the body",
            _ => return true,
        };
        let name = attr.path().to_token_stream();
        errors.push(attr, format!("`#[{name}]` stands {place}; move it there"));
        false
    });
}

/// Takes attributes off each `let` that are nearly those of the macro. On a `let` rustc knows none that are near.
fn misspelt(block: &mut syn::Block, errors: &mut Errors) {
    struct Misspelt<'a>(&'a mut Errors);
    impl syn::visit_mut::VisitMut for Misspelt<'_> {
        fn visit_local_mut(&mut self, local: &mut syn::Local) {
            local.attrs.retain(|attr| {
                let name = match attr.path().get_ident() {
                    Some(name) if !keeps(attr) => name.to_string(),
                    _ => return true,
                };
                let Some(near) = crate::report::nearest(&name, &KEEPS) else {
                    return true;
                };
                let message = format!(
                    "`#[{name}]` is not an attribute of a `let`; did you mean `#[{near}]`?"
                );
                self.0.push(attr, message);
                false
            });
            syn::visit_mut::visit_local_mut(self, local);
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut Misspelt(errors), block);
}

/// Takes the attributes off that rustc does not know.
fn take_keeps(block: &mut syn::Block) {
    struct Take;
    impl syn::visit_mut::VisitMut for Take {
        fn visit_local_mut(&mut self, local: &mut syn::Local) {
            local.attrs.retain(|a| !keeps(a));
            syn::visit_mut::visit_local_mut(self, local);
        }
        fn visit_expr_for_loop_mut(&mut self, e: &mut syn::ExprForLoop) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_for_loop_mut(self, e);
        }
        fn visit_expr_while_mut(&mut self, e: &mut syn::ExprWhile) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_while_mut(self, e);
        }
        fn visit_expr_loop_mut(&mut self, e: &mut syn::ExprLoop) {
            take_checkpoint(&mut e.attrs, &mut e.body);
            syn::visit_mut::visit_expr_loop_mut(self, e);
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut Take, block);
    half_typed::take_attributes(block, &["save", "recompute", "checkpoint"]);
}

/// Takes `#[checkpoint(every = k)]` off a loop of the user's function, which still mentions `k`.
fn take_checkpoint(attrs: &mut Vec<Attribute>, body: &mut syn::Block) {
    let (taken, kept) = std::mem::take(attrs).into_iter().partition(is_checkpoint);
    *attrs = kept;
    let taken: Vec<Attribute> = taken;
    for attr in taken {
        let every = attr.parse_args::<syn::MetaNameValue>().map(|m| m.value);
        if let Ok(every) = every
            && !matches!(every, syn::Expr::Lit(_))
        {
            body.stmts.insert(0, syn::parse_quote!(let _ = &(#every);));
        }
    }
}

/// Writes parentheses around what a `macro_rules!` macro has put together, as in `x * $e`. rustc forgets such groups in
/// what an attribute macro returns, and the precedence of operators would decide anew.
fn parenthesise(block: &mut syn::Block) {
    struct Parenthesise;
    impl syn::visit_mut::VisitMut for Parenthesise {
        fn visit_expr_mut(&mut self, expr: &mut syn::Expr) {
            syn::visit_mut::visit_expr_mut(self, expr);
            let syn::Expr::Group(group) = expr else {
                return;
            };
            let inner = (*group.expr).clone();
            *expr = match inner {
                syn::Expr::Path(_)
                | syn::Expr::Lit(_)
                | syn::Expr::Paren(_)
                | syn::Expr::Tuple(_)
                | syn::Expr::Array(_)
                | syn::Expr::Call(_)
                | syn::Expr::MethodCall(_)
                | syn::Expr::Field(_)
                | syn::Expr::Index(_)
                | syn::Expr::Macro(_) => inner,
                inner => syn::parse_quote_spanned!(Span::mixed_site()=> (#inner)),
            };
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut Parenthesise, block);
}

/// The companions stand for the function where only they are called.
fn used() -> Attribute {
    syn::parse_quote!(#[allow(dead_code)])
}

fn body(
    func: &Func,
    block: &syn::Block,
    args: &Args,
    private: &TokenStream,
    errors: &mut Errors,
) -> lower::Body {
    if args.record && errors.is_empty() {
        return lower::Body::Recorded("`#[traced(record)]` asks for it".to_owned());
    }
    if half_typed::unparsed(block).is_some() {
        return lower::Body::Recorded(
            "its body is in a syntax that the macro does not know".to_owned(),
        );
    }
    lower::lower(func, block, private, errors)
}

/// The tests of `#[traced(check)]`.
fn tests(funcs: &[&Func], args: &Args, private: &TokenStream, errors: &mut Errors) -> TokenStream {
    let Some(check) = &args.check else {
        return TokenStream::new();
    };
    let mut wrong = Errors::default();
    check.refuse_unknown(funcs, &mut wrong);
    let samplings = funcs
        .iter()
        .map(|func| (func, check.sampling(func, &mut wrong)));
    let samplings: Vec<_> = samplings.collect();
    // With an error the user's item is emitted, and no test.
    let ready = errors.is_empty() && wrong.is_empty();
    errors.append(wrong);
    let tests = samplings.into_iter().filter_map(|(func, sampling)| {
        let sampling = sampling.filter(|_| ready)?;
        Some(checks(func, &sampling, private))
    });
    tests.collect()
}

/// Checks the annotations of a function at each call of it. What does not agree is a panic at the caller's line.
fn checking(
    func: &Func,
    block: &mut syn::Block,
    attrs: &mut Vec<Attribute>,
    private: &TokenStream,
    aside: bool,
) {
    let Some(checks) = Checks::of(func, private) else {
        return;
    };
    if half_typed::unparsed(block).is_some() {
        return;
    }
    let tracked = is_tracked(attrs);
    checks.wrap(block, tracked, aside);
    if !tracked {
        attrs.push(syn::parse_quote!(#[track_caller]));
    }
}

/// In a function that returns `Result`, the errors of ops come back as `Err`.
fn catching(func: &Func, block: &mut syn::Block, private: &TokenStream) {
    if func.output.result.is_none() {
        return;
    }
    let syn::ReturnType::Type(_, ty) = &func.sig.output else {
        return;
    };
    let body = std::mem::take(&mut block.stmts);
    block.stmts = vec![syn::Stmt::Expr(
        syn::Expr::Verbatim(quote!(#private::catch_as(|| -> #ty { #(#body)* }))),
        None,
    )];
}

/// Lets the run time know the loops that were compiled for a function before the function records its ops.
fn registering(register: Option<TokenStream>, block: &mut syn::Block) {
    if let Some(register) = register {
        let statement = syn::Stmt::Expr(syn::Expr::Verbatim(register), None);
        block.stmts.insert(0, statement);
    }
}

/// Whether a panic in a function shows its caller.
fn is_tracked(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("track_caller"))
}

/// Writes around the body of the user's function what stands there, and returns what stands beside a method.
fn around(
    parsed: &Func,
    calls: &StaticCall<'_>,
    register: Option<TokenStream>,
    (sig, block, attrs): (&mut syn::Signature, &mut syn::Block, &mut Vec<Attribute>),
    private: &TokenStream,
    errors: &Errors,
) -> Option<TokenStream> {
    let sound = half_typed::unparsed(block).is_none() && errors.is_empty();
    let beside = match sound {
        true => calls.set_aside(sig, block, attrs),
        false => None,
    };
    registering(register, block);
    checking(parsed, block, attrs, private, beside.is_some());
    catching(parsed, block, private);
    if sound {
        calls.wrap(block);
    }
    beside
}

fn methods(mut imp: ItemImpl, args: &Args, errors: &mut Errors) -> TokenStream {
    refuse_second(&mut imp.attrs, errors);
    if let Some((path, _)) = &imp.trait_ {
        errors.push(path, "the methods of a trait cannot be traced: companions would not belong to it; trace an inherent impl, and call that");
        strip(&mut imp);
        return imp.to_token_stream();
    }
    if let Some(returns) = &args.returns {
        errors.push(
            returns,
            "`returns` is about one function; write `#[traced(returns(..))]` on the method",
        );
    }
    let args = &Args {
        returns: None,
        ..args.clone()
    };
    let private = paths::private(args);
    let owner = Owner {
        self_ty: (*imp.self_ty).clone(),
        generics: imp.generics.clone(),
    };
    let (mut associated, mut items, mut any) = (TokenStream::new(), TokenStream::new(), false);
    let mut traced = Vec::new();
    for item in &mut imp.items {
        let ImplItem::Fn(method) = item else { continue };
        let marked = method.attrs.iter().any(is_traced);
        let mut own = args.clone();
        let mut own_order = false;
        for attr in method.attrs.iter().filter(|a| is_traced(a)) {
            match &attr.meta {
                syn::Meta::List(list) => {
                    own = of_method(list, args, errors);
                    own_order = own.order.is_some();
                    own.order = own.order.or_else(|| args.order.clone());
                }
                _ => errors.push(
                    attr,
                    "the impl block is `#[traced]` already; remove this one",
                ),
            }
        }
        let args = &own;
        method.attrs.retain(|a| !is_traced(a));
        if !marked && !computes(method) {
            continue;
        }
        any = true;
        parenthesise(&mut method.block);
        misplaced(&mut method.attrs, errors);
        misspelt(&mut method.block, errors);
        let mut func = parse::signature(
            &method.vis,
            &method.attrs,
            &mut method.sig,
            Some(owner.clone()),
            errors,
        );
        if !func.sound {
            take_keeps(&mut method.block);
            continue;
        }
        declare(&mut func, args.returns.as_ref(), errors);
        match own_order {
            true => order::of_function(&mut func, args.order.as_ref(), errors),
            false => order::of_method(&mut func, args.order.as_ref()),
        }
        let body = body(&func, &method.block, args, &private, errors);
        let calls = StaticCall::of(&func, &method.block, &body, &private);
        let mut tokens = companions(&func, &body, &private, &text(&method.block), &calls);
        let attrs = parse::lint_attributes(&imp.attrs);
        if errors.is_empty() {
            items.extend(warnings(&func, &method.block, &body, args, &attrs));
        }
        take_keeps(&mut method.block);
        let written = (&mut method.sig, &mut method.block, &mut method.attrs);
        let register = tokens.register.take();
        let beside = around(&func, &calls, register, written, &private, errors);
        associated.extend(beside);
        method.attrs.push(used());
        crate::dump::dump(&func, &body, || {
            let (associated, items) = (&tokens.associated, &tokens.items);
            let self_ty = &imp.self_ty;
            quote!(impl #self_ty { #associated } #items)
        });
        associated.extend(tokens.associated);
        items.extend(tokens.items);
        traced.push(func);
    }
    items.extend(tests(
        &traced.iter().collect::<Vec<_>>(),
        args,
        &private,
        errors,
    ));
    if any {
        order::of_block(&traced, args.order.as_ref(), errors);
    }
    if !any && errors.is_empty() {
        errors.push(
            &imp.self_ty,
            "no method here takes and returns tensors, so there is nothing to trace; remove `#[traced]`",
        );
    }
    imp.items.iter_mut().for_each(half_typed::print_method);
    imp.items.push(ImplItem::Verbatim(associated));
    quote!(#imp #items)
}

/// The options of a method in a traced impl block: those of the block, and its own.
fn of_method(own: &syn::MetaList, block: &Args, errors: &mut Errors) -> Args {
    let own_args = Args::parse(own.tokens.clone(), errors);
    if own_args.krate.is_some() {
        errors.push(
            own,
            "where the run time is, the whole impl block has to know; move `crate` to its `#[traced]`",
        );
    }
    if own_args.check.is_some() {
        errors.push(
            own,
            "tests are made of the whole impl block; move `check` to its `#[traced]`",
        );
    }
    Args {
        krate: block.krate.clone(),
        record: block.record || own_args.record,
        check: None,
        allow: [&block.allow[..], &own_args.allow[..]].concat(),
        returns: own_args.returns,
        order: own_args.order,
    }
}

/// Whether a method is one to trace: it has a receiver or a tensor, and returns tensors.
fn computes(method: &ImplItemFn) -> bool {
    struct Mentions(bool);
    impl<'ast> syn::visit::Visit<'ast> for Mentions {
        fn visit_type_path(&mut self, p: &'ast syn::TypePath) {
            self.0 |= p.path.segments.last().is_some_and(|s| s.ident == "Tensor");
            syn::visit::visit_type_path(self, p);
        }
    }
    let mentions = |ty: &Type| {
        let mut found = Mentions(false);
        syn::visit::Visit::visit_type(&mut found, ty);
        found.0
    };
    let returns = match &method.sig.output {
        syn::ReturnType::Type(_, ty) => mentions(ty),
        syn::ReturnType::Default => false,
    };
    let takes = method.sig.inputs.iter().any(|i| match i {
        syn::FnArg::Receiver(_) => true,
        syn::FnArg::Typed(p) => mentions(&p.ty),
    });
    returns && takes
}

/// Takes the helper attributes off an impl block that is emitted as it is.
fn strip(imp: &mut ItemImpl) {
    for item in &mut imp.items {
        if let ImplItem::Fn(method) = item {
            parse::signature(
                &method.vis,
                &method.attrs,
                &mut method.sig,
                None,
                &mut Errors::default(),
            );
        }
    }
}

/// What the body became, for tests.
#[cfg(test)]
pub(crate) fn body_of(source: &str) -> (lower::Body, Vec<String>) {
    let mut errors = Errors::default();
    let (_, body) = lower_source(source, &mut errors);
    (body, errors.messages())
}

/// A function without errors, lowered, for tests.
#[cfg(test)]
pub(crate) fn lowered(source: &str) -> (Func, lower::Body) {
    let mut errors = Errors::default();
    let lowered = lower_source(source, &mut errors);
    assert_eq!(errors.messages(), [""; 0]);
    lowered
}

#[cfg(test)]
fn lower_source(source: &str, errors: &mut Errors) -> (Func, lower::Body) {
    let mut func: ItemFn = syn::parse_str(source).expect("the test's source parses");
    let parsed = parse::signature(&func.vis, &func.attrs, &mut func.sig, None, errors);
    let private = paths::private(&Args::default());
    let body = lower::lower(&parsed, &func.block, &private, errors);
    (parsed, body)
}
