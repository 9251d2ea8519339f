//! Whether trees belong together, and whether there is a derivative of what is asked for one.

use crate::{Aval, Error, Result, Tensor, Tree};

/// Every leaf has to be a float to have a gradient. `name` is what the user calls the tree.
pub(crate) fn floats(tree: &impl Tree, name: &str) -> Result<()> {
    let mut found = None;
    let mut i = 0;
    tree.visit(&mut |leaf| {
        if found.is_none() && !leaf.dtype().is_float() {
            found = Some((i, leaf.aval().clone()));
        }
        i += 1;
    });
    match found {
        None => Ok(()),
        Some((i, aval)) => Err(Error::NotDifferentiable {
            path: path(tree, name, i),
            aval,
        }),
    }
}

/// A gradient needs a result that is a single float.
pub(crate) fn scalar(y: &Tensor) -> Result<()> {
    if y.rank() == 0 && y.dtype().is_float() {
        return Ok(());
    }
    Err(Error::NotScalar {
        aval: y.aval().clone(),
    })
}

/// `found` are the leaves of a tree beside another, such as the tangent of an argument: each has to have the aval that
/// is expected of it, if one is. `tree` has the structure of both, and says with `name` where a leaf stands.
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

/// The avals that cotangents have to have. Nothing is read of the cotangent of a result that is no float.
pub(crate) fn cotangents(results: &[Aval]) -> impl ExactSizeIterator<Item = Option<&Aval>> {
    results
        .iter()
        .map(|aval| aval.dtype().is_float().then_some(aval))
}

/// The avals of tensors, all of which are expected.
pub(crate) fn avals(tensors: &[Tensor]) -> impl ExactSizeIterator<Item = Option<&Aval>> {
    tensors.iter().map(|x| Some(x.aval()))
}

/// Where leaf `i` of a tree stands, as a user would write it.
fn path(tree: &impl Tree, name: &str, i: usize) -> String {
    let mut paths = Vec::new();
    tree.paths(name, &mut paths);
    paths.swap_remove(i)
}
