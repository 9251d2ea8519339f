//! Position of a step in a function.

use super::device::{Param, fixed, tree};

/// Position of a step in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the function body.
    Straight,
    /// In a block.
    Block,
    /// In a branch that only some calls take.
    Branch,
    /// In a loop.
    Loop,
    /// In a closure that is called at once.
    Closure,
    /// In a traced function.
    Callee,
    /// In a traced method.
    Method,
    /// In a traced function that returns a `Result`.
    Fallible,
    /// Before an early return.
    Early,
    /// In a closure that is differentiated.
    Grad,
    /// In a traced function that is differentiated by its companion.
    Companion,
}

impl Place {
    pub(crate) const ALL: [Place; 11] = [
        Place::Straight,
        Place::Block,
        Place::Branch,
        Place::Loop,
        Place::Closure,
        Place::Callee,
        Place::Method,
        Place::Fallible,
        Place::Early,
        Place::Grad,
        Place::Companion,
    ];

    /// Returns the parameters that this position needs.
    pub(crate) fn params(self) -> &'static [Param] {
        const FLAG: Param = fixed("flag_@", "bool", ["true", "false", "true"]);
        const STOP: Param = fixed("stop_@", "bool", ["false", "false", "true"]);
        const TURNS: Param = fixed("turns_@", "usize", ["2", "1", "0"]);
        const UNIT: Param = tree("unit_@", "&Unit@", "&M::Unit@ { u: $0 }", 1);
        match self {
            Place::Branch => &[FLAG],
            Place::Early => &[STOP],
            Place::Loop => &[TURNS],
            Place::Method => &[UNIT],
            _ => &[],
        }
    }

    /// Writes the items of a step. They declare `params`, and `stmts` come before `value`. `$h` is
    /// a local there.
    pub(crate) fn items(self, params: &str, stmts: &str, value: &str) -> String {
        let body = |value: &str| {
            format!("{{\n        let h = x * ‹0.75›;{stmts}\n        {value}\n    }}")
        };
        let function = |ty: &str, value: &str| {
            format!(
                "\n    #[traced]\n    pub fn inner_@(x: &Tensor{params}) -> {ty} {}",
                body(value)
            )
        };
        match self {
            Place::Callee => function("Tensor", value),
            Place::Fallible => function("Result<Tensor>", &format!("Ok({value})")),
            Place::Companion => function("Tensor", &format!("({value}).sum(..)")),
            Place::Method => format!(
                "\n    #[derive(Clone, Tree)]\n    pub struct Unit@ {{ pub u: Tensor }}\n    #[traced]\n    \
                 impl Unit@ {{\n    pub fn apply_@(&self, x: &Tensor{params}) -> Tensor {}\n    }}",
                body(&format!("({value}) * &self.u"))
            ),
            _ => String::new(),
        }
    }

    /// Writes the statements that bind `next` from `$h`. `args` are the arguments of a callee, and
    /// `result` is the expression of an early return.
    pub(crate) fn stmts(
        self,
        next: &str,
        args: &str,
        stmts: &str,
        value: &str,
        result: &str,
    ) -> String {
        match self {
            Place::Straight => format!("{stmts}\n    let {next} = {value};"),
            Place::Block => format!("\n    let {next} = {{{stmts}\n    {value}\n    }};"),
            Place::Branch => format!(
                "\n    let {next} = if flag_@ {{{stmts}\n    {value}\n    }} else {{\n    $h.sin()\n    }};"
            ),
            Place::Loop => format!(
                "\n    let mut turned_@ = $h.clone();\n    for _ in 0..turns_@ {{\n    let h = &turned_@ * 0.75;{}\n    \
                 turned_@ = {};\n    }}\n    let {next} = turned_@;",
                local(stmts),
                local(value)
            ),
            Place::Closure => format!(
                "\n    let mut block_@ = |t: &Tensor| {{\n    let h = t * 0.75;{}\n    {}\n    }};\n    \
                 let {next} = block_@(&$h);",
                local(stmts),
                local(value)
            ),
            Place::Callee => format!("\n    let {next} = inner_@(&$h{args});"),
            Place::Method => format!("\n    let {next} = unit_@.apply_@(&$h{args});"),
            Place::Fallible => format!("\n    let {next} = inner_@(&$h{args})?;"),
            Place::Early => format!(
                "{stmts}\n    let {next} = {value};\n    if stop_@ {{\n    return {};\n    }}",
                result.replace("$h", next)
            ),
            Place::Grad => format!(
                "\n    let {next} = grad(|t: &Tensor| {{\n    let h = t * 0.75;{}\n    ({}).sum(..)\n    }})(&$h);",
                local(stmts),
                local(value)
            ),
            Place::Companion => format!(
                "\n    let {next} = ⟦inner_@::grad(&$h{args}).x¦grad(|t: &Tensor| inner_@(t{args}))(&$h)⟧;"
            ),
        }
    }
}

/// Replaces `$h` with the local `h`.
pub(crate) fn local(text: &str) -> String {
    text.replace("$h", "h")
}
