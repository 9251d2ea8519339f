//! Run-time error messages for mistakes of users, and the source locations they report.

use gradloom::optim::{Frozen, Sgd};
use gradloom::prelude::*;
use gradloom::sharding::{Mesh, Reduction, ShardingSpec, shard_map};
use gradloom::trace::trace;
use gradloom_tests::panics::panic_of;
use insta::assert_snapshot;
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the panic message of an expression, and checks that the panic is at the line of the
/// expression. In a function that returns `Result`, the same message is the `Err`.
macro_rules! mistake {
    ($e:expr) => {{
        let (text, file, line) = panic_of(|| {
            let _ = $e;
        });
        assert!(file.ends_with("messages.rs"), "{text}: at {file}:{line}");
        let (line, expr) = (dense(line_of_this_file(line)), dense(stringify!($e)));
        assert!(expr.contains(&line), "{text}: at {line}, not at {expr}");
        assert_eq!(error!($e), text);
        text
    }};
}

/// Returns the message of the `Err` of a function that contains the mistake and returns `Result`.
macro_rules! error {
    ($e:expr) => {{
        let fallible = |x: &Tensor| -> Result<Tensor> {
            let _ = $e;
            Ok(x.clone())
        };
        let error = vjp(fallible, &Tensor::scalar(0.0f32)).expect_err(stringify!($e));
        error.to_string()
    }};
}

fn line_of_this_file(line: u32) -> &'static str {
    let source = include_str!("messages.rs");
    source
        .lines()
        .nth(line as usize - 1)
        .expect("the panic is in this file")
}

/// Removes the spaces of code and the end of an argument.
fn dense(code: &str) -> String {
    let code: String = code.split_whitespace().collect();
    code.trim_end_matches(',').to_owned()
}

macro_rules! mistakes {
    ($($e:expr),* $(,)?) => { [$(mistake!($e)),*].join("\n") };
}

fn f32s(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32)
}

fn bools(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::Bool)
}

fn i64s(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::I64)
}

#[test]
fn operands_that_do_not_fit_are_named_in_the_message() {
    let (x, y, n) = (&f32s(&[2, 3]), &f32s(&[3, 2]), &i64s(&[2, 3]));
    let b = &x.gt(0.0);
    let mut assigned = x.clone();
    assert_snapshot!(mistakes![
        x + y,
        assigned += y,
        x * n,
        x * &x.cast(DType::F64),
        x.maximum(y),
        x.lt(y),
        n.tanh(),
        b.neg(),
        n.cast(DType::I32) + (1i64 << 40),
        n.cast(DType::I32) * x,
        n.full_like(1e30),
        x.select(x, x),
        b.select(x, y),
        b.select(x, n),
        b.select(f32s(&[4, 3]), x),
    ], @r"
    add: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 3], the right operand is f32[3, 2]
    add: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 3], the right operand is f32[3, 2]
    mul: the dtypes are f32 and i64: the left operand is f32[2, 3], the right operand is i64[2, 3]; cast the i64 operand, as in `.cast(DType::F32)`
    mul: the dtypes are f32 and f64: the left operand is f32[2, 3], the right operand is f64[2, 3]; cast the f32 operand, as in `.cast(DType::F64)`
    maximum: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 3], the right operand is f32[3, 2]
    lt: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 3], the right operand is f32[3, 2]
    tanh: the dtype is i64, expected a float: the operand is i64[2, 3]
    neg: the dtype is bool, expected a number: the operand is bool[2, 3]
    1099511627776 is not a value of i32; cast the tensor to i64 first
    mul: the dtypes are i32 and f32: the left operand is i32[2, 3], the right operand is f32[2, 3]; cast the i32 operand, as in `.cast(DType::F32)`
    full_like: 1e30 is not a value of i64; cast the tensor to a float first
    select: the dtype is f32, expected bool for the condition: operand 1 is f32[2, 3], operand 2 is f32[2, 3], operand 3 is f32[2, 3]
    select: axis 0 is 2 on the left and 3 on the right: operand 1 is bool[2, 3], operand 2 is f32[2, 3], operand 3 is f32[3, 2]
    select: the dtypes are f32 and i64: operand 1 is bool[2, 3], operand 2 is f32[2, 3], operand 3 is i64[2, 3]; cast the i64 operand, as in `.cast(DType::F32)`
    select: axis 0 is 4 on the left and 2 on the right: operand 1 is bool[2, 3], operand 2 is f32[4, 3], operand 3 is f32[2, 3]
    ");
}

#[test]
fn wrong_windows_are_reported() {
    let (x, w) = (&f32s(&[1, 2, 5]), &f32s(&[4, 2, 3]));
    assert_snapshot!(mistakes![
        x.conv(w, 0, 0, 1, 1),
        x.conv(w, [1, 1], 0, 1, 1),
        x.conv(w, 1, [0, 0, 0], 1, 1),
        x.conv(w, 1, 0, 3, 1),
        x.conv(w, 1, 0, 1, 3),
        x.conv(w, 1, 0, 1, 0),
        x.conv(w, 1, 0, 1, 2),
        x.conv_same(f32s(&[4, 2, 0]), 1),
        x.conv_valid(f32s(&[4, 2, 3, 3]), 1),
        x.conv_valid(w.cast(DType::F64), 1),
        f32s(&[2, 5]).conv_valid(w, 1),
        x.conv_transpose(w, 1, 0, 1, 1),
        f32s(&[1, 4, 1]).conv_transpose(w, 1, 2, 1, 1),
        x.max_pool(6, 1, 0),
        x.max_pool([2, 2, 2, 2], 1, 0),
        x.max_pool(0, 1, 0),
        x.sum_pool(2, 1, -1),
        i64s(&[4]).avg_pool(2, 2, 0),
        f32s(&[4]).avg_pool([2, 2], 2, 0),
        x.upsample(0),
    ], @r"
    conv: `strides` cannot be 0: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: the number of `strides` is 2, expected 1: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: the number of `padding` is 3, expected 1 or 2: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: axis 2 with its padding is 5, expected at least 7, the extent of a window: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: axis 0 of the weights is 4, expected a multiple of 3, the number of groups: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: `groups` is 0, expected at least 1: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: axis 1 of the input is 2, expected 4, the number of channels of the weights: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv: axis 2 of the weights is 0, expected at least 1: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 0]
    conv: the rank is 4, expected 3 for the weights, as for the input: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3, 3]
    conv: the dtypes are f32 and f64: the left operand is f32[1, 2, 5], the right operand is f64[4, 2, 3]; cast the f32 operand, as in `.cast(DType::F64)`
    conv: the rank is 2, expected from 3 to 5: the left operand is f32[2, 5], the right operand is f32[4, 2, 3]
    conv_transpose: axis 1 of the input is 2, expected 4, the number of channels of the weights: the left operand is f32[1, 2, 5], the right operand is f32[4, 2, 3]
    conv_transpose: axis 2 of the result is -1, expected at least 0: the padding is too long: the left operand is f32[1, 4, 1], the right operand is f32[4, 2, 3]
    max_pool: axis 2 with its padding is 5, expected at least 6, the extent of a window: the operand is f32[1, 2, 5]
    max_pool: the number of `window` is 4, expected at most 3: the operand is f32[1, 2, 5]
    max_pool: `window` cannot be 0: the operand is f32[1, 2, 5]
    sum_pool: `padding` cannot be -1: the operand is f32[1, 2, 5]
    avg_pool: the dtype is i64, expected a float: the operand is i64[4]
    avg_pool: the rank is 1, expected at least 2, the number of `window`: the operand is f32[4]
    upsample: `factors` cannot be 0: the operand is f32[1, 2, 5]
    ");
}

#[test]
fn wrong_axes_are_reported() {
    let x = &f32s(&[2, 3]);
    let empty = &f32s(&[0, 3]);
    assert_snapshot!(mistakes![
        x.sum(2),
        x.mean(-3),
        x.max([0, 0]),
        x.min([1, -1]),
        x.logsumexp(7),
        x.argmax(2),
        empty.max(0),
        empty.argmin(0),
        x.softmax(2),
        x.log_softmax(-3),
        x.normalize(5, 1e-5),
        x.permute([0, 0]),
        x.permute([0]),
        x.swap_axes(0, 2),
        x.moveaxis(-3, 0),
        x.squeeze(0),
        x.squeeze(2),
        x.unsqueeze(3),
        x.unsqueeze([0, 0]),
        x.dim(2),
    ], @r"
    sum: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    mean: axis -3 is out of range for rank 2: the operand is f32[2, 3]
    max: axis 0 is named twice: the operand is f32[2, 3]
    min: axis -1 is named twice: the operand is f32[2, 3]
    logsumexp: axis 7 is out of range for rank 2: the operand is f32[2, 3]
    argmax: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    max: axis 0 has length 0, and the maximum or minimum of no elements is not defined: the operand is f32[0, 3]
    argmin: axis 0 has length 0, and the maximum or minimum of no elements is not defined: the operand is f32[0, 3]
    softmax: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    log_softmax: axis -3 is out of range for rank 2: the operand is f32[2, 3]
    normalize: axis 5 is out of range for rank 2: the operand is f32[2, 3]
    permute: axis 0 is named twice: the operand is f32[2, 3]
    permute: the rank is 2, expected 1, the number of `axes`: the operand is f32[2, 3]
    swap_axes: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    moveaxis: axis -3 is out of range for rank 2: the operand is f32[2, 3]
    squeeze: axis 0 is 2, expected 1: the operand is f32[2, 3]
    squeeze: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    unsqueeze: axis 3 is out of range for rank 3: the operand is f32[2, 3]
    unsqueeze: axis 0 is named twice: the operand is f32[2, 3]
    axis 2 is out of range for f32[2, 3], whose rank is 2
    ");
}

#[test]
fn wrong_shapes_are_reported() {
    let (x, y) = (&f32s(&[2, 3]), &f32s(&[2, 4]));
    let max = usize::MAX;
    let one = [1usize; 65];
    assert_snapshot!(mistakes![
        x.reshape([4, 2]),
        x.reshape([-1, -1]),
        x.reshape([-1, 4]),
        x.reshape([-2, 3]),
        x.broadcast_to([3, 2]),
        x.broadcast_to([3]),
        x.slice([0, 2], [2, 4], [1, 1]),
        x.slice([2], [1], [1]),
        x.slice([0], [2], [0]),
        x.slice([0, 0, 0], [1, 1, 1], [1, 1, 1]),
        x.slice([0], [1, 2], [1]),
        x.split::<2>(1),
        x.split::<2>(2),
        x.split_sizes([1, 1], 1),
        x.unbind::<2>(1),
        Tensor::concat(&[x, y], 0),
        Tensor::concat(&[x, y], 2),
        Tensor::concat::<&Tensor>(&[], 0),
        Tensor::stack(&[x, y], 0),
        Tensor::concat(&[x, &x.cast(DType::I64)], 0),
        Tensor::zeros([1 << 62, 4], DType::F32),
        Tensor::zeros([max, max], DType::Bool),
        Tensor::ones(one, DType::Bool),
        f32s(&[1 << 40, 1]) + f32s(&[1, 1 << 40]),
        Tensor::from_vec(vec![1.0f32, 2.0], [3]),
        Tensor::from_vec(vec![1.0f32, 2.0], [max, 4]),
    ], @r"
    reshape: 6 elements cannot be reshaped to [4, 2]: the operand is f32[2, 3]
    reshape: [-1, -1] is not a shape: dims are 0 or more, and at most one is -1 (to be inferred): the operand is f32[2, 3]
    reshape: 6 elements cannot be reshaped to [-1, 4]: the operand is f32[2, 3]
    reshape: [-2, 3] is not a shape: dims are 0 or more, and at most one is -1 (to be inferred): the operand is f32[2, 3]
    broadcast_to: the operand does not broadcast to [3, 2]: the operand is f32[2, 3]
    broadcast_to: the operand does not broadcast to [3]: the operand is f32[2, 3]
    slice: 2..4 does not lie in axis 1, which has length 3: the operand is f32[2, 3]
    slice: 2..1 does not lie in axis 0, which has length 2: the operand is f32[2, 3]
    slice: the step is 0, expected another number: the operand is f32[2, 3]
    slice: the rank is 2, expected at least 3, the number of `starts`: the operand is f32[2, 3]
    slice: the number of `stops` is 2, expected 1, the number of `starts`: the operand is f32[2, 3]
    split: an axis of length 3 cannot be split into 2 equal parts: the operand is f32[2, 3]
    split: axis 2 is out of range for rank 2: the operand is f32[2, 3]
    split_sizes: an axis of length 3 cannot be split into parts of [1, 1]: the operand is f32[2, 3]
    unbind: axis 1 is 3, expected 2, the number of results: the operand is f32[2, 3]
    concat: axis 1 of operand 2 is 4, expected 3, as in operand 1: operand 1 is f32[2, 3], operand 2 is f32[2, 4]
    concat: axis 2 is out of range for rank 2: operand 1 is f32[2, 3], operand 2 is f32[2, 4]
    concat: expected at least 1 operand, found 0 arguments
    stack: axis 1 of operand 2 is 4, expected 3, as in operand 1: operand 1 is f32[2, 3], operand 2 is f32[2, 4]
    concat: the dtypes are f32 and i64: operand 1 is f32[2, 3], operand 2 is i64[2, 3]; cast the i64 operand, as in `.cast(DType::F32)`
    the shape [4611686018427387904, 4] has more elements than can be addressed
    the shape [18446744073709551615, 18446744073709551615] has more elements than can be addressed
    the shape [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] has 65 axes, and the limit is 32
    add: [1099511627776, 1099511627776] has more elements than can be addressed: the left operand is f32[1099511627776, 1], the right operand is f32[1, 1099511627776]
    2 values do not fill the shape [3], which has 3 elements
    the shape [18446744073709551615, 4] has more elements than can be addressed
    ");
}

#[test]
fn wrong_operands_of_products_and_layers_are_reported() {
    let (x, w, labels) = (&f32s(&[2, 3]), &f32s(&[4, 5]), &i64s(&[2]));
    assert_snapshot!(mistakes![
        x.matmul(w),
        x.matmul(f32s(&[])),
        x.matmul(i64s(&[3, 2])),
        f32s(&[2, 2, 3]).matmul(f32s(&[3, 3, 4])),
        f32s(&[3]).matmul(f32s(&[4])),
        x.layer_norm(f32s(&[4]), f32s(&[3]), 1e-5),
        x.layer_norm(f32s(&[3]), f32s(&[3, 1]), 1e-5),
        x.attention(f32s(&[3]), f32s(&[3])),
        x.attention(f32s(&[2, 4, 3]), f32s(&[2, 4, 3])),
        x.attention(f32s(&[4, 2]), f32s(&[4, 5])),
        x.causal_attention(f32s(&[4, 3]), f32s(&[5, 3])),
        f32s(&[2, 4, 3]).attention(f32s(&[2, 4, 3]), f32s(&[1, 4, 3])),
        labels.unsqueeze(0).attention(labels.unsqueeze(0), labels.unsqueeze(0)),
        x.masked_attention(f32s(&[4, 3]), f32s(&[4, 3]), bools(&[2, 3])),
        x.masked_causal_attention(f32s(&[4, 3]), f32s(&[4, 3]), bools(&[3, 1])),
        x.masked_attention(x, x, bools(&[1, 2, 2])),
        x.masked_attention(x, x, f32s(&[2, 2])),
        f32s(&[2, 4, 3]).masked_attention(
            f32s(&[2, 4, 3]),
            f32s(&[2, 4, 3]),
            bools(&[3, 4, 4]),
        ),
        x.cross_entropy(i64s(&[3])),
        x.cross_entropy(f32s(&[2])),
        x.cross_entropy(x),
        labels.cross_entropy(labels),
        x.one_hot(3, DType::F32),
        labels.one_hot(-1, DType::F32),
    ], @r"
    matmul: inner dimensions differ: the left operand is f32[2, 3], the right operand is f32[4, 5]
    matmul: the rank is 0, expected at least 1 on both sides (use `*` to scale): the left operand is f32[2, 3], the right operand is f32[]
    matmul: the dtypes are f32 and i64: the left operand is f32[2, 3], the right operand is i64[3, 2]; cast the i64 operand, as in `.cast(DType::F32)`
    matmul: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 2, 3], the right operand is f32[3, 3, 4]
    matmul: inner dimensions differ: the left operand is f32[3], the right operand is f32[4]
    layer_norm: the weight is 4, expected 3, as the last axis: operand 1 is f32[2, 3], operand 2 is f32[4], operand 3 is f32[3]
    layer_norm: the rank is 2, expected 1 for the bias: operand 1 is f32[2, 3], operand 2 is f32[3], operand 3 is f32[3, 1]
    attention: the rank is 1, expected at least 2 for the keys: operand 1 is f32[2, 3], operand 2 is f32[3], operand 3 is f32[3]
    attention: the rank is 3, expected 2 for the keys, as for the queries: operand 1 is f32[2, 3], operand 2 is f32[2, 4, 3], operand 3 is f32[2, 4, 3]
    attention: the last axis of the keys is 2, expected 3, as for the queries: operand 1 is f32[2, 3], operand 2 is f32[4, 2], operand 3 is f32[4, 5]
    causal_attention: the last axis but one of the values is 5, expected 4, as for the keys: operand 1 is f32[2, 3], operand 2 is f32[4, 3], operand 3 is f32[5, 3]
    attention: axis 0 of the values is 1, expected 2, as for the queries: operand 1 is f32[2, 4, 3], operand 2 is f32[2, 4, 3], operand 3 is f32[1, 4, 3]
    attention: the dtype is i64, expected a float: operand 1 is i64[1, 2], operand 2 is i64[1, 2], operand 3 is i64[1, 2]
    masked_attention: the last axis of the mask is 3, expected 1 or 4, as for the keys: operand 1 is f32[2, 3], operand 2 is f32[4, 3], operand 3 is f32[4, 3], operand 4 is bool[2, 3]
    masked_causal_attention: the last axis but one of the mask is 3, expected 1 or 2, as for the queries: operand 1 is f32[2, 3], operand 2 is f32[4, 3], operand 3 is f32[4, 3], operand 4 is bool[3, 1]
    masked_attention: the rank is 3, expected at most 2 for the mask: operand 1 is f32[2, 3], operand 2 is f32[2, 3], operand 3 is f32[2, 3], operand 4 is bool[1, 2, 2]
    masked_attention: the dtype is f32, expected bool for the mask: operand 1 is f32[2, 3], operand 2 is f32[2, 3], operand 3 is f32[2, 3], operand 4 is f32[2, 2]
    masked_attention: axis 0 of the mask is 3, expected 1 or 2, as for the queries: operand 1 is f32[2, 4, 3], operand 2 is f32[2, 4, 3], operand 3 is f32[2, 4, 3], operand 4 is bool[3, 4, 4]
    cross_entropy: axis 0 of the labels is 3, expected 2: the left operand is f32[2, 3], the right operand is i64[3]
    cross_entropy: the dtype is f32, expected an integer for the labels: the left operand is f32[2, 3], the right operand is f32[2]
    cross_entropy: the dtype is f32, expected an integer for the labels: the left operand is f32[2, 3], the right operand is f32[2, 3]
    cross_entropy: the dtype is i64, expected a float: the left operand is i64[2], the right operand is i64[2]
    one_hot: the dtype is f32, expected an integer: the operand is f32[2, 3]
    one_hot: `classes` cannot be -1: the operand is i64[2]
    ");
}

#[test]
fn wrong_reads_are_reported() {
    let x = &f32s(&[2, 3]);
    assert_snapshot!(mistakes![
        x.item::<f32>(),
        f32s(&[0]).item::<f32>(),
        x.to_vec::<f64>(),
        x.gt(0.0).to_vec::<f32>(),
        f32s(&[]).item::<i64>(),
        x.to_ndarray::<i64>(),
    ], @r"
    `item` needs a tensor of one element, and this is f32[2, 3]
    `item` needs a tensor of one element, and this is f32[0]
    cannot read f32[2, 3] as f64; cast it first, as in `x.cast(DType::F64)`
    cannot read bool[2, 3] as f32; cast it first, as in `x.cast(DType::F32)`
    cannot read f32[] as i64; cast it first, as in `x.cast(DType::I64)`
    cannot read f32[2, 3] as i64; cast it first, as in `x.cast(DType::I64)`
    ");
    assert!(x.try_item::<f32>().is_err());
    assert!(x.try_to_vec::<bool>().is_err());
    assert!(Tensor::try_from_vec(vec![1i64], [2]).is_err());
}

#[test]
fn wrong_arguments_of_transforms_are_reported() {
    let (x, n) = (&f32s(&[2, 3]), &i64s(&[2]));
    let pair = &(x.clone(), n.clone());
    let (_, pullback) = vjp(|x: &Tensor| (x.sin(), vec![x.cos()]), x);
    let (wrong, right) = (f32s(&[3, 2]), x.clone());
    let double = |x: &Tensor| x * 2.0;
    let sum = |x: &Tensor| x.sum(..);
    let list = |x: &Vec<Tensor>| x[0].sum(..);
    assert_snapshot!(mistakes![
        hvp(double, x, x),
        jvp(double, n, n),
        jvp(double, x, &wrong),
        jvp(list, &vec![x.clone()], &vec![]),
        pullback.call(&(wrong.clone(), vec![right.clone()])),
        pullback.call(&(right.clone(), vec![wrong.clone()])),
        pullback.call(&(right.clone(), vec![])),
        vjp(|p: &(Tensor, Tensor)| p.0.sum(..), pair),
    ], @r"
    a gradient needs a result that is a single float, and this is f32[2, 3]; sum it, or use `vjp`
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    the tangent of `argument` is f32[3, 2], expected f32[2, 3]
    the tangent has 0 leaves, expected 1
    the cotangent of `result.0` is f32[3, 2], expected f32[2, 3]
    the cotangent of `result.1[0]` is f32[3, 2], expected f32[2, 3]
    the cotangent has 1 leaf, expected 2
    `argument.1` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    ");
    // A closure is not `#[track_caller]`, so these panics point into the library.
    let said = [
        error!(grad(double)(x)),
        error!(grad(|x: &Tensor| x.argmax(0).sum(..))(x)),
        error!(grad(sum)(n)),
        error!(value_and_grad(list)(&vec![n.clone()])),
        error!(jacfwd(double)(n)),
        error!(jacrev(double)(n)),
        error!(hessian(double)(x)),
    ];
    assert_snapshot!(said.join("\n"), @r"
    a gradient needs a result that is a single float, and this is f32[2, 3]; sum it, or use `vjp`
    a gradient needs a result that is a single float, and this is i64[]; sum it, or use `vjp`
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `argument[0]` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    `argument` is i64[2], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    a gradient needs a result that is a single float, and this is f32[2, 3]; sum it, or use `vjp`
    ");
}

#[traced]
fn affine(x: &Tensor, w: &Tensor) -> Tensor {
    x.matmul(w) + 1.0
}

#[traced]
fn fallible(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let y = affine(x, w);
    Ok(y.sum_keepdims(1).squeeze(0))
}

#[traced]
fn picked(x: &Tensor, deep: bool) -> Result<Tensor> {
    if deep {
        return Ok(x.reshape([5]));
    }
    Ok(x.sum(3))
}

#[derive(Tree)]
struct Net {
    layers: Vec<Tensor>,
    steps: Tensor,
}

#[traced]
fn through(net: &Net, x: &Tensor) -> Tensor {
    (x * &net.layers[0]).sum(..)
}

#[test]
fn traced_functions_and_their_companions_give_the_same_messages() {
    let (x, w) = (&f32s(&[2, 3]), &f32s(&[4, 5]));
    let inside = panic_of(|| drop(affine(x, w)));
    assert_eq!(inside.0, panic_of(|| drop(affine::vjp(x, w))).0);
    assert_eq!(inside.0, panic_of(|| drop(affine::jvp((x, w), (x, w)))).0);
    assert_eq!(inside.0, fallible(x, w).unwrap_err().to_string());
    assert_eq!(
        inside.0,
        fallible::vjp(x, w).map(drop).unwrap_err().to_string()
    );
    let w = &f32s(&[3, 2]);
    let net = Net {
        layers: vec![x.clone()],
        steps: i64s(&[]),
    };
    let errors = [
        fallible(x, w).unwrap_err().to_string(),
        fallible::jvp((x, w), (x, w)).unwrap_err().to_string(),
        picked(x, true).unwrap_err().to_string(),
        picked::vjp(x, true).map(drop).unwrap_err().to_string(),
        picked(x, false).unwrap_err().to_string(),
        picked::jvp((x, false), x).unwrap_err().to_string(),
        panic_of(|| drop(affine::grad(x, w))).0,
        panic_of(|| drop(affine::grad(&i64s(&[2, 3]), &i64s(&[3, 2])))).0,
        panic_of(|| drop(affine::jvp((x, w), (x, x)))).0,
        panic_of(|| drop(through::grad(&net, x))).0,
    ];
    assert_snapshot!(errors.join("\n"), @r"
    squeeze: axis 0 is 2, expected 1: the operand is f32[2, 1]
    squeeze: axis 0 is 2, expected 1: the operand is f32[2, 1]
    reshape: 6 elements cannot be reshaped to [5]: the operand is f32[2, 3]
    reshape: 6 elements cannot be reshaped to [5]: the operand is f32[2, 3]
    sum: axis 3 is out of range for rank 2: the operand is f32[2, 3]
    sum: axis 3 is out of range for rank 2: the operand is f32[2, 3]
    a gradient needs a result that is a single float, and this is f32[2, 2]; sum it, or use `vjp`
    `x` is i64[2, 3], and only floats have gradients; cast it, or mark the parameter `#[nodiff]`
    the tangent of `w` is f32[2, 3], expected f32[3, 2]
    `net.steps` is i64[], and only floats have gradients; mark the field `#[nodiff]`, cast it, or mark the parameter `#[nodiff]`
    ");
}

#[test]
fn a_panic_in_a_traced_function_is_at_the_line_of_the_op() {
    let (_, file, line) = panic_of(|| drop(affine(&f32s(&[2, 3]), &f32s(&[4, 5]))));
    assert!(file.ends_with("messages.rs"), "{file}");
    assert_eq!(line_of_this_file(line).trim(), "x.matmul(w) + 1.0");
}

#[test]
fn an_error_found_by_evaluation_leaves_other_values_usable() {
    let x = f32s(&[2, 3]);
    let labels = Tensor::from([1i64, 7]);
    let before = x.exp();
    let loss = x.cross_entropy(&labels);
    let after = &loss + 1.0;
    let error = evaluate(&(before.clone(), loss.clone())).unwrap_err();
    assert_snapshot!(error, @"`cross_entropy`: label 7 at row 1 is out of range for 3 classes");
    let again = evaluate(&after).unwrap_err();
    assert_eq!(again, error);
    assert_eq!(loss.try_item::<f32>(), Err(error.clone()));
    let (text, file, line) = panic_of(|| assert!(after.item::<f32>() > 0.0));
    assert_eq!((text, line), (error.to_string(), line!() - 1));
    assert!(file.ends_with("messages.rs"), "{file}");
    assert_eq!(before.to_vec::<f32>(), [1.0; 6]);
    assert_eq!(labels.to_vec::<i64>(), [1, 7]);
    let right = x.cross_entropy(Tensor::from([1i64, 2]));
    assert!((right.item::<f32>() - 3f32.ln()).abs() < 1e-6);
    let negative = x.cross_entropy(Tensor::from([-1i64, 2]));
    assert_snapshot!(negative.try_item::<f32>().unwrap_err(), @"`cross_entropy`: label -1 at row 0 is out of range for 3 classes");
}

#[test]
fn an_index_out_of_range_is_named_with_its_position() {
    let x = f32s(&[2, 3]);
    let indices = Tensor::from([-2i64, 2]);
    let error = |y: &Tensor| evaluate(y).unwrap_err();
    assert_snapshot!(error(&x.take(&indices, 0)), @"`take`: index 2 at position 1 is out of range for an axis of length 2");
    assert_snapshot!(error(&x.scatter_add(&indices, &x, 0)), @"`scatter`: index 2 at position 1 is out of range for an axis of length 2");
    assert_snapshot!(error(&x.segment_sum(&indices, 2)), @"`segment_sum`: index 2 at position 1 is out of range for an axis of length 2");
    let refused = |f: &dyn Fn() -> Tensor| panic_of(|| drop(f())).0;
    assert_snapshot!(refused(&|| x.take(&x, 0)), @"take: the dtype is f32, expected an integer for the indices: the left operand is f32[2, 3], the right operand is f32[2, 3]");
    assert_snapshot!(refused(&|| x.take(&indices, 2)), @"take: axis 2 is out of range for rank 2: the left operand is f32[2, 3], the right operand is i64[2]");
    assert_snapshot!(refused(&|| x.row(2)), @"select_index: index 2 is out of range for axis 0, of length 2: the operand is f32[2, 3]");
}

#[test]
fn running_out_of_memory_is_an_error() {
    // More bytes than the address space of a process, but fewer than the limit for shapes.
    let x = Tensor::zeros([1 << 45], DType::F64).exp();
    assert_snapshot!(evaluate(&x).unwrap_err(), @"`exp`: cannot allocate 281474976710656 bytes");
    let sum = Tensor::ones([2, 3], DType::F64).sum(..);
    assert_eq!(sum.item::<f64>(), 6.0);
}

#[test]
fn an_optimiser_names_the_leaf_that_does_not_fit() {
    let opt = Sgd::default();
    let (x, y) = (f32s(&[2]), f32s(&[3]));
    let state = opt.init(&x);
    let (text, file, _) = panic_of(|| drop(opt.step(&x, &y, &state).0));
    assert!(file.ends_with("messages.rs"), "{file}");
    assert_snapshot!(text, @"the gradient of `parameters` is f32[3], expected f32[2]");
}

#[traced]
fn transposed(#[shape(B, B)] x: &Tensor) -> Result<Tensor> {
    Ok(x.transpose())
}

/// Makes one mistake for each variant of [`Error`].
/// Runs a function on each half of a tensor.
fn on_two_devices(f: impl Fn(&Tensor) -> Tensor) -> Result<()> {
    let mesh = Arc::new(Mesh::new("m", &[("data", 2)]).expect("a mesh"));
    let rows = ShardingSpec::split(&mesh, &[&["data"]]).expect("a spec");
    evaluate(&shard_map(f, &mesh, rows.clone(), rows)(&f32s(&[4])))
}

fn one_of_each() -> Vec<Error> {
    let x = &f32s(&[2, 3]);
    let failed = |f: &dyn Fn(&Tensor) -> Tensor| {
        let fallible = |x: &Tensor| -> Result<Tensor> { Ok(f(x)) };
        vjp(fallible, x).map(drop).unwrap_err()
    };
    let list = |x: &Vec<Tensor>| -> Result<Tensor> { Ok(x[0].clone()) };
    let double = |x: &Tensor| -> Result<Tensor> { Ok(x * 2.0) };
    vec![
        gradloom::switch(
            &Tensor::from(0i32),
            &[] as &[&dyn Fn(&Tensor) -> Result<Tensor>],
            x,
        )
        .unwrap_err(),
        failed(&|x| x.sum(2)),
        failed(&|x| x.decr_batch_dims()),
        failed(&|x| Tensor::einsum("i", &[x])),
        Tensor::try_from_vec(vec![1.0f32], [2]).unwrap_err(),
        Tensor::try_from_vec(vec![1.0f32], [1 << 62, 4]).unwrap_err(),
        Tensor::try_from_vec(vec![1.0f32], [1; 65]).unwrap_err(),
        failed(&|x| x * x.dim(2)),
        x.try_to_vec::<i64>().unwrap_err(),
        x.try_item::<f32>().unwrap_err(),
        evaluate(&x.cross_entropy(Tensor::from([3i64, 0]))).unwrap_err(),
        evaluate(&x.take(Tensor::from([2i64]), 0)).unwrap_err(),
        evaluate(&(i64s(&[1]) / Tensor::zeros([1], DType::I64))).unwrap_err(),
        evaluate(&(Tensor::zeros([1 << 45], DType::F64) + 1.0)).unwrap_err(),
        transposed(x).unwrap_err(),
        grad(double)(&i64s(&[])).unwrap_err(),
        grad(double)(x).unwrap_err(),
        jvp(double, x, &f32s(&[3])).unwrap_err(),
        jvp(list, &vec![x.clone()], &vec![]).unwrap_err(),
        failed(&|x| gradloom::tree::dot(&vec![x.clone()], &vec![])),
        failed(&|x| {
            let groups = Sgd::default().group(["w"], Frozen);
            groups.step(x, x, &groups.init(x)).0
        }),
        evaluate(&x.take(i64s(&[2]).zeros_like() + 7, 0)).unwrap_err(),
        vmap(|x: &Tensor| Ok(x * x.sum(..).try_item::<f32>()?))(x).unwrap_err(),
        vmap(|x: &Tensor| Ok(x * 2.0))(&f32s(&[])).unwrap_err(),
        trace(|x: &Tensor| Ok(x * x.sum(..).try_item::<f32>()?), x).unwrap_err(),
        gradloom::trace::parse("").unwrap_err(),
        gradloom::detect_anomaly(|| failed(&|x| (x * 0.0).log())),
        Error::of_host("solver", "no convergence"),
        Tensor::try_from_le_bytes(DType::F64, &[0; 12], [2]).unwrap_err(),
        x.sum(..).backward().unwrap_err(),
        failed(&|x| gradloom::sharding::all_reduce(x, "data", Reduction::Sum)),
        on_two_devices(|x| x.take(Tensor::from([7i64]), 0)).unwrap_err(),
    ]
}

#[test]
fn every_error_variant_has_a_test() {
    let source = include_str!("../../../core/src/error.rs");
    let (_, variants) = source
        .split_once("pub enum Error {")
        .expect("the source declares the enum");
    let (variants, _) = variants.split_once("\n}").expect("the enum ends");
    let declared: Vec<&str> = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        // A separate test covers this variant by forking the process.
        .filter(|line| !line.starts_with("Forked"))
        .collect();
    let made: HashSet<_> = one_of_each().iter().map(std::mem::discriminant).collect();
    assert_eq!(made.len(), declared.len(), "{declared:#?}");
}
