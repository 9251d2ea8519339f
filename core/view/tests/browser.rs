//! The page in a browser without a window. The test is ignored if Chromium is not on the path.
//!
//! ```text
//! apt-get install -y --no-install-recommends chromium
//! cargo test -p gradloom-view --test browser
//! ```
//!
//! The screenshots are in the folder that `GRADLOOM_SCREENSHOTS` names, or in `target/tmp`.

mod common;
mod harness;

use common::{code, gradient, hostile, transformer};
use gradloom_ir::{Program, ad};
use gradloom_view::{Listing, Metadata, Page, PlanTable};
use harness::{ALL_DONE, check};

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
    assert_eq!(check("digits", &digits.html(), "f-e2"), ALL_DONE);
    let dense = Page::new("dense").forward(program("dense"), Metadata::new());
    assert_eq!(check("dense", &dense.html(), "f-e2"), ALL_DONE);
    let block = with_pullback("block", &program("transformer_block"));
    assert_eq!(check("block", &block.html(), "f-e17"), ALL_DONE);
    let layers = Page::new("12 layers").forward(transformer(12), Metadata::new());
    assert_eq!(check("layers", &layers.html(), "f-e40"), ALL_DONE);
    let gradient = Page::new("gradient").forward(gradient(2), Metadata::new());
    assert_eq!(check("gradient", &gradient.html(), "f-e40"), ALL_DONE);
    let control = Page::new("control").forward(program("control"), Metadata::new());
    assert_eq!(check("control", &control.html(), "f-e0-0-e1"), ALL_DONE);
    let flow = Page::new("flow").forward(code("flow"), Metadata::new());
    assert_eq!(check("flow", &flow.html(), "f-b1-e0"), ALL_DONE);
    let hostile = Page::new("hostile").forward(hostile(), Metadata::new());
    assert_eq!(check("hostile", &hostile.html(), "f-e0"), ALL_DONE);
}
