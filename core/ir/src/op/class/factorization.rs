//! The class of ops on the matrices in the last two axes.

use crate::op::{Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts, Operands, not_linear};
use crate::op::{axes, shape};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Shape, Static, StaticArg, Var};

/// The axes of each result, or why the operand has none.
pub(super) type ResultAxes = Result<Vec<Vec<Dim>>, Fault>;

/// An op that computes factors or numbers of each matrix in the last two axes of its operand.
///
/// The axes before them are a batch. The results have these axes, too.
pub struct Factorization {
    /// The name in the text form.
    pub name: &'static str,
    /// The methods by which user code calls the op.
    pub methods: &'static [Method],
    /// The static arguments.
    pub statics: &'static [StaticArg],
    /// Returns the axes of each result for a matrix with these numbers of rows and columns.
    pub results: fn(rows: Dim, columns: Dim) -> ResultAxes,
    /// Emits the tangents of the results, given that of the operand.
    pub tangents: fn(b: &mut Builder, eqn: &Eqn, dx: Var) -> Vec<Option<Var>>,
    /// The kernel.
    pub kernel: Kernel,
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

/// Returns an error unless matrices are square.
pub(crate) fn square(rows: Dim, columns: Dim) -> Result<Dim, Fault> {
    match rows.differs(columns) {
        true => Err(Fault::Length {
            what: "the number of columns".into(),
            found: columns.to_string(),
            expected: format!("{rows}, the number of rows"),
        }),
        false if rows == Dim::Unknown || matches!(columns, Dim::Known(_)) => Ok(columns),
        false => Ok(rows),
    }
}

impl OpDef for Factorization {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        self.statics
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        let x = shape::matrices(&args[0].shape)?;
        let Some([batch @ .., rows, columns]) = x.dims() else {
            let n_results = (self.results)(Dim::Unknown, Dim::Unknown)?.len();
            return Ok(vec![Shape::UNKNOWN; n_results]);
        };
        let results = (self.results)(*rows, *columns)?;
        let whole = |axes: Vec<Dim>| Shape::from([batch, &axes].concat());
        Ok(results.into_iter().map(whole).collect())
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(args[0].dtype, false)
    }
    fn methods(&self) -> Vec<Method> {
        self.methods.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Smooth
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        match dx[0] {
            Some(dx) => (self.tangents)(b, eqn, dx),
            None => vec![None; eqn.outs.len()],
        }
    }
    fn transpose(
        &self,
        _: &mut Builder,
        _: &Eqn,
        _: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        not_linear(self)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(self.kernel)
    }
    fn count(&self) -> Count {
        Count::Factors
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::opaque(axes::FACTORED) }
    }
    fn laws(&self) -> Laws {
        Laws::new((-1.0, 1.0), self.samples).dominant()
    }
}
