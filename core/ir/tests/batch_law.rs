//! Tests the law of batching for every op: a batch gives what a loop over its lanes gives.
//!
//! The programs are the samples of each op, their derivatives in both modes, and the second
//! derivatives. Each is batched for choices of the parameters that differ between lanes, with 0 to 3
//! lanes, and evaluated by the definitions of the ops.

use gradloom_ir::ad::{self, Calls};
use gradloom_ir::batch::batch;
use gradloom_ir::op::{Eval, Laws, NdArray, evaluate};
use gradloom_ir::{DType, Op, Program, Var, verify};

/// A linear congruential generator, which gives the same numbers in every run.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the programs on which the law of an op is tested.
fn samples(op: Op) -> Vec<Program> {
    let texts: Vec<String> = match op.def().eval() {
        Eval::Unary(_) | Eval::Test(_) => vec![format!("(x: f64[2, 3]) {{ y = {op} x return y }}")],
        Eval::Binary(_) | Eval::Compare(_) => ["f64[2, 3]", "f64[2, 1]", "f64[3]", "f64[]"]
            .map(|y| format!("(x: f64[2, 3], y: {y}) {{ z = {op} x, y return z }}"))
            .to_vec(),
        _ => op
            .def()
            .laws()
            .samples
            .iter()
            .map(|s| s.to_string())
            .collect(),
    };
    texts
        .into_iter()
        .map(|text| text.parse().unwrap_or_else(|e| panic!("{text}\n{e}")))
        .collect()
}

/// Returns the program with its first and second derivatives, except for those that are long.
fn with_derivatives(program: Program) -> Vec<Program> {
    let is_float = |p: &Program, v: &Var| p.aval(*v).dtype.is_some_and(DType::is_float);
    let floats = |p: &Program| -> Vec<Var> {
        p.params
            .iter()
            .copied()
            .filter(|v| is_float(p, v))
            .collect()
    };
    if ad::reverse_only(&program).is_some() {
        return vec![program];
    }
    let forward = ad::jvp(&program, &floats(&program), Calls::Split);
    if !forward.active.contains(&true) {
        return vec![program];
    }
    let mut all = vec![program.clone(), forward.program];
    if ad::irreversible(&program).is_none() {
        let reverse = ad::vjp(&program, &floats(&program)).pullback;
        let second = ad::jvp(&reverse, &floats(&reverse), Calls::Split).program;
        all.extend([reverse, second]);
    }
    all.retain(|p| p.eqns.len() <= 24);
    all
}

/// Draws the value of a parameter, with an axis of lanes if `lanes` is given.
fn draw(
    random: &mut Random,
    program: &Program,
    param: Var,
    laws: &Laws,
    lanes: Option<usize>,
) -> NdArray {
    let aval = program.aval(param);
    let one = aval.shape.known().expect("samples have known shapes");
    let shape: Vec<usize> = lanes.into_iter().chain(one).collect();
    NdArray::build(&shape, |i| {
        let unit = random.unit();
        match aval.dtype {
            Some(DType::Bool) => f64::from(unit < 0.5),
            Some(DType::I32 | DType::I64) => (unit * 3.0).floor(),
            _ => laws.domain.0 + (laws.domain.1 - laws.domain.0) * unit + laws.added(&i),
        }
    })
}

/// Returns lane `i` of a value.
fn lane(x: &NdArray, i: usize) -> NdArray {
    let shape = x.shape[1..].to_vec();
    let n: usize = shape.iter().product();
    NdArray {
        shape,
        data: x.data[i * n..(i + 1) * n].to_vec(),
    }
}

/// Compares a batch of `len` lanes with a loop.
fn check(random: &mut Random, program: &Program, laws: &Laws, each: &[bool], len: usize) {
    let batched = batch(program, each, len).unwrap_or_else(|op| panic!("`{op}` in\n{program}"));
    let context = || format!("{program}\n{each:?}, {len} lanes\n{}", batched.program);
    let faults = verify(&batched.program);
    assert!(faults.is_empty(), "{faults:?}\n{}", context());
    let params = program.params.iter().zip(each);
    let args: Vec<NdArray> = params
        .map(|(param, each)| draw(random, program, *param, laws, each.then_some(len)))
        .collect();
    let found = evaluate(&batched.program, &args);
    for i in 0..len {
        let of_lane = args.iter().zip(each).map(|(x, each)| match each {
            true => lane(x, i),
            false => x.clone(),
        });
        let expected = evaluate(program, &of_lane.collect::<Vec<_>>());
        for ((found, each), expected) in found.iter().zip(&batched.each).zip(&expected) {
            let found = match each {
                true => lane(found, i),
                false => found.clone(),
            };
            assert_eq!(found.shape, expected.shape, "{}", context());
            let near = |(x, y): (&f64, &f64)| {
                (x - y).abs() <= 1e-9 * (1.0 + y.abs()) || x == y || x.is_nan() && y.is_nan()
            };
            let all_near = found.data.iter().zip(&expected.data).all(near);
            assert!(all_near, "{found:?}\n{expected:?}\n{}", context());
        }
    }
    for (out, each) in found.iter().zip(&batched.each).filter(|(_, each)| **each) {
        assert_eq!(out.shape.first(), Some(&len), "{each} {}", context());
    }
}

#[test]
fn a_batch_gives_what_a_loop_over_its_lanes_gives() {
    let mut random = Random(1);
    let mut checked = 0;
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        let laws = op.def().laws();
        for program in samples(*op).into_iter().flat_map(with_derivatives) {
            let n = program.params.len();
            let all = (1 << n) - 1;
            // Every choice of up to four parameters; of more, one parameter, all others, and all.
            let few = |choice: &usize| {
                let chosen = choice.count_ones() as usize;
                n <= 4 || chosen == 1 || chosen + 1 >= n
            };
            for choice in (1..=all).filter(few) {
                let each: Vec<bool> = (0..n).map(|i| choice >> i & 1 == 1).collect();
                for len in if choice == all {
                    vec![0, 1, 3]
                } else {
                    vec![2]
                } {
                    check(&mut random, &program, &laws, &each, len);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 2_000, "{checked}");
}
