//! The text form of programs and flows. Printed text parses back.
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
//! - `v3` is the variable with that number. Any other name is the user's name of a variable.
//! - A number that is far above the length of the text is replaced by a smaller one.
//! - Scopes nest up to 256 deep.
//! - White space, line breaks included, only separates tokens.

mod flow;
mod parse;
mod print;
mod tokens;

pub use parse::ParseError;
