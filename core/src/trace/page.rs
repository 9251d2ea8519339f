//! Pages that show a trace in a browser.

use super::Trace;
use crate::graph::run;
use crate::plan::{Lowered, Plan};
use crate::raise::expect;
use crate::tensor::replay::{Bound, Env};
use crate::tree::leaves;
use crate::{Result, Tensor, Tree};
use gradloom_kernels::memory::Buffer;
use gradloom_view::{Metadata, Page, PlanStep, PlanTable, SourceLine, Statistics, VarInfo};

impl<X: Tree, Y: Tree> Trace<X, Y> {
    /// Returns a page that shows the program: its graph with the source line of each operation, the program of
    /// the pullback beside it if the argument has a gradient, and the plan.
    ///
    /// `page.html()` is one document without references to other files, see [`gradloom_view`].
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::trace::trace;
    ///
    /// let t = trace(|x: &Tensor| x.tanh().sum(..), &Tensor::from([1.0f32, 2.0]));
    /// let html = t.page("model").html();
    /// assert!(html.contains("tanh") && html.contains("ct_"));
    /// ```
    pub fn page(&self, title: &str) -> Page {
        self.page_with(title, Metadata::new())
    }

    /// Returns the [`page`](Self::page) with statistics of the values that the program has for this argument:
    /// least and greatest element, mean, root mean square, and the numbers of NaNs and infinities.
    ///
    /// # Panics
    ///
    /// If a leaf has another dtype or shape than the one that was traced, or a value cannot be computed.
    #[track_caller]
    pub fn page_of(&self, title: &str, x: &X) -> Page {
        let found = self.try_call(x).and_then(|_| self.statistics(x));
        self.page_with(title, expect(found))
    }

    fn page_with(&self, title: &str, mut metadata: Metadata) -> Page {
        let program = self.program();
        for (eqn, line) in program.eqns.iter().zip(self.lines()) {
            for out in &eqn.outs {
                let mut info = metadata.get(*out).cloned().unwrap_or_default();
                info.source = line.map(|line| SourceLine {
                    file: line.file().to_owned(),
                    line: line.line(),
                });
                metadata.insert(*out, info);
            }
        }
        let page = Page::new(title).plan(self.plan_table());
        match self.vjp_programs() {
            Ok((forward, pullback)) => page
                .forward(forward, metadata)
                .results(program.outs.len())
                .backward(pullback, Metadata::new()),
            Err(_) => page.forward(program, metadata),
        }
    }

    /// Computes all values of the program, in one plan.
    fn statistics(&self, x: &X) -> Result<Metadata> {
        let program = self.program();
        let args = leaves(x).into_iter().map(Bound::Tensor);
        let args: Vec<Bound> = args.chain(self.bound().iter().cloned()).collect();
        let mut env = Env::new(program, args.iter().cloned().map(Some));
        for eqn in &program.eqns {
            env.run(eqn, |attr| program.attr(attr).clone())?;
        }
        let vars = program.eqns.iter().flat_map(|eqn| &eqn.outs);
        let vars = vars.chain(&program.params);
        let values: Vec<_> = vars
            .filter_map(|var| match env.get(*var) {
                Some(Bound::Tensor(value)) => Some((*var, value.clone())),
                _ => None,
            })
            .collect();
        let shared: Vec<_> = values
            .iter()
            .map(|(_, x)| x.physical_value().clone())
            .collect();
        run::realise(&shared)?;
        let info = |x: &Tensor| VarInfo {
            statistics: Some(statistics(x)),
            ..VarInfo::default()
        };
        Ok(values.iter().map(|(var, x)| (*var, info(x))).collect())
    }

    /// Returns the plan of the program as rows.
    fn plan_table(&self) -> PlanTable {
        let program = self.program();
        let likes = self.bound().iter().filter_map(|bound| match bound {
            Bound::Aval(aval) => Some(aval.clone()),
            Bound::Tensor(_) => None,
        });
        let lowered = Lowered {
            program: program.clone(),
            likes: likes.collect(),
        };
        let plan = Plan::new(&lowered);
        let simplified = plan.program(program);
        let steps = plan
            .descriptions(Some(&simplified))
            .into_iter()
            .map(|task| PlanStep {
                kernel: task.label,
                values: task.values,
                bytes: Some(task.bytes as u64),
                note: task.flops.map_or_else(String::new, |n| format!("{n} FLOP")),
            });
        PlanTable {
            steps: steps.collect(),
            text: plan.explain(Some(&simplified)),
        }
    }
}

/// Returns the statistics of a computed tensor.
fn statistics(x: &Tensor) -> Statistics {
    let value = x.physical_value();
    let Some(buffer) = value.detach_if_ready() else {
        return Statistics::new([]);
    };
    match &**buffer {
        Buffer::F32(all) => Statistics::new(all.iter().map(|x| f64::from(*x))),
        Buffer::F64(all) => Statistics::new(all.iter().copied()),
        Buffer::BF16(all) => Statistics::new(all.iter().map(|x| x.to_f64())),
        Buffer::F16(all) => Statistics::new(all.iter().map(|x| x.to_f64())),
        Buffer::I32(all) => Statistics::new(all.iter().map(|x| f64::from(*x))),
        Buffer::I64(all) => Statistics::new(all.iter().map(|x| *x as f64)),
        Buffer::I8(all) => Statistics::new(all.iter().map(|x| f64::from(*x))),
        Buffer::U8(all) => Statistics::new(all.iter().map(|x| f64::from(*x))),
        Buffer::Bool(all) => Statistics::new(all.iter().map(|x| f64::from(u8::from(*x)))),
    }
}
