//! The report on a sharded program: specs, collectives, bytes, time and memory.

use super::choose::{Computed, Item};
use super::factors::{Factors, shape_of};
use super::grid::{Grid, Layout};
use super::reshard::{Step, local_bytes};
use super::time::Speed;
use super::{Sharded, name_of};
use crate::hash::HashMap;
use crate::op::{Count, range};
use crate::sharding::{AxisRef, ShardingSpec};
use crate::{Eqn, Line, Op, Poly, Program, Static, Var, cost};
use std::collections::BTreeSet;
use std::fmt;

/// A collective of a sharded program.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// The name of the op: `all_reduce`, for example.
    pub name: &'static str,
    /// The value that it moves.
    pub var: Var,
    /// The name of the value.
    pub value: String,
    /// The axes of the mesh along which devices exchange data.
    pub axes: Vec<AxisRef>,
    /// The number of devices of a group.
    pub n_devices: usize,
    /// The bytes that each device sends.
    pub sent: u128,
    /// The estimated seconds.
    pub seconds: f64,
    /// The index of the equation before which it runs, or the number of equations at the end.
    pub before: usize,
    /// The line of the user's code that needs it, if the program has lines: that of the value if partial values are
    /// reduced, and that of the equation which reads the value otherwise.
    pub line: Option<Line>,
}

/// Work and costs of a sharded program, by [`Sharded::explain`].
///
/// Prints as a table: the parameters, equations and results with their specs, and each collective with
/// the bytes that a device sends and the time it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The collectives in order.
    pub collectives: Vec<Collective>,
    /// The floating-point operations of each device, as far as they are known. A loop whose number of turns depends on
    /// values counts for one turn, and a choice between programs for the longest.
    pub flops: f64,
    /// The bytes of the parts of the parameters. One of which only the shape is read has none.
    pub params: u128,
    /// The most bytes that a device holds at once: its parts of the parameters, and of each other value
    /// from where it is computed to its last consumer. A value that repeats one number takes none.
    pub memory: u128,
    /// The estimated seconds of all equations.
    pub compute_seconds: f64,
    lines: Vec<String>,
}

impl Explanation {
    /// Returns the bytes that each device sends.
    pub fn sent(&self) -> u128 {
        self.collectives.iter().map(|of| of.sent).sum()
    }

    /// Returns the estimated seconds of all collectives.
    pub fn collective_seconds(&self) -> f64 {
        // The sum of no numbers is -0.0, which prints with its sign.
        self.collectives
            .iter()
            .fold(0.0, |sum, of| sum + of.seconds)
    }

    /// Returns the estimated seconds of the program. Computation and communication do not overlap.
    pub fn seconds(&self) -> f64 {
        self.compute_seconds + self.collective_seconds()
    }

    /// Returns the number of collectives and the bytes that a device sends, for each line of the user's code, in the
    /// order of the first collective. A line has the column of the first one. `None` stands for collectives whose line is
    /// not known.
    pub fn by_line(&self) -> Vec<(Option<Line>, usize, u128)> {
        let mut lines: Vec<(Option<Line>, usize, u128)> = Vec::new();
        let place = |line: Option<Line>| line.map(|line| (line.file(), line.line()));
        for of in &self.collectives {
            let mut known = lines.iter_mut();
            match known.find(|(line, ..)| place(*line) == place(of.line)) {
                Some((_, n, sent)) => {
                    *n += 1;
                    *sent += of.sent;
                }
                None => lines.push((of.line, 1, of.sent)),
            }
        }
        lines
    }

    /// Returns the number of collectives and the bytes that a device sends, for each name and list of
    /// axes, in the order of the first one.
    pub fn by_kind(&self) -> Vec<(&'static str, Vec<AxisRef>, usize, u128)> {
        let mut kinds: Vec<(&'static str, Vec<AxisRef>, usize, u128)> = Vec::new();
        for of in &self.collectives {
            let found = kinds
                .iter_mut()
                .find(|(name, axes, ..)| *name == of.name && *axes == of.axes);
            match found {
                Some((_, _, n, sent)) => {
                    *n += 1;
                    *sent += of.sent;
                }
                None => kinds.push((of.name, of.axes.clone(), 1, of.sent)),
            }
        }
        kinds
    }
}

impl Sharded {
    /// Returns the work and the costs of the program on devices of this speed.
    ///
    /// Only shapes are read, so a program may be far larger than this machine could run.
    ///
    /// ```
    /// use gradloom_ir::Program;
    /// use gradloom_ir::sharding::{Mesh, ShardingSpec};
    /// use gradloom_ir::spmd::{Constraints, Speed, shard};
    /// use std::sync::Arc;
    ///
    /// let program: Program = "(x: f32[1000, 4]) {
    ///     y = sum[axes=[0], keepdims=false] x, like x
    ///     return y
    /// }".parse()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", 8)])?);
    /// let params = vec![Some(ShardingSpec::split(&mesh, &[&["data"], &[]])?)];
    /// let sharded = shard(&program, &mesh, &Constraints { params, ..Default::default() })?;
    /// let explained = sharded.explain(&Speed::default());
    /// assert_eq!(explained.collectives[0].name, "all_reduce");
    /// assert_eq!(explained.sent(), 28);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, speed: &Speed) -> Explanation {
        let mut report = Report {
            of: self,
            speed,
            unstored: unstored(&self.program, &self.factors),
            explanation: Explanation {
                collectives: Vec::new(),
                flops: 0.0,
                params: 0,
                memory: 0,
                compute_seconds: 0.0,
                lines: Vec::new(),
            },
        };
        report.write();
        report.explanation
    }
}

struct Report<'a> {
    of: &'a Sharded,
    speed: &'a Speed,
    /// The variables that take no memory.
    unstored: BTreeSet<Var>,
    explanation: Explanation,
}

impl Report<'_> {
    fn write(&mut self) {
        let Sharded {
            program,
            grid,
            params,
            outs,
            items,
            ..
        } = self.of;
        let mut lines = vec![grid.mesh().to_string()];
        for (var, layout) in program.params.iter().zip(params) {
            lines.push(match self.unstored.contains(var) {
                true => format!(
                    "param  {}: {}, of which only the shape is read",
                    name_of(program, *var),
                    program.aval(*var)
                ),
                false => format!("param  {}", self.described(*var, layout)),
            });
            self.explanation.params += self.held(*var, layout);
        }
        let mut at = 0;
        for item in items {
            match item {
                Item::Move { var, from, path } => {
                    let mut before = from;
                    for (step, to) in &path.steps {
                        if let Some(name) = step.name() {
                            let collective = self.collective(name, *var, before, step, at);
                            lines.push(line(&collective, *var, program, grid, to));
                            self.explanation.collectives.push(collective);
                        }
                        before = to;
                    }
                }
                Item::Compute(computed) => {
                    at = computed.eqn + 1;
                    lines.push(self.computed(computed));
                }
            }
        }
        for (var, layout) in program.outs.iter().zip(outs) {
            lines.push(format!("result {}", self.described(*var, layout)));
        }
        self.explanation.memory = self.explanation.params + self.peak();
        self.explanation.lines = lines;
    }

    fn bytes(&self, var: Var, layout: &Layout) -> u128 {
        let program = &self.of.program;
        let shape = shape_of(program, var).expect("all shapes are known");
        let dtype = program.aval(var).dtype.expect("all dtypes are known");
        local_bytes(&self.of.grid, &shape, dtype.size(), layout)
    }

    /// Returns the bytes of a value in the memory of a device.
    fn held(&self, var: Var, layout: &Layout) -> u128 {
        match self.unstored.contains(&var) {
            true => 0,
            false => self.bytes(var, layout),
        }
    }

    /// Returns `w: f32[8, 4] sharding<..>, 64 B per device`.
    fn described(&self, var: Var, layout: &Layout) -> String {
        let program = &self.of.program;
        format!(
            "{}: {} {}, {} per device",
            name_of(program, var),
            program.aval(var),
            short(&self.of.grid.spec(layout)),
            Bytes(self.held(var, layout))
        )
    }

    fn collective(
        &self,
        name: &'static str,
        var: Var,
        before: &Layout,
        step: &Step,
        at: usize,
    ) -> Collective {
        let grid = &self.of.grid;
        let n = grid.n_parts(step.over());
        let sent = step.sent(self.bytes(var, before), n as u128);
        // The list of axes is canonical in a spec.
        let over = Layout {
            dims: vec![step.over().to_vec()],
            partial: Vec::new(),
        };
        Collective {
            name,
            var,
            value: name_of(&self.of.program, var),
            axes: grid.spec(&over).dims()[0].axes.clone(),
            n_devices: n,
            sent,
            seconds: self.speed.of_step(grid, step, sent),
            before: at,
            line: self.line(var, !before.partial.is_empty(), at),
        }
    }

    /// Returns the line that needs a step of a value before equation `at`.
    fn line(&self, var: Var, is_reduced: bool, at: usize) -> Option<Line> {
        let program = &self.of.program;
        let own = program.lines.get(var);
        let last = at.checked_sub(1).map(|last| &program.eqns[last]);
        let is_made_here = last.is_some_and(|eqn| eqn.outs.contains(&var));
        let reader = program
            .eqns
            .get(at)
            .and_then(|eqn| program.lines.get(eqn.outs[0]));
        let [first, second] = match is_reduced || is_made_here {
            true => [own, reader],
            false => [reader, own],
        };
        first.or(second).copied()
    }

    /// Counts an equation, and returns its line.
    fn computed(&mut self, computed: &Computed) -> String {
        let program = &self.of.program;
        let eqn = &program.eqns[computed.eqn];
        let parts: Vec<usize> = computed
            .split
            .iter()
            .map(|atoms| self.of.grid.n_parts(atoms))
            .collect();
        let n_parts: usize = parts.iter().product();
        let inner = Work::of(program, eqn);
        let flops = inner.flops / n_parts as f64;
        let operands = eqn.data().iter().zip(&computed.operands);
        let values = operands.chain(eqn.outs.iter().zip(&computed.results));
        let traffic: u128 = match eqn.op.def().count() {
            Count::View => 0,
            _ => values.map(|(var, layout)| self.held(*var, layout)).sum(),
        };
        self.explanation.flops += flops;
        let traffic = traffic as f64 + inner.bytes_inside / n_parts as f64;
        self.explanation.compute_seconds += self.speed.of_eqn(flops, traffic);
        let outs = eqn.outs.iter().zip(&computed.results);
        let outs = outs.map(|(var, layout)| {
            let name = name_of(program, *var);
            let spec = short(&self.of.grid.spec(layout));
            format!("{name}: {} {spec}", program.aval(*var))
        });
        let outs: Vec<String> = outs.collect();
        let args = eqn.args.iter().map(|var| name_of(program, *var));
        let args: Vec<String> = args.collect();
        let runs_code = |value: &Static| value.programs().is_some() || value.code().is_some();
        let runs_whole = computed.split.iter().all(Vec::is_empty)
            && eqn.attrs.iter().any(|attr| runs_code(program.attr(*attr)));
        let has_axes = !self.of.factors[computed.eqn].all.is_empty();
        let note = match computed.is_gathered || runs_whole {
            true if has_axes => "; all devices compute it whole",
            true => "; no axis of the op can be split, so all devices compute it whole",
            false => "",
        };
        let turns = match inner.turns_unknown {
            true => "; one turn of it counts",
            false => "",
        };
        format!(
            "{} = {} {}{note}{turns}",
            outs.join(", "),
            eqn.op,
            args.join(", ")
        )
    }

    /// Returns the most bytes of values other than parameters that a device holds at once.
    fn peak(&self) -> u128 {
        let program = &self.of.program;
        let items = &self.of.items;
        // The index of the last item that reads a part.
        let mut last: HashMap<(Var, &Layout), usize> = HashMap::default();
        for (at, item) in items.iter().enumerate() {
            match item {
                Item::Move { var, from, .. } => {
                    last.insert((*var, from), at);
                }
                Item::Compute(computed) => {
                    let eqn = &program.eqns[computed.eqn];
                    for (var, layout) in eqn.data().iter().zip(&computed.operands) {
                        last.insert((*var, layout), at);
                    }
                }
            }
        }
        for (var, layout) in program.outs.iter().zip(&self.of.outs) {
            last.insert((*var, layout), items.len());
        }
        let mut freed: Vec<u128> = vec![0; items.len() + 1];
        let (mut held, mut most) = (0, 0);
        for (at, item) in items.iter().enumerate() {
            let made: Vec<(Var, &Layout)> = match item {
                Item::Move { var, from, path } => vec![(*var, Item::target(from, path))],
                Item::Compute(computed) => {
                    let outs = &program.eqns[computed.eqn].outs;
                    outs.iter().copied().zip(&computed.results).collect()
                }
            };
            for (var, layout) in made {
                let bytes = self.held(var, layout);
                held += bytes;
                freed[last.get(&(var, layout)).copied().unwrap_or(at)] += bytes;
            }
            most = most.max(held);
            held -= freed[at];
        }
        most
    }
}

/// Returns the variables that take no memory: those that repeat one number, and parameters of which only the shape is
/// read.
fn unstored(program: &Program, factors: &[Factors]) -> BTreeSet<Var> {
    let mut none = repeated(program, factors);
    let data = program.eqns.iter().flat_map(|eqn| eqn.data());
    let read: BTreeSet<&Var> = data.chain(&program.outs).collect();
    none.extend(program.params.iter().filter(|param| !read.contains(param)));
    none
}

/// Returns the variables that repeat one number.
fn repeated(program: &Program, factors: &[Factors]) -> BTreeSet<Var> {
    let mut found = BTreeSet::new();
    for (eqn, factors) in program.eqns.iter().zip(factors) {
        let of_repeated =
            !eqn.data().is_empty() && eqn.data().iter().all(|var| found.contains(var));
        let is_made = range::number(program, eqn).is_some();
        if is_made || of_repeated && (eqn.op.is_view() || is_uniform(program, eqn, factors)) {
            found.extend(&eqn.outs);
        }
    }
    found
}

/// Returns whether an equation does the same at all positions: parts along each axis are computed alike.
fn is_uniform(program: &Program, eqn: &Eqn, factors: &Factors) -> bool {
    let attrs = eqn.attrs.iter().map(|attr| program.attr(*attr));
    let mut values = factors.values(eqn);
    attrs.into_iter().all(|value| value.code().is_none())
        && values.all(|(var, axes)| {
            let shape = shape_of(program, var).expect("all shapes are known");
            let mut axes = axes.iter().zip(shape);
            axes.all(|(factor, len)| factor.is_some() || len <= 1)
        })
}

/// Returns whether each result of a program repeats one number, whatever the parameters are.
pub fn repeats_numbers(program: &Program) -> bool {
    let factors = program.eqns.iter().map(|eqn| Factors::new(program, eqn));
    let Ok(factors) = factors.collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let found = repeated(program, &factors);
    program.outs.iter().all(|out| found.contains(out))
}

/// The work of an equation, with that of the programs that it runs.
#[derive(Default)]
struct Work {
    /// Floating-point operations, as far as they are known.
    flops: f64,
    /// The bytes that the programs read and write.
    bytes_inside: f64,
    /// True if the number of turns of a loop depends on values.
    turns_unknown: bool,
}

impl Work {
    fn of(program: &Program, eqn: &Eqn) -> Work {
        let number = |poly: &Option<Poly>| {
            let number = poly.as_ref().and_then(Poly::as_constant);
            number.unwrap_or(0) as f64
        };
        let attrs = || eqn.attrs.iter().map(|attr| program.attr(*attr));
        let Some(programs) = attrs().find_map(Static::programs) else {
            let cost = cost::of_eqn(program, eqn);
            return Work {
                flops: number(&cost.flops) + number(&cost.transcendentals),
                ..Work::default()
            };
        };
        let inside = |program: &Program| {
            let mut sum = Work::default();
            for eqn in &program.eqns {
                let work = Work::of(program, eqn);
                sum.flops += work.flops;
                sum.bytes_inside += work.bytes_inside + number(&cost::of_eqn(program, eqn).bytes);
                sum.turns_unknown |= work.turns_unknown;
            }
            sum
        };
        let mut all: Vec<Work> = programs.iter().map(inside).collect();
        match eqn.op {
            Op::While | Op::WhileBack => {
                let sum = |of: fn(&Work) -> f64| all.iter().map(of).sum();
                Work {
                    flops: sum(|work| work.flops),
                    bytes_inside: sum(|work| work.bytes_inside),
                    turns_unknown: true,
                }
            }
            Op::Switch => {
                all.sort_by(|a, b| b.flops.total_cmp(&a.flops));
                all.into_iter().next().unwrap_or_default()
            }
            // The others run the first program: those of custom rules are for derivatives.
            op => {
                let mut first = all.into_iter().next().unwrap_or_default();
                if op == Op::Scan {
                    let n = attrs().find_map(Static::int).unwrap_or(1) as f64;
                    first.flops *= n;
                    first.bytes_inside *= n;
                }
                first
            }
        }
    }
}

fn line(of: &Collective, var: Var, program: &Program, grid: &Grid, to: &Layout) -> String {
    let axes: Vec<String> = of.axes.iter().map(AxisRef::to_string).collect();
    let place = of
        .line
        .map(|line| format!("; for {line}"))
        .unwrap_or_default();
    format!(
        "  {} {} over {}: each device sends {}, {}; {} {}{place}",
        of.name,
        of.value,
        axes.join(", "),
        Bytes(of.sent),
        Seconds(of.seconds),
        program.aval(var),
        short(&grid.spec(to))
    )
}

/// Returns a spec without its mesh.
fn short(spec: &ShardingSpec) -> String {
    let text = spec.to_string();
    let start = text.find('[').unwrap_or(0);
    text[start..].trim_end_matches('>').to_owned()
}

/// A number of bytes. Prints `512 B`, `1.50 KiB` and so on.
struct Bytes(u128);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut scaled = self.0 as f64;
        let mut unit = None;
        for name in units {
            if scaled < 1024.0 {
                break;
            }
            scaled /= 1024.0;
            unit = Some(name);
        }
        match unit {
            Some(unit) => write!(f, "{scaled:.2} {unit}"),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A time. Prints `1.50 us`, `1.50 ms` or `1.50 s`.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 1e-3 => write!(f, "{:.2} us", s * 1e6),
            s if s < 1.0 => write!(f, "{:.2} ms", s * 1e3),
            s => write!(f, "{s:.2} s"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f)?;
        f.write_str(&self.summary())
    }
}

impl Explanation {
    /// Returns the totals: a line for each kind of collective, then bytes, time and memory.
    pub fn summary(&self) -> String {
        let mut lines = Vec::new();
        for (name, axes, n, sent) in self.by_kind() {
            let axes: Vec<String> = axes.iter().map(AxisRef::to_string).collect();
            let axes = axes.join(", ");
            lines.push(format!("{n} {name} over {axes}: {}", Bytes(sent)));
        }
        lines.push(format!(
            "each device sends {} and computes {:.3e} flops",
            Bytes(self.sent()),
            self.flops
        ));
        lines.push(format!(
            "estimated time: {}, of which {} compute and {} collectives",
            Seconds(self.seconds()),
            Seconds(self.compute_seconds),
            Seconds(self.collective_seconds())
        ));
        lines.push(format!(
            "memory per device: {}, of which {} parameters",
            Bytes(self.memory),
            Bytes(self.params)
        ));
        lines.join("\n")
    }
}
