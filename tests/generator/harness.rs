//! The file around the functions: the types that they use, and a table of cases that calls them.

use super::Function;
use super::signature::{Named, Param, Ret, Shape, Signature};

/// Types that the functions take, with marks.
pub(crate) const PRELUDE: &str = r#"
#[derive(Clone, Tree)]
pub struct Layer {
    pub w: Tensor,
    pub b: Option<Tensor>,
}

#[traced]
impl Layer {
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = «x.matmul(&self.w)»;
        if let Some(b) = &self.b {
            h = «h + b»;
        }
        «h.tanh()»
    }

    pub fn linear(&self, #[nodiff] x: &Tensor) -> Tensor {
        «(«x.matmul(&self.w)»).sin()»
    }

    pub fn wave(#[nodiff] &self, x: &Tensor) -> Tensor {
        «(«x.matmul(&self.w)»).cos()»
    }
}

#[derive(Clone, Tree)]
pub struct Model {
    pub layers: Vec<Layer>,
    pub gain: Tensor,
    pub ends: (Tensor, Tensor),
}

#[derive(Clone, Copy)]
pub enum Mode {
    Sine,
    Power(usize),
    Mix { by: f64 },
}

pub fn layer(a: &[Tensor]) -> Layer {
    Layer { w: a[0].clone(), b: a.get(1).cloned() }
}

/// Every second layer has a bias.
pub fn model(a: &[Tensor], n: usize) -> Model {
    let starts = (0..n).map(|i| (i + i.div_ceil(2), 2 - i % 2));
    let layers = starts.map(|(start, leaves)| layer(&a[start..start + leaves])).collect();
    let rest = n + n.div_ceil(2);
    Model { layers, gain: a[rest].clone(), ends: (a[rest + 1].clone(), a[rest + 2].clone()) }
}
"#;

/// Writes a file of functions: a module `traced`, a module `plain`, and a table `CASES`.
pub(crate) fn file(functions: &[Function]) -> String {
    let plain: String = functions.iter().map(Function::plain).collect();
    let cases: String = functions
        .iter()
        .enumerate()
        .map(|(i, f)| case(i, f))
        .collect();
    let traced = traced_module(functions);
    format!(
        "{traced}\
         pub mod plain {{\nuse gradloom::prelude::*;\nuse crate::{{decide, look, now}};\n{}\n{plain}}}\n\
         pub const CASES: &[crate::Case] = &[\n{cases}];\n",
        prelude().plain(),
    )
}

/// Returns the types that the functions take, to be printed like a function.
fn prelude() -> Function {
    Function {
        signature: Signature::new(&mut super::Rng::new(0), String::new()),
        marked: PRELUDE.to_owned(),
    }
}

/// Writes a module `traced` with the functions.
pub(crate) fn traced_module(functions: &[Function]) -> String {
    let traced: String = functions.iter().map(Function::traced).collect();
    format!(
        "pub mod traced {{\nuse gradloom::prelude::*;\n{}\n{traced}}}\n",
        prelude().traced()
    )
}

/// Writes a function that needs these companions of all functions, as far as they have them.
///
/// A result that is not a number has no `value_and_grad`; its `vjp` takes its place.
pub(crate) fn uses(functions: &[Function], companions: &[&str]) -> String {
    let mut out = "pub fn uses() -> usize {\n    let mut all = 0;\n".to_owned();
    for f in functions {
        let s = &f.signature;
        for companion in companions {
            let companion = match s.ret {
                Ret::Tensor([]) => companion,
                _ if *companion == "value_and_grad" => "vjp",
                _ => companion,
            };
            let n = if companion == "jvp" {
                2
            } else {
                s.params.len()
            };
            let args = vec!["_"; n].join(", ");
            out += &format!(
                "    all ^= traced::{}::{companion} as fn({args}) -> _ as usize;\n",
                s.name
            );
        }
    }
    out + "    all\n}\n"
}

/// A parameter in a case of the table.
struct Passed {
    /// The argument, from a list `a` of leaves.
    argument: String,
    /// The tangent, from a list `d` of leaves, if the parameter has one.
    tangent: Option<String>,
}

/// Formats a list of shapes as source text.
fn list_of(shapes: &[Shape]) -> String {
    let shapes: Vec<String> = shapes.iter().map(|s| format!("&{s:?}")).collect();
    format!("&[{}]", shapes.join(", "))
}

/// Returns the argument and tangent of the `i`-th function for a parameter whose leaves start at
/// `start`. A `#[nodiff]` parameter gets constant leaves instead and has no tangent.
fn passed(i: usize, named: &Named, start: usize) -> Passed {
    let (param, leaves) = (&named.param, named.param.leaves());
    let start = if named.nodiff { 0 } else { start };
    let end = start + leaves.len();
    let tree = |leaves: &str| {
        let part = format!("{leaves}[{start}..{end}]");
        match param {
            Param::Tensor { .. } => format!("&{leaves}[{start}]"),
            Param::Pair(..) => {
                format!(
                    "&({leaves}[{start}].clone(), {leaves}[{}].clone())",
                    start + 1
                )
            }
            Param::Inputs { .. } => format!("&{part}.to_vec()"),
            Param::Layer { .. } => format!("&M::layer(&{part})"),
            Param::Model { layers } => format!("&M::model(&{part}, {layers})"),
            _ => unreachable!("other parameters have no leaves"),
        }
    };
    // Vary the static arguments with the case and the function, so that all choices are used.
    let of = |choices: &[&str]| {
        let chosen: Vec<&str> = (0..3).map(|k| choices[(i + k) % choices.len()]).collect();
        format!("[{}][k]", chosen.join(", "))
    };
    let given = match named.nodiff {
        true => format!("crate::unchanged({})", list_of(&leaves)),
        false => "a".to_owned(),
    };
    let argument = match param {
        Param::Tensor { by_ref: false, .. } => format!("{given}[{start}].clone()"),
        Param::Mask { shape } => format!("&gradloom_tests::noise(&{shape:?}, 99)"),
        Param::Steps => of(&["2usize", "0", "3", "1", "4"]),
        Param::Number => of(&["0.5", "-1.25", "0.9", "0.25"]),
        Param::Flag => of(&["true", "false"]),
        Param::Mode => of(&[
            "M::Mode::Sine",
            "M::Mode::Power(2)",
            "M::Mode::Mix { by: 0.7 }",
        ]),
        _ => tree(&given),
    };
    let is_tree = matches!(param, Param::Inputs { .. } | Param::Model { .. });
    let tangent = (!named.nodiff && (start < end || is_tree)).then(|| tree("d"));
    Passed { argument, tangent }
}

/// Writes the cotangent of a result as a tree of the leaves `ct[start..]`.
fn cotangent(ret: &Ret, start: &mut usize) -> String {
    match ret {
        Ret::Tensor(_) => {
            *start += 1;
            format!("ct[{}].clone()", *start - 1)
        }
        Ret::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(|p| cotangent(p, start)).collect();
            format!("({})", parts.join(", "))
        }
    }
}

/// Writes an entry of the table.
fn case(i: usize, f: &Function) -> String {
    let s = &f.signature;
    let (mut leaves, mut all) = (Vec::new(), Vec::new());
    for named in &s.params {
        all.push(passed(i, named, leaves.len()));
        if !named.nodiff {
            leaves.extend(named.param.leaves());
        }
    }
    let arguments: Vec<&str> = all.iter().map(|p| p.argument.as_str()).collect();
    let tangents: Vec<&str> = all.iter().filter_map(|p| p.tangent.as_deref()).collect();
    // A tuple of one element is written without parentheses.
    let tuple = |of: &[&str]| match of {
        [one] => (*one).to_owned(),
        _ => format!("({})", of.join(", ")),
    };
    let (name, args) = (&s.name, arguments.join(", "));
    let ask = if s.fallible { ".unwrap()" } else { "" };
    let ct = cotangent(&s.ret, &mut 0);
    let function = |module: &str| {
        let args = args.replace("M::", &format!("{module}::"));
        format!("|a, k| list(&{module}::{name}({args}){ask})")
    };
    let vjp = format!(
        "|a, k, ct| {{ let (y, pullback) = traced::{name}::vjp({args}){ask}; (list(&y), list(&pullback(&{ct}))) }}"
    );
    let jvp = format!(
        "|a, k, d| {{ let (y, dy) = traced::{name}::jvp({}, {}){ask}; (list(&y), list(&dy)) }}",
        tuple(&arguments),
        tuple(&tangents),
    );
    let gradient = match s.ret {
        Ret::Tensor([]) => {
            let fields = s
                .params
                .iter()
                .zip(&all)
                .filter(|(_, p)| p.tangent.is_some());
            let fields: Vec<String> = fields
                .map(|(p, _)| format!("list(&grads.{})", p.name))
                .collect();
            format!(
                "Some(|a, k| {{ let (l, grads) = traced::{name}::value_and_grad({args}){ask}; (l, [{}].concat()) }})",
                fields.join(", "),
            )
        }
        _ => "None".to_owned(),
    };
    let cases = if args.contains("[k]") { 3 } else { 1 };
    let fields = [
        format!("name: {name:?}"),
        format!("source: {:?}", f.traced()),
        format!("program: traced::{name}::PROGRAM"),
        format!("shapes: {}", list_of(&leaves)),
        format!("cases: {cases}"),
        format!("call: {}", function("traced")),
        format!("plain: {}", function("plain")),
        format!("vjp: {}", vjp.replace("M::", "traced::")),
        format!("jvp: {}", jvp.replace("M::", "traced::")),
        format!("gradient: {}", gradient.replace("M::", "traced::")),
    ];
    let fields: Vec<String> = fields.iter().map(|f| format!("        {f},\n")).collect();
    format!("    crate::Case {{\n{}    }},\n", fields.concat())
}
