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

/// Returns the sum of `x` over a random set of its axes.
fn sum_over_some(random: &mut Random, b: &mut Builder, x: Var, rank: usize) -> Var {
    let axes = (0..rank as i64).filter(|_| random.below(2) == 0);
    let axes: Vec<i64> = axes.collect();
    emit(b, Op::Sum, vec![axes.into(), false.into()], &[x, x])
}

/// Returns a value of the shape of `x`, whose elements are those of `x` moved or among zeros.
fn moved(random: &mut Random, b: &mut Builder, x: Var, shape: &[usize]) -> Var {
    let rank = shape.len();
    let axis = random.below(rank);
    match random.below(5) {
        4 => {
            // Zeros are added around `x`, and an edge is cut off: what is left of an axis may be one part of `x`.
            let pad = |b: &mut Builder, x: Var, low: Vec<i64>, high: Vec<i64>| {
                let zeros = vec![0; rank];
                let statics = vec![low.into(), high.into(), zeros.into(), 0.0.into()];
                emit(b, Op::Pad, statics, &[x])
            };
            let mut n = || -> Vec<i64> { (0..rank).map(|_| random.below(3) as i64).collect() };
            let (low, high) = (n(), n());
            let wide = pad(b, x, low.clone(), high.clone());
            let wide = b.unary(Op::Neg, wide);
            let by = n();
            let low = low.iter().zip(&by).map(|(low, by)| -low - by).collect();
            let high = high.iter().zip(&by).map(|(high, by)| by - high).collect();
            pad(b, wide, low, high)
        }
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
    let mut outs = vec![sum];
    if random.below(3) == 0 {
        outs.push(random.pick(&vars));
    }
    if random.below(3) == 0 && dtype != DType::I32 {
        outs.push(sum_over_some(random, &mut b, sum, shape.len()));
    }
    b.finish(params, outs)
}

#[test]
fn values_among_zeros_have_the_bits_of_stored_ones() {
    let mut random = Random(1);
    let mut fewer = 0;
    let shapes: [&[usize]; 14] = [
        &[70],
        &[3, 20],
        &[20, 3],
        &[2, 5, 18],
        &[1, 4, 16],
        &[4, 1, 33],
        &[3, 2, 2, 17],
        &[2, 1500],
        // Groups of these shapes have several pieces, which end within rows.
        &[30, 40],
        &[3, 11, 48],
        &[5, 2, 3, 50],
        &[23, 70],
        &[4, 600],
        &[2, 2100],
    ];
    for i in 0..4200 {
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
            let close = |x: f64, y: f64| (x - y).abs() <= 1e-4 * y.abs().max(100.0);
            // Sums are in another order.
            let summed = want.shape != shape;
            let same =
                both.all(|(x, y)| x == y || x.is_nan() && y.is_nan() || summed && close(*x, *y));
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

/// Returns a view of this shape: a part of a larger value, rows or columns that repeat, or a whole value.
fn any_view(random: &mut Random, dtype: DType, shape: &[usize]) -> View {
    let rank = shape.len();
    let repeated = |axis: usize| match axis + 1 == rank {
        true => random.below(6) == 0,
        false => random.below(5) == 0,
    };
    let repeated: Vec<bool> = (0..rank).map(repeated).collect();
    let gap = |_| random.pick(&[0, 0, 1, 2, 5]);
    let gaps: Vec<usize> = (0..rank).map(gap).collect();
    let len = |axis: usize| match repeated[axis] {
        true => 1,
        false => shape[axis] + gaps[axis],
    };
    let whole: Vec<usize> = (0..rank).map(len).collect();
    let values = NdArray::build(&whole, |_| random.below(80) as f64 - 40.0);
    let view = view_of(dtype, &values);
    let mut layout = view.layout.clone();
    for axis in (0..rank).filter(|axis| !repeated[*axis]) {
        layout = layout.narrow(axis, random.below(gaps[axis] + 1), shape[axis], 1);
    }
    view.with(layout).broadcast_to(shape)
}

/// The last row of a view ends before the next one would begin.
#[test]
fn a_chain_reads_rows_of_a_view() {
    let text = "(x: f64[600, 400]) {
        a = softmax[axis=1] x
        b = mul a, x
        return b
    }";
    let program: Program = text.parse().unwrap();
    let mut random = Random(4);
    let values = NdArray::build(&[600, 401], |_| random.below(800) as f64 / 100.0);
    let whole = view_of(DType::F64, &values);
    let x = whole.with(whole.layout.narrow(1, 0, 400, 1));
    let found = run(&program, std::slice::from_ref(&x)).unwrap();
    let stored = run(&program, &[view_of(DType::F64, &array_of(&x))]).unwrap();
    assert_eq!(bits(&found[0]), bits(&stored[0]));
}

/// The numbers are integers, whose sums are the same in any order.
#[test]
fn rows_of_views_are_read_in_place() {
    let mut random = Random(3);
    let shapes: [&[usize]; 9] = [
        &[9, 33],
        &[40, 33],
        &[9, 12, 48],
        &[3, 2, 5, 94],
        &[1100],
        &[20, 200],
        &[5, 1023],
        &[3, 1500],
        &[2, 3, 4100],
    ];
    for i in 0..900 {
        let shape = shapes[i % shapes.len()];
        let dtype = random.pick(&[DType::F32, DType::F32, DType::F64, DType::I32]);
        let mut b = Builder::new();
        // Groups with many operands are not run as one piece.
        let most = random.pick(&[7, 7, 24]);
        let n_args = 1 + random.below(most);
        let params: Vec<Var> = (0..n_args)
            .map(|_| b.param(Aval::new(dtype, shape)))
            .collect();
        let ops = [Op::Add, Op::Sub, Op::Maximum];
        let mut all = vec![params[0]];
        for param in &params[1..] {
            let x = random.pick(&all);
            all.push(b.binary(random.pick(&ops), x, *param));
        }
        let mut out = b.unary(Op::Neg, all[all.len() - 1]);
        if random.below(3) == 0 {
            let to = random.pick(&[DType::F32, DType::F64, DType::I32]);
            out = emit(&mut b, Op::Cast, vec![to.into()], &[out, out]);
            out = b.unary(Op::Neg, out);
        }
        let mut outs = vec![out, random.pick(&all[all.len() / 2..])];
        for _ in 0..random.below(3) {
            outs.push(sum_over_some(&mut random, &mut b, out, shape.len()));
        }
        let program = b.finish(params, outs);
        let args: Vec<View> = (0..n_args)
            .map(|_| any_view(&mut random, dtype, shape))
            .collect();
        let values: Vec<NdArray> = args.iter().map(array_of).collect();
        let found = run(&program, &args).unwrap();
        for (found, want) in found.iter().zip(evaluate(&program, &values)) {
            let layouts: Vec<_> = args.iter().map(|x| &x.layout).collect();
            let same = array_of(found).data == want.data;
            assert!(same, "{program}\n{layouts:?}");
        }
    }
}
