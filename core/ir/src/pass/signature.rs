//! What a group computes, whatever its program calls its values: two groups with one signature run the same loop.

use super::is_elementwise;
use crate::hash::HashMap;
use crate::op::Eval;
use crate::{Eqn, Kernel, Op, Program, SecondaryMap, Static, Var};
use std::fmt::Write;

/// A group of elementwise equations in an order that depends on what it computes alone.
#[derive(Clone, Debug)]
pub struct Group {
    /// What its members read of the program, constants aside.
    pub inputs: Vec<Var>,
    /// The equations, each after those whose results it reads.
    pub members: Vec<usize>,
    /// The members whose results others read, by position in `members`.
    pub results: Vec<usize>,
    /// For each member, what it reads.
    pub args: Vec<Vec<Arg>>,
}

/// What a member of a group reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An input, by position.
    Input(usize),
    /// The result of a member, by position.
    Member(usize),
    /// One number.
    Constant(f64),
}

/// The larger of these are not looked at: their signatures would be long, and their loops would not fit the registers of a
/// CPU.
const MOST_MEMBERS: usize = 64;

impl Group {
    /// The group of the equations `step` of a program; `is_read` says of a variable whether it is read outside of the group.
    ///
    /// `None` if it is too large, or if an equation is none of those that a loop over floats is written for.
    pub fn new(program: &Program, step: &[usize], is_read: impl Fn(Var) -> bool) -> Option<Group> {
        if step.len() > MOST_MEMBERS || !step.iter().all(|i| in_loop(program.eqns[*i].op)) {
            return None;
        }
        let eqn = |i: usize| &program.eqns[i];
        let maker: HashMap<Var, usize> = step.iter().map(|i| (eqn(*i).out(), *i)).collect();
        let constants = constants(program);
        // A number for what each member computes, inputs being all alike: the order of the results.
        let mut shape: HashMap<Var, u64> = HashMap::default();
        for i in step {
            let mut hash = Fnv::new(eqn(*i).op.def().name());
            for var in eqn(*i).data() {
                hash.add(match (shape.get(var), constants.get(*var)) {
                    (Some(of), _) => *of,
                    (None, Some(x)) => x.to_bits(),
                    (None, None) => 0,
                });
            }
            shape.insert(eqn(*i).out(), hash.0);
        }
        let mut results: Vec<usize> = step
            .iter()
            .copied()
            .filter(|i| is_read(eqn(*i).out()))
            .collect();
        results.sort_by_key(|i| shape[&eqn(*i).out()]);
        let mut group = Group {
            inputs: Vec::new(),
            members: Vec::new(),
            results: Vec::new(),
            args: Vec::new(),
        };
        let mut found: HashMap<Var, Arg> = HashMap::default();
        for result in &results {
            visit(program, *result, &maker, &constants, &mut found, &mut group);
        }
        let position = |i: &usize| group.members.iter().position(|m| m == i);
        group.results = results.iter().filter_map(position).collect();
        (group.members.len() == step.len()).then_some(group)
    }

    /// What the group computes, as text. `add 0 1;tanh 2>3`: inputs and members are numbered in order, and the results
    /// follow. Equal texts compute the same.
    pub fn signature(&self, program: &Program) -> String {
        let mut text = format!("{}:", self.inputs.len());
        for (i, (member, args)) in self.members.iter().zip(&self.args).enumerate() {
            let separator = if i == 0 { "" } else { ";" };
            let _ = write!(text, "{separator}{}", program.eqns[*member].op.def().name());
            for arg in args {
                let _ = match arg {
                    Arg::Input(i) => write!(text, " {i}"),
                    Arg::Member(m) => write!(text, " {}", self.inputs.len() + m),
                    Arg::Constant(x) => write!(text, " c{:x}", x.to_bits()),
                };
            }
        }
        for (i, result) in self.results.iter().enumerate() {
            let separator = if i == 0 { ">" } else { " " };
            let _ = write!(text, "{separator}{}", self.inputs.len() + result);
        }
        text
    }

    /// The equation of a member.
    pub fn eqn<'a>(&self, program: &'a Program, member: usize) -> &'a Eqn {
        &program.eqns[self.members[member]]
    }
}

/// Whether a loop over floats can be written for the op.
fn in_loop(op: Op) -> bool {
    let cast = matches!(op.def().eval(), Eval::Kernel(Kernel::Cast | Kernel::CastT));
    is_elementwise(op) && !cast
}

/// The variables that are one number which the program knows.
pub fn constants(program: &Program) -> SecondaryMap<Var, f64> {
    let value = |eqn: &Eqn| {
        let attr = match eqn.op {
            Op::Scalar | Op::FullLike => eqn.attrs[0],
            Op::Full => eqn.attrs[1],
            _ => return None,
        };
        match program.attr(attr) {
            Static::Float(x) => Some((eqn.out(), *x)),
            Static::Int(n) => Some((eqn.out(), *n as f64)),
            _ => None,
        }
    };
    program.eqns.iter().filter_map(value).collect()
}

/// Appends the members that `target` needs, operands first and from left to right. A group is small, so this may recurse.
fn visit(
    program: &Program,
    target: usize,
    maker: &HashMap<Var, usize>,
    constants: &SecondaryMap<Var, f64>,
    found: &mut HashMap<Var, Arg>,
    group: &mut Group,
) {
    let eqn = &program.eqns[target];
    if found.contains_key(&eqn.out()) {
        return;
    }
    let mut args = Vec::new();
    for var in eqn.data() {
        if let Some(member) = maker.get(var) {
            visit(program, *member, maker, constants, found, group);
        }
        let arg = *found
            .entry(*var)
            .or_insert_with(|| match constants.get(*var) {
                Some(x) => Arg::Constant(*x),
                None => {
                    group.inputs.push(*var);
                    Arg::Input(group.inputs.len() - 1)
                }
            });
        args.push(arg);
    }
    found.insert(eqn.out(), Arg::Member(group.members.len()));
    group.members.push(target);
    group.args.push(args);
}

/// The hash of Fowler, Noll and Vo, over words.
struct Fnv(u64);

impl Fnv {
    fn new(text: &str) -> Fnv {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        text.bytes().for_each(|b| hash.add(u64::from(b)));
        hash
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }
}
