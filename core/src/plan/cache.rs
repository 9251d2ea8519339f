//! The plan cache.
//!
//! A look-up compares the hash of a computation and then its **complete** key: equal hashes alone
//! are never enough.

use super::explain::TaskDescription;
use super::lru::{Keyed, Lru};
use super::numbers::Numbers;
use super::{Donations, Lowered, Plan};
use crate::Result;
use crate::events::{self, Event};
use gradloom_ir::Program;
use gradloom_kernels::memory::Buffer;
use gradloom_kernels::task::Leaf;
use gradloom_kernels::timeline::{self, SliceKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Largest total length of all keys in words (256 MiB).
const MAX_WORDS: usize = 1 << 25;

/// Largest number of equations of a program that is kept beside its plan, to explain cache misses.
const MAX_EXPLAINED: usize = 10_000;

/// Size of the plan cache, returned by [`stats`](crate::cache::stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of plans in the cache.
    pub plans: usize,
    /// Number of recorded programs that are kept with their derivatives.
    pub programs: usize,
    /// Largest number of plans, and of recorded programs.
    pub capacity: usize,
    /// Size of the keys of all plans in bytes.
    pub key_bytes: usize,
}

/// Default capacity: the number of plans kept unless [`set_capacity`](crate::cache::set_capacity) changes it.
pub const DEFAULT_CAPACITY: usize = 512;

/// Plan with its key.
pub(crate) struct CachedPlan {
    pub(crate) id: u64,
    pub(crate) plan: Plan,
    key: Box<[u64]>,
    /// Program before simplification, and the number of its leaves. `None` if the program is long.
    source: Option<(Program, usize)>,
    /// Descriptions of the tasks, once a profile has asked for them.
    tasks: OnceLock<Vec<TaskDescription>>,
    /// True if the entry has left the cache.
    evicted: AtomicBool,
    /// True if a call has used the entry since the last eviction.
    touched: AtomicBool,
}

impl CachedPlan {
    pub(crate) fn new(key: &[u64], plan: Plan, lowered: Lowered) -> CachedPlan {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n_leaves = lowered.program.params.len() - lowered.likes.len();
        let small = lowered.program.eqns.len() <= MAX_EXPLAINED;
        CachedPlan {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            plan,
            key: key.into(),
            source: small.then_some((lowered.program, n_leaves)),
            tasks: OnceLock::new(),
            evicted: AtomicBool::new(false),
            touched: AtomicBool::new(false),
        }
    }

    /// Runs the plan, see [`Plan::run`].
    pub(crate) fn run(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Donations,
        results: &mut Vec<Option<Arc<Buffer>>>,
    ) -> Result<()> {
        match timeline::is_on() {
            false => self.plan.run(leaves, given, results, |_| ())?,
            true => self.run_timed(leaves, given, results)?,
        }
        events::emit(Event::Ran { plan: self.id });
        Ok(())
    }

    /// Runs the plan, and notes when each task ran.
    #[cold]
    fn run_timed(
        &self,
        leaves: &[Leaf<'_>],
        given: &mut Donations,
        results: &mut Vec<Option<Arc<Buffer>>>,
    ) -> Result<()> {
        let tasks = self.tasks.get_or_init(|| {
            let program = self.source.as_ref();
            let program = program.map(|(program, _)| self.plan.program(program));
            self.plan.descriptions(program.as_ref())
        });
        let mut start = Instant::now();
        let after = |i: usize| {
            let end = Instant::now();
            let TaskDescription {
                label,
                bytes,
                flops,
                ..
            } = &tasks[i];
            let kind = SliceKind::Task {
                plan: self.id,
                bytes: *bytes,
                flops: *flops,
            };
            timeline::note(label.clone(), kind, start, end);
            start = Instant::now();
        };
        self.plan.run(leaves, given, results, after)
    }

    /// Returns the program before simplification and the number of its leaves.
    ///
    /// `None` if the program is very long.
    pub(crate) fn source(&self) -> Option<(&Program, usize)> {
        let source = self.source.as_ref();
        source.map(|(program, n_leaves)| (program, *n_leaves))
    }

    /// Describes the plan as text for people.
    pub(crate) fn explain(&self) -> String {
        let source = self.source.as_ref();
        let program = source.map(|(program, _)| self.plan.program(program));
        self.plan.explain(program.as_ref())
    }

    /// Returns whether the plan is for `key`.
    pub(crate) fn is_for(&self, key: &[u64]) -> bool {
        *self.key == *key
    }

    /// Describes how a program differs from the one that was planned.
    pub(crate) fn difference(&self, later: &Lowered, n_leaves: usize) -> String {
        let later = &later.program;
        let found = match &self.source {
            Some((old, _)) if old.eqns.len() != later.eqns.len() => {
                let (old, new) = (old.eqns.len(), later.eqns.len());
                Some(vec![format!("number of operations: {old} -> {new}")])
            }
            Some((old, old_leaves)) => differences(old, *old_leaves, later, n_leaves),
            None => None,
        };
        let found = found.unwrap_or_else(|| vec!["other operations".to_owned()]);
        found.into_iter().take(3).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether the entry is still in the cache, and marks it as recently used.
    ///
    /// The flag is written only when it changes, so threads that share an entry do not contend for
    /// its cache line.
    pub(crate) fn is_current(&self) -> bool {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
        !self.evicted.load(Ordering::Relaxed)
    }
}

impl Keyed for CachedPlan {
    fn key(&self) -> &[u64] {
        &self.key
    }

    fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }
}

pub(crate) struct Cache {
    plans: Lru<CachedPlan>,
    /// The numbers of computations that had no plan.
    pub(crate) numbers: Numbers,
}

impl Cache {
    /// Sets the largest number of plans, and evicts the entries that exceed it.
    pub(crate) fn set_capacity(&mut self, plans: usize) -> Vec<Arc<CachedPlan>> {
        evict(self.plans.set_capacity(plans))
    }

    /// Returns the contents in numbers. `programs` is the number of recorded programs.
    pub(crate) fn stats(&self, programs: usize) -> Stats {
        Stats {
            plans: self.plans.len(),
            programs,
            capacity: self.plans.capacity(),
            key_bytes: self.plans.words() * size_of::<u64>(),
        }
    }

    /// Sets the number of hash bits in use.
    pub(crate) fn set_hash_bits(&mut self, bits: u32) {
        self.plans.set_hash_bits(bits);
    }

    pub(crate) const fn new() -> Cache {
        Cache {
            plans: Lru::new(DEFAULT_CAPACITY, MAX_WORDS),
            numbers: Numbers::new(),
        }
    }

    /// Returns the plan for `key`, if cached, and marks it as used.
    pub(crate) fn find(&mut self, key: &[u64]) -> Option<Arc<CachedPlan>> {
        self.plans.find(key)
    }

    /// Adds an entry, or returns the equal entry that another thread has added meanwhile.
    pub(crate) fn insert(&mut self, entry: CachedPlan) -> Arc<CachedPlan> {
        if let Some(there) = self.find(&entry.key) {
            events::emit(Event::Hit { plan: there.id });
            return there;
        }
        let why = events::recording().then(|| self.explain(&entry)).flatten();
        let entry = Arc::new(entry);
        events::emit(Event::Planned {
            plan: entry.id,
            equations: entry.plan.n_steps(),
            why,
        });
        if self.plans.is_too_long(&entry.key) || !entry.plan.is_for_limit() {
            entry.evicted.store(true, Ordering::Relaxed);
            return entry;
        }
        report(&evict(self.plans.insert(entry.clone())));
        entry
    }

    /// Evicts all plans.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<CachedPlan>> {
        self.numbers.clear();
        evict(self.plans.take_all())
    }

    /// Describes how an entry differs from the most similar entry in the cache.
    fn explain(&self, entry: &CachedPlan) -> Option<String> {
        let (program, n_leaves) = entry.source.as_ref()?;
        let others = self.plans.iter().filter_map(|(other, used)| {
            let (other, n) = other.source.as_ref()?;
            let differences = differences(other, *n, program, *n_leaves)?;
            Some((differences, used))
        });
        // Among equally similar entries, the most recent is the one a user would compare with.
        let (differences, _) = others.min_by_key(|(d, used)| (d.len(), u64::MAX - used))?;
        Some(
            differences
                .into_iter()
                .take(3)
                .collect::<Vec<_>>()
                .join("; "),
        )
    }
}

/// Marks entries as evicted.
fn evict(entries: Vec<Arc<CachedPlan>>) -> Vec<Arc<CachedPlan>> {
    for entry in &entries {
        entry.evicted.store(true, Ordering::Relaxed);
    }
    entries
}

pub(crate) fn report(evicted: &[Arc<CachedPlan>]) {
    for entry in evicted {
        events::emit(Event::Evicted { plan: entry.id });
    }
}

/// Lists the differences of two programs, or returns `None` if they are too different to compare.
fn differences(
    old: &Program,
    old_leaves: usize,
    new: &Program,
    new_leaves: usize,
) -> Option<Vec<String>> {
    if old.eqns.len() != new.eqns.len() {
        return None;
    }
    let mut found = Vec::new();
    if old_leaves != new_leaves {
        found.push(format!("leaves: {old_leaves} -> {new_leaves}"));
    }
    if old.outs.len() != new.outs.len() {
        found.push(format!("targets: {} -> {}", old.outs.len(), new.outs.len()));
    }
    // Leaves come first in the numbering of variables, so operands compare only if the leaves
    // match.
    let comparable = found.is_empty();
    for (i, (a, b)) in old
        .params
        .iter()
        .zip(&new.params)
        .enumerate()
        .take(old_leaves.min(new_leaves))
    {
        let (a, b) = (old.aval(*a), new.aval(*b));
        if a.dtype != b.dtype {
            found.push(format!("leaf {i}: {a} -> {b}"));
        } else if let (Some(da), Some(db)) = (a.shape.dims(), b.shape.dims()) {
            if da.len() != db.len() {
                found.push(format!("leaf {i}: {a} -> {b}"));
            } else {
                let axes = da.iter().zip(db).enumerate().filter(|(_, (a, b))| a != b);
                found.extend(
                    axes.map(|(axis, (a, b))| format!("leaf {i}, axis {axis}: {a} -> {b}")),
                );
            }
        }
    }
    for (i, (a, b)) in old.eqns.iter().zip(&new.eqns).enumerate() {
        if a.op != b.op {
            found.push(format!("op {i}: {} -> {}", a.op, b.op));
            continue;
        }
        let statics = a.attrs.iter().zip(&b.attrs).zip(b.op.def().statics());
        for ((a, b), arg) in statics {
            let (a, b) = (old.attr(*a), new.attr(*b));
            if a != b {
                found.push(format!(
                    "op {i} ({}), static {}: {a} -> {b}",
                    new.eqns[i].op, arg.name
                ));
            }
        }
        if comparable && a.data() != b.data() {
            found.push(format!("op {i} ({}): other operands", b.op));
        }
    }
    if comparable && old.outs != new.outs {
        found.push("other targets".to_owned());
    }
    (!found.is_empty()).then_some(found)
}
