//! `GRADLOOM_RECORD=1` runs the body of every traced function as plain Rust.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::noise;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of times that a body ran.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// What a breakpoint in a body would notice: it is no part of the program.
fn reached() -> f64 {
    RUNS.fetch_add(1, Ordering::Relaxed);
    1.0
}

#[derive(Clone, Tree)]
struct Net {
    w: Tensor,
}

/// Its program is compiled, and `reached` is a static argument.
#[traced(pure, order = 2)]
fn straight(net: &Net, x: &Tensor) -> Tensor {
    (x.matmul(&net.w) * reached()).sin().sum(..)
}

#[traced(pure)]
fn looping(x: &Tensor, #[nodiff] y: &Tensor, n: usize) -> Result<Tensor> {
    let mut h = x * y;
    for _ in 0..n {
        h = h.tanh();
    }
    Ok((h * reached()).sum(..))
}

#[traced]
impl Net {
    #[traced(pure)]
    fn energy(&self, #[nodiff] x: &Tensor) -> Tensor {
        straight(self, x) * looping(x, x, 2).unwrap() * reached()
    }
}

/// Returns how often bodies run in the second of two calls.
fn runs<T: Tree>(f: impl Fn() -> T) -> (T, usize) {
    let y = f();
    evaluate(&y).unwrap();
    let before = RUNS.load(Ordering::Relaxed);
    let again = f();
    tree::assert_close(&again, &y, 0.0);
    (y, RUNS.load(Ordering::Relaxed) - before)
}

/// Returns the results of calls and companions, and how often each runs a body.
///
/// The last one is a transform of a closure, which always runs what it is given.
fn all() -> (Vec<f64>, Vec<usize>) {
    let (net, x) = (
        Net {
            w: noise(&[3, 2], 1),
        },
        noise(&[2, 3], 2),
    );
    let dnet = Net {
        w: noise(&[3, 2], 3),
    };
    let (mut numbers, mut counts) = (Vec::new(), Vec::new());
    fn take<T: Tree>((y, n): (T, usize)) -> (Vec<f64>, usize) {
        let leaves = tree::leaves_with_paths(&y).into_iter();
        (leaves.flat_map(|(_, x)| x.to_vec::<f64>()).collect(), n)
    }
    let found = [
        take(runs(|| straight(&net, &x))),
        take(runs(|| straight::grad(&net, &x))),
        take(runs(|| straight::jvp((&net, &x), (&dnet, &x)))),
        take(runs(|| straight::hvp((&net, &x), (&dnet, &x)))),
        take(runs(|| straight::vjp(&net, &x).1(&Tensor::from(2.0)))),
        take(runs(|| looping(&x, &x, 3).unwrap())),
        take(runs(|| looping::grad(&x, &x, 3).unwrap())),
        take(runs(|| looping::jvp((&x, &x, 3), &x).unwrap())),
        take(runs(|| net.energy(&x))),
        take(runs(|| net.energy_grad(&x))),
        take(runs(|| grad(|x: &Tensor| straight(&net, x))(&x))),
    ];
    for (result, n) in found {
        numbers.extend(result);
        counts.push(n);
    }
    (numbers, counts)
}

/// Runs the test `child` of this program with a value of the variable. Returns its output.
fn child(value: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "plain_bodies::in_a_child", "--nocapture"]);
    command.args(["--include-ignored", "--test-threads=1"]);
    command
        .env("GRADLOOM_RECORD", value)
        .env("PLAIN_BODIES", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = [output.stdout, output.stderr].concat();
    String::from_utf8(output).unwrap()
}

/// Prints the results, if another test asks for it.
#[test]
fn in_a_child() {
    if std::env::var_os("PLAIN_BODIES").is_some() {
        let (numbers, counts) = all();
        println!("counts {counts:?}");
        println!("numbers {numbers:?}");
    }
}

/// Returns the rest of the line that begins with `name`.
fn line<'a>(output: &'a str, name: &str) -> &'a str {
    let found = output.lines().find_map(|line| line.split_once(name));
    found.expect("the child prints this line").1
}

#[test]
fn every_call_and_companion_runs_its_body_on_request() {
    let (plain, cached) = (child("1"), child("0"));
    insta::assert_snapshot!(line(&plain, "counts "), @"[1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 1]");
    insta::assert_snapshot!(line(&cached, "counts "), @"[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]");
    let numbers = |output: &str| -> Tensor {
        let list = line(output, "numbers ")
            .trim_matches(['[', ']'])
            .split(", ");
        Tensor::from(list.map(|x| x.parse().unwrap()).collect::<Vec<f64>>())
    };
    tree::assert_close(&numbers(&plain), &numbers(&cached), 1e-13);
}

#[test]
fn another_value_is_reported_and_ignored() {
    let output = child("yes");
    insta::assert_snapshot!(line(&output, "gradloom: "), @"`GRADLOOM_RECORD=yes` is neither `1` nor `0`; it is ignored");
    assert_eq!(line(&output, "counts "), line(&child("0"), "counts "));
}
