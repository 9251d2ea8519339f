//! Writes the functions of `tests/generated.rs`.

#[path = "generator/mod.rs"]
mod generator;

use std::{env, fs, path::Path};

/// How many files there are.
const PARTS: usize = 4;

fn number(name: &str, otherwise: usize) -> usize {
    println!("cargo::rerun-if-env-changed={name}");
    match env::var(name) {
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("`{name}` is `{text}`; write a number"),
        },
        Err(_) => otherwise,
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=generator");
    println!("cargo::rerun-if-changed=src/rng.rs");
    let (seed, count) = (
        number("GRADLOOM_SEED", 0),
        number("GRADLOOM_FUNCTIONS", 320),
    );
    let out = env::var_os("OUT_DIR").expect("cargo says where files go");
    for part in 0..PARTS {
        let functions = generator::functions((seed * PARTS + part) as u64, count.div_ceil(PARTS));
        let path = Path::new(&out).join(format!("functions_{part}.rs"));
        if let Err(e) = fs::write(&path, generator::file(&functions)) {
            panic!("{}: {e}", path.display());
        }
    }
}
