//! The classes of elementwise ops. An op is a value of its class.

use crate::op::{
    BinaryFns, BitFns, CompareFns, Count, Diff, Eval, Laws, Method, OpDef, OpFacts, Operands,
    Param, Range, TestFns, UnaryFns, not_linear, shape,
};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, StaticArg, Var};

/// A unary elementwise op.
pub struct Unary {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: UnaryFns,
    /// The derivative.
    pub rule: UnaryRule,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The interval for inputs in tests of the laws. The tests add the samples.
    pub domain: (f64, f64),
}

/// The derivative of `y = f(x)`.
#[derive(Clone, Copy)]
pub enum UnaryRule {
    /// `f` is linear and its own transpose.
    Linear,
    /// `dy = dx * factor(x, y)`.
    Factor(fn(b: &mut Builder, x: Var, y: Var) -> Var),
    /// `dy = tangent(x, y, dx)`, linear in `dx`.
    Tangent(fn(b: &mut Builder, x: Var, y: Var, dx: Var) -> Var),
    /// Zero, for the given reason.
    Zero(&'static str),
}

impl OpDef for Unary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[0].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        if self.count == Count::View {
            return Ok(args[0].dtype);
        }
        shape::number(args[0].dtype, self.fns.i32.is_some())
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor(self.name, &[Param::Data])]
    }
    fn diff(&self) -> Diff {
        match self.rule {
            UnaryRule::Linear => Diff::Linear,
            UnaryRule::Factor(_) | UnaryRule::Tangent(_) => Diff::Smooth,
            UnaryRule::Zero(why) => Diff::Zero(why),
        }
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let (x, y) = (eqn.args[0], eqn.out());
        let tangent = |dx: Var| match self.rule {
            UnaryRule::Linear => Some(b.unary(eqn.op, dx)),
            UnaryRule::Factor(factor) => {
                let factor = factor(b, x, y);
                Some(b.mul(dx, factor))
            }
            UnaryRule::Tangent(tangent) => Some(tangent(b, x, y, dx)),
            UnaryRule::Zero(_) => None,
        };
        vec![dx[0].and_then(tangent)]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        _: &[bool],
    ) -> Vec<Option<Var>> {
        match self.rule {
            UnaryRule::Linear => vec![cts[0].map(|ct| b.unary(eqn.op, ct))],
            _ => not_linear(self),
        }
    }
    fn eval(&self) -> Eval {
        Eval::Unary(self.fns)
    }
    fn count(&self) -> Count {
        self.count
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    fn laws(&self) -> Laws {
        Laws::new(self.domain, &[])
    }
}

/// A binary elementwise op with NumPy broadcasting.
pub struct Binary {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: BinaryFns,
    /// The derivative.
    pub rule: BinaryRule,
    /// The arithmetic cost.
    pub count: Count,
    /// Facts for passes and plans.
    pub facts: OpFacts,
    /// The interval for inputs in tests of the laws.
    pub domain: (f64, f64),
}

/// Emits the cotangent of the linear operand 0 or 1 of a binary op.
pub type BinaryTranspose = fn(b: &mut Builder, eqn: &Eqn, ct: Var, operand: usize) -> Var;

/// The derivative of `z = f(x, y)`. Tangents and cotangents have the shape of `z`.
#[derive(Clone, Copy)]
pub struct BinaryRule {
    /// The contribution of `dx` to `dz`.
    pub left: fn(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var,
    /// The contribution of `dy` to `dz`.
    pub right: fn(b: &mut Builder, eqn: &Eqn, dy: Var) -> Var,
    /// The cotangent of operand 0 or 1, if `f` is linear in it for a fixed other operand.
    pub transpose: Option<BinaryTranspose>,
}

impl OpDef for Binary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![shape::broadcast(&args[0].shape, &args[1].shape)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        match shape::promoted(args[0].dtype, args[1].dtype)? {
            Some(DType::Bool) if self.fns.bool.is_some() => Ok(Some(DType::Bool)),
            dtype => shape::number(dtype, self.fns.i32.is_some()),
        }
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor(self.name, &[Param::Data, Param::Data])]
    }
    fn diff(&self) -> Diff {
        if self.rule.transpose.is_some() {
            Diff::Linear
        } else {
            Diff::Smooth
        }
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let z = eqn.out();
        let [left, right] = [(0, self.rule.left), (1, self.rule.right)].map(|(i, rule)| {
            dx[i].map(|d| {
                let d = b.broadcast(d, eqn.args[i], z);
                rule(b, eqn, d)
            })
        });
        vec![b.add_tangents(left, right)]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let Some(transpose) = self.rule.transpose else {
            not_linear(self)
        };
        (0..2)
            .map(|i| {
                cts[0]
                    .filter(|_| linear[i])
                    .map(|ct| transpose(b, eqn, ct, i))
            })
            .collect()
    }
    fn eval(&self) -> Eval {
        Eval::Binary(self.fns)
    }
    fn count(&self) -> Count {
        self.count
    }
    fn facts(&self) -> &OpFacts {
        &self.facts
    }
    fn laws(&self) -> Laws {
        Laws::new(self.domain, &[])
    }
}

/// A comparison with NumPy broadcasting. The result is `bool`.
pub struct Compare {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: CompareFns,
}

impl OpDef for Compare {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![shape::broadcast(&args[0].shape, &args[1].shape)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::same_dtype(args[0].dtype, args[1].dtype)?;
        Ok(Some(DType::Bool))
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor(self.name, &[Param::Data, Param::Data])]
    }
    fn diff(&self) -> Diff {
        Diff::Zero("a comparison has no derivative")
    }
    fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![None]
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
        Eval::Compare(self.fns)
    }
    fn count(&self) -> Count {
        Count::FLOP
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::ELEMENTWISE.cheap().range(|_| Range::UNKNOWN) }
    }
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), &[])
    }
}

/// A test of each element of a tensor of floats. The result is `bool`.
pub struct Test {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: TestFns,
}

impl OpDef for Test {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[0].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(args[0].dtype, false)?;
        Ok(Some(DType::Bool))
    }
    fn methods(&self) -> Vec<Method> {
        vec![Method::on_tensor(self.name, &[Param::Data])]
    }
    fn diff(&self) -> Diff {
        Diff::Zero("a truth value has no derivative")
    }
    fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![None]
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
        Eval::Test(self.fns)
    }
    fn count(&self) -> Count {
        Count::FLOP
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::ELEMENTWISE.cheap().range(|_| Range::UNKNOWN) }
    }
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), &[])
    }
}

/// An op on the bits of integers, or on bools, with NumPy broadcasting.
pub struct Bits {
    /// The name in the text form.
    pub name: &'static str,
    /// The loops for each dtype.
    pub fns: BitFns,
    /// The programs for tests of the laws.
    pub samples: &'static [&'static str],
}

impl OpDef for Bits {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(self.fns.n_operands(), 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![match args {
            [x, y] => shape::broadcast(&x.shape, &y.shape)?,
            _ => args[0].shape.clone(),
        }])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let dtype = match args {
            [x, y] => shape::promoted(x.dtype, y.dtype)?,
            _ => args[0].dtype,
        };
        match (dtype, self.fns) {
            (Some(DType::Bool), BitFns::Two { bool: None, .. }) => {
                shape::integer(dtype, "an integer")?;
            }
            (Some(DType::Bool), _) => {}
            _ => shape::integer(dtype, "an integer or bool")?,
        }
        Ok(dtype)
    }
    fn methods(&self) -> Vec<Method> {
        let params = &[Param::Data, Param::Data];
        vec![Method::on_tensor(
            self.name,
            &params[..self.fns.n_operands()],
        )]
    }
    fn diff(&self) -> Diff {
        Diff::Zero("integers and bools have no derivative")
    }
    fn jvp(&self, _: &mut Builder, _: &Eqn, _: &[Option<Var>]) -> Vec<Option<Var>> {
        vec![None]
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
        Eval::Bits(self.fns)
    }
    fn count(&self) -> Count {
        Count::FLOP
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::ELEMENTWISE.cheap().range(|_| Range::UNKNOWN) }
    }
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), self.samples)
    }
}
