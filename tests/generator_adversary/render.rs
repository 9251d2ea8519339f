//! Source text of a function.

use super::device::{Param, Value};
use super::place::{Place, Signature, local};
use super::{Part, Spec};

/// Text of a function, with marks, and its parameters.
pub(crate) struct Text {
    pub(crate) params: Vec<Parameter>,
    /// True if the function returns a `Result`.
    pub(crate) fallible: bool,
    items: String,
    function: String,
}

/// A parameter of a function.
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) args: [String; 3],
    pub(crate) tangent: Option<String>,
    pub(crate) leaves: usize,
}

/// Makes the names of a part unique by its index.
fn numbered(text: &str, i: usize) -> String {
    text.replace('@', &i.to_string())
}

impl Parameter {
    fn new(param: &Param, i: usize) -> Parameter {
        Parameter {
            name: numbered(param.name, i),
            ty: numbered(param.ty, i),
            args: param.args.map(|arg| numbered(arg, i)),
            tangent: param.tangent.map(|tangent| numbered(tangent, i)),
            leaves: param.leaves,
        }
    }

    /// Returns whether the parameter is a pattern.
    pub(crate) fn is_pattern(&self) -> bool {
        self.name.starts_with(['(', '['])
    }

    /// Returns the declaration of the parameter with a name or pattern.
    fn declared(&self, name: &str) -> String {
        match self.ty.strip_prefix("#[fixed] ") {
            Some(ty) => format!(", #[fixed] {name}: {ty}"),
            None => format!(", {name}: {}", self.ty),
        }
    }
}

fn declared(params: &[Parameter]) -> String {
    params.iter().map(|p| p.declared(&p.name)).collect()
}

fn signature(params: &[Parameter]) -> Signature {
    let named = |(i, p): (usize, &Parameter)| match p.is_pattern() {
        true => p.declared(&format!("arg_{i}")),
        false => p.declared(&p.name),
    };
    Signature {
        params: declared(params),
        named: params
            .iter()
            .enumerate()
            .map(named)
            .collect::<String>()
            .replace("#[fixed] ", ""),
        args: params.iter().map(|p| format!(", {}", p.name)).collect(),
    }
}

/// Returns the statements before the value of a part, and the value.
fn body(part: &Part) -> (String, String) {
    let device = part.device;
    let stmts = match device.stmts {
        "" => String::new(),
        stmts => format!("\n    {}", stmts.trim()),
    };
    match device.value {
        Value::Tensor(value) => (stmts, value.to_owned()),
        Value::Number(value) => {
            let number = part.wrap.around(value);
            let stmts = format!("{stmts}\n    let number_@: f64 = {number};");
            (stmts, part.mix.text().to_owned())
        }
    }
}

/// Returns the position of a step. A part that rebinds a function gets a block of its own, so that
/// its locals do not shadow functions that later parts call.
fn place(spec: &Spec, i: usize) -> Place {
    let part = &spec.parts[i];
    let hides = matches!(part.device.class, "b" | "c") && i + 1 < spec.parts.len();
    match part.place {
        Place::Straight | Place::Early if hides => Place::Block,
        place => place,
    }
}

pub(super) fn text(spec: &Spec) -> Text {
    let fallible = spec.parts.iter().any(|p| p.place == Place::Fallible);
    let result = match fallible {
        true => format!("Ok({})", spec.result.value),
        false => spec.result.value.to_owned(),
    };
    let mut items = spec.result.items.to_owned();
    let mut all = Vec::new();
    let mut stmts = "\n    let h = x * ‹0.5›;".to_owned();
    let mut now = "h".to_owned();
    for (i, part) in spec.parts.iter().enumerate() {
        let place = place(spec, i);
        let own: Vec<Parameter> = part
            .device
            .params
            .iter()
            .map(|p| Parameter::new(p, i))
            .collect();
        let (before, value) = body(part);
        let next = match spec.shadows {
            true => "h".to_owned(),
            false => format!("h_{i}"),
        };
        let signature = signature(&own);
        let (inner_stmts, inner_value) = (local(&before), local(&value));
        items += &numbered(part.device.items, i);
        items += &numbered(&place.items(&signature, &inner_stmts, &inner_value), i);
        let step = place.stmts(&next, &signature.args, &before, &value, &result);
        stmts += &numbered(&step, i).replace("$h", &now);
        all.extend(own);
        all.extend(place.params().iter().map(|p| Parameter::new(p, i)));
        now = next;
    }
    let ty = match fallible {
        true => format!("Result<{}>", spec.result.ty),
        false => spec.result.ty.to_owned(),
    };
    let function = format!(
        "pub fn f(x: &Tensor{}) -> {ty} {{{stmts}\n    {}\n}}\n",
        declared(&all),
        result.replace("$h", &now)
    );
    Text {
        params: all,
        fallible,
        items,
        function,
    }
}

impl Text {
    /// Returns the traced version. `attribute` is that of the function itself.
    pub(crate) fn traced(&self, attribute: &str) -> String {
        let text = format!("{}\n{attribute}\n{}", self.items, self.function);
        unmarked(&chosen(&text, 0))
    }

    /// Returns the plain version, without attributes.
    pub(crate) fn plain(&self) -> String {
        let mut text = chosen(&format!("{}\n{}", self.items, self.function), 1);
        for attribute in ["#[traced]", "#[traced(record)]", "#[nodiff] ", "#[fixed] "] {
            text = text.replace(attribute, "");
        }
        unmarked(&text)
    }

    /// Returns the traced version with another number for literal `i`.
    pub(crate) fn twin(&self, i: usize) -> String {
        let text = format!("{}\n#[traced]\n{}", self.items, self.function);
        let text = chosen(&text, 0);
        let count = text.matches('‹').count();
        let mut out = String::new();
        for (k, piece) in text.split('‹').enumerate() {
            match piece.split_once('›') {
                Some((number, rest)) => {
                    let other = if number == "0.625" { "0.875" } else { "0.625" };
                    out += if k == 1 + i % count.max(1) {
                        other
                    } else {
                        number
                    };
                    out += rest;
                }
                None => out += piece,
            }
        }
        out
    }
}

/// Removes the marks of literals.
fn unmarked(text: &str) -> String {
    text.chars().filter(|c| !"‹›".contains(*c)).collect()
}

/// Keeps one side of each `⟦a¦b⟧`.
fn chosen(text: &str, side: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        let (inside, after) = after.split_once('⟧').expect("each `⟦` has a `⟧`");
        out += before;
        out += inside.split('¦').nth(side).expect("a mark has two sides");
        rest = after;
    }
    out + rest
}
