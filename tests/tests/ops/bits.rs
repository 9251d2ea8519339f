//! Operators of bits in traced functions.

use gradloom::prelude::*;

#[traced]
fn inside(x: &Tensor, y: &Tensor) -> Tensor {
    let inside = x.gt(-1.0) & !x.gt(1.0);
    let either = inside | x.lt(y) ^ x.is_nan();
    either.select(x.atan2(y), &(x * 0.5))
}

fn recorded(x: &Tensor, y: &Tensor) -> Tensor {
    let inside = x.gt(-1.0) & !x.gt(1.0);
    let either = inside | x.lt(y) ^ x.is_nan();
    either.select(x.atan2(y), &(x * 0.5))
}

#[traced(allow(zero_gradient))]
fn shifted(n: &Tensor, by: &Tensor) -> Tensor {
    (n << by) ^ (!n >> 1) & by | n.rem(3)
}

#[test]
fn masks_are_combined_in_traced_functions_as_outside() {
    let x = Tensor::from([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, f64::NAN]);
    let y = Tensor::from([0.5, -2.0, 1.0, 2.0, 3.0, -1.0, 4.0, 1.0]);
    // The bits of a NaN are not specified.
    let of = |x: &f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
    let bits = |x: &Tensor| -> Vec<u64> { x.to_vec::<f64>().iter().map(of).collect() };
    assert_eq!(bits(&inside(&x, &y)), bits(&recorded(&x, &y)));
    let (_, pullback) = inside::vjp(&x, &y);
    let (dx, dy) = pullback(&x.ones_like());
    let f = |(x, y): &(Tensor, Tensor)| recorded(x, y);
    let (_, pullback) = gradloom::vjp(f, &(x.clone(), y));
    let (rx, ry) = pullback.call(&x.ones_like());
    assert_eq!((bits(&dx), bits(&dy)), (bits(&rx), bits(&ry)));
}

#[test]
fn integers_are_shifted_and_combined() {
    let (n, by) = (Tensor::from([5i64, -7, 12]), Tensor::from([1i64, 2, 70]));
    let by_hand = |n: i64, by: i64| {
        let left = if by < 64 { n << by } else { 0 };
        (left ^ ((!n >> 1) & by)) | (n % 3)
    };
    let expected = [by_hand(5, 1), by_hand(-7, 2), by_hand(12, 70)];
    assert_eq!(shifted(&n, &by).to_vec::<i64>(), expected);
}

#[test]
fn bits_of_floats_are_an_error_that_names_the_dtype() {
    let x = Tensor::from([1.0f32]);
    let (text, ..) = gradloom_tests::panics::panic_of(|| {
        let _ = &x & &x;
    });
    let named = ["bit_and", "f32", "integer or bool"];
    assert!(named.iter().all(|name| text.contains(name)), "{text}");
}

#[derive(Clone, Tree)]
struct Masked {
    #[nodiff]
    mask: Tensor,
    #[nodiff]
    other: Tensor,
    w: Tensor,
}

impl Masked {
    fn recorded(&self, x: &Tensor) -> Tensor {
        let mut mask = &self.mask & x.gt(0.0);
        mask |= !&self.mask;
        mask ^= &self.mask & &self.other;
        mask.select(x * &self.w, 0.0)
    }
}

#[traced]
impl Masked {
    fn traced(&self, x: &Tensor) -> Tensor {
        let mut mask = &self.mask & x.gt(0.0);
        mask |= !&self.mask;
        mask ^= &self.mask & &self.other;
        mask.select(x * &self.w, 0.0)
    }
}

#[test]
fn masks_in_a_tree_are_combined_and_assigned() {
    let model = Masked {
        mask: Tensor::from([true, true, false, true]),
        other: Tensor::from([false, false, true, true]),
        w: Tensor::from([2.0f32, 3.0, 4.0, 5.0]),
    };
    let x = Tensor::from([1.0f32, -1.0, -2.0, -3.0]);
    let expected = [2.0, 0.0, -8.0, -15.0];
    assert_eq!(model.recorded(&x).to_vec::<f32>(), expected);
    assert_eq!(model.traced(&x).to_vec::<f32>(), expected);
    let (_, pullback) = model.traced_vjp(&x);
    let (dmodel, dx) = pullback(&x.ones_like());
    assert_eq!(dx.to_vec::<f32>(), [2.0, 0.0, 4.0, 5.0]);
    assert_eq!(dmodel.w.to_vec::<f32>(), [1.0, 0.0, -2.0, -3.0]);
}
