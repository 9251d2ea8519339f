//! The page of a program that devices compute together.

use crate::{Metadata, Page, PlanStep, PlanTable, VarInfo};
use gradloom_ir::spmd::{Collective, Sharded, Speed};

impl Page {
    /// Returns a page of a program that devices compute together: the graph, where each value has its spec
    /// and what is sent of it, and the collectives with their bytes and times as the plan.
    ///
    /// ```
    /// use gradloom_ir::Program;
    /// use gradloom_ir::sharding::{Mesh, ShardingSpec};
    /// use gradloom_ir::spmd::{Constraints, Speed, shard};
    /// use gradloom_view::Page;
    /// use std::sync::Arc;
    ///
    /// let program: Program = "(x: f32[8, 4]) {
    ///     y = sum[axes=[0], keepdims=false] x, like x
    ///     return y
    /// }".parse()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", 8)])?);
    /// let params = vec![Some(ShardingSpec::split(&mesh, &[&["data"], &[]])?)];
    /// let sharded = shard(&program, &mesh, &Constraints { params, ..Default::default() })?;
    /// let html = Page::of_sharded("sum", &sharded, &Speed::default()).html();
    /// assert!(html.contains("all_reduce over &quot;data&quot;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_sharded(title: impl Into<String>, sharded: &Sharded, speed: &Speed) -> Page {
        let program = sharded.program();
        let explained = sharded.explain(speed);
        let specs = sharded.specs();
        let outs = program.eqns.iter().flat_map(|eqn| &eqn.outs);
        let vars = program.params.iter().chain(outs).copied();
        let info = |var| {
            let spec = specs
                .get(var)
                .map(|spec| ("spec".to_owned(), spec.to_string()));
            let of_var = explained.collectives.iter().filter(|of| of.var == var);
            let sent = of_var.map(|of| ("sent".to_owned(), sent(of)));
            let notes = spec.into_iter().chain(sent).collect();
            VarInfo {
                notes,
                ..VarInfo::default()
            }
        };
        let metadata: Metadata = vars.map(|var| (var, info(var))).collect();
        let step = |of: &Collective| PlanStep {
            kernel: format!("{} over {}", of.name, axes(of)),
            values: vec![of.value.clone()],
            bytes: u64::try_from(of.sent).ok(),
            note: format!("{:.3e} s in groups of {}", of.seconds, of.n_devices),
        };
        let plan = PlanTable {
            steps: explained.collectives.iter().map(step).collect(),
            text: explained.to_string(),
        };
        Page::new(title).forward(program, metadata).plan(plan)
    }
}

fn axes(of: &Collective) -> String {
    let axes: Vec<String> = of.axes.iter().map(ToString::to_string).collect();
    axes.join(", ")
}

fn sent(of: &Collective) -> String {
    format!("{} B by {} over {}", of.sent, of.name, axes(of))
}
