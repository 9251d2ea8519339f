//! Lowers calls of ops, as the table of methods describes them.

use crate::lower::host;
use crate::lower::numbers::{Side, operand_place};
use crate::lower::{Abort, Content, Cx, Expected, Host, LowerResult, Value};
use gradloom_ir::op::{Method, Operands, Param};
use gradloom_ir::{Attr, Composite, Op, Static, Var};
use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{AngleBracketedGenericArguments, Expr, GenericArgument};

/// Returns the op of a method or an associated function of `Tensor`.
pub(in crate::lower) fn find(name: &str, assoc: bool) -> Option<(Op, Method)> {
    Op::ALL.iter().find_map(|op| {
        op.def()
            .methods()
            .into_iter()
            .find(|m| m.name == name && m.assoc == assoc)
            .map(|m| (*op, m))
    })
}

/// Returns whether `Tensor` has a method of this name that is made of ops.
pub(in crate::lower) fn is_method(name: &str) -> bool {
    find(name, false).is_some() || Composite::find(name).is_some()
}

/// Returns the name of the associated function of `Tensor` that a path refers to.
pub(in crate::lower) fn tensor_function(func: &Expr) -> Option<&Ident> {
    let Expr::Path(p) = func else { return None };
    let mut segments = p.path.segments.iter().rev();
    let (name, ty) = (segments.next()?, segments.next()?);
    (ty.ident == "Tensor" && p.qself.is_none()).then_some(&name.ident)
}

/// Operands and static arguments of a call of an op.
#[derive(Default)]
struct Arguments {
    data: Vec<Var>,
    likes: Vec<Var>,
    statics: Vec<Attr>,
}

impl Cx<'_> {
    /// Lowers a call of an op by one of its methods.
    #[allow(clippy::too_many_arguments)] // all of these are parts of one call
    pub(in crate::lower) fn op<'e>(
        &mut self,
        op: Op,
        method: Method,
        receiver: Option<Value>,
        args: impl Iterator<Item = &'e Expr>,
        turbofish: Option<&AngleBracketedGenericArguments>,
        want: &Expected,
        span: Span,
    ) -> LowerResult<Value> {
        let Arguments {
            data,
            likes,
            statics,
        } = self.arguments(op, method, receiver, args, span)?;
        if op == Op::Cast && self.builder.b.static_of(statics[0]).is_host() {
            // The dtype decides whether the cast has a derivative.
            return self.recorded("a cast to a dtype that is not written out", span);
        }
        let n_outs = if method.params.contains(&Param::Count) {
            let Some(n) = count(turbofish).or(want.count) else {
                // The number may follow from the type of the result, which only rustc knows.
                let what = format!("an unspecified number of results of `{}`", method.name);
                return self.recorded(&what, span);
            };
            Some(n)
        } else {
            (method.results > 1).then_some(method.results)
        };
        let likes = match op.def().operands() {
            Operands::Fixed(..) | Operands::Between(..) | Operands::Many => likes,
            _ => data.clone(),
        };
        let outs = self.emit(op, &statics, data, likes, n_outs.unwrap_or(1), span)?;
        let mut values = outs
            .into_iter()
            .map(|var| Value::Tensor { var, by_ref: false });
        Ok(match n_outs {
            Some(_) => Value::Tuple(values.collect()),
            None => values.next().expect("one result"),
        })
    }

    /// Lowers the arguments in the order of the method's parameters, reporting the errors of each.
    fn arguments<'e>(
        &mut self,
        op: Op,
        method: Method,
        mut receiver: Option<Value>,
        mut args: impl Iterator<Item = &'e Expr>,
        span: Span,
    ) -> LowerResult<Arguments> {
        let mut read = Arguments::default();
        let takes = op.def().statics();
        let (mut failed, mut missing) = (false, false);
        // First branch of a `select`, if it is a number: it takes the dtype of the second.
        let mut number = None;
        for param in method.params {
            match param {
                Param::Data | Param::DataLike | Param::Like => {
                    let value = match receiver.take() {
                        Some(value) => Ok(value),
                        None => match args.next() {
                            Some(arg) => self.eval(arg, &Expected::tensor()),
                            None => {
                                missing = true;
                                continue;
                            }
                        },
                    };
                    // A binary method applies its op as an operator does.
                    let is_binary = *method.params == [Param::Data, Param::Data];
                    if is_binary && read.data.len() == 1 && op != Op::Select {
                        self.note_number(value.as_ref().ok(), operand_place(span, Side::Right));
                    }
                    let like = match op {
                        Op::Select => read.data.get(1).copied(),
                        _ => read.data.first().copied(),
                    };
                    if let (Op::Select, 1, Ok(Value::Host(_))) = (op, read.data.len(), &value)
                        && number.is_none()
                    {
                        number = Some(self.hoisted_value(value?, "number"));
                        continue;
                    }
                    let value = match (&number, value) {
                        (Some(Value::Host(first)), Ok(Value::Host(second)))
                            if is_number(&second) =>
                        {
                            Ok(Value::Host(self.scalar_beside(second, first)))
                        }
                        (_, value) => value,
                    };
                    match value.and_then(|v| self.tensor(v, like)) {
                        Ok(var) => {
                            if *param != Param::Like {
                                read.data.push(var);
                            }
                            if *param != Param::Data {
                                read.likes.push(var);
                            }
                        }
                        Err(Abort::Error) => failed = true,
                        Err(stop) => return Err(stop),
                    }
                }
                Param::List => match args.next().map(|a| self.list(a)) {
                    Some(Ok(vars)) => read.data.extend(vars),
                    Some(Err(Abort::Error)) => failed = true,
                    Some(Err(stop)) => return Err(stop),
                    None => missing = true,
                },
                Param::Static => match args.next().map(|a| (a, self.static_value(a))) {
                    Some((arg, Ok(host))) if is_text(&host.expr) => {
                        return self.recorded("text", arg.span());
                    }
                    Some((arg, Ok(host))) => {
                        let taken = takes[read.statics.len()];
                        read.statics.push(self.statik(host, taken, arg.span()));
                    }
                    Some((_, Err(Abort::Error))) => failed = true,
                    Some((_, Err(stop))) => return Err(stop),
                    None => missing = true,
                },
                Param::Switch(on) => read.statics.push(self.builder.b.attr(*on)),
                Param::All => read.statics.push(self.builder.b.attr(Static::All)),
                Param::Number(n) => read.statics.push(self.builder.b.attr(*n)),
                // The count is not an argument of the call.
                Param::Count => {}
            }
        }
        if missing || args.next().is_some() {
            // rustc reports a wrong number of arguments better.
            let what = format!("a wrong number of arguments for `{}`", method.name);
            return self.recorded(&what, span);
        }
        if failed {
            return Err(Abort::Error);
        }
        if let Some(number) = number {
            let number = self.tensor(number, read.data.last().copied())?;
            read.data.insert(1, number);
        }
        Ok(read)
    }

    /// Returns a number as a tensor, for a `select` between two numbers of one type.
    fn scalar_beside(&self, number: Host, other: &Host) -> Host {
        let (rt, x, y) = (&self.rt, &number.expr, &other.expr);
        Host {
            expr: syn::parse_quote!(#rt::Tensor::scalar([#x, #y][0])),
            reads: [number.reads, other.reads.clone()].concat(),
            content: Content::Plain,
        }
    }

    /// Lowers a list of tensors: `&[&a, &b]`.
    pub(in crate::lower) fn list(&mut self, arg: &Expr) -> LowerResult<Vec<Var>> {
        match self.eval(arg, &Expected::tensor())? {
            Value::Tuple(values) => values.into_iter().map(|v| self.tensor(v, None)).collect(),
            Value::Poison => Err(Abort::Error),
            // The length of the list is not known.
            _ => self.recorded("a list of tensors that is not written out", arg.span()),
        }
    }
}

/// Returns whether a host value is known to be a number.
pub(in crate::lower) fn is_number(host: &Host) -> bool {
    host.is_number() || host::literal(&host.expr).is_some()
}

/// Returns whether an expression is a literal that is neither a tensor nor a static argument.
///
/// rustc reports it in the user's function.
pub(in crate::lower) fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(l) if !matches!(l.lit, syn::Lit::Int(_) | syn::Lit::Float(_) | syn::Lit::Bool(_)))
}

/// Returns the number in `::<2>`.
fn count(turbofish: Option<&AngleBracketedGenericArguments>) -> Option<usize> {
    match turbofish?.args.first()? {
        GenericArgument::Const(Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Int(n),
            ..
        })) => n.base10_parse().ok(),
        _ => None,
    }
}
