//! The parser of programs.

use crate::entity::var_number;
use crate::mesh::{MeshAxes, Tiling};
use crate::sharding::{Mesh, Reduction, ShardingError, ShardingSpec};
use crate::{
    Attr, Aval, Builder, DType, Dim, Eqn, Op, Poly, Program, Programs, RematHint, SecondaryMap,
    Shape, Static, Symbol, Var,
};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A syntax error in the text form of a program or flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, in characters.
    pub column: usize,
    /// The error message.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

pub(super) type Parsed<T> = Result<T, ParseError>;

impl FromStr for Program {
    type Err = ParseError;

    /// Parses the text form and infers the avals of all variables by the rules of the ops.
    ///
    /// Operands that do not fit are not syntax errors. They leave avals unknown, and the verifier
    /// reports them.
    fn from_str(text: &str) -> Parsed<Program> {
        let mut parser = Parser::new(text);
        let program = parser.program()?;
        parser.end()?;
        Ok(infer(program))
    }
}

/// Returns the first variable number that is too large for the text.
///
/// Variables from this number on are renumbered. Tables of variables have an entry for each number
/// below the greatest, so this bounds the memory of a program by the length of its text.
fn first_far_var(text: &str) -> u32 {
    const ALWAYS_NEAR: u32 = 4096;
    u32::try_from(text.len()).map_or(u32::MAX, |len| len.saturating_add(ALWAYS_NEAR))
}

/// Returns the first number for named and renumbered variables.
///
/// It is one above the highest number that the text mentions and that is kept.
fn first_free_var(text: &str) -> u32 {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let first_far = first_far_var(text);
    words
        .filter_map(var_number)
        .filter(|n| *n < first_far)
        .map(|n| n + 1)
        .max()
        .unwrap_or(0)
}

/// Infers the avals of a program from those of its parameters, by the rules of the ops.
fn infer(program: Program) -> Program {
    let mut avals: SecondaryMap<Var, Aval> = SecondaryMap::new();
    for param in &program.params {
        avals.insert(*param, program.aval(*param).clone());
    }
    for eqn in &program.eqns {
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let unknown = Aval::UNKNOWN;
        let args: Vec<&Aval> = eqn
            .args
            .iter()
            .map(|v| avals.get(*v).unwrap_or(&unknown))
            .collect();
        let outs = eqn.op.infer(&statics, &args, eqn.outs.len());
        let outs = outs.unwrap_or_else(|_| vec![Aval::UNKNOWN; eqn.outs.len()]);
        for (out, aval) in eqn.outs.iter().zip(outs) {
            avals.insert(*out, aval);
        }
    }
    Program { avals, ..program }
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    /// The byte position of the next unread character.
    pub(super) at: usize,
    vars: BTreeMap<&'a str, Var>,
    next: u32,
    first_far: u32,
    /// The number of open scopes.
    pub(super) depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            vars: BTreeMap::new(),
            next: first_free_var(text),
            first_far: first_far_var(text),
            depth: 0,
        }
    }

    /// Returns an error unless the end of the text is reached.
    pub(super) fn end(&mut self) -> Parsed<()> {
        self.space();
        match self.at < self.text.len() {
            true => Err(self.error(format!("expected the end, found {}", self.found()))),
            false => Ok(()),
        }
    }

    /// Returns the user's names of the variables read so far.
    pub(super) fn names(&self) -> SecondaryMap<Var, String> {
        let named = self.vars.iter().filter(|(n, _)| var_number(n).is_none());
        named.map(|(n, v)| (*v, n.to_string())).collect()
    }

    fn program(&mut self) -> Parsed<Program> {
        let mut b = Builder::new();
        let mut avals = SecondaryMap::new();
        let mut remat_hints = SecondaryMap::new();
        self.expect("(")?;
        let params = self.params(&mut avals)?;
        self.expect("{")?;
        while !self.eat_word("return") {
            let hint = self.hint()?;
            let eqn = self.eqn(&mut b)?;
            if let Some(hint) = hint {
                for out in &eqn.outs {
                    remat_hints.insert(*out, hint);
                }
            }
            b.append(eqn);
        }
        let outs = self.list("}", Parser::var)?;
        let mut program = b.finish(params, outs);
        program.avals = avals;
        program.remat_hints = remat_hints;
        program.names = self.names();
        Ok(program)
    }

    /// Parses parameters up to and including `)`, and records their avals.
    pub(super) fn params(&mut self, avals: &mut SecondaryMap<Var, Aval>) -> Parsed<Vec<Var>> {
        self.list(")", |p| {
            let var = p.var()?;
            let aval = if p.eat(":") { p.aval()? } else { Aval::UNKNOWN };
            avals.insert(var, aval);
            Ok(var)
        })
    }

    fn hint(&mut self) -> Parsed<Option<RematHint>> {
        let start = self.mark();
        if !self.eat("#") {
            return Ok(None);
        }
        match self.word()? {
            "save" => Ok(Some(RematHint::Save)),
            "recompute" => Ok(Some(RematHint::Recompute)),
            found => {
                let message = format!("expected `#save` or `#recompute`, found `#{found}`");
                Err(self.error_at(start, message))
            }
        }
    }

    pub(super) fn eqn(&mut self, b: &mut Builder) -> Parsed<Eqn> {
        let mut outs = vec![self.var()?];
        while self.eat(",") {
            outs.push(self.var()?);
        }
        self.expect("=")?;
        let start = self.mark();
        let name = self.word()?;
        let op = Op::from_name(name)
            .ok_or_else(|| self.error_at(start, format!("there is no op `{name}`")))?;
        let attrs = self.statics(b, op)?;
        let args = self.operands(op)?;
        Ok(Eqn {
            outs: outs.into(),
            op,
            attrs: attrs.into(),
            args: args.into(),
        })
    }

    /// Parses the static arguments of an op.
    fn statics(&mut self, b: &mut Builder, op: Op) -> Parsed<Vec<Attr>> {
        let mut attrs: Vec<Attr> = Vec::new();
        let statics = op.def().statics();
        if statics.is_empty() {
            return Ok(attrs);
        }
        self.expect("[")?;
        for (i, expected) in statics.iter().enumerate() {
            if i > 0 {
                self.expect(",")?;
            }
            let start = self.mark();
            let found = self.word()?;
            let expected = expected.name;
            if found != expected {
                let message =
                    format!("expected the static argument `{expected}` of `{op}`, found `{found}`");
                return Err(self.error_at(start, message));
            }
            self.expect("=")?;
            let value = self.value()?;
            attrs.push(b.attr(value));
        }
        self.expect("]")?;
        Ok(attrs)
    }

    /// Parses the operands of an op, of which the last ones may be `like x`.
    fn operands(&mut self, op: Op) -> Parsed<Vec<Var>> {
        let start = self.mark();
        let (mut args, mut is_like) = (Vec::new(), Vec::new());
        // An op without operands is followed by the next equation: names and then a `=`.
        while self.operand_follows(args.is_empty()) {
            is_like.push(self.eat_word("like"));
            args.push(self.var()?);
            if !self.eat(",") {
                break;
            }
        }
        let operands = op.def().operands();
        if !operands.fits(args.len()) {
            let message = format!("`{op}` does not take {} operands", args.len());
            return Err(self.error_at(start, message));
        }
        let n_data = operands.n_data(args.len());
        if is_like
            .iter()
            .enumerate()
            .any(|(i, like)| *like != (i >= n_data))
        {
            let message = format!(
                "`{op}` takes {n_data} values (`x`) and then {} shapes (`like x`)",
                args.len() - n_data
            );
            return Err(self.error_at(start, message));
        }
        Ok(args)
    }

    fn operand_follows(&mut self, first: bool) -> bool {
        if !first {
            return true;
        }
        let saved = self.at;
        let word = self.word().ok();
        while self.eat(",") && self.word().is_ok() {}
        let starts_eqn =
            self.eat("=") || self.eat(":=") || word.is_none() || word == Some("return");
        self.at = saved;
        !starts_eqn
    }

    pub(super) fn aval(&mut self) -> Parsed<Aval> {
        let start = self.mark();
        let dtype = if self.eat("?") {
            None
        } else {
            let name = self.word()?;
            Some(
                DType::from_name(name)
                    .ok_or_else(|| self.error_at(start, format!("there is no dtype `{name}`")))?,
            )
        };
        self.expect("[")?;
        if self.eat("..") {
            self.expect("]")?;
            return Ok(Aval {
                dtype,
                shape: Shape::UNKNOWN,
            });
        }
        let dims = self.list("]", Parser::dim)?;
        Ok(Aval {
            dtype,
            shape: dims.into(),
        })
    }

    /// Parses a dim: `3`, `B`, `?`, or terms such as `2*B*T` joined by `+` or `-`.
    fn dim(&mut self) -> Parsed<Dim> {
        if self.eat("?") {
            return Ok(Dim::Unknown);
        }
        let start = self.mark();
        let mut sum = Some(Poly::ZERO);
        let mut negative = self.eat("-");
        loop {
            let mut term = Some(Poly::constant(if negative { -1 } else { 1 }));
            loop {
                let factor = self.factor()?;
                term = term.and_then(|term| term.times(&factor));
                if !self.eat("*") {
                    break;
                }
            }
            sum = sum.zip(term).and_then(|(sum, term)| sum.plus(&term));
            negative = self.eat("-");
            if !negative && !self.eat("+") {
                break;
            }
        }
        let dim = sum.map(Dim::from);
        let end = self.at;
        dim.filter(|dim| *dim != Dim::Unknown).ok_or_else(|| {
            let text = self.text[start..end].trim();
            self.error_at(start, format!("`{text}` is not a length of an axis"))
        })
    }

    fn factor(&mut self) -> Parsed<Poly> {
        let start = self.mark();
        let word = self.word()?;
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Poly::name(Symbol::new(word)));
        }
        let number: Result<i64, _> = word.parse();
        number
            .map(|n| Poly::constant(n.into()))
            .map_err(|_| self.error_at(start, format!("`{word}` is not a length of an axis")))
    }

    fn value(&mut self) -> Parsed<Static> {
        if self.eat("[") {
            return Ok(Static::Ints(self.list("]", Parser::integer)?));
        }
        if self.eat("<") {
            return Ok(self.programs()?.into());
        }
        if self.eat("{") {
            return self.mesh();
        }
        if self.eat("(") {
            return Ok(self.list(")", Parser::tiling)?.into());
        }
        let start = self.mark();
        if self.text[start..].starts_with("mesh @") {
            return self.sharding();
        }
        if let Some(text) = self.host()? {
            if !self.eat(":") {
                return Ok(Static::Host(text));
            }
            self.expect("[")?;
            let len = |p: &mut Self| {
                // Only a `-1` by itself stands for an inferred length; `-10*B + 20` is a dim.
                let rest = p.text[p.mark()..].strip_prefix("-1");
                match rest.is_some_and(|rest| rest.starts_with([',', ']'])) {
                    true => p.expect("-1").map(|()| None),
                    false => p.dim().map(Some),
                }
            };
            return Ok(Static::Dims(text, self.list("]", len)?));
        }
        self.space();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| c == ',' || c == ']' || c.is_whitespace())
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" => Some(Static::Bool(true)),
            "false" => Some(Static::Bool(false)),
            "all" => Some(Static::All),
            _ => None,
        };
        let reduce = || Reduction::from_name(word);
        let nan = || {
            Some(Static::Float(f64::from_bits(
                u64::from_str_radix(word.strip_prefix("nan:")?, 16).ok()?,
            )))
        };
        let value = value
            .or_else(|| DType::from_name(word).map(Static::DType))
            .or_else(|| reduce().map(Static::Reduce))
            .or_else(|| word.parse().ok().map(Static::Int))
            .or_else(nan)
            .or_else(|| word.parse().ok().map(Static::Float));
        self.at += end;
        value.ok_or_else(|| {
            self.error_at(
                start,
                format!("`{word}` is not a value of a static argument"),
            )
        })
    }

    /// Parses axes of a mesh after the `{`.
    fn mesh(&mut self) -> Parsed<Static> {
        let start = self.mark();
        let axis = |p: &mut Self| {
            let name = Symbol::new(p.word()?);
            p.expect(":")?;
            let at = p.mark();
            let len = usize::try_from(p.integer()?).ok();
            len.map(|len| (name, len))
                .ok_or_else(|| p.error_at(at, "a number of devices is not negative".into()))
        };
        let axes = self.list("}", axis)?;
        let mesh = MeshAxes::new(axes).map_err(|what| self.error_at(start, what))?;
        Ok(mesh.into())
    }

    /// Parses a mesh and a spec, or a list of specs.
    fn sharding(&mut self) -> Parsed<Static> {
        let start = self.mark();
        let mesh: Mesh = self
            .until_angle()
            .parse()
            .map_err(|error: ShardingError| self.error_at(start, error.to_string()))?;
        let mesh = Arc::new(mesh);
        if !self.eat("(") {
            return Ok(self.spec(&mesh)?.into());
        }
        let one = |p: &mut Self| match p.eat("_") {
            true => Ok(None),
            false => p.spec(&mesh).map(Some),
        };
        let specs = self.list(")", one)?;
        Ok(Static::Specs(mesh, specs))
    }

    fn spec(&mut self, mesh: &Arc<Mesh>) -> Parsed<ShardingSpec> {
        let start = self.mark();
        let text = self.until_angle();
        let spec = ShardingSpec::parse(mesh, text);
        spec.map_err(|error| self.error_at(start, error.to_string()))
    }

    /// Returns the text up to and including the next `>`, with which meshes and specs end.
    fn until_angle(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find('>').map_or(rest.len(), |end| end + 1);
        self.at += end;
        &rest[..end]
    }

    /// Parses `[{data}, {}]`.
    fn tiling(&mut self) -> Parsed<Tiling> {
        self.expect("[")?;
        let dim = |p: &mut Self| {
            p.expect("{")?;
            p.list("}", |p| p.word().map(Symbol::new))
        };
        Ok(Tiling(self.list("]", dim)?))
    }

    /// Opens a scope.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        /// Bound on nesting, because the parser recurses for each open scope.
        const DEEPEST: usize = 256;
        if self.depth == DEEPEST {
            let message = format!("scopes nest up to {DEEPEST} deep");
            return Err(self.error(message));
        }
        self.depth += 1;
        Ok(())
    }

    /// Parses programs separated by `|`, up to and including `>`. Each has its own variables.
    fn programs(&mut self) -> Parsed<Programs> {
        self.enter()?;
        let outer = std::mem::take(&mut self.vars);
        let mut all = Vec::new();
        loop {
            all.push(infer(self.program()?));
            self.vars.clear();
            if !self.eat("|") {
                break;
            }
        }
        self.vars = outer;
        self.depth -= 1;
        self.expect(">")?;
        Ok(Programs::new(all))
    }

    /// Parses host code between backticks, if it comes next.
    pub(super) fn host(&mut self) -> Parsed<Option<String>> {
        let start = self.mark();
        if !self.eat("`") {
            return Ok(None);
        }
        let rest = &self.text[self.at..];
        let end = rest.find('`').ok_or_else(|| {
            self.error_at(
                start,
                "the host expression is not terminated by a backtick".into(),
            )
        })?;
        self.at += end + 1;
        Ok(Some(rest[..end].to_owned()))
    }

    fn integer(&mut self) -> Parsed<i64> {
        let start = self.mark();
        let sign = if self.eat("-") { "-" } else { "" };
        let word = self.word()?;
        // The sign is parsed with the digits, because `i64::MIN` has no positive counterpart.
        format!("{sign}{word}")
            .parse()
            .map_err(|_| self.error_at(start, format!("`{sign}{word}` is not an integer")))
    }

    /// Returns a variable that the text does not mention.
    pub(super) fn fresh(&mut self) -> Var {
        self.next += 1;
        Var(self.next - 1)
    }

    pub(super) fn var(&mut self) -> Parsed<Var> {
        let start = self.mark();
        let word = self.word()?;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.error_at(start, format!("expected a variable, found `{word}`")));
        }
        if let Some(number) = var_number(word).filter(|n| *n < self.first_far) {
            return Ok(Var(number));
        }
        let next = &mut self.next;
        Ok(*self.vars.entry(word).or_insert_with(|| {
            *next += 1;
            Var(*next - 1)
        }))
    }

    /// Parses items separated by commas, up to and including `close`.
    pub(super) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(",") {
                return Err(
                    self.error(format!("expected `,` or `{close}`, found {}", self.found()))
                );
            }
        }
    }
}
