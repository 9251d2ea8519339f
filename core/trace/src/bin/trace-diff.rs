//! `trace-diff A B`: compares two traces. Exits with 0 if they are equal, 1 if not, and 2 after an
//! error.

use gradloom_trace::{Diff, Rename, Trace, diff, read, report};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: trace-diff [--format text|markdown|json|html] [--output FILE] [--tolerance T] [--rename FROM=TO].. A B

Compares two traces, each a folder of .trace files or a file of JSON lines, by name and in the
order of execution. Prints a report, or writes it to FILE.

  --format FORMAT   form of the report: text (default), markdown, json or html
  --output FILE     file for the report; the first divergence is still printed
  --tolerance T     relative difference up to which two tensors count as equal (default 0: equal hashes)
  --rename FROM=TO  name of B that stands for another one of A, with the wildcards * and ? as in
                    'layers.*.attn=model/blk*/attention'; of several rules, the first that fits counts

Exit code: 0 if the traces are equal, 1 if they differ, 2 after an error. Two traces with nothing
to compare are an error.";

struct Options {
    format: fn(&Diff) -> String,
    output: Option<PathBuf>,
    tolerance: f64,
    renames: Vec<Rename>,
    a: PathBuf,
    b: PathBuf,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match options(args).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("trace-diff: {message}");
            ExitCode::from(2)
        }
    }
}

fn options(args: Vec<std::ffi::OsString>) -> Result<Options, String> {
    let (mut format, mut output, mut tolerance) = (report::text as fn(&Diff) -> String, None, 0.0);
    let (mut paths, mut renames) = (Vec::new(), Vec::new());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let name = arg.to_string_lossy().into_owned();
        let mut value = || {
            args.next()
                .ok_or_else(|| format!("`{name}` needs a value\n{USAGE}"))
        };
        match &*name {
            "--format" => {
                let value = value()?;
                format = match &*value.to_string_lossy() {
                    "text" => report::text,
                    "markdown" => report::markdown,
                    "json" => report::json,
                    "html" => report::html,
                    other => {
                        return Err(format!(
                            "`{other}` is not a format; use text, markdown, json or html"
                        ));
                    }
                };
            }
            "--output" => output = Some(PathBuf::from(value()?)),
            "--tolerance" => {
                let value = value()?.to_string_lossy().into_owned();
                let number = value
                    .parse()
                    .ok()
                    .filter(|t: &f64| t.is_finite() && *t >= 0.0);
                tolerance = number.ok_or_else(|| {
                    format!("`{value}` is not a tolerance; give a number of at least 0")
                })?;
            }
            "--rename" => renames.push(Rename::new(&value()?.to_string_lossy())?),
            other if other.starts_with("--") => {
                return Err(format!("`{other}` is not an option\n{USAGE}"));
            }
            _ => paths.push(PathBuf::from(arg)),
        }
    }
    let [a, b] = <[PathBuf; 2]>::try_from(paths).map_err(|paths| {
        format!(
            "two traces are compared, and {} given\n{USAGE}",
            paths.len()
        )
    })?;
    Ok(Options {
        format,
        output,
        tolerance,
        renames,
        a,
        b,
    })
}

/// Writes a text to the standard output. A reader that has enough of it, such as `head`, is no error.
fn printed(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write the report: {e}")),
        _ => Ok(()),
    }
}

/// Renames records. A rule that fits no name is an error, because its pattern is likely to be wrong.
fn rename(trace: &mut Trace, rules: &[Rename]) -> Result<(), String> {
    let mut used = vec![false; rules.len()];
    for entry in &mut trace.entries {
        let renamed = |rule: &Rename| rule.apply(&entry.record.name);
        if let Some((i, name)) = (0..)
            .zip(rules)
            .find_map(|(i, rule)| Some((i, renamed(rule)?)))
        {
            used[i] = true;
            entry.record.name = name;
        }
    }
    match used.iter().position(|used| !used) {
        Some(i) => Err(format!(
            "the rule `{}` fits no record of `{}`",
            rules[i],
            trace.path.display()
        )),
        None => Ok(()),
    }
}

/// Compares the traces and reports. Returns whether they are equal.
fn run(options: &Options) -> Result<bool, String> {
    let words = |error: gradloom_trace::Error| error.to_string();
    let (a, mut b) = (
        read(&options.a).map_err(words)?,
        read(&options.b).map_err(words)?,
    );
    rename(&mut b, &options.renames)?;
    let diff = diff(&a, &b, options.tolerance).map_err(words)?;
    let report = (options.format)(&diff);
    match &options.output {
        None => printed(&report)?,
        Some(path) => {
            std::fs::write(path, report)
                .map_err(|e| format!("cannot write `{}`: {e}", path.display()))?;
            match diff.first() {
                None => printed("no difference\n")?,
                Some(first) => printed(&format!("first divergence: {}\n", first.name))?,
            }
        }
    }
    Ok(diff.is_equal())
}
