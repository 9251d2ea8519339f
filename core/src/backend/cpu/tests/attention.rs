//! Reference implementation of attention and its derivatives, pair by pair, and tests beyond the
//! cases of the op table.

use crate::Aval;
use crate::backend::cpu::tests::cases::{Numbers, draw};
use crate::backend::cpu::tests::naive::{Nd, log_sum_exp};
use crate::backend::cpu::tests::run::{plan, run, run_one};
use crate::backend::cpu::tests::view::{View, bits, nd_of, view_of};
use gradloom_ir::{DType, Op, Program, Static};

/// A query and a key that it sees, with their head.
#[derive(Clone, Copy)]
struct Pair {
    head: usize,
    i: usize,
    j: usize,
}

/// The operands of an attention, with its sizes.
struct Heads<'a> {
    args: &'a [Nd],
    /// The mask, broadcast to each query and key of each head.
    mask: Option<Nd>,
    causal: bool,
    n: usize,
    queries: usize,
    keys: usize,
}

impl Heads<'_> {
    /// Returns a row of an operand.
    fn row(&self, arg: usize, head: usize, i: usize) -> &[f64] {
        row(&self.args[arg], head, i)
    }

    fn scale(&self) -> f64 {
        let d = *self.args[0].shape.last().unwrap();
        if d == 0 { 1.0 } else { 1.0 / (d as f64).sqrt() }
    }

    fn score(&self, of: Pair) -> f64 {
        let [q, k] = [self.row(0, of.head, of.i), self.row(1, of.head, of.j)];
        dot(q, k) * self.scale()
    }

    fn pairs_of(&self, head: usize, i: usize) -> impl Iterator<Item = Pair> {
        let seen = if self.causal {
            self.keys.min(i + 1)
        } else {
            self.keys
        };
        let sees = move |j: &usize| {
            let at = (head * self.queries + i) * self.keys + j;
            self.mask.as_ref().is_none_or(|mask| mask.data[at] != 0.0)
        };
        (0..seen).filter(sees).map(move |j| Pair { head, i, j })
    }

    fn lse(&self, head: usize, i: usize) -> f64 {
        let scores: Vec<f64> = self.pairs_of(head, i).map(|of| self.score(of)).collect();
        log_sum_exp(&scores)
    }

    /// Returns the weight of a key, from the given log-sum-exp.
    fn weight(&self, of: Pair) -> f64 {
        (self.score(of) - self.args[4].data[of.head * self.queries + of.i]).exp()
    }
}

/// Returns a row of the matrix of a head.
fn row(x: &Nd, head: usize, i: usize) -> &[f64] {
    let shape = &x.shape;
    let [n, d] = [2, 1].map(|from_end| shape[shape.len() - from_end]);
    &x.data[(head * n + i) * d..][..d]
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Adds `x` times `factor` to a row of a matrix.
fn add(out: &mut Nd, head: usize, i: usize, factor: f64, x: &[f64]) {
    let (n, d) = (out.shape[out.shape.len() - 2], x.len());
    let row = &mut out.data[(head * n + i) * d..][..d];
    row.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

pub(super) fn eval(op: Op, statics: &[Static], args: &[Nd], outs: &[Vec<usize>]) -> Vec<Nd> {
    let [q, k] = [&args[0].shape, &args[1].shape];
    let rank = q.len();
    let active = statics.get(1).map_or(&[][..], |s| s.ints().unwrap());
    let (least, n_others) = match op {
        Op::Attention => (3, 0),
        Op::AttentionLse => (2, 0),
        Op::AttentionVjp => (5, 1),
        _ => (5, active.len()),
    };
    let (given, others) = args.split_at(args.len() - n_others);
    let scores = [&q[..rank - 1], &k[rank - 2..rank - 1]].concat();
    let of = Heads {
        args: given,
        mask: given
            .get(least)
            .map(|mask| Nd::build(&scores, |i| mask.spread(&i))),
        causal: statics[0].bool().unwrap(),
        n: q[..rank - 2].iter().product(),
        queries: q[rank - 2],
        keys: k[rank - 2],
    };
    let mut outs: Vec<Nd> = outs.iter().map(|shape| Nd::zeros(shape)).collect();
    for (head, i) in (0..of.n).flat_map(|h| (0..of.queries).map(move |i| (h, i))) {
        let lse = of.lse(head, i);
        if op == Op::AttentionLse {
            outs[0].data[head * of.queries + i] = lse;
            continue;
        }
        let mut along_o = 0.0;
        for pair in of.pairs_of(head, i) {
            let j = pair.j;
            let (q, k, v) = (of.row(0, head, i), of.row(1, head, j), of.row(2, head, j));
            if op == Op::Attention {
                add(&mut outs[0], head, i, (of.score(pair) - lse).exp(), v);
                continue;
            }
            let p = of.weight(pair);
            let o = of.row(3, head, i);
            if op == Op::AttentionVjp {
                let ct = row(&others[0], head, i);
                let ds = p * (dot(ct, v) - dot(ct, o)) * of.scale();
                for (out, which) in outs.iter_mut().zip(active) {
                    match which {
                        0 => add(out, head, i, ds, k),
                        1 => add(out, head, j, ds, q),
                        _ => add(out, head, j, p, ct),
                    }
                }
                continue;
            }
            for (at, which) in active.iter().enumerate() {
                let (dq, dk) = match which {
                    0 => (row(&others[at], head, i), k),
                    1 => (q, row(&others[at], head, j)),
                    _ => {
                        add(&mut outs[0], head, i, p, row(&others[at], head, j));
                        continue;
                    }
                };
                let w = p * dot(dq, dk) * of.scale();
                add(&mut outs[0], head, i, w, v);
                along_o += w;
            }
        }
        if op == Op::AttentionJvp {
            add(&mut outs[0], head, i, -along_o, of.row(3, head, i));
        }
    }
    outs
}

/// Returns operands of `attention_vjp`: queries, keys, values, the result, the log-sum-exp, the
/// cotangent.
fn operands(queries: usize, keys: usize, d: usize) -> Vec<Nd> {
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
fn results(text: &str, args: &[Nd]) -> Vec<Vec<u64>> {
    let program: Program = text.parse().unwrap();
    let args: Vec<View> = args.iter().map(|nd| view_of(DType::F64, nd)).collect();
    run(&program, &args).unwrap().iter().map(bits).collect()
}

#[test]
fn values_hidden_by_the_causal_mask_are_not_read() {
    let (n, d, cut) = (200, 5, 150);
    let [value, pullback] = text(n, n, d);
    let clean = operands(n, n, d);
    let of = |args: &[Nd]| {
        let mut all = results(&value, args);
        all.extend(results(&pullback, args));
        all
    };
    let same = |bad: &[Nd], rows: std::ops::Range<usize>, which: &[usize]| {
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
        let [q, k, v] = [(vec![1.0, -1.0], 2), (k, 100), (v, 100)].map(|(data, n)| Nd {
            shape: vec![n, 1],
            data,
        });
        let args: Vec<View> = [q, k, v].iter().map(|nd| view_of(DType::F64, nd)).collect();
        nd_of(&run_one(text, &args).unwrap()).data
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
fn masked(args: [&Nd; 4], mask: Option<&Nd>, causal: bool) -> Vec<Vec<u64>> {
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
fn four(queries: usize, keys: usize, d: usize) -> [Nd; 4] {
    let all = operands(queries, keys, d);
    [0, 1, 2, 5].map(|i| all[i].clone())
}

fn mask_of(queries: usize, keys: usize, sees: impl Fn(usize, usize) -> bool) -> Nd {
    Nd::build(&[queries, keys], |i| f64::from(u8::from(sees(i[0], i[1]))))
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
        let one = Nd::build(&[1, 1], |_| 1.0);
        assert_eq!(masked(args, Some(&one), causal), plain);
        for (n, m) in [(1, keys), (queries, 1)] {
            let mut numbers = Numbers(3);
            let few = draw(&mut numbers, &Aval::new(DType::Bool, [n, m]), (0.0, 1.0));
            let copy = Nd::build(&[queries, keys], |i| few.spread(&i));
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
        let part = |x: &Nd| Nd {
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
