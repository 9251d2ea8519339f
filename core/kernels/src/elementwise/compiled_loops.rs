//! Precompiled loops over elementwise groups, emitted by the `#[traced]` macro.
//!
//! A traced function or a companion registers its loops when it is first called. A plan with a group of the same
//! signature runs the loop instead of the members one by one. The bits are the same, because the
//! loop calls the same scalar functions.

use crate::simd::level::level;
use gradloom_ir::Op;
use gradloom_ir::hash::HashMap;
use gradloom_ir::pass::{Pattern, Patterns};
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

/// Maximum number of operands of a loop.
pub const MOST_ARGS: usize = 12;
/// Maximum number of results of a loop.
pub const MOST_OUTS: usize = 4;

/// Expands to its second argument, so that a repetition over names yields types.
macro_rules! each {
    ($name:ident $t:ty) => {
        $t
    };
}

macro_rules! arities {
    ($($variant:ident ($($x:ident)*) ($($y:ident)*);)*) => {
        /// A loop by its number of operands and results: `L2x1` has two operands and one result,
        /// all of equal length.
        ///
        /// The versions are for the SIMD levels, in order.
        #[allow(missing_docs)]
        pub enum Loop<T: 'static> {
            $($variant([unsafe fn($(each!($x &[T]),)* $(each!($y &mut [T])),*); 3]),)*
        }

        impl<T: 'static> Loop<T> {
            /// Returns the number of operands and of results.
            pub fn arity(&self) -> (usize, usize) {
                match self {
                    $(Loop::$variant(_) => {
                        ([$(stringify!($x)),*].len(), [$(stringify!($y)),*].len())
                    })*
                }
            }

            /// Runs the loop over `n` elements.
            ///
            /// # Safety
            ///
            /// There must be as many pointers as [`arity`](Self::arity) says, each to `n` valid
            /// elements. The results must not overlap anything, and nothing else may use them.
            // Not inlined: rustc does so in some builds only, and the other instructions of a group are slower then.
            #[inline(never)]
            pub unsafe fn call(&self, args: &[*mut u8], outs: &[*mut u8], n: usize) {
                match self {
                    $(Loop::$variant(versions) => {
                        let f = versions[level() as usize];
                        let [$($x),*] = *args else { unreachable!("the number of operands matches the arity") };
                        let [$($y),*] = *outs else { unreachable!("the number of results matches the arity") };
                        // SAFETY: the caller guarantees `n` valid elements at each pointer, and
                        // exclusive use of the results. The CPU supports the level that `level`
                        // returns.
                        unsafe {
                            f(
                                $(std::slice::from_raw_parts($x.cast::<T>().cast_const(), n),)*
                                $(std::slice::from_raw_parts_mut($y.cast::<T>(), n)),*
                            )
                        }
                    })*
                }
            }
        }
    };
}

macro_rules! results {
    ($($one:ident $two:ident $three:ident $four:ident ($($x:ident)*);)*) => {
        arities! {
            $($one ($($x)*) (p);)*
            $($two ($($x)*) (p q);)*
            $($three ($($x)*) (p q r);)*
            $($four ($($x)*) (p q r s);)*
        }
    };
}

results! {
    L1x1 L1x2 L1x3 L1x4 (a);
    L2x1 L2x2 L2x3 L2x4 (a b);
    L3x1 L3x2 L3x3 L3x4 (a b c);
    L4x1 L4x2 L4x3 L4x4 (a b c d);
    L5x1 L5x2 L5x3 L5x4 (a b c d e);
    L6x1 L6x2 L6x3 L6x4 (a b c d e f1);
    L7x1 L7x2 L7x3 L7x4 (a b c d e f1 g);
    L8x1 L8x2 L8x3 L8x4 (a b c d e f1 g h);
    L9x1 L9x2 L9x3 L9x4 (a b c d e f1 g h i);
    L10x1 L10x2 L10x3 L10x4 (a b c d e f1 g h i j);
    L11x1 L11x2 L11x3 L11x4 (a b c d e f1 g h i j k);
    L12x1 L12x2 L12x3 L12x4 (a b c d e f1 g h i j k l);
}
