//! What is drawn: a program, or a flow.

use gradloom_ir::Program;
use gradloom_ir::flow::Flow;
use gradloom_ir::text::ParseError;
use std::fmt;
use std::str::FromStr;

/// The start of the first line of a saved trace. The version follows.
const TRACE: &str = "gradloom trace ";
/// The version of saved traces that is read.
const TRACE_VERSION: &str = "1";

/// A straight-line program, or a flow: a function with host control flow.
///
/// The constant `PROGRAM` of a traced function is the text of either.
///
/// ```
/// use gradloom_view::Listing;
///
/// let code: Listing = "(x: f32[3]) { y = tanh x return y }".parse()?;
/// assert!(matches!(code, Listing::Program(_)));
/// let code: Listing = "(x) { `if c` { y = tanh x return y } return x }".parse()?;
/// assert!(matches!(code, Listing::Flow(_)));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Listing {
    /// A straight-line program.
    Program(Program),
    /// A function with host control flow. It is drawn block by block.
    Flow(Flow<String>),
}

impl FromStr for Listing {
    type Err = ParseError;

    /// Parses the text form of a program, or else that of a flow. The line `gradloom trace 1` of a saved
    /// trace may precede it.
    ///
    /// The error is the one that is further down in the text.
    fn from_str(text: &str) -> Result<Listing, ParseError> {
        let Some(rest) = text.strip_prefix(TRACE) else {
            return parse(text);
        };
        let (version, body) = rest.split_once('\n').unwrap_or((rest, ""));
        let version = version.trim();
        if version != TRACE_VERSION {
            return Err(ParseError {
                line: 1,
                column: TRACE.len() + 1,
                message: format!(
                    "traces of version `{version}` are not supported, only `{TRACE_VERSION}`"
                ),
            });
        }
        parse(body).map_err(|error| ParseError {
            line: error.line + 1,
            ..error
        })
    }
}

fn parse(text: &str) -> Result<Listing, ParseError> {
    let first = match text.parse() {
        Ok(program) => return Ok(Listing::Program(program)),
        Err(error) => error,
    };
    match text.parse() {
        Ok(flow) => Ok(Listing::Flow(flow)),
        Err(second) => Err(later_error(first, second)),
    }
}

fn later_error(first: ParseError, second: ParseError) -> ParseError {
    match (second.line, second.column) > (first.line, first.column) {
        true => second,
        false => first,
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listing::Program(program) => program.fmt(f),
            Listing::Flow(flow) => flow.fmt(f),
        }
    }
}

impl From<Program> for Listing {
    fn from(program: Program) -> Listing {
        Listing::Program(program)
    }
}

impl From<Flow<String>> for Listing {
    fn from(flow: Flow<String>) -> Listing {
        Listing::Flow(flow)
    }
}

impl From<&Program> for Listing {
    fn from(program: &Program) -> Listing {
        Listing::Program(program.clone())
    }
}
