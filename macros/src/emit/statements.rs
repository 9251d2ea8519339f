//! Emits a program as statements: one `let` for each equation, with host statements between them.

use super::program_text;
use super::program_text::{Places, Stretches};
use crate::input::Func;
pub(crate) use crate::program::at;
use crate::program::{Input, LoweredProgram, Source, ident_of};
use gradloom_ir::{Attr, Eqn, Op, Program, SecondaryMap, Static, Var};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use std::collections::BTreeMap;

/// Number of variables from which on they are declared together.
const MANY: usize = 256;

/// Hidden companion that an emitted call invokes.
#[derive(Clone, Copy)]
pub(crate) enum HiddenCompanion {
    Forward,
    Jvp,
}

/// Map between variables and their tangents.
pub(crate) struct Tangents {
    of: SecondaryMap<Var, Var>,
    /// The primal of each tangent.
    pub(crate) to: SecondaryMap<Var, Var>,
}

impl Tangents {
    fn new(pairs: &[(Var, Var)]) -> Tangents {
        Tangents {
            of: pairs.iter().copied().collect(),
            to: pairs.iter().map(|(x, dx)| (*dx, *x)).collect(),
        }
    }
}

/// Emitter for the equations of one program.
pub(crate) struct Emitter<'a> {
    pub(crate) func: &'a Func,
    pub(crate) low: &'a LoweredProgram,
    pub(crate) rt: &'a TokenStream,
    pub(super) places: &'a Places,
    /// The program to emit: the lowered one, or one derived from it.
    pub(crate) program: &'a Program,
    /// Variables of which the code has only the aval (dtype and shape), with the locals that hold
    /// it.
    avals: SecondaryMap<Var, Ident>,
    /// Variables that are computed so far.
    done: SecondaryMap<Var, ()>,
    /// Positions of the lowered program's equations, by the variables that they bind.
    positions: SecondaryMap<Var, usize>,
    /// Variables declared ahead of their equations, if the program is long.
    declared: SecondaryMap<Var, ()>,
    /// Inputs of the lowered program: its parameters, and the leaves that host statements bind.
    pub(crate) inputs: SecondaryMap<Var, &'a Input>,
    leaves: BTreeMap<usize, &'a Input>,
    next_host: usize,
    pub(crate) tokens: TokenStream,
    /// Variables that depend linearly on a value that may be zero; `None` if no value may be zero.
    pub(crate) linear: Option<SecondaryMap<Var, ()>>,
    /// Variables that are an `Option` in the emitted code: `None` is zero.
    pub(crate) maybe: SecondaryMap<Var, ()>,
    /// Tangents and cotangents of trees, which are lists of leaves.
    pub(crate) lists: SecondaryMap<Var, ()>,
    /// Variables emitted under a name other than their own.
    renamed: SecondaryMap<Var, Ident>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(
        func: &'a Func,
        low: &'a LoweredProgram,
        rt: &'a TokenStream,
        places: &'a Places,
        program: &'a Program,
    ) -> Emitter<'a> {
        let leaf = |i: &'a Input| Some((*low.input_hosts.get(i.var)?, i));
        Emitter {
            func,
            low,
            rt,
            places,
            program,
            avals: SecondaryMap::new(),
            done: SecondaryMap::new(),
            positions: program_text::outs(&low.program),
            declared: SecondaryMap::new(),
            inputs: low.inputs.iter().map(|i| (i.var, i)).collect(),
            leaves: low.inputs.iter().filter_map(leaf).collect(),
            next_host: 0,
            tokens: TokenStream::new(),
            linear: None,
            maybe: SecondaryMap::new(),
            lists: SecondaryMap::new(),
            renamed: SecondaryMap::new(),
        }
    }

    /// Declares the tangents or cotangents of trees among the program's parameters.
    pub(crate) fn with_lists(&mut self, lists: impl IntoIterator<Item = Var>) {
        self.lists.extend(lists.into_iter().map(|v| (v, ())));
        for eqn in &self.program.eqns {
            let linear = eqn.outs.iter().zip(self.linear_trees(eqn));
            let trees = linear
                .filter(|(_, is_tree)| *is_tree)
                .map(|(v, _)| (*v, ()));
            self.lists.extend(trees.collect::<Vec<_>>());
        }
    }

    /// Returns whether an equation computes or reads a tangent or a cotangent of a tree.
    pub(super) fn has_lists(&self, eqn: &Eqn) -> bool {
        eqn.outs.iter().any(|v| self.lists.contains(*v))
    }

    /// Records that the code has only the aval of `var`, in the local `ident`.
    pub(crate) fn only_aval(&mut self, var: Var, ident: Ident) {
        self.avals.insert(var, ident);
    }

    /// Records that the code holds `var` in the local `ident`.
    pub(crate) fn rename(&mut self, var: Var, ident: Ident) {
        self.renamed.insert(var, ident);
    }

    pub(crate) fn push(&mut self, tokens: TokenStream) {
        self.tokens.extend(tokens);
    }

    /// Returns the host statements and equations of a program that starts from the function's
    /// parameters.
    pub(crate) fn forward(mut self, tangents: &[(Var, Var)]) -> TokenStream {
        self.run_forward(tangents);
        self.tokens
    }

    pub(crate) fn run_forward(&mut self, tangents: &[(Var, Var)]) {
        let tangents = Tangents::new(tangents);
        let eqns = self.program.eqns.iter();
        let before: Vec<usize> = eqns.map(|e| self.needs(e, &tangents)).collect();
        let reads = self.low.hosts.iter().flat_map(|h| h.reads.iter().copied());
        self.equations(&before, reads, &tangents);
        self.hosts(self.low.hosts.len(), &tangents);
    }

    /// Emits the equations of a program whose parameters are all bound.
    pub(crate) fn run_pullback(&mut self) {
        let before = vec![0; self.program.eqns.len()];
        self.equations(&before, std::iter::empty(), &Tangents::new(&[]));
    }

    /// Emits the equations; `before[i]` is the number of host statements that precede equation `i`.
    fn equations(
        &mut self,
        before: &[usize],
        reads: impl Iterator<Item = Var>,
        tangents: &Tangents,
    ) {
        let program = self.program;
        let mut latest = 0;
        let breaks = before.iter().map(|n| {
            let breaks = *n > latest;
            latest = latest.max(*n);
            breaks
        });
        let breaks: Vec<bool> = breaks.collect();
        let stretches = {
            let apart = |i: usize| program.eqns[i].op.is_call() || self.has_lists(&program.eqns[i]);
            Stretches::new(program, self.low, |i| breaks[i], apart, reads)
        };
        self.declare(&stretches);
        let mut next = 0;
        while next < program.eqns.len() {
            self.hosts(before[next], tangents);
            match stretches.at(next) {
                Some(range) => {
                    next = range.end;
                    let eqns = &program.eqns[range];
                    let bound = eqns.iter().flat_map(|e| &e.outs);
                    self.done.extend(bound.map(|v| (*v, ())));
                    self.zeroable_eqns(eqns);
                    let tokens = self.stretch(eqns, |v| stretches.is_read(v));
                    self.push(tokens);
                }
                None => {
                    self.eqn(&program.eqns[next], tangents);
                    next += 1;
                }
            }
        }
    }

    /// Declares the variables of a long program in one `let`, to which their equations then assign.
    ///
    /// Each `let` opens a scope inside the previous one, and code generation recurses into scopes,
    /// so thousands of `let`s overflow its stack. The user's own variables keep their `let`s, as in
    /// the user's function.
    fn declare(&mut self, stretches: &Stretches) {
        let ours = |v: &Var| !self.low.idents.contains_key(&self.ident(*v).to_string());
        let eqns = stretches.others(self.program);
        let eqns =
            eqns.filter(|e| !e.op.is_call() && !self.has_lists(e) && e.outs.iter().all(ours));
        let vars: Vec<Var> = eqns.flat_map(|e| e.outs.iter().copied()).collect();
        if vars.len() < MANY {
            return;
        }
        let idents = vars.iter().map(|v| self.ident(*v));
        let declaration = ours!(let (#(#idents,)*););
        self.push(declaration);
        self.declared = vars.into_iter().map(|v| (v, ())).collect();
    }

    /// Returns the number of host statements that must precede an equation.
    fn needs(&self, eqn: &Eqn, tangents: &Tangents) -> usize {
        let own = self
            .positions
            .get(eqn.outs[0])
            .map(|place| self.low.hosts.partition_point(|h| h.at <= *place));
        let statics = eqn
            .attrs
            .iter()
            .filter_map(|a| self.low.static_hosts.get(a))
            .map(|i| i + 1);
        let inputs = eqn
            .args
            .iter()
            // A tangent is read at the same place as its primal.
            .map(|v| tangents.to.get(*v).unwrap_or(v))
            .filter_map(|v| self.low.input_hosts.get(*v))
            .map(|i| i + 1);
        own.into_iter()
            .chain(statics)
            .chain(inputs)
            .max()
            .unwrap_or(0)
    }

    fn hosts(&mut self, until: usize, tangents: &Tangents) {
        while self.next_host < until {
            let index = self.next_host;
            self.next_host += 1;
            let stmt = &self.low.hosts[index];
            for read in &stmt.reads {
                self.compute(*read, tangents);
            }
            self.tokens.extend(stmt.tokens.clone());
            // The tangent of a leaf is read at the same place as the leaf.
            let Some(input) = self.leaves.get(&index) else {
                continue;
            };
            let Some(tangent) = tangents.of.get(input.var) else {
                continue;
            };
            if let Source::Leaf { param, .. } = &input.source {
                let (rt, at) = (self.rt, self.find(&input.source));
                let (x, dx) = (self.ident(input.var), self.ident(*tangent));
                let given = tangents_ident();
                if self.linear.is_some() {
                    self.zeroable(*tangent);
                    self.push(ours!(let #dx = #rt::optional_leaf_at(&#given[#param], #at);));
                    continue;
                }
                self.push(ours!(let #dx = #rt::tangent_at(&#given[#param], #at, &#x);));
            }
        }
    }

    /// Computes a variable that a host statement reads, if no equation of the program does.
    ///
    /// Its equation may have been removed as dead or merged with an equal one.
    fn compute(&mut self, var: Var, tangents: &Tangents) {
        let Some(&place) = self.positions.get(var).filter(|_| !self.done.contains(var)) else {
            return;
        };
        let eqn = &self.low.program.eqns[place];
        for arg in &eqn.args {
            self.compute(*arg, tangents);
        }
        self.eqn(eqn, tangents);
    }

    /// Returns the variable's name: the user's, or one derived from it.
    pub(crate) fn name(&self, var: Var) -> Option<&'a String> {
        let own = self.program.names.get(var);
        own.or_else(|| self.low.program.names.get(var))
    }

    pub(crate) fn ident(&self, var: Var) -> Ident {
        if let Some(ident) = self.renamed.get(var) {
            return ident.clone();
        }
        let name = self.name(var).cloned();
        ident_of(&name.unwrap_or_else(|| var.to_string()), &self.low.idents)
    }

    pub(crate) fn span(&self, eqn: &Eqn) -> Span {
        let span = eqn
            .outs
            .first()
            .and_then(|v| self.low.spans.get(*v))
            .copied();
        // The span has the hygiene of the user's code, so that a panic of the op reports the user's
        // line.
        span.unwrap_or_else(|| self.func.sig.ident.span())
    }

    /// Returns the local that holds the aval of `var`, if the code has only its aval.
    pub(crate) fn aval_of(&self, var: Var) -> Option<&Ident> {
        self.avals.get(var)
    }

    pub(crate) fn like(&self, var: Var) -> TokenStream {
        match self.aval_of(var) {
            Some(ident) => ident.to_token_stream(),
            None => {
                let ident = self.ident(var);
                ours!(#ident.aval())
            }
        }
    }

    fn statik(&self, attr: Attr) -> TokenStream {
        let rt = self.rt;
        if let Some(ident) = self.low.statics.get(&attr) {
            return ours!(&#ident);
        }
        let value = match self.program.attr(attr) {
            Static::Int(n) => integer(*n).into_token_stream(),
            Static::Float(x) if x.is_finite() => float(*x),
            Static::Float(x) => {
                let bits = x.to_bits();
                ours!(f64::from_bits(#bits))
            }
            Static::Bool(b) => b.to_token_stream(),
            Static::Ints(ns) if ns.is_empty() => ours!([0i64; 0]),
            Static::Ints(ns) => {
                let ns = ns.iter().map(|n| integer(*n));
                ours!([#(#ns),*])
            }
            Static::All => ours!(..),
            Static::Programs(_)
            | Static::Code(_)
            | Static::Mesh(_)
            | Static::Tilings(_)
            | Static::Reduce(_)
            | Static::Sharding(_)
            | Static::Specs(..) => {
                unreachable!("no traced function lowers to an op on programs, host code or devices")
            }
            Static::DType(d) => {
                let name = format_ident!("{d:?}");
                ours!(#rt::DType::#name)
            }
            Static::Host(text) | Static::Dims(text, _) => {
                unreachable!("`{text}` is bound to a local")
            }
        };
        ours!(&#rt::static_arg(#value))
    }

    /// Returns `find(&model, &model.w)`, which locates the leaves of an input within its parameter.
    pub(crate) fn find(&self, source: &Source) -> TokenStream {
        let rt = self.rt;
        let (param, place, is_leaf) = match source {
            Source::Leaf { param, place } => (*param, place, true),
            Source::Tree { param, place } => (*param, place, false),
            Source::Param(_) | Source::Constant => {
                unreachable!("only a part of a tree has to be found")
            }
        };
        let span = syn::spanned::Spanned::span(place);
        let param = &self.func.params[param];
        let ident = &param.ident;
        let root = if param.by_ref {
            ours!(&*#ident)
        } else {
            ours!(&#ident)
        };
        let place = match *ident == place.to_string() {
            true if is_leaf && param.by_ref => quote_spanned!(span=> &*#place),
            true if is_leaf => quote_spanned!(span=> &#place),
            true => root.clone(),
            // A name bound by a pattern may be a reference.
            false if syn::parse2::<Ident>(place.clone()).is_ok() => {
                ours!({ use #rt::BorrowedPlace as _; #place.located() })
            }
            false if is_leaf => quote_spanned!(span=> &#place),
            // A field that the tree skips may be an argument too.
            false => {
                return quote_spanned!(span=> {
                    use #rt::by_type::*;
                    (&#rt::PartOf(&#place)).found_in(#root)
                });
            }
        };
        match is_leaf {
            // The user's span, so that rustc reports a value that is not an operand there.
            true => {
                let rt_there = at(rt, span);
                let operand = quote_spanned!(span=> #rt_there::operand_of(#place));
                ours!(#rt::find_leaf(#root, #operand))
            }
            false => ours!(#rt::find(#root, #place)),
        }
    }

    fn eqn(&mut self, eqn: &Eqn, tangents: &Tangents) {
        for out in &eqn.outs {
            self.done.insert(*out, ());
        }
        if self.has_lists(eqn) && !eqn.op.is_call() {
            self.tokens.extend(self.sum_of_lists(eqn));
            return;
        }
        if let Some(tokens) = self.zeroable_eqn(eqn) {
            self.tokens.extend(tokens);
            return;
        }
        let tokens = match eqn.op {
            Op::Call => self.call(eqn),
            Op::CallFwd => self.call_fwd(eqn),
            Op::CallJvp => self.call_jvp(eqn, tangents),
            Op::CallPull => self.call_pull(eqn),
            _ => self.primitive(eqn),
        };
        self.tokens.extend(tokens);
    }

    /// Returns `let`, or nothing if the variables of the equation are declared ahead.
    pub(crate) fn bind(&self, eqn: &Eqn) -> TokenStream {
        match self.declared.contains(eqn.outs[0]) {
            true => TokenStream::new(),
            false => quote_spanned!(self.span(eqn)=> let),
        }
    }

    fn primitive(&self, eqn: &Eqn) -> TokenStream {
        let span = self.span(eqn);
        let outs: Vec<Ident> = eqn.outs.iter().map(|v| self.ident(*v)).collect();
        let bind = self.bind(eqn);
        let value = self.value(eqn);
        match &*outs {
            [out] if !is_many(eqn.op) => quote_spanned!(span=> #bind #out = #value;),
            outs => quote_spanned!(span=> #bind [#(#outs),*] = #value;),
        }
    }

    /// Returns the expression for the results of an equation: one tensor, or an array of tensors.
    pub(crate) fn value(&self, eqn: &Eqn) -> TokenStream {
        let span = self.span(eqn);
        let rt = at(self.rt, span);
        let name = Ident::new(eqn.op.def().name(), span);
        let data: Vec<Ident> = eqn.data().iter().map(|v| self.ident(*v)).collect();
        let statics = eqn.attrs.iter().map(|a| self.statik(*a));
        let likes: Vec<TokenStream> = eqn.likes().iter().map(|v| self.like(*v)).collect();
        if is_many(eqn.op) || eqn.outs.len() != 1 {
            let n = eqn.outs.len();
            return quote_spanned!(span=> #rt::op_many::#name::<#n, _, _, _>([#(#statics),*], [#(&#data),*], [#(#likes),*]));
        }
        if eqn.attrs.is_empty() && likes.is_empty() {
            return quote_spanned!(span=> #rt::op::#name([#(&#data),*]));
        }
        quote_spanned!(span=> #rt::op_with::#name([#(#statics),*], [#(&#data),*], [#(#likes),*]))
    }
}

/// Returns the local that holds the tangents passed to a forward-mode companion.
pub(crate) fn tangents_ident() -> Ident {
    Ident::new("tangents", Span::mixed_site())
}

pub(crate) fn is_many(op: Op) -> bool {
    op.def()
        .methods()
        .iter()
        .any(|m| m.params.contains(&gradloom_ir::op::Param::Count))
}

/// Returns tokens for a float that parse back to the same number.
fn float(x: f64) -> TokenStream {
    let magnitude = Literal::f64_suffixed(x.abs());
    if x.is_sign_negative() {
        ours!(-#magnitude)
    } else {
        ours!(#magnitude)
    }
}

/// Returns a literal of an integer. Without a suffix rustc takes it for an `i32`.
fn integer(n: i64) -> Literal {
    match i32::try_from(n) {
        Ok(_) => Literal::i64_unsuffixed(n),
        Err(_) => Literal::i64_suffixed(n),
    }
}
