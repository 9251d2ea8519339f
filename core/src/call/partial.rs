//! Calls of which some results were dropped before they ran: what only those need is not computed.

use super::CallPlan;
use crate::Aval;
use crate::cache::Entry;
use crate::evaluate::Engine;
use crate::events::{self, Event};
use crate::fork;
use crate::lower::Lowered;
use crate::plan::Plan;
use gradloom_ir::{Program, cost, pass};
use std::sync::{Arc, Mutex};

/// Number of sets of dropped results for which a call has plans. With another set all results are computed.
const MAX_PARTS: usize = 4;

/// The plans for some of the results of a call, by the results that were dropped.
#[derive(Default)]
pub(super) struct Parts(Mutex<Vec<Known>>);

/// The results that were dropped, and the plan for the others, if that is worth it.
type Known = (Box<[u32]>, Option<Arc<Part>>);

/// A plan for some of the results of a call.
pub(super) struct Part {
    pub(super) entry: Arc<Entry>,
    /// Which result of the call each result of the plan is.
    pub(super) results: Box<[u32]>,
}

impl CallPlan {
    /// The plan for the results that are left, if it saves a good part of the work. `dropped` is sorted.
    pub(super) fn without(&self, dropped: &[u32]) -> Option<Arc<Part>> {
        if dropped.is_empty() {
            return None;
        }
        // A process that was forked while another thread made a plan here computes all results.
        let mut parts = fork::lock(&self.parts.0, || false)?;
        let known = parts.iter().find(|(without, _)| **without == *dropped);
        if let Some((_, part)) = known {
            return part.clone();
        }
        if parts.len() == MAX_PARTS {
            return None;
        }
        let part = self.make_part(dropped).map(Arc::new);
        parts.push((dropped.into(), part.clone()));
        part
    }

    fn make_part(&self, dropped: &[u32]) -> Option<Part> {
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
        let key = self.entry.key_of_results(&results);
        let found = Engine::lock().cache.find(&key);
        if let Some(entry) = found {
            events::emit(Event::Hit { plan: entry.id });
            return Some(Part { entry, results });
        }
        let likes = program.params[n_leaves..].iter();
        let likes = likes.map(|like| Aval::from_ir(program.aval(*like)));
        let lowered = Lowered {
            likes: likes.collect(),
            program,
        };
        let entry = Entry::new(&key, Plan::new(&lowered), lowered);
        let entry = Engine::lock().cache.insert(entry);
        Some(Part { entry, results })
    }
}

/// A measure of the time that a program takes: arithmetic, functions at the price of eight operations, and a quarter of the bytes.
fn work(program: &Program) -> Option<i128> {
    let cost = cost::of_program(&pass::dce(program.clone()));
    let number = |poly: Option<gradloom_ir::Poly>| poly?.as_constant();
    let (flops, functions) = (number(cost.flops)?, number(cost.transcendentals)?);
    Some(flops + 8 * functions + number(cost.bytes)? / 4)
}
