//! Trace points of traced functions.

use super::record::{Context, write};
use super::state::{self, Place, is_first_skip, is_tracing, place, session_of_points};
use crate::tree::leaves;
use crate::{Error, Tensor, Tree};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

thread_local! {
    /// Points that the innermost running trace has met.
    static NOTES: RefCell<Vec<Vec<NotedPoint>>> = const { RefCell::new(Vec::new()) };
    /// Points outside of running traces, by the sequence numbers of their values: a backward pass through the graph
    /// may meet them.
    static IN_GRAPH: RefCell<BTreeMap<u64, PointLabel>> = const { RefCell::new(BTreeMap::new()) };
}

/// Maximum number of values in graphs with a name. Older ones have no backward record.
const MOST_IN_GRAPH: usize = 1 << 16;

/// A value with a name that a trace has met.
pub(crate) type NotedPoint = (Tensor, PointLabel);

/// Name and context of a point, for the record of its cotangent.
#[derive(Clone, Debug)]
pub(crate) struct PointLabel {
    place: Place,
    name: String,
    source: String,
}

impl PointLabel {
    /// Writes the record of the cotangent of the value.
    pub(crate) fn dump_cotangent(&self, ct: &Tensor) {
        let value = format!("{}{}", self.place.path, self.name);
        let name = format!("{}ct_{}", self.place.path, self.name);
        dump_point(&[&name, &value], ct, "backward", &self.place, &self.source);
    }
}

/// Returns the label of a value of a graph, if points are traced and it is one.
pub(crate) fn label_of(x: &Tensor) -> Option<PointLabel> {
    if !is_tracing() {
        return None;
    }
    let seq_no = x.physical_value().seq_no;
    let found = IN_GRAPH.try_with(|labels| labels.borrow().get(&seq_no).cloned());
    found.ok().flatten()
}

/// The points that a trace meets, until this is dropped.
pub(crate) struct PointNotes(());

impl PointNotes {
    /// Begins a list of points, if points are traced.
    pub(crate) fn begin() -> Option<PointNotes> {
        is_tracing().then(|| {
            let _ = NOTES.try_with(|notes| notes.borrow_mut().push(Vec::new()));
            PointNotes(())
        })
    }

    /// Returns the points so far.
    pub(crate) fn take(&self) -> Vec<NotedPoint> {
        let taken = NOTES.try_with(|notes| notes.borrow_mut().last_mut().map(std::mem::take));
        taken.ok().flatten().unwrap_or_default()
    }
}

impl Drop for PointNotes {
    fn drop(&mut self) {
        // Dropping tensors may run code of the user.
        let _ = NOTES.try_with(|notes| notes.borrow_mut().pop());
    }
}

/// Writes the record of a point, if one of its names is selected, under the first. A point without elements is
/// skipped.
fn dump_point(names: &[&str], x: &Tensor, stage: &str, place: &Place, source: &str) {
    let name = names[0];
    let Some(session) = session_of_points() else {
        return;
    };
    if !session.writer.config().takes_point(names) || session.failed.load(Ordering::Relaxed) {
        return;
    }
    let buffer = match x.buffer() {
        Ok(buffer) => buffer,
        Err(error) => {
            if is_first_skip(&session, name) {
                let why = match error {
                    Error::Lane => {
                        "a transform runs its code on values without elements".to_owned()
                    }
                    error => error.to_string(),
                };
                eprintln!("gradloom: the trace point `{name}` is skipped: {why}");
            }
            return;
        }
    };
    let context = Context {
        seq_index: place.seq,
        layer_idx: place.layer,
        stage: Some(stage),
        source: source.to_owned(),
    };
    if let Err(error) = write(&session, name, x, &buffer, context)
        && !session.failed.swap(true, Ordering::Relaxed)
    {
        eprintln!("gradloom: {error}; no more trace points are written");
    }
}

/// Writes the records of the leaves of a named value, and notes them for the backward pass.
#[cold]
fn dump_leaves(leaves: Vec<Tensor>, names: Vec<String>, source: String) {
    let place = place();
    for (x, name) in leaves.into_iter().zip(names) {
        let whole = format!("{}{name}", place.path);
        dump_point(&[&whole], &x, "forward", &place, &source);
        let label = PointLabel {
            place: place.clone(),
            name,
            source: source.clone(),
        };
        let in_trace = NOTES.try_with(|notes| match notes.borrow_mut().last_mut() {
            Some(notes) => {
                notes.push((x.clone(), label.clone()));
                true
            }
            None => false,
        });
        if in_trace == Ok(false) {
            let _ = IN_GRAPH.try_with(|labels| {
                let mut labels = labels.borrow_mut();
                labels.insert(x.physical_value().seq_no, label);
                if labels.len() > MOST_IN_GRAPH {
                    labels.pop_first();
                }
            });
        }
    }
}

/// A named value. rustc selects the method `trace_point` by its type: trees have records.
#[doc(hidden)]
#[derive(Debug)]
pub struct PointArg<'a, T: ?Sized>(pub &'a T);

/// A tree of tensors.
#[doc(hidden)]
pub trait TracePoint {
    /// Writes the records of the leaves; `at` is the place of the name in the source.
    fn trace_point(&self, name: &'static str, at: (&'static str, u32, u32));
}

impl<T: Tree> TracePoint for &&PointArg<'_, T> {
    #[inline]
    fn trace_point(&self, name: &'static str, at: (&'static str, u32, u32)) {
        if is_tracing() {
            dump_tree(self.0, name, at);
        }
    }
}

/// A reference to a tree of tensors.
#[doc(hidden)]
pub trait TracePointOfRef {
    /// Writes the records of the leaves.
    fn trace_point(&self, name: &'static str, at: (&'static str, u32, u32));
}

impl<T: Tree> TracePointOfRef for &PointArg<'_, &T> {
    #[inline]
    fn trace_point(&self, name: &'static str, at: (&'static str, u32, u32)) {
        if is_tracing() {
            dump_tree(*self.0, name, at);
        }
    }
}

/// A value without tensors.
#[doc(hidden)]
pub trait UntracedPoint {
    /// Does nothing.
    fn trace_point(&self, _name: &'static str, _at: (&'static str, u32, u32)) {}
}

impl<T: ?Sized> UntracedPoint for PointArg<'_, T> {}

#[cold]
fn dump_tree<T: Tree>(x: &T, name: &'static str, (file, line, column): (&str, u32, u32)) {
    let mut names = Vec::new();
    x.paths(name, &mut names);
    dump_leaves(leaves(x), names, format!("{file}:{line}:{column}"));
}

/// Counter of the iterations of a loop in a traced function.
#[doc(hidden)]
#[derive(Debug)]
pub struct PointLoop {
    /// Number of outer loops, if points are traced.
    depth: Option<usize>,
    iteration: usize,
}

/// Begins a loop.
#[doc(hidden)]
#[inline]
pub fn point_loop() -> PointLoop {
    let depth = if is_tracing() {
        state::begin_loop()
    } else {
        None
    };
    PointLoop {
        depth,
        iteration: 0,
    }
}

impl PointLoop {
    /// Begins the next iteration.
    #[inline]
    pub fn next(&mut self) {
        if let Some(depth) = self.depth {
            state::set_iteration(depth, self.iteration);
            self.iteration += 1;
        }
    }
}

impl Drop for PointLoop {
    #[inline]
    fn drop(&mut self) {
        if let Some(depth) = self.depth {
            state::end_loop(depth);
        }
    }
}
