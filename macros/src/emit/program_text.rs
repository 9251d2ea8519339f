//! Emits long programs as text.
//!
//! Expansions are readable with one `let` per equation, but each `let` costs rustc time: type
//! checking, borrow checking, drop glue for unwinding. A long program is therefore cut into
//! *stretches*. A stretch is one `let` of the variables that are read outside of it, and a listing:
//! its equations in the text form of programs, which the run time parses on first use.
//!
//! An equation that fails panics at the user's op, so all listings of a function share a function
//! with one panic for each *place*: a position in the user's code.

use super::statements::{Emitter, at};
use crate::program::LoweredProgram;
use gradloom_ir::{Attr, Entity, Eqn, Program, SecondaryMap, Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of equations from which on a program, or a whole function, is long.
///
/// The limit for functions is lower because their derivatives have more equations.
const LONG: usize = 48;
const LONG_FUNCTION: usize = 24;
/// Minimum number of equations in a stretch.
const SHORTEST: usize = 2;

/// Returns whether a program, derived from a part of a function, is emitted as text.
pub(super) fn is_long(program: &Program, low: &LoweredProgram) -> bool {
    program.eqns.len() >= LONG || low.n_eqns >= LONG_FUNCTION
}

/// Stretches of a program.
pub(super) struct Stretches {
    /// End of each stretch, by its start.
    ends: BTreeMap<usize, usize>,
    /// Variables bound in a stretch and read outside of it.
    read: SecondaryMap<Var, ()>,
}

impl Stretches {
    /// Cuts a program at equations for which `apart` returns true, and at those preceded by a host
    /// statement, for which `breaks` does.
    ///
    /// `hosts` are the variables that host statements read.
    pub(super) fn new(
        program: &Program,
        low: &LoweredProgram,
        breaks: impl Fn(usize) -> bool,
        apart: impl Fn(usize) -> bool,
        hosts: impl Iterator<Item = Var>,
    ) -> Stretches {
        let mut ends = BTreeMap::new();
        let eqns = &program.eqns;
        if is_long(program, low) {
            let mut start = 0;
            for end in 1..=eqns.len() {
                if end == eqns.len() || breaks(end) || apart(end) || apart(start) {
                    if end - start >= SHORTEST && !apart(start) {
                        ends.insert(start, end);
                    }
                    start = end;
                }
            }
        }
        let mut stretches = Stretches {
            ends,
            read: SecondaryMap::new(),
        };
        if !stretches.ends.is_empty() {
            stretches.find_read(program, low, hosts);
        }
        stretches
    }

    fn find_read(
        &mut self,
        program: &Program,
        low: &LoweredProgram,
        hosts: impl Iterator<Item = Var>,
    ) {
        let mut bound: SecondaryMap<Var, usize> = SecondaryMap::new();
        for (start, end) in &self.ends {
            for var in program.eqns[*start..*end].iter().flat_map(|e| &e.outs) {
                bound.insert(*var, *start);
            }
        }
        let mut from = None;
        for (i, eqn) in program.eqns.iter().enumerate() {
            if self.ends.contains_key(&i) {
                from = Some(i);
            } else if from.is_some_and(|start| self.ends[&start] == i) {
                from = None;
            }
            let elsewhere = eqn.args.iter().filter(|v| {
                let start = bound.get(**v).copied();
                start.is_some() && start != from
            });
            for var in elsewhere {
                self.read.insert(*var, ());
            }
        }
        // A variable that a host statement reads may have been removed as dead. It is then
        // recomputed, so its operands are read too.
        let places: SecondaryMap<Var, usize> = outs(&low.program);
        let alive: SecondaryMap<Var, usize> = outs(program);
        let mut open: Vec<Var> = hosts.chain(program.outs.iter().copied()).collect();
        while let Some(var) = open.pop() {
            if self.read.insert(var, ()).is_some() || alive.contains(var) {
                continue;
            }
            if let Some(place) = places.get(var) {
                open.extend(&low.program.eqns[*place].args);
            }
        }
    }

    /// Returns the stretch that starts at an equation.
    pub(super) fn at(&self, start: usize) -> Option<Range<usize>> {
        self.ends.get(&start).map(|end| start..*end)
    }

    /// Returns whether a variable bound in a stretch is read outside of it.
    pub(super) fn is_read(&self, var: Var) -> bool {
        self.read.contains(var)
    }

    /// Returns the equations outside of all stretches.
    pub(super) fn others<'p>(&'p self, program: &'p Program) -> impl Iterator<Item = &'p Eqn> {
        let mut until = 0;
        let others = program.eqns.iter().enumerate().filter(move |(i, _)| {
            until = self.ends.get(i).copied().unwrap_or(until);
            *i >= until
        });
        others.map(|(_, eqn)| eqn)
    }
}

/// Returns the positions of the equations, by the variables that they bind.
pub(super) fn outs(program: &Program) -> SecondaryMap<Var, usize> {
    let eqns = program.eqns.iter().enumerate();
    eqns.flat_map(|(i, e)| e.outs.iter().map(move |v| (*v, i)))
        .collect()
}

impl Emitter<'_> {
    /// Returns the statement for a stretch of equations.
    ///
    /// It binds the variables for which `is_read` returns true.
    pub(super) fn stretch(&self, eqns: &[Eqn], is_read: impl Fn(Var) -> bool) -> TokenStream {
        let bound: SecondaryMap<Var, ()> = eqns
            .iter()
            .flat_map(|e| &e.outs)
            .map(|v| (*v, ()))
            .collect();
        let (mut tensors, mut likes, mut linear) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
        for var in eqns.iter().flat_map(|e| &e.args) {
            if bound.contains(*var) || seen.insert(*var, ()).is_some() {
                continue;
            }
            match self.aval_of(*var) {
                Some(like) => likes.push((*var, like)),
                None if self.is_linear(*var) => linear.push(*var),
                None => tensors.push(*var),
            }
        }
        let outs = eqns.iter().flat_map(|e| &e.outs).copied();
        let outs = outs.filter(|v| is_read(*v));
        let (zeroable, outs): (Vec<Var>, Vec<Var>) = outs.partition(|v| self.maybe.contains(*v));
        let params = tensors.iter().chain(likes.iter().map(|(var, _)| var));
        let params: Vec<Var> = params.chain(&linear).copied().collect();
        let all_outs = outs.iter().chain(&zeroable).copied().collect();
        let (listing, hosts) = self.listing(params, eqns, all_outs);
        let idents = |vars: &[Var]| vars.iter().map(|v| self.ident(*v)).collect::<Vec<_>>();
        let (outs, tensors) = (idents(&outs), idents(&tensors));
        let likes = likes.iter().map(|(_, like)| like);
        let given = ours!(&[#(&#tensors),*], &[#(&#likes),*], &[#(&#hosts),*]);
        if linear.is_empty() {
            return ours!(let [#(#outs),*] = #listing.run(#given););
        }
        let linear = linear.iter().map(|v| self.option(*v));
        let zeroable = idents(&zeroable);
        ours!(let ([#(#outs),*], [#(#zeroable),*]) = #listing.run_linear(#given, &[#(#linear),*]);)
    }

    /// Returns equations as a listing, and the locals of its static arguments.
    pub(super) fn listing(
        &self,
        params: Vec<Var>,
        eqns: &[Eqn],
        outs: Vec<Var>,
    ) -> (TokenStream, Vec<Ident>) {
        let mut statics = Statics::default();
        let renumbered = eqns.iter().map(|eqn| Eqn {
            attrs: eqn.attrs.iter().map(|a| statics.add(self, *a)).collect(),
            ..eqn.clone()
        });
        let renumbered: Vec<Eqn> = renumbered.collect();
        let named = params.iter().chain(eqns.iter().flat_map(|e| &e.outs));
        let names = named
            .filter_map(|v| Some((*v, self.name(*v)?.clone())))
            .collect();
        let text = Program {
            params,
            eqns: renumbered,
            outs,
            attrs: statics.values,
            names,
            ..Program::default()
        }
        .to_string();
        let spans = eqns.iter().map(|e| self.span(e));
        let (rt, places, failed) = (self.rt, self.places.of(spans), self.places.path());
        let listing = ours!(#rt::Listing::new(#text, #places, #failed));
        (listing, statics.hosts)
    }
}

/// Places of the equations in the listings of a function.
pub(crate) struct Places {
    /// Struct of residuals: a type of each function that has no parameters.
    owner: Ident,
    /// Number and span of each place, by line and column.
    spans: RefCell<BTreeMap<(usize, usize), (usize, Span)>>,
}

impl Places {
    pub(crate) fn new(owner: &Ident) -> Places {
        Places {
            owner: owner.clone(),
            spans: RefCell::default(),
        }
    }

    /// Returns the path of the function called for an equation that fails.
    fn path(&self) -> TokenStream {
        let owner = &self.owner;
        ours!(#owner::failed)
    }

    /// Returns the places of a listing's equations as text: a number for each equation, of which
    /// the last holds for the remaining equations.
    fn of(&self, eqns: impl Iterator<Item = Span>) -> String {
        let mut spans = self.spans.borrow_mut();
        let mut places: Vec<String> = Vec::new();
        for span in eqns {
            let (start, next) = (span.start(), spans.len());
            let place = spans
                .entry((start.line, start.column))
                .or_insert((next, span));
            places.push(place.0.to_string());
        }
        while let [.., x, y] = &*places
            && x == y
        {
            places.pop();
        }
        places.join(" ")
    }

    /// Returns the function called with the place of an equation that fails: it panics there.
    pub(crate) fn failed(&self, rt: &TokenStream) -> Option<TokenStream> {
        let spans = self.spans.borrow();
        let local = |name| Ident::new(name, Span::mixed_site());
        let (place, error) = (local("place"), local("error"));
        let raise = |span: Span| {
            let rt = at(rt, span);
            quote_spanned!(span=> #rt::raise(#error))
        };
        let mut places: Vec<(usize, Span)> = spans.values().copied().collect();
        places.sort_by_key(|(i, _)| *i);
        let ((_, last), others) = places.split_last()?;
        let arms = others.iter().map(|(i, span)| {
            let raise = raise(*span);
            ours!(#i => #raise,)
        });
        let last = raise(*last);
        let (owner, allow) = (&self.owner, super::names::allow());
        Some(ours! {
            #allow
            impl #owner {
                #[inline]
                fn failed(#place: usize, #error: #rt::Error) -> ! {
                    match #place { #(#arms)* _ => #last }
                }
            }
        })
    }
}

/// Static arguments of a listing.
#[derive(Default)]
struct Statics {
    values: Vec<Static>,
    /// Locals of those that are host expressions, in the order in which the text first mentions
    /// them.
    hosts: Vec<Ident>,
    found: BTreeMap<Attr, Attr>,
}

impl Statics {
    fn add(&mut self, emit: &Emitter<'_>, attr: Attr) -> Attr {
        if let Some(found) = self.found.get(&attr) {
            return *found;
        }
        let value = match emit.low.statics.get(&attr) {
            Some(ident) => {
                self.hosts.push(ident.clone());
                Static::Host(ident.to_string())
            }
            None => emit.program.attr(attr).clone(),
        };
        self.values.push(value);
        let new = Attr::from_index(self.values.len() - 1);
        self.found.insert(attr, new);
        new
    }
}
