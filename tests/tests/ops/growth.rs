//! The work per unit is constant while a program grows: recording, planning, running and dropping
//! are linear in each dimension.
//!
//! Callgrind counts instructions, so the test is ignored if valgrind is not on the path. `cargo run
//! --release -p gradloom-tests --bin growth` prints times for larger programs.

use gradloom_tests::growth::GROWTH;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Units of the three runs. They are few enough that no chain reaches the limit of pending work.
/// Differences between runs cancel the fixed cost of the process.
const UNITS: [u64; 3] = [30, 90, 250];

/// Maximum cost per unit between the second and third run, in percent of that between the first and
/// second. Quadratic work would take 280 %.
const MOST: u64 = 150;

#[test]
#[cfg_attr(
    not(has_valgrind),
    ignore = "valgrind is not on the path: install it (`apt-get install valgrind`), then `touch tests/build.rs`"
)]
fn the_work_per_unit_stays_the_same() {
    let next = AtomicUsize::new(0);
    let count = || {
        let mut lines = Vec::new();
        while let Some(growth) = GROWTH.get(next.fetch_add(1, Ordering::Relaxed)) {
            let [few, more, most] = UNITS.map(|units| instructions(growth.name, units));
            let first = (more - few) / (UNITS[1] - UNITS[0]);
            let second = (most - more) / (UNITS[2] - UNITS[1]);
            println!("{:16} {first:9} {second:9}", growth.name);
            if second * 100 > first * MOST {
                lines.push(format!("{}: {first}, then {second}", growth.name));
            }
        }
        lines
    };
    let lines: Vec<String> = std::thread::scope(|s| {
        let threads = [(); 2].map(|()| s.spawn(count));
        let lines = threads.map(|thread| thread.join().expect("no measurement panics"));
        lines.concat()
    });
    assert!(
        lines.is_empty(),
        "instructions per unit:\n{}",
        lines.join("\n")
    );
}

/// Returns the number of instructions of a process that runs the program with the given number of
/// units.
fn instructions(name: &str, units: u64) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env!("CARGO_BIN_EXE_growth"))
        .args([name, &units.to_string()])
        .env("GRADLOOM_THREADS", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{errors}");
    let collected = errors.lines().find_map(|l| l.split_once("Collected : "));
    let (_, count) = collected.unwrap_or_else(|| panic!("no count in\n{errors}"));
    count.trim().parse().unwrap()
}
