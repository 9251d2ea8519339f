//! Each method that the op table lists exists on `Tensor`.

use gradloom::{DType, Tensor};
use gradloom_ir::Op;

/// Compiles only if all methods exist, with the parameters that the op table lists.
macro_rules! methods {
    ($($name:ident: $call:expr;)*) => {{
        $(let _: fn() = || { let _ = $call; };)*
        [$(stringify!($name)),*]
    }};
}

fn x() -> Tensor {
    Tensor::zeros([2, 3], DType::F32)
}

#[test]
fn every_method_of_the_op_table_is_a_method_of_tensor() {
    let mut names: Vec<&str> = methods! {
        broadcast_like: x().broadcast_like(x());
        broadcast_to: x().broadcast_to([2, 2, 3]);
        cast: x().cast(DType::F64);
        select: x().select(x(), x());
        full_like: x().full_like(1.5);
        zeros_like: x().zeros_like();
        ones_like: x().ones_like();
        full: Tensor::full([2], 1.5, DType::F32);
        zeros: Tensor::zeros([2], DType::F32);
        ones: Tensor::ones([2], DType::F32);
        arange: Tensor::arange(3, DType::I64);
        sum: x().sum(0);
        sum_keepdims: x().sum_keepdims([0, 1]);
        mean: x().mean(..);
        mean_keepdims: x().mean_keepdims(-1);
        max: x().max(..);
        max_keepdims: x().max_keepdims(..);
        min: x().min(..);
        min_keepdims: x().min_keepdims(..);
        logsumexp: x().logsumexp(..);
        logsumexp_keepdims: x().logsumexp_keepdims(..);
        argmax: x().argmax(-1);
        argmax_keepdims: x().argmax_keepdims(-1);
        argmin: x().argmin(-1);
        argmin_keepdims: x().argmin_keepdims(-1);
        matmul: x().matmul(x());
        transpose: x().transpose();
        t: x().t();
        permute: x().permute([1, 0]);
        swap_axes: x().swap_axes(0, 1);
        moveaxis: x().moveaxis(0, 1);
        reshape: x().reshape([-1]);
        squeeze: x().squeeze(0);
        unsqueeze: x().unsqueeze([0, -1]);
        slice: x().slice([0], [1], [1]);
        concat: Tensor::concat(&[x(), x()], 0);
        stack: Tensor::stack(&[&x(), &x()], 0);
        split: x().split::<3>(1);
        split_sizes: x().split_sizes([1, 2], 1);
        unbind: x().unbind::<2>(0);
        softmax: x().softmax(-1);
        log_softmax: x().log_softmax(-1);
        cross_entropy: x().cross_entropy(x());
        attention: x().attention(x(), x());
        causal_attention: x().causal_attention(x(), x());
        masked_attention: x().masked_attention(x(), x(), x());
        masked_causal_attention: x().masked_causal_attention(x(), x(), x());
        layer_norm: x().layer_norm(x(), x(), 1e-5);
        rms_norm: x().rms_norm(x(), 1e-5);
        normalize: x().normalize(-1, 1e-5);
        one_hot: x().one_hot(3, DType::F32);
    }
    .into();
    macro_rules! unary {
        ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
            names.extend(methods! { $($name: x().$name();)* })
        };
    }
    macro_rules! binary {
        ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
            names.extend(methods! { $($name: x().$name(x());)* })
        };
    }
    gradloom_ir::for_each_unary!(unary);
    gradloom_ir::for_each_binary!(binary);
    names.sort_unstable();
    let defs = Op::ALL.iter().map(|op| op.def());
    let mut table: Vec<&str> = defs.flat_map(|d| d.methods()).map(|m| m.name).collect();
    table.sort_unstable();
    assert_eq!(names, table);
}
