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
        Group::with(program, &constants(program), step, is_read)
    }

    /// The same, where the [`constants`] of the program are known.
    pub fn with(
        program: &Program,
        constants: &SecondaryMap<Var, f64>,
        step: &[usize],
        is_read: impl Fn(Var) -> bool,
    ) -> Option<Group> {
        if step.len() > MOST_MEMBERS || !step.iter().all(|i| in_loop(program.eqns[*i].op)) {
            return None;
        }
        let eqn = |i: usize| &program.eqns[i];
        // A number for what each member computes, inputs being all alike: the order of the results. It takes several results
        // to have one.
        let mut results: Vec<usize> = Vec::new();
        results.extend(step.iter().filter(|i| is_read(eqn(**i).out())));
        if results.len() > 1 {
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
            results.sort_by_key(|i| shape[&eqn(*i).out()]);
        }
        let mut group = Group {
            inputs: Vec::with_capacity(step.len() + 1),
            members: Vec::with_capacity(step.len()),
            results: Vec::new(),
            args: Vec::with_capacity(step.len()),
        };
        for result in &results {
            visit(program, *result, step, constants, &mut group);
        }
        let position = |i: &usize| group.members.iter().position(|m| m == i);
        group.results = results.iter().filter_map(position).collect();
        (group.members.len() == step.len()).then_some(group)
    }

    /// What the group computes, as text. `add 0 1;tanh 2>3`: inputs and members are numbered in order, and the results
    /// follow. Equal texts compute the same.
    pub fn signature(&self, program: &Program) -> String {
        let mut text = String::with_capacity(16 * (self.members.len() + 1));
        push(&mut text, self.inputs.len());
        text.push(':');
        for (i, (member, args)) in self.members.iter().zip(&self.args).enumerate() {
            if i > 0 {
                text.push(';');
            }
            text.push_str(program.eqns[*member].op.def().name());
            for arg in args {
                text.push(' ');
                match arg {
                    Arg::Input(i) => push(&mut text, *i),
                    Arg::Member(m) => push(&mut text, self.inputs.len() + m),
                    Arg::Constant(x) => {
                        let _ = write!(text, "c{:x}", x.to_bits());
                    }
                }
            }
        }
        for (i, result) in self.results.iter().enumerate() {
            text.push(if i == 0 { '>' } else { ' ' });
            push(&mut text, self.inputs.len() + result);
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

/// Appends a number of few digits.
fn push(text: &mut String, n: usize) {
    if n >= 10 {
        push(text, n / 10);
    }
    text.push(char::from(b'0' + (n % 10) as u8));
}

/// Appends the members that `target` needs, operands first and from left to right, and says where it is among the members. A group
/// is small, so this may recurse, and what is in it is looked for one by one.
fn visit(
    program: &Program,
    target: usize,
    step: &[usize],
    constants: &SecondaryMap<Var, f64>,
    group: &mut Group,
) -> usize {
    if let Some(there) = group.members.iter().position(|m| *m == target) {
        return there;
    }
    let eqn = &program.eqns[target];
    let mut args = Vec::with_capacity(eqn.data().len());
    for var in eqn.data() {
        let maker = step.iter().find(|i| program.eqns[**i].out() == *var);
        args.push(match (maker, constants.get(*var)) {
            (Some(member), _) => Arg::Member(visit(program, *member, step, constants, group)),
            (None, Some(x)) => Arg::Constant(*x),
            (None, None) => {
                let there = group.inputs.iter().position(|input| input == var);
                Arg::Input(there.unwrap_or_else(|| {
                    group.inputs.push(*var);
                    group.inputs.len() - 1
                }))
            }
        });
    }
    group.members.push(target);
    group.args.push(args);
    group.members.len() - 1
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
