//! Tracks host numbers that are lengths: `x.dim(0)`, `2 * b + 1`, and locals that hold them.

use crate::input::unraw;
use crate::lower::{Cx, Host};
use gradloom_ir::{Dim, Poly, Shape, Static, Var};
use syn::{BinOp, Expr, Lit, Pat, UnOp};

impl Cx<'_> {
    /// Returns the dims of a list of lengths, with `None` for -1.
    ///
    /// Returns `None` if the host expression is not a literal array or tuple.
    pub(in crate::lower) fn dims_of_list(&self, host: &Host) -> Option<Vec<Option<Dim>>> {
        let mut expr = &host.expr;
        while let Expr::Reference(r) = expr {
            expr = &r.expr;
        }
        let elems = match bare(expr) {
            Expr::Array(array) => &array.elems,
            Expr::Tuple(tuple) => &tuple.elems,
            _ => return None,
        };
        let len = |e: &Expr| match super::literal(e) {
            Some(Static::Int(-1)) => None,
            _ => Some(self.length(e, &host.reads)),
        };
        Some(elems.iter().map(len).collect())
    }

    /// Records the lengths of the locals in a pattern that is about to be bound to a host value.
    pub(in crate::lower) fn note_dims(&mut self, pat: &Pat, value: &Expr, reads: &[Var]) {
        match (pat, bare(value)) {
            (Pat::Ident(pat), value)
                if pat.mutability.is_none() && pat.by_ref.is_none() && pat.subpat.is_none() =>
            {
                let dim = self.length(value, reads);
                self.names.host_dims.insert(unraw(&pat.ident), dim);
            }
            (Pat::Tuple(pats), Expr::Tuple(values)) if pats.elems.len() == values.elems.len() => {
                for (pat, value) in pats.elems.iter().zip(&values.elems) {
                    self.note_dims(pat, value, reads);
                }
            }
            _ => {}
        }
    }

    fn length(&self, expr: &Expr, reads: &[Var]) -> Dim {
        self.poly(expr, reads).map_or(Dim::Unknown, Dim::from)
    }

    fn poly(&self, expr: &Expr, reads: &[Var]) -> Option<Poly> {
        match bare(expr) {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Int(n) => n
                    .base10_parse::<i64>()
                    .ok()
                    .map(|n| Poly::constant(n.into())),
                _ => None,
            },
            Expr::Path(path) => {
                let name = unraw(path.path.get_ident()?);
                self.names.host_dims.get(&name)?.poly()
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                self.poly(&unary.expr, reads)
            }
            Expr::Cast(cast) => {
                let wide = ["usize", "isize", "i64", "u64", "i128", "u128"];
                let ty = crate::input::text(&cast.ty);
                wide.contains(&&*ty).then(|| self.poly(&cast.expr, reads))?
            }
            Expr::Binary(binary) => {
                let (left, right) = (
                    self.poly(&binary.left, reads)?,
                    self.poly(&binary.right, reads)?,
                );
                match binary.op {
                    BinOp::Add(_) => left.plus(&right),
                    BinOp::Sub(_) => left.minus(&right),
                    BinOp::Mul(_) => left.times(&right),
                    // An exact quotient of polynomials equals integer division.
                    BinOp::Div(_) => left.quotient(&right),
                    _ => None,
                }
            }
            Expr::MethodCall(call) if call.method == "dim" && call.args.len() == 1 => {
                let shape = self.shape_of(&call.receiver, reads)?;
                axis(shape, &call.args[0])?.poly()
            }
            Expr::MethodCall(call) if call.method == "numel" => {
                self.shape_of(&call.receiver, reads)?.elements()
            }
            Expr::Index(index) => match bare(&index.expr) {
                Expr::MethodCall(call) if call.method == "shape" => {
                    let shape = self.shape_of(&call.receiver, reads)?;
                    axis(shape, &index.index)?.poly()
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the shape of a tensor that a host expression reads.
    fn shape_of(&self, expr: &Expr, reads: &[Var]) -> Option<&Shape> {
        let Expr::Path(path) = bare(expr) else {
            return None;
        };
        let ident = path.path.get_ident()?;
        let var = reads.iter().find(|v| self.ident(**v) == *ident)?;
        Some(&self.builder.b.aval(*var).shape)
    }
}

/// Returns the length of the axis that a literal selects; negative axes count from the right.
fn axis(shape: &Shape, axis: &Expr) -> Option<Dim> {
    let (dims, axis) = (shape.dims()?, super::literal(axis)?.int()?);
    let axis = if axis < 0 {
        axis + dims.len() as i64
    } else {
        axis
    };
    dims.get(usize::try_from(axis).ok()?).copied()
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(p) => bare(&p.expr),
        Expr::Group(g) => bare(&g.expr),
        other => other,
    }
}
