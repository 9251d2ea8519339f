//! Lowers source text, for tests.

use crate::emit::paths;
use crate::input;
use crate::input::Func;
use crate::input::args::Args;
use crate::lower;
use crate::program::Body;
use crate::report::Errors;
use syn::ItemFn;

/// Returns the lowered body and the error messages.
pub(crate) fn body_of(source: &str) -> (Body, Vec<String>) {
    let mut errors = Errors::default();
    let (_, body) = lower_source(source, &mut errors);
    (body, errors.messages())
}

/// Returns a lowered function, which must not have errors.
pub(crate) fn lowered(source: &str) -> (Func, Body) {
    let mut errors = Errors::default();
    let lowered = lower_source(source, &mut errors);
    assert_eq!(errors.messages(), [""; 0]);
    lowered
}

fn lower_source(source: &str, errors: &mut Errors) -> (Func, Body) {
    let mut func: ItemFn = syn::parse_str(source).expect("the test's source parses");
    let parsed = input::signature(&func.vis, &func.attrs, &mut func.sig, None, errors);
    let rt = paths::run_time(&Args::default());
    let body = lower::lower(&parsed, &func.block, &rt, errors);
    (parsed, body)
}
