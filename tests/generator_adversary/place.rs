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
    /// In a traced function from a struct to the next one, which a loop calls.
    Carried,
    /// In a method of a trait, which a generic function calls.
    Trait,
    /// In a loop that fills a list.
    Listed,
    /// In the closure of an iterator that is collected.
    Collected,
    /// In a traced function from an `Option` to an `Option`.
    Optional,
    /// In a traced function from a slice to a list.
    Slice,
}

impl Place {
    pub(crate) const ALL: [Place; 17] = [
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
        Place::Carried,
        Place::Trait,
        Place::Listed,
        Place::Collected,
        Place::Optional,
        Place::Slice,
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
            Place::Loop | Place::Carried => &[TURNS],
            Place::Method | Place::Trait => &[UNIT],
            _ => &[],
        }
    }

    /// Writes the items of a step. They declare the parameters of `signature`, and `stmts` come before
    /// `value`. `$h` is a local there.
    pub(crate) fn items(self, signature: &Signature, stmts: &str, value: &str) -> String {
        let Signature {
            params,
            named,
            args,
        } = signature;
        let body_of = |x: &str, value: &str| {
            format!("{{\n        let h = {x} * ‹0.75›;{stmts}\n        {value}\n    }}")
        };
        let body = |value: &str| body_of("x", value);
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
            Place::Carried => format!(
                "\n    #[derive(Clone, Tree)]\n    pub struct Slot@ {{ pub h: Tensor, pub c: Tensor }}\n    #[traced]\n    \
                 pub fn inner_@(slot: &Slot@{params}) -> Slot@ {}",
                body_of(
                    "&slot.h",
                    &format!("Slot@ {{ h: {value}, c: &slot.c * 0.5 + slot.h.sin() }}")
                )
            ),
            Place::Trait => format!(
                "\n    #[traced]\n    pub trait Does@ {{\n    fn apply_@(&self, x: &Tensor{named}) -> Tensor;\n    }}\n    \
                 #[derive(Clone, Tree)]\n    pub struct Unit@ {{ pub u: Tensor }}\n    #[traced]\n    \
                 impl Does@ for Unit@ {{\n    fn apply_@(&self, x: &Tensor{params}) -> Tensor {}\n    }}\n    \
                 #[traced]\n    pub fn inner_@<D: Does@ + Tree>(does: &D, x: &Tensor{params}) -> Tensor \
                 {{ does.apply_@(x{args}) }}",
                body(&format!("({value}) * &self.u"))
            ),
            Place::Optional => format!(
                "\n    #[traced]\n    pub fn inner_@(x: Option<&Tensor>{params}) -> Option<Tensor> \
                 {{\n    match x {{\n    Some(x) => {}\n    None => None,\n    }}\n    }}",
                body(&format!("Some({value})"))
            ),
            Place::Slice => format!(
                "\n    #[traced]\n    pub fn inner_@(all: &[Tensor]{params}) -> Vec<Tensor> {}",
                body_of(
                    "&all[0]",
                    &format!("let y = {value};\n        vec![y, all[1].sin()]")
                )
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
            Place::Carried => format!(
                "\n    let mut slot_@ = Slot@ {{ h: $h.sin(), c: $h.clone() }};\n    for _ in 0..turns_@ {{\n    \
                 let old = slot_@.h.clone();\n    slot_@ = inner_@(&slot_@{args});\n    \
                 slot_@.c = &slot_@.c + (&slot_@.h - old) * ‹0.5›;\n    }}\n    \
                 let {next} = &slot_@.h * &slot_@.c;"
            ),
            Place::Trait => format!("\n    let {next} = inner_@(unit_@, &$h{args});"),
            Place::Listed => format!(
                "\n    let mut list_@ = Vec::new();\n    for part in [$h.clone(), $h.sin()] {{\n    let h = &part * 0.75;{}\n    \
                 list_@.push({});\n    }}\n    let {next} = Tensor::stack(&list_@, 0).sum(0);",
                local(stmts),
                local(value)
            ),
            Place::Collected => format!(
                "\n    let list_@: Vec<Tensor> = (0..2).map(|i| {{\n    let h = &$h * (i as f64 + ‹0.5›);{}\n    {}\n    \
                 }}).collect();\n    let {next} = list_@.iter().fold($h.sin(), |a, t| a + t);",
                local(stmts),
                local(value)
            ),
            Place::Optional => format!(
                "\n    let {next} = match inner_@(Some(&$h){args}) {{\n    Some(t) => t,\n    None => $h.cos(),\n    }};"
            ),
            Place::Slice => format!(
                "\n    let all_@ = inner_@(&[$h.clone(), $h.clone()]{args});\n    let {next} = &all_@[0] * &all_@[1];"
            ),
        }
    }
}

/// Parameters of a callee after the first, as text that begins with a comma.
pub(crate) struct Signature {
    /// Declarations.
    pub(crate) params: String,
    /// Declarations of a trait's method: without `#[fixed]`, and with a name for each pattern.
    pub(crate) named: String,
    /// Arguments.
    pub(crate) args: String,
}

/// Replaces `$h` with the local `h`.
pub(crate) fn local(text: &str) -> String {
    text.replace("$h", "h")
}
