//! Measures how the work per unit changes while the programs of `gradloom_tests::growth` grow.
//!
//! ```text
//! cargo run --release -p gradloom-tests --bin growth                  # a table of times per unit
//! cargo run --release -p gradloom-tests --bin growth -- results       # one row of it
//! cargo run --release -p gradloom-tests --bin growth -- results 1000  # one run, for counting
//! ```

use gradloom_tests::growth::{GROWTH, Growth};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Numbers of units of the three runs of a row.
const SIZES: [usize; 3] = [100, 1_000, 10_000];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &String| GROWTH.iter().find(|g| g.name == name);
    match &args[..] {
        [] => table(GROWTH.iter()),
        [name] if named(name).is_some() => table(named(name).into_iter()),
        [name, units] => match named(name).zip(units.parse().ok()) {
            Some((growth, units)) => (growth.run)(units),
            None => return usage(),
        },
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let names: Vec<&str> = GROWTH.iter().map(|g| g.name).collect();
    eprintln!("usage: growth [({}) [UNITS]]", names.join("|"));
    ExitCode::FAILURE
}

fn table(lines: impl Iterator<Item = &'static Growth>) {
    println!("microseconds per unit");
    print!("{:16}", "dimension");
    SIZES.iter().for_each(|n| print!("{n:>10}"));
    println!("  unit");
    let start = least(|| run("", 0));
    for growth in lines {
        print!("{:16}", growth.name);
        for n in SIZES {
            let time = least(|| run(growth.name, n)).saturating_sub(start);
            print!("{:10.1}", time.as_secs_f64() * 1e6 / n as f64);
        }
        println!("  {}", growth.unit);
    }
}

fn least(time: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| time()).min().expect("three measurements")
}

/// Returns the time of a run in a process of its own, so that no run reuses the caches of another.
fn run(name: &str, units: usize) -> Duration {
    let exe = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(exe);
    command.args([name, &units.to_string()]);
    command.stderr(std::process::Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the process starts");
    assert!(
        status.success() || name.is_empty(),
        "{name} {units}: {status}"
    );
    start.elapsed()
}
