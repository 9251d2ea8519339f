//! Sharded programs give what the programs give, on all devices of a mesh.
//!
//! The devices are simulated: each equation is evaluated by the definition of its op on the parts of
//! each device, and collectives by theirs. Padding is NaN or a large number, so nothing may read it.

#[path = "spmd/simulate.rs"]
mod simulate;

use gradloom_ir::op::{Eval, NdArray, evaluate, indices};
use gradloom_ir::sharding::{AxisRef, Mesh, Reduction, ShardingSpec};
use gradloom_ir::spmd::{Constraints, Explanation, Sharded, Speed, SpmdError, shard};
use gradloom_ir::{DType, Op, Program, Var, ad, verify};
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
        vars: Vec::new(),
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
        format!("{} {} over {}: {}", of.name, of.value, axes.join(", "), of.sent)
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
    let found = run_on_parts(whole, &parts, args, rng);
    for (i, (expected, spec)) in expected.iter().zip(&parts.outs).enumerate() {
        let dtype = whole.aval(whole.outs[i]).dtype.unwrap();
        let size = scale(expected);
        for (device, outs) in found.iter().enumerate() {
            let ranges = spec.ranges(&expected.shape, device).unwrap();
            let lens: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
            for local in indices(&lens) {
                let at: Vec<usize> = local.iter().zip(&ranges).map(|(i, r)| i + r.start).collect();
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
fn agrees(text: &str, mesh: &Arc<Mesh>, params: &[&str], outs: &[&str], args: &[&[f64]]) -> Sharded {
    let whole = program(text);
    let arrays = whole.params.iter().zip(args).map(|(var, data)| NdArray {
        shape: whole.aval(*var).shape.known().unwrap(),
        data: data.to_vec(),
    });
    let of = sharded(text, mesh, params, outs);
    check(&whole, &arrays.collect::<Vec<_>>(), &of, &mut Rng::new(1), 1e-12);
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
    let sent: Vec<u128> = explained(&of).collectives.iter().map(|of| of.sent).collect();
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
    assert!(collectives(&of)[0].starts_with("all_to_all"), "{:?}", collectives(&of));
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
        let x: Vec<f64> = (0..shape[0] * shape[1]).map(|i| (i * 37 % 101) as f64).collect();
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
        (format!("[{{{low}}}, {{{high}}}]"), format!("[{{{high}}}, {{{low}}}]")),
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

// Errors.

#[test]
fn programs_that_cannot_be_sharded_are_refused_in_words() {
    let m = mesh(&[("x", 2)]);
    let refused = |text: &str, params: &[&str], outs: &[&str]| -> SpmdError {
        let constraints = Constraints {
            params: specs(&m, params),
            outs: specs(&m, outs),
            vars: Vec::new(),
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
        (refused(neg, &["", ""], &[]), "there are 2 specs for 1 parameters"),
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

/// Returns a random spec for a value of this rank.
fn random_spec(mesh: &Arc<Mesh>, rank: usize, rng: &mut Rng) -> ShardingSpec {
    let mut dims: Vec<Vec<&str>> = vec![Vec::new(); rank];
    let mut axes: Vec<&str> = mesh.axes().iter().map(|axis| axis.name.as_str()).collect();
    if rng.below(2) == 0 {
        axes.reverse();
    }
    for axis in axes {
        if rank > 0 && rng.below(3) > 0 {
            dims[rng.below(rank)].push(axis);
        }
    }
    let dims: Vec<&[&str]> = dims.iter().map(Vec::as_slice).collect();
    ShardingSpec::split(mesh, &dims).unwrap()
}

fn random_constraints(program: &Program, mesh: &Arc<Mesh>, rng: &mut Rng) -> Constraints {
    let mut list = |vars: &[Var]| -> Vec<Option<ShardingSpec>> {
        let spec = |var: &Var| {
            let rank = program.aval(*var).shape.dims().unwrap().len();
            (rng.below(4) > 0).then(|| random_spec(mesh, rank, rng))
        };
        vars.iter().map(spec).collect()
    };
    Constraints {
        params: list(&program.params),
        outs: list(&program.outs),
        vars: Vec::new(),
    }
}

/// Whether all shapes are known, and the definitions can evaluate the program.
fn is_known(program: &Program) -> bool {
    let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
    let mut all = program.params.iter().chain(bound);
    all.all(|var| {
        let aval = program.aval(*var);
        aval.dtype.is_some() && aval.shape.known().is_some()
    })
}

/// Checks a program with random specs on all meshes.
fn check_randomly(program: &Program, args: &[NdArray], rng: &mut Rng, n: usize, tolerance: f64) {
    for mesh in meshes() {
        for _ in 0..n {
            let constraints = random_constraints(program, &mesh, rng);
            let of = shard(program, &mesh, &constraints).unwrap_or_else(|e| panic!("{e}\n{program}"));
            check(program, args, &of, rng, tolerance);
        }
    }
}

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
            let lacks = ad::irreversible(&program).is_some() || ad::reverse_only(&program).is_some();
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
