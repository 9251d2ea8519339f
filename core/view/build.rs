//! Looks for a browser, for the test that opens a page.

#[path = "look_for_browser.rs"]
mod browser;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=look_for_browser.rs");
    browser::look_for_browser();
}
