//! Generates functions that hide state from `#[traced]`, compiles them in batches, and compares
//! them with the same bodies without the attribute.
//!
//! ```sh
//! cargo run -p gradloom-tests --bin adversary -- --functions 2000 --seed 1
//! ```
//!
//! It prints each class of difference with the smallest function that shows it, and counts the functions that are recorded
//! although they only compute. `--batch 100` says how many functions rustc compiles at once, `--all` adds effects that
//! the purity analysis assumes away and calls that the macro refuses, `--trees` draws only parts without effects, most of
//! them with trees in the body, and `--shrink 300` bounds how many smaller functions are tried.

#[path = "../../generator_adversary/mod.rs"]
#[allow(unreachable_pub)]
mod generator;

use generator::{Choice, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

/// Command-line options.
struct Options {
    functions: usize,
    seed: u64,
    batch: usize,
    shrink: usize,
    choice: Choice,
}

impl Options {
    fn parse() -> Result<Options, String> {
        let mut options = Options {
            functions: 2000,
            seed: 1,
            batch: 100,
            shrink: 300,
            choice: Choice::Documented,
        };
        let mut args = env::args().skip(1);
        while let Some(name) = args.next() {
            let choice = match name.as_str() {
                "--all" => Some(Choice::All),
                "--trees" => Some(Choice::Trees),
                _ => None,
            };
            if let Some(choice) = choice {
                options.choice = choice;
                continue;
            }
            let value = args.next().and_then(|v| v.parse::<u64>().ok());
            let value = value.ok_or(format!("`{name}` takes a number"))?;
            match name.as_str() {
                "--functions" => options.functions = value as usize,
                "--seed" => options.seed = value,
                "--batch" => options.batch = (value as usize).max(1),
                "--shrink" => options.shrink = value as usize,
                _ => {
                    return Err(format!(
                        "`{name}` is not an option; give `--functions`, `--seed`, `--batch`, `--shrink`, `--all` or `--trees`"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// A difference found in a function.
struct Found {
    /// Index of the function.
    function: usize,
    kind: String,
    message: String,
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| run(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} functions are wrong");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything, and returns the number of functions with differences.
fn run(options: &Options) -> Result<usize, String> {
    let start = Instant::now();
    let specs = generator::specs(options.seed, options.functions, options.choice);
    let found = check(&specs, options.batch)?;
    let (recorded, wrong): (Vec<Found>, Vec<Found>) = found
        .into_iter()
        .partition(|found| found.kind == "recorded");
    let failing: BTreeSet<usize> = wrong.iter().map(|found| found.function).collect();
    println!(
        "{} functions, {} wrong, in {} s",
        specs.len(),
        failing.len(),
        start.elapsed().as_secs()
    );
    let candidates = candidates(&specs, &failing, options.shrink);
    println!("{} smaller functions are tried", candidates.len());
    let smaller = check(&candidates, options.batch)?;
    print_classes(&specs, &wrong, &candidates, &smaller);
    print_recorded(&specs, &recorded);
    Ok(failing.len())
}

/// Returns smaller versions of failing functions, without duplicates: those of the lowest rank,
/// sorted by length.
fn candidates(specs: &[Spec], failing: &BTreeSet<usize>, most: usize) -> Vec<Spec> {
    let mut by_text: BTreeMap<String, (usize, Spec)> = BTreeMap::new();
    for (rank, spec) in failing.iter().flat_map(|i| specs[*i].smaller()) {
        let text = spec.text().traced("#[traced]");
        let entry = by_text.entry(text).or_insert((rank, spec));
        entry.0 = entry.0.min(rank);
    }
    let mut all: Vec<(String, (usize, Spec))> = by_text.into_iter().collect();
    all.sort_by_key(|(text, (rank, _))| (*rank, text.len()));
    let mut chosen: Vec<Spec> = all
        .into_iter()
        .take(most)
        .map(|(_, (_, spec))| spec)
        .collect();
    chosen.sort_by_key(|spec| spec.text().traced("").len());
    chosen
}

/// Functions of one class that show one kind of difference.
#[derive(Default)]
struct Class {
    functions: BTreeSet<usize>,
    /// Labels of parts that show the difference on their own.
    names: BTreeSet<String>,
    /// Text of the smallest function.
    smallest: String,
}

/// Prints, for each class and kind of difference, the number of functions and the smallest one.
fn print_classes(specs: &[Spec], wrong: &[Found], candidates: &[Spec], smaller: &[Found]) {
    let mut classes: BTreeMap<(String, &str), Class> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for found in wrong {
        let labels = specs[found.function].labels();
        let explains = |other: &&Found| {
            let own = candidates[other.function].labels();
            other.kind == found.kind && own.iter().all(|label| has_device(&labels, label))
        };
        let Some(smallest) = smaller.iter().find(explains) else {
            unexplained.push(found);
            continue;
        };
        let spec = &candidates[smallest.function];
        let label = spec.labels().join(" + ");
        let class = label.split(':').next().unwrap_or_default().to_owned();
        let entry = classes.entry((class, &found.kind)).or_default();
        entry.functions.insert(found.function);
        entry.names.insert(label);
        let text = format!("{}\n{}", smallest.message, spec.text().traced("#[traced]"));
        if entry.smallest.is_empty() || text.len() < entry.smallest.len() {
            entry.smallest = text;
        }
    }
    for ((class, kind), found) in &classes {
        println!("\n== {class}, {kind}: {} functions", found.functions.len());
        found.names.iter().for_each(|name| println!("   {name}"));
        println!("{}", found.smallest.trim_end());
    }
    println!(
        "\n{} differences that no smaller function shows:",
        unexplained.len()
    );
    unexplained.sort_by_key(|found| specs[found.function].text().traced("").len());
    for (i, found) in unexplained.iter().enumerate() {
        let spec = &specs[found.function];
        println!("\n{}, {:?}: {}", found.kind, spec.labels(), found.message);
        if i < 5 {
            println!("{}", spec.text().traced("#[traced]"));
        }
    }
}

/// Returns whether one of the labels names the same part, in any position.
fn has_device(labels: &[String], label: &str) -> bool {
    let device = |label: &str| label.split(" (").next().unwrap_or_default().to_owned();
    labels.iter().any(|other| device(other) == device(label))
}

/// Prints how often pure functions are recorded, by reason.
fn print_recorded(specs: &[Spec], recorded: &[Found]) {
    let mut reasons: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for found in recorded {
        let reason: String = found
            .message
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .collect();
        let length = |i: usize| specs[i].labels().len();
        let entry = reasons.entry(reason).or_insert((0, found.function));
        entry.0 += 1;
        if length(found.function) < length(entry.1) {
            entry.1 = found.function;
        }
    }
    println!(
        "\n{} functions are recorded although they only compute:",
        recorded.len()
    );
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| usize::MAX - count);
    for (reason, (count, example)) in reasons {
        println!("{count:>5}  {reason}   e.g. {:?}", specs[example].labels());
    }
}

/// Compiles and runs the functions in batches.
fn check(specs: &[Spec], batch: usize) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    for (k, chunk) in specs.chunks(batch).enumerate() {
        let start = Instant::now();
        let new = check_batch(chunk, k * batch)?;
        let (n, all) = (k + 1, specs.len().div_ceil(batch));
        let seconds = start.elapsed().as_secs();
        eprintln!("batch {n} of {all}: {} reports, {seconds} s", new.len());
        found.extend(new);
    }
    Ok(found)
}

fn check_batch(specs: &[Spec], first: usize) -> Result<Vec<Found>, String> {
    let named = specs.iter().cloned().enumerate();
    let mut named: Vec<(String, Spec)> = named
        .map(|(i, spec)| (format!("m_{}", first + i), spec))
        .collect();
    let mut found = Vec::new();
    // rustc may stop before it has reported all errors, so each round removes the rejected
    // functions.
    for _ in 0..5 {
        let (text, starts) = generator::file(&named);
        match compile_and_run(&text)? {
            Ok(lines) => {
                found.extend(lines.lines().filter_map(parse));
                return Ok(found);
            }
            Err(errors) => {
                let refused = refused(&errors, &starts);
                if refused.is_empty() {
                    return Err(errors);
                }
                for (i, message) in refused.iter().rev() {
                    let (name, _) = named.remove(*i);
                    found.extend(parse(&format!("{name}\trefused\t{message}")));
                }
            }
        }
    }
    Err("rustc refuses more functions each time".to_owned())
}

/// Parses an output line of the comparing program.
fn parse(line: &str) -> Option<Found> {
    let mut fields = line.splitn(3, '\t');
    let function = fields.next()?.strip_prefix("m_")?.parse().ok()?;
    Some(Found {
        function,
        kind: fields.next()?.to_owned(),
        message: fields.next()?.to_owned(),
    })
}

/// Returns the rejected functions, each with its first error.
fn refused(errors: &str, starts: &[usize]) -> BTreeMap<usize, String> {
    let mut refused = BTreeMap::new();
    for line in errors.lines() {
        let Some((_, rest)) = line.split_once("functions.rs:") else {
            continue;
        };
        let mut fields = rest.splitn(3, ':');
        let number = fields.next().and_then(|n| n.parse::<usize>().ok());
        let message = fields.nth(1).unwrap_or_default().trim();
        if let (Some(number), true) = (number, message.starts_with("error")) {
            let i = starts.partition_point(|start| *start <= number);
            if (1..starts.len()).contains(&i) {
                refused.entry(i - 1).or_insert(message.to_owned());
            }
        }
    }
    refused
}

/// Returns the output of the program, or the errors of rustc.
fn compile_and_run(text: &str) -> Result<Result<String, String>, String> {
    let path = folder().join("functions.rs");
    let written = fs::create_dir_all(folder()).and_then(|()| fs::write(&path, text));
    written.map_err(|e| format!("{}: {e}", path.display()))?;
    let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
    let run = Command::new(cargo)
        .args([
            "run",
            "-q",
            "-p",
            "gradloom-adversary",
            "--message-format",
            "short",
        ])
        .env("GRADLOOM_ADVERSARY", &path)
        .current_dir(workspace())
        .output();
    let output = run.map_err(|e| format!("cargo does not run: {e}"))?;
    let [out, errors] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    match output.status.success() {
        true => Ok(Ok(out.into_owned())),
        false => Ok(Err(errors.into_owned())),
    }
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the folder of the generated files.
fn folder() -> PathBuf {
    workspace().join("target/adversary")
}
