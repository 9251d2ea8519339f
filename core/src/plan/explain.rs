//! Describes a plan as text.

use super::Plan;
use crate::backend::{BodyKinds, Eqns, TaskKind};
use gradloom_ir::{Poly, Program, cost};
use gradloom_kernels::task::{Region, RegionBase, Task};
use std::fmt::Write;

/// Largest number of ops of a group that are listed by name.
const MOST_NAMES: usize = 8;

impl Plan {
    /// Returns one line for the plan and one for each task.
    ///
    /// `program` is the simplified program that was planned. Without it, or if an op does not know
    /// its cost, the arithmetic is left out.
    pub(crate) fn explain(&self, program: Option<&Program>) -> String {
        let (n, s) = (
            self.tasks.len(),
            if self.tasks.len() == 1 { "" } else { "s" },
        );
        let made = self.tasks.iter().flat_map(|task| task.outs());
        let made: usize = made
            .filter(|r| r.base == RegionBase::Arena)
            .map(bytes)
            .sum();
        let mut text = format!(
            "{} equations in {n} task{s}; results {}, intermediate values {} in an arena of {}",
            self.n_equations,
            size(self.result_bytes()),
            size(made),
            size(self.needs.arena)
        );
        let works: Vec<Option<TaskCost>> = self.eqns.iter().map(|e| work(program?, e)).collect();
        let total = works
            .iter()
            .flatten()
            .fold(TaskCost::default(), |a, b| TaskCost {
                flops: a.flops + b.flops,
                functions: a.functions + b.functions,
            });
        let _ = write!(text, "{total}");
        text.push_str(&self.limit_line());
        for (i, (task, what)) in self.tasks.iter().zip(&self.kinds).enumerate() {
            let total = |regions: &[Region]| size(regions.iter().map(bytes).sum());
            let outs: Vec<String> = task.outs().iter().map(place).collect();
            let _ = write!(
                text,
                "\n{i:4}  {what}: reads {}, writes {} to {}",
                total(task.args()),
                total(task.outs()),
                outs.join(", ")
            );
            if let Some(work) = &works[i] {
                let _ = write!(text, "{work}");
            }
            text.push_str(self.again(&self.eqns[i]));
            bodies(&mut text, what, 6);
        }
        text
    }
}

/// Appends a line for each task of the programs that a task runs, indented by at least `indent`.
fn bodies(text: &mut String, what: &TaskKind, indent: usize) {
    let TaskKind::Control(_, bodies) = what else {
        return;
    };
    for BodyKinds { role, tasks } in bodies {
        let _ = write!(text, "\n{:indent$}{role}:", "");
        for task in tasks {
            let _ = write!(text, "\n{:indent$}  {task}", "");
            self::bodies(text, task, indent + 4);
        }
    }
}

/// Description of a task for a timeline.
pub(crate) struct TaskDescription {
    pub(crate) label: String,
    /// Results of the equations of the task, by name, if the program is known.
    #[cfg(feature = "view")]
    pub(crate) values: Vec<String>,
    /// Bytes of operands and results.
    pub(crate) bytes: usize,
    pub(crate) flops: Option<u64>,
}

impl Plan {
    /// Returns a note for a task that computes values again.
    fn again(&self, eqns: &[u32]) -> &'static str {
        let limited = self.limited.as_ref();
        match limited.is_some_and(|limited| limited.repeats(eqns)) {
            true => " (again)",
            false => "",
        }
    }

    /// Describes each task. `program` is as for [`explain`](Self::explain).
    pub(crate) fn descriptions(&self, program: Option<&Program>) -> Vec<TaskDescription> {
        let tasks = self.tasks.iter().zip(&self.kinds).zip(&self.eqns);
        let describe = |((task, kind), eqns): ((&Task, &TaskKind), &Eqns)| TaskDescription {
            label: format!("{kind}{}", self.again(eqns)),
            #[cfg(feature = "view")]
            values: program.map_or_else(Vec::new, |program| {
                let outs = eqns.iter().flat_map(|i| &program.eqns[*i as usize].outs);
                outs.map(|out| program.show(*out)).collect()
            }),
            bytes: task.args().iter().chain(task.outs()).map(bytes).sum(),
            flops: program
                .and_then(|program| work(program, eqns))
                .and_then(|cost| u64::try_from(cost.flops).ok()),
        };
        tasks.map(describe).collect()
    }
}

/// Arithmetic, according to the formulas of the ops.
#[derive(Default)]
pub(super) struct TaskCost {
    flops: i128,
    /// Evaluations of functions such as `exp`.
    functions: i128,
}

/// Returns the work of some equations, or `None` if that of one is unknown.
pub(super) fn work(program: &Program, eqns: &[u32]) -> Option<TaskCost> {
    let eqns = eqns.iter().map(|i| program.eqns.get(*i as usize));
    let mut total = cost::Cost::ZERO;
    for eqn in eqns {
        total = total.plus(&cost::of_eqn(program, eqn?));
    }
    let number = |poly: Option<Poly>| poly?.as_constant();
    Some(TaskCost {
        flops: number(total.flops)?,
        functions: number(total.transcendentals)?,
    })
}

/// Prints the non-zero counts: `; 1.5 MFLOP; 256 functions`.
impl std::fmt::Display for TaskCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |n: i128| match n {
            0..10_000 => format!("{n} "),
            10_000..10_000_000 => format!("{:.1} k", n as f64 / 1e3),
            10_000_000..10_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
            _ => format!("{:.1} G", n as f64 / 1e9),
        };
        if self.flops > 0 {
            write!(f, "; {}FLOP", count(self.flops))?;
        }
        if self.functions > 0 {
            write!(f, "; {}functions", count(self.functions))?;
        }
        Ok(())
    }
}

fn bytes(region: &Region) -> usize {
    region.len * region.dtype.size()
}

fn place(region: &Region) -> String {
    match region.base {
        RegionBase::Result(i) => format!("result {i}"),
        RegionBase::Arena => format!("arena {}", region.start),
        RegionBase::Leaf(i) => format!("leaf {i}"),
        RegionBase::Constant(i) => format!("constant {i}"),
    }
}

/// Formats a size with a unit that keeps the number short.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

impl std::fmt::Display for TaskKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TaskKind::Op(op) | TaskKind::Control(op, _) => write!(f, "{op}"),
            TaskKind::Host(name) => write!(f, "host_kernel `{name}`"),
            TaskKind::Copy(op) => write!(f, "copy for {op}"),
            TaskKind::Chain(kinds) => {
                for (i, what) in kinds.iter().enumerate() {
                    write!(f, "{}{what}", if i == 0 { "rows of " } else { ", then " })?;
                }
                Ok(())
            }
            TaskKind::Group {
                after,
                ops,
                compiled,
                loops,
            } => {
                if let Some(product) = after {
                    write!(f, "{product}, then ")?;
                }
                match (compiled, loops) {
                    (0, _) => write!(f, "loop of {}", ops.len())?,
                    (_, 1) => write!(f, "compiled loop of {}", ops.len())?,
                    _ => write!(f, "loop of {}, {compiled} of them compiled", ops.len())?,
                }
                let names = ops.iter().take(MOST_NAMES);
                for (i, op) in names.enumerate() {
                    write!(f, "{}{op}", if i == 0 { " (" } else { ", " })?;
                }
                f.write_str(if ops.len() > MOST_NAMES { ", ..)" } else { ")" })
            }
        }
    }
}
