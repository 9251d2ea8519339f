//! Instruction counts of programs in their steady state, which neither the clock nor other
//! processes disturb.
//!
//! Callgrind counts them, so the test is ignored if valgrind is not on the path. To count by hand:
//!
//! ```text
//! cargo build --release -p gradloom-tests --bin steady
//! valgrind --tool=callgrind --callgrind-out-file=steady.out target/release/steady step 1000
//! callgrind_annotate steady.out | head -60
//! ```

use std::process::Command;

/// Maximum number of instructions of a run in a build without optimisation. There, this crate and
/// the companions of its functions cost several times as much as with optimisation.
const MOST: &[(&str, u64)] = &[
    ("call", 35_000),
    ("pull", 120_000),
    ("step", 180_000),
    ("tiny", 130_000),
    ("one", 12_000),
    ("ops", 300_000),
    ("chain", 1_100_000),
    ("plan", 6_000_000),
];

#[test]
#[cfg_attr(
    not(has_valgrind),
    ignore = "valgrind is not on the path: install it (`apt-get install valgrind`), then `touch tests/build.rs`"
)]
fn the_steady_state_takes_few_instructions() {
    for (name, most) in MOST {
        // The difference cancels the cost of the process and of the first runs.
        let (few, many) = (5, 25);
        let each = (instructions(name, many) - instructions(name, few)) / (many - few);
        println!("{name:5} {each:9} instructions");
        assert!(
            each <= *most,
            "`{name}` takes {each} instructions, and may take {most}"
        );
    }
}

/// Returns the number of instructions of a process that runs the program `times` times.
fn instructions(name: &str, times: u64) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env!("CARGO_BIN_EXE_steady"))
        .args([name, &times.to_string()])
        .output()
        .unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{errors}");
    let collected = errors.lines().find_map(|l| l.split_once("Collected : "));
    let (_, count) = collected.unwrap_or_else(|| panic!("no count in\n{errors}"));
    count.trim().parse().unwrap()
}
