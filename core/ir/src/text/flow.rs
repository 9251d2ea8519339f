//! Printing and parsing of flows.
//!
//! Blocks print as equations, and host code prints between backticks.

use super::parse::{ParseError, Parsed, Parser};
use crate::flow::{Block, Flow, Node};
use crate::{Aval, Builder, Eqn, Program, SecondaryMap, Var};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Prints `h = tanh x` for an equation, `slot := h` for a store, and host code between backticks.
impl<H: fmt::Display> fmt::Display for Flow<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let empty = Program::default();
        let names = self.blocks.first().map_or(&empty, |b| &b.program);
        writeln!(f, "({}) {{", names.show_params(&self.params))?;
        self.nodes(&self.body, 1, f)?;
        f.write_str("}")
    }
}

impl<H: fmt::Display> Flow<H> {
    fn nodes(&self, nodes: &[Node<H>], depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = "  ".repeat(depth);
        for node in nodes {
            match node {
                Node::Block(i) => {
                    let Block { program, targets } = &self.blocks[*i];
                    for eqn in &program.eqns {
                        writeln!(f, "{indent}{}", program.show_eqn(eqn))?;
                    }
                    let stores = program.outs.iter().zip(targets);
                    for (value, target) in stores.filter(|(v, t)| v != t) {
                        // The `return` line shows these stores.
                        if !self.results.contains(target) {
                            let (value, target) = (program.show(*value), program.show(*target));
                            writeln!(f, "{indent}{target} := {value}")?;
                        }
                    }
                }
                Node::Host(host) => {
                    let text = host.to_string();
                    if !text.is_empty() {
                        writeln!(f, "{indent}`{text}`")?;
                    }
                }
                Node::Scope { head, body } => {
                    writeln!(f, "{indent}`{head}` {{")?;
                    self.nodes(body, depth + 1, f)?;
                    writeln!(f, "{indent}}}")?;
                }
                Node::Return(values) => {
                    let empty = Program::default();
                    let names = self.blocks.first().map_or(&empty, |b| &b.program);
                    let values: Vec<String> = values.iter().map(|v| names.show(*v)).collect();
                    writeln!(f, "{indent}return {}", values.join(", "))?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Flow<String> {
    type Err = ParseError;

    /// Parses the text form.
    ///
    /// The variables that equations bind have unknown avals, because those of slots cannot be
    /// inferred.
    fn from_str(text: &str) -> Parsed<Flow<String>> {
        let mut reader = Reader {
            parser: Parser::new(text),
            table: Builder::new(),
            open: OpenBlock::default(),
            blocks: Vec::new(),
            results: Vec::new(),
        };
        let mut avals = SecondaryMap::new();
        reader.parser.expect("(")?;
        let params = reader.parser.params(&mut avals)?;
        reader.parser.expect("{")?;
        let body = reader.nodes()?;
        reader.parser.end()?;
        Ok(reader.finish(params, body, avals))
    }
}

/// The state of the parser of a flow.
struct Reader<'a> {
    parser: Parser<'a>,
    /// The static arguments, in an otherwise unused builder.
    table: Builder,
    open: OpenBlock,
    blocks: Vec<OpenBlock>,
    results: Vec<Var>,
}

/// A block that is still being read.
#[derive(Default)]
struct OpenBlock {
    eqns: Vec<Eqn>,
    /// Pairs of a value and the slot that it is stored in.
    stores: Vec<(Var, Var)>,
}

impl Reader<'_> {
    /// Parses nodes up to and including `}`.
    fn nodes(&mut self) -> Parsed<Vec<Node<String>>> {
        let mut nodes = Vec::new();
        loop {
            if self.parser.eat("}") {
                self.close(&mut nodes);
                return Ok(nodes);
            }
            if let Some(host) = self.parser.host()? {
                self.close(&mut nodes);
                nodes.push(match self.parser.eat("{") {
                    true => self.scope(host)?,
                    false => Node::Host(host),
                });
            } else if self.parser.eat_word("return") {
                let values = self.values()?;
                self.close(&mut nodes);
                nodes.push(Node::Return(values));
            } else {
                self.statement(&mut nodes)?;
            }
        }
    }

    /// Parses the rest of a scope after its `{`.
    fn scope(&mut self, head: String) -> Parsed<Node<String>> {
        self.parser.enter()?;
        let body = self.nodes()?;
        self.parser.depth -= 1;
        Ok(Node::Scope { head, body })
    }

    /// Parses an equation or a store.
    fn statement(&mut self, nodes: &mut Vec<Node<String>>) -> Parsed<()> {
        let start = self.parser.at;
        let target = self.parser.var()?;
        if self.parser.eat(":=") {
            let value = self.parser.var()?;
            self.open.stores.push((value, target));
            return Ok(());
        }
        // An equation after stores starts a block, because it reads the slots after those stores.
        if !self.open.stores.is_empty() {
            self.close(nodes);
        }
        self.parser.at = start;
        let eqn = self.parser.eqn(&mut self.table)?;
        self.open.eqns.push(eqn);
        Ok(())
    }

    /// Parses the values of a `return` and records their stores into the result slots.
    fn values(&mut self) -> Parsed<Vec<Var>> {
        let mut values = Vec::new();
        let saved = self.parser.at;
        if self.parser.word().is_ok() {
            self.parser.at = saved;
            values.push(self.parser.var()?);
            while self.parser.eat(",") {
                values.push(self.parser.var()?);
            }
        }
        while self.results.len() < values.len() {
            self.results.push(self.parser.fresh());
        }
        let stores = values.iter().copied().zip(self.results.iter().copied());
        self.open.stores.extend(stores);
        Ok(values)
    }

    fn close(&mut self, nodes: &mut Vec<Node<String>>) {
        if self.open.eqns.is_empty() && self.open.stores.is_empty() {
            return;
        }
        nodes.push(Node::Block(self.blocks.len()));
        self.blocks.push(std::mem::take(&mut self.open));
    }

    fn finish(
        self,
        params: Vec<Var>,
        body: Vec<Node<String>>,
        avals: SecondaryMap<Var, Aval>,
    ) -> Flow<String> {
        let names = self.parser.names();
        let attrs = self.table.finish(Vec::new(), Vec::new()).attrs;
        let free: Vec<BTreeSet<Var>> = self.blocks.iter().map(OpenBlock::free).collect();
        let crossing: BTreeSet<Var> = free.iter().flatten().copied().collect();
        let blocks = self.blocks.into_iter().zip(free).map(|(open, free)| {
            let kept = open.bound();
            let kept = kept.intersection(&crossing).map(|v| (*v, *v));
            let stores: Vec<(Var, Var)> = open.stores.iter().copied().chain(kept).collect();
            Block {
                program: Program {
                    params: free.into_iter().collect(),
                    eqns: open.eqns,
                    outs: stores.iter().map(|s| s.0).collect(),
                    attrs: attrs.clone(),
                    avals: avals.clone(),
                    names: names.clone(),
                    remat_hints: SecondaryMap::new(),
                    lines: SecondaryMap::new(),
                },
                targets: stores.iter().map(|s| s.1).collect(),
            }
        });
        Flow {
            params,
            blocks: blocks.collect(),
            body,
            results: self.results,
        }
    }
}

impl OpenBlock {
    fn bound(&self) -> BTreeSet<Var> {
        self.eqns.iter().flat_map(|e| &e.outs).copied().collect()
    }

    /// Returns the variables that the block reads and does not bind.
    fn free(&self) -> BTreeSet<Var> {
        let bound = self.bound();
        let args = self.eqns.iter().flat_map(|e| &e.args).copied();
        let stored = self.stores.iter().map(|s| s.0);
        args.chain(stored).filter(|v| !bound.contains(v)).collect()
    }
}
