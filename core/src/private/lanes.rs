//! Lanes of the arguments of a traced function.

use super::recorded::set_aside;
use crate::transform::{Outcome, VmapAxes, vmap_leaves};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_leaves};
use crate::{Error, Result, Tensor, Tree};

/// Arguments that may have lanes, as one tree.
pub struct LaneArguments<X> {
    copies: X,
    /// Name of each argument and the paths of its leaves, the last one first.
    arguments: Vec<(&'static str, Vec<String>)>,
}

/// Returns no arguments.
pub fn no_lanes() -> LaneArguments<()> {
    LaneArguments {
        copies: (),
        arguments: Vec::new(),
    }
}

/// Adds an argument before others.
pub fn lanes_before<T: Tree, X>(
    name: &'static str,
    x: &T,
    rest: LaneArguments<X>,
) -> LaneArguments<(T, X)> {
    let mut arguments = rest.arguments;
    arguments.push((name, paths(x, name)));
    LaneArguments {
        copies: (super::copy(x), rest.copies),
        arguments,
    }
}

/// Arguments that may have lanes, each after its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __lanes {
    () => { $crate::__private::no_lanes() };
    ($name:literal $x:expr $(, $rest_name:literal $rest:expr)*) => {
        $crate::__private::lanes_before($name, $x, $crate::__lanes!($($rest_name $rest),*))
    };
}

/// Applies a function to each lane of its arguments.
#[track_caller]
pub fn vmap<X, R>(
    axes: &VmapAxes,
    arguments: LaneArguments<X>,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let LaneArguments {
        copies,
        mut arguments,
    } = arguments;
    arguments.reverse();
    let on_leaves = |lane: &[Tensor]| f(&with_leaves(&copies, lane));
    R::wrap(vmap_leaves(axes, &arguments, leaves(&copies), on_leaves))
}

/// [`vmap`] for functions with an error type of their own.
pub fn vmap_as<X, Y, E>(
    axes: &VmapAxes,
    arguments: LaneArguments<X>,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<Y, E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = vmap(axes, arguments, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}
