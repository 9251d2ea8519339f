//! The classes of elementwise ops. An op of a class is a value: its name, its loops, its rule, its laws.
//!
//! The loops are plain loops over slices around the op's scalar expression, so that rustc can vectorise them.

use super::{Count, Diff, Eval, Laws, Method, OpDef, Operands, Param, not_linear, shape};
use crate::{Aval, Builder, DType, Eqn, Fault, Shape, Static, Var};

/// One function for each dtype that an op takes.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // named as the dtypes
pub struct Fns<F32, F64, I32, I64> {
    pub f32: F32,
    pub f64: F64,
    pub i32: Option<I32>,
    pub i64: Option<I64>,
}

/// The loops of a unary op: operand, result, of equal length.
pub type UnaryFns = Fns<
    fn(&[f32], &mut [f32]),
    fn(&[f64], &mut [f64]),
    fn(&[i32], &mut [i32]),
    fn(&[i64], &mut [i64]),
>;

/// The loops of a binary op: operands, result, of equal length.
pub type BinaryFns = Fns<
    fn(&[f32], &[f32], &mut [f32]),
    fn(&[f64], &[f64], &mut [f64]),
    fn(&[i32], &[i32], &mut [i32]),
    fn(&[i64], &[i64], &mut [i64]),
>;

/// The loops of a comparison: operands, result, of equal length.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct CompareFns {
    pub f32: fn(&[f32], &[f32], &mut [bool]),
    pub f64: fn(&[f64], &[f64], &mut [bool]),
    pub i32: fn(&[i32], &[i32], &mut [bool]),
    pub i64: fn(&[i64], &[i64], &mut [bool]),
    pub bool: fn(&[bool], &[bool], &mut [bool]),
}

pub(super) fn map<T: Copy, U>(xs: &[T], ys: &mut [U], f: impl Fn(T) -> U) {
    for (y, &x) in ys.iter_mut().zip(xs) {
        *y = f(x);
    }
}

pub(super) fn zip<T: Copy, U>(xs: &[T], ys: &[T], zs: &mut [U], f: impl Fn(T, T) -> U) {
    for ((z, &x), &y) in zs.iter_mut().zip(xs).zip(ys) {
        *z = f(x, y);
    }
}

/// `unary_fns!(|x| float expression)`, `unary_fns!(|x| float expression, int |x| integer expression)`, or
/// `unary_fns!(in f64 function)`, which computes `f32` in double precision.
macro_rules! unary_fns {
    (in f64 $f:path) => {
        super::UnaryFns {
            f32: |xs, ys| super::elementwise::map(xs, ys, |x: f32| $f(f64::from(x)) as f32),
            f64: |xs, ys| super::elementwise::map(xs, ys, $f),
            i32: None,
            i64: None,
        }
    };
    (|$x:ident| $float:expr) => {
        unary_fns!(@ |$x| $float, None, None)
    };
    (|$x:ident| $float:expr, int |$i:ident| $int:expr) => {
        unary_fns!(@ |$x| $float,
            Some(|xs, ys| super::elementwise::map(xs, ys, |$i: i32| -> i32 { $int })),
            Some(|xs, ys| super::elementwise::map(xs, ys, |$i: i64| -> i64 { $int })))
    };
    (@ |$x:ident| $float:expr, $i32:expr, $i64:expr) => {
        super::UnaryFns {
            f32: |xs, ys| super::elementwise::map(xs, ys, |$x: f32| -> f32 { $float }),
            f64: |xs, ys| super::elementwise::map(xs, ys, |$x: f64| -> f64 { $float }),
            i32: $i32,
            i64: $i64,
        }
    };
}

/// `binary_fns!(|x, y| float expression)` or `binary_fns!(|x, y| float expression, int |x, y| integer expression)`.
macro_rules! binary_fns {
    (|$x:ident, $y:ident| $float:expr) => {
        binary_fns!(@ |$x, $y| $float, None, None)
    };
    (|$x:ident, $y:ident| $float:expr, int |$i:ident, $j:ident| $int:expr) => {
        binary_fns!(@ |$x, $y| $float,
            Some(|xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$i: i32, $j: i32| -> i32 { $int })),
            Some(|xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$i: i64, $j: i64| -> i64 { $int })))
    };
    (@ |$x:ident, $y:ident| $float:expr, $i32:expr, $i64:expr) => {
        super::BinaryFns {
            f32: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x: f32, $y: f32| -> f32 { $float }),
            f64: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x: f64, $y: f64| -> f64 { $float }),
            i32: $i32,
            i64: $i64,
        }
    };
}

/// `compare_fns!(|x, y| expression)`.
macro_rules! compare_fns {
    (|$x:ident, $y:ident| $e:expr) => {
        super::CompareFns {
            f32: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x, $y| $e),
            f64: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x, $y| $e),
            i32: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x, $y| $e),
            i64: |xs, ys, zs| super::elementwise::zip(xs, ys, zs, |$x, $y| $e),
            bool: |xs, ys, zs| {
                // The order of the numbers: false before true.
                #[allow(clippy::bool_comparison)]
                let compare = |$x: bool, $y: bool| $e;
                super::elementwise::zip(xs, ys, zs, compare)
            },
        }
    };
}

/// A unary elementwise op.
pub struct Unary {
    /// The name.
    pub name: &'static str,
    /// The loops.
    pub fns: UnaryFns,
    /// The derivative.
    pub rule: UnaryRule,
    /// The arithmetic that it does.
    pub count: Count,
    /// Where the laws are tested; the samples are ours.
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
    /// Zero, for the reason given.
    Zero(&'static str),
}

impl OpDef for Unary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(1, 0)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![args[0].shape.clone()])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        // `identity` is the one op that takes a bool: it copies.
        if args[0].dtype == Some(DType::Bool) && self.name == "identity" {
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
    fn laws(&self) -> Laws {
        Laws::new(self.domain, &[])
    }
}

/// A binary elementwise op with NumPy broadcasting.
pub struct Binary {
    /// The name.
    pub name: &'static str,
    /// The loops.
    pub fns: BinaryFns,
    /// The derivative.
    pub rule: BinaryRule,
    /// The arithmetic that it does.
    pub count: Count,
    /// Where the laws are tested.
    pub domain: (f64, f64),
}

/// The cotangent of the linear operand 0 or 1 of a binary op.
pub type BinaryTranspose = fn(b: &mut Builder, eqn: &Eqn, ct: Var, operand: usize) -> Var;

/// The derivative of `z = f(x, y)`. Tangents and cotangents have the shape of `z`.
#[derive(Clone, Copy)]
pub struct BinaryRule {
    /// The part of `dz` that comes from `dx`.
    pub left: fn(b: &mut Builder, eqn: &Eqn, dx: Var) -> Var,
    /// The part of `dz` that comes from `dy`.
    pub right: fn(b: &mut Builder, eqn: &Eqn, dy: Var) -> Var,
    /// The cotangent of the linear operand 0 or 1, if `f` is linear in it while the other is held.
    pub transpose: Option<BinaryTranspose>,
}

impl OpDef for Binary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [&'static str] {
        &[]
    }
    fn shape(&self, _: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        Ok(vec![shape::broadcast(&args[0].shape, &args[1].shape)?])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::number(
            shape::same_dtype(args[0].dtype, args[1].dtype)?,
            self.fns.i32.is_some(),
        )
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
    fn laws(&self) -> Laws {
        Laws::new(self.domain, &[])
    }
}

/// A comparison with NumPy broadcasting.
pub struct Compare {
    /// The name.
    pub name: &'static str,
    /// The loops.
    pub fns: CompareFns,
}

impl OpDef for Compare {
    fn name(&self) -> &'static str {
        self.name
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [&'static str] {
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
    fn laws(&self) -> Laws {
        Laws::new((-2.0, 2.0), &[])
    }
}
