//! Random keys, and the arrays drawn with them.

use crate::graph::recording;
use crate::graph::value;
use crate::raise::{expect, raise};
use crate::statics::IntoStatic;
use crate::tensor::record;
use crate::tensor::{check_shape, shape_static};
use crate::tree::key::CallKey;
use crate::{Aval, DType, Error, IntoShape, Tensor, Tree, recycle};
use gradloom_ir::{Fault, Op, OpError, Static};
use gradloom_kernels::lock::get_or_init;
use gradloom_kernels::memory::Buffer;
use gradloom_kernels::random::threefry::KeyWords;
use gradloom_kernels::random::{self as kernels, Distribution, threefry};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A key draws one array of random numbers, or makes other keys.
///
/// A key is neither `Clone` nor `Copy`, and every use consumes it. Two arrays therefore cannot
/// share their numbers by accident:
///
/// ```compile_fail,E0382
/// use gradloom::prelude::*;
/// let key = Key::new(0);
/// let a = key.normal([3], DType::F32);
/// let b = key.normal([3], DType::F32); // error: use of moved value: `key`
/// ```
///
/// Each array takes a key of its own:
///
/// ```
/// use gradloom::prelude::*;
/// let (first, second) = Key::new(0).split();
/// let a = first.uniform([3], DType::F32);
/// let b = second.uniform([3], DType::F32);
/// assert_ne!(a.to_vec::<f32>(), b.to_vec::<f32>());
/// ```
///
/// Numbers are drawn immediately. The tensors hold data, so a program that takes them as arguments
/// does not depend on the key and is planned once.
///
/// A `#[traced]` function may take a key and draw in its body. The words of the key are then an
/// argument of the function's plan, and draws are ops of the plan:
///
/// ```
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn dropout(x: &Tensor, p: f64, key: Key) -> Tensor {
///     let keep = key.bernoulli(1.0 - p, x.shape());
///     keep.select(&(x / (1.0 - p)), &Tensor::zeros_like(x))
/// }
///
/// let (first, second) = Key::new(0).split();
/// let x = Tensor::ones([4, 4], DType::F32);
/// let a = dropout(&x, 0.5, first);
/// let b = dropout(&x, 0.5, second); // runs the plan of the first call
/// assert_ne!(a.to_vec::<f32>(), b.to_vec::<f32>());
/// ```
#[must_use = "an unused key draws nothing"]
pub struct Key(KeyRepr);

/// Representation of a key.
enum KeyRepr {
    /// The words. The cell holds them as a tensor if the key is an argument of a call or is used in
    /// a recorded body. Uses of the key are then recorded as ops.
    Words(KeyWords, OnceLock<Tensor>),
    /// Result of an op on another key.
    Op(Tensor),
}

impl Key {
    /// Creates the key of a seed. Equal seeds give equal numbers.
    ///
    /// All 64 bits of the seed are used. `jax.random.PRNGKey(seed)` is the same key, except that
    /// without `jax_enable_x64` JAX drops the upper 32 bits.
    pub fn new(seed: u64) -> Key {
        Key::from_words(threefry::seed(seed))
    }

    /// Creates a key from two words, such as those of `jax.random.key_data`.
    ///
    /// The caller is responsible for using the words only once.
    pub fn from_words(words: [u32; 2]) -> Key {
        Key(KeyRepr::Words(words, OnceLock::new()))
    }

    /// Returns the two words, for a checkpoint. [`Key::from_words`] restores the key.
    ///
    /// This reads values: a traced function that calls it is recorded each time.
    #[track_caller]
    pub fn into_words(self) -> [u32; 2] {
        self.words()
    }

    /// Makes two independent keys.
    pub fn split(self) -> (Key, Key) {
        let [a, b] = self.split_n();
        (a, b)
    }

    /// Makes an array of independent keys: `let [w, b, shuffle] = key.split_n();`
    pub fn split_n<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|i| self.made_by(i as u64))
    }

    /// Makes `n` independent keys.
    pub fn split_many(self, n: usize) -> Vec<Key> {
        (0..n as u64).map(|i| self.made_by(i)).collect()
    }

    /// Makes `n` independent keys, those of [`split_many`](Self::split_many), as the lanes of one.
    ///
    /// The result is an argument of a function under [`vmap`](crate::vmap), where each lane draws the
    /// numbers of its own key. Outside of one it draws an array for each key.
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// let keys = Key::new(0).split_lanes(3);
    /// let walks = vmap(|key: &Key| key.duplicate().normal([4], DType::F32).sum(..))(&keys);
    /// assert_eq!(walks.shape(), [3]);
    /// ```
    pub fn split_lanes(self, n: usize) -> Key {
        let key = self.tensor();
        let keys = [&[n], &key.shape()[..key.rank() - 1]].concat();
        let mut data = Tensor::arange(n, DType::I64);
        for _ in 1..keys.len() {
            data = data.unsqueeze(-1);
        }
        let key = key.unsqueeze(0).broadcast_to([&keys[..], &[2]].concat());
        let data = data.broadcast_to(&keys[..]);
        let made = record::record_one(Op::FoldIn, [], &[&key, &data], &[]);
        Key(KeyRepr::Op(expect(made)))
    }

    /// Returns a key with the same words, for a function that borrows its key.
    ///
    /// The caller is responsible for using only one of them.
    pub fn duplicate(&self) -> Key {
        match &self.0 {
            KeyRepr::Words(words, tensor) => Key(KeyRepr::Words(*words, tensor.clone())),
            KeyRepr::Op(words) => Key(KeyRepr::Op(words.clone())),
        }
    }

    /// Derives a key from a number, such as the index of a worker. All workers may start from one
    /// seed.
    ///
    /// The number is a `u32`, or an integer tensor of rank 0, of which the low 32 bits count. So a loop
    /// can derive a key for each of its turns:
    ///
    /// ```
    /// use gradloom::{fori_loop, prelude::*};
    /// let key = Key::new(0);
    /// let step = |i: &Tensor, x: &Tensor| x + key.duplicate().fold_in(i).normal([2], DType::F32);
    /// let walk = fori_loop(0..3, step, &Tensor::zeros([2], DType::F32));
    /// assert_eq!(walk.shape(), [2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the tensor is not an integer of rank 0.
    #[track_caller]
    pub fn fold_in(self, data: impl FoldIn) -> Key {
        data.fold_into(&self)
    }

    /// Draws random words: `i64` numbers from 0 to 2^32 - 1.
    ///
    /// # Panics
    ///
    /// If memory for the elements cannot be allocated. The same holds for the other drawing
    /// methods.
    #[track_caller]
    pub fn bits(self, shape: impl IntoShape) -> Tensor {
        self.draw(Distribution::Bits, shape.into_shape())
    }

    /// Draws numbers in `[0, 1)`: multiples of 2^-23 (`f32`) or 2^-52 (`f64`).
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// let x = Key::new(42).uniform([2], DType::F32);
    /// assert_eq!(x.to_vec::<f32>(), [0.48870957, 0.67979717]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the dtype is neither `f32` nor `f64`.
    #[track_caller]
    pub fn uniform(self, shape: impl IntoShape, dtype: DType) -> Tensor {
        self.draw(Distribution::Uniform(dtype), shape.into_shape())
    }

    /// Draws numbers from the normal distribution with mean 0 and variance 1.
    ///
    /// They are `sqrt(2) * erf_inv(u)`, with `u` uniform in (-1, 1). The uniform numbers equal
    /// JAX's bit for bit. The inverse error function is JAX's polynomial, but JAX fuses its
    /// multiplications and additions. The results therefore agree only up to a few units in the
    /// last place.
    ///
    /// # Panics
    ///
    /// If the dtype is neither `f32` nor `f64`.
    #[track_caller]
    pub fn normal(self, shape: impl IntoShape, dtype: DType) -> Tensor {
        self.draw(Distribution::Normal(dtype), shape.into_shape())
    }

    /// Draws `bool` values that are true with probability `p`, which is rounded to `f32`.
    ///
    /// # Panics
    ///
    /// If `p` is not between 0 and 1.
    #[track_caller]
    pub fn bernoulli(self, p: f64, shape: impl IntoShape) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            refuse(Op::RandomBernoulli, Fault::Probability { p });
        }
        self.draw(Distribution::Bernoulli(p), shape.into_shape())
    }

    /// Returns the numbers `0..n` in random order, as `i64`.
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// assert_eq!(Key::new(42).permutation(4).to_vec::<i64>().len(), 4);
    /// ```
    #[track_caller]
    pub fn permutation(self, n: usize) -> Tensor {
        if let Some(key) = self.recorded() {
            return expect(record::record_one(
                Op::RandomPermutation,
                [n.into_static()],
                &[key],
                &[],
            ));
        }
        let fault = |fault| Error::of_kernel("permutation", fault);
        let order = kernels::order(self.words(), n).map_err(fault);
        elements(&Aval::new(DType::I64, [n]), expect(order))
    }

    /// Records an op if the key is a tensor. Otherwise draws the array immediately.
    #[track_caller]
    fn draw(self, numbers: Distribution, shape: Vec<usize>) -> Tensor {
        let float = |op: Op, dtype: DType| match dtype {
            DType::F32 | DType::F64 => (op, Some(dtype.into())),
            found => not_a_float(op, found),
        };
        let (op, more) = match numbers {
            Distribution::Bits => (Op::RandomBits, None),
            Distribution::Uniform(dtype) => float(Op::RandomUniform, dtype),
            Distribution::Normal(dtype) => float(Op::RandomNormal, dtype),
            Distribution::Bernoulli(p) => (Op::RandomBernoulli, Some(p.into())),
        };
        if let Some(key) = self.recorded() {
            let statics = [shape_static(shape)].into_iter().chain(more);
            return expect(record::record_one(op, statics, &[key], &[]));
        }
        expect(check_shape(&shape));
        let aval = Aval::new(numbers.dtype(), shape);
        let fault = |fault| Error::of_kernel(op.called(), fault);
        let buffer = numbers.array(self.words(), aval.numel());
        elements(&aval, expect(buffer.map_err(fault)))
    }

    /// Derives a key from this one and an integer tensor of rank 0.
    #[track_caller]
    fn made_by_tensor(&self, data: &Tensor) -> Key {
        if !data.shape().is_empty() || !matches!(data.dtype(), DType::I32 | DType::I64) {
            let reason = format!("the number is {}, expected i32[] or i64[]", data.aval());
            let call = "fold_in".to_owned();
            raise(Error::Arguments { call, reason });
        }
        let key = self.tensor();
        let keys = &key.shape()[..key.rank() - 1];
        let data = data.cast(DType::I64).broadcast_to(keys);
        let made = record::record_one(Op::FoldIn, [], &[key, &data], &[]);
        Key(KeyRepr::Op(expect(made)))
    }

    /// Derives a key from this one and a number.
    fn made_by(&self, data: u64) -> Key {
        match self.recorded() {
            Some(key) => {
                let number =
                    record::record_one(Op::Scalar, [Static::Int(data as i64)], &[], &[key.aval()]);
                let keys = &key.shape()[..key.rank() - 1];
                let data = expect(number).broadcast_to(keys);
                let made = record::record_one(Op::FoldIn, [], &[key, &data], &[]);
                Key(KeyRepr::Op(expect(made)))
            }
            None => Key::from_words(threefry::split(self.words(), data)),
        }
    }

    /// Returns the words as a tensor if uses of the key have to be recorded.
    fn recorded(&self) -> Option<&Tensor> {
        match &self.0 {
            KeyRepr::Op(words) => Some(words),
            KeyRepr::Words(..) if recording::is_recording() => Some(self.tensor()),
            KeyRepr::Words(_, tensor) => tensor.get(),
        }
    }

    /// Returns the words as a tensor. Further uses of the key are then recorded.
    fn tensor(&self) -> &Tensor {
        match &self.0 {
            KeyRepr::Op(words) => words,
            KeyRepr::Words(words, tensor) => get_or_init(tensor, || tensor_of(*words)),
        }
    }

    fn words(&self) -> KeyWords {
        // A recorded call then depends on values, so it cannot be cached.
        recording::impure();
        match &self.0 {
            KeyRepr::Words(words, _) => *words,
            KeyRepr::Op(words) => {
                assert!(
                    words.physical_shape().len() == 1,
                    "this is an array of keys: use it under `vmap`"
                );
                let words = words.to_vec::<i64>();
                [words[0] as u32, words[1] as u32]
            }
        }
    }
}

/// Number from which [`Key::fold_in`] derives a key: a `u32`, or an integer tensor of rank 0.
#[diagnostic::on_unimplemented(
    message = "a key cannot be derived from `{Self}`",
    label = "not a number for a key",
    note = "write a `u32`, or an integer tensor of rank 0"
)]
pub trait FoldIn {
    #[doc(hidden)]
    #[track_caller]
    fn fold_into(self, key: &Key) -> Key;
}

impl FoldIn for u32 {
    fn fold_into(self, key: &Key) -> Key {
        key.made_by(self.into())
    }
}

impl FoldIn for &Tensor {
    #[track_caller]
    fn fold_into(self, key: &Key) -> Key {
        key.made_by_tensor(self)
    }
}

impl FoldIn for Tensor {
    #[track_caller]
    fn fold_into(self, key: &Key) -> Key {
        key.made_by_tensor(&self)
    }
}

/// As an argument of a call, a key is a leaf: the plan reads its words.
impl crate::tree::key::Words for Key {
    fn words(&self, key: &mut CallKey<'_>) {
        key.words_of_key(self.tensor());
    }
}

/// A key is a frozen leaf of a tree: an `i64` tensor with its two words.
///
/// A copy of a tree, such as [`Tree::map`] makes it, has keys with the same words. As for
/// [`Key::from_words`], the caller is responsible for using only one of them.
impl Tree for Key {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self.tensor());
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        let mut words = self.tensor().clone();
        f(&mut words);
        *self = Key(KeyRepr::Op(words));
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Key {
        Key(KeyRepr::Op(f(self.tensor())))
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        out.push(prefix.to_owned());
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        key.leaf(self.tensor());
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        out.push(true);
    }
    const __SHARED: Option<&'static str> = None;
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.words()).finish()
    }
}

fn tensor_of(words: KeyWords) -> Tensor {
    let fault = |fault| Error::of_kernel("key", fault);
    let mut buffer = expect(recycle::take_buffer(DType::I64, 2).map_err(fault));
    if let Some(Buffer::I64(data)) = Arc::get_mut(&mut buffer) {
        data.copy_from_slice(&words.map(i64::from));
    }
    let aval = Aval::new(DType::I64, [2]);
    Tensor::new(&aval, value::ValueSource::Elements(buffer))
}

/// Returns a tensor with these elements.
fn elements(aval: &Aval, buffer: Buffer) -> Tensor {
    Tensor::new(aval, value::ValueSource::Elements(Arc::new(buffer)))
}

#[track_caller]
fn not_a_float(op: Op, found: DType) -> ! {
    let expected = "`f32` or `f64`";
    refuse(op, Fault::DType { found, expected })
}

/// Panics with an error about the arguments of a draw.
#[track_caller]
fn refuse(op: Op, fault: Fault) -> ! {
    raise(Error::Op(OpError {
        op,
        called: op.called(),
        args: Vec::new(),
        fault,
    }))
}
