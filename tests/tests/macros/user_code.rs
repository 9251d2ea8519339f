//! Forms of user code that the expansion must not disturb.

#![deny(warnings)]
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::all)]
// A lifetime is bounded both beside its parameter and in a where-clause on purpose.
#![allow(clippy::multiple_bound_locations)]

/// A module without the prelude.
pub mod bare {
    #![no_implicit_prelude]

    use ::gradloom::{Result, Tensor, traced};

    /// Uses names that the expansion uses, too.
    #[traced]
    pub fn clashes(saved: &Tensor, y: &Tensor, ct: &Tensor, pull: &Tensor) -> Tensor {
        let cotangents = saved * y;
        let likes = &cotangents + ct;
        let v3 = likes.tanh();
        let tangents = v3 * pull;
        let y = tangents.sin();
        let d_y = y.cos();
        let ct_y = &d_y * &y;
        ct_y + d_y
    }

    /// Returns a `Result` without the prelude.
    #[traced]
    pub fn result(r#type: &Tensor, n: usize) -> Result<Tensor> {
        let n = n + 1;
        let n = n * 2;
        let h = r#type.sum([n - 2, 0]);
        ::core::result::Result::Ok(h)
    }
}

/// Generic functions and methods.
#[allow(missing_docs)]
pub mod generic {
    use gradloom::prelude::*;

    #[derive(Tree)]
    pub struct Residual<M> {
        pub inner: M,
        pub gain: Tensor,
    }

    pub trait Layer: Tree {
        fn apply(&self, x: &Tensor) -> Tensor;
    }

    #[derive(Tree)]
    pub struct Scale(pub Tensor);

    impl Layer for Scale {
        fn apply(&self, x: &Tensor) -> Tensor {
            x * &self.0
        }
    }

    #[traced(allow(recorded_call))]
    impl<M: Layer> Residual<M>
    where
        M: Send,
    {
        pub fn forward(&self, x: &Tensor) -> Tensor {
            let h = { self.inner.apply(x) };
            x + h * &self.gain
        }

        pub fn gained(self, x: Tensor) -> Tensor {
            x * &self.gain
        }
    }

    #[traced(allow(recorded_call))]
    pub fn generic<'a, M, const N: usize>(m: &'a M, x: &'a Tensor) -> Tensor
    where
        M: Layer + Sync,
    {
        let mut h = x.clone();
        for _ in 0..N {
            h = m.apply(&h);
        }
        h
    }

    #[traced]
    pub fn power<const N: usize>(x: &Tensor) -> Tensor {
        x * (N as f32)
    }

    #[test]
    fn companions_have_the_generics_of_their_function() {
        let x = Tensor::from([1.0f32, 2.0]);
        let m = Residual {
            inner: Scale(Tensor::from([2.0f32, 3.0])),
            gain: Tensor::from([0.5f32, 0.5]),
        };
        let (y, pullback) = generic::vjp::<Scale, 2>(&m.inner, &x);
        assert_eq!(y.to_vec::<f32>(), [4.0, 18.0]);
        let (ct_m, ct_x) = pullback(&x);
        assert_eq!(ct_m.0.to_vec::<f32>(), [4.0, 24.0]);
        assert_eq!(ct_x.to_vec::<f32>(), [4.0, 18.0]);
        assert_eq!(power::grad::<3>(&x.sum(..)).x.item::<f32>(), 3.0);
        let (y, pullback) = m.gained_vjp(x.clone());
        assert_eq!(y.to_vec::<f32>(), [0.5, 1.0]);
        let (ct_m, _) = pullback(&x);
        assert_eq!(ct_m.gain.to_vec::<f32>(), [1.0, 4.0]);
        assert_eq!(ct_m.inner.0.to_vec::<f32>(), [0.0, 0.0]);
    }
}

#[test]
fn a_function_in_a_function_has_companions() {
    use gradloom::prelude::*;
    const SHIFT: f64 = 2.0;
    #[traced]
    fn inner(x: &Tensor) -> Tensor {
        const FACTOR: f64 = 3.0;
        (x + SHIFT) * FACTOR
    }
    let x = Tensor::scalar(1.0f32);
    let (y, grads) = inner::value_and_grad(&x);
    assert_eq!((y.item::<f32>(), grads.x.item::<f32>()), (9.0, 3.0));
}

/// Functions whose names hide others.
mod hiding {
    use gradloom::prelude::*;

    pub(super) mod layers {
        use gradloom::prelude::*;

        #[traced]
        pub(crate) fn dense(x: &Tensor) -> Tensor {
            x * 2.0
        }

        pub(crate) fn relu(x: &Tensor) -> Tensor {
            x * 11.0
        }

        #[traced]
        pub(crate) fn shift(x: &Tensor) -> Tensor {
            x + 1.0
        }
    }

    /// Has the name of a dependency.
    #[traced]
    pub(super) fn insta(x: &Tensor) -> Tensor {
        x * 3.0
    }

    #[traced]
    pub(super) fn calls_insta(x: &Tensor) -> Tensor {
        insta(x) * insta(x)
    }
}

#[test]
fn a_callee_may_have_the_name_of_a_dependency() {
    use gradloom::prelude::*;
    use hiding::*;
    #[traced]
    fn by_glob(x: &Tensor) -> Tensor {
        insta(x) * 2.0
    }
    let x = Tensor::scalar(1.0f32);
    assert_eq!(hiding::calls_insta::grad(&x).x.item::<f32>(), 18.0);
    assert_eq!(by_glob::grad(&x).x.item::<f32>(), 6.0);
}

#[test]
fn a_callee_may_hide_another_item() {
    use gradloom::prelude::*;
    use hiding::layers::*;
    // These hide functions of the glob import, of which one is traced and one is not.
    #[traced]
    fn dense(x: &Tensor) -> Tensor {
        x * 5.0
    }
    #[traced]
    fn relu(x: &Tensor) -> Tensor {
        x * 7.0
    }
    #[traced]
    fn net(x: &Tensor) -> Tensor {
        dense(x) * relu(x) + hiding::layers::dense(&shift(x))
    }
    let x = Tensor::scalar(1.0f32);
    assert_eq!(net::grad(&x).x.item::<f32>(), 72.0);
    assert_eq!(layers_of_a_block(), 75.0);
}

fn layers_of_a_block() -> f32 {
    use gradloom::prelude::*;
    #[traced]
    fn insta(x: &Tensor) -> Tensor {
        x * 15.0
    }
    let x = Tensor::scalar(1.0f32);
    {
        // It hides both the dependency and the function of the outer block.
        #[traced]
        fn insta(x: &Tensor) -> Tensor {
            x * 25.0
        }
        #[traced]
        fn f(x: &Tensor) -> Tensor {
            insta(x) * 3.0
        }
        assert_eq!(hiding::layers::relu(&x).item::<f32>(), 11.0);
        f::grad(&x).x.item::<f32>() + insta(&x).item::<f32>() * 0.0
    }
}

#[test]
fn names_of_the_expansion_may_be_used_in_user_code() {
    use gradloom::prelude::*;
    let x = Tensor::from([0.5f32, -0.25]);
    let (y, pullback) = bare::clashes::vjp(&x, &x, &x, &x);
    let f = |(a, b, c, d): &(Tensor, Tensor, Tensor, Tensor)| bare::clashes(a, b, c, d);
    let args = (x.clone(), x.clone(), x.clone(), x.clone());
    let (z, reference) = vjp(f, &args);
    assert_eq!(y.to_vec::<f32>(), z.to_vec::<f32>());
    let (a, b) = (pullback(&x), reference.call(&x));
    assert_eq!(a.0.to_vec::<f32>(), b.0.to_vec::<f32>());
    assert_eq!(a.3.to_vec::<f32>(), b.3.to_vec::<f32>());
    let square = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    assert!(bare::result::grad(&square, 1).is_err());
    assert_eq!(
        bare::result(&square.reshape([1, 2, 2]), 1).unwrap().shape(),
        [2]
    );
}

#[test]
fn a_wrong_shape_panics_at_the_line_of_the_op() {
    use gradloom::prelude::*;
    use std::sync::Mutex;

    #[traced]
    fn sums(x: &Tensor, w: &Tensor) -> Tensor {
        let h = x.sin();
        h.matmul(w)
    }
    let line = line!() - 2;
    static SEEN: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        let at = info.location().expect("a panic has a location");
        SEEN.lock().unwrap().push((at.file().to_owned(), at.line()));
    }));
    let (x, w) = (Tensor::from([[1.0f32, 2.0]]), Tensor::from([[1.0f32, 2.0]]));
    let direct = std::panic::catch_unwind(|| sums(&x, &w)).is_err();
    let reverse = std::panic::catch_unwind(|| sums::vjp(&x, &w).0).is_err();
    let forward = std::panic::catch_unwind(|| sums::jvp((&x, &w), (&x, &w)).0).is_err();
    std::panic::set_hook(hook);
    assert!(direct && reverse && forward);
    let seen = SEEN.lock().unwrap();
    let here = (file!().to_owned(), line);
    assert_eq!(*seen, [here.clone(), here.clone(), here]);
}
