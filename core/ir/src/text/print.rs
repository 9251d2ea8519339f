//! Programs to text.

use crate::{Program, Var};
use std::fmt;

impl Program {
    /// How a variable prints: by its name, or as `v3`.
    pub fn show(&self, var: Var) -> String {
        self.names
            .get(var)
            .cloned()
            .unwrap_or_else(|| var.to_string())
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
        let params = self.params.iter().map(|v| match self.avals.get(*v) {
            Some(aval) if *aval != crate::Aval::UNKNOWN => format!("{}: {aval}", self.show(*v)),
            _ => self.show(*v),
        });
        writeln!(f, "({}) {{", params.collect::<Vec<_>>().join(", "))?;
        for eqn in &self.eqns {
            write!(f, "  {} = {}", list(&eqn.outs), eqn.op)?;
            if !eqn.attrs.is_empty() {
                let names = eqn.op.def().statics().iter();
                let attrs = names
                    .zip(&eqn.attrs)
                    .map(|(n, a)| format!("{n}={}", self.attr(*a)));
                write!(f, "[{}]", attrs.collect::<Vec<_>>().join(", "))?;
            }
            let data = eqn.data().iter().map(|v| self.show(*v));
            let likes = eqn
                .likes()
                .iter()
                .map(|v| format!("like {}", self.show(*v)));
            writeln!(f, " {}", data.chain(likes).collect::<Vec<_>>().join(", "))?;
        }
        write!(f, "  return {}\n}}", list(&self.outs))
    }
}
