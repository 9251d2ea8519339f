//! The table of cells: which cases there are, and what each takes.

use super::compositions::Composition;
use super::formula::{Formula, Recorded, Transform, Values};
use super::layout::Layout;
use super::limits::{Limits, Machine, Place};
use super::measure::seconds_of_run;
use super::template::Templates;
use super::work::{Bound, Function, Work};
use gradloom::trace::{Program, ProgramPlan};
use gradloom::{DType, Result, Tensor};
use gradloom_ir::Op;
use std::collections::HashMap;
use std::time::Instant;

/// Seconds above which a run is not measured. Its time is estimated from that of a smaller size.
const MOST_SECONDS: f64 = 0.5;

/// Size of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// Operands of about 16 elements, whose time is that of a call.
    Few,
    /// Operands and results that lie in a place.
    In(Place),
}

impl Size {
    /// All sizes, the smallest first.
    pub const ALL: [Size; 5] = [
        Size::Few,
        Size::In(Place::L1),
        Size::In(Place::L2),
        Size::In(Place::L3),
        Size::In(Place::Memory),
    ];

    /// Returns the name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Size::Few => "16",
            Size::In(place) => place.name(),
        }
    }

    /// Returns the bytes of operands and results of this size.
    fn bytes(self, machine: &Machine) -> usize {
        match self {
            // Two values of 16 elements of 8 bytes.
            Size::Few => 256,
            Size::In(place) => machine.working_set(place),
        }
    }
}

/// Choice of cells, and how they are measured.
pub struct Options {
    /// Ops, in the order of the table.
    pub ops: Vec<Op>,
    /// Compositions, after the ops.
    pub compositions: Vec<&'static Composition>,
    /// Dtypes. The first one that an op takes is measured with all layouts and transforms.
    pub dtypes: Vec<DType>,
    /// Sizes.
    pub sizes: Vec<Size>,
    /// Layouts of operands.
    pub layouts: Vec<Layout>,
    /// Transforms.
    pub transforms: Vec<Transform>,
    /// Number of threads.
    pub threads: usize,
    /// Least seconds of the samples of a cell.
    pub min_time: f64,
    /// Whether every layout is measured with every size, transform and dtype.
    pub crossed: bool,
}

impl Options {
    /// Returns whether the options have a cell.
    ///
    /// Unless all are crossed, contiguous operands have all sizes and transforms, other layouts have the sizes of the
    /// second and last cache, and operands after the first one have them forward in the second. Dtypes after the
    /// first one have contiguous operands, and derivatives in the second cache.
    fn has(
        &self,
        layout: Layout,
        operand: usize,
        transform: Transform,
        size: Size,
        is_main: bool,
    ) -> bool {
        let in_second = size == Size::In(Place::L2);
        let in_last = size == Size::In(Place::L3);
        let forward = transform == Transform::Forward;
        let given = match layout {
            Layout::Contiguous => is_main || forward || in_second,
            _ if operand > 0 => is_main && forward && in_second,
            _ => is_main && (in_second && transform != Transform::Jvp || in_last && forward),
        };
        self.crossed || given
    }
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name of the op or the composition.
    pub name: String,
    /// Transform.
    pub transform: Transform,
    /// Dtype of the first operand.
    pub dtype: DType,
    /// Axis along which it works, or `-`.
    pub axis: &'static str,
    /// Layout of one operand. The others are contiguous.
    pub layout: Layout,
    /// Position of that operand.
    pub operand: usize,
    /// Size.
    pub size: Size,
    /// Shapes of the operands.
    pub shapes: String,
    /// What was found.
    pub outcome: Outcome,
}

/// What was found of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The time and the limit.
    Measured(Measured),
    /// It was not measured, because it would take this many seconds.
    TooSlow(f64),
    /// It cannot run, for the given reason.
    Failed(String),
}

/// Time of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds of a run, with its call.
    pub seconds: f64,
    /// Least seconds that the limits allow.
    pub least: f64,
    /// Limit that gives them.
    pub bound: Bound,
    /// Bytes that are read and written.
    pub bytes: [f64; 2],
    /// Arithmetic operations, without functions.
    pub operations: f64,
}

/// Bytes below which a cell is compared with the cheapest call and not with the limits.
const MOST_OF_A_CALL: f64 = 4096.0;

impl Measured {
    /// Returns whether so little is moved that the time is that of a call, whatever the size of the operands is.
    ///
    /// An element of a matrix is an example.
    pub fn is_call(&self) -> bool {
        self.bytes[0] + self.bytes[1] < MOST_OF_A_CALL
    }

    /// Returns the fraction of the limit that is reached.
    pub fn fraction(&self) -> f64 {
        self.least / self.seconds
    }

    /// Returns the fraction without the time of a call that computes nothing much.
    pub fn fraction_without(&self, call: f64) -> f64 {
        self.least / (self.seconds - call).max(self.seconds * 0.01)
    }
}

impl Cell {
    /// Returns the measurement.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            _ => None,
        }
    }

    /// Returns the layout and, after the first one, the position of the operand that has it.
    pub fn layout_name(&self) -> String {
        match self.operand {
            0 => self.layout.name().to_owned(),
            n => format!("{} @{n}", self.layout.name()),
        }
    }
}

/// All cells, with the limits.
pub struct Table {
    /// Machine.
    pub machine: Machine,
    /// Limits for the number of threads of the cells.
    pub limits: Limits,
    /// Seconds of the cheapest call: the negation of 16 numbers.
    pub call: f64,
    /// Cells, in the order of the ops.
    pub cells: Vec<Cell>,
}

/// Measures all cells that the options choose. `started` is called with each op or composition.
///
/// # Errors
///
/// If a function that is part of the limits cannot be measured. A cell that fails is a cell of the table.
pub fn measure_all(
    machine: Machine,
    limits: Limits,
    options: &Options,
    mut started: impl FnMut(&str),
) -> Result<Table> {
    gradloom::set_threads(options.threads);
    let few: Program = "(x: f32[16]) { y = neg x return y }"
        .parse()
        .expect("a program of one op");
    let call = seconds_of_run(
        &ProgramPlan::new(&few)?,
        &[Tensor::ones([16], DType::F32)],
        0.05,
    )?;
    let mut run = Run {
        table: Table {
            machine,
            limits,
            call,
            cells: Vec::new(),
        },
        options,
        templates: Templates::new(),
        values: Values::default(),
        functions: HashMap::new(),
        rates: HashMap::new(),
    };
    for &op in &options.ops {
        started(op.def().name());
        for &size in &options.sizes {
            let most = size.bytes(&run.table.machine);
            let mut main = None;
            for &dtype in &options.dtypes {
                for (i, template) in run.templates.of(op, dtype, most).into_iter().enumerate() {
                    let is_main = *main.get_or_insert(dtype) == dtype;
                    run.formula(&Formula::of_template(template, i), size, is_main)?;
                }
            }
        }
    }
    for composition in &options.compositions {
        started(composition.name);
        for &size in &options.sizes {
            let floats = options.dtypes.iter().filter(|dtype| dtype.is_float());
            for (i, &dtype) in floats.enumerate() {
                let most = size.bytes(&run.table.machine);
                run.formula(&composition.formula(dtype, most), size, i == 0)?;
            }
        }
    }
    Ok(run.table)
}

/// Cells that only differ in size: name, sample, transform, dtype, layout and its operand.
type Series = (String, usize, Transform, DType, Layout, usize);

/// Measurement of a table.
struct Run<'a> {
    table: Table,
    options: &'a Options,
    templates: Templates,
    values: Values,
    /// Seconds of each function for an element.
    functions: HashMap<Function, f64>,
    /// Limit and seconds of the last cell of each series.
    rates: HashMap<Series, (f64, f64)>,
}

impl Run<'_> {
    /// Measures the cells of a formula of one size.
    fn formula(&mut self, formula: &Formula, size: Size, is_main: bool) -> Result<()> {
        for transform in self.options.transforms.iter().copied() {
            for layout in self.options.layouts.iter().copied() {
                let read = (0..formula.arguments.len()).filter(|i| formula.arguments[*i].is_read());
                let mut operands: Vec<usize> = read.collect();
                if layout == Layout::Contiguous {
                    // No operand is another one's turn, and an op without operands has one cell.
                    operands = vec![0];
                }
                for operand in operands {
                    if self.options.has(layout, operand, transform, size, is_main) {
                        self.cell(formula, transform, (layout, operand), size)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures a cell, if it exists.
    fn cell(
        &mut self,
        formula: &Formula,
        transform: Transform,
        (layout, operand): (Layout, usize),
        size: Size,
    ) -> Result<()> {
        let mut layouts = vec![Layout::Contiguous; formula.arguments.len()];
        if let Some(of_operand) = layouts.get_mut(operand) {
            *of_operand = layout;
        }
        let outcome = match formula.recorded(&layouts, transform) {
            Ok(None) => return Ok(()),
            Ok(Some(recorded)) => {
                let whole = (layout == Layout::Strided).then_some(operand);
                let work = Work::of(&recorded.program, whole.as_slice());
                if work.bytes() == 0.0 {
                    // The results are arguments.
                    return Ok(());
                }
                self.outcome(formula, transform, (layout, operand), &recorded, &work)?
            }
            Err(e) => Outcome::Failed(e.to_string()),
        };
        self.table.cells.push(Cell {
            name: formula.name.clone(),
            transform,
            dtype: formula.dtype().unwrap_or(DType::F32),
            axis: formula.axis,
            layout,
            operand,
            size,
            shapes: formula.shapes(),
            outcome,
        });
        Ok(())
    }

    fn outcome(
        &mut self,
        formula: &Formula,
        transform: Transform,
        (layout, operand): (Layout, usize),
        recorded: &Recorded,
        work: &Work,
    ) -> Result<Outcome> {
        let dtype = formula.dtype().unwrap_or(DType::F32);
        for function in work.functions.keys() {
            self.measure_function(*function)?;
        }
        let functions = &self.functions;
        let limits = (&self.table.machine, &self.table.limits);
        let (least, bound) = work.least_seconds(limits, dtype, |function| functions[&function]);
        let name = formula.name.clone();
        let series = (name, formula.sample, transform, dtype, layout, operand);
        if let Some((limit, seconds)) = self.rates.get(&series) {
            let expected = seconds * least / limit;
            if expected > MOST_SECONDS {
                return Ok(Outcome::TooSlow(expected));
            }
        }
        let mut run = || -> Result<f64> {
            let plan = ProgramPlan::new(&recorded.program)?;
            let values = formula.values(recorded, &mut self.values)?;
            seconds_of_run(&plan, &values, self.options.min_time)
        };
        let seconds = match run() {
            Ok(seconds) => seconds,
            Err(e) => return Ok(Outcome::Failed(e.to_string())),
        };
        self.rates.insert(series, (least, seconds));
        Ok(Outcome::Measured(Measured {
            seconds,
            least,
            bound,
            bytes: [work.read, work.written],
            operations: work.products + work.operations,
        }))
    }

    /// Measures a function on contiguous elements in the first cache, with one thread.
    fn measure_function(&mut self, (op, dtype): Function) -> Result<()> {
        if self.functions.contains_key(&(op, dtype)) {
            return Ok(());
        }
        let most = Size::In(Place::L1).bytes(&self.table.machine);
        let templates = self.templates.of(op, dtype, most);
        let template = templates
            .into_iter()
            .next()
            .expect("a function takes all floats");
        let formula = Formula::of_template(template, 0);
        let layouts = vec![Layout::Contiguous; formula.arguments.len()];
        let recorded = formula.recorded(&layouts, Transform::Forward)?;
        let recorded = recorded.expect("a forward program exists");
        let plan = ProgramPlan::new(&recorded.program)?;
        let values = formula.values(&recorded, &mut self.values)?;
        gradloom::set_threads(1);
        let started = Instant::now();
        let result = &plan.run(&values)?[0];
        let is_slow = started.elapsed().as_secs_f64() > MOST_SECONDS;
        let min_time = if is_slow { 0.0 } else { 0.01 };
        let seconds = seconds_of_run(&plan, &values, min_time)? - self.table.call;
        gradloom::set_threads(self.options.threads);
        let each = seconds.max(0.0) / result.numel() as f64;
        self.functions.insert((op, dtype), each);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_cell_reaches_a_fraction_of_its_limit() {
        let machine = Machine::detect();
        let limits = Limits::measure(&machine, 1);
        let options = Options {
            ops: vec![Op::Sum],
            compositions: Vec::new(),
            dtypes: vec![DType::F64],
            sizes: vec![Size::In(Place::L1)],
            layouts: vec![Layout::Contiguous, Layout::Transposed],
            transforms: Transform::ALL.to_vec(),
            threads: 1,
            min_time: 0.0,
            crossed: true,
        };
        let table = measure_all(machine, limits, &options, |_| {}).unwrap();
        // Three transforms and two layouts along three axes and several.
        assert_eq!(table.cells.len(), 24);
        for cell in &table.cells {
            let measured = cell.measured().expect("sums run");
            assert!(
                measured.fraction() > 0.0 && measured.bytes[0] > 0.0,
                "{cell:?}"
            );
        }
    }
}
