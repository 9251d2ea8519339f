//! Runs StableHLO text with XLA, in Python processes.
//!
//! The environment variable `GRADLOOM_PYTHON` names a Python with the packages `jax`, `onnx` and `onnxruntime`. Without
//! it, the tests that need one say that they are skipped.

use gradloom::{DType, Tensor};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// A module, with arguments for its function.
#[derive(Clone, Debug)]
pub struct Job {
    /// A name for messages, of one line.
    pub name: String,
    /// The StableHLO text.
    pub text: String,
    /// The arguments.
    pub args: Vec<Tensor>,
    /// Number of devices.
    pub devices: usize,
}

/// Returns the Python that runs programs, or `None` after a line that says that `tests` are skipped.
///
/// The harness shows the line although the test passes.
pub fn python(tests: &str) -> Option<String> {
    let python = std::env::var("GRADLOOM_PYTHON").ok();
    if python.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "{tests} are skipped: `.ci/outside` runs them"
        );
    }
    python
}

/// Returns a tensor as a line: dtype, shape and bytes.
fn line(x: &Tensor) -> String {
    let shape: Vec<String> = x.shape().iter().map(usize::to_string).collect();
    let mut text = format!("{} [{}] ", x.dtype(), shape.join(","));
    x.to_le_bytes().iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text
}

fn parsed(line: &str) -> Option<Tensor> {
    let mut words = line.split(' ');
    let (dtype, shape, hex) = (words.next()?, words.next()?, words.next()?);
    let lens = shape
        .trim_matches(['[', ']'])
        .split(',')
        .filter(|len| !len.is_empty());
    let shape: Vec<usize> = lens.map(|len| len.parse().ok()).collect::<Option<_>>()?;
    let byte = |i: usize| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..hex.len() / 2).map(byte).collect::<Option<_>>()?;
    let dtype = DType::ALL.into_iter().find(|of| of.name() == dtype)?;
    Tensor::try_from_le_bytes(dtype, &bytes, shape).ok()
}

/// Runs the functions and returns their results, or the first line of XLA's error for each.
///
/// # Panics
///
/// If the Python does not run.
pub fn run(python: &str, jobs: &[Job]) -> Vec<Result<Vec<Tensor>, String>> {
    shares(python, &["xla.py", "run"], jobs, parsed)
}

/// Runs the functions by a script beside this file, which reads and writes as `xla.py` does.
///
/// # Panics
///
/// If the Python does not run.
pub fn run_script(python: &str, script: &str, jobs: &[Job]) -> Vec<Result<Vec<Tensor>, String>> {
    shares(python, &[script], jobs, parsed)
}

/// Compiles the functions and returns the collectives that XLA inserts, as names with the bytes that a
/// device of a ring sends, or the first line of XLA's error for each.
///
/// # Panics
///
/// If the Python does not run.
pub fn collectives(python: &str, jobs: &[Job]) -> Vec<Result<Vec<(String, u128)>, String>> {
    let collective = |line: &str| {
        let (name, bytes) = line.split_once(' ')?;
        Some((name.to_owned(), bytes.parse().ok()?))
    };
    shares(python, &["xla.py", "collectives"], jobs, collective)
}

/// Gives each of several Python processes a share of the jobs. `script` is the name of a script and its
/// first arguments.
fn shares<T: Send>(
    python: &str,
    script: &[&str],
    jobs: &[Job],
    parsed: impl Fn(&str) -> Option<T> + Copy + Send,
) -> Vec<Result<Vec<T>, String>> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let n_workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let shares: Vec<_> = jobs.chunks(jobs.len().div_ceil(n_workers)).collect();
    std::thread::scope(|scope| {
        let workers = shares
            .into_iter()
            .map(|jobs| scope.spawn(move || share(python, script, jobs, parsed)));
        let workers: Vec<_> = workers.collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker does not panic"))
            .collect()
    })
}

fn share<T>(
    python: &str,
    script: &[&str],
    jobs: &[Job],
    parsed: impl Fn(&str) -> Option<T>,
) -> Vec<Result<Vec<T>, String>> {
    let mut input = String::new();
    for job in jobs {
        let _ = writeln!(
            input,
            "job {} {} {}",
            job.args.len(),
            job.text.lines().count(),
            job.devices
        );
        job.args.iter().for_each(|arg| {
            let _ = writeln!(input, "{}", line(arg));
        });
        input += &job.text;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = |what: &str| {
        std::env::temp_dir().join(format!(
            "gradloom-xla-{}-{number}.{what}",
            std::process::id()
        ))
    };
    let (from, to) = (name("in"), name("out"));
    std::fs::write(&from, input).expect("the temporary folder can be written");
    let status = Command::new(python)
        .arg(folder.join("src").join(script[0]))
        .args(&script[1..])
        .args([&from, &to])
        .status()
        .unwrap_or_else(|e| panic!("`{python}` does not run: {e}"));
    assert!(status.success(), "`{python}` failed");
    let output = std::fs::read_to_string(&to).expect("the script writes its results");
    for file in [from, to] {
        let _ = std::fs::remove_file(file);
    }
    let mut lines = output.lines();
    let mut results = Vec::new();
    while let Some(head) = lines.next() {
        results.push(match head.strip_prefix("ok ") {
            Some(n) => {
                let n = n.parse().expect("a number of results");
                let outs = lines.by_ref().take(n).map(&parsed);
                Ok(outs
                    .collect::<Option<Vec<T>>>()
                    .expect("lines of this form"))
            }
            None => Err(head.trim_start_matches("error ").to_owned()),
        });
    }
    assert_eq!(results.len(), jobs.len(), "a result for each job");
    results
}
