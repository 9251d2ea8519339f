//! Looks for a browser, for the test that opens a page.

use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_browser)");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=build.rs");
    if Command::new("chromium").arg("--version").output().is_ok() {
        println!("cargo::rustc-cfg=has_browser");
    }
}
