//! Lowers method calls, by the kind of their receiver.

use super::call::is_companion;
use super::composite::composite_of;
use super::index::takes_index;
use super::inline::{CHANGES, has_number};
use super::op::{find, is_method};
use super::syntax::{peel, peel_references};
use super::{by_ref, copy};
use crate::input::{View, classify, text};
use crate::lower::host::held::{content_of, is_tree_type};
use crate::lower::state::kinds::Kind;
use crate::lower::{Abort, Base, Content, Cx, Expected, Host, LowerResult, Place, Value, host};
use crate::method_table::{TENSOR_LISTS, class, is_of_values, methods, reads_tensor};
use crate::program::Effect;
use crate::report::Errors;
use gradloom_ir::Op;
use gradloom_ir::op::{Eval, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Expr;

/// Methods that return the receiver as an owned value.
const COPIES: [&str; 3] = ["clone", "to_owned", "into"];
/// Methods that return the receiver by reference.
const BORROWS: [&str; 2] = ["as_ref", "borrow"];
/// Methods that return a value that borrows from the receiver, which is a part of a tree.
const LENDS: [&str; 3] = ["as_ref", "as_slice", "as_deref"];

impl Cx<'_> {
    /// Records a method that returns a list of tensors as a step.
    fn list_method(&mut self, receiver: Value, call: &syn::ExprMethodCall) -> LowerResult<Value> {
        let mut values = vec![receiver];
        for arg in &call.args {
            values.push(Value::Host(self.static_value(arg)?));
        }
        let (method, span) = (&call.method, call.method.span());
        let make = |parts: Vec<TokenStream>| {
            let (x, args) = parts.split_first().expect("the receiver");
            quote!(#x.#method(#(#args),*))
        };
        self.list_step(values, make, (method.to_string(), span))
    }

    /// Records code that returns a list of tensors as a step.
    pub(in crate::lower) fn list_step(
        &mut self,
        values: Vec<Value>,
        make: impl FnOnce(Vec<TokenStream>) -> TokenStream,
        shown: (String, Span),
    ) -> LowerResult<Value> {
        let var = self.step(values, make, Effect::Records, shown)?;
        self.builder.kinds.decide(var, Kind::Tree);
        Ok(Value::Tensor { var, by_ref: false })
    }

    /// Lowers a method call on a tensor, a tree, a tuple or a host value.
    pub(in crate::lower) fn method(
        &mut self,
        call: &syn::ExprMethodCall,
        want: &Expected,
        fallible: bool,
    ) -> LowerResult<Value> {
        let name = call.method.to_string();
        if ["unwrap", "expect"].contains(&name.as_str())
            && let Some(place) = self.borrowed_place(call)?
        {
            return Ok(place);
        }
        let receiver = self.eval(&call.receiver, &Expected::tensor())?;
        let receiver = self.receiver(receiver, call);
        let plain = call.args.is_empty();
        match receiver {
            Value::Poison => {
                // Errors in the arguments are still reported.
                for arg in &call.args {
                    let _ = self.eval(arg, &Expected::tensor());
                }
                Err(Abort::Error)
            }
            Value::Tensor { .. } | Value::Place(_)
                if name == "into" && want.ty.as_ref().is_some_and(is_other_tree) =>
            {
                self.recorded("`.into()`", call.method.span())
            }
            value @ (Value::Tensor { .. } | Value::Place(_))
                if plain && COPIES.contains(&name.as_str()) =>
            {
                Ok(copy(value, |e| syn::parse_quote!(#e.clone())))
            }
            Value::Place(place) if plain && LENDS.contains(&name.as_str()) => {
                Ok(Value::Place(Place {
                    by_ref: true,
                    lent: Some(call.method.clone()),
                    ..place
                }))
            }
            value @ (Value::Tensor { .. } | Value::Place(_))
                if plain && BORROWS.contains(&name.as_str()) =>
            {
                Ok(by_ref(value, true, |e| syn::parse_quote!(&#e)))
            }
            Value::Tuple(parts) if plain && name == "clone" && parts.iter().all(is_cloned) => {
                let copy = cloned(Value::Tuple(parts));
                Ok(self.hoisted_value(copy, "part"))
            }
            Value::Tensor { var, .. } if reads_tensor(&name) => {
                let ident = self.named_by_host(var);
                let host = Host {
                    expr: syn::parse_quote!(#ident),
                    reads: vec![var],
                    content: Content::Plain,
                };
                self.host_method(
                    call,
                    host,
                    ["dim", "rank", "numel", "item", "batch_dims"].contains(&name.as_str()),
                )
            }
            Value::Host(host) if draws(call) && self.names.is_key(&host.expr) => {
                self.drawn(call, host)
            }
            Value::Host(host) => self.host_method(call, host, false),
            value @ Value::Tensor { .. } if takes_index(call) => self.indexed(value, call),
            Value::Tensor { var, by_ref } => {
                if let Some((op, method)) = find(&name, false) {
                    let receiver = Some(Value::Tensor { var, by_ref });
                    return self.op_method(op, method, receiver, call, want);
                }
                if let Some(composite) = composite_of(call) {
                    return self.composite(composite, Value::Tensor { var, by_ref }, call, want);
                }
                if TENSOR_LISTS.contains(&name.as_str()) {
                    return self.list_method(Value::Tensor { var, by_ref }, call);
                }
                if ["iter", "into_iter", "iter_mut"].contains(&name.as_str()) {
                    return self.diagnostics.refuse_iteration(&call.method);
                }
                // rustc explains a missing method better.
                self.recorded(&format!("the method `{name}`"), call.method.span())
            }
            Value::Place(place) => self.place_method(call, place, want, fallible),
            Value::Tuple(_) | Value::Closure(_) | Value::Uninit(_) | Value::Never => self.recorded(
                "a method of a value that is not a tensor",
                call.method.span(),
            ),
        }
    }

    /// Returns the receiver of a method as a tree, if it may be one and the method is not a
    /// tensor's.
    fn receiver(&mut self, value: Value, call: &syn::ExprMethodCall) -> Value {
        let Value::Tensor { var, .. } = value else {
            return value;
        };
        let method = &*call.method.to_string();
        let is_known = COPIES.contains(&method) || BORROWS.contains(&method);
        let is_tensors = reads_tensor(method) || is_method(method) || takes_index(call);
        match self.builder.kinds.of(var) {
            Kind::Tensor => value,
            _ if LENDS.contains(&method) => self.as_place(value),
            _ if is_known => value,
            Kind::Open if is_tensors => {
                self.builder.kinds.decide(var, Kind::Tensor);
                value
            }
            Kind::Open | Kind::Tree => self.as_place(value),
        }
    }

    /// Lowers a method of a part of a tree.
    ///
    /// The part may be a tensor, a number, a list or another tree, which the macro cannot
    /// distinguish.
    fn place_method(
        &mut self,
        call: &syn::ExprMethodCall,
        place: Place,
        want: &Expected,
        fallible: bool,
    ) -> LowerResult<Value> {
        let name = call.method.to_string();
        if (reads_tensor(&name) && !place.root)
            || ["len", "is_empty", "is_some", "is_none"].contains(&name.as_str())
        {
            let number = name != "is_empty";
            let host = Host {
                reads: place.reads(),
                expr: place.expr,
                content: Content::Plain,
            };
            return self.host_method(call, host, number);
        }
        if let Some(number) = self.of_numbers(&place, &name) {
            let host = Host {
                reads: place.reads(),
                expr: place.expr,
                content: Content::Plain,
            };
            return self.host_method(call, host, number);
        }
        let view = self.view(place.base);
        if let (true, Some(View::Option(_)), "unwrap" | "expect") = (place.root, view, &*name) {
            return self.payload(call, &place);
        }
        // A tensor as an argument is that of a traced method.
        let takes_tensors = call.args.iter().any(|arg| {
            let is_value = matches!(peel_references(arg), Expr::Path(_) | Expr::Field(_));
            is_value && self.names.mentions_traced(arg)
        });
        if (draws(call) || derives_keys(call)) && !place.root && !takes_tensors {
            let (rt, expr) = (&self.rt, &place.expr);
            // The user's code moves the key out of the tree. A part that is moved out could not be
            // located any more.
            let key = Host {
                expr: syn::parse_quote!(#rt::key_of(&#expr)),
                reads: place.reads(),
                content: Content::Plain,
            };
            return match draws(call) {
                true => self.drawn(call, key),
                false => self.host_method(call, key, false),
            };
        }
        if self.host.is_static && !call.args.iter().any(|arg| self.names.mentions_traced(arg)) {
            let host = Host {
                reads: place.reads(),
                expr: place.expr,
                content: Content::Plain,
            };
            return self.host_method(call, host, false);
        }
        // The receiver is probably a number or a collection, which has no traced methods, so the
        // body is traced at run time.
        //
        // A test such as `is_nan` is the condition of an `if` if the receiver is a number.
        let tests = |(op, _): (Op, Method)| matches!(op.def().eval(), Eval::Test(_));
        if is_of_values(&name) || find(&name, false).is_some_and(tests) {
            return self.recorded(&format!("`.{name}(..)`"), call.method.span());
        }
        if takes_index(call) && !place.root {
            return self.indexed(Value::Place(place), call);
        }
        if let Some((op, method)) = find(&name, false).filter(|_| !place.root) {
            return self.op_method(op, method, Some(Value::Place(place)), call, want);
        }
        if self.is_generic(&place) {
            // The type decides whether the method is traced.
            return self.recorded(
                &format!("the method `{name}` of a generic type"),
                call.method.span(),
            );
        }
        // A part of a model may have a method of this name.
        if is_companion(&name) || composite_of(call).is_some() && !place.root {
            return self.recorded(&format!("`.{name}(..)`"), call.method.span());
        }
        if self.gives_number(call.method.span()) {
            return self.host_method_of(call, &place);
        }
        self.traced_method(call, place, want, fallible)
    }

    /// Returns whether a method of `self` that has no tensors returns a number; `None` if it may have
    /// tensors.
    fn of_numbers(&self, place: &Place, method: &str) -> Option<bool> {
        let receiver = matches!(place.base, Base::Param(i) if self.func.params[i].receiver);
        let owner = self
            .func
            .owner
            .as_ref()
            .filter(|_| receiver && place.root)?;
        owner.of_numbers.get(method).copied()
    }

    /// Lowers `bias.unwrap()` for a parameter `bias: Option<&Tensor>`: a reference to a part of a tree.
    fn payload(&mut self, call: &syn::ExprMethodCall, place: &Place) -> LowerResult<Value> {
        let args = call.args.iter().map(|arg| self.rename(arg));
        let (args, method, expr) = (Vec::from_iter(args), &call.method, &place.expr);
        let part = self.host_ident(&Ident::new("part", Span::mixed_site()));
        self.builder.push_host(
            Vec::new(),
            quote!(let #part = (#expr).as_ref().#method(#(#args),*);),
        );
        Ok(Value::Place(Place {
            expr: syn::parse_quote!(#part),
            by_ref: true,
            root: false,
            ..place.clone()
        }))
    }

    /// Lowers `key.normal(shape, dtype)` and other draws: a tensor that depends on no parameter.
    fn drawn(&mut self, call: &syn::ExprMethodCall, key: Host) -> LowerResult<Value> {
        match self.host_method(call, key, false)? {
            Value::Host(host) => {
                // The numbers have no derivative, wherever the key is kept.
                let drawn = Host {
                    content: Content::Plain,
                    ..host
                };
                Ok(Value::Tensor {
                    var: self.constant(&drawn, None)?,
                    by_ref: false,
                })
            }
            value => Ok(value),
        }
    }

    fn op_method(
        &mut self,
        op: Op,
        method: Method,
        receiver: Option<Value>,
        call: &syn::ExprMethodCall,
        want: &Expected,
    ) -> LowerResult<Value> {
        if let (Op::Slice, Some(Expr::Range(range)), true) =
            (op, call.args.first().map(peel), call.args.len() < 3)
        {
            self.diagnostics
                .errors
                .push(range, slice_of(&call.receiver, range));
            return Err(Abort::Error);
        }
        let (args, turbofish) = (call.args.iter(), call.turbofish.as_ref());
        // The result of a call in `n.len().min(3)` may be a number, as numbers have a method of this name.
        let of_numbers = methods(&call.method.to_string()).any(|row| row.of & class::SCALAR != 0);
        let number = match &receiver {
            Some(Value::Tensor { var, .. }) if of_numbers => {
                self.builder.may_be_numbers.get(var).copied()
            }
            _ => None,
        };
        let span = call.method.span();
        let value = self.op(op, method, receiver, args, turbofish, want, span)?;
        if let (Some(choice), Value::Tensor { var, .. }) = (number, &value) {
            self.builder.may_be_numbers.insert(*var, choice);
        }
        Ok(value)
    }

    /// Returns whether the type of a place may depend on a type parameter.
    fn is_generic(&self, place: &Place) -> bool {
        let Base::Param(param) = place.base else {
            return false;
        };
        let param = &self.func.params[param];
        if param.receiver {
            let owner = self.func.owner.as_ref();
            return !place.root && owner.is_some_and(|o| o.generics.type_params().next().is_some());
        }
        let owner = self
            .func
            .owner
            .iter()
            .flat_map(|o| o.generics.type_params());
        let mut generics = owner.chain(self.func.sig.generics.type_params());
        let mut named = Vec::new();
        host::in_tokens(param.owned.to_token_stream(), &mut |i| {
            named.push(i.clone())
        });
        generics.any(|g| named.contains(&g.ident))
    }

    /// Lowers a method of a host value, if its arguments are host values too.
    fn host_method(
        &mut self,
        call: &syn::ExprMethodCall,
        receiver: Host,
        number: bool,
    ) -> LowerResult<Value> {
        let held = receiver.clone();
        let mut values = vec![Value::Host(receiver)];
        for arg in &call.args {
            values.push(self.eval(arg, &Expected::tensor())?);
        }
        let args = values[1..].to_vec();
        let mut parts = args.iter().zip(&call.args);
        let mixed = parts.any(|(value, arg)| has_number(value, arg));
        let Some(values) = self.hosts(&values) else {
            let name = call.method.to_string();
            let receiver = values
                .into_iter()
                .next()
                .expect("the receiver is the first");
            match find(&name, false) {
                // `key.bernoulli(p, x.shape()).select(&x, 0.0)`
                Some((op, method)) if methods(&name).next().is_none() => {
                    let want = Expected::tensor();
                    return self.op_method(op, method, Some(receiver), call, &want);
                }
                None if !is_of_numbers(&name) && !mixed => {
                    if let Value::Host(receiver) = receiver {
                        self.promote(&receiver.expr)?;
                    }
                }
                _ => {}
            }
            return self.recorded(
                &format!("the method `{}` of a host value", call.method),
                call.method.span(),
            );
        };
        self.keep_host(call, &held, &args)?;
        let content = content_of(call, number);
        let value = self.rebuild(values, |mut e| {
            let receiver = Box::new(e.remove(0));
            Expr::MethodCall(syn::ExprMethodCall {
                receiver,
                args: e.into_iter().collect(),
                ..call.clone()
            })
        });
        match value {
            Value::Host(h) => Ok(Value::Host(Host {
                content: content.unwrap_or(h.content),
                ..h
            })),
            other => Ok(other),
        }
    }
}

/// Returns whether a method with a tensor among its arguments may be one of a number or a list of
/// numbers.
fn is_of_numbers(method: &str) -> bool {
    is_of_values(method) && !CHANGES.contains(&method)
}

/// Returns whether a written type is that of a tree that is not a tensor.
fn is_other_tree(ty: &syn::Type) -> bool {
    let kind = classify(ty, &mut Errors::default());
    is_tree_type(ty) && !matches!(kind, crate::input::Kind::Tensor)
}

/// Returns whether a method call has the form of a draw with a random key.
fn draws(call: &syn::ExprMethodCall) -> bool {
    matches!(
        (&*call.method.to_string(), call.args.len()),
        ("uniform" | "normal" | "bernoulli", 2) | ("bits" | "permutation", 1)
    )
}

/// Returns whether a method call has the form of a call that makes keys of a key.
fn derives_keys(call: &syn::ExprMethodCall) -> bool {
    matches!(
        (&*call.method.to_string(), call.args.len()),
        ("duplicate" | "split" | "split_n", 0) | ("split_many" | "fold_in", 1)
    )
}

/// Returns the message for `x.slice(1..3)`.
fn slice_of(receiver: &Expr, range: &syn::ExprRange) -> String {
    let bound =
        |bound: &Option<Box<Expr>>, none: &str| bound.as_ref().map_or(none.to_owned(), text);
    let x = text(receiver);
    let (start, mut stop) = (
        bound(&range.start, "0"),
        bound(&range.end, &format!("{x}.dim(0)")),
    );
    if let syn::RangeLimits::Closed(_) = range.limits {
        stop += " + 1";
    }
    format!(
        "`slice` takes the starts, stops and steps of the leading axes; write `{x}.slice([{start}], [{stop}], [1])`"
    )
}

/// Returns whether a value consists of tensors and host values.
fn is_cloned(value: &Value) -> bool {
    match value {
        Value::Tensor { .. } | Value::Host(_) => true,
        Value::Tuple(parts) => parts.iter().all(is_cloned),
        _ => false,
    }
}

/// Returns the value with its host values cloned.
fn cloned(value: Value) -> Value {
    match value {
        Value::Host(host) if host::literal(&host.expr).is_none() => {
            let e = &host.expr;
            Value::Host(Host {
                expr: syn::parse_quote!(::core::clone::Clone::clone(&#e)),
                ..host
            })
        }
        Value::Tuple(parts) => Value::Tuple(parts.into_iter().map(cloned).collect()),
        value => value,
    }
}
