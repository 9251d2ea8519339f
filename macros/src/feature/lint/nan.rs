//! Finds `select`s that do not keep NaN out of a gradient.
//!
//! `x.gt(0.0).select(&x.log(), &y)` has a finite value at `x = 0`, but reverse mode multiplies the
//! cotangent of `log`, which is 0 there, by its slope, which is infinite: NaN. The safe form
//! applies `select` to the operand first.

use super::sign::Signs;
use gradloom_ir::op::Steep;
use gradloom_ir::{Eqn, Op, Program, SecondaryMap, Var};

/// Op in an operand of `select` whose slope may be infinite where the other operand is selected.
pub(super) struct Risk {
    /// Result of the op.
    pub(super) at: Var,
    op: Op,
    steep: Steep,
    /// Operands of the op.
    operands: Vec<Var>,
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
    let selects = |eqn: &&Eqn| eqn.op.def().facts().selects();
    if !program.eqns.iter().any(|eqn| selects(&eqn)) {
        return Vec::new();
    }
    let binds: SecondaryMap<Var, &Eqn> = program
        .eqns
        .iter()
        .flat_map(|e| e.outs.iter().map(move |v| (*v, e)))
        .collect();
    let mut found: Vec<Risk> = Vec::new();
    for select in program.eqns.iter().filter(selects) {
        for branch in [1, 2] {
            let Some((eqn, steep)) = nearest(program, &binds, signs, active, select.args[branch])
            else {
                continue;
            };
            if found.iter().all(|risk| risk.at != eqn.out()) {
                found.push(Risk {
                    at: eqn.out(),
                    op: eqn.op,
                    steep,
                    operands: eqn.data().to_vec(),
                    condition: select.args[0],
                    other: select.args[3 - branch],
                    where_true: branch == 1,
                });
            }
        }
    }
    found
}

/// Returns the nearest op behind `from` whose slope may be infinite, and where it is.
fn nearest<'a>(
    program: &Program,
    binds: &SecondaryMap<Var, &'a Eqn>,
    signs: &Signs,
    active: &SecondaryMap<Var, ()>,
    from: Var,
) -> Option<(&'a Eqn, Steep)> {
    let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(v) = open.pop_front() {
        if !active.contains(v) || seen.insert(v, ()).is_some() {
            continue;
        }
        let Some(eqn) = binds.get(v) else { continue };
        if let Some(steep) = infinite(program, eqn, signs, active) {
            return Some((eqn, steep));
        }
        // Another `select` is examined for itself.
        let facts = eqn.op.def().facts();
        if (facts.elementwise || eqn.op.is_view()) && !facts.selects() {
            open.extend(eqn.data());
        }
    }
    None
}

/// Returns where the slope of an op is infinite, unless the user may have excluded these values.
fn infinite(
    program: &Program,
    eqn: &Eqn,
    signs: &Signs,
    active: &SecondaryMap<Var, ()>,
) -> Option<Steep> {
    let steep = eqn.op.def().facts().steep?;
    let operand = eqn.args[steep.operand];
    let varies = |v: Var| active.contains(v);
    let safe = (steep.is_safe)(&signs.operands(program, eqn), &varies);
    (!safe && !signs.range_of(operand).guarded).then_some(steep)
}

impl Risk {
    /// Returns the text of the warning: the problem, and the safe form.
    pub(super) fn text(&self, program: &Program) -> String {
        let name = |v: Var, other: &str| match program.names.get(v) {
            Some(name) => name.clone(),
            None => other.to_owned(),
        };
        let (op, x, c) = (
            self.op,
            name(self.operands[self.steep.operand], "x"),
            name(self.condition, "c"),
        );
        let call = match (self.steep.operand, &self.operands[..]) {
            (0, [_]) => format!("safe.{op}()"),
            (0, operands) => format!("safe.{op}({})", name(operands[1], "p")),
            (_, operands) => format!("({} / &safe)", name(operands[0], "a")),
        };
        let harmless = match self.steep.harmless {
            0.0 => format!("&{x}.zeros_like()"),
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
            "the gradient is NaN where the slope of `{op}` is infinite, although `select` does not take `{op}` there, \
             because 0 times infinity is NaN; select the operand of `{op}`, too: `let safe = {safe}; {result}`"
        )
    }
}
