//! The text form of programs and of flows, which parses back.
//!
//! ```text
//! program := "(" [param {"," param}] ")" "{" {eqn} "return" [name {"," name}] "}"
//! param   := name [":" aval]
//! aval    := (dtype | "?") "[" (".." | [dim {"," dim}]) "]"
//! dim     := ["-"] term {("+" | "-") term} | "?"
//! term    := (integer | name) {"*" (integer | name)}
//! eqn     := ["#save" | "#recompute"] name {"," name} "=" op ["[" static "=" value {"," static "=" value} "]"] [operand {"," operand}]
//! operand := ["like"] name
//! flow    := "(" [param {"," param}] ")" "{" {node} "}"
//! node    := eqn | name ":=" name | host ["{" {node} "}"] | "return" [name {"," name}]
//! host    := "`" text "`"
//! value   := integer | float | "true" | "false" | "all" | dtype | "[" [integer {"," integer}] "]" | host [":" "[" [len {"," len}] "]"]
//! len     := dim | "-1"
//! ```
//!
//! A name `v3` is the variable of that number; any other name is a variable that the user named. A number that is much
//! larger than the text is long is replaced by a smaller one. Scopes nest up to 256 deep. White space, line breaks
//! included, only separates.

mod flow;
mod parse;
mod print;
mod tokens;

pub use parse::ParseError;

/// Whether the text form reads `word` as something else than a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    ["like", "return"].contains(&word) || parse::var_number(word).is_some()
}

/// Whether the text form reads `word` as the name of a variable.
pub(crate) fn is_name(word: &str) -> bool {
    let letters = |c: char| c.is_alphanumeric() || c == '_';
    !is_reserved(word)
        && word.chars().all(letters)
        && word.starts_with(|c: char| !c.is_ascii_digit())
}
