//! Starts the ranks of tests.

use std::panic::catch_unwind;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The environment variable that says which test a rank runs.
pub(crate) const TEST: &str = "GRADLOOM_MPI_TEST";

/// A test: what each rank does, and what its end has to look like.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    /// A sentence that the test proves.
    pub(crate) name: &'static str,
    /// Numbers of ranks.
    pub(crate) ranks: &'static [usize],
    /// Runs on each rank.
    pub(crate) rank: fn(),
    /// Checks the output of all ranks.
    pub(crate) check: fn(&Output),
}

/// What the ranks of a test have printed.
pub(crate) struct Output {
    /// Number of ranks.
    pub(crate) ranks: usize,
    /// True if `mpirun` has succeeded.
    pub(crate) success: bool,
    /// Text of all ranks, and that of `mpirun`.
    pub(crate) text: String,
}

/// Checks that all ranks have succeeded.
pub(crate) fn succeeds(output: &Output) {
    assert!(output.success, "{}", output.text);
}

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the tests whose names contain the argument of the program, if there is one.
pub(crate) fn run_all(tests: &[Test]) -> ExitCode {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let filter = filter.unwrap_or_default();
    let mut failed = Vec::new();
    for test in tests.iter().filter(|test| test.name.contains(&filter)) {
        for ranks in test.ranks {
            let start = Instant::now();
            let run = catch_unwind(|| (test.check)(&run(test, *ranks)));
            let time = start.elapsed().as_secs_f64();
            let result = if run.is_ok() { "ok" } else { "FAILED" };
            println!(
                "test {}, {ranks} ranks ... {result} ({time:.1} s)",
                test.name
            );
            if run.is_err() {
                failed.push(test.name);
            }
        }
    }
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            println!("failed: {failed:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(test: &Test, ranks: usize) -> Output {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "--timeout"])
        .arg(LIMIT.as_secs().to_string())
        .args(["-n", &ranks.to_string()])
        .arg(program)
        .env(TEST, test.name)
        .env("GRADLOOM_THREADS", "1")
        .output();
    let output = output.expect("`mpirun` is installed: on Debian, in the package openmpi-bin");
    let text = [output.stdout, output.stderr].concat();
    Output {
        ranks,
        success: output.status.success(),
        text: String::from_utf8_lossy(&text).into_owned(),
    }
}
