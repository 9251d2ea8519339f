//! A plain interpreter of graphs: the definitions of ops in `f64`, one after the other, without
//! fusion, plans or a cache.

use super::{Graph, Node, Rng, aval};
use gradloom::{DType, Tensor};
use gradloom_ir::op::{NdArray, evaluate, evaluate_with};
use gradloom_ir::{Aval, Builder, Op, Program, Var};

/// Relative change of each number in a run that shows how far rounding may carry.
const NUDGE: f64 = 1e-11;

/// A number that every representation holds exactly.
const EXACT: f64 = (1u64 << 52) as f64;

/// Values of a graph by the definitions of its ops.
pub struct Interpreted {
    values: Vec<NdArray>,
    /// The same with all floats changed a little, in opposite directions.
    nudged: [Vec<NdArray>; 2],
    avals: Vec<Aval>,
    /// Whether every result and its derivatives are unique.
    is_unique: bool,
}

/// Returns the elements of a tensor as `f64`.
fn array(x: &Tensor) -> NdArray {
    NdArray {
        shape: x.shape().to_vec(),
        data: x.cast(DType::F64).to_vec::<f64>(),
    }
}

impl Graph {
    /// Emits the graph. Returns the variables of all values; those of leaves are parameters.
    pub fn emitted(&self) -> (Builder, Vec<Var>) {
        let mut b = Builder::new();
        let mut values = Vec::new();
        for node in &self.nodes {
            match node {
                Node::Leaf(x) => values.push(b.param(aval(x))),
                Node::Step(step) => {
                    let args = step.data.iter().chain(&step.likes);
                    let args: Vec<Var> = args.map(|v| values[*v]).collect();
                    values.extend(step.emit(&mut b, &args));
                }
            }
        }
        (b, values)
    }

    /// Returns the graph as a program from the leaves `params` to the values `outs`.
    pub fn as_program(&self, params: &[usize], outs: &[usize]) -> Program {
        let (b, values) = self.emitted();
        let [params, outs] = [params, outs].map(|of| of.iter().map(|v| values[*v]).collect());
        b.finish(params, outs)
    }

    /// Returns the graph as a program of its leaves, and the variables of all values.
    pub fn program(&self) -> (Program, Vec<Var>) {
        let (b, values) = self.emitted();
        let params = self.leaves().into_iter().map(|v| values[v]).collect();
        (b.finish(params, values.clone()), values)
    }

    /// Interprets the graph on these leaves.
    pub fn interpreted(&self, leaves: &[Tensor]) -> Interpreted {
        let (program, _) = self.program();
        interpret(&program, leaves)
    }
}

/// Interprets a program.
pub fn interpret(program: &Program, args: &[Tensor]) -> Interpreted {
    let args: Vec<NdArray> = args.iter().map(array).collect();
    let nudged = |sign: f64| {
        let mut rng = Rng::new(args.len() as u64);
        evaluate_with(program, &args, |var, value| {
            if program.aval(var).dtype.is_some_and(DType::is_float) {
                let nudge = |x: &mut f64| *x += sign * NUDGE * (x.abs() + 1e-3) * rng.unit();
                value.data.iter_mut().for_each(nudge);
            }
        })
    };
    let outs = program.outs.iter();
    let values = evaluate(program, &args);
    Interpreted {
        is_unique: is_unique(program, &values),
        values,
        nudged: [nudged(1.0), nudged(-1.0)],
        avals: outs.map(|out| program.aval(*out).clone()).collect(),
    }
}

/// Smallest difference of singular values, relative to the largest, at which their vectors count as unique.
const APART: f64 = 1e-4;

/// Returns whether singular vectors, eigenvectors and orthogonal factors are unique, pseudo-inverses do
/// not depend on small singular values, and no deviation is zero, where it has no derivative.
fn is_unique(program: &Program, values: &[NdArray]) -> bool {
    let of = |var: Var| {
        let at = program.outs.iter().position(|out| *out == var);
        at.map(|at| &values[at])
    };
    let apart = |spectrum: &NdArray, with_zero: bool| {
        let n = spectrum.shape.last().copied().unwrap_or(0).max(1);
        spectrum.data.chunks(n).all(|row| {
            let mut sorted = row.to_vec();
            sorted.extend(with_zero.then_some(0.0));
            sorted.sort_by(f64::total_cmp);
            let largest = sorted.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            sorted.windows(2).all(|w| w[1] - w[0] > APART * largest)
        })
    };
    program.eqns.iter().all(|eqn| match eqn.op {
        Op::Svd => of(eqn.outs[1]).is_none_or(|s| apart(s, true)),
        Op::Eigh => of(eqn.outs[0]).is_none_or(|s| apart(s, false)),
        Op::Qr => of(eqn.outs[1]).is_none_or(|r| {
            let [.., k, n] = r.shape[..] else {
                return true;
            };
            let largest = r.data.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            let mut diagonal = r
                .data
                .iter()
                .enumerate()
                .filter(|(i, _)| i % (k * n) % (n + 1) == 0);
            diagonal.all(|(_, x)| x.abs() > APART * largest)
        }),
        // Small singular values have large inverses.
        Op::Pinv => of(eqn.out()).is_none_or(|y| y.data.iter().all(|x| x.abs() < 1.0 / APART)),
        Op::Stddev => of(eqn.out()).is_none_or(|s| s.data.iter().all(|x| *x > APART)),
        _ => true,
    })
}

impl Interpreted {
    /// Returns whether all results are unique, all integers are exact, all floats finite, and no integer or bool depends on
    /// rounding.
    pub fn is_stable(&self) -> bool {
        let mut all = self.values.iter().zip(&self.avals).enumerate();
        self.is_unique
            && all.all(|(i, (value, aval))| match aval.dtype {
                Some(dtype) if dtype.is_float() => value.data.iter().all(|x| x.is_finite()),
                dtype => {
                    let limit = if dtype == Some(DType::I32) {
                        2f64.powi(31)
                    } else {
                        EXACT
                    };
                    self.nudged.iter().all(|nudged| nudged[i] == *value)
                        && value.data.iter().all(|x| x.abs() < limit)
                }
            })
    }

    /// Compares value `i` with a tensor.
    ///
    /// # Errors
    ///
    /// Describes the first difference that rounding does not explain.
    pub fn near(&self, i: usize, found: &Tensor) -> Result<(), String> {
        let expected = &self.values[i];
        if found.shape() != expected.shape {
            return Err(format!(
                "value {i} has shape {:?}, expected {:?}",
                found.shape(),
                expected.shape
            ));
        }
        let found = array(found).data;
        let largest = expected
            .data
            .iter()
            .fold(1.0, |most: f64, x| x.abs().max(most));
        for (at, (x, y)) in found.iter().zip(&expected.data).enumerate() {
            let gaps = self
                .nudged
                .each_ref()
                .map(|nudged| (nudged[i].data[at] - y).abs());
            // Elements of a sum share their rounding.
            let tolerance = 1e-10 * largest + 1e2 * gaps[0].max(gaps[1]);
            if (x - y).abs() > tolerance || x.is_nan() != y.is_nan() {
                return Err(format!(
                    "element {at} of value {i} is {x:e}, expected {y:e}"
                ));
            }
        }
        Ok(())
    }
}
