//! Programs as static arguments: the bodies of loops and the branches of conditionals.

use super::Program;
use crate::{Entity, SecondaryMap, Var};
use std::fmt;
use std::sync::Arc;

/// Programs that an op runs, such as the body of a loop.
///
/// Two lists are equal if their programs have the same parameters, equations and results. The names
/// of variables do not count.
#[derive(Clone)]
pub struct Programs(Arc<Encoded>);

struct Encoded {
    all: Vec<Program>,
    words: Vec<u64>,
}

impl Programs {
    /// Returns the programs as one static argument.
    pub fn new(all: Vec<Program>) -> Programs {
        let mut words = vec![all.len() as u64];
        all.iter().for_each(|program| encode(program, &mut words));
        Programs(Arc::new(Encoded { all, words }))
    }

    /// Returns the programs.
    pub fn all(&self) -> &[Program] {
        &self.0.all
    }

    /// Returns an encoding. Two encodings are equal if and only if the programs are.
    pub(super) fn words(&self) -> &[u64] {
        &self.0.words
    }
}

/// Appends an encoding of a program, in which variables are numbered in the order of definition.
fn encode(program: &Program, out: &mut Vec<u64>) {
    let mut numbers: SecondaryMap<Var, u64> = SecondaryMap::new();
    let mut next = 0;
    let mut bind = |vars: &[Var], numbers: &mut SecondaryMap<Var, u64>, out: &mut Vec<u64>| {
        out.push(vars.len() as u64);
        for var in vars {
            numbers.insert(*var, next);
            next += 1;
        }
    };
    let read = |vars: &[Var], numbers: &SecondaryMap<Var, u64>, out: &mut Vec<u64>| {
        out.push(vars.len() as u64);
        // A variable that nothing binds is an error that the verifier reports.
        out.extend(vars.iter().map(|var| {
            numbers
                .get(*var)
                .copied()
                .unwrap_or(u64::MAX - var.index() as u64)
        }));
    };
    bind(&program.params, &mut numbers, out);
    for param in &program.params {
        let aval = program.aval(*param).to_string();
        out.push(aval.len() as u64);
        out.extend(aval.bytes().map(u64::from));
    }
    out.push(program.eqns.len() as u64);
    for eqn in &program.eqns {
        out.extend([eqn.op as u64, eqn.attrs.len() as u64]);
        for attr in &eqn.attrs {
            match program.attrs.get(attr.index()) {
                Some(value) => value.encode(out),
                None => out.push(u64::MAX),
            }
        }
        read(&eqn.args, &numbers, out);
        bind(&eqn.outs, &mut numbers, out);
    }
    read(&program.outs, &numbers, out);
}

impl PartialEq for Programs {
    fn eq(&self, other: &Programs) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.words == other.0.words
    }
}

impl Eq for Programs {}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints `<program>`, or `<program | program>`, on one line.
impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |program: &Program| {
            let text = program.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            lines.join(" ")
        };
        let all: Vec<String> = self.all().iter().map(one_line).collect();
        write!(f, "<{}>", all.join(" | "))
    }
}
