//! The operators `+ - * /`, unary `-`, their assigning forms, and `select`, between tensors and
//! numbers.

use super::{Tensor, one, plain};
use crate::raise::expect;
use crate::tensor::record;
use crate::{Aval, IntoStatic};
use gradloom_ir::Op;
use std::iter::{Product, Sum};
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

mod sealed {
    pub trait Sealed {}
}

/// Right operand of an operator or a binary method: a tensor, or a number.
///
/// A number takes the dtype of the tensor on the left, but a float beside integers is an `f64`. A `bool`
/// has its own dtype. Tensors of different dtypes are promoted by [`DType::promoted`](crate::DType::promoted).
///
/// Each operator has a single implementation for all of these types, so that rustc can infer the
/// type of `(x + 1.0).tanh()`.
///
/// ```
/// use gradloom::{Operand, Tensor};
///
/// fn halfway(x: &Tensor, y: impl Operand) -> Tensor {
///     (x + y) * 0.5
/// }
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(halfway(&x, 3.0).to_vec::<f32>(), [2.0, 2.5]);
/// assert_eq!(halfway(&x, &x).to_vec::<f32>(), [1.0, 2.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number, so it cannot be an operand of a tensor",
    label = "not an operand of a tensor",
    note = "operands are `Tensor`, `&Tensor`, `f32`, `f64`, `i32`, `i64`, `usize` and `bool`"
)]
pub trait Operand: sealed::Sealed {
    /// Records `op left, self`. Owned tensors are moved, without touching reference counts.
    #[doc(hidden)]
    fn apply(self, op: Op, left: Tensor) -> Tensor;
    /// Returns the tensor, or the number with the dtype that it has beside `like`.
    #[doc(hidden)]
    fn beside(self, like: &Tensor) -> Tensor;
    /// Returns the tensor or the number in the dtype of `like`.
    #[doc(hidden)]
    fn in_dtype_of(self, like: &Tensor) -> Tensor;
}

/// First branch of [`Tensor::select`], where `Y` is the type of the second.
///
/// The branches are tensors, numbers or bools. A number takes the dtype of a tensor beside it, but a
/// float beside integers is an `f64`. Two numbers have one type, which is the dtype of the result:
/// `f32`, `f64`, `i32`, `i64` or `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Y}` cannot be the branches of `select`",
    label = "the branches are tensors, or numbers of one type",
    note = "a number beside a tensor is an `f64` or an `i64`"
)]
pub trait Branch<Y>: sealed::Sealed {
    #[doc(hidden)]
    fn choose(self, condition: &Tensor, other: Y) -> Tensor;
}

impl Tensor {
    /// The element of `x` where `self` is true, that of `y` elsewhere.
    ///
    /// `self` has dtype `bool`. All three broadcast to the shape of the result. The dtypes of `x` and
    /// `y` are promoted as those of operators are. Two numbers have one type, which is the dtype of the
    /// result, so `mask.select(1.0, 0.0)` has dtype `f64`.
    ///
    /// Derivatives are those of the element that is taken. They are NaN if the derivative of the
    /// other one is infinite or NaN: [`Tensor::safe_select`] avoids that.
    ///
    /// ```
    /// use gradloom::Tensor;
    ///
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// assert_eq!(x.gt(0.0).select(&x, 0.0).to_vec::<f32>(), [1.0, 0.0]);
    /// assert_eq!(x.gt(0.0).select(1.0f32, 0.0).to_vec::<f32>(), [1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `self` is not `bool`, the shapes do not broadcast, the dtypes of `x` and `y` cannot be
    /// promoted, or the number does not fit the dtype.
    #[track_caller]
    pub fn select<Y>(&self, x: impl Branch<Y>, y: Y) -> Tensor {
        x.choose(self, y)
    }
}

#[track_caller]
#[inline]
fn binary(op: Op, x: Tensor, y: Tensor) -> Tensor {
    expect(record::record_binary(op, x, y))
}

/// Returns a number in the dtype of `like`, or a float as `f64` if `like` has integers.
///
/// Integers are not converted through `f64`, which cannot represent every `i64`.
#[track_caller]
pub(crate) fn number(value: impl IntoStatic, like: &Tensor) -> Tensor {
    one(Op::Scalar, [value.into_static()], &[], &[like.aval()])
}

impl sealed::Sealed for Tensor {}
impl Operand for Tensor {
    #[track_caller]
    fn apply(self, op: Op, left: Tensor) -> Tensor {
        binary(op, left, self)
    }
    #[track_caller]
    fn beside(self, _: &Tensor) -> Tensor {
        self
    }
    #[track_caller]
    fn in_dtype_of(self, like: &Tensor) -> Tensor {
        self.cast(like.dtype())
    }
}

impl sealed::Sealed for &Tensor {}
impl Operand for &Tensor {
    #[track_caller]
    fn apply(self, op: Op, left: Tensor) -> Tensor {
        binary(op, left, self.clone())
    }
    #[track_caller]
    fn beside(self, _: &Tensor) -> Tensor {
        self.clone()
    }
    #[track_caller]
    fn in_dtype_of(self, like: &Tensor) -> Tensor {
        self.cast(like.dtype())
    }
}

/// Lets closures of iterators over borrowed tensors use their arguments directly.
impl sealed::Sealed for &&Tensor {}
impl Operand for &&Tensor {
    #[track_caller]
    fn apply(self, op: Op, left: Tensor) -> Tensor {
        binary(op, left, Tensor::clone(self))
    }
    #[track_caller]
    fn beside(self, _: &Tensor) -> Tensor {
        (*self).clone()
    }
    #[track_caller]
    fn in_dtype_of(self, like: &Tensor) -> Tensor {
        self.cast(like.dtype())
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Operand for $ty {
            #[track_caller]
            fn apply(self, op: Op, left: Tensor) -> Tensor {
                let right = number(self, &left);
                binary(op, left, right)
            }
            #[track_caller]
            fn beside(self, like: &Tensor) -> Tensor {
                number(self, like)
            }
            #[track_caller]
            fn in_dtype_of(self, like: &Tensor) -> Tensor {
                let rank_0 = Aval::new(like.dtype(), []);
                one(Op::FullLike, [self.into_static()], &[], &[&rank_0])
            }
        }
    )*};
}

numbers! { f32 f64 i32 i64 usize }

impl sealed::Sealed for bool {}
impl Operand for bool {
    #[track_caller]
    fn apply(self, op: Op, left: Tensor) -> Tensor {
        binary(op, left, Tensor::scalar(self))
    }
    #[track_caller]
    fn beside(self, _: &Tensor) -> Tensor {
        Tensor::scalar(self)
    }
    #[track_caller]
    fn in_dtype_of(self, like: &Tensor) -> Tensor {
        Tensor::scalar(self).cast(like.dtype())
    }
}

macro_rules! branches {
    (@tensors $($ty:ty),*) => {$(
        impl<Y: Operand> Branch<Y> for $ty {
            #[track_caller]
            fn choose(self, condition: &Tensor, other: Y) -> Tensor {
                plain(Op::Select, &[condition, &self, &other.beside(&self)])
            }
        }
    )*};
    // With an implementation for `f32` or `i32` as well, rustc could not infer the type of a
    // literal.
    (@numbers $($ty:ty),*) => {$(
        impl Branch<Tensor> for $ty {
            #[track_caller]
            fn choose(self, condition: &Tensor, other: Tensor) -> Tensor {
                plain(Op::Select, &[condition, &self.beside(&other), &other])
            }
        }
        impl Branch<&Tensor> for $ty {
            #[track_caller]
            fn choose(self, condition: &Tensor, other: &Tensor) -> Tensor {
                plain(Op::Select, &[condition, &self.beside(other), other])
            }
        }
    )*};
}

branches! { @tensors Tensor, &Tensor, &&Tensor }
branches! { @numbers f64, i64, bool }

macro_rules! two_numbers {
    ($($ty:ty),*) => {$(
        impl Branch<$ty> for $ty {
            #[track_caller]
            fn choose(self, condition: &Tensor, other: $ty) -> Tensor {
                let (x, y) = (Tensor::scalar(self), Tensor::scalar(other));
                plain(Op::Select, &[condition, &x, &y])
            }
        }
    )*};
}

two_numbers! { f32, f64, i32, i64, bool }

macro_rules! operators {
    ($($op:ident: $trait:ident $method:ident, $assign:ident $assign_method:ident;)*) => {$(
        operators! { @numbers $op $trait $method: f64, i64 }
        operators! { @bits $op $trait $method, $assign $assign_method }
    )*};
    (bits $($op:ident: $trait:ident $method:ident, $assign:ident $assign_method:ident;)*) => {$(
        operators! { @bits $op $trait $method, $assign $assign_method }
    )*};
    (@bits $op:ident $trait:ident $method:ident, $assign:ident $assign_method:ident) => {
        operators! { @tensors $op $trait $method: Tensor = |x| x, &Tensor = |x| x.clone() }

        impl<R: Operand> $assign<R> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, right: R) {
                *self = right.apply(Op::$op, self.clone());
            }
        }
    };
    (@tensors $op:ident $trait:ident $method:ident: $($left:ty = |$x:ident| $own:expr),*) => {$(
        impl<R: Operand> $trait<R> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                let $x = self;
                right.apply(Op::$op, $own)
            }
        }
    )*};
    // With an implementation for `f32` or `i32` as well, rustc could not infer the type of
    // `(1.0 - &x).log()`.
    (@numbers $op:ident $trait:ident $method:ident: $($left:ty),*) => {$(
        impl $trait<Tensor> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: Tensor) -> Tensor {
                let left = number(self, &right);
                binary(Op::$op, left, right)
            }
        }
        impl $trait<&Tensor> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: &Tensor) -> Tensor {
                binary(Op::$op, number(self, right), right.clone())
            }
        }
    )*};
}

operators! {
    Add: Add add, AddAssign add_assign;
    Sub: Sub sub, SubAssign sub_assign;
    Mul: Mul mul, MulAssign mul_assign;
    Div: Div div, DivAssign div_assign;
}

operators! { bits
    BitAnd: BitAnd bitand, BitAndAssign bitand_assign;
    BitOr: BitOr bitor, BitOrAssign bitor_assign;
    BitXor: BitXor bitxor, BitXorAssign bitxor_assign;
    ShiftLeft: Shl shl, ShlAssign shl_assign;
    ShiftRight: Shr shr, ShrAssign shr_assign;
}

impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bit_not()
    }
}

impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bit_not()
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

macro_rules! reductions {
    ($($op:ident: $trait:ident $method:ident, $none:literal;)*) => {$(
        reductions! { @items $op $trait $method $none: Tensor = |x| x, &'a Tensor = |x| x.clone() }
    )*};
    (@items $op:ident $trait:ident $method:ident $none:literal: $($item:ty = |$x:ident| $own:expr),*) => {$(
        #[allow(clippy::extra_unused_lifetimes, reason = "one of the items is borrowed")]
        impl<'a> $trait<$item> for Tensor {
            /// Combines the tensors from left to right.
            ///
            /// # Panics
            ///
            /// If there are none, because their shape and dtype are not known, or if the shapes do
            /// not broadcast or the dtypes differ.
            #[track_caller]
            fn $method<I: Iterator<Item = $item>>(items: I) -> Tensor {
                let owned = items.map(|$x| $own);
                owned.reduce(|x, y| binary(Op::$op, x, y)).expect($none)
            }
        }
    )*};
}

reductions! {
    Add: Sum sum, "the sum of no tensors has no shape; write `.fold(first, |sum, x| sum + x)`";
    Mul: Product product, "the product of no tensors has no shape; write `.fold(first, |product, x| product * x)`";
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    #[test]
    fn an_expression_with_numbers_compiles_and_has_the_dtype_of_the_tensor() {
        let x = Tensor::from([1.0f32, 4.0]);
        assert_eq!((&x - 1.0).sqrt().to_vec::<f32>(), [0.0, 3.0f32.sqrt()]);
        assert_eq!((2.0 / &x).square().to_vec::<f32>(), [4.0, 0.25]);
        let n = Tensor::from([1i32, 4]);
        assert_eq!((3 - &n * 2).abs().to_vec::<i32>(), [1, 5]);
    }

    #[test]
    fn operators_of_bits_take_bools_and_integers() {
        let (a, b) = (Tensor::from([true, false]), Tensor::from([true, true]));
        assert_eq!((&a & &b).to_vec::<bool>(), [true, false]);
        assert_eq!((&a | &b).to_vec::<bool>(), [true, true]);
        assert_eq!((&a ^ &b).to_vec::<bool>(), [false, true]);
        assert_eq!((!&a).to_vec::<bool>(), [false, true]);
        let n = Tensor::from([6i32, -7]);
        assert_eq!((&n & 3).to_vec::<i32>(), [2, 1]);
        assert_eq!((!&n).to_vec::<i32>(), [-7, 6]);
        assert_eq!((&n << 2).to_vec::<i32>(), [24, -28]);
        assert_eq!((&n >> 1).to_vec::<i32>(), [3, -4]);
        assert_eq!((&n << 32).to_vec::<i32>(), [0, 0]);
        assert_eq!((&n >> 99).to_vec::<i32>(), [0, -1]);
        let mut m = n.cast(crate::DType::I64);
        m ^= -1;
        assert_eq!(m.to_vec::<i64>(), [-7, 6]);
    }

    #[test]
    fn an_integer_operand_keeps_all_its_digits() {
        let big = (1i64 << 53) + 1;
        let n = Tensor::from([0i64, 1]);
        assert_eq!((&n + big).to_vec::<i64>(), [big, big + 1]);
        assert_eq!((big - &n).to_vec::<i64>(), [big, big - 1]);
        assert_eq!(n.maximum(i64::MAX).to_vec::<i64>(), [i64::MAX; 2]);
    }

    #[test]
    fn a_number_as_a_branch_of_select_takes_the_dtype_of_the_other_branch() {
        let x = Tensor::from([1.0f32, -4.0]);
        let positive = x.gt(0.0);
        assert_eq!(positive.select(&x, 0.5).to_vec::<f32>(), [1.0, 0.5]);
        assert_eq!(positive.select(2, &x).to_vec::<f32>(), [2.0, -4.0]);
        assert_eq!(
            positive.select(-1.0, &x * 2.0).to_vec::<f32>(),
            [-1.0, -8.0]
        );
        assert_eq!(positive.select(1.0, 0.0).to_vec::<f64>(), [1.0, 0.0]);
        assert_eq!(positive.select(1.0f32, 0.5).to_vec::<f32>(), [1.0, 0.5]);
        assert_eq!(positive.select(0.5, 2.0f32).to_vec::<f32>(), [0.5, 2.0]);
        assert_eq!(positive.select(3i32, 4).to_vec::<i32>(), [3, 4]);
        let n = Tensor::from([1i64, 2]);
        assert_eq!(positive.select(n, i64::MAX).to_vec::<i64>(), [1, i64::MAX]);
    }

    #[test]
    fn an_iterator_of_tensors_has_a_sum_and_a_product() {
        let xs = [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]].map(Tensor::from);
        let sum: Tensor = xs.iter().sum();
        assert_eq!(sum.to_vec::<f32>(), [9.0, 12.0]);
        let product = xs.iter().map(|x| x * 2.0).product::<Tensor>();
        assert_eq!(product.to_vec::<f32>(), [120.0, 384.0]);
        assert_eq!(xs[..1].iter().sum::<Tensor>().to_vec::<f32>(), [1.0, 2.0]);
    }

    #[test]
    #[should_panic = "the sum of no tensors has no shape; write `.fold(first, |sum, x| sum + x)`"]
    fn the_sum_of_no_tensors_is_refused() {
        let _: Tensor = std::iter::empty::<Tensor>().sum();
    }

    /// Row S1.5 of the requirements.
    #[test]
    fn an_assigning_operator_replaces_the_handle_and_leaves_other_handles() {
        let mut x = Tensor::from([1.0f64, 2.0]);
        let before = x.clone();
        x += 1.0;
        x *= &before;
        assert_eq!(x.to_vec::<f64>(), [2.0, 6.0]);
        assert_eq!(before.to_vec::<f64>(), [1.0, 2.0]);
    }
}
