//! Random programs for devices give what an interpreter of numbers gives, which has the values of all devices in plain
//! arrays and shares no code with the evaluator: values, both modes of differentiation, and lanes.
//!
//! `GRADLOOM_PROGRAMS=10000 cargo test --workspace --release --test sharding random` tests more programs, and
//! `GRADLOOM_PROGRAMS=57..58` those with these seeds. `docs/perf-log.md` has the results.

use super::Grid;
use gradloom::sharding::{
    AxisRef, DimSharding, Reduction, ShardingSpec, Specs, all_gather, all_reduce, all_to_all,
    axis_index, broadcast, pmean, ppermute, reduce_scatter, shard_map,
};
use gradloom::{Checkpoint, DType, Tensor, jvp, vjp, vmap};
use gradloom_tests::noise;
use gradloom_tests::rng::{Rng, seeds};
use std::fmt;
use std::ops::Range;

/// Default number of programs.
const PROGRAMS: u64 = 300;

/// Number of wrong programs that are printed, the shortest first.
const SHOWN: usize = 4;

/// Longest dim of a part.
const LONGEST: usize = 24;

/// Names of mesh axes.
type Axes = Vec<&'static str>;

/// The axes that split the dims of a value of rank 2.
type Split = [Axes; 2];

/// How a value is computed from earlier ones.
#[derive(Clone, Debug)]
enum Step {
    Sin(usize),
    Tanh(usize),
    Square(usize),
    Scale(usize),
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Transpose(usize),
    /// The operand times `1 + axis_index / 4`.
    Index(usize, Axes),
    Reduce(usize, Axes, Reduction),
    Mean(usize, Axes),
    Gather(usize, Axes, usize),
    Scatter(usize, Axes, usize),
    AllToAll(usize, Axes, usize, usize),
    Permute(usize, Axes, Vec<(usize, usize)>),
    Broadcast(usize, Axes, usize),
}

/// A function that `shard_map` runs. Its values are numbered, the arguments first.
struct Drawn {
    grid: Grid,
    /// For each argument, the shape of a part, and how it is divided.
    args: Vec<([usize; 2], Split)>,
    steps: Vec<Step>,
    /// Ranges of steps that a checkpoint computes. One that begins in another one ends in it.
    checkpoints: Vec<Range<usize>>,
    /// The values that are results, and how they are divided.
    outs: Vec<(usize, Split)>,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.grid.mesh)?;
        for (i, (shape, split)) in self.args.iter().enumerate() {
            writeln!(f, "  {i}: parts {shape:?}, split {split:?}")?;
        }
        for (i, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {}: {step:?}", i + self.args.len())?;
        }
        write!(
            f,
            "  checkpoints {:?}, results {:?}",
            self.checkpoints, self.outs
        )
    }
}

/// Returns some axes of the mesh in random order, at least one.
fn some_axes(grid: &Grid, rng: &mut Rng) -> Axes {
    let mut axes = shuffled(&grid.names, rng);
    axes.truncate(1 + rng.below(axes.len()));
    axes
}

fn shuffled<T: Clone>(items: &[T], rng: &mut Rng) -> Vec<T> {
    let mut all = items.to_vec();
    rng.shuffle(&mut all);
    all
}

/// Returns a split by some axes, in random order.
fn split_by(axes: &[&'static str], rng: &mut Rng) -> Split {
    let mut split = Split::default();
    for axis in shuffled(axes, rng) {
        split[rng.below(2)].push(axis);
    }
    split
}

/// What the generator knows of a value.
#[derive(Clone)]
struct Known {
    shape: [usize; 2],
    /// The axes along which it may differ.
    varies: Axes,
}

fn union(a: &[&'static str], b: &[&'static str]) -> Axes {
    let rest = b.iter().filter(|axis| !a.contains(axis));
    a.iter().chain(rest).copied().collect()
}

fn minus(a: &[&'static str], b: &[&'static str]) -> Axes {
    a.iter().filter(|axis| !b.contains(axis)).copied().collect()
}

/// Draws a function.
fn drawn(seed: u64) -> Drawn {
    let rng = &mut Rng::new(seed);
    let grid = Grid::all().swap_remove(rng.below(4));
    let mut args = Vec::new();
    let mut values: Vec<Known> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let lens = [1, 2, 3, 4, 6, 12];
        let shape = [lens[rng.below(6)], lens[rng.below(6)]];
        let axes: Axes = grid
            .names
            .iter()
            .filter(|_| rng.below(3) > 0)
            .copied()
            .collect();
        let split = split_by(&axes, rng);
        values.push(Known {
            shape,
            varies: axes,
        });
        args.push((shape, split));
    }
    let mut steps = Vec::new();
    for _ in 0..1 + rng.below(8) {
        let mut found = None;
        while found.is_none() {
            found = step(&grid, &values, rng);
        }
        for (step, known) in found.into_iter().flatten() {
            steps.push(step);
            values.push(known);
        }
    }
    let last = values.len() - 1;
    let mut results = vec![last];
    if rng.below(2) == 0 {
        results.push(rng.below(values.len()));
    }
    let outs = results.iter().map(|value| {
        let others = minus(&grid.names, &values[*value].varies);
        let more: Axes = others.into_iter().filter(|_| rng.below(3) == 0).collect();
        (*value, split_by(&union(&values[*value].varies, &more), rng))
    });
    let outs = outs.collect();
    let mut checkpoints: Vec<Range<usize>> = Vec::new();
    for _ in 0..rng.below(4) {
        let start = rng.below(steps.len());
        let new = start..start + 1 + rng.below(steps.len() - start);
        let is_apart = |old: &Range<usize>| new.end <= old.start || old.end <= new.start;
        let is_in = |a: &Range<usize>, b: &Range<usize>| a.start >= b.start && a.end <= b.end;
        if checkpoints
            .iter()
            .all(|old| *old != new && (is_apart(old) || is_in(old, &new) || is_in(&new, old)))
        {
            checkpoints.push(new);
        }
    }
    Drawn {
        grid,
        args,
        steps,
        checkpoints,
        outs,
    }
}

/// Draws a step, and those that it needs before it. Returns `None` if no operand fits.
fn step(grid: &Grid, values: &[Known], rng: &mut Rng) -> Option<Vec<(Step, Known)>> {
    // Later values are drawn more often, so that programs are deep.
    let x = values.len() - 1 - rng.below(values.len()).min(rng.below(values.len()));
    let Known { shape, varies } = values[x].clone();
    let axes = some_axes(grid, rng);
    let n = grid.group(0, &axes).0.len();
    let same = || Known {
        shape,
        varies: varies.clone(),
    };
    let with = |shape: [usize; 2], varies: Axes| Known { shape, varies };
    let axis = rng.below(2);
    let one = |step: Step, known: Known| Some(vec![(step, known)]);
    match rng.below(16) {
        0 => one(Step::Sin(x), same()),
        1 => one(Step::Tanh(x), same()),
        2 => one(Step::Square(x), same()),
        3 => one(Step::Scale(x), same()),
        4 => one(Step::Transpose(x), with([shape[1], shape[0]], varies)),
        kind @ 5..=7 => {
            let fits = (0..values.len()).filter(|y| values[*y].shape == shape);
            let fits: Vec<usize> = fits.collect();
            let y = fits[rng.below(fits.len())];
            let known = with(shape, union(&varies, &values[y].varies));
            one([Step::Add, Step::Sub, Step::Mul][kind - 5](x, y), known)
        }
        8 => one(
            Step::Index(x, axes.clone()),
            with(shape, union(&varies, &axes)),
        ),
        9 => {
            let reduction = Reduction::ALL[rng.below(4)];
            let reduced = with(shape, minus(&varies, &axes));
            match reduction {
                Reduction::Max | Reduction::Min => {
                    // The operands of a maximum differ, so its derivative is that of one of them.
                    let y = values.len();
                    Some(vec![
                        (
                            Step::Index(x, axes.clone()),
                            with(shape, union(&varies, &axes)),
                        ),
                        (Step::Reduce(y, axes, reduction), reduced),
                    ])
                }
                _ => one(Step::Reduce(x, axes, reduction), reduced),
            }
        }
        10 => one(
            Step::Mean(x, axes.clone()),
            with(shape, minus(&varies, &axes)),
        ),
        11 => {
            let mut longer = shape;
            longer[axis] *= n;
            let fits = longer[axis] <= LONGEST;
            let known = with(longer, minus(&varies, &axes));
            fits.then(|| vec![(Step::Gather(x, axes, axis), known)])
        }
        12 => {
            let mut shorter = shape;
            shorter[axis] /= n;
            let known = with(shorter, union(&varies, &axes));
            shape[axis]
                .is_multiple_of(n)
                .then(|| vec![(Step::Scatter(x, axes, axis), known)])
        }
        13 => {
            let to = rng.below(2);
            let mut other = shape;
            other[axis] /= n;
            other[to] *= n;
            let fits = shape[axis].is_multiple_of(n) && other[to] <= LONGEST;
            let known = with(other, union(&varies, &axes));
            fits.then(|| vec![(Step::AllToAll(x, axes, axis, to), known)])
        }
        14 => {
            let places: Vec<usize> = (0..n).collect();
            let pairs = shuffled(&places, rng)
                .into_iter()
                .zip(shuffled(&places, rng));
            let pairs = pairs.take(rng.below(n + 1)).collect();
            let known = with(shape, union(&varies, &axes));
            one(Step::Permute(x, axes, pairs), known)
        }
        _ => {
            let root = rng.below(n);
            let known = with(shape, minus(&varies, &axes));
            one(Step::Broadcast(x, axes, root), known)
        }
    }
}

/// Records all steps.
fn record(drawn: &Drawn, args: &[Tensor]) -> Vec<Tensor> {
    let mut values = args.to_vec();
    record_range(drawn, 0..drawn.steps.len(), &drawn.checkpoints, &mut values);
    drawn.outs.iter().map(|(i, _)| values[*i].clone()).collect()
}

/// Records some steps, given the checkpoints in their range, and appends their values.
///
/// A checkpoint takes half of the values as arguments, and captures the others.
fn record_range(
    drawn: &Drawn,
    range: Range<usize>,
    checkpoints: &[Range<usize>],
    values: &mut Vec<Tensor>,
) {
    let mut at = range.start;
    while at < range.end {
        let starting = checkpoints.iter().filter(|inner| inner.start == at);
        let Some(inner) = starting.max_by_key(|inner| inner.end) else {
            values.push(record_step(&drawn.steps[at], values));
            at += 1;
            continue;
        };
        let within = |other: &&Range<usize>| other.start >= at && other.end <= inner.end;
        let within: Vec<Range<usize>> = checkpoints.iter().filter(within).cloned().collect();
        let within: Vec<_> = within.into_iter().filter(|other| other != inner).collect();
        let n_given = values.len() / 2;
        let block = |given: &Vec<Tensor>| {
            let mut all = [&given[..], &values[n_given..]].concat();
            record_range(drawn, inner.clone(), &within, &mut all);
            all.split_off(values.len())
        };
        let mut block = Checkpoint::new(block);
        if inner.end % 2 == 0 {
            block = block.keep(&["all_reduce", "mul"]);
        }
        let new = block.call(&values[..n_given].to_vec());
        values.extend(new);
        at = inner.end;
    }
}

/// Records a step on earlier values.
fn record_step(step: &Step, values: &[Tensor]) -> Tensor {
    let v = |i: &usize| &values[*i];
    match step {
        Step::Sin(x) => v(x).sin(),
        Step::Tanh(x) => v(x).tanh(),
        Step::Square(x) => v(x).square(),
        Step::Scale(x) => v(x) * -0.5,
        Step::Add(x, y) => v(x) + v(y),
        Step::Sub(x, y) => v(x) - v(y),
        Step::Mul(x, y) => v(x) * v(y),
        Step::Transpose(x) => v(x).transpose(),
        Step::Index(x, axes) => v(x) * (axis_index(&axes[..]).cast(DType::F64) * 0.25 + 1.0),
        Step::Reduce(x, axes, reduction) => all_reduce(v(x), &axes[..], *reduction),
        Step::Mean(x, axes) => pmean(v(x), &axes[..]),
        Step::Gather(x, axes, axis) => all_gather(v(x), &axes[..], *axis as isize),
        Step::Scatter(x, axes, axis) => reduce_scatter(v(x), &axes[..], *axis as isize - 2),
        Step::AllToAll(x, axes, split, concat) => {
            all_to_all(v(x), &axes[..], *split as isize, *concat as isize)
        }
        Step::Permute(x, axes, pairs) => ppermute(v(x), &axes[..], pairs),
        Step::Broadcast(x, axes, root) => broadcast(v(x), &axes[..], *root),
    }
}

/// A number and its tangent.
type Dual = (f64, f64);

/// A value of one device, or a whole value: numbers in row-major order, each with its tangent.
#[derive(Clone, Debug)]
struct Numbers {
    shape: [usize; 2],
    all: Vec<Dual>,
}

impl Numbers {
    fn build(shape: [usize; 2], of: impl FnMut([usize; 2]) -> Dual) -> Numbers {
        let places = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| [i, j]));
        let all = places.map(of).collect();
        Numbers { shape, all }
    }

    fn at(&self, [i, j]: [usize; 2]) -> Dual {
        self.all[i * self.shape[1] + j]
    }

    fn map(&self, f: impl Fn(f64) -> Dual) -> Numbers {
        let one = |(x, dx): &Dual| {
            let (y, slope) = f(*x);
            (y, slope * dx)
        };
        Numbers {
            shape: self.shape,
            all: self.all.iter().map(one).collect(),
        }
    }

    fn zip(&self, other: &Numbers, f: impl Fn(Dual, Dual) -> Dual) -> Numbers {
        Numbers::build(self.shape, |at| f(self.at(at), other.at(at)))
    }
}

fn plus(a: Dual, b: Dual) -> Dual {
    (a.0 + b.0, a.1 + b.1)
}

fn times(a: Dual, b: Dual) -> Dual {
    (a.0 * b.0, a.1 * b.0 + a.0 * b.1)
}

/// Returns the first index of the part of a device along each dim.
fn start(grid: &Grid, device: usize, split: &Split, part: [usize; 2]) -> [usize; 2] {
    [0, 1].map(|dim| {
        let position = split[dim].iter().fold(0, |position, name| {
            let at = grid.names.iter().position(|n| n == name).unwrap();
            position * grid.sizes[at] + grid.index(device, name)
        });
        position * part[dim]
    })
}

fn whole_shape(grid: &Grid, split: &Split, part: [usize; 2]) -> [usize; 2] {
    [0, 1].map(|dim| part[dim] * grid.group(0, &split[dim]).0.len())
}

/// Moves an index along one dim.
fn shifted(mut at: [usize; 2], dim: usize, to: usize) -> [usize; 2] {
    at[dim] = to;
    at
}

/// Computes a step on a device, from the operands of its group and its position there.
fn collective(step: &Step, operands: &[&Numbers], position: usize) -> Numbers {
    let (own, n) = (operands[position], operands.len());
    let fold = |f: fn(Dual, Dual) -> Dual| {
        let rest = operands[1..].iter();
        rest.fold(operands[0].clone(), |y, x| y.zip(x, f))
    };
    match step {
        Step::Reduce(_, _, Reduction::Sum) => fold(plus),
        Step::Reduce(_, _, Reduction::Prod) => fold(times),
        Step::Reduce(_, _, Reduction::Max) => fold(|a, b| if a.0 >= b.0 { a } else { b }),
        Step::Reduce(_, _, Reduction::Min) => fold(|a, b| if a.0 <= b.0 { a } else { b }),
        Step::Mean(..) => {
            let sum = fold(plus);
            sum.map(|x| (x / n as f64, 1.0 / n as f64))
        }
        Step::Index(..) => {
            let factor = 1.0 + position as f64 * 0.25;
            own.map(|x| (x * factor, factor))
        }
        Step::Gather(_, _, dim) => {
            let len = own.shape[*dim];
            let shape = shifted(own.shape, *dim, len * n);
            Numbers::build(shape, |at| {
                operands[at[*dim] / len].at(shifted(at, *dim, at[*dim] % len))
            })
        }
        Step::Scatter(_, _, dim) => {
            let (sum, len) = (fold(plus), own.shape[*dim] / n);
            let shape = shifted(own.shape, *dim, len);
            Numbers::build(shape, |at| {
                sum.at(shifted(at, *dim, position * len + at[*dim]))
            })
        }
        Step::AllToAll(_, _, split, concat) => {
            let len = own.shape[*split] / n;
            let part = shifted(own.shape, *split, len);
            let shape = shifted(part, *concat, part[*concat] * n);
            Numbers::build(shape, |at| {
                let (from, at) = (
                    at[*concat] / part[*concat],
                    shifted(at, *concat, at[*concat] % part[*concat]),
                );
                operands[from].at(shifted(at, *split, position * len + at[*split]))
            })
        }
        Step::Permute(_, _, pairs) => match pairs.iter().find(|(_, to)| *to == position) {
            Some((from, _)) => operands[*from].clone(),
            None => own.map(|_| (0.0, 0.0)),
        },
        Step::Broadcast(_, _, root) => operands[*root].clone(),
        _ => unreachable!("{step:?} has one device"),
    }
}

/// Returns the whole results for whole arguments.
fn interpret(drawn: &Drawn, args: &[Numbers]) -> Vec<Numbers> {
    let grid = &drawn.grid;
    let mut values: Vec<Vec<Numbers>> = Vec::new();
    for ((shape, split), x) in drawn.args.iter().zip(args) {
        let part = |device| {
            let [i, j] = start(grid, device, split, *shape);
            Numbers::build(*shape, |at| x.at([at[0] + i, at[1] + j]))
        };
        values.push((0..grid.n()).map(part).collect());
    }
    for step in &drawn.steps {
        let all = (0..grid.n()).map(|device| {
            let v = |i: &usize| &values[*i][device];
            match step {
                Step::Sin(x) => v(x).map(|x| (x.sin(), x.cos())),
                Step::Tanh(x) => v(x).map(|x| (x.tanh(), 1.0 - x.tanh() * x.tanh())),
                Step::Square(x) => v(x).map(|x| (x * x, 2.0 * x)),
                Step::Scale(x) => v(x).map(|x| (x * -0.5, -0.5)),
                Step::Add(x, y) => v(x).zip(v(y), plus),
                Step::Sub(x, y) => v(x).zip(v(y), |a, b| (a.0 - b.0, a.1 - b.1)),
                Step::Mul(x, y) => v(x).zip(v(y), times),
                Step::Transpose(x) => {
                    let [rows, columns] = v(x).shape;
                    Numbers::build([columns, rows], |[i, j]| v(x).at([j, i]))
                }
                Step::Index(x, axes)
                | Step::Reduce(x, axes, _)
                | Step::Mean(x, axes)
                | Step::Gather(x, axes, _)
                | Step::Scatter(x, axes, _)
                | Step::AllToAll(x, axes, ..)
                | Step::Permute(x, axes, _)
                | Step::Broadcast(x, axes, _) => {
                    let (group, position) = grid.group(device, axes);
                    let operands: Vec<&Numbers> = group.iter().map(|d| &values[*x][*d]).collect();
                    collective(step, &operands, position)
                }
            }
        });
        let all = all.collect();
        values.push(all);
    }
    let outs = drawn.outs.iter().map(|(value, split)| {
        let part = values[*value][0].shape;
        let mut whole = Numbers::build(whole_shape(grid, split, part), |_| (f64::NAN, f64::NAN));
        for (device, own) in values[*value].iter().enumerate() {
            let [i, j] = start(grid, device, split, part);
            for a in 0..part[0] {
                for b in 0..part[1] {
                    whole.all[(i + a) * whole.shape[1] + j + b] = own.at([a, b]);
                }
            }
        }
        whole
    });
    outs.collect()
}

/// Returns an error if a tensor differs from some of the numbers by more than rounding.
fn near(found: &Tensor, expected: &[f64], what: &str) -> Result<(), String> {
    let found = found.to_vec::<f64>();
    let size = expected.iter().fold(1.0f64, |size, x| size.max(x.abs()));
    let differs = |(x, y): (&f64, &f64)| (x - y).abs() > 1e-11 * size || x.is_nan();
    if found.len() != expected.len() || found.iter().zip(expected).any(differs) {
        return Err(format!("{what}: {found:?}, expected {expected:?}"));
    }
    Ok(())
}

fn spec(grid: &Grid, split: &Split) -> ShardingSpec {
    let dims = split.iter().map(|axes| {
        let axes = axes.iter().map(|name| AxisRef::new(name));
        DimSharding::closed(axes.collect())
    });
    ShardingSpec::new(&grid.mesh, dims.collect(), Vec::new(), Vec::new()).unwrap()
}

/// Compares a drawn function with the interpreter.
fn check(drawn: &Drawn, seed: u64) -> Result<(), String> {
    let grid = &drawn.grid;
    let shapes = drawn
        .args
        .iter()
        .map(|(part, split)| whole_shape(grid, split, *part));
    let shapes: Vec<[usize; 2]> = shapes.collect();
    let noises = |seed: u64| -> Vec<Tensor> {
        let all = shapes.iter().enumerate();
        all.map(|(i, shape)| noise(shape, seed + i as u64))
            .collect()
    };
    let (x, dx) = (noises(seed * 100), noises(seed * 100 + 50));
    let numbers = |x: &[Tensor], dx: &[Tensor]| -> Vec<Numbers> {
        let pairs = x.iter().zip(dx).zip(&shapes);
        let one = |((x, dx), shape): ((&Tensor, &Tensor), &[usize; 2])| Numbers {
            shape: *shape,
            all: x.to_vec().into_iter().zip(dx.to_vec()).collect(),
        };
        pairs.map(one).collect()
    };
    let values = |of: &Numbers| of.all.iter().map(|(x, _)| *x).collect::<Vec<f64>>();
    let tangents = |of: &Numbers| of.all.iter().map(|(_, dx)| *dx).collect::<Vec<f64>>();

    let ins: Vec<ShardingSpec> = drawn
        .args
        .iter()
        .map(|(_, split)| spec(grid, split))
        .collect();
    let outs: Vec<ShardingSpec> = drawn
        .outs
        .iter()
        .map(|(_, split)| spec(grid, split))
        .collect();
    let (ins, outs): (Specs, Specs) = ((&ins[..]).into(), (&outs[..]).into());
    let f = shard_map(|x: &Vec<Tensor>| record(drawn, x), &grid.mesh, ins, outs);

    let expected = interpret(drawn, &numbers(&x, &dx));
    for (y, expected) in f(&x).iter().zip(&expected) {
        near(y, &values(expected), "value")?;
    }
    let (y, dy) = jvp(&f, &x, &dx);
    for ((y, dy), expected) in y.iter().zip(&dy).zip(&expected) {
        near(y, &values(expected), "value of the jvp")?;
        near(dy, &tangents(expected), "jvp")?;
    }
    // <ct, dy> = <ct_x, dx>, where `dy` is that of the interpreter.
    let ct: Vec<Tensor> = y.iter().map(|y| noise(y.shape(), seed + 7)).collect();
    let ct_x = vjp(&f, &x).1.call(&ct);
    let products = |a: &[Tensor], b: Vec<Vec<f64>>| -> (f64, f64) {
        let a = a.iter().flat_map(|a| a.to_vec::<f64>());
        let products = a.zip(b.into_iter().flatten()).map(|(a, b)| a * b);
        products.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
    };
    let (forward, size) = products(&ct, expected.iter().map(tangents).collect());
    let (reverse, other) = products(&ct_x, dx.iter().map(|dx| dx.to_vec()).collect());
    if (forward - reverse).abs() > 1e-11 * size.max(other).max(1.0) {
        return Err(format!(
            "vjp: {reverse:e} in reverse mode, {forward:e} in forward mode"
        ));
    }
    let lanes = x
        .iter()
        .zip(&dx)
        .map(|(x, dx)| Tensor::stack(&[x.clone(), dx.clone()], 0));
    let found = vmap(&f)(&lanes.collect::<Vec<_>>());
    for (lane, x) in [&x, &dx].into_iter().enumerate() {
        let expected = interpret(drawn, &numbers(x, x));
        for (y, expected) in found.iter().zip(&expected) {
            near(&y.i(lane), &values(expected), "vmap")?;
        }
    }
    Ok(())
}

#[test]
fn a_random_program_for_devices_gives_what_plain_numbers_give() {
    let (n, seeds) = seeds(PROGRAMS);
    let mut wrong = Vec::new();
    let mut n_checked = 0;
    for seed in seeds.take(n as usize) {
        let drawn = drawn(seed);
        let checked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&drawn, seed)));
        let error = match checked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("it panics".to_owned()),
        };
        if let Some(error) = error {
            wrong.push((drawn.steps.len(), format!("seed {seed}: {error}\n{drawn}")));
        }
        n_checked += 1;
    }
    println!("{n_checked} programs checked");
    wrong.sort();
    let shown: Vec<&str> = wrong.iter().take(SHOWN).map(|(_, text)| &**text).collect();
    assert!(
        wrong.is_empty(),
        "{} of {n_checked} programs are wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
