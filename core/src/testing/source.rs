//! Sampled arguments for tests.

use crate::tree::frozen;
use crate::{DType, IntoShape, Key, Tensor, Tree};
use std::ops::Range;

/// A type whose values can be sampled, so that `#[traced(check)]` can call functions that take it.
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
    /// Samples a value.
    fn sample(source: &mut Source) -> Self;
}

/// A deterministic source of sampled numbers and dims. The same calls give the same values.
#[derive(Debug)]
pub struct Source {
    seed: u64,
    /// Number of keys that have been handed out.
    drawn: u32,
    sizes: Sizes,
    /// Dims by name: the fixed ones, then those that have been requested.
    dims: Vec<(String, usize)>,
    n_unnamed: usize,
}

/// How the lengths of dims are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// Distinct lengths, so that mixing up two dims is noticed.
    Distinct,
    /// The same lengths in a different order.
    Swapped,
    /// Length 1 for all dims, where broadcasting and reductions are the identity.
    Ones,
}

impl Sizes {
    pub(crate) const ALL: [Sizes; 3] = [Sizes::Distinct, Sizes::Swapped, Sizes::Ones];

    /// Returns the length of the dim that is requested as number `i`.
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
    /// Creates a source from a seed. Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Source {
        Source::with_sizes(seed, Sizes::Distinct, &[])
    }

    /// Creates a source in which some dims are fixed.
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

    /// Formats the named dims for messages: `B = 2, I = 3`.
    pub(crate) fn dims(&self) -> String {
        let dims = self.dims.iter().map(|(name, n)| format!("{name} = {n}"));
        dims.collect::<Vec<_>>().join(", ")
    }

    /// Returns the length of the dim with this name.
    ///
    /// Equal names have equal lengths. Different names have different lengths, except in a sample
    /// in which all dims are 1.
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
            _ => sizes
                .find(|n| !is_taken(n))
                .expect("the iterator over lengths is infinite"),
        };
        self.dims.push((name.to_owned(), n));
        n
    }

    /// Returns the length of a dim without a name: from 2 to 4, or 1 in a sample in which all dims
    /// are 1.
    pub fn unnamed_dim(&mut self) -> usize {
        self.n_unnamed += 1;
        match self.sizes {
            Sizes::Distinct => 2 + (self.n_unnamed - 1) % 3,
            Sizes::Swapped => 2 + self.n_unnamed % 3,
            Sizes::Ones => 1,
        }
    }

    /// Returns a different key in each call.
    pub fn key(&mut self) -> Key {
        self.drawn += 1;
        Key::new(self.seed).fold_in(self.drawn)
    }

    /// Draws `f64` numbers from the standard normal distribution.
    #[track_caller]
    pub fn normal(&mut self, shape: impl IntoShape) -> Tensor {
        self.key().normal(shape, DType::F64)
    }

    /// Draws `f64` numbers uniformly from a range.
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

    /// Draws `i64` class labels in `0..classes`.
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
    /// If `classes` is 0 and the shape has elements.
    #[track_caller]
    pub fn labels(&mut self, shape: impl IntoShape, classes: usize) -> Tensor {
        let bits = self.key().bits(shape);
        assert!(
            classes > 0 || bits.numel() == 0,
            "`labels` needs at least one class"
        );
        let labels = bits.to_vec::<i64>().into_iter();
        let labels = labels.map(|bits| bits % classes as i64);
        Tensor::from_vec(labels.collect::<Vec<i64>>(), bits.shape())
    }

    /// Draws `bool` values that are true with probability 1/2.
    #[track_caller]
    pub fn flags(&mut self, shape: impl IntoShape) -> Tensor {
        self.key().bernoulli(0.5, shape)
    }

    /// Draws normal numbers in the structure of a tree, for tangents and cotangents. Leaves that
    /// are frozen or no floats are zeros.
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
        let mut frozen = frozen(tree).into_iter();
        tree.map(
            &mut |leaf| match frozen.next() != Some(true) && leaf.dtype().is_float() {
                true => self.key().normal(leaf.shape(), leaf.dtype()),
                false => leaf.zeros_like(),
            },
        )
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(source: &mut Source) -> Self {
        Box::new(T::sample(source))
    }
}

/// Always `Some`.
impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source) -> Self {
        Some(T::sample(source))
    }
}

/// Always two elements.
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
