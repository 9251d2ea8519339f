//! Lowering: from a program with a `shard_map` to the program that each rank runs.
//!
//! All ranks run the same program. Where the program of a device depends on its position, the program of a rank has a
//! parameter, see [`Place`]. Collectives work along axis 0, so the blocks that ranks exchange are contiguous: an op before
//! or after them moves the axis, and is planned along with its neighbours.

use gradloom::Tensor;
use gradloom_ir::mesh::{MeshAxes, Tiling};
use gradloom_ir::op::collective::over;
use gradloom_ir::op::control::ShardMapParts;
use gradloom_ir::op::shape::known_axis;
use gradloom_ir::pass::inline_checkpoints;
use gradloom_ir::{Aval, Builder, DType, Eqn, Op, Program, SecondaryMap, Static, Var};

/// Form of the arguments and results of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each rank has whole values.
    Whole,
    /// Each rank has its parts.
    Parts,
}

/// The program that all ranks run.
pub(crate) struct RankProgram {
    /// `leaves..., captured..., places... -> results...`.
    pub(crate) program: Program,
    /// Axes of the collectives.
    pub(crate) mesh: MeshAxes,
    /// The parameters whose values depend on the rank.
    pub(crate) places: Vec<Place>,
}

/// A parameter whose value depends on the position of a rank in the mesh.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// Position in the group along these axes.
    Index(MeshAxes),
    /// First index of a part along the leading dims of a value: for each, the axes that divide it, and the length of a part.
    Starts(Vec<(MeshAxes, usize)>),
}

impl Place {
    /// Returns the value of the parameter at a position of the mesh.
    pub(crate) fn value(&self, mesh: &MeshAxes, position: usize) -> Tensor {
        match self {
            Place::Index(group) => Tensor::scalar(index_in(mesh, group, position) as i64),
            Place::Starts(dims) => {
                let start = |(group, len): &(MeshAxes, usize)| {
                    (index_in(mesh, group, position) * len) as i64
                };
                Tensor::from(dims.iter().map(start).collect::<Vec<i64>>())
            }
        }
    }

    fn aval(&self) -> Aval {
        let shape = match self {
            Place::Index(_) => Vec::new(),
            Place::Starts(dims) => vec![dims.len()],
        };
        Aval {
            dtype: Some(DType::I64),
            shape: shape.as_slice().into(),
        }
    }
}

/// Returns the position of a device in its group along some axes, in row-major order.
pub(crate) fn index_in(mesh: &MeshAxes, group: &MeshAxes, device: usize) -> usize {
    let index = mesh.coordinates(device);
    let along = mesh.positions(group).expect(CHECKED);
    along
        .iter()
        .fold(0, |at, axis| at * mesh.axes()[*axis].1 + index[*axis])
}

const CHECKED: &str = "the shape rule checks the program of a `shard_map`";
const BOUND: &str = "a variable is bound before it is read";

/// Returns the program that each rank runs, given one on whole values with one `shard_map`.
///
/// Its first parameters are `n_leaves` leaves of the argument and `n_captured` captured tensors. Only the shapes of the
/// others are read. The form is that of leaves and results.
///
/// # Errors
///
/// The index of a result that has no equal parts, if the form is that of parts.
pub(crate) fn lower(
    program: &Program,
    [n_leaves, n_captured]: [usize; 2],
    form: Form,
) -> Result<RankProgram, usize> {
    let at = program.eqns.iter().position(|eqn| eqn.op == Op::ShardMap);
    let at = at.expect("a function with results has a `shard_map`");
    let map = &program.eqns[at];
    let statics: Vec<Static> = map.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let of = ShardMapParts::of(&statics);
    let body = inline_checkpoints(of.body);
    let mut cx = Lowering {
        b: Builder::new(),
        mesh: of.mesh,
        places: Vec::new(),
    };
    let mut env = SecondaryMap::new();
    let mut params = Vec::new();
    for (i, param) in program.params.iter().enumerate() {
        let part = map.args.iter().position(|arg| arg == param);
        let aval = match part {
            Some(k) if form == Form::Parts && i < n_leaves => of.body.aval(of.body.params[k]),
            _ => program.aval(*param),
        };
        let var = match i < n_leaves + n_captured {
            true => {
                params.push(cx.b.param(aval.clone()));
                params[i]
            }
            false => cx.zeros(aval),
        };
        env.insert(*param, var);
    }
    let is_part = |var: &Var| {
        let leaves = &program.params[..n_leaves];
        form == Form::Parts && leaves.contains(var)
    };
    for eqn in &program.eqns {
        if eqn.op != Op::ShardMap {
            cx.copy(program, eqn, &mut env);
            continue;
        }
        let mut inner = SecondaryMap::new();
        for ((arg, param), tiling) in eqn.args.iter().zip(&of.body.params).zip(of.ins) {
            let x = *env.get(*arg).expect(BOUND);
            let local = match is_part(arg) {
                true => x,
                false => cx.cut(
                    x,
                    tiling,
                    &of.body.aval(*param).shape.known().expect(CHECKED),
                ),
            };
            inner.insert(*param, local);
        }
        body.eqns
            .iter()
            .for_each(|eqn| cx.eqn(&body, eqn, &mut inner));
        for ((out, local), tiling) in eqn.outs.iter().zip(&body.outs).zip(of.outs) {
            let local = *inner.get(*local).expect(BOUND);
            let value = match form {
                Form::Whole => cx.gathered(local, tiling),
                Form::Parts => local,
            };
            env.insert(*out, value);
        }
    }
    if form == Form::Parts
        && let Some(uneven) = program.outs.iter().position(|out| !map.outs.contains(out))
    {
        return Err(uneven);
    }
    let outs = program.outs.iter();
    let outs = outs.map(|out| *env.get(*out).expect(BOUND)).collect();
    params.extend(cx.places.iter().map(|(_, param)| *param));
    Ok(RankProgram {
        program: cx.b.finish(params, outs),
        mesh: of.mesh.clone(),
        places: cx.places.into_iter().map(|(place, _)| place).collect(),
    })
}

struct Lowering<'a> {
    b: Builder,
    mesh: &'a MeshAxes,
    places: Vec<(Place, Var)>,
}

impl Lowering<'_> {
    fn shape(&self, x: Var) -> Vec<usize> {
        self.b.aval(x).shape.known().expect("all shapes are known")
    }

    fn place(&mut self, place: Place) -> Var {
        if let Some((_, param)) = self.places.iter().find(|(other, _)| *other == place) {
            return *param;
        }
        let param = self.b.param(place.aval());
        self.places.push((place, param));
        param
    }

    /// Appends zeros of this dtype and shape.
    fn zeros(&mut self, aval: &Aval) -> Var {
        let lens = ints(&aval.shape.known().expect("all shapes are known"));
        let dtype = aval.dtype.expect("all dtypes are known");
        let statics = [self.b.attr(lens), self.b.attr(0i64), self.b.attr(dtype)];
        self.b.emit(Op::Full, &statics, &[])
    }

    fn reshape(&mut self, x: Var, lens: &[usize]) -> Var {
        let lens = self.b.attr(ints(lens));
        self.b.emit(Op::Reshape, &[lens], &[x, x])
    }

    fn permute(&mut self, x: Var, order: &[usize]) -> Var {
        let order = self.b.attr(ints(order));
        self.b.emit(Op::Permute, &[order], &[x])
    }

    /// Cuts an axis in `n` equal parts, and moves the axis of parts to the front.
    fn split(&mut self, x: Var, axis: usize, n: usize) -> Var {
        let mut lens = self.shape(x);
        lens[axis] /= n;
        lens.insert(axis, n);
        let x = self.reshape(x, &lens);
        let order = [axis].into_iter().chain(0..axis);
        let order: Vec<usize> = order.chain(axis + 1..lens.len()).collect();
        self.permute(x, &order)
    }

    /// Puts the values along axis 0 one after the other along an axis of the values.
    fn join(&mut self, x: Var, axis: usize) -> Var {
        let rank = self.shape(x).len();
        let order: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
        let x = self.permute(x, &order);
        let mut lens = self.shape(x);
        let n = lens.remove(axis);
        lens[axis] *= n;
        self.reshape(x, &lens)
    }

    /// Returns the part of a whole value that the rank has.
    fn cut(&mut self, x: Var, tiling: &Tiling, part: &[usize]) -> Var {
        let Some(last) = tiling.0.iter().rposition(|names| !names.is_empty()) else {
            return x;
        };
        let dims = tiling.0[..=last].iter().zip(part);
        let dims = dims.map(|(names, len)| (self.group(names), *len)).collect();
        self.slice(x, dims)
    }

    /// Returns the part of a value that begins where a place says.
    fn slice(&mut self, x: Var, dims: Vec<(MeshAxes, usize)>) -> Var {
        let sizes: Vec<usize> = dims.iter().map(|(_, len)| *len).collect();
        let sizes = self.b.attr(ints(&sizes));
        let starts = self.place(Place::Starts(dims));
        self.b.emit(Op::DynamicSlice, &[sizes], &[x, starts])
    }

    /// Returns the whole value, given the part of each rank.
    fn gathered(&mut self, mut x: Var, tiling: &Tiling) -> Var {
        for (axis, names) in tiling.0.iter().enumerate() {
            if !names.is_empty() {
                let over = self.group(names);
                x = self.all_gather(x, axis, over.into());
            }
        }
        x
    }

    fn group(&self, names: &[gradloom_ir::Symbol]) -> MeshAxes {
        let axis = |name: &gradloom_ir::Symbol| {
            let at = self.mesh.position(*name).expect(CHECKED);
            self.mesh.axes()[at]
        };
        MeshAxes::new(names.iter().map(axis).collect()).expect(CHECKED)
    }

    fn all_gather(&mut self, x: Var, axis: usize, over: Static) -> Var {
        let statics = [self.b.attr(0i64), self.b.attr(over), self.b.attr(false)];
        if axis == 0 {
            return self.b.emit(Op::AllGather, &statics, &[x]);
        }
        let lens = self.shape(x);
        let row = self.reshape(x, &[&[1], &lens[..]].concat());
        let rows = self.b.emit(Op::AllGather, &statics, &[row]);
        self.join(rows, axis)
    }

    /// Appends an equation of another program.
    fn copy(&mut self, of: &Program, eqn: &Eqn, env: &mut SecondaryMap<Var, Var>) {
        let attrs = eqn.attrs.iter().map(|a| self.b.attr(of.attr(*a).clone()));
        let attrs: Vec<_> = attrs.collect();
        let args: Vec<Var> = eqn
            .args
            .iter()
            .map(|x| *env.get(*x).expect(BOUND))
            .collect();
        let outs = self.b.emit_many(eqn.op, &attrs, &args, eqn.outs.len());
        env.extend(eqn.outs.iter().copied().zip(outs));
    }

    /// Appends an equation of the program of a device.
    fn eqn(&mut self, of: &Program, eqn: &Eqn, env: &mut SecondaryMap<Var, Var>) {
        if eqn.op.collective().is_none() {
            return self.copy(of, eqn, env);
        }
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| of.attr(*a).clone()).collect();
        let group = over(eqn.op, &statics).clone();
        let n = group.n_devices();
        let Some(x) = eqn.args.first() else {
            let index = self.place(Place::Index(group));
            env.insert(eqn.out(), index);
            return;
        };
        let x = *env.get(*x).expect(BOUND);
        let mut lens = self.shape(x);
        let axis = |i: usize| {
            let axis = known_axis(&statics[i], lens.len());
            axis.ok().flatten().expect(CHECKED)
        };
        let out = match eqn.op {
            Op::Pvary => x,
            Op::AllSlice => {
                let at = axis(0);
                let none = MeshAxes::new(Vec::new()).expect(CHECKED);
                let whole = lens[..at].iter().map(|len| (none.clone(), *len));
                let dims = whole.chain([(group, lens[at] / n)]).collect();
                self.slice(x, dims)
            }
            Op::AllGather => {
                let at = axis(0);
                self.all_gather(x, at, group.into())
            }
            Op::ReduceScatter if axis(0) > 0 => {
                let at = axis(0);
                let statics = [self.b.attr(0i64), self.b.attr(group)];
                let parts = self.split(x, at, n);
                let sum = self.b.emit(Op::ReduceScatter, &statics, &[parts]);
                lens[at] /= n;
                self.reshape(sum, &lens)
            }
            Op::AllToAll if (axis(0), axis(1)) != (0, 0) => {
                let (split, concat) = (axis(0), axis(1));
                let zero = self.b.attr(0i64);
                let statics = [zero, zero, self.b.attr(group)];
                let parts = self.split(x, split, n);
                let parts = self.b.emit(Op::AllToAll, &statics, &[parts]);
                self.join(parts, concat)
            }
            _ => return self.copy(of, eqn, env),
        };
        env.insert(eqn.out(), out);
    }
}

fn ints(lens: &[usize]) -> Vec<i64> {
    lens.iter().map(|len| *len as i64).collect()
}
