//! The class of ops that write to a part of a tensor.

use crate::op::{
    Count, Diff, Eval, InferRule, Kernel, Laws, Method, OpDef, OpFacts, Operands, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Ids, Op, Program, Shape, Static, StaticArg, Var};

/// An op with a kernel that writes updates to a part of a tensor, or adds them to it.
///
/// It is linear in its first operand, the tensor, and in its last, the updates. Operands between
/// them are integers that say where the part is. The `Like` operands are the tensor and the updates.
pub struct Update {
    /// The name in the text form.
    pub name: &'static str,
    /// The number of data operands.
    pub n_data: usize,
    /// The static arguments. The last one is `set`: whether updates replace the elements or are added to them.
    pub statics: &'static [StaticArg],
    /// The shape rule.
    pub shape: InferRule<Shape>,
    /// The dtype rule, for updates that replace elements. Only numbers are added.
    pub dtype: InferRule<Option<DType>>,
    /// The op that reads the part: the transpose in the updates.
    ///
    /// It takes a tensor, the operands between, and as many of the `Like` operands as it has.
    pub read: Op,
    /// The op that places updates among zeros: the transpose of `read`.
    pub place: Op,
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// The kernel.
    pub kernel: Kernel,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

impl Update {
    /// The [`AvalOf`](crate::op::AvalOf) of these ops.
    pub fn aval_of(_: &Program, eqn: &Eqn, operand: usize) -> usize {
        let n_data = eqn.data().len();
        match operand {
            0 => n_data,
            _ => n_data + 1,
        }
    }

    /// Returns whether updates are added to the elements.
    fn adds(b: &Builder, eqn: &Eqn) -> bool {
        let set = eqn.attrs.last().map(|set| b.static_of(*set));
        set.is_some_and(|set| set.bool() == Some(false))
    }

    /// Returns the operands with another tensor and other updates.
    fn with(&self, eqn: &Eqn, x: Var, updates: Var) -> Ids<Var> {
        let mut args = eqn.args.clone();
        args[0] = x;
        args[self.n_data - 1] = updates;
        args
    }

    /// Emits an op that reads or places the part, applied to `x`.
    fn part(&self, b: &mut Builder, op: Op, eqn: &Eqn, x: Var) -> Var {
        let Operands::Fixed(_, n_likes) = op.def().operands() else {
            unreachable!("an op that reads or places a part has a fixed number of operands")
        };
        let mut args = vec![x];
        args.extend(&eqn.args[1..self.n_data - 1]);
        args.extend(&eqn.likes()[..n_likes]);
        // Whether updates are added is no argument of ops on slices.
        let attrs = &eqn.attrs[..op.def().statics().len()];
        b.emit(op, attrs, &args)
    }
}

impl OpDef for Update {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(self.n_data, 2)
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![(self.shape)(statics, args)?])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let dtype = (self.dtype)(statics, args)?;
        match statics.last().and_then(Static::bool) {
            Some(false) => shape::number(dtype, true),
            _ => Ok(dtype),
        }
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy = update(dx, du): du placed among zeros if dx is 0, and dx with zeros written if du is.
        vec![match (dx[0], dx[self.n_data - 1]) {
            (None, None) => None,
            (None, Some(du)) => Some(self.part(b, self.place, eqn, du)),
            (Some(dx), None) if Update::adds(b, eqn) => Some(dx),
            (Some(dx), du) => {
                let du = du.unwrap_or_else(|| b.zeros_like(eqn.likes()[1]));
                Some(b.emit(eqn.op, &eqn.attrs, &self.with(eqn, dx, du)))
            }
        }]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let mut all = vec![None; self.n_data];
        let Some(ct) = cts[0] else {
            return all;
        };
        if linear[0] {
            // The elements that were replaced have no influence.
            all[0] = Some(match Update::adds(b, eqn) {
                true => ct,
                false => {
                    let zeros = b.zeros_like(eqn.likes()[1]);
                    b.emit(eqn.op, &eqn.attrs, &self.with(eqn, ct, zeros))
                }
            });
        }
        if linear[self.n_data - 1] {
            all[self.n_data - 1] = Some(self.part(b, self.read, eqn, ct));
        }
        all
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(self.kernel)
    }
    fn count(&self) -> Count {
        Count::Copy
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), self.samples)
    }
}
