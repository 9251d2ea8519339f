//! A body with host control flow, in pieces: straight-line blocks, and the host code between them.
//!
//! A local that is assigned to inside a loop or a branch, and was declared outside of it, lives in a *slot* while control
//! goes from block to block: a mutable local of the emitted code. Within a block it is a variable like any other.

use super::{Cx, Input, Local, Lowered, R, Source, Stop, Value, text};
use gradloom_ir::flow::{Block, Flow, Node};
use gradloom_ir::{Aval, Builder, Program, SecondaryMap, Shape, Var};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// A body with host control flow.
#[derive(Debug)]
pub(crate) struct Flowing {
    /// The blocks, and what runs them.
    pub(crate) flow: Flow<HostCode>,
    /// What belongs to each block.
    pub(crate) pieces: Vec<Piece>,
    /// The tensor parameters of the function.
    pub(crate) inputs: Vec<Input>,
}

/// What belongs to a block.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) low: Lowered,
    /// How each result of the block is stored.
    pub(crate) stores: Vec<Store>,
    /// The line it starts at.
    pub(crate) line: usize,
}

/// How a result of a block reaches other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// It is the first value of a slot.
    Declare,
    /// It is assigned to a slot.
    Assign,
    /// It keeps its own name.
    Keep,
    /// It is what a slot held until then, under a name of its own.
    Let,
    /// It is a result of the function.
    Result,
}

/// Host code between blocks.
#[derive(Clone, Debug)]
pub(crate) enum HostCode {
    /// Code as it is emitted.
    Code(TokenStream),
    /// Code that opens a scope: what stands before the brace.
    Head(TokenStream),
    /// A loop of which reverse mode keeps a state now and then.
    Checkpoint(Box<super::checkpoint::Checkpoint>),
    /// Declares a local that is assigned to later, if anything is; the number of its declaration.
    Declare(usize, Declaration),
    /// Leaves the function with an error.
    Fail(TokenStream),
}

/// What a declaration turned out to declare.
#[derive(Clone, Debug)]
pub(crate) enum Declaration {
    Nothing,
    Tensor(Var),
    Host(Ident),
}

impl fmt::Display for HostCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostCode::Code(tokens) | HostCode::Fail(tokens) => f.write_str(&text(tokens)),
            HostCode::Head(tokens) => f.write_str(&head_text(tokens)),
            HostCode::Checkpoint(c) => write!(
                f,
                "#[checkpoint(every = {})] {}",
                text(&c.every),
                head_text(&c.shown)
            ),
            HostCode::Declare(_, Declaration::Host(ident)) => write!(f, "let {ident};"),
            HostCode::Declare(..) => Ok(()),
        }
    }
}

/// What stands before a brace, as a person writes it.
fn head_text(head: &TokenStream) -> String {
    let statement = quote::quote!(fn f() { #head {} });
    let arm = quote::quote!(fn f() { match x { #head {} } });
    for (code, skip) in [(statement, 1), (arm, 2)] {
        let Ok(file) = syn::parse2::<syn::File>(code) else {
            continue;
        };
        let code = prettyplease::unparse(&file);
        let line = code.lines().nth(skip).unwrap_or_default().trim();
        let line = line.trim_end_matches("{}").trim_end_matches('{').trim_end();
        // Where it takes several lines, its tokens will do.
        if !line.is_empty() && code.lines().count() <= 2 * skip + 3 {
            return line.to_owned();
        }
    }
    text(head)
}

/// Where a local lives between blocks.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    One(Var),
    Many(Vec<Slot>),
}

impl Slot {
    /// Whether a value has the structure of what the slot holds.
    pub(super) fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Poison) | (Slot::One(_), Value::Tensor { .. }) => true,
            (Slot::Many(slots), Value::Tuple(values)) => {
                slots.len() == values.len() && slots.iter().zip(values).all(|(s, v)| s.fits(v))
            }
            _ => false,
        }
    }
}

/// The pieces of the body, as far as it has been lowered.
#[derive(Clone)]
pub(super) struct Pieces {
    /// The lists of nodes that are open, the innermost last.
    open: Vec<Vec<Node<HostCode>>>,
    blocks: Vec<Rc<Raw>>,
    /// Slots whose declaration is the next store.
    undeclared: BTreeSet<Var>,
    /// Stores at the end of the block that is open.
    stores: Vec<(Var, Var, Store)>,
    declarations: Vec<Declaration>,
    /// Every value that went into a slot, for the avals at the heads of loops.
    pub(super) stored: Vec<(Var, Aval)>,
    pub(super) results: Vec<Var>,
    /// The loops and labelled blocks around the statement that is lowered.
    pub(super) around: Vec<super::control::Around>,
    /// Whether control has left the statements that are lowered.
    pub(super) left: bool,
    /// Whether the arms of branches are read as tensors, where they are parts of trees.
    pub(super) as_tensors: bool,
    /// The variables that host code reads.
    read: BTreeSet<Var>,
    /// The name of the local that a branch gives its value to.
    pub(super) hint: Option<Ident>,
    line: usize,
}

/// A block before it is known what others read of it.
#[derive(Clone)]
struct Raw {
    program: Program,
    inputs: Vec<Input>,
    hosts: Vec<super::HostStmt>,
    statics: BTreeMap<gradloom_ir::Attr, Ident>,
    static_hosts: BTreeMap<gradloom_ir::Attr, usize>,
    input_hosts: SecondaryMap<Var, usize>,
    calls: BTreeMap<gradloom_ir::Attr, super::Call>,
    spans: SecondaryMap<Var, Span>,
    stores: Vec<(Var, Var, Store)>,
    line: usize,
}

impl Pieces {
    pub(super) fn new() -> Pieces {
        Pieces {
            open: vec![Vec::new()],
            blocks: Vec::new(),
            undeclared: BTreeSet::new(),
            stores: Vec::new(),
            declarations: Vec::new(),
            stored: Vec::new(),
            results: Vec::new(),
            around: Vec::new(),
            left: false,
            as_tensors: false,
            read: BTreeSet::new(),
            hint: None,
            line: 0,
        }
    }
}

impl Cx<'_> {
    /// What is known of a body with control flow while it is lowered.
    pub(super) fn pieces_mut(&mut self) -> &mut Pieces {
        self.flow.as_mut().expect("the body may have control flow")
    }

    /// Lowers a body with control flow.
    pub(super) fn flow(&mut self, block: &syn::Block) -> R<()> {
        let shape = self.func.output.shape.clone();
        for _ in 0..shape.len() {
            let result = self.b.param(Aval::UNKNOWN);
            self.b.name(result, "result");
            self.pieces_mut().results.push(result);
        }
        self.function_body(block)?;
        self.flush();
        match self.pieces_mut().left {
            true => Ok(()),
            false => Err(Stop::Recorded(
                "its body does not end in a value".to_owned(),
            )),
        }
    }

    /// The line of what is lowered next, for the block that it starts.
    pub(super) fn at_line(&mut self, span: Span) {
        let starts = self.b.n_eqns() == 0 && self.hosts.is_empty();
        if let Some(pieces) = self.flow.as_mut().filter(|_| starts) {
            pieces.line = span.start().line;
        }
    }

    pub(super) fn push_node(&mut self, node: Node<HostCode>) {
        let open = self.pieces_mut().open.last_mut();
        open.expect("a list is open").push(node);
    }

    pub(super) fn push_code(&mut self, tokens: TokenStream) {
        self.push_node(Node::Host(HostCode::Code(tokens)));
    }

    /// Lowers what stands in a scope of its own, and ends its last block.
    pub(super) fn scope<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> R<T>,
    ) -> R<(T, Vec<Node<HostCode>>)> {
        self.pieces_mut().open.push(Vec::new());
        self.scopes.push(BTreeMap::new());
        let value = inner(self);
        self.flush();
        self.scopes.pop();
        let nodes = self.pieces_mut().open.pop().expect("it has been opened");
        Ok((value?, nodes))
    }

    /// A place for a declaration; what it declares is said later.
    pub(super) fn declaration(&mut self) -> usize {
        self.flush();
        let pieces = self.pieces_mut();
        pieces.declarations.push(Declaration::Nothing);
        let id = pieces.declarations.len() - 1;
        self.push_node(Node::Host(HostCode::Declare(id, Declaration::Nothing)));
        id
    }

    pub(super) fn declare(&mut self, id: usize, declaration: Declaration) {
        self.pieces_mut().declarations[id] = declaration;
    }

    /// Says that host code outside of the blocks reads variables.
    pub(super) fn read(&mut self, vars: &[Var]) {
        self.pieces_mut().read.extend(vars);
    }

    /// A new slot for a value like `value`.
    pub(super) fn new_slot(&mut self, name: Option<&Ident>, value: Var) -> Var {
        let aval = self.b.aval(value).clone();
        let slot = self.b.param(aval);
        match name {
            Some(name) => self.name(slot, name),
            None => self.name(slot, &Ident::new("value", Span::mixed_site())),
        }
        slot
    }

    /// Gives a local of the user's a slot, because what follows assigns to it. Locals that are not tensors need none.
    pub(super) fn needs_slot(&mut self, name: &Ident) -> R<()> {
        let key = crate::parse::unraw(name);
        let found = self.scopes.iter().rev().find_map(|s| s.get(&key)).cloned();
        let Some(Local { value, slot: None }) = found else {
            return Ok(());
        };
        let value = match value {
            Value::Place(place) if place.by_ref => {
                return Err(Stop::Recorded(format!(
                    "an assignment to the reference `{key}`"
                )));
            }
            Value::Place(place) => Value::Tensor {
                var: self.leaf(&place, None)?,
                by_ref: false,
            },
            value @ (Value::Tensor { .. } | Value::Tuple(_)) => value,
            _ => return Ok(()),
        };
        let slot = self.slot_for(name, &value)?;
        let local = self.scopes.iter_mut().rev().find_map(|s| s.get_mut(&key));
        *local.expect("it has just been found") = Local {
            value,
            slot: Some(slot),
        };
        Ok(())
    }

    fn slot_for(&mut self, name: &Ident, value: &Value) -> R<Slot> {
        match value {
            Value::Tensor { var, .. } => {
                let slot = self.new_slot(Some(name), *var);
                self.pieces_mut().undeclared.insert(slot);
                Ok(Slot::One(slot))
            }
            Value::Tuple(values) => {
                let slots = values.iter().map(|v| self.slot_for(name, v));
                Ok(Slot::Many(slots.collect::<R<_>>()?))
            }
            _ => Err(Stop::Recorded(format!(
                "an assignment to `{name}`, which holds more than tensors"
            ))),
        }
    }

    /// Stores a value into a slot at the end of the block.
    pub(super) fn store(&mut self, target: Var, value: Var, store: Store) {
        let aval = self.b.aval(value).clone();
        self.pieces_mut().stored.push((target, aval.clone()));
        self.b.set_aval(target, aval);
        self.pieces_mut().stores.push((target, value, store));
    }

    /// Ends the block: values go into their slots, and what is lowered next is a block of its own.
    pub(super) fn flush(&mut self) {
        self.keep_old_values();
        let mut pending = Vec::new();
        for local in self.scopes.iter_mut().flat_map(BTreeMap::values_mut) {
            if let Some(slot) = &local.slot {
                settle(slot, &mut local.value, &mut pending);
            }
        }
        for (target, value) in pending {
            let store = match self.pieces_mut().undeclared.remove(&target) {
                true => Store::Declare,
                false => Store::Assign,
            };
            self.store(target, value, store);
        }
        let stores = std::mem::take(&mut self.pieces_mut().stores);
        if self.b.n_eqns() == 0 && self.hosts.is_empty() && stores.is_empty() {
            return;
        }
        let program = std::mem::take(&mut self.b).finish(Vec::new(), Vec::new());
        self.b = Builder::after(&program);
        // The names are complete when the whole body is lowered.
        let program = Program {
            names: SecondaryMap::new(),
            ..program
        };
        let is_param = |i: &Input| matches!(i.source, Source::Param(_));
        let params: Vec<Input> = self
            .inputs
            .iter()
            .filter(|i| is_param(i))
            .cloned()
            .collect();
        let raw = Raw {
            program,
            inputs: std::mem::replace(&mut self.inputs, params),
            hosts: std::mem::take(&mut self.hosts),
            statics: std::mem::take(&mut self.statics),
            static_hosts: std::mem::take(&mut self.static_hosts),
            input_hosts: std::mem::take(&mut self.input_hosts),
            calls: std::mem::take(&mut self.calls),
            spans: std::mem::take(&mut self.spans),
            stores,
            line: self.pieces_mut().line,
        };
        self.leaves.clear();
        self.pieces_mut().blocks.push(Rc::new(raw));
        let index = self.pieces_mut().blocks.len() - 1;
        self.push_node(Node::Block(index));
    }

    /// Locals that stand for what a slot holds, and are not its own, get variables of their own before the slot changes.
    fn keep_old_values(&mut self) {
        let mut changing = BTreeSet::new();
        for local in self.scopes.iter().flat_map(BTreeMap::values) {
            if let Some(slot) = &local.slot {
                changes(slot, &local.value, &mut changing);
            }
        }
        if changing.is_empty() {
            return;
        }
        let mut kept: BTreeMap<Var, Var> = BTreeMap::new();
        let mut scopes = std::mem::take(&mut self.scopes);
        // What goes into slots is read before any of them changes.
        let own = scopes
            .iter_mut()
            .flatten()
            .filter(|(_, local)| local.slot.is_none());
        for (name, local) in own {
            each_tensor(&mut local.value, &mut |var| {
                if changing.contains(var) {
                    let old = *var;
                    *var = *kept.entry(old).or_insert_with(|| {
                        let aval = self.b.aval(old).clone();
                        let copy = self.b.param(aval);
                        self.b.name(copy, name);
                        copy
                    });
                }
            });
        }
        self.scopes = scopes;
        let stores = kept.into_iter().map(|(old, copy)| (copy, old, Store::Let));
        self.pieces_mut().stores.extend(stores);
    }

    /// The pieces of a body that has been lowered as a whole.
    pub(super) fn pieces(mut self) -> Flowing {
        let names = std::mem::take(&mut self.b)
            .finish(Vec::new(), Vec::new())
            .names;
        let idents = Rc::new(self.idents);
        let mut state = self.flow.take().expect("the body may have control flow");
        let mut body = state.open.pop().expect("the outermost list is open");
        declared(&mut body, &state.declarations);
        let raws: Vec<Raw> = state.blocks.into_iter().map(Rc::unwrap_or_clone).collect();
        let bound: Vec<BTreeSet<Var>> = raws.iter().map(Raw::bound).collect();
        let free = raws.iter().zip(&bound).map(|(raw, bound)| raw.free(bound));
        let free: Vec<BTreeSet<Var>> = free.collect();
        let crossing: BTreeSet<Var> = free.iter().flatten().copied().collect();
        // Host statements read what they need where it is computed, whichever block they stand in.
        let hosts = raws.iter().flat_map(|b| &b.hosts);
        state
            .read
            .extend(hosts.flat_map(|h| h.reads.iter().copied()));
        let (mut blocks, mut pieces) = (Vec::new(), Vec::new());
        let n_eqns = raws.iter().map(|raw| raw.program.eqns.len()).sum();
        for (mut raw, (bound, free)) in raws.into_iter().zip(bound.iter().zip(&free)) {
            let kept = bound.intersection(&crossing).map(|v| (*v, *v, Store::Keep));
            let stores: Vec<(Var, Var, Store)> = raw.stores.iter().copied().chain(kept).collect();
            let reads: Vec<Var> = bound.intersection(&state.read).copied().collect();
            if !reads.is_empty() {
                raw.hosts.push(super::HostStmt {
                    at: raw.program.eqns.len(),
                    reads,
                    tokens: TokenStream::new(),
                });
            }
            let inputs = raw.inputs.iter().map(|i| i.var);
            let inputs: BTreeSet<Var> = inputs.filter(|v| !free.contains(v)).collect();
            let mut program = Program {
                params: free.iter().chain(&inputs).copied().collect(),
                outs: stores.iter().map(|s| s.1).collect(),
                names: names.clone(),
                ..raw.program
            };
            for (var, keep) in &self.pins {
                if bound.contains(var) {
                    program.pins.insert(*var, *keep);
                }
            }
            blocks.push(Block {
                program: program.clone(),
                targets: stores.iter().map(|s| s.0).collect(),
            });
            pieces.push(Piece {
                low: Lowered {
                    program,
                    n_eqns,
                    inputs: raw.inputs,
                    hosts: raw.hosts,
                    statics: raw.statics,
                    static_hosts: raw.static_hosts,
                    input_hosts: raw.input_hosts,
                    calls: raw.calls,
                    spans: raw.spans,
                    idents: idents.clone(),
                },
                stores: stores.iter().map(|s| s.2).collect(),
                line: raw.line,
            });
        }
        let is_param = |i: &&Input| matches!(i.source, Source::Param(_));
        let inputs: Vec<Input> = self.inputs.iter().filter(is_param).cloned().collect();
        Flowing {
            flow: Flow {
                params: inputs.iter().map(|i| i.var).collect(),
                blocks,
                body,
                results: state.results,
            },
            pieces,
            inputs,
        }
    }

    /// What is known of each slot.
    pub(super) fn slot_avals(&self) -> Vec<(Var, Aval)> {
        fn vars(slot: &Slot, out: &mut Vec<Var>) {
            match slot {
                Slot::One(var) => out.push(*var),
                Slot::Many(slots) => slots.iter().for_each(|s| vars(s, out)),
            }
        }
        let mut out = Vec::new();
        let locals = self.scopes.iter().flat_map(BTreeMap::values);
        locals
            .filter_map(|l| l.slot.as_ref())
            .for_each(|s| vars(s, &mut out));
        out.into_iter()
            .map(|v| (v, self.b.aval(v).clone()))
            .collect()
    }

    pub(super) fn set_slot_avals(&mut self, avals: &[(Var, Aval)]) {
        for (slot, aval) in avals {
            self.b.set_aval(*slot, aval.clone());
        }
    }
}

impl Raw {
    /// The variables that the block binds.
    fn bound(&self) -> BTreeSet<Var> {
        let eqns = self.program.eqns.iter().flat_map(|e| &e.outs).copied();
        let inputs = self
            .inputs
            .iter()
            .filter(|i| !matches!(i.source, Source::Param(_)));
        eqns.chain(inputs.map(|i| i.var)).collect()
    }

    /// The variables that the block reads and others bind; slots and parameters of the function too.
    fn free(&self, bound: &BTreeSet<Var>) -> BTreeSet<Var> {
        let args = self.program.eqns.iter().flat_map(|e| &e.args);
        let stored = self.stores.iter().map(|s| &s.1);
        args.chain(stored)
            .copied()
            .filter(|v| !bound.contains(v))
            .collect()
    }
}

/// Collects the slots that get another value.
fn changes(slot: &Slot, value: &Value, changing: &mut BTreeSet<Var>) {
    match (slot, value) {
        (Slot::One(slot), Value::Tensor { var, .. }) if var != slot => {
            changing.insert(*slot);
        }
        (Slot::Many(slots), Value::Tuple(values)) => {
            for (slot, value) in slots.iter().zip(values) {
                changes(slot, value, changing);
            }
        }
        _ => {}
    }
}

fn each_tensor(value: &mut Value, f: &mut dyn FnMut(&mut Var)) {
    match value {
        Value::Tensor { var, .. } => f(var),
        Value::Tuple(values) => values.iter_mut().for_each(|v| each_tensor(v, f)),
        _ => {}
    }
}

/// Collects the values that are not in their slots, and says that they are.
fn settle(slot: &Slot, value: &mut Value, stores: &mut Vec<(Var, Var)>) {
    match (slot, value) {
        (Slot::One(slot), Value::Tensor { var, .. }) if var != slot => {
            stores.push((*slot, *var));
            *var = *slot;
        }
        (Slot::Many(slots), Value::Tuple(values)) => {
            for (slot, value) in slots.iter().zip(values) {
                settle(slot, value, stores);
            }
        }
        _ => {}
    }
}

/// Fills in what each declaration declares.
fn declared(nodes: &mut [Node<HostCode>], declarations: &[Declaration]) {
    for node in nodes {
        match node {
            Node::Host(HostCode::Declare(id, what)) => *what = declarations[*id].clone(),
            Node::Scope { body, .. } => declared(body, declarations),
            _ => {}
        }
    }
}

/// What is known of a value that is one or the other.
pub(super) fn join(a: &Aval, b: &Aval) -> Aval {
    let dims = match (a.shape.dims(), b.shape.dims()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            let dims = a.iter().zip(b);
            Some(
                dims.map(|(a, b)| {
                    if a == b {
                        *a
                    } else {
                        gradloom_ir::Dim::Unknown
                    }
                })
                .collect(),
            )
        }
        _ => None,
    };
    Aval {
        dtype: a.dtype.filter(|d| b.dtype == Some(*d)),
        shape: Shape(dims),
    }
}
