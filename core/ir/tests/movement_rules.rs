//! The shape rules of ops that move elements, for known, named and unknown dims.

use gradloom_ir::{Aval, Program, Static};

/// Checks rows of parameters, an equation, and the avals of its results or the error message.
fn check(rows: &[(&str, &str, &str)]) {
    for (params, eqn, expected) in rows {
        let outs = eqn
            .split_once(" = ")
            .expect("an equation binds something")
            .0;
        let text = format!("({params}) {{ {eqn} return {outs} }}");
        let program: Program = text.parse().unwrap_or_else(|e| panic!("{text}\n{e}"));
        let eqn = &program.eqns[0];
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let args: Vec<&Aval> = eqn.args.iter().map(|v| program.aval(*v)).collect();
        let found = match eqn.op.infer(&statics, &args, eqn.outs.len()) {
            Ok(outs) => outs
                .iter()
                .map(Aval::to_string)
                .collect::<Vec<_>>()
                .join(", "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn axes_are_reordered() {
    check(&[
        ("x: f32[2, B, ?]", "y = transpose x", "f32[?, B, 2]"),
        ("x: bool[..]", "y = transpose x", "bool[..]"),
        (
            "x: f32[2, B, 4]",
            "y = permute[axes=[2, 0, -2]] x",
            "f32[4, 2, B]",
        ),
        (
            "x: f32[2, B, 4]",
            "y = permute_t[axes=[2, 0, -2]] x",
            "f32[B, 4, 2]",
        ),
        ("x: f32[2, B]", "y = permute[axes=`order`] x", "f32[?, ?]"),
        ("x: ?[..]", "y = permute[axes=[1, 0]] x", "?[..]"),
        (
            "x: f32[2, 3]",
            "y = permute[axes=[0]] x",
            "permute: the rank is 2, expected 1, the number of `axes`: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, 3]",
            "y = permute[axes=[0, -2]] x",
            "permute: axis -2 is named twice: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, 3]",
            "y = permute[axes=[0, 2]] x",
            "permute: axis 2 is out of range for rank 2: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, 3]",
            "y = permute[axes=all] x",
            "permute: `axes` cannot be `..`: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, B, 4]",
            "y = swap_axes[a=0, b=-1] x",
            "f32[4, B, 2]",
        ),
        ("x: f32[2, B]", "y = swap_axes[a=`a`, b=0] x", "f32[?, ?]"),
        (
            "x: f32[2, 3]",
            "y = swap_axes[a=0, b=2] x",
            "swap_axes: axis 2 is out of range for rank 2: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, 3, B, 5]",
            "y = moveaxis[from=0, to=2] x",
            "f32[3, B, 2, 5]",
        ),
        (
            "x: f32[2, 3, B, 5]",
            "y = moveaxis[from=-1, to=1] x",
            "f32[2, 5, 3, B]",
        ),
        (
            "x: f32[]",
            "y = moveaxis[from=0, to=0] x",
            "moveaxis: axis 0 is out of range for rank 0: the operand is f32[]",
        ),
        (
            "x: f32[2]",
            "y = moveaxis[from=[0], to=0] x",
            "moveaxis: `from` cannot be [0]: the operand is f32[2]",
        ),
    ]);
}

#[test]
fn a_reshape_keeps_the_number_of_elements() {
    check(&[
        (
            "x: f32[2, 6]",
            "y = reshape[shape=[3, -1]] x, like x",
            "f32[3, 4]",
        ),
        ("x: f32[]", "y = reshape[shape=-1] x, like x", "f32[1]"),
        (
            "x: f32[2, 0]",
            "y = reshape[shape=[0, 5]] x, like x",
            "f32[0, 5]",
        ),
        (
            "x: f32[2, 0]",
            "y = reshape[shape=[2, -1]] x, like x",
            "f32[2, 0]",
        ),
        (
            "x: f32[B, 2, 3]",
            "y = reshape[shape=[-1, 6]] x, like x",
            "f32[B, 6]",
        ),
        (
            "x: f32[B, 2, 3]",
            "y = reshape[shape=[-1, 3]] x, like x",
            "f32[2*B, 3]",
        ),
        (
            "x: f32[B, C]",
            "y = reshape[shape=[-1]] x, like x",
            "f32[B*C]",
        ),
        (
            "x: f32[?, 4]",
            "y = reshape[shape=[-1, 2]] x, like x",
            "f32[?, 2]",
        ),
        (
            "x: f32[B, 3]",
            "y = reshape[shape=[-1, 2]] x, like x",
            "f32[?, 2]",
        ),
        (
            "x: f32[2*B + 1, 3]",
            "y = reshape[shape=[-1, 2]] x, like x",
            "reshape: 6*B + 3 elements cannot be reshaped to [-1, 2]: the operand is f32[2*B + 1, 3]",
        ),
        (
            "x: f32[B, 4]",
            "y = reshape[shape=[2, 3]] x, like x",
            "reshape: 4*B elements cannot be reshaped to [2, 3]: the operand is f32[B, 4]",
        ),
        (
            "x: f32[?, 4]",
            "y = reshape[shape=[3]] x, like x",
            "reshape: these elements cannot be reshaped to [3]: the operand is f32[?, 4]",
        ),
        (
            "x: f32[B, 4]",
            "y = reshape[shape=[2, 6]] x, like x",
            "f32[2, 6]",
        ),
        (
            "x: f32[..]",
            "y = reshape[shape=[-1, 3]] x, like x",
            "f32[?, 3]",
        ),
        (
            "x: f32[2, 3]",
            "y = reshape[shape=`s`] x, like x",
            "f32[..]",
        ),
        (
            "y: f32[3, 4], x: f32[2, 6]",
            "z = reshape_t[shape=[3, -1]] y, like x",
            "f32[2, 6]",
        ),
        (
            "x: f32[2, 3]",
            "y = reshape[shape=[4]] x, like x",
            "reshape: 6 elements cannot be reshaped to [4]: the operand is f32[2, 3]",
        ),
        (
            "x: f32[2, 3]",
            "y = reshape[shape=[4, -1]] x, like x",
            "reshape: 6 elements cannot be reshaped to [4, -1]: the operand is f32[2, 3]",
        ),
        (
            "x: f32[0]",
            "y = reshape[shape=[0, -1]] x, like x",
            "reshape: 0 elements cannot be reshaped to [0, -1]: the operand is f32[0]",
        ),
        (
            "x: f32[2]",
            "y = reshape[shape=[-1, -1]] x, like x",
            "reshape: [-1, -1] is not a shape: dims are 0 or more, and at most one is -1 (to be inferred): the operand is f32[2]",
        ),
        (
            "x: f32[2]",
            "y = reshape[shape=[-2]] x, like x",
            "reshape: [-2] is not a shape: dims are 0 or more, and at most one is -1 (to be inferred): the operand is f32[2]",
        ),
        (
            "x: f32[2]",
            "y = reshape[shape=[9223372036854775807, 4, 2]] x, like x",
            "reshape: 2 elements cannot be reshaped to [9223372036854775807, 4, 2]: the operand is f32[2]",
        ),
        (
            "x: f32[..]",
            "y = reshape[shape=[9223372036854775807, 4]] x, like x",
            "reshape: [9223372036854775807, 4] has more elements than can be addressed: the operand is f32[..]",
        ),
    ]);
}

/// Row S1.44 of the requirements.
#[test]
fn squeeze_unsqueeze_and_broadcast_add_and_remove_axes_of_length_1() {
    check(&[
        ("x: f32[1, B, 1]", "y = squeeze[axes=[0, -1]] x", "f32[B]"),
        ("x: f32[1, B]", "y = squeeze[axes=1] x", "f32[1]"),
        ("x: f32[1, B]", "y = squeeze[axes=`a`] x", "f32[..]"),
        (
            "x: f32[1, 3]",
            "y = squeeze[axes=[1]] x",
            "squeeze: axis 1 is 3, expected 1: the operand is f32[1, 3]",
        ),
        (
            "x: f32[1, 3]",
            "y = squeeze[axes=2] x",
            "squeeze: axis 2 is out of range for rank 2: the operand is f32[1, 3]",
        ),
        (
            "x: f32[1]",
            "y = squeeze[axes=all] x",
            "squeeze: `axes` cannot be `..`: the operand is f32[1]",
        ),
        (
            "x: f32[2, B]",
            "y = unsqueeze[axes=[0, -1]] x",
            "f32[1, 2, B, 1]",
        ),
        ("x: f32[]", "y = unsqueeze[axes=-1] x", "f32[1]"),
        (
            "x: f32[2]",
            "y = unsqueeze[axes=2] x",
            "unsqueeze: axis 2 is out of range for rank 2: the operand is f32[2]",
        ),
        (
            "x: f32[2]",
            "y = unsqueeze[axes=[0, -3]] x",
            "unsqueeze: axis -3 is named twice: the operand is f32[2]",
        ),
        (
            "x: f32[B, 1]",
            "y = broadcast_to[shape=[4, 2, 3]] x",
            "f32[4, 2, 3]",
        ),
        ("x: f32[1]", "y = broadcast_to[shape=[0]] x", "f32[0]"),
        ("x: f32[..]", "y = broadcast_to[shape=2] x", "f32[2]"),
        ("x: f32[2]", "y = broadcast_to[shape=`s`] x", "f32[..]"),
        (
            "x: f32[2]",
            "y = broadcast_to[shape=[2, 3]] x",
            "broadcast_to: the operand does not broadcast to [2, 3]: the operand is f32[2]",
        ),
        (
            "x: f32[2, 1]",
            "y = broadcast_to[shape=[2]] x",
            "broadcast_to: the operand does not broadcast to [2]: the operand is f32[2, 1]",
        ),
        (
            "x: f32[2]",
            "y = broadcast_to[shape=[1]] x",
            "broadcast_to: the operand does not broadcast to [1]: the operand is f32[2]",
        ),
        (
            "x: f32[2]",
            "y = broadcast_to[shape=[-1]] x",
            "broadcast_to: `shape` cannot be [-1]: the operand is f32[2]",
        ),
    ]);
}

#[test]
fn a_slice_has_the_length_of_its_range_and_lies_inside_its_operand() {
    let end = i64::MAX;
    let rows = [
        ("f32[5, B]", "[1]", format!("[{end}]"), "[2]", "f32[2, B]"),
        (
            "f32[5, B]",
            "[-4, 0]",
            format!("[-1, {end}]"),
            "[1, 1]",
            "f32[3, B]",
        ),
        ("f32[5]", "[5]", "[5]".into(), "[3]", "f32[0]"),
        ("f32[0]", "[0]", format!("[{end}]"), "[1]", "f32[0]"),
        ("f32[]", "[]", "[]".into(), "[]", "f32[]"),
        ("f32[B]", "[2]", "[6]".into(), "[3]", "f32[2]"),
        ("f32[B]", "[-3]", format!("[{end}]"), "[2]", "f32[2]"),
        ("f32[B]", "[-3]", "[-1]".into(), "[1]", "f32[2]"),
        ("f32[B]", "[1]", format!("[{end}]"), "[1]", "f32[B - 1]"),
        ("f32[B]", "[0]", format!("[{end}]"), "[2]", "f32[?]"),
        ("f32[B]", "[0]", "[-1]".into(), "[1]", "f32[B - 1]"),
        ("f32[2*B]", "[0]", format!("[{end}]"), "[2]", "f32[B]"),
        ("f32[?]", "[1]", format!("[{end}]"), "[1]", "f32[?]"),
        (
            "f32[B]",
            "[4]",
            "[2]".into(),
            "[1]",
            "slice: 4..2 does not lie in axis 0, which has length B: the operand is f32[B]",
        ),
        ("f32[5, 6]", "`i`", "[3]".into(), "[1]", "f32[?, ?]"),
        ("f32[..]", "[0]", "[3]".into(), "[1]", "f32[..]"),
        (
            "f32[5]",
            "[1]",
            "[6]".into(),
            "[1]",
            "slice: 1..6 does not lie in axis 0, which has length 5: the operand is f32[5]",
        ),
        (
            "f32[2, 5]",
            "[0, 6]",
            format!("[1, {end}]"),
            "[1, 1]",
            "slice: 6..5 does not lie in axis 1, which has length 5: the operand is f32[2, 5]",
        ),
        (
            "f32[5]",
            "[-6]",
            "[-1]".into(),
            "[1]",
            "slice: -6..-1 does not lie in axis 0, which has length 5: the operand is f32[5]",
        ),
        (
            "f32[5]",
            "[3]",
            "[2]".into(),
            "[1]",
            "slice: 3..2 does not lie in axis 0, which has length 5: the operand is f32[5]",
        ),
        (
            "f32[5]",
            "[0]",
            "[2]".into(),
            "[0]",
            "slice: the step is 0, expected another number: the operand is f32[5]",
        ),
        (
            "f32[5]",
            "[0]",
            "[2]".into(),
            "[-1]",
            "slice: 0..2 by -1 does not run down inside of axis 0, which has length 5: the operand is f32[5]",
        ),
        (
            "f32[5]",
            "[0, 0]",
            "[1, 1]".into(),
            "[1, 1]",
            "slice: the rank is 1, expected at least 2, the number of `starts`: the operand is f32[5]",
        ),
        (
            "f32[5]",
            "[0]",
            "[1, 1]".into(),
            "[1]",
            "slice: the number of `stops` is 2, expected 1, the number of `starts`: the operand is f32[5]",
        ),
    ];
    for (x, starts, stops, steps, expected) in rows {
        let eqn = format!("y = slice[starts={starts}, stops={stops}, steps={steps}] x, like x");
        check(&[(&format!("x: {x}"), &eqn, expected)]);
    }
    check(&[(
        "y: f32[2], x: f32[5]",
        "z = slice_t[starts=[1], stops=[5], steps=[2]] y, like x",
        "f32[5]",
    )]);
}

#[test]
fn a_part_has_as_many_axes_as_starts_even_if_its_sizes_are_unknown() {
    check(&[
        (
            "x: f32[B, 4], s: i64[1]",
            "y = dynamic_slice[sizes=`n`] x, s",
            "f32[?, ?]",
        ),
        (
            "x: f32[B], s: i64[2]",
            "y = dynamic_slice[sizes=`n`] x, s",
            "dynamic_slice: the rank is 1, expected at least 2, the number of `starts`: \
             the left operand is f32[B], the right operand is i64[2]",
        ),
        (
            "x: f32[], s: i64[]",
            "y = dynamic_slice[sizes=`n`] x, s",
            "dynamic_slice: the rank is 0, expected at least 1, the number of `starts`: \
             the left operand is f32[], the right operand is i64[]",
        ),
        (
            "x: f32[..], s: i64[1]",
            "y = dynamic_slice[sizes=[2, 3]] x, s",
            "dynamic_slice: the number of `starts` is 1, expected 2, the number of `sizes`: \
             the left operand is f32[..], the right operand is i64[1]",
        ),
    ]);
}

#[test]
fn joined_operands_agree_in_the_other_axes() {
    check(&[
        (
            "x: f32[2, 3], y: f32[4, 3]",
            "z = concat[axis=0] x, y, like x, like y",
            "f32[6, 3]",
        ),
        (
            "x: f32[2, B], y: f32[2, B]",
            "z = concat[axis=-1] x, y, like x, like y",
            "f32[2, 2*B]",
        ),
        (
            "x: f32[2, B], y: f32[?, 3]",
            "z = concat[axis=0] x, y, like x, like y",
            "f32[?, 3]",
        ),
        (
            "x: f32[..], y: f32[4, 3]",
            "z = concat[axis=0] x, y, like x, like y",
            "f32[?, 3]",
        ),
        (
            "x: f32[2, B], y: f32[1, B]",
            "z = concat[axis=0] x, y, x, like x, like y, like x",
            "f32[5, B]",
        ),
        (
            "x: f32[B], y: f32[1]",
            "z = concat[axis=0] x, y, like x, like y",
            "f32[B + 1]",
        ),
        (
            "x: f32[2, B], y: f32[2, B + 1]",
            "z = concat[axis=0] x, y, like x, like y",
            "concat: axis 1 of operand 2 is B + 1, expected B, as in operand 1: operand 1 is f32[2, B], operand 2 is f32[2, B + 1]",
        ),
        ("x: f32[2, B]", "z = concat[axis=1] x, like x", "f32[2, B]"),
        (
            "x: f32[2, 3], y: f32[2, 3]",
            "z = concat[axis=`a`] x, y, like x, like y",
            "f32[?, ?]",
        ),
        (
            "x: f32[2, 3], y: f32[2, 4]",
            "z = concat[axis=0] x, y, like x, like y",
            "concat: axis 1 of operand 2 is 4, expected 3, as in operand 1: operand 1 is f32[2, 3], operand 2 is f32[2, 4]",
        ),
        (
            "x: f32[2, 3], y: f32[2]",
            "z = concat[axis=0] x, y, like x, like y",
            "concat: the rank is 1, expected 2, as in operand 1: operand 1 is f32[2, 3], operand 2 is f32[2]",
        ),
        (
            "x: f32[2], y: f64[2]",
            "z = concat[axis=0] x, y, like x, like y",
            "concat: the dtypes are f32 and f64: operand 1 is f32[2], operand 2 is f64[2]; cast the f32 operand, as in `.cast(DType::F64)`",
        ),
        (
            "x: f32[]",
            "z = concat[axis=0] x, like x",
            "concat: axis 0 is out of range for rank 0: the operand is f32[]",
        ),
        (
            "x: f32[9223372036854775807, 0]",
            "z = concat[axis=0] x, x, x, like x, like x, like x",
            "concat: [18446744073709551615, 0] has more elements than can be addressed: operand 1 is f32[9223372036854775807, 0], operand 2 is f32[9223372036854775807, 0], operand 3 is f32[9223372036854775807, 0]",
        ),
        (
            "z: f32[5], x: f32[2], y: f32[3]",
            "p, q = concat_t[axis=0] z, like x, like y",
            "f32[2], f32[3]",
        ),
        (
            "z: f32[5], x: f32[2], y: f32[3]",
            "p = concat_t[axis=0] z, like x, like y",
            "concat_t: the number of results is 1, expected 2, the number of like operands: the operand is f32[5]",
        ),
        (
            "x: f32[2, B], y: f32[?, 3]",
            "z = stack[axis=1] x, y",
            "f32[2, 2, 3]",
        ),
        ("x: f32[], y: f32[]", "z = stack[axis=-1] x, y, x", "f32[3]"),
        ("x: f32[2]", "z = stack[axis=`a`] x", "f32[?, ?]"),
        (
            "x: f32[2], y: f32[3]",
            "z = stack[axis=0] x, y",
            "stack: axis 0 of operand 2 is 3, expected 2, as in operand 1: operand 1 is f32[2], operand 2 is f32[3]",
        ),
        (
            "x: f32[2]",
            "z = stack[axis=2] x",
            "stack: axis 2 is out of range for rank 2: the operand is f32[2]",
        ),
    ]);
}

#[test]
fn parts_add_up_to_the_axis() {
    check(&[
        (
            "x: f32[6, B]",
            "a, b = split[sizes=all, axis=0] x, like x",
            "f32[3, B], f32[3, B]",
        ),
        (
            "x: f32[2, B]",
            "a, b = split[sizes=all, axis=1] x, like x",
            "f32[2, ?], f32[2, ?]",
        ),
        (
            "x: f32[2*B]",
            "a, b = split[sizes=all, axis=0] x, like x",
            "f32[B], f32[B]",
        ),
        (
            "x: f32[2*B + 1]",
            "a, b = split[sizes=all, axis=0] x, like x",
            "split: an axis of length 2*B + 1 cannot be split into 2 equal parts: the operand is f32[2*B + 1]",
        ),
        (
            "x: f32[B]",
            "a = split[sizes=all, axis=0] x, like x",
            "f32[B]",
        ),
        (
            "x: f32[0]",
            "a, b = split[sizes=all, axis=0] x, like x",
            "f32[0], f32[0]",
        ),
        (
            "x: f32[6]",
            "a, b = split[sizes=[2, 4], axis=-1] x, like x",
            "f32[2], f32[4]",
        ),
        (
            "x: f32[B]",
            "a, b = split[sizes=[2, 4], axis=0] x, like x",
            "f32[2], f32[4]",
        ),
        (
            "x: f32[6]",
            "a, b = split[sizes=`s`, axis=0] x, like x",
            "f32[?], f32[?]",
        ),
        (
            "x: f32[6, 2]",
            "a, b = split[sizes=[2, 4], axis=`a`] x, like x",
            "f32[?, ?], f32[?, ?]",
        ),
        (
            "x: f32[5]",
            "a, b = split[sizes=all, axis=0] x, like x",
            "split: an axis of length 5 cannot be split into 2 equal parts: the operand is f32[5]",
        ),
        (
            "x: f32[5]",
            "a, b = split[sizes=[2, 2], axis=0] x, like x",
            "split_sizes: an axis of length 5 cannot be split into parts of [2, 2]: the operand is f32[5]",
        ),
        (
            "x: f32[5]",
            "a, b = split[sizes=[5], axis=0] x, like x",
            "split_sizes: the number of `sizes` is 1, expected 2, the number of results: the operand is f32[5]",
        ),
        (
            "x: f32[..]",
            "a, b = split[sizes=[6, -1], axis=0] x, like x",
            "split_sizes: `sizes` cannot be [6, -1]: the operand is f32[..]",
        ),
        ("x: f32[2, B]", "a, b = unbind[axis=0] x", "f32[B], f32[B]"),
        ("x: f32[2, B]", "a, b = unbind[axis=-1] x", "f32[2], f32[2]"),
        (
            "x: f32[2, B]",
            "a, b = unbind[axis=`a`] x",
            "f32[?], f32[?]",
        ),
        ("x: f32[..]", "a, b = unbind[axis=0] x", "f32[..], f32[..]"),
        (
            "x: f32[3]",
            "a, b = unbind[axis=0] x",
            "unbind: axis 0 is 3, expected 2, the number of results: the operand is f32[3]",
        ),
    ]);
}
