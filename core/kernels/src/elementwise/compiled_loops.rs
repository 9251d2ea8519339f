//! Precompiled loops over elementwise groups, emitted by the `#[traced]` macro.
//!
//! A traced function or a companion registers its loops when it is first called. A plan with a group of the same
//! signature runs the loop instead of the members one by one. The bits are the same, because the
//! loop calls the same scalar functions.

use crate::turn_loop::TurnLoop;
use gradloom_ir::Op;
use gradloom_ir::hash::HashMap;
use gradloom_ir::pass::{Pattern, Patterns};
pub use gradloom_maths::Level;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Loop over a group, for both float types.
pub struct FusedLoop {
    /// Group that the loop computes: `gradloom_ir::pass::Group::signature`.
    pub signature: &'static str,
    /// Loop over `f32`.
    pub f32: Loop<f32>,
    /// Loop over `f64`.
    pub f64: Loop<f64>,
}

/// Returns the table of loops that [`versions!`](gradloom_maths::versions!) generated.
#[doc(hidden)]
#[macro_export]
macro_rules! __fused_table {
    ($loops:expr) => {
        // SAFETY: `versions!` generates the loops from safe code. Each one iterates over slices of
        // equal length, and its versions are in the order of the SIMD levels.
        unsafe { $crate::elementwise::compiled_loops::FusedTable::new($loops) }
    };
}

/// Loops of one traced function.
pub struct FusedTable {
    loops: &'static [FusedLoop],
    registered: AtomicBool,
}

impl FusedTable {
    /// Creates a table.
    ///
    /// # Safety
    ///
    /// Each loop must write all elements of its results, which are as long as its operands, and
    /// must do nothing else. Each version must be sound on every CPU of its level.
    pub const unsafe fn new(loops: &'static [FusedLoop]) -> FusedTable {
        FusedTable {
            loops,
            registered: AtomicBool::new(false),
        }
    }

    /// Makes the loops available to plans that are made afterwards.
    pub fn register(&'static self) {
        if self.registered.load(Acquire) {
            return;
        }
        // If two threads register at once, the second adds nothing: `add` skips known signatures.
        let mut known = known();
        for fused in self.loops {
            known.add(fused);
        }
        self.registered.store(true, Release);
    }
}

/// Returns the loop for a signature.
pub fn find(signature: &str) -> Option<&'static FusedLoop> {
    known().by_signature.get(signature).copied()
}

/// Calls `f` with the loops that may cover parts of a group of these ops.
///
/// Parses the loops that end with one of `ops` first.
pub fn with_patterns<R>(
    ops: impl Iterator<Item = Op>,
    f: impl FnOnce(&Patterns<&'static FusedLoop>) -> R,
) -> R {
    let mut known = known();
    let LoopRegistry {
        patterns, added, ..
    } = &mut *known;
    for op in ops {
        let list = added.remove(op.def().name());
        for fused in list.into_iter().flatten() {
            let arity = |p: &Pattern| {
                let arity = (p.n_inputs, p.results.len());
                fused.f32.arity() == arity && fused.f64.arity() == arity
            };
            if let Some(pattern) = Pattern::parse(fused.signature).filter(arity) {
                patterns.add(pattern, fused);
            }
        }
    }
    f(patterns)
}

/// Loops that plans may use.
#[derive(Default)]
struct LoopRegistry {
    /// Looked up by key only, never iterated.
    by_signature: HashMap<&'static str, &'static FusedLoop>,
    patterns: Patterns<&'static FusedLoop>,
    /// Loops not yet parsed into patterns, keyed by their last op.
    added: HashMap<&'static str, Vec<&'static FusedLoop>>,
}

impl LoopRegistry {
    fn add(&mut self, fused: &'static FusedLoop) {
        if let Entry::Vacant(entry) = self.by_signature.entry(fused.signature) {
            entry.insert(fused);
            self.added
                .entry(last_op(fused.signature))
                .or_default()
                .push(fused);
        }
    }
}

/// Locks the loop table until the returned guard is dropped.
pub fn hold_loops() -> impl Sized + 'static {
    known()
}

fn known() -> MutexGuard<'static, LoopRegistry> {
    static KNOWN: LazyLock<Mutex<LoopRegistry>> = LazyLock::new(|| {
        let mut known = LoopRegistry::default();
        super::builtin_loops::LOOPS
            .iter()
            .for_each(|fused| known.add(fused));
        Mutex::new(known)
    });
    // A poisoned lock is usable: no panic leaves the maps half changed.
    KNOWN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns the name of the last op of a signature.
fn last_op(signature: &'static str) -> &'static str {
    let members = signature.split('>').next().unwrap_or_default();
    let last = members.rsplit([';', ':']).next().unwrap_or_default();
    last.split(' ').next().unwrap_or_default()
}

/// Loop with one operand and one result, of equal length.
type Unary<T> = unsafe fn(&[T], &mut [T]);
/// As [`Unary`], with two operands.
type Binary<T> = unsafe fn(&[T], &[T], &mut [T]);
/// As [`Unary`], with three operands.
pub(crate) type Ternary<T> = unsafe fn(&[T], &[T], &[T], &mut [T]);
/// As [`Unary`], with four operands.
pub(crate) type Quaternary<T> = unsafe fn(&[T], &[T], &[T], &[T], &mut [T]);

/// A loop by its number of operands and results, all of equal length.
///
/// The versions are for the SIMD levels, in order.
#[derive(Clone, Copy)]
pub enum Loop<T: 'static> {
    /// One operand and one result.
    L1x1([Unary<T>; 3]),
    /// Two operands and one result.
    L2x1([Binary<T>; 3]),
    /// Three operands and one result.
    L3x1([Ternary<T>; 3]),
    /// Four operands and one result.
    L4x1([Quaternary<T>; 3]),
    /// Any others.
    Many(LoopOfMany),
}

impl<T: 'static> Loop<T> {
    /// Returns the number of operands and of results.
    pub fn arity(&self) -> (usize, usize) {
        match self {
            Loop::L1x1(_) => (1, 1),
            Loop::L2x1(_) => (2, 1),
            Loop::L3x1(_) => (3, 1),
            Loop::L4x1(_) => (4, 1),
            Loop::Many(many) => many.arity,
        }
    }
}

/// A loop with any number of operands and results.
#[derive(Clone, Copy, Debug)]
pub struct LoopOfMany {
    /// Numbers of operands and of results.
    pub arity: (usize, usize),
    /// Runs the loop over `n` elements of the slots of the operands, and of those of the results.
    ///
    /// # Safety
    ///
    /// The CPU must support the level. Each slot must be the start of `n` valid elements. The results must not
    /// overlap anything, and nothing else may use them.
    pub call: unsafe fn(Level, &[*mut u8], &[u32], &[u32], usize),
    /// Runs all turns of a loop whose body is this loop over single numbers.
    pub turns: Option<TurnLoop>,
}

/// Returns the [`Loop`] of a dtype, with the names of its operands and of its results, from its
/// [`Versions`](gradloom_maths::Versions).
#[doc(hidden)]
#[macro_export]
macro_rules! __loop_of {
    ($t:ident [$a:ident] [$y:ident] $versions:expr) => {
        $crate::elementwise::compiled_loops::Loop::L1x1($versions.levels)
    };
    ($t:ident [$a:ident $b:ident] [$y:ident] $versions:expr) => {
        $crate::elementwise::compiled_loops::Loop::L2x1($versions.levels)
    };
    ($t:ident [$a:ident $b:ident $c:ident] [$y:ident] $versions:expr) => {
        $crate::elementwise::compiled_loops::Loop::L3x1($versions.levels)
    };
    ($t:ident [$a:ident $b:ident $c:ident $d:ident] [$y:ident] $versions:expr) => {
        $crate::elementwise::compiled_loops::Loop::L4x1($versions.levels)
    };
    ($t:ident [$($x:ident)*] [$($y:ident)*] $versions:expr) => {
        $crate::__loop_of_many!($t [$($x)*] [$($y)*] $versions, None)
    };
}

/// As [`__loop_of!`], also for few operands, with the [`TurnLoop`] if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __loop_of_many {
    ($t:ident [$($x:ident)*] [$($y:ident)*] $versions:expr, $turns:expr) => {{
        /// # Safety
        ///
        /// As `LoopOfMany::call` says.
        unsafe fn call(
            level: $crate::elementwise::compiled_loops::Level,
            slots: &[*mut u8],
            args: &[u32],
            outs: &[u32],
            n: usize,
        ) {
            let f = $versions.levels[level as usize];
            let [$($x),*] = *args else { unreachable!("the number of operands matches the arity") };
            let [$($y),*] = *outs else { unreachable!("the number of results matches the arity") };
            let [$($x),*] = [$(slots[$x as usize].cast::<$t>().cast_const()),*];
            let [$($y),*] = [$(slots[$y as usize].cast::<$t>()),*];
            // SAFETY: the caller guarantees `n` valid elements at each slot, exclusive use of the results, and a CPU with
            // this level.
            unsafe {
                f(
                    $(::std::slice::from_raw_parts($x, n),)*
                    $(::std::slice::from_raw_parts_mut($y, n)),*
                )
            }
        }
        $crate::elementwise::compiled_loops::Loop::Many($crate::elementwise::compiled_loops::LoopOfMany {
            arity: ([$(stringify!($x)),*].len(), [$(stringify!($y)),*].len()),
            call,
            turns: $turns,
        })
    }};
}

/// Returns the [`TurnLoop`] of a dtype from the [`Versions`](gradloom_maths::Versions) of a function of
/// [`TurnValues`](crate::turn_loop::TurnValues).
#[doc(hidden)]
#[macro_export]
macro_rules! __turn_loop {
    ($versions:expr) => {{
        /// # Safety
        ///
        /// As `TurnLoop` says.
        unsafe fn run(
            level: $crate::elementwise::compiled_loops::Level,
            places: &$crate::turn_loop::TurnPlaces<'_>,
        ) {
            let f = $versions.levels[level as usize];
            // SAFETY: the caller guarantees the places, and a CPU with this level.
            unsafe { f($crate::turn_loop::TurnValues::new(places)) }
        }
        Some(run as $crate::turn_loop::TurnLoop)
    }};
}
