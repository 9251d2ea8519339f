//! Every op with nonsensical operands and static arguments. The rules either reject them, or the
//! kernels can compute them.

use gradloom::__private::replay;
use gradloom::{DType, Tensor, evaluate};
use gradloom_ir::op::Laws;
use gradloom_ir::{Aval, Builder, Op, Program, Static};
use gradloom_tests::graphs::Rng;
use gradloom_tests::{input, sample_programs};

fn statics() -> Vec<Static> {
    let ints = [0, 1, -1, 2, 3, -2, i64::MAX, i64::MIN, 1 << 31, 1 << 62];
    let lists = [
        vec![],
        vec![0],
        vec![-1],
        vec![0, 0],
        vec![-1, -1],
        vec![1, 0],
        vec![2, 3],
        vec![0, 1, 2],
        vec![i64::MAX, i64::MAX],
        vec![i64::MIN],
        vec![1 << 32, 1 << 32],
        vec![0, i64::MAX, i64::MAX],
        vec![1; 40],
    ];
    let floats = [0.0, -0.0, -1.0, 1e-5, 0.5, 1e300, f64::NAN, f64::INFINITY];
    let mut all: Vec<Static> = ints.map(Static::Int).to_vec();
    all.extend(lists.map(Static::Ints));
    all.extend(floats.map(Static::Float));
    all.extend([Static::Bool(true), Static::Bool(false), Static::All]);
    all.extend(DType::ALL.map(Static::DType));
    all
}

fn avals() -> Vec<Aval> {
    let shapes: [&[usize]; 11] = [
        &[],
        &[0],
        &[1],
        &[3],
        &[2, 3],
        &[3, 2],
        &[0, 3],
        &[2, 0],
        &[2, 3, 4],
        &[1 << 40, 1 << 20],
        &[1; 32],
    ];
    shapes
        .iter()
        .flat_map(|s| DType::ALL.map(|d| Aval::new(d, s)))
        .collect()
}

/// Returns whether the rules accept the program. If so, evaluates it and checks the avals of the
/// results. An error that depends on the data is allowed.
fn run(program: &Program, op: Op, avals: &[Aval], statics: &[Static]) -> bool {
    let eqn = &program.eqns[0];
    let args: Vec<&Aval> = eqn
        .args
        .iter()
        .map(|a| {
            &avals[program
                .params
                .iter()
                .position(|p| p == a)
                .expect("operands of a sample are parameters")]
        })
        .collect();
    let Ok(outs) = op.infer(statics, &args, eqn.outs.len()) else {
        return false;
    };
    // Large results would exceed memory, and ops that only rules emit trust their operands, so
    // neither is evaluated.
    let small = |a: &Aval| {
        a.shape
            .known()
            .is_some_and(|d| d.iter().product::<usize>() <= 4096)
    };
    if op.def().methods().is_empty() || !outs.iter().chain(avals).all(small) {
        return true;
    }
    let mut b = Builder::new();
    let params: Vec<_> = avals.iter().map(|a| b.param(a.clone())).collect();
    let args: Vec<_> = eqn
        .args
        .iter()
        .map(|a| params[program.params.iter().position(|p| p == a).unwrap()])
        .collect();
    let attrs: Vec<_> = statics.iter().map(|s| b.attr(s.clone())).collect();
    let results = b.emit_many(op, &attrs, &args, outs.len());
    let program = b.finish(params, results);
    let inputs: Vec<Tensor> = avals
        .iter()
        .enumerate()
        .map(|(k, a)| input(a, &Laws::new((-2.0, 2.0), &[]), k))
        .collect();
    let results = replay(&program, &inputs).unwrap();
    // A sum of small integers is one of `i64`.
    let is_cast = avals.first().is_some_and(|x| op.cast_to(x.dtype).is_some());
    if evaluate(&results).is_ok() && !is_cast {
        for (y, aval) in results.iter().zip(&outs) {
            assert_eq!(Aval::new(y.dtype(), y.shape()), *aval, "{program}");
        }
    }
    true
}

#[test]
fn no_op_panics_on_any_static_argument_or_operand() {
    let (statics, shapes) = (statics(), avals());
    let (mut n_taken, mut n_refused) = (0, 0);
    for &op in Op::ALL {
        let mut rng = Rng::new(op as u64);
        for program in sample_programs(op) {
            let own: Vec<Aval> = program
                .params
                .iter()
                .map(|p| program.aval(*p).clone())
                .collect();
            let given: Vec<Static> = program.eqns[0]
                .attrs
                .iter()
                .map(|a| program.attr(*a).clone())
                .collect();
            let mut count = |taken: bool| if taken { n_taken += 1 } else { n_refused += 1 };
            // Replace one argument by each alternative.
            for i in 0..given.len() {
                for other in &statics {
                    let mut given = given.clone();
                    given[i] = other.clone();
                    count(run(&program, op, &own, &given));
                }
            }
            for i in 0..own.len() {
                for other in &shapes {
                    let mut own = own.clone();
                    own[i] = other.clone();
                    count(run(&program, op, &own, &given));
                }
            }
            // Replace all arguments at random.
            for _ in 0..200 {
                let own: Vec<Aval> = own.iter().map(|_| rng.of(&shapes)).collect();
                let given: Vec<Static> = given
                    .iter()
                    .map(|g| {
                        if rng.once_in(2) {
                            g.clone()
                        } else {
                            rng.of(&statics)
                        }
                    })
                    .collect();
                count(run(&program, op, &own, &given));
            }
        }
    }
    assert!(
        n_taken > 1000 && n_refused > 1000,
        "{n_taken} taken, {n_refused} refused"
    );
}
