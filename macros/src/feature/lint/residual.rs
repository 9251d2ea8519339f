//! Finds residuals that are larger than all arguments together.

use gradloom_ir::program::RematHint;
use gradloom_ir::{Poly, Program, Symbol, Var, ad};

/// Large residual.
pub(super) struct OversizedResidual {
    pub(super) var: Var,
    size: Poly,
    /// Total size of the arguments.
    arguments: Poly,
    /// Variables to recompute so that no large residual remains.
    again: Vec<Var>,
}

/// Maximum number of rounds; advice that needs more of them is not useful.
const ROUNDS: usize = 8;

/// Returns the largest residual that is larger than all arguments together.
///
/// This must hold for all named dims, and `#[recompute]` must help. Returns `None` if the shape of
/// an argument is not known. `may_name` returns whether a variable is the user's.
pub(super) fn largest(
    program: &Program,
    wrt: &[Var],
    may_name: impl Fn(Var) -> bool,
) -> Option<OversizedResidual> {
    let size = |v: Var| program.aval(v).shape.elements();
    let mut params = program.params.iter();
    let arguments = params.try_fold(Poly::ZERO, |sum, p| sum.plus(&size(*p)?))?;
    let is_large = |v: &Var| size(*v).is_some_and(|size| exceeds(&size, &arguments));
    let mut bound = program.eqns.iter().flat_map(|e| &e.outs);
    if !bound.any(is_large) {
        return None;
    }
    let mut with_hints = program.clone();
    let mut again: Vec<Var> = Vec::new();
    for _ in 0..ROUNDS {
        // The user's own `#[save]` and `#[recompute]` are respected.
        let saved = residual_vars(&with_hints, wrt).into_iter();
        let large = saved.filter(|v| is_large(v) && !program.remat_hints.contains(*v));
        let large: Vec<Var> = large.collect();
        if large.is_empty() {
            break;
        }
        if large.iter().any(|v| again.contains(v) || !may_name(*v)) {
            return None;
        }
        for v in &large {
            with_hints.remat_hints.insert(*v, RematHint::Recompute);
        }
        again.extend(large);
    }
    let first = *again.first()?;
    let var = again.iter().fold(first, |a, b| match (size(a), size(*b)) {
        (Some(x), Some(y)) if exceeds(&y, &x) => *b,
        _ => a,
    });
    Some(OversizedResidual {
        size: size(var)?,
        var,
        arguments,
        again,
    })
}

/// Returns the residuals that are neither arguments nor results.
fn residual_vars(program: &Program, wrt: &[Var]) -> Vec<Var> {
    let vjp = ad::vjp(program, wrt);
    let (outs, residuals) = vjp.primal.outs.split_at(vjp.n_outs);
    let saved = residuals.iter().zip(&vjp.shape_only);
    let saved = saved
        .filter(|(_, shape_only)| !**shape_only)
        .map(|(v, _)| *v);
    saved
        .filter(|v| !outs.contains(v) && !program.params.contains(v))
        .collect()
}

impl OversizedResidual {
    pub(super) fn text(&self, program: &Program) -> String {
        let describe = |v: Var| {
            let name = program.names.get(v).map(|name| format!("`{name}`"));
            let op = || {
                program
                    .eqns
                    .iter()
                    .find(|e| e.outs.contains(&v))
                    .map(|e| e.op)
            };
            name.or_else(|| Some(format!("the result of `{}`", op()?)))
                .unwrap_or_default()
        };
        let (name, size, arguments) = (describe(self.var), &self.size, &self.arguments);
        let again: Vec<String> = self.again.iter().map(|v| describe(*v)).collect();
        let again = again.join(" and ");
        format!(
            "reverse mode keeps {name}, which has {size} elements, and all arguments together have {arguments}; \
             write `#[recompute]` before the `let` of {again} to compute it again, or `#[save]` to keep it"
        )
    }
}

/// Returns whether `a` is larger than `b` for all named dims of at least 1.
///
/// If a dim is 0, residuals are small anyway.
fn exceeds(a: &Poly, b: &Poly) -> bool {
    // After substituting `n + 1` for each name `n`, a polynomial without negative terms is not
    // negative.
    let one = Poly::constant(1);
    let next = |n: &Symbol| Poly::name(*n).plus(&one);
    let from_1 = |p: Poly| {
        p.terms().iter().try_fold(Poly::ZERO, |sum, term| {
            let names = term.names.iter().map(next).collect::<Option<Vec<Poly>>>()?;
            let product = Poly::product(&names)?;
            sum.plus(&product.times(&Poly::constant(term.coefficient))?)
        })
    };
    let above = a.minus(b).and_then(from_1).unwrap_or_default();
    let terms = above.terms();
    // The constant term is the last.
    terms.last().is_some_and(|t| t.names.is_empty()) && terms.iter().all(|t| t.coefficient > 0)
}
