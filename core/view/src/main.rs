//! `gradloom-view`: draws a program from its text.

use gradloom_ir::{DType, Program, ad, verify};
use gradloom_view::{Listing, Metadata, Page, PlanTable, dot_of_listing, svg_of_listing};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: gradloom-view [FILE] [options]

Draws a program from its text, such as the constant `PROGRAM` of a traced function.
Without FILE, or if it is `-`, the program is read from the standard input.

The options marked (html) are errors with another format.

options:
  -o, --output FILE     write to FILE instead of the standard output
  -f, --format FORMAT   html, svg, dot or text; otherwise that of the name of the output, or html
  --backward FILE       show the program in FILE beside it (html)
  --vjp                 show the pullback with respect to all parameters beside it (html)
  --plan FILE           show the text in FILE as the plan (html)
  --title TEXT          the title of the page (html)
  -h, --help            print this text

exit codes: 0 done, 1 wrong usage or an output that cannot be written, 2 bad input
";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Html,
    Svg,
    Dot,
    Text,
}

#[derive(Default)]
struct Options {
    input: Option<String>,
    output: Option<String>,
    format: Option<Format>,
    backward: Option<String>,
    vjp: bool,
    plan: Option<String>,
    title: Option<String>,
    help: bool,
}

/// Why nothing was written.
enum Failure {
    Usage(String),
    Output(String),
    Input(String),
}

fn main() -> ExitCode {
    let failure = match options(std::env::args().skip(1)).and_then(run) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let (message, code) = match failure {
        Failure::Usage(message) => (format!("{message}\n\n{USAGE}"), 1),
        Failure::Output(message) => (message + "\n", 1),
        Failure::Input(message) => (message + "\n", 2),
    };
    eprint!("gradloom-view: {message}");
    ExitCode::from(code)
}

fn format_named(name: &str) -> Option<Format> {
    match name {
        "html" | "htm" => Some(Format::Html),
        "svg" => Some(Format::Svg),
        "dot" | "gv" => Some(Format::Dot),
        "text" | "txt" => Some(Format::Text),
        _ => None,
    }
}

fn options(args: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut args = args;
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .ok_or_else(|| Failure::Usage(format!("`{arg}` needs a value")))
        };
        match arg.as_str() {
            "-h" | "--help" => options.help = true,
            "-o" | "--output" => options.output = Some(value()?),
            "-f" | "--format" => {
                let name = value()?;
                let format = format_named(&name);
                let message = || format!("there is no format `{name}`");
                options.format = Some(format.ok_or_else(|| Failure::Usage(message()))?);
            }
            "--backward" => options.backward = Some(value()?),
            "--vjp" => options.vjp = true,
            "--plan" => options.plan = Some(value()?),
            "--title" => options.title = Some(value()?),
            other if other.starts_with('-') && other != "-" => {
                return Err(Failure::Usage(format!("there is no option `{other}`")));
            }
            _ if options.input.is_some() => {
                return Err(Failure::Usage(format!("`{arg}` is a second input")));
            }
            _ => options.input = Some(arg),
        }
    }
    if options.vjp && options.backward.is_some() {
        let message = "`--vjp` and `--backward` exclude each other";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(options)
}

fn run(options: Options) -> Result<(), Failure> {
    if options.help {
        return write(None, USAGE);
    }
    let output = options.output.as_deref();
    let of_name = output.and_then(|file| format_named(Path::new(file).extension()?.to_str()?));
    let format = options.format.or(of_name).unwrap_or(Format::Html);
    check_page_options(&options, format)?;
    let input = options.input.as_deref().unwrap_or("-");
    let code = read_code(input)?;
    let text = match format {
        Format::Html => page(&options, input, code)?,
        Format::Svg => svg_of_listing(&code),
        Format::Dot => dot_of_listing(&code),
        Format::Text => format!("{code}\n"),
    };
    write(output, &text)
}

/// Returns an error if an option is given that the format cannot show.
fn check_page_options(options: &Options, format: Format) -> Result<(), Failure> {
    let shown = match format {
        Format::Html => return Ok(()),
        Format::Svg => "svg",
        Format::Dot => "dot",
        Format::Text => "text",
    };
    let given = [
        ("--vjp", options.vjp),
        ("--backward", options.backward.is_some()),
        ("--plan", options.plan.is_some()),
        ("--title", options.title.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::Usage(format!(
            "`{option}` needs the format `html`, and the format is `{shown}`"
        ))),
    }
}

fn page(options: &Options, input: &str, code: Listing) -> Result<String, Failure> {
    let stem = Path::new(input).file_stem().and_then(|stem| stem.to_str());
    let named = stem.filter(|_| input != "-").unwrap_or("program");
    let page = Page::new(options.title.as_deref().unwrap_or(named));
    let page = match &options.backward {
        Some(file) => page.backward(read_code(file)?, Metadata::new()),
        None => page,
    };
    let page = match &options.plan {
        Some(file) => page.plan(PlanTable {
            text: read(file)?,
            ..PlanTable::default()
        }),
        None => page,
    };
    let page = match options.vjp {
        true => {
            let vjp = pullback(&code).map_err(|why| Failure::Input(format!("{input}: {why}")))?;
            page.forward(vjp.primal, Metadata::new())
                .results(vjp.n_outs)
                .backward(vjp.pullback, Metadata::new())
        }
        false => page.forward(code, Metadata::new()),
    };
    Ok(page.html())
}

/// Differentiates a program with respect to all parameters that may be floats.
fn pullback(code: &Listing) -> Result<ad::Vjp, String> {
    let program = match code {
        Listing::Program(program) => program,
        Listing::Flow(_) => {
            return Err("`--vjp` needs a program without host control flow".to_owned());
        }
    };
    if let Some(fault) = verify(program).first() {
        return Err(format!("a program with faults has no pullback: {fault}"));
    }
    let is_float = |v: &gradloom_ir::Var| program.aval(*v).dtype.is_none_or(DType::is_float);
    let wrt: Vec<_> = program.params.iter().copied().filter(is_float).collect();
    Ok(ad::vjp(program, &wrt))
}

fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(file),
    };
    result.map_err(|error| Failure::Input(format!("cannot read {}: {error}", shown(file))))
}

fn shown(file: &str) -> &str {
    match file {
        "-" => "the standard input",
        file => file,
    }
}

/// Reads a program or flow. Faults that the parser accepts are warnings.
fn read_code(file: &str) -> Result<Listing, Failure> {
    let text = read(file)?;
    let code: Listing = text
        .parse()
        .map_err(|error| Failure::Input(format!("{}:{error}", shown(file))))?;
    let programs: Vec<&Program> = match &code {
        Listing::Program(program) => vec![program],
        Listing::Flow(flow) => flow.blocks.iter().map(|b| &b.program).collect(),
    };
    for fault in programs.into_iter().flat_map(verify) {
        eprintln!("gradloom-view: warning: {}: {fault}", shown(file));
    }
    Ok(code)
}

fn write(output: Option<&str>, text: &str) -> Result<(), Failure> {
    let result = match output {
        None | Some("-") => std::io::stdout().write_all(text.as_bytes()),
        Some(file) => std::fs::write(file, text),
    };
    match result {
        // The reader of a pipe may stop early.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let output = output.unwrap_or("the standard output");
            Err(Failure::Output(format!("cannot write {output}: {error}")))
        }
        Ok(()) => Ok(()),
    }
}
