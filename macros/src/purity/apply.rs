//! Judges calls: of closures, of functions in the body, of the standard library, of tensors, of
//! traced functions.

use super::ty::{Closure, Probe, Scope, Ty, Val, written};
use super::{Asked, PurityVisitor, Remedy, place};
use crate::input::{is_traced, text, unraw};
use crate::method_table::{
    ArgumentUse, FUNCTIONS, OF_TENSORS, OPTIMISERS, OWNERS, associated, class, functions_of,
    functions_of_path, gives_list, is_custom_call, is_of_number, is_op, methods_of_builder,
};
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ItemFn, Path};

/// Companions of a traced function, which are pure if the function is.
const COMPANIONS: [&str; 7] = [
    "value_and_grad",
    "grad",
    "vjp",
    "jvp",
    "hvp",
    "vmap",
    "saved",
];

/// Returns the name of the traced function that `name` is a companion of, or `name` itself.
pub(super) fn traced_name(name: &str) -> &str {
    let mut suffixes = COMPANIONS.iter();
    let found = suffixes.find_map(|c| name.strip_suffix(c)?.strip_suffix('_'));
    found.unwrap_or(name)
}

impl PurityVisitor<'_> {
    pub(super) fn call(&mut self, call: &ExprCall) -> Val {
        let (span, open) = (call.func.span(), call.paren_token.span.open());
        let what = format!("{}()", text(&call.func));
        match &*call.func {
            Expr::Path(path) if self.note_function(path, &what) => {
                let args = self.arguments(open, &call.args);
                self.passed_on(&call.args, &args, &what, span);
                let exact: Option<Vec<TokenStream>> =
                    args.iter().map(|arg| arg.exact().cloned()).collect();
                let probe = exact.filter(|_| !self.is_hidden(path));
                let probe = probe.and_then(|args| Probe::exact(ours!(#path(#(#args),*))));
                Val::unknown().with(probe)
            }
            Expr::Path(path) if path.qself.is_none() => {
                let ident = path.path.get_ident().map(unraw);
                if let Some(local) = ident.and_then(|name| self.local(&name).cloned()) {
                    let args = self.arguments(open, &call.args);
                    self.followed(call, &local, &args, &what);
                    return self.apply(&local, &args, &what, span);
                }
                let (owner, _) = ends(&path.path);
                if ["Tensor", "Vec", "String"].contains(&&*owner) {
                    self.expect_conversions(&call.args);
                }
                let args = self.arguments(open, &call.args);
                self.call_path(call, &path.path, &args, &what)
            }
            Expr::Path(path) => {
                self.arguments(open, &call.args);
                self.found(
                    &what,
                    path.span(),
                    "its effects are not known",
                    Remedy::Promise,
                )
            }
            func => {
                let func = self.callable(func, Vec::new());
                let args = self.arguments(open, &call.args);
                let what = "the call of a value";
                self.followed(call, &func, &args, what);
                self.apply(&func, &args, what, span)
            }
        }
    }

    /// Judges the arguments of a function or closure in the body, where the type of a parameter is
    /// a reference: passing them may run the user's `Deref`.
    fn followed(&mut self, call: &ExprCall, callee: &Val, args: &[Val], what: &str) {
        let refers = |ty: &syn::Type| matches!(ty, syn::Type::Reference(_));
        let refer: Vec<bool> = match &callee.ty {
            Ty::Closure(closure) => {
                let inputs = closure.source.inputs.iter();
                let written = |pat: &syn::Pat| matches!(pat, syn::Pat::Type(t) if refers(&t.ty));
                inputs.map(written).collect()
            }
            Ty::Function(item) => {
                let inputs = item.sig.inputs.iter();
                let written =
                    |arg: &syn::FnArg| matches!(arg, syn::FnArg::Typed(t) if refers(&t.ty));
                inputs.map(written).collect()
            }
            _ => return,
        };
        for (arg, _) in args.iter().zip(refer).filter(|(_, r)| *r) {
            if matches!(arg.ty, Ty::Opaque) {
                self.moved(arg, what, call.func.span());
            }
        }
    }

    /// Judges the arguments of a call; closures among them are judged when they are called. `open`
    /// is the parenthesis before them.
    pub(super) fn arguments<'e>(
        &mut self,
        open: Span,
        args: impl IntoIterator<Item = &'e Expr>,
    ) -> Vec<Val> {
        let args = args.into_iter().enumerate();
        args.map(|(i, arg)| self.callable(arg, Vec::new()).at(place(open, i + 1)))
            .collect()
    }

    /// Judges a call of a value.
    pub(super) fn apply(&mut self, callee: &Val, args: &[Val], what: &str, span: Span) -> Val {
        match &callee.ty {
            Ty::Closure(closure) => self.apply_closure(&closure.clone(), args),
            Ty::Function(item) => self.apply_function(&item.clone(), args),
            Ty::Pure(gives) => {
                if !matches!(gives.ty, Ty::Opaque) {
                    for arg in args {
                        self.known(arg, what, span, "the type of an argument is not known");
                    }
                }
                (**gives).clone()
            }
            Ty::Pullback(tokens) => {
                for arg in args {
                    self.moved(arg, what, span);
                }
                let args: Option<Vec<&TokenStream>> = args.iter().map(Val::exact).collect();
                let probe = tokens.as_ref().zip(args);
                Val::unknown()
                    .with(probe.and_then(|(f, args)| Probe::exact(ours!((#f)(#(#args),*)))))
            }
            Ty::Transform(name, function) => self.transformed(name, &function.clone(), args, span),
            Ty::Branches(functions) => {
                let mut result = Val::unknown();
                for function in &functions.clone() {
                    let of_branch = self.apply(function, args, what, span);
                    result.unify(&of_branch);
                }
                result
            }
            Ty::List(elem) if elem.is_function() => self.apply(&elem.clone(), args, what, span),
            _ => self.found(
                what,
                span,
                "it is not known which function is called",
                Remedy::Promise,
            ),
        }
    }

    fn apply_closure(&mut self, closure: &Closure, args: &[Val]) -> Val {
        // A closure without captured scopes is called in place and sees the current locals.
        let outside = match closure.scopes.is_empty() {
            true => None,
            false => Some(std::mem::replace(&mut self.scopes, closure.scopes.clone())),
        };
        let breaks = std::mem::take(&mut self.breaks);
        let result = self.scope(|judge| {
            for (i, pat) in closure.source.inputs.iter().enumerate() {
                judge.pattern(pat, &args.get(i).cloned().unwrap_or_else(Val::unknown));
            }
            let mut result = judge.expr(&closure.source.body);
            if let syn::ReturnType::Type(_, ty) = &closure.source.output {
                result.unify(&written(ty).into());
            }
            result
        });
        self.breaks = breaks;
        if let Some(outside) = outside {
            self.scopes = outside;
        }
        result
    }

    fn apply_function(&mut self, item: &ItemFn, args: &[Val]) -> Val {
        let result = match &item.sig.output {
            syn::ReturnType::Type(_, ty) => Val::from(written(ty)),
            syn::ReturnType::Default => Val::nothing(),
        };
        let name = unraw(&item.sig.ident);
        if self.entered.contains(&name) || item.attrs.iter().any(is_traced) {
            return result;
        }
        let plain = [
            "allow",
            "expect",
            "inline",
            "doc",
            "must_use",
            "track_caller",
            "cold",
        ];
        let odd = item
            .attrs
            .iter()
            .any(|a| !plain.iter().any(|p| a.path().is_ident(p)));
        if odd || matches!(item.sig.safety, syn::Safety::Unsafe(_)) || item.sig.asyncness.is_some()
        {
            return self.found(
                &name,
                item.sig.span(),
                "its effects are not known",
                Remedy::Promise,
            );
        }
        // A function sees the items around it, but no locals.
        let is_item = |(name, val): (&String, &Val)| {
            let constant = !name.contains(char::is_lowercase);
            let function = matches!(val.ty, Ty::Function(_));
            (constant || function).then(|| (name.clone(), val.clone()))
        };
        let items = self
            .scopes
            .iter()
            .map(|s| s.iter().filter_map(is_item).collect::<Scope>());
        let items: Vec<Scope> = items.collect();
        let outside = std::mem::replace(&mut self.scopes, items);
        let breaks = std::mem::take(&mut self.breaks);
        let foreign = std::mem::replace(&mut self.own.hides, true);
        self.entered.push(name);
        self.scope(|judge| {
            for (i, input) in item.sig.inputs.iter().enumerate() {
                if let syn::FnArg::Typed(p) = input {
                    let mut val = args.get(i).cloned().unwrap_or_else(Val::unknown);
                    val.unify(&written(&p.ty).into());
                    judge.pattern(&p.pat, &val);
                }
            }
            judge.expect_at_end(&item.sig.output, &item.block);
            judge.block(&item.block);
        });
        self.entered.pop();
        self.own.hides = foreign;
        self.breaks = breaks;
        self.scopes = outside;
        result
    }

    /// Judges a call of the function that a transform returns.
    fn transformed(&mut self, name: &str, function: &Val, args: &[Val], span: Span) -> Val {
        let y = self.apply(function, args, name, span);
        let x = args.first().cloned().unwrap_or_else(Val::unknown);
        match name {
            "grad" => super::pattern::behind(&x),
            "value_and_grad" => Ty::Tuple(vec![self.tensor(), super::pattern::behind(&x)]).into(),
            "checkpoint" | "custom_jvp" | "custom_vjp" | "vmap" => y,
            "hessian" if matches!(x.ty, Ty::Tensor) => self.tensor(),
            "jacfwd" | "jacrev" if matches!((&x.ty, &y.ty), (Ty::Tensor, Ty::Tensor)) => {
                self.tensor()
            }
            "jacfwd" | "jacrev" => {
                let (rt, probe) = (self.rt, y.exact().zip(x.exact()));
                Val::unknown()
                    .with(probe.and_then(|(y, x)| Probe::exact(ours!(#rt::some_jacobian(#y, #x)))))
            }
            _ => Val::unknown(),
        }
    }

    /// Judges a call of one of this library's loops and conditionals, which run closures.
    fn controlled(&mut self, name: &str, args: &[Val], span: Span) -> Option<Val> {
        let state = super::pattern::behind;
        Some(match (name, args) {
            ("scan", [f, init, xs]) => self.apply(f, &[init.clone(), xs.clone()], name, span),
            ("associative_scan", [f, xs]) => {
                self.apply(f, &[xs.clone(), xs.clone()], name, span);
                state(xs)
            }
            ("map", [f, xs]) => self.apply(f, std::slice::from_ref(xs), name, span),
            ("fori_loop", [_, f, init]) => {
                let index = self.tensor();
                self.apply(f, &[index, init.clone()], name, span);
                state(init)
            }
            ("while_loop", [cond, body, init]) => {
                for f in [cond, body] {
                    self.apply(f, std::slice::from_ref(init), name, span);
                }
                state(init)
            }
            ("cond", [_, then, otherwise, x]) => {
                self.apply(otherwise, std::slice::from_ref(x), name, span);
                self.apply(then, std::slice::from_ref(x), name, span)
            }
            ("switch", [_, branches, x]) => {
                self.apply(branches, std::slice::from_ref(x), name, span)
            }
            _ => return None,
        })
    }

    /// Judges a call of one of this library's transforms of closures.
    fn transform(&mut self, name: &str, args: &[Val], span: Span) -> Val {
        if let Some(gives) = self.controlled(name, args, span) {
            let functions = functions_of(name).unwrap_or_default();
            for (i, arg) in args.iter().enumerate() {
                if !functions.contains(&i) {
                    self.moved(arg, name, span);
                }
            }
            return gives;
        }
        let Some(function) = args.first() else {
            return Val::unknown();
        };
        let x = args.get(1).cloned();
        for arg in args.iter().skip(1) {
            self.moved(arg, name, span);
        }
        match (name, x) {
            ("custom_call", Some(_)) => Val::unknown(),
            ("try_custom_call", Some(_)) => Val::option(Val::unknown()),
            ("jvp", Some(x)) => {
                let y = self.apply(function, &[x], name, span);
                Ty::Tuple(vec![y.clone(), y]).into()
            }
            ("linear_transpose", Some(x)) => {
                self.apply(function, std::slice::from_ref(&x), name, span);
                Ty::Pure(Box::new(super::pattern::behind(&x))).into()
            }
            ("linearize", Some(x)) => {
                let y = self.apply(function, &[x], name, span);
                Ty::Tuple(vec![y.clone(), Ty::Pure(Box::new(y)).into()]).into()
            }
            ("vjp", Some(x)) => {
                let y = self.apply(function, std::slice::from_ref(&x), name, span);
                let pullback = Ty::Pure(Box::new(super::pattern::behind(&x)));
                Ty::Tuple(vec![y, pullback.into()]).into()
            }
            ("hvp", Some(x)) => {
                self.apply(function, std::slice::from_ref(&x), name, span);
                super::pattern::behind(&x)
            }
            (name, _) => Ty::Transform(name.to_owned(), Box::new(function.clone())).into(),
        }
    }

    /// Judges an argument that is passed on: passing it may run the user's `Deref`.
    pub(super) fn moved(&mut self, val: &Val, what: &str, span: Span) {
        match &val.ty {
            Ty::Opaque => {
                let mask = class::KNOWN | class::PLAIN;
                self.ask_class(val, mask, Asked::Moved, what, span);
            }
            Ty::Tuple(parts) => parts.iter().for_each(|part| self.moved(part, what, span)),
            _ if val.is_judged_later() => {
                self.apply(val, &[], what, span);
            }
            _ => {}
        }
    }

    /// Asks whether the type before a function is this library's, if it has such a name.
    pub(super) fn owner(&mut self, path: &Path) {
        let mut owner = path.clone();
        owner.segments.pop();
        owner.segments.pop_punct();
        if !owner.segments.is_empty() {
            self.named(&owner);
        }
    }

    fn call_path(&mut self, call: &ExprCall, path: &Path, args: &[Val], what: &str) -> Val {
        let (exprs, open) = (&call.args, call.paren_token.span.open());
        let span = path.span();
        let (owner, last) = ends(path);
        self.owner(path);
        if let Some(gives) = self.functions.get(&key(path)).cloned() {
            self.passed_on(exprs, args, what, span);
            return match gives.ty {
                Ty::Opaque => self.of_traced(&last, self.probe_of_call(path, args)),
                _ => gives,
            };
        }
        if let Some(gives) = self.standard(&owner, &last, args, open, what, span) {
            return match (&gives.ty, &gives.probe) {
                (Ty::Scalar, None) => gives.with(self.probe_of_call(path, args)),
                _ => gives,
            };
        }
        if last == "default" && args.is_empty() && OPTIMISERS.contains(&&*owner) {
            return self.default_of_optimiser(path, what);
        }
        if owner == "Default" {
            return self.found(
                what,
                span,
                "the type of the default value is not known",
                Remedy::Move,
            );
        }
        if functions_of_path(&owner, &last).is_some()
            && self.is_outside(path)
            && self.ask_function(path, what, span)
        {
            if let (true, Some(function)) = (is_custom_call(&last), exprs.first()) {
                self.ask_custom(&args[0], function, what, span);
            }
            return self.transform(&last, args, span);
        }
        if let ("new", [function]) = (&*last, args)
            && methods_of_builder(&owner).is_some()
            && function.is_function()
            && self.is_outside(path)
        {
            return self.builder(path, function, what, span);
        }
        if let ("tree", "map2", [left, right, f]) = (&*owner, &*last, args)
            && f.is_function()
            && self.is_outside(path)
            && self.ask_function(path, what, span)
        {
            for tree in [left, right] {
                self.moved(tree, what, span);
            }
            let pair = [self.tensor(), self.tensor()];
            self.apply(f, &pair, what, span);
            return self.mapped(left);
        }
        self.passed_on(exprs, args, what, span);
        if last.starts_with(char::is_uppercase) {
            // `Self(..)` is a constructor and cannot be another function.
            if path.is_ident("Self") {
                return Val::unknown();
            }
            if self.is_hidden(path) || !self.is_outside(path) || !self.is_of_signature(path) {
                return self.found(what, span, "it may be a function call", Remedy::Promise);
            }
            self.ask_constructor(path, what, span);
            return Val::unknown().with(self.probe_of_call(path, args));
        }
        if last == "vmap" {
            self.axes(args.first(), what, span);
        } else if last.ends_with("_vmap") && owner.starts_with(char::is_uppercase) {
            // The receiver may be the first argument.
            args.iter()
                .take(2)
                .for_each(|arg| self.axes(Some(arg), what, span));
        }
        let known = self.ask_traced(path, what);
        if !known {
            return self.found(what, span, "it is not known to be traced", Remedy::Trace);
        }
        self.of_traced(&last, self.probe_of_call(path, args))
    }

    /// Judges the axes of the lanes that `vmap` of a traced function takes: a conversion of the user's
    /// may have effects.
    pub(super) fn axes(&mut self, axes: Option<&Val>, what: &str, span: Span) {
        if let Some(axes) = axes {
            self.known(axes, what, span, "the type of the axes is not known");
        }
    }

    /// Judges a call of `new` of a type of this library that holds the function of a transform.
    fn builder(&mut self, path: &Path, function: &Val, what: &str, span: Span) -> Val {
        let (ty, _) = ends(path);
        let mut owner = path.clone();
        owner.segments.pop();
        owner.segments.pop_punct();
        if let Some(last) = owner.segments.last_mut() {
            last.arguments = syn::PathArguments::None;
        }
        let rt = self.rt;
        let made = Val::unknown().with(Probe::exact(ours!(#rt::some::<#owner<()>>())));
        if self.is_hidden(path)
            || !self.ask_class(&made, class::OPTIMISER, Asked::Class, what, span)
        {
            let why = "its effects are not known";
            return self.found(what, span, why, Remedy::Promise);
        }
        Ty::Transform(ty, Box::new(function.clone())).into()
    }

    /// Judges a call of `Default::default` by the name of an optimiser.
    fn default_of_optimiser(&mut self, path: &Path, what: &str) -> Val {
        let mut ty = path.clone();
        ty.segments.pop();
        ty.segments.pop_punct();
        let rt = self.rt;
        let made = Val::unknown().with(Probe::exact(ours!(#rt::some::<#ty>())));
        let hidden = self.is_hidden(path) || !self.is_outside(path);
        if hidden || !self.ask_class(&made, class::OPTIMISER, Asked::Class, what, path.span()) {
            let why = "its effects are not known";
            return self.found(what, path.span(), why, Remedy::Promise);
        }
        made
    }

    /// Returns whether a path is a type that the signature names, or a variant of one.
    fn is_of_signature(&self, path: &Path) -> bool {
        let mut owner = path.clone();
        owner.segments.pop();
        owner.segments.pop_punct();
        // A type may be named by another path than in the signature.
        let last = |path: &str| path.rsplit("::").next().map(str::to_owned);
        [path, &owner].iter().any(|path| {
            let (_, name) = ends(path);
            let mut written = self.written.iter().map(|ty| last(ty));
            path.is_ident("Self") || written.any(|ty| ty.as_ref() == Some(&name))
        })
    }

    /// Returns an expression of the type that a function returns.
    fn probe_of_call(&self, path: &Path, args: &[Val]) -> Option<Probe> {
        if self.is_hidden(path) {
            return None;
        }
        let args: Option<Vec<TokenStream>> = args.iter().map(|arg| arg.exact().cloned()).collect();
        args.and_then(|args| Probe::exact(ours!(#path(#(#args),*))))
    }

    /// Returns the value of a call of a traced function or of a companion.
    pub(super) fn of_traced(&self, name: &str, call: Option<Probe>) -> Val {
        if name != "vjp" && !name.ends_with("_vjp") {
            return Val::unknown().with(call);
        }
        let part = |i: usize| {
            let (e, i) = (&call.as_ref()?.tokens, syn::Index::from(i));
            Some(ours!((#e).#i))
        };
        let y = Val::unknown().with(part(0).and_then(Probe::exact));
        let pullback = Val::from(Ty::Pullback(part(1)));
        Ty::Tuple(vec![y, pullback]).into()
    }

    /// Asks whether a path is a traced function or a companion of one.
    pub(super) fn ask_traced(&mut self, path: &Path, what: &str) -> bool {
        let span = path.span();
        let (owner, last) = ends(path);
        if self.is_hidden(path) || !self.is_outside(path) {
            return false;
        }
        if owner.starts_with(char::is_uppercase) {
            let mut ty = path.clone();
            ty.segments.pop();
            ty.segments.pop_punct();
            let written =
                path.segments.len() == 2 && (owner == "Self" || self.written.contains(&text(&ty)));
            if written {
                let mut name = traced_name(&last);
                // A method may itself have the name of a companion.
                if name.is_empty() {
                    name = &last;
                }
                self.ask_associated(&ty.to_token_stream(), name, what, span);
            }
            return written;
        }
        if COMPANIONS.contains(&&*last) && path.segments.len() > 1 && !self.is_module(path) {
            let mut owner = path.clone();
            owner.segments.pop();
            owner.segments.pop_punct();
            return self.ask_companion(&owner, what, span);
        }
        self.ask_function(path, what, span)
    }

    /// Returns whether the parent of a path is certainly a module.
    fn is_module(&self, path: &Path) -> bool {
        let first = path.segments.first().map(|s| unraw(&s.ident));
        let known = ["self", "super", "crate", "gradloom"];
        path.segments.len() == 2 && first.is_some_and(|first| known.contains(&&*first))
    }

    /// Returns whether the first name of a path is not the name of any local in the body.
    pub(super) fn is_outside(&self, path: &Path) -> bool {
        let first = path.segments.first().map(|s| unraw(&s.ident));
        first.is_some_and(|first| !self.names.contains(&first))
    }

    /// Judges a call of a function of the standard library or of tensors; `None` if it is neither.
    pub(super) fn standard(
        &mut self,
        owner: &str,
        last: &str,
        args: &[Val],
        open: Span,
        what: &str,
        span: Span,
    ) -> Option<Val> {
        let name = match owner.is_empty() {
            true => last.to_owned(),
            false => format!("{owner}::{last}"),
        };
        if let Some((_, gives, takes)) =
            FUNCTIONS.iter().find(|(names, ..)| names.contains(&&*name))
        {
            // These closures take an index, or the previous element.
            if OWNERS.contains(&owner) {
                self.ask_owner(place(open, 0), owner, what, span);
            }
            let (receiver, takes) = match (&*name, args.first()) {
                ("array::from_fn", _) => (Val::list(self.scalar(ours!(usize))), ArgumentUse::Each),
                ("iter::successors", Some(first)) => (first.clone(), ArgumentUse::Each),
                _ => (Val::nothing(), *takes),
            };
            return Some(self.method_of(&receiver, last, *gives, takes, args, what, span));
        }
        if owner == "Tensor" && (is_op(last) || OF_TENSORS.contains(&last)) {
            for arg in args {
                self.known(arg, what, span, "the type of an argument is not known");
            }
            return Some(match last {
                "try_from_bytes" | "try_from_le_bytes" | "try_from_vec" => {
                    Val::option(self.tensor())
                }
                "meshgrid" => Val::list(self.tensor()),
                _ if gives_list(last) => Val::list(self.tensor()),
                _ => self.tensor(),
            });
        }
        if is_of_number(owner, last) {
            for arg in args {
                self.known(arg, what, span, "the type of an argument is not known");
            }
            return Some(
                match last.starts_with("try_") || last.starts_with("checked_") {
                    true => Val::option(Ty::Scalar.into()),
                    false => Ty::Scalar.into(),
                },
            );
        }
        if (owner, last) == ("Clone", "clone") {
            return args.first().map(super::pattern::behind);
        }
        let (of, row) = associated(owner, last)?;
        let (receiver, args) = args.split_first()?;
        // The path determines the type, up to `Deref`.
        let known = receiver.class().is_some_and(|class| class & of != 0);
        if !known && !self.ask_class(receiver, of, Asked::Class, what, span) {
            return None;
        }
        Some(self.method_of(receiver, last, row.gives, row.takes, args, what, span))
    }
}

/// Returns the last two names of a path.
pub(super) fn ends(path: &Path) -> (String, String) {
    let mut segments = path.segments.iter().rev().map(|s| unraw(&s.ident));
    let last = segments.next().unwrap_or_default();
    (segments.next().unwrap_or_default(), last)
}

/// Returns a path as text, without the generic arguments of its last segment.
pub(super) fn key(path: &Path) -> String {
    let mut path = path.clone();
    if let Some(last) = path.segments.last_mut() {
        last.arguments = syn::PathArguments::None;
    }
    text(&path)
}
