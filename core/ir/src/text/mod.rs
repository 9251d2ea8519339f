//! The text form of programs, which parses back.
//!
//! ```text
//! program := "(" [param {"," param}] ")" "{" {eqn} "return" [name {"," name}] "}"
//! param   := name [":" aval]
//! aval    := (dtype | "?") "[" (".." | [dim {"," dim}]) "]"
//! dim     := integer | name | "?"
//! eqn     := name {"," name} "=" op ["[" static "=" value {"," static "=" value} "]"] [operand {"," operand}]
//! operand := ["like"] name
//! value   := integer | float | "true" | "false" | "all" | dtype | "[" [integer {"," integer}] "]" | "`" text "`"
//! ```
//!
//! A name `v3` is the variable of that number; any other name is a variable that the user named. White space,
//! line breaks included, only separates.

mod parse;
mod print;

pub use parse::ParseError;

/// Whether the text form reads `word` as something else than a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    ["like", "return"].contains(&word) || parse::var_number(word).is_some()
}
