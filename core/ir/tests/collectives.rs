//! Programs for the devices of a mesh: derivatives in both modes agree with differences of the whole
//! function, and a transpose moves no more than it has to.

use gradloom_ir::ad::{self, Calls};
use gradloom_ir::mesh::{MeshAxes, Tiling};
use gradloom_ir::op::control::inline;
use gradloom_ir::op::control::shard_map::explicit;
use gradloom_ir::op::{NdArray, evaluate};
use gradloom_ir::pass::{DeviceStep, segments};
use gradloom_ir::{Builder, DType, Op, Program, Static, Symbol, Var, cost, verify};

fn samples() -> Vec<Program> {
    let samples = Op::ShardMap.def().laws().samples.iter();
    samples.map(|text| text.parse().expect(text)).collect()
}

fn floats(program: &Program) -> Vec<Var> {
    let is_float = |v: &Var| program.aval(*v).dtype.is_some_and(DType::is_float);
    program.params.iter().copied().filter(is_float).collect()
}

/// Returns an array with elements that differ.
fn values(program: &Program, var: Var, seed: usize) -> NdArray {
    let aval = program.aval(var);
    let shape = aval.shape.known().expect("a sample has known shapes");
    let mut n = seed;
    NdArray::build(&shape, |_| {
        n += 1;
        match aval.dtype {
            Some(dtype) if dtype.is_float() => 0.5 + ((n * 7919) % 97) as f64 / 97.0,
            _ => (n % 3) as f64,
        }
    })
}

fn dot(x: &[NdArray], y: &[NdArray]) -> f64 {
    let pairs = x
        .iter()
        .zip(y)
        .flat_map(|(x, y)| x.data.iter().zip(&y.data));
    pairs.map(|(x, y)| x * y).sum()
}

/// Checks both modes against a central difference along a direction.
fn check(program: &Program) {
    assert_eq!(verify(program), [""; 0], "{program}");
    let wrt = floats(program);
    let args: Vec<NdArray> = program
        .params
        .iter()
        .enumerate()
        .map(|(i, v)| values(program, *v, 100 * i))
        .collect();
    let dx: Vec<NdArray> = wrt
        .iter()
        .enumerate()
        .map(|(i, v)| values(program, *v, 31 * i + 7))
        .collect();
    let moved = |step: f64| -> Vec<NdArray> {
        let mut tangents = dx.iter();
        let params = program.params.iter().zip(&args);
        params
            .map(|(param, x)| match wrt.contains(param) {
                true => {
                    let dx = tangents.next().expect("a tangent for each");
                    let data = x.data.iter().zip(&dx.data).map(|(x, dx)| x + step * dx);
                    NdArray {
                        data: data.collect(),
                        ..x.clone()
                    }
                }
                false => x.clone(),
            })
            .collect()
    };
    let jvp = ad::jvp(program, &wrt, Calls::Joint);
    assert_eq!(verify(&jvp.program), [""; 0], "{}", jvp.program);
    let joint = evaluate(&jvp.program, &[&args[..], &dx].concat());
    let dy = &joint[program.outs.len()..];
    let step = 1e-5;
    let (up, down) = (
        evaluate(program, &moved(step)),
        evaluate(program, &moved(-step)),
    );
    let active = up.iter().zip(&down).zip(&jvp.active);
    let active = active.filter(|(_, active)| **active).map(|(pair, _)| pair);
    for ((up, down), dy) in active.zip(dy) {
        for ((up, down), dy) in up.data.iter().zip(&down.data).zip(&dy.data) {
            let slope = (up - down) / (2.0 * step);
            assert!(
                (slope - dy).abs() < 1e-7 * (1.0 + slope.abs()),
                "{slope} {dy}\n{program}"
            );
        }
    }
    let vjp = ad::vjp(program, &wrt);
    assert_eq!(verify(&vjp.primal), [""; 0], "{}", vjp.primal);
    assert_eq!(verify(&vjp.pullback), [""; 0], "{}", vjp.pullback);
    let primal = evaluate(&vjp.primal, &args);
    let residuals = primal[vjp.n_outs..].to_vec();
    let cts: Vec<NdArray> = dy
        .iter()
        .enumerate()
        .map(|(i, dy)| {
            let mut n = 17 * i;
            NdArray::build(&dy.shape, |_| {
                n += 1;
                (n % 5) as f64 - 1.5
            })
        })
        .collect();
    let pulled = evaluate(&vjp.pullback, &[residuals, cts.clone()].concat());
    let nonzero = dx.iter().zip(&vjp.nonzero);
    let nonzero = nonzero.filter(|(_, nonzero)| **nonzero);
    let nonzero: Vec<NdArray> = nonzero.map(|(dx, _)| dx.clone()).collect();
    let (left, right) = (dot(dy, &cts), dot(&nonzero, &pulled));
    assert!(
        (left - right).abs() < 1e-9 * (1.0 + left.abs()),
        "{left} {right}\n{program}\n{}",
        vjp.pullback
    );
}

#[test]
fn derivatives_are_those_of_the_whole_function() {
    for program in samples() {
        check(&program);
        let wrt = floats(&program);
        check(&ad::jvp(&program, &wrt, Calls::Joint).program);
        check(&ad::vjp(&program, &wrt).pullback);
    }
}

#[test]
fn every_collective_has_a_sample() {
    let samples = Op::ShardMap.def().laws().samples;
    for op in Op::COLLECTIVES {
        let is_used = samples.iter().any(|text| text.contains(op.def().name()));
        assert!(is_used, "no sample of `shard_map` uses `{op}`");
    }
}

/// Returns the collectives of a program that send something, with their bytes.
fn sent(program: &Program) -> Vec<String> {
    let mut found = Vec::new();
    for eqn in &program.eqns {
        let bytes = cost::sent(program, eqn).expect("the shapes are known");
        if eqn.op.collective().is_some() && bytes > 0 {
            found.push(format!("{} {bytes}", eqn.op));
        }
        let attrs = eqn.attrs.iter().map(|attr| program.attr(*attr));
        for inner in attrs.filter_map(Static::programs).flatten() {
            found.extend(self::sent(inner));
        }
    }
    found
}

fn traffic(text: &str) -> [Vec<String>; 2] {
    let program: Program = text.parse().expect(text);
    assert_eq!(verify(&program), [""; 0], "{program}");
    check(&program);
    let vjp = ad::vjp(&program, &floats(&program));
    [sent(&vjp.primal), sent(&vjp.pullback)]
}

#[test]
fn a_perceptron_has_one_all_reduce_in_each_direction() {
    // The columns of `u` and the rows of `w` are divided.
    let [forward, backward] = traffic(
        "(x: f32[2, 4], u: f32[4, 8], w: f32[8, 4]) {
            y = shard_map[body=<(x: f32[2, 4], u: f32[4, 4], w: f32[4, 4]) {
                h = matmul x, u, like x, like u
                a = tanh h
                p = matmul a, w, like a, like w
                y = all_reduce[reduce=sum, over={m: 2}] p
                return y
            }>, mesh={m: 2}, ins=([{}, {}], [{}, {m}], [{m}, {}]), outs=([{}, {}])] x, u, w
            return y
        }"
        .replace("f32", "f64")
        .as_str(),
    );
    assert_eq!(forward, ["all_reduce 64"]);
    assert_eq!(backward, ["all_reduce 64"]);
}

#[test]
fn data_parallel_gradients_are_reduced_once_for_each_weight() {
    let [forward, backward] = traffic(
        "(x: f64[4, 2], w: f64[2, 2], b: f64[2]) {
            l = shard_map[body=<(x: f64[2, 2], w: f64[2, 2], b: f64[2]) {
                h = matmul x, w, like x, like w
                s = add h, b
                t = tanh s
                u = sum[axes=all, keepdims=false] t, like t
                l = all_reduce[reduce=sum, over={d: 2}] u
                return l
            }>, mesh={d: 2}, ins=([{d}, {}], [{}, {}], [{}]), outs=([])] x, w, b
            return l
        }",
    );
    assert_eq!(forward, ["all_reduce 8"]);
    assert_eq!(backward, ["all_reduce 16", "all_reduce 32"]);
}

#[test]
fn a_gathered_value_that_devices_use_is_scattered_back() {
    let [forward, backward] = traffic(
        "(x: f64[4], w: f64[4]) {
            y = shard_map[body=<(x: f64[2], w: f64[2]) {
                g = all_gather[axis=0, over={d: 2}, varying=false] x
                s = sum[axes=all, keepdims=true] g, like g
                y = mul s, w
                return y
            }>, mesh={d: 2}, ins=([{d}], [{d}]), outs=([{d}])] x, w
            return y
        }",
    );
    assert_eq!(forward, ["all_gather 16"]);
    // The sum is equal on all devices, so its cotangent is reduced before it is repeated.
    assert_eq!(backward, ["all_reduce 8"]);
}

#[test]
fn programs_that_do_not_fit_their_mesh_are_refused() {
    let refused = |body: &str, rest: &str| {
        let text = format!("(x: f64[4]) {{ y = shard_map[body=<{body}>, {rest}] x return y }}");
        let program: Program = text.parse().expect(&text);
        verify(&program)
            .join("\n")
            .split(": ")
            .skip(1)
            .collect::<Vec<_>>()
            .join(": ")
    };
    let all = [
        refused(
            "(x: f64[2]) { return x }",
            "mesh={d: 2}, ins=([{d}]), outs=([{}])",
        ),
        refused(
            "(x: f64[2]) { y = all_reduce[reduce=sum, over={e: 2}] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{}])",
        ),
        refused(
            "(x: f64[2]) { y = all_reduce[reduce=sum, over={d: 3}] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{}])",
        ),
        refused(
            "(x: f64[2]) { y = all_slice[axis=0, over={d: 2}] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{d}])",
        ),
        refused(
            "(x: f64[2]) { y = checkpoint[body=<(x: f64[2]) { y = scan[body=<(h: f64[2]) { y = all_reduce[reduce=sum, over={d: 2}] h return y }>, turns=2, consts=0, carry=1, reverse=false] x return y }>, kept=0] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{d}])",
        ),
        refused(
            "(x: f64[2]) { y = checkpoint[body=<(x: f64[2]) { y = all_reduce[reduce=sum, over={d: 2}] x return y, x }>, kept=0] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{}])",
        ),
        refused(
            "(x: f64[2]) { y = ppermute[pairs=[0, 2], over={d: 2}] x return y }",
            "mesh={d: 2}, ins=([{d}]), outs=([{d}])",
        ),
        refused(
            "(x: f64[2]) { return x }",
            "mesh={d: 2}, ins=([{d, d}]), outs=([{d}])",
        ),
    ];
    for message in &all {
        assert!(!message.is_empty(), "{all:#?}");
    }
    let text = all.join("\n");
    for part in [
        "may differ between the devices along {d: 2}",
        "has no axis `e`",
        "has 2 devices in the mesh {d: 2}, expected 3",
        "`all_slice` over {d: 2} takes a value that is equal",
        "`all_reduce` is in the program of a `scan`",
        "has no device 2",
        "occurs twice",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Returns the ops of each step.
fn shown(steps: &[DeviceStep]) -> Vec<String> {
    let of_step = |step: &DeviceStep| match step {
        DeviceStep::Segment(segment) => {
            let ops: Vec<String> = segment.eqns.iter().map(|e| e.op.to_string()).collect();
            ops.join(" ")
        }
        DeviceStep::Collective(eqn) => format!("{}!", eqn.op),
    };
    steps.iter().map(of_step).collect()
}

/// Two layers, each of which a checkpoint computes.
fn two_layers() -> String {
    let layer = "checkpoint[body=<(x: f64[2], w: f64[2]) {
        a = mul x, w
        h = sin a
        s = all_reduce[reduce=sum, over={d: 2}] h
        y = exp s
        return y
    }>, kept=0]";
    format!(
        "(x: f64[2], u: f64[2], w: f64[2]) {{ h = {layer} x, u y = {layer} h, w z = square y return z }}"
    )
}

#[test]
fn a_pullback_of_checkpoints_keeps_their_operands_only() {
    let body = two_layers();
    let text = format!(
        "(x: f64[2], u: f64[4], w: f64[4]) {{
            z = shard_map[body=<{body}>, mesh={{d: 2}}, ins=([{{}}], [{{d}}], [{{d}}]), outs=([{{}}])] x, u, w
            return z
        }}"
    );
    let [forward, backward] = traffic(&text);
    assert_eq!(forward, ["all_reduce 16", "all_reduce 16"]);
    // Each layer is computed again, and its operand is equal on all devices, so its cotangent is added up.
    assert_eq!(backward.len(), 4, "{backward:?}");
    let program: Program = text.parse().unwrap();
    let vjp = ad::vjp(&program, &floats(&program));
    // The operands of both layers, and the result for the square.
    let residuals = &vjp.primal.outs[vjp.n_outs..];
    let made: Vec<&Var> = residuals
        .iter()
        .filter(|var| !program.params.contains(var))
        .collect();
    assert_eq!(made.len(), 2, "{}", vjp.primal);
}

#[test]
fn a_checkpoint_is_computed_again_after_its_cotangents() {
    // The gradient is taken inside of the program of a device, so all steps are those of one program.
    let program: Program = two_layers().parse().unwrap();
    let vjp = ad::vjp(&program, &program.params);
    let mut b = Builder::new();
    let mut param = |v: &Var| b.param(program.aval(*v).clone());
    let params: Vec<Var> = program.params.iter().map(&mut param).collect();
    let ct = param(&program.outs[0]);
    let mut outs = inline(&mut b, &vjp.primal, &params);
    let residuals = outs.split_off(vjp.n_outs);
    outs.extend(inline(
        &mut b,
        &vjp.pullback,
        &[residuals, vec![ct]].concat(),
    ));
    let whole = b.finish([params, vec![ct]].concat(), outs);
    let (_, steps) = segments(&whole);
    assert_eq!(
        shown(&steps),
        [
            "mul sin",
            "all_reduce!",
            "exp mul sin",
            "all_reduce!",
            "exp square add mul mul sin cos",
            "all_reduce!",
            "exp mul mul mul mul mul sin cos",
            "all_reduce!",
            "exp mul mul mul mul",
        ]
    );
}

#[test]
fn a_program_has_a_segment_more_than_collectives_in_a_chain() {
    let program: Program = "(x: f64[2]) {
        a = sin x
        s = all_reduce[reduce=sum, over={d: 2}] a
        m = all_reduce[reduce=max, over={d: 2}] a
        b = mul s, m
        g = all_gather[axis=0, over={d: 2}, varying=false] b
        c = cos x
        d = sum[axes=all, keepdims=false] g, like g
        e = mul c, d
        return e
    }"
    .parse()
    .unwrap();
    let (_, steps) = segments(&program);
    assert_eq!(
        shown(&steps),
        [
            "sin cos",
            "all_reduce!",
            "all_reduce!",
            "mul",
            "all_gather!",
            "sum mul"
        ]
    );
}

#[test]
fn values_that_meet_vary_along_the_same_axes() {
    let mesh = MeshAxes::new(vec![(Symbol::new("d"), 2)]).unwrap();
    let body: Program = "(x: f64[2], w: f64[2]) {
        a = mul x, w
        g = all_gather[axis=0, over={d: 2}, varying=false] a
        s = sum[axes=all, keepdims=false] w, like w
        h = sum[axes=all, keepdims=false] g, like g
        t = add s, h
        u = mul a, t
        return u
    }"
    .parse()
    .unwrap();
    let ins = [Tiling(vec![vec![Symbol::new("d")]]), Tiling::whole(1)];
    let found = explicit(&body, &mesh, &ins, &ins[..1]).unwrap();
    let text = found.to_string();
    let places: Vec<&str> = text.lines().filter(|line| line.contains("pvary")).collect();
    assert_eq!(places.len(), 2, "{text}");
}
