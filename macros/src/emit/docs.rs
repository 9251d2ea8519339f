//! Writes the documentation of companions, which editors show at a call: shapes, residuals and
//! costs. The constant with the program shows the program.

use super::flow::ReverseParts;
use crate::derivative::Costs;
use crate::input::{Func, Kind, OutShape};
use crate::program::Body;
use gradloom_ir::{Cost, Poly, Program, Shape, Var};

/// Length in lines at which programs are cut off, because tooltips are short.
const MOST_LINES: usize = 60;
/// Number of residuals that are listed by name; the rest are only counted.
const MOST_NAMES: usize = 20;

/// Facts about a function, as lines of Markdown.
#[derive(Default)]
pub(crate) struct Docs {
    shapes: String,
    residuals: String,
    costs: String,
    calls: String,
    program: String,
    /// Sentence that names the constant with the program.
    reference: String,
}

impl Docs {
    pub(crate) fn new(
        func: &Func,
        body: &Body,
        program: &str,
        constant: &str,
        reverse: Option<&ReverseParts>,
        recorded: Option<&str>,
    ) -> Docs {
        let costs = reverse.and_then(|r| r.costs.as_ref());
        Docs {
            shapes: shapes(func, body),
            residuals: match (body.straight(), reverse.zip(costs)) {
                (Some(low), Some((reverse, costs))) => {
                    residuals(&low.program, &reverse.residuals, costs.derived)
                }
                _ => String::new(),
            },
            costs: costs.map(cost).unwrap_or_default(),
            calls: match (body, recorded) {
                // The program's text contains the reason.
                (Body::Recorded(_), _) | (_, None) => String::new(),
                (_, Some(why)) => format!("calls: each is recorded, because {why}"),
            },
            program: match body {
                Body::Recorded(reason) => format!("The body is traced at run time: {reason}."),
                _ => program_text(program, constant),
            },
            reference: match (body, &func.owner) {
                (Body::Recorded(reason), _) => {
                    format!("The body is traced at run time: {reason}.")
                }
                (_, None) => format!("The program is in `{}::{constant}`.", func.name()),
                (_, Some(_)) => format!("The program is in `{constant}`."),
            },
        }
    }

    /// Returns the documentation of a reverse-mode companion, with residuals and costs.
    pub(crate) fn reverse(&self, sentence: &str) -> String {
        self.text(
            sentence,
            &[&self.shapes, &self.residuals, &self.costs, &self.calls],
            &self.reference,
        )
    }

    /// Returns the documentation of any other companion.
    pub(crate) fn other(&self, sentence: &str) -> String {
        self.text(sentence, &[&self.shapes, &self.calls], &self.reference)
    }

    /// Returns the documentation of the constant with the program.
    pub(crate) fn program(&self, sentence: &str) -> String {
        self.text(sentence, &[&self.shapes, &self.calls], &self.program)
    }

    fn text(&self, sentence: &str, lines: &[&String], end: &str) -> String {
        let lines = lines.iter().filter(|l| !l.is_empty());
        let list: Vec<String> = lines.map(|l| format!("- {l}\n")).collect();
        let parts = [sentence, &list.concat(), end];
        let parts = parts.into_iter().filter(|p| !p.is_empty());
        let parts: Vec<&str> = parts.map(str::trim_end).collect();
        parts.join("\n\n")
    }
}

/// Returns `x: [B, I], w: [I, O] -> [B, O]`, or nothing if no shape is known.
fn shapes(func: &Func, body: &Body) -> String {
    let params = func.params.iter().filter(|p| p.kind == Kind::Tensor);
    let shown = params
        .clone()
        .map(|p| format!("{}: {}", p.name, p.aval.shape));
    let shown: Vec<String> = shown.collect();
    let outs = body.straight().map(|low| &low.program);
    let outs = outs.map(|program| program.outs.iter().map(|v| &program.aval(*v).shape));
    let outs: Vec<&Shape> = outs.into_iter().flatten().collect();
    let known = params.map(|p| &p.aval.shape).chain(outs.iter().copied());
    if known.filter(|s| s.dims().is_some()).count() == 0 {
        return String::new();
    }
    let unknown = outs.iter().all(|s| s.dims().is_none());
    let outs: Vec<String> = outs.iter().map(ToString::to_string).collect();
    let result = match (&*outs, &func.output.shape) {
        ([], _) => String::new(),
        _ if unknown => String::new(),
        ([one], OutShape::Tensor) => format!(" -> {one}"),
        (outs, _) => format!(" -> ({})", outs.join(", ")),
    };
    format!("shapes: `{}{result}`", shown.join(", "))
}

/// Returns the line that lists the residuals, with their shapes where these are known.
fn residuals(program: &Program, saved: &[Var], derived: usize) -> String {
    let show = |v: &Var| match &program.aval(*v).shape {
        shape if shape.dims().is_some() => format!("`{}: {shape}`", program.show(*v)),
        _ => format!("`{}`", program.show(*v)),
    };
    let mut values: Vec<String> = saved.iter().take(MOST_NAMES).map(show).collect();
    match saved.len().saturating_sub(MOST_NAMES) + derived {
        0 => {}
        1 if values.is_empty() => values.push("1 value of the derivative".to_owned()),
        more if values.is_empty() => values.push(format!("{more} values of the derivative")),
        more => values.push(format!("and {more} more")),
    }
    match values.is_empty() {
        true => "residuals: none".to_owned(),
        false => format!("residuals: {}", values.join(", ")),
    }
}

fn cost(costs: &Costs) -> String {
    let unknown = costs.value.flops.is_none() && costs.pullback.flops.is_none();
    if unknown && costs.saved.is_none() {
        return String::new();
    }
    let (value, pullback) = (words(&costs.value), words(&costs.pullback));
    let saved = word(&costs.saved);
    format!("costs: value {value}; pullback {pullback}; {saved} bytes of residuals")
}

/// Returns a program as a fenced block of text.
fn program_text(program: &str, constant: &str) -> String {
    let n = program.lines().count();
    if n <= MOST_LINES {
        return format!("```text\n{program}\n```");
    }
    let head: Vec<&str> = program.lines().take(MOST_LINES).collect();
    let rest = n - MOST_LINES;
    format!(
        "```text\n{}\n```\n\n{rest} more lines are in `{constant}`.",
        head.join("\n")
    )
}

pub(crate) fn words(cost: &Cost) -> String {
    let (flops, functions) = (word(&cost.flops), word(&cost.transcendentals));
    let bytes = word(&cost.bytes);
    format!("{flops} flops, {functions} transcendentals, {bytes} bytes")
}

pub(crate) fn word(poly: &Option<Poly>) -> String {
    poly.as_ref()
        .map_or_else(|| "?".to_owned(), |poly| format!("`{poly}`"))
}
