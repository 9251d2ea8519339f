//! Judges method calls: of the standard library, of tensors and keys, and of traced methods.

use super::apply::traced_name;
use super::pattern::behind;
use super::ty::{Fidelity, Probe, Ty, Val, written};
use super::{Asked, CallPosition, Impurity, PurityVisitor, Remedy, place, position};
use crate::input::unraw;
use crate::method_table::{
    ArgumentUse, Effect, MethodResult, Row, class, gives_list, is_op_method, methods,
    methods_of_builder, takes_tensor,
};
use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::{Expr, ExprMethodCall, GenericArgument, PathArguments, Type};

/// Methods with an inferred result type that may convert to a user-defined type.
const CONVERSIONS: [&str; 7] = [
    "collect", "into", "parse", "product", "sum", "try_into", "unzip",
];

/// Returns whether a method has an inferred result type and calls a trait implementation of it.
fn is_inferred(method: &str) -> bool {
    CONVERSIONS.contains(&method) || method == "unwrap_or_default"
}

/// Iterator methods that pass elements by value, to closures or to the result.
const MOVERS: [&str; 22] = [
    "all",
    "any",
    "by_ref",
    "chain",
    "enumerate",
    "filter",
    "filter_map",
    "flat_map",
    "fold",
    "for_each",
    "fuse",
    "into_iter",
    "iter",
    "map",
    "peekable",
    "reduce",
    "rev",
    "rfold",
    "skip",
    "step_by",
    "take",
    "zip",
];

/// Methods whose result iterates over the same items as `for`.
const ITERATES: [&str; 3] = ["iter", "iter_mut", "into_iter"];

/// Types of the standard library that the macro does not track.
const MADE: [&str; 5] = ["HashMap", "HashSet", "BTreeSet", "BTreeMap", "Cow"];

impl PurityVisitor<'_> {
    pub(super) fn method(&mut self, call: &ExprMethodCall) -> Val {
        let open = call.paren_token.span.open();
        // A type that holds a function is judged when it is called.
        let receiver = match self.is_function(&call.receiver) {
            true => self.callable(&call.receiver, Vec::new()),
            false => self.expr(&call.receiver),
        };
        let receiver = receiver.at(place(open, 0));
        let args = self.arguments(open, &call.args);
        let (name, span) = (unraw(&call.method), call.method.span());
        let what = format!(".{name}()");
        let mut val = self.method_on(call, &receiver, &name, &args, &what, span);
        if let Some(GenericArgument::Type(ty)) =
            call.turbofish.as_ref().and_then(|t| t.args.first())
        {
            val = self.as_written(&name, ty, val);
        }
        // Elements pushed to a list determine its element type.
        let put = match &*name {
            "push" | "push_back" | "push_front" | "insert" | "fill" | "resize" => {
                args.last().cloned()
            }
            "extend" | "append" | "extend_from_slice" => args.last().map(|arg| self.held(arg)),
            _ => None,
        };
        if let Some(put) = put {
            let mut list = receiver;
            if let Ty::List(elem) = &mut list.ty {
                elem.unify(&Val { at: None, ..put });
                self.improve(&call.receiver, &list);
            }
        }
        val
    }

    /// Returns the result of a method whose type is given by a turbofish.
    fn as_written(&mut self, name: &str, ty: &Type, val: Val) -> Val {
        match (name, written(ty)) {
            ("parse", Ty::Opaque) | ("sum" | "product", Ty::Opaque) => val,
            ("parse", ty) => Val::option(ty.into()),
            ("sum" | "product", ty) => ty.into(),
            ("collect", Ty::Option(_)) => {
                let inner = self.held(&val);
                Val::option(Val::list(self.held(&inner)))
            }
            ("collect", Ty::Text) => Ty::Text.into(),
            _ => val,
        }
    }

    /// Adds to what is known of a local.
    fn improve(&mut self, place: &Expr, val: &Val) {
        match place {
            Expr::Path(path) => {
                if let Some(ident) = path.path.get_ident()
                    && let Some(local) = self.local_mut(&unraw(ident))
                {
                    local.unify(val);
                }
            }
            Expr::Paren(e) => self.improve(&e.expr, val),
            _ => {}
        }
    }

    fn method_on(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Val,
        name: &str,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        let opaque = matches!(receiver.ty, Ty::Opaque);
        let at = (name.to_owned(), position(span));
        // Two tokens from a macro expansion may share a position, so the position must be unique.
        if opaque && self.places.get(&at) == Some(&1) {
            let traced = self
                .methods
                .iter()
                .find(|(n, p, _)| *n == at.0 && *p == at.1);
            if let Some(gives) = traced.map(|(_, _, gives)| gives.clone()) {
                self.passed_on(&call.args, args, what, span);
                return match gives.ty {
                    Ty::Opaque => self.of_traced(name, self.exact_call(call, receiver, args)),
                    _ => gives,
                };
            }
        }
        if let Some(GenericArgument::Type(ty)) =
            call.turbofish.as_ref().and_then(|t| t.args.first())
            && is_inferred(name)
        {
            self.refuse_user(ty, what, span);
        }
        let converts = CONVERSIONS.contains(&name) && args.is_empty() && call.turbofish.is_none();
        if converts && !self.expected.contains(&at) {
            return self.found(what, span, "its result type is not known", Remedy::Move);
        }
        let mut rows: Vec<&Row> = methods(name).collect();
        if let Ty::Arithmetic(operands) = &receiver.ty {
            let operands = &operands.clone();
            return self.method_of_arithmetic(receiver, operands, name, args, what, span);
        }
        if let Some(of) = receiver.class() {
            if of == class::TENSOR && is_op_method(name) {
                return self.op(name, args, what, span);
            }
            return match rows.iter().find(|row| row.of & of != 0) {
                Some(row) => {
                    let all = rows.iter().fold(0, |mask, row| mask | row.of);
                    self.has(receiver, of, all, what, span);
                    let val = self.method_by(row, receiver, name, args, what, span);
                    match (self.exact_call(call, receiver, args), &val.ty) {
                        (Some(exact), Ty::Iter(item)) if ITERATES.contains(&name) => {
                            Val::iter(self.item_of((**item).clone(), &exact.tokens))
                        }
                        (Some(exact), Ty::List(_) | Ty::Option(_) | Ty::Opaque) => {
                            val.with(Some(exact))
                        }
                        // In functions in the body rustc is asked by probes.
                        (Some(exact), Ty::Scalar) if !self.entered.is_empty() => {
                            val.with(Some(exact))
                        }
                        _ => val,
                    }
                }
                None => self.found(
                    what,
                    span,
                    "its receiver has no such method in the standard library or as a tensor",
                    Remedy::Move,
                ),
            };
        }
        if let Ty::Transform(builder, function) = &receiver.ty
            && methods_of_builder(builder).is_some_and(|methods| methods.contains(&name))
        {
            return self.method_of_builder(receiver, &function.clone(), call, name, args);
        }
        if let (Ty::Pure(gives), "call") = (&receiver.ty, name) {
            // A call of a closure's pullback.
            self.passed_on(&call.args, args, what, span);
            return (**gives).clone();
        }
        if !opaque {
            return self.found(what, span, "its effects are not known", Remedy::Promise);
        }
        // The function cannot distinguish a clone from the original.
        if name == "clone" && args.is_empty() {
            return match self.exact_call(call, receiver, args) {
                Some(exact) => Val::unknown().with(Some(exact)),
                None => behind(receiver),
            };
        }
        if let ("map", [Expr::Reference(by)], [f]) = (name, &*Vec::from_iter(&call.args), args)
            && by.mutability.is_some()
            && matches!(f.ty, Ty::Closure(_))
        {
            return self.mapped_tree(receiver, f, what, span);
        }
        let function = |arg: &Val| matches!(arg.ty, Ty::Closure(_) | Ty::Function(_) | Ty::Pure(_));
        // No op of tensors takes a function.
        let is_op = is_op_method(name) && !args.iter().any(function);
        if is_op {
            // The receiver is a tensor and not a range, as tensors have an op of this name.
            rows.retain(|row| row.of & !(class::ITER | class::RANGE) != 0);
        } else if args.iter().any(function) && rows.iter().any(|row| row.of == class::OPTION) {
            // Options have such a method more often than arrays.
            rows.retain(|row| row.of == class::OPTION);
        }
        // rustc is not asked whether a type is an iterator.
        let mut mask = rows.iter().fold(0, |mask, row| mask | row.of) & !class::ITER;
        if is_op {
            mask |= class::TENSOR;
        }
        // A type parameter has methods of traits only, also where tensors have some of their names.
        if mask == 0 || mask == class::TENSOR && self.is_parameter(receiver) {
            return self.traced_method(call, receiver, name, args, what, span);
        }
        if self.may_be_own(receiver, mask, name, args)
            && !args.iter().any(function)
            && rows.iter().all(|row| row.does != Effect::Reads)
        {
            let val = self.either(call, receiver, args, what, |judge| {
                judge.method_of_class(call, receiver, &rows, mask, args, what)
            });
            return match val.ty {
                Ty::Iter(_) => val,
                _ => Val::unknown().with(self.exact_call(call, receiver, args)),
            };
        }
        self.method_of_class(call, receiver, &rows, mask, args, what)
    }

    /// Judges a method of a type of this library that holds the function of a transform.
    fn method_of_builder(
        &mut self,
        builder: &Val,
        function: &Val,
        call: &ExprMethodCall,
        name: &str,
        args: &[Val],
    ) -> Val {
        let (what, span) = (format!(".{name}()"), call.method.span());
        if ["in_axes", "out_axes"].contains(&name) {
            self.axes(args.first(), &what, span);
            return builder.clone();
        }
        self.passed_on(&call.args, args, &what, span);
        match (&builder.ty, name) {
            // The function takes two slices of the only argument.
            (Ty::Transform(ty, _), "call") if ty == "AssociativeScan" => {
                let xs = args.first().cloned().unwrap_or_else(Val::unknown);
                self.apply(function, &[xs.clone(), xs.clone()], &what, span);
                super::pattern::behind(&xs)
            }
            (_, "call") => self.apply(function, args, &what, span),
            _ => builder.clone(),
        }
    }

    /// Returns whether the receiver of a method of the standard library, or of an op, may be of a
    /// type of the user's with a traced method of this name.
    ///
    /// Numbers and tensors have so many methods that only a type in the signature counts, or a tensor
    /// as an argument that no op of this name takes.
    fn may_be_own(&self, receiver: &Val, mask: u32, name: &str, args: &[Val]) -> bool {
        let common = class::SCALAR | class::TENSOR;
        let of_any = mask & common == 0 && !["is_empty", "len"].contains(&name);
        let is_param = (receiver.probe.as_ref()).is_some_and(|probe| probe.depth == 0);
        let given = args.iter().any(|arg| matches!(arg.ty, Ty::Tensor));
        receiver.exact().is_some() && (of_any || is_param || given && !takes_tensor(name))
    }

    /// Judges a method whose receiver is of one of the classes `mask`.
    fn method_of_class(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Val,
        rows: &[&Row],
        mask: u32,
        args: &[Val],
        what: &str,
    ) -> Val {
        let (name, span) = (&*unraw(&call.method), call.method.span());
        if !self.ask_class(receiver, mask, Asked::Class, what, span) {
            let why = "the type of its receiver is not known";
            self.found(what, span, why, Remedy::Move);
        }
        let exact = self.exact_call(call, receiver, args);
        if rows.is_empty() {
            return self.op(name, args, what, span);
        }
        let alike = rows
            .iter()
            .all(|row| is_same_result(&row.gives, &rows[0].gives));
        let mut val = match alike && mask & class::TENSOR == 0 {
            true => self.method_by(rows[0], receiver, name, args, what, span),
            false => self.one_of(rows, receiver, mask, args, what, span),
        };
        // rustc knows more about the type than the macro.
        let settled = matches!(
            val.ty,
            Ty::Scalar | Ty::Text | Ty::Tensor | Ty::Key | Ty::Arithmetic(_)
        );
        if let (Some(exact), false) = (exact, settled) {
            let iterates = matches!(&val.ty, Ty::Iter(item) if matches!(item.ty, Ty::Opaque));
            let (rt, e) = (self.rt, &exact.tokens);
            val = if ITERATES.contains(&name) {
                Val::iter(self.item_of(Val::unknown(), e))
            } else if iterates {
                let item = Probe {
                    tokens: ours!((&&#rt::Probe(&#e)).item()),
                    fidelity: Fidelity::Soft,
                    depth: 9,
                };
                Val::iter(Val::unknown().with(Some(item)))
            } else if matches!(val.ty, Ty::Iter(_)) {
                val
            } else {
                Val::unknown().with(Some(exact))
            };
        }
        val
    }

    /// Judges `tree.map(&mut |leaf| ..)`.
    fn mapped_tree(&mut self, tree: &Val, f: &Val, what: &str, span: Span) -> Val {
        if !self.ask_tree(tree, what, span) {
            let why = "the type of its receiver is not known";
            return self.found(what, span, why, Remedy::Promise);
        }
        let leaf = self.tensor();
        self.apply(f, &[leaf], what, span);
        self.mapped(tree)
    }

    /// Returns a tree of the same type as one that may be behind a reference.
    pub(super) fn mapped(&self, tree: &Val) -> Val {
        let rt = self.rt;
        let mapped = tree.tokens().map(|e| ours!((&&&#rt::Probe(&#e)).mapped()));
        match tree.ty {
            Ty::Tensor => self.tensor(),
            // The value may not be a tree, and then the probe has another type.
            _ => Val::unknown().with(mapped.and_then(Probe::exact).map(|probe| Probe {
                fidelity: Fidelity::Soft,
                ..probe
            })),
        }
    }

    /// Judges a method that several types have.
    fn one_of(
        &mut self,
        rows: &[&Row],
        receiver: &Val,
        mask: u32,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        for row in rows {
            self.method_by(row, receiver, "", args, what, span);
        }
        if mask & class::TENSOR != 0 {
            for arg in args {
                self.known(arg, what, span, "the type of an argument is not known");
            }
        }
        let arithmetic = mask & !(class::SCALAR | class::TENSOR) == 0
            && rows
                .iter()
                .all(|row| matches!(row.gives, MethodResult::Scalar));
        match arithmetic {
            true => Ty::Arithmetic(receiver.tokens().map(|e| vec![e.clone()])).into(),
            false => Val::unknown(),
        }
    }

    /// Returns the call as an expression that is valid outside of the body.
    fn exact_call(&self, call: &ExprMethodCall, receiver: &Val, args: &[Val]) -> Option<Probe> {
        let receiver = receiver.exact()?;
        let args: Option<Vec<&TokenStream>> = args.iter().map(Val::exact).collect();
        let (args, method, turbofish) = (args?, &call.method, &call.turbofish);
        // Outside of the body the context that determines the type is missing.
        let is_inferred = turbofish.is_none() && args.is_empty() && is_inferred(&unraw(method));
        // A turbofish may name types.
        let hides = self.own.items || turbofish.as_ref().is_some_and(|t| self.is_hidden(t));
        if hides || is_inferred {
            return None;
        }
        Probe::exact(ours!((#receiver).#method #turbofish(#(#args),*)))
    }

    /// Judges a method that is not in the tables, and so must be traced.
    fn traced_method(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Val,
        name: &str,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        self.passed_on(&call.args, args, what, span);
        if name.ends_with("_vmap") {
            self.axes(args.first(), what, span);
        }
        let object = |e: &TokenStream| self.objects.contains(&e.to_string());
        if receiver.tokens().is_some_and(object) {
            let why = "the type of a trait object is known at each call only (take a type parameter instead)";
            return self.found(what, span, why, Remedy::Promise);
        }
        let chosen = |e: &TokenStream| self.chosen.contains_key(&e.to_string());
        let is_chosen = receiver.tokens().is_some_and(chosen);
        if self.note_method(call, receiver, traced_name(name), what, span) {
            let probe = self.exact_call(call, receiver, args);
            return self.of_traced(name, probe);
        }
        if is_chosen {
            let why = "it is a method of a type parameter, which is not followed into a macro";
            return self.found(what, span, why, Remedy::Promise);
        }
        if !self.ask_method(receiver, traced_name(name), what, span) {
            return self.found(
                what,
                span,
                "the type of its receiver is not known",
                Remedy::Trace,
            );
        }
        let probe = self.exact_call(call, receiver, args);
        self.of_traced(name, probe)
    }

    /// Returns whether the type of a value is a type parameter, or `Self` in a trait.
    fn is_parameter(&self, val: &Val) -> bool {
        val.tokens()
            .map(TokenStream::to_string)
            .is_some_and(|e| self.chosen.contains_key(&e) || self.of_trait.as_ref() == Some(&e))
    }

    /// Judges the arguments of a traced function.
    pub(super) fn passed_on<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        args: &[Val],
        what: &str,
        span: Span,
    ) {
        exprs
            .into_iter()
            .for_each(|expr| self.refuse_inferred(expr));
        for arg in args {
            self.moved(arg, what, span);
        }
    }

    /// Requires that a value of one of the classes `of` is of one of the classes `having`, which
    /// have a method.
    fn has(&mut self, val: &Val, of: u32, having: u32, what: &str, span: Span) {
        if of & !having != 0 {
            let why = "the standard library may not have this method for the type of its receiver";
            match val.at {
                Some(at) => self.ask_at(val, at, (Asked::Class, of & having), what, span, why),
                None => {
                    self.found(what, span, why, Remedy::Move);
                }
            }
        }
    }

    /// Judges an op on a tensor.
    fn op(&mut self, name: &str, args: &[Val], what: &str, span: Span) -> Val {
        for arg in args {
            self.known(arg, what, span, "the type of an argument is not known");
        }
        match gives_list(name) {
            true => Val::list(self.tensor()),
            false => self.tensor(),
        }
    }

    #[allow(clippy::too_many_arguments)] // all of these are parts of one call
    fn method_of_arithmetic(
        &mut self,
        receiver: &Val,
        operands: &Option<Vec<TokenStream>>,
        name: &str,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        let scalar = methods(name).find(|row| row.of & class::SCALAR != 0);
        let tensor = methods(name).find(|row| row.of & class::TENSOR != 0);
        let op = is_op_method(name);
        match (scalar, tensor, op) {
            (Some(row), _, true) | (Some(row), Some(_), _) => {
                let of = class::SCALAR | class::TENSOR;
                self.has(receiver, of, row.of | class::TENSOR, what, span);
                for arg in args {
                    self.known(arg, what, span, "the type of an argument is not known");
                }
                receiver.clone()
            }
            (None, _, true) => {
                self.ask_any_tensor(receiver, operands, what, span);
                self.op(name, args, what, span)
            }
            (None, Some(row), false) => {
                self.ask_any_tensor(receiver, operands, what, span);
                let tensor = self.tensor();
                self.method_by(row, &tensor, name, args, what, span)
            }
            (Some(row), None, false) => {
                for e in operands.iter().flatten() {
                    let val = Val::unknown().with(Probe::exact(e.clone()));
                    self.ask_class(&val, class::SCALAR, Asked::Class, what, span);
                }
                let of = match operands {
                    Some(_) => class::SCALAR,
                    None => class::SCALAR | class::TENSOR,
                };
                self.has(receiver, of, row.of, what, span);
                self.method_by(row, &Ty::Scalar.into(), name, args, what, span)
            }
            (None, None, false) => self.found(
                what,
                span,
                "neither a number nor a tensor has such a method",
                Remedy::Move,
            ),
        }
    }

    fn method_by(
        &mut self,
        row: &Row,
        receiver: &Val,
        name: &str,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        match row.does {
            Effect::Computes => {}
            Effect::UsesElements => {
                self.known(
                    receiver,
                    what,
                    span,
                    "the type of what it holds is not known",
                );
            }
            Effect::UsesKeys => {
                let why = "the type of its keys is not known";
                let known = match &receiver.ty {
                    Ty::Map(k, _) => {
                        self.known(k, what, span, why);
                        true
                    }
                    _ => self.ask_class(receiver, class::KNOWN, Asked::Keys, what, span),
                };
                if !known {
                    self.found(what, span, why, Remedy::Move);
                }
            }
            Effect::Reads => {
                let why = match row.of {
                    class::KEY => "it reads the words of a key",
                    _ => "it reads the values of a tensor",
                };
                let why = self.reason(what, span, why, Remedy::Read);
                self.reads.get_or_insert(Impurity {
                    why: why.clone(),
                    span,
                });
                self.impure.get_or_insert(Impurity { why, span });
                return Val::unknown();
            }
        }
        self.method_of(receiver, name, row.gives, row.takes, args, what, span)
    }

    /// Judges the arguments of a method, and returns its result.
    #[allow(clippy::too_many_arguments)] // all of these are parts of one call
    pub(super) fn method_of(
        &mut self,
        receiver: &Val,
        name: &str,
        gives: MethodResult,
        takes: ArgumentUse,
        args: &[Val],
        what: &str,
        span: Span,
    ) -> Val {
        let elem = match receiver.ty {
            Ty::Map(..) | Ty::Tuple(_) => Val::unknown(),
            _ => self.held(receiver),
        };
        let elem = match MOVERS.contains(&name) {
            true => elem,
            false => behind(&elem),
        };
        let mut result = Val::unknown();
        let mut in_arg = None;
        for (i, arg) in args.iter().enumerate() {
            let given: &[Val] = match takes {
                ArgumentUse::Each | ArgumentUse::Key => std::slice::from_ref(&elem),
                ArgumentUse::Two => &[elem.clone(), elem.clone()],
                // `scan` passes a mutable reference to its state.
                ArgumentUse::Fold if name == "scan" => &[Val::unknown(), elem.clone()],
                ArgumentUse::Fold => &[args[0].clone(), elem.clone()],
                ArgumentUse::Values
                | ArgumentUse::Moves
                | ArgumentUse::Iterates
                | ArgumentUse::Thunk => &[],
            };
            match &arg.ty {
                _ if arg.is_function() => {
                    // The first closure of `map_or_else` supplies the default and takes no
                    // argument.
                    let thunk = name == "map_or_else" && i == 0;
                    let given = if thunk { &[] } else { given };
                    let value = self.apply(arg, given, what, span);
                    result.unify(&value);
                }
                _ if takes == ArgumentUse::Moves => self.moved(arg, what, span),
                _ if takes == ArgumentUse::Iterates => in_arg = Some(self.items(arg, what, span)),
                // Accumulators and defaults are moved.
                _ if i == 0 && (takes == ArgumentUse::Fold || name == "map_or") => {
                    result = arg.clone()
                }
                _ => self.known(arg, what, span, "the type of an argument is not known"),
            }
        }
        if takes == ArgumentUse::Key {
            self.known(&result, what, span, "the type of the keys is not known");
        }
        let given = MethodInputs {
            receiver,
            elem: &elem,
            args,
            result: &result,
            in_arg,
            what,
            span,
            by_key: name.contains("key"),
            counts: ["len", "dim", "rank", "numel", "count", "batch_dims"].contains(&name),
            clones: name == "clone" || name == "to_owned",
        };
        self.given(&gives, &given)
    }

    fn given(&mut self, gives: &MethodResult, of: &MethodInputs<'_>) -> Val {
        match gives {
            MethodResult::Same if of.clones && matches!(of.receiver.ty, Ty::Tensor) => {
                self.tensor()
            }
            MethodResult::Same => {
                let mut val = behind(of.receiver);
                if let Some(probe) = &mut val.probe {
                    probe.depth = 9;
                }
                val
            }
            MethodResult::Scalar if of.counts => self.scalar(ours!(usize)),
            MethodResult::Scalar => Ty::Scalar.into(),
            MethodResult::Text => Ty::Text.into(),
            MethodResult::Tensor => self.tensor(),
            MethodResult::Key => Ty::Key.into(),
            MethodResult::Nothing => Val::nothing(),
            MethodResult::Elem => of.elem.clone(),
            MethodResult::Arg(i) => of.args.get(*i).map_or_else(Val::unknown, behind),
            MethodResult::Result => Val {
                at: None,
                ..of.result.clone()
            },
            MethodResult::InResult => self.items(of.result, of.what, of.span),
            MethodResult::InArg => match (&of.in_arg, of.args.last()) {
                (Some(item), _) => item.clone(),
                (None, Some(arg)) => self.held(arg),
                (None, None) => Val::unknown(),
            },
            MethodResult::InElem => self.items(of.elem, of.what, of.span),
            MethodResult::Opt(gives) => Val::option(self.given(gives, of)),
            MethodResult::List(gives) => Val::list(self.given(gives, of)),
            MethodResult::Iter(gives) => Val::iter(self.given(gives, of)),
            MethodResult::Pair(MethodResult::Part, MethodResult::Part) => match &of.receiver.ty {
                Ty::Map(k, v) => Ty::Tuple(vec![(**k).clone(), (**v).clone()]).into(),
                _ => Ty::Tuple(vec![Val::unknown(), Val::unknown()]).into(),
            },
            // `enumerate` yields the index of an element.
            MethodResult::Pair(MethodResult::Scalar, MethodResult::Elem) => {
                let parts = vec![self.scalar(ours!(usize)), of.elem.clone()];
                Ty::Tuple(parts).into()
            }
            MethodResult::Pair(a, b) => {
                let parts = vec![self.given(a, of), self.given(b, of)];
                Ty::Tuple(parts).into()
            }
            MethodResult::Part => match &of.receiver.ty {
                Ty::Map(k, _) if of.by_key => (**k).clone(),
                Ty::Map(_, v) => (**v).clone(),
                _ => Val::unknown(),
            },
            MethodResult::Inferred => Val::unknown(),
        }
    }

    /// Rejects a conversion to an unknown type, whose conversion the user may implement.
    pub(super) fn refuse_inferred(&mut self, expr: &Expr) {
        if let Some(call) = conversion(expr)
            && call.turbofish.is_none()
        {
            let what = format!(".{}()", call.method);
            self.found(
                &what,
                call.method.span(),
                "its result type is not known",
                Remedy::Move,
            );
        }
    }

    /// Records a conversion to a type of the standard library or of this library, if `expr` is one.
    pub(super) fn expect_conversion(&mut self, ty: &Type, expr: &Expr) {
        if !may_be_of_user(ty) {
            self.expect(expr);
        }
    }

    pub(super) fn expect(&mut self, expr: &Expr) {
        if let Some(call) = conversion(expr) {
            let at = (unraw(&call.method), position(call.method.span()));
            self.expected.insert(at);
        }
    }

    /// Records conversions among the arguments of a function of the standard library or of this
    /// library.
    pub(super) fn expect_conversions<'e>(&mut self, args: impl IntoIterator<Item = &'e Expr>) {
        for arg in args {
            self.expect(match arg {
                Expr::Reference(r) => &r.expr,
                arg => arg,
            });
        }
    }

    /// Records a conversion that is the value of a function's body.
    pub(super) fn expect_at_end(&mut self, output: &syn::ReturnType, block: &syn::Block) {
        if let (syn::ReturnType::Type(_, ty), Some(syn::Stmt::Expr(end, None))) =
            (output, block.stmts.last())
        {
            self.expect_conversion(ty, end);
        }
    }

    /// Asks at the place of a conversion whether its result is of a type of the standard library or
    /// of this library.
    pub(super) fn ask_conversion(&mut self, expr: &Expr, at: CallPosition) {
        if let Some(call) = conversion(expr) {
            self.expect(expr);
            let (what, span) = (format!(".{}()", call.method), call.method.span());
            // Options, results, tuples and arrays convert to their parts.
            let mask = class::SCALAR | class::TEXT | class::GROWING | class::MAP | class::HASH;
            let why = "its result type is not known";
            self.ask_at(&Val::unknown(), at, (Asked::Keys, mask), &what, span, why);
        }
    }

    fn refuse_user(&mut self, ty: &Type, what: &str, span: Span) {
        if may_be_of_user(ty) {
            self.found(what, span, "its result type is not known", Remedy::Move);
        }
    }
}

/// Returns whether a type may be user-defined, and so have user-defined conversions.
///
/// Options, results and tuples convert to their parts.
pub(super) fn may_be_of_user(ty: &Type) -> bool {
    let last = match ty {
        Type::Infer(_) => return false,
        Type::Tuple(t) => return t.elems.iter().any(may_be_of_user),
        Type::Path(p) => p.path.segments.last(),
        _ => None,
    };
    let made = last.is_some_and(|last| MADE.contains(&&*last.ident.to_string()));
    let part = last.filter(|last| last.ident == "Option" || last.ident == "Result");
    let part = part.and_then(|last| match &last.arguments {
        PathArguments::AngleBracketed(args) => args.args.first(),
        _ => None,
    });
    match part {
        Some(GenericArgument::Type(part)) => may_be_of_user(part),
        _ => !made && matches!(written(ty), Ty::Opaque),
    }
}

/// Inputs for the result of a method.
struct MethodInputs<'a> {
    receiver: &'a Val,
    elem: &'a Val,
    args: &'a [Val],
    /// Result of the closures among the arguments.
    result: &'a Val,
    /// Item of the last argument, if the method iterates over it.
    in_arg: Option<Val>,
    /// The call, for messages.
    what: &'a str,
    span: Span,
    /// True if the method returns keys of a map.
    by_key: bool,
    /// True if the result is a `usize`.
    counts: bool,
    /// True if the result is an owned copy.
    clones: bool,
}

/// Returns the call of a method such as `collect` or `into` that computes the value of an expression.
///
/// The result type of such a method is inferred.
pub(crate) fn conversion(expr: &Expr) -> Option<&ExprMethodCall> {
    match expr {
        // Tensors have methods of these names with arguments.
        Expr::MethodCall(call) if call.args.is_empty() && is_inferred(&unraw(&call.method)) => {
            Some(call)
        }
        Expr::MethodCall(call) if ["unwrap", "expect"].contains(&&*unraw(&call.method)) => {
            conversion(&call.receiver).filter(|inner| inner.span().start() == call.span().start())
        }
        Expr::Paren(e) => conversion(&e.expr),
        Expr::Try(e) => conversion(&e.expr),
        _ => None,
    }
}

/// Returns whether two methods have the same result, as far as the macro distinguishes types.
fn is_same_result(a: &MethodResult, b: &MethodResult) -> bool {
    format!("{a:?}") == format!("{b:?}")
}
