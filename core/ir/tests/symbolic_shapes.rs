//! Tests that shape inference on partly known shapes agrees with inference on numbers.
//!
//! If a program is valid for some values of the names, inference accepts it, and the inferred
//! shapes hold for these values.

use gradloom_ir::sharding::{Mesh, ShardingSpec};
use gradloom_ir::{
    Aval, DType, Dim, Op, Poly, Program, Shape, Static, StaticArg, StaticKind, Symbol,
};
use std::sync::Arc;

/// A SplitMix64 generator, which gives the same cases on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The names and their values. The values include 0, 1, and one value that occurs twice.
const NAMES: [(&str, i128); 6] = [("A", 2), ("B", 3), ("C", 4), ("O", 1), ("Z", 0), ("D", 3)];

fn value(name: Symbol) -> Option<i128> {
    let found = NAMES.iter().find(|(n, _)| Symbol::new(n) == name);
    found.map(|(_, value)| *value)
}

/// Returns a random description that is true of a length.
fn blur(r: &mut Random, len: usize) -> Dim {
    let n = len as i128;
    let name = |(name, _): &(&str, i128)| Poly::name(Symbol::new(name));
    let equal: Vec<Poly> = NAMES.iter().filter(|(_, v)| *v == n).map(name).collect();
    let (any, other) = (r.pick(&NAMES), r.pick(&NAMES));
    let number = Poly::constant;
    match r.below(6) {
        0 => Dim::Unknown,
        1 | 2 if !equal.is_empty() => r.pick(&equal).clone().into(),
        // 2 A - 4 + len, A B - 6 + len, ...: equal to `len` at the values of the names.
        3 => {
            let twice = name(any).times(&number(2)).unwrap();
            twice.plus(&number(n - 2 * any.1)).unwrap().into()
        }
        4 => {
            let product = name(any).times(&name(other)).unwrap();
            product.plus(&number(n - any.1 * other.1)).unwrap().into()
        }
        _ => Dim::Known(len),
    }
}

/// Replaces the lengths of a requested shape by descriptions that are true of them.
fn partly_known(r: &mut Random, shape: &Static) -> Static {
    let lens = shape.ints().expect("the shape is known").iter();
    let lens = lens.map(|n| match usize::try_from(*n) {
        Ok(n) => Some(blur(r, n)),
        Err(_) if r.below(2) == 0 => Some(Dim::Unknown),
        Err(_) => None,
    });
    Static::Dims("s".into(), lens.collect())
}

fn blurred(r: &mut Random, aval: &Aval) -> Aval {
    let lens = aval.shape.known().expect("the shape is known");
    let dtype = aval.dtype.filter(|_| r.below(4) > 0);
    let shape = match r.below(12) {
        0 => Shape::UNKNOWN,
        _ => Shape(Some(lens.into_iter().map(|len| blur(r, len)).collect())),
    };
    Aval { dtype, shape }
}

/// Returns whether a partial description is true of a value.
fn holds(known: &Aval, real: &Aval) -> bool {
    let dtype = known.dtype.is_none() || known.dtype == real.dtype;
    let (Some(dims), Some(lens)) = (known.shape.dims(), real.shape.known()) else {
        return dtype;
    };
    let fits = |(dim, len): (&Dim, &usize)| match dim.poly() {
        Some(poly) => poly.eval(value) == Some(*len as i128),
        None => true,
    };
    dtype && dims.len() == lens.len() && dims.iter().zip(&lens).all(fits)
}

/// Returns random static arguments for an op on operands of this shape, often valid ones.
fn statics(r: &mut Random, op: Op, lens: &[usize], n_outs: usize) -> Vec<Static> {
    let rank = lens.len();
    let axis = |r: &mut Random| r.below(2 * rank + 1) as i64 - rank as i64;
    let order = |r: &mut Random| {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        for i in (1..rank).rev() {
            order.swap(i, r.below(i + 1));
        }
        order
    };
    let shape = |r: &mut Random| {
        let mut shape: Vec<i64> = lens.iter().map(|n| *n as i64).collect();
        match r.below(4) {
            0 => shape = vec![-1],
            1 if rank > 1 => {
                let last = shape.pop().unwrap();
                *shape.last_mut().unwrap() *= last;
            }
            2 if rank > 0 => {
                let i = r.below(rank);
                shape[i] = -1;
            }
            _ => {}
        }
        if r.below(3) == 0 {
            shape.insert(r.below(shape.len() + 1), r.below(3) as i64);
        }
        shape
    };
    let slice = |r: &mut Random, kind: StaticKind| -> Vec<i64> {
        let ends = |r: &mut Random, len: usize| match r.below(4) {
            0 if kind == StaticKind::Stops => i64::MAX,
            0 => 0,
            1 => -(r.below(len + 2) as i64),
            _ => r.below(len + 2) as i64,
        };
        match kind {
            StaticKind::Steps => lens.iter().map(|_| 1 + r.below(3) as i64).collect(),
            _ => lens.iter().map(|len| ends(r, *len)).collect(),
        }
    };
    let one = |r: &mut Random, arg: &StaticArg| -> Static {
        match arg.kind {
            StaticKind::Permutation => order(r).into(),
            StaticKind::Axes | StaticKind::UnitAxes => match r.below(3) {
                0 => Static::All,
                1 => axis(r).into(),
                _ => order(r)
                    .into_iter()
                    .take(r.below(rank + 1))
                    .collect::<Vec<_>>()
                    .into(),
            },
            StaticKind::Axis => axis(r).into(),
            StaticKind::Offset => (r.below(5) as i64 - 2).into(),
            StaticKind::Margins => (r.below(3) as i64).into(),
            StaticKind::Flag | StaticKind::KnownFlag => (r.below(2) == 0).into(),
            StaticKind::Shape | StaticKind::Reshape => shape(r).into(),
            StaticKind::Starts | StaticKind::Stops | StaticKind::Steps => slice(r, arg.kind).into(),
            StaticKind::Sizes if r.below(2) == 0 => Static::All,
            StaticKind::Sizes => vec![r.below(3) as i64; n_outs].into(),
            StaticKind::DType => Static::DType(*r.pick(&DType::ALL)),
            StaticKind::Epsilon => 0.5.into(),
            StaticKind::Active => vec![r.below(3) as i64].into(),
            StaticKind::Window => {
                let len = |_| 1 + r.below(2) as i64;
                (0..rank.min(2)).map(len).collect::<Vec<_>>().into()
            }
            StaticKind::Strides => (1 + r.below(2) as i64).into(),
            StaticKind::Padding => match r.below(4) {
                0 => Static::All,
                n => (n as i64 - 1).into(),
            },
            StaticKind::Index => (r.below(5) as i64 - 2).into(),
            StaticKind::Count | StaticKind::KnownCount => (r.below(3) as i64).into(),
            StaticKind::Number | StaticKind::Fill | StaticKind::Probability => 1.0.into(),
            StaticKind::Sharding => {
                let mesh = Arc::new(Mesh::new("m", &[("x", 2)]).expect("a mesh"));
                ShardingSpec::replicated(&mesh, rank).into()
            }
            StaticKind::Positions
            | StaticKind::Callee
            | StaticKind::Programs
            | StaticKind::Code
            | StaticKind::Mesh
            | StaticKind::Tilings
            | StaticKind::Reduce
            | StaticKind::Pairs
            | StaticKind::Specs => {
                unreachable!("only calls, collectives and ops that run programs have them")
            }
        }
    };
    op.def().statics().iter().map(|arg| one(r, arg)).collect()
}

#[test]
fn inferred_shapes_hold_for_the_numbers() {
    let mut r = Random(20);
    let (mut n_run, mut n_symbolic) = (vec![0usize; Op::ALL.len()], 0);
    // Random operands rarely suit some ops, so the number of rounds depends on them.
    let rounds = |n_run: &[usize]| match n_run.iter().all(|n| *n >= 5) {
        true => 8_000,
        false => 80_000,
    };
    let mut round = 0;
    while round < rounds(&n_run) {
        round += 1;
        // Pairs of a real aval and a partial description of it.
        let mut pool: Vec<(Aval, Aval)> = Vec::new();
        let dtype = *r.pick(&[DType::F32, DType::F32, DType::F64, DType::I64, DType::Bool]);
        let lens = [0, 1, 2, 3, 4];
        let base: Vec<usize> = (0..r.below(4)).map(|_| *r.pick(&lens)).collect();
        for _ in 0..3 {
            let mut shape = base.clone();
            if !shape.is_empty() && r.below(3) == 0 {
                let i = r.below(shape.len());
                shape[i] = *r.pick(&lens);
            }
            if r.below(4) == 0 {
                shape.reverse();
            }
            shape.drain(..r.below(2).min(shape.len()));
            let real = Aval::new(dtype, &shape);
            pool.push((real.clone(), blurred(&mut r, &real)));
        }
        // Labels for the rows of the first value.
        let rows = pool[0].0.shape.known().unwrap();
        let labels = Aval::new(DType::I64, &rows[..rows.len().saturating_sub(1)]);
        pool.push((labels.clone(), blurred(&mut r, &labels)));
        // A number for each row of the first value.
        let each = Aval {
            dtype: pool[0].0.dtype,
            ..labels
        };
        pool.push((each.clone(), blurred(&mut r, &each)));
        let key = Aval::new(DType::I64, &[2]);
        pool.push((key.clone(), blurred(&mut r, &key)));
        // A mask for attention among the rows of the first value.
        let n_rows = rows.len().checked_sub(2).map_or(1, |axis| rows[axis]);
        let mask = Aval::new(DType::Bool, &[n_rows, n_rows][r.below(2)..]);
        pool.push((mask.clone(), blurred(&mut r, &mask)));
        // Two values with channels, for convolutions; of a batch and a channel, half of the time.
        for _ in 0..2 {
            let n = 1 + r.below(2);
            let real = Aval::new(DType::F32, &[n, n, 1 + r.below(3)]);
            pool.push((real.clone(), blurred(&mut r, &real)));
        }
        // A number for the key.
        let number = Aval::new(DType::I64, &[]);
        pool.push((number.clone(), blurred(&mut r, &number)));
        for _ in 0..8 {
            let which = r.below(Op::ALL.len());
            let op = Op::ALL[which];
            let n_args = (1..=6).find(|n| op.def().operands().fits(*n)).unwrap_or(0);
            let fits = |n: &usize| op.def().operands().fits(*n);
            let n_args: Vec<usize> = (n_args..n_args + 3).filter(fits).collect();
            let n_args = n_args
                .get(r.below(n_args.len().max(1)))
                .copied()
                .unwrap_or(0);
            let mut args: Vec<usize> = (0..n_args).map(|_| r.below(pool.len())).collect();
            // Like operands are usually equal to the data operands.
            let n_data = op.def().operands().n_data(n_args);
            for i in n_data..n_args {
                if r.below(8) > 0 && n_data > 0 {
                    args[i] = args[(i - n_data) % n_data];
                }
            }
            if matches!(op, Op::CrossEntropy | Op::CrossEntropyGrad) && r.below(2) == 0 {
                args = vec![0, 3];
            }
            let rows = matches!(
                op,
                Op::SoftmaxT | Op::LogSoftmaxJvp | Op::LogSoftmaxVjp | Op::NormalizeT
            );
            if rows && r.below(2) == 0 {
                args = vec![args[0]; n_args];
            }
            match op {
                Op::Attention | Op::AttentionLse if r.below(2) == 0 => {
                    let n_floats = if op == Op::Attention { 3 } else { 2 };
                    args = vec![0; n_floats];
                    args.resize(n_args, 6);
                }
                Op::AttentionJvp | Op::AttentionVjp => {
                    args = match r.below(2) {
                        0 => vec![0, 0, 0, 0, 4, 0],
                        _ => vec![0, 0, 0, 0, 4, 6, 0],
                    }
                }
                Op::SumPoolT | Op::UpsampleT | Op::MaxPoolJvp | Op::MaxPoolVjp
                    if r.below(2) == 0 =>
                {
                    args = vec![args[0]; 2];
                }
                Op::Conv | Op::ConvInputT | Op::ConvWeightT | Op::ConvTranspose => {
                    args = vec![7, 8, 7, 8];
                    args.truncate(n_args);
                }
                Op::NormJvp | Op::NormVjp => args = vec![0, 0, 0],
                Op::LayerNorm => args[2] = args[1],
                // A square matrix has a number on its diagonal for each row.
                Op::DiagonalT if r.below(2) == 0 => args = vec![4, 0],
                // The labels are indices.
                Op::Take if r.below(4) > 0 => args = vec![args[0], 3, args[0]],
                Op::TakeT if r.below(4) > 0 => args = vec![args[0], 3, args[2]],
                Op::Scatter | Op::ScatterExtreme if r.below(4) > 0 => {
                    args = vec![args[0], 3, args[2], args[0], args[2]];
                }
                Op::DynamicSlice if r.below(4) > 0 => args = vec![args[0], 3],
                Op::DynamicSliceLike if r.below(4) > 0 => args = vec![0, 3, 0, args[3]],
                Op::DynamicSliceT if r.below(4) > 0 => args = vec![args[0], 3, 0, args[0]],
                Op::DynamicUpdateSlice if r.below(4) > 0 => {
                    args = vec![0, 3, args[2], 0, args[2]];
                }
                Op::SetSlice if r.below(4) > 0 => args = vec![0, args[1], 0, args[1]],
                Op::SegmentSum | Op::SegmentSumT if r.below(4) > 0 => args = vec![args[0], 3],
                Op::FoldIn if r.below(4) > 0 => args = vec![5, 9],
                Op::RandomBits
                | Op::RandomUniform
                | Op::RandomNormal
                | Op::RandomBernoulli
                | Op::RandomPermutation
                    if r.below(4) > 0 =>
                {
                    args = vec![5];
                }
                _ => {}
            }
            let lens = args.first().map(|a| pool[*a].0.shape.known().unwrap());
            let lens = lens.unwrap_or_default();
            let n_outs = match op {
                Op::Split => 1 + r.below(3),
                Op::ConcatT => args.len() - 1,
                Op::Unbind => lens.last().copied().unwrap_or(1).max(1),
                _ => 1,
            };
            let given = statics(&mut r, op, &lens, n_outs);
            let args: Vec<(Aval, Aval)> = args.iter().map(|a| pool[*a].clone()).collect();
            let (real, known): (Vec<&Aval>, Vec<&Aval>) = args.iter().map(|(r, k)| (r, k)).unzip();
            let Ok(real_outs) = op.infer(&given, &real, n_outs) else {
                // Inference may accept or refuse the partial descriptions, but it must not panic.
                let _ = op.infer(&given, &known, n_outs);
                continue;
            };
            n_run[which] += 1;
            let told: Vec<Static> = given
                .iter()
                .zip(op.def().statics())
                .map(|(s, arg)| match r.below(8) {
                    // Only methods and derivatives set these, so they are always known.
                    _ if matches!(
                        arg.kind,
                        StaticKind::KnownFlag | StaticKind::KnownCount | StaticKind::Active
                    ) =>
                    {
                        s.clone()
                    }
                    0 => Static::Host("n".into()),
                    1..=4 if matches!(arg.kind, StaticKind::Shape | StaticKind::Reshape) => {
                        partly_known(&mut r, s)
                    }
                    _ => s.clone(),
                })
                .collect();
            let outs = op.infer(&told, &known, n_outs);
            let case = || {
                let list = |avals: &[&Aval]| {
                    let avals: Vec<String> = avals.iter().map(|a| a.to_string()).collect();
                    avals.join(", ")
                };
                format!("{op}{given:?} of {} known as {}", list(&real), list(&known))
            };
            let outs = outs.unwrap_or_else(|e| panic!("{} is refused: {e}", case()));
            assert_eq!(outs.len(), real_outs.len(), "{}", case());
            for (known, real) in outs.into_iter().zip(real_outs) {
                assert!(holds(&known, &real), "{} gives {known}, not {real}", case());
                let dims = known.shape.dims().unwrap_or_default();
                n_symbolic += dims.iter().filter(|d| matches!(d, Dim::Poly(_))).count();
                let small = real
                    .shape
                    .known()
                    .is_some_and(|lens| lens.iter().product::<usize>() < 100_000);
                if small {
                    pool.push((real, known));
                }
            }
        }
    }
    let never: Vec<Op> = (0..Op::ALL.len())
        .filter(|i| n_run[*i] < 5)
        .map(|i| Op::ALL[i])
        .collect();
    assert!(never.is_empty(), "hardly any case ran for {never:?}");
    assert!(n_symbolic > 1_000, "{n_symbolic} results with a polynomial");
}

#[test]
fn polynomials_parse_back() {
    for dim in [
        "2*B*T + 1",
        "B - 1",
        "-B + 4",
        "B*B - B*T + 3*T",
        "B",
        "?",
        "7",
    ] {
        let text = format!("(x: f32[{dim}, 3]) {{\n  return x\n}}");
        let program: Program = text.parse().expect(&text);
        assert_eq!(program.to_string(), text);
    }
    // A different way to write a polynomial gives the same dim.
    let program: Program = "(x: f32[T*2*B, B+B+1-B]) { return x }".parse().unwrap();
    assert_eq!(
        program.aval(program.params[0]).to_string(),
        "f32[2*B*T, B + 1]"
    );
    for dim in ["B*", "2*+B", "-3", "B - B - 1"] {
        let text = format!("(x: f32[{dim}]) {{ return x }}");
        assert!(text.parse::<Program>().is_err(), "{dim}");
    }
}

#[test]
fn a_reshape_to_partly_known_lengths_infers_what_is_certain() {
    let check = |x: &str, lens: &str, expected: &str| {
        let text = format!(
            "(x: f32[{x}]) {{\n  y = reshape[shape=`s`:[{lens}]] x, like x\n  return y\n}}"
        );
        let program: Program = text.parse().expect(&text);
        assert_eq!(program.to_string(), text);
        let eqn = &program.eqns[0];
        let args: Vec<&Aval> = eqn.args.iter().map(|v| program.aval(*v)).collect();
        let found = match eqn
            .op
            .infer(&[program.attr(eqn.attrs[0]).clone()], &args, 1)
        {
            Ok(outs) => outs[0].shape.to_string(),
            Err(error) => error.fault.to_string(),
        };
        assert_eq!(found, expected);
    };
    check("B, T, D", "B, T, 8, -1", "[B, T, 8, ?]");
    check("B, T, 8*D", "B, T, 8, -1", "[B, T, 8, D]");
    check("B, T, D", "B*T, D", "[B*T, D]");
    check("B, T, D", "B, -1", "[B, D*T]");
    check("B, T, D", "?, -1", "[?, ?]");
    check("B, T", "-10*B + 20, -1", "[-10*B + 20, ?]");
    check("?, 4", "?, 2", "[?, 2]");
    check(
        "B, 4", "B, 3", // B may be 0.
        "[B, 3]",
    );
    check(
        "B + 1, 4",
        "B + 1, 3",
        "4*B + 4 elements cannot be reshaped to [B + 1, 3]",
    );
    check("B, 3", "?, 2", "[?, 2]");
    check("3", "?, 2", "3 elements cannot be reshaped to [?, 2]");
    check("B", "0, -1", "B elements cannot be reshaped to [0, -1]");
}

#[test]
fn a_broadcast_of_symbolic_lengths_infers_what_is_certain() {
    let check = |x: &str, y: &str, expected: &str| {
        let text = format!("(x: f32[{x}], y: f32[{y}]) {{ z = add x, y return z }}");
        let program: Program = text.parse().unwrap();
        let eqn = &program.eqns[0];
        let args: Vec<&Aval> = eqn.args.iter().map(|v| program.aval(*v)).collect();
        let found = match eqn.op.infer(&[], &args, 1) {
            Ok(outs) => outs[0].shape.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    };
    check("B", "1", "[B]");
    check("B", "5", "[5]");
    check("B", "C", "[?]");
    check("B", "B", "[B]");
    check("2*B", "C", "[2*B]");
    check("B + 2", "C", "[B + 2]");
    // B may be 0.
    check("B + 1", "B", "[?]");
    check(
        "B + 2",
        "B + 3",
        "add: axis 0 is B + 2 on the left and B + 3 on the right: the left operand is f32[B + 2], the right operand is f32[B + 3]",
    );
    check("2*B", "4", "[4]");
    check(
        "2*B",
        "5",
        "add: axis 0 is 2*B on the left and 5 on the right: the left operand is f32[2*B], the right operand is f32[5]",
    );
}
