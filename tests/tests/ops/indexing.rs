//! Indices of numbers, ranges and tensors: `x.i(..)`, `x.set(..)` and `x.add_at(..)`.

use gradloom::prelude::*;
use gradloom::{AxisIndex, NewAxis, RangeStep, Rest, vmap};
use gradloom_tests::panics::panic_of;
use gradloom_tests::rng::Rng;
use insta::assert_snapshot;

fn numbers(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::arange(n, DType::F64).reshape(shape)
}

/// Returns the positions in a tensor that an index without tensors selects, and their shape.
fn selected(shape: &[usize], index: &[AxisIndex]) -> (Vec<usize>, Vec<usize>) {
    let named = |e: &&AxisIndex| !matches!(e, AxisIndex::Rest | AxisIndex::NewAxis);
    let n_rest = shape.len() - index.iter().filter(named).count();
    let mut entries = index.to_vec();
    match entries.iter().position(|e| matches!(e, AxisIndex::Rest)) {
        Some(at) => drop(entries.splice(at..=at, vec![AxisIndex::Whole; n_rest])),
        None => entries.extend(vec![AxisIndex::Whole; n_rest]),
    }
    let (mut out, mut found, mut axis) = (Vec::new(), vec![0], 0);
    for entry in &entries {
        if matches!(entry, AxisIndex::NewAxis) {
            out.push(1);
            continue;
        }
        let len = shape[axis] as i64;
        let from_start = |i: i64| if i < 0 { i + len } else { i };
        let picked: Vec<i64> = match entry {
            AxisIndex::At(i) => vec![from_start(*i)],
            AxisIndex::Range { start, stop, step } => {
                let mut picked = Vec::new();
                let mut i = start.map_or(if *step < 0 { len - 1 } else { 0 }, from_start);
                let stop = stop.map_or(if *step < 0 { -1 } else { len }, from_start);
                while (i < stop && *step > 0) || (i > stop && *step < 0) {
                    picked.push(i);
                    i += step;
                }
                picked
            }
            _ => (0..len).collect(),
        };
        if !matches!(entry, AxisIndex::At(_)) {
            out.push(picked.len());
        }
        let along = |at: &usize| {
            let at = *at * len as usize;
            picked
                .iter()
                .map(move |i| at + *i as usize)
                .collect::<Vec<_>>()
        };
        found = found.iter().flat_map(along).collect();
        axis += 1;
    }
    (found, out)
}

/// Returns an index of a tensor of this shape. All ranges lie inside of their axes.
fn drawn(r: &mut Rng, shape: &[usize]) -> Vec<AxisIndex> {
    let n = r.below(shape.len() + 1);
    let has_rest = r.below(3) == 0;
    let n_before = if has_rest { r.below(n + 1) } else { n };
    let mut index = Vec::new();
    for k in 0..n {
        let axis = if k < n_before { k } else { shape.len() - n + k };
        if has_rest && k == n_before {
            index.push(AxisIndex::Rest);
        }
        if r.below(6) == 0 {
            index.push(AxisIndex::NewAxis);
        }
        let len = shape[axis] as i64;
        let mut end = |from: i64| from + r.below((len - from + 1) as usize) as i64;
        let (start, stop) = {
            let start = end(0);
            (start, end(start))
        };
        // Each end may count from the right, if there is such an index.
        let mut written = |i: i64| match r.below(2) {
            0 if i < len => i - len,
            _ => i,
        };
        let (start, stop) = (written(start), written(stop));
        index.push(match r.below(5) {
            0 if len > 0 => AxisIndex::At(r.below(2 * len as usize) as i64 - len),
            0 | 1 => AxisIndex::Whole,
            2 => AxisIndex::Range {
                start: Some(start),
                stop: Some(stop),
                step: 1 + r.below(3) as i64,
            },
            3 => AxisIndex::Range {
                start: None,
                stop: None,
                step: -1 - r.below(3) as i64,
            },
            _ if len > 0 => {
                let stop = r.below(len as usize) as i64;
                let start = stop + r.below((len - stop) as usize) as i64;
                AxisIndex::Range {
                    start: Some(start),
                    stop: Some(stop),
                    step: -1 - r.below(2) as i64,
                }
            }
            _ => AxisIndex::Whole,
        });
    }
    if has_rest && n_before == n {
        index.push(AxisIndex::Rest);
    }
    index
}

#[test]
fn random_indices_read_and_write_what_they_select() {
    let mut r = Rng::new(7);
    for _ in 0..400 {
        let rank = r.below(5);
        let shape: Vec<usize> = (0..rank).map(|_| r.below(5)).collect();
        let x = numbers(&shape);
        let index = drawn(&mut r, &shape);
        let (places, out) = selected(&shape, &index);
        let y = x.i(index.clone());
        assert_eq!(y.shape(), out, "{shape:?} {index:?}");
        let expected: Vec<f64> = places.iter().map(|at| *at as f64).collect();
        assert_eq!(y.to_vec::<f64>(), expected, "{shape:?} {index:?}");
        let updates = -numbers(&out) - 1.0;
        for adds in [false, true] {
            let z = match adds {
                true => x.add_at(index.clone(), &updates),
                false => x.set(index.clone(), &updates),
            };
            let mut expected = x.to_vec::<f64>();
            for (k, at) in places.iter().enumerate() {
                let before = if adds { expected[*at] } else { 0.0 };
                expected[*at] = before - k as f64 - 1.0;
            }
            assert_eq!(z.shape(), shape);
            assert_eq!(z.to_vec::<f64>(), expected, "{shape:?} {index:?} {adds}");
        }
        // The transpose of a read adds to zeros.
        let (_, pullback) = vjp(|x: &Tensor| x.i(index.clone()), &x);
        let found = pullback.call(&updates);
        let expected = x.zeros_like().add_at(index.clone(), &updates);
        assert_eq!(found.to_vec::<f64>(), expected.to_vec::<f64>());
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // A negative end counts from the last element.
fn a_step_runs_backwards_as_in_numpy() {
    let x = Tensor::from([0i64, 1, 2, 3, 4]);
    let all = |y: Tensor| y.to_vec::<i64>();
    assert_eq!(all(x.i((..).by(-1))), [4, 3, 2, 1, 0]);
    assert_eq!(all(x.i((3..0).by(-2))), [3, 1]);
    assert_eq!(all(x.i((..1).by(-1))), [4, 3, 2]);
    assert_eq!(all(x.i((-2..).by(-3))), [3, 0]);
    assert_eq!(all(x.i((1..=-1).by(3))), [1, 4]);
    assert_eq!(all(x.slice([-1], [i64::MAX], [-2])), [4, 2, 0]);
    assert_eq!(
        all(x.set((..).by(-2), Tensor::from([7i64, 8, 9]))),
        [9, 1, 8, 3, 7]
    );
    let empty = Tensor::zeros([0], DType::F32);
    assert_eq!(empty.i((..).by(-1)).shape(), [0]);
}

#[test]
fn tensors_select_an_element_for_each_position() {
    let x = numbers(&[3, 4, 2]);
    let (i, j) = (Tensor::from([[2i64], [-3]]), Tensor::from([0i32, 3, -1]));
    // Neighbours: the axes of the result are in their place.
    let y = x.i((&i, &j));
    assert_eq!(y.shape(), [2, 3, 2]);
    let expected = [16., 17., 22., 23., 22., 23., 0., 1., 6., 7., 6., 7.];
    assert_eq!(y.to_vec::<f64>(), expected);
    let y = x.i((.., &Tensor::from([1i64, 1]), &Tensor::from([0i64, 1])));
    assert_eq!(y.shape(), [3, 2]);
    assert_eq!(y.to_vec::<f64>(), [2., 3., 10., 11., 18., 19.]);
    // Apart: the axes of the result are the first.
    let y = x.i((&Tensor::from([0i64, 2]), 1..3, &Tensor::from([1i64, 0])));
    assert_eq!(y.shape(), [2, 2]);
    assert_eq!(y.to_vec::<f64>(), [3., 5., 18., 20.]);
    // Numbers drop their axes before.
    assert_eq!(x.i((0, .., &Tensor::from([1i64, 1]))).shape(), [4, 2]);
    let z = x.add_at((&Tensor::from([0i64, 0]), 0, &Tensor::from([1i64, 1])), 5.0);
    assert_eq!(z.i((0, 0, 1)).item::<f64>(), 11.0);
    let z = x.set(
        (&Tensor::from([0i64, 2]), 1..3, &Tensor::from([1i64, 0])),
        -1.0,
    );
    assert_eq!(z.i((2, 1..3, 0)).to_vec::<f64>(), [-1., -1.]);
    assert_eq!((z.lt(0.0).cast(DType::I64)).sum(..).item::<i64>(), 4);
    // An index beyond its axis is an error, although the merged axis has it.
    for j in [4i64, -5, i64::MAX, i64::MIN] {
        let y = x.i((&Tensor::from([0i64]), &Tensor::from([j])));
        assert!(y.try_to_vec::<f64>().is_err(), "{j}");
    }
}

#[test]
fn errors_of_indices_name_the_method_and_the_axis() {
    let x = Tensor::zeros([2, 3], DType::F32);
    let refused = |f: &dyn Fn() -> Tensor| panic_of(|| drop(f())).0;
    assert_snapshot!(refused(&|| x.i((0, 3))), @"i: index 3 is out of range for axis 1, of length 3: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.i((.., .., 0))), @"i: the rank is 2, expected at least 3, the number of indices: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.i((Rest, 0, Rest))), @"i: the number of `Rest` in an index is 2, expected at most 1: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.i((.., 2..5))), @"i: 2..5 does not lie in axis 1, which has length 3: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.i((..).by(0))), @"i: the step is 0, expected another number: the operand is f32[2, 3]");
    let mask = x.gt(1.0);
    assert_snapshot!(refused(&|| x.i(&mask)), @"i: the dtype is bool, expected an integer for the indices; a mask chooses elements as in `mask.select(0.0, &x)`: the left operand is f32[2, 3], the right operand is bool[2, 3]");
    assert_snapshot!(refused(&|| x.set(&mask, 0.0)), @"set: the dtype is bool, expected an integer for the indices; a mask chooses elements as in `mask.select(0.0, &x)`: the left operand is f32[2, 3], the right operand is bool[2, 3]");
    assert_snapshot!(refused(&|| x.i(&x)), @"i: the dtype is f32, expected an integer for the indices: the left operand is f32[2, 3], the right operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.set(-3, 0.0)), @"set: index -3 is out of range for axis 0, of length 2: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.set(0, &x)), @"set: the operand does not broadcast to [3]: the operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.set(0, Tensor::from([1i64, 2, 3]))), @"set: the dtypes are f32 and i64: the left operand is f32[2, 3], the right operand is i64[1, 3]; cast the i64 operand, as in `.cast(DType::F32)`");
    assert_snapshot!(refused(&|| x.add_at(0, Tensor::from([1i64, 2, 3]))), @"add_at: the dtypes are f32 and i64: the left operand is f32[2, 3], the right operand is i64[1, 3]; cast the i64 operand, as in `.cast(DType::F32)`");
    assert_snapshot!(refused(&|| x.i((&x, &Tensor::from([0i64])))), @"i: the dtype is f32, expected an integer for the indices: the left operand is f32[2, 3], the right operand is f32[2, 3]");
}

#[traced]
fn reads(x: &Tensor, #[nodiff] ids: &Tensor, t: usize) -> Tensor {
    let a = x.i((0, 1..3, .., -1)).sum(..);
    let b = x
        .i((t, Rest, NewAxis, (..).by(-1)))
        .tanh()
        .i((.., 0..=1))
        .sum(..);
    let c = x.i((.., ids)).square().i((t..t + 1, ..-1, .., 0)).sum(..);
    let d = (x.i(-1) * x.i(x.dim(0) - 1)).sum(..);
    a + b + c + d
}

#[traced]
fn writes(x: &Tensor, y: &Tensor, #[nodiff] ids: &Tensor, t: usize) -> Tensor {
    let x = x.set((t, 1..3), y);
    let x = x.add_at((.., ..=-1, ids), &(y.i(NewAxis) * 2.0));
    let x = x.set((.., -1), 0.5);
    x.tanh().add_at(t.., 1.0)
}

#[test]
fn a_traced_index_is_that_of_the_run_time() {
    for program in [reads::PROGRAM, writes::PROGRAM] {
        assert!(!program.contains("recorded"), "{program}");
    }
    let x = numbers(&[2, 4, 3, 3]).sin();
    let ids = Tensor::from([2i64, 0, 2]);
    for t in [0, 1] {
        let f = |x: &Tensor| {
            let a = x.i((0, 1..3, .., -1)).sum(..);
            let b = x
                .i((t, Rest, NewAxis, (..).by(-1)))
                .tanh()
                .i((.., 0..=1))
                .sum(..);
            let c = x.i((.., &ids)).square().i((t..t + 1, ..-1, .., 0)).sum(..);
            let d = (x.i(-1) * x.i(x.dim(0) - 1)).sum(..);
            a + b + c + d
        };
        let equal = |a: &Tensor, b: &Tensor| assert_eq!(a.to_vec::<f64>(), b.to_vec::<f64>());
        equal(&reads(&x, &ids, t), &f(&x));
        let (found, expected) = (reads::grad(&x, &ids, t).x, grad(f)(&x));
        assert!((found - expected).abs().max(..).item::<f64>() < 1e-12);
        let lanes = Tensor::stack(&[&x, &(&x * 2.0)], 0);
        let batched = vmap(f)(&lanes);
        assert!((batched.i(1) - f(&lanes.i(1))).abs().item::<f64>() < 1e-12);

        let ids = Tensor::from([1i64, 1, 0]);
        let y = numbers(&[3, 3]).cos();
        let g = |(x, y): &(Tensor, Tensor)| {
            let x = x.set((t, 1..3), y);
            let x = x.add_at((.., ..=-1, &ids), y.i(NewAxis) * 2.0);
            let x = x.set((.., -1), 0.5);
            x.tanh().add_at(t.., 1.0)
        };
        let both = (x.clone(), y.clone());
        let (found, pullback) = writes::vjp(&x, &y, &ids, t);
        let (expected, reference) = vjp(g, &both);
        equal(&found, &expected);
        let ct = expected.cos();
        let (found, expected) = (pullback(&ct), reference.call(&ct));
        assert!((found.0 - expected.0).abs().max(..).item::<f64>() < 1e-12);
        assert!((found.1 - expected.1).abs().max(..).item::<f64>() < 1e-12);
    }
}

#[traced]
fn over_rows(x: &Tensor, w: &Tensor) -> Tensor {
    let mut h = w.zeros_like();
    for row in x.rows() {
        h = (h * w + row).tanh();
    }
    for (t, row) in x.rows().enumerate() {
        h += row * (t as f64);
    }
    h
}

#[test]
fn a_loop_over_rows_is_traced() {
    assert!(
        !over_rows::PROGRAM.contains("recorded"),
        "{}",
        over_rows::PROGRAM
    );
    let x = numbers(&[3, 2]).sin();
    let w = Tensor::from([0.5f64, -0.25]);
    let f = |(x, w): &(Tensor, Tensor)| {
        let mut h = w.zeros_like();
        for row in x.rows() {
            h = (h * w + row).tanh();
        }
        for (t, row) in x.rows().enumerate() {
            h += row * (t as f64);
        }
        h
    };
    let (y, pullback) = over_rows::vjp(&x, &w);
    let (z, reference) = vjp(f, &(x.clone(), w.clone()));
    assert_eq!(y.to_vec::<f64>(), z.to_vec::<f64>());
    let ct = z.cos();
    let (found, expected) = (pullback(&ct), reference.call(&ct));
    assert!((found.0 - expected.0).abs().max(..).item::<f64>() < 1e-12);
    assert!((found.1 - expected.1).abs().max(..).item::<f64>() < 1e-12);
    let empty = Tensor::zeros([0, 2], DType::F64);
    assert_eq!(over_rows(&empty, &w).to_vec::<f64>(), [0.0, 0.0]);
}

#[traced]
fn large_numbers(x: &Tensor) -> Tensor {
    let last = x.slice([1], [9223372036854775807i64], [1]);
    last + Tensor::full([], 3_000_000_000i64, DType::I64).cast(DType::F64)
}

#[test]
fn a_static_argument_beyond_32_bits_keeps_its_value() {
    let x = Tensor::from([1.0f64, 2.0]);
    assert_eq!(large_numbers::vjp(&x).0.to_vec::<f64>(), [3_000_000_002.0]);
}

/// The address of a row that is fetched ahead is computed from an index that nobody has checked yet.
#[test]
fn indices_of_any_size_are_out_of_range_and_do_not_overflow() {
    let (table, rows) = (
        Tensor::zeros([50, 16], DType::F32),
        Tensor::ones([40, 16], DType::F32),
    );
    for wrong in [-51, 50, i64::MIN, i64::MAX] {
        for place in [0, 20, 39] {
            let mut ids = [3i64; 40];
            ids[place] = wrong;
            let ids = Tensor::from(ids);
            for (name, result) in [
                ("segment_sum", rows.segment_sum(&ids, 50)),
                ("scatter_add", table.scatter_add(&ids, &rows, 0)),
                ("scatter_set", table.scatter_set(&ids, &rows, 0)),
                ("take", table.take(&ids, 0)),
            ] {
                let error = result.try_to_vec::<f32>().unwrap_err().to_string();
                let expected = format!(
                    "index {wrong} at position {place} is out of range for an axis of length 50"
                );
                assert!(error.contains(&expected), "{name}: {error}");
            }
        }
    }
}

/// Checks `searchsorted` against a count, for vectors along the last axis of `x` and values of the shape `[rows, m]`.
fn check_places(x: &[f64], values: &[f64], rows: usize) {
    let (n, m) = (x.len() / rows, values.len() / rows);
    let less = |x: f64, value: f64| !x.is_nan() && (x < value || value.is_nan());
    let place = |i: usize| {
        let vector = &x[i / m * n..][..n];
        vector.iter().filter(|x| less(**x, values[i])).count() as i64
    };
    let expected: Vec<i64> = (0..values.len()).map(place).collect();
    let x = Tensor::from_vec(x.to_vec(), [rows, n]);
    let values = Tensor::from_vec(values.to_vec(), [rows, m]);
    for dtype in [DType::F64, DType::F32] {
        let (x, values) = (x.cast(dtype), values.cast(dtype));
        assert_eq!(x.searchsorted(&values).to_vec::<i64>(), expected);
        let both = vmap(|(x, values): &(Tensor, Tensor)| x.searchsorted(values));
        assert_eq!(both(&(x.clone(), values.clone())).to_vec::<i64>(), expected);
        if rows == 1 {
            let one = vmap(|value: &Tensor| x.row(0).searchsorted(value));
            assert_eq!(one(&values.row(0)).to_vec::<i64>(), expected);
        }
    }
}

#[test]
fn places_in_sorted_vectors_are_counts_of_lesser_elements() {
    for n in [1, 2, 31, 32, 33, 40, 63, 64, 65, 1000] {
        for rows in [1, 3] {
            // Many elements are equal, zeros have both signs, and each vector ends with NaN.
            let element = |i: usize| match i % n {
                j if j + 1 + n / 10 > n => f64::NAN,
                j if j == n / 2 => -0.0,
                j => (j as f64 / 3.0).floor() - (n as f64 / 6.0).floor(),
            };
            let mut x: Vec<f64> = (0..rows * n).map(element).collect();
            x.chunks_mut(n).for_each(|row| row.sort_by(f64::total_cmp));
            let value = |i: usize| match i % 37 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                _ => (i * 7919 % 1009) as f64 / 1009.0 * n as f64 / 2.0 - n as f64 / 4.0,
            };
            for m in [1, 15, 16, 17, 5000] {
                let values: Vec<f64> = (0..rows * m).map(value).collect();
                check_places(&x, &values, rows);
            }
        }
    }
    let integers = Tensor::arange(100, DType::I32) * 2;
    let found = integers.searchsorted(Tensor::from([-1i32, 0, 7, 198, 199]));
    assert_eq!(found.to_vec::<i64>(), [0, 0, 4, 99, 100]);
}
