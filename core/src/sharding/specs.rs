//! Specs of trees: one for each leaf.

use crate::error::ShardingFault;
use crate::sharding::ShardingSpec;
use crate::tree::arithmetic::paths;
use crate::{Result, Tree};

/// The spec of each part of a tree.
///
/// - A [`ShardingSpec`] is that of all leaves.
/// - `None` stands for a value that each device has as a whole.
/// - A tuple has an entry for each part of a tuple.
/// - A slice has an entry for each element of a list.
/// - A list of pairs has entries for fields. Each device has other fields as a whole.
///
/// A spec may have fewer dims than a leaf: the last axes of the leaf are not divided then.
///
/// ```
/// # use gradloom::sharding::{Mesh, ShardingSpec, Specs};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let batch_and_model: Specs = (rows, None).into();
/// # drop(batch_and_model);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Specs(Tiles);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tiles {
    /// The same for all leaves.
    All(Option<ShardingSpec>),
    /// Those of named parts.
    Parts(Vec<(String, Specs)>),
}

impl Specs {
    /// Returns the spec for each leaf. `what` names these specs in messages.
    pub(super) fn of_leaves(
        &self,
        tree: &impl Tree,
        what: &'static str,
    ) -> Result<Vec<Option<ShardingSpec>>, ShardingFault> {
        let paths = paths(tree, "");
        let rests: Vec<&str> = paths.iter().map(String::as_str).collect();
        self.check(&rests, what)?;
        Ok(paths.iter().map(|path| self.of_path(path)).collect())
    }

    /// Returns all specs.
    pub(super) fn all(&self) -> Vec<&ShardingSpec> {
        match &self.0 {
            Tiles::All(spec) => spec.iter().collect(),
            Tiles::Parts(parts) => parts.iter().flat_map(|(_, specs)| specs.all()).collect(),
        }
    }

    fn of_path(&self, path: &str) -> Option<ShardingSpec> {
        match &self.0 {
            Tiles::All(spec) => spec.clone(),
            Tiles::Parts(parts) => parts.iter().find_map(|(name, specs)| {
                let rest = after(path, name)?;
                Some(specs.of_path(rest))
            })?,
        }
    }

    /// Returns an error if a part names no leaf, or a tuple or list has too few entries.
    fn check(&self, leaves: &[&str], what: &'static str) -> Result<(), ShardingFault> {
        let Tiles::Parts(parts) = &self.0 else {
            return Ok(());
        };
        let is_position = |name: &str| name.starts_with(|c: char| c == '[' || c.is_ascii_digit());
        for (name, specs) in parts {
            let inside: Vec<&str> = leaves.iter().filter_map(|rest| after(rest, name)).collect();
            // A part without leaves may stand in a tuple, as `()` does.
            if inside.is_empty() && !is_position(name) {
                let part = name.clone();
                return Err(ShardingFault::NoPart { what, part });
            }
            specs.check(&inside, what)?;
        }
        let covered = |rest: &&&str| parts.iter().any(|(name, _)| after(rest, name).is_some());
        match leaves.iter().find(|rest| !covered(rest)) {
            Some(rest) if parts.iter().all(|(name, _)| is_position(name)) => {
                let (path, entries) = ((*rest).to_owned(), parts.len());
                Err(ShardingFault::NotCovered {
                    what,
                    path,
                    entries,
                })
            }
            _ => Ok(()),
        }
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

impl From<ShardingSpec> for Specs {
    fn from(spec: ShardingSpec) -> Specs {
        Specs(Tiles::All(Some(spec)))
    }
}

impl From<&ShardingSpec> for Specs {
    fn from(spec: &ShardingSpec) -> Specs {
        spec.clone().into()
    }
}

impl From<Option<ShardingSpec>> for Specs {
    fn from(spec: Option<ShardingSpec>) -> Specs {
        Specs(Tiles::All(spec))
    }
}

impl<S: Clone + Into<Specs>> From<&[S]> for Specs {
    fn from(elements: &[S]) -> Specs {
        let elements = elements.iter().cloned().enumerate();
        let parts = elements.map(|(i, specs)| (format!("[{i}]"), specs.into()));
        Specs(Tiles::Parts(parts.collect()))
    }
}

impl<S: Into<Specs>, const N: usize> From<[(&str, S); N]> for Specs {
    fn from(parts: [(&str, S); N]) -> Specs {
        let part = |(name, specs): (&str, S)| (name.to_owned(), specs.into());
        Specs(Tiles::Parts(parts.into_iter().map(part).collect()))
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Into<Specs>),+> From<($($name,)+)> for Specs {
            fn from(parts: ($($name,)+)) -> Specs {
                #[allow(non_snake_case)]
                let ($($name,)+) = parts;
                let parts = [$($name.into()),+].into_iter().enumerate();
                Specs(Tiles::Parts(parts.map(|(i, specs)| (i.to_string(), specs)).collect()))
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
}
