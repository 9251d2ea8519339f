//! Time per unit of work, as the work grows, for programs that are prone to superlinear cost.
//!
//! `cargo run --release -p gradloom-tests --bin cliffs` prints a row for each program: microseconds
//! per step for 1, 10 and 100 times as many steps, and the ratio to the same program written for
//! speed (with `evaluate` or `#[traced(pure)]`). `-- name` runs the rows whose name contains
//! `name`.
//!
//! At the end the program lists the rows over the limits [`MOST_GROWTH`] and [`MOST_RATIO`]. It
//! fails if there are any.
#![allow(deprecated)] // recorded programs are measured on purpose

mod natural;

use gradloom::events;
use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::noise;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Largest ratio of the time per step to that of a run with fewer steps.
const MOST_GROWTH: f64 = 1.25;

/// Largest ratio of the time per step to that of the fast form.
const MOST_RATIO: f64 = 1.1;

/// Number of times that a row over a limit is measured. Another process may have disturbed it.
const TRIES: usize = 3;

/// Form in which a program is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The form that users write first.
    Natural,
    /// Written for speed: with `evaluate` at each step, or with `#[traced(pure)]`.
    Fast,
}

/// Name of the program, number of steps of the shortest run, and the program with `n` steps.
type Row = (&'static str, usize, fn(n: usize, Form));

const ROWS: &[Row] = &[
    ("train: closure, item() each step", 30, |n, form| {
        train_closure(n, 1, form)
    }),
    ("train: closure, item() each 10th step", 30, |n, form| {
        train_closure(n, 10, form)
    }),
    ("train: closure, never reads", 30, |n, form| {
        train_closure(n, usize::MAX, form)
    }),
    ("train: traced, item() each step", 100, |n, form| {
        train_traced(n, 1, form)
    }),
    ("train: traced, never reads", 100, |n, form| {
        train_traced(n, usize::MAX, form)
    }),
    ("train: SGD by hand, item() each step", 30, by_hand),
    ("loop: reads max each turn", 1000, |n, form| {
        drop(loop_that_reads(&start(), n, form))
    }),
    (
        "loop: reads max each turn, traced",
        1000,
        |n, form| match form {
            Form::Natural => finish(&traced_reads(&start(), n)),
            Form::Fast => drop(loop_that_reads(&start(), n, form)),
        },
    ),
    (
        "loop: reads max each turn, grad of closure",
        300,
        grad_reads,
    ),
    (
        "loop: reads max each turn, grad of traced",
        300,
        |n, form| match form {
            Form::Natural => finish(&traced_reads::vjp(&start(), n).1(&start())),
            Form::Fast => grad_reads(n, form),
        },
    ),
    ("loop: never reads", 10_000, |n, form| match form {
        Form::Natural => finish(&loop_without_reads(n)),
        Form::Fast => drop(loop_that_reads(&start(), n, form)),
    }),
    (
        "natural: physics-informed network, gradient",
        30,
        |n, form| {
            let (net, x) = (natural::net(), natural::points());
            repeat(n, || match form {
                Form::Natural => evaluate(&natural::natural::residual::grad(&net, &x).net),
                Form::Fast => evaluate(&natural::promised::residual::grad(&net, &x).net),
            });
        },
    ),
    ("natural: MAML, gradient", 30, |n, form| {
        let (net, x) = (natural::net(), natural::points());
        repeat(n, || match form {
            Form::Natural => evaluate(&natural::natural::adapted::grad(&net, &x, &x).net),
            Form::Fast => evaluate(&natural::promised::adapted::grad(&net, &x, &x).net),
        });
    }),
    (
        "natural: batch norm with running state, gradient",
        30,
        |n, form| {
            let (layers, state, x) = (natural::layers(), natural::running(), natural::inputs());
            repeat(n, || match form {
                Form::Natural => {
                    evaluate(&natural::natural::normed::grad(&layers, &state, &x).layers)
                }
                Form::Fast => {
                    evaluate(&natural::promised::normed::grad(&layers, &state, &x).layers)
                }
            });
        },
    ),
    ("natural: leapfrog", 100, |n, form| {
        let (q, p) = (start(), single(&[16], 2));
        repeat(n, || match form {
            Form::Natural => evaluate(&natural::natural::leapfrog(&q, &p, 0.02)),
            Form::Fast => evaluate(&natural::promised::leapfrog(&q, &p, 0.02)),
        });
    }),
    ("numbers: `dt` changes at each step", 10, |n, form| {
        let (q, p) = (start(), single(&[16], 2));
        repeat(n, || match form {
            Form::Natural => evaluate(&natural::natural::leapfrog(&q, &p, unseen())),
            Form::Fast => evaluate(&natural::promised::leapfrog(&q, &p, unseen())),
        });
    }),
    ("numbers: `lr` changes at each step", 30, |n, form| {
        let (w, g) = (start(), single(&[16], 2));
        repeat(n, || match form {
            Form::Natural => evaluate(&natural::natural::descended(&w, &g, unseen())),
            Form::Fast => evaluate(&natural::promised::descended(&w, &g, unseen())),
        });
        finds_the_learning_rates(form);
    }),
    // So large that a call with one result is a promise, too. A smaller one would run at once.
    ("results: one of two is asked for", 30, |n, form| {
        let x = single(&[128, 128], 1);
        repeat(n, || match form {
            Form::Natural => {
                let (y, _) = natural::natural::two_results(&x);
                evaluate(&y)
            }
            Form::Fast => evaluate(&natural::promised::one_result(&x)),
        });
    }),
];

/// Runs a step `n` times.
fn repeat(n: usize, step: impl Fn() -> Result<()>) {
    for _ in 0..n {
        step().expect("small results can be computed");
    }
}

/// Returns a small number that it has not returned before.
fn unseen() -> f64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    0.02 / NEXT.fetch_add(1, Ordering::Relaxed) as f64
}

/// Checks that the learning rates share a plan.
fn finds_the_learning_rates(form: Form) {
    let name = match form {
        Form::Natural => "natural::natural::descended",
        Form::Fast => "natural::promised::descended",
    };
    let report = gradloom::report();
    let function = report.functions().iter().find(|f| f.name.ends_with(name));
    let found = function.is_some_and(|f| f.found > 10 * f.planned);
    assert!(found, "`lr` is not data in\n{report}");
}

fn finish(y: &Tensor) {
    y.to_vec::<f32>();
}

fn start() -> Tensor {
    single(&[16], 1)
}

fn single(shape: &[usize], seed: u64) -> Tensor {
    let x = noise(shape, seed).cast(DType::F32);
    evaluate(&x).expect("a small result can be computed");
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

fn train_closure(n: usize, every: usize, form: Form) {
    let ((x, target), adam, mut net) = (data(), Adam::default(), net());
    let mut state = adam.init(&net);
    let mut total = 0.0;
    for step in 1..=n {
        let (loss, grads) = value_and_grad(|net: &Net| loss_of(net, &x, &target))(&net);
        (net, state) = adam.step(&net, &grads, &state);
        if form == Form::Fast {
            evaluate(&(net.clone(), state.clone(), loss.clone()))
                .expect("small results can be computed");
        }
        if step % every == 0 {
            total += loss.item::<f32>();
        }
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn train_traced(n: usize, every: usize, form: Form) {
    let ((x, target), adam, mut net) = (data(), Adam::default(), net());
    let mut state = adam.init(&net);
    let mut total = 0.0;
    for step in 1..=n {
        let (loss, grads) = loss::value_and_grad(&net, &x, &target);
        (net, state) = adam.step(&net, &grads.net, &state);
        if form == Form::Fast {
            evaluate(&(net.clone(), state.clone(), loss.clone()))
                .expect("small results can be computed");
        }
        if step % every == 0 {
            total += loss.item::<f32>();
        }
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn by_hand(n: usize, form: Form) {
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
        if form == Form::Fast {
            evaluate(&(net.clone(), loss.clone())).expect("small results can be computed");
        }
        total += loss.item::<f32>();
    }
    finish(&net.w1);
    std::hint::black_box(total);
}

fn loop_that_reads(x: &Tensor, n: usize, form: Form) -> Tensor {
    let mut y = x.clone();
    for _ in 0..n {
        y = &y * 0.999 + y.sin() * 0.001;
        if form == Form::Fast {
            evaluate(&y).expect("a small result can be computed");
        }
        if y.abs().max(..).item::<f32>() > 1e9 {
            break;
        }
    }
    y
}

fn grad_reads(n: usize, form: Form) {
    let f = |x: &Tensor| loop_that_reads(x, n, form).sum(..);
    finish(&grad(f)(&start()));
}

// Recorded on purpose.
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

/// Returns microseconds per step and the number of plans made.
fn time((_, _, program): &Row, n: usize, form: Form) -> (f64, u64) {
    let (before, begin) = (events::counts().planned, Instant::now());
    program(n, form);
    let seconds = begin.elapsed().as_secs_f64();
    (seconds * 1e6 / n as f64, events::counts().planned - before)
}

/// Returns the median of an odd number of durations.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Measurements of one row.
struct Measured {
    /// Microseconds per step for 1, 10 and 100 times as many steps.
    times: [f64; 3],
    /// Number of plans made.
    plans: u64,
    /// Ratio to the fast form.
    ratio: f64,
}

impl Measured {
    fn of(row: &Row) -> Measured {
        let mut plans = 0;
        let times = [1, 10, 100].map(|factor| {
            let (us, planned) = time(row, row.1 * factor, Form::Natural);
            plans += planned;
            us
        });
        let n = row.1 * 10;
        let pairs = (0..5).map(|_| time(row, n, Form::Natural).0 / time(row, n, Form::Fast).0);
        Measured {
            times,
            plans,
            ratio: median(pairs.collect()),
        }
    }

    /// Describes each limit that the row exceeds.
    fn faults(&self) -> Vec<String> {
        let [few, more, most] = self.times;
        let growth = (more / few).max(most / few.min(more));
        let limits = [
            (growth, MOST_GROWTH, "the time per step grows"),
            (self.ratio, MOST_RATIO, "the fast form is faster"),
        ];
        let exceeded = limits.iter().filter(|(found, most, _)| found > most);
        exceeded
            .map(|(found, most, what)| format!("{what} by a factor of {found:.2}, over {most}"))
            .collect()
    }
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.0.contains(&wanted)).collect();
    if rows.is_empty() {
        eprintln!("no row has a name that contains `{wanted}`");
        return ExitCode::FAILURE;
    }
    println!("| program | us/step: n | 10 n | 100 n | plans | to the fast form |");
    println!("|---|---|---|---|---|---|");
    let mut faults = Vec::new();
    for row in rows {
        let mut measured = Measured::of(row);
        for _ in 1..TRIES {
            if !measured.faults().is_empty() {
                measured = Measured::of(row);
            }
        }
        let (
            name,
            Measured {
                times,
                plans,
                ratio,
            },
        ) = (row.0, &measured);
        let cells = times.map(|us| format!("{us:.2}")).join(" | ");
        println!("| {name} | {cells} | {plans} | {ratio:.2} |");
        faults.extend(measured.faults().iter().map(|f| format!("{name}: {f}")));
    }
    if faults.is_empty() {
        println!("\nall rows are within the limits");
        return ExitCode::SUCCESS;
    }
    println!("\nrows over a limit:");
    faults.iter().for_each(|fault| println!("{fault}"));
    ExitCode::FAILURE
}
