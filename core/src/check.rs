//! Checks of trees: matching structures and avals, and differentiable leaves.

use crate::{Aval, Error, Result, Tensor, Tree, tree};

/// Returns an error if a leaf is neither frozen nor a float. `name` is the user's name of the tree.
pub(crate) fn floats(x: &impl Tree, name: &str) -> Result<()> {
    let mut found = None;
    let mut i = 0;
    let mut frozen = None;
    x.visit(&mut |leaf| {
        if found.is_none() && !leaf.dtype().is_float() {
            let frozen = frozen.get_or_insert_with(|| tree::frozen(x));
            if !frozen[i] {
                found = Some((i, leaf.aval().clone()));
            }
        }
        i += 1;
    });
    match found {
        None => Ok(()),
        Some((i, aval)) => Err(Error::NotDifferentiable {
            path: path(x, name, i),
            aval,
        }),
    }
}

/// Returns an error unless `y` is a single float, as a gradient needs.
pub(crate) fn scalar(y: &Tensor) -> Result<()> {
    if y.rank() == 0 && y.dtype().is_float() {
        return Ok(());
    }
    Err(Error::NotScalar {
        aval: y.aval().clone(),
    })
}

/// Checks that the leaves `found` of a tree, such as a tangent, have the expected avals.
///
/// `tree` has the structure of both trees, and `name` is its name in messages. An expected aval of
/// `None` accepts any leaf.
pub(crate) fn beside<'a>(
    what: &'static str,
    tree: &impl Tree,
    name: &str,
    found: &[Tensor],
    expected: impl ExactSizeIterator<Item = Option<&'a Aval>>,
) -> Result<()> {
    if found.len() != expected.len() {
        return Err(Error::Structure {
            what,
            found: found.len(),
            expected: expected.len(),
        });
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        if let Some(expected) = expected
            && found.aval() != expected
        {
            return Err(Error::Mismatch {
                what,
                path: path(tree, name, i),
                found: Box::new(found.aval().clone()),
                expected: Box::new(expected.clone()),
            });
        }
    }
    Ok(())
}

/// Returns the avals that cotangents must have.
///
/// Non-float results accept any cotangent, because it is not read.
pub(crate) fn cotangents(results: &[Aval]) -> impl ExactSizeIterator<Item = Option<&Aval>> {
    results
        .iter()
        .map(|aval| aval.dtype().is_float().then_some(aval))
}

/// Returns the avals of `tensors`, all of which are expected.
pub(crate) fn avals(tensors: &[Tensor]) -> impl ExactSizeIterator<Item = Option<&Aval>> {
    tensors.iter().map(|x| Some(x.aval()))
}

/// Returns the path of leaf `i`, as a user would write it.
fn path(tree: &impl Tree, name: &str, i: usize) -> String {
    let mut paths = Vec::new();
    tree.paths(name, &mut paths);
    paths.swap_remove(i)
}
