//! Finds number parameters that are only operands of arithmetic with tensors.
//!
//! A plan need not depend on such a number. All uses of it have to be known: the number itself, or the
//! result of arithmetic on it that has no side effects, is an operand of an operator or a binary method whose
//! other operand is a tensor. The lowering notes these operands, because it knows which values are tensors.

use crate::input::{Func, Kind, NUMBERS, unraw};
use crate::program::{NumberOperand, Numbers};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Pat, Type, UnOp};

/// Operand of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lower) enum Side {
    Left,
    Right,
}

/// Number that is an operand of a tensor, by the line and column of the operator or the method.
pub(in crate::lower) type OperandPlace = (usize, usize, Side);

/// Returns the place of an operand of the operator at `span`.
pub(in crate::lower) fn operand_place(span: Span, side: Side) -> OperandPlace {
    let at = span.start();
    (at.line, at.column, side)
}

/// Methods of floats that have no side effects and do not panic.
const FLOAT_METHODS: [&str; 27] = [
    "abs", "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "exp_m1", "floor", "fract", "ln", "ln_1p",
    "log10", "log2", "max", "min", "mul_add", "powf", "powi", "recip", "round", "signum", "sin",
    "sinh", "sqrt", "tan", "tanh",
];

/// Returns the numbers of a body. `operands` are the places of numbers that are operands of tensors.
pub(in crate::lower) fn numbers(
    func: &Func,
    block: &syn::Block,
    operands: &BTreeSet<OperandPlace>,
) -> Numbers {
    let mut bindings = Bindings::default();
    bindings.visit_block(block);
    let params = func.params.iter().enumerate();
    let params = params.filter(|(_, p)| {
        matches!(p.kind, Kind::Static { number: true }) && !p.by_ref && !p.mutable && !p.pattern
    });
    let params = params.filter_map(|(i, param)| {
        let name = unraw(&param.ident);
        let number = Type::of(&param.owned).filter(|_| !bindings.0.contains_key(&name))?;
        Some((name, (i, number)))
    });
    let is_key = |ty: &Type| match ty {
        Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == "Key"),
        _ => false,
    };
    let keys = func.params.iter().filter(|p| is_key(&p.owned));
    let keys = keys.map(|p| unraw(&p.ident));
    let mut uses = Uses {
        params: params.collect(),
        keys: keys.filter(|name| !bindings.0.contains_key(name)).collect(),
        bindings,
        locals: BTreeMap::new(),
        operands: unique(block, operands),
        others: BTreeSet::new(),
        values: BTreeMap::new(),
        checked: Vec::new(),
    };
    if uses.params.is_empty() {
        return Numbers::default();
    }
    uses.visit_block(block);
    uses.finish()
}

/// Returns the places that belong to one operator each. Operators in code that a macro repeats share their spans.
fn unique(block: &syn::Block, operands: &BTreeSet<OperandPlace>) -> BTreeSet<OperandPlace> {
    #[derive(Default)]
    struct Count(BTreeMap<OperandPlace, usize>);
    impl<'ast> Visit<'ast> for Count {
        fn visit_expr_binary(&mut self, b: &'ast syn::ExprBinary) {
            for side in [Side::Left, Side::Right] {
                *self.0.entry(operand_place(b.op.span(), side)).or_default() += 1;
            }
            visit::visit_expr_binary(self, b);
        }

        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            let place = operand_place(call.method.span(), Side::Right);
            *self.0.entry(place).or_default() += 1;
            visit::visit_expr_method_call(self, call);
        }
    }
    let mut count = Count::default();
    count.visit_block(block);
    let once = |place: &&OperandPlace| count.0.get(*place) == Some(&1);
    operands.iter().filter(once).copied().collect()
}

/// Number of patterns that bind each name.
#[derive(Default)]
struct Bindings(BTreeMap<String, usize>);

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
        *self.0.entry(unraw(&pat.ident)).or_default() += 1;
        visit::visit_pat_ident(self, pat);
    }
}

/// Type of a number, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberType {
    Float(Option<&'static str>),
    /// Without a type for literals.
    Int(Option<&'static str>),
}

impl NumberType {
    /// Returns whether it is not the type of a literal without a suffix.
    fn is_known(self) -> bool {
        matches!(self, NumberType::Float(Some(_)) | NumberType::Int(Some(_)))
    }
}

/// Reads the type of a number of at most 64 bits.
trait OfType {
    fn of(ty: &Type) -> Option<NumberType>;
}

impl OfType for Type {
    fn of(ty: &Type) -> Option<NumberType> {
        let Type::Path(p) = ty else { return None };
        let ident = p.path.get_ident().filter(|_| p.qself.is_none())?;
        number_type(&ident.to_string())
    }
}

fn number_type(name: &str) -> Option<NumberType> {
    let name = NUMBERS.into_iter().find(|number| *number == name)?;
    match name {
        "f32" | "f64" => Some(NumberType::Float(Some(name))),
        "u128" | "i128" => None,
        _ => Some(NumberType::Int(Some(name))),
    }
}

/// Number that is computed from parameters.
#[derive(Clone)]
struct Computed {
    /// Expression, which may end the enclosing closure with `None` where the arithmetic overflows.
    tokens: TokenStream,
    ty: NumberType,
    params: BTreeSet<String>,
}

/// Visitor of all uses of number parameters.
struct Uses {
    /// Candidates, with their positions.
    params: BTreeMap<String, (usize, NumberType)>,
    /// Parameters that are random keys.
    keys: BTreeSet<String>,
    bindings: Bindings,
    /// Locals that are computed from candidates.
    locals: BTreeMap<String, Computed>,
    operands: BTreeSet<OperandPlace>,
    /// Candidates with other uses.
    others: BTreeSet<String>,
    /// Operands of tensors, by their text.
    values: BTreeMap<String, Computed>,
    /// Locals whose arithmetic may overflow.
    checked: Vec<Computed>,
}

impl Uses {
    fn finish(self) -> Numbers {
        let used = self.values.values().flat_map(|value| &value.params);
        let used: BTreeSet<&String> = used.filter(|name| !self.others.contains(*name)).collect();
        let params = self.params.iter().filter(|(name, _)| used.contains(name));
        let mut params: Vec<(usize, &String)> = params.map(|(name, (i, _))| (*i, name)).collect();
        params.sort_unstable();
        // A set of parameters has 64 bits.
        params.truncate(64);
        let set = |value: &Computed| {
            let bits = params.iter().enumerate();
            let bits = bits.filter(|(_, (_, name))| value.params.contains(*name));
            bits.fold(0u64, |set, (bit, _)| set | 1 << bit)
        };
        let values = self.values.values().map(|value| NumberOperand {
            params: set(value),
            tokens: value.tokens.clone(),
        });
        let checked = self.checked.iter().map(|value| {
            let tokens = &value.tokens;
            NumberOperand {
                params: set(value),
                tokens: ours!({ let _ = #tokens; true }),
            }
        });
        let values = values.chain(checked);
        Numbers {
            values: values.filter(|value| value.params != 0).collect(),
            params: params.iter().map(|(i, _)| *i).collect(),
        }
    }

    /// Notes a use of a name that is not an operand of a tensor.
    fn other_use(&mut self, name: &str) {
        if self.params.contains_key(name) {
            self.others.insert(name.to_owned());
        }
        if let Some(local) = self.locals.get(name) {
            self.others.extend(local.params.iter().cloned());
        }
    }

    /// Notes the names in tokens that are not parsed.
    fn other_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => self.other_use(&unraw(&ident)),
                TokenTree::Group(group) => self.other_tokens(group.stream()),
                // A format string may name a local.
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let names = self.params.keys().chain(self.locals.keys());
                    let found = names.filter(|name| text.contains(&***name)).cloned();
                    for name in found.collect::<Vec<_>>() {
                        self.other_use(&name);
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// Notes an expression, which is an operand of an operator or of a random key. `is_of_tensor` is true if
    /// it reaches the ops of the body as a number.
    fn operand(&mut self, expr: &Expr, is_of_tensor: bool) {
        match self.computed(expr).filter(|_| is_of_tensor) {
            Some(value) if value.params.is_empty() => {}
            Some(value) => {
                self.values.insert(value.tokens.to_string(), value);
            }
            None => self.visit_expr(expr),
        }
    }

    /// Returns whether an expression is a random key derived from a parameter.
    fn is_key(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(p) => self.is_key(&p.expr),
            Expr::Path(p) => {
                let ident = p.path.get_ident();
                ident.is_some_and(|ident| self.keys.contains(&unraw(ident)))
            }
            Expr::MethodCall(call) => {
                (call.method == "duplicate" || call.method == "fold_in")
                    && self.is_key(&call.receiver)
            }
            _ => false,
        }
    }

    /// Returns a number that is computed from parameters by arithmetic that has no side effects.
    fn computed(&self, expr: &Expr) -> Option<Computed> {
        match expr {
            Expr::Paren(p) => self.computed(&p.expr),
            Expr::Group(g) => self.computed(&g.expr),
            Expr::Path(p) => {
                let name = unraw(p.path.get_ident()?);
                if let Some(local) = self.locals.get(&name) {
                    return Some(local.clone());
                }
                let (_, ty) = self.params.get(&name)?;
                Some(Computed {
                    tokens: p.to_token_stream(),
                    ty: *ty,
                    params: [name].into(),
                })
            }
            Expr::Lit(lit) => {
                let (suffix, ty) = match &lit.lit {
                    Lit::Int(n) => (n.suffix(), NumberType::Int(None)),
                    Lit::Float(x) => (x.suffix(), NumberType::Float(None)),
                    _ => return None,
                };
                let ty = match suffix {
                    "" => ty,
                    suffix => number_type(suffix)?,
                };
                let (tokens, params) = (lit.to_token_stream(), BTreeSet::new());
                Some(Computed { tokens, ty, params })
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => {
                let Computed { tokens, ty, params } = self.computed(&u.expr)?;
                let tokens = match ty {
                    NumberType::Int(Some(ty)) => {
                        let ty = Ident::new(ty, Span::call_site());
                        ours!(::core::primitive::#ty::checked_neg(#tokens)?)
                    }
                    NumberType::Float(_) | NumberType::Int(None) => ours!((-#tokens)),
                };
                Some(Computed { tokens, ty, params })
            }
            Expr::Cast(cast) => {
                let Computed { tokens, params, ty } = self.computed(&cast.expr)?;
                // Without its local, a literal would have another type.
                let is_literal = matches!(&*cast.expr, Expr::Lit(_));
                if !is_literal && !ty.is_known() {
                    return None;
                }
                let (ty, to) = (<Type as OfType>::of(&cast.ty)?, &cast.ty);
                let tokens = ours!((#tokens as #to));
                Some(Computed { tokens, ty, params })
            }
            Expr::Binary(b) => self.arithmetic(b),
            Expr::MethodCall(call) if call.turbofish.is_none() => {
                let receiver = self.computed(&call.receiver)?;
                let NumberType::Float(Some(_)) = receiver.ty else {
                    return None;
                };
                let method = &call.method;
                if !FLOAT_METHODS.contains(&method.to_string().as_str()) {
                    return None;
                }
                let mut params = receiver.params;
                let args = call.args.iter().map(|arg| {
                    let arg = self.computed(arg)?;
                    params.extend(arg.params);
                    Some(arg.tokens)
                });
                let args: Vec<TokenStream> = args.collect::<Option<_>>()?;
                let (of, ty) = (&receiver.tokens, receiver.ty);
                let tokens = ours!((#of).#method(#(#args),*));
                Some(Computed { tokens, ty, params })
            }
            _ => None,
        }
    }

    fn arithmetic(&self, b: &syn::ExprBinary) -> Option<Computed> {
        let checked = match &b.op {
            BinOp::Add(_) => "checked_add",
            BinOp::Sub(_) => "checked_sub",
            BinOp::Mul(_) => "checked_mul",
            BinOp::Div(_) => "checked_div",
            BinOp::Rem(_) => "checked_rem",
            _ => return None,
        };
        let (left, right) = (self.computed(&b.left)?, self.computed(&b.right)?);
        let (x, y, op) = (left.tokens, right.tokens, &b.op);
        let (tokens, ty) = match (left.ty, right.ty) {
            (NumberType::Float(a), NumberType::Float(b)) => {
                (ours!((#x #op #y)), NumberType::Float(a.or(b)))
            }
            (NumberType::Int(a), NumberType::Int(b)) => {
                let ty = a.or(b)?;
                let (number, checked) = (
                    Ident::new(ty, Span::call_site()),
                    Ident::new(checked, Span::call_site()),
                );
                let tokens = ours!(::core::primitive::#number::#checked(#x, #y)?);
                (tokens, NumberType::Int(Some(ty)))
            }
            _ => return None,
        };
        let params = left.params.into_iter().chain(right.params).collect();
        Some(Computed { tokens, ty, params })
    }

    /// Returns the name of a local that is a literal or a number computed from candidates, and the number.
    fn local(&self, local: &syn::Local) -> Option<(String, Computed)> {
        let pat = match &local.pat {
            Pat::Type(t) => &*t.pat,
            pat => pat,
        };
        let Pat::Ident(pat) = pat else { return None };
        let name = unraw(&pat.ident);
        let plain = pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none();
        if !plain || self.bindings.0.get(&name) != Some(&1) {
            return None;
        }
        let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
        let value = self.computed(&init.expr)?;
        (value.ty.is_known() || value.params.is_empty()).then_some((name, value))
    }
}

/// Returns whether arithmetic may end the enclosing closure with `None`.
fn may_overflow(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == '?',
        TokenTree::Group(group) => may_overflow(&group.stream()),
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_expr_binary(&mut self, b: &'ast syn::ExprBinary) {
        for (expr, side) in [(&b.left, Side::Left), (&b.right, Side::Right)] {
            let place = operand_place(b.op.span(), side);
            self.operand(expr, self.operands.contains(&place));
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_of_key = call.method == "fold_in" && self.is_key(&call.receiver);
        let place = operand_place(call.method.span(), Side::Right);
        let is_of_tensor = self.operands.contains(&place) && call.args.len() == 1;
        self.visit_expr(&call.receiver);
        for arg in &call.args {
            self.operand(arg, is_of_key || is_of_tensor);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(ident) = path.path.get_ident() {
            self.other_use(&unraw(ident));
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        match self.local(local) {
            Some((name, value)) => {
                if may_overflow(&value.tokens) {
                    self.checked.push(value.clone());
                }
                self.locals.insert(name, value);
            }
            None => visit::visit_local(self, local),
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.other_tokens(item.to_token_stream());
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.other_tokens(mac.tokens.clone());
    }

    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        self.other_tokens(attr.to_token_stream());
    }
}
