//! The file around the functions: a module with copies of each, and a table of cases that calls
//! them.

use super::render::{Parameter, Text};
use super::{Effect, Spec};

/// First lines of each copy.
const HEADER: &str = "
    use gradloom::prelude::*;
    use gradloom_tests::adversary::Outcome;
    use gradloom_tests::adversary::world::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};
";

/// Writes a file of functions, and returns the line at which each begins.
pub(crate) fn file(specs: &[(String, Spec)]) -> (String, Vec<usize>) {
    let mut out = String::new();
    let mut starts = Vec::new();
    for (name, spec) in specs {
        starts.push(out.lines().count() + 1);
        out += &module(name, spec);
    }
    starts.push(out.lines().count() + 1);
    let names: String = specs
        .iter()
        .map(|(name, _)| format!("    {name}::CASE,\n"))
        .collect();
    out += &format!("pub static CASES: &[gradloom_tests::adversary::Case] = &[\n{names}];\n");
    (out, starts)
}

fn module(name: &str, spec: &Spec) -> String {
    let text = spec.text();
    let copy = |name: &str, text: &str| format!("pub mod {name} {{{HEADER}{text}}}\n");
    let mut out = format!("pub mod {name} {{\n");
    out += "use gradloom_tests::adversary::{Case, Effect, list, with_leaves, world::*};\n";
    out += "use std::rc::Rc;\nuse std::cell::Cell;\n";
    out += &copy("plain", &text.plain());
    out += &copy("traced", &text.traced("#[traced]"));
    if spec.records {
        out += &copy("record", &text.traced("#[traced(record)]"));
    }
    if let Some(i) = spec.twin {
        out += &copy("twin", &text.twin(i));
    }
    out + &case(name, spec, &text) + "}\n"
}

/// A parameter in a case of the table.
struct Passed {
    argument: String,
    tangent: Option<String>,
}

/// Formats a tuple. A single element is written without parentheses.
fn tuple(of: &[&str]) -> String {
    match of {
        [one] => (*one).to_owned(),
        _ => format!("({})", of.join(", ")),
    }
}

fn passed(text: &Text) -> (Vec<Passed>, usize) {
    let first = Passed {
        argument: "&a[0]".to_owned(),
        tangent: Some("&d[0]".to_owned()),
    };
    let (mut all, mut start) = (vec![first], 1);
    for param in &text.params {
        let filled = |arg: &str, from: &str| {
            (0..param.leaves).fold(arg.to_owned(), |arg, i| {
                arg.replace(&format!("${i}"), &format!("{from}[{}].clone()", start + i))
            })
        };
        let written = |args: &[String; 3], from: &str| match args {
            [a, b, c] if a == b && b == c => filled(a, from),
            args => format!(
                "[{}][k]",
                args.each_ref().map(|arg| filled(arg, from)).join(", ")
            ),
        };
        all.push(Passed {
            argument: written(&param.args, "a"),
            tangent: (param.leaves > 0).then(|| match &param.tangent {
                Some(tangent) => filled(tangent, "d"),
                None => written(&param.args, "d"),
            }),
        });
        start += param.leaves;
    }
    (all, start)
}

/// Writes the entry of the table.
fn case(name: &str, spec: &Spec, text: &Text) -> String {
    let (all, leaves) = passed(text);
    let arguments: Vec<&str> = all.iter().map(|p| p.argument.as_str()).collect();
    let tangents: Vec<&str> = all.iter().filter_map(|p| p.tangent.as_deref()).collect();
    let args = arguments.join(", ");
    let ask = if text.fallible { ".unwrap()" } else { "" };
    let call = |module: &str| {
        let args = args.replace("M::", &format!("{module}::"));
        format!("|a, k| Box::new({module}::f({args}){ask})")
    };
    let gradient = match spec.result.is_scalar() {
        true => {
            let params = (1..).zip(&text.params).filter(|(_, p)| p.leaves > 0);
            // The gradient of a pattern has the position of the parameter in its name.
            let field = |(i, p): (usize, &Parameter)| match p.is_pattern() {
                true => format!("arg_{i}"),
                false => p.name.clone(),
            };
            let fields: Vec<String> = std::iter::once("x".to_owned())
                .chain(params.map(field))
                .map(|name| format!("list(&grads.{name})"))
                .collect();
            format!(
                "Some(|a, k| {{ let (l, grads) = traced::f::value_and_grad({args}){ask}; (l, [{}].concat()) }})",
                fields.join(", ")
            )
        }
        false => "None".to_owned(),
    };
    let effect = match spec.effect() {
        Effect::None => "None",
        Effect::Reads => "Reads",
        Effect::Typed => "Typed",
        Effect::Hidden => "Hidden",
        Effect::Granted => "Granted",
    };
    let twin = spec
        .twin
        .map(|i| format!("Some((twin::f::HASH, {:?}))", text.twin(i)));
    let fields = [
        ("name", format!("{name:?}")),
        ("parts", format!("&{:?}", spec.labels())),
        ("source", format!("{:?}", text.traced("#[traced]"))),
        ("effect", format!("Effect::{effect}")),
        ("leaves", leaves.to_string()),
        ("recorded", "traced::f::RECORDED".to_owned()),
        ("hash", "traced::f::HASH".to_owned()),
        ("twin", twin.unwrap_or("None".to_owned())),
        ("plain", call("plain")),
        ("traced", call("traced")),
        (
            "record",
            match spec.records {
                true => format!("Some({})", call("record")),
                false => "None".to_owned(),
            },
        ),
        (
            "vjp",
            format!(
                "|a, k, ct| {{ let (y, pullback) = traced::f::vjp({args}){ask}; \
                 let ct = with_leaves(&y, ct); let ct = list(&pullback(&ct)); (Box::new(y), ct) }}"
            ),
        ),
        (
            "jvp",
            format!(
                "|a, k, d| {{ let (y, dy) = traced::f::jvp({}, {}){ask}; (Box::new(y), list(&dy)) }}",
                tuple(&arguments),
                tuple(&tangents)
            ),
        ),
        ("gradient", gradient),
    ];
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("    {name}: {},\n", value.replace("M::", "traced::")))
        .collect();
    format!("pub const CASE: Case = Case {{\n{fields}}};\n")
}
