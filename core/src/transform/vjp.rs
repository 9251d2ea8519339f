//! Reverse mode.

use super::lanes_program::LanesProgram;
use super::trace::{DependentGraph, Trace};
use super::{Outcome, check_reversible, trace};
use crate::graph::cut_program::{CutProgram, Derivation};
use crate::observe::in_backward;
use crate::points::{PointLabel, label_of};
use crate::raise::expect;
use crate::tensor::replay::{Bound, replay_bound, replay_known};
use crate::tree::{self, free_leaves, frozen, leaves, share, with_leaves, with_physical};
use crate::{Aval, Result, Tensor, Tree, check};
use gradloom_ir::{Program, Var, ad};
use std::sync::Arc;

/// Returns the value of `f` at `x`, and the pullback.
///
/// The pullback is the linear map from cotangents of the value to cotangents of `x`. `f` runs once.
/// Every leaf of `x` has to be a float; `f` may capture anything else that it needs.
///
/// ```
/// # use gradloom::{Tensor, vjp};
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (y, pullback) = vjp(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// assert_eq!(pullback.call(&Tensor::from([1.0f32, 10.0])).to_vec::<f32>(), [2.0, 40.0]);
/// ```
///
/// # Panics
///
/// If a leaf of `x` is not a float. If `f` returns `Result`, this is an error instead.
#[track_caller]
#[expect(
    clippy::type_complexity,
    reason = "a pair, wrapped as the closure wraps its result"
)]
pub fn vjp<X, R, F>(f: F, x: &X) -> R::Wrap<(R::Tree, Pullback<X, R::Tree>)>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    R::wrap(try_vjp(f, x))
}

#[expect(clippy::type_complexity, reason = "a pair")]
pub(crate) fn try_vjp<X, R, F>(f: F, x: &X) -> Result<(R::Tree, Pullback<X, R::Tree>)>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    pullback_of(trace::trace(f, x)?, x)
}

/// Returns the value and the pullback of a traced function.
pub(crate) fn pullback_of<X: Tree, Y: Tree>(trace: Trace<Y>, x: &X) -> Result<(Y, Pullback<X, Y>)> {
    check_reversible(&trace.program)?;
    let (vjp, cotangents) = vjp_of(&trace)?;
    let args = trace::args(&free_leaves(x), &trace.captured);
    let outs = replay_known(&vjp.primal, args, &trace.known)?;
    let (outs, residuals) = outs.split_at(vjp.n_outs);
    let outs: Vec<Tensor> = outs.iter().map(|y| y.tensor().clone()).collect();
    let residuals = residuals
        .iter()
        .zip(&vjp.shape_only)
        .map(|(r, shape_only)| r.kept(*shape_only));
    let y = with_physical(&trace.y, &outs);
    let labels = trace.points.into_iter().map(|(_, label)| label);
    let points = found_points(labels, cotangents);
    let inner = Inner {
        residuals: residuals.collect(),
        vjp,
        outs: leaves(&y).iter().map(|y| y.aval().clone()).collect(),
        args: free_leaves(x).iter().map(Tensor::batch_dims).collect(),
        points,
    };
    let zeros = tree::zeros(x);
    let zero_cotangent = tree::zeros(&y);
    Ok((
        y,
        Pullback {
            inner,
            zeros,
            y: zero_cotangent,
        },
    ))
}

/// Returns the reverse mode of a traced function, and the index of the cotangent of each point.
fn vjp_of<Y>(trace: &Trace<Y>) -> Result<(Arc<ad::Vjp>, Vec<Option<usize>>)> {
    let (program, wrt) = (&trace.program, trace.program.wrt());
    if trace.points.is_empty() {
        let vjp = program.derived(Derivation::Vjp, || Ok(ad::vjp(program, wrt)))?;
        return Ok((vjp, Vec::new()));
    }
    let points: Vec<Var> = trace.points.iter().map(|(var, _)| *var).collect();
    let (vjp, cotangents) = ad::vjp_with_points(program, wrt, &points);
    Ok((Arc::new(vjp), cotangents))
}

/// Returns the cotangents of the first `n` inputs of a graph, given that of its result; `None` is zero.
///
/// The values of the graph are not computed again. The second result tells whether the result of the graph depends on
/// one of the inputs.
pub(crate) fn pull_back(
    graph: &DependentGraph,
    n: usize,
    ct: &Tensor,
) -> Result<(Vec<Option<Tensor>>, bool)> {
    check_reversible(&graph.program)?;
    let wrt = &graph.program.params[..n];
    let known = graph.known.iter();
    let mut points: Vec<_> = known
        .filter_map(|(var, x)| Some((x.physical_value().seq_no, *var, label_of(x)?)))
        .collect();
    points.sort_unstable_by_key(|(seq_no, ..)| *seq_no);
    let vars: Vec<Var> = points.iter().map(|(_, var, _)| *var).collect();
    let (vjp, cotangents) = ad::vjp_with_points(&graph.program, wrt, &vars);
    let outs = replay_known(&vjp.primal, graph.bound.clone(), &graph.known)?;
    let residuals = outs[vjp.n_outs..].iter().zip(&vjp.shape_only);
    let mut args: Vec<Bound> = residuals.map(|(r, only)| r.kept(*only)).collect();
    if vjp.active[0] {
        args.push(Bound::Tensor(ct.physical()));
    }
    let found = in_backward(|| replay_bound(&vjp.pullback, &args))?;
    let labels = points.into_iter().map(|(.., label)| label);
    dump_points(
        &found_points(labels, cotangents),
        &vjp.nonzero,
        &found,
        None,
    );
    let mut found = found.into_iter();
    let cts = vjp.nonzero.iter().map(|nonzero| match nonzero {
        true => Some(found.next()?.tensor().clone()),
        false => None,
    });
    Ok((cts.collect(), vjp.active[0]))
}

/// The linear map from cotangents of a result to cotangents of an argument.
///
/// It may be called many times. It keeps the residuals alive until it is dropped.
///
/// ```
/// # use gradloom::{Pullback, Tensor, vjp};
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (y, pullback): (Tensor, Pullback<Tensor, Tensor>) = vjp(|x: &Tensor| x.sin(), &x);
/// let rows = [[1.0f32, 0.0], [0.0, 1.0]].map(|e| pullback.call(&Tensor::from(e)));
/// assert_eq!(rows[1].to_vec::<f32>(), [0.0, 2f32.cos()]);
/// ```
#[derive(Debug)]
pub struct Pullback<X, Y> {
    inner: Inner,
    /// Zeros in the structure of the argument.
    zeros: X,
    /// Zeros in the structure of the result.
    y: Y,
}

#[derive(Clone, Debug)]
struct Inner {
    vjp: Arc<ad::Vjp>,
    residuals: Vec<Bound>,
    outs: Vec<Aval>,
    /// Number of batch axes of each free leaf of the argument.
    args: Vec<usize>,
    points: FoundPoints,
}

/// Named values, in the order of execution, with the index of the cotangent among the results after those for the
/// argument.
type FoundPoints = Vec<(usize, PointLabel)>;

/// Returns the named values that have a cotangent.
fn found_points(
    labels: impl Iterator<Item = PointLabel>,
    cotangents: Vec<Option<usize>>,
) -> FoundPoints {
    let points = labels.zip(cotangents);
    points.filter_map(|(label, i)| Some((i?, label))).collect()
}

/// Writes the records of the cotangents of named values, the last value first.
///
/// `nonzero` tells which inputs have a cotangent among the results of the program. `found` has the results for which
/// `kept` is true; without it, all of them.
fn dump_points(
    points: &[(usize, PointLabel)],
    nonzero: &[bool],
    found: &[Bound],
    kept: Option<&[bool]>,
) {
    let count = |all: &[bool]| all.iter().filter(|x| **x).count();
    let n = count(nonzero);
    for (i, label) in points.iter().rev() {
        let at = n + i;
        if kept.is_none_or(|kept| kept[at]) {
            let before = kept.map_or(at, |kept| count(&kept[..at]));
            label.dump_cotangent(found[before].tensor());
        }
    }
}

impl<X: Tree, Y: Tree> Pullback<X, Y> {
    /// Returns the cotangent of the argument, given the cotangent of the result.
    ///
    /// # Panics
    ///
    /// If a leaf of `ct` differs in shape or dtype from that of the result.
    #[track_caller]
    pub fn call(&self, ct: &Y) -> X {
        expect(self.try_call(ct))
    }

    /// Returns the cotangent of the argument, given the cotangent of the result.
    ///
    /// # Errors
    ///
    /// If a leaf of `ct` differs in shape or dtype from that of the result.
    pub fn try_call(&self, ct: &Y) -> Result<X> {
        let Inner {
            vjp,
            residuals,
            outs,
            points,
            ..
        } = &self.inner;
        let cts = leaves(ct);
        check::beside(
            "cotangent",
            &self.y,
            "result",
            &cts,
            check::cotangents(outs),
        )?;
        let mut args = residuals.clone();
        let active = cts.into_iter().zip(&vjp.active);
        let active = active.filter(|(_, active)| **active);
        args.extend(active.map(|(ct, _)| Bound::Tensor(ct)));
        let found = in_backward(|| replay_bound(&vjp.pullback, &args))?;
        dump_points(points, &vjp.nonzero, &found, None);
        let mut found = found.into_iter();
        let mut nonzero = vjp.nonzero.iter();
        let mut frozen = frozen(&self.zeros).into_iter();
        Ok(self.zeros.map(&mut |zero| match frozen.next() {
            Some(false) if nonzero.next() == Some(&true) => found
                .next()
                .expect("the program returns a cotangent for each nonzero leaf")
                .tensor()
                .with_batch_dims(zero.batch_dims()),
            _ => zero.clone(),
        }))
    }

    /// Returns the cotangents of the free leaves of the argument for all `cts`, the cotangents of the results, which
    /// have lanes along a first axis. `program` is the one that was traced.
    pub(super) fn on_lanes(
        &self,
        program: &CutProgram,
        cts: &[Tensor],
        n: usize,
    ) -> Result<Vec<Tensor>> {
        let Inner { vjp, residuals, .. } = &self.inner;
        let rows = program.derived(Derivation::Rows, || {
            LanesProgram::new(&vjp.pullback, residuals.len(), n, &vjp.nonzero)
        })?;
        let active = cts.iter().zip(&vjp.active).filter(|(_, active)| **active);
        let active = active.map(|(ct, _)| Bound::Tensor(ct.clone()));
        let args = residuals.iter().cloned().chain(active).collect();
        in_backward(|| rows.run(args, &free_leaves(&self.zeros), n))
    }

    /// Returns the cotangent of the argument, given the cotangent of the first leaf of the result.
    /// Those of all other leaves are zero.
    pub(super) fn call_first(self, ct: Tensor) -> Result<X> {
        if let [_] = self.inner.outs[..] {
            return self.try_call(&with_leaves(&self.y, &[ct]));
        }
        let zeros = self.zeros;
        let mut found = LeafPullback(self.inner).call(&[Some(ct)])?.into_iter();
        let mut frozen = frozen(&zeros).into_iter();
        Ok(zeros.map(&mut |zero| {
            let ct = match frozen.next() {
                Some(false) => found.next().flatten(),
                _ => None,
            };
            ct.map_or_else(|| zero.clone(), |ct| ct.as_cotangent_of(zero.aval()))
        }))
    }

    /// Returns the same map on leaves, without the structures of argument and result.
    pub(crate) fn into_leaves(self) -> LeafPullback {
        LeafPullback(self.inner)
    }

    /// Returns zeros in the structure of the result, to be filled with the nonzero cotangents.
    ///
    /// ```
    /// # use gradloom::{Tensor, vjp};
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (_, pullback) = vjp(|x: &Tensor| (x.sum(..), x.square()), &x);
    /// let (_, ct) = pullback.zero_cotangent();
    /// let ct = (Tensor::from(1.0f32), ct);
    /// assert_eq!(pullback.call(&ct).to_vec::<f32>(), [1.0, 1.0]);
    /// ```
    pub fn zero_cotangent(&self) -> Y {
        share(&self.y)
    }

    /// Returns the size of the residuals in bytes, including those that are also arguments or
    /// results.
    ///
    /// ```
    /// # use gradloom::{Tensor, vjp};
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(vjp(|x: &Tensor| x + x, &x).1.bytes(), 0);
    /// assert_eq!(vjp(|x: &Tensor| x.sin(), &x).1.bytes(), 8);
    /// ```
    pub fn bytes(&self) -> usize {
        self.inner.residuals.iter().map(Bound::bytes).sum()
    }

    /// Returns the program that a call runs: `residuals..., cotangents... -> cotangents...`.
    pub fn program(&self) -> &Program {
        &self.inner.vjp.pullback
    }
}

/// A pullback on leaves, where `None` stands for zero.
pub(crate) struct LeafPullback(Inner);

impl LeafPullback {
    /// Calls `f` with each residual that has elements.
    pub(crate) fn visit_residuals(&self, f: &mut dyn FnMut(&Tensor)) {
        for residual in &self.0.residuals {
            if let Bound::Tensor(x) = residual {
                f(x);
            }
        }
    }

    /// Returns the pullback with other residuals.
    pub(crate) fn map_residuals(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> LeafPullback {
        let mut inner = self.0.clone();
        for residual in &mut inner.residuals {
            if let Bound::Tensor(x) = residual {
                *x = f(x);
            }
        }
        LeafPullback(inner)
    }

    pub(crate) fn call(&self, cts: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let Inner {
            vjp,
            residuals,
            outs,
            args: batch_dims,
            points,
        } = &self.0;
        let (program, nonzero) = (&vjp.pullback, &vjp.nonzero);
        let params = program.params[residuals.len()..].iter();
        let (mut args, mut missing) = (residuals.clone(), Vec::new());
        let active = (0..outs.len()).filter(|i| vjp.active[*i]);
        // The cotangents of what elements of a prefix share are added up here, and the caller adds them to others
        // with a prefix.
        let given = cts.iter().flatten().map(Tensor::batch_shape);
        let prefix = given.max_by_key(|prefix| prefix.len()).unwrap_or_default();
        for (i, param) in active.zip(params) {
            match cts.get(i).cloned().flatten() {
                Some(ct) => args.push(Bound::Tensor(ct.as_cotangent_of(&outs[i]))),
                None => {
                    missing.push(*param);
                    let zeros = Tensor::zeros(outs[i].physical_shape(), outs[i].dtype());
                    args.push(Bound::Tensor(zeros));
                }
            }
        }
        let part = ad::with_zeros(program, residuals.len(), &missing);
        let found = in_backward(|| replay_bound(&part.program, &args))?;
        dump_points(points, nonzero, &found, Some(&part.nonzero));
        let mut found = found.into_iter();
        let mut left = part.nonzero.iter();
        Ok(nonzero
            .iter()
            .zip(batch_dims)
            .map(|(nonzero, n)| {
                let left = *nonzero
                    && *left
                        .next()
                        .expect("`ad::with_zeros` has an entry for each nonzero leaf");
                let ct = left.then(|| {
                    found
                        .next()
                        .expect("the program returns a cotangent for each leaf that is left")
                });
                let ct = ct?.tensor().with_batch_dims(*n);
                Some(match *n <= prefix.len() {
                    true => ct.at_first(prefix),
                    false => ct,
                })
            })
            .collect())
    }
}
