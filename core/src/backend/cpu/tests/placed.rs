//! Values that groups read among zeros, and are not stored: programs of several ops.

use super::run::{plan, run};
use super::view::{View, array_of, bits, elsewhere, view_of};
use gradloom_ir::op::{NdArray, evaluate};
use gradloom_ir::{Aval, Builder, DType, Op, Program, Static, Var, pass};

/// A linear congruential generator, which gives the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005);
        self.0 = self.0.wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn array(&mut self, shape: &[usize]) -> NdArray {
        const ELEMENTS: &[f64] = &[0.0, -0.0, 1.5, -2.25, 0.3, f64::NAN, f64::INFINITY, 7.0];
        NdArray::build(shape, |_| match self.below(3) {
            0 => self.pick(ELEMENTS),
            _ => self.below(1000) as f64 / 64.0 - 8.0,
        })
    }
}

/// Adds an equation with static arguments.
fn emit(b: &mut Builder, op: Op, statics: Vec<Static>, args: &[Var]) -> Var {
    let attrs: Vec<_> = statics.into_iter().map(|value| b.attr(value)).collect();
    b.emit(op, &attrs, args)
}

/// Returns a value of the shape of `x`, whose elements are those of `x` moved or among zeros.
fn moved(random: &mut Random, b: &mut Builder, x: Var, shape: &[usize]) -> Var {
    let rank = shape.len();
    let axis = random.below(rank);
    match random.below(4) {
        0 => {
            let shift = random.below(2 * shape[axis] + 2) as i64 - shape[axis] as i64;
            let statics = vec![
                shift.into(),
                (axis as i64).into(),
                (random.below(2) == 0).into(),
            ];
            emit(b, Op::Roll, statics, &[x])
        }
        1 => {
            let by = shape
                .iter()
                .map(|len| random.below(2 * len + 1) as i64 - *len as i64);
            let low: Vec<i64> = by.collect();
            let high: Vec<i64> = low.iter().map(|n| -n).collect();
            let zeros = vec![0; rank];
            let statics: Vec<Static> = vec![low.into(), high.into(), zeros.into()];
            match random.below(2) {
                0 => emit(b, Op::PadZeros, statics, &[x, x]),
                _ => {
                    let value = match b.aval(x).dtype {
                        Some(DType::I32) => 0.0,
                        _ => random.pick(&[0.0, 0.0, -0.0, 0.5]),
                    };
                    emit(b, Op::Pad, [statics, vec![value.into()]].concat(), &[x])
                }
            }
        }
        2 => {
            let index = random.below(shape[axis]) as i64;
            let statics: Vec<Static> = vec![(axis as i64).into(), index.into()];
            let part = emit(b, Op::SelectIndex, statics.clone(), &[x, x]);
            let part = b.unary(random.pick(&[Op::Neg, Op::Identity]), part);
            emit(b, Op::SelectIndexT, statics, &[part, x])
        }
        _ => {
            let range = |len: &usize| {
                let start = random.below(*len);
                let step = random.pick(&[1, 1, 2, 3, -1]);
                match step {
                    -1 => [(*len - 1) as i64, start as i64, -1],
                    step => [
                        start as i64,
                        (start + random.below(*len - start + 1)) as i64,
                        step,
                    ],
                }
            };
            let ranges: Vec<[i64; 3]> = shape.iter().map(range).collect();
            let list =
                |i: usize| -> Static { ranges.iter().map(|r| r[i]).collect::<Vec<_>>().into() };
            let statics: Vec<Static> = vec![list(0), list(1), list(2)];
            let part = emit(b, Op::Slice, statics.clone(), &[x, x]);
            let part = b.unary(random.pick(&[Op::Neg, Op::Identity]), part);
            emit(b, Op::SliceT, statics, &[part, x])
        }
    }
}

/// Returns a random program on two values of a shape.
fn program(random: &mut Random, dtype: DType, shape: &[usize]) -> Program {
    let mut b = Builder::new();
    let params: Vec<Var> = (0..2).map(|_| b.param(Aval::new(dtype, shape))).collect();
    let mut vars = params.clone();
    for _ in 0..2 + random.below(8) {
        let x = vars[vars.len() - 1 - random.below(vars.len().min(3))];
        let y = random.pick(&vars);
        let out = match random.below(2) {
            0 => moved(random, &mut b, x, shape),
            _ => b.binary(random.pick(&[Op::Add, Op::Sub, Op::Maximum]), x, y),
        };
        vars.push(out);
    }
    let last = vars[vars.len() - 1];
    let first = random.pick(&vars);
    let sum = b.binary(Op::Add, last, first);
    let outs = match random.below(3) {
        0 => vec![sum, random.pick(&vars)],
        _ => vec![sum],
    };
    b.finish(params, outs)
}

#[test]
fn values_among_zeros_have_the_bits_of_stored_ones() {
    let mut random = Random(1);
    let mut fewer = 0;
    let shapes: [&[usize]; 8] = [
        &[70],
        &[3, 20],
        &[20, 3],
        &[2, 5, 18],
        &[1, 4, 16],
        &[4, 1, 33],
        &[3, 2, 2, 17],
        &[2, 1500],
    ];
    for i in 0..3000 {
        let shape = shapes[i % shapes.len()];
        let dtype = random.pick(&[DType::F64, DType::F64, DType::F32, DType::I32]);
        let program = pass::dce(program(&mut random, dtype, shape));
        let values: Vec<NdArray> = (program.params.iter())
            .map(|_| match dtype {
                DType::I32 => NdArray::build(shape, |_| random.below(100) as f64 - 50.0),
                DType::F32 => NdArray::build(shape, |_| random.below(1000) as f64 / 8.0 - 60.0),
                _ => random.array(shape),
            })
            .collect();
        let mut args: Vec<View> = values.iter().map(|nd| view_of(dtype, nd)).collect();
        if random.below(3) == 0 {
            args[0] = elsewhere(dtype, &values[0])[random.below(3)].clone();
        }
        let found = run(&program, &args).unwrap();
        for (found, want) in found.iter().zip(evaluate(&program, &values)) {
            let found = array_of(found);
            let mut both = found.data.iter().zip(&want.data);
            let same = both.all(|(x, y)| x == y || x.is_nan() && y.is_nan());
            assert!(same, "{program}\n{found:?}\n{want:?}");
        }
        // With all values as results, none is read among zeros.
        let mut all = program.clone();
        all.outs.extend(program.eqns.iter().map(|eqn| eqn.out()));
        let stored = run(&all, &args).unwrap();
        for (found, stored) in found.iter().zip(&stored) {
            assert_eq!(bits(found), bits(stored), "{program}");
        }
        let moves = program
            .eqns
            .iter()
            .filter(|eqn| !eqn.op.def().facts().elementwise);
        let tasks = plan(&program, &args).n_tasks();
        fewer += usize::from(tasks < moves.count());
    }
    assert!(
        fewer > 500,
        "{fewer} plans have fewer tasks than moved values"
    );
}

/// A result of more than 1 MiB may be computed in the memory of an operand, but not of one that is read elsewhere.
#[test]
fn no_result_overwrites_what_is_read_in_another_place() {
    let text = "(x: f64[600, 400]) {
        a = exp x
        b = roll[shift=1, axis=0, back=false] a
        c = add a, b
        d = roll[shift=-3, axis=1, back=false] c
        e = pad[low=[2, 5], high=[-2, -5], interior=0, value=0.0] c
        f = mul d, e
        g = add f, c
        return g
    }";
    let program: Program = text.parse().unwrap();
    let mut random = Random(2);
    let x = NdArray::build(&[600, 400], |_| random.below(1000) as f64 / 1000.0);
    let exp = NdArray::build(&[600, 400], |i| x.spread(&i).exp());
    let found = run(&program, &[view_of(DType::F64, &x)]).unwrap();
    let at = |x: &NdArray, i: i64, j: i64| x.spread(&[i as usize, j as usize]);
    let c = NdArray::build(&[600, 400], |i| {
        exp.spread(&i) + at(&exp, (i[0] as i64 - 1).rem_euclid(600), i[1] as i64)
    });
    let want = NdArray::build(&[600, 400], |i| {
        let (row, col) = (i[0] as i64, i[1] as i64);
        let d = at(&c, row, (col + 3).rem_euclid(400));
        let e = if row < 2 || col < 5 {
            0.0
        } else {
            at(&c, row - 2, col - 5)
        };
        d * e + c.spread(&i)
    });
    let found = array_of(&found[0]);
    for (found, want) in found.data.iter().zip(&want.data) {
        assert!(
            (found - want).abs() <= 1e-12 * want.abs(),
            "{found} is not {want}"
        );
    }
}
