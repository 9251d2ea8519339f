//! Tests that the passes change no bit, on random elementwise programs run by the definitions of the
//! ops.

use gradloom_ir::op::{NdArray, evaluate};
use gradloom_ir::{Aval, Builder, DType, Op, Program, RematHint, Static, Var, ad, pass, verify};

/// The number of elements of a value whose rank is not 0.
const LEN: usize = 3;

/// Returns the bits of each element, with one bit pattern for every NaN: IEEE 754 does not determine
/// the bits of a NaN result.
fn bits(x: &NdArray) -> Vec<u64> {
    let bits = |x: &f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
    x.data.iter().map(bits).collect()
}

/// A linear congruential generator, which gives the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const UNARY: &[Op] = &[
    Op::Identity,
    Op::StopGradient,
    Op::Neg,
    Op::Neg,
    Op::Abs,
    Op::Exp,
    Op::Sqrt,
    Op::Sin,
    Op::Tanh,
    Op::Relu,
    Op::Square,
    Op::Reciprocal,
];
const BINARY: &[Op] = &[
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Mul,
    Op::Div,
    Op::Maximum,
    Op::Minimum,
    Op::Pow,
];
const NUMBERS: &[f64] = &[0.0, -0.0, 1.0, 1.0, -1.0, 2.0, 3.0, 1e308, f64::INFINITY];

/// Returns a random program of `n` steps on two vectors, with random hints to save or recompute.
fn program(random: &mut Random, n: usize) -> Program {
    let mut b = Builder::new();
    let params: Vec<Var> = (0..2)
        .map(|_| b.param(Aval::new(DType::F64, &[LEN])))
        .collect();
    let mut vars = params.clone();
    for _ in 0..n {
        let (x, y) = (random.pick(&vars), random.pick(&vars));
        let out = match random.below(8) {
            0 | 1 => b.unary(random.pick(UNARY), x),
            2..=4 => b.binary(random.pick(BINARY), x, y),
            5 => {
                // Scalars such as 0 and 1 trigger the algebraic rules.
                let number = b.scalar(random.pick(NUMBERS), x);
                vars.push(number);
                match random.below(2) {
                    0 => b.binary(random.pick(BINARY), number, x),
                    _ => b.binary(random.pick(BINARY), x, number),
                }
            }
            6 => {
                let value = b.attr(random.pick(NUMBERS));
                b.emit(Op::FullLike, &[value], &[x])
            }
            _ => {
                let condition = b.binary(Op::Gt, x, y);
                b.select(condition, x, random.pick(&vars))
            }
        };
        vars.push(out);
    }
    // Every result is a vector that depends on a parameter, so that it has a derivative.
    let last = b.binary(Op::Mul, vars[vars.len() - 1], params[0]);
    let also = random.pick(&vars);
    let also = b.binary(Op::Add, also, params[1]);
    let mut program = b.finish(params, vec![last, also]);
    for v in vars {
        match random.below(12) {
            0 => drop(program.remat_hints.insert(v, RematHint::Save)),
            1 => drop(program.remat_hints.insert(v, RematHint::Recompute)),
            _ => {}
        }
    }
    program
}

fn vector(random: &mut Random) -> NdArray {
    array(random, &[LEN])
}

fn array(random: &mut Random, shape: &[usize]) -> NdArray {
    const ELEMENTS: &[f64] = &[
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.3,
        7.0,
        -2.25,
        f64::INFINITY,
        f64::NAN,
    ];
    NdArray::build(shape, |_| random.pick(ELEMENTS))
}

#[track_caller]
fn same_bits(a: &[NdArray], b: &[NdArray], of: &dyn Fn() -> String) {
    let all = |values: &[NdArray]| values.iter().map(bits).collect::<Vec<_>>();
    assert_eq!(all(a), all(b), "{}", of());
}

/// Row S1.3 of the requirements.
#[test]
fn simplifying_changes_no_bit() {
    let mut random = Random(1);
    for _ in 0..2000 {
        let n = 1 + random.below(12);
        let mut program = program(&mut random, n);
        // Every value is a result, because another op may hide the sign of a zero.
        program.outs = program.eqns.iter().map(|e| e.out()).collect();
        let simple = pass::without_powers(pass::simplify(program.clone()));
        assert_eq!(verify(&simple), Vec::<String>::new(), "{program}\n{simple}");
        let args = [vector(&mut random), vector(&mut random)];
        let of = || format!("{program}\n{simple}");
        same_bits(&evaluate(&program, &args), &evaluate(&simple, &args), &of);
    }
}

/// Returns a random program of `n` steps that combines, and takes parts of, values that broadcast to `[2, 4]`.
fn program_with_parts(random: &mut Random, n: usize, shapes: &[&[usize]]) -> Program {
    let mut b = Builder::new();
    let param = |shape: &&[usize]| b.param(Aval::new(DType::F64, shape));
    let params: Vec<Var> = shapes.iter().map(param).collect();
    let mut vars = params.clone();
    for _ in 0..n {
        // Recent values are read more often, so that those before them are read by few equations.
        let recent = vars.len().saturating_sub(3);
        let x = vars[recent + random.below(vars.len() - recent)];
        let y = random.pick(&vars);
        let rank = b.aval(x).shape.known().map_or(0, |dims| dims.len());
        let (op, statics, n_outs): (_, Vec<Static>, _) = match random.below(10) {
            0..=5 => (random.pick(BINARY), vec![], 1),
            _ if rank == 0 => (random.pick(UNARY), vec![], 1),
            6 => {
                let dims = b.aval(x).shape.known().unwrap_or_default();
                let axis = random.below(rank);
                let (one, other) = (random.below(dims[axis] + 1), dims[axis]);
                let sizes = vec![one as i64, (other - one) as i64];
                (Op::Split, vec![sizes.into(), (axis as i64).into()], 2)
            }
            7 => {
                let index = -(random.below(2) as i64);
                let axis = random.below(rank) as i64 - rank as i64;
                (Op::SelectIndex, vec![axis.into(), index.into()], 1)
            }
            8 => {
                let (start, step) = (random.below(2) as i64, random.pick(&[1i64, 1, 2, -1]));
                let stop = if step < 0 { 0 } else { i64::MAX };
                let list = |n: i64| -> Static { vec![n].into() };
                (Op::Slice, vec![list(start), list(stop), list(step)], 1)
            }
            _ => {
                let dims = b.aval(x).shape.known().unwrap_or_default();
                let axis = random.below(rank);
                (Op::Unbind, vec![(axis as i64).into()], dims[axis])
            }
        };
        let attrs: Vec<_> = statics.into_iter().map(|value| b.attr(value)).collect();
        let args = match op {
            Op::Unbind => vec![x],
            // Tangents have the primal value as their like operand.
            Op::Split | Op::SelectIndex | Op::Slice => {
                let same = |y: &&Var| b.aval(**y).shape == b.aval(x).shape;
                vec![x, *vars.iter().rfind(same).unwrap_or(&x)]
            }
            op if UNARY.contains(&op) => vec![x],
            _ => vec![x, y],
        };
        // Shapes that do not fit are another try.
        vars.extend(b.try_emit(op, &attrs, &args, n_outs).unwrap_or_default());
    }
    let outs = vars.split_off(vars.len() - 2);
    b.finish(params, outs)
}

#[test]
fn dividing_changes_no_bit() {
    let mut random = Random(5);
    let mut changed = 0;
    let shapes: [&[usize]; 4] = [&[2, 4], &[4], &[2, 1], &[]];
    for _ in 0..4000 {
        let n = 3 + random.below(12);
        let program = pass::dce(program_with_parts(&mut random, n, &shapes));
        let divided = pass::divide_from(2, program.clone());
        assert_eq!(
            verify(&divided),
            Vec::<String>::new(),
            "{program}\n{divided}"
        );
        changed += usize::from(program.to_string() != divided.to_string());
        let args = shapes.map(|shape| array(&mut random, shape));
        let of = || format!("{program}\n{divided}");
        same_bits(&evaluate(&program, &args), &evaluate(&divided, &args), &of);
    }
    assert!(changed > 300, "{changed} programs are divided");
}

#[test]
fn the_residual_choice_changes_no_bit() {
    let mut random = Random(2);
    let mut repeated = 0;
    for _ in 0..2000 {
        let n = 1 + random.below(12);
        let program = pass::simplify(program(&mut random, n));
        let n_outs = program.outs.len();
        let joint = pass::cse(ad::jvp(&program, &program.params, ad::Calls::Split).program);
        let split = ad::split(&joint, program.params.len(), n_outs);
        let n_residuals = split.residuals.len();
        let pullback = ad::transpose(&split.linear, n_residuals).program;
        let (primal, chosen) =
            pass::choose_residuals(split.known.clone(), pullback.clone(), n_outs, n_residuals);
        for program in [&primal, &chosen] {
            assert_eq!(verify(program), Vec::<String>::new(), "{program}");
        }
        repeated += usize::from(chosen.eqns.len() > pullback.eqns.len());

        let args = [vector(&mut random), vector(&mut random)];
        let cts: Vec<NdArray> = (0..joint.outs.len() - n_outs)
            .map(|_| vector(&mut random))
            .collect();
        let [without, with] =
            [(&split.known, &pullback), (&primal, &chosen)].map(|(p, pullback)| {
                let outs = evaluate(p, &args);
                let all: Vec<NdArray> = outs[n_outs..].iter().chain(&cts).cloned().collect();
                let ct = evaluate(pullback, &all);
                outs[..n_outs].iter().cloned().chain(ct).collect::<Vec<_>>()
            });
        let of = || format!("{program}\n{pullback}\n{primal}\n{chosen}");
        same_bits(&without, &with, &of);
    }
    assert!(repeated > 500, "{repeated} pullbacks recompute an equation");
}

/// Returns the results, and the cotangents that the pullback returns.
fn run_vjp(vjp: &ad::Vjp, args: &[NdArray], cts: &[NdArray]) -> (Vec<NdArray>, Vec<NdArray>) {
    let mut outs = evaluate(&vjp.primal, args);
    let residuals = outs.split_off(vjp.n_outs);
    let active = vjp.active.iter().filter(|active| **active).count();
    let given: Vec<NdArray> = residuals.iter().chain(&cts[..active]).cloned().collect();
    (outs, evaluate(&vjp.pullback, &given))
}

/// Moves equations behind those that bind their `Like` operands, of which steps read only the shapes.
fn in_order(mut program: Program) -> Program {
    let mut bound = program.params.clone();
    let mut rest = std::mem::take(&mut program.eqns);
    while !rest.is_empty() {
        let ready = rest
            .iter()
            .position(|eqn| eqn.args.iter().all(|x| bound.contains(x)));
        let eqn = rest.remove(ready.expect("the equations have an order"));
        bound.extend(&eqn.outs);
        program.eqns.push(eqn);
    }
    program
}

#[test]
fn values_that_are_computed_again_change_no_bit_of_the_results() {
    let mut random = Random(6);
    let mut repeated = 0;
    for _ in 0..1000 {
        let n = 8 + random.below(40);
        let program = program(&mut random, n);
        let value = program.params.clone();
        let joint = ad::jvp(&program, &value, ad::Calls::Joint).program;
        for program in [program, joint] {
            let steps = pass::fuse(&program);
            let args: Vec<NdArray> = program.params.iter().map(|_| vector(&mut random)).collect();
            let expected = evaluate(&program, &args);
            let free =
                pass::rematerialize(&program, &steps, u128::MAX).expect("nothing is repeated");
            assert_eq!(free.again, []);
            for percent in [90, 70, 50, 30] {
                let limit = free.bytes * percent / 100;
                let Some(made) = pass::rematerialize(&program, &steps, limit) else {
                    continue;
                };
                let of = || format!("{program}\n{}", made.program);
                let order = made.steps.concat();
                assert!(
                    order.iter().copied().eq(0..made.program.eqns.len()),
                    "{}",
                    of()
                );
                assert!(made.bytes <= free.bytes, "{}", of());
                let again = in_order(made.program.clone());
                assert_eq!(verify(&again), Vec::<String>::new(), "{}", of());
                same_bits(&expected, &evaluate(&again, &args), &of);
                repeated += usize::from(!made.again.is_empty());
            }
        }
    }
    assert!(repeated > 500, "{repeated} programs compute a value again");
}

#[test]
fn cotangents_of_points_change_no_bit_of_the_others() {
    let mut random = Random(4);
    let mut found = 0;
    for _ in 0..2000 {
        let n = 1 + random.below(12);
        let program = program(&mut random, n);
        let mut points: Vec<Var> = program.eqns.iter().map(|eqn| eqn.out()).collect();
        points.retain(|_| random.below(3) == 0);
        points.insert(0, program.params[0]);
        let plain = ad::vjp(&program, &program.params);
        let (with_points, index) = ad::vjp_with_points(&program, &program.params, &points);
        for program in [&with_points.primal, &with_points.pullback] {
            assert_eq!(verify(program), Vec::<String>::new(), "{program}");
        }
        let args = [vector(&mut random), vector(&mut random)];
        let cts = [vector(&mut random), vector(&mut random)];
        let of = || format!("{program}\n{}\n{}", plain.pullback, with_points.pullback);
        let (y, ct) = run_vjp(&plain, &args, &cts);
        let (traced_y, mut traced_ct) = run_vjp(&with_points, &args, &cts);
        let of_points = traced_ct.split_off(ct.len());
        same_bits(&y, &traced_y, &of);
        same_bits(&ct, &traced_ct, &of);
        assert_eq!(plain.nonzero, with_points.nonzero);
        // The first point is the first parameter, which has a cotangent.
        let first = index[0].expect("the results depend on it");
        same_bits(&of_points[first..=first], &ct[..1], &of);
        found += index.iter().flatten().count();
        assert!(index.iter().flatten().all(|i| *i < of_points.len()));
    }
    assert!(found > 4000, "{found} points have cotangents");
}

#[test]
fn equal_programs_give_equal_text() {
    let mut random = Random(3);
    for _ in 0..200 {
        let program = program(&mut random, 12);
        let texts = [(); 2].map(|()| {
            let vjp = ad::vjp(&program, &program.params);
            format!("{}\n{}", vjp.primal, vjp.pullback)
        });
        assert_eq!(texts[0], texts[1]);
    }
}

#[test]
fn an_integer_that_would_be_rounded_twice_is_not_a_constant_of_a_loop() {
    let constant = |n: i64| {
        let text = format!("(x: f32[2]) {{ y = full_like[value={n}] like x return y }}");
        let program: Program = text.parse().expect(&text);
        pass::constants(&program).get(program.outs[0]).copied()
    };
    let n = (1 << 54) + (1 << 30) + 1;
    assert_ne!((n as f32).to_bits(), (n as f64 as f32).to_bits());
    assert_eq!(constant(n), None);
    assert_eq!(constant(-(1 << 53)), Some(-9007199254740992.0));
}
