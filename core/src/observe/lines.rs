//! Lines of the user's code that record ops, by the sequence numbers of the ops.

use crate::graph::recording::{Watch, set_watch, watches};
use crate::graph::seq_no::next_of_thread;
use gradloom_ir::Line;
use std::cell::RefCell;

thread_local! {
    /// Each line with a sequence number greater than those of its ops, in ascending order.
    static LINES: RefCell<Vec<(u64, Option<Line>)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` while the lines of ops are noted: programs that are cut out of the graph have them, and so have their
/// derivatives.
pub(crate) fn with_lines<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the state from before, even if `f` panics.
    struct LinesGuard {
        was_on: bool,
    }
    impl Drop for LinesGuard {
        fn drop(&mut self) {
            set_watch(Watch::Lines, self.was_on);
            if !self.was_on {
                LINES.with_borrow_mut(Vec::clear);
            }
        }
    }
    let _guard = LinesGuard {
        was_on: set_watch(Watch::Lines, true),
    };
    note_line_of_ops(None);
    f()
}

/// Returns whether a line is one of the transforms of this library, which record ops of their own: the user wrote none of
/// them.
pub(super) fn is_of_transforms(at: Line) -> bool {
    let own = file!().strip_suffix("observe/lines.rs");
    let rest = own.and_then(|folder| at.file().strip_prefix(folder));
    rest.is_some_and(|rest| rest.starts_with("transform/"))
}

/// Notes the line of the ops since the last note, if lines are noted.
pub(crate) fn note_line_of_ops(line: Option<Line>) {
    if watches(Watch::Lines) {
        let next = next_of_thread();
        LINES.with_borrow_mut(|lines| {
            if lines.last().is_none_or(|(end, _)| *end < next) {
                lines.push((next, line));
            }
        });
    }
}

/// Returns the line that recorded the op with a sequence number, if it is known.
pub(crate) fn line_of_op(seq_no: u64) -> Option<Line> {
    if !watches(Watch::Lines) {
        return None;
    }
    LINES.with_borrow(|lines| {
        let at = lines.partition_point(|(end, _)| *end <= seq_no);
        lines.get(at)?.1
    })
}
