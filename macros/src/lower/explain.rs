//! Explains mistakes in shapes and dtypes: names the operands, and shows where the wrong dim or
//! dtype comes from.
//!
//! Lowering records nothing for this. Instead the rule of the op is applied again with less known.
//! An operand, an axis or a dtype is a cause if the fault disappears without it. A dim comes from
//! an axis of an operand if it becomes unknown without it.

use super::{BlockBuilder, Cx, Diagnostics};
use crate::input::text;
use gradloom_ir::{Attr, Aval, Dim, Eqn, Fault, OpError, Shape, Static, Var};
use proc_macro2::{LineColumn, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr};

/// Maximum length of an expression shown in a message.
const LONGEST: usize = 40;

/// Part of an aval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AvalPart {
    Axis(usize),
    Shape,
    DType,
}

impl AvalPart {
    /// Returns `aval` without this part.
    fn forget(self, aval: &Aval) -> Aval {
        let mut aval = aval.clone();
        match self {
            AvalPart::DType => aval.dtype = None,
            AvalPart::Shape => aval.shape = Shape::UNKNOWN,
            AvalPart::Axis(axis) => {
                if let Some(dim) = aval.shape.0.as_mut().and_then(|dims| dims.get_mut(axis)) {
                    *dim = Dim::Unknown;
                }
            }
        }
        aval
    }

    /// Returns whether this part of `aval` is known.
    fn is_known(self, aval: &Aval) -> bool {
        self.forget(aval) != *aval
    }

    /// Returns the axes of `aval`.
    fn axes(aval: &Aval) -> impl Iterator<Item = AvalPart> + use<> {
        (0..aval.shape.dims().map_or(0, <[_]>::len)).map(AvalPart::Axis)
    }

    /// Returns whether `other` is a part of the same kind.
    fn is_like(self, other: AvalPart) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the text of this part of `aval`.
    fn text_of(self, aval: &Aval) -> String {
        match (self, aval.dtype, aval.shape.dims()) {
            (AvalPart::Axis(axis), _, Some(dims)) => dims[axis].to_string(),
            (AvalPart::DType, Some(dtype), _) => dtype.to_string(),
            _ => aval.shape.to_string(),
        }
    }
}

impl Cx<'_> {
    /// Reports why the operands of an op do not fit: one error at the expression, and one at the
    /// cause.
    pub(super) fn explain(&mut self, error: &OpError, statics: &[Attr], args: &[Var], span: Span) {
        let statics: Vec<Static> = statics
            .iter()
            .map(|a| self.builder.b.static_of(*a).clone())
            .collect();
        let data = &args[..error.args.len()];
        let operands: Vec<String> = data.iter().map(|v| self.is_what(*v)).collect();
        let message = error.message(&operands);
        match self.diagnostics.expr_at(span) {
            Some(whole) => self.diagnostics.errors.push(&whole, message),
            None => self.diagnostics.errors.push_at(span, message),
        }
        if is_of_statics(&error.fault) {
            return;
        }
        let causes = self.builder.causes(error, &statics, args);
        let mut last_first = causes.iter().rev();
        let note = last_first.find_map(|cause| Some((*cause, self.note(cause.0, cause.1)?)));
        let Some(((noted, noted_part), (at, mut note))) = note else {
            return;
        };
        let other = causes.iter().find(|(var, _)| *var != noted);
        if let Some(&(other, part)) = other
            && let (origin, _) = self.builder.origin(other, part)
            && origin != other
            && let Some(from) = self.called(origin)
        {
            note = format!("{note}, and {} as in {from}", self.fact(other, part));
            // The first half of the note may name the origin already.
            let said = self.builder.origin(noted, noted_part).0 == origin;
            if let Some(with) = self.builder.parameter(origin).filter(|_| !said) {
                note = format!("{note}, a parameter with {with}");
            }
        }
        self.diagnostics.errors.push(&at, note);
    }

    /// Returns a sentence about the origin of `part` of `var`, and the tokens that it points at.
    ///
    /// Returns `None` if the sentence would add nothing to the expression itself.
    fn note(&self, var: Var, part: AvalPart) -> Option<(TokenStream, String)> {
        let (origin, _) = self.builder.origin(var, part);
        let at = self.tokens(origin)?;
        let parameter = self.builder.parameter(origin);
        let parameter = parameter.and_then(|with| {
            Some(format!(
                "{} is a parameter with {with}",
                self.called(origin)?
            ))
        });
        if let Some(parameter) = &parameter
            && origin == var
        {
            return Some((at, parameter.clone()));
        }
        let (fact, bound) = (self.fact(var, part), self.binder(var).is_some());
        let is = self.short(var).filter(|_| bound);
        let note = match (parameter, is) {
            (Some(parameter), Some(is)) => format!("{fact}: it is `{is}`, and {parameter}"),
            (Some(parameter), None) => format!("{fact}: {parameter}"),
            (None, Some(is)) if origin == var => format!("{fact}: it is `{is}`"),
            (None, _) if origin == var && !bound => return None,
            (None, _) => format!("{fact}: it is made here"),
        };
        Some((at, note))
    }

    /// Returns text such as "axis 1 of `h` is 128".
    fn fact(&self, var: Var, part: AvalPart) -> String {
        let what = part.text_of(self.builder.b.aval(var));
        let called = self.called_at_least(var);
        match part {
            AvalPart::Axis(axis) => format!("axis {axis} of {called} is {what}"),
            AvalPart::DType | AvalPart::Shape => format!("{called} is {what}"),
        }
    }

    /// Returns text such as "`h` is [B, 128]", or an empty string if nothing is known.
    pub(super) fn is_what(&self, var: Var) -> String {
        let aval = self.builder.b.aval(var);
        let known = match (aval.dtype, aval.shape.dims()) {
            (Some(_), _) => aval.to_string(),
            (None, Some(_)) => aval.shape.to_string(),
            (None, None) => return String::new(),
        };
        let called = self.called_at_least(var);
        format!("{called} is {known}")
    }

    /// Returns the name of a value for messages: its local, or the text of its expression.
    pub(super) fn called(&self, var: Var) -> Option<String> {
        let bound = self.binder(var).map(|ident| ident.to_string());
        let name = bound.or_else(|| self.short(var))?;
        Some(format!("`{name}`"))
    }

    /// Like [`Cx::called`], but describes a value with a long expression by its op.
    fn called_at_least(&self, var: Var) -> String {
        let made = |op| format!("the result of `{op}`");
        let called = self.called(var);
        let called = called.or_else(|| Some(made(self.builder.b.eqn_of(var)?.op)));
        called.unwrap_or_else(|| "an operand".to_owned())
    }

    /// Returns the user's identifier for a value.
    fn binder(&self, var: Var) -> Option<&proc_macro2::Ident> {
        self.names.idents.get(self.builder.b.name_of(var)?)
    }

    /// Returns the text of a value's expression, if it is short.
    fn short(&self, var: Var) -> Option<String> {
        let expr = self.diagnostics.expr_at(*self.builder.spans.get(var)?)?;
        let text = text(&expr);
        (text.chars().count() <= LONGEST && !text.contains('{')).then_some(text)
    }

    /// Returns the tokens of a value: its parameter, or its expression.
    fn tokens(&self, var: Var) -> Option<TokenStream> {
        if self.builder.inputs.iter().any(|i| i.var == var) {
            return self.binder(var).map(ToTokens::to_token_stream);
        }
        let expr = self.diagnostics.expr_at(*self.builder.spans.get(var)?)?;
        Some(expr.to_token_stream())
    }
}

impl BlockBuilder {
    /// Returns the operands that cause the fault, each with the smallest part that does.
    pub(super) fn causes(
        &self,
        error: &OpError,
        statics: &[Static],
        args: &[Var],
    ) -> Vec<(Var, AvalPart)> {
        let mut causes: Vec<(Var, AvalPart)> = Vec::new();
        for &var in &args[..error.args.len()] {
            if causes.iter().any(|(v, _)| *v == var) {
                continue;
            }
            let aval = self.b.aval(var);
            let heals = |part: &AvalPart| {
                let less = part.forget(aval);
                let args = args
                    .iter()
                    .map(|v| if *v == var { &less } else { self.b.aval(*v) });
                let again = error.op.infer(statics, &args.collect::<Vec<_>>(), 1);
                part.is_known(aval) && again.err().map(|e| e.fault).as_ref() != Some(&error.fault)
            };
            let axes: Vec<AvalPart> = AvalPart::axes(aval).filter(heals).collect();
            let part = match *axes {
                [axis] => Some(axis),
                _ => [AvalPart::DType, AvalPart::Shape].into_iter().find(heals),
            };
            causes.extend(part.map(|part| (var, part)));
        }
        causes
    }

    /// Returns the variable that first fixed `part` of `var`, and which of its parts did.
    pub(super) fn origin(&self, var: Var, part: AvalPart) -> (Var, AvalPart) {
        let (mut var, mut part) = (var, part);
        while let Some(eqn) = self.b.eqn_of(var)
            && let Some(before) = self.before(eqn, var, part)
        {
            (var, part) = before;
        }
        (var, part)
    }

    /// Returns the part of an operand of `eqn` that determines `part` of its result `out`.
    pub(super) fn before(&self, eqn: &Eqn, out: Var, part: AvalPart) -> Option<(Var, AvalPart)> {
        let result = self.b.aval(out);
        let statics: Vec<Static> = eqn
            .attrs
            .iter()
            .map(|a| self.b.static_of(*a).clone())
            .collect();
        let avals: Vec<&Aval> = eqn.args.iter().map(|v| self.b.aval(*v)).collect();
        let position = eqn.outs.iter().position(|o| *o == out)?;
        let mut found = None;
        for &var in eqn.data() {
            let aval = self.b.aval(var);
            let parts = AvalPart::axes(aval).chain([AvalPart::DType, AvalPart::Shape]);
            let alike = parts.filter(|p| p.is_like(part) && p.is_known(aval));
            for before in alike.filter(|p| p.text_of(aval) == part.text_of(result)) {
                let less = before.forget(aval);
                let args: Vec<&Aval> = eqn
                    .args
                    .iter()
                    .zip(&avals)
                    .map(|(v, a)| if *v == var { &less } else { *a })
                    .collect();
                let again = eqn.op.infer(&statics, &args, eqn.outs.len()).ok()?;
                if !part.is_known(&again[position]) {
                    return Some((var, before));
                }
                // If each of two operands fixes it alone, either is a correct answer, and the first
                // is taken.
                found.get_or_insert((var, before));
            }
        }
        let broadcasts = matches!(
            eqn.op.def().eval(),
            gradloom_ir::op::Eval::Binary(_)
                | gradloom_ir::op::Eval::Compare(_)
                | gradloom_ir::op::Eval::Bits(_)
                | gradloom_ir::op::Eval::Many(_)
        );
        found.filter(|_| broadcasts || part == AvalPart::DType)
    }

    /// Returns what is known of a parameter: "shape (3, 4)".
    pub(super) fn parameter(&self, var: Var) -> Option<String> {
        if !self.inputs.iter().any(|i| i.var == var) {
            return None;
        }
        let aval = self.b.aval(var);
        let shape = aval.shape.dims().map(|dims| {
            let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
            format!("shape ({})", dims.join(", "))
        });
        let dtype = aval.dtype.map(|dtype| format!("dtype {dtype}"));
        let with: Vec<String> = shape.into_iter().chain(dtype).collect();
        Some(with.join(" and "))
    }
}

impl Diagnostics<'_> {
    /// Returns the expression whose operator, method or function is the token at `span`.
    pub(super) fn expr_at(&self, span: Span) -> Option<Expr> {
        find(self.source, span)
    }
}

/// Returns whether the static arguments are wrong for all operands.
fn is_of_statics(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Static { .. }
            | Fault::Code { .. }
            | Fault::Arity { .. }
            | Fault::RepeatedAxis { .. }
            | Fault::Step { .. }
            | Fault::BadShape { .. }
    )
}

/// Returns the expression in `block` whose operator, method or function is the token at `span`.
///
/// Returns `None` if several tokens have this span, as in the expansion of a `macro_rules!`.
fn find(block: &Block, span: Span) -> Option<Expr> {
    struct ExprFinder {
        at: [LineColumn; 2],
        found: Vec<Expr>,
    }
    impl<'ast> Visit<'ast> for ExprFinder {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            let head = match expr {
                Expr::MethodCall(e) => Some(e.method.span()),
                Expr::Binary(e) => Some(e.op.span()),
                Expr::Unary(e) => Some(e.op.span()),
                Expr::Lit(e) => Some(e.lit.span()),
                Expr::Call(e) => match &*e.func {
                    Expr::Path(p) => p.path.segments.last().map(|s| s.ident.span()),
                    _ => None,
                },
                _ => None,
            };
            if head.is_some_and(|head| place(head) == self.at) {
                self.found.push(expr.clone());
            }
            visit::visit_expr(self, expr);
        }
    }
    let mut find = ExprFinder {
        at: place(span),
        found: Vec::new(),
    };
    find.visit_block(block);
    match <[Expr; 1]>::try_from(find.found) {
        Ok([expr]) => Some(expr),
        Err(_) => None,
    }
}

/// Returns the source position of a token.
fn place(span: Span) -> [LineColumn; 2] {
    [span.start(), span.end()]
}
