//! Linear programs of which some inputs are zero.
//!
//! A cotangent that is zero is not a tensor of zeros: zero times infinity is not zero, and the derivative of what
//! nobody reads must not reach what somebody does.

use crate::{Eqn, Op, Program, SecondaryMap, Static, Var};

/// A linear program without what only depends on zeros.
#[derive(Clone, Debug)]
pub struct Zeroed {
    /// It has the parameters of the original; those that are zero are seldom read. Its results are the nonzero ones.
    pub program: Program,
    /// Which results of the original are left; the others are zero.
    pub nonzero: Vec<bool>,
}

/// `program`, which is linear in its parameters after the first `n_known`, where those in `zero` are zero.
pub fn with_zeros(program: &Program, n_known: usize, zero: &[Var]) -> Zeroed {
    let mut linear: SecondaryMap<Var, ()> =
        program.params[n_known..].iter().map(|v| (*v, ())).collect();
    let mut zero: SecondaryMap<Var, ()> = zero.iter().map(|v| (*v, ())).collect();
    let mut needed: SecondaryMap<Var, ()> = SecondaryMap::new();
    let mut alias: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut attrs = program.attrs.clone();
    let mut eqns: Vec<(Eqn, bool)> = Vec::new();
    for eqn in &program.eqns {
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = alias.get(*arg).copied().unwrap_or(*arg);
        }
        let inputs: Vec<Var> = eqn
            .data()
            .iter()
            .copied()
            .filter(|v| linear.contains(*v))
            .collect();
        for out in eqn.outs.iter().filter(|_| !inputs.is_empty()) {
            linear.insert(*out, ());
        }
        let n_zero = inputs.iter().filter(|v| zero.contains(**v)).count();
        if n_zero > 0 && n_zero == inputs.len() {
            for out in &eqn.outs {
                zero.insert(*out, ());
            }
            eqns.push((eqn, false));
            continue;
        }
        if n_zero > 0 {
            let is_zero = |v: &Var| zero.contains(*v);
            match eqn.op {
                Op::Add => {
                    let rest = eqn
                        .args
                        .iter()
                        .copied()
                        .find(|v| !is_zero(v))
                        .expect("one is not zero");
                    alias.insert(eqn.out(), rest);
                    continue;
                }
                Op::Sub if is_zero(&eqn.args[1]) => {
                    alias.insert(eqn.out(), eqn.args[0]);
                    continue;
                }
                Op::Sub => {
                    eqn = Eqn {
                        op: Op::Neg,
                        args: vec![eqn.args[1]],
                        ..eqn
                    }
                }
                Op::CallPull => {
                    let given = attrs[eqn.attrs[2].0 as usize]
                        .ints()
                        .unwrap_or(&[])
                        .to_vec();
                    let kept = given
                        .iter()
                        .zip(&eqn.args[1..])
                        .filter(|(_, ct)| !is_zero(ct));
                    let (given, cts): (Vec<i64>, Vec<Var>) = kept.map(|(g, ct)| (*g, *ct)).unzip();
                    attrs.push(Static::Ints(given));
                    eqn.attrs[2] = crate::Attr(attrs.len() as u32 - 1);
                    eqn.args.truncate(1);
                    eqn.args.extend(cts);
                }
                // An op that joins several cotangents reads the zeros.
                _ => {
                    for v in inputs.iter().filter(|v| zero.contains(**v)) {
                        needed.insert(*v, ());
                    }
                }
            }
        }
        for like in eqn.likes().iter().filter(|v| zero.contains(**v)) {
            needed.insert(*like, ());
        }
        eqns.push((eqn, true));
    }
    for (eqn, kept) in eqns.iter_mut().rev().filter(|(_, kept)| !kept) {
        if eqn.outs.iter().any(|v| needed.contains(*v)) {
            *kept = true;
            for arg in &eqn.args {
                needed.insert(*arg, ());
            }
        }
    }
    let nonzero: Vec<bool> = program.outs.iter().map(|v| !zero.contains(*v)).collect();
    let outs = program.outs.iter().filter(|v| !zero.contains(**v));
    let outs = outs.map(|v| alias.get(*v).copied().unwrap_or(*v)).collect();
    let eqns = eqns
        .into_iter()
        .filter(|(_, kept)| *kept)
        .map(|(eqn, _)| eqn)
        .collect();
    let program = crate::pass::dce(Program {
        eqns,
        outs,
        attrs,
        ..program.clone()
    });
    Zeroed { program, nonzero }
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
    fn what_only_depends_on_zeros_is_gone() {
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
    fn an_op_that_joins_cotangents_reads_the_zeros() {
        check(
            "(r, ct_a, ct_b) { c = neg ct_a d = stack[axis=0] c, ct_b return d }",
            &[1],
            "(r, ct_a, ct_b) { c = neg ct_a d = stack[axis=0] c, ct_b return d }",
        );
    }

    #[test]
    fn a_pullback_of_a_call_is_given_less() {
        check(
            "(s, ct_a, ct_b) { c, d = call_pull[callee=`f`, active=[0, 1], given=[0, 2]] s, ct_a, ct_b return c, d }",
            &[1],
            "(s, ct_a, ct_b) { c, d = call_pull[callee=`f`, active=[0, 1], given=[2]] s, ct_b return c, d }",
        );
    }
}
