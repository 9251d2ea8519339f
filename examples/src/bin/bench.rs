//! Times the workloads that are also timed in other frameworks.
//!
//! `cargo run --release --bin bench -- [--workloads W1,W3] [--threads N] [--min-time SECONDS]
//! [--alone] [--memory] [--table] [--list]`
//!
//! It prints a line of JSON for each row. With `--table` it prints a table and runs each workload
//! in its own process. With `--alone`, the operations that have a plain loop are timed without it.
//! `--memory` measures how much memory the calls take, in place of their times.
//! `docs/speed.md` explains the rows.

use gradloom_examples::bench::{Loops, Options, Row, WORKLOADS, Workload, table};
use gradloom_examples::command::exit_code;
use std::error::Error;
use std::process::{Command, ExitCode};

struct Args {
    options: Options,
    workloads: Vec<&'static Workload>,
    table: bool,
    list: bool,
}

impl Args {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, Box<dyn Error>> {
        let mut parsed = Args {
            options: Options {
                min_time: 0.6,
                threads: 1,
                loops: Loops::Beside,
                memory: false,
            },
            workloads: WORKLOADS.iter().collect(),
            table: false,
            list: false,
        };
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("`{name}` needs a value"));
            match name.as_str() {
                "--workloads" => {
                    let named = |name: &str| {
                        Workload::named(name).ok_or(format!("no workload `{name}`; see `--list`"))
                    };
                    let names = value()?;
                    parsed.workloads = names.split(',').map(named).collect::<Result<_, _>>()?;
                }
                "--threads" => {
                    let threads = value()?.parse().ok().filter(|n| *n > 0);
                    parsed.options.threads = threads.ok_or("`--threads` is a number above 0")?;
                }
                "--min-time" => {
                    let seconds = value()?.parse().ok();
                    parsed.options.min_time =
                        seconds.ok_or("`--min-time` is a number of seconds")?;
                }
                "--alone" => parsed.options.loops = Loops::Left,
                "--memory" => parsed.options.memory = true,
                "--table" => parsed.table = true,
                "--list" => parsed.list = true,
                _ => Err(format!(
                    "unknown option `{name}`; give `--workloads`, `--threads`, `--min-time`, `--alone`, `--memory`, `--table` or `--list`"
                ))?,
            }
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args().skip(1))?;
    if args.list {
        for workload in &args.workloads {
            println!("{:6}  {}", workload.name, workload.about);
        }
        return Ok(());
    }
    if args.table {
        let mut rows = Vec::new();
        for workload in &args.workloads {
            rows.extend(in_a_process(workload, args.options)?);
        }
        println!("{}", table(&rows));
        return Ok(());
    }
    let mut failed = None;
    for workload in &args.workloads {
        workload.run(args.options, &mut |row| match serde_json::to_string(&row) {
            Ok(line) => println!("{line}"),
            Err(e) => failed = Some(e),
        })?;
    }
    failed.map_or(Ok(()), |e| Err(e.into()))
}

/// Runs a workload in its own process, so that its caches are cold and its memory is its own.
fn in_a_process(workload: &Workload, options: Options) -> Result<Vec<Row>, Box<dyn Error>> {
    let run = Command::new(std::env::current_exe()?)
        .args(["--workloads", workload.name])
        .args(["--threads", &options.threads.to_string()])
        .args(["--min-time", &options.min_time.to_string()])
        .args((options.loops == Loops::Left).then_some("--alone"))
        .args(options.memory.then_some("--memory"))
        .output()?;
    if !run.status.success() {
        let errors = String::from_utf8_lossy(&run.stderr);
        return Err(format!("{}: {}", workload.name, errors.trim()).into());
    }
    let text = String::from_utf8(run.stdout)?;
    let rows = text.lines().map(serde_json::from_str);
    Ok(rows.collect::<Result<_, _>>()?)
}
