//! Tests of attention beyond the cases of the op table.

use crate::Aval;
use crate::backend::cpu::tests::cases::{Numbers, draw};
use crate::backend::cpu::tests::run::{plan, run, run_one};
use crate::backend::cpu::tests::view::{View, array_of, bits, view_of};
use gradloom_ir::op::NdArray;
use gradloom_ir::{DType, Program};

/// Returns operands of `attention_vjp`: queries, keys, values, the result, the log-sum-exp, the
/// cotangent.
fn operands(queries: usize, keys: usize, d: usize) -> Vec<NdArray> {
    let mut numbers = Numbers(9);
    let shapes = [
        vec![queries, d],
        vec![keys, d],
        vec![keys, d],
        vec![queries, d],
        vec![queries],
        vec![queries, d],
    ];
    let of = |shape: Vec<usize>| draw(&mut numbers, &Aval::new(DType::F64, shape), (-2.0, 2.0));
    shapes.map(of).into()
}

fn text(queries: usize, keys: usize, d: usize) -> [String; 2] {
    let params = format!(
        "q: f64[{queries}, {d}], k: f64[{keys}, {d}], v: f64[{keys}, {d}], o: f64[{queries}, {d}], l: f64[{queries}], ct: f64[{queries}, {d}]"
    );
    [
        format!("({params}) {{ y = attention[causal=true] q, k, v return y }}"),
        format!(
            "({params}) {{ a, b, c = attention_vjp[causal=true, active=[0, 1, 2]] q, k, v, o, l, ct return a, b, c }}"
        ),
    ]
}

/// Returns the bits of each result.
fn results(text: &str, args: &[NdArray]) -> Vec<Vec<u64>> {
    let program: Program = text.parse().unwrap();
    let args: Vec<View> = args.iter().map(|nd| view_of(DType::F64, nd)).collect();
    run(&program, &args).unwrap().iter().map(bits).collect()
}

#[test]
fn values_hidden_by_the_causal_mask_are_not_read() {
    let (n, d, cut) = (200, 5, 150);
    let [value, pullback] = text(n, n, d);
    let clean = operands(n, n, d);
    let of = |args: &[NdArray]| {
        let mut all = results(&value, args);
        all.extend(results(&pullback, args));
        all
    };
    let same = |bad: &[NdArray], rows: std::ops::Range<usize>, which: &[usize]| {
        let (clean, bad) = (of(&clean), of(bad));
        let rows = rows.start * d..rows.end * d;
        for &i in which {
            assert_eq!(bad[i][rows.clone()], clean[i][rows.clone()], "result {i}");
        }
    };
    for bad in [f64::NAN, f64::INFINITY] {
        // Keys and values from `cut` on, which earlier queries do not see.
        let mut args = clean.clone();
        for i in [1, 2] {
            args[i].data[cut * d..].fill(bad);
        }
        same(&args, 0..cut, &[0, 1]);
        // Queries before 60, which do not see later keys.
        let mut args = clean.clone();
        for i in [0, 3, 5] {
            args[i].data[..60 * d].fill(bad);
        }
        same(&args, 60..n, &[0, 1, 2, 3]);
    }
}

#[test]
fn scores_of_minus_infinity_have_weight_zero() {
    let inf = f64::INFINITY;
    let text = "(q: f64[2, 1], k: f64[100, 1], v: f64[100, 1]) { o = attention[causal=false] q, k, v return o }";
    let of = |k: Vec<f64>| {
        let v = (0..100).map(f64::from).collect();
        let [q, k, v] = [(vec![1.0, -1.0], 2), (k, 100), (v, 100)].map(|(data, n)| NdArray {
            shape: vec![n, 1],
            data,
        });
        let args: Vec<View> = [q, k, v].iter().map(|nd| view_of(DType::F64, nd)).collect();
        array_of(&run_one(text, &args).unwrap()).data
    };
    // For query 0, all scores of the first block of keys are -inf. For query 1 these are +inf.
    let mut k = vec![-inf; 90];
    k.extend([0.0; 10]);
    let found = of(k);
    assert!((found[0] - 94.5).abs() < 1e-12, "{found:?}");
    assert!(found[1].is_nan(), "inf minus inf: {found:?}");
    assert!(of(vec![-inf; 100])[0].is_nan());
    let mut k = vec![0.0; 100];
    k[97] = 1e6;
    assert_eq!(of(k)[0], 97.0);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (queries, keys, d) = (700, 650, 9);
    let args = operands(queries, keys, d);
    let of = |n| {
        gradloom_kernels::threads::set_threads(n);
        text(queries, keys, d).map(|text| results(&text, &args))
    };
    let one = of(1);
    for n in [2, 3, 7] {
        assert_eq!(of(n), one, "{n} threads");
    }
}

/// Returns the bits of the result and of the cotangents of queries, keys and values.
fn masked(args: [&NdArray; 4], mask: Option<&NdArray>, causal: bool) -> Vec<Vec<u64>> {
    let names = ["q", "k", "v", "ct"];
    let mut params: Vec<String> = std::iter::zip(names, args)
        .map(|(name, nd)| format!("{name}: f64{:?}", nd.shape))
        .collect();
    params.extend(mask.map(|mask| format!("mask: bool{:?}", mask.shape)));
    let (params, mask_arg) = (
        params.join(", "),
        if mask.is_some() { ", mask" } else { "" },
    );
    let text = format!(
        "({params}) {{
            o = attention[causal={causal}] q, k, v{mask_arg}
            l = attention_lse[causal={causal}] q, k{mask_arg}
            a, b, c = attention_vjp[causal={causal}, active=[0, 1, 2]] q, k, v, o, l{mask_arg}, ct
            return o, a, b, c
        }}"
    );
    let program: Program = text.parse().unwrap();
    let mut args = args.map(|nd| view_of(DType::F64, nd)).to_vec();
    args.extend(mask.map(|mask| view_of(DType::Bool, mask)));
    run(&program, &args).unwrap().iter().map(bits).collect()
}

/// Returns queries, keys, values and a cotangent.
fn four(queries: usize, keys: usize, d: usize) -> [NdArray; 4] {
    let all = operands(queries, keys, d);
    [0, 1, 2, 5].map(|i| all[i].clone())
}

fn mask_of(queries: usize, keys: usize, sees: impl Fn(usize, usize) -> bool) -> NdArray {
    NdArray::build(&[queries, keys], |i| f64::from(u8::from(sees(i[0], i[1]))))
}

#[test]
fn a_mask_of_true_changes_no_bits_and_a_broadcast_mask_has_the_bits_of_its_copy() {
    let (queries, keys, d) = (150, 130, 5);
    let all = four(queries, keys, d);
    let args = all.each_ref();
    for causal in [false, true] {
        let everything = mask_of(queries, keys, |_, _| true);
        let plain = masked(args, None, causal);
        assert_eq!(masked(args, Some(&everything), causal), plain);
        let one = NdArray::build(&[1, 1], |_| 1.0);
        assert_eq!(masked(args, Some(&one), causal), plain);
        for (n, m) in [(1, keys), (queries, 1)] {
            let mut numbers = Numbers(3);
            let few = draw(&mut numbers, &Aval::new(DType::Bool, [n, m]), (0.0, 1.0));
            let copy = NdArray::build(&[queries, keys], |i| few.spread(&i));
            let both = [few, copy].map(|mask| masked(args, Some(&mask), causal));
            assert_eq!(both[0], both[1], "{n} x {m}");
        }
    }
}

#[test]
fn hidden_blocks_and_hidden_trailing_keys_change_no_bits() {
    let (queries, keys, d) = (300, 400, 5);
    let [q, k, v, ct] = four(queries, keys, d);
    // Hides whole blocks of keys at the start, and any number of keys at the end.
    for seen in [0..192, 0..250, 96..400, 192..385] {
        let mask = mask_of(1, keys, |_, j| seen.contains(&j));
        let found = masked([&q, &k, &v, &ct], Some(&mask), false);
        let rows = seen.start * d..seen.end * d;
        let part = |x: &NdArray| NdArray {
            shape: vec![seen.len(), d],
            data: x.data[rows.clone()].to_vec(),
        };
        let expected = masked([&q, &part(&k), &part(&v), &ct], None, false);
        assert_eq!(found[..2], expected[..2], "{seen:?}");
        for i in [2, 3] {
            assert_eq!(found[i][rows.clone()], expected[i][..], "{seen:?}");
            let others = found[i][..rows.start].iter().chain(&found[i][rows.end..]);
            assert!(others.into_iter().all(|bits| *bits == 0), "{seen:?}");
        }
    }
}

#[test]
fn masked_elements_are_not_read_and_a_query_without_keys_gives_zero() {
    let (n, d) = (200, 5);
    let clean = four(n, n, d);
    let bad_one = |i: usize| i % 40 == 7;
    let blind = |i: usize| i % 50 == 3;
    for causal in [false, true] {
        let mask = mask_of(n, n, |i, j| !bad_one(j) && !blind(i) && (i + j) % 3 > 0);
        let expected = masked(clean.each_ref(), Some(&mask), causal);
        for bad in [f64::NAN, f64::INFINITY] {
            // Keys and values that no query sees, and queries that see no key.
            let mut args = clean.clone();
            for row in (0..n).filter(|i| bad_one(*i)) {
                args[1].data[row * d..][..d].fill(bad);
                args[2].data[row * d..][..d].fill(bad);
            }
            for row in (0..n).filter(|i| blind(*i)) {
                args[0].data[row * d..][..d].fill(bad);
                args[3].data[row * d..][..d].fill(bad);
            }
            let found = masked(args.each_ref(), Some(&mask), causal);
            assert_eq!(found, expected, "{bad}, causal: {causal}");
            for (i, hidden) in [(0, true), (1, true), (2, false), (3, false)] {
                let of = |row: &usize| if hidden { blind(*row) } else { bad_one(*row) };
                let mut rows = (0..n).filter(of).flat_map(|row| &found[i][row * d..][..d]);
                assert!(rows.all(|bits| *bits == 0), "result {i}");
            }
        }
    }
}

#[test]
fn bits_with_a_mask_do_not_depend_on_the_number_of_threads() {
    let (queries, keys, d) = (700, 650, 9);
    let args = four(queries, keys, d);
    let mask = mask_of(queries, keys, |i, j| i.abs_diff(j) < 100 && (i + j) % 5 > 0);
    let of = |n| {
        gradloom_kernels::threads::set_threads(n);
        masked(args.each_ref(), Some(&mask), false)
    };
    let one = of(1);
    for n in [2, 3] {
        assert_eq!(of(n), one, "{n} threads");
    }
}

#[test]
fn the_matrix_of_weights_is_not_materialised() {
    let (n, d) = (2048, 64);
    let x = format!("f32[{n}, {d}]");
    let text = format!(
        "(q: {x}, k: {x}, v: {x}, ct: {x}, mask: bool[1, {n}]) {{
            o = attention[causal=true] q, k, v, mask
            l = attention_lse[causal=true] q, k, mask
            a, b, c = attention_vjp[causal=true, active=[0, 1, 2]] q, k, v, o, l, mask, ct
            return a, b, c
        }}"
    );
    let program: Program = text.parse().unwrap();
    let mut args: Vec<View> = (0..4)
        .map(|_| View::new(vec![0.5f32; n * d], &[n, d]))
        .collect();
    args.push(View::new(vec![true; n], &[1, n]));
    let plan = plan(&program, &args);
    // The log-sum-exp is a by-product of the result.
    assert_eq!(plan.n_tasks(), 2);
    let rows = n * d * 4;
    assert!(plan.arena() <= 8 * rows, "{} rows", plan.arena() / rows);
}
