//! The only way to append an equation.

use crate::hash::HashMap;
use crate::{Attr, Aval, Eqn, Op, OpError, Program, Static, Var};
use std::collections::HashSet;

/// Appends equations to a program. Every derivative rule is written against this and nothing else.
///
/// The builder infers the aval of what it appends, as far as the operands are known.
#[derive(Clone, Default)]
pub struct Builder {
    program: Program,
    next: u32,
    /// Where known static arguments stand in the table. Looked up, never iterated.
    interned: HashMap<Static, Attr>,
    /// The names in use.
    taken: HashSet<String>,
    /// The number that the last variable of a name got.
    numbers: HashMap<String, usize>,
}

impl Builder {
    /// An empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// An empty program that shares the variables, static arguments, avals and names of `program`,
    /// so that equations of `program` can be appended to it as they are.
    pub fn after(program: &Program) -> Builder {
        let known = program
            .attrs
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_host());
        Builder {
            // Backwards, so that of equal entries the first stays.
            interned: known
                .rev()
                .map(|(i, value)| (value.clone(), Attr(i as u32)))
                .collect(),
            taken: program.names.iter().map(|(_, name)| name.clone()).collect(),
            numbers: HashMap::default(),
            next: program.n_vars(),
            program: Program {
                params: Vec::new(),
                eqns: Vec::new(),
                outs: Vec::new(),
                attrs: program.attrs.clone(),
                avals: program.avals.clone(),
                names: program.names.clone(),
                pins: program.pins.clone(),
            },
        }
    }

    /// The finished program.
    pub fn finish(mut self, params: Vec<Var>, outs: Vec<Var>) -> Program {
        self.program.params = params;
        self.program.outs = outs;
        self.program
    }

    /// The number of equations appended so far.
    pub fn n_eqns(&self) -> usize {
        self.program.eqns.len()
    }

    /// The equations from the one of number `start` on.
    pub fn eqns_from(&self, start: usize) -> &[Eqn] {
        &self.program.eqns[start..]
    }

    /// What is known of `var`.
    pub fn aval(&self, var: Var) -> &Aval {
        self.program.aval(var)
    }

    /// The equation that binds `var`, if one does.
    pub fn eqn_of(&self, var: Var) -> Option<&Eqn> {
        self.program.eqns.iter().find(|e| e.outs.contains(&var))
    }

    /// The value of a static argument.
    pub fn static_of(&self, attr: Attr) -> &Static {
        self.program.attr(attr)
    }

    /// A variable that no equation binds: a parameter.
    pub fn param(&mut self, aval: Aval) -> Var {
        let var = self.fresh();
        self.program.avals.insert(var, aval);
        var
    }

    /// A parameter of the same aval as `like`: its tangent or cotangent.
    pub fn param_like(&mut self, like: Var) -> Var {
        let aval = self.aval(like).clone();
        self.param(aval)
    }

    /// Says what is known of a variable from here on: of one that is assigned to, it changes.
    pub fn set_aval(&mut self, var: Var, aval: Aval) {
        self.program.avals.insert(var, aval);
    }

    fn fresh(&mut self) -> Var {
        self.next += 1;
        Var(self.next - 1)
    }

    /// Names a variable. Of two equal names the second gets a number, and a name that the text form reads as
    /// something else gets a `_`.
    pub fn name(&mut self, var: Var, name: &str) {
        let reserved = crate::text::is_reserved(name).then(|| format!("{name}_"));
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

    /// The name of a variable, if it has one.
    pub fn name_of(&self, var: Var) -> Option<&str> {
        self.program.names.get(var).map(String::as_str)
    }

    /// Whether a variable has this name.
    pub fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// Names `var` after another: `ct` and `h` give `ct_h`. Does nothing where `of` has no name.
    pub fn name_after(&mut self, var: Var, prefix: &str, of: Var) {
        if self.name_of(var).is_none()
            && let Some(name) = self.name_of(of)
        {
            let name = format!("{prefix}_{name}");
            self.name(var, &name);
        }
    }

    /// An entry of the table of static arguments. Equal known values share one.
    pub fn attr(&mut self, value: impl Into<Static>) -> Attr {
        let value = value.into();
        if let Some(attr) = self.interned.get(&value) {
            return *attr;
        }
        let attr = Attr(self.program.attrs.len() as u32);
        // Two host expressions of equal text may differ in value.
        if !value.is_host() {
            self.interned.insert(value.clone(), attr);
        }
        self.program.attrs.push(value);
        attr
    }

    /// Appends `out = op[attrs] args`. Operands that do not fit give an unknown aval; see [`Builder::try_emit`].
    pub fn emit(&mut self, op: Op, attrs: &[Attr], args: &[Var]) -> Var {
        self.emit_many(op, attrs, args, 1)[0]
    }

    /// Appends `outs = op[attrs] args`.
    pub fn emit_many(&mut self, op: Op, attrs: &[Attr], args: &[Var], n_outs: usize) -> Vec<Var> {
        let avals = self
            .infer(op, attrs, args, n_outs)
            .unwrap_or_else(|_| vec![Aval::UNKNOWN; n_outs]);
        self.push(op, attrs, args, avals)
    }

    /// Appends `outs = op[attrs] args` if the operands fit.
    pub fn try_emit(
        &mut self,
        op: Op,
        attrs: &[Attr],
        args: &[Var],
        n_outs: usize,
    ) -> Result<Vec<Var>, OpError> {
        let avals = self.infer(op, attrs, args, n_outs)?;
        Ok(self.push(op, attrs, args, avals))
    }

    /// Appends an equation as it is, with the variables it binds.
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

    fn push(&mut self, op: Op, attrs: &[Attr], args: &[Var], avals: Vec<Aval>) -> Vec<Var> {
        let outs: Vec<Var> = avals
            .into_iter()
            .map(|aval| {
                let out = self.fresh();
                self.program.avals.insert(out, aval);
                out
            })
            .collect();
        self.program.eqns.push(Eqn {
            outs: outs.clone(),
            op,
            attrs: attrs.to_vec(),
            args: args.to_vec(),
        });
        outs
    }
}

/// The vocabulary of derivative rules.
impl Builder {
    /// `op x`, for an op without static arguments.
    pub fn unary(&mut self, op: Op, x: Var) -> Var {
        self.emit(op, &[], &[x])
    }

    /// `op x, y`, for an op without static arguments.
    pub fn binary(&mut self, op: Op, x: Var, y: Var) -> Var {
        self.emit(op, &[], &[x, y])
    }

    /// `x + y`.
    pub fn add(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Add, x, y)
    }

    /// The sum of two tangents, of which `None` is zero.
    pub fn add_tangents(&mut self, x: Option<Var>, y: Option<Var>) -> Option<Var> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.add(x, y)),
            (x, y) => x.or(y),
        }
    }

    /// `x - y`.
    pub fn sub(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Sub, x, y)
    }

    /// `x * y`.
    pub fn mul(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Mul, x, y)
    }

    /// `x / y`.
    pub fn div(&mut self, x: Var, y: Var) -> Var {
        self.binary(Op::Div, x, y)
    }

    /// `-x`.
    pub fn neg(&mut self, x: Var) -> Var {
        self.unary(Op::Neg, x)
    }

    /// `condition ? x : y`.
    pub fn select(&mut self, condition: Var, x: Var, y: Var) -> Var {
        self.emit(Op::Select, &[], &[condition, x, y])
    }

    /// A number of the dtype of `like`, with rank 0.
    pub fn scalar(&mut self, value: f64, like: Var) -> Var {
        let value = self.attr(value);
        self.emit(Op::Scalar, &[value], &[like])
    }

    /// Zeros of the dtype and shape of `like`.
    pub fn zeros_like(&mut self, like: Var) -> Var {
        let zero = self.attr(0.0);
        self.emit(Op::FullLike, &[zero], &[like])
    }

    /// Broadcasts the tangent `dx`, which has the shape of `from`, to the shape of `to`.
    ///
    /// A linear operand is never broadcast implicitly: this op is, so that its transpose knows both shapes.
    pub fn broadcast(&mut self, dx: Var, from: Var, to: Var) -> Var {
        if from == to || self.aval(from).shape.same(&self.aval(to).shape) {
            return dx;
        }
        self.emit(Op::BroadcastLike, &[], &[dx, from, to])
    }

    /// Sums the tangent `dx` of `like` over `axes`.
    pub fn sum(&mut self, dx: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::Sum, &[axes, keepdims], &[dx, like])
    }

    /// The transpose of [`Builder::sum`]: repeats `y` along `axes` to the shape of `like`.
    pub fn sum_t(&mut self, y: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::SumT, &[axes, keepdims], &[y, like])
    }

    /// The mean of the tangent `dx` of `like` over `axes`.
    pub fn mean(&mut self, dx: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::Mean, &[axes, keepdims], &[dx, like])
    }

    /// The transpose of [`Builder::mean`]: repeats `y`, over the number of repetitions.
    pub fn mean_t(&mut self, y: Var, like: Var, axes: Attr, keepdims: Attr) -> Var {
        self.emit(Op::MeanT, &[axes, keepdims], &[y, like])
    }
}
