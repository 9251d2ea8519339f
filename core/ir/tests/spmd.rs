//! Sharded programs give what the programs give, on all devices of a mesh.
//!
//! The devices are simulated: each equation is evaluated by the definition of its op on the parts of
//! each device, and collectives by theirs. Padding is NaN or a large number, so nothing may read it.

#[path = "spmd/simulate.rs"]
mod simulate;

use gradloom_ir::op::{Eval, Fails, NdArray, evaluate, evaluate_with, indices};
use gradloom_ir::sharding::{AxisRef, DimSharding, Mesh, Reduction, ShardingSpec};
use gradloom_ir::spmd::{Constraints, Explanation, Sharded, Speed, SpmdError, shard};
use gradloom_ir::{Attr, Aval, Builder, DType, Op, Program, Programs, Static, Var, ad, verify};
use simulate::{Rng, run_on_parts};
use std::sync::Arc;

fn program(text: &str) -> Program {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn mesh(axes: &[(&str, usize)]) -> Arc<Mesh> {
    Arc::new(Mesh::new("m", axes).unwrap())
}

/// The meshes of all laws.
fn meshes() -> Vec<Arc<Mesh>> {
    vec![
        mesh(&[("x", 2)]),
        mesh(&[("x", 4)]),
        mesh(&[("x", 2), ("y", 2)]),
        mesh(&[("x", 2), ("y", 3)]),
    ]
}

/// Returns the spec of a text, of which only the list of dims and what follows is given.
fn spec(mesh: &Arc<Mesh>, text: &str) -> ShardingSpec {
    let text = format!("sharding<@m, {text}>");
    ShardingSpec::parse(mesh, &text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Returns the specs of all values; an empty text is none.
fn specs(mesh: &Arc<Mesh>, texts: &[&str]) -> Vec<Option<ShardingSpec>> {
    let one = |text: &&str| (!text.is_empty()).then(|| spec(mesh, text));
    texts.iter().map(one).collect()
}

fn sharded(text: &str, mesh: &Arc<Mesh>, params: &[&str], outs: &[&str]) -> Sharded {
    let constraints = Constraints {
        params: specs(mesh, params),
        outs: specs(mesh, outs),
    };
    shard(&program(text), mesh, &constraints).unwrap_or_else(|e| panic!("{e}"))
}

fn explained(of: &Sharded) -> Explanation {
    of.explain(&Speed::default())
}

/// Returns `all_reduce x over "x"` for each collective.
fn collectives(of: &Sharded) -> Vec<String> {
    let all = explained(of).collectives.into_iter();
    all.map(|of| {
        let axes: Vec<String> = of.axes.iter().map(AxisRef::to_string).collect();
        format!(
            "{} {} over {}: {}",
            of.name,
            of.value,
            axes.join(", "),
            of.sent
        )
    })
    .collect()
}

/// Returns the largest magnitude, at least 1.
fn scale(x: &NdArray) -> f64 {
    let finite = x.data.iter().filter(|x| x.is_finite());
    finite.fold(1.0, |most, x| most.max(x.abs()))
}

/// Checks a sharded program on all devices against the program on whole values.
#[track_caller]
fn check(whole: &Program, args: &[NdArray], of: &Sharded, rng: &mut Rng, tolerance: f64) {
    let expected = evaluate(whole, args);
    let parts = of.partition();
    let text = || format!("{whole}\n{}\n{}", explained(of), parts.program);
    assert_eq!(verify(&parts.program), [""; 0], "{}", text());
    if let Ok(mapped) = of.to_shard_map() {
        assert_eq!(verify(&mapped), [""; 0], "{mapped}");
        for (expected, found) in expected.iter().zip(evaluate(&mapped, args)) {
            let size = scale(expected);
            for (a, b) in found.data.iter().zip(&expected.data) {
                let near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * size;
                assert!(near, "{a}, expected {b} by\n{mapped}");
            }
        }
    }
    let found = run_on_parts(whole, &parts, args, rng);
    for (i, (expected, spec)) in expected.iter().zip(&parts.outs).enumerate() {
        let dtype = whole.aval(whole.outs[i]).dtype.unwrap();
        let size = scale(expected);
        for (device, outs) in found.iter().enumerate() {
            let ranges = spec.ranges(&expected.shape, device).unwrap();
            let lens: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
            for local in indices(&lens) {
                let at: Vec<usize> = local
                    .iter()
                    .zip(&ranges)
                    .map(|(i, r)| i + r.start)
                    .collect();
                let [a, b] = [outs[i].spread(&local), expected.spread(&at)];
                let near = a == b || a.is_nan() && b.is_nan();
                let near = near || dtype.is_float() && (a - b).abs() <= tolerance * size;
                assert!(
                    near,
                    "result {i} at {at:?} on device {device} is {a}, expected {b}\n{}",
                    text()
                );
            }
        }
    }
}

/// Shards a program with specs and checks it.
#[track_caller]
fn agrees(
    text: &str,
    mesh: &Arc<Mesh>,
    params: &[&str],
    outs: &[&str],
    args: &[&[f64]],
) -> Sharded {
    let whole = program(text);
    let arrays = whole.params.iter().zip(args).map(|(var, data)| NdArray {
        shape: whole.aval(*var).shape.known().unwrap(),
        data: data.to_vec(),
    });
    let of = sharded(text, mesh, params, outs);
    check(
        &whole,
        &arrays.collect::<Vec<_>>(),
        &of,
        &mut Rng::new(1),
        1e-12,
    );
    of
}

// The wrong answers of the reference system.

#[test]
fn a_maximum_over_a_split_dim_is_a_maximum_of_maxima() {
    let of = agrees(
        "(x: f64[4, 2]) { y = max[axes=[0], keepdims=false] x return y }",
        &mesh(&[("x", 2)]),
        &[r#"[{"x"}, {}]"#],
        &[],
        &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]],
    );
    assert_eq!(collectives(&of), [r#"all_reduce y over "x": 16"#]);
}

#[test]
fn argmax_over_a_split_dim_gives_indices_of_the_whole() {
    agrees(
        "(x: f64[4, 2]) { y = argmax[axes=[0], keepdims=false] x return y }",
        &mesh(&[("x", 2)]),
        &[r#"[{"x"}, {}]"#],
        &[],
        &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]],
    );
}

#[test]
fn operands_that_are_split_along_different_axes_are_aligned() {
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    let y: Vec<f64> = (0..16).map(|i| f64::from(i * i)).collect();
    agrees(
        "(x: f64[4, 4], y: f64[4, 4]) { z = add x, y return z }",
        &mesh(&[("x", 2), ("y", 2)]),
        &[r#"[{"x"}, {}]"#, r#"[{"y"}, {}]"#],
        &[],
        &[&x, &y],
    );
}

#[test]
fn a_contracted_dim_that_is_split_along_different_axes_is_aligned() {
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    agrees(
        "(x: f64[4, 4], y: f64[4, 4]) { z = matmul x, y, like x, like y return z }",
        &mesh(&[("x", 2), ("y", 2)]),
        &[r#"[{}, {"x"}]"#, r#"[{"y"}, {}]"#],
        &[],
        &[&x, &x],
    );
}

#[test]
fn a_replicated_operand_is_cut_where_the_other_is_split() {
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    let m = mesh(&[("x", 2)]);
    let of = agrees(
        "(x: f64[4, 4], y: f64[4, 4]) { z = add x, y return z }",
        &m,
        &[r#"[{"x"}, {}]"#, "[{}, {}]"],
        &[],
        &[&x, &x],
    );
    assert_eq!(collectives(&of), [""; 0]);
    let of = agrees(
        "(x: f64[4, 4], y: f64[4, 2]) { z = matmul x, y, like x, like y return z }",
        &m,
        &[r#"[{}, {"x"}]"#, "[{}, {}]"],
        &[],
        &[&x, &x[..8]],
    );
    assert_eq!(collectives(&of), [r#"all_reduce z over "x": 64"#]);
}

#[test]
fn softmax_over_a_split_dim_sends_maxima_and_sums_only() {
    let x: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 11)).collect();
    let of = agrees(
        "(x: f64[2, 12]) { y = softmax[axis=-1] x return y }",
        &mesh(&[("x", 4)]),
        &[r#"[{}, {"x"}]"#],
        &[],
        &[&x],
    );
    // Two rows of 8 bytes, of which each device sends 2 * 3 parts of a quarter.
    let sent: Vec<u128> = explained(&of)
        .collectives
        .iter()
        .map(|of| of.sent)
        .collect();
    assert_eq!(sent, [24, 24]);
}

#[test]
fn uneven_parts_are_padded_and_padding_is_never_read() {
    let x: Vec<f64> = (0..7).map(|i| f64::from(i) - 9.0).collect();
    let m = mesh(&[("x", 4)]);
    for text in [
        "(x: f64[7]) { y = exp x z = sum[axes=all, keepdims=false] y, like y return z }",
        "(x: f64[7]) { y = max[axes=all, keepdims=false] x return y }",
        "(x: f64[7]) { y = prod[axes=all, keepdims=false] x return y }",
        "(x: f64[7]) { y = mean[axes=all, keepdims=true] x, like x return y }",
        "(x: f64[7]) { y = scalar[value=2.0] like x z = mul x, y return z }",
        "(x: f64[7]) { y = softmax[axis=0] x return y }",
        "(x: f64[7]) { y = reciprocal x z = matmul x, y, like x, like y return z }",
    ] {
        agrees(text, &m, &[r#"[{"x"}]"#], &[], &[&x]);
    }
}

// Partial values.

#[test]
fn a_partial_operand_is_reduced_before_it_meets_a_whole_one() {
    let m = mesh(&[("x", 2)]);
    let of = agrees(
        "(x: f64[2], y: f64[2]) { z = add x, y return z }",
        &m,
        &[r#"[{}], partial={"x": sum}"#, "[{}]"],
        &["[{}]"],
        &[&[1.0, 2.0], &[10.0, 20.0]],
    );
    assert_eq!(collectives(&of), [r#"all_reduce x over "x": 16"#]);
}

#[test]
fn partial_operands_are_added_up_once() {
    let m = mesh(&[("x", 2)]);
    let partial = r#"[{}], partial={"x": sum}"#;
    let of = agrees(
        "(x: f64[2], y: f64[2]) { a = neg x z = add a, y return z }",
        &m,
        &[partial, partial],
        &[],
        &[&[1.0, 2.0], &[10.0, 20.0]],
    );
    assert_eq!(collectives(&of), [r#"all_reduce z over "x": 16"#]);
}

#[test]
fn reductions_of_different_kinds_are_not_exchanged() {
    let m = mesh(&[("x", 2), ("y", 2)]);
    let x: Vec<f64> = (0..16).map(|i| f64::from(i * 5 % 7) - 3.0).collect();
    for text in [
        "(x: f64[4, 4]) { y = max[axes=[0], keepdims=false] x z = sum[axes=[0], keepdims=false] y, like y return z }",
        "(x: f64[4, 4]) { y = sum[axes=[0], keepdims=false] x, like x z = max[axes=[0], keepdims=false] y return z }",
        "(x: f64[4, 4]) { y = max[axes=[0], keepdims=false] x z = neg y return z }",
        "(x: f64[4, 4]) { y = sum[axes=[0], keepdims=false] x, like x z = relu y return z }",
        "(x: f64[4, 4]) { y = max[axes=[0], keepdims=false] x z = relu y return z }",
        "(x: f64[4, 4]) { y = prod[axes=[0], keepdims=false] x z = square y return z }",
    ] {
        agrees(text, &m, &[r#"[{"x"}, {"y"}]"#], &[], &[&x]);
    }
}

#[test]
fn a_result_is_scattered_if_its_consumer_wants_parts() {
    let m = mesh(&[("x", 2)]);
    let of = sharded(
        "(x: f64[4, 4], y: f64[4, 4]) { z = matmul x, y, like x, like y return z }",
        &m,
        &[r#"[{}, {"x"}]"#, r#"[{"x"}, {}]"#],
        &[r#"[{"x"}, {}]"#],
    );
    assert_eq!(collectives(&of), [r#"reduce_scatter z over "x": 64"#]);
}

// Reshards.

#[test]
fn values_move_between_dims_by_all_to_all() {
    let m = mesh(&[("x", 2)]);
    let x: Vec<f64> = (0..15).map(f64::from).collect();
    let of = agrees(
        "(x: f64[3, 5]) { y = neg x return y }",
        &m,
        &[r#"[{"x"}, {}]"#],
        &[r#"[{}, {"x"}]"#],
        &[&x],
    );
    assert!(
        collectives(&of)[0].starts_with("all_to_all"),
        "{:?}",
        collectives(&of)
    );
    assert_eq!(collectives(&of).len(), 1);
}

#[test]
fn values_are_cut_before_they_are_gathered() {
    let m = mesh(&[("x", 2), ("y", 2)]);
    let of = sharded(
        "(x: f64[4, 4]) { y = neg x return y }",
        &m,
        &[r#"[{"x"}, {}]"#],
        &[r#"[{}, {"y"}]"#],
    );
    assert_eq!(collectives(&of).len(), 1);
    assert_eq!(explained(&of).sent(), 32);
}

#[test]
fn every_layout_leads_to_every_other() {
    let m = mesh(&[("x", 2), ("y", 3)]);
    let texts = [
        "[{}, {}]",
        r#"[{"x"}, {}]"#,
        r#"[{}, {"x"}]"#,
        r#"[{"y"}, {"x"}]"#,
        r#"[{"x"}, {"y"}]"#,
        r#"[{"x", "y"}, {}]"#,
        r#"[{"y", "x"}, {}]"#,
        r#"[{}, {"x", "y"}]"#,
        r#"[{}, {"y", "x"}]"#,
    ];
    let partial = [
        "",
        r#", partial={"x": sum}"#,
        r#", partial={"y": max}"#,
        r#", partial={"x": sum, "y": sum}"#,
    ];
    for shape in [[6, 12], [5, 7], [1, 13]] {
        let text = format!(
            "(x: f64[{}, {}]) {{ y = identity x return y }}",
            shape[0], shape[1]
        );
        let x: Vec<f64> = (0..shape[0] * shape[1])
            .map(|i| (i * 37 % 101) as f64)
            .collect();
        for from in texts {
            for partial in partial {
                let from = format!("{from}{partial}");
                if ShardingSpec::parse(&m, &format!("sharding<@m, {from}>")).is_err() {
                    continue;
                }
                for to in texts {
                    agrees(&text, &m, &[&from], &[to], &[&x]);
                }
            }
        }
    }
}

#[test]
fn parts_of_axes_are_axes() {
    let m = mesh(&[("x", 4)]);
    let x: Vec<f64> = (0..24).map(f64::from).collect();
    let (low, high) = (r#""x":(1)2"#, r#""x":(2)2"#);
    for (from, to) in [
        (
            format!("[{{{low}}}, {{{high}}}]"),
            format!("[{{{high}}}, {{{low}}}]"),
        ),
        (r#"[{"x"}, {}]"#.to_owned(), format!("[{{{low}}}, {{}}]")),
        (format!("[{{{high}}}, {{}}]"), r#"[{"x"}, {}]"#.to_owned()),
    ] {
        agrees(
            "(x: f64[4, 6]) { y = neg x return y }",
            &m,
            &[&from],
            &[&to],
            &[&x],
        );
    }
}

// Constraints.

#[test]
fn closed_dims_and_replicated_axes_gain_no_axes() {
    let m = mesh(&[("x", 2), ("y", 2)]);
    let add = "(x: f64[4, 4], y: f64[4, 4]) { z = add x, y return z }";
    let spec_of_y = |text: &str| {
        let of = sharded(add, &m, &[r#"[{"x"}, {"y"}]"#, text], &[]);
        of.param_specs()[1].to_string()
    };
    for (asked, found) in [
        ("", r#"sharding<@m, [{"x"}, {"y"}]>"#),
        ("[{?}, {?}]", r#"sharding<@m, [{"x"}, {"y"}]>"#),
        ("[{?}, {}]", r#"sharding<@m, [{"x"}, {}]>"#),
        (
            r#"[{?}, {?}], replicated={"x"}"#,
            r#"sharding<@m, [{}, {"y"}]>"#,
        ),
        (r#"[{"y", ?}, {?}]"#, r#"sharding<@m, [{"y"}, {}]>"#),
    ] {
        assert_eq!(spec_of_y(asked), found, "{asked}");
    }
}

#[test]
fn specs_spread_backward_from_results() {
    let m = mesh(&[("x", 2)]);
    let of = sharded(
        "(x: f64[4, 4]) { a = exp x b = transpose a return b }",
        &m,
        &[],
        &[r#"[{"x"}, {}]"#],
    );
    assert_eq!(
        of.param_specs()[0].to_string(),
        r#"sharding<@m, [{}, {"x"}]>"#
    );
    assert_eq!(collectives(&of), [""; 0]);
}

#[test]
fn dims_of_a_lower_priority_come_later() {
    let m = mesh(&[("x", 2)]);
    let text = "(x: f64[4, 8], y: f64[8, 64]) { z = matmul x, y, like x, like y return z }";
    let out = |x: &str, y: &str| sharded(text, &m, &[x, y], &[]).specs();
    let z = program(text).outs[0];
    let found = |x: &str, y: &str| out(x, y).get(z).unwrap().to_string();
    // The columns have more bytes, unless the rows come first.
    assert_eq!(
        found(r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#),
        r#"sharding<@m, [{}, {"x"}]>"#
    );
    let rows = sharded(
        text,
        &m,
        &[r#"[{"x"}, {}]"#, r#"[{}, {"x"}p1]"#],
        &["[{?}, {?}]"],
    );
    assert_eq!(
        rows.out_specs()[0].to_string(),
        r#"sharding<@m, [{"x"}, {}]>"#
    );
}

#[test]
fn a_variable_inside_of_a_program_can_have_a_spec() {
    let m = mesh(&[("x", 2)]);
    let whole = program(
        r#"(x: f64[4, 4]) {
            a = exp x
            c = sharding_constraint[spec=mesh @m <["x"=2]> sharding<@m, [{}, {"x"}]>] a
            b = neg c
            return b
        }"#,
    );
    let constraints = Constraints {
        params: specs(&m, &[r#"[{"x"}, {}]"#]),
        outs: specs(&m, &[r#"[{"x"}, {}]"#]),
    };
    let of = shard(&whole, &m, &constraints).unwrap();
    let names = |of: &Sharded| -> Vec<&str> {
        let all = explained(of).collectives.into_iter();
        all.map(|of| of.name).collect()
    };
    assert_eq!(names(&of), ["all_to_all", "all_to_all"]);
    let x = NdArray::build(&[4, 4], |i| i[0] as f64 - 0.5 * i[1] as f64);
    check(
        &whole,
        std::slice::from_ref(&x),
        &of,
        &mut Rng::new(1),
        1e-12,
    );
    // The cotangent has the constraint of the value.
    let pullback = ad::vjp(&whole, &whole.params).pullback;
    let rows = r#"[{"x"}, {}]"#;
    let constraints = Constraints {
        params: specs(&m, &[rows, rows]),
        outs: specs(&m, &[rows]),
    };
    let of = shard(&pullback, &m, &constraints).unwrap();
    assert_eq!(names(&of), ["all_to_all", "all_to_all"]);
    check(&pullback, &[x.clone(), x], &of, &mut Rng::new(1), 1e-12);
}

#[test]
fn a_reshape_keeps_the_blocks_of_a_dim_apart() {
    let m = mesh(&[("x", 2)]);
    let x: Vec<f64> = (0..48).map(f64::from).collect();
    for (text, params) in [
        (
            "(x: f64[2, 24]) { y = reshape[shape=[2, 4, 6]] x, like x return y }",
            r#"[{}, {"x"}]"#,
        ),
        (
            "(x: f64[2, 4, 6]) { y = reshape[shape=[2, 24]] x, like x return y }",
            r#"[{}, {"x"}, {}]"#,
        ),
        (
            "(x: f64[4, 12]) { y = reshape[shape=[6, 8]] x, like x return y }",
            r#"[{"x"}, {}]"#,
        ),
        (
            "(x: f64[6, 8]) { y = reshape[shape=[-1]] x, like x return y }",
            r#"[{"x"}, {}]"#,
        ),
    ] {
        let of = agrees(text, &m, &[params], &[], &[&x]);
        assert_eq!(collectives(&of), [""; 0], "{text}");
    }
    // Three blocks cannot be split into two equal parts.
    let of = agrees(
        "(x: f64[6, 8]) { y = reshape[shape=[3, 16]] x, like x return y }",
        &m,
        &[r#"[{"x"}, {}]"#],
        &[],
        &[&x],
    );
    assert_eq!(collectives(&of).len(), 1);
}

#[test]
fn a_whole_range_of_a_split_dim_stays_in_place() {
    let m = mesh(&[("x", 4)]);
    let x: Vec<f64> = (0..35).map(f64::from).collect();
    let ranges = "starts=[0, 1], stops=[7, 3], steps=[1, 1]";
    let parts = r#"[{"x"}, {}]"#;
    for (text, args) in [
        (
            format!("(x: f64[7, 5]) {{ y = slice[{ranges}] x, like x return y }}"),
            vec![&x[..]],
        ),
        (
            format!("(y: f64[7, 2], x: f64[7, 5]) {{ z = slice_t[{ranges}] y, like x return z }}"),
            vec![&x[..14], &x],
        ),
        (
            format!(
                "(x: f64[7, 5], u: f64[7, 2]) {{ y = set_slice[{ranges}, set=true] x, u, like x, like u return y }}"
            ),
            vec![&x[..], &x[..14]],
        ),
        (
            format!(
                "(x: f64[7, 5], u: f64[7, 2]) {{ y = set_slice[{ranges}, set=false] x, u, like x, like u return y }}"
            ),
            vec![&x[..], &x[..14]],
        ),
        (
            "(x: f64[7, 5]) { y = pad[low=[0, 1], high=[0, 2], interior=0, value=3.0] x return y }"
                .to_owned(),
            vec![&x[..]],
        ),
    ] {
        let of = agrees(&text, &m, &vec![parts; args.len()], &[], &args);
        assert_eq!(collectives(&of), [""; 0], "{text}");
    }
}

// Collectives of known cases.

/// Returns the program of the value and the gradients.
fn gradients(text: &str, wrt: &[&str]) -> Program {
    let whole = program(text);
    let is_wrt = |var: &&Var| {
        whole
            .names
            .get(**var)
            .is_some_and(|name| wrt.contains(&name.as_str()))
    };
    let wrt: Vec<Var> = whole.params.iter().filter(is_wrt).copied().collect();
    ad::grad_program(&whole, &wrt).program
}

/// Shards a program and checks it on random arguments, and returns its collectives.
fn sent_by(whole: &Program, mesh: &Arc<Mesh>, params: &[&str], outs: &[&str]) -> Vec<String> {
    let constraints = Constraints {
        params: specs(mesh, params),
        outs: specs(mesh, outs),
    };
    let of = shard(whole, mesh, &constraints).unwrap();
    let mut rng = Rng::new(5);
    let args = arguments(whole, Op::Add, &mut rng);
    check(whole, &args, &of, &mut rng, 1e-11);
    collectives(&of)
}

#[test]
fn data_parallel_training_reduces_each_gradient_once() {
    let whole = gradients(
        "(x: f64[8, 3], t: f64[8, 4], w: f64[3, 4], b: f64[4]) {
            h = matmul x, w, like x, like w
            y = add h, b
            d = sub y, t
            s = square d
            loss = mean[axes=all, keepdims=false] s, like s
            return loss
        }",
        &["w", "b"],
    );
    let m = mesh(&[("data", 4)]);
    let rows = r#"[{"data"}, {}]"#;
    let sent = sent_by(
        &whole,
        &m,
        &[rows, rows, "[{}, {}]", "[{}]"],
        &["[]", "[{}, {}]", "[{}]"],
    );
    // 2 * 3 quarters of 8, 32 and 96 bytes.
    let mut bytes: Vec<&str> = sent
        .iter()
        .map(|of| of.split(": ").nth(1).unwrap())
        .collect();
    bytes.sort_unstable();
    assert_eq!(bytes, ["12", "144", "48"], "{sent:?}");
    assert!(
        sent.iter().all(|of| of.starts_with("all_reduce")),
        "{sent:?}"
    );
}

const PERCEPTRON: &str = "(x: f64[4, 8], u: f64[8, 16], v: f64[16, 8]) {
    h = matmul x, u, like x, like u
    a = relu h
    y = matmul a, v, like a, like v
    return y
}";

#[test]
fn a_tensor_parallel_perceptron_reduces_once_forward_and_once_backward() {
    let m = mesh(&[("model", 4)]);
    let whole = program(PERCEPTRON);
    let weights = [r#"[{}, {"model"}]"#, r#"[{"model"}, {}]"#];
    let params = ["[{}, {}]", weights[0], weights[1]];
    // 2 * 3 quarters of 256 bytes.
    assert_eq!(
        sent_by(&whole, &m, &params, &["[{}, {}]"]),
        [r#"all_reduce y over "model": 384"#]
    );
    let vjp = ad::vjp(&whole, &whole.params);
    let mut outs: Vec<&str> = vec![""; vjp.primal.outs.len()];
    outs[0] = "[{}, {}]";
    let constraints = Constraints {
        params: specs(&m, &params),
        outs: specs(&m, &outs),
    };
    let forward = shard(&vjp.primal, &m, &constraints).unwrap();
    assert_eq!(collectives(&forward), [r#"all_reduce y over "model": 384"#]);
    let mut residuals: Vec<Option<ShardingSpec>> =
        forward.out_specs()[1..].iter().cloned().map(Some).collect();
    residuals.push(Some(spec(&m, "[{}, {}]")));
    let constraints = Constraints {
        params: residuals,
        outs: specs(&m, &params),
    };
    let backward = shard(&vjp.pullback, &m, &constraints).unwrap();
    let sent = collectives(&backward);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(
        sent[0].starts_with("all_reduce") && sent[0].ends_with("384"),
        "{sent:?}"
    );
}

#[test]
fn a_sequence_parallel_norm_gathers_once_and_scatters_once() {
    let m = mesh(&[("model", 4)]);
    let whole = program(
        "(x: f64[2, 4, 8], w: f64[8], u: f64[8, 32], v: f64[32, 8]) {
            n = rms_norm[eps=0.01] x, w
            h = matmul n, u, like n, like u
            a = relu h
            o = matmul a, v, like a, like v
            y = add x, o
            return y
        }",
    );
    let parts = r#"[{}, {"model"}, {}]"#;
    let params = [parts, "[{}]", r#"[{}, {"model"}]"#, r#"[{"model"}, {}]"#];
    // 3 quarters of 512 bytes each.
    assert_eq!(
        sent_by(&whole, &m, &params, &[parts]),
        [
            r#"all_gather n over "model": 384"#,
            r#"reduce_scatter o over "model": 384"#
        ]
    );
}

#[test]
fn gradients_of_split_weights_are_scattered() {
    let whole = gradients(
        "(x: f64[64, 8], w: f64[8, 4]) {
            h = matmul x, w, like x, like w
            s = square h
            loss = sum[axes=all, keepdims=false] s, like s
            return loss
        }",
        &["w"],
    );
    let m = mesh(&[("data", 4)]);
    let rows = r#"[{"data"}, {}]"#;
    let sent = sent_by(&whole, &m, &[rows, rows], &["[]", rows]);
    let names: Vec<&str> = sent
        .iter()
        .map(|of| of.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        ["all_gather", "all_reduce", "reduce_scatter"],
        "{sent:?}"
    );
}

#[test]
fn attention_over_split_positions_exchanges_them_for_heads() {
    let m = mesh(&[("model", 4)]);
    let whole = program(
        "(q: f64[2, 4, 8, 2], k: f64[2, 4, 8, 2], v: f64[2, 4, 8, 2]) {
            o = attention[causal=true] q, k, v
            return o
        }",
    );
    let parts = r#"[{}, {}, {"model"}, {}]"#;
    let sent = sent_by(&whole, &m, &[parts; 3], &[parts]);
    // 3 quarters of a quarter of 1024 bytes.
    let exchange = |name: &str| format!(r#"all_to_all {name} over "model": 192"#);
    assert_eq!(sent, ["q", "k", "v", "o"].map(exchange));
}

#[test]
fn rows_of_a_table_are_taken_where_their_indices_are() {
    let m = mesh(&[("data", 2), ("model", 2)]);
    let whole = gradients(
        "(table: f64[5, 4], i: i64[60]) {
            x = take[axis=0, along=false, last=false] table, i, like table
            s = square x
            loss = sum[axes=all, keepdims=false] s, like s
            return loss
        }",
        &["table"],
    );
    let table = r#"[{}, {"model"}]"#;
    let sent = sent_by(&whole, &m, &[table, r#"[{"data"}]"#], &["[]", table]);
    assert!(
        sent.iter().all(|of| of.starts_with("all_reduce")),
        "{sent:?}"
    );
    assert_eq!(sent.len(), 2, "{sent:?}");
}

#[test]
fn the_report_names_each_collective_and_its_bytes() {
    let m = mesh(&[("model", 4)]);
    let of = sharded(
        PERCEPTRON,
        &m,
        &["[{}, {}]", r#"[{}, {"model"}]"#, r#"[{"model"}, {}]"#],
        &["[{}, {}]"],
    );
    let text = explained(&of).to_string();
    let expected = r#"mesh @m <["model"=4]>
param  x: f64[4, 8] [{}, {}], 256 B per device
param  u: f64[8, 16] [{}, {"model"}], 256 B per device
param  v: f64[16, 8] [{"model"}, {}], 256 B per device
h: f64[4, 16] [{}, {"model"}] = matmul x, u, x, u
a: f64[4, 16] [{}, {"model"}] = relu h
y: f64[4, 8] [{}, {}], partial={"model": sum} = matmul a, v, a, v
  all_reduce y over "model": each device sends 384 B, 6.00 us; f64[4, 8] [{}, {}]
result y: f64[4, 8] [{}, {}], 256 B per device

1 all_reduce over "model": 384 B
each device sends 384 B and computes 5.280e2 flops
estimated time: 6.01 us, of which 0.00 us compute and 6.00 us collectives
memory per device: 1.25 KiB, of which 768 B parameters"#;
    assert_eq!(text, expected);
    let gathered = sharded(
        "(x: f64[4, 4], i: i64[4], u: f64[4, 4]) { y = scatter[axis=0, along=false, set=true] x, i, u, like x, like u return y }",
        &m,
        &[r#"[{"model"}, {}]"#, "[{}]", "[{}, {}]"],
        &[],
    );
    let text = explained(&gathered).to_string();
    let note =
        "scatter x, i, u, x, u; no axis of the op can be split, so all devices compute it whole";
    assert!(text.contains(note), "{text}");
}

// Errors.

#[test]
fn programs_that_cannot_be_sharded_are_refused_in_words() {
    let m = mesh(&[("x", 2)]);
    let refused = |text: &str, params: &[&str], outs: &[&str]| -> SpmdError {
        let constraints = Constraints {
            params: specs(&m, params),
            outs: specs(&m, outs),
        };
        shard(&program(text), &m, &constraints).unwrap_err()
    };
    let neg = "(x: f64[2]) { y = neg x return y }";
    for (error, words) in [
        (
            refused("(x: f64[B]) { y = neg x return y }", &[], &[]),
            "`x` is f64[B]: a program is sharded only if all dtypes and shapes are known",
        ),
        (
            refused(neg, &["[{}, {}]"], &[]),
            "the spec of `x`: the spec is for tensors of rank 2, and the tensor has rank 1",
        ),
        (
            refused(neg, &["", ""], &[]),
            "there are 2 specs for 1 parameters",
        ),
        (
            refused(neg, &[], &[r#"[{}], partial={"x": sum}"#]),
            r#"the spec of `y` is partial along "x"; only parameters can be partial"#,
        ),
        (
            refused("(x: f64[2]) { y = call[callee=`f`] x return y }", &[], &[]),
            "`call` calls a function whose program is not known; inline it first",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
}

// Laws.

/// Returns programs of one equation for an op.
fn samples(op: Op) -> Vec<Program> {
    let name = op.def().name();
    let texts: Vec<String> = match op.def().eval() {
        Eval::Unary(_) | Eval::Test(_) => vec![
            format!("(x: f64[5, 3]) {{ y = {name} x return y }}"),
            format!("(x: f64[4, 6]) {{ y = {name} x return y }}"),
        ],
        Eval::Binary(_) | Eval::Compare(_) => vec![
            format!("(x: f64[5, 3], y: f64[5, 3]) {{ z = {name} x, y return z }}"),
            format!("(x: f64[3], y: f64[4, 1]) {{ z = {name} x, y return z }}"),
            format!("(x: i64[5], y: i64[5]) {{ z = {name} x, y return z }}"),
        ],
        _ => Vec::new(),
    };
    let own = op.def().laws().samples.iter().copied();
    let programs = texts.iter().map(String::as_str).chain(own);
    programs.filter_map(|text| text.parse().ok()).collect()
}

/// Returns random arguments of a program.
fn arguments(program: &Program, op: Op, rng: &mut Rng) -> Vec<NdArray> {
    let laws = op.def().laws();
    let one = |var: &Var| {
        let aval = program.aval(*var);
        let dtype = aval.dtype.unwrap();
        NdArray::build(&aval.shape.known().unwrap(), |i| match dtype {
            DType::Bool => rng.below(2) as f64,
            DType::I32 | DType::I64 => rng.below(3) as f64,
            _ => {
                let (low, high) = laws.domain;
                low + (high - low) * rng.unit() + laws.added(&i)
            }
        })
    };
    program.params.iter().map(one).collect()
}

/// Returns a random spec for a value of this rank. Axes of size 4 may be two parts.
fn random_spec(mesh: &Arc<Mesh>, rank: usize, rng: &mut Rng) -> ShardingSpec {
    let mut dims: Vec<Vec<AxisRef>> = vec![Vec::new(); rank];
    for axis in random_axes(mesh, rng) {
        if rank > 0 && rng.below(3) > 0 {
            dims[rng.below(rank)].push(axis);
        }
    }
    let dims = dims.into_iter().map(DimSharding::closed);
    ShardingSpec::new(mesh, dims.collect(), Vec::new(), Vec::new()).unwrap()
}

fn random_axes(mesh: &Arc<Mesh>, rng: &mut Rng) -> Vec<AxisRef> {
    let mut axes = Vec::new();
    for axis in mesh.axes() {
        let name = axis.name.as_str();
        match axis.size == 4 && rng.below(2) == 0 {
            true => axes.extend([AxisRef::part(name, 1, 2), AxisRef::part(name, 2, 2)]),
            false => axes.push(name.into()),
        }
    }
    if rng.below(2) == 0 {
        axes.reverse();
    }
    axes
}

/// Returns the spec, with some of the other axes as partial ones.
fn randomly_partial(of: ShardingSpec, rng: &mut Rng) -> ShardingSpec {
    let kind = [Reduction::Sum, Reduction::Max, Reduction::Min][rng.below(3)];
    let axes = random_axes(of.mesh(), rng);
    axes.into_iter().fold(of, |of, axis| match rng.below(3) {
        // Axes that are used are refused.
        0 => of.clone().with_partial(&[(axis, kind)]).unwrap_or(of),
        _ => of,
    })
}

fn random_constraints(program: &Program, mesh: &Arc<Mesh>, rng: &mut Rng) -> Constraints {
    let mut list = |vars: &[Var], may_be_partial: bool| -> Vec<Option<ShardingSpec>> {
        let spec = |var: &Var| {
            let aval = program.aval(*var);
            let rank = aval.shape.dims().unwrap().len();
            let spec = (rng.below(4) > 0).then(|| random_spec(mesh, rank, rng))?;
            let is_float = aval.dtype.unwrap().is_float();
            match may_be_partial && is_float && rng.below(4) == 0 {
                true => Some(randomly_partial(spec, rng)),
                false => Some(spec),
            }
        };
        vars.iter().map(spec).collect()
    };
    Constraints {
        params: list(&program.params, true),
        outs: list(&program.outs, false),
    }
}

/// Returns whether all shapes are known, and the definitions can evaluate the program.
fn is_known(program: &Program) -> bool {
    let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
    let mut all = program.params.iter().chain(bound);
    all.all(|var| {
        let aval = program.aval(*var);
        aval.dtype.is_some() && aval.shape.known().is_some()
    })
}

fn has_constraint(program: &Program) -> bool {
    let mut eqns = program.eqns.iter();
    eqns.any(|eqn| {
        let values = eqn.attrs.iter().map(|attr| program.attr(*attr));
        let mut inner = values.filter_map(Static::programs).flatten();
        eqn.op == Op::ShardingConstraint || inner.any(has_constraint)
    })
}

/// Checks a program with random specs on all meshes. One with a constraint has a mesh of its own.
fn check_randomly(program: &Program, args: &[NdArray], rng: &mut Rng, n: usize, tolerance: f64) {
    if has_constraint(program) {
        return;
    }
    for mesh in meshes() {
        for _ in 0..n {
            let constraints = random_constraints(program, &mesh, rng);
            let of =
                shard(program, &mesh, &constraints).unwrap_or_else(|e| panic!("{e}\n{program}"));
            check(program, args, &of, rng, tolerance);
        }
    }
}

/// Row S1.33 of the requirements.
#[test]
fn every_op_agrees_for_random_specs() {
    let mut rng = Rng::new(11);
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        for program in samples(*op) {
            if is_known(&program) {
                let args = arguments(&program, *op, &mut rng);
                check_randomly(&program, &args, &mut rng, 3, 1e-9);
            }
        }
    }
}

#[test]
fn derivatives_of_every_op_agree_for_random_specs() {
    let mut rng = Rng::new(12);
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        for program in samples(*op) {
            let is_float = |var: &Var| program.aval(*var).dtype.is_some_and(|d| d.is_float());
            let wrt: Vec<Var> = program.params.iter().copied().filter(is_float).collect();
            let lacks =
                ad::irreversible(&program).is_some() || ad::reverse_only(&program).is_some();
            if lacks || !is_known(&program) {
                continue;
            }
            let args = arguments(&program, *op, &mut rng);
            let vjp = ad::vjp(&program, &wrt);
            if !is_known(&vjp.primal) || !is_known(&vjp.pullback) {
                continue;
            }
            check_randomly(&vjp.primal, &args, &mut rng, 1, 1e-9);
            let mut values = evaluate(&vjp.primal, &args).split_off(vjp.n_outs);
            let n_residuals = values.len();
            for ct in &vjp.pullback.params[n_residuals..] {
                let shape = vjp.pullback.aval(*ct).shape.known().unwrap();
                values.push(NdArray::build(&shape, |_| rng.unit() - 0.5));
            }
            check_randomly(&vjp.pullback, &values, &mut rng, 1, 1e-8);
        }
    }
}

/// Returns a random program of up to `n` equations on values of few shapes, and the indices of its
/// values that nothing reads as results.
fn random_program(n: usize, rng: &mut Rng) -> Program {
    let shapes: [&[usize]; 6] = [&[5], &[4, 5], &[4, 1], &[2, 4, 5], &[4, 4], &[]];
    let mut b = Builder::new();
    let n_params = 2 + rng.below(3);
    let params: Vec<Var> = (0..n_params)
        .map(|_| b.param(Aval::new(DType::F64, shapes[rng.below(shapes.len())])))
        .collect();
    let mut values = params.clone();
    let mut is_read = vec![false; n_params];
    let mut n_tries = 0;
    while b.n_eqns() < n && n_tries < 400 {
        n_tries += 1;
        let op = Op::ALL[rng.below(Op::ALL.len())];
        if !matches!(op.def().facts().fails, Fails::Never) {
            continue;
        }
        // The static arguments are those of a sample.
        let samples = samples(op);
        let sample = &samples[rng.below(samples.len())];
        let Some(eqn) = sample.eqns.iter().find(|eqn| eqn.op == op) else {
            continue;
        };
        let statics = eqn.attrs.iter().map(|a| sample.attr(*a).clone());
        let statics: Vec<Static> = statics.collect();
        let attrs: Vec<Attr> = statics.into_iter().map(|value| b.attr(value)).collect();
        let mut picked: Vec<usize> = eqn.data().iter().map(|_| rng.below(values.len())).collect();
        // A like operand is often the operand itself.
        for (i, _) in eqn.likes().iter().enumerate() {
            let own = picked.get(i).copied().filter(|_| rng.below(4) > 0);
            picked.push(own.unwrap_or_else(|| rng.below(values.len())));
        }
        let args: Vec<Var> = picked.iter().map(|i| values[*i]).collect();
        let mut next = b.clone();
        let Ok(outs) = next.try_emit(op, &attrs, &args, eqn.outs.len()) else {
            continue;
        };
        let fits = outs.iter().all(|out| {
            let aval = next.aval(*out);
            let size = aval
                .shape
                .known()
                .map(|shape| shape.iter().product::<usize>());
            aval.dtype.is_some() && size.is_some_and(|n| n > 0 && n <= 200)
        });
        if !fits {
            continue;
        }
        b = next;
        picked.iter().for_each(|i| is_read[*i] = true);
        values.extend(&outs);
        is_read.extend(outs.iter().map(|_| false));
    }
    let results = values.iter().zip(&is_read).skip(n_params);
    let results = results
        .filter(|(_, is_read)| !**is_read)
        .map(|(var, _)| *var);
    let results = results.collect();
    let program = b.finish(params, results);
    match rng.below(3) {
        0 if !program.outs.is_empty() => checkpointed(program),
        _ => program,
    }
}

/// Returns the program as that of a checkpoint, in another one. The pullback computes it again.
fn checkpointed(mut program: Program) -> Program {
    for _ in 0..2 {
        let mut b = Builder::new();
        let aval = |v: &Var| program.aval(*v).clone();
        let params: Vec<Var> = program.params.iter().map(|v| b.param(aval(v))).collect();
        let n_outs = program.outs.len();
        let attrs = [b.attr(Programs::new(vec![program])), b.attr(0)];
        let outs = b.emit_many(Op::Checkpoint, &attrs, &params, n_outs);
        program = b.finish(params, outs);
    }
    program
}

/// Returns the results, or `None` if they depend on rounding or an op refuses its operands.
fn stable(program: &Program, args: &[NdArray]) -> Option<Vec<NdArray>> {
    let run = |size: f64| {
        let mut sign = 1.0;
        evaluate_with(program, args, |var, x| {
            if program.aval(var).dtype.is_some_and(|d| d.is_float()) {
                for x in &mut x.data {
                    *x *= 1.0 + sign * size;
                    sign = -sign;
                }
            }
        })
    };
    let both = std::panic::AssertUnwindSafe(|| [run(0.0), run(1e-12)]);
    let found = std::panic::catch_unwind(both);
    let [plain, moved] = found.ok()?;
    let near = plain.iter().zip(&moved).all(|(a, b)| {
        let size = scale(a);
        let mut pairs = a.data.iter().zip(&b.data);
        pairs.all(|(a, b)| a.is_finite() && (a - b).abs() <= 1e-9 * size)
    });
    near.then_some(plain)
}

#[test]
fn random_programs_and_their_derivatives_agree_for_random_specs() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let count = std::env::var("GRADLOOM_PROGRAMS").ok();
    let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(150);
    let mut found: Vec<(Program, Vec<NdArray>)> = Vec::new();
    for seed in 0..count {
        let mut rng = Rng::new(1000 + seed);
        let program = random_program(2 + rng.below(6), &mut rng);
        let args = arguments(&program, Op::Mul, &mut rng);
        if program.outs.is_empty() || stable(&program, &args).is_none() {
            continue;
        }
        if ad::irreversible(&program).is_none() && ad::reverse_only(&program).is_none() {
            let vjp = ad::vjp(&program, &program.params);
            if is_known(&vjp.primal) && is_known(&vjp.pullback) {
                let mut values = evaluate(&vjp.primal, &args).split_off(vjp.n_outs);
                for ct in &vjp.pullback.params[values.len()..] {
                    let shape = vjp.pullback.aval(*ct).shape.known().unwrap();
                    values.push(NdArray::build(&shape, |_| rng.unit() - 0.5));
                }
                if stable(&vjp.pullback, &values).is_some() {
                    found.push((vjp.pullback, values));
                }
            }
        }
        found.push((program, args));
    }
    std::panic::set_hook(hook);
    assert!(found.len() as u64 > count / 3, "{} of {count}", found.len());
    let mut rng = Rng::new(77);
    for (program, args) in found {
        check_randomly(&program, &args, &mut rng, 1, 1e-7);
    }
}
