//! Pullbacks between companions, and their results.

use crate::call::leaf_range::LeafRange;
use crate::call::leaves::{Leaves, avals, filled, in_dtype_of, joined, zeros};
use crate::observe::in_backward;
use crate::tensor::batch_prefix::alike;
use crate::tensor::part::sum_of_cotangents;
use crate::tree::{frozen, leaves as leaves_of};
use crate::{Aval, Result, Tensor, Tree, check};
use std::fmt;
use std::sync::Arc;

/// Cotangents of the parameters of a function, as leaves.
#[derive(Clone, Debug)]
pub struct LeafCotangents {
    pub(crate) params: Vec<Leaves>,
    /// Avals of the leaves of each parameter, for cotangents that are zero.
    likes: Arc<[Vec<Aval>]>,
}

impl LeafCotangents {
    /// Creates the cotangents of `n_params` parameters, all zero.
    pub fn new(n_params: usize) -> LeafCotangents {
        LeafCotangents {
            params: vec![Leaves::new(); n_params],
            likes: Arc::from([]),
        }
    }

    /// Adds to the cotangent of a parameter that is a tensor.
    pub fn add_tensor(&mut self, param: usize, ct: &Tensor) {
        self.add(param, 0, ct);
    }

    /// Adds to the cotangent of a tensor in a tree.
    pub fn add_leaf(&mut self, param: usize, at: &LeafRange, ct: &Tensor) {
        if at.len == 1 {
            self.add(param, at.start, ct);
        }
    }

    /// Adds to the cotangent of a part of a tree.
    pub fn add_tree(&mut self, param: usize, at: &LeafRange, cts: &[Option<Tensor>]) {
        for (i, ct) in cts.iter().take(at.len).enumerate() {
            if let Some(ct) = ct {
                self.add(param, at.start + i, ct);
            }
        }
    }

    /// Adds to the cotangent of a leaf. A leaf that is not a float always has cotangent zero.
    #[track_caller]
    pub(crate) fn add(&mut self, param: usize, i: usize, ct: &Tensor) {
        if !ct.dtype().is_float() {
            return;
        }
        let leaves = &mut self.params[param];
        if leaves.len() <= i {
            leaves.resize(i + 1, None);
        }
        leaves[i] = Some(match leaves[i].take() {
            Some(old) => sum_of_cotangents(&old, ct),
            None => ct.clone(),
        });
    }

    /// Returns the cotangent of a parameter that is a tensor.
    pub fn tensor(&self, param: usize) -> Tensor {
        let ct = self.params[param].first().cloned().flatten();
        ct.unwrap_or_else(|| zeros(&self.likes[param][0]))
    }

    /// Returns the cotangents of the leaves of a parameter by reference.
    pub(crate) fn leaves(&self, param: usize) -> &[Option<Tensor>] {
        &self.params[param]
    }

    /// Returns all nonzero cotangents accumulated so far.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.params.iter().flatten().flatten()
    }

    /// Returns the cotangents of the leaves of some parameters, in order.
    pub(crate) fn into_leaves(self, params: &[usize]) -> Vec<Tensor> {
        let leaves = params.iter().flat_map(|param| {
            let cts = self.params[*param].iter().cloned();
            let cts = cts.chain(std::iter::repeat(None));
            cts.zip(&self.likes[*param])
        });
        let leaves =
            leaves.map(|(ct, like)| ct.map_or_else(|| zeros(like), |ct| in_dtype_of(ct, like)));
        leaves.collect()
    }

    /// Removes the cotangents of the frozen leaves of a parameter.
    pub fn without_frozen<T: Tree>(mut self, param: usize, x: &T) -> LeafCotangents {
        self.remove(param, &frozen(x));
        self
    }

    fn remove(&mut self, param: usize, removed: &[bool]) {
        for (leaf, removed) in self.params[param].iter_mut().zip(removed) {
            leaf.take_if(|_| *removed);
        }
    }

    /// Returns the cotangents of the leaves of a parameter.
    pub fn tree(&self, param: usize) -> Leaves {
        self.params[param].clone()
    }
}

/// Returns a result and its pullback, in which the cotangents of the frozen leaves of a parameter
/// are zero.
pub fn freeze<Y, T: Tree>(
    (y, pull): (Y, CompanionPullback),
    param: usize,
    x: &T,
) -> (Y, CompanionPullback) {
    let frozen = frozen(x);
    if !frozen.contains(&true) {
        return (y, pull);
    }
    let pull = pull.wrapped(move |pull, cts| {
        let mut pulled = pull.call(cts);
        pulled.remove(param, &frozen);
        pulled
    });
    (y, pull)
}

/// Returns the cotangent of an argument, in its structure.
pub fn rebuild<T: Tree>(like: &T, pulled: &LeafCotangents, param: usize) -> T {
    filled(like, &pulled.params[param])
}

/// Returns a part of a tree, with the pullback from the cotangents of its leaves to those of the
/// tree.
pub fn part_fwd<T: Tree, P>(tree: &T, at: LeafRange, part: P) -> (P, CompanionPullback) {
    let pullback = CompanionPullback::new([avals(tree)], 0, NoResiduals, move |_, cts| {
        let mut pulled = LeafCotangents::new(1);
        pulled.add_tree(0, &at, cts);
        pulled
    });
    (part, pullback)
}

/// Replaces list `i` by several, of the given lengths. Leaves that are missing at its end stay
/// missing.
fn split_at<T: Clone>(lists: &[Vec<T>], i: usize, lengths: &[usize]) -> Vec<Vec<T>> {
    let mut rest = lists[i].iter().cloned();
    let parts = lengths.iter().map(|n| rest.by_ref().take(*n).collect());
    let parts: Vec<Vec<T>> = parts.collect();
    [&lists[..i], &parts, &lists[i + 1..]].concat()
}

/// Residuals of a pullback.
pub(crate) trait Residuals: Send + Sync + Sized + 'static {
    /// Calls `f` with each tensor.
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
    /// Returns residuals of the same structure, with other tensors.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;
}

/// A pullback that keeps no tensors.
pub(crate) struct NoResiduals;

impl Residuals for NoResiduals {
    fn visit(&self, _: &mut dyn FnMut(&Tensor)) {}
    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> NoResiduals {
        NoResiduals
    }
}

/// A struct of residuals, which is a tree.
struct SavedTree<S>(S);

impl<S: Tree + Send + Sync + 'static> Residuals for SavedTree<S> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.0.visit(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> SavedTree<S> {
        SavedTree(self.0.map(f))
    }
}

impl Residuals for CompanionPullback {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.run.visit(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> CompanionPullback {
        CompanionPullback {
            run: self.run.map(f),
            ..self.clone()
        }
    }
}

/// Code of a pullback with its residuals.
trait PullCode: Send + Sync {
    fn call(&self, cts: &[Option<Tensor>]) -> LeafCotangents;
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Arc<dyn PullCode>;
}

struct PullFn<S, P> {
    saved: S,
    pull: P,
}

impl<S, P> PullCode for PullFn<S, P>
where
    S: Residuals,
    P: Fn(&S, &[Option<Tensor>]) -> LeafCotangents + Clone + Send + Sync + 'static,
{
    fn call(&self, cts: &[Option<Tensor>]) -> LeafCotangents {
        (self.pull)(&self.saved, cts)
    }
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.saved.visit(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Arc<dyn PullCode> {
        let (saved, pull) = (self.saved.map(f), self.pull.clone());
        Arc::new(PullFn { saved, pull })
    }
}

/// A pullback between companions. The caller does not need to know the type of the residuals of its callee.
#[derive(Clone)]
pub struct CompanionPullback {
    likes: Arc<[Vec<Aval>]>,
    pub(crate) bytes: usize,
    /// Numbers of leaves of the results, if the caller tells them apart.
    lengths: Arc<[usize]>,
    run: Arc<dyn PullCode>,
}

impl fmt::Debug for CompanionPullback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut residuals = Vec::new();
        self.run.visit(&mut |x| residuals.push(x.clone()));
        f.debug_struct("CompanionPullback")
            .field("bytes", &self.bytes)
            .field("residuals", &residuals)
            .finish_non_exhaustive()
    }
}

/// Returns a pullback that calls `shadow` first, only for its records on disk.
#[cfg(feature = "trace")]
pub(crate) fn with_shadow(pull: CompanionPullback, shadow: CompanionPullback) -> CompanionPullback {
    pull.wrapped(move |pull, cts| {
        shadow.run.call(cts);
        pull.run.call(cts)
    })
}

/// Returns a result and the pullback of its residuals, which have this size and this pullback.
pub fn saved_pullback<Y, S: Tree + Send + Sync + 'static, const N: usize>(
    likes: [Vec<Aval>; N],
    (y, saved): (Y, S),
    bytes: impl FnOnce(&S) -> usize,
    pull: impl Fn(&S, &[Option<Tensor>]) -> LeafCotangents + Clone + Send + Sync + 'static,
) -> (Y, CompanionPullback) {
    let (bytes, saved) = (bytes(&saved), SavedTree(saved));
    let pull = CompanionPullback::new(likes, bytes, saved, move |saved, ct| pull(&saved.0, ct));
    (y, pull)
}

impl CompanionPullback {
    /// Creates a pullback. `likes` are the avals of the leaves of each parameter, and `bytes` is the size of the
    /// residuals.
    pub(crate) fn new<S: Residuals>(
        likes: impl Into<Arc<[Vec<Aval>]>>,
        bytes: usize,
        saved: S,
        pull: impl Fn(&S, &[Option<Tensor>]) -> LeafCotangents + Clone + Send + Sync + 'static,
    ) -> CompanionPullback {
        CompanionPullback {
            likes: likes.into(),
            bytes,
            lengths: Arc::from([]),
            run: Arc::new(PullFn { saved, pull }),
        }
    }

    /// Returns the pullback with other code, which calls this one.
    fn wrapped(
        self,
        pull: impl Fn(&CompanionPullback, &[Option<Tensor>]) -> LeafCotangents
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> CompanionPullback {
        CompanionPullback {
            likes: self.likes.clone(),
            bytes: self.bytes,
            lengths: self.lengths.clone(),
            run: Arc::new(PullFn { saved: self, pull }),
        }
    }

    /// Panics if an argument has another number of leaves than the parameter: a user's `Deref` has
    /// converted it, and its cotangent would arrive at the wrong leaves.
    ///
    /// `given` has the position and the number of leaves of each argument that is a tree.
    #[track_caller]
    pub fn check_taken(&self, given: &[(usize, usize)]) {
        for (i, n) in given {
            // A parameter that is static or `#[nodiff]` has no leaves.
            let taken = self.likes[*i].len();
            assert!(
                taken == 0 || *n == 0 || taken == *n,
                "argument {i} is a tree of {n} tensors, and the traced function takes one of {taken}: a `Deref` converts it; pass the part itself"
            );
        }
    }

    /// Notes the numbers of leaves of the results, for [`CompanionPullback::call_results`].
    pub fn of_results<const N: usize>(self, lengths: [usize; N]) -> CompanionPullback {
        CompanionPullback {
            lengths: Arc::from(lengths),
            ..self
        }
    }

    /// Returns the cotangents of the parameters, given the leaves of those of each result.
    pub fn call_results(&self, cts: &[Leaves]) -> LeafCotangents {
        let lengths = self.lengths.iter().copied();
        self.call(&joined(lengths.zip(cts.iter().cloned())))
    }

    /// Returns the pullback in which `param` becomes several parameters, one for each of the parts
    /// of an argument that have these numbers of leaves.
    pub fn split(self, param: usize, lengths: &[usize]) -> CompanionPullback {
        let likes = split_at(&self.likes, param, lengths);
        let lengths = lengths.to_vec();
        let split = self.wrapped(move |pull, cts| LeafCotangents {
            params: split_at(&pull.call(cts).params, param, &lengths),
            likes: Arc::from([]),
        });
        CompanionPullback {
            likes: Arc::from(likes),
            ..split
        }
    }

    /// Returns the cotangents of the parameters, given those of the results.
    pub fn call(&self, cts: &[Option<Tensor>]) -> LeafCotangents {
        let pulled = match (cts.iter().any(Option::is_some), alike(cts)) {
            (true, None) => in_backward(|| self.run.call(cts)),
            (true, Some(cts)) => in_backward(|| self.run.call(&cts)),
            (false, _) => LeafCotangents::new(self.likes.len()),
        };
        LeafCotangents {
            likes: self.likes.clone(),
            ..pulled
        }
    }

    /// Checks the cotangent of the result against `likes`, then calls the pullback with its leaves.
    pub(super) fn call_tree<Y: Tree>(&self, ct: &Y, likes: &[Aval]) -> Result<LeafCotangents> {
        let cts = leaves_of(ct);
        check::beside("cotangent", ct, "result", &cts, check::cotangents(likes))?;
        Ok(self.call(&cts.into_iter().map(Some).collect::<Leaves>()))
    }
}
