//! Transforms, loops and branches of functions that are given by their names.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::{AssociativeScan, Checkpoint, Scan, Vmap};
use gradloom::{
    checkpoint, cond, custom_jvp, custom_vjp, fori_loop, linear_transpose, linearize, map, scan,
    switch, tree, while_loop,
};
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::observe::finds;
use std::cell::Cell;

#[traced]
fn sinf(x: &Tensor) -> Tensor {
    x.sin()
}

#[traced]
fn cosf(x: &Tensor) -> Tensor {
    x.cos() * 0.5
}

#[traced]
fn step(c: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    let c = (c + x).sin();
    (c.clone(), &c * x)
}

#[traced]
fn turn(i: &Tensor, c: &Tensor) -> Tensor {
    (c + i.cast(DType::F64)).sin()
}

#[traced]
fn twice(x: &Tensor) -> Tensor {
    x * 2.0
}

#[traced]
fn sum(x: &Tensor) -> Tensor {
    x.sin().sum(..)
}

#[traced]
fn halved(x: &Tensor) -> Tensor {
    x * 0.5
}

/// A condition, which is not traced: no tensor has a derivative.
fn large(x: &Tensor) -> Tensor {
    x.abs().sum(..).gt(0.1)
}

fn rule(_: &Tensor, y: &Tensor, dx: &Tensor) -> Tensor {
    y * dx
}

fn forward(x: &Tensor) -> (Tensor, Tensor) {
    (x.sin(), x.cos())
}

fn backward(cos: &Tensor, ct: &Tensor) -> Tensor {
    cos * ct
}

#[traced]
fn added(a: &Tensor, b: &Tensor) -> Tensor {
    a + b
}

mod module {
    use gradloom::prelude::*;

    #[traced]
    pub(super) fn step(c: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
        super::step(c, x)
    }

    #[traced]
    pub(super) fn sinf(x: &Tensor) -> Tensor {
        x.sin()
    }

    pub(super) struct Net;

    #[traced]
    impl Net {
        pub(super) fn cosf(x: &Tensor) -> Tensor {
            x.cos()
        }
    }
}

/// Makes a test of each body: values and derivatives are those of the same body in a closure, and a
/// second call finds its plan.
macro_rules! bodies {
    ($($name:ident |$x:ident, $xs:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter), order = 2)]
            fn f($x: &Tensor, $xs: &Tensor) -> Tensor $body
            fn plain(($x, $xs): &(Tensor, Tensor)) -> Tensor $body
            assert_eq!(f::RECORDED, None);
            let args = (noise(&[3], 1), noise(&[4, 3], 2));
            let companions = Companions {
                call: &|(x, xs)| f(x, xs),
                vjp: &|(x, xs), ct| {
                    let (y, pullback) = f::vjp(x, xs);
                    (y, pullback(ct))
                },
                jvp: &|(x, xs), (dx, dxs)| f::jvp((x, xs), (dx, dxs)),
            };
            companions.agree_with_transforms(&plain, &args).unwrap();
            finds(|| f(&args.0, &args.1));
            finds(|| f::vjp(&args.0, &args.1).0);
        }
    )*};
}

bodies! {
    scan_of_a_name |x, xs| { scan(step, x, xs).0 }
    scan_of_a_borrowed_name |x, xs| { scan(&step, x, xs).0 }
    scan_of_a_name_and_both_results |x, xs| { let (last, all) = scan(step, x, xs); last * all.sum(0) }
    scan_of_a_path |x, xs| { let (last, all) = gradloom::scan(module::step, x, xs); last + all.sum(0) }
    scan_of_a_local |x, xs| { let step = |c: &Tensor, x: &Tensor| { let c = c * x; (c.clone(), c) }; scan(step, x, xs).0 }
    scan_of_a_borrowed_local |x, xs| { let step = |c: &Tensor, x: &Tensor| { let c = c * x; (c.clone(), c) }; scan(&step, x, xs).0 }
    scan_of_a_local_that_captures |x, xs| { let w = x.cos(); let step = |c: &Tensor, x: &Tensor| { let c = c * x + &w; (c.clone(), c) }; let y = scan(step, x, xs).1; y.sum(0) }
    scan_of_a_renamed_function |x, xs| { let g = step; scan(g, x, xs).0 }
    scan_of_a_function_in_the_body |x, xs| { fn inner(c: &Tensor, x: &Tensor) -> (Tensor, Tensor) { let c = c * x; (c.clone(), c) } scan(inner, x, xs).0 }
    scan_after_code |x, xs| { let y = x.tanh(); let (y, _) = scan(step, &y, xs); y.square() }
    scan_in_a_loop |x, xs| { let mut y = x.clone(); for _ in 0..2 { y = scan(step, &y, xs).0; } y }
    map_of_a_name |x, xs| { map(sinf, xs).sum(0) * x }
    cond_of_names |x, xs| { cond(&x.sum(..).gt(0.0), sinf, cosf, x) + xs.sum(0) }
    cond_of_a_name_and_a_closure |x, xs| { let y = cond(&x.sum(..).gt(0.0), module::sinf, |x: &Tensor| x * 2.0, x); y * xs.sum(0) }
    cond_of_locals |x, xs| { let f = |x: &Tensor| x.exp(); let g = |x: &Tensor| x * 2.0; let y = cond(&x.sum(..).gt(0.0), f, g, x); y * xs.sum(0) }
    fori_of_a_name |x, xs| { let y = fori_loop(0..3, turn, x); y + xs.sum(0) }
    checkpoint_of_a_name |x, xs| { checkpoint(sinf)(x) * xs.sum(0) }
    checkpoint_in_a_local |x, xs| { let f = checkpoint(sinf); f(x) * xs.sum(0) }
    vmap_of_a_name |x, xs| { vmap(sinf)(xs).sum(0) + x }
    vmap_of_a_transform |x, xs| { vmap(grad(sum))(xs).sum(0) * x }
    grad_of_a_name |x, xs| { grad(sum)(x) * xs.sum(0) }
    second_grad_of_a_name |x, xs| { hessian(sum)(x).matmul(x) + xs.sum(0) }
    value_and_grad_of_a_name |x, xs| { let (y, g) = value_and_grad(sum)(x); g * y + xs.sum(0) }
    jacobians_of_names |x, xs| { let y = jacfwd(sinf)(x).matmul(x); y * jacrev(cosf)(x).matmul(x) + xs.sum(0) }
    vjp_of_a_name |x, xs| { let (y, pull) = vjp(sinf, x); pull.call(&y) + xs.sum(0) }
    vjp_of_a_transform |x, xs| { let (y, pull) = vjp(grad(sum), x); pull.call(&y) + xs.sum(0) }
    jvp_of_a_name |x, xs| { let (y, dy) = jvp(sinf, x, &xs.sum(0)); y + dy }
    hvp_of_a_name |x, xs| { hvp(sum, x, &xs.sum(0)) }
    linearized_name |x, xs| { let (y, push) = linearize(sinf, x); y + push.call(&xs.sum(0)) }
    transposed_name |x, xs| { linear_transpose(twice, x).call(&xs.sum(0)) }
    mapped_trees |x, xs| { let both = tree::map2(x, &xs.sum(0), added); both * 2.0 }
    switch_of_closures |x, xs| { let y = switch(&Tensor::from(1i32), &[&|x: &Tensor| x.sin(), &|x: &Tensor| x * x], x); y + xs.sum(0) }
    switch_of_names |x, xs| { switch(&Tensor::from(1i32), &[&sinf, &cosf], x) * xs.sum(0) }
    switch_of_locals |x, xs| { let f = |x: &Tensor| x.sin(); let g = |x: &Tensor| x * x; switch(&Tensor::from(0i32), &[&f, &g], x) * xs.sum(0) }
    switch_of_a_list |x, xs| { let fs: [&dyn Fn(&Tensor) -> Tensor; 2] = [&sinf, &|x: &Tensor| x * x]; let y = switch(&Tensor::from(1i32), &fs, x); y * xs.sum(0) }
    switch_at_an_index_of_the_body |x, xs| { let i = x.sum(..).gt(0.0).cast(DType::I32); switch(&i, &[&sinf, &cosf], x) + xs.sum(0) }
    reversed_scan |x, xs| { let (last, all) = Scan::new(|c: &Tensor, x: &Tensor| { let c = c * x; (c.clone(), c) }).reverse().call(x, xs); last + all.sum(0) }
    reversed_scan_of_a_name |x, xs| { Scan::new(step).reverse().call(x, xs).0 }
    checkpointed_scan |x, xs| { let (last, _) = gradloom::Scan::new(step).checkpoint().call(x, xs); last }
    counted_scan |x, xs| { let (last, _) = Scan::new(|c: &Tensor, _: &()| (c.sin(), ())).turns(3).call(x, &()); last + xs.sum(0) }
    scan_in_a_local |x, xs| { let rnn = Scan::new(step).checkpoint(); let (last, _) = rnn.clone().call(x, xs); let (y, _) = rnn.call(&last, xs); y }
    associative_scan_along_an_axis |x, xs| { let sums = AssociativeScan::new(|a: &Tensor, b: &Tensor| a + b).axis(1).reverse().call(xs); sums.sum(0) * x }
    associative_scan_of_a_name_in_a_local |x, xs| { let sums = AssociativeScan::new(added).reverse(); sums.call(xs).sum(0) * x }
    vmap_with_axes |x, xs| { let y = Vmap::new(|(x, y): &(Tensor, Tensor)| x * y).in_axes((0, None)).out_axes(1).call(&(xs.clone(), x.clone())); y.sum(1) }
    vmap_of_a_name_with_axes |x, xs| { let y = Vmap::new(sinf).in_axes(1).call(xs); y.sum(1) * x }
    kept_checkpoint |x, xs| { let y = Checkpoint::new(sinf).keep(&["sin"]).call(x); y * xs.sum(0) }
    kept_checkpoint_in_a_local |x, xs| { let f = Checkpoint::new(|x: &Tensor| x.sin().exp()).keep(&["sin"]); f.call(x) * xs.sum(0) }
}

/// Bodies with functions that are not traced: they are recorded, or called with stand-ins.
macro_rules! bodies_with_plain_functions {
    ($($name:ident |$x:ident, $xs:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($x: &Tensor, $xs: &Tensor) -> Tensor $body
            fn plain(($x, $xs): &(Tensor, Tensor)) -> Tensor $body
            assert!(f::RECORDED.is_some_and(|why| why.contains("traced; put")), "{:?}", f::RECORDED);
            let args = (noise(&[3], 1), noise(&[4, 3], 2));
            let companions = Companions {
                call: &|(x, xs)| f(x, xs),
                vjp: &|(x, xs), ct| {
                    let (y, pullback) = f::vjp(x, xs);
                    (y, pullback(ct))
                },
                jvp: &|(x, xs), (dx, dxs)| f::jvp((x, xs), (dx, dxs)),
            };
            companions.agree_with_transforms(&plain, &args).unwrap();
        }
    )*};
}

fn plain_step(c: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    (c * x, c.sin())
}

bodies_with_plain_functions! {
    scan_of_a_plain_function |x, xs| { scan(plain_step, x, xs).0 }
    map_of_a_plain_function |x, xs| { let y = map(|x: &Tensor| backward(x, x), xs); y.sum(0) * x }
    custom_jvp_of_names |x, xs| { custom_jvp(sinf, rule)(x) * xs.sum(0) }
    // The type is not one of the signature, so the macro cannot ask whether its function is traced.
    map_of_an_associated_function |x, xs| { let y = map(module::Net::cosf, xs); y.sum(0) * x }
}

/// A rule for reverse mode only.
#[test]
fn custom_vjp_of_names() {
    #[traced(allow(recorded_call))]
    fn f(x: &Tensor, xs: &Tensor) -> Tensor {
        let f = custom_vjp(sinf, forward, backward);
        f(x) * xs.sum(0)
    }
    let (x, xs) = (noise(&[3], 1), noise(&[4, 3], 2));
    let plain = |(x, xs): &(Tensor, Tensor)| x.sin() * xs.sum(0);
    let (y, pullback) = f::vjp(&x, &xs);
    let (want, want_pullback) = vjp(plain, &(x, xs));
    tree::assert_close(&y, &want, 1e-12);
    tree::assert_close(&pullback(&y), &want_pullback.call(&y), 1e-12);
}

/// A loop with a plain function as its condition has derivatives in forward mode, too.
#[test]
fn while_loop_of_names() {
    #[traced(pure)]
    fn f(x: &Tensor) -> Tensor {
        while_loop(large, halved, x)
    }
    let x = noise(&[3], 1);
    finds(|| f(&x));
    let (y, dy) = f::jvp(&x, &x);
    assert_eq!(y.to_vec::<f64>(), dy.to_vec::<f64>());
    let (y, pullback) = f::vjp(&x);
    let by = (&y / &x).i(0).item::<f64>();
    let ct = pullback(&y.ones_like());
    assert!(ct.to_vec::<f64>().iter().all(|ct| (ct - by).abs() < 1e-12));
}

#[derive(Clone, Tree)]
struct Cell2 {
    w: Tensor,
}

#[traced]
impl Cell2 {
    fn step(c: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
        let c = (c * x).sin();
        (c.clone(), c)
    }

    fn run(&self, xs: &Tensor) -> Tensor {
        scan(Self::step, &self.w, xs).0
    }

    fn run_by_type(&self, xs: &Tensor) -> Tensor {
        let (last, all) = scan(Cell2::step, &self.w, xs);
        last + all.sum(0)
    }

    fn run_by_closure(&self, xs: &Tensor) -> Tensor {
        scan(|c: &Tensor, x: &Tensor| Self::step(c, x), &self.w, xs).0
    }
}

#[test]
fn functions_of_types_are_passed_by_their_paths() {
    let (cell, xs) = (Cell2 { w: noise(&[3], 1) }, noise(&[4, 3], 2));
    for why in [Cell2::RUN_RECORDED, Cell2::RUN_BY_TYPE_RECORDED] {
        assert_eq!(why, None);
    }
    finds(|| cell.run(&xs));
    finds(|| cell.run_by_type(&xs));
    let want = cell.run_by_closure_vjp(&xs);
    let found = cell.run_vjp(&xs);
    assert_eq!(found.0.to_vec::<f64>(), want.0.to_vec::<f64>());
    let ct = found.0.cos();
    tree::assert_close(&(found.1)(&ct), &(want.1)(&ct), 1e-12);
}

/// Second derivatives of a function that scans over a name.
#[test]
fn second_derivatives_of_loops_by_name() {
    #[traced(order = 2)]
    fn loss(x: &Tensor, xs: &Tensor) -> Tensor {
        let (last, all) = scan(step, x, xs);
        (last * all.sum(0)).sum(..)
    }
    let plain = |(x, xs): &(Tensor, Tensor)| {
        let (last, all) = scan(|c: &Tensor, x: &Tensor| step(c, x), x, xs);
        (last * all.sum(0)).sum(..)
    };
    let args = (noise(&[3], 1), noise(&[4, 3], 2));
    let v = (noise(&[3], 3), noise(&[4, 3], 4));
    let (gradient, change) = loss::hvp((&args.0, &args.1), (&v.0, &v.1));
    let (want, want_change) = (grad(plain)(&args), hvp(plain, &args, &v));
    tree::assert_close(&(gradient.x, gradient.xs), &want, 1e-12);
    tree::assert_close(&(change.x, change.xs), &want_change, 1e-12);
}

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

fn counted(x: &Tensor) -> Tensor {
    COUNT.set(COUNT.get() + 1);
    x.sin()
}

/// A function with effects is called by each recording.
#[test]
fn a_function_with_effects_runs_at_each_call() {
    #[traced(allow(recorded_call))]
    fn f(x: &Tensor) -> Tensor {
        switch(&Tensor::from(0i32), &[&counted, &sinf], x)
    }
    #[traced(allow(recorded_call))]
    fn g(x: &Tensor) -> Tensor {
        let loop_of = Scan::new(|c: &Tensor, x: &Tensor| (counted(c), x.clone())).reverse();
        loop_of.call(&x.sum(..), x).0
    }
    let x = noise(&[3], 1);
    for f in [f, g] {
        COUNT.set(0);
        for _ in 0..3 {
            let _ = f(&x).to_vec::<f64>();
        }
        assert_eq!(COUNT.get(), 3);
    }
}

/// Traced functions of the user's with the names of transforms are called as before.
#[test]
fn functions_with_names_of_transforms_are_the_users() {
    mod own {
        use gradloom::prelude::*;

        #[traced]
        pub(super) fn scan(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
            x * y * n as f64
        }

        #[traced]
        pub(super) fn f(x: &Tensor) -> Tensor {
            scan(x, &x.sin(), 2)
        }
    }
    let x = noise(&[3], 1);
    assert!(
        own::f::PROGRAM.contains("scan(_, _, 2)"),
        "{}",
        own::f::PROGRAM
    );
    finds(|| own::f(&x));
}
