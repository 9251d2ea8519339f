//! Programs of the turns of a loop over numbers, for its [compiled loops](super::compiled_loops).
//!
//! The derivatives of a loop are loops. So the closure of a turn becomes a loop of the IR whose states and operands are
//! numbers, which is differentiated as at run time, and the turns of the results are those that plans contain.

use crate::feature::closures::{ClosureBody, Turn};
use crate::input::OutShape;
use crate::program::{Body, Input, Source};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::flow::Node;
use gradloom_ir::op::control::ScanParts;
use gradloom_ir::{Attr, Aval, Builder, DType, Op, Program, Programs, Static, Var, pass};
use std::collections::HashMap;
use std::ops::Range;

/// Programs of turns, as they are planned.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) primal: Vec<Program>,
    pub(super) forward: Vec<Program>,
    pub(super) reverse: Vec<Program>,
}

/// Number of turns. The programs do not depend on it.
const N: usize = 2;

/// Returns the programs of a turn and of its derivatives, if all operands and results may be numbers.
pub(super) fn programs(closure: &ClosureBody) -> Option<Turns> {
    let mut all = Turns::default();
    let one = looped(closure, EqualNumbers::AreOne)?;
    all.add(&one);
    // Numbers of the host are constants of a plan, of which equal ones are one value, until they change.
    let apart = looped(closure, EqualNumbers::AreApart)?;
    if apart.turn_eqns != one.turn_eqns {
        all.add(&apart);
    }
    Some(all)
}

impl Turns {
    fn add(&mut self, looped: &Looped) {
        let Looped {
            program, states, ..
        } = looped;
        self.primal.extend(turns(program));
        // A loss depends on all operands, or on the first states alone.
        for wrt in [&program.params[..], &program.params[states.clone()]] {
            let jvp = ad::jvp(program, wrt, Calls::Joint);
            self.forward.extend(turns(&jvp.program));
            let vjp = ad::vjp(program, wrt);
            let both = [turns(&vjp.primal), turns(&vjp.pullback)];
            self.reverse.extend(both.concat());
        }
    }
}

/// Returns the turns of the loops in a program.
fn turns(program: &Program) -> Vec<Program> {
    let program = pass::simplify(program.clone());
    let loops = program.eqns.iter().filter(|eqn| eqn.op == Op::Scan);
    let turn = |statics: Vec<Static>| pass::to_plan(ScanParts::of(&statics).body.clone());
    let statics = loops.map(|eqn| eqn.attrs.iter().map(|attr| program.attr(*attr).clone()));
    statics.map(|statics| turn(statics.collect())).collect()
}

/// What equal expressions of the host are.
#[derive(Clone, Copy, PartialEq)]
enum EqualNumbers {
    AreOne,
    AreApart,
}

/// A program with a loop.
struct Looped {
    program: Program,
    /// The parameters that are the first states.
    states: Range<usize>,
    /// Number of equations of a turn.
    turn_eqns: usize,
}

/// Returns a program with the loop whose turn is `closure`.
fn looped(closure: &ClosureBody, numbers: EqualNumbers) -> Option<Looped> {
    let (turn, n_carry) = match (closure.turn?, &closure.output) {
        (Turn::Scan, OutShape::Tuple(parts)) => (Turn::Scan, parts.first()?.len()),
        (Turn::Scan, _) => return None,
        (Turn::Map, _) => (Turn::Map, 0),
        (turn, output) => (turn, output.len()),
    };
    let mut body = TurnBody::new(&closure.body, turn, numbers)?;
    let outs = body.run()?;
    let [consts, mut carry, xs] = body.params;
    let mut b = body.b;
    // A state that no turn reads.
    while carry.len() < n_carry {
        carry.push((b.param(number()), String::new()));
    }
    if carry.len() != n_carry || outs.len() < n_carry {
        return None;
    }
    let ordered = consts.iter().chain(&carry).chain(&xs);
    let params: Vec<Var> = ordered.map(|(var, _)| *var).collect();
    let n_outs = outs.len();
    let body = as_traced(b.finish(params.clone(), outs));
    let turn_eqns = body.eqns.len();
    let mut b = Builder::new();
    let n_numbers = consts.len() + carry.len();
    let states = consts.len()..n_numbers;
    let args: Vec<Var> = (0..params.len())
        .map(|i| match i < n_numbers {
            true => b.param(number()),
            false => b.param(Aval::new(DType::F32, &[N])),
        })
        .collect();
    let counts = [N, consts.len(), n_carry].map(|n| Static::Int(n as i64));
    let [turns, consts, carry] = counts;
    let body = Static::from(Programs::new(vec![body]));
    let statics = [body, turns, consts, carry, Static::Bool(false)].map(|of| b.attr(of));
    let outs = b.try_emit(Op::Scan, &statics, &args, n_outs).ok()?;
    Some(Looped {
        program: b.finish(args, outs),
        states,
        turn_eqns,
    })
}

/// Returns a program with its equations in the order in which a trace finds them: each result after its operands, from
/// the first operand on.
///
/// The signature of a group depends on this order.
fn as_traced(program: Program) -> Program {
    let bound = program.eqns.iter().enumerate();
    let makers: HashMap<Var, usize> = bound
        .flat_map(|(i, eqn)| eqn.outs.iter().map(move |out| (*out, i)))
        .collect();
    let maker = |var: &Var| makers.get(var).copied();
    let (mut order, mut met) = (Vec::new(), vec![false; program.eqns.len()]);
    let mut stack: Vec<(usize, bool)> = Vec::new();
    for root in program.outs.iter().filter_map(maker) {
        stack.push((root, false));
        while let Some((i, has_operands)) = stack.pop() {
            if has_operands {
                order.push(i);
            } else if !std::mem::replace(&mut met[i], true) {
                stack.push((i, true));
                let operands = program.eqns[i].args.iter().rev().filter_map(maker);
                stack.extend(operands.map(|operand| (operand, false)));
            }
        }
    }
    let eqns = order.iter().map(|i| program.eqns[*i].clone()).collect();
    Program { eqns, ..program }
}

fn number() -> Aval {
    Aval::new(DType::F32, &[])
}

/// A turn that is built from the blocks of a closure.
struct TurnBody<'a> {
    b: Builder,
    body: &'a Body,
    turn: Turn,
    numbers: EqualNumbers,
    /// The numbers of the host that were met, by their expressions.
    met: HashMap<String, Var>,
    inputs: Vec<&'a Input>,
    /// Constants, states and slices, each with its place among the arguments.
    params: [Vec<(Var, String)>; 3],
    /// Value of each variable of the closure.
    values: HashMap<Var, Var>,
}

impl<'a> TurnBody<'a> {
    fn new(body: &'a Body, turn: Turn, numbers: EqualNumbers) -> Option<TurnBody<'a>> {
        let Body::Compiled(flow) = body else {
            return None;
        };
        Some(TurnBody {
            b: Builder::new(),
            body,
            turn,
            numbers,
            met: HashMap::new(),
            inputs: flow.all_inputs(),
            params: Default::default(),
            values: HashMap::new(),
        })
    }

    /// Appends all blocks, and returns the results. A closure with branches or loops has none.
    fn run(&mut self) -> Option<Vec<Var>> {
        let Body::Compiled(flow) = self.body else {
            return None;
        };
        for node in &flow.flow.body {
            match node {
                Node::Block(i) => {
                    let block = &flow.flow.blocks[*i];
                    let outs = self.block(&block.program)?;
                    self.values.extend(block.targets.iter().copied().zip(outs));
                }
                Node::Host(_) => {}
                Node::Scope { .. } => return None,
                Node::Return(outs) => {
                    return Some(outs.iter().map(|out| self.value(*out)).collect());
                }
            }
        }
        let outs = flow.flow.results.iter();
        Some(outs.map(|out| self.value(*out)).collect())
    }

    fn block(&mut self, program: &Program) -> Option<Vec<Var>> {
        let mut own: HashMap<Var, Var> = HashMap::new();
        for param in &program.params {
            own.insert(*param, self.value(*param));
        }
        for eqn in &program.eqns {
            // Numbers are seldom operands of other ops.
            if !(eqn.op.def().facts().elementwise || eqn.data().is_empty()) {
                return None;
            }
            let expr = match (eqn.op, eqn.attrs.first().map(|attr| program.attr(*attr))) {
                (Op::Scalar, Some(Static::Host(text))) if self.numbers == EqualNumbers::AreOne => {
                    Some(text.clone())
                }
                _ => None,
            };
            if let Some(known) = expr.as_ref().and_then(|expr| self.met.get(expr)) {
                own.insert(eqn.out(), *known);
                continue;
            }
            let statics = eqn.attrs.iter().map(|attr| program.attr(*attr).clone());
            let statics: Vec<Attr> = statics.map(|of| self.b.attr(of)).collect();
            let args = eqn.args.iter().map(|arg| own.get(arg).copied());
            let args = args.collect::<Option<Vec<Var>>>()?;
            let n_outs = eqn.outs.len();
            let outs = self.b.try_emit(eqn.op, &statics, &args, n_outs).ok()?;
            // A shape or a dtype that only the run time knows would not be that of a number.
            let is_known = |out: &Var| {
                let aval = self.b.aval(*out);
                aval.dtype.is_some() && aval.shape.known().is_some()
            };
            if !outs.iter().all(is_known) {
                return None;
            }
            self.met.extend(expr.map(|expr| (expr, outs[0])));
            own.extend(eqn.outs.iter().copied().zip(outs));
        }
        let outs = program.outs.iter().map(|out| own.get(out).copied());
        let outs = outs.collect();
        // Variables of blocks are distinct.
        self.values.extend(own);
        outs
    }

    /// Returns the value of a variable of the closure, which is a parameter of the turn if no block stored it.
    fn value(&mut self, var: Var) -> Var {
        if let Some(value) = self.values.get(&var) {
            return *value;
        }
        let input = self.inputs.iter().find(|input| input.var == var);
        let source = input.map(|input| &input.source);
        let [consts, carry, xs] = &mut self.params;
        let list = match (self.turn, source.and_then(Source::param)) {
            (Turn::Scan | Turn::While, Some(0)) | (Turn::For, Some(1)) => carry,
            (Turn::Scan, Some(1)) | (Turn::Map | Turn::For, Some(0)) => xs,
            _ => consts,
        };
        let place = match source {
            Some(Source::Leaf { place, .. }) => place.to_string(),
            _ => String::new(),
        };
        let known = list
            .iter()
            .find(|(_, other)| !place.is_empty() && *other == place);
        let value = match known {
            Some((value, _)) => *value,
            None => {
                let value = self.b.param(number());
                list.push((value, place));
                value
            }
        };
        self.values.insert(var, value);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::{EqualNumbers, Looped, looped, programs};
    use crate::feature::closures;
    use crate::input;
    use crate::report::Errors;
    use gradloom_ir::Op;

    /// Returns the statics of the loop of each closure in a function that is a turn of numbers.
    fn loops(source: &str) -> Vec<String> {
        let mut item: syn::ItemFn = syn::parse_str(source).expect("the test's source parses");
        let (vis, mut errors) = (syn::Visibility::Inherited, Errors::default());
        let func = input::signature(&vis, &[], &mut item.sig, None, &mut errors);
        assert!(errors.is_empty());
        let closures = closures::bodies(&func, &item.block, &quote::quote!(::gradloom));
        for closure in &closures {
            programs(closure);
        }
        let loops = closures.iter();
        let loops = loops.filter_map(|closure| looped(closure, EqualNumbers::AreOne));
        let show = |Looped { program, .. }: Looped| {
            let eqn = program.eqns.iter().find(|eqn| eqn.op == Op::Scan);
            let statics = eqn.expect("it is a loop").attrs[1..].iter();
            let statics = statics.map(|attr| program.attr(*attr).to_string());
            statics.collect::<Vec<_>>().join(" ")
        };
        loops.map(show).collect()
    }

    #[test]
    fn a_turn_of_numbers_is_found() {
        // Turns, constants, states, direction.
        let scanned = "fn f(w: &Tensor, x: &Tensor) -> Tensor {
            let step = 0.1;
            let (_, ys) = scan(
                |(s, t): &(Tensor, Tensor), x: &Tensor| {
                    let pull = |s: &Tensor| -(s.sin() * w) - x * (step / 2.0);
                    let next = s + pull(t);
                    ((next.clone(), t + pull(&next)), next * 2.0)
                },
                &(w.clone(), w.clone()),
                x,
            );
            ys
        }";
        assert_eq!(loops(scanned), ["2 1 2 false"]);
        let others = "fn f(w: &Tensor, x: &Tensor) -> Tensor {
            let turn = |_: &Tensor, y: &Tensor| y * w + x;
            let y = fori_loop(0..3, turn, x);
            let y = gradloom::while_loop(|y: &Tensor| y.lt(1.0), |y: &Tensor| y * 2.0, &y);
            map(|y: &Tensor| y.exp() * w, &y)
        }";
        let found = loops(others);
        assert!(found.contains(&"2 2 1 false".to_owned()), "{found:?}");
        assert!(found.contains(&"2 0 1 false".to_owned()), "{found:?}");
        assert!(found.contains(&"2 1 0 false".to_owned()), "{found:?}");
    }

    #[test]
    fn other_turns_are_not() {
        let source = "fn f(w: &Tensor, x: &Tensor) -> Tensor {
            let y = fori_loop(0..3, |_: &Tensor, y: &Tensor| y.matmul(w), x);
            let y = fori_loop(0..3, |_: &Tensor, y: &Tensor| if flag() { y * w } else { y + w }, &y);
            grad(|y: &Tensor| (y * w).sum(..))(&y)
        }";
        assert!(loops(source).is_empty());
    }

    #[test]
    fn a_chain_of_closures_is_not_lowered_without_end() {
        let chain = (1..30).map(|i| {
            let before = i - 1;
            format!("let f{i} = |y: &Tensor| f{before}(y) + f{before}(&y.cos());")
        });
        let chain: String = chain.collect();
        let source = "fn f(x: &Tensor) -> Tensor { let f0 = |y: &Tensor| y.sin(); CHAIN map(|y: &Tensor| f29(y), x) }";
        assert!(loops(&source.replace("CHAIN", &chain)).is_empty());
    }

    #[test]
    fn helpers_are_declared_in_the_order_of_the_source() {
        let source = "fn f(w: &Tensor, x: &Tensor) -> Tensor {
            let b = |y: &Tensor| y.sin() * 2.0;
            let a = |y: &Tensor| { let w = w * 0.5; b(y).cos() * y * w };
            scan(|s: &Tensor, y: &Tensor| (a(s) + b(y), s.clone()), x, x).1
        }";
        assert_eq!(loops(source), ["2 1 1 false"]);
    }

    #[test]
    fn states_may_be_a_local() {
        let source = "fn f(x: &Tensor) -> Tensor {
            let turn = |(s, t): &(Tensor, Tensor), y: &Tensor| {
                let states = (s * y, s.clone());
                let out = t + y;
                (states, out)
            };
            scan(turn, &(x.clone(), x.clone()), x).1
        }";
        assert_eq!(loops(source), ["2 0 2 false"]);
    }

    #[test]
    fn closures_of_all_forms_are_no_panic() {
        for source in [
            "fn f(r#type: &Tensor) -> Tensor { scan(|s: &Tensor, x| (s + x * r#type, ()), r#type, r#type).0 }",
            "fn f(x: &Tensor) -> Tensor { map(|_| Self, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|mut y: &Tensor| { y = &(y * (1.0 / 0.0)); y.clone() }, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|&(ref a, ref b): &(Tensor, Tensor)| a - b, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|(a | a): &Tensor| a * 2.0, x) }",
            "fn f(x: &Tensor) -> Tensor { let step = step; scan(step, step, x) }",
            "fn f(x: &Tensor) -> Tensor { let f = |y: &Tensor| f(y) * 2.0; map(f, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|| x * crate, x) }",
            "fn f(x: &Tensor) -> Tensor { map(async |y: &Tensor| y * 2.0, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|y: _| -> _ { y * 2.0 }, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|y| <X as Y>::Z { y }, x) }",
            "fn f(x: &Tensor) -> Tensor { map(|y| y * -1e400 * f32::MAX, x) }",
            "fn f(n: usize, x: &Tensor) -> Tensor { map(|s: &Tensor| s * Tensor::zeros([n], DType::F32), x) }",
            "fn f(v: usize, x: &Tensor) -> Tensor {
                scan(|s: &Tensor, x: &Tensor| (s * 0.5, x + Tensor::full([2 * v + 1], 1.0, DType::F32)), x, x).1
            }",
            "fn f(n: i64, x: &Tensor) -> Tensor {
                map(|s: &Tensor| s + Tensor::eye(n, DType::F32).sum(..) + Tensor::arange(0..n), x)
            }",
            "fn f(d: DType, x: &Tensor) -> Tensor { fori_loop(0..3, |_: &Tensor, s: &Tensor| Tensor::full([], 2.0, d) * s, x) }",
        ] {
            loops(source);
        }
    }
}
