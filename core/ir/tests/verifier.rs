//! Each corruption of a sound program is named by the verifier.

use gradloom_ir::{Attr, Aval, DType, Op, Program, Static, Var, verify};

const SOUND: &str = "(x: f64[2, 3], b: f64[3]) {
  h = add x, b
  s = sum[axes=[1], keepdims=false] h, like h
  v20, v21 = split[sizes=[1, 1], axis=0] s, like s
  y = tanh v20
  return y, v21
}";

fn sound() -> Program {
    let program: Program = SOUND.parse().expect("the text is a program");
    assert_eq!(verify(&program), Vec::<String>::new());
    program
}

fn var(program: &Program, name: &str) -> Var {
    let found = program.names.iter().find(|(_, n)| *n == name);
    found.expect("the program has the name").0
}

#[track_caller]
fn check(corrupt: impl FnOnce(&mut Program), faults: &[&str]) {
    let mut program = sound();
    corrupt(&mut program);
    assert_eq!(verify(&program), faults);
}

#[test]
fn a_parameter_bound_twice() {
    check(
        |p| p.params.push(p.params[0]),
        &["the parameter `x` is bound twice"],
    );
}

#[test]
fn an_equation_that_binds_a_parameter() {
    check(
        |p| p.eqns[0].outs[0] = p.params[0],
        &[
            "`x = add x, b`: `x` is bound twice",
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
        ],
    );
}

#[test]
fn an_equation_that_stands_twice() {
    check(
        |p| p.eqns.push(p.eqns[3].clone()),
        &["`y = tanh v20`: `y` is bound twice"],
    );
}

#[test]
fn a_pair_that_is_one_variable() {
    check(
        |p| p.eqns[2].outs[1] = p.eqns[2].outs[0],
        &[
            "`v20, v20 = split[sizes=[1, 1], axis=0] s, like s`: `v20` is bound twice",
            "the result `v21` is never bound",
        ],
    );
}

#[test]
fn equations_out_of_order() {
    check(
        |p| p.eqns.swap(2, 3),
        &["`y = tanh v20`: `v20` is read before it is bound"],
    );
}

#[test]
fn an_equation_that_reads_its_own_result() {
    check(
        |p| p.eqns[3].args[0] = p.eqns[3].outs[0],
        &["`y = tanh y`: `y` is read before it is bound"],
    );
}

#[test]
fn an_equation_that_is_missing() {
    check(
        |p| drop(p.eqns.remove(0)),
        &[
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
        ],
    );
}

#[test]
fn an_operand_that_does_not_exist() {
    check(
        |p| p.eqns[3].args[0] = Var(99),
        &["`y = tanh v99`: `v99` is never bound"],
    );
}

#[test]
fn an_operand_too_few() {
    check(
        |p| p.eqns[0].args.truncate(1),
        &["`h = add x`: it has 1 operands"],
    );
}

#[test]
fn an_operand_too_many() {
    check(
        |p| p.eqns[3].args.push(p.params[0]),
        &["`y = tanh v20, like x`: it has 2 operands"],
    );
}

#[test]
fn no_operands_at_all() {
    check(
        |p| p.eqns[3].args.clear(),
        &["`y = tanh`: it has 0 operands"],
    );
}

#[test]
fn a_static_argument_too_few() {
    check(
        |p| p.eqns[1].attrs.truncate(1),
        &["`s = sum[axes=[1]] h, like h`: it has 1 static arguments instead of 2"],
    );
}

#[test]
fn a_static_argument_too_many() {
    check(
        |p| p.eqns[3].attrs.push(Attr(0)),
        &["`y = tanh[?=[1]] v20`: it has 1 static arguments instead of 0"],
    );
}

#[test]
fn a_static_argument_that_does_not_exist() {
    check(
        |p| p.eqns[1].attrs[0] = Attr(77),
        &["`s = sum[axes=a77, keepdims=false] h, like h`: there is no static argument `a77`"],
    );
}

#[test]
fn a_static_argument_of_the_wrong_kind() {
    check(
        |p| p.attrs[0] = Static::DType(DType::F32),
        &[
            "`s = sum[axes=f32, keepdims=false] h, like h`: sum: `axes` cannot be f32: the operand is f64[2, 3]",
        ],
    );
}

#[test]
fn an_axis_that_does_not_exist() {
    check(
        |p| p.attrs[0] = Static::Int(2),
        &[
            "`s = sum[axes=2, keepdims=false] h, like h`: sum: axis 2 is out of range for rank 2: the operand is f64[2, 3]",
        ],
    );
}

#[test]
fn a_parameter_of_another_shape() {
    check(
        |p| drop(p.avals.insert(p.params[1], Aval::new(DType::F64, &[4]))),
        &[
            "`h = add x, b`: add: axis 1 is 3 on the left and 4 on the right: the left operand is f64[2, 3], the right operand is f64[4]",
        ],
    );
}

#[test]
fn a_result_of_another_dtype() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F32, &[1]))),
        &["`y = tanh v20`: `y` is f64[1] by the rules, not f32[1]"],
    );
}

#[test]
fn a_result_of_another_length() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F64, &[2]))),
        &["`y = tanh v20`: `y` is f64[1] by the rules, not f64[2]"],
    );
}

#[test]
fn a_result_of_another_rank() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F64, &[]))),
        &["`y = tanh v20`: `y` is f64[1] by the rules, not f64[]"],
    );
}

#[test]
fn a_result_of_which_less_is_known_is_no_fault() {
    check(|p| drop(p.avals.remove(var(p, "y"))), &[]);
}

#[test]
fn another_op_that_does_not_take_the_operand() {
    check(
        |p| p.eqns[0].op = Op::Select,
        &["`h = select x, b`: it has 2 operands"],
    );
}

#[test]
fn an_equation_that_binds_too_much() {
    check(
        |p| p.eqns[3].outs.push(Var(50)),
        &["`y, v50 = tanh v20`: it binds 2 variables instead of 1"],
    );
}

#[test]
fn an_equation_that_binds_nothing() {
    check(
        |p| p.eqns[3].outs.clear(),
        &[
            "` = tanh v20`: it binds nothing",
            "the result `y` is never bound",
        ],
    );
}

#[test]
fn a_result_that_is_not_bound() {
    check(
        |p| p.outs.push(Var(98)),
        &["the result `v98` is never bound"],
    );
}

#[test]
fn a_name_that_two_variables_have() {
    check(
        |p| drop(p.names.insert(Var(21), "h".into())),
        &["`h` is the name of v21 and of v24"],
    );
}

#[test]
fn a_name_that_reads_as_a_variable_or_not_at_all() {
    for name in ["v3", "like", "3x", "a b", ""] {
        check(
            |p| drop(p.names.insert(Var(21), name.into())),
            &[&format!(
                "`{name}`, the name of v21, does not read as a name"
            )],
        );
    }
}

#[test]
fn every_fault_is_reported() {
    check(
        |p| {
            p.params.push(p.params[0]);
            p.eqns[0].args.pop();
            p.outs.push(Var(98));
        },
        &[
            "the parameter `x` is bound twice",
            "`h = add x`: it has 1 operands",
            "the result `v98` is never bound",
        ],
    );
}
