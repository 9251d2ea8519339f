//! Tests the law of linear operands for the derivative rules of every op.
//!
//! No op broadcasts a tangent implicitly, and every `Like` operand is a primal value.

use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Eqn, Op, Program, Var};

fn floats(program: &Program) -> Vec<Var> {
    let is_float = |v: &Var| program.aval(*v).dtype.is_some_and(|d| d.is_float());
    program.params.iter().copied().filter(is_float).collect()
}

/// Returns the programs on which the laws of all ops are tested.
fn samples() -> Vec<Program> {
    let unary = |op: &Op| format!("(x: f64[2, 3]) {{ y = {op} x return y }}");
    let binary = |op: &Op| {
        ["f64[2, 3]", "f64[2, 1]", "f64[3]", "f64[]"]
            .map(|y| format!("(x: f64[2, 3], y: {y}) {{ z = {op} x, y return z }}"))
    };
    let of = |op: &Op| -> Vec<String> {
        match op.def().eval() {
            gradloom_ir::op::Eval::Unary(_) | gradloom_ir::op::Eval::Test(_) => vec![unary(op)],
            gradloom_ir::op::Eval::Binary(_) => binary(op).to_vec(),
            _ => op
                .def()
                .laws()
                .samples
                .iter()
                .map(|s| s.to_string())
                .collect(),
        }
    };
    let texts = Op::ALL.iter().flat_map(of);
    texts
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{text}\n{e}")))
        .collect()
}

/// Checks the linear part of the derivative of `program`. Returns its forward mode, if it has one.
fn check(program: &Program) -> Option<Program> {
    let wrt = floats(program);
    let forward = ad::jvp(program, &wrt, Calls::Split);
    if !forward.active.contains(&true) {
        return None;
    }
    let joint = forward.program;
    let split = ad::split(&joint, program.params.len(), program.outs.len());
    let linear = split.linear;
    let mut is_tangent = vec![false; linear.n_vars() as usize];
    let inputs = &linear.params[split.residuals.len()..];
    for v in inputs
        .iter()
        .chain(linear.eqns.iter().flat_map(|e| &e.outs))
    {
        is_tangent[v.0 as usize] = true;
    }
    for eqn in &linear.eqns {
        for like in eqn.likes() {
            assert!(
                !is_tangent[like.0 as usize],
                "`{}` has a tangent as a `Like` operand in\n{linear}",
                eqn.op
            );
        }
        if !matches!(eqn.op.def().eval(), gradloom_ir::op::Eval::Kernel(_)) || eqn.op == Op::Select
        {
            let out = &linear.aval(eqn.out()).shape;
            for x in eqn.data().iter().filter(|x| is_tangent[x.0 as usize]) {
                assert!(
                    out.same(&linear.aval(*x).shape),
                    "`{}` broadcasts a tangent in\n{linear}",
                    eqn.op
                );
            }
        }
    }
    linear
        .eqns
        .iter()
        .for_each(|eqn| check_avals(&linear, eqn, &is_tangent));
    // Each cotangent has the shape of its parameter.
    let vjp = ad::vjp(program, &wrt);
    let nonzero = wrt.iter().zip(&vjp.nonzero).filter(|(_, n)| **n);
    for ((x, _), ct) in nonzero.zip(&vjp.pullback.outs) {
        assert_eq!(
            program.aval(*x),
            vjp.pullback.aval(*ct),
            "{program}\n{}",
            vjp.pullback
        );
    }
    Some(joint)
}

/// Checks that the aval of each tangent among the operands is known where another one is not zero.
fn check_avals(linear: &Program, eqn: &Eqn, is_tangent: &[bool]) {
    let is_tangent = |x: &Var| is_tangent[x.0 as usize];
    let data = eqn.data().iter().enumerate();
    let tangents: Vec<(usize, &Var)> = data.filter(|(_, x)| is_tangent(x)).collect();
    for (i, x) in &tangents {
        let like = match eqn.op.def().facts().aval_of {
            Some(aval_of) => eqn.args[aval_of(linear, eqn, *i)],
            None => *tangents[0].1,
        };
        let is_known =
            tangents.len() == 1 || eqn.op.def().facts().aval_of.is_none() || !is_tangent(&like);
        assert!(
            is_known && linear.aval(**x) == linear.aval(like),
            "operand {i} of `{}` has another aval than the fact says in\n{linear}",
            eqn.op
        );
    }
}

#[test]
fn every_rule_obeys_the_law_of_linear_operands_at_first_and_second_order() {
    for program in samples() {
        if let Some(joint) = check(&program) {
            check(&joint);
        }
    }
}
