//! The workloads that are timed beside other frameworks, written as a user would write them.
//!
//! A workload makes its inputs, computes a number from its results that every framework has to agree on (the *check*), and
//! times calls. Its rows have the names and units that the other frameworks' programs give theirs.

mod elementwise;
mod inputs;
mod measure;
mod perceptron;
mod product;
mod recurrence;
mod rows;
mod table;
mod transformer;

pub use measure::Row;
pub use table::table;

use gradloom::Result;
use measure::Timer;

/// What to time, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seconds of samples for each row; with zero a call is timed once.
    pub min_time: f64,
    /// The number of threads that kernels may use, at least 1.
    pub threads: usize,
}

/// What it costs to compute something, again and again or for the first time.
#[derive(Clone, Copy)]
pub struct Workload {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it computes.
    pub about: &'static str,
    run: fn(&mut Timer) -> Result<()>,
}

/// The workloads, in the order of the table.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "W1",
        about: "perceptron 784-512-256-10, batch 128: a step of gradient descent",
        run: perceptron::steps,
    },
    Workload {
        name: "W2",
        about: "perceptron 4-16-3, batch 8: a step of gradient descent",
        run: perceptron::tiny_steps,
    },
    Workload {
        name: "W3",
        about: "transformer block: loss and gradient",
        run: transformer::gradients,
    },
    Workload {
        name: "W3f",
        about: "transformer block: loss",
        run: transformer::losses,
    },
    Workload {
        name: "W4f",
        about: "elementwise operations on 4 Mi numbers, and their sum",
        run: elementwise::values,
    },
    Workload {
        name: "W4g",
        about: "the gradient of that",
        run: elementwise::gradients,
    },
    Workload {
        name: "W5",
        about: "products of square matrices",
        run: product::products,
    },
    Workload {
        name: "W6_w3",
        about: "the first gradient of the transformer block in a process",
        run: transformer::first_gradient,
    },
    Workload {
        name: "W6_w1",
        about: "the first step of the perceptron in a process",
        run: perceptron::first_step,
    },
    Workload {
        name: "W7",
        about: "1000 operations on 16 numbers, each on the result of the one before",
        run: recurrence::chains,
    },
    Workload {
        name: "W9",
        about: "softmax, layer norm and sums of 4096 x 1024 numbers",
        run: rows::reductions,
    },
    Workload {
        name: "W10",
        about: "transformer block: the derivative of the loss along a direction",
        run: transformer::tangents,
    },
    Workload {
        name: "W12",
        about: "recurrent network, 64 steps: loss and gradient",
        run: recurrence::recurrent_gradients,
    },
    Workload {
        name: "IMPORT",
        about: "peak memory of a process that only starts",
        run: measure::start,
    },
    Workload {
        name: "RSS",
        about: "peak memory of a process that computes five gradients of the transformer block",
        run: transformer::five_gradients,
    },
];

impl Workload {
    /// The workload of a name.
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name)
    }

    /// Runs it, and hands each row to `emit` as soon as it has been measured.
    ///
    /// # Errors
    ///
    /// If an evaluation fails, such as for want of memory.
    pub fn run(&self, options: Options, emit: &mut dyn FnMut(Row)) -> Result<()> {
        gradloom::set_threads(options.threads);
        (self.run)(&mut Timer { options, emit })
    }
}
