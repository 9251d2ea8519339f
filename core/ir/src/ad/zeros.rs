//! Simplification of linear programs with inputs that are zero.
//!
//! A zero cotangent must not become a tensor of zeros. Zero times infinity is NaN, so an unused
//! result of the primal could spoil the gradients of the others.

use crate::op::TermSign;
use crate::{Attr, Entity, Eqn, Op, Program, SecondaryMap, Static, Var};

/// A linear program without the equations that depend only on zeros.
#[derive(Clone, Debug)]
pub struct Zeroed {
    /// The simplified program. Its results are the nonzero ones.
    ///
    /// Its parameters are the original ones, although the zero ones may be unused.
    pub program: Program,
    /// For each original result, true if it is not known to be zero.
    pub nonzero: Vec<bool>,
}

/// Simplifies `program` under the assumption that the variables in `zero` are zero.
///
/// `program` is linear in its parameters after the first `n_known`.
pub fn with_zeros(program: &Program, n_known: usize, zero: &[Var]) -> Zeroed {
    let set = |vars: &[Var]| -> SecondaryMap<Var, ()> { vars.iter().map(|v| (*v, ())).collect() };
    let mut known = BoundFacts {
        linear: set(&program.params[n_known..]),
        zero: set(zero),
        needed: SecondaryMap::new(),
        alias: SecondaryMap::new(),
    };
    let mut attrs = program.attrs.clone();
    let mut eqns: Vec<(Eqn, bool)> = Vec::new();
    for eqn in &program.eqns {
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = known.same(*arg);
        }
        match known.what_is_zero(&eqn) {
            Zeros::None => {}
            Zeros::All => {
                eqns.push((eqn, false));
                continue;
            }
            Zeros::Some(zeros) => match known.with_the_rest(eqn, zeros, &mut attrs) {
                Some(less) => eqn = less,
                None => continue,
            },
        }
        for like in eqn.likes() {
            known.read(*like);
        }
        eqns.push((eqn, true));
    }
    known.keep_what_is_read(&mut eqns);
    let left = |v: &&Var| !known.zero.contains(**v);
    let nonzero = program.outs.iter().map(|v| left(&v)).collect();
    let outs = program.outs.iter().filter(left);
    let outs = outs.map(|v| known.same(*v)).collect();
    let kept = eqns.into_iter().filter(|(_, kept)| *kept);
    let program = crate::pass::dce(Program {
        eqns: kept.map(|(eqn, _)| eqn).collect(),
        outs,
        attrs,
        ..program.clone()
    });
    Zeroed { program, nonzero }
}

/// Facts about the variables bound so far.
struct BoundFacts {
    /// Variables that depend on a parameter in which the program is linear.
    linear: SecondaryMap<Var, ()>,
    /// Variables that are zero.
    zero: SecondaryMap<Var, ()>,
    /// Zero variables that an equation reads, and that must be computed.
    needed: SecondaryMap<Var, ()>,
    /// Variables that are equal to an earlier one.
    alias: SecondaryMap<Var, Var>,
}

/// The linear operands of an equation that are zero.
enum Zeros {
    None,
    Some(Vec<Var>),
    All,
}

impl BoundFacts {
    fn same(&self, v: Var) -> Var {
        self.alias.get(v).copied().unwrap_or(v)
    }

    /// Marks `v` as needed if it is zero.
    fn read(&mut self, v: Var) {
        if self.zero.contains(v) {
            self.needed.insert(v, ());
        }
    }

    /// Returns which linear operands of `eqn` are zero, and records the facts about its results.
    fn what_is_zero(&mut self, eqn: &Eqn) -> Zeros {
        let linear = |v: &Var| self.linear.contains(*v);
        let inputs: Vec<Var> = eqn.data().iter().copied().filter(linear).collect();
        let n_inputs = inputs.len();
        if n_inputs == 0 {
            return Zeros::None;
        }
        self.linear.extend(eqn.outs.iter().map(|v| (*v, ())));
        let is_zero = |v: &Var| self.zero.contains(*v);
        let zeros: Vec<Var> = inputs.into_iter().filter(is_zero).collect();
        if zeros.len() == n_inputs {
            self.zero.extend(eqn.outs.iter().map(|v| (*v, ())));
            return Zeros::All;
        }
        match zeros.is_empty() {
            true => Zeros::None,
            false => Zeros::Some(zeros),
        }
    }

    /// Simplifies an equation with some zero operands.
    ///
    /// Returns `None` if the result is equal to an operand, which is recorded as an alias.
    fn with_the_rest(
        &mut self,
        mut eqn: Eqn,
        zeros: Vec<Var>,
        attrs: &mut Vec<Static>,
    ) -> Option<Eqn> {
        let is_zero = |v: &Var| self.zero.contains(*v);
        if let Some(terms) = eqn.op.def().facts().terms {
            let rest = eqn.args.iter().position(|v| !is_zero(v));
            let rest = rest.expect("an operand is not zero");
            let value = eqn.args[rest];
            if terms[rest] == TermSign::Plus {
                self.alias.insert(eqn.out(), value);
                return None;
            }
            (eqn.op, eqn.args) = (Op::Neg, [value].into());
            return Some(eqn);
        }
        match eqn.op {
            Op::CallPull => {
                let given = attrs[eqn.attrs[2].index()].ints().unwrap_or(&[]);
                let kept = given.iter().zip(&eqn.args[1..]);
                let kept = kept.filter(|(_, ct)| !is_zero(ct));
                let (given, cts): (Vec<i64>, Vec<Var>) = kept.map(|(g, ct)| (*g, *ct)).unzip();
                eqn.attrs[2] = Attr::from_index(attrs.len());
                attrs.push(Static::Ints(given));
                eqn.args = [eqn.args[0]].into_iter().chain(cts).collect();
            }
            // Any other op reads the zeros, for example to concatenate cotangents.
            _ => self.needed.extend(zeros.iter().map(|v| (*v, ()))),
        }
        Some(eqn)
    }

    /// Keeps each equation whose result is zero but is read by another kept equation.
    fn keep_what_is_read(&mut self, eqns: &mut [(Eqn, bool)]) {
        for (eqn, kept) in eqns.iter_mut().rev().filter(|(_, kept)| !kept) {
            if eqn.outs.iter().any(|v| self.needed.contains(*v)) {
                *kept = true;
                self.needed.extend(eqn.args.iter().map(|v| (*v, ())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_zeros;
    use crate::Program;

    fn check(program: &str, zero: &[usize], expected: &str) {
        let program: Program = program.parse().expect("the test's program parses");
        let zero: Vec<_> = zero.iter().map(|i| program.params[*i]).collect();
        let found = with_zeros(&program, 1, &zero);
        let expected: Program = expected.parse().expect("the expected program parses");
        assert_eq!(found.program.to_string(), expected.to_string());
    }

    #[test]
    fn equations_that_depend_only_on_zeros_are_removed() {
        check(
            "(r, ct_a, ct_b) { c = mul ct_a, r d = div ct_b, r e = add c, d f = sub c, d return e, f, d }",
            &[2],
            "(r, ct_a, ct_b) { c = mul ct_a, r return c, c }",
        );
        check(
            "(r, ct_a, ct_b) { c = mul ct_a, r d = div ct_b, r f = sub c, d return f }",
            &[1],
            "(r, ct_a, ct_b) { d = div ct_b, r f = neg d return f }",
        );
    }

    #[test]
    fn an_op_that_joins_cotangents_keeps_its_zero_operands() {
        check(
            "(r, ct_a, ct_b) { c = neg ct_a d = stack[axis=0] c, ct_b return d }",
            &[1],
            "(r, ct_a, ct_b) { c = neg ct_a d = stack[axis=0] c, ct_b return d }",
        );
    }

    #[test]
    fn the_pullback_of_a_call_gets_no_zero_cotangents() {
        check(
            "(s, ct_a, ct_b) { c, d = call_pull[callee=`f`, active=[0, 1], given=[0, 2]] s, ct_a, ct_b return c, d }",
            &[1],
            "(s, ct_a, ct_b) { c, d = call_pull[callee=`f`, active=[0, 1], given=[2]] s, ct_b return c, d }",
        );
    }
}
