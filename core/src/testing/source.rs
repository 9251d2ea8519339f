//! Sampled arguments.

use crate::{DType, IntoShape, Key, Tensor, Tree};
use std::ops::Range;

/// A type whose values can be sampled, so that functions that take one can be checked by `#[traced(check)]`.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::testing::{Sample, Source};
///
/// #[derive(Tree)]
/// struct Linear {
///     w: Tensor,
///     b: Tensor,
/// }
///
/// impl Sample for Linear {
///     fn sample(source: &mut Source) -> Self {
///         // The dims that `#[shape(B, I)]` of another parameter names, too.
///         let (i, o) = (source.dim("I"), source.dim("O"));
///         Linear { w: source.normal([i, o]), b: source.normal([o]) }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sampled",
    label = "`check` needs a value of this type",
    note = "implement `gradloom::testing::Sample` for it, or give the parameter a value, as in `#[traced(check(value(model = Model::new(3))))]`"
)]
pub trait Sample: Sized {
    /// A value of numbers from `source`.
    fn sample(source: &mut Source) -> Self;
}

/// Where sampled numbers and dims come from. It is deterministic: the same calls give the same.
#[derive(Debug)]
pub struct Source {
    seed: u64,
    /// How many keys have been handed out.
    drawn: u32,
    sizes: Sizes,
    /// The dims that have been asked for, and those that were fixed before.
    dims: Vec<(String, usize)>,
    n_unnamed: usize,
}

/// Which numbers the dims are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// Different numbers, so that one dim is not taken for another.
    Distinct,
    /// The same numbers in another order.
    Swapped,
    /// All 1, where broadcasting and reductions are the identity.
    Ones,
}

impl Sizes {
    pub(crate) const ALL: [Sizes; 3] = [Sizes::Distinct, Sizes::Swapped, Sizes::Ones];

    /// The number that the dim asked for as number `i` is.
    fn size(self, i: usize) -> usize {
        let first = match self {
            Sizes::Distinct => [2, 3, 5, 4],
            Sizes::Swapped => [3, 2, 4, 5],
            Sizes::Ones => return 1,
        };
        first.get(i).copied().unwrap_or(i + 2)
    }
}

impl Source {
    /// The source of a seed; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Source {
        Source::with_sizes(seed, Sizes::Distinct, &[])
    }

    /// A source that knows some dims already.
    pub(crate) fn with_sizes(seed: u64, sizes: Sizes, fixed: &[(&str, usize)]) -> Source {
        let dims = fixed.iter().map(|(name, n)| ((*name).to_owned(), *n));
        Source {
            seed,
            drawn: 0,
            sizes,
            dims: dims.collect(),
            n_unnamed: 0,
        }
    }

    /// The dims that have been named, for messages: `B = 2, I = 3`.
    pub(crate) fn dims(&self) -> String {
        let dims = self.dims.iter().map(|(name, n)| format!("{name} = {n}"));
        dims.collect::<Vec<_>>().join(", ")
    }

    /// The length that a dim of this name has. Equal names are equal lengths, and different names different ones, except
    /// in a sample of which all dims are 1.
    ///
    /// ```
    /// use gradloom::testing::Source;
    ///
    /// let mut source = Source::new(0);
    /// let (b, i) = (source.dim("B"), source.dim("I"));
    /// assert!(b != i && b == source.dim("B"));
    /// assert_eq!(source.normal([b, i]).shape(), [b, i]);
    /// ```
    pub fn dim(&mut self, name: &str) -> usize {
        if let Some((_, n)) = self.dims.iter().find(|(known, _)| known == name) {
            return *n;
        }
        let is_taken = |n: &usize| self.dims.iter().any(|(_, taken)| taken == n);
        let mut sizes = (self.dims.len()..).map(|i| self.sizes.size(i));
        let n = match self.sizes {
            Sizes::Ones => 1,
            _ => sizes.find(|n| !is_taken(n)).expect("sizes do not end"),
        };
        self.dims.push((name.to_owned(), n));
        n
    }

    /// The length of a dim without a name: from 2 to 4, or 1 in a sample of which all dims are 1.
    pub fn unnamed_dim(&mut self) -> usize {
        self.n_unnamed += 1;
        match self.sizes {
            Sizes::Distinct => 2 + (self.n_unnamed - 1) % 3,
            Sizes::Swapped => 2 + self.n_unnamed % 3,
            Sizes::Ones => 1,
        }
    }

    /// A key of its own for each call.
    pub fn key(&mut self) -> Key {
        self.drawn += 1;
        Key::new(self.seed).fold_in(self.drawn)
    }

    /// Numbers of the standard normal distribution, of dtype `f64`.
    #[track_caller]
    pub fn normal(&mut self, shape: impl IntoShape) -> Tensor {
        self.key().normal(shape, DType::F64)
    }

    /// Numbers of a range, evenly distributed, of dtype `f64`.
    ///
    /// ```
    /// use gradloom::testing::Source;
    ///
    /// let x = Source::new(0).uniform([3], 0.5..2.0);
    /// assert!(x.to_vec::<f64>().iter().all(|x| (0.5..2.0).contains(x)));
    /// ```
    #[track_caller]
    pub fn uniform(&mut self, shape: impl IntoShape, range: Range<f64>) -> Tensor {
        let unit = self.key().uniform(shape, DType::F64);
        let width = range.end - range.start;
        let data: Vec<f64> = unit.to_vec::<f64>();
        let data = data.iter().map(|u| range.start + u * width);
        Tensor::from_vec(data.collect::<Vec<f64>>(), unit.shape())
    }

    /// Classes from 0 to below `classes`, of dtype `i64`.
    ///
    /// ```
    /// use gradloom::testing::Source;
    ///
    /// let labels = Source::new(0).labels([10], 3);
    /// assert!(labels.to_vec::<i64>().iter().all(|label| (0..3).contains(label)));
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no class to choose and an element to choose it for.
    #[track_caller]
    pub fn labels(&mut self, shape: impl IntoShape, classes: usize) -> Tensor {
        let bits = self.key().bits(shape);
        assert!(
            classes > 0 || bits.numel() == 0,
            "labels need a class; there are 0"
        );
        let labels = bits.to_vec::<i64>().into_iter();
        let labels = labels.map(|bits| bits % classes as i64);
        Tensor::from_vec(labels.collect::<Vec<i64>>(), bits.shape())
    }

    /// Truth values, each true half of the time.
    #[track_caller]
    pub fn flags(&mut self, shape: impl IntoShape) -> Tensor {
        self.key().bernoulli(0.5, shape)
    }

    /// Normal numbers in the structure of a tree, for tangents and cotangents. A leaf that is no float gets zeros.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::testing::Source;
    ///
    /// let model = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
    /// let dx = Source::new(0).like(&model);
    /// assert_eq!(dx.0.aval(), model.0.aval());
    /// ```
    pub fn like<T: Tree>(&mut self, tree: &T) -> T {
        tree.map(&mut |leaf| match leaf.dtype().is_float() {
            true => self.key().normal(leaf.shape(), leaf.dtype()),
            false => leaf.zeros_like(),
        })
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(source: &mut Source) -> Self {
        Box::new(T::sample(source))
    }
}

/// It is there.
impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source) -> Self {
        Some(T::sample(source))
    }
}

/// Two of them.
impl<T: Sample> Sample for Vec<T> {
    fn sample(source: &mut Source) -> Self {
        vec![T::sample(source), T::sample(source)]
    }
}

impl<T: Sample, const N: usize> Sample for [T; N] {
    fn sample(source: &mut Source) -> Self {
        std::array::from_fn(|_| T::sample(source))
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(source: &mut Source) -> Self {
        (A::sample(source), B::sample(source))
    }
}

impl<A: Sample, B: Sample, C: Sample> Sample for (A, B, C) {
    fn sample(source: &mut Source) -> Self {
        (A::sample(source), B::sample(source), C::sample(source))
    }
}
