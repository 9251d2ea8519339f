//! Random traced functions, as source text.
//!
//! A function is generated once, with marks, and printed twice. `#[traced]` functions are printed
//! without the marks. For plain interpretation the marks have a meaning: a tensor between `«` and
//! `»` is evaluated at once, a condition between `⟦` and `⟧` is logged, and a line that begins with
//! `§` evaluates a variable.
//!
//! Tensors have few elements, of magnitude at most [`MOST`], and every op is smooth. So finite
//! differences give the derivative wherever the conditions are the same. Equal seeds give equal
//! text.

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
pub(crate) use harness::{traced_module, uses};

use rng::Rng;
use scope::Scope;
use signature::{Ret, Shape, Signature};

/// Largest magnitude of a tensor.
const MOST: f64 = 3.0;

/// Maximum number of ops that a call of a function may record.
const MOST_OPS: f64 = 160.0;

/// A generated function.
pub(crate) struct Function {
    signature: Signature,
    /// The item, with marks.
    marked: String,
}

impl Function {
    /// Returns the item with `#[traced]`.
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

    /// Returns the item as plain Rust that is evaluated op by op.
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

/// A function that is being generated.
struct Draft<'a> {
    rng: &'a mut Rng,
    signature: &'a Signature,
    /// Functions that it may call.
    earlier: &'a [Function],
    scope: Scope,
    out: String,
    /// Number of statements that may still be written.
    budget: i32,
    /// Number of times that the current statement runs.
    repeats: f64,
    ops: f64,
    /// Labels of the enclosing loops, innermost last.
    loops: Vec<Option<String>>,
    /// Number of enclosing blocks.
    depth: usize,
    /// Depth of the call tree below this function.
    calls: usize,
}

/// Generates `count` functions. Later ones may call earlier ones.
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

    /// Writes `head {`, then the statements of `inside` in a scope of their own, then `}`.
    fn block(&mut self, head: &str, tail: &str, inside: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        self.scope.open();
        inside(self);
        self.scope.close();
        self.depth -= 1;
        self.line(&format!("}}{tail}"));
    }

    /// Writes the returned expression.
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

    /// Combines many variables into one tensor, so that the result depends on all of the body.
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
