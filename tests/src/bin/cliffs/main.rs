//! Time per unit of work, as the work grows, of programs that used to fall off a cliff.
//!
//! `cargo run --release --bin cliffs` prints a row for each program: microseconds per step for 1, 10 and 100 times as many
//! steps, which has to stay flat, and the ratio to the same program written for speed: with `evaluate`, or `#[traced(pure)]`. `-- name` runs
//! the rows whose name contains `name`.
#![allow(deprecated)] // programs that are recorded are shown as they are

mod natural;

use gradloom::events;
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::noise;
use std::time::Instant;

/// A program of `n` steps.
type Program = fn(n: usize);

/// A program, and the same one written for speed.
struct Row {
    name: &'static str,
    /// Number of steps of the shortest run.
    steps: usize,
    program: Program,
    /// The yardstick: `evaluate` at each step, or `#[traced(pure)]`.
    fast: Program,
}

const ROWS: &[Row] = &[
    Row {
        name: "train: closure, item() each step",
        steps: 30,
        program: |n| train_closure(n, 1, Realise::Reads),
        fast: |n| train_closure(n, 1, Realise::Evaluates),
    },
    Row {
        name: "train: closure, item() each 10th step",
        steps: 30,
        program: |n| train_closure(n, 10, Realise::Reads),
        fast: |n| train_closure(n, 10, Realise::Evaluates),
    },
    Row {
        name: "train: closure, never reads",
        steps: 30,
        program: |n| train_closure(n, usize::MAX, Realise::Reads),
        fast: |n| train_closure(n, usize::MAX, Realise::Evaluates),
    },
    Row {
        name: "train: traced, item() each step",
        steps: 100,
        program: |n| train_traced(n, 1, Realise::Reads),
        fast: |n| train_traced(n, 1, Realise::Evaluates),
    },
    Row {
        name: "train: traced, never reads",
        steps: 100,
        program: |n| train_traced(n, usize::MAX, Realise::Reads),
        fast: |n| train_traced(n, usize::MAX, Realise::Evaluates),
    },
    Row {
        name: "train: SGD by hand, item() each step",
        steps: 30,
        program: |n| by_hand(n, Realise::Reads),
        fast: |n| by_hand(n, Realise::Evaluates),
    },
    Row {
        name: "loop: reads max each turn",
        steps: 1000,
        program: |n| drop(loop_that_reads(&start(), n, Realise::Reads)),
        fast: |n| drop(loop_that_reads(&start(), n, Realise::Evaluates)),
    },
    Row {
        name: "loop: reads max each turn, traced",
        steps: 1000,
        program: |n| finish(&traced_reads(&start(), n)),
        fast: |n| drop(loop_that_reads(&start(), n, Realise::Evaluates)),
    },
    Row {
        name: "loop: reads max each turn, grad of closure",
        steps: 300,
        program: |n| {
            let f = |x: &Tensor| loop_that_reads(x, n, Realise::Reads).sum(..);
            finish(&grad(f)(&start()));
        },
        fast: |n| {
            let f = |x: &Tensor| loop_that_reads(x, n, Realise::Evaluates).sum(..);
            finish(&grad(f)(&start()));
        },
    },
    Row {
        name: "loop: reads max each turn, grad of traced",
        steps: 300,
        program: |n| finish(&traced_reads::vjp(&start(), n).1(&start())),
        fast: |n| {
            let f = |x: &Tensor| loop_that_reads(x, n, Realise::Evaluates).sum(..);
            finish(&grad(f)(&start()));
        },
    },
    Row {
        name: "loop: never reads",
        steps: 10_000,
        program: |n| finish(&loop_without_reads(n)),
        fast: |n| drop(loop_that_reads(&start(), n, Realise::Evaluates)),
    },
    Row {
        name: "natural: physics-informed network, gradient",
        steps: 30,
        program: |n| {
            repeat(n, (natural::net(), natural::points()), |(net, x)| {
                evaluate(&natural::natural::residual::grad(net, x).net)
            })
        },
        fast: |n| {
            repeat(n, (natural::net(), natural::points()), |(net, x)| {
                evaluate(&natural::promised::residual::grad(net, x).net)
            })
        },
    },
    Row {
        name: "natural: MAML, gradient",
        steps: 30,
        program: |n| {
            repeat(n, (natural::net(), natural::points()), |(net, x)| {
                evaluate(&natural::natural::adapted::grad(net, x, x).net)
            })
        },
        fast: |n| {
            repeat(n, (natural::net(), natural::points()), |(net, x)| {
                evaluate(&natural::promised::adapted::grad(net, x, x).net)
            })
        },
    },
    Row {
        name: "natural: batch norm with running state, gradient",
        steps: 30,
        program: |n| {
            let start = (natural::layers(), natural::running(), natural::inputs());
            repeat(n, start, |(layers, state, x)| {
                evaluate(&natural::natural::normed::grad(layers, state, x).layers)
            });
        },
        fast: |n| {
            let start = (natural::layers(), natural::running(), natural::inputs());
            repeat(n, start, |(layers, state, x)| {
                evaluate(&natural::promised::normed::grad(layers, state, x).layers)
            });
        },
    },
    Row {
        name: "natural: leapfrog",
        steps: 100,
        program: |n| {
            repeat(n, (start(), single(&[16], 2)), |(q, p)| {
                evaluate(&natural::natural::leapfrog(q, p, 0.02))
            })
        },
        fast: |n| {
            repeat(n, (start(), single(&[16], 2)), |(q, p)| {
                evaluate(&natural::promised::leapfrog(q, p, 0.02))
            })
        },
    },
];

/// Runs a step so many times.
fn repeat<T>(n: usize, start: T, step: impl Fn(&T) -> Result<()>) {
    for _ in 0..n {
        step(&start).expect("small results");
    }
}

/// How a program has its values computed.
#[derive(Clone, Copy, PartialEq)]
enum Realise {
    /// It reads some of them.
    Reads,
    /// It evaluates what it holds at each step.
    Evaluates,
}

fn finish(y: &Tensor) {
    y.to_vec::<f32>();
}

fn start() -> Tensor {
    single(&[16], 1)
}

fn single(shape: &[usize], seed: u64) -> Tensor {
    let x = noise(shape, seed).cast(DType::F32);
    evaluate(&x).expect("few elements");
    x
}

#[derive(Clone, Tree)]
struct Net {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
}

fn net() -> Net {
    Net {
        w1: single(&[64, 128], 1),
        b1: single(&[128], 2),
        w2: single(&[128, 1], 3),
        b2: single(&[1], 4),
    }
}

#[traced]
fn loss(net: &Net, #[nodiff] x: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
    let h = (x.matmul(&net.w1) + &net.b1).tanh();
    (h.matmul(&net.w2) + &net.b2 - target).square().mean(..)
}

fn loss_of(net: &Net, x: &Tensor, target: &Tensor) -> Tensor {
    let h = (x.matmul(&net.w1) + &net.b1).tanh();
    (h.matmul(&net.w2) + &net.b2 - target).square().mean(..)
}

fn data() -> (Tensor, Tensor) {
    (single(&[32, 64], 5), single(&[32, 1], 6))
}

fn train_closure(n: usize, every: usize, how: Realise) {
    let ((x, target), adam, mut net) = (data(), Adam::default(), net());
    let mut state = adam.init(&net);
    let mut total = 0.0;
    for step in 1..=n {
        let (loss, grads) = value_and_grad(|net: &Net| loss_of(net, &x, &target))(&net);
        (net, state) = adam.step(&net, &grads, &state);
        if how == Realise::Evaluates {
            evaluate(&(net.clone(), state.clone(), loss.clone())).expect("small results");
        }
        if step % every == 0 {
            total += loss.item::<f32>();
        }
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn train_traced(n: usize, every: usize, how: Realise) {
    let ((x, target), adam, mut net) = (data(), Adam::default(), net());
    let mut state = adam.init(&net);
    let mut total = 0.0;
    for step in 1..=n {
        let (loss, grads) = loss::value_and_grad(&net, &x, &target);
        (net, state) = adam.step(&net, &grads.net, &state);
        if how == Realise::Evaluates {
            evaluate(&(net.clone(), state.clone(), loss.clone())).expect("small results");
        }
        if step % every == 0 {
            total += loss.item::<f32>();
        }
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn by_hand(n: usize, how: Realise) {
    let ((x, target), mut net) = (data(), net());
    let mut total = 0.0;
    for _ in 0..n {
        let (loss, grads) = value_and_grad(|net: &Net| loss_of(net, &x, &target))(&net);
        net = Net {
            w1: &net.w1 - &grads.w1 * 0.01,
            b1: &net.b1 - &grads.b1 * 0.01,
            w2: &net.w2 - &grads.w2 * 0.01,
            b2: &net.b2 - &grads.b2 * 0.01,
        };
        if how == Realise::Evaluates {
            evaluate(&(net.clone(), loss.clone())).expect("small results");
        }
        total += loss.item::<f32>();
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn loop_that_reads(x: &Tensor, n: usize, how: Realise) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
        if how == Realise::Evaluates {
            evaluate(&y).expect("a small result");
        }
        if y.abs().max(..).item::<f32>() > 1e9 {
            break;
        }
    }
    y
}

// It is recorded on purpose.
#[traced(allow(recorded_call))]
fn traced_reads(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
        if y.abs().max(..).item::<f32>() > 1e9 {
            break;
        }
    }
    y
}

fn loop_without_reads(n: usize) -> Tensor {
    let mut y = start();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
    }
    y
}

/// Microseconds for each step, and the number of plans made.
fn time(program: Program, n: usize) -> (f64, u64) {
    let (before, begin) = (events::counts().planned, Instant::now());
    program(n);
    let seconds = begin.elapsed().as_secs_f64();
    (seconds * 1e6 / n as f64, events::counts().planned - before)
}

/// The median of an odd number of times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!("| program | us/step: n | 10 n | 100 n | plans | to the fast form |");
    println!("|---|---|---|---|---|---|");
    for row in ROWS.iter().filter(|row| row.name.contains(&wanted)) {
        let mut cells = Vec::new();
        let mut plans = 0;
        for factor in [1, 10, 100] {
            let (us, planned) = time(row.program, row.steps * factor);
            plans += planned;
            cells.push(format!("{us:.2}"));
        }
        let n = row.steps * 10;
        let pairs = (0..5).map(|_| time(row.program, n).0 / time(row.fast, n).0);
        let ratio = median(pairs.collect());
        println!(
            "| {} | {} | {plans} | {ratio:.2} |",
            row.name,
            cells.join(" | ")
        );
    }
}
