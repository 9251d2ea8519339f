//! Axes of lanes, for each leaf of a tree.

use crate::error::VmapFault;
use crate::tree::arithmetic::paths;
use crate::tree::prefix::{PrefixFault, PrefixTree, after, is_number, prefix_conversions};
use crate::{Result, Tree};
use gradloom_ir::Symbol;

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

type Axes = PrefixTree<Option<isize>>;

/// The axes of the lanes in arguments and results of a traced function, and their number: the first
/// argument of its companion `vmap`.
///
/// All that converts to [`LaneAxes`] converts to this type: the axes of the arguments. The methods add what
/// [`Vmap`](crate::Vmap) has.
///
/// ```
/// use gradloom::{VmapAxes, prelude::*};
///
/// #[traced]
/// fn scaled(x: &Tensor, w: &Tensor) -> Tensor {
///     x * w
/// }
///
/// let (x, w) = (Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([1.0f32, 10.0]));
/// // The lanes are the columns of `x` and of the result.
/// let y = scaled::vmap(VmapAxes::new((1, None)).out_axes(1), &x, &w);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 30.0, 40.0]);
/// // All lanes share the arguments.
/// let y = scaled::vmap(VmapAxes::new(None).axis_size(3), &w, &w);
/// assert_eq!(y.shape(), [3, 2]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmapAxes {
    pub(super) in_axes: LaneAxes,
    pub(super) out_axes: LaneAxes,
    pub(super) axis_size: Option<usize>,
    /// The mesh axis that splits the lanes of values with specs.
    pub(super) mesh_axis: Option<Symbol>,
}

impl VmapAxes {
    /// Returns these axes of the arguments, with the lanes along axis 0 of each leaf of the result.
    pub fn new(in_axes: impl Into<LaneAxes>) -> VmapAxes {
        VmapAxes {
            in_axes: in_axes.into(),
            out_axes: 0.into(),
            axis_size: None,
            mesh_axis: None,
        }
    }

    /// Sets the axis of the lanes of each part of the result. `None` returns a part that all lanes
    /// share, without an axis for them.
    pub fn out_axes(mut self, axes: impl Into<LaneAxes>) -> VmapAxes {
        self.out_axes = axes.into();
        self
    }

    /// Sets the number of lanes, which is needed only if lanes share all arguments.
    pub fn axis_size(mut self, n: usize) -> VmapAxes {
        self.axis_size = Some(n);
        self
    }

    /// Sets the mesh axis that splits the lanes: see [`Vmap::spmd_axis_name`](crate::Vmap::spmd_axis_name).
    pub fn spmd_axis_name(mut self, axis: &str) -> VmapAxes {
        self.mesh_axis = Some(Symbol::new(axis));
        self
    }
}

impl<A: Into<LaneAxes>> From<A> for VmapAxes {
    fn from(in_axes: A) -> VmapAxes {
        VmapAxes::new(in_axes)
    }
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
        of_named(&self.0, &leaves, what)
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
        let is_argument = |(part, _): &(String, Axes)| arguments.iter().any(|a| a.0 == part);
        let each: Vec<Axes> = match &self.0 {
            Axes::Parts(parts) if is_tuple(parts) && parts.len() == arguments.len() => {
                parts.iter().map(|(_, axes)| axes.clone()).collect()
            }
            Axes::Parts(parts) if parts.iter().all(is_argument) => {
                distinct(parts, WHAT)?;
                let axes = |argument| {
                    let mut parts = parts.iter();
                    let part = parts.find(|part| part.0 == name_of(argument));
                    part.map_or(Axes::All(Some(0)), |(_, axes)| axes.clone())
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
            _ => vec![self.0.clone(); arguments.len()],
        };
        let mut all = Vec::new();
        for ((name, paths), axes) in arguments.iter().zip(each) {
            let leaves = paths
                .iter()
                .filter_map(|path| Some((after(path, name)?, &**path)));
            all.extend(of_named(&axes, &leaves.collect::<Vec<_>>(), WHAT)?);
        }
        Ok(all)
    }
}

/// Returns the axis for each leaf, given by the rest of its path from here, and the whole path.
fn of_named(
    axes: &Axes,
    leaves: &[(&str, &str)],
    what: &'static str,
) -> Result<Vec<Option<isize>>> {
    all_distinct(axes, what)?;
    axes.check(leaves, is_number).map_err(|fault| {
        let fault = match fault {
            PrefixFault::NoPart(part) => VmapFault::NoPart { what, part },
            PrefixFault::NotCovered { path, entries } => VmapFault::NotCovered {
                what,
                path,
                parts: entries,
            },
        };
        fault.into_error()
    })?;
    let axis = |(rest, _): &(&str, &str)| axes.of_path(rest).copied().unwrap_or(Some(0));
    Ok(leaves.iter().map(axis).collect())
}

/// Returns an error if two entries of some part have the same name.
fn all_distinct(axes: &Axes, what: &'static str) -> Result<()> {
    let Axes::Parts(parts) = axes else {
        return Ok(());
    };
    distinct(parts, what)?;
    parts
        .iter()
        .try_for_each(|(_, part)| all_distinct(part, what))
}

/// Returns an error if two entries have the same name.
fn distinct(parts: &[(String, Axes)], what: &'static str) -> Result<()> {
    for (i, (name, _)) in parts.iter().enumerate() {
        if parts[..i].iter().any(|(before, _)| before == name) {
            let part = name.clone();
            return Err(VmapFault::Twice { what, part }.into_error());
        }
    }
    Ok(())
}

/// Returns whether these are entries for the parts of a tuple.
fn is_tuple(parts: &[(String, Axes)]) -> bool {
    parts.iter().all(|(name, _)| is_number(name))
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

prefix_conversions!(LaneAxes);
