//! An equation with its operands as values.

use crate::ExportError;
use crate::text::{Element, Text, Value};
use gradloom_ir::op::shape;
use gradloom_ir::{Eqn, Op, Program, Static, Var};

const CHECKED: &str = "the rules of the op accept its operands";

/// The type of a result.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) element: Element,
    pub(crate) shape: Vec<usize>,
}

/// Returns the type of a variable, or what is known of it.
pub(crate) fn type_of(program: &Program, var: Var) -> Result<Type, String> {
    let aval = program.aval(var);
    match (aval.dtype, aval.shape.known()) {
        (Some(dtype), Some(shape)) => Ok(Type {
            element: Element::of(dtype),
            shape,
        }),
        _ => Err(aval.to_string()),
    }
}

/// An equation with its operands as values.
pub(crate) struct Equation<'a> {
    pub(crate) op: Op,
    pub(crate) program: &'a Program,
    pub(crate) eqn: &'a Eqn,
    pub(crate) statics: Vec<Static>,
    /// The data operands, then the like operands.
    pub(crate) args: Vec<Value>,
    pub(crate) outs: Vec<Type>,
}

impl<'a> Equation<'a> {
    /// Returns the equation, after a check that everything about it is known.
    pub(crate) fn new(
        program: &'a Program,
        eqn: &'a Eqn,
        args: Vec<Value>,
    ) -> Result<Equation<'a>, ExportError> {
        let op = eqn.op;
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let host = |value: &Static| value.is_host() && !op.is_call() && !op.is_host_code();
        if let Some(i) = statics.iter().position(host) {
            return Err(ExportError::HostStatic {
                op,
                name: op.def().statics()[i].name,
                text: statics[i].to_string().replace('`', ""),
            });
        }
        let of = |out: &Var| {
            type_of(program, *out).map_err(|aval| ExportError::UnknownType { op: Some(op), aval })
        };
        // The residuals of a call are opaque, and host code may have results of any type.
        let outs = match op.is_call() || op.is_host_code() {
            true => Vec::new(),
            false => eqn.outs.iter().map(of).collect::<Result<_, _>>()?,
        };
        Ok(Equation {
            op,
            program,
            eqn,
            statics,
            args,
            outs,
        })
    }

    /// Returns the first operand.
    pub(crate) fn x(&self) -> &Value {
        &self.args[0]
    }

    /// Returns the second operand.
    pub(crate) fn y(&self) -> &Value {
        &self.args[1]
    }

    /// Returns the type of the first result.
    pub(crate) fn out(&self) -> &Type {
        &self.outs[0]
    }

    /// Returns the shape of the first result.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.outs[0].shape
    }

    /// Returns static argument `i`, an integer.
    pub(crate) fn int(&self, i: usize) -> i64 {
        self.statics[i].int().expect(CHECKED)
    }

    /// Returns static argument `i`, a list of integers.
    pub(crate) fn ints(&self, i: usize) -> &[i64] {
        self.statics[i].ints().expect(CHECKED)
    }

    /// Returns static argument `i`, a truth value.
    pub(crate) fn flag(&self, i: usize) -> bool {
        self.statics[i].bool().expect(CHECKED)
    }

    /// Returns static argument `i`, an axis of a value of this rank.
    pub(crate) fn axis(&self, i: usize, rank: usize) -> usize {
        shape::axis(self.int(i), rank).expect(CHECKED)
    }

    /// Returns static argument `i`, axes of a value of this rank, in ascending order.
    pub(crate) fn axes(&self, i: usize, rank: usize) -> Vec<usize> {
        let axes = shape::axes(&self.statics[i], rank).expect(CHECKED);
        axes.expect(CHECKED)
    }

    /// Appends the operands at these positions, promoted to one dtype and broadcast to the shape of the result.
    pub(crate) fn spread(&self, t: &mut Text, positions: std::ops::Range<usize>) -> Vec<Value> {
        let all = self.promoted(t);
        let spread = |x: &Value| t.spread(x, &self.outs[0].shape);
        all[positions].iter().map(spread).collect()
    }

    /// Appends the two operands, promoted to one dtype and broadcast to the shape of the result.
    pub(crate) fn pair(&self, t: &mut Text) -> [Value; 2] {
        let mut both = self.spread(t, 0..2).into_iter();
        [(); 2].map(|()| both.next().expect("an op of two operands"))
    }

    /// Appends the operands, cast as the run time casts them.
    pub(crate) fn promoted(&self, t: &mut Text) -> Vec<Value> {
        let mut args = self.args.clone();
        let n_data = self.op.def().operands().n_data(args.len());
        let range = self.op.promotes(n_data);
        let dtypes = self.eqn.args[range.clone()].iter();
        let dtypes: Vec<_> = dtypes.filter_map(|x| self.program.aval(*x).dtype).collect();
        if let Some(to) = self.op.cast_to(dtypes) {
            for arg in &mut args[range] {
                *arg = t.convert(arg, Element::of(to));
            }
        }
        args
    }
}
