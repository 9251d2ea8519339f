use super::cumsum::{negated, scanned, walk};
use super::nd_array::{Application, NdArray};
use super::{Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, axes, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, StaticArg, StaticKind, Var};

methods! { recurrence {
    /// The linear recurrence `y[i] = x[i] + factors[i] * y[i - 1]` along `axes`, from `y[0] = x[0]`.
    ///
    /// Several axes are walked in row-major order. The first factor is not used.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 1.0, 1.0]);
    /// let factors = Tensor::from([0.0f32, 0.5, 2.0]);
    /// assert_eq!(x.recurrence(&factors, 0).to_vec::<f32>(), [1.0, 1.5, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, the shapes or dtypes differ, or the op does not
    /// accept the dtype.
    fn recurrence(x: Data, factors: Data, axes: Static, reverse: Switch(false), late: Switch(false));
} }

/// `recurrence[axes, reverse, late] x, a`: `y[i] = x[i] + a[i] y[i - 1]` along `axes`.
///
/// With `late`, the factor is `a[i - 1]`: this is the transpose in the opposite direction. The op is
/// linear in `x`.
pub(super) struct Recurrence {
    facts: OpFacts,
}

pub(super) static OP: Recurrence = Recurrence {
    facts: OpFacts::opaque(axes::ALONG),
};

impl OpDef for Recurrence {
    fn name(&self) -> &'static str {
        "recurrence"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::Axes.named("axes"),
                StaticKind::KnownFlag.named("reverse"),
                StaticKind::KnownFlag.named("late"),
            ]
        }
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![scanned(statics, args)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(shape::same_dtypes(args)?, true)
    }
    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dy[i] = dx[i] + da[i] y[i - 1] + a[i] dy[i - 1], or with a[i - 1] and da[i - 1].
        let (a, y) = (eqn.args[1], eqn.out());
        let [axes, reverse, late] = [eqn.attrs[0], eqn.attrs[1], eqn.attrs[2]];
        let is_late = b.static_of(late).bool() == Some(true);
        let of_a = dx[1].map(|da| match is_late {
            true => {
                let product = b.mul(da, y);
                b.emit(Op::Shift, &[axes, reverse], &[product])
            }
            false => {
                let before = b.emit(Op::Shift, &[axes, reverse], &[y]);
                b.mul(da, before)
            }
        });
        let change = b.add_tangents(dx[0], of_a);
        vec![change.map(|change| b.emit(Op::Recurrence, &eqn.attrs, &[change, a]))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        // ct_x[i] = ct[i] + a[i + 1] ct_x[i + 1].
        let ct = cts[0].filter(|_| linear[0]);
        let ct_x = ct.map(|ct| {
            let reverse = negated(b, eqn.attrs[1]);
            let late = negated(b, eqn.attrs[2]);
            let attrs = [eqn.attrs[0], reverse, late];
            b.emit(Op::Recurrence, &attrs, &[ct, eqn.args[1]])
        });
        vec![ct_x, None]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Recurrence)
    }
    fn count(&self) -> Count {
        Count::each(2, 0)
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-2.0, 2.0),
            &[
                "(x: f64[2, 3], a: f64[2, 3]) { y = recurrence[axes=[1], reverse=false, late=false] x, a return y }",
                "(x: f64[3, 2], a: f64[3, 2]) { y = recurrence[axes=[-2], reverse=true, late=false] x, a return y }",
                "(x: f64[2, 3], a: f64[2, 3]) { y = recurrence[axes=all, reverse=false, late=true] x, a return y }",
                "(x: f64[2, 2, 2], a: f64[2, 2, 2]) { y = recurrence[axes=[0, 2], reverse=true, late=true] x, a return y }",
                "(x: f64[2, 0], a: f64[2, 0]) { y = recurrence[axes=[1], reverse=false, late=false] x, a return y }",
                "(x: f64[], a: f64[]) { y = recurrence[axes=all, reverse=false, late=false] x, a return y }",
                "(x: i64[4], a: i64[4]) { y = recurrence[axes=[0], reverse=false, late=false] x, a return y }",
            ],
        )
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| {
        let (x, a) = (&rows[0], &rows[1]);
        let factor = |i: usize| if of.flag(2) { a[i - 1] } else { a[i] };
        (1..x.len()).fold(x[0], |y, i| x[i] + factor(i) * y)
    })
}
