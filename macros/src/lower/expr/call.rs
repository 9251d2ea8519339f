//! Lowers calls: of traced functions, through their companions, and of ops as associated functions
//! of `Tensor`.

use super::op::{find, tensor_function};
use super::syntax::{peel, peel_references};
use crate::input::{OutShape, text, unraw};
use crate::lower::stmt::is_path;
use crate::lower::{Abort, Base, Content, Cx, Expected, Host, LowerResult, Place, Value};
use crate::method_table::{functions_of_path, is_custom_call, methods_of_builder};
use crate::program::{Built, Call, CallArg, Callee};
use gradloom_ir::einsum::Einsum;
use gradloom_ir::{Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Expr, PathSegment, Type};

/// Functions, types and traits of the prelude whose calls are not traced functions.
const STD: [&str; 29] = [
    "drop",
    "Box",
    "Vec",
    "Option",
    "Result",
    "String",
    "Iterator",
    "IntoIterator",
    "FromIterator",
    "Clone",
    "ToOwned",
    "Into",
    "From",
    "AsRef",
    "Default",
    "ToString",
    "PartialEq",
    "Arc",
    "BTreeMap",
    "BTreeSet",
    "Cell",
    "Cow",
    "HashMap",
    "HashSet",
    "Mutex",
    "Rc",
    "RefCell",
    "RwLock",
    "VecDeque",
];

/// Functions of `gradloom::tree` that take closures, return trees or read values.
///
/// Its other functions are traced.
const OF_TREES: [&str; 8] = [
    "add",
    "assert_close",
    "is_close",
    "leaves_with_paths",
    "map2",
    "scale",
    "sub",
    "summary",
];

impl Cx<'_> {
    pub(in crate::lower) fn call(
        &mut self,
        call: &syn::ExprCall,
        want: &Expected,
        fallible: bool,
    ) -> LowerResult<Value> {
        let func = match &*call.func {
            Expr::Path(func) => func,
            Expr::Paren(p) => {
                if let Expr::Closure(closure) = &*p.expr
                    && let Value::Closure(closure) = self.closure(closure)?
                {
                    return self.call_closure(&closure, call, want);
                }
                return self.recorded("a call of a value", call.func.span());
            }
            _ => return self.recorded("a call of a value", call.func.span()),
        };
        let local = func.path.get_ident();
        let local = local.and_then(|i| self.names.lookup(&i.to_string()));
        if let Some(Value::Closure(closure)) = local {
            let closure = closure.clone();
            return self.call_closure(&closure, call, want);
        }
        let is_local = local.is_some();
        if let Some(name) = tensor_function(&call.func) {
            return self.tensor_call(name, call, want, fallible);
        }
        let path = Segments::of_path(&func.path);
        if let Some(copied) = self.call_of_clone(&path, call, want)? {
            return Ok(copied);
        }
        if path.is_constructor() && func.qself.is_none() {
            return self.constructor(call);
        }
        let transforms = self.transforms(call) && !self.takes_only_names(call);
        if func.qself.is_some() || path.is_never_traced() || path.is_companion() || transforms {
            return self.recorded(&format!("a call of `{}`", text(&func.path)), func.span());
        }
        if is_local {
            return self.recorded("a call of a value", func.span());
        }
        let traced = |cx: &Self| call.args.iter().any(|arg| cx.names.mentions_traced(arg));
        if self.func.generics().bind(path.owner()) && traced(self) {
            // The type decides whether the function is traced.
            let what = format!("the function `{}` of a generic type", text(&func.path));
            return self.recorded(&what, func.span());
        }
        let of_tree = path.owner() == "tree" && OF_TREES.contains(&path.last())
            || ["", "optim"].contains(&path.owner()) && path.last() == "clip_by_norm";
        if of_tree && call.args.iter().any(|arg| self.names.mentions_traced(arg)) {
            return self.recorded(&format!("a call of `{}`", text(&func.path)), func.span());
        }
        let hidden = func.path.get_ident();
        if hidden.is_some_and(|name| self.items.functions.contains(&unraw(name)))
            && call.args.iter().any(|arg| self.names.mentions_traced(arg))
        {
            return self.recorded("a call of a function of the body", func.span());
        }
        let callee = callee(&func.path, is_type(path.owner()));
        let traced = TracedCallee {
            recursive: self.is_itself(&callee),
            callee,
            name: text(&func.path),
            fallible,
            span: func.span(),
        };
        if self.gives_number(func.span()) {
            return self.host_function(call);
        }
        if let Some(value) = self.traced_call(traced, None, call.args.iter(), want)? {
            return Ok(value);
        }
        let values = call
            .args
            .iter()
            .map(|arg| self.eval(arg, &Expected::tensor()));
        let values = values.collect::<LowerResult<Vec<Value>>>()?;
        match self.hosts(&values) {
            Some(values) => Ok(self.rebuild(values, |e| {
                Expr::Call(syn::ExprCall {
                    args: e.into_iter().collect(),
                    ..call.clone()
                })
            })),
            None => self.recorded("a call", func.span()),
        }
    }

    /// Returns whether a call is one of a transform, a loop or a branch of this library: it has such
    /// a name, and an argument may be a function where that takes one.
    ///
    /// A traced function of the user's may have the same name.
    pub(in crate::lower) fn transforms(&self, call: &syn::ExprCall) -> bool {
        let Expr::Path(func) = &*call.func else {
            return false;
        };
        let path = Segments::of_path(&func.path);
        let functions = match (path.owner(), path.last()) {
            (owner, "new") => methods_of_builder(owner).map(|_| &[0][..]),
            (owner, name) => functions_of_path(owner, name),
        };
        let may_be = |f: &Expr| match is_custom_call(path.last()) {
            true => self.may_be_custom(f),
            false => self.may_be_function(f),
        };
        let mut functions = functions.into_iter().flatten();
        func.qself.is_none() && functions.any(|i| call.args.get(*i).is_some_and(may_be))
    }

    /// Returns whether no argument of a call of a transform is a tensor, a tree or a closure.
    ///
    /// The result is then a host value, such as the function that `vmap(f)` returns.
    fn takes_only_names(&self, call: &syn::ExprCall) -> bool {
        let is_name = |arg: &Expr| {
            let local = match peel_references(arg) {
                Expr::Path(p) => p.path.get_ident(),
                _ => None,
            };
            let value = local.and_then(|name| self.names.lookup(&unraw(name)));
            matches!(peel_references(arg), Expr::Path(_))
                && !matches!(value, Some(Value::Closure(_)))
        };
        (call.args.iter()).all(|arg| is_name(arg) && !self.names.mentions_traced(arg))
    }

    /// Returns whether the value of an expression is a transform of a function, as `vmap(f)` or
    /// `Scan::new(f).reverse()`.
    pub(in crate::lower) fn makes_transform(&self, expr: &Expr) -> bool {
        match peel_references(expr) {
            Expr::Call(call) => self.transforms(call),
            Expr::MethodCall(call) => self.makes_transform(&call.receiver),
            _ => false,
        }
    }

    /// Returns whether an argument may be a function, or a list of functions.
    fn may_be_function(&self, expr: &Expr) -> bool {
        match peel_references(expr) {
            Expr::Closure(_) => true,
            Expr::Path(p) => {
                let local = p.path.get_ident();
                match local.and_then(|name| self.names.lookup(&unraw(name))) {
                    Some(Value::Closure(_)) => true,
                    Some(Value::Host(host)) => !host.is_number(),
                    Some(_) => false,
                    // A constant has another name.
                    None => !is_type(Segments::of_path(&p.path).last()),
                }
            }
            Expr::Call(call) => self.transforms(call),
            Expr::Array(list) => list.elems.iter().any(|f| self.may_be_function(f)),
            Expr::Cast(cast) => self.may_be_function(&cast.expr),
            _ => false,
        }
    }

    /// Returns whether an argument may be a custom function: any expression but a local that is a
    /// tensor, a tree or a number.
    fn may_be_custom(&self, expr: &Expr) -> bool {
        let expr = peel_references(expr);
        let local = match expr {
            Expr::Path(p) => p.path.get_ident(),
            _ => None,
        };
        let is_local = local.is_some_and(|name| self.names.lookup(&unraw(name)).is_some());
        !is_local || self.may_be_function(expr)
    }

    /// Lowers `Clone::clone(x)` and `ToOwned::to_owned(x)`.
    fn call_of_clone(
        &mut self,
        path: &Segments,
        call: &syn::ExprCall,
        want: &Expected,
    ) -> LowerResult<Option<Value>> {
        let [arg] = &*Vec::from_iter(&call.args) else {
            return Ok(None);
        };
        let copies = [("Clone", "clone"), ("ToOwned", "to_owned")];
        let found = (path.owner(), path.last());
        if copies.contains(&found) && self.names.mentions_traced(arg) {
            let value = self.eval(arg, want)?;
            let copy = super::copy(value, |e| syn::parse_quote!(#e.clone()));
            return Ok(Some(copy));
        }
        if found == copies[0] {
            let value = self.eval(arg, &Expected::tensor())?;
            if let Value::Tensor { .. } | Value::Place(_) = value {
                return Ok(Some(super::copy(value, |e| e)));
            }
        }
        Ok(None)
    }

    /// Lowers a call of an associated function of `Tensor`: an op, or a tensor that depends on no
    /// parameter.
    fn tensor_call(
        &mut self,
        name: &Ident,
        call: &syn::ExprCall,
        want: &Expected,
        fallible: bool,
    ) -> LowerResult<Value> {
        let traced = call.args.iter().any(|a| self.names.mentions_traced(a));
        let text = name.to_string();
        if text == "einsum"
            && let Some((literal, list)) = self.checked_einsum(call)?
        {
            return self.einsum(literal, list, want);
        }
        // The numbers of a range are a constant; the op takes a length.
        let of_range =
            text == "arange" && matches!(call.args.first().map(peel), Some(Expr::Range(_)));
        // The second form is a method called as a function: `Tensor::matmul(&x, &w)`.
        let found = find(&text, true).or_else(|| find(&text, false).filter(|_| traced));
        let found = found.filter(|_| !of_range);
        if let Some((op, method)) = found {
            return self.op(op, method, None, call.args.iter(), None, want, name.span());
        }
        let (mut made, mut reads) = (call.clone(), Vec::new());
        if let ("meshgrid", [list]) = (&*text, &*Vec::from_iter(&call.args)) {
            let tensor = |var| Value::Tensor { var, by_ref: true };
            let tensors = self.list(list)?.into_iter().map(tensor).collect();
            let func = &call.func;
            let make = |parts: Vec<TokenStream>| quote!(#func(&[#(#parts),*]));
            return self.list_step(tensors, make, (text, name.span()));
        }
        if traced {
            for arg in &mut made.args {
                // `Tensor::linspace(0.0, 1.0, x.dim(0), dtype)`
                let Value::Host(host) = self.eval(arg, &Expected::tensor())? else {
                    return self.recorded(&format!("`Tensor::{name}`"), name.span());
                };
                *arg = host.expr;
                reads.extend(host.reads);
            }
        } else {
            made.args = made.args.iter().map(|arg| self.rename(arg)).collect();
        }
        let made = Expr::Call(made);
        let made = Host {
            expr: match fallible {
                true => syn::parse_quote!(#made?),
                false => made,
            },
            reads,
            content: Content::Plain,
        };
        Ok(Value::Tensor {
            var: self.constant(&made, None)?,
            by_ref: false,
        })
    }

    /// Checks a literal text of `einsum`, and that it names as many tensors as are listed.
    ///
    /// Returns the text and the list, if both are written out.
    fn checked_einsum<'e>(
        &mut self,
        call: &'e syn::ExprCall,
    ) -> LowerResult<Option<(&'e syn::LitStr, &'e Expr)>> {
        let Some(Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        })) = call.args.first().map(peel)
        else {
            return Ok(None);
        };
        let list = match call.args.get(1).map(|list| (list, peel_references(list))) {
            Some((list, Expr::Array(elems))) => Some((list, elems.elems.len())),
            _ => None,
        };
        let fault = match (Einsum::parse(&text.value()), list) {
            (Err(reason), _) => Err(reason),
            (Ok(einsum), Some((_, n))) => einsum.check_operands(n),
            _ => Ok(()),
        };
        match fault {
            Ok(()) => Ok(list.map(|(list, _)| (text, list))),
            Err(reason) => {
                let message = format!("einsum of `{}`: {reason}", text.value());
                self.diagnostics.errors.push(text, message);
                Err(Abort::Error)
            }
        }
    }

    /// Returns whether a callee is the function that is being lowered.
    fn is_itself(&self, callee: &Callee) -> bool {
        let (owner, own) = (&self.func.owner, &self.func.sig.ident);
        match callee {
            Callee::Function(path) => owner.is_none() && path.is_ident(own),
            Callee::Associated { ty, name, .. } => {
                ty.to_string() == "Self" && owner.is_some() && name == own
            }
            Callee::Method { .. } | Callee::Part { .. } | Callee::Inline(_) => false,
        }
    }

    /// Lowers a call of a traced method of a tree.
    pub(in crate::lower) fn traced_method(
        &mut self,
        call: &syn::ExprMethodCall,
        place: Place,
        want: &Expected,
        fallible: bool,
    ) -> LowerResult<Value> {
        let recursive = place.root
            && matches!(place.base, Base::Param(i) if self.func.params[i].receiver)
            && call.method == self.func.sig.ident;
        let (method, turbofish) = (&call.method, &call.turbofish);
        let name = format!(
            "{}{}",
            self.shown_owner(&place),
            text(&quote!(#method #turbofish))
        );
        let callee = Callee::Method {
            name: method.clone(),
            turbofish: turbofish.clone(),
        };
        let traced = TracedCallee {
            callee,
            name,
            fallible,
            recursive,
            span: call.method.span(),
        };
        let receiver = Some(Value::Place(place));
        let value = self.traced_call(traced, receiver, call.args.iter(), want)?;
        Ok(value.expect("the receiver is traced"))
    }

    /// Returns the owner of a method as the program shows it: the type of the receiver with `::` if
    /// it is known, or else the receiver with a dot.
    fn shown_owner(&self, place: &Place) -> String {
        let part = format!("{}.", text(&place.expr));
        let param = match place.base {
            Base::Param(i) if place.root => &self.func.params[i],
            Base::Param(_) | Base::Local(_) => return part,
        };
        let ty = match &self.func.owner {
            Some(owner) if param.receiver => &owner.self_ty,
            _ => &param.owned,
        };
        let name = match ty {
            Type::Path(path) => path.path.segments.last(),
            _ => None,
        };
        // The method of another type may be that of what it points to.
        let is_known = |name: &&PathSegment| param.receiver || name.arguments.is_none();
        name.filter(is_known)
            .map_or(part, |name| format!("{}::", name.ident))
    }

    /// Lowers a call of a traced function; `None` if no argument is traced.
    fn traced_call<'e>(
        &mut self,
        traced: TracedCallee,
        receiver: Option<Value>,
        args: impl Iterator<Item = &'e Expr> + Clone,
        want: &Expected,
    ) -> LowerResult<Option<Value>> {
        let values = self.call_values(receiver, args)?;
        if values.iter().all(|(v, _)| matches!(v, Value::Host(_))) {
            return Ok(None);
        }
        let TracedCallee {
            callee,
            name,
            fallible,
            recursive,
            span,
        } = traced;
        if recursive && self.host.is_always_reached() {
            self.diagnostics.errors.push_at(
                span,
                format!("`{}` calls itself whatever its arguments are, so it never returns; put the call under an `if` on a static argument", self.func.name()),
            );
            return Err(Abort::Error);
        }
        let is_method = matches!(callee, Callee::Method { .. });
        let PassedArguments {
            args,
            operands,
            shown,
        } = self.passed(values, is_method, span)?;
        let shown = match shown.iter().any(|s| s != TRACED) {
            true => format!("{name}({})", shown.join(", ")),
            false => name,
        };
        let attr = self.builder.b.attr(Static::Host(shown));
        self.builder.calls.insert(
            attr,
            Call {
                callee,
                args,
                operands: operands.clone(),
                outs: Vec::new(),
                fallible,
                shape: want.shape.clone(),
                span,
            },
        );
        let outs = self.emit_call(attr, operands, want.shape.len(), span)?;
        for out in &outs {
            self.builder.kinds.open(*out);
            self.may_be_number(*out, span);
        }
        Ok(Some(structure(&want.shape, &mut outs.into_iter())))
    }

    /// Evaluates all arguments, so that errors in each are reported.
    fn call_values<'e>(
        &mut self,
        receiver: Option<Value>,
        args: impl Iterator<Item = &'e Expr> + Clone,
    ) -> LowerResult<Vec<(Value, Option<Built>)>> {
        let receiver = receiver.into_iter().map(|receiver| (receiver, None));
        let mut values: Vec<(Value, Option<Built>)> = receiver.collect();
        let mut failed = false;
        for (i, arg) in args.clone().enumerate() {
            let value = match self.payload_of_some(arg) {
                Some(payload) => self
                    .eval(payload, &Expected::tensor())
                    .map(|payload| Value::Tuple(vec![payload])),
                None => self.eval(arg, &Expected::tensor()),
            };
            match value {
                Ok(Value::Poison) | Err(Abort::Error) => failed = true,
                Ok(value) => {
                    let value = self.fixed_before(value, args.clone().skip(i + 1));
                    values.push((value, built_by(arg)));
                }
                Err(stop) => return Err(stop),
            }
        }
        match failed {
            true => Err(Abort::Error),
            false => Ok(values),
        }
    }

    /// Returns `x` of the argument `Some(x)`, if it is a tensor or a tree.
    fn payload_of_some<'e>(&self, arg: &'e Expr) -> Option<&'e Expr> {
        match peel(arg) {
            Expr::Call(call) if is_path(&call.func, "Some") && self.names.mentions_traced(arg) => {
                call.args.first()
            }
            _ => None,
        }
    }

    /// Returns the arguments in the form that a call equation takes.
    fn passed(
        &mut self,
        values: Vec<(Value, Option<Built>)>,
        is_method: bool,
        span: Span,
    ) -> LowerResult<PassedArguments> {
        let mut passed = PassedArguments::default();
        for (value, built) in values {
            let shown = match value {
                Value::Tuple(parts) if built.is_some() && parts.iter().all(is_operand) => {
                    let operands = &mut passed.operands;
                    let parts = parts.into_iter();
                    let parts = parts.map(|part| self.traced_argument(part, false, operands));
                    let parts = parts.collect::<LowerResult<_>>()?;
                    let built = built.expect("the guard of the arm");
                    passed.args.push(CallArg::Built(built, parts));
                    TRACED.to_owned()
                }
                value @ (Value::Tensor { .. } | Value::Place(_)) => {
                    let receives = passed.args.is_empty() && is_method;
                    let arg = self.traced_argument(value, receives, &mut passed.operands)?;
                    passed.args.push(arg);
                    TRACED.to_owned()
                }
                Value::Host(host) => {
                    self.keep_plain(&host)?;
                    let shown = text(&host.expr);
                    let expr = &host.expr;
                    let argument = match host.reads.is_empty() {
                        true => expr.to_token_stream(),
                        false => {
                            let ident =
                                self.host_ident(&Ident::new("argument", Span::mixed_site()));
                            self.builder
                                .push_host(host.reads, quote!(let #ident = #expr;));
                            ident.to_token_stream()
                        }
                    };
                    passed.args.push(CallArg::Host(argument));
                    shown
                }
                Value::Tuple(_) | Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                    return self.recorded(
                        "an argument that is neither a tensor, a tree nor static",
                        span,
                    );
                }
                Value::Poison => return Err(Abort::Error),
            };
            passed.shown.push(shown);
        }
        Ok(passed)
    }

    /// Returns an argument that is a tensor or a tree, and adds its variable to `operands`.
    fn traced_argument(
        &mut self,
        value: Value,
        receives: bool,
        operands: &mut Vec<Var>,
    ) -> LowerResult<CallArg> {
        Ok(match value {
            Value::Tensor { var, by_ref } => {
                operands.push(var);
                CallArg::var(by_ref)
            }
            Value::Place(
                place @ Place {
                    base: Base::Local(_),
                    ..
                },
            ) => {
                operands.push(self.tree(&place)?);
                let (by_ref, lent) = (place.by_ref, place.lent.filter(|_| !receives));
                CallArg::Var { by_ref, lent }
            }
            Value::Place(place) => {
                let (var, tree) = self.tree_argument(&place, receives);
                operands.push(var);
                CallArg::Tree(tree)
            }
            value => unreachable!("{value:?} is not an operand"),
        })
    }

    /// Returns the variable of a tree argument, and the tokens that pass it; `receives` is true for
    /// a method's receiver.
    fn tree_argument(&mut self, place: &Place, receives: bool) -> (Var, TokenStream) {
        let place = self.hoisted_place(place);
        let Base::Param(param) = place.base else {
            unreachable!("a local is passed as a variable")
        };
        let tokens = place.expr.to_token_stream();
        let reference = if place.root && self.func.params[param].by_ref {
            quote!(&*#tokens)
        } else {
            quote!(&#tokens)
        };
        let passed = if let (Some(view), true) = (&self.func.params[param].view, place.root) {
            view.lend(&tokens, &self.rt)
        } else if let (Some(method), false) = (&place.lent, receives) {
            quote!(#tokens.#method())
        } else if receives {
            tokens
        } else if place.by_ref {
            reference
        } else if place.root {
            let rt = &self.rt;
            quote!(#rt::copy(#reference))
        } else {
            self.copy_of(&place)
        };
        let var = self.tree_input(param, &place);
        (var, passed)
    }
}

/// Traced function at a call.
struct TracedCallee {
    callee: Callee,
    /// Name shown in the program.
    name: String,
    /// True if its `Result` is unwrapped by `?`.
    fallible: bool,
    /// True if it is the function that is being lowered.
    recursive: bool,
    span: Span,
}

/// Arguments of a call of a traced function.
#[derive(Default)]
struct PassedArguments {
    args: Vec<CallArg>,
    /// Variables of the traced arguments.
    operands: Vec<Var>,
    /// Arguments as shown in the program: static ones by their text.
    shown: Vec<String>,
}

/// Placeholder shown for a traced argument.
const TRACED: &str = "_";

/// Returns the form of an argument that is built at the call.
fn built_by(arg: &Expr) -> Option<Built> {
    match peel(arg) {
        Expr::Call(_) => Some(Built::Some),
        Expr::Tuple(_) => Some(Built::Tuple),
        Expr::Array(_) => Some(Built::Array),
        Expr::Reference(r) => match peel(&r.expr) {
            Expr::Tuple(_) => Some(Built::TupleRef),
            Expr::Array(_) => Some(Built::ArrayRef),
            _ => None,
        },
        _ => None,
    }
}

fn is_operand(value: &Value) -> bool {
    matches!(value, Value::Tensor { .. } | Value::Place(_))
}

/// Identifiers of a path.
struct Segments(Vec<String>);

impl Segments {
    fn of_path(path: &syn::Path) -> Segments {
        let segments = path.segments.iter();
        Segments(segments.map(|s| s.ident.to_string()).collect())
    }

    fn last(&self) -> &str {
        self.0.last().map_or("", |s| s)
    }

    /// Returns the type or module that the last segment belongs to.
    fn owner(&self) -> &str {
        self.0.iter().nth_back(1).map_or("", |s| s)
    }

    /// Returns whether a path constructs a value from its arguments.
    fn is_constructor(&self) -> bool {
        is_type(self.last()) || (self.owner(), self.last()) == ("Box", "new")
    }

    /// Returns whether a path is probably a companion of a traced function.
    fn is_companion(&self) -> bool {
        let modules = ["self", "super", "crate", "gradloom"];
        let owner = self.owner();
        !owner.is_empty() && !modules.contains(&owner) && is_companion(self.last())
    }

    /// Returns whether a path is known not to be a traced function.
    ///
    /// Constructors and the standard library are not traced. If a tensor is passed to `f64::sin` or
    /// the like, rustc reports it.
    fn is_never_traced(&self) -> bool {
        let (owner, last) = (self.owner(), self.last());
        let first = self.0.first().map_or("", |s| s);
        let of_std = ["std", "core", "alloc"].contains(&first)
            || STD.contains(&last)
            || STD.contains(&owner);
        is_type(last) || of_std || crate::input::NUMBERS.contains(&owner)
    }
}

/// Suffixes of companions.
const COMPANIONS: [&str; 6] = ["grad", "vjp", "jvp", "hvp", "vmap", "saved"];

/// Returns whether a name is that of a companion: of a function, or with a suffix of a method.
pub(in crate::lower) fn is_companion(name: &str) -> bool {
    COMPANIONS.iter().any(|companion| {
        let rest = name.strip_suffix(companion);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    })
}

fn is_type(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

/// Returns the callee of a path: an associated function if `of_type`, otherwise a free function.
fn callee(path: &syn::Path, of_type: bool) -> Callee {
    if !of_type {
        return Callee::Function(path.clone());
    }
    let mut ty = path.clone();
    let last = ty.segments.pop().expect("the path has two segments");
    ty.segments.pop_punct();
    Callee::Associated {
        ty: ty.to_token_stream(),
        name: last.ident,
        turbofish: last.arguments,
    }
}

/// Returns the results of a call in the structure `shape`.
fn structure(shape: &OutShape, outs: &mut impl Iterator<Item = Var>) -> Value {
    match shape {
        OutShape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| structure(p, outs)).collect()),
        _ => Value::Tensor {
            var: outs.next().expect("as many results as leaves"),
            by_ref: false,
        },
    }
}
