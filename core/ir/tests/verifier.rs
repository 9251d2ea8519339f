//! Tests that the verifier reports each kind of corruption of a valid program.

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
fn a_parameter_bound_twice_is_reported() {
    check(
        |p| p.params.push(p.params[0]),
        &["the parameter `x` is bound twice"],
    );
}

#[test]
fn an_equation_that_binds_a_parameter_is_reported() {
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
fn a_repeated_equation_is_reported() {
    check(
        |p| p.eqns.push(p.eqns[3].clone()),
        &["`y = tanh v20`: `y` is bound twice"],
    );
}

#[test]
fn an_equation_that_binds_one_variable_twice_is_reported() {
    check(
        |p| p.eqns[2].outs[1] = p.eqns[2].outs[0],
        &[
            "`v20, v20 = split[sizes=[1, 1], axis=0] s, like s`: `v20` is bound twice",
            "the result `v21` is never bound",
        ],
    );
}

#[test]
fn equations_out_of_order_are_reported() {
    check(
        |p| p.eqns.swap(2, 3),
        &["`y = tanh v20`: `v20` is read before it is bound"],
    );
}

#[test]
fn an_equation_that_reads_its_own_result_is_reported() {
    check(
        |p| p.eqns[3].args[0] = p.eqns[3].outs[0],
        &["`y = tanh y`: `y` is read before it is bound"],
    );
}

#[test]
fn a_missing_equation_is_reported() {
    check(
        |p| drop(p.eqns.remove(0)),
        &[
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
            "`s = sum[axes=[1], keepdims=false] h, like h`: `h` is never bound",
        ],
    );
}

#[test]
fn an_operand_that_does_not_exist_is_reported() {
    check(
        |p| p.eqns[3].args[0] = Var(99),
        &["`y = tanh v99`: `v99` is never bound"],
    );
}

#[test]
fn a_missing_operand_is_reported() {
    check(
        |p| p.eqns[0].args = p.eqns[0].args[..1].into(),
        &["`h = add x`: it has the wrong number of operands: 1"],
    );
}

#[test]
fn an_extra_operand_is_reported() {
    check(
        |p| p.eqns[3].args = [&p.eqns[3].args[..], &[p.params[0]]].concat().into(),
        &["`y = tanh v20, like x`: it has the wrong number of operands: 2"],
    );
}

#[test]
fn an_equation_without_operands_is_reported() {
    check(
        |p| p.eqns[3].args = [].into(),
        &["`y = tanh`: it has the wrong number of operands: 0"],
    );
}

#[test]
fn a_missing_static_argument_is_reported() {
    check(
        |p| p.eqns[1].attrs = p.eqns[1].attrs[..1].into(),
        &["`s = sum[axes=[1]] h, like h`: it has 1 static arguments instead of 2"],
    );
}

#[test]
fn an_extra_static_argument_is_reported() {
    check(
        |p| p.eqns[3].attrs = [&p.eqns[3].attrs[..], &[Attr(0)]].concat().into(),
        &["`y = tanh[?=[1]] v20`: it has 1 static arguments instead of 0"],
    );
}

#[test]
fn a_static_argument_that_does_not_exist_is_reported() {
    check(
        |p| p.eqns[1].attrs[0] = Attr(77),
        &["`s = sum[axes=a77, keepdims=false] h, like h`: there is no static argument `a77`"],
    );
}

#[test]
fn a_static_argument_of_the_wrong_kind_is_reported() {
    check(
        |p| p.attrs[0] = Static::DType(DType::F32),
        &[
            "`s = sum[axes=f32, keepdims=false] h, like h`: sum: `axes` cannot be f32: the operand is f64[2, 3]",
        ],
    );
}

#[test]
fn an_axis_that_does_not_exist_is_reported() {
    check(
        |p| p.attrs[0] = Static::Int(2),
        &[
            "`s = sum[axes=2, keepdims=false] h, like h`: sum: axis 2 is out of range for rank 2: the operand is f64[2, 3]",
        ],
    );
}

#[test]
fn a_parameter_whose_shape_does_not_fit_is_reported() {
    check(
        |p| drop(p.avals.insert(p.params[1], Aval::new(DType::F64, &[4]))),
        &[
            "`h = add x, b`: add: axis 1 is 3 on the left and 4 on the right: the left operand is f64[2, 3], the right operand is f64[4]",
        ],
    );
}

#[test]
fn a_result_of_the_wrong_dtype_is_reported() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F32, &[1]))),
        &["`y = tanh v20`: `y` is declared f32[1], but the rules infer f64[1]"],
    );
}

#[test]
fn a_result_of_the_wrong_length_is_reported() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F64, &[2]))),
        &["`y = tanh v20`: `y` is declared f64[2], but the rules infer f64[1]"],
    );
}

#[test]
fn a_result_of_the_wrong_rank_is_reported() {
    check(
        |p| drop(p.avals.insert(var(p, "y"), Aval::new(DType::F64, &[]))),
        &["`y = tanh v20`: `y` is declared f64[], but the rules infer f64[1]"],
    );
}

#[test]
fn a_result_with_an_unknown_aval_is_accepted() {
    check(|p| drop(p.avals.remove(var(p, "y"))), &[]);
}

#[test]
fn an_op_that_does_not_take_its_operands_is_reported() {
    check(
        |p| p.eqns[0].op = Op::Select,
        &["`h = select x, b`: it has the wrong number of operands: 2"],
    );
}

#[test]
fn an_equation_that_binds_too_many_variables_is_reported() {
    check(
        |p| p.eqns[3].outs = [&p.eqns[3].outs[..], &[Var(50)]].concat().into(),
        &["`y, v50 = tanh v20`: it binds 2 variables instead of 1"],
    );
}

#[test]
fn an_equation_that_binds_nothing_is_reported() {
    check(
        |p| p.eqns[3].outs = [].into(),
        &[
            "` = tanh v20`: it binds nothing",
            "the result `y` is never bound",
        ],
    );
}

#[test]
fn an_unbound_result_is_reported() {
    check(
        |p| p.outs.push(Var(98)),
        &["the result `v98` is never bound"],
    );
}

#[test]
fn a_name_of_two_variables_is_reported() {
    check(
        |p| drop(p.names.insert(Var(21), "h".into())),
        &["`h` is the name of v21 and of v24"],
    );
}

#[test]
fn a_name_that_does_not_parse_as_a_name_is_reported() {
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
fn all_faults_are_reported_together() {
    check(
        |p| {
            p.params.push(p.params[0]);
            p.eqns[0].args = p.eqns[0].args[..1].into();
            p.outs.push(Var(98));
        },
        &[
            "the parameter `x` is bound twice",
            "`h = add x`: it has the wrong number of operands: 1",
            "the result `v98` is never bound",
        ],
    );
}
