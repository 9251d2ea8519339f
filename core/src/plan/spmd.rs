//! Plans of `shard_map`: a plan for each segment of the program of the devices.

use super::control::body;
use super::{BOUND, aval};
use gradloom_ir::mesh::{MeshAxes, Tiling};
use gradloom_ir::op::collective::{over, sender};
use gradloom_ir::op::control::{ShardMapParts, ShardedParts};
use gradloom_ir::op::shape;
use gradloom_ir::pass::{DeviceStep, segments};
use gradloom_ir::sharding::Reduction;
use gradloom_ir::spmd::{Constraints, shard};
use gradloom_ir::{Eqn, Op, Program, SecondaryMap, Static, Var, cost};
use gradloom_kernels::reduce::Fold;
use gradloom_kernels::spmd::{Blocks, Division, Exchange, Spmd, Step, Work, spmd};
use gradloom_kernels::task::Prepared;

const CHECKED: &str = "the shape rule checks the program of a `shard_map`";

/// Returns the kernel that runs the program on simulated devices.
pub(super) fn kernel(statics: &[Static]) -> Prepared {
    let parts = ShardMapParts::of(statics);
    let (program, steps) = segments(parts.body);
    let mut slots = Slots::default();
    let divided = |var: Var, tiling: &Tiling| division(&program, var, tiling, parts.mesh);
    let inputs = program.params.iter().zip(parts.ins);
    let inputs = inputs.map(|(param, tiling)| {
        slots.push(&program, *param);
        divided(*param, tiling)
    });
    let inputs = inputs.collect();
    let mut works: Vec<Step> = steps
        .iter()
        .map(|step| Step {
            work: match step {
                DeviceStep::Segment(segment) => of_segment(segment, &mut slots),
                DeviceStep::Collective(eqn) => of_collective(&program, eqn, parts.mesh, &mut slots),
            },
            dead: Vec::new(),
        })
        .collect();
    let outputs = program.outs.iter().zip(parts.outs);
    let outputs: Vec<(usize, Division)> = outputs
        .map(|(out, tiling)| (slots.of(*out), divided(*out, tiling)))
        .collect();
    let kept: Vec<usize> = outputs.iter().map(|(slot, _)| *slot).collect();
    note_dead(&mut works, slots.sizes.len(), &kept);
    spmd(Spmd {
        n_devices: parts.mesh.n_devices(),
        slots: slots.sizes,
        inputs,
        steps: works,
        outputs,
    })
}

/// Returns the program of a `sharded`, divided over the devices of its mesh.
pub(super) fn divided(statics: &[Static]) -> Program {
    let parts = ShardedParts::of(statics);
    let constraints = Constraints {
        params: parts.ins.to_vec(),
        outs: parts.outs.to_vec(),
    };
    let sharded = shard(parts.body, parts.mesh, &constraints);
    let divided = sharded.and_then(|sharded| sharded.to_shard_map());
    divided.unwrap_or_else(|error| unreachable!("the rules of the op check its specs: {error}"))
}

/// Slots of the values of a device.
#[derive(Default)]
struct Slots {
    of: SecondaryMap<Var, usize>,
    sizes: Vec<(gradloom_ir::DType, usize)>,
}

impl Slots {
    fn push(&mut self, program: &Program, var: Var) -> usize {
        let aval = aval(program, var);
        self.sizes.push((aval.dtype(), aval.numel()));
        self.of.insert(var, self.sizes.len() - 1);
        self.sizes.len() - 1
    }

    fn of(&self, var: Var) -> usize {
        *self.of.get(var).expect(BOUND)
    }
}

/// Lists the slots that are read last, or only written, in each step.
fn note_dead(steps: &mut [Step], n_slots: usize, kept: &[usize]) {
    let mut seen = vec![false; n_slots];
    kept.iter().for_each(|slot| seen[*slot] = true);
    for step in steps.iter_mut().rev() {
        let (args, outs) = match &step.work {
            Work::Segment { args, outs, .. } => (&args[..], &outs[..]),
            Work::Exchange { arg, out, .. } => {
                (std::slice::from_ref(arg), std::slice::from_ref(out))
            }
            Work::Position { out, .. } => (&[][..], std::slice::from_ref(out)),
        };
        for slot in args.iter().chain(outs) {
            if !std::mem::replace(&mut seen[*slot], true) {
                step.dead.push(*slot);
            }
        }
    }
}

fn division(program: &Program, var: Var, tiling: &Tiling, mesh: &MeshAxes) -> Division {
    let part = aval(program, var).shape().to_vec();
    let start = |device| tiling.start(mesh, device, &part).expect(CHECKED);
    Division {
        whole: tiling.global(mesh, &part).expect(CHECKED),
        starts: (0..mesh.n_devices()).map(start).collect(),
        part,
    }
}

fn of_segment(segment: &Program, slots: &mut Slots) -> Work {
    let args = segment.params.iter().map(|param| slots.of(*param));
    let args = args.collect();
    let outs = segment.outs.iter().map(|out| slots.push(segment, *out));
    Work::Segment {
        args,
        outs: outs.collect(),
        nanos: nanos(segment),
        body: Box::new(body(segment).body),
    }
}

/// Returns an estimate of the time of a program.
fn nanos(program: &Program) -> usize {
    let cost = cost::of_program(program);
    let known = |poly: &Option<gradloom_ir::Poly>| {
        let n = poly.as_ref().and_then(|poly| poly.as_constant());
        n.and_then(|n| usize::try_from(n).ok())
    };
    let all = [&cost.flops, &cost.transcendentals, &cost.bytes].map(known);
    match all {
        [Some(flops), Some(transcendentals), Some(bytes)] => {
            flops / 4 + transcendentals + bytes / 8
        }
        // A loop. Its cost is unknown, and it is worth a thread.
        _ => 1_000_000,
    }
}

fn of_collective(program: &Program, eqn: &Eqn, mesh: &MeshAxes, slots: &mut Slots) -> Work {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let along = mesh.positions(over(eqn.op, &statics)).expect(CHECKED);
    let groups = mesh.groups(&along);
    let Some(x) = eqn.args.first() else {
        let out = slots.push(program, eqn.out());
        return Work::Position { groups, out };
    };
    let shape = aval(program, *x).shape().to_vec();
    let out_shape = aval(program, eqn.out()).shape().to_vec();
    let axis = |i: usize| {
        let axis = shape::known_axis(&statics[i], shape.len());
        axis.ok().flatten().expect(CHECKED)
    };
    let blocks = |i: usize| Blocks::of(&shape, axis(i));
    let exchange = match eqn.op {
        Op::AllReduce => Exchange::Reduce(match statics[0].reduce().expect(CHECKED) {
            Reduction::Sum => Fold::Sum,
            Reduction::Max => Fold::Max,
            Reduction::Min => Fold::Min,
            Reduction::Prod => Fold::Product,
        }),
        Op::AllGather => Exchange::Gather(blocks(0)),
        Op::AllSlice => Exchange::Slice(blocks(0)),
        Op::ReduceScatter => Exchange::ReduceScatter(blocks(0)),
        Op::AllToAll => Exchange::AllToAll {
            split: blocks(0),
            concat: Blocks::of(&out_shape, axis(1)),
        },
        Op::Ppermute => {
            let n = groups.first().map_or(0, Vec::len);
            Exchange::Permute((0..n).map(|to| sender(&statics[0], to)).collect())
        }
        op => unreachable!("`segments` leaves no `{op}`"),
    };
    Work::Exchange {
        exchange,
        groups,
        arg: slots.of(*x),
        out: slots.push(program, eqn.out()),
    }
}
