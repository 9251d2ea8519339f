//! Tests of products against the definition, and of bits that must not depend on layouts and
//! threads.

use crate::gemm::blocks::{OutputPtr, product};
use crate::gemm::pack::MatrixPtr;
use crate::gemm::tile::TileElement;
use crate::gemm::{Batch, Epilogue, FinalBlock, Gemm, Matrix, run, single};
use crate::simd::level::level;
use crate::simd::number::Number;
use crate::threads::set_threads;
use gradloom_maths::Level;
use std::sync::Mutex;

const SIZES: [usize; 7] = [1, 2, 3, 5, 8, 17, 33];

/// Sizes beyond one tile, one block of `k`, one block of columns, one part, and a cache.
const LARGE: [[usize; 3]; 16] = [
    [13, 3, 70],
    [31, 257, 33],
    [257, 20, 40],
    [260, 400, 65],
    [64, 10, 530],
    [5, 769, 300],
    [1, 900, 700],
    [700, 900, 1],
    [260, 30, 1024],
    [600, 40, 30],
    [30, 500, 300],
    // Rows of the left operand a multiple of 4 KiB apart, which are copied.
    [30, 1024, 200],
    [300, 450, 70],
    [1, 4200, 130],
    [45, 4200, 1],
    [1, 77, 1],
];

/// The definition as plain loops.
fn naive<T: Number>(
    [m, k, n]: [usize; 3],
    (a, la): (&[T], Matrix),
    (b, lb): (&[T], Matrix),
    (out, lo): (&mut [T], Matrix),
    add: bool,
) {
    for i in 0..m {
        for j in 0..n {
            let z = &mut out[lo.offset + i * lo.rows + j * lo.cols];
            let mut total = if add { *z } else { T::ZERO };
            for p in 0..k {
                let x = a[la.offset + i * la.rows + p * la.cols];
                total = total.plus(x.times(b[lb.offset + p * lb.rows + j * lb.cols]));
            }
            *z = total;
        }
    }
}

fn one<T: Gemm>(
    mkn: [usize; 3],
    (x, a): (&[T], Matrix),
    (y, b): (&[T], Matrix),
    (z, out): (&mut [T], Matrix),
    add: bool,
) {
    let batch = Batch {
        mkn,
        a,
        b,
        out,
        axes: Vec::new(),
        summed: Vec::new(),
        single: Batch::is_single(mkn),
    };
    run(&batch, x, y, z, add, None);
}

fn of(offset: usize, rows: usize, cols: usize) -> Matrix {
    Matrix { offset, rows, cols }
}

/// Row-major, column-major, all rows equal, all columns equal, and with gaps.
fn layouts(m: usize, n: usize) -> [Matrix; 5] {
    [
        of(0, n, 1),
        of(3, 1, m),
        of(1, 0, 1),
        of(2, 1, 0),
        of(5, 3 * n + 1, 2),
    ]
}

/// Returns numbers between -1 and 1 with random low bits.
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Stores a row-major `m` by `n` matrix with layout `l`.
fn lay_out<T: Number>(x: &[T], [m, n]: [usize; 2], l: Matrix) -> Vec<T> {
    let mut data = vec![T::ONE; l.last(m, n) + 1];
    for i in 0..m {
        for j in 0..n {
            data[l.offset + i * l.rows + j * l.cols] = x[i * n + j];
        }
    }
    data
}

#[test]
fn a_product_matches_the_definition() {
    let data: Vec<f64> = (0..5000).map(|i| f64::from(i * 7919 % 23) - 11.0).collect();
    let mut n_cases = 0;
    for m in SIZES {
        for k in SIZES {
            for n in SIZES {
                for la in layouts(m, k) {
                    for lb in layouts(k, n) {
                        for (lo, add) in
                            [(0, false), (4, true)].map(|(c, add)| (layouts(m, n)[c], add))
                        {
                            let (mut got, mut want) = (data.clone(), data.clone());
                            one([m, k, n], (&data, la), (&data, lb), (&mut got, lo), add);
                            naive([m, k, n], (&data, la), (&data, lb), (&mut want, lo), add);
                            // Small integers: the sum is exact in any order.
                            assert_eq!(got, want, "{m} {k} {n} {la:?} {lb:?} {lo:?}");
                            n_cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(n_cases, 343 * 50);
}

#[test]
fn a_product_of_integers_matches_the_definition() {
    fn check<T: Gemm + From<i8> + PartialEq>() {
        let data: Vec<T> = (0..20_000)
            .map(|i| T::from((i * 7919 % 251 - 125) as i8))
            .collect();
        for [m, k, n] in [
            [1, 1, 1],
            [3, 5, 2],
            [9, 40, 150],
            [4, 3, 64],
            [1, 70, 90],
            [70, 33, 1],
            [5, 1, 9],
        ] {
            for la in layouts(m, k) {
                for lb in layouts(k, n) {
                    for (lo, add) in [(0, false), (0, true), (4, true)] {
                        let lo = layouts(m, n)[lo];
                        let (mut got, mut want) = (data.clone(), data.clone());
                        one([m, k, n], (&data, la), (&data, lb), (&mut got, lo), add);
                        naive([m, k, n], (&data, la), (&data, lb), (&mut want, lo), add);
                        assert!(got == want, "{m} {k} {n} {la:?} {lb:?} {lo:?}");
                    }
                }
            }
        }
    }
    check::<i32>();
    check::<i64>();
}

/// Checks the bits of a product for every layout and number of threads, and its error against an
/// exact sum.
fn bits<T: Gemm + PartialEq>(of_f64: fn(f64) -> T, to_f64: fn(T) -> f64, epsilon: f64) {
    for [m, k, n] in LARGE {
        let (xs, ys) = (numbers(m * k, 1), numbers(k * n, 2));
        let x: Vec<T> = xs.iter().map(|x| of_f64(*x)).collect();
        let y: Vec<T> = ys.iter().map(|y| of_f64(*y)).collect();
        let mut want = vec![T::ONE; m * n];
        let row_major = [of(0, k, 1), of(0, n, 1), of(0, n, 1)];
        set_threads(1);
        one(
            [m, k, n],
            (&x, row_major[0]),
            (&y, row_major[1]),
            (&mut want, row_major[2]),
            false,
        );
        for (i, want) in want.iter().enumerate().step_by(13) {
            let (i, j) = (i / n, i % n);
            let terms = || (0..k).map(|p| to_f64(x[i * k + p]) * to_f64(y[p * n + j]));
            let (exact, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            // A chain of up to 256 steps and a sum over the chains; products of a vector and a
            // matrix have fewer roundings.
            let bound = (256 + k.div_ceil(256)) as f64 * epsilon * size;
            assert!(
                (to_f64(*want) - exact).abs() <= bound,
                "{m} {k} {n}: {i} {j}"
            );
        }
        for la in [0, 1, 4].map(|l| layouts(m, k)[l]) {
            for lb in [0, 1, 4].map(|l| layouts(k, n)[l]) {
                let (x, y) = (lay_out(&x, [m, k], la), lay_out(&y, [k, n], lb));
                for n_threads in 1..4 {
                    set_threads(n_threads);
                    for lo in [0, 4].map(|l| layouts(m, n)[l]) {
                        let mut got = vec![T::ONE; lo.last(m, n) + 1];
                        one([m, k, n], (&x, la), (&y, lb), (&mut got, lo), false);
                        let same = (0..m * n)
                            .all(|i| got[lo.offset + i / n * lo.rows + i % n * lo.cols] == want[i]);
                        assert!(same, "{m} {k} {n} {la:?} {lb:?} {lo:?} {n_threads}");
                    }
                }
            }
        }
    }
}

#[test]
fn f32_products_have_fixed_bits_and_bounded_errors() {
    bits(|x| x as f32, f64::from, f64::from(f32::EPSILON));
}

#[test]
fn f64_products_have_fixed_bits_and_bounded_errors() {
    // The reference sum has an error of its own.
    bits(|x| x, |x| x, 4.0 * f64::EPSILON);
}

#[test]
fn levels_with_fma_agree() {
    fn check<T: TileElement + Number + PartialEq>(of_f64: fn(f64) -> T) {
        let (Some(one), Some(other)) = (T::tiles(Level::Avx2), T::tiles(Level::detect())) else {
            return;
        };
        if Level::detect() < Level::Avx2 {
            return;
        }
        for [m, k, n] in LARGE {
            let x: Vec<T> = numbers(m * k, 3).into_iter().map(of_f64).collect();
            let y: Vec<T> = numbers(k * n, 4).into_iter().map(of_f64).collect();
            let by = |tiles| {
                let mut z = vec![T::ZERO; m * n];
                let a = MatrixPtr {
                    ptr: x.as_ptr(),
                    rows: k,
                    cols: 1,
                };
                let b = MatrixPtr {
                    ptr: y.as_ptr(),
                    rows: n,
                    cols: 1,
                };
                let c = OutputPtr {
                    ptr: z.as_mut_ptr(),
                    stride: n,
                };
                // SAFETY: row-major matrices of these sizes, and the CPU has both levels.
                unsafe {
                    match (Batch::is_single([m, k, n]), m) {
                        (false, _) => product(tiles, [m, k, n], a, b, c, false, None),
                        (true, 1) => single::product(tiles, [k, n], a, b, (c.ptr, 1), false),
                        (true, _) => {
                            let (row, matrix) = (b.transposed(), a.transposed());
                            single::product(tiles, [k, m], row, matrix, (c.ptr, 1), false);
                        }
                    }
                };
                z
            };
            assert!(by(one) == by(other), "{m} {k} {n}");
        }
    }
    check(|x| x as f32);
    check(|x| x);
}

#[test]
fn an_epilogue_gets_each_element_once_it_is_final() {
    let epilogues = [
        (1, false, false),
        (1, false, true),
        (1, true, false),
        (32, false, true),
        (40, true, false),
    ];
    for [m, k, n] in LARGE
        .into_iter()
        .chain([[1, 1, 1], [7, 400, 3], [300, 30, 2100]])
    {
        for n_threads in 1..4 {
            set_threads(n_threads);
            for (transposed, (align, whole, apart)) in [false, true]
                .into_iter()
                .flat_map(|t| epilogues.map(|e| (t, e)))
            {
                let n_batch = if align == 1 { 3 } else { 1 };
                let x: Vec<f32> = (0..m * k * n_batch).map(|i| (i % 5) as f32).collect();
                let y: Vec<f32> = (0..k * n).map(|i| (i % 3) as f32 - 1.0).collect();
                let batch = Batch {
                    mkn: [m, k, n],
                    a: if transposed { of(0, 1, m) } else { of(0, k, 1) },
                    b: of(0, n, 1),
                    out: of(0, n, 1),
                    axes: vec![(n_batch, [m * k, 0, m * n])],
                    summed: Vec::new(),
                    single: Batch::is_single([m * n_batch, k, n]),
                };
                let mut want = vec![0.0; m * n * n_batch];
                run(&batch, &x, &y, &mut want, false, None);
                let rows = Mutex::new(vec![(0, None); m * n_batch]);
                let mut got = vec![0.0; m * n * n_batch];
                let each = |part: FinalBlock<f32>| {
                    let FinalBlock {
                        result, columns, ..
                    } = part;
                    assert!(!whole || columns == (0..n));
                    for i in part.rows.clone() {
                        let thread = std::thread::current().id();
                        let mut rows = rows.lock().unwrap();
                        rows[i].0 += columns.len();
                        // Rows of one aligned group must stay on one thread.
                        let first = &mut rows[i / align * align].1;
                        assert!(align == 1 || *first.get_or_insert(thread) == thread);
                        let row = (i - part.rows.start) * part.stride;
                        for j in columns.clone() {
                            // SAFETY: an element of the result, and the place where it was
                            // computed.
                            unsafe {
                                let z = *part.first.add(row + j - columns.start);
                                *result.add(i * n + j) = z * 2.0 + i as f32;
                            }
                        }
                    }
                };
                let epilogue = Epilogue {
                    each: &each,
                    align,
                    whole,
                    apart,
                    nanos: 0,
                };
                run(&batch, &x, &y, &mut got, false, Some(&epilogue));
                let rows = rows.lock().unwrap();
                assert!(rows.iter().all(|row| row.0 == n), "{m} {k} {n}");
                for (i, (got, want)) in got.iter().zip(want).enumerate() {
                    assert_eq!(*got, want * 2.0 + (i / n) as f32, "{m} {k} {n}: {i}");
                }
            }
        }
    }
}

#[test]
fn each_path_has_the_bits_of_a_chain_of_fused_multiply_adds() {
    if f32::tiles(level()).is_none() {
        return;
    }
    // Many products underflow, to zeros of either sign, and some sums are exact zeros.
    let x: Vec<f32> = (0..5000)
        .map(|i| [1.0, -1e-30, 0.0, 3e-23, -2.0, -0.0, 1e-38, 7e-20, -1.5][i * 7919 % 1009 % 9])
        .collect();
    let all: Vec<[usize; 3]> = (SIZES.into_iter())
        .flat_map(|m| SIZES.map(|k| SIZES.map(|n| [m, k, n])).concat())
        .filter(|mkn| !Batch::is_single(*mkn))
        .chain([[3, 1, 700], [70, 1, 65], [200, 30, 300]])
        .collect();
    for [m, k, n] in all {
        let layouts_a = layouts(m, k);
        for (la, lb) in layouts_a
            .into_iter()
            .flat_map(|a| layouts(k, n).map(|b| (a, b)))
        {
            let (x, y) = (cycled(&x, la.last(m, k)), cycled(&x[1..], lb.last(k, n)));
            for (lo, add, finish) in [
                (0, false, false),
                (0, true, false),
                (0, false, true),
                (4, false, false),
                (4, true, false),
            ] {
                let out = layouts(m, n)[lo];
                let before = cycled(&x, out.last(m, n));
                let (mut got, mut want) = (before.clone(), before);
                for i in 0..m * n {
                    let (i, j) = (i / n, i % n);
                    let mut sum = 0.0;
                    for p in 0..k {
                        let x = x[la.offset + i * la.rows + p * la.cols];
                        sum = x.mul_add(y[lb.offset + p * lb.rows + j * lb.cols], sum);
                    }
                    let z = &mut want[out.offset + i * out.rows + j * out.cols];
                    *z = if add { *z + sum } else { sum };
                }
                let batch = Batch {
                    mkn: [m, k, n],
                    a: la,
                    b: lb,
                    out,
                    axes: Vec::new(),
                    summed: Vec::new(),
                    single: false,
                };
                let epilogue = Epilogue {
                    each: &|_| {},
                    align: 1,
                    whole: false,
                    apart: false,
                    nanos: 0,
                };
                run(&batch, &x, &y, &mut got, add, finish.then_some(&epilogue));
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(
                    bits(&got) == bits(&want),
                    "{m} {k} {n} {la:?} {lb:?} {out:?} {add} {finish}"
                );
            }
        }
    }
}

#[test]
fn small_products_of_a_batch_are_those_of_single_products() {
    let numbers: Vec<f32> = numbers(50_000, 5).iter().map(|x| *x as f32).collect();
    for [m, k, n] in [
        [8, 8, 1],
        [1, 5, 20],
        [7, 1, 9],
        [19, 3, 1],
        [20, 9, 1],
        [1, 9, 13],
        [1, 1, 1],
        [8, 8, 8],
        [15, 32, 16],
        [2, 3, 13],
        [16, 1, 2],
    ] {
        for (la, lb, lo) in [(0, 0, 0), (1, 1, 0), (4, 4, 4)] {
            let (la, lb, out) = (layouts(m, k)[la], layouts(k, n)[lb], layouts(m, n)[lo]);
            for [step_a, step_b] in [[la.last(m, k) + 3, lb.last(k, n) + 1], [0, 2]] {
                let step = out.last(m, n) + 1;
                let batch = Batch {
                    mkn: [m, k, n],
                    a: la,
                    b: lb,
                    out,
                    axes: vec![(10, [step_a, step_b, step])],
                    summed: Vec::new(),
                    single: false,
                };
                for add in [false, true] {
                    let (mut got, mut want) = (vec![0.5; 10 * step], vec![0.5; 10 * step]);
                    run(&batch, &numbers, &numbers, &mut got, add, None);
                    for i in 0..10 {
                        let (a, b) = (&numbers[i * step_a..], &numbers[i * step_b..]);
                        let z = &mut want[i * step..];
                        one([m, k, n], (a, la), (b, lb), (z, out), add);
                    }
                    assert!(got == want, "{m} {k} {n} {la:?} {lb:?} {add}");
                }
            }
        }
    }
}

/// Returns `last + 1` numbers.
fn cycled(x: &[f32], last: usize) -> Vec<f32> {
    x.iter().copied().cycle().take(last + 1).collect()
}

#[test]
fn a_summed_batch_is_the_sum_of_its_products() {
    let [m, k, n] = [20, 30, 40];
    let (n_batch, n_summed) = (6, 4);
    let x: Vec<f32> = (0..n_batch * n_summed * m * k)
        .map(|i| (i % 7) as f32)
        .collect();
    let y: Vec<f32> = (0..n_summed * k * n)
        .map(|i| (i % 5) as f32 - 2.0)
        .collect();
    for n_threads in 1..4 {
        set_threads(n_threads);
        let mut got = vec![f32::NAN; n_batch * m * n];
        let batch = Batch {
            mkn: [m, k, n],
            a: of(0, k, 1),
            b: of(0, n, 1),
            out: of(0, n, 1),
            axes: vec![(n_batch, [n_summed * m * k, 0, m * n])],
            summed: vec![(n_summed, [m * k, k * n, 0])],
            single: false,
        };
        run(&batch, &x, &y, &mut got, false, None);
        for b in 0..n_batch {
            let mut want = vec![0.0; m * n];
            for s in 0..n_summed {
                let a = of((b * n_summed + s) * m * k, k, 1);
                naive(
                    [m, k, n],
                    (&x, a),
                    (&y, of(s * k * n, n, 1)),
                    (&mut want, of(0, n, 1)),
                    true,
                );
            }
            assert_eq!(got[b * m * n..(b + 1) * m * n], want);
        }
    }
}

#[test]
fn infinities_and_nan_propagate() {
    let inf = f32::INFINITY;
    let mut z = [0.0; 4];
    let l = of(0, 2, 1);
    one(
        [2, 2, 2],
        (&[inf, 0.0, 1.0, 2.0], l),
        (&[1.0, 0.0, 0.0, 1.0], l),
        (&mut z, l),
        false,
    );
    assert!(z[0] == inf && z[1].is_nan() && z[2] == 1.0 && z[3] == 2.0);
}

#[test]
#[should_panic(expected = "the right operand lies in its buffer")]
fn strides_beyond_the_buffer_panic() {
    let (a, b, mut out) = ([1.0f32; 4], [1.0f32; 3], [0.0f32; 4]);
    let l = of(0, 2, 1);
    one([2, 2, 2], (&a, l), (&b, l), (&mut out, l), false);
}

#[test]
#[should_panic(expected = "no two elements of the result share a place")]
fn overlapping_results_panic() {
    let batch = Batch {
        mkn: [2, 2, 2],
        a: of(0, 2, 1),
        b: of(0, 2, 1),
        out: of(0, 2, 1),
        axes: vec![(2, [0, 0, 3])],
        summed: Vec::new(),
        single: false,
    };
    run(&batch, &[1.0f32; 4], &[1.0; 4], &mut [0.0; 8], false, None);
}
