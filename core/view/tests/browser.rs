//! The page in a browser without a window. The test is ignored if Chromium is not on the path.
//!
//! ```text
//! apt-get install -y --no-install-recommends chromium
//! cargo test -p gradloom-view --test browser
//! ```
//!
//! The screenshots are in the folder that `GRADLOOM_SCREENSHOTS` names, or in `target/tmp`.

mod common;

use common::{code, gradient, hostile, tags, transformer};
use gradloom_ir::{Program, ad};
use gradloom_view::{Listing, Metadata, Page, PlanTable};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clicks on a node, searches, opens tabs and presses keys as a reader does, and writes the findings
/// into the document.
const CHECK: &str = include_str!("browser.js");

fn program(name: &str) -> Program {
    match code(name) {
        Listing::Program(program) => program,
        Listing::Flow(_) => panic!("{name} is straight-line code"),
    }
}

fn with_pullback(title: &str, program: &Program) -> Page {
    let vjp = ad::vjp(program, &program.params);
    Page::new(title)
        .forward(vjp.primal, Metadata::new())
        .results(vjp.n_outs)
        .backward(vjp.pullback, Metadata::new())
}

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
fn check(name: &str, page: &Page, click: &str) -> Vec<String> {
    let html = page.html();
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
    let findings = tags(&document[start..start + end + 6]);
    findings[0].text.lines().map(String::from).collect()
}

const ALL_DONE: [&str; 12] = [
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

#[test]
#[cfg_attr(
    not(has_browser),
    ignore = "chromium is not on the path: install it (`apt-get install chromium`), then `touch core/view/build.rs`"
)]
fn a_reader_finds_the_details_of_a_node() {
    let plan = PlanTable {
        text: "3 tasks".into(),
        ..PlanTable::default()
    };
    let digits = with_pullback("digits", &program("digits")).plan(plan);
    assert_eq!(check("digits", &digits, "f-e2"), ALL_DONE);
    let dense = Page::new("dense").forward(program("dense"), Metadata::new());
    assert_eq!(check("dense", &dense, "f-e2"), ALL_DONE);
    let block = with_pullback("block", &program("transformer_block"));
    assert_eq!(check("block", &block, "f-e17"), ALL_DONE);
    let layers = Page::new("12 layers").forward(transformer(12), Metadata::new());
    assert_eq!(check("layers", &layers, "f-e40"), ALL_DONE);
    let gradient = Page::new("gradient").forward(gradient(2), Metadata::new());
    assert_eq!(check("gradient", &gradient, "f-e40"), ALL_DONE);
    let control = Page::new("control").forward(program("control"), Metadata::new());
    assert_eq!(check("control", &control, "f-e0-0-e1"), ALL_DONE);
    let flow = Page::new("flow").forward(code("flow"), Metadata::new());
    assert_eq!(check("flow", &flow, "f-b1-e0"), ALL_DONE);
    let hostile = Page::new("hostile").forward(hostile(), Metadata::new());
    assert_eq!(check("hostile", &hostile, "f-e0"), ALL_DONE);
}
