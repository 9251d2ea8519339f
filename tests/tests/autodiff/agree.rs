//! Companions generated at compile time give the same bits as the run-time transforms.

use gradloom::prelude::*;
use gradloom_tests::noise;

fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |t| out.push(t.clone()));
    out
}

#[track_caller]
fn same_bits(what: &str, a: &impl Tree, b: &impl Tree) {
    let (a, b) = (leaves(a), leaves(b));
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        assert_eq!(a.aval(), b.aval(), "{what} {i}");
        let bits = |t: &Tensor| {
            t.to_vec::<f64>()
                .into_iter()
                .map(f64::to_bits)
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(a), bits(b), "{what} {i}: {a} and {b}");
    }
}

macro_rules! tensor {
    ($x:ident) => {
        Tensor
    };
}

macro_rules! agree {
    ($($name:ident($($x:ident: $shape:expr),+) { $($body:tt)* })*) => {$(
        mod $name {
            use super::*;

            #[traced]
            fn function($($x: &Tensor),+) -> Tensor { $($body)* }

            #[test]
            fn companions_equal_run_time_derivatives() {
                // Positive and away from 0, so that logarithms and roots are defined.
                assert!(!function::PROGRAM.contains("recorded"), "{}", function::PROGRAM);
                let mut seed = 0;
                let mut next = |shape: &[usize]| { seed += 1; noise(shape, seed) };
                $(let $x = (next(&$shape) * 0.4 + 1.1).cast(DType::F64);)+
                let args = ($($x.clone(),)+);
                let f = |($($x,)+): &($(tensor!($x),)+)| function($($x),+);

                let (y, pullback) = function::vjp($(&$x),+);
                let ct = next(y.shape());
                let (y_run, pullback_run) = vjp(f, &args);
                same_bits("result", &y, &function($(&$x),+));
                same_bits("result", &y, &y_run);
                same_bits("cotangent", &pullback(&ct), &pullback_run.call(&ct));

                let tangents = ($(next($x.shape()),)+);
                let (y_run, dy_run) = jvp(f, &args, &tangents);
                let ($($x,)+) = &args;
                let primals = ($($x),+);
                let ($($x,)+) = &tangents;
                let (y, dy) = function::jvp(primals, ($($x),+));
                same_bits("result", &y, &y_run);
                same_bits("tangent", &dy, &dy_run);
            }
        }
    )*};
}

agree! {
    identity_of_a_parameter(x: [2, 3]) { x.clone() }
    sum_of_two(x: [2, 3], y: [2, 3]) { x + y }
    difference(x: [2, 3], y: [3]) { x - y }
    product_with_itself(x: [4]) { x * x }
    product_broadcast(x: [2, 1], y: [1, 3]) { x * y }
    quotient(x: [2, 3], y: [2, 3]) { x / y }
    negative(x: [5]) { -x }
    number_on_the_right(x: [3]) { x * 2.5 + 1.0 }
    number_on_the_left(x: [3]) { 2.0 - 3.0 / x }
    power(x: [3], y: [3]) { x.pow(y) }
    extrema(x: [4], y: [4]) { x.maximum(y) * x.minimum(y) }
    absolute(x: [4]) { (x - 1.1).abs() }
    signs(x: [4]) { (x - 1.1).sign() * x }
    stopped(x: [4], y: [4]) { x.stop_gradient() * x + (x * y).stop_gradient() * y }
    exponential(x: [4]) { x.exp() }
    logarithm(x: [4]) { x.log() }
    logarithm_near_one(x: [4]) { x.log1p() + x.expm1() }
    roots(x: [4]) { x.sqrt() + x.rsqrt() }
    circle(x: [4]) { x.sin() * x.cos() }
    tangent_function(x: [4]) { x.tan() }
    hyperbolic(x: [4]) { x.tanh() }
    logistic(x: [4]) { x.sigmoid() }
    rectified(x: [6]) { (x - 1.1).relu() }
    gelu_exact(x: [4]) { (x - 1.1).gelu() }
    gelu_by_tanh(x: [4]) { (x - 1.1).gelu_tanh() }
    error_function(x: [4]) { x.erf() }
    soft_plus(x: [4]) { x.softplus() }
    squares(x: [4]) { x.square() - x.reciprocal() }
    choice(x: [4], y: [4]) { x.gt(y).select(x, y) }
    choice_of_numbers(x: [4]) { x.gt(1.1).select(x, 0.5) * x.lt(1.2).select(2, x) }
    sum_of_all(x: [2, 3]) { x.sum(..) }
    sum_of_an_axis(x: [2, 3], y: [3]) { x.sum(0) * y }
    sum_kept(x: [2, 3]) { x / x.sum_keepdims(-1) }
    mean_of_axes(x: [2, 3, 2]) { x.mean([0, 2]) }
    mean_kept(x: [2, 3]) { x - x.mean_keepdims(1) }
    largest(x: [2, 3]) { x.max(1) }
    smallest(x: [2, 3]) { x.min(..) }
    matrix_product(x: [2, 3], w: [3, 4]) { x.matmul(w) }
    matrix_times_vector(x: [2, 3], v: [3]) { x.matmul(v) }
    vector_times_matrix(v: [3], w: [3, 2]) { v.matmul(w) }
    inner_product(u: [3], v: [3]) { u.matmul(v) }
    batched_product(x: [2, 2, 3], w: [3, 2]) { x.matmul(w) }
    batches_that_broadcast(x: [2, 1, 2, 3], w: [3, 3, 2]) { x.matmul(w) }
    transposed(x: [2, 3]) { x.transpose() * 2.0 }
    transposed_in_short(x: [2, 3], y: [2, 3]) { x.t().matmul(y) }
    permuted(x: [2, 3, 4]) { x.permute([2, 0, 1]).sin() }
    swapped(x: [2, 3, 4]) { x.swap_axes(0, -1).exp() }
    moved(x: [2, 3, 4]) { x.moveaxis(0, 2).exp() }
    reshaped(x: [2, 3], y: [6]) { x.reshape([-1]) * y }
    broadcast(x: [3]) { x.broadcast_to([2, 3]) * x }
    squeezed(x: [2, 1, 3]) { x.squeeze(1).sin() }
    unsqueezed(x: [2, 3], y: [2, 4, 3]) { x.unsqueeze(1) * y }
    concatenated(x: [2, 3], y: [1, 3]) { Tensor::concat(&[x, y], 0).sin() }
    concatenated_with_itself(x: [2, 3]) { Tensor::concat(&[x, x], 1).exp() }
    stacked(x: [3], y: [3]) { Tensor::stack(&[x, y], 0).exp() }
    split_in_two(x: [4, 2]) { let [a, b] = x.split(0); a * b.sin() }
    one_part_unused(x: [4, 2]) { let [a, _b] = x.split(0); a.exp() }
    unbound(x: [2, 3]) { let [a, b] = x.unbind(0); a * b }
    soft_max(x: [2, 3], y: [2, 3]) { x.softmax(-1) * y }
    log_soft_max(x: [2, 3], y: [2, 3]) { x.log_softmax(0) * y }
    log_sum_exp(x: [2, 3]) { x.logsumexp(1) }
    normalized(x: [2, 4], w: [4], b: [4]) { x.layer_norm(w, b, 1e-5) }
    normalized_by_rms(x: [2, 4], w: [4]) { x.rms_norm(w, 1e-5) }
    dense_layer(x: [2, 3], w: [3, 4], b: [4]) { let h = x.matmul(w) + b; h.tanh() }
    two_layers(x: [2, 3], w1: [3, 4], b1: [4], w2: [4, 2]) {
        let h = x.matmul(w1) + b1;
        let h = h.relu();
        h.matmul(w2).softmax(-1)
    }
    shadowed(x: [3]) { let x = x * 2.0; let x = x.sin(); let y = x.exp(); y + x }
    mutated(x: [3], y: [3]) { let mut h = x.clone(); h += y; h *= x; h = h.tanh(); h }
    block_value(x: [3]) { let y = { let a = x.sin(); a * 2.0 }; y.exp() }
    tuples(x: [3], y: [3]) { let (a, b) = (x.sin(), y.cos()); let t = (a, b); t.0 * t.1 }
    diamond(x: [3]) { let a = x.sin(); let b = &a * &a; let c = &a + &b; b * c }
    unused_parameter(x: [3], _y: [2, 2]) { x * 2.0 }
    attention(q: [2, 4], k: [2, 4], v: [2, 4]) {
        let scores = q.matmul(k.transpose()) * 0.5;
        scores.softmax(-1).matmul(v)
    }
    masked_attention(q: [2, 4], k: [3, 4], v: [3, 2]) {
        let near = q.matmul(k.transpose()).gt(0.0);
        q.masked_attention(k, v, near)
    }
    variance(x: [2, 5]) { let centered = x - x.mean_keepdims(-1); centered.square().mean(-1) }
    log_likelihood(x: [4], s: [4]) { let z = x / s; -(z.square() * 0.5 + s.log()).sum(..) }
}
