//! Opens a page in a browser without a window. The test of traces includes this file too.

#![allow(unreachable_pub)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Clicks on a node, searches, opens tabs and presses keys as a reader does, and writes the findings
/// into the document.
const CHECK: &str = include_str!("browser.js");

fn screenshots() -> PathBuf {
    let folder = match std::env::var_os("GRADLOOM_SCREENSHOTS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"),
    };
    std::fs::create_dir_all(&folder).expect("a folder for screenshots");
    folder
}

/// Runs the browser on a file and returns what it prints.
fn browser(page: &Path, fragment: &str, args: &[&str]) -> String {
    let profile = page.with_extension("profile");
    let output = Command::new(env!("GRADLOOM_BROWSER"))
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .args(["--window-size=1280,800", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(args)
        .arg(format!("file://{}#{fragment}", page.display()))
        .output()
        .expect("chromium runs");
    // The browser may still write into its profile.
    let _ = std::fs::remove_dir_all(profile);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("the document is UTF-8")
}

/// Opens the page, runs the script and returns its findings: lines of a name and a value.
#[track_caller]
pub fn check(name: &str, html: &str, click: &str) -> Vec<String> {
    let script = format!("<script>\nconst CLICK = \"{click}\";\n{CHECK}</script>\n</body>");
    let folder = screenshots();
    let file = folder.join(format!("{name}.html"));
    std::fs::write(&file, html.replace("</body>", &script)).expect("a page");
    let document = browser(&file, "", &["--dump-dom"]);
    std::fs::write(&file, html).expect("a page");
    let image = folder.join(format!("{name}.png"));
    let _ = std::fs::remove_file(&image);
    browser(
        &file,
        click,
        &[&format!("--screenshot={}", image.display())],
    );
    let bytes = std::fs::read(&image).expect("a screenshot");
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5_000);
    let start = document.find("<pre id=\"findings\">").expect("findings");
    let end = document[start..].find("</pre>").expect("an end");
    let findings = document[start..start + end].lines();
    let findings = findings.map(|line| line.trim_start_matches("<pre id=\"findings\">"));
    findings.map(String::from).collect()
}

/// The findings on a page that works.
pub const ALL_DONE: [&str; 12] = [
    "errors: ",
    "labels outside of their box: 0",
    "boxes that overlap: 0",
    "details after a click: true",
    "fragment after a click: true",
    "marked edges: true",
    "details after a key: true",
    "nothing after escape: true",
    "found by name: true",
    "zoom: true",
    "pan: true",
    "text tab: true",
];
