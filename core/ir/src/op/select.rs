use super::nd_array::{Application, NdArray};
use super::{
    Count, Diff, Equal, Eval, Kernel, Laws, Linearity, Method, OpDef, OpFacts, Operands, Param,
    shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// `select c, x, y`: the element of `x` where the bool `c` is true, and of `y` elsewhere.
///
/// The tangent selects by the same condition, so a NaN in an element that is not selected does not
/// reach the derivative.
pub(super) static OP: Select = Select;

pub(super) struct Select;

impl OpDef for Select {
    fn name(&self) -> &'static str {
        "select"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(3, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let xy = shape::broadcast(&args[1].shape, &args[2].shape)?;
        Ok(vec![shape::broadcast(&args[0].shape, &xy)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        if let Some(found) = args[0].dtype.filter(|d| *d != DType::Bool) {
            return Err(Fault::DType {
                found,
                expected: "bool for the condition",
            });
        }
        shape::promoted(args[1].dtype, args[2].dtype)
    }
    fn methods(&self) -> Vec<Method> {
        let params = &[Param::Data, Param::Data, Param::Data];
        vec![Method::on_tensor("select", params).named(&["c", "x", "y"])]
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dz = c ? dx : dy
        let z = eqn.out();
        let [x, y] = [1, 2].map(|i| dx[i].map(|d| b.broadcast(d, eqn.args[i], z)));
        if x.is_none() && y.is_none() {
            return vec![None];
        }
        let x = x.unwrap_or_else(|| b.zeros_like(z));
        let y = y.unwrap_or_else(|| b.zeros_like(z));
        vec![Some(b.select(eqn.args[0], x, y))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let Some(ct) = cts[0] else {
            return vec![None; 3];
        };
        let zero = b.zeros_like(ct);
        let x = linear[1].then(|| b.select(eqn.args[0], ct, zero));
        let y = linear[2].then(|| b.select(eqn.args[0], zero, ct));
        vec![None, x, y]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Select)
    }
    fn count(&self) -> Count {
        Count::FLOP
    }
    fn facts(&self) -> &OpFacts {
        const {
            &OpFacts::ELEMENTWISE
                .cheap()
                .moves()
                .linear(Linearity::From(1))
                .equal(Equal::SameBranches)
                .range(|of| of.ranges[1].both(of.ranges[2]).guarded())
        }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(c: bool[2, 3], x: f64[2, 3], y: f64[2, 3]) { z = select c, x, y return z }",
                "(c: bool[3], x: f64[2, 1], y: f64[]) { z = select c, x, y return z }",
                "(c: bool[0], x: f64[0], y: f64[]) { z = select c, x, y return z }",
            ],
        )
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| {
        let branch = if of.x().spread(&i) != 0.0 { 1 } else { 2 };
        of.args[branch].spread(&i)
    })
}
