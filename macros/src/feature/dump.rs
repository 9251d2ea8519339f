//! `GRADLOOM_DUMP=name` prints the program of a function after each step, and the expansion.

use super::hvp;
use crate::derivative::programs;
use crate::input::Func;
use crate::program::Body;
use proc_macro2::TokenStream;

/// Prints the report to standard error if `GRADLOOM_DUMP` is the function's name or `all`.
pub(crate) fn dump(func: &Func, body: &Body, expansion: impl FnOnce() -> TokenStream) {
    let asked = std::env::var("GRADLOOM_DUMP").unwrap_or_default();
    if asked.is_empty() || (asked != "all" && asked != func.name()) {
        return;
    }
    eprintln!("{}", report(func, body, expansion()));
}

/// Returns the text of the dump.
pub(crate) fn report(func: &Func, body: &Body, expansion: TokenStream) -> String {
    let mut out = String::new();
    match body {
        Body::Compiled(flow) => match flow.straight() {
            Some(low) => {
                let hvp = hvp::program(func, low).map(|hvp| ("hvp", hvp.program));
                for (name, program) in programs(low).into_iter().chain(hvp) {
                    out += &format!("// {}: {name}\n{program}\n\n", func.name());
                }
            }
            None => out += &format!("// {}: lowered\n{}\n\n", func.name(), flow.flow),
        },
        Body::Recorded(reason) => {
            out += &format!("// {}: recorded at run time: {reason}\n\n", func.name())
        }
    }
    let file = syn::parse2::<syn::File>(expansion.clone());
    let expansion = match file {
        Ok(file) => prettyplease::unparse(&file),
        Err(_) => expansion.to_string(),
    };
    out + &format!("// {}: expansion\n{expansion}", func.name())
}
