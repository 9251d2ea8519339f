use crate::elements::joined;
use crate::{DataError, Tensors};
use gradloom::{Tensor, Tree, tree};
use std::sync::Arc;

/// A number of examples, each of which is a tree of tensors.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{Batches, DataError, Dataset};
///
/// struct Squares;
///
/// impl Dataset for Squares {
///     type Example = (Tensor, Tensor);
///     fn len(&self) -> usize {
///         5
///     }
///     fn get(&self, index: usize) -> Result<(Tensor, Tensor), DataError> {
///         let x = index as f32;
///         Ok((Tensor::from(x), Tensor::from(x * x)))
///     }
/// }
///
/// let mut epoch = Batches::new(Squares, 3).epoch(0);
/// let (x, y) = epoch.next().unwrap()?;
/// assert_eq!((x.to_vec::<f32>(), y.to_vec::<f32>()), (vec![0.0, 1.0, 2.0], vec![0.0, 1.0, 4.0]));
/// # Ok::<(), DataError>(())
/// ```
pub trait Dataset {
    /// An example. A batch is one too, with one more axis in front of each leaf.
    type Example: Tree;

    /// Returns the number of examples.
    fn len(&self) -> usize;

    /// Returns whether there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the example of an index below [`len`](Self::len).
    ///
    /// # Errors
    ///
    /// If it cannot be made. [`DataError::Example`] takes any error.
    fn get(&self, index: usize) -> Result<Self::Example, DataError>;

    /// Returns a batch of at least one example. The default is a [`stack`] of what [`get`](Self::get) returns.
    ///
    /// # Errors
    ///
    /// If an example cannot be made, or the examples do not have the same shapes and dtypes.
    fn batch(&self, indices: &[usize]) -> Result<Self::Example, DataError> {
        let examples = indices.iter().map(|index| self.get(*index));
        stack(&examples.collect::<Result<Vec<_>, _>>()?)
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Example = D::Example;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Example, DataError> {
        (**self).get(index)
    }

    fn batch(&self, indices: &[usize]) -> Result<D::Example, DataError> {
        (**self).batch(indices)
    }
}

impl<T: Tree> Dataset for Tensors<T> {
    type Example = T;

    fn len(&self) -> usize {
        self.n_examples()
    }

    fn get(&self, index: usize) -> Result<T, DataError> {
        self.example(index)
    }

    fn batch(&self, indices: &[usize]) -> Result<T, DataError> {
        self.rows(indices)
    }
}

/// Returns trees as one, whose leaves have one more axis in front: leaves `f32[3]` of two trees become `f32[2, 3]`.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom_data::stack;
///
/// let (x, y) = stack(&[
///     (Tensor::from([1.0f32, 2.0]), Tensor::from(3i64)),
///     (Tensor::from([4.0f32, 5.0]), Tensor::from(6i64)),
/// ])?;
/// assert_eq!((x.shape(), y.to_vec::<i64>()), (&[2, 2][..], vec![3, 6]));
/// # Ok::<(), gradloom_data::DataError>(())
/// ```
///
/// # Errors
///
/// If the leaves do not have the same shapes and dtypes, or one cannot be computed.
///
/// # Panics
///
/// If there are no trees.
pub fn stack<T: Tree>(trees: &[T]) -> Result<T, DataError> {
    stack_leaves(trees, |path, parts| {
        let first = &parts[0];
        for part in parts {
            if part.aval() != first.aval() {
                return Err(DataError::Stack {
                    leaf: path.to_owned(),
                    found: part.aval().to_string(),
                    expected: first.aval().to_string(),
                });
            }
        }
        let shape = [&[parts.len()], first.shape()].concat();
        let joined = joined(parts, first.numel(), 0.0, shape);
        Ok(joined.expect("0 is a value of each dtype")?)
    })
}

/// Returns a tree whose leaves a function makes of those of some trees.
///
/// # Panics
///
/// If there are no trees.
pub(crate) fn stack_leaves<T: Tree>(
    trees: &[T],
    join: impl Fn(&str, &[Tensor]) -> Result<Tensor, DataError>,
) -> Result<T, DataError> {
    let first = trees.first().expect("a batch has at least one example");
    let mut columns: Vec<Vec<Tensor>> = Vec::new();
    for tree in trees {
        let mut n = 0;
        tree.visit(&mut |leaf| {
            match columns.get_mut(n) {
                Some(column) => column.push(leaf.clone()),
                None => columns.push(vec![leaf.clone()]),
            }
            n += 1;
        });
    }
    let mut joined = Vec::new();
    for ((path, _), parts) in tree::leaves_with_paths(first).iter().zip(&columns) {
        // Trees of one type may have lists of different lengths.
        if parts.len() != trees.len() || columns.len() != n_leaves(first) {
            return Err(DataError::Stack {
                leaf: path.clone(),
                found: "missing".to_owned(),
                expected: parts[0].aval().to_string(),
            });
        }
        joined.push(join(path, parts)?);
    }
    let mut joined = joined.into_iter();
    Ok(first.map(&mut |_| joined.next().expect("there is a tensor for each leaf")))
}

fn n_leaves(tree: &impl Tree) -> usize {
    let mut n = 0;
    tree.visit(&mut |_| n += 1);
    n
}
