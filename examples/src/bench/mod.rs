//! Workloads that are also timed in other frameworks, written as a user would write them.
//!
//! A workload makes its inputs, computes its *check* (a number on which every framework has to
//! agree), and times calls. Its rows have the same names and units as those of the other
//! frameworks' programs.

mod convnet;
mod decoding;
mod elementwise;
mod embedding;
pub(crate) mod inputs;
mod kinds;
mod measure;
mod moving;
mod ordering;
mod perceptron;
mod product;
mod recurrence;
mod rows;
mod sliding;
mod small;
mod table;
mod transformer;
mod walks;

pub use measure::Row;
pub use table::table;

use gradloom::Result;
use measure::Timer;

/// Options of a benchmark run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seconds of samples for each row. With zero, a call is timed once.
    pub min_time: f64,
    /// Maximum number of threads for kernels, at least 1.
    pub threads: usize,
    /// Whether the rows that have a plain loop are timed beside it or alone.
    pub loops: Loops,
    /// Whether the memory of the calls is measured, in place of their times.
    pub memory: bool,
}

/// Plain loops that are timed beside the rows that have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loops {
    /// An operation and its loop take turns.
    Beside,
    /// The loops do not run, so that they leave the caches to the operation.
    Left,
}

/// A computation that is timed, either repeatedly or at its first call.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    run: fn(&mut Timer) -> Result<()>,
}

/// All workloads, in the order of the table.
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
        name: "W3_xla",
        about: "the gradient of W3 run by XLA, if `GRADLOOM_PJRT_PLUGIN` names a plugin",
        run: transformer::gradients_by_xla,
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
        name: "W8",
        about: "perceptron, batch 64: the gradient of each example",
        run: perceptron::example_gradients,
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
        name: "W11",
        about: "network with two convolutions, batch 32: a step of gradient descent",
        run: convnet::steps,
    },
    Workload {
        name: "W11_scores",
        about: "network with two convolutions, batch 32: scores of the classes",
        run: convnet::class_scores,
    },
    Workload {
        name: "W12",
        about: "recurrent network, 64 steps: loss and gradient",
        run: recurrence::recurrent_gradients,
    },
    Workload {
        name: "W13",
        about: "operations that move elements, each beside a plain loop",
        run: moving::operations,
    },
    Workload {
        name: "W14",
        about: "scans, sorts and reductions, each beside a plain loop",
        run: ordering::operations,
    },
    Workload {
        name: "W15",
        about: "convolutions and pooling, each beside a plain loop",
        run: sliding::operations,
    },
    Workload {
        name: "W16",
        about: "many small matrices and a loop with a small body, each beside a plain loop",
        run: small::operations,
    },
    Workload {
        name: "W17",
        about: "transformer of six layers, of the sizes of all-MiniLM-L6-v2: embeddings of sentences",
        run: embedding::sentences,
    },
    Workload {
        name: "W18_decode",
        about: "GPT of four layers of 384 features: the next word after 128, with a cache",
        run: decoding::next_word,
    },
    Workload {
        name: "W18_small",
        about: "W18_decode with matrices of 16 bits",
        run: decoding::next_word_small,
    },
    Workload {
        name: "W18_large",
        about: "the same step of a GPT of 1536 features, in three dtypes",
        run: decoding::next_word_large,
    },
    Workload {
        name: "W18_gradient",
        about: "the same model, 8 texts of 128 words: loss and gradient",
        run: decoding::gradients,
    },
    Workload {
        name: "W19",
        about: "short programs of many kinds: pairs, norms by formula, an LSTM, views, second derivatives",
        run: kinds::operations,
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
    /// Returns the workload with this name.
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name)
    }

    /// Runs the workload and passes each row to `emit` as soon as it is measured.
    ///
    /// # Errors
    ///
    /// If an evaluation fails, for example because memory runs out.
    pub fn run(&self, options: Options, emit: &mut dyn FnMut(Row)) -> Result<()> {
        gradloom::set_threads(options.threads);
        (self.run)(&mut Timer { options, emit })
    }
}
