use crate::DataError;
use crate::elements::Elements;
use gradloom::{Tensor, Tree, tree};

/// Examples in memory: the rows of a tree of tensors, which have the same length on axis 0.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom_data::{Dataset, Tensors};
///
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let y = Tensor::from([0i64, 1, 2]);
/// let data = Tensors::new((x, y))?;
/// let (x, y) = data.batch(&[2, 0])?;
/// assert_eq!(x.to_vec::<f32>(), [5.0, 6.0, 1.0, 2.0]);
/// assert_eq!(y.to_vec::<i64>(), [2, 0]);
/// # Ok::<(), gradloom_data::DataError>(())
/// ```
#[derive(Debug)]
pub struct Tensors<T> {
    /// The structure. Its leaves hold no elements.
    like: T,
    leaves: Vec<Leaf>,
    n_examples: usize,
}

#[derive(Debug)]
struct Leaf {
    elements: Elements,
    /// Shape of a row.
    shape: Vec<usize>,
}

impl<T: Tree> Tensors<T> {
    /// Returns the rows of the leaves as examples. The elements are copied to memory of the host.
    ///
    /// # Errors
    ///
    /// If a leaf has rank 0 or another number of rows than the first one, or cannot be computed.
    pub fn new(tree: T) -> Result<Tensors<T>, DataError> {
        let leaves = tree::leaves_with_paths(&tree);
        gradloom::evaluate(&tree)?;
        let n_examples = leaves.first().and_then(|(_, x)| x.shape().first());
        let n_examples = n_examples.copied().unwrap_or(0);
        let rows = |(path, x): &(String, Tensor)| match x.shape() {
            [n, row @ ..] if *n == n_examples => Ok(Leaf {
                elements: Elements::new(x)?,
                shape: row.to_vec(),
            }),
            shape => Err(DataError::Examples {
                leaf: path.clone(),
                found: shape.to_vec(),
                expected: n_examples,
            }),
        };
        let leaves = leaves.iter().map(rows).collect::<Result<Vec<_>, _>>()?;
        Ok(Tensors {
            like: tree.map(&mut |_| Tensor::scalar(false)),
            leaves,
            n_examples,
        })
    }

    pub(crate) fn n_examples(&self) -> usize {
        self.n_examples
    }

    pub(crate) fn example(&self, index: usize) -> Result<T, DataError> {
        self.tree(&[index], |shape| shape.to_vec())
    }

    pub(crate) fn rows(&self, indices: &[usize]) -> Result<T, DataError> {
        self.tree(indices, |shape| [&[indices.len()], shape].concat())
    }

    /// Returns a tree of rows, in the shapes that a function makes of that of one row.
    fn tree(
        &self,
        indices: &[usize],
        shape: impl Fn(&[usize]) -> Vec<usize>,
    ) -> Result<T, DataError> {
        let leaves = self.leaves.iter().map(|leaf| {
            let n = leaf.shape.iter().product();
            leaf.elements.rows(indices, n, shape(&leaf.shape))
        });
        let mut leaves = leaves.collect::<Result<Vec<_>, _>>()?.into_iter();
        let next = &mut |_: &Tensor| leaves.next().expect("there is a tensor for each leaf");
        Ok(self.like.map(next))
    }
}
