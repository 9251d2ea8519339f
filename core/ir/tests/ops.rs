//! Laws of every op that need no numbers.
//!
//! The samples of an op round-trip through text, and their first and second derivatives are valid
//! programs, with known and with unknown shapes.

use gradloom_ir::op::Eval;
use gradloom_ir::{Aval, Op, Program, SecondaryMap, Var, ad, pass, verify};

/// Returns programs of one equation for an op.
fn samples(op: Op) -> Vec<Program> {
    let name = op.def().name();
    let texts: Vec<String> = match op.def().eval() {
        Eval::Unary(_) | Eval::Test(_) => vec![
            format!("(x: f64[2, 3]) {{ y = {name} x return y }}"),
            format!("(x: f32[B, ?]) {{ y = {name} x return y }}"),
        ],
        Eval::Binary(_) | Eval::Compare(_) => vec![
            format!("(x: f64[2, 3], y: f64[2, 3]) {{ z = {name} x, y return z }}"),
            format!("(x: f64[3], y: f64[2, 1]) {{ z = {name} x, y return z }}"),
            format!("(x: f64[], y: f64[0]) {{ z = {name} x, y return z }}"),
            format!("(x: f32[B, C], y: f32[C]) {{ z = {name} x, y return z }}"),
            format!("(x: f64[2]) {{ z = {name} x, x return z }}"),
        ],
        Eval::Bits(_)
        | Eval::Many(_)
        | Eval::Kernel(_)
        | Eval::Control(_)
        | Eval::Collective
        | Eval::Call => Vec::new(),
    };
    let own = op.def().laws().samples.iter().copied();
    let programs = texts.iter().map(String::as_str).chain(own);
    programs
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{e}\n{text}")))
        .collect()
}

/// Returns the samples of an op that have a reverse mode.
fn reversible(op: Op) -> Vec<Program> {
    let mut samples = samples(op);
    samples.retain(|program| {
        ad::irreversible(program).is_none() && ad::reverse_only(program).is_none()
    });
    samples
}

#[track_caller]
fn sound(program: &Program) {
    let text = program.to_string();
    assert_eq!(verify(program), Vec::<String>::new(), "in {text}");
    let again: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.to_string(), text);
}

/// Returns the parameters that can be differentiated, as far as dtypes are known.
fn floats(program: &Program) -> Vec<Var> {
    let is_float = |v: &Var| program.aval(*v).dtype.is_none_or(|d| d.is_float());
    program.params.iter().copied().filter(is_float).collect()
}

/// Checks forward and reverse mode, and that each cotangent has the aval of its parameter.
#[track_caller]
fn derivatives(program: &Program, wrt: &[Var]) -> ad::Vjp {
    sound(program);
    sound(&pass::simplify(program.clone()));
    sound(&ad::jvp(program, wrt, ad::Calls::Joint).program);
    let vjp = ad::vjp(program, wrt);
    sound(&vjp.primal);
    sound(&vjp.pullback);
    let of = wrt
        .iter()
        .zip(&vjp.nonzero)
        .filter(|(_, nonzero)| **nonzero);
    assert_eq!(of.clone().count(), vjp.pullback.outs.len());
    for ((x, _), ct) in of.zip(&vjp.pullback.outs) {
        let (x, ct) = (program.aval(*x), vjp.pullback.aval(*ct));
        if x.shape.known().is_some() {
            assert_eq!(x, ct, "in {program}\n{}", vjp.pullback);
        }
    }
    let n_residuals = vjp.primal.outs.len() - vjp.n_outs;
    assert_eq!(
        vjp.primal.outs[vjp.n_outs..],
        vjp.pullback.params[..n_residuals]
    );
    vjp
}

#[test]
fn every_op_has_a_sample() {
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        assert!(!samples(*op).is_empty(), "`{op}` has no sample");
        for program in samples(*op) {
            let used = program.eqns.iter().any(|e| e.op == *op);
            assert!(used, "a sample of `{op}` does not use it: {program}");
        }
    }
}

#[test]
fn derivatives_of_every_op_are_sound() {
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        for program in reversible(*op) {
            derivatives(&program, &floats(&program));
            for x in floats(&program) {
                derivatives(&program, &[x]);
            }
        }
    }
}

#[test]
fn second_derivatives_of_every_op_are_sound() {
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        for program in reversible(*op) {
            let vjp = derivatives(&program, &floats(&program));
            if ad::irreversible(&vjp.pullback).is_none() {
                derivatives(&vjp.pullback, &floats(&vjp.pullback));
            }
            let jvp = ad::jvp(&program, &floats(&program), ad::Calls::Joint);
            derivatives(&jvp.program, &floats(&jvp.program));
        }
    }
}

#[test]
fn derivatives_need_no_shapes() {
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        for program in reversible(*op) {
            let wrt = floats(&program);
            let untyped = Program {
                avals: SecondaryMap::new(),
                ..program.clone()
            };
            // Parsing infers avals. The dtypes are kept, because they decide which parameters have
            // derivatives.
            let mut untyped: Program = untyped.to_string().parse().expect("printed programs parse");
            for (x, typed) in untyped.params.clone().into_iter().zip(&program.params) {
                let dtype = program.aval(*typed).dtype;
                untyped.avals.insert(
                    x,
                    Aval {
                        dtype,
                        ..Aval::UNKNOWN
                    },
                );
            }
            let wrt: Vec<Var> = (0..program.params.len())
                .filter(|i| wrt.contains(&program.params[*i]))
                .map(|i| untyped.params[i])
                .collect();
            derivatives(&untyped, &wrt);
        }
    }
}

#[test]
fn each_method_names_all_operands_of_its_op() {
    use gradloom_ir::op::{Operands, Param};
    for op in Op::ALL {
        for method in op.def().methods() {
            let count =
                |kinds: &[Param]| method.params.iter().filter(|p| kinds.contains(p)).count();
            let data = count(&[Param::Data, Param::DataLike]);
            let likes = count(&[Param::DataLike, Param::Like]);
            let fits = match op.def().operands() {
                Operands::Fixed(n_data, n_likes) => (data, likes) == (n_data, n_likes),
                Operands::Between(least, most) => (least..=most).contains(&data) && likes == 0,
                _ => true,
            };
            assert!(
                fits,
                "`{}` of `{op}` has {data} operands and {likes} likes",
                method.name
            );
        }
    }
}
