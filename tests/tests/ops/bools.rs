//! Ops on the order of elements, of bools: as those on the integers 0 and 1.

use gradloom::prelude::*;
use gradloom::vmap;

/// Compares an op on bools with that on integers, at each rank from 1 to 3.
fn check(name: &str, op: impl Fn(&Tensor) -> Tensor) {
    for shape in [&[7][..], &[3, 5], &[2, 1, 4], &[2, 0, 3]] {
        let key = Key::new(shape.len() as u64);
        let x = key.bernoulli(0.5, shape);
        let (found, expected) = (op(&x), op(&x.cast(DType::I64)));
        assert_eq!(found.shape(), expected.shape(), "{name}");
        let numbers = |x: &Tensor| x.cast(DType::I64).to_vec::<i64>();
        assert_eq!(numbers(&found), numbers(&expected), "{name} of {shape:?}");
        if found.dtype() != expected.dtype() {
            assert_eq!(found.dtype(), DType::Bool, "{name}");
        }
        let lanes = vmap(&op)(&Tensor::stack(&[&x, &!&x], 0));
        let each = Tensor::stack(&[&found, &op(&!&x)], 0);
        assert_eq!(numbers(&lanes), numbers(&each), "{name} of lanes");
    }
}

macro_rules! ops {
    ($($name:ident |$x:ident| $body:block)*) => {$(
        #[test]
        fn $name() {
            #[traced(allow(zero_gradient, unused_parameter))]
            fn lowered($x: &Tensor) -> Tensor $body

            assert_eq!(lowered::RECORDED, None);
            check(stringify!($name), |$x| $body);
            check(concat!(stringify!($name), ", traced"), lowered);
        }
    )*};
}

ops! {
    argmax |x| { x.argmax(-1) }
    argmin |x| { x.argmin_keepdims(-1) }
    sort |x| { x.sort(0) }
    sort_descending |x| { x.sort_descending(-1) }
    argsort |x| { x.argsort(-1) }
    max |x| { x.max(-1) }
    min |x| { x.min_keepdims(-1) }
    maximum |x| { x.maximum(x.flip(-1)) }
    minimum |x| { x.minimum(x.flip(-1)) }
    top_k |x| { x.top_k(2, -1) }
    top_k_indices |x| { x.top_k_indices(2, -1) }
    cummax |x| { x.cummax(-1) }
    cummin |x| { x.cummin(0) }
    stop_gradient |x| { x.stop_gradient() }
    identity |x| { x.identity() }
}

#[test]
fn a_bool_is_a_branch_of_select() {
    #[traced(allow(zero_gradient))]
    fn lowered(c: &Tensor, b: &Tensor) -> Tensor {
        c.select(b, true) ^ c.select(false, b)
    }
    let (c, b) = (Tensor::from([true, false]), Tensor::from([false, false]));
    assert_eq!(c.select(&b, true).to_vec::<bool>(), [false, true]);
    assert_eq!(c.select(true, &b).to_vec::<bool>(), [true, false]);
    assert_eq!(c.select(false, true).to_vec::<bool>(), [false, true]);
    assert_eq!(c.maximum(true).to_vec::<bool>(), [true, true]);
    assert_eq!(lowered(&c, &b).to_vec::<bool>(), [false, true]);
}

#[test]
fn a_bool_beside_another_dtype_is_zero_or_one() {
    let x = Tensor::from([1.0f32, 3.0]);
    assert_eq!((&x + true).to_vec::<f32>(), [2.0, 4.0]);
    assert_eq!((x.gt(2.0) * &x).to_vec::<f32>(), [0.0, 3.0]);
    assert_eq!((x.gt(2.0) * Tensor::from([7i32])).to_vec::<i32>(), [0, 7]);
}
