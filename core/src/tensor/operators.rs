//! The operators `+ - * /`, unary `-`, and their assigning forms, between tensors and numbers.

use super::{Tensor, one};
use gradloom_ir::{Op, Static};
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

#[track_caller]
fn binary(op: Op, x: &Tensor, y: &Tensor) -> Tensor {
    one(op, vec![], &[x, y], &[])
}

/// A number in the dtype of `like`.
#[track_caller]
fn number(value: f64, like: &Tensor) -> Tensor {
    one(Op::Scalar, vec![Static::Float(value)], &[], &[like.aval()])
}

macro_rules! operator {
    ($($op:ident: $trait:ident $method:ident, $assign:ident $assign_method:ident;)*) => {$(
        operator! { @ $op $trait $method [Tensor, Tensor] [Tensor, &Tensor] [&Tensor, Tensor] [&Tensor, &Tensor] }
        numbers! { $op $trait $method, $assign $assign_method: f32 f64 i32 i64 }

        impl $assign<Tensor> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: Tensor) {
                *self = binary(Op::$op, self, &other);
            }
        }
        impl $assign<&Tensor> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: &Tensor) {
                *self = binary(Op::$op, self, other);
            }
        }
    )*};
    (@ $op:ident $trait:ident $method:ident $([$left:ty, $right:ty])*) => {$(
        impl $trait<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                binary(Op::$op, self.as_ref(), other.as_ref())
            }
        }
    )*};
}

macro_rules! numbers {
    ($op:ident $trait:ident $method:ident, $assign:ident $assign_method:ident: $($number:ident)*) => {$(
        impl $trait<$number> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $number) -> Tensor {
                binary(Op::$op, &self, &number(other as f64, &self))
            }
        }
        impl $trait<$number> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $number) -> Tensor {
                binary(Op::$op, self, &number(other as f64, self))
            }
        }
        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                binary(Op::$op, &number(self as f64, &other), &other)
            }
        }
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                binary(Op::$op, &number(self as f64, other), other)
            }
        }
        impl $assign<$number> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: $number) {
                *self = binary(Op::$op, self, &number(other as f64, self));
            }
        }
    )*};
}

operator! {
    Add: Add add, AddAssign add_assign;
    Sub: Sub sub, SubAssign sub_assign;
    Mul: Mul mul, MulAssign mul_assign;
    Div: Div div, DivAssign div_assign;
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
