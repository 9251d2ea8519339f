//! The body becomes a program.
//!
//! A straight-line body is evaluated symbolically: each local is a [`Value`], and each op on a tensor appends an
//! equation. What is not about tensors stays Rust: host statements keep their place between the equations, and a
//! host value that an op takes as a static argument is bound once, where it stands.
//!
//! What is valid Rust but not straight-line stops the lowering with [`Stop::Recorded`]: the companions then run the
//! user's function and record what it does.

mod assemble;
mod assign;
mod blocks;
mod branch;
mod call;
pub(crate) mod checkpoint;
mod closure;
mod control;
mod exit;
mod explain;
mod expr;
mod fixed;
mod host;
mod iterate;
mod join;
mod lens;
mod loops;
mod lowered;
mod macros;
mod names;
mod operator;
mod pattern;
mod returns;
mod slots;
mod stmt;
mod syntax;
mod value;

pub(crate) use blocks::{Declaration, Flowing, HostCode, Piece, Store};
pub(crate) use lowered::{Call, CallArg, Callee, HostStmt, Input, Lowered, Source};
use value::{Host, Local, Place, Value, Want};

use crate::parse::{Func, Kind, OutShape, text, unraw};
use crate::report::Errors;
use gradloom_ir::program::Keep;
use gradloom_ir::{Attr, Aval, Builder, Dim, Op, SecondaryMap, Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use syn::spanned::Spanned;

/// What the body of a function became.
#[derive(Debug)]
pub(crate) enum Body {
    /// A program, and what belongs to it.
    Straight(Box<Lowered>),
    /// Programs under host control flow.
    Flow(Box<Flowing>),
    /// The body has to be run to be known, for the reason given.
    Recorded(String),
}

/// Why lowering stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error has been reported.
    Error,
    /// The body has to be run to be known.
    Recorded(String),
    /// The arms of a branch give tensors and parts of trees: all of them are to be read as tensors.
    Mixed,
}

type R<T> = Result<T, Stop>;

#[derive(Clone)]
struct Cx<'a> {
    func: &'a Func,
    /// The body as the user wrote it, for messages.
    source: &'a syn::Block,
    errors: Errors,
    b: Builder,
    scopes: Vec<BTreeMap<String, Local>>,
    inputs: Vec<Input>,
    /// The variables of the places that ops read, by their text.
    leaves: BTreeMap<String, Var>,
    hosts: Vec<HostStmt>,
    statics: BTreeMap<Attr, Ident>,
    static_hosts: BTreeMap<Attr, usize>,
    input_hosts: SecondaryMap<Var, usize>,
    calls: BTreeMap<Attr, Call>,
    spans: SecondaryMap<Var, Span>,
    idents: BTreeMap<String, Ident>,
    /// What the user says about keeping values for reverse mode.
    pins: Vec<(Var, Keep)>,
    /// Names of host locals that the emitted code has so far.
    host_names: names::Names,
    /// The host locals that are mutable.
    host_mut: BTreeSet<String>,
    /// The variables that host code names as they are named already, or not.
    spoken_of: BTreeSet<Var>,
    /// What is known of host values that are numbers.
    host_dims: BTreeMap<String, Dim>,
    /// Whether a place stands for a host value, because a static argument is being read.
    host_places: bool,
    /// The pieces so far, where the body may have control flow.
    flow: Option<blocks::Pieces>,
    krate: TokenStream,
}

/// Lowers the body of `func`. Errors are collected; after one the result is [`Body::Recorded`].
pub(crate) fn lower(
    func: &Func,
    block: &syn::Block,
    private: &TokenStream,
    errors: &mut Errors,
) -> Body {
    if let Some(p) = func.params.iter().find(|p| p.pattern) {
        return Body::Recorded(format!("parameter {} is a pattern", p.name));
    }
    if !func.output.shape.is_known() {
        return Body::Recorded(format!("it returns `{}`", text(&func.output.ty)));
    }
    let mut cx = Cx::new(func, block, private);
    match cx.straight(block) {
        Err(Stop::Recorded(_)) => {}
        outs => return cx.finish(outs, errors),
    }
    // The body is not straight-line: the pieces between its branches and loops are.
    let mut cx = Cx::new(func, block, private);
    cx.flow = Some(blocks::Pieces::new());
    match cx.flow(block) {
        Err(stop) => {
            if let (Stop::Recorded(reason), true, Some(attr)) =
                (&stop, cx.errors.is_empty(), checkpoint::find(block))
            {
                let message = format!(
                    "nothing is kept for a loop of a body that is recorded at run time, as this one is: {reason}"
                );
                errors.push(&attr, message);
            }
            cx.finish(Err(stop), errors)
        }
        Ok(()) if !cx.errors.is_empty() => cx.finish(Err(Stop::Error), errors),
        Ok(()) => Body::Flow(Box::new(cx.pieces())),
    }
}

impl<'a> Cx<'a> {
    fn new(func: &'a Func, source: &'a syn::Block, private: &TokenStream) -> Cx<'a> {
        let mut cx = Cx {
            func,
            source,
            errors: Errors::default(),
            b: Builder::new(),
            scopes: vec![BTreeMap::new()],
            inputs: Vec::new(),
            leaves: BTreeMap::new(),
            hosts: Vec::new(),
            statics: BTreeMap::new(),
            static_hosts: BTreeMap::new(),
            input_hosts: SecondaryMap::new(),
            calls: BTreeMap::new(),
            spans: SecondaryMap::new(),
            idents: BTreeMap::new(),
            pins: Vec::new(),
            host_names: names::Names::default(),
            host_mut: BTreeSet::new(),
            spoken_of: BTreeSet::new(),
            host_dims: BTreeMap::new(),
            host_places: false,
            flow: None,
            krate: private.clone(),
        };
        cx.params();
        cx
    }

    /// The results of a straight-line body.
    fn straight(&mut self, block: &syn::Block) -> R<Vec<Var>> {
        let shape = &self.func.output.shape;
        let want = Want {
            shape: shape.clone(),
            count: None,
        };
        let value = self.body(block, &want)?;
        let mut outs = Vec::new();
        self.outs(value, shape, &mut outs)?;
        self.check_returns(&outs, returns::tail(block));
        for out in &outs {
            if self.b.name_of(*out).is_none() {
                self.b.name(*out, "y");
            }
        }
        Ok(outs)
    }

    fn finish(self, outs: R<Vec<Var>>, errors: &mut Errors) -> Body {
        let body = match outs {
            Ok(_) if !self.errors.is_empty() => Body::Recorded("its body has errors".to_owned()),
            Err(Stop::Error) => Body::Recorded("its body has errors".to_owned()),
            Err(Stop::Recorded(reason)) => Body::Recorded(reason),
            Err(Stop::Mixed) => {
                Body::Recorded("its branches give values of different kinds".to_owned())
            }
            Ok(outs) => {
                let params = self.inputs.iter().map(|i| i.var).collect();
                let mut program = self.b.finish(params, outs);
                for (var, keep) in self.pins {
                    program.pins.insert(var, keep);
                }
                Body::Straight(Box::new(Lowered {
                    n_eqns: program.eqns.len(),
                    program,
                    inputs: self.inputs,
                    hosts: self.hosts,
                    statics: self.statics,
                    static_hosts: self.static_hosts,
                    input_hosts: self.input_hosts,
                    calls: self.calls,
                    spans: self.spans,
                    idents: Rc::new(self.idents),
                }))
            }
        };
        errors.append(self.errors);
        body
    }
}

impl Cx<'_> {
    fn params(&mut self) {
        for (i, p) in self.func.params.iter().enumerate() {
            let value = match p.kind {
                Kind::Tensor => {
                    let var = self.b.param(p.aval.clone());
                    self.name(var, &p.ident);
                    // Whatever its name in the program, the parameter is bound as the user wrote it.
                    if let Some(name) = self.b.name_of(var) {
                        self.idents.insert(name.to_owned(), p.ident.clone());
                    }
                    self.inputs.push(Input {
                        var,
                        source: Source::Param(i),
                        diff: p.diff,
                    });
                    Value::Tensor {
                        var,
                        by_ref: p.by_ref,
                    }
                }
                Kind::Tree => {
                    let ident = &p.ident;
                    Value::Place(Place {
                        param: i,
                        expr: syn::parse_quote!(#ident),
                        by_ref: p.by_ref,
                        root: true,
                        owned: false,
                    })
                }
                Kind::Static { number } => {
                    let ident = &p.ident;
                    if p.mutable {
                        self.host_mut.insert(unraw(ident));
                    }
                    self.host_names.push(unraw(ident));
                    Value::Host(Host {
                        expr: syn::parse_quote!(#ident),
                        reads: Vec::new(),
                        number: number && !p.by_ref,
                    })
                }
            };
            self.scopes[0].insert(unraw(&p.ident), value.into());
        }
    }

    /// The results of the program behind `value`, which has to have the structure `shape`.
    fn outs(&mut self, value: Value, shape: &OutShape, outs: &mut Vec<Var>) -> R<()> {
        match (value, shape) {
            (Value::Tuple(values), OutShape::Tuple(shapes)) if values.len() == shapes.len() => {
                values
                    .into_iter()
                    .zip(shapes)
                    .try_for_each(|(v, s)| self.outs(v, s, outs))
            }
            (
                value @ (Value::Tensor { .. } | Value::Place(_) | Value::Host(_) | Value::Poison),
                OutShape::Tensor,
            ) => {
                let var = self.tensor(value, None)?;
                outs.push(var);
                Ok(())
            }
            // rustc says what does not fit on the user's function.
            _ => Err(Stop::Recorded(
                "its result is not spelt out as tensors".to_owned(),
            )),
        }
    }

    /// Gives a variable the user's name, if it has none.
    fn name(&mut self, var: Var, ident: &Ident) {
        if self.b.name_of(var).is_some() || self.spoken_of.contains(&var) {
            return;
        }
        let mut name = unraw(ident);
        // `v3` is how an unnamed variable prints.
        if name
            .strip_prefix('v')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        {
            name.push('_');
        }
        // A number that makes it unique must not make it the name of a host local.
        loop {
            self.b.name(var, &name);
            let unique = self.b.name_of(var).unwrap_or(&name);
            if !self.host_names.contains(unique) {
                break;
            }
            name.push('_');
        }
        if self.b.name_of(var) == Some(unraw(ident).as_str()) {
            self.idents.insert(unraw(ident), ident.clone());
        }
    }

    /// The identifier that the emitted code has for `var`.
    fn ident(&self, var: Var) -> Ident {
        let name = self
            .b
            .name_of(var)
            .map_or_else(|| var.to_string(), str::to_owned);
        ident_of(&name, &self.idents)
    }

    /// The identifier of a variable that host code names: one that it keeps.
    fn spoken(&mut self, var: Var) -> Ident {
        self.spoken_of.insert(var);
        self.ident(var)
    }

    /// A name for a host local that the emitted code does not have yet. The user's identifier is kept if it is free.
    fn host_ident(&mut self, ident: &Ident) -> Ident {
        let name = unraw(ident);
        let (b, params) = (&self.b, &self.func.params);
        // Parts of trees are found in the parameters later than they are read.
        let is_taken =
            |name: &str| b.is_taken(name) || params.iter().any(|p| unraw(&p.ident) == name);
        if !self.host_names.contains(&name) && !is_taken(&name) {
            self.host_names.push(name);
            return ident.clone();
        }
        let fresh = self.host_names.fresh(&name, is_taken);
        Ident::new(&fresh, Span::mixed_site())
    }

    fn push_host(&mut self, reads: Vec<Var>, tokens: TokenStream) {
        self.hosts.push(HostStmt {
            at: self.b.n_eqns(),
            reads,
            tokens,
        });
    }

    fn recorded<T>(&self, what: &str, span: Span) -> R<T> {
        Err(Stop::Recorded(format!(
            "{what} at line {}",
            span.start().line
        )))
    }

    /// The variable of a value that an op reads. A number takes the dtype of `like`.
    fn tensor(&mut self, value: Value, like: Option<Var>) -> R<Var> {
        match value {
            Value::Tensor { var, .. } => Ok(var),
            Value::Place(place) => self.leaf(&place, like),
            Value::Host(host) if call::is_text(&host.expr) => {
                self.recorded("text", host.expr.span())
            }
            Value::Host(host) => {
                if let (Some(like), true) =
                    (like, host.number || host::literal(&host.expr).is_some())
                {
                    let span = host.expr.span();
                    // A number in arithmetic is a float until it takes the dtype of the tensor.
                    let value = match host::literal(&host.expr).and_then(|s| s.float()) {
                        Some(x) => self.b.attr(x),
                        None => self.statik(host, "value", span),
                    };
                    return self
                        .emit(Op::Scalar, &[value], vec![], vec![like], 1, span)
                        .map(|v| v[0]);
                }
                Ok(self.constant(&host, like))
            }
            Value::Tuple(_) => Err(Stop::Recorded("a tuple is used as a tensor".to_owned())),
            Value::Closure(_) => Err(Stop::Recorded("a closure is used as a tensor".to_owned())),
            // rustc says that it has no value.
            Value::Uninit(_) | Value::Never => {
                Err(Stop::Recorded("a value that is not there".to_owned()))
            }
            Value::Poison => Err(Stop::Error),
        }
    }

    /// A tensor in a tree parameter.
    fn leaf(&mut self, place: &Place, like: Option<Var>) -> R<Var> {
        let place = &self.fixed_place(place);
        let tokens = place.expr.to_token_stream();
        let key = tokens.to_string();
        if let Some(&var) = self.leaves.get(&key) {
            return Ok(var);
        }
        let var = self.b.param(Aval::UNKNOWN);
        let name: String = key
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let mut name = name.trim_matches('_').replace("__", "_");
        // `self` itself, or a name of underscores alone: neither can be that of a local.
        if syn::parse_str::<Ident>(&name).is_err() {
            name = format!("part_{name}");
        }
        self.name(var, &Ident::new(&name, Span::mixed_site()));
        let (ident, span) = (self.ident(var), place.expr.span());
        // What is no operand is told at the user's expression.
        let private = at(&self.krate, span);
        let bind = match like {
            Some(like) => {
                let like = self.spoken(like);
                quote_spanned!(span=> let #ident = #private::operand(#private::operand_of(&#tokens), &#like);)
            }
            None => quote_spanned!(span=> let #ident = #private::tensor_part(&#tokens);),
        };
        self.push_host(like.into_iter().collect(), bind);
        self.input_hosts.insert(var, self.hosts.len() - 1);
        self.leaves.insert(key, var);
        let diff = self.func.params[place.param].diff;
        self.inputs.push(Input {
            var,
            source: Source::Leaf {
                param: place.param,
                place: tokens,
            },
            diff,
        });
        Ok(var)
    }

    /// A tensor that the body gets from elsewhere.
    fn constant(&mut self, host: &Host, like: Option<Var>) -> Var {
        let var = self.b.param(Aval::UNKNOWN);
        self.name(var, &Ident::new("constant", Span::mixed_site()));
        let like = like.map(|like| (like, self.spoken(like)));
        let (ident, private, expr) = (self.ident(var), &self.krate, &host.expr);
        let mut reads = host.reads.clone();
        let bind = match like {
            Some((like, local)) => {
                reads.push(like);
                quote!(let #ident = #private::operand(#private::operand_of(&(#expr)), &#local);)
            }
            None => quote!(let #ident = #private::own(&(#expr));),
        };
        self.push_host(reads, bind);
        self.input_hosts.insert(var, self.hosts.len() - 1);
        self.inputs.push(Input {
            var,
            source: Source::Constant,
            diff: false,
        });
        var
    }

    /// A static argument. What is not known here is bound to a local, once.
    fn statik(&mut self, host: Host, name: &str, span: Span) -> Attr {
        if let Some(known) = host::literal(&host.expr) {
            return self.b.attr(known);
        }
        let value = match self.lens(&host) {
            Some(lens) if name == "shape" => Static::Lens(text(&host.expr), lens),
            _ => Static::Host(text(&host.expr)),
        };
        let attr = self.b.attr(value);
        let ident = self.host_ident(&Ident::new(name, Span::mixed_site()));
        let (private, expr) = (&self.krate, &host.expr);
        let call = quote::quote_spanned!(span=> #private::statik);
        self.push_host(host.reads, quote!(let #ident = #call(#expr);));
        self.static_hosts.insert(attr, self.hosts.len() - 1);
        self.statics.insert(attr, ident);
        attr
    }

    /// Appends an equation, or reports why its operands do not fit.
    fn emit(
        &mut self,
        op: Op,
        statics: &[Attr],
        data: Vec<Var>,
        likes: Vec<Var>,
        n_outs: usize,
        span: Span,
    ) -> R<Vec<Var>> {
        let args: Vec<Var> = data.iter().chain(&likes).copied().collect();
        match self.b.try_emit(op, statics, &args, n_outs) {
            Ok(outs) => {
                for out in &outs {
                    self.spans.insert(*out, span);
                }
                Ok(outs)
            }
            Err(error) => {
                self.explain(&error, statics, &args, span);
                Err(Stop::Error)
            }
        }
    }
}

/// The identifier of a name: the user's own where it has one, so that host code that the macro cannot look into
/// finds it, and one that no user code can see otherwise.
pub(crate) fn ident_of(name: &str, idents: &BTreeMap<String, Ident>) -> Ident {
    idents.get(name).cloned().unwrap_or_else(|| ours(name))
}

/// An identifier that no user code can see. A keyword, which the user has written `r#type`, is written so again.
pub(crate) fn ours(name: &str) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, Span::mixed_site()),
        Err(_) => Ident::new_raw(name, Span::mixed_site()),
    }
}

/// Tokens at another place in the source.
pub(crate) fn at(tokens: &TokenStream, span: Span) -> TokenStream {
    // A path that the user has given stays where it is, so that rustc asks about it there, and once.
    let ours = matches!(
        tokens.clone().into_iter().next(),
        Some(proc_macro2::TokenTree::Punct(_))
    );
    if !ours {
        return tokens.clone();
    }
    let placed = tokens.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    placed.collect()
}

/// The attributes of a `let` that say what reverse mode keeps.
pub(crate) const KEEPS: [&str; 2] = ["save", "recompute"];

/// Whether an attribute of a `let` says what reverse mode keeps.
pub(crate) fn keeps(attr: &syn::Attribute) -> bool {
    KEEPS.iter().any(|name| attr.path().is_ident(name))
}
