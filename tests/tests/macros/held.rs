//! Parts of trees in local lists, maps, options and tuples: none becomes a constant.
//!
//! Each body is a traced function and a plain one. The companions of the first are compared with
//! derivatives of the second, at two calls.

use gradloom::prelude::*;
use gradloom::tree::assert_close;
use std::collections::{BTreeMap, HashMap, VecDeque};

#[derive(Clone, Tree)]
struct State {
    h: Tensor,
    c: Tensor,
    #[tree(skip)]
    k: usize,
    #[tree(skip)]
    name: String,
}

#[traced]
fn step(x: &Tensor, s: &State) -> State {
    let c = &s.c * 0.5 + x * &s.h;
    State {
        h: c.tanh(),
        c,
        k: s.k,
        name: s.name.clone(),
    }
}

#[traced]
fn product(xs: &[Tensor]) -> Tensor {
    let mut y = xs[0].clone();
    for x in &xs[1..] {
        y = y * x;
    }
    y
}

fn arguments() -> (Vec<Tensor>, State) {
    let xs = [[0.3f64, -0.2, 0.5], [0.7, 0.1, -0.4]].map(Tensor::from);
    let state = State {
        h: Tensor::from([0.2f64, 0.4, 0.6]),
        c: Tensor::from([-0.1f64, 0.9, 0.3]),
        k: 3,
        name: "a".to_owned(),
    };
    (xs.to_vec(), state)
}

/// Makes a test of each body, whose parameters are `xs` and `p`.
macro_rules! held {
    ($($name:ident |$xs:ident, $p:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($xs: &[Tensor], $p: &State) -> Tensor $body
            fn plain($xs: &[Tensor], $p: &State) -> Tensor $body
            let (xs, p) = arguments();
            let (y, pull) = gradloom::vjp(
                |(xs, p): &(Vec<Tensor>, State)| plain(xs, p),
                &(xs.clone(), p.clone()),
            );
            let grads = pull.call(&y.ones_like());
            for _ in 0..2 {
                assert_close(&f(&xs, &p), &y, 1e-12);
                let (value, pull) = f::vjp(&xs, &p);
                assert_close(&value, &y, 1e-12);
                assert_close(&pull(&y.ones_like()), &grads, 1e-12);
                let (value, tangent) = f::jvp((&xs, &p), (&xs, &p));
                let (_, expected) = gradloom::jvp(
                    |(xs, p): &(Vec<Tensor>, State)| plain(xs, p),
                    &(xs.clone(), p.clone()),
                    &(xs.clone(), p.clone()),
                );
                assert_close(&tangent, &expected, 1e-12);
            }
        }
    )*};
}

held! {
    stack_plus |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } Tensor::stack(&l, 0).sum(0) + &s.c }
    stack_only |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } Tensor::stack(&l, 0).sum(0) }
    stack_c |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.c); s.c = s.h.clone(); } Tensor::stack(&l, 0).sum(0) * &s.h }
    index |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } &l[0] * &l[1] }
    iter |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } let mut y = s.c.clone(); for t in &l { y = y * t; } y }
    fold |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } l.iter().fold(s.c.clone(), |a, t| a * t) }
    pop |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } l.pop().unwrap() * &s.c }
    last |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } l.last().unwrap() * &s.c }
    first |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } let t = l.first().unwrap(); t * &s.c }
    helper |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } product(&l) * &s.c }
    helper2 |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.h.clone()); } product(&l) }
    deque |xs, p| { let mut s = step(&xs[0], p); let mut l = VecDeque::new(); for x in xs { s = step(x, &s); l.push_back(s.h.clone()); } let mut y = s.c.clone(); for t in &l { y = y * t; } y }
    deque_pop |xs, p| { let mut s = step(&xs[0], p); let mut l = VecDeque::new(); for x in xs { s = step(x, &s); l.push_back(s.h.clone()); } l.pop_front().unwrap() * l.pop_front().unwrap() }
    map |xs, p| { let mut s = step(&xs[0], p); let mut m = BTreeMap::new(); for (i, x) in xs.iter().enumerate() { s = step(x, &s); m.insert(i, s.h.clone()); } &m[&0] * &m[&1] }
    map_values |xs, p| { let mut s = step(&xs[0], p); let mut m = BTreeMap::new(); for (i, x) in xs.iter().enumerate() { s = step(x, &s); m.insert(i, s.h.clone()); } let mut y = s.c.clone(); for t in m.values() { y = y * t; } y }
    map_param |xs, p| { let s = step(&xs[0], p); let mut m = BTreeMap::new(); m.insert(0, p.h.clone()); m.insert(1, p.c.clone()); &m[&0] * &m[&1] * &s.h }
    opt |xs, p| { let mut s = step(&xs[0], p); let mut o = None; for x in xs { s = step(x, &s); o = Some(s.h.clone()); } o.unwrap() * &s.c }
    opt_let |xs, p| { let mut s = step(&xs[0], p); let mut o = None; for x in xs { s = step(x, &s); o = Some(s.h.clone()); } if let Some(t) = &o { t * &s.c } else { s.c.clone() } }
    param_push |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(p.h.clone()); l.push(p.c.clone()); Tensor::stack(&l, 0).sum(0) * &s.c }
    param_push_i |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(p.h.clone()); l.push(p.c.clone()); &l[0] * &l[1] }
    param_xs |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { l.push(x.clone()); } Tensor::stack(&l, 0).sum(0) * &s.c }
    param_xs_i |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); for i in 0..xs.len() { l.push(xs[i].clone()); } l[1].clone() * &s.c * &l[0] }
    extend |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.extend([p.h.clone(), s.c.clone()]); &l[0] * &l[1] }
    extend2 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.extend(xs.iter().cloned()); &l[0] * &l[1] }
    extend3 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.extend_from_slice(xs); &l[0] * &l[1] }
    insert0 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.insert(0, p.h.clone()); l.insert(0, s.c.clone()); &l[0] * &l[1] }
    resize |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.resize(3, p.h.clone()); &l[0] * &l[1] }
    boxed |xs, p| { let s = step(&xs[0], p); let b = Box::new(p.h.clone()); &*b * &s.c }
    rc |xs, p| { let s = step(&xs[0], p); let b = std::rc::Rc::new(p.h.clone()); &*b * &s.c }
    once |xs, p| { let s = step(&xs[0], p); let l: Vec<Tensor> = std::iter::once(p.h.clone()).chain(std::iter::once(s.c.clone())).collect(); &l[0] * &l[1] }
    tuple |xs, p| { let s = step(&xs[0], p); let t = (p.k, p.h.clone()); &t.1 * t.0 as f64 * &s.c }
    tuples |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push((s.k, s.h.clone())); } let mut y = s.c.clone(); for (k, t) in &l { y = y * t * *k as f64; } y }
    dims |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.k); } (&s.h * l[0] as f64) * &s.c }
    dims2 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(p.k); l.push(s.k); let n: usize = l.iter().sum(); (&s.h * n as f64) * &s.c }
    dims4 |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.k); } Tensor::stack(&[&s.h, &s.c], 0).sum(0) * l.len() as f64 * l[1] as f64 }
    names |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(p.name.clone()); l.push(s.name.clone()); if l[0].len() == l[1].len() { &s.h * &s.c } else { s.h.clone() } }
    mat |xs, p| { let mut s = step(&xs[0], p); let mut rows = Vec::new(); for x in xs { let mut r = Vec::new(); for y in xs { s = step(x, &s); r.push(&s.h * y); } rows.push(Tensor::stack(&r, 0)); } Tensor::stack(&rows, 0).sum((0, 1)) + &s.c }
    states |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push(s.clone()); } let mut y = s.c.clone(); for t in &l { y = y * &t.h; } y }
    states2 |xs, p| { let s = step(&xs[0], p); let mut l = vec![s.clone()]; for x in xs { let t = step(x, &l[l.len() - 1]); l.push(t); } &l[1].h * &l[2].c }
    swap |xs, p| { let mut s = step(&xs[0], p); let mut h = p.h.clone(); std::mem::swap(&mut h, &mut s.h); h * &s.c * &s.h }
    some_ref |xs, p| { let mut s = step(&xs[0], p); let mut best = None; for x in xs { s = step(x, &s); if x.dim(0) == 3 { best = Some(s.h.clone()); } } match best { Some(t) => t * &s.c, None => s.c.clone() } }
    push_ref |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { l.push(x); } l[0] * l[1] }
    push_ref2 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(&p.h); l.push(&p.c); l[0] * l[1] * &s.c }
    push_ref3 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(&p.h); l.push(&p.c); Tensor::stack(&l, 0).sum(0) * &s.c }
    push_ref4 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(&p.h); l.push(&p.c); let mut y = s.c.clone(); for t in l { y = y * t; } y }
    tuples_i |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for (i, x) in xs.iter().enumerate() { s = step(x, &s); l.push((i, s.h.clone())); } let mut y = s.c.clone(); for (k, t) in &l { y = y * t * *k as f64; } y }
    tuples_t |xs, p| { let mut s = step(&xs[0], p); let mut l = Vec::new(); for x in xs { s = step(x, &s); l.push((s.h.clone(), s.c.clone())); } let mut y = s.c.clone(); for (k, t) in &l { y = y * t * k; } y }
    tuples_v |xs, p| { let s = step(&xs[0], p); let l = vec![(2.0, s.h.clone()), (3.0, s.c.clone())]; let mut y = s.c.clone(); for (k, t) in &l { y = y * t * *k; } y }
    p_first |xs, p| { let s = step(&xs[0], p); let t = xs.first().unwrap(); t * &s.c }
    p_last |xs, p| { let s = step(&xs[0], p); xs.last().unwrap() * &s.c }
    p_get |xs, p| { let s = step(&xs[0], p); xs.get(1).unwrap() * &s.c }
    p_get2 |xs, p| { let s = step(&xs[0], p); if let Some(t) = xs.get(1) { t * &s.c } else { s.c.clone() } }
    p_next |xs, p| { let s = step(&xs[0], p); let mut it = xs.iter(); let a = it.next().unwrap(); let b = it.next().unwrap(); a * b * &s.c }
    p_max |xs, p| { let s = step(&xs[0], p); let t = xs.iter().max_by_key(|t| t.dim(0)).unwrap(); t * &s.c }
    p_vec |xs, p| { let s = step(&xs[0], p); let v = xs.to_vec(); &v[0] * &v[1] * &s.c }
    p_vec2 |xs, p| { let s = step(&xs[0], p); let v: Vec<&Tensor> = xs.iter().rev().collect(); v[0] * v[1] * &s.c }
    p_vec3 |xs, p| { let s = step(&xs[0], p); let v: Vec<_> = xs.iter().skip(1).cloned().collect(); &v[0] * &s.c }
    p_split |xs, p| { let s = step(&xs[0], p); let (a, b) = xs.split_at(1); &a[0] * &b[0] * &s.c }
    p_split1 |xs, p| { let s = step(&xs[0], p); let (a, b) = xs.split_first().unwrap(); a * &b[0] * &s.c }
    p_chunks |xs, p| { let s = step(&xs[0], p); let mut y = s.c.clone(); for w in xs.chunks(2) { y = y * &w[0] * w.last().unwrap(); } y }
    p_windows |xs, p| { let s = step(&xs[0], p); let mut y = s.c.clone(); for w in xs.windows(2) { y = y * &w[0] + &w[1]; } y }
    p_slice |xs, p| { let s = step(&xs[0], p); let [a, b] = &xs[..] else { return s.c.clone() }; a * b * &s.c }
    p_slice2 |xs, p| { let s = step(&xs[0], p); match xs { [a, .., b] => a * b * &s.c, _ => s.c.clone() } }
    p_concat |xs, p| { let s = step(&xs[0], p); let all: Vec<Tensor> = xs.iter().chain(xs).cloned().collect(); Tensor::stack(&all, 0).sum(0) * &s.c }
    p_zip |xs, p| { let s = step(&xs[0], p); let l: Vec<(usize, &Tensor)> = xs.iter().enumerate().collect(); l[0].1 * l[1].1 * &s.c }
    p_sorted |xs, p| { let s = step(&xs[0], p); let mut l: Vec<&Tensor> = xs.iter().collect(); l.sort_by_key(|t| t.dim(0)); l[0] * l[1] }
    p_unzip |xs, p| { let s = step(&xs[0], p); let (a, b): (Vec<Tensor>, Vec<Tensor>) = xs.iter().map(|t| (t * 2.0, t.sin())).unzip(); &a[0] * &b[1] }
    p_partition |xs, p| { let s = step(&xs[0], p); let (a, b): (Vec<Tensor>, Vec<Tensor>) = xs.iter().cloned().partition(|t| t.dim(0) > 2); &a[0] * &a[1] * b.len() as f64 + &a[0] }
    p_hash |xs, p| { let s = step(&xs[0], p); let mut m = HashMap::new(); for (i, x) in xs.iter().enumerate() { m.insert(i, x); } m[&0] * m[&1] }
    p_struct |xs, p| { let s = step(&xs[0], p); struct Pair<'a>(&'a Tensor, &'a Tensor); let t = Pair(&xs[0], &xs[1]); t.0 * t.1 }
    p_struct2 |xs, p| { let s = step(&xs[0], p); struct P { a: Tensor, n: usize } let t = P { a: xs[0].clone(), n: 2 }; &t.a * t.n as f64 }
    p_if |xs, p| { let s = step(&xs[0], p); let t = if xs.len() > 1 { &xs[1] } else { &xs[0] }; t * &s.c }
    p_if2 |xs, p| { let s = step(&xs[0], p); let t = if xs.len() > 1 { Some(&xs[1]) } else { None }; t.unwrap() * &s.c }
    p_match |xs, p| { let s = step(&xs[0], p); let (a, k) = match xs.len() { 0 => (&s.h, 1.0), _ => (&xs[1], 2.0) }; a * k * &s.c }
    p_fnptr |xs, p| { let s = step(&xs[0], p); let f = |t: &Tensor, k: f64| t * k; f(&xs[0], 2.0) * f(&xs[1], 3.0) }
    p_ret_closure |xs, p| { let s = step(&xs[0], p); let pick = |i: usize| &xs[i]; pick(0) * pick(1) }
    p_ret_closure2 |xs, p| { let s = step(&xs[0], p); let pick = |i: usize| xs[i].clone(); pick(0) * pick(1) }
    p_mut_closure |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); let mut add = |t: &Tensor| l.push(t * 2.0); add(&xs[0]); add(&xs[1]); &l[0] * &l[1] }
    p_foreach |xs, p| { let s = step(&xs[0], p); let mut y = s.c.clone(); xs.iter().for_each(|t| y = &y * t); y }
    p_foreach2 |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); xs.iter().for_each(|t| l.push(t.clone())); &l[0] * &l[1] }
    p_try |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); xs.iter().map(|t| { l.push(t * 2.0); t }).count(); &l[0] * &l[1] }
    p_retain |xs, p| { let s = step(&xs[0], p); let mut l = xs.to_vec(); l.retain(|t| t.dim(0) == 3); &l[0] * &l[1] }
    p_swap |xs, p| { let s = step(&xs[0], p); let mut l = xs.to_vec(); l.swap(0, 1); let a = l.remove(0); a * &l[0] }
    p_drain |xs, p| { let s = step(&xs[0], p); let mut l = xs.to_vec(); let a: Vec<Tensor> = l.drain(..1).collect(); &a[0] * &l[0] }
    p_take |xs, p| { let s = step(&xs[0], p); let mut o = Some(xs[0].clone()); let a = o.take().unwrap(); a * o.unwrap_or(xs[1].clone()) }
    p_replace |xs, p| { let s = step(&xs[0], p); let mut t = xs[0].clone(); let old = std::mem::replace(&mut t, xs[1].clone()); old * t * &s.c }
    p_stateful |xs, p| { let s = step(&xs[0], p); let mut prev = None; let mut y = s.c.clone(); for x in xs { if let Some(p) = prev { y = y * (x - p); } prev = Some(x); } y }
    p_stateful2 |xs, p| { let s = step(&xs[0], p); let mut prev: Option<&Tensor> = None; let mut y = s.c.clone(); for x in xs { if let Some(p) = prev { y = y * (x - p); } prev = Some(x); } y }
    p_stateful3 |xs, p| { let s = step(&xs[0], p); let mut prev = &xs[0]; let mut y = s.c.clone(); for x in xs { y = y * (x - prev * 0.5); prev = x; } y }
    p_while |xs, p| { let s = step(&xs[0], p); let mut stack = vec![xs[0].clone(), xs[1].clone()]; let mut y = s.c.clone(); while let Some(t) = stack.pop() { y = y * t; } y }
    p_cond |xs, p| { let s = step(&xs[0], p); let mut best = &xs[0]; for t in &xs[1..] { if t.dim(0) >= best.dim(0) { best = t; } } best * &s.c }
    p_arr |xs, p| { let s = step(&xs[0], p); let mut a = [xs[0].clone(), xs[1].clone()]; a[1] = &a[0] * 2.0; &a[0] * &a[1] }
    p_arr2 |xs, p| { let s = step(&xs[0], p); let mut a = [xs[0].clone(), xs[1].clone()]; for i in 0..2 { a[i] = a[i].sin(); } &a[0] * &a[1] }
    p_mapped |xs, p| { let s = step(&xs[0], p); let a = [&xs[0], &xs[1]].map(|t| t * 2.0); &a[0] * &a[1] }
    p_string |xs, p| { let s = step(&xs[0], p); let mut m = BTreeMap::new(); m.insert("a".to_string(), xs[0].clone()); m.insert("b".to_string(), xs[1].clone()); &m["a"] * &m["b"] }
    p_entry |xs, p| { let s = step(&xs[0], p); let mut m: BTreeMap<usize, Tensor> = Default::default(); for (i, t) in xs.iter().enumerate() { m.entry(i % 1).and_modify(|v| *v = &*v * t).or_insert(t.clone()); } m.remove(&0).unwrap() }
    p_iife |xs, p| { let s = step(&xs[0], p); let y = (|| { let a = xs[0].clone(); a * &xs[1] })(); y * &s.c }
    p_tryfold |xs, p| { let s = step(&xs[0], p); let y = xs.iter().try_fold(s.c.clone(), |a, t| if t.dim(0) == 3 { Some(a * t) } else { None }); y.unwrap() }
    p_sum |xs, p| { let s = step(&xs[0], p); let l: Vec<Tensor> = xs.iter().map(|t| t.sin()).collect(); l.into_iter().reduce(|a, b| a * b).unwrap() }
    p_last2 |xs, p| { let s = step(&xs[0], p); let mut last = None; for t in xs { last = Some(t * &s.c); } last.unwrap() }
    p_uninit |xs, p| { let s = step(&xs[0], p); let y; if xs.len() > 1 { y = xs[0].clone(); } else { y = xs[1].clone(); } y * &s.c }
    p_box |xs, p| { let s = step(&xs[0], p); let l: Vec<Box<Tensor>> = xs.iter().map(|t| Box::new(t.clone())).collect(); &*l[0] * &*l[1] }
    p_cow |xs, p| { let s = step(&xs[0], p); let t = std::borrow::Cow::Borrowed(&xs[0]); &*t * &s.c }
    p_ref_ref |xs, p| { let s = step(&xs[0], p); let a = &&xs[0]; *a * &s.c }
    p_dyn |xs, p| { let s = step(&xs[0], p); let fs: Vec<Box<dyn Fn(&Tensor) -> Tensor>> = vec![Box::new(|t| t.sin()), Box::new(|t| t * 2.0)]; let mut y = xs[0].clone(); for f in &fs { y = f(&y); } y }
    p_fn_arr |xs, p| { let s = step(&xs[0], p); let fs = [Tensor::sin, Tensor::cos]; let mut y = xs[0].clone(); for f in fs { y = f(&y); } y }
    p_stat |xs, p| { let s = step(&xs[0], p); let n = xs.iter().map(|t| t.dim(0)).max().unwrap(); &xs[0] * n as f64 }
    p_shape |xs, p| { let s = step(&xs[0], p); let mut sh = xs[0].shape().to_vec(); sh.push(1); xs[0].reshape(&sh).squeeze(1) * &s.c }
    to_owned |xs, p| { let s = step(&xs[0], p); let mut l = Vec::new(); l.push(p.h.to_owned()); l.push(Clone::clone(&p.c)); Tensor::stack(&l, 0).sum(0) * &s.c }
    scanned |xs, p| { let s = step(&xs[0], p); let l: Vec<Tensor> = xs.iter().scan(s.c.clone(), |a, t| { *a = &*a * t; Some(a.clone()) }).collect(); &l[0] * &l[1] }
}
