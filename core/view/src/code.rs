//! What is drawn: a program, or a flow.

use gradloom_ir::Program;
use gradloom_ir::flow::Flow;
use gradloom_ir::text::ParseError;
use std::fmt;
use std::str::FromStr;

/// A straight-line program, or a flow: a function with host control flow.
///
/// The constant `PROGRAM` of a traced function is the text of either.
///
/// ```
/// use gradloom_view::Code;
///
/// let code: Code = "(x: f32[3]) { y = tanh x return y }".parse()?;
/// assert!(matches!(code, Code::Program(_)));
/// let code: Code = "(x) { `if c` { y = tanh x return y } return x }".parse()?;
/// assert!(matches!(code, Code::Flow(_)));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Code {
    /// A straight-line program.
    Program(Program),
    /// A function with host control flow. It is drawn block by block.
    Flow(Flow<String>),
}

impl FromStr for Code {
    type Err = ParseError;

    /// Parses the text form of a program, or else that of a flow.
    ///
    /// The error is the one that is further down in the text.
    fn from_str(text: &str) -> Result<Code, ParseError> {
        let first = match text.parse() {
            Ok(program) => return Ok(Code::Program(program)),
            Err(error) => error,
        };
        match text.parse() {
            Ok(flow) => Ok(Code::Flow(flow)),
            Err(second) => Err(later(first, second)),
        }
    }
}

fn later(first: ParseError, second: ParseError) -> ParseError {
    match (second.line, second.column) > (first.line, first.column) {
        true => second,
        false => first,
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Program(program) => program.fmt(f),
            Code::Flow(flow) => flow.fmt(f),
        }
    }
}

impl From<Program> for Code {
    fn from(program: Program) -> Code {
        Code::Program(program)
    }
}

impl From<Flow<String>> for Code {
    fn from(flow: Flow<String>) -> Code {
        Code::Flow(flow)
    }
}

impl From<&Program> for Code {
    fn from(program: &Program) -> Code {
        Code::Program(program.clone())
    }
}
