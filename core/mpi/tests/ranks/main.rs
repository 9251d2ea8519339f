//! Tests on ranks of MPI. Each test starts this program by `mpirun`, and compares what the ranks compute with simulated
//! devices.
//!
//! An argument selects the tests whose names contain it.

#[cfg(feature = "mpi")]
mod collectives;
#[cfg(feature = "mpi")]
mod failures;
#[cfg(feature = "mpi")]
mod launch;
#[cfg(feature = "mpi")]
mod programs;

#[cfg(not(feature = "mpi"))]
fn main() {
    eprintln!("tests on ranks of MPI are skipped: `.ci/outside` runs them");
}

#[cfg(feature = "mpi")]
fn main() -> std::process::ExitCode {
    let tests = [collectives::TESTS, programs::TESTS, failures::TESTS].concat();
    match std::env::var(launch::TEST) {
        Ok(name) => {
            let test = tests.iter().find(|test| test.name == name);
            (test.expect("the name of a test").rank)();
            std::process::ExitCode::SUCCESS
        }
        Err(_) => launch::run_all(&tests),
    }
}
