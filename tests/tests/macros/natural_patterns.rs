//! Numbers and other `Copy` values that patterns bind by value to parts of trees.
//!
//! Each body is a traced function and a plain one. The companions of the first are compared with
//! derivatives of the second, for each variant.
#![allow(clippy::redundant_guards)] // guards are one of the forms

use gradloom::prelude::*;
use gradloom::tree::assert_close;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Fast,
    Slow(usize),
}

#[derive(Clone, Tree)]
enum Schedule {
    Constant(#[tree(skip)] f64),
    Warmup {
        #[tree(skip)]
        steps: usize,
        #[tree(skip)]
        peak: f64,
    },
    Learnt {
        w: Tensor,
        #[tree(skip)]
        k: f64,
    },
    Moded(#[tree(skip)] Mode),
}

#[derive(Clone, Tree)]
struct Config {
    #[tree(skip)]
    rate: f64,
    #[tree(skip)]
    steps: usize,
    w: Tensor,
}

#[derive(Clone, Tree)]
struct Outer {
    inner: Schedule,
    y: Tensor,
}

#[derive(Clone, Tree)]
struct Held {
    held: Option<Box<Schedule>>,
    outer: Option<Outer>,
}

#[derive(Clone, Tree)]
struct Model {
    x: Tensor,
    schedule: Schedule,
    config: Config,
    many: Vec<Schedule>,
    boxed: Box<Schedule>,
    held: Option<Box<Schedule>>,
    outer: Option<Outer>,
    #[tree(skip)]
    counts: Vec<usize>,
    #[tree(skip)]
    rates: Vec<f64>,
    #[tree(skip)]
    pairs: Vec<(usize, f64)>,
    #[tree(skip)]
    option: Option<f64>,
}

#[traced]
impl Schedule {
    fn rate(&self, step: &Tensor) -> Tensor {
        match *self {
            Schedule::Constant(rate) => step.full_like(rate),
            Schedule::Warmup { steps, peak } => (step / steps as f64).minimum(peak) * (0.5 * peak),
            Schedule::Learnt { ref w, k } => step * w * (k * 2.0),
            Schedule::Moded(mode) if mode == Mode::Fast => step.cos(),
            Schedule::Moded(_) => step.sin(),
        }
    }
}

#[traced]
fn made(x: &Tensor) -> Schedule {
    let w = x.sin();
    Schedule::Learnt { w, k: 2.5 }
}

#[traced]
fn maybe(x: &Tensor) -> Held {
    let inner = made(x);
    let held = Some(Box::new(made(x)));
    let outer = Some(Outer { inner, y: x.cos() });
    Held { held, outer }
}

fn argument(variant: usize) -> Model {
    let tensor = |k: f64| Tensor::from([0.3 + k, -0.2 * k, 0.5]);
    let schedule = |variant| match variant {
        0 => Schedule::Constant(0.3),
        1 => Schedule::Warmup {
            steps: 4,
            peak: 0.7,
        },
        2 => Schedule::Learnt {
            w: tensor(0.2),
            k: 1.5,
        },
        3 => Schedule::Moded(Mode::Slow(3)),
        _ => Schedule::Moded(Mode::Fast),
    };
    Model {
        x: tensor(0.1),
        schedule: schedule(variant),
        config: Config {
            rate: 0.3,
            steps: 5,
            w: tensor(0.6),
        },
        many: (0..5).map(schedule).collect(),
        boxed: Box::new(schedule(variant)),
        held: Some(Box::new(schedule(variant))),
        outer: Some(Outer {
            inner: schedule(variant),
            y: tensor(0.9),
        }),
        counts: vec![1, 2, 3],
        rates: vec![0.1, 0.2],
        pairs: vec![(1, 0.2), (3, 0.4)],
        option: (variant > 1).then_some(0.7),
    }
}

/// Makes a test of each body, whose parameter is `m`.
macro_rules! patterns {
    ($($name:ident |$m:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($m: &Model) -> Tensor $body
            fn plain($m: &Model) -> Tensor $body
            for variant in [0, 1, 2, 3, 4, 0, 2] {
                let m = argument(variant);
                let (y, pull) = gradloom::vjp(plain, &m);
                let grads = pull.call(&y.ones_like());
                assert_close(&f(&m), &y, 1e-12);
                let (value, pull) = f::vjp(&m);
                assert_close(&value, &y, 1e-12);
                assert_close(&pull(&y.ones_like()), &grads, 1e-12);
                let (value, tangent) = f::jvp(&m, &m);
                let (_, expected) = gradloom::jvp(plain, &m, &m);
                assert_close(&value, &y, 1e-12);
                assert_close(&tangent, &expected, 1e-12);
            }
        }
    )*};
}

patterns! {
    method |m| { m.schedule.rate(&m.x) }
    field |m| { let step = &m.x; match m.schedule { Schedule::Constant(rate) => step.full_like(rate), Schedule::Warmup { steps, peak } => (step / steps as f64).minimum(peak) * (0.5 * peak), Schedule::Learnt { ref w, k } => step * w * (k * 2.0), Schedule::Moded(mode) => step * match mode { Mode::Fast => 2.0, Mode::Slow(n) => n as f64 } } }
    bound |m| { let mut y = m.x.clone(); for s in &m.many { y = match *s { Schedule::Constant(rate) => y * rate, Schedule::Warmup { steps, peak } => y * (steps as f64 * peak), Schedule::Learnt { ref w, k } => y * w * k, Schedule::Moded(mode) => if mode == Mode::Fast { y.sin() } else { y.cos() } }; } y }
    if_let |m| { if let Schedule::Warmup { steps, peak } = m.schedule { &m.x * (steps as f64 * peak) } else { m.x.sin() } }
    let_else |m| { let Schedule::Warmup { steps, peak } = m.schedule else { return m.x.sin(); }; &m.x * (steps as f64 * peak) }
    let_struct |m| { let Config { rate, steps, .. } = m.config; &m.x * (0.5 * rate) + steps as f64 }
    let_ref |m| { let Config { rate, steps, w } = &m.config; &m.x * (0.5 * *rate) + w * *steps as f64 }
    mixed |m| { let Config { rate, steps, ref w } = m.config; &m.x * (0.5 * rate) + w * steps as f64 }
    boxed |m| { match *m.boxed { Schedule::Constant(rate) => &m.x * rate, Schedule::Learnt { ref w, k } => &m.x * w * k, _ => m.x.sin() } }
    list |m| { let mut y = m.x.clone(); for &n in &m.counts { y = y * (2.0 * n as f64); } y }
    rates |m| { let mut y = m.x.clone(); for &r in &m.rates { y = y * (2.0 * r); } y }
    rates_iter |m| { let mut y = m.x.clone(); for (i, &r) in m.rates.iter().enumerate() { y = y * (2.0 * r) + i as f64; } y }
    rates_star |m| { let mut y = m.x.clone(); for r in &m.rates { y = y * (2.0 * *r); } y }
    pairs |m| { let mut y = m.x.clone(); for &(n, r) in &m.pairs { y = y * (2.0 * r) + n as f64; } y }
    opt |m| { match m.option { Some(k) => &m.x * (2.0 * k), None => m.x.sin() } }
    opt_if |m| { let mut y = m.x.sin(); if let Some(k) = m.option { y = y * (2.0 * k); } y }
    opt_ref |m| { let mut y = m.x.sin(); if let Some(&k) = m.option.as_ref() { y = y * (2.0 * k); } y }
    amp |m| { match &m.schedule { &Schedule::Constant(rate) => &m.x * (0.5 * rate), &Schedule::Learnt { ref w, k } => &m.x * w * (0.5 * k), _ => m.x.sin() } }
    whole_mode |m| { match m.schedule { Schedule::Moded(mode @ Mode::Slow(n)) => { let k = if mode == Mode::Fast { 1.0 } else { 2.0 }; &m.x * k * n as f64 }, _ => m.x.sin() } }
    guard |m| { match m.schedule { Schedule::Constant(r) if r > 0.1 => &m.x * (2.0 * r), Schedule::Warmup { steps, .. } if steps > 2 => m.x.square(), _ => m.x.sin() } }
    mutable |m| { match m.schedule { Schedule::Constant(mut r) => { r *= 2.0; &m.x * r }, _ => m.x.sin() } }
    local_match |m| { let s = made(&m.x); match s { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.sin() } }
    local_match_ref |m| { let s = made(&m.x); match &s { Schedule::Learnt { w, k } => w * &m.x * *k, _ => m.x.sin() } }
    or |m| { match m.schedule { Schedule::Constant(r) | Schedule::Warmup { peak: r, .. } => &m.x * (0.5 * r), _ => m.x.sin() } }
    tuple |m| { match (&m.schedule, m.option) { (Schedule::Constant(r), _) => &m.x * *r, (_, Some(k)) => &m.x * (2.0 * k), _ => m.x.sin() } }
    nested |m| { match m.schedule { Schedule::Constant(r) => match m.option { Some(k) => &m.x * (r * k), None => &m.x * (2.0 * r) }, _ => m.x.sin() } }
    number |m| { let n = match m.schedule { Schedule::Constant(r) => r, Schedule::Warmup { peak, .. } => peak, _ => 1.0 }; &m.x * n }
    moved_clone |m| { match m.schedule.clone() { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.sin() } }
    moved_box |m| { match m.held.clone() { Some(b) => match *b { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
    moved_mut_box |m| { match m.held.clone() { Some(mut b) => match *b { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
    moved_field |m| { match m.outer.clone() { Some(o) => match o.inner { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
    moved_mut_field |m| { match m.outer.clone() { Some(mut o) => match o.inner { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
    moved_part |m| { let o = m.outer.clone(); if let Some(o) = o { o.y * &m.x } else { m.x.sin() } }
    moved_let |m| { let Config { w, rate, .. } = m.config.clone(); w * &m.x * rate }
    moved_tuple |m| { match (m.outer.clone(), m.counts.len()) { (Some(o), n) => o.y * n as f64, _ => m.x.sin() } }
    local_mut_box |m| { let o = maybe(&m.x); match o.held { Some(mut b) => match *b { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
    local_mut_field |m| { let o = maybe(&m.x); match o.outer { Some(mut o) => match o.inner { Schedule::Learnt { w, k } => w * &m.x * k, _ => m.x.cos() }, None => m.x.sin() } }
}
