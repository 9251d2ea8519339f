//! Comparisons of traced functions with plain ones.

use super::{Case, Effect, Outcome, world};
use crate::derivatives::{Companions, entries, near};
use crate::noise;
use crate::observe::{bits, log};
use gradloom::testing::op_by_op;
use gradloom::{Tensor, evaluate, traced};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The value differs from that of the plain or the recorded function.
    Value,
    /// The hidden state afterwards differs.
    Effects,
    /// Two results share a skipped value that those of the plain function do not share, or vice
    /// versa.
    Shares,
    /// A companion differs from the transform of the plain function.
    Derivative,
    /// The function panics, and the plain function does not.
    Panics,
    /// `RECORDED` is `None`, although the function has side effects or reads values.
    Untold,
    /// `RECORDED` is `None`, but its calls are recorded.
    Cliff,
    /// `HASH` equals that of a function with another body.
    Hash,
    /// The function only computes, but `RECORDED` says that it may do more. Counted, not a failure.
    Recorded,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Value => "value",
            Kind::Effects => "effects",
            Kind::Shares => "shares",
            Kind::Derivative => "derivative",
            Kind::Panics => "panics",
            Kind::Untold => "untold",
            Kind::Cliff => "cliff",
            Kind::Hash => "hash",
            Kind::Recorded => "recorded",
        })
    }
}

/// A difference found in a function.
#[derive(Clone, Debug)]
pub struct Report {
    /// Module of the function.
    pub name: &'static str,
    /// Kind of difference.
    pub kind: Kind,
    /// Details, on one line.
    pub message: String,
}

/// Checks each function, and reports functions with equal `HASH` but different texts.
pub fn report(cases: &[Case]) -> Vec<Report> {
    let _guard = world::lock();
    let mut reports: Vec<Report> = cases.iter().flat_map(Case::report).collect();
    reports.extend(equal_hashes(cases));
    reports
}

/// Reports functions that share a hash although their texts differ.
fn equal_hashes(cases: &[Case]) -> Vec<Report> {
    let mut texts: BTreeMap<[u8; 32], &str> = BTreeMap::new();
    let mut reports = Vec::new();
    for case in cases {
        for (hash, text) in [(case.hash, case.source)].into_iter().chain(case.twin) {
            let other = *texts.entry(hash).or_insert(text);
            if other != text {
                reports.push(Report {
                    name: case.name,
                    kind: Kind::Hash,
                    message: difference(other, text),
                });
            }
        }
    }
    reports
}

/// Describes the first line in which two texts differ.
fn difference(a: &str, b: &str) -> String {
    let lines = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    match lines {
        Some((a, b)) => format!("`{}` and `{}` have the same hash", a.trim(), b.trim()),
        None => "two functions of different length have the same hash".to_owned(),
    }
}

/// A call: seed of the arguments, hidden state before it, and choice of static arguments.
struct Round {
    seed: u64,
    state: u64,
    k: usize,
}

/// Seed of arguments that are pending results of ops.
const PENDING_OPS: u64 = 4;

/// Seed of arguments that are pending results of calls.
const PENDING_CALLS: u64 = 5;

/// Calls in an order in which each can see state that an earlier one left behind.
const ROUNDS: [Round; 11] = [
    round(0, 0, 0),
    round(0, 1, 0),
    round(0, 1, 0),
    round(1, 2, 0),
    round(2, 3, 0),
    round(0, 3, 1),
    round(1, 4, 2),
    round(0, 0, 0),
    round(2, 2, 1),
    round(PENDING_OPS, 1, 0),
    round(PENDING_CALLS, 2, 1),
];

const fn round(seed: u64, state: u64, k: usize) -> Round {
    Round { seed, state, k }
}

/// Everything observable about a call.
#[derive(PartialEq)]
struct Seen {
    bits: Vec<Vec<u64>>,
    values: Vec<f64>,
    note: String,
    state: String,
}

fn seen(state: u64, call: impl FnOnce() -> Box<dyn Outcome>) -> Seen {
    world::set(state);
    let y = call();
    let leaves = y.leaves();
    Seen {
        bits: bits(&leaves),
        values: entries(&leaves),
        note: y.note(),
        state: world::snapshot(),
    }
}

#[traced]
fn bent(x: &Tensor) -> Tensor {
    x.sin() * 1.25
}

type Wrong = (Kind, String);

/// A named comparison.
type Check = (&'static str, fn(&Case) -> Result<(), Wrong>);

impl Case {
    /// Returns the leaves of the arguments. For seed 0 the first one is the tensor that bodies
    /// name, and for seed 2 all are the same tensor. For two other seeds they are pending, so each
    /// call needs arguments of its own.
    fn arguments(&self, seed: u64) -> Vec<Tensor> {
        let shared = (seed == 2).then(|| noise(&[3], 7));
        let leaf = |i: usize| match (&shared, seed, i) {
            (Some(x), ..) => x.clone(),
            (None, 0, 0) => world::lazy.clone(),
            (None, PENDING_OPS, _) => noise(&[3], 400 + i as u64).tanh() * 1.5,
            // A call with a pending argument is pending, too.
            (None, PENDING_CALLS, _) => bent(&(noise(&[3], 500 + i as u64) * 0.75)),
            _ => noise(&[3], seed * 100 + i as u64),
        };
        (0..self.leaves).map(leaf).collect()
    }

    fn report(&self) -> Vec<Report> {
        let always: [Check; 4] = [
            ("calls", Case::calls),
            ("calls on results of calls", Case::chained),
            ("two results", Case::sharing),
            ("plans", Case::plans),
        ];
        // If the values differ, so do the derivatives.
        let where_values_agree: [Check; 2] = [
            ("vjp and jvp", Case::companions),
            ("value_and_grad", Case::gradients),
        ];
        let mut reports = self.reports(&always);
        if !reports.iter().any(|found| found.kind == Kind::Value) {
            reports.extend(self.reports(&where_values_agree));
        }
        reports
    }

    fn reports(&self, checks: &[Check]) -> Vec<Report> {
        let mut reports = Vec::new();
        for (what, check) in checks {
            let result = catch_unwind(AssertUnwindSafe(|| check(self)));
            let (kind, message) = match result {
                Ok(Ok(())) => continue,
                Ok(Err(wrong)) => wrong,
                Err(panic) => (Kind::Panics, format!("{what}: {}", text_of(&*panic))),
            };
            reports.push(Report {
                name: self.name,
                kind,
                message: message.replace('\n', " "),
            });
        }
        reports
    }

    fn calls(&self) -> Result<(), Wrong> {
        let functions = [Some(("the function", self.traced)), {
            let record = self.record;
            record.map(|call| ("the function under `record`", call))
        }];
        for (i, Round { seed, state, k }) in ROUNDS.iter().enumerate() {
            let x = || self.arguments(*seed);
            let expected = seen(*state, || op_by_op(|| evaluated((self.plain)(&x(), *k))));
            for (what, call) in functions.iter().flatten() {
                let got = seen(*state, || call(&x(), *k));
                let what = format!("{what}, call {i}");
                expected.compare(&got, self.bits_agree(), &what)?;
            }
        }
        Ok(())
    }

    /// Passes the result of each call on to the next one. Nothing is evaluated between them.
    fn chained(&self) -> Result<(), Wrong> {
        let run = |call: super::Call| {
            let mut x = self.arguments(PENDING_OPS);
            let mut all = Vec::new();
            for k in [0, 1, 0] {
                let leaves = call(&x, k).leaves();
                x[0] = match leaves[0].shape() == x[0].shape() {
                    true => leaves[0].clone(),
                    false => &x[0] * &leaves[0],
                };
                all.extend(leaves);
            }
            all
        };
        let expected = seen(1, || Box::new(op_by_op(|| run(self.plain))));
        let got = seen(1, || Box::new(run(self.traced)));
        expected.compare(&got, self.bits_agree(), "calls on results of calls")
    }

    /// Returns whether both functions give the same bits. They may not if the traced one calls a
    /// companion of a traced function: the plain one then uses the run-time transform of a plain
    /// function, which adds cotangents in another order.
    fn bits_agree(&self) -> bool {
        !["grad", "vjp", "jvp"]
            .iter()
            .any(|transform| self.source.contains(transform))
    }

    fn companions(&self) -> Result<(), Wrong> {
        let rounds = [
            round(1, 2, 0),
            round(1, 3, 0),
            round(3, 4, 1),
            round(PENDING_OPS, 2, 0),
        ];
        for (i, Round { seed, state, k }) in rounds.iter().enumerate() {
            let states = RefCell::new(Vec::new());
            let before = || world::set(*state);
            let after = |what: &'static str| states.borrow_mut().push((what, world::snapshot()));
            let x = self.arguments(*seed);
            let run = |what, call: super::Call, x: &Vec<Tensor>| {
                before();
                let y = call(x, *k).leaves();
                after(what);
                y
            };
            let companions = Companions {
                call: &|x: &Vec<Tensor>| run("the function", self.traced, x),
                vjp: &|x, ct: &Vec<Tensor>| {
                    before();
                    let (y, ct_x) = (self.vjp)(x, *k, ct);
                    after("vjp");
                    (y.leaves(), ct_x)
                },
                jvp: &|x, dx| {
                    before();
                    let (y, dy) = (self.jvp)(x, *k, dx);
                    after("jvp");
                    (y.leaves(), dy)
                },
            };
            // Where the bits differ, `calls` has compared the values: the transforms are those of the traced function.
            let reference = if self.bits_agree() {
                self.plain
            } else {
                self.traced
            };
            let plain = |x: &Vec<Tensor>| run("the plain function", reference, x);
            companions
                .agree_with_transforms(&plain, &x)
                .map_err(|e| (Kind::Derivative, format!("call {i}: {e}")))?;
            same_effects(&states.into_inner())?;
        }
        Ok(())
    }

    fn gradients(&self) -> Result<(), Wrong> {
        let Some(gradient) = self.gradient else {
            return Ok(());
        };
        let mut x = self.arguments(1);
        for state in [1, 2, 3] {
            let mut states = Vec::new();
            world::set(state);
            let (y, g) = gradient(&x, 0);
            states.push(("value_and_grad", world::snapshot()));
            // A step by hand: the arguments of the next call are pending.
            let next = x.iter().zip(&g).map(|(x, g)| x - g * 0.125).collect();
            world::set(state);
            let plain = |x: &Vec<Tensor>| (self.plain)(x, 0).leaves()[0].clone();
            let (value, expected) = gradloom::value_and_grad(plain)(&x);
            states.push(("the plain function", world::snapshot()));
            near("value_and_grad", &entries(&y), &entries(&value), 1e-12)
                .and_then(|()| near("value_and_grad", &entries(&g), &entries(&expected), 1e-12))
                .map_err(|e| (Kind::Derivative, e))?;
            same_effects(&states)?;
            x = next;
        }
        Ok(())
    }

    /// Checks that a write to one result is visible in another only where it is without the
    /// attribute.
    fn sharing(&self) -> Result<(), Wrong> {
        let notes = |call: super::Call| {
            world::set(1);
            let x = self.arguments(1);
            let (a, b) = (call(&x, 0), call(&x, 0));
            a.touch();
            let touched = b.note();
            b.touch();
            format!("{touched}; {}; {}", a.note(), call(&x, 0).note())
        };
        let (expected, got) = (notes(self.plain), notes(self.traced));
        if got == expected || self.effect == Effect::Hidden {
            return Ok(());
        }
        let message = format!("results hold `{got}`, expected `{expected}`");
        Err((Kind::Shares, message))
    }

    /// Checks that `RECORDED` says whether a second call reuses its plan.
    fn plans(&self) -> Result<(), Wrong> {
        // For a method of a type parameter, the impl decides at run time.
        if self.parts.iter().any(|part| part.ends_with("(trait)")) {
            return Ok(());
        }
        match (self.effect, self.recorded) {
            (Effect::Hidden | Effect::Reads, None) => {
                let message =
                    "`RECORDED` is `None`, but the function has side effects or reads values";
                Err((Kind::Untold, message.to_owned()))
            }
            (Effect::None, Some(why)) => Err((Kind::Recorded, why.to_owned())),
            (Effect::None, None) => {
                let x = self.arguments(1);
                let call = || {
                    world::set(1);
                    (self.traced)(&x, 0)
                };
                bits(&call().leaves());
                let (_, events) = log(call);
                if events.first().is_some_and(|e| e == "hit p1") {
                    return Ok(());
                }
                let message = format!("`RECORDED` is `None`, but the second call is: {events:?}");
                Err((Kind::Cliff, message))
            }
            _ => Ok(()),
        }
    }
}

fn evaluated(y: Box<dyn Outcome>) -> Box<dyn Outcome> {
    if let Err(e) = evaluate(&y.leaves()) {
        panic!("{e}");
    }
    y
}

impl Seen {
    fn compare(&self, got: &Seen, bits_agree: bool, what: &str) -> Result<(), Wrong> {
        let wrong = |kind, got: &dyn fmt::Debug, expected: &dyn fmt::Debug| {
            Err((kind, format!("{what}: got {got:?}, expected {expected:?}")))
        };
        let is_near = || !bits_agree && near(what, &got.values, &self.values, 1e-12).is_ok();
        if got.bits != self.bits && !is_near() {
            return wrong(Kind::Value, &got.values, &self.values);
        }
        if got.note != self.note {
            return wrong(Kind::Value, &got.note, &self.note);
        }
        if got.state != self.state {
            return wrong(Kind::Effects, &got.state, &self.state);
        }
        Ok(())
    }
}

/// Checks that all calls leave the same hidden state.
fn same_effects(states: &[(&str, String)]) -> Result<(), Wrong> {
    let Some((first, state)) = states
        .iter()
        .find(|(what, _)| *what == "the plain function")
    else {
        return Ok(());
    };
    match states.iter().find(|(_, other)| other != state) {
        None => Ok(()),
        Some((what, other)) => Err((
            Kind::Effects,
            format!("{what} leaves {other}, and {first} {state}"),
        )),
    }
}

fn text_of(panic: &dyn std::any::Any) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    text.unwrap_or_else(|| "a panic without text".to_owned())
}
