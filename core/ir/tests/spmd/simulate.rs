//! All devices of a mesh, one equation at a time.

use gradloom_ir::op::{NdArray, evaluate};
use gradloom_ir::sharding::{Reduction, ShardingSpec};
use gradloom_ir::spmd::Partitioned;
use gradloom_ir::{DType, Program, SecondaryMap, Static, Var};

/// A generator of random numbers (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Returns a number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the parts of all devices of a value. Padding is NaN, or a large number.
fn parts(x: &NdArray, spec: &ShardingSpec, dtype: DType, rng: &mut Rng) -> Vec<NdArray> {
    let mesh = spec.mesh();
    let local = spec.local_shape(&x.shape).unwrap();
    let padding = match dtype {
        DType::F32 | DType::F64 => f64::NAN,
        DType::Bool => 1.0,
        _ => 77_777.0,
    };
    let groups = |axis| mesh.groups(&[axis]).unwrap();
    let mut all: Vec<NdArray> = (0..mesh.n_devices())
        .map(|device| {
            let ranges = spec.ranges(&x.shape, device).unwrap();
            NdArray::build(&local, |i| {
                let at: Vec<usize> = i
                    .iter()
                    .zip(&ranges)
                    .map(|(i, range)| i + range.start)
                    .collect();
                let is_inside = at.iter().zip(&ranges).all(|(i, range)| *i < range.end);
                if is_inside { x.spread(&at) } else { padding }
            })
        })
        .collect();
    // The values of a group are random, and their reduction is the value.
    for (axis, kind) in spec.partial() {
        for group in groups(*axis) {
            for i in 0..all[group[0]].data.len() {
                let whole = all[group[0]].data[i];
                let owner = rng.below(group.len());
                let other = rng.below(group.len());
                // Multiples of the value by powers of two, so that sums are exact.
                let own = match kind {
                    Reduction::Sum => [-whole, 0.0, whole][rng.below(3)],
                    Reduction::Max => whole - rng.below(4) as f64,
                    Reduction::Min => whole + rng.below(4) as f64,
                    Reduction::Prod => 1.0,
                };
                let mut rest = whole;
                for (n, device) in group.iter().enumerate() {
                    all[*device].data[i] = match (kind, n == other) {
                        (Reduction::Sum, false) => 0.0,
                        _ => own,
                    };
                }
                if *kind == Reduction::Sum && other != owner {
                    rest -= own;
                }
                all[group[owner]].data[i] = rest;
            }
        }
    }
    all
}

/// Returns the results of all devices.
pub(crate) fn run_on_parts(
    whole: &Program,
    of: &Partitioned,
    args: &[NdArray],
    rng: &mut Rng,
) -> Vec<Vec<NdArray>> {
    let program = &of.program;
    let n_devices = of.axes.n_devices();
    let mut values: Vec<SecondaryMap<Var, NdArray>> = vec![SecondaryMap::new(); n_devices];
    for (i, param) in program.params.iter().enumerate() {
        let dtype = whole.aval(whole.params[i]).dtype.unwrap();
        let parts = parts(&args[i], &of.params[i], dtype, rng);
        for (device, part) in parts.into_iter().enumerate() {
            values[device].insert(*param, part);
        }
    }
    for eqn in &program.eqns {
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let collective = eqn.op.collective();
        let results: Vec<Vec<NdArray>> = match collective {
            Some(collective) => {
                let over = statics.iter().find_map(Static::mesh).unwrap();
                let along = of.axes.positions(over).unwrap();
                let mut results = vec![Vec::new(); n_devices];
                for group in of.axes.groups(&along) {
                    let values = group.iter().map(|device| match eqn.args.first() {
                        Some(x) => values[*device].get(*x).unwrap().clone(),
                        None => NdArray::build(&[], |_| 0.0),
                    });
                    let values: Vec<NdArray> = values.collect();
                    for (i, device) in group.iter().enumerate() {
                        results[*device] = vec![(collective.combine)(&statics, &values, i)];
                    }
                }
                results
            }
            None => {
                let alone = alone(program, eqn);
                let run = |values: &SecondaryMap<Var, NdArray>| {
                    let args = eqn.args.iter().map(|v| values.get(*v).unwrap().clone());
                    evaluate(&alone, &args.collect::<Vec<_>>())
                };
                values.iter().map(run).collect()
            }
        };
        for (device, results) in results.into_iter().enumerate() {
            for (out, result) in eqn.outs.iter().zip(results) {
                let shape = program.aval(*out).shape.known().unwrap();
                assert_eq!(result.shape, shape, "{} in {program}", eqn.op);
                values[device].insert(*out, result);
            }
        }
    }
    let outs = |values: &SecondaryMap<Var, NdArray>| {
        let outs = program.outs.iter();
        outs.map(|v| values.get(*v).unwrap().clone()).collect()
    };
    values.iter().map(outs).collect()
}

/// Returns a program of one equation, with a parameter for each operand.
fn alone(program: &Program, eqn: &gradloom_ir::Eqn) -> Program {
    let mut alone = program.clone();
    let mut eqn = eqn.clone();
    let n = program.n_vars();
    for (i, arg) in eqn.args.iter_mut().enumerate() {
        let param = Var(n + i as u32);
        alone.avals.insert(param, program.aval(*arg).clone());
        *arg = param;
    }
    alone.params = eqn.args.to_vec();
    alone.outs = eqn.outs.to_vec();
    alone.eqns = vec![eqn];
    alone
}
