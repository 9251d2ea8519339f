//! The printer of programs.

use crate::{Eqn, Program, RematHint, Var};
use std::fmt;

impl Program {
    /// Returns the text of a variable: its name, or `v3`.
    pub fn show(&self, var: Var) -> String {
        self.names
            .get(var)
            .cloned()
            .unwrap_or_else(|| var.to_string())
    }

    /// Returns the text of parameters, each with its aval if that is known.
    pub(crate) fn show_params(&self, params: &[Var]) -> String {
        let params = params.iter().map(|v| match self.avals.get(*v) {
            Some(aval) if *aval != crate::Aval::UNKNOWN => format!("{}: {aval}", self.show(*v)),
            _ => self.show(*v),
        });
        params.collect::<Vec<_>>().join(", ")
    }

    /// Returns the text of an equation. Also works for equations that the verifier refuses.
    pub fn show_eqn(&self, eqn: &Eqn) -> String {
        let def = eqn.op.def();
        let outs: Vec<String> = eqn.outs.iter().map(|v| self.show(*v)).collect();
        let hint = match eqn.outs.iter().find_map(|v| self.remat_hints.get(*v)) {
            Some(RematHint::Save) => "#save ",
            Some(RematHint::Recompute) => "#recompute ",
            None => "",
        };
        let mut text = format!("{hint}{} = {}", outs.join(", "), eqn.op);
        if !eqn.attrs.is_empty() {
            let names = def.statics().iter().map(|arg| arg.name);
            let names = names.chain(std::iter::repeat("?"));
            let attrs = eqn.attrs.iter().zip(names).map(|(attr, name)| {
                match self.attrs.get(attr.0 as usize) {
                    Some(value) => format!("{name}={value}"),
                    None => format!("{name}={attr}"),
                }
            });
            text += &format!("[{}]", attrs.collect::<Vec<_>>().join(", "));
        }
        let n_data = def.operands().n_data(eqn.args.len());
        for (i, arg) in eqn.args.iter().enumerate() {
            text += if i == 0 { " " } else { ", " };
            text += if i < n_data { "" } else { "like " };
            text += &self.show(*arg);
        }
        text
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |vars: &[Var]| {
            vars.iter()
                .map(|v| self.show(*v))
                .collect::<Vec<_>>()
                .join(", ")
        };
        writeln!(f, "({}) {{", self.show_params(&self.params))?;
        for eqn in &self.eqns {
            writeln!(f, "  {}", self.show_eqn(eqn))?;
        }
        f.write_str("  return")?;
        if !self.outs.is_empty() {
            write!(f, " {}", list(&self.outs))?;
        }
        f.write_str("\n}")
    }
}
