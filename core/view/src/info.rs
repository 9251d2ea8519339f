//! What the caller knows about values beside the program.

use gradloom_ir::{Cost, SecondaryMap, Var};
use std::fmt;

/// Facts about the variables of a program. A missing entry means that nothing is known.
///
/// It covers the variables of the program itself, not those of programs inside of its equations.
pub type Metadata = SecondaryMap<Var, VarInfo>;

/// Facts about a variable that the page shows beside those in the program.
///
/// ```
/// use gradloom_view::{Metadata, SourceLine, VarInfo};
///
/// let program: gradloom_ir::Program = "(x: f32[3]) { y = tanh x return y }".parse()?;
/// let source = Some(SourceLine { file: "src/model.rs".into(), line: 12 });
/// let mut metadata = Metadata::new();
/// metadata.insert(program.outs[0], VarInfo { source, ..VarInfo::default() });
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VarInfo {
    /// The source line that computes the value.
    pub source: Option<SourceLine>,
    /// The cost of the equation, if it is not that of [`gradloom_ir::cost`].
    pub cost: Option<Cost>,
    /// Statistics of the elements.
    pub statistics: Option<Statistics>,
    /// Further rows: a title and a text.
    pub notes: Vec<(String, String)>,
}

/// A line of a source file.
///
/// ```
/// let line = gradloom_view::SourceLine { file: "src/model.rs".into(), line: 12 };
/// assert_eq!(line.to_string(), "src/model.rs:12");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The path of the file.
    pub file: String,
    /// The number of the line, counted from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Statistics of the elements of a value.
///
/// ```
/// use gradloom_view::Statistics;
///
/// let of = Statistics::new([3.0, -4.0, f64::NAN, f64::INFINITY]);
/// assert_eq!((of.min, of.max, of.mean), (-4.0, 3.0, -0.5));
/// assert_eq!(of.rms, 12.5_f64.sqrt());
/// assert_eq!((of.nans, of.infinities), (1, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The smallest finite element, or NaN if there is none.
    pub min: f64,
    /// The greatest finite element, or NaN if there is none.
    pub max: f64,
    /// The mean of the finite elements, or NaN if there is none.
    pub mean: f64,
    /// The root of the mean square of the finite elements, or NaN if there is none.
    pub rms: f64,
    /// The number of elements that are NaN.
    pub nans: u64,
    /// The number of infinite elements.
    pub infinities: u64,
}

impl Statistics {
    /// Returns the statistics of these elements.
    pub fn new(elements: impl IntoIterator<Item = f64>) -> Statistics {
        let (mut min, mut max, mut sum, mut squares) = (f64::NAN, f64::NAN, 0.0, 0.0);
        let (mut n, mut nans, mut infinities) = (0u64, 0, 0);
        for x in elements {
            if x.is_nan() {
                nans += 1;
            } else if x.is_infinite() {
                infinities += 1;
            } else {
                // `min` and `max` of a NaN and a number are the number.
                (min, max) = (min.min(x), max.max(x));
                sum += x;
                squares += x * x;
                n += 1;
            }
        }
        Statistics {
            min,
            max,
            mean: sum / n as f64,
            rms: (squares / n as f64).sqrt(),
            nans,
            infinities,
        }
    }

    /// Returns whether an element is NaN or infinite.
    pub fn has_faults(&self) -> bool {
        self.nans > 0 || self.infinities > 0
    }
}

/// A plan, as the second tab of the page shows it.
///
/// ```
/// use gradloom_view::{PlanTable, PlanStep};
///
/// let step = PlanStep {
///     kernel: "matmul".into(),
///     values: vec!["h".into()],
///     bytes: Some(4096),
///     note: "2 threads".into(),
/// };
/// let plan = PlanTable { steps: vec![step], text: String::new() };
/// assert_eq!(plan.steps.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PlanTable {
    /// The steps in the order in which they run. No table is shown if there is none.
    pub steps: Vec<PlanStep>,
    /// Text below the table, such as the plan of `gradloom::report()`.
    pub text: String,
}

/// A step of a plan: a group of equations that one kernel computes.
///
/// See [`PlanTable`] for an example.
#[derive(Clone, Debug, Default)]
pub struct PlanStep {
    /// The kernel.
    pub kernel: String,
    /// The values of the group, by the names that the program prints. Each is a link to its node.
    pub values: Vec<String>,
    /// The bytes that the step reads and writes.
    pub bytes: Option<u64>,
    /// Further text, such as the memory of the results.
    pub note: String,
}
