//! Built-in loops over small frequent groups.
//!
//! Closures, recorded functions and optimiser steps have no precompiled loops of their own; larger
//! groups are covered by several of these. As in the loops of traced functions, each op is its
//! scalar function, so the bits are those of one op at a time.

use crate::__loop_of;
use crate::elementwise::compiled_loops::FusedLoop;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Scalar functions of the ops.
mod element {
    pub(crate) use gradloom_ir::op::element::*;

    /// `select(gt(x, 0), y, 0)`
    pub(crate) mod where_positive {
        use gradloom_ir::op::element::gt;
        use gradloom_maths::Arith;

        #[inline(always)]
        pub(in super::super) fn f32<A: Arith>(x: f32, y: f32) -> f32 {
            if gt::f32::<A>(x, 0.0) { y } else { 0.0 }
        }

        #[inline(always)]
        pub(in super::super) fn f64<A: Arith>(x: f64, y: f64) -> f64 {
            if gt::f64::<A>(x, 0.0) { y } else { 0.0 }
        }
    }
}

/// Defines a loop for each signature, with its operands, its members in order, and its results.
macro_rules! loops {
    ($($signature:expr, |$($x:ident),*| {
        $($v:ident = $op:ident($($arg:expr),*);)*
    } => $($result:ident $y:ident),*;)*) => {
        /// Built-in loops.
        #[allow(clippy::too_many_arguments)] // a loop has the operands of its group
        pub(crate) static LOOPS: &[FusedLoop] = &[$(FusedLoop {
            signature: $signature,
            f32: __loop_of!(f32 [$($x)*] [$($y)*] loops!(@versions f32 [$($x)*] [$($v $op [$($arg),*])*] [$($result $y)*])),
            f64: __loop_of!(f64 [$($x)*] [$($y)*] loops!(@versions f64 [$($x)*] [$($v $op [$($arg),*])*] [$($result $y)*])),
        },)*];
    };
    (@versions $t:ident [$($x:ident)*] [$($v:ident $op:ident [$($arg:expr),*])*] [$($result:ident $y:ident)*]) => {
        gradloom_maths::versions!(|$($x: &[$t],)* $($y: &mut [$t]),*| A => {
            // All slices have the same length.
            let n = usize::MAX$(.min($x.len()))*;
            $(let $x = &$x[..n];)*
            $(let $y = &mut $y[..n];)*
            for i in 0..n {
                $(let $x = $x[i];)*
                $(let $v = element::$op::$t::<A>($($arg as $t),*);)*
                $($y[i] = $result;)*
            }
        })
    };
}

/// Expands to the signature of two ops, the first of which is the left or the right operand of the
/// second.
macro_rules! pairs {
    (left $first:ident $second:ident) => {
        concat!(
            "3:",
            stringify!($first),
            " 0 1;",
            stringify!($second),
            " 3 2>4"
        )
    };
    (right $first:ident $second:ident) => {
        concat!(
            "3:",
            stringify!($first),
            " 1 2;",
            stringify!($second),
            " 0 3>4"
        )
    };
}

/// Expands to the members of the derivative of `gelu_tanh`, from their operands.
macro_rules! gelu_tanh {
    ($ax:literal, $x2:literal, $bx2:literal, $bent:literal, $u:literal, $s:literal, $minus:literal, $rest:literal, $spread:literal,
        $bx2_3:literal, $steep:literal, $slope:literal, $curved:literal, $d:literal) => {
        concat!(
            "mul ",
            $ax,
            ";mul ",
            $x2,
            ";mul ",
            $bx2,
            ";add ",
            $bent,
            ";mul ",
            $u,
            ";sigmoid ",
            $s,
            ";neg ",
            $minus,
            ";sigmoid ",
            $rest,
            ";mul ",
            $spread,
            ";mul ",
            $bx2_3,
            ";add ",
            $steep,
            ";mul ",
            $slope,
            ";mul ",
            $curved,
            ";add ",
            $d
        )
    };
}

/// `2 sqrt(2 / pi)`, as in the rule of `gelu_tanh`.
const A: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// Cubic coefficient, as in the rule of `gelu_tanh`.
const B: f64 = 0.044715;
/// Density of the normal distribution at zero, `1 / sqrt(2 pi)`.
const PEAK: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

loops! {
    pairs!(left add add), |a, b, c| { s = add(a, b); t = add(s, c); } => t y;
    pairs!(left add sub), |a, b, c| { s = add(a, b); t = sub(s, c); } => t y;
    pairs!(left add mul), |a, b, c| { s = add(a, b); t = mul(s, c); } => t y;
    pairs!(left sub add), |a, b, c| { s = sub(a, b); t = add(s, c); } => t y;
    pairs!(left sub sub), |a, b, c| { s = sub(a, b); t = sub(s, c); } => t y;
    pairs!(left sub mul), |a, b, c| { s = sub(a, b); t = mul(s, c); } => t y;
    pairs!(left mul add), |a, b, c| { s = mul(a, b); t = add(s, c); } => t y;
    pairs!(left mul sub), |a, b, c| { s = mul(a, b); t = sub(s, c); } => t y;
    pairs!(left mul mul), |a, b, c| { s = mul(a, b); t = mul(s, c); } => t y;
    pairs!(right add add), |a, b, c| { s = add(b, c); t = add(a, s); } => t y;
    pairs!(right add sub), |a, b, c| { s = add(b, c); t = sub(a, s); } => t y;
    pairs!(right add mul), |a, b, c| { s = add(b, c); t = mul(a, s); } => t y;
    pairs!(right sub add), |a, b, c| { s = sub(b, c); t = add(a, s); } => t y;
    pairs!(right sub mul), |a, b, c| { s = sub(b, c); t = mul(a, s); } => t y;
    pairs!(right mul add), |a, b, c| { s = mul(b, c); t = add(a, s); } => t y;
    pairs!(right mul sub), |a, b, c| { s = mul(b, c); t = sub(a, s); } => t y;
    pairs!(right mul mul), |a, b, c| { s = mul(b, c); t = mul(a, s); } => t y;
    // Sum and difference of two products.
    "4:mul 0 1;mul 2 3;add 4 5>6", |a, b, c, d| { s = mul(a, b); t = mul(c, d); u = add(s, t); } => u y;
    "4:mul 0 1;mul 2 3;sub 4 5>6", |a, b, c, d| { s = mul(a, b); t = mul(c, d); u = sub(s, t); } => u y;
    // Squares: of a sum or a difference, scaled, and with an addend.
    "2:sub 0 1;square 2>3", |a, b| { s = sub(a, b); t = square(s); } => t y;
    "2:add 0 1;square 2>3", |a, b| { s = add(a, b); t = square(s); } => t y;
    "2:square 0;mul 2 1>3", |a, b| { s = square(a); t = mul(s, b); } => t y;
    "2:square 0;add 2 1>3", |a, b| { s = square(a); t = add(s, b); } => t y;
    // Cotangent times the derivative of `tanh` in terms of its result, 1 - y^2.
    "2:mul 1 1;sub c3ff0000000000000 2;mul 0 3>4", |ct, v| {
        s = mul(v, v); t = sub(1.0, s); u = mul(ct, t);
    } => u y;
    // Cotangent times the derivative of `sigmoid` in terms of its result, y (1 - y).
    "2:sub c3ff0000000000000 1;mul 1 2;mul 0 3>4", |ct, v| {
        s = sub(1.0, v); t = mul(v, s); u = mul(ct, t);
    } => u y;
    // x sigmoid(x), also known as `silu`.
    "1:sigmoid 0;mul 0 1>2", |a| { s = sigmoid(a); t = mul(a, s); } => t y;
    "1:sigmoid 0;mul 1 0>2", |a| { s = sigmoid(a); t = mul(s, a); } => t y;
    // Cotangent times the derivative of `relu`, in terms of its result.
    "2:gt 0 c0;select 2 1 c0>3", |v, ct| { s = where_positive(v, ct); } => s y;
    // Cotangent times the derivative of x sigmoid(x), with s = sigmoid(x).
    "3:mul 0 1;mul 2 0;sub c3ff0000000000000 1;mul 1 5;mul 4 6;add 3 7>8", |ct, s, x| {
        a = mul(ct, s); b = mul(x, ct); rest = sub(1.0, s); slope = mul(s, rest); c = mul(b, slope); d = add(a, c);
    } => d y;
    // The derivative of `gelu_tanh`, and a cotangent times it.
    concat!("1:", gelu_tanh!("c3ff9884533d43651 0", "0 0", "c3fa6e4e26d4801f7 2", "c3ff0000000000000 3", "1 4", "5", "5", "7", "6 8", "c4008000000000000 3", "c3ff0000000000000 10", "1 11", "9 12", "6 13"), ">14"), |x| {
        ax = mul(A, x); x2 = mul(x, x); bx2 = mul(B, x2); bent = add(1.0, bx2); u = mul(ax, bent); s = sigmoid(u);
        minus = neg(u); rest = sigmoid(minus); spread = mul(s, rest);
        bx2_3 = mul(3.0, bx2); steep = add(1.0, bx2_3); slope = mul(ax, steep);
        curved = mul(spread, slope); d = add(s, curved);
    } => d y;
    concat!("2:", gelu_tanh!("c3ff9884533d43651 1", "1 1", "c3fa6e4e26d4801f7 3", "c3ff0000000000000 4", "2 5", "6", "6", "8", "7 9", "c4008000000000000 4", "c3ff0000000000000 11", "2 12", "10 13", "7 14"), ";mul 0 15>16"), |ct, x| {
        ax = mul(A, x); x2 = mul(x, x); bx2 = mul(B, x2); bent = add(1.0, bx2); u = mul(ax, bent); s = sigmoid(u);
        minus = neg(u); rest = sigmoid(minus); spread = mul(s, rest);
        bx2_3 = mul(3.0, bx2); steep = add(1.0, bx2_3); slope = mul(ax, steep);
        curved = mul(spread, slope); d = add(s, curved); e = mul(ct, d);
    } => e y;
    // Cotangent times the derivative of `gelu`.
    "2:mul 1 cbfe6a09e667f3bcd;erfc 2;mul c3fe0000000000000 3;mul 2 2;neg 5;exp 6;mul c3fd9884533d43651 7;mul 1 8;add 4 9;mul 0 10>11", |ct, x| {
        u = mul(x, -FRAC_1_SQRT_2); tail = erfc(u); below = mul(0.5, tail);
        u2 = mul(u, u); minus = neg(u2); bell = exp(minus); density = mul(PEAK, bell); slope = mul(x, density);
        d = add(below, slope); e = mul(ct, d);
    } => e y;
    // Stochastic gradient descent with momentum: v' = v k + g, x' = x - lr v'.
    "5:mul 2 3;add 5 4;mul 1 6;sub 0 7>6 8", |x, lr, v, k, g| {
        kept = mul(v, k); v2 = add(kept, g); step = mul(lr, v2); x2 = sub(x, step);
    } => v2 p, x2 q;
    // Adam: m' = m b1 + g d1, v' = v b2 + g^2 d2, x' = x - lr ((m' / c1) / (sqrt(v' / c2) + eps)).
    concat!(
        "12:mul 2 3;mul 4 5;add 12 13;div 14 6;mul 7 8;square 4;mul 17 9;add 16 18;div 19 10;sqrt 20;",
        "add 21 11;div 15 22;mul 1 23;sub 0 24>14 19 25"
    ), |x, lr, m, b1, g, d1, c1, v, b2, d2, c2, eps| {
        m_kept = mul(m, b1);
        m_new = mul(g, d1);
        m2 = add(m_kept, m_new);
        mean = div(m2, c1);
        v_kept = mul(v, b2);
        g2 = square(g);
        v_new = mul(g2, d2);
        v2 = add(v_kept, v_new);
        square = div(v2, c2);
        root = sqrt(square);
        below = add(root, eps);
        change = div(mean, below);
        step = mul(lr, change);
        x2 = sub(x, step);
    } => m2 p, v2 q, x2 r;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::compile::{Run, Step, group, in_dtype};
    use crate::elementwise::group::Source;
    use crate::memory::data::{Data, DataMut};
    use crate::memory::layout::Layout;
    use crate::simd::level::tests::at_each_level;
    use gradloom_ir::pass::{Arg, Pattern};
    use gradloom_ir::{DType, Op};

    /// Returns the members of a signature as separate steps, and the constants that they read.
    fn one_by_one(pattern: &Pattern, dtype: DType) -> (Vec<Step>, Vec<f64>) {
        let mut constants: Vec<f64> = Vec::new();
        let n_constants = pattern.members().iter().flat_map(|(_, args)| args);
        let n_constants = n_constants
            .filter(|arg| matches!(arg, Arg::Constant(_)))
            .count();
        let first = pattern.n_inputs + n_constants;
        let steps = pattern.members().iter().enumerate().map(|(m, (op, args))| {
            let args = args.iter().map(|arg| match *arg {
                Arg::Input(i) => i,
                Arg::Member(of) => first + of,
                Arg::Constant(x) => {
                    constants.push(x);
                    pattern.n_inputs + constants.len() - 1
                }
            });
            let args = args.collect();
            let to = if *op == Op::Gt { DType::Bool } else { dtype };
            Step {
                run: Run::Op(*op, dtype, to),
                args,
                outs: [first + m].into_iter().collect(),
            }
        });
        (steps.collect(), constants)
    }

    /// Returns test data with special values among ordinary ones.
    fn operand(i: usize, n: usize) -> Vec<f64> {
        let special = [
            0.0,
            -0.0,
            1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-40,
            -3.5,
        ];
        let x = |k: usize| match k % 11 {
            0..8 if k % 3 == i % 3 => special[(k + i) % special.len()],
            _ => ((k * 37 + i * 101) % 1009) as f64 / 100.0 - 4.0,
        };
        (0..n).map(x).collect()
    }

    #[test]
    fn a_loop_computes_what_its_signature_says() {
        const N: usize = 1500;
        for fused in LOOPS {
            let pattern = Pattern::parse(fused.signature).expect(fused.signature);
            let arity = (pattern.n_inputs, pattern.results.len());
            assert_eq!(
                (fused.f32.arity(), fused.f64.arity()),
                (arity, arity),
                "{}",
                fused.signature
            );
            for dtype in [DType::F32, DType::F64] {
                let (steps, constants) = one_by_one(&pattern, dtype);
                let value = |r: &usize| (pattern.n_inputs + constants.len() + r, dtype);
                let results: Vec<_> = pattern.results.iter().map(value).collect();
                let all: Vec<Vec<f64>> = (0..pattern.n_inputs).map(|i| operand(i, N)).collect();
                let more = constants.iter().map(|x| vec![*x; N]);
                let all: Vec<Vec<f64>> = all.into_iter().chain(more).collect();
                let whole = Step {
                    run: Run::Loop(in_dtype(fused, dtype).expect("a float")),
                    args: (0..pattern.n_inputs).collect(),
                    outs: (0..results.len()).map(|r| pattern.n_inputs + r).collect(),
                };
                let own: Vec<_> = (0..results.len())
                    .map(|r| (pattern.n_inputs + r, dtype))
                    .collect();
                let expected = run(dtype, &all, &steps, &results);
                let found = run(dtype, &all[..pattern.n_inputs], &[whole], &own);
                assert_eq!(found, expected, "{} in {dtype:?}", fused.signature);
            }
        }
    }

    #[test]
    fn remainders_have_the_bits_of_the_operator_at_each_level() {
        const N: usize = 4000;
        let mut state = 88_172_645_463_325_252u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        // Ordinary pieces, and pieces with special values or random bits.
        let special = operand(1, N);
        let mut column = |of: usize| -> Vec<f64> {
            let number = |i: usize| match i / 100 % 4 {
                0 => special[(i * 3 + of * 7) % N],
                1 => f64::from(f32::from_bits(random() as u32)),
                2 => (random() % 4096) as f64 * if of == 0 { 3e4 } else { 1.0 } - 2000.0,
                _ => (random() % 100_000) as f64 / 1e3 - 50.0,
            };
            (0..N).map(number).collect()
        };
        let args = [column(0), column(1)];
        for op in [Op::Rem, Op::ModFloor] {
            let rem = |x: f64, y: f64| match op {
                Op::ModFloor if x % y != 0.0 && (x % y < 0.0) != (y < 0.0) => x % y + y,
                _ => x % y,
            };
            let narrow = |x: f64, y: f64| {
                let (rest, y) = (x as f32 % y as f32, y as f32);
                f64::from(match op {
                    Op::ModFloor if rest != 0.0 && (rest < 0.0) != (y < 0.0) => rest + y,
                    _ => rest,
                })
            };
            for dtype in [DType::F32, DType::F64] {
                let step = Step {
                    run: Run::Op(op, dtype, dtype),
                    args: [0, 1].into_iter().collect(),
                    outs: [2].into_iter().collect(),
                };
                let pairs = args[0].iter().zip(&args[1]);
                let want = pairs.map(|(&x, &y)| match dtype {
                    DType::F32 => narrow(x, y),
                    _ => rem(x, y),
                });
                let bits = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
                let want: Vec<u64> = want.map(bits).collect();
                at_each_level(|level| {
                    let found = run(dtype, &args, std::slice::from_ref(&step), &[(2, dtype)]);
                    assert!(found[0] == want, "{op:?} of {dtype:?} at {level:?}");
                });
            }
        }
    }

    /// Returns the bits of the results, with one bit pattern for every NaN.
    fn run(
        dtype: DType,
        args: &[Vec<f64>],
        steps: &[Step],
        results: &[(usize, DType)],
    ) -> Vec<Vec<u64>> {
        let n = args[0].len();
        let inputs: Vec<_> = args
            .iter()
            .map(|_| (dtype, Source::View(Layout::contiguous(&[n]))))
            .collect();
        let group = group(n, &inputs, steps, results, &[]);
        let bits = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
        match dtype {
            DType::F32 => {
                let args: Vec<Vec<f32>> = args
                    .iter()
                    .map(|xs| xs.iter().map(|x| *x as f32).collect())
                    .collect();
                let args: Vec<Data<'_>> = args.iter().map(|xs| Data::F32(xs)).collect();
                let mut outs = vec![vec![0f32; n]; results.len()];
                let mut to: Vec<DataMut<'_>> = outs.iter_mut().map(|ys| DataMut::F32(ys)).collect();
                group.run(&args, &mut to);
                drop(to);
                outs.iter()
                    .map(|ys| ys.iter().map(|y| bits(f64::from(*y))).collect())
                    .collect()
            }
            _ => {
                let args: Vec<Data<'_>> = args.iter().map(|xs| Data::F64(xs)).collect();
                let mut outs = vec![vec![0f64; n]; results.len()];
                let mut to: Vec<DataMut<'_>> = outs.iter_mut().map(|ys| DataMut::F64(ys)).collect();
                group.run(&args, &mut to);
                drop(to);
                outs.iter()
                    .map(|ys| ys.iter().map(|y| bits(*y)).collect())
                    .collect()
            }
        }
    }
}
