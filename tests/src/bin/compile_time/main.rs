//! Measures compile time and peak memory of rustc for traced functions: `cargo run -p
//! gradloom-tests --bin compile_time`.
//!
//! Each form is a library of its own, compiled as in a user's `cargo build` or `cargo build
//! --release`. Memory is read from `/proc` where that exists. The machine should be idle.
//!
//! The last rows are the generated functions of `tests/tests/generated.rs`: in a library whose
//! functions nobody calls, with every value and gradient used, and with all companions used.

#[path = "../../../generator/mod.rs"]
#[allow(dead_code, unused_imports)] // other programs use the rest
mod generator;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Set by this program when cargo runs it in place of rustc: path of the file for the measurement.
const RESULT: &str = "GRADLOOM_COMPILE_TIME";

const BLOCK: &str = include_str!("transformer.txt");

fn main() -> ExitCode {
    match env::var_os(RESULT) {
        Some(result) => rustc(Path::new(&result)),
        None => {
            measure_all();
            ExitCode::SUCCESS
        }
    }
}

fn measure_all() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/compile_time");
    let heads = |[a, b, c, d]: [&str; 4]| println!("{:28} {a:>9} {b:>9} {c:>9} {d:>9}", "");
    heads(["seconds", "added by", "CPU", "peak"]);
    heads(["", "#[traced]", "seconds", "MiB"]);
    for n in [10, 100, 1_000, 2_000] {
        show(&dir, &format!("{n} statements"), &statements(n));
    }
    show(&dir, "2,000 statements in a loop", &in_a_loop(2_000));
    show(&dir, "a transformer block", BLOCK);
    println!();
    for profile in [Profile::Debug, Profile::Release] {
        show_generated(&dir, profile);
    }
}

/// Number of generated functions.
const GENERATED: usize = 300;

/// Compiles the generated functions, and prints a row for each way to use them.
fn show_generated(dir: &Path, profile: Profile) {
    let functions = generator::functions(0, GENERATED);
    let library = generator::traced_module(&functions);
    println!(
        "{GENERATED} functions, {profile:?}{:>26} {:>9} {:>9}",
        "CPU s", "each", "peak MiB"
    );
    for (name, companions) in [
        ("not called", &[][..]),
        ("gradients", &["value_and_grad"]),
        ("all companions", &["value_and_grad", "vjp", "jvp"]),
    ] {
        let uses = generator::uses(&functions, companions);
        let taken = measure(dir, &format!("{library}{uses}"), profile);
        println!(
            "    {name:31} {:9.1} {:9.3} {:9.0}",
            taken.cpu,
            taken.cpu / GENERATED as f64,
            taken.peak
        );
    }
}

/// Build profile of cargo.
#[derive(Clone, Copy, Debug)]
enum Profile {
    Debug,
    Release,
}

/// Compiles a crate with and without `#[traced]`, and prints a row.
fn show(dir: &Path, name: &str, source: &str) {
    let plain = measure(dir, &source.replace("#[traced]", ""), Profile::Debug);
    let traced = measure(dir, source, Profile::Debug);
    println!(
        "{name:28} {:9.2} {:9.2} {:9.2} {:9.0}",
        traced.seconds,
        traced.seconds - plain.seconds,
        traced.cpu,
        traced.peak
    );
}

fn statements(n: usize) -> String {
    let mut source =
        "#[traced]\npub fn f(x: &Tensor, c: &Tensor) -> Tensor {\n    let x0 = x * c;\n".to_owned();
    for i in 1..n {
        let _ = writeln!(source, "    let x{i} = x{}.tanh() + c;", i - 1);
    }
    format!("{source}    x{}\n}}\n", n - 1)
}

fn in_a_loop(n: usize) -> String {
    let step = "        h = h.tanh() + c;\n".repeat(n);
    format!(
        "#[traced]\npub fn f(x: &Tensor, c: &Tensor, turns: usize) -> Tensor {{
    let mut h = x * c;\n    for _ in 0..turns {{\n{step}    }}\n    h\n}}\n"
    )
}

/// Resources used by rustc for a crate.
#[derive(Default)]
struct Taken {
    seconds: f64,
    /// CPU time of its threads, in seconds.
    cpu: f64,
    /// Peak memory, in MiB.
    peak: f64,
}

fn measure(dir: &Path, source: &str, profile: Profile) -> Taken {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core");
    let manifest = format!(
        "[package]\nname = \"measured\"\nedition = \"2024\"\n[workspace]\n[dependencies]\ngradloom = {{ path = {core:?} }}\n"
    );
    let write = |path: PathBuf, text: &str| fs::write(path, text).expect("target/ can be written");
    fs::create_dir_all(dir.join("src")).expect("target/ can be written");
    write(dir.join("Cargo.toml"), &manifest);
    let lock = core.join("../Cargo.lock");
    fs::copy(lock, dir.join("Cargo.lock")).expect("the workspace has a lock file");
    // A unique text forces cargo to compile again.
    let now = Instant::now();
    let source =
        format!("//! {now:?}\n#![allow(warnings)]\n\nuse gradloom::prelude::*;\n\n{source}");
    write(dir.join("src/lib.rs"), &source);
    let result = dir.join("result");
    let this = env::current_exe().expect("the path of this program is known");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--target-dir"])
        .arg(dir.join("target"))
        .args(match profile {
            Profile::Debug => None,
            Profile::Release => Some("--release"),
        })
        .current_dir(dir)
        .env("RUSTC_WORKSPACE_WRAPPER", this)
        .env(RESULT, &result)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the crate in {dir:?} does not compile");
    let result = fs::read_to_string(result).expect("the rustc wrapper has written its result");
    let numbers: Result<Vec<f64>, _> = result.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[seconds, cpu, peak]) => Taken { seconds, cpu, peak },
        _ => panic!("the measurement is {result:?}"),
    }
}

/// Runs rustc, whose path is the first argument, and writes the measurement.
fn rustc(result: &Path) -> ExitCode {
    let mut args = env::args_os().skip(1);
    let start = Instant::now();
    let mut rustc = Command::new(args.next().expect("cargo passes the path of rustc"))
        .args(args)
        .spawn()
        .expect("rustc runs");
    let mut taken = Taken::default();
    let status = loop {
        if let Some(running) = running(rustc.id()) {
            taken = running;
        }
        match rustc.try_wait().expect("rustc is a child process") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    taken.seconds = start.elapsed().as_secs_f64();
    // cargo first queries rustc, and compiles last, so the last measurement written is that of the
    // compilation.
    let text = format!("{} {} {}", taken.seconds, taken.cpu, taken.peak);
    fs::write(result, text).expect("target/ can be written");
    ExitCode::from(status.code().unwrap_or(1) as u8)
}

/// Reads the resources used so far by a running process.
fn running(process: u32) -> Option<Taken> {
    let file = |name| fs::read_to_string(format!("/proc/{process}/{name}")).ok();
    let status = file("status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let peak: f64 = peak.split_whitespace().next()?.parse().ok()?;
    // CPU ticks are fields 14 and 15, in hundredths of a second. Field 2, in parentheses, may
    // contain spaces.
    let stat = file("stat")?;
    let ticks = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|n| n.parse::<f64>().ok()).sum();
    Some(Taken {
        seconds: 0.0,
        cpu: ticks / 100.0,
        peak: peak / 1024.0,
    })
}
