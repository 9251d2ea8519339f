//! Derivatives of closures are kept with the recorded program. Whatever the closure captures or does may change from
//! call to call: the derivative is always that of the call.

use gradloom::prelude::*;
use gradloom::{
    CustomFunction, DType, Result, cond, custom_call, custom_vjp, hessian, jacfwd, jacrev,
    linearize, scan, vjp,
};
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::noise;
use std::sync::Arc;

/// All transforms of a function with one float as result, as numbers.
fn transforms(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Vec<f64> {
    let ones = x.ones_like();
    let lanes = Tensor::stack(&[x, &(x + 1.0)], 0);
    let (y, pullback) = vjp(&f, x);
    let found = [
        pullback.call(&y.ones_like()),
        grad(&f)(x),
        jvp(&f, x, &ones).1,
        linearize(&f, x).1.call(&ones),
        jacfwd(&f)(x),
        jacrev(&f)(x),
        hvp(&f, x, &ones),
        hessian(&f)(x),
        vmap(&f)(&lanes),
        vmap(grad(&f))(&lanes),
        grad(|x: &Tensor| grad(&f)(x).square().sum(..))(x),
        grad(|x: &Tensor| vmap(&f)(&Tensor::stack(&[x, x], 0)).sum(..))(x),
    ];
    let found = found.map(|x| x.cast(DType::F64));
    found.iter().flat_map(entries).collect()
}

/// Checks that `f` has, for each of its versions, the derivatives of the first call, in any order of calls.
///
/// `written` has another structure than `f`, so that its programs are others.
fn check<V: Copy>(
    x: &Tensor,
    versions: &[V],
    f: impl Fn(V, &Tensor) -> Tensor,
    written: impl Fn(V, &Tensor) -> Tensor,
) {
    for _ in 0..2 {
        for (i, v) in versions.iter().enumerate() {
            let found = transforms(x, |x| f(*v, x));
            let expected = transforms(x, |x| written(*v, x));
            near(&format!("version {i}"), &found, &expected, 1e-6).unwrap();
        }
    }
}

#[test]
fn captured_numbers_and_tensors_are_those_of_the_call() {
    let x = noise(&[3], 1);
    check(
        &x,
        &[1.0, 2.0, -0.5],
        |k, x| (x.sin() * k).sum(..),
        |k, x| x.sin().sum(..) * k,
    );
    let tensors = [noise(&[3], 2), noise(&[3], 3)];
    check(
        &x,
        &[0, 1],
        |i, x| (x.sin() * &tensors[i]).sum(..),
        |i, x| x.sin().matmul(&tensors[i]),
    );
    // A captured tensor may broadcast the result of an op.
    let shapes = [noise(&[3], 2), noise(&[2, 3], 3), noise(&[], 4)];
    check(
        &x,
        &[0, 1, 2],
        |i, x| (x.sin() * &shapes[i]).sum(..),
        |i, x| (&shapes[i] * x.sin()).sum(-1).sum(..),
    );
}

#[test]
fn static_arguments_are_those_of_the_call() {
    let x = noise(&[4], 1);
    let limits = [0.1, 0.2, 5.0];
    check(
        &x,
        &limits,
        |k, x| x.clamp(-k, k).square().sum(..),
        |k, x| x.minimum(k).maximum(-k).square().sum(..),
    );
    let w = noise(&[4], 2);
    check(
        &x,
        &[1, 2, 3],
        |k, x| (x.roll(k, 0).sin() * &w).sum(..),
        |k, x| (x.sin() * w.roll(-k, 0)).sum(..),
    );
}

#[traced]
fn powers(x: &Tensor, #[fixed] n: usize) -> Tensor {
    let mut y = x.sin();
    for _ in 0..n {
        y = &y * x;
    }
    y.sum(..)
}

#[test]
fn fixed_arguments_of_traced_functions_are_those_of_the_call() {
    let x = noise(&[3], 1);
    check(
        &x,
        &[0, 1, 3],
        |n, x| powers(x, n),
        |n, x| {
            let mut y = x.clone().ones_like();
            for _ in 0..n {
                y = &y * x;
            }
            (x.sin() * y).sum(..)
        },
    );
}

#[test]
fn shapes_and_dtypes_are_those_of_the_call() {
    let f = |x: &Tensor| (x.sin() * x).sum(..);
    for _ in 0..2 {
        for n in [1, 3, 4] {
            let x = noise(&[n], 1);
            let expected = entries(&(x.sin() + &x * x.cos()));
            near("f64", &entries(&grad(f)(&x)), &expected, 1e-12).unwrap();
            let narrow = grad(f)(&x.cast(DType::F32));
            assert_eq!(narrow.dtype(), DType::F32);
            near("f32", &entries(&narrow.cast(DType::F64)), &expected, 1e-5).unwrap();
            assert_eq!(jacfwd(grad(f))(&x).shape(), [n, n]);
            assert_eq!(grad(f)(&x.reshape([n, 1])).shape(), [n, 1]);
        }
        for lanes in 1..12 {
            let x = noise(&[lanes, 3], 2);
            let expected = entries(&(x.sin() + &x * x.cos()));
            near("lanes", &entries(&vmap(grad(f))(&x)), &expected, 1e-12).unwrap();
        }
    }
}

#[derive(Clone, Tree)]
struct Line {
    slope: Tensor,
    offset: Tensor,
}

#[derive(Clone, Tree)]
struct Frozen {
    slope: Tensor,
    #[nodiff]
    offset: Tensor,
}

#[test]
fn the_differentiated_leaves_are_those_of_the_call() {
    let (slope, offset) = (noise(&[3], 1), noise(&[3], 2));
    let value = |slope: &Tensor, offset: &Tensor| (slope.sin() * offset).sum(..);
    for _ in 0..2 {
        let line = Line {
            slope: slope.clone(),
            offset: offset.clone(),
        };
        let whole = grad(|line: &Line| value(&line.slope, &line.offset))(&line);
        let line = Frozen {
            slope: slope.clone(),
            offset: offset.clone(),
        };
        let part = grad(|line: &Frozen| value(&line.slope, &line.offset))(&line);
        let (first, second) = (slope.cos() * &offset, slope.sin());
        near("slope", &entries(&whole.slope), &entries(&first), 1e-12).unwrap();
        near("offset", &entries(&whole.offset), &entries(&second), 1e-12).unwrap();
        near(
            "the free slope",
            &entries(&part.slope),
            &entries(&first),
            1e-12,
        )
        .unwrap();
        assert_eq!(entries(&part.offset), [0.0; 3]);
        let by_offset = grad(|offset: &Tensor| value(&slope, offset))(&offset);
        near(
            "offset alone",
            &entries(&by_offset),
            &entries(&second),
            1e-12,
        )
        .unwrap();
        // One tensor is both.
        let square = grad(|x: &Tensor| value(x, x))(&slope);
        let expected = entries(&(slope.cos() * &slope + slope.sin()));
        near("both", &entries(&square), &expected, 1e-12).unwrap();
    }
}

#[test]
fn random_numbers_are_those_of_the_key_of_the_call() {
    let x = noise(&[8], 1);
    check(
        &x,
        &[0, 1, 2],
        |seed, x| {
            let noise = Key::new(seed).uniform([8], DType::F64);
            (x.sin() * noise).sum(..)
        },
        |seed, x| x.sin().matmul(Key::new(seed).uniform([8], DType::F64)),
    );
    let dropped = |seed: u64| {
        let f = |x: &Tensor| {
            let keep = Key::new(seed).bernoulli(0.5, x.shape());
            keep.select(x, &x.zeros_like()).sum(..)
        };
        entries(&grad(f)(&x))
    };
    let kept = |seed: u64| entries(&Key::new(seed).bernoulli(0.5, [8usize]).cast(DType::F64));
    for seed in [0, 1, 2, 0] {
        assert_eq!(dropped(seed), kept(seed));
    }
}

/// A multiple of the sine by host code.
struct Scaled(f64);

impl CustomFunction for Scaled {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        Ok((x.sin() * self.0, ()))
    }

    fn backward(&self, call: &gradloom::custom::Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok(ct * call.x.cos() * self.0)
    }
}

#[test]
fn rules_of_custom_functions_are_those_of_the_call() {
    let x = noise(&[3], 1);
    for _ in 0..2 {
        for k in [1.0, 2.0, -3.0] {
            let custom = Arc::new(Scaled(k));
            let f = |x: &Tensor| custom_call(&custom, x).sum(..);
            let expected = entries(&(x.cos() * k));
            near("host code", &entries(&grad(f)(&x)), &expected, 1e-12).unwrap();
            near("rows", &entries(&jacrev(f)(&x)), &expected, 1e-12).unwrap();
            let twice = grad(|x: &Tensor| grad(f)(x).sum(..))(&x);
            near("twice", &entries(&twice), &entries(&(x.sin() * -k)), 1e-12).unwrap();
            // The values agree, and only the rules differ.
            let ruled = custom_vjp(
                |x: &Tensor| x.sin(),
                |x: &Tensor| (x.sin(), x.clone()),
                |x: &Tensor, ct: &Tensor| x.cos() * ct * k,
            );
            let found = grad(|x: &Tensor| ruled(x).sum(..))(&x);
            near("rules", &entries(&found), &expected, 1e-12).unwrap();
        }
    }
}

#[test]
fn bodies_of_control_flow_are_those_of_the_call() {
    let x = noise(&[3], 1);
    check(
        &x,
        &[1.0, 2.0, 0.5],
        |k, x| {
            let turn = |h: &Tensor, w: &Tensor| ((h * w * k).sin(), h.sum(..));
            scan(turn, x, &Tensor::ones([3, 3], DType::F64)).0.sum(..)
        },
        |k, x| {
            let mut h = x.clone();
            for _ in 0..3 {
                h = (h * k).sin();
            }
            h.sum(..)
        },
    );
    let bodies: [fn(&Tensor) -> Tensor; 3] = [Tensor::sin, Tensor::exp, Tensor::square];
    check(
        &x,
        &[0, 1, 2],
        |i, x| {
            let is_positive = Tensor::from(true);
            cond(&is_positive, bodies[i], |x: &Tensor| x.zeros_like(), x).sum(..)
        },
        |i, x| bodies[i](x).sum(..),
    );
}

#[test]
fn the_branch_of_the_host_is_that_of_the_call() {
    let f = |x: &Tensor| match x.i(0).item::<f64>() > 0.0 {
        true => x.square().sum(..),
        false => x.sin().sum(..),
    };
    let x = noise(&[3], 1).abs();
    for _ in 0..2 {
        assert_eq!(entries(&grad(f)(&x)), entries(&(&x * 2.0)));
        assert_eq!(entries(&grad(f)(&-&x)), entries(&x.cos()));
        near(
            "jacfwd",
            &entries(&jacfwd(f)(&x)),
            &entries(&(&x * 2.0)),
            1e-12,
        )
        .unwrap();
        near(
            "jacfwd",
            &entries(&jacfwd(f)(&-&x)),
            &entries(&x.cos()),
            1e-12,
        )
        .unwrap();
    }
}

#[test]
fn threads_share_kept_derivatives() {
    let x = noise(&[3], 1);
    let f = |x: &Tensor| (x.sin() * x.exp()).sum(..);
    let expected = transforms(&x, f);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| transforms(&x, f))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}
