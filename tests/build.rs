//! Generates the traced functions that `tests/generated.rs` compiles.

#[path = "generator/mod.rs"]
#[allow(dead_code, unused_imports)] // other programs use the rest
mod generator;

#[path = "../core/view/look_for_browser.rs"]
mod browser;

use std::process::Command;
use std::{env, fs, path::Path};

/// Number of generated files.
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

/// Sets `cfg(has_valgrind)` if valgrind is on the path. Tests that need it are ignored otherwise,
/// with the reason.
fn look_for_valgrind() {
    println!("cargo::rustc-check-cfg=cfg(has_valgrind)");
    println!("cargo::rerun-if-env-changed=PATH");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        println!("cargo::rustc-cfg=has_valgrind");
    }
}

/// The compiler whose messages `ui` holds. Wording and line drawings change with each release.
const UI_COMPILER: &str = "rustc 1.95.";

/// Sets `cfg(ui_compiler)` if the compiler is the one whose messages `ui` holds.
fn look_for_ui_compiler() {
    println!("cargo::rustc-check-cfg=cfg(ui_compiler)");
    let rustc = env::var_os("RUSTC").expect("cargo sets `RUSTC`");
    let version = Command::new(rustc).arg("--version").output();
    let version = version.expect("rustc prints its version").stdout;
    if String::from_utf8_lossy(&version).starts_with(UI_COMPILER) {
        println!("cargo::rustc-cfg=ui_compiler");
    }
}

fn main() {
    look_for_valgrind();
    look_for_ui_compiler();
    browser::look_for_browser();
    println!("cargo::rerun-if-changed=../core/view/look_for_browser.rs");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=generator");
    println!("cargo::rerun-if-changed=src/rng.rs");
    let (seed, count) = (
        number("GRADLOOM_SEED", 0),
        number("GRADLOOM_FUNCTIONS", 320),
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets `OUT_DIR`");
    for part in 0..PARTS {
        let functions = generator::functions((seed * PARTS + part) as u64, count.div_ceil(PARTS));
        let path = Path::new(&out).join(format!("functions_{part}.rs"));
        if let Err(e) = fs::write(&path, generator::file(&functions)) {
            panic!("{}: {e}", path.display());
        }
    }
}
