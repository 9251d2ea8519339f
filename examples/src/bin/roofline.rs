//! Measures every op, its derivatives and compositions against the limits of the machine.
//!
//! `cargo run --release --bin roofline -- [--ops add,sum] [--dtypes f32] [--sizes l1,l2] [--layouts transposed]
//! [--transforms forward] [--threads N] [--min-time SECONDS] [--crossed] [--summary]`
//!
//! It prints the limits, the worst cells and a histogram. All cells are in `target/roofline`, as a table and as a
//! picture. `docs/roofline.md` explains them.

use gradloom::DType;
use gradloom_examples::command::exit_code;
use gradloom_examples::roofline::{
    COMPOSITIONS, Composition, Layout, Limits, Machine, Options, Size, Transform, heat_map,
    measure, summary, tab_separated,
};
use gradloom_ir::Op;
use std::error::Error;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Dtypes that are measured, the main one first.
const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool];

/// Folder of the table and the picture.
const FOLDER: &str = "target/roofline";

struct Args {
    options: Options,
    /// Whether the table and the picture are left out.
    summary_only: bool,
}

impl Args {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, Box<dyn Error>> {
        let mut options = Options {
            ops: Op::ALL.to_vec(),
            compositions: COMPOSITIONS.iter().collect(),
            dtypes: DTYPES.to_vec(),
            sizes: Size::ALL.to_vec(),
            layouts: Layout::ALL.to_vec(),
            transforms: Transform::ALL.to_vec(),
            threads: 1,
            min_time: 0.002,
            crossed: false,
        };
        let mut summary_only = false;
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("`{name}` needs a value"));
            match name.as_str() {
                "--ops" => (options.ops, options.compositions) = computations(&value()?)?,
                "--dtypes" => options.dtypes = chosen(&value()?, "dtype", &DTYPES, DType::name)?,
                "--sizes" => options.sizes = chosen(&value()?, "size", &Size::ALL, Size::name)?,
                "--layouts" => {
                    options.layouts = chosen(&value()?, "layout", &Layout::ALL, Layout::name)?;
                }
                "--transforms" => {
                    let names = value()?;
                    options.transforms =
                        chosen(&names, "transform", &Transform::ALL, Transform::name)?;
                }
                "--threads" => {
                    let threads = value()?.parse().ok().filter(|n| *n > 0);
                    options.threads = threads.ok_or("`--threads` is a number above 0")?;
                }
                "--min-time" => {
                    let seconds = value()?.parse().ok();
                    options.min_time = seconds.ok_or("`--min-time` is a number of seconds")?;
                }
                "--crossed" => options.crossed = true,
                "--summary" => summary_only = true,
                _ => Err(format!(
                    "unknown option `{name}`; give `--ops`, `--dtypes`, `--sizes`, `--layouts`, `--transforms`, \
                     `--threads`, `--min-time`, `--crossed` or `--summary`"
                ))?,
            }
        }
        Ok(Args {
            options,
            summary_only,
        })
    }
}

/// Returns the values with the names of a list, which commas separate.
fn chosen<T: Copy>(
    names: &str,
    kind: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, String> {
    let named = |wanted: &str| {
        let found = all.iter().copied().find(|x| name(*x) == wanted);
        let known = || all.iter().map(|x| name(*x)).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("no {kind} `{wanted}`; there are {}", known()))
    };
    names.split(',').map(named).collect()
}

/// Returns the ops and the compositions with the names of a list.
fn computations(names: &str) -> Result<(Vec<Op>, Vec<&'static Composition>), String> {
    let op_names = || Op::ALL.iter().map(|op| op.def().name());
    let all: Vec<&'static str> = op_names()
        .chain(COMPOSITIONS.iter().map(|c| c.name))
        .collect();
    let names = chosen(names, "op or composition", &all, |name| name)?;
    let ops = Op::ALL.iter().filter(|op| names.contains(&op.def().name()));
    let compositions = COMPOSITIONS.iter().filter(|c| names.contains(&c.name));
    Ok((ops.copied().collect(), compositions.collect()))
}

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let Args {
        options,
        summary_only,
    } = Args::parse(std::env::args().skip(1))?;
    let start = Instant::now();
    let machine = Machine::detect();
    for threads in (1..=machine.cpus.min(2)).filter(|n| *n != options.threads) {
        println!("{}", Limits::measure(&machine, threads));
    }
    let limits = Limits::measure(&machine, options.threads);
    let progress = stderr().is_terminal();
    let table = measure(machine, limits, &options, |name| {
        if progress {
            eprint!("\r{name:30}");
        }
    })?;
    if progress {
        eprint!("\r{:30}\r", "");
    }
    println!("{}", summary(&table));
    if !summary_only {
        let folder = Path::new(FOLDER);
        fs::create_dir_all(folder)?;
        fs::write(folder.join("cells.tsv"), tab_separated(&table))?;
        heat_map(&folder.join("cells.svg"), &table)?;
        println!("{FOLDER}/cells.tsv and {FOLDER}/cells.svg have all cells");
    }
    println!("{:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
