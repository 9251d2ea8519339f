//! Programs: straight-line functions in A-normal form (a jaxpr in JAX).

mod code;
mod programs;
mod statics;

pub use code::{Code, HostCode};
pub use programs::Programs;
pub(crate) use statics::dims_text;
pub use statics::{Static, StaticArg, StaticKind};

use crate::{Attr, Aval, Op, SecondaryMap, ShortList, Var};

/// A list of ids in an equation. It is as large as a `Vec`.
pub type Ids<T> = ShortList<T, 5>;

/// An equation `outs = op[attrs] args`. In `args`, the data operands precede the `Like` operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eqn {
    /// The variables that the equation binds. Most ops bind one.
    pub outs: Ids<Var>,
    /// The op.
    pub op: Op,
    /// The static arguments, in the order of [`OpDef::statics`](crate::op::OpDef::statics).
    pub attrs: Ids<Attr>,
    /// The operands.
    pub args: Ids<Var>,
}

impl Eqn {
    /// Returns the variable that the equation binds.
    ///
    /// # Panics
    ///
    /// In debug builds, if it does not bind exactly one.
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

    /// Returns the operands whose values are read.
    pub fn data(&self) -> &[Var] {
        &self.args[..self.op.def().operands().n_data(self.args.len())]
    }

    /// Returns the operands of which only dtype and shape are read.
    pub fn likes(&self) -> &[Var] {
        &self.args[self.op.def().operands().n_data(self.args.len())..]
    }
}

/// A straight-line function.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The parameters.
    pub params: Vec<Var>,
    /// The equations. Each follows those that bind its operands.
    pub eqns: Vec<Eqn>,
    /// The results.
    pub outs: Vec<Var>,
    /// The static arguments, indexed by [`Attr`].
    pub attrs: Vec<Static>,
    /// The known dtypes and shapes of the variables. A missing entry means unknown.
    pub avals: SecondaryMap<Var, Aval>,
    /// The user's names, unique in the program. They only change how the program prints.
    pub names: SecondaryMap<Var, String>,
    /// The user's requests to save or recompute variables in reverse mode.
    pub remat_hints: SecondaryMap<Var, RematHint>,
    /// The lines of the user's code that compute variables, as far as they were noted. Reports read them.
    pub lines: SecondaryMap<Var, Line>,
}

/// Line of the user's code.
pub type Line = &'static std::panic::Location<'static>;

/// A user's request to save or recompute a variable that the pullback needs.
///
/// It trades memory for time and never changes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RematHint {
    /// Store the value as a residual.
    Save,
    /// Recompute the value in the pullback, at any cost.
    Recompute,
}

impl Program {
    /// Returns the value of a static argument.
    pub fn attr(&self, attr: Attr) -> &Static {
        &self.attrs[attr.0 as usize]
    }

    /// Returns the known dtype and shape of a variable.
    pub fn aval(&self, var: Var) -> &Aval {
        self.avals.get(var).unwrap_or(&Aval::UNKNOWN)
    }

    /// Returns a number greater than every variable id, including those in the side tables.
    ///
    /// The tables of avals and names may list variables that another part of the original program
    /// binds. Counting them keeps ids distinct when the parts are joined again.
    pub fn n_vars(&self) -> u32 {
        let bound = self.eqns.iter().flat_map(|e| &e.outs);
        let bound = self.params.iter().chain(bound).map(|v| v.0 + 1).max();
        let tables = self.avals.end().max(self.names.end());
        bound.unwrap_or(0).max(tables as u32)
    }
}
