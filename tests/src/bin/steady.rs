//! Runs a program of `gradloom_tests::steady` as `steady NAME TIMES`, for instruction counters.

use gradloom::testing::check_no_call;
use gradloom_tests::steady::STEADY;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let parsed = match &args[..] {
        [_, name, times] => STEADY
            .iter()
            .find(|p| p.name == name)
            .zip(times.parse().ok()),
        _ => None,
    };
    let Some((program, times)) = parsed else {
        let names: Vec<&str> = STEADY.iter().map(|p| p.name).collect();
        eprintln!("usage: steady ({}) TIMES", names.join("|"));
        return ExitCode::FAILURE;
    };
    let times: usize = times;
    let mut run = (program.start)();
    // A check records the body again, which would distort the count.
    check_no_call(|| (0..times).for_each(|_| run()));
    ExitCode::SUCCESS
}
