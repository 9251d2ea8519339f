//! Lowers indices of tensors: `x.i((0, 1..3, ..))`, `x.set(0, &y)` and `x.add_at(0, &y)`.

use super::syntax::peel;
use crate::lower::{Abort, Cx, Expected, Host, LowerResult, Value, host};
use gradloom_ir::indexing::{Argument, Emit, Entry, Indexing, Write};
use gradloom_ir::{Attr, Fault, Op, OpError, Static, StaticArg, StaticKind, Var};
use proc_macro2::{Ident, Span};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Expr, RangeLimits};

/// Methods that take an index of their receiver, with what they write.
const METHODS: [(&str, Option<Write>); 3] = [
    ("i", None),
    ("set", Some(Write::Set)),
    ("add_at", Some(Write::Add)),
];

/// Returns whether a call has the form of a method that takes an index.
pub(in crate::lower) fn takes_index(call: &syn::ExprMethodCall) -> bool {
    let n_args = METHODS.iter().find(|(name, _)| call.method == name);
    n_args.is_some_and(|(_, how)| call.args.len() == 1 + usize::from(how.is_some()))
}

/// Number in an index.
#[derive(Clone)]
enum Number {
    Known(i64),
    /// Local of the emitted code, an `i64`.
    Local(Ident),
}

/// What an entry of an index selects.
enum Selected {
    Number(Number),
    Range {
        start: Option<Number>,
        stop: Option<Number>,
        step: i64,
    },
    Tensor(Var),
    /// An entry without values.
    Plain(Entry),
}

/// Emits the ops of an index.
struct Emitter<'a, 'b> {
    cx: &'a mut Cx<'b>,
    call: &'a syn::ExprMethodCall,
    called: &'static str,
    entries: &'a [(&'a Expr, Selected)],
}

impl Cx<'_> {
    /// Lowers `x.i(index)`, `x.set(index, updates)` or `x.add_at(index, updates)`.
    pub(in crate::lower) fn indexed(
        &mut self,
        receiver: Value,
        call: &syn::ExprMethodCall,
    ) -> LowerResult<Value> {
        let method = METHODS.iter().find(|(name, _)| call.method == name);
        let &(called, how) = method.expect("`takes_index` has found it");
        let span = call.method.span();
        let x = self.tensor(receiver, None)?;
        let written: Vec<&Expr> = match peel(&call.args[0]) {
            Expr::Tuple(entries) => entries.elems.iter().collect(),
            entry => vec![entry],
        };
        let mut entries = Vec::new();
        for entry in written {
            entries.push((entry, self.entry(entry)?));
        }
        let kinds: Vec<Entry> = entries.iter().map(|(_, of)| of.kind()).collect();
        let rank = self.builder.b.aval(x).shape.dims().map(<[_]>::len);
        let of = match Indexing::new(&kinds, rank) {
            Ok(Some(of)) => of,
            Ok(None) => return self.recorded("`Rest` in an index of unknown rank", span),
            Err(fault) => {
                let args = vec![self.builder.b.aval(x).clone()];
                let message = self.refused(called, fault, args, x);
                self.diagnostics.errors.push(&call.args[0], message);
                return Err(Abort::Error);
            }
        };
        let updates = match how {
            None => None,
            Some(how) => {
                let updates = self.eval(&call.args[1], &Expected::tensor())?;
                Some((how, self.tensor(updates, Some(x))?))
            }
        };
        let mut e = Emitter {
            cx: self,
            call,
            called,
            entries: &entries,
        };
        let var = match updates {
            None => of.read(&mut e, &x)?,
            Some((how, updates)) => of.write(&mut e, &x, &updates, how)?,
        };
        Ok(Value::Tensor { var, by_ref: false })
    }

    /// Lowers an entry of an index.
    fn entry(&mut self, expr: &Expr) -> LowerResult<Selected> {
        match peel(expr) {
            Expr::Range(range) => self.index_range(range, 1),
            Expr::MethodCall(by) if by.method == "by" && by.args.len() == 1 => {
                let step = host::literal(&by.args[0]).and_then(|step| step.int());
                match (peel(&by.receiver), step) {
                    (Expr::Range(range), Some(step)) => self.index_range(range, step),
                    _ => self.recorded("a step that is not written out", by.method.span()),
                }
            }
            Expr::Path(path) if self.is_marker(path, "Rest") => Ok(Selected::Plain(Entry::Rest)),
            Expr::Path(path) if self.is_marker(path, "NewAxis") => {
                Ok(Selected::Plain(Entry::NewAxis))
            }
            expr => match self.eval(expr, &Expected::tensor())? {
                Value::Tensor { var, .. } => Ok(Selected::Tensor(var)),
                Value::Host(host) => Ok(Selected::Number(self.index_number(host, expr)?)),
                Value::Poison => Err(Abort::Error),
                _ => self.recorded("an index that is not written out", expr.span()),
            },
        }
    }

    /// Returns whether a path names a unit struct of the library.
    fn is_marker(&self, path: &syn::ExprPath, name: &str) -> bool {
        let last = path.path.segments.last();
        last.is_some_and(|last| last.ident == name) && self.names.lookup(name).is_none()
    }

    fn index_range(&mut self, range: &syn::ExprRange, step: i64) -> LowerResult<Selected> {
        if range.start.is_none() && range.end.is_none() && step == 1 {
            return Ok(Selected::Plain(Entry::Whole));
        }
        let start = match &range.start {
            Some(start) => Some(self.index_end(start)?),
            None => None,
        };
        let stop = match &range.end {
            Some(stop) => {
                let stop = self.index_end(stop)?;
                Some(match range.limits {
                    RangeLimits::HalfOpen(_) => stop,
                    RangeLimits::Closed(_) => self.after(stop),
                })
            }
            None => None,
        };
        Ok(Selected::Range { start, stop, step })
    }

    fn index_end(&mut self, expr: &Expr) -> LowerResult<Number> {
        match self.eval(expr, &Expected::tensor())? {
            Value::Host(host) => self.index_number(host, expr),
            Value::Poison => Err(Abort::Error),
            _ => self.recorded("the end of a range that is not a number", expr.span()),
        }
    }

    /// Returns a host value as a number; one that is not a literal is bound to a local.
    fn index_number(&mut self, host: Host, expr: &Expr) -> LowerResult<Number> {
        if let Some(known) = host::literal(&host.expr) {
            return match known.int() {
                Some(n) => Ok(Number::Known(n)),
                // rustc reports it.
                None => self.recorded("an index that is not an integer", expr.span()),
            };
        }
        if !host.is_number() {
            return self.recorded("an index that is not known to be a number", expr.span());
        }
        let ident = self.host_ident(&Ident::new("index", Span::mixed_site()));
        let (rt, value) = (&self.rt, &host.expr);
        let tokens = quote!(let #ident: i64 = #rt::index_number(#value););
        self.builder.push_host(host.reads, tokens);
        Ok(Number::Local(ident))
    }

    /// Returns the end, which is excluded, of a range up to and with an index.
    fn after(&mut self, last: Number) -> Number {
        match last {
            Number::Known(-1) => Number::Known(i64::MAX),
            Number::Known(n) => Number::Known(n.saturating_add(1)),
            Number::Local(last) => {
                let ident = self.host_ident(&Ident::new("stop", Span::mixed_site()));
                let rt = &self.rt;
                let tokens = quote!(let #ident: i64 = #rt::index_after(#last););
                self.builder.push_host(Vec::new(), tokens);
                Number::Local(ident)
            }
        }
    }

    /// Returns the message for an index of `x` that is refused.
    fn refused(
        &self,
        called: &'static str,
        fault: Fault,
        args: Vec<gradloom_ir::Aval>,
        x: Var,
    ) -> String {
        let error = OpError {
            op: Op::SelectIndex,
            called,
            args,
            fault,
        };
        error.message(&[self.is_what(x)])
    }
}

impl Selected {
    fn kind(&self) -> Entry {
        match self {
            Selected::Number(_) => Entry::Number,
            Selected::Range { .. } => Entry::Range,
            Selected::Tensor(_) => Entry::Tensor,
            Selected::Plain(entry) => *entry,
        }
    }
}

impl Emitter<'_, '_> {
    /// Returns start, stop and step of an entry, as `slice` takes them.
    fn range(&mut self, entry: Option<usize>) -> [Number; 3] {
        let known = [0, i64::MAX, 1].map(Number::Known);
        match entry.map(|entry| &self.entries[entry].1) {
            Some(Selected::Number(n)) => {
                let stop = self.cx.after(n.clone());
                [n.clone(), stop, Number::Known(1)]
            }
            Some(Selected::Range { start, stop, step }) => {
                let [first, last, _] = known;
                let first = if *step < 0 { Number::Known(-1) } else { first };
                [
                    start.clone().unwrap_or(first),
                    stop.clone().unwrap_or(last),
                    Number::Known(*step),
                ]
            }
            _ => known,
        }
    }

    /// Returns a static argument with a number of each range of a slice.
    fn ranges(&mut self, entries: &[Option<usize>], part: usize, arg: StaticArg) -> Attr {
        let numbers = entries.iter().map(|entry| {
            let [start, stop, step] = self.range(*entry);
            [start, stop, step].into_iter().nth(part).expect("three")
        });
        let numbers: Vec<Number> = numbers.collect();
        let known = numbers.iter().map(|n| match n {
            Number::Known(n) => Some(*n),
            Number::Local(_) => None,
        });
        if let Some(known) = known.collect::<Option<Vec<i64>>>() {
            return self.cx.builder.b.attr(known);
        }
        let numbers = numbers.iter().map(|n| match n {
            Number::Known(n) => quote!(#n),
            Number::Local(ident) => quote!(#ident),
        });
        self.host(syn::parse_quote!([#(#numbers),*]), arg)
    }

    fn host(&mut self, expr: Expr, arg: StaticArg) -> Attr {
        let host = Host {
            expr,
            reads: Vec::new(),
            content: crate::lower::Content::Plain,
        };
        self.cx.statik(host, arg, self.call.method.span())
    }

    fn value(&mut self, argument: &Argument<'_>) -> Attr {
        match argument {
            Argument::Axis(axis) => self.cx.builder.b.attr(*axis as i64),
            Argument::UnitAxes(axes) => self.cx.builder.b.attr(axes.to_vec()),
            Argument::Flag(on) => self.cx.builder.b.attr(*on),
            Argument::Number(entry) => match self.range(Some(*entry)) {
                [Number::Known(n), ..] => self.cx.builder.b.attr(Static::Int(n)),
                [Number::Local(ident), ..] => {
                    let arg = StaticKind::Index.named("index");
                    self.host(syn::parse_quote!(#ident), arg)
                }
            },
            Argument::Starts(entries) => {
                self.ranges(entries, 0, StaticKind::Starts.named("starts"))
            }
            Argument::Stops(entries) => self.ranges(entries, 1, StaticKind::Stops.named("stops")),
            Argument::Steps(entries) => self.ranges(entries, 2, StaticKind::Steps.named("steps")),
        }
    }

    /// Returns the entry that caused a fault of an op with these static arguments.
    fn cause(&self, fault: &Fault, statics: &[Argument<'_>]) -> Option<usize> {
        match (fault, statics.first()?) {
            (Fault::Slice { axis, .. }, Argument::Starts(entries)) => *entries.get(*axis)?,
            (Fault::Step { .. }, Argument::Starts(entries)) => {
                let is_zero = |entry: &&usize| {
                    matches!(self.entries[**entry].1, Selected::Range { step: 0, .. })
                };
                entries.iter().flatten().find(is_zero).copied()
            }
            (Fault::Index { .. }, _) => match statics.get(1)? {
                Argument::Number(entry) => Some(*entry),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Emit for Emitter<'_, '_> {
    type Value = Var;
    type Error = Abort;

    fn emit(
        &mut self,
        op: Op,
        statics: &[Argument<'_>],
        data: &[&Var],
        likes: &[&Var],
    ) -> LowerResult<Var> {
        let attrs: Vec<Attr> = statics.iter().map(|arg| self.value(arg)).collect();
        let args: Vec<Var> = data.iter().chain(likes).map(|var| **var).collect();
        let span = self.call.method.span();
        for arg in &args {
            self.cx.is_tensor(*arg, span)?;
        }
        match self.cx.builder.b.try_emit(op, &attrs, &args, 1) {
            Ok(outs) => {
                self.cx.builder.spans.insert(outs[0], span);
                Ok(outs[0])
            }
            Err(error) => {
                let error = OpError {
                    called: self.called,
                    ..error
                };
                match self.cause(&error.fault, statics) {
                    Some(entry) => {
                        let (at, _) = &self.entries[entry];
                        let message = error.message(&[self.cx.is_what(args[0])]);
                        self.cx.diagnostics.errors.push(at, message);
                    }
                    None => self.cx.explain(&error, &attrs, &args, span),
                }
                Err(Abort::Error)
            }
        }
    }

    fn tensor(&mut self, entry: usize) -> LowerResult<Var> {
        match self.entries[entry].1 {
            Selected::Tensor(var) => Ok(var),
            _ => unreachable!("the entry is a tensor"),
        }
    }

    fn merge(&mut self, _: &Var, _: &[(usize, usize)]) -> LowerResult<(Var, usize, Var)> {
        let span = self.call.method.span();
        self.cx.recorded("an index of several tensors", span)
    }

    fn split(&mut self, merged: &Var, _: &Var, _: &[(usize, usize)]) -> LowerResult<Var> {
        Ok(*merged)
    }
}
