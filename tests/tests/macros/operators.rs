//! Operators of types of the user's, in bodies that are compiled.
//!
//! Each body is a traced function and a plain one, as in `held.rs`.
#![allow(clippy::suspicious_arithmetic_impl, clippy::suspicious_op_assign_impl)] // operators of any kind

use gradloom::prelude::*;
use gradloom::tree::assert_close;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Rem, Sub};

#[derive(Clone, Tree)]
struct V {
    x: Tensor,
    y: Tensor,
}

#[derive(Clone, Tree)]
struct Pair {
    a: V,
    b: V,
}

// No leaf of the result is that of the same field, so that an operator of tensors, leaf by leaf,
// would be another function.
impl Sub for &V {
    type Output = V;
    fn sub(self, other: &V) -> V {
        V {
            x: &self.x - &other.y,
            y: &self.y * &other.x,
        }
    }
}

#[traced]
impl Add for V {
    type Output = V;
    fn add(self, other: V) -> Self::Output {
        V {
            x: &self.x + &other.y,
            y: &self.y * &other.x,
        }
    }
}

#[traced]
impl Add<&V> for V {
    type Output = V;
    fn add(self, other: &V) -> V {
        self + other.clone()
    }
}

#[traced]
impl Mul<f64> for &V {
    type Output = V;
    fn mul(self, by: f64) -> V {
        V {
            x: &self.y * by,
            y: &self.x * &self.x,
        }
    }
}

impl Mul<&V> for f64 {
    type Output = V;
    fn mul(self, v: &V) -> V {
        v * self
    }
}

impl Mul<&Tensor> for &V {
    type Output = V;
    fn mul(self, by: &Tensor) -> V {
        V {
            x: &self.y * by,
            y: &self.x + by,
        }
    }
}

/// The product of two of them is a tensor.
impl Rem for &V {
    type Output = Tensor;
    fn rem(self, other: &V) -> Tensor {
        (&self.x * &other.y).sum(..)
    }
}

impl Neg for V {
    type Output = V;
    fn neg(self) -> V {
        V {
            x: self.y,
            y: -self.x,
        }
    }
}

impl MulAssign<f64> for V {
    fn mul_assign(&mut self, by: f64) {
        self.x = &self.y * by;
    }
}

impl AddAssign<&V> for V {
    fn add_assign(&mut self, other: &V) {
        self.x = &self.x * &other.y;
    }
}

#[traced]
fn step(v: &V, x: &Tensor) -> V {
    V {
        x: (&v.x * x).sin(),
        y: v.y.clone(),
    }
}

#[traced(allow(recorded_call))]
impl V {
    fn turned(&self, x: &Tensor) -> V {
        V {
            x: &self.y * x,
            y: self.x.clone(),
        }
    }

    fn twice(&self, x: &Tensor) -> Tensor {
        let d = self - &self.turned(x);
        (self - &d).x * &d.y
    }
}

#[test]
fn operators_on_the_receiver_have_derivatives() {
    let (a, _) = arguments();
    let x = Tensor::from([0.5f64, -0.4, 0.7]);
    let plain = |(a, x): &(V, Tensor)| {
        let d = a - &a.turned(x);
        (a - &d).x * &d.y
    };
    let (y, pull) = gradloom::vjp(plain, &(a.clone(), x.clone()));
    let (value, pulled) = a.twice_vjp(&x);
    assert_close(&value, &y, 1e-12);
    let (ct, expected) = (pulled(&y.ones_like()), pull.call(&y.ones_like()));
    assert_close(&ct, &expected, 1e-12);
}

fn arguments() -> (V, V) {
    let v = |x: [f64; 3], y: [f64; 3]| V {
        x: x.into(),
        y: y.into(),
    };
    let a = v([0.3, -0.2, 0.5], [0.7, 0.1, -0.4]);
    (a, v([0.2, 0.4, 0.6], [-0.1, 0.9, 0.3]))
}

/// Makes a test of each body, whose parameters are trees and a tensor.
///
/// The body is compiled, except if the line starts with `recorded`.
macro_rules! operators {
    ($($name:ident ($($recorded:literal)?) |$a:ident, $b:ident, $x:ident| -> $ret:ty $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($a: &V, $b: &V, $x: &Tensor) -> $ret $body
            fn plain($a: &V, $b: &V, $x: &Tensor) -> $ret $body
            let (a, b) = arguments();
            let x = Tensor::from([0.5f64, -0.4, 0.7]);
            let all = (a.clone(), b.clone(), x.clone());
            let plain = |(a, b, x): &(V, V, Tensor)| plain(a, b, x);
            let (y, pull) = gradloom::vjp(plain, &all);
            let ct = y.map(&mut |leaf| leaf.ones_like() * 0.5);
            let (grads, (_, dy)) = (pull.call(&ct), gradloom::jvp(plain, &all, &all));
            for _ in 0..2 {
                assert_close(&f(&a, &b, &x), &y, 1e-12);
                let (value, pull) = f::vjp(&a, &b, &x);
                assert_close(&value, &y, 1e-12);
                assert_close(&pull(&ct), &grads, 1e-12);
                let (value, tangent) = f::jvp((&a, &b, &x), (&a, &b, &x));
                assert_close(&value, &y, 1e-12);
                assert_close(&tangent, &dy, 1e-12);
            }
            let recorded = f::PROGRAM.starts_with("// recorded");
            let expected = None$(.or(Some($recorded)))?;
            assert_eq!(f::PROGRAM.lines().next().filter(|line| !line.starts_with('(')), expected, "{}", f::PROGRAM);
        }
    )*};
}

operators! {
    field_of_a_difference () |a, b, x| -> Tensor { (a - b).x }
    field_of_a_local () |a, b, x| -> Tensor { let d = a - b; &d.x * 2.0 }
    fields () |a, b, x| -> Tensor { let d = a - b; d.x * d.y + x }
    nested () |a, b, x| -> Tensor { (&(a - b) - &(b - a)).y * x }
    by_value () |a, b, x| -> Tensor { let c = a.clone() + b.clone(); c.x * c.y }
    by_value_and_reference () |a, b, x| -> Tensor { let c = a.clone() + b; c.x * c.y }
    numbers () |a, b, x| -> Tensor { let d = &(a * 2.0) * 0.5; let e = 2.0 * &d; e.x + e.y }
    a_number_that_is_computed () |a, b, x| -> Tensor { let n = x.dim(0) as f64; let d = a * (n - 1.0); (&d * (n + 1.0)).x + d.y }
    a_tensor () |a, b, x| -> Tensor { let d = a * x; (&d * &(x * 2.0)).y * d.x }
    negative () |a, b, x| -> Tensor { let d = -(a - b); let e = -d; e.x * e.y.exp() }
    a_tensor_as_result () |a, b, x| -> Tensor { let p = a % b; p * 2.0 }
    a_tensor_and_a_method () |a, b, x| -> Tensor { (a % b).sin() + (a % &(b - a)) * x }
    a_tree_as_result () |a, b, x| -> V { a - b }
    a_tree_as_last_local () |a, b, x| -> V { let c = a - b; let d = &c * 0.5; -d }
    of_a_call () |a, b, x| -> Tensor { let s = &step(a, x) * 0.5; s.x * s.y }
    of_a_local_of_a_call () |a, b, x| -> Tensor { let s = step(a, x); let t = -s; t.x }
    of_a_call_as_result () |a, b, x| -> V { -step(a, x) }
    of_a_method () |a, b, x| -> Tensor { let s = -a.turned(x); s.x * s.y }
    to_a_call () |a, b, x| -> V { step(&(a - b), &(x * 2.0)) }
    to_a_method () |a, b, x| -> V { (a - b).turned(x) }
    in_a_loop () |a, b, x| -> V { let mut s = a.clone(); for _ in 0..3 { s = s + a * 0.5; } s }
    in_a_loop_of_calls () |a, b, x| -> V { let mut s = step(a, x); for _ in 0..3 { s = step(&s, x) + a.clone(); s = &s * 0.5; } s }
    a_sum_in_a_loop () |a, b, x| -> Tensor { let mut s = a - b; for i in 0..3 { s = &s - &(a * i as f64); } s.x }
    in_a_branch () |a, b, x| -> Tensor { let d = if x.dim(0) > 2 { a - b } else { b - a }; d.x * d.y }
    assigned () |a, b, x| -> Tensor { let mut d = a * 2.0; d += b; let e = -d; &e.x * 2.0 + e.y }
    assigned_by_a_local_called_value () |a, b, x| -> Tensor { let mut d = a * 2.0; let value = x.dim(0) as f64; d *= value; d.x * d.y }
    assigned_in_a_loop () |a, b, x| -> V { let mut s = a.clone(); for _ in 0..3 { s += b; s += &(a - b); } s }
    in_a_list () |a, b, x| -> Tensor { let mut l = Vec::new(); for _ in 0..2 { l.push(a - b); } &l[0].x * &l[1].y }
    in_a_struct () |a, b, x| -> Tensor { let p = Pair { a: a - b, b: b.clone() }; sum_of(&p) }
    in_a_closure () |a, b, x| -> Tensor { let f = |v: &V| v - b; f(a).x * f(b).y }
    of_parts () |a, b, x| -> Tensor { let p = Pair { a: a.clone(), b: b.clone() }; difference(&p) * (&p.b - &p.a).y }
    beside_tensors () |a, b, x| -> Tensor { let h = &a.x * x + &b.y; let d = a - b; let t = &d.x * &h; t.tanh() - x }
}

#[traced(allow(recorded_call))]
fn difference(p: &Pair) -> Tensor {
    let d = &p.a - &p.b;
    let e: V = &p.b * 2.0;
    let f: V = -p.a.clone();
    d.x * (&p.b - &p.a).y + step(&e, &p.a.x).y + step(&f, &p.a.x).x
}

#[traced]
fn sum_of(p: &Pair) -> Tensor {
    &p.a.x * &p.b.y + &p.a.y
}
