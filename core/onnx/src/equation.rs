//! An equation with its operands as values.

use crate::ExportError;
use crate::graph::{Graph, Value};
use gradloom_ir::op::shape;
use gradloom_ir::{DType, Eqn, Op, Program, Static, Var};

const CHECKED: &str = "the rules of the op accept its operands";

/// Returns dtype and shape of a variable, or what is known of them.
pub(crate) fn type_of(program: &Program, var: Var) -> Result<(DType, Vec<usize>), String> {
    let aval = program.aval(var);
    match (aval.dtype, aval.shape.known()) {
        (Some(dtype), Some(shape)) => Ok((dtype, shape)),
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
    pub(crate) outs: Vec<(DType, Vec<usize>)>,
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
        let has_code = op.is_call() || op.is_host_code();
        if let Some(i) = statics
            .iter()
            .position(|value| value.is_host() && !has_code)
        {
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
        let outs = match has_code {
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

    /// Returns the error that ONNX has no form of the op.
    pub(crate) fn refused<T>(&self, reason: &'static str) -> Result<T, ExportError> {
        Err(ExportError::NoForm {
            op: self.op,
            reason,
        })
    }

    pub(crate) fn x(&self) -> &Value {
        &self.args[0]
    }

    pub(crate) fn y(&self) -> &Value {
        &self.args[1]
    }

    /// Returns the dtype of the first result.
    pub(crate) fn dtype(&self) -> DType {
        self.outs[0].0
    }

    /// Returns the shape of the first result.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.outs[0].1
    }

    pub(crate) fn int(&self, i: usize) -> i64 {
        self.statics[i].int().expect(CHECKED)
    }

    pub(crate) fn ints(&self, i: usize) -> &[i64] {
        self.statics[i].ints().expect(CHECKED)
    }

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

    /// Appends the data operands, cast as the run time casts them. ONNX broadcasts them.
    pub(crate) fn promoted(&self, g: &mut Graph) -> Vec<Value> {
        let mut args = self.args.clone();
        let n_data = self.op.def().operands().n_data(args.len());
        let range = self.op.promotes(n_data);
        let dtypes = self.eqn.args[range.clone()].iter();
        let dtypes: Vec<_> = dtypes.filter_map(|x| self.program.aval(*x).dtype).collect();
        if let Some(to) = self.op.cast_to(dtypes) {
            for arg in &mut args[range] {
                *arg = g.convert(arg, to);
            }
        }
        args.truncate(n_data);
        args
    }

    /// Appends the two operands, promoted to one dtype.
    pub(crate) fn pair(&self, g: &mut Graph) -> [Value; 2] {
        let mut both = self.promoted(g).into_iter();
        [(); 2].map(|()| both.next().expect("an op of two operands"))
    }
}
