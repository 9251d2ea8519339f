//! Finds `select`s that do not keep NaN out of a gradient.
//!
//! `x.gt(0.0).select(&x.log(), &y)` has a finite value at `x = 0`, but reverse mode multiplies the
//! cotangent of `log`, which is 0 there, by its slope, which is infinite: NaN. The safe form
//! applies `select` to the operand first.

use super::sign::{Signs, elementwise, moves};
use gradloom_ir::{Eqn, Op, Program, SecondaryMap, Var};

/// Op in an operand of `select` whose slope may be infinite where the other operand is selected.
pub(super) struct Risk {
    /// Result of the op.
    pub(super) at: Var,
    op: Op,
    /// Operand that the slope depends on.
    operand: Var,
    /// Numerator of a quotient.
    first: Var,
    /// Exponent of a power.
    exponent: Option<Var>,
    condition: Var,
    /// Other operand of `select`.
    other: Var,
    /// True if the op is in the operand that is selected where the condition is true.
    where_true: bool,
}

/// Returns the nearest risky op in each operand of each `select` of a block.
///
/// `active` are the variables with a tangent; `signs` has learnt the block.
pub(super) fn risks(program: &Program, active: &SecondaryMap<Var, ()>, signs: &Signs) -> Vec<Risk> {
    if program.eqns.iter().all(|e| e.op != Op::Select) {
        return Vec::new();
    }
    let binds: SecondaryMap<Var, &Eqn> = program
        .eqns
        .iter()
        .flat_map(|e| e.outs.iter().map(move |v| (*v, e)))
        .collect();
    let mut found: Vec<Risk> = Vec::new();
    for select in program.eqns.iter().filter(|e| e.op == Op::Select) {
        for branch in [1, 2] {
            let Some((eqn, operand)) = nearest(program, &binds, signs, active, select.args[branch])
            else {
                continue;
            };
            if found.iter().all(|risk| risk.at != eqn.out()) {
                found.push(Risk {
                    at: eqn.out(),
                    op: eqn.op,
                    operand,
                    first: eqn.args[0],
                    exponent: eqn.args.get(1).copied(),
                    condition: select.args[0],
                    other: select.args[3 - branch],
                    where_true: branch == 1,
                });
            }
        }
    }
    found
}

/// Returns the nearest op behind `from` whose slope may be infinite.
///
/// Also returns the operand that the slope depends on.
fn nearest<'a>(
    program: &Program,
    binds: &SecondaryMap<Var, &'a Eqn>,
    signs: &Signs,
    active: &SecondaryMap<Var, ()>,
    from: Var,
) -> Option<(&'a Eqn, Var)> {
    let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(v) = open.pop_front() {
        if !active.contains(v) || seen.insert(v, ()).is_some() {
            continue;
        }
        let Some(eqn) = binds.get(v) else { continue };
        if let Some(operand) = infinite(program, eqn, signs, active) {
            return Some((eqn, operand));
        }
        if elementwise(eqn.op) || moves(eqn) {
            open.extend(eqn.data());
        }
    }
    None
}

/// Returns the operand that has values where the slope of an op is infinite, unless the user may
/// have excluded these values.
fn infinite(
    program: &Program,
    eqn: &Eqn,
    signs: &Signs,
    active: &SecondaryMap<Var, ()>,
) -> Option<Var> {
    let of = |v: Var| signs.facts_of(v);
    let x = *eqn.args.first()?;
    let (operand, safe) = match eqn.op {
        Op::Log | Op::Sqrt | Op::Rsqrt => (x, of(x).not_0 && of(x).at_least_0),
        Op::Reciprocal => (x, of(x).not_0),
        Op::Log1p => (x, of(x).at_least_0),
        Op::Exp | Op::Expm1 => (x, of(x).at_most_0 || of(x).bounded),
        Op::Div => (eqn.args[1], of(eqn.args[1]).not_0),
        Op::Pow => {
            let exponent = eqn.args[1];
            let value = program.eqns.iter().find(|e| e.outs.contains(&exponent));
            let value = value.filter(|e| matches!(e.op, Op::Scalar | Op::FullLike));
            // x^y has a finite slope at 0 for y >= 1, and for y = 0.
            let safe = match value.map(|e| program.attr(e.attrs[0]).float()) {
                Some(Some(y)) => y >= 1.0 || y == 0.0,
                Some(None) => true,
                None => !active.contains(exponent) && of(exponent).bounded,
            };
            (x, safe || (of(x).not_0 && of(x).at_least_0))
        }
        _ => return None,
    };
    (!safe && !of(operand).guarded).then_some(operand)
}

impl Risk {
    /// Returns the text of the warning: the problem, and the safe form.
    pub(super) fn text(&self, program: &Program) -> String {
        let name = |v: Var, other: &str| match program.names.get(v) {
            Some(name) => name.clone(),
            None => other.to_owned(),
        };
        let (op, x, c) = (self.op, name(self.operand, "x"), name(self.condition, "c"));
        let call = match op {
            Op::Div => format!("({} / &safe)", name(self.first, "a")),
            Op::Pow => format!(
                "safe.pow({})",
                self.exponent.map_or("p".to_owned(), |p| name(p, "p"))
            ),
            op => format!("safe.{op}()"),
        };
        let harmless = match op {
            Op::Exp | Op::Expm1 | Op::Log1p => format!("&{x}.zeros_like()"),
            _ => format!("&{x}.ones_like()"),
        };
        let select = |mine: &str, other: &str| match self.where_true {
            true => format!("{c}.select({mine}, {other})"),
            false => format!("{c}.select({other}, {mine})"),
        };
        let safe = select(&format!("&{x}"), &harmless);
        let other = name(self.other, "y");
        let result = select(&format!("&{call}"), &format!("&{other}"));
        format!(
            "where `select` does not take `{op}`, the gradient is NaN all the same if the slope of `{op}` is infinite there, \
             because 0 times infinity is NaN; select its operand, too: `let safe = {safe}; {result}`"
        )
    }
}
