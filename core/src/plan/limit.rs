//! Plans that hold fewer bytes at a time, because they compute some values again.

use super::Plan;
use super::explain::{size, work};
use gradloom_ir::Program;
use gradloom_ir::pass::{self, Rematerialized};
use gradloom_kernels::memory::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of bytes that a plan should hold. `usize::MAX` is no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Number of plans that are tried for one limit.
const ATTEMPTS: usize = 8;

pub(crate) fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets the limit of later plans. The caller holds the lock of the cache and drops its plans.
pub(crate) fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The program of a plan that was made for a limit which its plain form exceeds.
pub(super) struct Limited {
    pub(super) program: Program,
    /// Equations that compute a value again, ascending.
    again: Vec<u32>,
}

impl Limited {
    /// Returns whether each of some equations computes a value again.
    pub(super) fn repeats(&self, eqns: &[u32]) -> bool {
        !eqns.is_empty() && eqns.iter().all(|i| self.again.binary_search(i).is_ok())
    }
}

impl Plan {
    /// Returns the bytes that a run holds beside its leaves: results and intermediate values.
    pub(super) fn held(&self) -> usize {
        self.result_bytes().saturating_add(self.needs.arena)
    }

    /// Returns a line on what the limit has changed, or nothing.
    pub(super) fn limit_line(&self) -> String {
        let Some(limited) = &self.limited else {
            return String::new();
        };
        let held = self.held();
        let n = limited.again.len();
        format!(
            "\nmemory limit {}{}: {} held at a time; {n} equation{} computed again{}",
            size(self.limit),
            if held > self.limit {
                ", which is out of reach"
            } else {
                ""
            },
            size(held),
            if n == 1 { "" } else { "s" },
            work(&limited.program, &limited.again).unwrap_or_default()
        )
    }

    /// Returns a plan of the program that holds at most `limit` bytes, or as few as could be found.
    ///
    /// `steps` are those of `self`, which holds more.
    pub(super) fn within(
        self,
        limit: usize,
        program: &Program,
        steps: &[Vec<usize>],
        leaves: &[(usize, Layout)],
    ) -> Plan {
        // Plans store less than the estimates say, because more kernels are fused, or more, because views are copied.
        let Some(whole) = pass::rematerialize(program, steps, u128::MAX) else {
            return self;
        };
        let scale = whole.bytes as f64 / self.held() as f64;
        let (mut low, mut high) = (0.0, whole.bytes as f64);
        let mut target = limit as f64 * scale;
        let mut best = self;
        for _ in 0..ATTEMPTS {
            let Some(made) = pass::rematerialize(program, steps, target as u128) else {
                low = target;
                target = (low + high) / 2.0;
                continue;
            };
            let plan = Plan::limited(made, leaves);
            let held = plan.held();
            if held < best.held() {
                best = plan;
            }
            if best.held() <= limit {
                break;
            }
            high = target;
            let nearer = 0.98 * target * limit as f64 / held as f64;
            target = match nearer > low {
                true => nearer,
                false => (low + high) / 2.0,
            };
        }
        // The report names a limit for which nothing better was found.
        if best.limited.is_none() {
            best.limited = Some(Box::new(Limited {
                program: program.clone(),
                again: Vec::new(),
            }));
        }
        best
    }

    fn limited(made: Rematerialized, leaves: &[(usize, Layout)]) -> Plan {
        let mut plan = Plan::of_steps(&made.program, &made.steps, leaves);
        plan.limited = Some(Box::new(Limited {
            program: made.program,
            again: made.again.iter().map(|i| *i as u32).collect(),
        }));
        plan
    }
}
