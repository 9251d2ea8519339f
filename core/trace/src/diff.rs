//! Comparison of two traces.

use crate::compare::{Comparison, ValueDifference, compare_elements};
use crate::report::number;
use crate::values::read_stored_of;
use crate::{Entry, Error, Result, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// Result of a comparison: one item for each record of either trace, in the order of execution.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Folder or file of the first trace.
    pub a: PathBuf,
    /// Folder or file of the second trace.
    pub b: PathBuf,
    /// Relative difference up to which two tensors count as equal.
    pub tolerance: f64,
    /// The records, in the order of the first trace. A record that only the second one has follows
    /// the record that it follows there.
    pub items: Vec<Item>,
}

/// A pair of records of one name, or a record without a partner.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// Name of the record.
    pub name: String,
    /// Number of the record among those of its name, from 1.
    pub occurrence: usize,
    /// Outcome of the comparison.
    pub status: Status,
    /// Facts that differ.
    pub differences: Vec<Difference>,
    /// Comparison of the elements, if both traces have them.
    pub values: Option<ValueDifference>,
    /// Relative difference of the root mean squares. It is `None` if one of them is not finite, or
    /// the record has no partner.
    pub rms_difference: Option<f64>,
    /// Place in the source that the record comes from, if a trace has it.
    pub source: Option<String>,
    /// Index of the layer, as a field of the record or in its name.
    pub layer: Option<usize>,
    /// Index of the token or step, as a field of the record or in its name.
    pub sequence: Option<usize>,
    /// Stage of the computation.
    pub stage: Option<String>,
}

/// Outcome of the comparison of two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All facts are equal, or differ within the tolerance.
    Equal,
    /// A fact differs.
    Different,
    /// Only the first trace has the record.
    Missing,
    /// Only the second trace has the record.
    Extra,
}

/// A fact that differs between two records, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the field.
    pub field: &'static str,
    /// Value in the first trace.
    pub a: String,
    /// Value in the second trace.
    pub b: String,
}

impl Diff {
    /// Returns whether all records are equal.
    pub fn is_equal(&self) -> bool {
        self.first().is_none()
    }

    /// Returns the first record that is not equal: the first divergence.
    pub fn first(&self) -> Option<&Item> {
        self.items.iter().find(|item| item.status != Status::Equal)
    }

    /// Returns the number of records with a status.
    pub fn count(&self, status: Status) -> usize {
        self.items
            .iter()
            .filter(|item| item.status == status)
            .count()
    }
}

/// Compares two traces by name, in the order of execution.
///
/// Records of one name are paired in order. A record without a partner is a difference. Optional
/// fields are compared only if both records have them, so old records compare with newer ones.
///
/// If hashes differ, the tensors are still equal within a `tolerance`: if the greatest difference of
/// the elements is at most `tolerance` times the larger root mean square, or if a trace has no
/// elements, if the root mean squares differ by as much. No tolerance applies if a root mean square
/// is not finite. The tolerance 0 asks for equal hashes, and equal elements if both traces have
/// them: a hash is that of the elements as `f32`.
///
/// If hashes are equal, the root mean squares must be equal too, up to rounding (a relative
/// difference of 1e-6) or `tolerance`. Two that are not finite are equal then.
///
/// # Errors
///
/// If a trace is empty or no name is in both: nothing compared is never equal. If both records of a
/// name have elements, and a file of them cannot be read or contradicts its record.
pub fn diff(a: &Trace, b: &Trace, tolerance: f64) -> Result<Diff> {
    for trace in [a, b] {
        if trace.entries.is_empty() {
            let path = trace.path.clone();
            return Err(Error::Empty { path });
        }
    }
    let (of_a, of_b) = (numbered(a), numbered(b));
    let keys: BTreeSet<&Key<'_>> = of_a.iter().map(|(key, _)| key).collect();
    let partners: BTreeMap<&Key<'_>, &Entry> = of_b.iter().map(|(key, e)| (key, *e)).collect();
    if !keys.iter().any(|key| partners.contains_key(*key)) {
        let (a, b) = (a.path.clone(), b.path.clone());
        return Err(Error::Disjoint { a, b });
    }
    // Records that only `b` has, after the record that they follow; `None` is the beginning.
    let mut extras: BTreeMap<Option<&Key<'_>>, VecDeque<Item>> = BTreeMap::new();
    let mut last = None;
    for (key, entry) in &of_b {
        match keys.contains(key) {
            true => last = Some(key),
            false => extras
                .entry(last)
                .or_default()
                .push_back(alone(key, entry, Status::Extra)),
        }
    }
    let mut items = Vec::from(extras.remove(&None).unwrap_or_default());
    for (key, entry) in &of_a {
        items.push(match partners.get(key) {
            Some(partner) => compare(key, entry, partner, tolerance)?,
            None => alone(key, entry, Status::Missing),
        });
        items.extend(extras.remove(&Some(key)).unwrap_or_default());
    }
    Ok(Diff {
        a: a.path.clone(),
        b: b.path.clone(),
        tolerance,
        items,
    })
}

/// Relative difference of the root mean squares of equal elements, up to which it is rounding:
/// another implementation may sum in another order.
const RMS_ROUNDING: f64 = 1e-6;

/// Name of a record, and its number among those of the name.
type Key<'a> = (&'a str, usize);

fn numbered(trace: &Trace) -> Vec<(Key<'_>, &Entry)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let entries = trace.entries.iter().map(|entry| {
        let count = counts.entry(&entry.record.name).or_default();
        *count += 1;
        ((&*entry.record.name, *count), entry)
    });
    entries.collect()
}

fn alone(key: &Key<'_>, entry: &Entry, status: Status) -> Item {
    let record = &entry.record;
    Item {
        name: key.0.to_owned(),
        occurrence: key.1,
        status,
        differences: Vec::new(),
        values: None,
        rms_difference: None,
        source: entry.source.clone(),
        layer: record.layer_idx.or_else(|| record.parse_layer_index()),
        sequence: record.seq_index.or_else(|| record.parse_sequence_index()),
        stage: record.stage.clone().or_else(|| record.parse_stage()),
    }
}

fn compare(key: &Key<'_>, a: &Entry, b: &Entry, tolerance: f64) -> Result<Item> {
    let (x, y) = (&a.record, &b.record);
    let mut differences = Vec::new();
    let mut note = |field, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        let (a, b) = (a.to_string(), b.to_string());
        if a != b {
            differences.push(Difference { field, a, b });
        }
    };
    let shape = |shape: &[usize]| format!("{shape:?}");
    note("shape", &shape(&x.shape), &shape(&y.shape));
    note("dtype", &x.dtype, &y.dtype);
    if let (Some(i), Some(j)) = (x.seq_index, y.seq_index) {
        note("seq_index", &i, &j);
    }
    if let (Some(i), Some(j)) = (x.layer_idx, y.layer_idx) {
        note("layer_idx", &i, &j);
    }
    if let (Some(s), Some(t)) = (&x.stage, &y.stage) {
        note("stage", s, t);
    }
    let same_hash = x.blake3.eq_ignore_ascii_case(&y.blake3);
    let scale = x.rms.abs().max(y.rms.abs());
    let rms_difference = match (x.rms.is_finite() && y.rms.is_finite(), x.rms == y.rms) {
        (false, _) => None,
        (true, true) => Some(0.0),
        (true, false) => Some((x.rms - y.rms).abs() / scale),
    };
    let found = match (&a.values, &b.values) {
        (Some(of_a), Some(of_b)) => {
            let (of_a, of_b) = (read_stored_of(x, of_a)?, read_stored_of(y, of_b)?);
            let fits = of_a.shape == of_b.shape;
            fits.then(|| compare_elements(&of_a.shape, &of_a.elements, &of_b.elements))
        }
        _ => None,
    };
    // A hash is that of the elements as `f32`, which rounds those of `f64` and large integers.
    let exact = found.as_ref().is_none_or(|found| found.is_exact);
    let values = found.map(|Comparison { values, .. }| values);
    let within = match (&values, rms_difference) {
        // Without a finite scale, a tolerance says nothing about the elements.
        (_, None) => false,
        (Some(v), _) => v.max_difference.is_finite() && v.max_difference <= tolerance * scale,
        (None, Some(relative)) => relative <= tolerance,
    };
    let same_rms = match rms_difference {
        Some(relative) => relative <= tolerance.max(RMS_ROUNDING),
        None => !x.rms.is_finite() && !y.rms.is_finite(),
    };
    let equal = match same_hash {
        true => same_rms && (exact || tolerance > 0.0 && within),
        false => tolerance > 0.0 && within,
    };
    if !equal {
        if same_hash
            && !exact
            && let Some(values) = &values
        {
            note("elements", &0, &number(values.max_difference));
        }
        if !same_hash {
            note("blake3", &x.blake3, &y.blake3);
        }
        // Two root mean squares that are not finite may print alike, and still be why the records differ.
        if rms_difference.is_none() || x.rms != y.rms {
            let (a, b) = (number(x.rms), number(y.rms));
            let field = "rms";
            differences.push(Difference { field, a, b });
        }
    }
    let status = match differences.is_empty() {
        true => Status::Equal,
        false => Status::Different,
    };
    Ok(Item {
        status,
        differences,
        values,
        rms_difference,
        source: a.source.clone().or_else(|| b.source.clone()),
        ..alone(key, a, status)
    })
}
