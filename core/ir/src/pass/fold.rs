//! Constant folding and exact algebraic simplification.
//!
//! Every rule gives the same bits for every input. For example, `x + 0` is not folded to `x`,
//! because `-0.0 + 0.0` is `0.0`. A signalling NaN, which no op produces, is treated as quiet.
//!
//! Constants are computed by the loops of the ops, and only for ops whose result IEEE 754
//! determines: a kernel of the runtime may compute `exp` differently.

use crate::op::{BinaryFns, Equal, Eval, UnaryFns, range, shape};
use crate::{Attr, Aval, DType, Eqn, Op, Program, SecondaryMap, Static, StaticKind, Var};

/// Replaces results by equal operands, and arithmetic on constants by constants.
pub fn fold(mut program: Program) -> Program {
    let n_eqns = program.eqns.len();
    let eqns = std::mem::replace(&mut program.eqns, Vec::with_capacity(n_eqns));
    let mut cx = FoldContext {
        program,
        binds: SecondaryMap::new(),
        equal: SecondaryMap::new(),
    };
    for mut eqn in eqns {
        for arg in &mut eqn.args {
            *arg = cx.resolve(*arg);
        }
        // A variable with a hint must not be replaced: the hint refers to this variable.
        if eqn.outs.len() == 1
            && !cx.program.remat_hints.contains(eqn.out())
            && let Some(x) = cx.equal_operand(&eqn)
        {
            cx.equal.insert(eqn.out(), x);
            continue;
        }
        let eqn = cx.constant(&eqn).unwrap_or(eqn);
        for out in &eqn.outs {
            cx.binds.insert(*out, cx.program.eqns.len());
        }
        cx.program.eqns.push(eqn);
    }
    let outs = cx.program.outs.iter().map(|v| cx.resolve(*v)).collect();
    let mut folded = Program { outs, ..cx.program };
    for (v, x) in cx.equal.iter() {
        // Keep the user's name if the operand has none.
        if !folded.names.contains(*x)
            && let Some(name) = folded.names.remove(v)
        {
            folded.names.insert(*x, name);
        }
    }
    folded
}

struct FoldContext {
    /// The folded program so far.
    program: Program,
    /// The index of the equation that binds each variable.
    binds: SecondaryMap<Var, usize>,
    /// The operand that replaces each removed variable.
    equal: SecondaryMap<Var, Var>,
}

impl FoldContext {
    fn resolve(&self, v: Var) -> Var {
        self.equal.get(v).copied().unwrap_or(v)
    }

    /// Returns the equation that binds `v`, if there is one.
    fn eqn(&self, v: Var) -> Option<&Eqn> {
        Some(&self.program.eqns[*self.binds.get(v)?])
    }

    /// Returns the number that all elements of `v` are equal to, and the equation that binds `v`.
    fn number(&self, v: Var) -> Option<(f64, &Eqn)> {
        let eqn = self.eqn(v)?;
        let value = range::number(&self.program, eqn)?;
        // A larger integer may not be an `f64`, and would be rounded twice on its way to `f32`.
        if value.int().is_some_and(|n| n.unsigned_abs() > 1 << 53) {
            return None;
        }
        Some((value.float()?, eqn))
    }

    /// Returns whether all elements of `v` have the bits of `value`.
    fn is(&self, v: Var, value: f64) -> bool {
        self.number(v)
            .is_some_and(|(found, _)| found.to_bits() == value.to_bits())
    }

    /// Returns whether `x` and `other` broadcast to the shape of `x`.
    fn absorbs(&self, x: Var, other: Var) -> bool {
        let (x_shape, other_shape) = (&self.program.aval(x).shape, &self.program.aval(other).shape);
        let rank_0 = other_shape.dims().is_some_and(<[_]>::is_empty);
        let made = self.number(other);
        let made_like_x = made.is_some_and(|(_, made)| made.args.contains(&x));
        rank_0 || made_like_x || x_shape.same(other_shape)
    }

    /// Returns whether the result of `x` and a number has the dtype of `x`.
    fn keeps_dtype(&self, eqn: &Eqn, x: Var, number: Var) -> bool {
        let (from, to) = (
            self.program.aval(x).dtype,
            self.program.aval(eqn.out()).dtype,
        );
        let made = self.eqn(number);
        // A float beside an operand of unknown dtype may turn integers into floats.
        let is_integer = |made: &Eqn| {
            let value = range::number(&self.program, made);
            made.args.contains(&x) && value.is_some_and(|value| value.int().is_some())
        };
        match (from, to) {
            (Some(from), Some(to)) => from == to,
            _ => made.is_some_and(is_integer),
        }
    }

    /// Returns the operand of a `stack` that is selected by its index.
    fn stacked(&self, eqn: &Eqn) -> Option<Var> {
        let stack = self.eqn(eqn.args[0]).filter(|of| of.op == Op::Stack)?;
        let rank = self.program.aval(stack.out()).shape.dims()?.len();
        let axis = |of: &Eqn| {
            let axis = shape::known_axis(self.program.attr(of.attrs[0]), rank);
            axis.ok().flatten()
        };
        let index = self.program.attr(eqn.attrs[1]).int()?;
        let index = index.rem_euclid(stack.args.len() as i64) as usize;
        let x = stack.args[index];
        let is_along = axis(eqn).is_some() && axis(eqn) == axis(stack);
        let (found, out) = (self.program.aval(x), self.program.aval(eqn.out()));
        (is_along && certainly_equal(found, out)).then_some(x)
    }

    /// Returns an operand that is always equal to the result.
    fn equal_operand(&self, eqn: &Eqn) -> Option<Var> {
        let args = &eqn.args;
        let equal = eqn.op.def().facts().equal;
        match equal {
            Equal::Never => None,
            Equal::Always => Some(args[0]),
            Equal::SameAval | Equal::WholeSlice => {
                let statics = eqn.attrs.iter().map(|attr| self.program.attr(*attr));
                if !equal.same_aval(statics) {
                    return None;
                }
                let (x, y) = (self.program.aval(args[0]), self.program.aval(eqn.out()));
                certainly_equal(x, y).then_some(args[0])
            }
            Equal::Twice => {
                let inner = self.eqn(args[0]).filter(|e| e.op == eqn.op)?;
                Some(inner.args[0])
            }
            Equal::Neutral(numbers) => {
                let is_neutral = |i: &usize| numbers[*i].is_some_and(|n| self.is(args[*i], n));
                let mut positions = [1, 0].into_iter().filter(is_neutral);
                let other = positions.find(|i| {
                    let (x, number) = (args[1 - *i], args[*i]);
                    self.absorbs(x, number) && self.keeps_dtype(eqn, x, number)
                })?;
                Some(args[1 - other])
            }
            Equal::Stacked => self.stacked(eqn),
            Equal::SameBranches => {
                (args[1] == args[2] && self.absorbs(args[1], args[0])).then_some(args[1])
            }
        }
    }

    /// Returns the constant equation that replaces an op on constants.
    fn constant(&mut self, eqn: &Eqn) -> Option<Eqn> {
        let facts = eqn.op.def().facts();
        if facts.sum.is_some() {
            return self.sum_of_equal(eqn);
        }
        if !facts.exact {
            return None;
        }
        let dtype = self.program.aval(eqn.out()).dtype?;
        let (x, made) = self.number(eqn.args[0])?;
        let (value, made) = match eqn.op.def().eval() {
            Eval::Unary(fns) => (unary(dtype, fns, x)?, made),
            Eval::Binary(fns) => {
                let (y, also_made) = self.number(eqn.args[1])?;
                let made = match (made.op, also_made.op) {
                    (_, Op::Scalar) => made,
                    (Op::Scalar, _) => also_made,
                    (Op::FullLike, Op::FullLike) if made.args == also_made.args => made,
                    _ if certainly_equal(
                        self.program.aval(eqn.out()),
                        self.program.aval(made.out()),
                    ) =>
                    {
                        made
                    }
                    _ => return None,
                };
                (binary(dtype, fns, x, y)?, made)
            }
            _ => return None,
        };
        // IEEE 754 does not determine the bits of a NaN result.
        if value.is_nan() {
            return None;
        }
        let at = made.op.static_at(StaticKind::Number)?;
        let (op, mut attrs, args) = (made.op, made.attrs.clone(), made.args.clone());
        attrs[at] = self.attr(value.into());
        Some(Eqn {
            outs: eqn.outs.clone(),
            op,
            attrs,
            args,
        })
    }

    /// Returns the constant equation that replaces a sum of equal integers, which no order of additions rounds.
    fn sum_of_equal(&mut self, eqn: &Eqn) -> Option<Eqn> {
        let out = self.program.aval(eqn.out());
        let dtype = out.dtype?;
        let most = match dtype {
            DType::F32 => 1_u64 << 24,
            DType::F64 => 1 << 53,
            _ => return None,
        };
        let (x, _) = self.number(eqn.args[0])?;
        let operand = &self.program.aval(eqn.args[0]).shape;
        let count = operand.numel()?.checked_div(out.shape.numel()?)?;
        let total = x * count as f64;
        if x.fract() != 0.0 || total == 0.0 || total.abs() > most as f64 {
            return None;
        }
        let shape = out.shape.known()?;
        let shape = Static::Ints(shape.iter().map(|len| *len as i64).collect());
        let attrs = [shape, total.into(), Static::DType(dtype)].map(|value| self.attr(value));
        Some(Eqn {
            outs: eqn.outs.clone(),
            op: Op::Full,
            attrs: attrs.into(),
            args: [].into(),
        })
    }

    /// Adds a static argument to the program.
    fn attr(&mut self, value: Static) -> Attr {
        self.program.attrs.push(value);
        Attr(self.program.attrs.len() as u32 - 1)
    }
}

fn unary(dtype: DType, fns: UnaryFns, x: f64) -> Option<f64> {
    let (mut y32, mut y64) = ([0.0], [0.0]);
    match dtype {
        DType::F32 => {
            (fns.f32.baseline)(&[x as f32], &mut y32);
            Some(f64::from(y32[0]))
        }
        DType::F64 => {
            (fns.f64.baseline)(&[x], &mut y64);
            Some(y64[0])
        }
        _ => None,
    }
}

fn binary(dtype: DType, fns: BinaryFns, x: f64, y: f64) -> Option<f64> {
    let (mut z32, mut z64) = ([0.0], [0.0]);
    match dtype {
        DType::F32 => {
            (fns.f32.baseline)(&[x as f32], &[y as f32], &mut z32);
            Some(f64::from(z32[0]))
        }
        DType::F64 => {
            (fns.f64.baseline)(&[x], &[y], &mut z64);
            Some(z64[0])
        }
        _ => None,
    }
}

/// Returns whether the two avals have the same known dtype and shape.
fn certainly_equal(a: &Aval, b: &Aval) -> bool {
    a.dtype.is_some() && a.dtype == b.dtype && a.shape.same(&b.shape)
}
