//! Arithmetic on elements of 8 and 16 bits, in the dtypes of [`DType::computed`].

use crate::{Aval, Builder, DType, Dim, Eqn, Ids, Op, Program, SecondaryMap, Static, Var};

/// Casts the operands of ops that compute on elements of 8 and 16 bits, and casts their results back.
///
/// Ops that only move elements keep them as they are. Ops that run programs do, too: their programs
/// are widened when they are planned. All shapes must be known.
pub fn widen(program: Program) -> Program {
    if !changes(&program) {
        return program;
    }
    let mut cx = Widening {
        b: Builder::after(&program),
        wide: SecondaryMap::new(),
    };
    for eqn in &program.eqns {
        cx.b.emit_for(&program, eqn);
        match computes(&program, eqn) {
            true => cx.computed(&program, eqn),
            false => cx.b.append(eqn.clone()),
        }
    }
    cx.b.finish(program.params.clone(), program.outs.clone())
}

/// Returns whether a program has elements of 8 or 16 bits. [`widen`] changes no other program.
pub(super) fn changes(program: &Program) -> bool {
    let is_narrow = |(_, aval): (Var, &Aval)| narrow(aval).is_some();
    let is_static = |value: &Static| value.dtype().is_some_and(|d| d.computed() != d);
    program.avals.iter().any(is_narrow) || program.attrs.iter().any(is_static)
}

/// Returns the dtype in which an op computes on a value, if it is another one.
fn narrow(aval: &Aval) -> Option<DType> {
    let dtype = aval.dtype?;
    (dtype.computed() != dtype).then_some(dtype.computed())
}

/// Returns whether an op computes on elements of 8 or 16 bits, or makes them.
fn computes(program: &Program, eqn: &Eqn) -> bool {
    let def = eqn.op.def();
    let mut statics = def.statics().iter().zip(&eqn.attrs);
    let adds =
        statics.any(|(of, value)| of.name == "set" && program.attr(*value).bool() == Some(false));
    let keeps = def.facts().moves && !adds || def.facts().converts();
    if keeps || eqn.op.control().is_some() || eqn.op.is_call() {
        return false;
    }
    let mut all = eqn.args.iter().chain(&eqn.outs);
    all.any(|var| narrow(program.aval(*var)).is_some())
}

struct Widening {
    b: Builder,
    /// The operands that are cast.
    wide: SecondaryMap<Var, Var>,
}

impl Widening {
    /// Emits an equation on operands that are cast, and casts its results to those of `eqn`.
    fn computed(&mut self, program: &Program, eqn: &Eqn) {
        let n_data = eqn.data().len();
        let args = eqn
            .args
            .iter()
            .enumerate()
            .map(|(i, var)| match i < n_data {
                true => self.operand(program, *var),
                false => self.like(program, *var),
            });
        let args: Vec<Var> = args.collect();
        let attrs = eqn
            .attrs
            .iter()
            .map(|attr| match program.attr(*attr).dtype() {
                Some(dtype) => self.b.attr(dtype.computed()),
                None => *attr,
            });
        let attrs: Vec<_> = attrs.collect();
        let outs = self.b.emit_many(eqn.op, &attrs, &args, eqn.outs.len());
        for (out, wide) in eqn.outs.iter().zip(outs) {
            let dtype = program.aval(*out).dtype;
            let cast = dtype.filter(|dtype| self.b.aval(wide).dtype != Some(*dtype));
            let (op, attrs, args) = match cast {
                Some(dtype) => (
                    Op::Cast,
                    Ids::from([self.b.attr(dtype)]),
                    Ids::from([wide; 2]),
                ),
                None => (Op::Identity, [].into(), [wide].into()),
            };
            self.b.append(Eqn {
                outs: [*out].into(),
                op,
                attrs,
                args,
            });
        }
    }

    /// Returns a data operand in the dtype in which ops compute.
    fn operand(&mut self, program: &Program, var: Var) -> Var {
        let Some(dtype) = narrow(program.aval(var)) else {
            return var;
        };
        if let Some(wide) = self.wide.get(var) {
            return *wide;
        }
        let attr = self.b.attr(dtype);
        let wide = self.b.emit(Op::Cast, &[attr], &[var, var]);
        self.wide.insert(var, wide);
        wide
    }

    /// Returns a `Like` operand: a value of the same shape, of which no element is read.
    fn like(&mut self, program: &Program, var: Var) -> Var {
        let aval = program.aval(var);
        match narrow(aval) {
            Some(dtype) => {
                let len = |dim: &Dim| dim.known().expect("all shapes are known") as i64;
                let dims = aval.shape.dims().unwrap_or_default();
                let lens: Vec<i64> = dims.iter().map(len).collect();
                let attrs = [self.b.attr(lens), self.b.attr(0), self.b.attr(dtype)];
                self.b.emit(Op::Full, &attrs, &[])
            }
            None => var,
        }
    }
}
