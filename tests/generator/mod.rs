//! Random traced functions, as source text.
//!
//! A function is written once, with marks, and printed twice. With `#[traced]` the marks are taken off. Without it they
//! say what plain interpretation does: a tensor between `«` and `»` is evaluated at once, a condition between `⟦` and
//! `⟧` is written down, and a line that begins with `§` evaluates a variable.
//!
//! Tensors have few elements, of magnitude at most [`MOST`], and every op is smooth, so that differences give the
//! derivative wherever the conditions are the same. Equal seeds give equal text.

mod expr;
mod flow;
mod harness;
mod host;
#[path = "../src/rng.rs"]
#[allow(unreachable_pub, dead_code)]
mod rng;
mod scope;
mod signature;
mod stmt;

pub(crate) use harness::file;

use rng::Rng;
use scope::Scope;
use signature::{Ret, Shape, Signature};

/// The largest magnitude of a tensor.
const MOST: f64 = 3.0;

/// How many ops a call of a function may record.
const MOST_OPS: f64 = 160.0;

/// A function.
pub(crate) struct Function {
    signature: Signature,
    /// The item, with marks.
    marked: String,
}

impl Function {
    /// The item with `#[traced]`.
    pub(crate) fn traced(&self) -> String {
        let mut out = String::new();
        for line in self.marked.lines() {
            if !line.trim_start().starts_with('§') {
                out.extend(line.chars().filter(|c| !"«»⟦⟧".contains(*c)));
                out.push('\n');
            }
        }
        out
    }

    /// The item as plain Rust that is evaluated op by op.
    pub(crate) fn plain(&self) -> String {
        let mut text = self.marked.clone();
        for (mark, code) in [
            ("#[traced]\n", ""),
            ("#[traced(record)]\n", ""),
            ("#[nodiff] ", ""),
            ("#[fixed] ", ""),
            ("«", "now("),
            ("⟦", "decide("),
            ("»", ")"),
            ("⟧", ")"),
            ("§", "look(&"),
        ] {
            text = text.replace(mark, code);
        }
        text
    }
}

/// A function that is being written.
struct Draft<'a> {
    rng: &'a mut Rng,
    signature: &'a Signature,
    /// What it may call.
    earlier: &'a [Function],
    scope: Scope,
    out: String,
    /// How many statements may still be written.
    budget: i32,
    /// How often the statement runs that is being written, and how many ops all before it record.
    repeats: f64,
    ops: f64,
    /// The loops around the statement, by their labels.
    loops: Vec<Option<String>>,
    /// How many blocks are around the statement.
    depth: usize,
    /// How many functions a call runs one in the other.
    calls: usize,
}

/// `count` functions, of which later ones call earlier ones.
pub(crate) fn functions(seed: u64, count: usize) -> Vec<Function> {
    let mut rng = Rng::new(seed);
    let mut functions: Vec<Function> = Vec::new();
    for i in 0..count {
        let mut signature = Signature::new(&mut rng, format!("fun_{i}"));
        let budget = 5 + rng.below(12) as i32;
        let mut draft = Draft {
            rng: &mut rng,
            scope: Scope::of(&signature),
            signature: &signature,
            earlier: &functions,
            out: String::new(),
            budget,
            repeats: 1.0,
            ops: 0.0,
            loops: Vec::new(),
            depth: 1,
            calls: 0,
        };
        draft.body();
        let (body, ops, calls) = (draft.out, draft.ops, draft.calls);
        let marked = format!("{} {{\n{body}}}\n", signature.head());
        (signature.ops, signature.calls) = (ops, calls);
        functions.push(Function { signature, marked });
    }
    functions
}

impl Draft<'_> {
    fn body(&mut self) {
        while self.budget > 0 {
            self.stmt();
        }
        let result = self.result();
        self.line(&result);
    }

    fn line(&mut self, text: &str) {
        self.out += &"    ".repeat(self.depth);
        self.out += text;
        self.out.push('\n');
    }

    /// `head {`, what `inside` writes in a scope of its own, `}`.
    fn block(&mut self, head: &str, tail: &str, inside: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        self.scope.open();
        inside(self);
        self.scope.close();
        self.depth -= 1;
        self.line(&format!("}}{tail}"));
    }

    /// What the function returns.
    fn result(&mut self) -> String {
        let ret = self.signature.ret.clone();
        let value = self.value_of(&ret);
        if self.signature.fallible {
            format!("Ok({value})")
        } else {
            value
        }
    }

    fn value_of(&mut self, ret: &Ret) -> String {
        match ret {
            Ret::Tensor(shape) => {
                let depth = self.rng.below(3);
                if self.depth > 1 || self.rng.once_in(5) {
                    return self.expr(shape, depth).owned();
                }
                self.gathered(shape)
            }
            Ret::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.value_of(p)).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    /// Something of many variables, so that what the body did is in the result.
    fn gathered(&mut self, shape: Shape) -> String {
        let mut places = self.scope.tensors(false);
        self.rng.shuffle(&mut places);
        let mut text = self.expr(shape, 1).operand();
        for (place, by_ref, of) in places.into_iter().take(6) {
            let own = expr::Expr::place(place.clone(), by_ref);
            let part = match of {
                _ if of == shape => own.operand(),
                [] => own.operand(),
                _ => format!("«{place}.sum(..)»"),
            };
            let weight = self.number();
            text = format!("«{text} + «{part} * {weight}»»");
        }
        format!("«({text}).sin()»")
    }
}
