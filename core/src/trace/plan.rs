//! Programs with their plans, which run on tensors without recording.

use super::TraceFault;
use super::text::{known, unfit};
use crate::events::{self, Event};
use crate::graph::call_node::no_results;
use crate::graph::run::realise;
use crate::graph::value::ValueSource;
use crate::plan::cache::CachedPlan;
use crate::plan::{Donations, Lowered, Plan, PlanLeaves};
use crate::{Aval, Result, Tensor};
use gradloom_ir::Program;
use gradloom_kernels::task::Leaf;

/// A program with its plan, made once. A run computes the results at once, and neither records, plans nor looks up
/// anything.
///
/// [`run`](super::run) records the same operations as promises instead, which can be differentiated.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::trace::{ProgramPlan, trace};
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let t = trace(|x: &Tensor| (x * 2.0).sum(..), &x);
/// let plan = ProgramPlan::new(t.program())?;
/// assert_eq!(plan.run(&[x])?[0].item::<f32>(), 6.0);
/// # Ok::<(), gradloom::Error>(())
/// ```
pub struct ProgramPlan {
    entry: CachedPlan,
    params: Vec<Aval>,
    /// Names of the parameters.
    names: Vec<String>,
    outs: Vec<Aval>,
}

impl ProgramPlan {
    /// Plans a program. The dtypes and shapes of all parameters have to be known.
    ///
    /// # Errors
    ///
    /// If the program is not valid, has a value of unknown dtype or shape, calls a traced function, or has an argument
    /// that host code computes.
    pub fn new(program: &Program) -> Result<ProgramPlan> {
        if let Some(fault) = unfit(program) {
            return Err(TraceFault::Invalid(fault).into());
        }
        let avals = |vars: &[gradloom_ir::Var]| {
            let aval = |var: &gradloom_ir::Var| {
                let aval = program.aval(*var);
                let unknown = || format!("`{}` is {aval}", program.show(*var));
                known(aval).ok_or_else(|| TraceFault::Invalid(unknown()))
            };
            vars.iter().map(aval).collect::<Result<Vec<_>, _>>()
        };
        let (params, outs) = (avals(&program.params)?, avals(&program.outs)?);
        let lowered = Lowered {
            program: program.clone(),
            likes: Vec::new(),
        };
        let entry = CachedPlan::new(&[], Plan::new(&lowered), lowered);
        events::emit(Event::Planned {
            plan: entry.id,
            equations: entry.plan.n_steps(),
            why: None,
        });
        Ok(ProgramPlan {
            names: program.params.iter().map(|v| program.show(*v)).collect(),
            entry,
            params,
            outs,
        })
    }

    /// Returns the results for arguments with the dtypes and shapes of the parameters.
    ///
    /// # Errors
    ///
    /// If the number of arguments differs, an argument has another dtype or shape or is traced by a transform, or a value
    /// cannot be computed (see [`evaluate`](crate::evaluate())).
    pub fn run(&self, args: &[Tensor]) -> Result<Vec<Tensor>> {
        if args.len() != self.params.len() {
            return Err(TraceFault::Count {
                found: args.len(),
                expected: self.params.len(),
            }
            .into());
        }
        for ((arg, expected), name) in args.iter().zip(&self.params).zip(&self.names) {
            if arg.aval() != expected {
                return Err(TraceFault::Argument {
                    path: name.clone(),
                    found: arg.aval().clone(),
                    expected: expected.to_string(),
                }
                .into());
            }
            if arg.0.is_in_scope() {
                let path = name.clone();
                return Err(TraceFault::Watched { path }.into());
            }
        }
        let values: Vec<_> = args.iter().map(|x| x.physical_value().clone()).collect();
        realise(&values)?;
        let buffers = args.iter().map(Tensor::buffer);
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        let leaves: PlanLeaves<'_> = buffers.iter().map(Leaf::Held).collect();
        let mut results = no_results();
        self.entry
            .run(&leaves, &mut Donations::new(), &mut results)?;
        let results = self.outs.iter().zip(results);
        let tensor = |(aval, buffer): (&Aval, Option<_>)| {
            let buffer = buffer.expect("a run fills all results");
            Tensor::new(aval, ValueSource::Elements(buffer))
        };
        Ok(results.map(tensor).collect())
    }
}
