//! What the companions of traced functions are made of.
//!
//! Between companions, cotangents and tangents travel as the leaves of each parameter, in order; a leaf that is
//! zero is `None`, and so is one that is missing at the end.

use crate::record::expect;
use crate::tensor::number;
use crate::transform::{Outcome, vjp};
use crate::tree::{leaves as leaves_of, share, with_leaves};
use crate::{Aval, Error, Result, Tensor, Tree, check};
use gradloom_ir::Static;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The leaves of one tree; a leaf that is zero is `None`.
pub type Leaves = Vec<Option<Tensor>>;

/// Another handle on a tensor.
pub fn own(x: &Tensor) -> Tensor {
    x.clone()
}

/// Residuals that share one field.
pub type List<T> = Arc<[T]>;

/// Other handles on tensors.
pub fn own_all(tensors: &[&Tensor]) -> List<Tensor> {
    tensors.iter().map(|x| own(x)).collect()
}

/// The avals of tensors.
pub fn avals_all(tensors: &[&Tensor]) -> List<Aval> {
    tensors.iter().map(|x| x.aval().clone()).collect()
}

/// Each element of a list, which has as many as the caller says.
pub fn elements<T, const N: usize>(list: &List<T>) -> [&T; N] {
    let elements: &[T; N] = (&**list).try_into().expect("as many elements as were kept");
    elements.each_ref()
}

/// The leaf of a tensor.
pub fn leaf(x: &Tensor) -> Leaves {
    vec![Some(x.clone())]
}

/// The leaves of a result.
pub fn leaves<const N: usize>(leaves: [Option<Tensor>; N]) -> Leaves {
    leaves.into()
}

/// A tree of handles on the leaves of another.
pub fn copy<T: Tree>(tree: &T) -> T {
    share(tree)
}

/// Zeros of an aval.
pub fn zeros(aval: &Aval) -> Tensor {
    Tensor::zeros(aval.shape(), aval.dtype())
}

/// Zeros in the structure of a tree, which keep nothing of it alive.
pub fn zeros_tree<T: Tree>(tree: &T) -> T {
    crate::tree::zeros(tree)
}

/// The avals of the leaves of a tree.
pub fn avals<T: Tree>(tree: &T) -> Vec<Aval> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.aval().clone()));
    out
}

/// A number or a tensor in a field, as the operand of an op.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number",
    label = "an operation takes tensors and numbers",
    note = "write the part of it that is a tensor, or call a method of it that is traced"
)]
pub trait Leaf {
    /// The tensor, or the number in the dtype of `like`.
    fn operand(&self, like: &Tensor) -> Tensor;
    /// The tensor, if it is one.
    fn tensor(&self) -> Option<&Tensor>;
}

impl Leaf for Tensor {
    fn operand(&self, _: &Tensor) -> Tensor {
        self.clone()
    }
    fn tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
}

impl<T: Leaf + ?Sized> Leaf for &T {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

impl<T: Leaf + ?Sized> Leaf for Box<T> {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl Leaf for $ty {
            #[track_caller]
            fn operand(&self, like: &Tensor) -> Tensor {
                number(*self, like)
            }
            fn tensor(&self) -> Option<&Tensor> {
                None
            }
        }
    )*};
}
numbers! { f32 f64 i32 i64 usize }

/// A field or a host value as an operand. Everything that asks for one asks here, so that rustc says once what is none.
pub fn operand_of<L: Leaf>(value: &L) -> &dyn Leaf {
    value
}

/// The operand that a field or a host value is.
#[track_caller]
pub fn operand(value: &dyn Leaf, like: &Tensor) -> Tensor {
    value.operand(like)
}

/// A field that has to be a tensor, because no tensor stands beside it whose dtype a number could take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor, and this is an operation of tensors",
    label = "not a tensor",
    note = "bind a number with its type before it is used, as in `let scale: f32 = model.scale;`"
)]
pub trait TensorPart {
    fn tensor_part(&self) -> Tensor;
}

impl TensorPart for Tensor {
    fn tensor_part(&self) -> Tensor {
        self.clone()
    }
}

impl<T: TensorPart + ?Sized> TensorPart for &T {
    fn tensor_part(&self) -> Tensor {
        (**self).tensor_part()
    }
}

impl<T: TensorPart + ?Sized> TensorPart for Box<T> {
    fn tensor_part(&self) -> Tensor {
        (**self).tensor_part()
    }
}

/// Another handle on the tensor in a field.
pub fn tensor_part(value: &impl TensorPart) -> Tensor {
    value.tensor_part()
}

/// Which leaves of a tree a part of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    start: usize,
    len: usize,
}

/// Which leaves of `root` its part `place` is. A part is known by where it lies in memory.
pub fn find<R: Tree, T: Tree>(root: &R, place: &T) -> At {
    let (mut first, mut len) = (None, 0);
    place.visit(&mut |leaf| {
        first.get_or_insert(std::ptr::from_ref(leaf));
        len += 1;
    });
    position(root, first, len)
}

/// The same for a field that an op reads. A number is no leaf.
pub fn find_leaf<R: Tree>(root: &R, place: &dyn Leaf) -> At {
    let first = place.tensor().map(std::ptr::from_ref);
    position(root, first, usize::from(first.is_some()))
}

fn position<R: Tree>(root: &R, first: Option<*const Tensor>, len: usize) -> At {
    let Some(first) = first else {
        return At { start: 0, len: 0 };
    };
    let (mut start, mut next) = (None, 0);
    root.visit(&mut |leaf| {
        if std::ptr::eq(leaf, first) {
            start.get_or_insert(next);
        }
        next += 1;
    });
    match start {
        Some(start) => At { start, len },
        // A field that the tree skips has no derivative.
        None => At { start: 0, len: 0 },
    }
}

/// The leaves of a part of a tree.
pub fn part(leaves: &[Option<Tensor>], at: At) -> Leaves {
    (at.start..at.start + at.len)
        .map(|i| leaves.get(i).cloned().flatten())
        .collect()
}

/// The tangent of a parameter that is a tensor.
pub fn tangent(given: &[Option<Tensor>], x: &Tensor) -> Tensor {
    given
        .first()
        .cloned()
        .flatten()
        .unwrap_or_else(|| zeros(x.aval()))
}

/// The tangent of a tensor in a tree.
pub fn tangent_at(given: &[Option<Tensor>], at: At, x: &Tensor) -> Tensor {
    tangent(&part(given, at), x)
}

/// The tangent of result `i` of a call.
pub fn tangent_of(given: &[Option<Tensor>], i: usize, y: &Tensor) -> Tensor {
    given
        .get(i)
        .cloned()
        .flatten()
        .unwrap_or_else(|| zeros(y.aval()))
}

/// The tangent of a result, in its structure.
pub fn tangent_tree<Y: Tree>(y: &Y, dy: &[Option<Tensor>]) -> Y {
    fill(y, dy)
}

fn fill<T: Tree>(like: &T, leaves: &[Option<Tensor>]) -> T {
    let mut next = leaves.iter();
    like.map(&mut |leaf| {
        next.next()
            .cloned()
            .flatten()
            .unwrap_or_else(|| zeros(leaf.aval()))
    })
}

/// The tangent that the user gives for an argument, after a check of its structure.
#[track_caller]
pub fn given<T: Tree>(x: &T, dx: &T, name: &str) -> Leaves {
    let found = leaves_of(dx);
    let expected = leaves_of(x);
    expect(check::beside(
        "tangent",
        x,
        name,
        &found,
        check::avals(&expected),
    ));
    found.into_iter().map(Some).collect()
}

/// Raises an error if a result is not a single float.
#[track_caller]
pub fn check_single(y: &Tensor) {
    expect(check::scalar(y));
}

/// Raises an error if a leaf of an argument cannot have a gradient.
#[track_caller]
pub fn check_floats<T: Tree>(x: &T, name: &str) {
    expect(check::floats(x, name));
}

/// The cotangent of a loss: one. It has to be a single float.
#[track_caller]
pub fn seed(y: &Tensor) -> [Option<Tensor>; 1] {
    expect(check::scalar(y));
    [Some(y.ones_like())]
}

/// Whether there is a cotangent of a result.
pub fn is_given(given: &[Option<Tensor>], i: usize) -> bool {
    given.get(i).is_some_and(Option::is_some)
}

/// The cotangent of a result.
pub fn cotangent(given: &[Option<Tensor>], i: usize) -> Tensor {
    let ct = given.get(i).cloned().flatten();
    ct.expect("a pullback is called with a cotangent that is not zero")
}

/// The cotangents of the parameters of a function, the leaves of each.
#[derive(Clone, Debug)]
pub struct Pulled {
    params: Vec<Leaves>,
    /// What a leaf is like whose cotangent is zero.
    likes: Arc<[Vec<Aval>]>,
}

impl Pulled {
    /// No parameter has a cotangent that is not zero.
    pub fn new(n_params: usize) -> Pulled {
        Pulled {
            params: vec![Leaves::new(); n_params],
            likes: Arc::from([]),
        }
    }

    /// Adds to the cotangent of a parameter that is a tensor.
    pub fn add_tensor(&mut self, param: usize, ct: &Tensor) {
        self.add(param, 0, ct);
    }

    /// Adds to the cotangent of a tensor in a tree.
    pub fn add_leaf(&mut self, param: usize, at: &At, ct: &Tensor) {
        if at.len == 1 {
            self.add(param, at.start, ct);
        }
    }

    /// Adds to the cotangent of a part of a tree.
    pub fn add_tree(&mut self, param: usize, at: &At, cts: &[Option<Tensor>]) {
        for (i, ct) in cts.iter().take(at.len).enumerate() {
            if let Some(ct) = ct {
                self.add(param, at.start + i, ct);
            }
        }
    }

    #[track_caller]
    fn add(&mut self, param: usize, i: usize, ct: &Tensor) {
        let leaves = &mut self.params[param];
        if leaves.len() <= i {
            leaves.resize(i + 1, None);
        }
        leaves[i] = Some(match leaves[i].take() {
            Some(old) => old + ct,
            None => ct.clone(),
        });
    }

    /// The cotangent of a parameter that is a tensor.
    pub fn tensor(&self, param: usize) -> Tensor {
        let ct = self.params[param].first().cloned().flatten();
        ct.unwrap_or_else(|| zeros(&self.likes[param][0]))
    }

    /// The same, by reference.
    pub(super) fn leaves(&self, param: usize) -> &[Option<Tensor>] {
        &self.params[param]
    }

    /// All cotangents so far.
    pub(super) fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.params.iter().flatten().flatten()
    }

    /// The cotangents of the leaves of a parameter.
    pub fn tree(&self, param: usize) -> Leaves {
        self.params[param].clone()
    }
}

/// The cotangent of an argument, in its structure.
pub fn rebuild<T: Tree>(like: &T, pulled: &Pulled, param: usize) -> T {
    fill(like, &pulled.params[param])
}

type PullFn = dyn Fn(&[Option<Tensor>]) -> Pulled + Send + Sync;

/// A pullback between companions: what a call keeps, whoever was called.
#[derive(Clone)]
pub struct Pull {
    likes: Arc<[Vec<Aval>]>,
    bytes: usize,
    run: Arc<PullFn>,
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Pull {
    /// A pullback; `likes` are the avals of the leaves of each parameter, `bytes` is what it keeps.
    pub fn new<const N: usize>(
        likes: [Vec<Aval>; N],
        bytes: usize,
        run: impl Fn(&[Option<Tensor>]) -> Pulled + Send + Sync + 'static,
    ) -> Pull {
        Pull {
            likes: Arc::from(likes),
            bytes,
            run: Arc::new(run),
        }
    }

    /// The cotangents of the parameters, given those of the results.
    pub fn call(&self, cts: &[Option<Tensor>]) -> Pulled {
        let pulled = match cts.iter().any(Option::is_some) {
            true => (self.run)(cts),
            false => Pulled::new(self.likes.len()),
        };
        Pulled {
            likes: self.likes.clone(),
            ..pulled
        }
    }

    /// The same, given the cotangent of the result in its structure, after a check against `like`.
    #[track_caller]
    pub fn call_tree<Y: Tree>(&self, ct: &Y, likes: &[Aval]) -> Pulled {
        let cts = leaves_of(ct);
        expect(check::beside(
            "cotangent",
            ct,
            "result",
            &cts,
            check::cotangents(likes),
        ));
        self.call(&cts.into_iter().map(Some).collect::<Leaves>())
    }
}

/// What is kept for reverse mode, added up: a tensor that is kept twice counts once.
#[derive(Default)]
pub struct Kept {
    seen: HashSet<usize>,
    bytes: usize,
}

/// A field of a struct of residuals.
pub trait Residual {
    /// Adds the tensors in it.
    fn keep(&self, kept: &mut Kept);
}

/// The bytes that the fields of a struct of residuals keep.
pub fn bytes(fields: &[&dyn Residual]) -> usize {
    let mut kept = Kept::default();
    fields.iter().for_each(|field| field.keep(&mut kept));
    kept.bytes
}

impl Residual for Tensor {
    fn keep(&self, kept: &mut Kept) {
        if kept.seen.insert(self.address()) {
            kept.bytes += self.aval().bytes();
        }
    }
}

impl<T: Residual> Residual for List<T> {
    fn keep(&self, kept: &mut Kept) {
        self.iter().for_each(|part| part.keep(kept));
    }
}

impl Residual for Pull {
    fn keep(&self, kept: &mut Kept) {
        kept.bytes += self.bytes;
    }
}

impl<T: Residual> Residual for Vec<T> {
    fn keep(&self, kept: &mut Kept) {
        self.iter().for_each(|part| part.keep(kept));
    }
}

macro_rules! nothing_kept {
    ($($ty:ty),*) => {$(
        impl Residual for $ty {
            fn keep(&self, _: &mut Kept) {}
        }
    )*};
}
nothing_kept! { Aval, Static, At }

/// [`catch`](super::catch) for functions with an error type of their own.
pub fn catch_as<T, E: From<Error>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    super::catch(|| Ok(body()))?
}

/// Runs a function and records what it does, for its pullback.
///
/// `x` holds the arguments that derivatives are taken with respect to, which stand at `positions` among the
/// parameters.
#[track_caller]
pub fn record_vjp<X, R, const N: usize>(
    likes: [Vec<Aval>; N],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Pull)>
where
    X: Tree,
    R: Outcome,
{
    let found = R::unwrap(vjp::<X, R, _>(f, x));
    let positions = positions.to_vec();
    R::wrap(found.map(|(y, pullback)| {
        let bytes = pullback.bytes();
        let pullback = pullback.into_leaves();
        let sizes: Vec<usize> = positions.iter().map(|i| likes[*i].len()).collect();
        let run = move |cts: &[Option<Tensor>]| {
            let mut pulled = Pulled::new(N);
            let mut found = expect(pullback.call(cts)).into_iter();
            for (position, size) in positions.iter().zip(&sizes) {
                pulled.params[*position] = found.by_ref().take(*size).collect();
            }
            pulled
        };
        (y, Pull::new(likes, bytes, run))
    }))
}

/// Runs a function and records what it does, for its result and its tangent.
///
/// The tangents that are not given are zero, and what depends on them alone is not computed.
#[track_caller]
pub fn record_jvp<X, R>(
    given: &[Leaves],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Leaves)>
where
    X: Tree,
    R: Outcome,
{
    // The leaves of the arguments stand one after the other.
    let all = leaves_of(x);
    let mut sizes = sizes(x, positions.len()).into_iter();
    let mut dx = Vec::with_capacity(all.len());
    for position in positions {
        let given = given[*position]
            .iter()
            .cloned()
            .chain(std::iter::repeat(None));
        dx.extend(given.take(sizes.next().unwrap_or(0)));
    }
    let active: Vec<usize> = (0..all.len()).filter(|i| dx[*i].is_some()).collect();
    let fresh: Vec<Tensor> = active.iter().map(|i| all[*i].clone()).collect();
    let dx: Vec<Tensor> = dx.into_iter().flatten().collect();
    let function = |fresh: &Vec<Tensor>| {
        let mut all = all.clone();
        for (i, leaf) in active.iter().zip(fresh) {
            all[*i] = leaf.clone();
        }
        f(&with_leaves(x, &all))
    };
    let found = R::unwrap(crate::transform::jvp::<Vec<Tensor>, R, _>(
        function, &fresh, &dx,
    ));
    R::wrap(found.map(|(y, dy)| {
        let dy = leaves_of(&dy).into_iter().map(Some).collect();
        (y, dy)
    }))
}

/// Whether some of the tangents of an argument are zero.
pub fn is_partial<T: Tree>(given: &[Option<Tensor>], x: &T) -> bool {
    given.iter().flatten().count() != leaves_of(x).len()
}

/// [`record_vjp`] for functions with an error type of their own.
pub fn record_vjp_as<X, Y, E, const N: usize>(
    likes: [Vec<Aval>; N],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Pull), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_vjp(likes, positions, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// [`record_jvp`] for functions with an error type of their own.
pub fn record_jvp_as<X, Y, E>(
    given: &[Leaves],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Leaves), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_jvp(given, positions, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// Forward mode over a function that returns a gradient, for functions with an error type of their own.
#[track_caller]
pub fn record_hvp<X, E>(
    gradient: impl FnOnce(&X) -> Result<X, E>,
    x: &X,
    dx: &X,
) -> Result<(X, X), E>
where
    X: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = crate::transform::jvp(|x: &X| set_aside(gradient(x), &mut own), x, dx);
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// Keeps the caller's own error while one of ours takes its way out.
fn set_aside<Y, E>(result: Result<Y, E>, own: &mut Option<E>) -> Result<Y> {
    result.map_err(|error| {
        *own = Some(error);
        Error::Structure {
            what: "result",
            found: 0,
            expected: 1,
        }
    })
}

/// How many leaves each `x_i` of `(x_0, (x_1, ..))` has, by the paths of the leaves.
fn sizes<X: Tree>(x: &X, n: usize) -> Vec<usize> {
    let mut paths = Vec::new();
    x.paths("", &mut paths);
    let mut sizes = vec![0; n];
    for path in paths {
        let (mut i, mut rest) = (0, &path[..]);
        while let Some(behind) = rest.strip_prefix(".1") {
            (i, rest) = (i + 1, behind);
        }
        sizes[i] += 1;
    }
    sizes
}

/// The hash of a program and of those that it calls, by a mixer that rustc can run.
pub const fn fold_hash(own: [u8; 32], callees: &[[u8; 32]]) -> [u8; 32] {
    let mut state = words(&own);
    let mut i = 0;
    while i < callees.len() {
        let callee = words(&callees[i]);
        // Each word takes in the callee's and its neighbour's, so that order and every bit count.
        let mut round = 0;
        while round < 4 {
            let mut word = 0;
            while word < 4 {
                let mixed = state[word] ^ callee[word].rotate_left(17 * round + 1);
                let mixed = mixed.wrapping_add(state[(word + 1) % 4]);
                let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                state[word] = mixed ^ (mixed >> 29);
                word += 1;
            }
            round += 1;
        }
        i += 1;
    }
    let [a, b, c, d] = state;
    let halves = [join(a, b), join(c, d)];
    let mut bytes = [0; 32];
    let (low, high) = bytes.split_at_mut(16);
    low.copy_from_slice(&halves[0].to_le_bytes());
    high.copy_from_slice(&halves[1].to_le_bytes());
    bytes
}

const fn join(low: u64, high: u64) -> u128 {
    low as u128 | (high as u128) << 64
}

const fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [
        u64::from_le_bytes(words[0]),
        u64::from_le_bytes(words[1]),
        u64::from_le_bytes(words[2]),
        u64::from_le_bytes(words[3]),
    ]
}

#[cfg(test)]
mod tests {
    use super::fold_hash;

    #[test]
    fn a_hash_depends_on_each_callee_and_on_their_order() {
        let (own, a, mut b) = ([1u8; 32], [2u8; 32], [2u8; 32]);
        assert_eq!(fold_hash(own, &[]), own);
        b[31] ^= 0x80;
        let hashes = [
            fold_hash(own, &[a]),
            fold_hash(own, &[b]),
            fold_hash(own, &[a, b]),
            fold_hash(own, &[b, a]),
            own,
        ];
        for (i, x) in hashes.iter().enumerate() {
            assert!(hashes[..i].iter().all(|y| x != y), "{i}");
        }
    }
}
