//! Programs on several devices: Shardy annotations, and collectives in manual mode.

use super::{Results, program};
use crate::ExportError;
use crate::equation::Equation;
use crate::text::{Element, Text, Value};
use gradloom_ir::mesh::Tiling;
use gradloom_ir::op::control::{ShardMapParts, ShardedParts};
use gradloom_ir::op::shape;
use gradloom_ir::sharding::{AxisRef, DimSharding, Mesh, Reduction, ShardingSpec};
use gradloom_ir::{Op, StaticKind};

/// Returns the Shardy form of a spec, as in `<@mesh, [{"x"}, {}]>`, and declares its mesh.
pub(crate) fn sharding(t: &mut Text, spec: &ShardingSpec) -> Result<String, ExportError> {
    if !spec.partial().is_empty() {
        return Err(ExportError::Partial {
            spec: spec.to_string(),
        });
    }
    let mesh = declared(t, spec.mesh())?;
    let dim = |dim: &DimSharding| match dim.axes.is_empty() && !dim.is_open {
        // There is nothing to propagate, so Shardy refuses a priority.
        true => "{}".to_owned(),
        false => dim.to_string(),
    };
    let dims: Vec<String> = spec.dims().iter().map(dim).collect();
    let replicated: Vec<String> = spec
        .replicated_axes()
        .iter()
        .map(AxisRef::to_string)
        .collect();
    let replicated = match replicated.is_empty() {
        true => String::new(),
        false => format!(", replicated={{{}}}", replicated.join(", ")),
    };
    Ok(format!("<@{mesh}, [{}]{replicated}>", dims.join(", ")))
}

/// Declares a mesh and returns its name in the module.
fn declared(t: &mut Text, mesh: &Mesh) -> Result<String, ExportError> {
    let axes = mesh.axes().iter();
    let axes: Vec<String> = axes
        .map(|axis| format!("\"{}\"={}", axis.name, axis.size))
        .collect();
    let mut text = format!("<[{}]", axes.join(", "));
    if mesh
        .devices()
        .iter()
        .enumerate()
        .any(|(i, device)| i != *device)
    {
        text += &format!(", device_ids={:?}", mesh.devices());
    }
    t.mesh(mesh.name(), &(text + ">"), mesh.n_devices())
}

pub(super) fn sharding_constraint(t: &mut Text, of: &Equation<'_>) -> Results {
    let spec = of.statics[0].sharding().expect("the op has a spec");
    Ok(vec![constrained(t, of.x(), Some(spec))?])
}

fn constrained(t: &mut Text, x: &Value, spec: Option<&ShardingSpec>) -> Result<Value, ExportError> {
    let Some(spec) = spec else {
        return Ok(x.clone());
    };
    let text = sharding(t, spec)?;
    Ok(t.sharding_constraint(x, &text))
}

/// Appends a program whose operands and results have specs. XLA divides it over the devices.
pub(super) fn sharded(t: &mut Text, of: &Equation<'_>) -> Results {
    let ShardedParts {
        body, ins, outs, ..
    } = ShardedParts::of(&of.statics);
    let constrain = |t: &mut Text, values: &[Value], specs: &[Option<ShardingSpec>]| -> Results {
        let pairs = values.iter().zip(specs);
        pairs
            .map(|(x, spec)| constrained(t, x, spec.as_ref()))
            .collect()
    };
    let args = constrain(t, &of.args, ins)?;
    let results = program(t, body, &args)?;
    constrain(t, &results, outs)
}

/// Returns the Shardy form of a division of a value.
fn tiled(mesh: &str, tiling: &Tiling) -> String {
    let dim = |axes: &Vec<gradloom_ir::Symbol>| {
        let axes: Vec<String> = axes.iter().map(|axis| format!("\"{axis}\"")).collect();
        format!("{{{}}}", axes.join(", "))
    };
    let dims: Vec<String> = tiling.0.iter().map(dim).collect();
    format!("<@{mesh}, [{}]>", dims.join(", "))
}

/// Appends a program of each device on its parts of the operands.
pub(super) fn shard_map(t: &mut Text, of: &Equation<'_>) -> Results {
    let ShardMapParts {
        body,
        mesh,
        ins,
        outs,
    } = ShardMapParts::of(&of.statics);
    if mesh.n_devices() == 1 {
        // XLA has no manual mode on one device, whose parts are the whole values.
        let outer = t.devices.replace(mesh.clone());
        let results = program(t, body, &of.args);
        t.devices = outer;
        return results;
    }
    let axes = mesh.axes().iter();
    let axes: Vec<String> = axes
        .map(|(name, size)| format!("\"{name}\"={size}"))
        .collect();
    let text = format!("<[{}]>", axes.join(", "));
    let name = t.mesh("devices", &text, mesh.n_devices())?;
    let specs = |all: &[Tiling]| {
        let all: Vec<String> = all.iter().map(|tiling| tiled(&name, tiling)).collect();
        all.join(", ")
    };
    let manual: Vec<String> = mesh
        .axes()
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let attrs = format!(
        " in_shardings=[{}] out_shardings=[{}] manual_axes={{{}}}",
        specs(ins),
        specs(outs),
        manual.join(", ")
    );
    let mut params = Vec::new();
    for param in &body.params {
        let ty = crate::equation::type_of(body, *param);
        let ty = ty.map_err(|aval| ExportError::UnknownType {
            op: Some(of.op),
            aval,
        })?;
        params.push(t.named("", ty.element, &ty.shape));
    }
    let results: Vec<Value> = of
        .outs
        .iter()
        .map(|out| t.named("", out.element, &out.shape))
        .collect();
    let outer = t.devices.replace(mesh.clone());
    let outs = t.manual(&of.args, &attrs, &params, &results, |t, args| {
        program(t, body, args)
    });
    t.devices = outer;
    outs
}

/// The devices that a collective works on.
struct Group {
    /// The devices of each group, in order.
    all: Vec<Vec<usize>>,
    /// Number of devices of a group.
    len: usize,
    /// The numbers of devices that a step along each of its axes skips, and along the axis itself.
    strides: Vec<[usize; 2]>,
}

impl Group {
    fn new(t: &Text, of: &Equation<'_>) -> Result<Group, ExportError> {
        let mesh = t.devices.clone();
        let mesh = mesh.ok_or(ExportError::NoDevices { op: of.op })?;
        let at = of
            .op
            .static_at(StaticKind::Mesh)
            .expect("a collective has a group");
        let over = of.statics[at].mesh().expect("a collective has a group");
        let axes = mesh.positions(over).expect("the rules check the axes");
        let size = |axis: usize| mesh.axes()[axis].1;
        let skips = |axis: usize| (axis + 1..mesh.axes().len()).map(size).product();
        Ok(Group {
            all: mesh.groups(&axes),
            len: over.n_devices(),
            strides: axes
                .iter()
                .map(|axis| [skips(*axis), size(*axis)])
                .collect(),
        })
    }

    /// Returns the attributes of all collectives.
    fn attrs(&self, t: &mut Text) -> String {
        let groups: Vec<String> = self.all.iter().map(|group| format!("{group:?}")).collect();
        format!(
            "channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>, replica_groups = dense<[{}]> : tensor<{}x{}xi64>",
            t.channel(),
            groups.join(", "),
            self.all.len(),
            self.len
        )
    }

    /// Appends the position of the device in its group.
    fn index(&self, t: &mut Text) -> Value {
        let device = t.partition_id();
        let device = t.convert(&device, Element::I64);
        let mut index = t.full(0, Element::I64, &[]);
        for [stride, size] in &self.strides {
            let stride = t.full(*stride, Element::I64, &[]);
            let along = t.div(&device, &stride);
            let size_of = t.full(*size, Element::I64, &[]);
            let along = t.binary("remainder", &along, &size_of);
            let scaled = t.times(&index, *size);
            index = t.add(&scaled, &along);
        }
        index
    }
}

/// Appends an op on the values of the devices of a group.
pub(super) fn collective(t: &mut Text, of: &Equation<'_>) -> Results {
    let group = Group::new(t, of)?;
    let element = of.out().element;
    let shape = of.shape().to_vec();
    let axis = |i: usize| shape::axis(of.int(i), of.x().rank()).expect("the rules check the axis");
    if group.len == 1 {
        return Ok(vec![match of.op {
            Op::AxisIndex => t.full(0, element, &shape),
            Op::Ppermute if of.ints(0).is_empty() => t.full(0, element, &shape),
            _ => of.x().clone(),
        }]);
    }
    let y = match of.op {
        Op::Pvary => of.x().clone(),
        Op::AxisIndex => group.index(t),
        Op::AllReduce => {
            let reduce = of.statics[0].reduce().expect("the op has a reduction");
            let is_bool = element == Element::I1;
            let combine: fn(&mut Text, &Value, &Value) -> Value = match reduce {
                Reduction::Sum => Text::add,
                Reduction::Prod => Text::mul,
                Reduction::Max if is_bool => Text::or,
                Reduction::Min if is_bool => Text::and,
                Reduction::Max => Text::max,
                Reduction::Min => Text::min,
            };
            let attrs = group.attrs(t) + ", use_global_device_ids";
            t.reduced("all_reduce", of.x(), &shape, &attrs, combine)
        }
        Op::ReduceScatter => {
            let attrs = group.attrs(t);
            let attrs = format!(
                "{attrs}, scatter_dimension = {} : i64, use_global_device_ids",
                axis(0)
            );
            t.reduced("reduce_scatter", of.x(), &shape, &attrs, Text::add)
        }
        Op::AllGather => {
            let attrs = group.attrs(t);
            let attrs = format!(
                "all_gather_dim = {} : i64, {attrs}, use_global_device_ids",
                axis(0)
            );
            t.moved_between("all_gather", of.x(), &shape, &attrs)
        }
        Op::AllToAll => {
            let attrs = group.attrs(t);
            let attrs = format!(
                "{attrs}, concat_dimension = {} : i64, split_count = {} : i64, split_dimension = {} : i64",
                axis(1),
                group.len,
                axis(0)
            );
            t.moved_between("all_to_all", of.x(), &shape, &attrs)
        }
        Op::Ppermute => {
            let pairs = of.ints(0).chunks_exact(2);
            let pairs = pairs.flat_map(|pair| {
                group
                    .all
                    .iter()
                    .map(move |group| [group[pair[0] as usize], group[pair[1] as usize]])
            });
            let pairs: Vec<String> = pairs.map(|pair| format!("{pair:?}")).collect();
            if pairs.is_empty() {
                return Ok(vec![t.full(0, element, &shape)]);
            }
            let attrs = format!(
                "channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>, source_target_pairs = dense<[{}]> : tensor<{}x2xi64>",
                t.channel(),
                pairs.join(", "),
                pairs.len()
            );
            t.moved_between("collective_permute", of.x(), &shape, &attrs)
        }
        Op::AllSlice => {
            let axis = axis(0);
            let index = group.index(t);
            let start = t.times(&index, shape[axis]);
            let zero = t.full(0, Element::I64, &[]);
            let mut starts = vec![zero; shape.len()];
            starts[axis] = start;
            t.dynamic_slice(of.x(), &starts, &shape)
        }
        op => unreachable!("`{op}` is not a collective"),
    };
    Ok(vec![y])
}
