//! Checks the results of a body against `returns(..)`.

use crate::input::OutShape;
use crate::lower::Cx;
use crate::lower::explain::AvalPart;
use gradloom_ir::{Aval, Var};
use syn::Expr;

impl Cx<'_> {
    /// Reports results that differ from `returns(..)` for all values of the named dims.
    ///
    /// `written` is the expression that the body returns.
    pub(in crate::lower) fn check_returns(&mut self, outs: &[Var], written: Option<&Expr>) {
        let func = self.func;
        for (i, (&out, declared)) in outs.iter().zip(&func.declared).enumerate() {
            let (found, expected) = (self.builder.b.aval(out), &declared.aval);
            let Some((part, what)) = differing(found, expected) else {
                continue;
            };
            let result = match outs.len() {
                1 => "the result".to_owned(),
                _ => format!("result {i}"),
            };
            let shown = |aval: &Aval| match aval.dtype {
                Some(_) if part == AvalPart::DType => aval.to_string(),
                _ => aval.shape.to_string(),
            };
            let mut message = format!(
                "{result} is {}, expected {}: {what}",
                shown(found),
                shown(expected)
            );
            let (origin, _) = self.builder.origin(out, part);
            if origin != out
                && let (Some(with), Some(from)) =
                    (self.builder.parameter(origin), self.called(origin))
            {
                message = format!("{message}, as in {from}, a parameter with {with}");
            }
            match written.and_then(|e| part_of(e, &func.output.shape, i)) {
                Some(expr) => self.diagnostics.errors.push(expr, message),
                None => self.diagnostics.errors.push(&declared.at, message),
            }
            self.diagnostics.errors.push(
                &declared.at,
                format!("{result} is declared to be {} here", shown(expected)),
            );
        }
    }
}

/// Returns the first part in which two avals certainly differ, with a description.
fn differing(found: &Aval, said: &Aval) -> Option<(AvalPart, String)> {
    if let (Some(a), Some(b)) = (found.dtype, said.dtype)
        && a != b
    {
        return Some((AvalPart::DType, format!("the dtype is {a}")));
    }
    let (a, b) = (found.shape.dims()?, said.shape.dims()?);
    if a.len() != b.len() {
        return Some((AvalPart::Shape, format!("the rank is {}", a.len())));
    }
    let axis = a.iter().zip(b).position(|(a, b)| a.differs(*b))?;
    Some((AvalPart::Axis(axis), format!("axis {axis} is {}", a[axis])))
}

/// Returns the smallest written expression that contains tensor `i` of a result.
fn part_of<'e>(expr: &'e Expr, shape: &OutShape, i: usize) -> Option<&'e Expr> {
    match (expr, shape) {
        (Expr::Paren(p), _) => part_of(&p.expr, shape, i),
        (Expr::Call(call), _) if super::is_path(&call.func, "Ok") => {
            part_of(call.args.first()?, shape, i)
        }
        (Expr::Tuple(tuple), OutShape::Tuple(shapes)) if tuple.elems.len() == shapes.len() => {
            let mut before = 0;
            for (elem, shape) in tuple.elems.iter().zip(shapes) {
                if i < before + shape.len() {
                    return part_of(elem, shape, i - before);
                }
                before += shape.len();
            }
            None
        }
        _ => Some(expr),
    }
}
