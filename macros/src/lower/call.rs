//! Calls: of traced functions by the names of their companions, and of ops as functions of `Tensor`.

use super::names::spelt;
use super::op::{find, tensor_function};
use super::{Call, CallArg, Callee, Cx, Host, Input, Place, R, Source, Stop, Value, Want};
use crate::parse::OutShape;
use crate::parse::text;
use gradloom_ir::{Aval, Op, Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Expr;
use syn::spanned::Spanned;

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
            return self.tensor_call(name, call, want, fallible);
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
        let callee = callee(&func.path, is_type(&owner));
        let recursive = self.is_itself(&callee);
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

    /// A call of an associated function of `Tensor`: an op, or a tensor from elsewhere.
    fn tensor_call(
        &mut self,
        name: &Ident,
        call: &syn::ExprCall,
        want: &Want,
        fallible: bool,
    ) -> R<Value> {
        let traced = call.args.iter().any(|a| self.mentions_traced(a));
        let text = name.to_string();
        // The second is a method in the form of a function: `Tensor::matmul(&x, &w)`.
        let found = find(&text, true).or_else(|| find(&text, false).filter(|_| traced));
        if let Some((op, method)) = found {
            return self.op(op, method, None, call.args.iter(), None, want, name.span());
        }
        if traced {
            return self.recorded(&format!("`Tensor::{name}`"), name.span());
        }
        let made = self.rename(&Expr::Call(call.clone()));
        let made = Host {
            expr: match fallible {
                true => syn::parse_quote!(#made?),
                false => made,
            },
            reads: Vec::new(),
            number: false,
        };
        Ok(Value::Tensor {
            var: self.constant(&made, None),
            by_ref: false,
        })
    }

    /// Whether a call of it is one of the function that is being lowered.
    fn is_itself(&self, callee: &Callee) -> bool {
        let (owner, own) = (&self.func.owner, &self.func.sig.ident);
        match callee {
            Callee::Function(path) => owner.is_none() && path.is_ident(own),
            Callee::Associated { ty, name } => {
                ty.to_string() == "Self" && owner.is_some() && name == own
            }
            Callee::Method(_) => false,
        }
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
                    let receives = call_args.is_empty() && matches!(callee, Callee::Method(_));
                    let (var, passed) = self.tree_argument(&place, receives);
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

    /// The variable of a tree that is an argument, and the tokens that pass it: to a method, as its receiver.
    fn tree_argument(&mut self, place: &Place, receives: bool) -> (Var, TokenStream) {
        let place = self.fixed_place(place);
        let param = &self.func.params[place.param];
        let var = self.b.param(Aval::UNKNOWN);
        let tokens = place.expr.to_token_stream();
        let reference = if place.root && param.by_ref {
            quote!(&*#tokens)
        } else {
            quote!(&#tokens)
        };
        let passed = if receives {
            tokens.clone()
        } else if place.by_ref {
            reference
        } else {
            let p = &self.krate;
            quote!(#p::copy(#reference))
        };
        let name = match &*spelt(&tokens) {
            "" => "part".to_owned(),
            name => name.to_owned(),
        };
        self.inputs.push(Input {
            var,
            source: Source::Tree {
                param: place.param,
                place: tokens,
            },
            diff: param.diff,
        });
        self.name(var, &Ident::new(&name, Span::mixed_site()));
        (var, passed)
    }
}

/// What a path calls: an associated function if it is one of a type.
fn callee(path: &syn::Path, of_type: bool) -> Callee {
    if !of_type {
        return Callee::Function(path.clone());
    }
    let mut ty = path.clone();
    let name = ty.segments.pop().expect("it has two segments").ident;
    ty.segments.pop_punct();
    Callee::Associated {
        ty: ty.to_token_stream(),
        name,
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
