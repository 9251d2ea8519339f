//! Plans for calls with dropped results: work that only those results need is skipped.

use super::pending::key_of_results;
use crate::Aval;
use crate::events::{self, Event};
use crate::graph::call_node::CallPlan;
use crate::graph::engine::Engine;
use crate::plan::Lowered;
use crate::plan::Plan;
use crate::plan::cache::CachedPlan;
use crate::plan::lru::Keyed;
use gradloom_ir::{Program, cost, pass};
use gradloom_kernels::lock;
use std::sync::{Arc, Mutex};

/// Number of sets of dropped results with cached plans. With other sets all results are computed.
const MAX_PARTS: usize = 4;

/// Plans for subsets of the results of a call, by the set of dropped results.
#[derive(Default)]
pub(crate) struct PartialPlans(Mutex<Vec<SubsetPlan>>);

/// Dropped results, and the plan for the others if it saves enough work.
type SubsetPlan = (Box<[u32]>, Option<Arc<PartialPlan>>);

/// Plan for a subset of the results of a call.
pub(crate) struct PartialPlan {
    pub(crate) entry: Arc<CachedPlan>,
    /// Index in the results of the call, for each result of the plan.
    pub(crate) results: Box<[u32]>,
}

impl CallPlan {
    /// Returns a plan for the remaining results, if it saves enough work. `dropped` has to be
    /// sorted.
    pub(crate) fn without(&self, dropped: &[u32]) -> Option<Arc<PartialPlan>> {
        if dropped.is_empty() {
            return None;
        }
        // After a fork a thread of the parent may hold the lock. All results are computed then.
        let mut parts = lock::lock(&self.parts.0, || false)?;
        let known = parts.iter().position(|(without, _)| **without == *dropped);
        if let Some(i) = known {
            match &parts[i].1 {
                Some(part) if !part.entry.is_current() => drop(parts.swap_remove(i)),
                part => return part.clone(),
            }
        }
        if parts.len() == MAX_PARTS {
            return None;
        }
        let part = self.make_part(dropped).map(Arc::new);
        parts.push((dropped.into(), part.clone()));
        part
    }

    fn make_part(&self, dropped: &[u32]) -> Option<PartialPlan> {
        let (whole, n_leaves) = self.entry.source()?;
        let n_results = whole.outs.len() as u32;
        let results = (0..n_results).filter(|i| dropped.binary_search(i).is_err());
        let results: Box<[u32]> = results.collect();
        let mut program = whole.clone();
        program.outs = results.iter().map(|i| whole.outs[*i as usize]).collect();
        let saves = work(&program)? * 4 <= work(whole)? * 3;
        if results.is_empty() || !saves {
            return None;
        }
        let key = key_of_results(self.entry.key(), &results);
        let found = Engine::lock().cache.find(&key);
        if let Some(entry) = found {
            events::emit(Event::Hit { plan: entry.id });
            return Some(PartialPlan { entry, results });
        }
        let likes = program.params[n_leaves..].iter();
        let likes = likes.map(|like| Aval::from_ir(program.aval(*like)));
        let lowered = Lowered {
            likes: likes.collect(),
            program,
        };
        let entry = CachedPlan::new(&key, Plan::new(&lowered), lowered);
        let entry = Engine::lock().cache.insert(entry);
        Some(PartialPlan { entry, results })
    }
}

/// Estimates the run time of a program.
///
/// The unit is one arithmetic operation. A transcendental function counts as eight, and four bytes
/// of memory traffic as one.
fn work(program: &Program) -> Option<i128> {
    let cost = cost::of_program(&pass::dce(program.clone()));
    let number = |poly: Option<gradloom_ir::Poly>| poly?.as_constant();
    let (flops, functions) = (number(cost.flops)?, number(cost.transcendentals)?);
    Some(flops + 8 * functions + number(cost.bytes)? / 4)
}
