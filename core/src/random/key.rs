//! Keys, and the tensors they stand for.

use super::erf_inv::{erf_inv32, erf_inv64};
use super::threefry::{self, Words};
use crate::buffer::reserve;
use crate::record::expect;
use crate::tensor::check_shape;
use crate::{Element, Error, IntoShape, Result, Tensor};
use gradloom_ir::DType;
use std::f32::consts::SQRT_2 as SQRT_2_F32;
use std::f64::consts::SQRT_2;

/// The right to draw one array of random numbers, or to make other keys.
///
/// A key is neither `Clone` nor `Copy`, and every use consumes it, so no two arrays share their numbers by accident:
///
/// ```compile_fail,E0382
/// use gradloom::prelude::*;
/// let key = Key::new(0);
/// let a = key.normal([3], DType::F32);
/// let b = key.normal([3], DType::F32); // error: use of moved value: `key`
/// ```
///
/// Two arrays take two keys:
///
/// ```
/// use gradloom::prelude::*;
/// let (first, second) = Key::new(0).split();
/// let a = first.uniform([3], DType::F32);
/// let b = second.uniform([3], DType::F32);
/// assert_ne!(a.to_vec::<f32>(), b.to_vec::<f32>());
/// ```
///
/// Numbers are drawn at once: the tensors hold data and are no promises, so a program that takes them as
/// arguments does not depend on the key and is planned once.
#[derive(Debug)]
#[must_use = "an unused key draws nothing"]
pub struct Key(Words);

impl Key {
    /// The key of a seed; equal seeds give equal numbers.
    ///
    /// The 64 bits are all used. `jax.random.PRNGKey(seed)` is the same key, but without `jax_enable_x64` it drops
    /// the upper 32 bits.
    pub fn new(seed: u64) -> Key {
        Key(threefry::seed(seed))
    }

    /// The key of two words, such as `jax.random.key_data` gives. Whoever stores the words must see to it that they
    /// are used once.
    pub fn from_words(words: [u32; 2]) -> Key {
        Key(words)
    }

    /// The two words, for a checkpoint: [`Key::from_words`] goes back.
    pub fn into_words(self) -> [u32; 2] {
        self.0
    }

    /// Two independent keys.
    pub fn split(self) -> (Key, Key) {
        let [a, b] = self.split_n();
        (a, b)
    }

    /// As many independent keys as the pattern takes: `let [w, b, shuffle] = key.split_n();`
    pub fn split_n<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|i| Key(threefry::split(self.0, i as u64)))
    }

    /// `n` independent keys.
    pub fn split_many(self, n: usize) -> Vec<Key> {
        (0..n as u64)
            .map(|i| Key(threefry::split(self.0, i)))
            .collect()
    }

    /// The key that a number makes of this one, such as the index of a worker that holds a key of the same seed.
    pub fn fold_in(self, data: u32) -> Key {
        Key(threefry::fold_in(self.0, data))
    }

    /// Random words: `i64` numbers from 0 to 2^32 - 1.
    ///
    /// # Panics
    ///
    /// The shape holds more elements than memory has room for; so for the other drawing methods.
    #[track_caller]
    pub fn bits(self, shape: impl IntoShape) -> Tensor {
        draw(shape, |i| i64::from(threefry::bits32(self.0, i)))
    }

    /// Numbers from 0 to below 1: multiples of 2^-23 (`f32`) or 2^-52 (`f64`).
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// let x = Key::new(42).uniform([2], DType::F32);
    /// assert_eq!(x.to_vec::<f32>(), [0.48870957, 0.67979717]);
    /// ```
    ///
    /// # Panics
    ///
    /// The dtype is neither `f32` nor `f64`.
    #[track_caller]
    pub fn uniform(self, shape: impl IntoShape, dtype: DType) -> Tensor {
        match dtype {
            DType::F32 => draw(shape, |i| threefry::uniform32(threefry::bits32(self.0, i))),
            DType::F64 => draw(shape, |i| threefry::uniform64(threefry::bits64(self.0, i))),
            _ => not_a_float(dtype),
        }
    }

    /// Numbers of the normal distribution with mean 0 and variance 1: `sqrt(2) * erf_inv(u)`, `u` uniform in (-1, 1).
    ///
    /// The uniform numbers equal JAX's bit for bit. The inverse error function is JAX's polynomial too, but JAX compiles
    /// it with fused multiplications: of a million `f32` numbers 95 % were equal and all were within 3 units in
    /// the last place, `f64` numbers were within a relative 4e-15.
    ///
    /// # Panics
    ///
    /// The dtype is neither `f32` nor `f64`.
    #[track_caller]
    pub fn normal(self, shape: impl IntoShape, dtype: DType) -> Tensor {
        match dtype {
            DType::F32 => {
                let low = 1f32.next_down().copysign(-1.0);
                draw(shape, |i| {
                    let u = threefry::uniform32(threefry::bits32(self.0, i));
                    SQRT_2_F32 * erf_inv32((u * 2.0 + low).max(low))
                })
            }
            DType::F64 => {
                let low = 1f64.next_down().copysign(-1.0);
                draw(shape, |i| {
                    let u = threefry::uniform64(threefry::bits64(self.0, i));
                    SQRT_2 * erf_inv64((u * 2.0 + low).max(low))
                })
            }
            _ => not_a_float(dtype),
        }
    }

    /// Coin flips: `bool` values that are true with probability `p`, which is rounded to `f32`.
    #[track_caller]
    pub fn bernoulli(self, p: f64, shape: impl IntoShape) -> Tensor {
        draw(shape, |i| {
            threefry::uniform32(threefry::bits32(self.0, i)) < p as f32
        })
    }

    /// The numbers `0..n` in a random order, as `i64`.
    ///
    /// ```
    /// use gradloom::prelude::*;
    /// assert_eq!(Key::new(42).permutation(4).to_vec::<i64>().len(), 4);
    /// ```
    #[track_caller]
    pub fn permutation(self, n: usize) -> Tensor {
        // Asked for first, because what has no memory inside aborts.
        drop(expect(room::<i64>(n)));
        Tensor::from_vec(threefry::permutation(self.0, n), [n])
    }
}

/// An array whose element `i` is a function of `i`.
#[track_caller]
fn draw<T: Element>(shape: impl IntoShape, element: impl Fn(u64) -> T) -> Tensor {
    let shape = shape.into_shape();
    expect(check_shape(&shape));
    let n: usize = shape.iter().product();
    let mut data = expect(room(n));
    data.extend((0..n as u64).map(element));
    Tensor::from_vec(data, shape)
}

fn room<T: Element>(n: usize) -> Result<Vec<T>> {
    reserve(n).map_err(|fault| Error::of_kernel("random", fault))
}

#[track_caller]
fn not_a_float(dtype: DType) -> ! {
    panic!("cannot draw `{dtype}` numbers; give `f32` or `f64`")
}
