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

    /// The number of variables: each id is below it.
    pub fn n_vars(&self) -> u32 {
        let bound = self.eqns.iter().flat_map(|e| &e.outs);
        self.params
            .iter()
            .chain(bound)
            .map(|v| v.0 + 1)
            .max()
            .unwrap_or(0)
    }
}
