//! Specs of trees: one for each leaf.

use crate::error::ShardingFault;
use crate::sharding::ShardingSpec;
use crate::tree::arithmetic::paths;
use crate::tree::prefix::{PrefixFault, PrefixTree, is_position, prefix_conversions};
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
pub struct Specs(PrefixTree<Option<ShardingSpec>>);

impl Specs {
    /// Returns the spec for each leaf of a tree. `what` names these specs in messages.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// # use gradloom::sharding::{Mesh, ShardingSpec, Specs};
    /// # use std::sync::Arc;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let specs: Specs = (rows.clone(), None).into();
    /// let x = Tensor::zeros([2], DType::F32);
    /// assert_eq!(specs.of_leaves(&(x.clone(), x), "specs")?, [Some(rows), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the tree lacks a part that has an entry, or a leaf is in no part that has one.
    pub fn of_leaves(
        &self,
        tree: &impl Tree,
        what: &'static str,
    ) -> Result<Vec<Option<ShardingSpec>>, ShardingFault> {
        let paths = paths(tree, "");
        let leaves: Vec<_> = paths.iter().map(|path| (&**path, &**path)).collect();
        let checked = self.0.check(&leaves, is_position);
        checked.map_err(|fault| match fault {
            PrefixFault::NoPart(part) => ShardingFault::NoPart { what, part },
            PrefixFault::NotCovered { path, entries } => ShardingFault::NotCovered {
                what,
                path,
                entries,
            },
        })?;
        let spec = |path: &String| self.0.of_path(path).cloned().flatten();
        Ok(paths.iter().map(spec).collect())
    }

    /// Returns all specs.
    pub(super) fn all(&self) -> Vec<&ShardingSpec> {
        fn of(specs: &PrefixTree<Option<ShardingSpec>>) -> Vec<&ShardingSpec> {
            match specs {
                PrefixTree::All(spec) => spec.iter().collect(),
                PrefixTree::Parts(parts) => parts.iter().flat_map(|(_, part)| of(part)).collect(),
            }
        }
        of(&self.0)
    }
}

impl From<ShardingSpec> for Specs {
    fn from(spec: ShardingSpec) -> Specs {
        Some(spec).into()
    }
}

impl From<&ShardingSpec> for Specs {
    fn from(spec: &ShardingSpec) -> Specs {
        spec.clone().into()
    }
}

impl From<Option<ShardingSpec>> for Specs {
    fn from(spec: Option<ShardingSpec>) -> Specs {
        Specs(PrefixTree::All(spec))
    }
}

prefix_conversions!(Specs);
