//! Low-rank adapters.

use super::group::matches;
use crate::raise::{expect, raise};
use crate::tree::leaves_with_paths;
use crate::{Error, Key, Tensor, Tree, evaluate};
use std::collections::BTreeMap;

/// Low-rank adapters of chosen matrices of a model: only they are trained.
///
/// A parameter `w` of shape `[.., n, m]` whose path matches a pattern has an [`Adapter`] with `a` of shape
/// `[.., n, rank]` and `b` of shape `[.., rank, m]`. It counts as
///
/// ```text
/// w + alpha / rank * a @ b
/// ```
///
/// Patterns are those of [`Grouped`](super::Grouped). Hu et al., "LoRA: low-rank adaptation of large language
/// models", 2021 (arXiv:2106.09685), section 4.1: `b` is zero at first, and `a` is normal, here with variance
/// `1 / n`. Leading axes are those of a list of matrices.
///
/// Adapters are a tree by itself. The loss of adapters merges them into the model, which is constant:
///
/// ```
/// use gradloom::optim::{Adam, Lora};
/// use gradloom::prelude::*;
///
/// #[derive(Tree)]
/// struct Model { weight: Tensor, bias: Tensor }
///
/// let model = Model {
///     weight: Tensor::zeros([4, 4], DType::F32),
///     bias: Tensor::zeros([4], DType::F32),
/// };
/// let x = Key::new(0).normal([8, 4], DType::F32);
/// let loss = |model: &Model| (x.matmul(&model.weight) + &model.bias - &x).square().mean(..);
///
/// let lora = Lora::new(2, 4.0, ["weight"]);
/// let mut adapters = lora.init(&model, Key::new(1));
/// let adam = Adam { lr: 0.05, ..Adam::default() };
/// let mut state = adam.init(&adapters);
/// let before = loss(&lora.merge(&model, &adapters)).item::<f32>();
/// for _ in 0..100 {
///     let ct = grad(|adapters: &_| loss(&lora.merge(&model, adapters)))(&adapters);
///     (adapters, state) = adam.step(&adapters, &ct, &state);
/// }
/// let merged = lora.merge(&model, &adapters);
/// assert!(loss(&merged).item::<f32>() < 0.8 * before);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// Rank of the products.
    pub rank: usize,
    /// Factor of the products, times the rank.
    pub alpha: f64,
    /// Patterns of the paths of the adapted parameters.
    pub patterns: Vec<String>,
}

/// Two factors whose product is added to a parameter.
#[derive(Clone, Debug, Tree)]
pub struct Adapter {
    /// Left factor, of shape `[.., n, rank]`.
    pub a: Tensor,
    /// Right factor, of shape `[.., rank, m]`.
    pub b: Tensor,
}

impl Lora {
    /// Returns adapters of this rank for the parameters that match a pattern.
    pub fn new<S: Into<String>>(
        rank: usize,
        alpha: f64,
        patterns: impl IntoIterator<Item = S>,
    ) -> Lora {
        Lora {
            rank,
            alpha,
            patterns: patterns.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the first adapters by the paths of their parameters. Merging them changes nothing.
    ///
    /// # Panics
    ///
    /// If the rank is zero, a pattern matches no parameter, an adapted parameter is not a float or has fewer than
    /// two axes, or memory cannot be allocated.
    #[track_caller]
    pub fn init(&self, model: &impl Tree, key: Key) -> BTreeMap<String, Adapter> {
        let matched = expect(matches(model, &self.patterns));
        let chosen: Vec<(String, Tensor)> = leaves_with_paths(model)
            .into_iter()
            .zip(matched)
            .filter_map(|(leaf, (_, matched))| matched.then_some(leaf))
            .collect();
        let keys = key.split_many(chosen.len());
        let adapters = chosen.into_iter().zip(keys).map(|((path, w), key)| {
            if w.rank() < 2 || !w.dtype().is_float() || self.rank == 0 {
                let reason = match self.rank {
                    0 => "the rank is 0, expected at least 1".to_owned(),
                    _ => format!(
                        "`{path}` is {}, expected floats with at least two axes",
                        w.aval()
                    ),
                };
                raise(Error::Arguments {
                    call: "optim::Lora::init".to_owned(),
                    reason,
                });
            }
            let (lists, [n, m]) = w.shape().split_at(w.rank() - 2) else {
                unreachable!("a parameter has two axes at least")
            };
            let shape = |last: [usize; 2]| [lists, &last].concat();
            let deviation = 1.0 / (*n as f64).sqrt();
            let adapter = Adapter {
                a: key.normal(shape([*n, self.rank]), w.dtype()) * deviation,
                b: Tensor::zeros(shape([self.rank, *m]), w.dtype()),
            };
            (path, adapter)
        });
        let adapters: BTreeMap<String, Adapter> = adapters.collect();
        expect(evaluate(&adapters));
        adapters
    }

    /// Returns the model with the products of the adapters added to their parameters.
    ///
    /// It is differentiable in both, and has the structure of the model.
    ///
    /// # Panics
    ///
    /// If the model has no parameter with the path of an adapter, or the shapes or dtypes do not fit.
    #[track_caller]
    pub fn merge<P: Tree>(&self, model: &P, adapters: &BTreeMap<String, Adapter>) -> P {
        let paths: Vec<String> = leaves_with_paths(model)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        if let Some(pattern) = adapters.keys().find(|path| !paths.contains(path)) {
            raise(Error::Pattern {
                pattern: pattern.clone(),
                paths,
            });
        }
        let mut paths = paths.iter();
        let factor = self.alpha / self.rank as f64;
        model.map(&mut |w| {
            let path = paths.next().expect("a path for each leaf");
            match adapters.get(path) {
                None => w.clone(),
                Some(Adapter { a, b }) => {
                    let product = a.matmul(b);
                    if product.aval() != w.aval() {
                        raise(Error::Mismatch {
                            what: "adapter",
                            path: path.clone(),
                            found: Box::new(product.aval().clone()),
                            expected: Box::new(w.aval().clone()),
                        });
                    }
                    w + product * factor
                }
            }
        })
    }
}
