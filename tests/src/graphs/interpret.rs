//! A plain interpreter of graphs: the definitions of ops in `f64`, one after the other, without
//! fusion, plans or a cache.

use super::{Graph, Node, Rng, aval};
use gradloom::{DType, Tensor};
use gradloom_ir::op::{Count, NdArray, evaluate_with};
use gradloom_ir::{Aval, Builder, Eqn, Op, Program, Var};
use std::collections::{HashMap, HashSet};

/// Returns the relative change of each number in a run that shows how far rounding may carry.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-6,
        _ => 1e-11,
    }
}

/// How a run changes the numbers that an op may have rounded.
#[derive(Clone, Copy)]
enum Nudge {
    /// Each by a random part of itself, with this seed and sign.
    Each(u64, f64),
    /// All by the same part of themselves. Equal numbers that are rounded alike stay equal, so a minimum of them changes,
    /// too.
    All(f64),
}

/// Runs that show how far rounding may carry. Two seeds, because one may change two numbers by nearly the same part,
/// which a ratio of them does not show.
const NUDGES: [Nudge; 6] = [
    Nudge::Each(1, 1.0),
    Nudge::Each(1, -1.0),
    Nudge::Each(2, 1.0),
    Nudge::Each(2, -1.0),
    Nudge::All(1.0),
    Nudge::All(-1.0),
];

/// A number that every representation holds exactly.
const EXACT: f64 = (1u64 << 52) as f64;

/// Values of a graph by the definitions of its ops.
pub struct Interpreted {
    values: Vec<NdArray>,
    /// The same with all rounded floats changed a little.
    nudged: [Vec<NdArray>; NUDGES.len()],
    avals: Vec<Aval>,
    /// Whether every result and its derivatives are unique.
    is_unique: bool,
    /// Whether rounding changes no integer or bool on the way.
    is_discrete: bool,
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

/// Returns the values of all variables, each changed by `change` before others read it.
fn values(
    program: &Program,
    args: &[NdArray],
    mut change: impl FnMut(Var, &HashMap<Var, NdArray>, &mut NdArray),
) -> HashMap<Var, NdArray> {
    let mut values = HashMap::new();
    evaluate_with(program, args, |var, value| {
        change(var, &values, value);
        values.insert(var, value.clone());
    });
    values
}

/// Returns the values of all variables, after a change of each number that an op may have rounded.
fn nudged(program: &Program, args: &[NdArray], nudge: Nudge) -> HashMap<Var, NdArray> {
    let (seed, sign) = match nudge {
        Nudge::Each(seed, sign) => (Some(seed), sign),
        Nudge::All(sign) => (None, sign),
    };
    let mut rng = seed.map(|seed| Rng::new(seed << 32 | args.len() as u64));
    let eqns = program.eqns.iter();
    let makers: HashMap<Var, &Eqn> = eqns
        .flat_map(|eqn| eqn.outs.iter().map(move |out| (*out, eqn)))
        .collect();
    // Rounding inside of control flow and factorisations is seen as that of their operands.
    let rounds_inside = |eqn: &&Eqn| eqn.op.control().is_some() || is_factorisation(eqn);
    let inside = program.eqns.iter().filter(rounds_inside);
    let inside: HashSet<Var> = inside.flat_map(|eqn| eqn.args.to_vec()).collect();
    values(program, args, |var, values, value| {
        let Some(dtype) = program.aval(var).dtype.filter(|dtype| dtype.is_float()) else {
            return;
        };
        let is_exact = exact(program, makers.get(&var).copied(), dtype, values);
        for x in &mut value.data {
            let part = rng.as_mut().map_or(1.0, Rng::unit);
            if inside.contains(&var) || !is_exact(*x) {
                *x += sign * unit(dtype) * (x.abs() + 1e-3) * part;
            }
        }
    })
}

fn is_factorisation(eqn: &Eqn) -> bool {
    matches!(eqn.op.def().count(), Count::Factors)
}

/// Returns which numbers of a leaf, or of a result of an equation, no op has rounded.
fn exact(
    program: &Program,
    maker: Option<&Eqn>,
    dtype: DType,
    values: &HashMap<Var, NdArray>,
) -> impl Fn(f64) -> bool {
    // Ops that move or select numbers do not round them.
    let operands = maker.map_or(&[][..], |eqn| &eqn.args);
    let same = operands
        .iter()
        .filter(|v| program.aval(**v).dtype == Some(dtype));
    let numbers = same.flat_map(|v| &values[v].data);
    let numbers: HashSet<u64> = numbers.map(|x| x.abs().to_bits()).collect();
    let is_made = !operands.is_empty();
    let is_factored = maker.is_some_and(is_factorisation);
    // A zero may be a difference.
    let sums = maker.is_some_and(|eqn| {
        !matches!(
            eqn.op.def().count(),
            Count::View | Count::Copy | Count::Each(_)
        )
    });
    // A number in the program, such as that of `full`, may have more digits than the dtype holds.
    let fits = move |x: f64| dtype != DType::F32 || f64::from(x as f32) == x;
    move |x| match is_made {
        true => numbers.contains(&x.abs().to_bits()) && !is_factored && !(sums && x == 0.0),
        false => fits(x),
    }
}

/// Interprets a program.
pub fn interpret(program: &Program, args: &[Tensor]) -> Interpreted {
    let args: Vec<NdArray> = args.iter().map(array).collect();
    let exact = values(program, &args, |_, _, _| {});
    let nudged = NUDGES.map(|nudge| nudged(program, &args, nudge));
    let discrete = |var: &Var| !program.aval(*var).dtype.is_some_and(DType::is_float);
    let mut discrete = exact.iter().filter(|(var, _)| discrete(var));
    let outs = |values: &HashMap<Var, NdArray>| -> Vec<NdArray> {
        let outs = program.outs.iter();
        outs.map(|out| values[out].clone()).collect()
    };
    Interpreted {
        is_unique: is_unique(program, &exact),
        is_discrete: discrete.all(|(var, x)| nudged.iter().all(|nudged| nudged[var] == *x)),
        values: outs(&exact),
        nudged: nudged.each_ref().map(outs),
        avals: program
            .outs
            .iter()
            .map(|out| program.aval(*out).clone())
            .collect(),
    }
}

/// Smallest difference of singular values, relative to the largest, at which their vectors count as unique.
const APART: f64 = 1e-4;

/// Returns whether singular vectors, eigenvectors and orthogonal factors are unique, pseudo-inverses do
/// not depend on small singular values, no deviation is zero, where it has no derivative, weights of attentions
/// are moderate, and no product of a number and a logarithm is one of zero and infinity.
fn is_unique(program: &Program, values: &HashMap<Var, NdArray>) -> bool {
    let of = |var: Var| &values[&var];
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
        Op::Svd => apart(of(eqn.outs[1]), true),
        Op::Eigh => apart(of(eqn.outs[0]), false),
        Op::Qr => {
            let r = of(eqn.outs[1]);
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
        }
        // Small singular values have large inverses.
        Op::Pinv => of(eqn.out()).data.iter().all(|x| x.abs() < 1.0 / APART),
        Op::Stddev => of(eqn.out()).data.iter().all(|x| *x > APART),
        // The weights of derivatives are at most 1 if the logarithms of sums are those of the scores.
        Op::AttentionJvp | Op::AttentionVjp => {
            let [q, k, sums] = [0, 1, 4].map(|i| of(eqn.args[i]));
            let most = |x: &NdArray| x.data.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            let width = q.shape.last().map_or(0.0, |n| (*n as f64).sqrt());
            most(q) * most(k) * width + most(sums) < -APART.ln()
        }
        // 0 · log 0 is 0, and a tiny number times log 0 is infinite.
        Op::Xlogy => eqn
            .args
            .iter()
            .any(|arg| of(*arg).data.iter().all(|x| x.abs() > APART)),
        _ => true,
    })
}

impl Interpreted {
    /// Returns whether all results are unique, all integers are exact, all floats finite, and no integer or bool depends on
    /// rounding.
    pub fn is_stable(&self) -> bool {
        let mut all = self.values.iter().zip(&self.avals).enumerate();
        self.is_unique
            && self.is_discrete
            && all.all(|(i, (value, aval))| match aval.dtype {
                Some(DType::F32) => value.data.iter().all(|x| (*x as f32).is_finite()),
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
        let unit = unit(found.dtype());
        let found = array(found).data;
        let largest = expected
            .data
            .iter()
            .fold(1.0, |most: f64, x| x.abs().max(most));
        for (at, (x, y)) in found.iter().zip(&expected.data).enumerate() {
            let gaps = self.nudged.iter();
            let gap = gaps.fold(0.0, |most: f64, nudged| {
                most.max((nudged[i].data[at] - y).abs())
            });
            // Elements of a sum share their rounding.
            let tolerance = 10.0 * unit * largest + 1e2 * gap;
            if (x - y).abs() > tolerance || x.is_nan() != y.is_nan() {
                return Err(format!(
                    "element {at} of value {i} is {x:e}, expected {y:e}"
                ));
            }
        }
        Ok(())
    }
}
