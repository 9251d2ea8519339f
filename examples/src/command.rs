//! The command line of an example.

use std::error::Error;
use std::process::ExitCode;

/// Returns whether the only option is `--short`, for a run of a few seconds.
///
/// # Errors
///
/// If there is another option.
pub fn is_short() -> Result<bool, Box<dyn Error>> {
    let options: Vec<String> = std::env::args().skip(1).collect();
    match options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(false),
        ["--short"] => Ok(true),
        _ => Err("unknown option; give `--short` or nothing".into()),
    }
}

/// Returns the exit code of a program that has run. Prints its error.
pub fn exit_code(ran: Result<(), Box<dyn Error>>) -> ExitCode {
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
