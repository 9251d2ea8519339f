//! Axes of lanes, for each leaf of a tree.

use crate::error::VmapFault;
use crate::tree::arithmetic::paths;
use crate::{Result, Tree};

/// The axis of the lanes in each part of a tree: see [`Vmap`](crate::Vmap).
///
/// - A number is the axis for all leaves; a negative one counts from the end.
/// - `None` stands for a value that all lanes share.
/// - A tuple has an entry for each part of a tuple.
/// - A slice has an entry for each element of a list.
/// - A list of pairs has entries for fields and their axes. Other fields have their lanes along axis 0.
///
/// ```
/// # use gradloom::LaneAxes;
/// let axes: LaneAxes = (0, None).into();
/// let nested: LaneAxes = (-1, [("w", Some(0)), ("b", None)]).into();
/// let of_a_list: LaneAxes = (&[Some(0), None][..], 0).into();
/// # drop((axes, nested, of_a_list));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LaneAxes(Axes);

#[derive(Clone, Debug, PartialEq)]
enum Axes {
    /// The same for all leaves.
    All(Option<isize>),
    /// The axes of named parts.
    Parts(Vec<(String, LaneAxes)>),
}

impl LaneAxes {
    /// Returns the axis for each leaf. `what` names these axes in messages.
    pub(super) fn of_leaves(
        &self,
        tree: &impl Tree,
        what: &'static str,
    ) -> Result<Vec<Option<isize>>> {
        let paths = paths(tree, "");
        self.check(&paths, what)?;
        Ok(paths.iter().map(|path| self.of_path(path)).collect())
    }

    fn of_path(&self, path: &str) -> Option<isize> {
        match &self.0 {
            Axes::All(axis) => *axis,
            Axes::Parts(parts) => {
                let found = parts.iter().find_map(|(name, axes)| {
                    let rest = after(path, name)?;
                    Some(axes.of_path(rest))
                });
                found.unwrap_or(Some(0))
            }
        }
    }

    /// Returns an error if a part names no leaf.
    fn check<S: AsRef<str>>(&self, paths: &[S], what: &'static str) -> Result<()> {
        let Axes::Parts(parts) = &self.0 else {
            return Ok(());
        };
        for (name, axes) in parts {
            let rests: Vec<&str> = paths
                .iter()
                .filter_map(|p| after(p.as_ref(), name))
                .collect();
            // A part without leaves may stand in a tuple, as `()` does.
            if rests.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) {
                let part = name.clone();
                return Err(VmapFault::NoPart { what, part }.into_error());
            }
            axes.check(&rests, what)?;
        }
        let n_paths = paths.len();
        // Each part of a tuple and each element of a list needs an entry.
        let is_position = |name: &str| name.starts_with(|c: char| c == '[' || c.is_ascii_digit());
        if parts.iter().all(|(name, _)| is_position(name)) && n_paths > 0 {
            let covered = |path: &S| {
                parts
                    .iter()
                    .any(|(name, _)| after(path.as_ref(), name).is_some())
            };
            if let Some(path) = paths.iter().find(|path| !covered(path)) {
                let path = path.as_ref().to_owned();
                return Err(VmapFault::NotCovered {
                    what,
                    path,
                    parts: parts.len(),
                }
                .into_error());
            }
        }
        Ok(())
    }
}

/// Returns the rest of a path after its first part, if that has this name.
fn after<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(name)?;
    match rest.strip_prefix('.') {
        Some(rest) => Some(rest),
        None => (rest.is_empty() || rest.starts_with('[')).then_some(rest),
    }
}

impl From<i32> for LaneAxes {
    fn from(axis: i32) -> LaneAxes {
        LaneAxes(Axes::All(Some(axis as isize)))
    }
}

impl From<Option<i32>> for LaneAxes {
    fn from(axis: Option<i32>) -> LaneAxes {
        LaneAxes(Axes::All(axis.map(|axis| axis as isize)))
    }
}

impl<A: Clone + Into<LaneAxes>> From<&[A]> for LaneAxes {
    fn from(elements: &[A]) -> LaneAxes {
        let elements = elements.iter().cloned().enumerate();
        LaneAxes(Axes::Parts(
            elements
                .map(|(i, axes)| (format!("[{i}]"), axes.into()))
                .collect(),
        ))
    }
}

impl<A: Into<LaneAxes>, const N: usize> From<[(&str, A); N]> for LaneAxes {
    fn from(parts: [(&str, A); N]) -> LaneAxes {
        let part = |(name, axes): (&str, A)| (name.to_owned(), axes.into());
        LaneAxes(Axes::Parts(parts.into_iter().map(part).collect()))
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Into<LaneAxes>),+> From<($($name,)+)> for LaneAxes {
            fn from(parts: ($($name,)+)) -> LaneAxes {
                #[allow(non_snake_case)]
                let ($($name,)+) = parts;
                let parts = [$($name.into()),+].into_iter().enumerate();
                LaneAxes(Axes::Parts(parts.map(|(i, axes)| (i.to_string(), axes)).collect()))
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}
