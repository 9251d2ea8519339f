//! Partitioning: the program that each device of a mesh runs on its parts.
//!
//! All parts of a value have the shape of the largest one. The elements after the end of a shorter part
//! are *padding*: they may have any value, and no result depends on them. Where a reduction would read
//! padding, it is replaced by the neutral element: 0 for a sum, the least number for a maximum. Where
//! an op would refuse an index or a divisor there, it is replaced by one that the op takes.

use super::choose::{Computed, Item};
use super::factors::shape_of;
use super::grid::{Atom, Layout};
use super::local::{LocalEqn, local_shape};
use super::reshard::Step;
use super::{Sharded, SpmdError, name_of};
use crate::hash::HashMap;
use crate::mesh::{MeshAxes, Tiling};
use crate::op::Fails;
use crate::sharding::{Reduction, ShardingSpec};
use crate::{Attr, Aval, Builder, DType, Op, Program, Programs, Static, Var};
use std::cmp::Ordering;

/// The program of one device, and the specs of its parameters and results.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The program that each device runs. Its parameters and results have the shapes of parts.
    pub program: Program,
    /// The axes of the mesh that its collectives name: those of [`Grid::axes`](super::Grid::axes).
    pub axes: MeshAxes,
    /// The specs of the parameters.
    pub params: Vec<ShardingSpec>,
    /// The specs of the results.
    pub outs: Vec<ShardingSpec>,
}

impl Sharded {
    /// Returns the program that each device runs, with its axes and specs.
    pub fn partition(&self) -> Partitioned {
        Partitioned {
            program: self.of_device(),
            axes: self.mesh_axes(
                &(0..self.grid.axes().len() as u8)
                    .map(Atom)
                    .collect::<Vec<_>>(),
            ),
            params: self.param_specs(),
            outs: self.out_specs(),
        }
    }

    /// Returns the program that each device runs.
    pub(super) fn of_device(&self) -> Program {
        let mut emitter = Emitter {
            of: self,
            b: Builder::new(),
            locals: HashMap::default(),
        };
        let mut params = Vec::new();
        for (var, layout) in self.program.params.iter().zip(&self.params) {
            let shape = local_shape(&self.grid, &self.program, *var, layout);
            let local = emitter.b.param(Aval {
                dtype: self.program.aval(*var).dtype,
                shape: shape.as_slice().into(),
            });
            emitter.bind(*var, layout, local);
            params.push(local);
        }
        for item in &self.items {
            match item {
                Item::Move { var, from, path } => {
                    let mut at = from;
                    for (step, to) in &path.steps {
                        // Another move may have led here before.
                        if emitter.local(*var, to).is_none() {
                            let local = emitter.step(*var, at, step, to);
                            emitter.bind(*var, to, local);
                        }
                        at = to;
                    }
                }
                Item::Compute(computed) => emitter.compute(computed),
            }
        }
        let outs = self.program.outs.iter().zip(&self.outs);
        let outs = outs.map(|(var, layout)| emitter.bound(*var, layout));
        let outs = outs.collect();
        emitter.b.finish(params, outs)
    }

    /// Returns a program with the operands and results of the whole program, that runs the program of
    /// [`Sharded::partition`] by a `shard_map`.
    ///
    /// Operands are padded to equal parts before, and the padding of results is dropped.
    ///
    /// # Errors
    ///
    /// If a parameter is partial: a `shard_map` has no such operands.
    pub fn to_shard_map(&self) -> Result<Program, SpmdError> {
        let Partitioned {
            program: body,
            axes,
            ..
        } = self.partition();
        let mut b = Builder::new();
        let tiling = |layout: &Layout| {
            let names = |atoms: &Vec<Atom>| atoms.iter().map(|a| self.grid.name(*a)).collect();
            Tiling(layout.dims.iter().map(names).collect())
        };
        let whole = |layout: &Layout, local: &[usize]| -> Vec<usize> {
            let parts = layout.dims.iter().map(|atoms| self.grid.n_parts(atoms));
            local.iter().zip(parts).map(|(len, n)| len * n).collect()
        };
        let (mut params, mut args) = (Vec::new(), Vec::new());
        for (var, layout) in self.program.params.iter().zip(&self.params) {
            if let Some((axis, _)) = self.grid.spec(layout).partial().first() {
                return Err(SpmdError::PartialParam {
                    value: name_of(&self.program, *var),
                    axis: *axis,
                });
            }
            let param = b.param(self.program.aval(*var).clone());
            if let Some(name) = self.program.names.get(*var) {
                b.name(param, name);
            }
            let local = local_shape(&self.grid, &self.program, *var, layout);
            let mut arg = param;
            for (dim, len) in whole(layout, &local).into_iter().enumerate() {
                arg = resized(&mut b, arg, dim, len);
            }
            params.push(param);
            args.push(arg);
        }
        let tilings = |layouts: &[Layout]| layouts.iter().map(tiling).collect::<Vec<_>>();
        let statics = [
            b.attr(Programs::new(vec![body])),
            b.attr(axes),
            b.attr(tilings(&self.params)),
            b.attr(tilings(&self.outs)),
        ];
        let outs = match self.outs.len() {
            // An equation binds something.
            0 => Vec::new(),
            n => b.emit_many(Op::ShardMap, &statics, &args, n),
        };
        let outs = self.program.outs.iter().zip(outs).map(|(var, mut out)| {
            let shape = shape_of(&self.program, *var).expect("all shapes are known");
            for (dim, len) in shape.into_iter().enumerate() {
                out = resized(&mut b, out, dim, len);
            }
            out
        });
        let outs = outs.collect();
        Ok(b.finish(params, outs))
    }

    /// Returns the static argument of a collective over atoms.
    fn mesh_axes(&self, atoms: &[Atom]) -> MeshAxes {
        let axes = atoms.iter();
        let axes = axes.map(|atom| (self.grid.name(*atom), self.grid.size(*atom)));
        MeshAxes::new(axes.collect()).expect("a mesh has as many devices")
    }
}

struct Emitter<'a> {
    of: &'a Sharded,
    b: Builder,
    /// The part of each variable in each layout.
    locals: HashMap<(Var, Layout), Var>,
}

impl Emitter<'_> {
    fn bind(&mut self, var: Var, layout: &Layout, local: Var) {
        if self.b.name_of(local).is_none() {
            let name = name_of(&self.of.program, var);
            if self.of.program.names.contains(var) {
                self.b.name(local, &name);
            }
        }
        self.locals.insert((var, layout.clone()), local);
    }

    fn local(&self, var: Var, layout: &Layout) -> Option<Var> {
        self.locals.get(&(var, layout.clone())).copied()
    }

    fn bound(&self, var: Var, layout: &Layout) -> Var {
        let local = self.local(var, layout);
        local.expect("a value is brought into a layout before it is read")
    }

    fn shape(&self, local: Var) -> Vec<usize> {
        self.b
            .aval(local)
            .shape
            .known()
            .expect("parts have known shapes")
    }

    fn dtype(&self, local: Var) -> DType {
        self.b.aval(local).dtype.expect("parts have known dtypes")
    }

    fn over(&mut self, atoms: &[Atom]) -> Attr {
        let axes = self.of.mesh_axes(atoms);
        self.b.attr(axes)
    }

    /// Emits a step of a move, and returns the part in its new layout.
    fn step(&mut self, var: Var, from: &Layout, step: &Step, to: &Layout) -> Var {
        let x = self.bound(var, from);
        let lens = local_shape(&self.of.grid, &self.of.program, var, to);
        match step {
            Step::Slice { dim, atoms } => {
                let n = self.of.grid.n_parts(atoms);
                let x = self.resized(x, *dim, lens[*dim] * n);
                let statics = [self.axis(*dim), self.over(atoms)];
                self.b.emit(Op::AllSlice, &statics, &[x])
            }
            Step::AllGather { dim, atoms } => {
                let statics = [self.axis(*dim), self.over(atoms), self.b.attr(false)];
                let x = self.b.emit(Op::AllGather, &statics, &[x]);
                self.resized(x, *dim, lens[*dim])
            }
            Step::AllToAll { from, to, atom } => {
                let n = self.of.grid.size(*atom);
                let x = self.resized(x, *to, lens[*to] * n);
                let statics = [self.axis(*to), self.axis(*from), self.over(&[*atom])];
                let x = self.b.emit(Op::AllToAll, &statics, &[x]);
                self.resized(x, *from, lens[*from])
            }
            Step::AllReduce { kind, atoms } => {
                let statics = [self.b.attr(*kind), self.over(atoms)];
                self.b.emit(Op::AllReduce, &statics, &[x])
            }
            Step::ReduceScatter { dim, atom } => {
                let n = self.of.grid.size(*atom);
                let x = self.resized(x, *dim, lens[*dim] * n);
                let statics = [self.axis(*dim), self.over(&[*atom])];
                self.b.emit(Op::ReduceScatter, &statics, &[x])
            }
            Step::KeepOnFirst { atoms } => {
                let over = self.over(atoms);
                let index = self.b.emit(Op::AxisIndex, &[over], &[]);
                let first = self.filled(&[], 0.into(), DType::I64);
                let is_first = self.b.binary(Op::Eq, index, first);
                let zero = self.filled(&[], 0.into(), self.dtype(x));
                self.b.select(is_first, x, zero)
            }
        }
    }

    fn axis(&mut self, dim: usize) -> Attr {
        self.b.attr(dim as i64)
    }

    fn resized(&mut self, x: Var, dim: usize, len: usize) -> Var {
        resized(&mut self.b, x, dim, len)
    }

    /// Emits an equation on parts.
    fn compute(&mut self, computed: &Computed) {
        let (program, grid) = (&self.of.program, &self.of.grid);
        let eqn = &program.eqns[computed.eqn];
        let factors = &self.of.factors[computed.eqn];
        let local =
            LocalEqn::new(grid, program, factors, computed).expect("the choice has checked it");
        let mut args = Vec::with_capacity(eqn.args.len());
        for (i, (var, layout)) in eqn.data().iter().zip(&computed.operands).enumerate() {
            let x = self.bound(*var, layout);
            let dtype = self.dtype(x);
            let mut fills = Vec::new();
            for (dim, factor) in factors.operands[i].iter().enumerate() {
                let Some(factor) = *factor else { continue };
                let fill = match factors.all[factor].reduced {
                    Some(kind) => Some(neutral(kind, dtype)),
                    None => harmless(eqn.op, i, dtype),
                };
                fills.extend(fill.map(|fill| (dim, fill)));
            }
            let mut masked = x;
            for (dim, fill) in fills {
                masked = self.masked(*var, layout, masked, dim, fill);
            }
            args.push(masked);
        }
        for (var, layout) in eqn.likes().iter().zip(&computed.likes) {
            args.push(self.like(*var, layout));
        }
        let statics = local.statics.into_iter();
        let statics: Vec<Attr> = statics.map(|value| self.b.attr(value)).collect();
        let outs = self.b.emit_many(eqn.op, &statics, &args, local.outs.len());
        let averages = eqn.op.def().facts().averages;
        for ((var, layout), mut out) in eqn.outs.iter().zip(&computed.results).zip(outs) {
            if averages {
                out = self.scaled(computed, out);
            }
            self.bind(*var, layout, out);
        }
    }

    /// Returns a value with the shape of a part, whose elements are not read.
    fn like(&mut self, var: Var, layout: &Layout) -> Var {
        if let Some(local) = self.local(var, layout) {
            return local;
        }
        let shape = local_shape(&self.of.grid, &self.of.program, var, layout);
        let dtype = self
            .of
            .program
            .aval(var)
            .dtype
            .expect("all dtypes are known");
        self.filled(&shape, 0.into(), dtype)
    }

    fn filled(&mut self, shape: &[usize], value: Static, dtype: DType) -> Var {
        let lens: Vec<i64> = shape.iter().map(|len| *len as i64).collect();
        let statics = [self.b.attr(lens), self.b.attr(value), self.b.attr(dtype)];
        self.b.emit(Op::Full, &statics, &[])
    }

    /// Returns `x` with `fill` in place of the padding of a dim.
    fn masked(&mut self, var: Var, layout: &Layout, x: Var, dim: usize, fill: Static) -> Var {
        let len = shape_of(&self.of.program, var).expect("all shapes are known")[dim];
        let atoms = &layout.dims[dim];
        let shape = self.shape(x);
        let part = shape[dim];
        if part * self.of.grid.n_parts(atoms) == len {
            return x;
        }
        // Element i of part p is element p * part + i of the whole.
        let over = self.over(atoms);
        let index = self.b.emit(Op::AxisIndex, &[over], &[]);
        let [part, len] = [part, len].map(|n| self.filled(&[], (n as i64).into(), DType::I64));
        let first = self.b.mul(index, part);
        let statics = [self.b.attr(shape[dim] as i64), self.b.attr(DType::I64)];
        let places = self.b.emit(Op::Iota, &statics, &[]);
        let places = self.b.add(places, first);
        let is_inside = self.b.binary(Op::Lt, places, len);
        let mut lens = vec![1; shape.len()];
        lens[dim] = shape[dim] as i64;
        let lens = self.b.attr(lens);
        let is_inside = self.b.emit(Op::Reshape, &[lens], &[is_inside, is_inside]);
        let dtype = self.dtype(x);
        let fill = self.filled(&[], fill, dtype);
        self.b.select(is_inside, x, fill)
    }

    /// Returns a mean over parts as a term of the mean over the whole.
    ///
    /// The op divides by the number of elements of its part.
    fn scaled(&mut self, computed: &Computed, x: Var) -> Var {
        let factors = &self.of.factors[computed.eqn];
        let mut scale = 1.0;
        for (at, (factor, atoms)) in factors.all.iter().zip(&computed.split).enumerate() {
            let has = |values: &[Vec<Option<usize>>]| {
                values.iter().flatten().any(|factor| *factor == Some(at))
            };
            if factor.reduced.is_some() || !has(&factors.operands) {
                let n = self.of.grid.n_parts(atoms);
                scale *= factor.len.div_ceil(n) as f64 / factor.len as f64;
            }
        }
        if scale == 1.0 {
            return x;
        }
        let dtype = self.dtype(x);
        let scale = self.filled(&[], scale.into(), dtype);
        self.b.mul(x, scale)
    }
}

/// Returns `x` with zeros after the elements of a dim, or without the last ones, so that it has a
/// length.
fn resized(b: &mut Builder, x: Var, dim: usize, len: usize) -> Var {
    let shape = b.aval(x).shape.known().expect("parts have known shapes");
    let ints = |f: &dyn Fn(usize) -> i64| -> Static {
        (0..shape.len()).map(f).collect::<Vec<i64>>().into()
    };
    let (op, statics) = match len.cmp(&shape[dim]) {
        Ordering::Equal => return x,
        Ordering::Less => {
            let stops = ints(&|i| if i == dim { len } else { shape[i] } as i64);
            (Op::Slice, [ints(&|_| 0), stops, ints(&|_| 1)])
        }
        Ordering::Greater => {
            let added = (len - shape[dim]) as i64;
            let high = ints(&|i| if i == dim { added } else { 0 });
            (Op::PadZeros, [ints(&|_| 0), high, ints(&|_| 0)])
        }
    };
    let statics = statics.map(|value| b.attr(value));
    b.emit(op, &statics, &[x, x])
}

/// Returns the element that does not change a reduction.
fn neutral(kind: Reduction, dtype: DType) -> Static {
    match (kind, dtype) {
        (Reduction::Sum, _) => 0.into(),
        (Reduction::Prod, _) => 1.into(),
        (Reduction::Max, dtype) if dtype.is_float() => f64::NEG_INFINITY.into(),
        (Reduction::Min, dtype) if dtype.is_float() => f64::INFINITY.into(),
        (Reduction::Max, DType::I32) => i64::from(i32::MIN).into(),
        (Reduction::Min, DType::I32) => i64::from(i32::MAX).into(),
        (Reduction::Max, DType::I64) => i64::MIN.into(),
        (Reduction::Min, DType::I64) => i64::MAX.into(),
        (Reduction::Max, DType::I8) => i64::from(i8::MIN).into(),
        (Reduction::Min, DType::I8) => i64::from(i8::MAX).into(),
        (Reduction::Max, DType::U8) => 0.into(),
        (Reduction::Min, DType::U8) => i64::from(u8::MAX).into(),
        (Reduction::Max, _) => false.into(),
        (Reduction::Min, _) => true.into(),
    }
}

/// Returns an element of an operand for which an op does not fail, if it fails for some.
fn harmless(op: Op, operand: usize, dtype: DType) -> Option<Static> {
    match op.def().facts().fails {
        Fails::IntegerBy(fails) if operand == 1 && dtype.is_integer() => {
            let found = [1, 0].into_iter().find(|n| !fails(*n as f64));
            found.map(Static::Int)
        }
        Fails::Labels(_) if dtype.is_integer() => Some(0.into()),
        _ => None,
    }
}
