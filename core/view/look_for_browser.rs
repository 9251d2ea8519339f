//! Looks for a browser. Build scripts of packages with a test that opens a page include this file.

use std::process::Command;

/// The names that packages give to Chromium.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Sets `cfg(has_browser)` and `GRADLOOM_BROWSER` if there is a browser. The test is ignored otherwise.
pub(crate) fn look_for_browser() {
    println!("cargo::rustc-check-cfg=cfg(has_browser)");
    println!("cargo::rerun-if-env-changed=PATH");
    let runs = |name: &&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let browser = BROWSERS.iter().find(|name| runs(name));
    if browser.is_some() {
        println!("cargo::rustc-cfg=has_browser");
    }
    println!(
        "cargo::rustc-env=GRADLOOM_BROWSER={}",
        browser.unwrap_or(&"")
    );
}
