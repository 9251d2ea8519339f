//! The shape and dtype rules of reductions, products, constants, losses and norms.
//!
//! The operands have known, named or unknown dims.

use gradloom_ir::{Aval, DType, Dim, Op, Shape, Static, Symbol};

/// Parses `f32[2, B, ?]`, `i64[]`, `f32[..]` or `?[..]`.
fn aval(text: &str) -> Aval {
    let (dtype, dims) = text.split_once('[').expect("an aval has brackets");
    let dims = dims.strip_suffix(']').expect("an aval has brackets");
    let dim = |d: &str| match d {
        "?" => Dim::Unknown,
        _ => d
            .parse()
            .map_or_else(|_| Dim::Named(Symbol::new(d)), Dim::Known),
    };
    Aval {
        dtype: DType::from_name(dtype),
        shape: match dims {
            ".." => Shape::UNKNOWN,
            "" => Shape::scalar(),
            _ => Shape(Some(dims.split(", ").map(dim).collect())),
        },
    }
}

fn infer(op: &str, statics: &[Static], args: &[&str]) -> String {
    let op = Op::from_name(op).unwrap_or_else(|| panic!("there is no op `{op}`"));
    let args: Vec<Aval> = args.iter().map(|a| aval(a)).collect();
    match op.infer(statics, &args.iter().collect::<Vec<_>>(), 1) {
        Ok(outs) => outs[0].to_string(),
        Err(error) => error.to_string(),
    }
}

/// Checks rows of op, static arguments, operands (data, then like), and result or error message.
fn check(rows: &[(&str, &[Static], &[&str], &str)]) {
    for (op, statics, args, expected) in rows {
        let found = infer(op, statics, args);
        assert_eq!(found, *expected, "{op}{statics:?} {args:?}");
    }
}

fn host() -> Static {
    Static::Host("n".into())
}

const KEEP: Static = Static::Bool(true);
const DROP: Static = Static::Bool(false);
const LAST: Static = Static::Int(-1);

#[test]
fn reductions_drop_or_keep_their_axes() {
    let two = || Static::Ints(vec![0, -1]);
    check(&[
        (
            "sum",
            &[two(), DROP],
            &["f32[2, B, 4]", "f32[2, B, 4]"],
            "f32[B]",
        ),
        (
            "sum",
            &[Static::All, DROP],
            &["i32[2, 0]", "i32[2, 0]"],
            "i32[]",
        ),
        (
            "sum",
            &[Static::All, DROP],
            &["f32[..]", "f32[..]"],
            "f32[]",
        ),
        (
            "mean",
            &[two(), KEEP],
            &["f32[2, B, 4]", "f32[2, B, 4]"],
            "f32[1, B, 1]",
        ),
        ("mean", &[Static::All, DROP], &["f64[]", "f64[]"], "f64[]"),
        ("mean", &[LAST, DROP], &["f64[2, 0]", "f64[2, 0]"], "f64[2]"),
        (
            "mean",
            &[host(), KEEP],
            &["f32[2, B]", "f32[2, B]"],
            "f32[?, ?]",
        ),
        (
            "mean",
            &[host(), DROP],
            &["f32[2, B]", "f32[2, B]"],
            "f32[..]",
        ),
        ("mean", &[LAST, DROP], &["?[..]", "?[..]"], "?[..]"),
        (
            "mean",
            &[LAST, DROP],
            &["i64[2]", "i64[2]"],
            "mean: the dtype is i64, expected a float: the operand is i64[2]",
        ),
        (
            "mean",
            &[Static::Int(2), DROP],
            &["f32[2, 3]", "f32[2, 3]"],
            "mean: axis 2 is out of range for rank 2: the operand is f32[2, 3]",
        ),
        (
            "mean",
            &[Static::Ints(vec![1, -1]), DROP],
            &["f32[2, 3]", "f32[2, 3]"],
            "mean: axis -1 is named twice: the operand is f32[2, 3]",
        ),
        (
            "mean_t",
            &[LAST, DROP],
            &["f32[2]", "f32[2, 3]"],
            "f32[2, 3]",
        ),
        ("logsumexp", &[two(), DROP], &["f32[2, B, 0]"], "f32[B]"),
    ]);
}

#[test]
fn an_extremum_needs_an_element() {
    check(&[
        ("max", &[Static::Int(0), DROP], &["i32[2, 0]"], "i32[0]"),
        ("max", &[LAST, KEEP], &["f32[2, ?]"], "f32[2, 1]"),
        ("min", &[host(), DROP], &["f32[0]"], "f32[..]"),
        (
            "max",
            &[LAST, DROP],
            &["f32[2, 0]"],
            "max: axis 1 has length 0, and the maximum or minimum of no elements is not defined: the operand is f32[2, 0]",
        ),
        ("min", &[Static::All, DROP], &["bool[2]"], "bool[]"),
        ("argmax", &[LAST, DROP], &["f32[2, B]"], "i64[2]"),
        ("argmin", &[Static::Int(0), KEEP], &["?[2, B]"], "i64[1, B]"),
        ("argmax", &[Static::All, DROP], &["f32[2]"], "i64[]"),
        (
            "argmin",
            &[LAST, DROP],
            &["f32[0]"],
            "argmin: axis 0 has length 0, and the maximum or minimum of no elements is not defined: the operand is f32[0]",
        ),
    ]);
}

#[test]
fn scans_and_orders_name_a_wrong_dtype_and_a_wrong_axis() {
    check(&[
        ("cumsum", &[LAST, DROP], &["f32[2, B]"], "f32[2, B]"),
        (
            "cumsum",
            &[Static::Int(2), DROP],
            &["f32[2, 3]"],
            "cumsum: axis 2 is out of range for rank 2: the operand is f32[2, 3]",
        ),
        (
            "any",
            &[LAST, DROP],
            &["f32[2]"],
            "any: the dtype is f32, expected `bool`: the operand is f32[2]",
        ),
        (
            "var",
            &[LAST, DROP, Static::Int(1)],
            &["f32[2, B]"],
            "f32[2]",
        ),
        (
            "top_k",
            &[Static::Int(3), LAST],
            &["f32[2]"],
            "top_k: the length of axis 0 is 2, expected at least 3: the operand is f32[2]",
        ),
        ("diag", &[Static::Int(-1)], &["f32[B]"], "f32[B + 1, B + 1]"),
        (
            "diagonal",
            &[Static::Int(0)],
            &["f32[3, B, B]", "f32[3, B, B]"],
            "f32[3, B]",
        ),
        (
            "tril",
            &[Static::Int(0)],
            &["f32[3]"],
            "tril: the rank is 1, expected at least 2: the operand is f32[3]",
        ),
        (
            "pad",
            &[
                Static::Int(-2),
                Static::Int(0),
                Static::Int(0),
                Static::Float(0.0),
            ],
            &["f32[1]"],
            "pad: the length of axis 0 with its padding is -1, expected at least 0: the operand is f32[1]",
        ),
    ]);
}

#[test]
fn a_matrix_product_takes_vectors_matrices_and_batches() {
    let rows = [
        ("f32[2, 3]", "f32[3, 4]", "f32[2, 4]"),
        ("f32[3]", "f32[3, 4]", "f32[4]"),
        ("f32[2, 3]", "f32[3]", "f32[2]"),
        ("f32[3]", "f32[3]", "f32[]"),
        ("f32[2, 1, 2, 3]", "f32[3, 3, 2]", "f32[2, 3, 2, 2]"),
        ("f32[3]", "f32[5, 3, 2]", "f32[5, 2]"),
        ("f32[5, 2, 3]", "f32[3]", "f32[5, 2]"),
        ("i32[2, 0]", "i32[0, 3]", "i32[2, 3]"),
        ("f32[B, I]", "f32[I, O]", "f32[B, O]"),
        ("f32[B, I]", "f32[3, O]", "f32[B, O]"),
        ("f32[B, I]", "f32[J, O]", "f32[B, O]"),
        ("f32[?, 2, 3]", "f32[B, 3, 2]", "f32[?, 2, 2]"),
        ("f32[..]", "f32[3, 2]", "f32[..]"),
        ("?[2, 3]", "f64[3, 2]", "f64[2, 2]"),
        (
            "f32[2, 3]",
            "f32[4, 2]",
            "matmul: inner dimensions differ: the left operand is f32[2, 3], the right operand is f32[4, 2]",
        ),
        (
            "f32[2, 2, 3]",
            "f32[3, 3, 2]",
            "matmul: axis 0 is 2 on the left and 3 on the right: the left operand is f32[2, 2, 3], the right operand is f32[3, 3, 2]",
        ),
        (
            "f32[]",
            "f32[..]",
            "matmul: the rank is 0, expected at least 1 on both sides (use `*` to scale): the left operand is f32[], the right operand is f32[..]",
        ),
        (
            "f32[2, 3]",
            "f64[3, 2]",
            "matmul: the dtypes are f32 and f64: the left operand is f32[2, 3], the right operand is f64[3, 2]; cast the f32 operand, as in `.cast(DType::F64)`",
        ),
    ];
    for (x, y, expected) in rows {
        check(&[("matmul", &[], &[x, y, x, y], expected)]);
    }
    let [c, x, y] = ["f32[2, 3, 2, 2]", "f32[2, 1, 2, 3]", "f32[3, 3, 2]"];
    check(&[
        ("matmul_lhs_t", &[], &[c, y, x, y], x),
        ("matmul_rhs_t", &[], &[x, c, x, y], y),
    ]);
}

#[test]
fn constants_take_their_shape_from_static_arguments() {
    let f32 = || Static::DType(DType::F32);
    let shape = |dims: &[i64]| Static::Ints(dims.to_vec());
    check(&[
        (
            "full",
            &[shape(&[2, 0]), Static::Float(0.1), f32()],
            &[],
            "f32[2, 0]",
        ),
        ("full", &[shape(&[]), Static::Int(1), f32()], &[], "f32[]"),
        (
            "full",
            &[Static::Int(3), Static::Int(1), f32()],
            &[],
            "f32[3]",
        ),
        ("full", &[host(), host(), host()], &[], "?[..]"),
        (
            "full",
            &[shape(&[2, -1]), Static::Int(1), f32()],
            &[],
            "full: `shape` cannot be [2, -1]",
        ),
        (
            "full",
            &[shape(&[2]), Static::Float(1.5), Static::DType(DType::I32)],
            &[],
            "full: 1.5 is not a value of i32; give a float dtype",
        ),
        (
            "iota",
            &[Static::Int(4), Static::DType(DType::I64)],
            &[],
            "i64[4]",
        ),
        ("iota", &[host(), f32()], &[], "f32[?]"),
        (
            "iota",
            &[Static::Int(-1), f32()],
            &[],
            "arange: `len` cannot be -1",
        ),
        (
            "full",
            &[
                Static::Int(1),
                Static::Int(i64::MAX),
                Static::DType(DType::I64),
            ],
            &[],
            "i64[1]",
        ),
        (
            "full",
            &[
                Static::Int(1),
                Static::Float(9.25e18),
                Static::DType(DType::I64),
            ],
            &[],
            "full: 9.25e18 is not a value of i64; give a float dtype",
        ),
        (
            "iota",
            &[Static::Int(1), Static::DType(DType::Bool)],
            &[],
            "arange: the dtype is bool, expected a number",
        ),
    ]);
}

#[test]
fn labels_fit_the_rows() {
    let f32 = || Static::DType(DType::F32);
    check(&[
        (
            "one_hot",
            &[Static::Int(3), f32(), Static::Bool(false)],
            &["i64[2, B]"],
            "f32[2, B, 3]",
        ),
        (
            "one_hot",
            &[host(), f32(), Static::Bool(false)],
            &["i32[]"],
            "f32[?]",
        ),
        (
            "one_hot",
            &[Static::Int(3), f32(), Static::Bool(false)],
            &["f32[2]"],
            "one_hot: the dtype is f32, expected an integer: the operand is f32[2]",
        ),
        (
            "cross_entropy_grad",
            &[],
            &["f64[?, 3]", "i64[2]"],
            "f64[2, 3]",
        ),
        ("cross_entropy", &[], &["f32[B, 10]", "i64[B]"], "f32[]"),
        ("cross_entropy", &[], &["f32[B, 10]", "i64[A]"], "f32[]"),
        ("cross_entropy", &[], &["f64[10]", "i32[]"], "f64[]"),
        ("cross_entropy", &[], &["?[..]", "i32[4]"], "?[]"),
        (
            "cross_entropy",
            &[],
            &["f32[4, 10]", "i64[5]"],
            "cross_entropy: axis 0 of the labels is 5, expected 4: the left operand is f32[4, 10], the right operand is i64[5]",
        ),
        (
            "cross_entropy",
            &[],
            &["f32[4, 10]", "i64[4, 10]"],
            "cross_entropy: the rank is 2, expected 3, one more than that of the labels: the left operand is f32[4, 10], the right operand is i64[4, 10]",
        ),
        (
            "cross_entropy",
            &[],
            &["f32[4, 10]", "f32[4]"],
            "cross_entropy: the dtype is f32, expected an integer for the labels: the left operand is f32[4, 10], the right operand is f32[4]",
        ),
        (
            "cross_entropy",
            &[],
            &["f32[]", "i64[]"],
            "cross_entropy: the rank is 0, expected at least 1: the left operand is f32[], the right operand is i64[]",
        ),
    ]);
}

#[test]
fn softmax_and_norms_keep_the_shape() {
    let eps = || Static::Float(1e-5);
    check(&[
        ("softmax", &[LAST], &["f32[B, 3]"], "f32[B, 3]"),
        ("log_softmax", &[Static::Int(0)], &["f64[0]"], "f64[0]"),
        ("softmax", &[host()], &["f64[]"], "f64[]"),
        (
            "softmax",
            &[LAST],
            &["f64[]"],
            "softmax: axis -1 is out of range for rank 0: the operand is f64[]",
        ),
        (
            "log_softmax",
            &[LAST],
            &["i32[2]"],
            "log_softmax: the dtype is i32, expected a float: the operand is i32[2]",
        ),
        (
            "normalize",
            &[Static::All, eps()],
            &["f32[B, 3]"],
            "f32[B, 3]",
        ),
        ("inv_std", &[LAST, eps()], &["f32[B, 3]"], "f32[B, 1]"),
        (
            "inv_std",
            &[LAST, Static::All],
            &["f32[B, 3]"],
            "inv_std: `eps` cannot be `..`: the operand is f32[B, 3]",
        ),
        (
            "softmax_t",
            &[LAST],
            &["f32[B, ?]", "f32[?, 3]"],
            "f32[B, 3]",
        ),
        (
            "softmax_t",
            &[LAST],
            &["f32[2, 3]", "f32[2, 4]"],
            "softmax_t: axis 1 is 4, expected 3: the left operand is f32[2, 3], the right operand is f32[2, 4]",
        ),
        (
            "normalize_t",
            &[LAST],
            &["f32[B, 3]", "f32[B, ?]", "f32[?, 1]"],
            "f32[B, 3]",
        ),
        ("rms_norm", &[eps()], &["f32[B, ?]", "f32[3]"], "f32[B, 3]"),
        (
            "rms_norm",
            &[eps()],
            &["f32[2, 3]", "f32[2]"],
            "rms_norm: the weight is 2, expected 3, as the last axis: the left operand is f32[2, 3], the right operand is f32[2]",
        ),
        (
            "attention",
            &[Static::Bool(false)],
            &["f32[?, T, 4]", "f32[B, S, ?]", "f32[B, ?, E]"],
            "f32[B, T, E]",
        ),
        (
            "attention",
            &[Static::Bool(true)],
            &["f32[..]", "f32[B, S, 4]", "f32[C, T, E]"],
            "f32[B, ?, E]",
        ),
        (
            "attention",
            &[Static::Bool(true)],
            &["f32[..]", "f32[2, S, 4]", "f32[3, S, E]"],
            "causal_attention: axis 0 of the values is 3, expected 2, as for the keys: operand 1 is f32[..], operand 2 is f32[2, S, 4], operand 3 is f32[3, S, E]",
        ),
        (
            "attention",
            &[Static::Bool(true)],
            &["f32[B, T, 4]", "f32[B, S, 4]", "f32[B, S, E]", "bool[1, S]"],
            "f32[B, T, E]",
        ),
        (
            "attention",
            &[Static::Bool(false)],
            &["f32[B, 2, 4]", "f32[B, S, 4]", "f32[B, S, E]", "bool[B, ?]"],
            "f32[B, 2, E]",
        ),
        (
            "attention",
            &[Static::Bool(false)],
            &["f32[B, T, 4]", "f32[B, 3, 4]", "f32[B, ?, E]", "bool[T, 2]"],
            "masked_attention: the last axis of the mask is 2, expected 1 or 3, as for the keys: operand 1 is f32[B, T, 4], operand 2 is f32[B, 3, 4], operand 3 is f32[B, ?, E], operand 4 is bool[T, 2]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[B, ?]", "f32[3]", "f32[C]"],
            "f32[B, 3]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[..]", "f32[3]", "?[..]"],
            "f32[..]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[2, 3]", "f32[3]", "f32[2]"],
            "layer_norm: the bias is 2, expected 3, as the last axis: operand 1 is f32[2, 3], operand 2 is f32[3], operand 3 is f32[2]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[..]", "f32[3]", "f32[2]"],
            "layer_norm: the bias is 2, expected 3, as the last axis: operand 1 is f32[..], operand 2 is f32[3], operand 3 is f32[2]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[2, 3]", "f32[1, 3]", "f32[3]"],
            "layer_norm: the rank is 2, expected 1 for the weight: operand 1 is f32[2, 3], operand 2 is f32[1, 3], operand 3 is f32[3]",
        ),
        (
            "layer_norm",
            &[eps()],
            &["f32[2, 3]", "f32[3]", "f64[3]"],
            "layer_norm: the dtypes are f32 and f64: operand 1 is f32[2, 3], operand 2 is f32[3], operand 3 is f64[3]; cast the f32 operand, as in `.cast(DType::F64)`",
        ),
    ]);
}
