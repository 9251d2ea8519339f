//! Calls: of ops by the table of methods, of traced functions by the names of their companions.

use super::{Call, CallArg, Callee, Cx, Host, Input, Place, R, Source, Stop, Value, Want};
use crate::parse::OutShape;
use crate::parse::text;
use gradloom_ir::op::{Method, Operands, Param};
use gradloom_ir::{Aval, Op, Static, Var};
use proc_macro2::{Ident, Span};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{AngleBracketedGenericArguments, Expr, GenericArgument};

/// The op behind a method of `Tensor`, or behind an associated function of it.
pub(super) fn find(name: &str, assoc: bool) -> Option<(Op, Method)> {
    Op::ALL.iter().find_map(|op| {
        op.def()
            .methods()
            .into_iter()
            .find(|m| m.name == name && m.assoc == assoc)
            .map(|m| (*op, m))
    })
}

/// The name of the associated function of `Tensor` that a path names.
pub(super) fn tensor_function(func: &Expr) -> Option<&Ident> {
    let Expr::Path(p) = func else { return None };
    let mut segments = p.path.segments.iter().rev();
    let (name, ty) = (segments.next()?, segments.next()?);
    (ty.ident == "Tensor" && p.qself.is_none()).then_some(&name.ident)
}

/// Functions of the prelude, and its types and traits that have associated functions.
const STD: [&str; 17] = [
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
];

impl Cx<'_> {
    /// An op, called by one of its methods.
    #[allow(clippy::too_many_arguments)] // one call has all of these parts
    pub(super) fn op<'e>(
        &mut self,
        op: Op,
        method: Method,
        receiver: Option<Value>,
        args: impl Iterator<Item = &'e Expr>,
        turbofish: Option<&AngleBracketedGenericArguments>,
        want: &Want,
        span: Span,
    ) -> R<Value> {
        let mut args = args;
        let (mut receiver, mut data, mut likes, mut statics) =
            (receiver, Vec::new(), Vec::new(), Vec::new());
        let mut n_outs = None;
        let mut failed = false;
        let names = op.def().statics();
        let mut missing = false;
        // The first branch of a `select`, if it is a number: it takes the dtype of the second.
        let mut number = None;
        for param in method.params {
            match param {
                Param::Data | Param::Like => {
                    let value = match receiver.take() {
                        Some(value) => Ok(value),
                        None => match args.next() {
                            Some(arg) => self.eval(arg, &Want::one()),
                            None => {
                                missing = true;
                                continue;
                            }
                        },
                    };
                    let like = match op {
                        Op::Select => data.get(1).copied(),
                        _ => data.first().copied(),
                    };
                    if let (Op::Select, 1, Ok(Value::Host(_))) = (op, data.len(), &value)
                        && number.is_none()
                    {
                        number = value.ok();
                        continue;
                    }
                    match value.and_then(|v| self.tensor(v, like)) {
                        Ok(var) if *param == Param::Data => data.push(var),
                        Ok(var) => likes.push(var),
                        Err(Stop::Error) => failed = true,
                        Err(stop) => return Err(stop),
                    }
                }
                Param::List => match args.next().map(|a| self.list(a)) {
                    Some(Ok(vars)) => data.extend(vars),
                    Some(Err(Stop::Error)) => failed = true,
                    Some(Err(stop)) => return Err(stop),
                    None => missing = true,
                },
                Param::Static => match args.next().map(|a| (a, self.static_value(a))) {
                    Some((arg, Ok(host))) if is_text(&host.expr) => {
                        return self.recorded("text", arg.span());
                    }
                    Some((arg, Ok(host))) => {
                        let name = names.get(statics.len()).copied().unwrap_or("argument");
                        statics.push(self.statik(host, name, arg.span()));
                    }
                    Some((_, Err(Stop::Error))) => failed = true,
                    Some((_, Err(stop))) => return Err(stop),
                    None => missing = true,
                },
                Param::Switch(on) => statics.push(self.b.attr(*on)),
                Param::All => statics.push(self.b.attr(Static::All)),
                Param::Number(n) => statics.push(self.b.attr(*n)),
                Param::Count => n_outs = Some(count(turbofish).or(want.count)),
            }
        }
        if missing || args.next().is_some() {
            // rustc counts arguments better.
            return self.recorded(
                &format!("a wrong number of arguments for `{}`", method.name),
                span,
            );
        }
        if failed {
            return Err(Stop::Error);
        }
        if let Some(number) = number {
            let number = self.tensor(number, data.last().copied())?;
            data.insert(1, number);
        }
        if op == Op::Cast && self.b.static_of(statics[0]).is_host() {
            // Whether there is a derivative depends on the dtype.
            return self.recorded("a cast to a dtype that is not written out", span);
        }
        let n_outs = match n_outs {
            None => None,
            Some(Some(n)) => Some(n),
            Some(None) => {
                // The type that the result is used as may say it, and rustc knows that type.
                return self.recorded(
                    &format!(
                        "a number of results of `{}` that is not written here",
                        method.name
                    ),
                    span,
                );
            }
        };
        let likes = match op.def().operands() {
            Operands::Fixed(_, n) => {
                let implicit = n.saturating_sub(likes.len());
                data.iter().copied().take(implicit).chain(likes).collect()
            }
            Operands::Many => likes,
            _ => data.clone(),
        };
        let outs = self.emit(op, &statics, data, likes, n_outs.unwrap_or(1), span)?;
        let values: Vec<Value> = outs
            .into_iter()
            .map(|var| Value::Tensor { var, by_ref: false })
            .collect();
        Ok(match n_outs {
            Some(_) => Value::Tuple(values),
            None => values.into_iter().next().expect("one result"),
        })
    }

    /// A list of tensors: `&[&a, &b]`.
    fn list(&mut self, arg: &Expr) -> R<Vec<Var>> {
        match self.eval(arg, &Want::one())? {
            Value::Tuple(values) => values.into_iter().map(|v| self.tensor(v, None)).collect(),
            Value::Poison => Err(Stop::Error),
            // A list of a length that is not written here.
            _ => self.recorded("a list of tensors that is not written out", arg.span()),
        }
    }

    pub(super) fn call(&mut self, call: &syn::ExprCall, want: &Want, fallible: bool) -> R<Value> {
        let func = match &*call.func {
            Expr::Path(func) => func,
            Expr::Paren(p) if self.flow.is_some() => match &*p.expr {
                Expr::Closure(closure) => {
                    return match self.closure(closure)? {
                        Value::Closure(closure) => self.call_closure(&closure, call, want),
                        _ => self.recorded("a call of a value", call.func.span()),
                    };
                }
                _ => return self.recorded("a call of a value", call.func.span()),
            },
            _ => return self.recorded("a call of a value", call.func.span()),
        };
        if let Some(Value::Closure(closure)) = func
            .path
            .get_ident()
            .and_then(|i| self.lookup(&i.to_string()))
        {
            let closure = closure.clone();
            return self.call_closure(&closure, call, want);
        }
        if let Some(name) = tensor_function(&call.func) {
            if let Some((op, method)) = find(&name.to_string(), true) {
                return self.op(op, method, None, call.args.iter(), None, want, name.span());
            }
            // A method in the form of a function: `Tensor::matmul(&x, &w)`.
            if let Some((op, method)) = find(&name.to_string(), false)
                && call.args.iter().any(|a| self.mentions_traced(a))
            {
                return self.op(op, method, None, call.args.iter(), None, want, name.span());
            }
            if call.args.iter().any(|a| self.mentions_traced(a)) {
                return self.recorded(&format!("`Tensor::{name}`"), name.span());
            }
            let made = Host {
                expr: self.rename(&Expr::Call(call.clone())),
                reads: Vec::new(),
                number: false,
            };
            let made = match fallible {
                true => Host {
                    expr: {
                        let e = &made.expr;
                        syn::parse_quote!(#e?)
                    },
                    ..made
                },
                false => made,
            };
            return Ok(Value::Tensor {
                var: self.constant(&made, None),
                by_ref: false,
            });
        }
        let segments: Vec<String> = func
            .path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .collect();
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        let last = segments.last().cloned().unwrap_or_default();
        let owner = segments
            .len()
            .checked_sub(2)
            .map(|i| segments[i].clone())
            .unwrap_or_default();
        // `Clone::clone(x)`, where no trait is in scope.
        let copies = [("Clone", "clone"), ("ToOwned", "to_owned")];
        if copies.contains(&(owner.as_str(), last.as_str()))
            && call.args.len() == 1
            && self.mentions_traced(&call.args[0])
        {
            let value = self.eval(&call.args[0], want)?;
            return Ok(super::expr::copy(value, |e| syn::parse_quote!(#e.clone())));
        }
        let is_type = |s: &str| s.chars().next().is_some_and(char::is_uppercase);
        // `f64::sin` and the like: rustc says what such a function does not take.
        let primitive = crate::parse::NUMBERS.contains(&owner.as_str());
        if let ([.., "Clone", "clone"], [arg]) = (&*names, &*Vec::from_iter(&call.args)) {
            let value = self.eval(arg, &Want::one())?;
            if let Value::Tensor { .. } | Value::Place(_) = value {
                return Ok(super::expr::copy(value, |e| e));
            }
        }
        // The standard library has no traced functions.
        let std = matches!(names.first(), Some(&("std" | "core" | "alloc")))
            || STD.contains(&&*last)
            || STD.contains(&&*owner);
        if is_type(&last) || func.qself.is_some() || primitive || std {
            return self.recorded(&format!("a call of `{}`", text(&func.path)), func.span());
        }
        let local = func.path.get_ident().map(|i| self.lookup(&i.to_string()));
        if local.flatten().is_some() {
            return self.recorded("a call of a value", func.span());
        }
        let callee = if is_type(&owner) {
            let mut path = func.path.clone();
            let name = path.segments.pop().expect("it has two segments").ident;
            path.segments.pop_punct();
            Callee::Associated {
                ty: path.to_token_stream(),
                name,
            }
        } else {
            Callee::Function(func.path.clone())
        };
        let recursive = match &callee {
            Callee::Function(p) => self.func.owner.is_none() && p.is_ident(&self.func.sig.ident),
            Callee::Associated { ty, name } => {
                ty.to_string() == "Self"
                    && self.func.owner.is_some()
                    && *name == self.func.sig.ident
            }
            Callee::Method(_) => false,
        };
        self.traced_call(
            callee,
            text(&func.path),
            None,
            call.args.iter(),
            want,
            fallible,
            recursive,
            func.span(),
        )
        .and_then(|v| match v {
            Some(v) => Ok(v),
            None => {
                let mut values = Vec::new();
                for arg in &call.args {
                    values.push(self.eval(arg, &Want::one())?);
                }
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
        })
    }

    /// A traced method of a tree.
    pub(super) fn traced_method(
        &mut self,
        call: &syn::ExprMethodCall,
        place: Place,
        want: &Want,
        fallible: bool,
    ) -> R<Value> {
        if call.turbofish.is_some() {
            return self.recorded("a generic method", call.method.span());
        }
        let recursive = place.root
            && self.func.params[place.param].receiver
            && call.method == self.func.sig.ident;
        let name = format!("_.{}", call.method);
        let callee = Callee::Method(call.method.clone());
        let value = self.traced_call(
            callee,
            name,
            Some(Value::Place(place)),
            call.args.iter(),
            want,
            fallible,
            recursive,
            call.method.span(),
        )?;
        Ok(value.expect("its receiver is traced"))
    }

    /// A call of a traced function; `None` if no argument is traced.
    #[allow(clippy::too_many_arguments)] // one call has all of these parts
    fn traced_call<'e>(
        &mut self,
        callee: Callee,
        name: String,
        receiver: Option<Value>,
        args: impl Iterator<Item = &'e Expr> + Clone,
        want: &Want,
        fallible: bool,
        recursive: bool,
        span: Span,
    ) -> R<Option<Value>> {
        let mut values: Vec<Value> = receiver.into_iter().collect();
        let mut failed = false;
        for (i, arg) in args.clone().enumerate() {
            match self.eval(arg, &Want::one()) {
                Ok(Value::Poison) | Err(Stop::Error) => failed = true,
                Ok(value) => {
                    let value = self.fixed_before(value, args.clone().skip(i + 1));
                    values.push(value);
                }
                Err(stop) => return Err(stop),
            }
        }
        if failed {
            return Err(Stop::Error);
        }
        if values.iter().all(|v| matches!(v, Value::Host(_))) {
            return Ok(None);
        }
        if recursive && self.flow.is_none() {
            self.errors.push_at(
                span,
                format!("`{}` calls itself whatever its arguments are, so it never returns; put the call under an `if` on a static argument", self.func.name()),
            );
            return Err(Stop::Error);
        }
        let (mut call_args, mut operands, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            match value {
                Value::Tensor { var, by_ref } => {
                    operands.push(var);
                    call_args.push(CallArg::Tensor { by_ref });
                    shown.push("_".to_owned());
                }
                Value::Place(place) => {
                    let place = self.fixed_place(&place);
                    let var = self.b.param(Aval::UNKNOWN);
                    let place_tokens = place.expr.to_token_stream();
                    let reference = if place.root && self.func.params[place.param].by_ref {
                        quote!(&*#place_tokens)
                    } else {
                        quote!(&#place_tokens)
                    };
                    let passed = if call_args.is_empty() && matches!(callee, Callee::Method(_)) {
                        place_tokens.clone()
                    } else if place.by_ref {
                        reference
                    } else {
                        {
                            let p = &self.krate;
                            quote!(#p::copy(#reference))
                        }
                    };
                    self.inputs.push(Input {
                        var,
                        source: Source::Tree {
                            param: place.param,
                            place: place_tokens.clone(),
                        },
                        diff: self.func.params[place.param].diff,
                    });
                    let readable: String = place_tokens
                        .to_string()
                        .chars()
                        .filter(|c| !c.is_whitespace())
                        .map(|c| if c.is_alphanumeric() { c } else { '_' })
                        .collect();
                    let readable = match readable.trim_matches('_') {
                        "" => "part",
                        name => name,
                    };
                    self.name(var, &Ident::new(readable, Span::mixed_site()));
                    operands.push(var);
                    call_args.push(CallArg::Tree(passed));
                    shown.push("_".to_owned());
                }
                Value::Host(host) => {
                    shown.push(text(&host.expr));
                    if host.reads.is_empty() {
                        call_args.push(CallArg::Host(host.expr.to_token_stream()));
                    } else {
                        let ident = self.host_ident(&Ident::new("argument", Span::mixed_site()));
                        let expr = &host.expr;
                        self.push_host(host.reads, quote!(let #ident = #expr;));
                        call_args.push(CallArg::Host(ident.to_token_stream()));
                    }
                }
                Value::Tuple(_) | Value::Closure(_) | Value::Uninit(_) | Value::Never => {
                    return self.recorded(
                        "an argument that is neither a tensor, a tree nor static",
                        span,
                    );
                }
                Value::Poison => return Err(Stop::Error),
            }
        }
        let statics = shown.iter().any(|s| s != "_");
        let shown = if statics {
            format!("{name}({})", shown.join(", "))
        } else {
            name
        };
        let attr = self.b.attr(Static::Host(shown));
        self.calls.insert(
            attr,
            Call {
                callee,
                args: call_args,
                fallible,
                shape: want.shape.clone(),
                span,
            },
        );
        let outs = self.emit(Op::Call, &[attr], operands, vec![], want.shape.len(), span)?;
        Ok(Some(structure(&want.shape, &mut outs.into_iter())))
    }
}

/// The results of a call in the structure that they come in.
fn structure(shape: &OutShape, outs: &mut impl Iterator<Item = Var>) -> Value {
    match shape {
        OutShape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| structure(p, outs)).collect()),
        _ => Value::Tensor {
            var: outs.next().expect("as many results as leaves"),
            by_ref: false,
        },
    }
}

/// Whether an expression is text, which is neither a tensor nor a static argument. rustc says so on the user's function.
pub(super) fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(l) if !matches!(l.lit, syn::Lit::Int(_) | syn::Lit::Float(_) | syn::Lit::Bool(_)))
}

/// `::<2>`.
fn count(turbofish: Option<&AngleBracketedGenericArguments>) -> Option<usize> {
    match turbofish?.args.first()? {
        GenericArgument::Const(Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Int(n),
            ..
        })) => n.base10_parse().ok(),
        _ => None,
    }
}
