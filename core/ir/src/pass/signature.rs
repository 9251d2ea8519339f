//! Signatures of groups, independent of variable names.
//!
//! Groups with equal signatures run the same loop.

use crate::hash::HashMap;
use crate::op::range;
use crate::{Eqn, Op, Program, SecondaryMap, Static, Var};
use std::fmt::Write;

/// A group of elementwise equations, in an order that depends only on what the group computes.
#[derive(Clone, Debug)]
pub struct Group {
    /// The variables of the program that the members read, without constants.
    pub inputs: Vec<Var>,
    /// The indices of the equations, each after those it reads.
    pub members: Vec<usize>,
    /// The positions in `members` of those with consumers outside of the group.
    pub results: Vec<usize>,
    /// The operands of each member.
    pub args: Vec<Vec<Arg>>,
}

/// An operand of a member of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An input, by position.
    Input(usize),
    /// The result of a member, by position.
    Member(usize),
    /// A constant.
    Constant(f64),
}

/// Bound on the size of a group. A larger group has a long signature and needs too many registers.
const MOST_MEMBERS: usize = 128;

impl Group {
    /// Returns the group of the equations `step` of a program.
    ///
    /// `is_read` returns whether a variable is read outside of the group. Returns `None` if the
    /// group is too large or has an equation for which no float loop can be written.
    pub fn new(program: &Program, step: &[usize], is_read: impl Fn(Var) -> bool) -> Option<Group> {
        Group::with(program, &constants(program), step, is_read)
    }

    /// Does the same as [`Group::new`], given the [`constants`] of the program.
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
        // Several results are ordered by a hash of how each is computed, with all inputs and constants treated
        // alike: a number may be a constant in one program and an input in another. The constants decide between equal
        // hashes.
        let mut results: Vec<usize> = Vec::new();
        results.extend(step.iter().filter(|i| is_read(eqn(**i).out())));
        if results.len() > 1 {
            let mut shape: HashMap<Var, [u64; 2]> = HashMap::default();
            for i in step {
                let mut hashes = [(); 2].map(|()| Fnv::new(eqn(*i).op.def().name()));
                for var in eqn(*i).data() {
                    let constant = constants.get(*var).map_or(0, |x| x.to_bits());
                    let of = shape.get(var).copied().unwrap_or([0, constant]);
                    hashes
                        .iter_mut()
                        .zip(of)
                        .for_each(|(hash, of)| hash.add(of));
                }
                shape.insert(eqn(*i).out(), hashes.map(|hash| hash.0));
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

    /// Returns the signature of the group: a text that is equal for groups that compute the same.
    ///
    /// In `2:add 0 1;tanh 2>3`, the number of inputs comes first. Inputs and members are numbered
    /// in order, and the results follow `>`.
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

    /// Returns the equation of a member.
    pub fn eqn<'a>(&self, program: &'a Program, member: usize) -> &'a Eqn {
        &program.eqns[self.members[member]]
    }
}

/// Returns whether a loop over floats can be written for the op.
fn in_loop(op: Op) -> bool {
    let facts = op.def().facts();
    facts.elementwise && !facts.converts()
}

/// Returns the variables whose elements are all equal to one known number.
///
/// An integer that an `f64` cannot hold is not included: a loop that rounds it to `f64` and then to
/// `f32` may get other bits than its op, which rounds it once.
pub fn constants(program: &Program) -> SecondaryMap<Var, f64> {
    let value = |eqn: &Eqn| match range::number(program, eqn)? {
        Static::Float(x) => Some((eqn.out(), *x)),
        Static::Int(n) if n.unsigned_abs() <= 1 << 53 => Some((eqn.out(), *n as f64)),
        _ => None,
    };
    program.eqns.iter().filter_map(value).collect()
}

/// Appends a number in decimal.
fn push(text: &mut String, n: usize) {
    if n >= 10 {
        push(text, n / 10);
    }
    text.push(char::from(b'0' + (n % 10) as u8));
}

/// Appends the members that `target` depends on, operands first and left to right, then `target`.
///
/// Returns the position of `target`. Groups are small, so recursion and linear search are fine.
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

/// A hash in the style of Fowler, Noll and Vo, over words.
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
