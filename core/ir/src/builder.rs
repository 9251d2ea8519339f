//! The program builder, the only way to append an equation.

use crate::hash::HashMap;
use crate::program::Ids;
use crate::{Attr, Aval, DType, Eqn, Line, Op, OpError, Program, Static, Var};
use std::collections::HashSet;

/// Appends equations to a program and infers their avals as far as the operands are known.
///
/// Derivative rules use the builder and nothing else.
#[derive(Clone, Default)]
pub struct Builder {
    program: Program,
    next: u32,
    /// The index of each known static argument in the table. Never iterated.
    interned: HashMap<Static, Attr>,
    /// The names in use.
    taken: HashSet<String>,
    /// The last suffix given out for each name.
    numbers: HashMap<String, usize>,
    /// The line of emitted equations.
    line: Option<Line>,
}

impl Builder {
    /// Returns a builder with an empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Returns a builder with an empty program that shares the tables of `program`.
    ///
    /// The tables are variables, static arguments, avals, names, hints and lines, so equations of `program`
    /// can be appended unchanged.
    pub fn after(program: &Program) -> Builder {
        let known = program
            .attrs
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_host());
        Builder {
            // Reversed, so that the first of equal entries wins.
            interned: known
                .rev()
                .map(|(i, value)| (value.clone(), Attr(i as u32)))
                .collect(),
            taken: program.names.iter().map(|(_, name)| name.clone()).collect(),
            numbers: HashMap::default(),
            next: program.n_vars(),
            line: None,
            program: Program {
                params: Vec::new(),
                eqns: Vec::new(),
                outs: Vec::new(),
                attrs: program.attrs.clone(),
                avals: program.avals.clone(),
                names: program.names.clone(),
                remat_hints: program.remat_hints.clone(),
                lines: program.lines.clone(),
            },
        }
    }

    /// Returns the finished program.
    pub fn finish(mut self, params: Vec<Var>, outs: Vec<Var>) -> Program {
        self.program.params = params;
        self.program.outs = outs;
        self.program
    }

    /// Returns the number of equations appended so far.
    pub fn n_eqns(&self) -> usize {
        self.program.eqns.len()
    }

    /// Returns the equations from index `start` on.
    pub fn eqns_from(&self, start: usize) -> &[Eqn] {
        &self.program.eqns[start..]
    }

    /// Returns the known dtype and shape of `var`.
    pub fn aval(&self, var: Var) -> &Aval {
        self.program.aval(var)
    }

    /// Returns the program so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the equation that binds `var`, if there is one.
    pub fn eqn_of(&self, var: Var) -> Option<&Eqn> {
        self.program.eqns.iter().find(|e| e.outs.contains(&var))
    }

    /// Returns the value of a static argument.
    pub fn static_of(&self, attr: Attr) -> &Static {
        self.program.attr(attr)
    }

    /// Creates a variable that no equation binds: a parameter.
    pub fn param(&mut self, aval: Aval) -> Var {
        let var = self.fresh();
        self.program.avals.insert(var, aval);
        var
    }

    /// Creates a parameter with the aval of `like`, for a tangent or cotangent of it.
    pub fn param_like(&mut self, like: Var) -> Var {
        let aval = self.aval(like).clone();
        self.param(aval)
    }

    /// Replaces the aval of `var`. An assigned variable may change its aval.
    pub fn set_aval(&mut self, var: Var, aval: Aval) {
        self.program.avals.insert(var, aval);
    }

    fn fresh(&mut self) -> Var {
        self.next += 1;
        Var(self.next - 1)
    }

    /// Names a variable.
    ///
    /// A name that is taken gets a number as suffix. A name that the text form reserves gets a `_`
    /// as suffix.
    pub fn name(&mut self, var: Var, name: &str) {
        let reserved = crate::entity::is_reserved(name).then(|| format!("{name}_"));
        let name = reserved.as_deref().unwrap_or(name);
        if let Some(old) = self.program.names.remove(var) {
            self.taken.remove(&old);
            self.numbers.clear();
        }
        let mut unique = name.to_owned();
        if self.taken.contains(&unique) {
            let number = self.numbers.entry(name.to_owned()).or_default();
            while self.taken.contains(&unique) {
                *number += 1;
                unique = format!("{name}_{number}");
            }
        }
        self.taken.insert(unique.clone());
        self.program.names.insert(var, unique);
    }

    /// Returns the name of a variable, if it has one.
    pub fn name_of(&self, var: Var) -> Option<&str> {
        self.program.names.get(var).map(String::as_str)
    }

    /// Returns whether a variable has this name.
    pub fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// Names `var` after the variable `of`: the prefix `ct` and the name `h` give `ct_h`.
    ///
    /// Does nothing if `var` has a name or `of` has none.
    pub fn name_after(&mut self, var: Var, prefix: &str, of: Var) {
        if self.name_of(var).is_none()
            && let Some(name) = self.name_of(of)
        {
            let name = format!("{prefix}_{name}");
            self.name(var, &name);
        }
    }

    /// Returns an entry of the table of static arguments. Equal known values share an entry.
    pub fn attr(&mut self, value: impl Into<Static>) -> Attr {
        let value = value.into();
        if let Some(attr) = self.interned.get(&value) {
            return *attr;
        }
        let attr = Attr(self.program.attrs.len() as u32);
        // Host expressions with equal text may have different values, so they share no entry.
        if !value.is_host() {
            self.interned.insert(value.clone(), attr);
        }
        self.program.attrs.push(value);
        attr
    }

    /// Appends `out = op[attrs] args` and returns `out`.
    ///
    /// If the operands do not fit, the aval of `out` is unknown. See [`Builder::try_emit`].
    pub fn emit(&mut self, op: Op, attrs: &[Attr], args: &[Var]) -> Var {
        self.emit_any(op, attrs, args, 1)[0]
    }

    /// Appends `outs = op[attrs] args` and returns `outs`.
    pub fn emit_many(&mut self, op: Op, attrs: &[Attr], args: &[Var], n_outs: usize) -> Vec<Var> {
        self.emit_any(op, attrs, args, n_outs).to_vec()
    }

    fn emit_any(&mut self, op: Op, attrs: &[Attr], args: &[Var], n_outs: usize) -> Ids<Var> {
        let avals = self
            .infer(op, attrs, args, n_outs)
            .unwrap_or_else(|_| vec![Aval::UNKNOWN; n_outs]);
        self.push(op, attrs, args, avals)
    }

    /// Appends the equation with another op and another first operand, and returns the results.
    pub fn emit_on(&mut self, op: Op, eqn: &Eqn, x: Var) -> Vec<Var> {
        let mut args = eqn.args.clone();
        args[0] = x;
        self.emit_many(op, &eqn.attrs, &args, eqn.outs.len())
    }

    /// Appends `outs = op[attrs] args`.
    ///
    /// # Errors
    ///
    /// If the op does not take the operands. Nothing is appended then.
    pub fn try_emit(
        &mut self,
        op: Op,
        attrs: &[Attr],
        args: &[Var],
        n_outs: usize,
    ) -> Result<Vec<Var>, OpError> {
        let avals = self.infer(op, attrs, args, n_outs)?;
        Ok(self.push(op, attrs, args, avals).to_vec())
    }

    /// Gives the equations that are emitted from here on the line of an equation of `program`.
    pub(crate) fn emit_for(&mut self, program: &Program, eqn: &Eqn) {
        let line = eqn.outs.first().and_then(|out| program.lines.get(*out));
        self.line = line.copied();
    }

    /// Appends an equation unchanged. It keeps its variables, whose avals are not inferred.
    pub fn append(&mut self, eqn: Eqn) {
        for out in &eqn.outs {
            self.next = self.next.max(out.0 + 1);
        }
        self.program.eqns.push(eqn);
    }

    fn infer(
        &self,
        op: Op,
        attrs: &[Attr],
        args: &[Var],
        n_outs: usize,
    ) -> Result<Vec<Aval>, OpError> {
        let attrs: Vec<Static> = attrs
            .iter()
            .map(|a| self.program.attr(*a).clone())
            .collect();
        let args: Vec<&Aval> = args.iter().map(|v| self.program.aval(*v)).collect();
        op.infer(&attrs, &args, n_outs)
    }

    fn push(&mut self, op: Op, attrs: &[Attr], args: &[Var], avals: Vec<Aval>) -> Ids<Var> {
        let outs: Ids<Var> = avals
            .into_iter()
            .map(|aval| {
                let out = self.fresh();
                self.program.avals.insert(out, aval);
                if let Some(line) = self.line {
                    self.program.lines.insert(out, line);
                }
                out
            })
            .collect();
        self.program.eqns.push(Eqn {
            outs: outs.clone(),
            op,
            attrs: attrs.into(),
            args: args.into(),
        });
        outs
    }
}

/// Shorthands for derivative rules.
impl Builder {
    /// Appends `op x`, for an op without static arguments.
    pub fn unary(&mut self, op: Op, x: Var) -> Var {
        self.emit(op, &[], &[x])
    }

    /// Appends `op x, y`, for an op without static arguments.
    pub fn binary(&mut self, op: Op, x: Var, y: Var) -> Var {
        self.emit(op, &[], &[x, y])
    }

    /// Appends `x + y`.
    pub fn add(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Add, x, y)
    }

    /// Appends the sum of two tangents. `None` is zero.
    pub fn add_tangents(&mut self, x: Option<Var>, y: Option<Var>) -> Option<Var> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.add(x, y)),
            (x, y) => x.or(y),
        }
    }

    /// Appends `x - y`.
    pub fn sub(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Sub, x, y)
    }

    /// Appends `x * y`.
    pub fn mul(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Mul, x, y)
    }

    /// Appends `x / y`.
    pub fn div(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Div, x, y)
    }

    /// Appends `-x`.
    pub fn neg(&mut self, x: Var) -> Var {
        self.unary(Op::Neg, x)
    }

    /// Appends `condition ? x : y`.
    pub fn select(&mut self, condition: Var, x: Var, y: Var) -> Var {
        self.emit(Op::Select, &[], &[condition, x, y])
    }

    /// Appends a number of rank 0 with the dtype of `like`.
    pub fn scalar(&mut self, value: f64, like: Var) -> Var {
        let integer = self.aval(like).dtype.is_some_and(DType::is_integer);
        let value = match integer && value == f64::from(value as i32) {
            true => self.attr(value as i64),
            false => self.attr(value),
        };
        self.emit(Op::Scalar, &[value], &[like])
    }

    /// Appends zeros with the dtype and shape of `like`.
    pub fn zeros_like(&mut self, like: Var) -> Var {
        let zero = self.attr(0.0);
        self.emit(Op::FullLike, &[zero], &[like])
    }

    /// Broadcasts the tangent `dx`, which has the shape of `from`, to the shape of `to`.
    ///
    /// Ops never broadcast a linear operand implicitly. `broadcast_like` carries both shapes for
    /// its transpose.
    pub fn broadcast(&mut self, dx: Var, from: Var, to: Var) -> Var {
        if from == to || self.aval(from).shape.same(&self.aval(to).shape) {
            return dx;
        }
        self.emit(Op::BroadcastLike, &[], &[dx, from, to])
    }

    /// Appends the sum over `axes` of the tangent `dx` of `like`.
    pub fn sum(&mut self, dx: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::Sum, &[axes, keepdims], &[dx, like])
    }

    /// Appends the transpose of [`Builder::sum`]: `y` repeated along `axes` to the shape of `like`.
    pub fn sum_t(&mut self, y: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::SumT, &[axes, keepdims], &[y, like])
    }

    /// Appends the mean over `axes` of the tangent `dx` of `like`.
    pub fn mean(&mut self, dx: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::Mean, &[axes, keepdims], &[dx, like])
    }

    /// Appends the transpose of [`Builder::mean`]: `y` repeated and divided by the count.
    pub fn mean_t(&mut self, y: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::MeanT, &[axes, keepdims], &[y, like])
    }
}
