//! Emits compiled loops over the elementwise groups of a function and of its derivatives.
//!
//! Plans are made once shapes are known, but at compile time they seldom are. The groups are
//! therefore those of [guessed shapes](super::guessed_shapes). The run time looks up each group of a plan by what it computes, and uses the compiled
//! loop if there is one. A wrong guess costs code size, never correctness.

use crate::derivative::Wrt;
use crate::emit::cx::{EmitCx, LoopUse};
use crate::feature::closures::ClosureBody;
use crate::feature::guessed_shapes::{guessed, without_values_of_one_parameter};
use crate::feature::turns;
use crate::program::Body;
use gradloom_ir::ad::{self, Calls, Hvp};
use gradloom_ir::op::Eval;
use gradloom_ir::pass::{self, Arg, Group};
use gradloom_ir::{Attr, Eqn, Op, Program, Static, Var};
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Limits on the operands and results of a loop. All of them are arguments of one function.
const MOST: (usize, usize) = (24, 12);

/// Limits on the loops of one function, and on the ops in all of them together.
///
/// They bound code size: each loop is compiled six times (two dtypes, three SIMD levels). Groups
/// over the limit run as smaller compiled loops, or one op at a time.
const MOST_LOOPS: usize = 32;
const MOST_OPS: usize = 384;

/// Loops compiled with a function.
pub(crate) struct Loops {
    /// Groups by signature.
    groups: BTreeMap<String, CompiledGroup>,
    n_ops: usize,
}

/// A group with its program.
struct CompiledGroup {
    program: Program,
    group: Group,
    used: LoopUse,
    /// True if the group is a whole turn of a loop over numbers.
    is_turn: bool,
}

/// Part of a function that a program is.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Function,
    Block,
}

impl Loops {
    /// Collects the groups of the programs that plans are made of; a body traced at run time has
    /// none.
    ///
    /// `closures` are the bodies of [closures](super::closures) in the function. `hvp` is its second-order
    /// program, if it has one.
    pub(crate) fn new(body: &Body, closures: &[ClosureBody], hvp: Option<&Hvp>) -> Loops {
        let mut loops = Loops {
            groups: BTreeMap::new(),
            n_ops: 0,
        };
        loops.add_body(body);
        for closure in closures {
            if loops.is_full() {
                break;
            }
            let Some(turns) = turns::programs(closure) else {
                loops.add_body(&closure.body);
                continue;
            };
            let of_uses = [
                (turns.primal, LoopUse::All),
                (turns.reverse, LoopUse::Reverse),
                (turns.forward, LoopUse::Forward),
            ];
            for (programs, used) in of_uses {
                for program in programs {
                    loops.add_turn(program, used);
                }
            }
        }
        if let Some(hvp) = hvp {
            // The value is not returned, and callers may drop the gradients.
            let n_gradients = hvp.nonzero.iter().filter(|nonzero| **nonzero).count();
            for unread in [1, 1 + n_gradients] {
                let mut program = hvp.program.clone();
                program.outs.drain(..unread);
                loops.add(program, LoopUse::Second);
            }
        }
        loops
    }

    /// Returns which companions have loops.
    pub(crate) fn uses(&self) -> Vec<LoopUse> {
        let has = |used: &LoopUse| self.groups.values().any(|group| group.used == *used);
        LoopUse::ALL.into_iter().filter(has).collect()
    }

    /// Returns the loops of some companions.
    fn used(&self, used: LoopUse) -> Vec<TokenStream> {
        let loops = self.groups.iter();
        let loops = loops.filter(|(_, group)| group.used == used);
        loops
            .map(|(signature, group)| fused(signature, group))
            .collect()
    }

    /// Adds the groups of a body and of its derivatives.
    fn add_body(&mut self, body: &Body) {
        let Body::Compiled(flow) = body else { return };
        let extent = match flow.straight() {
            Some(_) => Extent::Function,
            None => Extent::Block,
        };
        let active = Wrt::public().active(flow);
        for block in &flow.flow.blocks {
            self.add_program(&block.program, &block.wrt(&active), extent);
        }
    }

    /// Adds the groups of a program and of its derivatives with respect to `wrt`.
    fn add_program(&mut self, program: &Program, wrt: &[Var], extent: Extent) {
        if self.is_full() {
            return;
        }
        self.add(program.clone(), LoopUse::All);
        if wrt.is_empty() {
            return;
        }
        self.add(
            ad::jvp(program, wrt, Calls::Joint).program,
            LoopUse::Forward,
        );
        let vjp = ad::vjp(program, wrt);
        if extent == Extent::Function && vjp.active == [true] && may_be_a_loss(&vjp.primal) {
            let joint = joint(&vjp);
            let mut gradients = joint.clone();
            gradients.outs.remove(0);
            for program in [joint, gradients] {
                let program = guessed(program);
                self.add_guessed(program.clone(), LoopUse::Reverse);
                if let Some(program) = without_values_of_one_parameter(program) {
                    self.add_groups(program, LoopUse::Reverse);
                }
            }
        }
        self.add(vjp.primal, LoopUse::Reverse);
        self.add(vjp.pullback, LoopUse::Reverse);
    }

    fn is_full(&self) -> bool {
        self.groups.len() >= MOST_LOOPS || self.n_ops >= MOST_OPS
    }

    /// Adds the groups of a program.
    fn add(&mut self, program: Program, used: LoopUse) {
        self.add_guessed(guessed(program), used);
    }

    /// Adds the groups of a program with guessed shapes, as they are for small values and for large ones.
    fn add_guessed(&mut self, program: Program, used: LoopUse) {
        self.add_groups(pass::recompute(program.clone()), used);
        self.add_groups(program, used);
    }

    /// Adds the groups of the turn of a loop over numbers.
    fn add_turn(&mut self, program: Program, used: LoopUse) {
        let computed = program.eqns.iter().filter(|eqn| !eqn.data().is_empty());
        let n_computed = computed.count();
        if let [signature] = &self.add_groups(program, used)[..]
            && let Some(added) = self.groups.get_mut(signature)
        {
            added.is_turn |= added.group.args.len() == n_computed;
        }
    }

    /// Adds the groups of a program, and returns their signatures.
    fn add_groups(&mut self, program: Program, used: LoopUse) -> Vec<String> {
        let mut signatures = Vec::new();
        let mut readers: HashMap<Var, Vec<usize>> = HashMap::new();
        for (i, eqn) in program.eqns.iter().enumerate() {
            for var in eqn.data() {
                readers.entry(*var).or_default().push(i);
            }
        }
        for step in pass::fuse(&program) {
            if step.len() < 2 || self.is_full() {
                continue;
            }
            let outside = |i: &usize| !step.contains(i);
            let is_read = |var: Var| {
                program.outs.contains(&var)
                    || readers.get(&var).is_some_and(|r| r.iter().any(outside))
            };
            let group = Group::new(&program, &step, is_read).filter(|group| {
                let (inputs, results) = (group.inputs.len(), group.results.len());
                (1..=MOST.0).contains(&inputs)
                    && (1..=MOST.1).contains(&results)
                    && is_of_floats(&program, group)
                    && self.n_ops + step.len() <= MOST_OPS
            });
            let Some(group) = group else { continue };
            let signature = group.signature(&program);
            signatures.push(signature.clone());
            match self.groups.entry(signature) {
                Entry::Vacant(entry) => {
                    self.n_ops += step.len();
                    entry.insert(CompiledGroup {
                        program: program.clone(),
                        group,
                        used,
                        is_turn: false,
                    });
                }
                Entry::Occupied(mut entry) if entry.get().used != used => {
                    entry.get_mut().used = LoopUse::All;
                }
                Entry::Occupied(_) => {}
            }
        }
        signatures
    }
}

impl EmitCx<'_> {
    /// Returns the constant that lists the loops, and the functions that register them.
    ///
    /// The functions are not emitted in debug builds, where compiled loops would be slower than
    /// those of the run time.
    pub(crate) fn loops(&self, loops: &Loops) -> TokenStream {
        let (rt, vis) = (self.rt, self.vis());
        let functions = LoopUse::ALL.iter().filter_map(|used| {
            let (name, loops) = (self.name_of_loops(*used), loops.used(*used));
            (!loops.is_empty()).then(|| ours!(#vis fn #name { #(#loops)* }))
        });
        let (name, user) = (&self.names.kernels, &self.func.sig.ident);
        let doc = match loops.groups.len() {
            0 => format!("No loop over several ops is compiled with `{user}`."),
            n => format!(
                "Signatures of the {n} loops compiled with `{user}`, each for `f32` and `f64` and three SIMD levels: the number of operands, the ops on earlier values, and after `>` the results. Builds with debug assertions have no compiled loops."
            ),
        };
        ours! {
            #rt::loops! {
                #[doc = #doc]
                #vis const #name;
                #(#functions)*
            }
        }
    }
}

/// Returns whether the first result may be a scalar.
///
/// Returns false for an elementwise result of unknown shape.
fn may_be_a_loss(program: &Program) -> bool {
    let y = program.outs[0];
    match program.aval(y).shape.known() {
        Some(shape) => shape.is_empty(),
        None => {
            let maker = program.eqns.iter().find(|eqn| eqn.outs.contains(&y));
            maker.is_some_and(|eqn| !eqn.op.def().facts().elementwise)
        }
    }
}

/// Returns one program for the value and the gradients of a function with one result.
///
/// The run time records them together: the pullback follows the primal whose residuals it reads,
/// with a cotangent of one.
fn joint(vjp: &ad::Vjp) -> Program {
    let ad::Vjp {
        primal, pullback, ..
    } = vjp;
    let mut program = primal.clone();
    let y = program.outs[0];
    program.outs.truncate(1);
    // Residuals have the same numbers in both parts; variables that the pullback binds get fresh
    // ones.
    let ct = *pullback.params.last().expect("the cotangent of the result");
    let first = primal.n_vars().max(pullback.n_vars());
    let mut fresh: HashMap<Var, Var> = HashMap::new();
    let bound = pullback.eqns.iter().flat_map(|eqn| &eqn.outs);
    for (var, own) in std::iter::once(&ct).chain(bound).zip(first..) {
        let aval = pullback.aval(*var).clone();
        program.avals.insert(Var(own), aval);
        fresh.insert(*var, Var(own));
    }
    let renamed = |var: &Var| fresh.get(var).copied().unwrap_or(*var);
    program.attrs.push(Static::Int(1));
    program.eqns.push(Eqn {
        outs: [renamed(&ct)].into(),
        op: Op::FullLike,
        attrs: [Attr(program.attrs.len() as u32 - 1)].into(),
        args: [y].into(),
    });
    let n_attrs = program.attrs.len() as u32;
    program.attrs.extend(pullback.attrs.iter().cloned());
    program.eqns.extend(pullback.eqns.iter().map(|eqn| Eqn {
        outs: eqn.outs.iter().map(renamed).collect(),
        op: eqn.op,
        attrs: eqn.attrs.iter().map(|a| Attr(a.0 + n_attrs)).collect(),
        args: eqn.args.iter().map(renamed).collect(),
    }));
    program.outs.extend(pullback.outs.iter().map(renamed));
    program
}

/// Returns whether all operands and results of the group may be floats.
///
/// Bools may occur only between its members.
fn is_of_floats(program: &Program, group: &Group) -> bool {
    let mut bools: Vec<bool> = Vec::new();
    for (m, args) in group.args.iter().enumerate() {
        let is_bool = |arg: &Arg| matches!(arg, Arg::Member(m) if bools[*m]);
        let (conditions, numbers, out) = match group.eqn(program, m).op.def().eval() {
            Eval::Kernel(_) => (&args[..1], &args[1..], false),
            Eval::Compare(_) => (&args[..0], &args[..], true),
            Eval::Test(_) | Eval::Bits(_) | Eval::Many(_) => return false,
            _ => (&args[..0], &args[..], false),
        };
        if !conditions.iter().all(is_bool) || numbers.iter().any(is_bool) {
            return false;
        }
        bools.push(out);
    }
    !group.results.iter().any(|m| bools[*m])
}

/// Returns the loop of a group.
fn fused(signature: &str, compiled: &CompiledGroup) -> TokenStream {
    let CompiledGroup {
        program,
        group,
        is_turn,
        ..
    } = compiled;
    let name = |prefix: &str, i: usize| Ident::new(&format!("{prefix}{i}"), Span::mixed_site());
    let inputs = (0..group.inputs.len()).map(|i| name("x", i));
    let operand = |arg: &Arg| match arg {
        Arg::Input(i) => name("x", *i).into_token_stream(),
        Arg::Member(m) => name("v", *m).into_token_stream(),
        Arg::Constant(x) if x.is_finite() => ours!((#x)),
        Arg::Constant(x) => {
            let bits = x.to_bits();
            ours!((f64::from_bits(#bits)))
        }
    };
    let mut is_fast = false;
    let members = group.args.iter().enumerate().map(|(m, args)| {
        let (out, def) = (name("v", m), group.eqn(program, m).op.def());
        let (op, args) = (
            Ident::new(def.name(), Span::mixed_site()),
            args.iter().map(operand),
        );
        let fast = def.facts().fast.map(|f| Ident::new(f, Span::mixed_site()));
        let fast = fast.map(|f| ours!([#f]));
        is_fast |= fast.is_some();
        ours!(#out = #op (#(#args)*) #fast;)
    });
    let members: Vec<TokenStream> = members.collect();
    let fast = is_fast.then(|| ours!(fast));
    let results = group.results.iter().enumerate().map(|(i, m)| {
        let (y, v) = (name("y", i), name("v", *m));
        ours!(#y = #v)
    });
    let turn = is_turn.then(|| ours!(turn));
    ours!(#signature { #fast #(#inputs)* => { #(#members)* } #(#results),* } #turn)
}
