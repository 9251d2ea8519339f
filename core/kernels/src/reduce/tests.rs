use super::{
    BoolFold, Fold, arg_fold, arg_fold_view, fold_axis, fold_bools, fold_bools_view, fold_view,
    sum_across,
};
use crate::memory::{Data, DataMut, Layout};
use crate::movement::copy::tests::{permutations, positions};
use crate::simd::number::Number;
use crate::threads::set_threads;
use gradloom_ir::DType;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;

const SIZES: [[usize; 3]; 38] = [
    [1, 1, 1],
    [2, 0, 3],
    [0, 2, 3],
    [2, 3, 0],
    [1, 7, 1],
    [3, 65, 1],
    [4, 1000, 1],
    [1, 2, 2],
    [2, 5, 3],
    [3, 4, 7],
    [2, 33, 15],
    [1, 100, 50],
    [2, 70, 65],
    [1, 9, 67],
    [2, 3, 129],
    [1, 600, 21],
    [1, 3, 1100],
    [2, 21, 1100],
    [1, 47, 300],
    [70, 2, 1],
    [70, 3, 1],
    [33, 4, 1],
    [70, 5, 1],
    [70, 6, 1],
    [71, 7, 1],
    [70, 8, 1],
    [70, 9, 1],
    [131, 13, 1],
    [70, 16, 1],
    [65, 17, 1],
    [70, 33, 1],
    [130, 64, 1],
    [70, 65, 1],
    [570, 5, 2],
    [130, 40, 3],
    [265, 17, 15],
    [33, 1, 7],
    [64, 128, 2],
];

/// Calls `check` with each column of the middle axis and the index of its result.
fn columns<T: Copy>(xs: &[T], [a, r, b]: [usize; 3], mut check: impl FnMut(usize, Vec<T>)) {
    for i in 0..a * b {
        let column = (0..r).map(|row| xs[(i / b * r + row) * b + i % b]);
        check(i, column.collect());
    }
}

#[test]
fn sums_across_rows_have_the_bits_of_sums_of_rows() {
    let long = [
        [1, 1023, 66],
        [2, 1025, 3],
        [1, 2048, 130],
        [3, 3100, 5],
        [1, 5000, 65],
    ];
    for [a, r, b] in SIZES.into_iter().chain(long) {
        let mut xs: Vec<f32> = (0..a * r * b)
            .map(|i| (i * 7919 % 1009) as f32 / 7.0 - 60.0)
            .collect();
        xs.iter_mut().step_by(29).for_each(|x| *x = -0.0);
        let mut rows = Vec::new();
        columns(&xs, [a, r, b], |_, column| rows.extend(column));
        let (mut found, mut want) = (vec![9.0f32; a * b], vec![7.0f32; a * b]);
        let kernel = sum_across(DType::F32, [a, r, b]);
        kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
        let kernel = fold_axis(DType::F32, [a * b, r, 1], Fold::Sum);
        kernel(&[Data::F32(&rows)], &mut [DataMut::F32(&mut want)]).unwrap();
        let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&want), "{:?}", [a, r, b]);
    }
}

/// Order of numbers of a maximum, in which NaN is above and zeros differ.
fn float_order(x: f64, y: f64, nan: Ordering) -> Ordering {
    match (x.is_nan(), y.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => nan,
        (false, true) => nan.reverse(),
        (false, false) => x.total_cmp(&y),
    }
}

fn extrema<T: Number + Debug>(
    dtype: DType,
    of: impl Fn(usize) -> T,
    order: impl Fn(T, T, Ordering) -> Ordering,
    data: impl Fn(&[T]) -> Data<'_>,
    data_mut: impl Fn(&mut [T]) -> DataMut<'_>,
) {
    for arb in SIZES {
        let [a, r, b] = arb;
        let xs: Vec<T> = (0..a * r * b).map(&of).collect();
        for (by, above) in [(Fold::Max, Ordering::Greater), (Fold::Min, Ordering::Less)] {
            if r == 0 {
                continue;
            }
            let mut found = vec![T::ONE; a * b];
            fold_axis(dtype, arb, by)(&[data(&xs)], &mut [data_mut(&mut found)]).unwrap();
            let mut places = vec![9; a * b];
            let kernel = arg_fold(dtype, arb, by);
            kernel(&[data(&xs)], &mut [DataMut::I64(&mut places)]).unwrap();
            columns(&xs, arb, |i, column| {
                let best = |x: T, y: T| if order(y, x, above) == above { y } else { x };
                let want = column[1..].iter().fold(column[0], |x, y| best(x, *y));
                let same = order(want, found[i], above).is_eq();
                assert!(same, "{by:?} {arb:?} {i}: {:?} {want:?}", found[i]);
                // The order of indices has equal zeros.
                let equal = |x: &T| *x == want || (!x.is_number() && !want.is_number());
                let place = column.iter().position(equal).unwrap();
                assert_eq!(places[i], place as i64, "index of {by:?} {arb:?} {i}");
            });
        }
    }
}

#[test]
fn extrema_of_any_axis_are_those_of_the_definition() {
    // Columns with NaN, with zeros of both signs as extrema, and with infinities.
    let number = |i: usize| match (i * 7919 % 1013, i % 5) {
        (0..3, _) => f64::NAN,
        (3..6, _) => f64::INFINITY,
        (6..9, _) => f64::NEG_INFINITY,
        (x, 0) => [-0.0, 0.0][x % 2],
        (x, 1) => -((x % 3) as f64) * 0.0,
        (x, 2) => (x % 4) as f64 - 3.0,
        (x, _) => x as f64 - 500.0,
    };
    extrema(
        DType::F64,
        number,
        float_order,
        |x| Data::F64(x),
        |x| DataMut::F64(x),
    );
    extrema(
        DType::F32,
        |i| number(i) as f32,
        |x, y, nan| float_order(f64::from(x), f64::from(y), nan),
        |x| Data::F32(x),
        |x| DataMut::F32(x),
    );
    let int = |i: usize| match i * 7919 % 1013 {
        0 => i64::MIN,
        1 => i64::MAX,
        x => x as i64 - 500,
    };
    extrema(
        DType::I64,
        int,
        |x, y, _| x.cmp(&y),
        |x| Data::I64(x),
        |x| DataMut::I64(x),
    );
    extrema(
        DType::I32,
        |i| int(i) as i32,
        |x, y, _| x.cmp(&y),
        |x| Data::I32(x),
        |x| DataMut::I32(x),
    );
}

#[test]
fn negative_nan_is_found() {
    for n in [1, 2, 5, 16, 40, 100] {
        for at in 0..n {
            let mut xs = vec![1.0f32; 3 * n];
            xs[3 * at + 1] = -f32::NAN;
            for by in [Fold::Max, Fold::Min] {
                let mut found = [0.0; 3];
                let kernel = fold_axis(DType::F32, [1, n, 3], by);
                kernel(&[Data::F32(&xs)], &mut [DataMut::F32(&mut found)]).unwrap();
                assert!(found[1].is_nan() && found[0] == 1.0 && found[2] == 1.0);
            }
        }
    }
}

#[test]
fn sums_and_products_of_any_axis_are_those_of_the_definition() {
    for arb in SIZES {
        let [a, r, b] = arb;
        let ints: Vec<i64> = (0..a * r * b)
            .map(|i| (i * 7919 % 1013) as i64 - 500)
            .collect();
        let odd: Vec<i64> = ints.iter().map(|x| x | 1).collect();
        let mut found = vec![9; a * b];
        let mut run = |xs: &[i64], by| {
            fold_axis(DType::I64, arb, by)(&[Data::I64(xs)], &mut [DataMut::I64(&mut found)])
                .unwrap();
            found.clone()
        };
        let [sums, products] = [run(&ints, Fold::Sum), run(&odd, Fold::Product)];
        columns(&ints, arb, |i, column| {
            assert_eq!(sums[i], column.iter().sum(), "{arb:?} {i}")
        });
        columns(&odd, arb, |i, column| {
            let product = column.iter().fold(1i64, |x, y| x.wrapping_mul(*y));
            assert_eq!(products[i], product, "{arb:?} {i}");
        });
        let floats: Vec<f64> = ints.iter().map(|x| 1.0 + *x as f64 / 1e4).collect();
        for by in [Fold::Sum, Fold::Product] {
            let mut found = vec![9.0; a * b];
            let kernel = fold_axis(DType::F64, arb, by);
            kernel(&[Data::F64(&floats)], &mut [DataMut::F64(&mut found)]).unwrap();
            columns(&floats, arb, |i, column| {
                let want: f64 = match by {
                    Fold::Sum => column.iter().sum(),
                    _ => column.iter().product(),
                };
                assert!(
                    (found[i] - want).abs() <= 1e-12 * want.abs(),
                    "{by:?} {arb:?} {i}"
                );
            });
        }
    }
}

fn folded(xs: &[f32], arb: [usize; 3], by: Fold) -> Vec<u32> {
    let mut found = vec![9.0; arb[0] * arb[2]];
    let kernel = fold_axis(DType::F32, arb, by);
    kernel(&[Data::F32(xs)], &mut [DataMut::F32(&mut found)]).unwrap();
    found.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn rows_of_up_to_64_elements_are_folded_in_halves() {
    let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 4.0;
    for r in 2..=64 {
        let a = 150;
        let xs: Vec<f32> = (0..a * r).map(number).collect();
        for by in [Fold::Sum, Fold::Product] {
            let want = xs.chunks(r).map(|row| {
                let mut x = row.to_vec();
                let mut half = r.next_power_of_two() / 2;
                while half > 0 {
                    for i in half..x.len() {
                        match by {
                            Fold::Sum => x[i - half] += x[i],
                            _ => x[i - half] *= x[i],
                        }
                    }
                    x.truncate(half);
                    half /= 2;
                }
                x[0].to_bits()
            });
            let want: Vec<u32> = want.collect();
            assert_eq!(folded(&xs, [a, r, 1], by), want, "{by:?} of {r}");
        }
    }
}

#[test]
fn matrices_are_folded_to_the_bits_of_each_alone() {
    let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 4.0;
    for [a, r, b] in [
        [570, 5, 2],
        [130, 40, 3],
        [265, 17, 15],
        [200, 100, 2],
        [464, 3, 4],
    ] {
        let xs: Vec<f32> = (0..a * r * b).map(number).collect();
        for by in [Fold::Sum, Fold::Product, Fold::Max] {
            let alone = xs.chunks(r * b).flat_map(|xs| folded(xs, [1, r, b], by));
            let alone: Vec<u32> = alone.collect();
            assert_eq!(folded(&xs, [a, r, b], by), alone, "{by:?} of {a} {r} {b}");
        }
    }
}

#[test]
fn bools_of_any_axis_are_folded() {
    for arb in SIZES {
        let [a, r, b] = arb;
        for odd in [true, false] {
            let xs: Vec<bool> = (0..a * r * b).map(|i| odd == (i * 7919 % 97 < 2)).collect();
            for (by, all) in [(BoolFold::Any, false), (BoolFold::All, true)] {
                let mut found = vec![u8::from(!all); a * b];
                fold_bools(arb, by)(&[Data::Bool(&xs)], &mut [DataMut::Bool(&mut found)]).unwrap();
                columns(&xs, arb, |i, column| {
                    let want = if all {
                        !column.contains(&false)
                    } else {
                        column.contains(&true)
                    };
                    assert_eq!(found[i], u8::from(want), "{by:?} {arb:?} {i}");
                });
            }
        }
    }
}

/// Returns views with this shape, and the number of elements of their buffer.
fn views_of(shape: &[usize]) -> Vec<(Layout, usize)> {
    let (rank, last) = (shape.len(), shape.len() - 1);
    let whole = |shape: &[usize]| (Layout::contiguous(shape), shape.iter().product::<usize>());
    let with = |axis: usize, len: usize| {
        let mut shape = shape.to_vec();
        shape[axis] = len;
        shape
    };
    let mut views = Vec::new();
    for axis in 0..rank {
        let len = shape[axis];
        let (base, n) = whole(&with(axis, len + 3));
        views.push((base.narrow(axis, 2, len, 1), n));
        let (base, n) = whole(&with(axis, 1));
        views.push((base.broadcast_to(shape), n));
        let (base, n) = whole(&with(axis, 2 * len));
        views.push((base.narrow(axis, 1, len, 2), n));
    }
    for step in [3, 4, 5] {
        let (base, n) = whole(&with(last, step * shape[last]));
        views.push((base.narrow(last, step - 1, shape[last], step), n));
    }
    // Elements that are as far apart on every axis as twice as many, and a gap.
    let wide: Vec<usize> = shape.iter().map(|len| 2 * len + 1).collect();
    let (base, n) = whole(&wide);
    let gaps = (0..rank).fold(base, |x, axis| x.narrow(axis, 1, shape[axis], 2));
    views.push((gaps, n));
    for order in permutations(rank).into_iter().skip(1) {
        let mut memory = vec![0; rank];
        (order.iter().zip(shape)).for_each(|(axis, len)| memory[*axis] = *len);
        let (base, n) = whole(&memory);
        views.push((base.permute(&order), n));
        memory[last] += 2;
        let (base, n) = whole(&memory);
        views.push((base.narrow(last, 1, memory[last] - 2, 1).permute(&order), n));
    }
    views
}

/// Checks the results of views of a dtype against those of their copies.
fn views_are_folded<T: Number + Debug>(
    dtype: DType,
    of: impl Fn(usize) -> T,
    bits: impl Fn(T) -> u64,
    data: impl Fn(&[T]) -> Data<'_>,
    data_mut: impl Fn(&mut [T]) -> DataMut<'_>,
) {
    for_each_view(|layout, n, arb| {
        let xs: Vec<T> = (0..n).map(&of).collect();
        let copied: Vec<T> = positions(layout).into_iter().map(|i| xs[i]).collect();
        for by in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
            let Some(kernel) = fold_view(dtype, layout, arb, by) else {
                continue;
            };
            let [mut found, mut want] = [(); 2].map(|()| vec![T::ONE; arb[0] * arb[2]]);
            kernel(&[data(&xs)], &mut [data_mut(&mut found)]).unwrap();
            let kernel = fold_axis(dtype, arb, by);
            kernel(&[data(&copied)], &mut [data_mut(&mut want)]).unwrap();
            let wrong = (0..want.len()).find(|i| bits(found[*i]) != bits(want[*i]));
            assert_eq!(wrong, None, "{by:?} {arb:?} of {layout:?}");
        }
        for by in [Fold::Max, Fold::Min] {
            let Some(kernel) = arg_fold_view(dtype, layout, arb, by) else {
                continue;
            };
            let [mut found, mut want] = [(); 2].map(|()| vec![9; arb[0] * arb[2]]);
            kernel(&[data(&xs)], &mut [DataMut::I64(&mut found)]).unwrap();
            let kernel = arg_fold(dtype, arb, by);
            kernel(&[data(&copied)], &mut [DataMut::I64(&mut want)]).unwrap();
            assert!(found == want, "index of {by:?} {arb:?} of {layout:?}");
        }
    });
}

/// Calls `check` with views, the lengths of their buffers, and the sizes of a reduction of neighbouring axes.
fn for_each_view(mut check: impl FnMut(&Layout, usize, [usize; 3])) {
    let shapes: [&[usize]; 14] = [
        &[9000],
        &[70_000],
        &[3, 5000],
        &[5000, 20],
        &[600, 40],
        &[150, 7],
        &[70, 50, 33],
        &[4, 900, 65],
        &[130, 3, 17],
        &[1, 2000, 49],
        &[300, 1, 97],
        &[2, 40, 1100],
        &[5, 6, 7, 20],
        &[2, 3, 40, 70],
    ];
    for shape in shapes {
        for (layout, n) in views_of(shape) {
            let size = |axes: Range<usize>| shape[axes].iter().product();
            for first in 0..shape.len() {
                for end in first + 1..=shape.len() {
                    let arb = [size(0..first), size(first..end), size(end..shape.len())];
                    check(&layout, n, arb);
                }
            }
        }
    }
}

#[test]
fn a_view_is_folded_to_the_bits_of_its_copy() {
    let number = |i: usize| (i * 7919 % 1013) as i32 - 500;
    for threads in [1, 2] {
        set_threads(threads);
        views_are_folded(
            DType::F32,
            |i| number(i) as f32 / 97.0,
            |x| x.to_bits().into(),
            |x| Data::F32(x),
            |x| DataMut::F32(x),
        );
        views_are_folded(
            DType::I64,
            |i| number(i).into(),
            |x| x as u64,
            |x| Data::I64(x),
            |x| DataMut::I64(x),
        );
    }
    views_are_folded(
        DType::F64,
        |i| f64::from(number(i)) / 97.0,
        f64::to_bits,
        |x| Data::F64(x),
        |x| DataMut::F64(x),
    );
    views_are_folded(
        DType::I32,
        number,
        |x| x as u64,
        |x| Data::I32(x),
        |x| DataMut::I32(x),
    );
}

#[test]
fn a_view_of_bools_is_folded() {
    for (other, rare) in [(true, 2), (false, 2), (true, 900), (false, 900)] {
        for_each_view(|layout, n, arb| {
            let xs: Vec<bool> = (0..n).map(|i| other == (i * 7919 % 1013 < rare)).collect();
            let copied: Vec<bool> = positions(layout).into_iter().map(|i| xs[i]).collect();
            for by in [BoolFold::Any, BoolFold::All] {
                let Some(kernel) = fold_bools_view(layout, arb, by) else {
                    continue;
                };
                let [mut found, mut want] = [(); 2].map(|()| vec![9; arb[0] * arb[2]]);
                kernel(&[Data::Bool(&xs)], &mut [DataMut::Bool(&mut found)]).unwrap();
                let kernel = fold_bools(arb, by);
                kernel(&[Data::Bool(&copied)], &mut [DataMut::Bool(&mut want)]).unwrap();
                assert!(found == want, "{by:?} {arb:?} of {layout:?}");
            }
        });
    }
}

#[test]
fn an_extremum_or_nan_is_found_at_any_place_of_a_row() {
    for n in (1..=140).chain([255, 256, 257]) {
        for at in 0..n {
            let others = |x: f32, special: f32| {
                let mut row: Vec<f32> = (0..n).map(|i| x * (1.0 + i as f32 % 7.0)).collect();
                row[at] = special;
                row
            };
            let check = |row: &[f32], by: Fold, want: f32| {
                let found = f32::from_bits(folded(row, [1, n, 1], by)[0]);
                let same = found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan();
                assert!(same, "{by:?} of {n}, {at}: {found} {want}");
                let mut place = [9];
                let kernel = arg_fold(DType::F32, [1, n, 1], by);
                kernel(&[Data::F32(row)], &mut [DataMut::I64(&mut place)]).unwrap();
                assert_eq!(place[0], at as i64, "index of {by:?} of {n}");
            };
            check(&others(-1.0, -0.5), Fold::Max, -0.5);
            check(&others(1.0, 0.5), Fold::Min, 0.5);
            check(&others(-1.0, -0.0), Fold::Max, -0.0);
            check(&others(1.0, 0.0), Fold::Min, 0.0);
            check(&others(-1.0, f32::INFINITY), Fold::Max, f32::INFINITY);
            for by in [Fold::Max, Fold::Min] {
                check(&others(f32::INFINITY, f32::NAN), by, f32::NAN);
                check(&others(f32::NEG_INFINITY, -f32::NAN), by, f32::NAN);
            }
            let zeros = |zero: f32, other: f32| {
                let mut row = vec![zero; n];
                row[at] = other;
                row
            };
            let [most, least] = [(Fold::Max, -0.0, 0.0), (Fold::Min, 0.0, -0.0)]
                .map(|(by, zero, other)| folded(&zeros(zero, other), [1, n, 1], by)[0]);
            assert_eq!([most, least], [0.0f32.to_bits(), (-0.0f32).to_bits()]);
        }
    }
}

#[test]
fn long_rows_are_multiplied_in_32_lanes() {
    for n in [65, 95, 96, 97, 127, 128, 150, 1000] {
        let row: Vec<f64> = (0..n)
            .map(|i| 0.9 + (i * 7919 % 97) as f64 / 500.0)
            .collect();
        let mut lanes = [1.0; 32];
        (row.iter().enumerate()).for_each(|(i, x)| lanes[i % 32] *= x);
        for half in [16, 8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] *= lanes[i + half];
            }
        }
        let mut found = [9.0];
        let kernel = fold_axis(DType::F64, [1, n, 1], Fold::Product);
        kernel(&[Data::F64(&row)], &mut [DataMut::F64(&mut found)]).unwrap();
        assert_eq!(found, [lanes[0]], "{n}");
    }
}

#[test]
fn a_block_of_rows_is_folded_in_sequence_for_any_number_of_columns() {
    for b in (2..=70).chain([127, 128, 129, 512, 513, 577, 1100]) {
        for r in [1, 2, 4, 5, 8, 9, 32] {
            let number = |i: usize| (i * 7919 % 1013) as f32 / 97.0 - 4.0;
            let xs: Vec<f32> = (0..2 * r * b).map(number).collect();
            for by in [Fold::Sum, Fold::Product] {
                let mut want = Vec::new();
                columns(&xs, [2, r, b], |_, column| {
                    let fold = |x: f32, y: f32| if by == Fold::Sum { x + y } else { x * y };
                    want.push(column.into_iter().reduce(fold).unwrap().to_bits());
                });
                assert_eq!(folded(&xs, [2, r, b], by), want, "{by:?} of {r} {b}");
            }
        }
    }
}

#[test]
fn one_bool_of_a_row_is_found_at_any_place() {
    for n in (1..=140).chain([1023, 1024, 1025]) {
        for at in (0..n).step_by(1 + n / 200) {
            for (by, other) in [(BoolFold::Any, false), (BoolFold::All, true)] {
                let mut row = vec![other; n];
                let mut found = [9];
                for want in [other, !other] {
                    row[at] = want;
                    fold_bools([1, n, 1], by)(
                        &[Data::Bool(&row)],
                        &mut [DataMut::Bool(&mut found)],
                    )
                    .unwrap();
                    assert_eq!(found, [u8::from(want)], "{by:?} of {n}, {at}");
                }
            }
        }
    }
}
