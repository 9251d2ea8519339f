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
/// - A list of pairs has entries for fields and their axes. Other fields have their lanes along axis 0. If the axes
///   are those of the arguments of a traced function, the pairs are for arguments; if none has the name, and there is
///   one argument, for its fields.
///
/// ```
/// # use gradloom::LaneAxes;
/// let axes: LaneAxes = (0, None).into();
/// let nested: LaneAxes = (-1, [("w", Some(0)), ("b", None)]).into();
/// let of_a_list: LaneAxes = (&[Some(0), None][..], 0).into();
/// # drop((axes, nested, of_a_list));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneAxes(Axes);

#[derive(Clone, Debug, PartialEq, Eq)]
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
        let leaves: Vec<_> = paths.iter().map(|path| (&**path, &**path)).collect();
        self.of_named(&leaves, what)
    }

    /// Returns the axis for each leaf of the arguments of a function, which are given by their names and
    /// the paths of their leaves.
    ///
    /// Axes in a tuple are those of the arguments, in order. Axes of a single argument need no tuple
    /// around them.
    pub(super) fn of_arguments(
        &self,
        arguments: &[(&str, Vec<String>)],
    ) -> Result<Vec<Option<isize>>> {
        const WHAT: &str = "in_axes";
        let name_of = |(name, _): &(&str, Vec<String>)| (*name).to_owned();
        let is_argument = |(part, _): &(String, LaneAxes)| arguments.iter().any(|a| a.0 == part);
        let each: Vec<LaneAxes> = match &self.0 {
            Axes::Parts(parts) if is_tuple(parts) && parts.len() == arguments.len() => {
                parts.iter().map(|(_, axes)| axes.clone()).collect()
            }
            Axes::Parts(parts) if parts.iter().all(is_argument) => {
                distinct(parts, WHAT)?;
                let axes = |argument| {
                    let mut parts = parts.iter();
                    let part = parts.find(|part| part.0 == name_of(argument));
                    part.map_or(0.into(), |(_, axes)| axes.clone())
                };
                arguments.iter().map(axes).collect()
            }
            Axes::Parts(parts) if arguments.len() != 1 => {
                let fault = match parts.iter().find(|part| !is_argument(part)) {
                    Some((part, _)) if !is_number(part) => VmapFault::NoPart {
                        what: WHAT,
                        part: part.clone(),
                    },
                    _ => VmapFault::Entries {
                        found: parts.len(),
                        names: arguments.iter().map(name_of).collect(),
                    },
                };
                return Err(fault.into_error());
            }
            _ => vec![self.clone(); arguments.len()],
        };
        let mut all = Vec::new();
        for ((name, paths), axes) in arguments.iter().zip(each) {
            let leaves = paths
                .iter()
                .filter_map(|path| Some((after(path, name)?, &**path)));
            all.extend(axes.of_named(&leaves.collect::<Vec<_>>(), WHAT)?);
        }
        Ok(all)
    }

    /// Returns the axis for each leaf, given by the rest of its path from here, and the whole path.
    fn of_named(&self, leaves: &[(&str, &str)], what: &'static str) -> Result<Vec<Option<isize>>> {
        self.check(leaves, what)?;
        Ok(leaves.iter().map(|(rest, _)| self.of_path(rest)).collect())
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
    fn check(&self, leaves: &[(&str, &str)], what: &'static str) -> Result<()> {
        let Axes::Parts(parts) = &self.0 else {
            return Ok(());
        };
        distinct(parts, what)?;
        for (name, axes) in parts {
            let inside = leaves
                .iter()
                .filter_map(|(rest, path)| Some((after(rest, name)?, *path)));
            let inside: Vec<(&str, &str)> = inside.collect();
            // A part without leaves may stand in a tuple, as `()` does.
            if inside.is_empty() && !is_number(name) {
                let part = name.clone();
                return Err(VmapFault::NoPart { what, part }.into_error());
            }
            axes.check(&inside, what)?;
        }
        // Each part of a tuple and each element of a list needs an entry.
        let is_position = |name: &str| name.starts_with('[') || is_number(name);
        if parts.iter().all(|(name, _)| is_position(name)) {
            let covered = |rest: &str| parts.iter().any(|(name, _)| after(rest, name).is_some());
            if let Some((_, path)) = leaves.iter().find(|(rest, _)| !covered(rest)) {
                let (path, parts) = ((*path).to_owned(), parts.len());
                return Err(VmapFault::NotCovered { what, path, parts }.into_error());
            }
        }
        Ok(())
    }
}

/// Returns an error if two entries have the same name.
fn distinct(parts: &[(String, LaneAxes)], what: &'static str) -> Result<()> {
    for (i, (name, _)) in parts.iter().enumerate() {
        if parts[..i].iter().any(|(before, _)| before == name) {
            let part = name.clone();
            return Err(VmapFault::Twice { what, part }.into_error());
        }
    }
    Ok(())
}

/// Returns whether these are entries for the parts of a tuple.
fn is_tuple(parts: &[(String, LaneAxes)]) -> bool {
    parts.iter().all(|(name, _)| is_number(name))
}

/// Returns whether a part of a path is the position in a tuple.
fn is_number(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
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
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}
