//! Programs: straight-line functions in A-normal form (JAX calls one a jaxpr).

use crate::{Attr, Aval, Op, SecondaryMap, Static, Var};

/// `outs = op[attrs] args`. The data operands stand first in `args`, the `Like` operands after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eqn {
    /// What the equation binds: one variable for most ops.
    pub outs: Vec<Var>,
    /// The op.
    pub op: Op,
    /// Its static arguments, in the order of [`OpDef::statics`](crate::op::OpDef::statics).
    pub attrs: Vec<Attr>,
    /// Its operands.
    pub args: Vec<Var>,
}

impl Eqn {
    /// The only variable the equation binds.
    pub fn out(&self) -> Var {
        debug_assert_eq!(
            self.outs.len(),
            1,
            "`{}` binds {} variables",
            self.op,
            self.outs.len()
        );
        self.outs[0]
    }

    /// The operands whose values are read.
    pub fn data(&self) -> &[Var] {
        &self.args[..self.op.def().operands().n_data(self.args.len())]
    }

    /// The operands of which only dtype and shape are read.
    pub fn likes(&self) -> &[Var] {
        &self.args[self.op.def().operands().n_data(self.args.len())..]
    }
}

/// A straight-line function.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The variables that the caller binds.
    pub params: Vec<Var>,
    /// The equations, each after those it reads from.
    pub eqns: Vec<Eqn>,
    /// The results.
    pub outs: Vec<Var>,
    /// The static arguments, by [`Attr`].
    pub attrs: Vec<Static>,
    /// What is known of the variables. Absent means unknown.
    pub avals: SecondaryMap<Var, Aval>,
    /// The user's names, unique in the program. They change how the program prints and nothing else.
    pub names: SecondaryMap<Var, String>,
    /// What the user wrote about keeping a variable for reverse mode.
    pub pins: SecondaryMap<Var, Keep>,
}

/// Whether reverse mode keeps a variable that its pullback needs, where the user says so.
///
/// It decides about memory and time, never about results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keep the value.
    Save,
    /// Compute the value again, whatever that costs.
    Recompute,
}

impl Program {
    /// The value of a static argument.
    pub fn attr(&self, attr: Attr) -> &Static {
        &self.attrs[attr.0 as usize]
    }

    /// What is known of a variable.
    pub fn aval(&self, var: Var) -> &Aval {
        self.avals.get(var).unwrap_or(&Aval::UNKNOWN)
    }

    /// The number of variables: each id is below it, also those that stand in the side tables alone. These are
    /// bound in another part of the program that this one was cut from, and the parts may be joined again.
    pub fn n_vars(&self) -> u32 {
        let bound = self.eqns.iter().flat_map(|e| &e.outs);
        let bound = self.params.iter().chain(bound).map(|v| v.0 + 1).max();
        let tables = self.avals.end().max(self.names.end());
        bound.unwrap_or(0).max(tables as u32)
    }
}
