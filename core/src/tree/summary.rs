//! Summary of a tree as a table.

use super::arithmetic::leaves_with_paths;
use crate::{Aval, Tree};
use std::fmt;

/// Paths, dtypes and shapes of the leaves of a tree. It prints as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Path, dtype and shape of each leaf, in order.
    pub leaves: Vec<(String, Aval)>,
}

/// Returns the paths, dtypes and shapes of the leaves, which print as a table. Computes no leaf.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::tree;
///
/// #[derive(Tree)]
/// struct Linear { w: Tensor, b: Tensor }
///
/// let layer = |i, o| Linear {
///     w: Tensor::zeros([i, o], DType::F32),
///     b: Tensor::zeros([o], DType::F32),
/// };
/// let summary = tree::summary(&vec![layer(784, 64), layer(64, 10)]);
/// assert_eq!(summary.elements(), 50_890);
/// assert_eq!(summary.to_string(), "\
/// path   dtype  shape      elements   bytes
/// [0].w  f32    [784, 64]     50176  200704
/// [0].b  f32    [64]             64     256
/// [1].w  f32    [64, 10]        640    2560
/// [1].b  f32    [10]             10      40
/// total                       50890  203560
/// ");
/// ```
pub fn summary<T: Tree>(tree: &T) -> Summary {
    let leaves = leaves_with_paths(tree).into_iter();
    Summary {
        leaves: leaves.map(|(path, x)| (path, x.aval().clone())).collect(),
    }
}

impl Summary {
    /// Returns the number of elements of all leaves.
    pub fn elements(&self) -> usize {
        self.leaves.iter().map(|(_, aval)| elements(aval)).sum()
    }

    /// Returns the number of bytes of all leaves. Leaves that share a buffer count each.
    pub fn bytes(&self) -> usize {
        self.leaves.iter().map(|(_, aval)| aval.bytes()).sum()
    }
}

/// Returns the number of elements, in all elements of a batch prefix.
fn elements(aval: &Aval) -> usize {
    aval.physical_shape().iter().product()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |texts: [&str; 3], [elements, bytes]: [usize; 2]| {
            let [path, dtype, shape] = texts.map(str::to_owned);
            [path, dtype, shape, elements.to_string(), bytes.to_string()]
        };
        let mut rows = vec![["path", "dtype", "shape", "elements", "bytes"].map(str::to_owned)];
        rows.extend(self.leaves.iter().map(|(path, aval)| {
            // As an aval prints it, with a batch prefix before a bar.
            let dtype = aval.dtype().to_string();
            let shape = aval.to_string().split_off(dtype.len());
            row([path, &dtype, &shape], [elements(aval), aval.bytes()])
        }));
        rows.push(row(["total", "", ""], [self.elements(), self.bytes()]));
        let widths = [0, 1, 2, 3, 4].map(|i| {
            let widths = rows.iter().map(|row| row[i].chars().count());
            widths.max().unwrap_or(0)
        });
        let [a, b, c, d, e] = widths;
        for [path, dtype, shape, elements, bytes] in &rows {
            writeln!(
                f,
                "{path:a$}  {dtype:b$}  {shape:c$}  {elements:>d$}  {bytes:>e$}"
            )?;
        }
        Ok(())
    }
}
