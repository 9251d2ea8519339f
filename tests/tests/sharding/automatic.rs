//! Functions that the devices of a mesh compute together give what one device gives.

use super::{Grid, assert_near};
use gradloom::prelude::*;
use gradloom::sharding::{ShardingSpec, Specs, Speed, explain_sharding, sharded, with_sharding};
use gradloom::{Param, checkpoint, cond, custom_vjp, scan, while_loop};
use gradloom_tests::noise;

/// Compares values, both modes, second derivatives and batches of a function of `x`, divided and whole.
pub(super) fn compare(
    what: &str,
    f: &dyn Fn(&Tensor) -> Tensor,
    g: &dyn Fn(&Tensor) -> Tensor,
    x: &Tensor,
) {
    let near = |found: &Tensor, expected: &Tensor, of: &str| {
        assert_near(found, expected, &format!("{what}: {of}"));
    };
    near(&f(x), &g(x), "value");
    let dx = noise(x.shape(), 11);
    near(&jvp(f, x, &dx).1, &jvp(g, x, &dx).1, "jvp");
    let loss = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| {
        let y = f(x);
        (&y * noise(y.shape(), 12)).sum(..)
    };
    let slope = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| grad(|x: &Tensor| loss(f, x))(x);
    near(&slope(f, x), &slope(g, x), "gradient");
    let second = |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| (slope(f, x) * &dx).sum(..))(x);
    near(&second(f), &second(g), "second derivative");
    let lanes = Tensor::stack(&[x.clone(), &dx * 0.5], 0);
    near(&vmap(f)(&lanes), &vmap(g)(&lanes), "vmap");
}

pub(super) fn spec(grid: &Grid, dims: &[&[&str]]) -> ShardingSpec {
    ShardingSpec::split(&grid.mesh, dims).unwrap()
}

#[test]
fn a_function_is_the_same_however_its_argument_is_divided() {
    type Function = (&'static str, Box<dyn Fn(&Tensor) -> Tensor>);
    let w = noise(&[5, 6], 2);
    let functions: Vec<Function> = vec![
        ("elementwise", Box::new(|x| x.sin() * x)),
        ("sum", Box::new(|x| x.sum(0).exp())),
        ("mean", Box::new(|x| x.square().mean(..))),
        ("max", Box::new(|x| x.max(1) * 2.0)),
        ("min", Box::new(|x| x.min(0))),
        ("prod", Box::new(|x| x.prod(0))),
        ("softmax", Box::new(|x| x.softmax(-1))),
        ("logsumexp", Box::new(|x| x.logsumexp(0))),
        ("matmul", Box::new(move |x| x.matmul(&w).tanh())),
        ("square", Box::new(|x| x.matmul(x.transpose()))),
        ("cumsum", Box::new(|x| x.cumsum(1))),
        ("reshape", Box::new(|x| x.reshape([-1]).sin())),
        ("transpose", Box::new(|x| x.transpose().cos())),
        ("slice", Box::new(|x| x.i((1..4, 2..)).sin())),
        ("log", Box::new(|x| x.square().log().sum(0))),
        ("sort", Box::new(|x| x.sort(1).cumsum(1))),
    ];
    // Lengths that no mesh divides equally.
    let x = noise(&[7, 5], 3) + 0.1;
    for grid in Grid::all() {
        let names = &grid.names;
        let mut specs = vec![
            spec(&grid, &[&[names[0]], &[]]),
            spec(&grid, &[&[], &[names[0]]]),
            spec(&grid, &[names, &[]]),
        ];
        if names.len() > 1 {
            specs.push(spec(&grid, &[&[names[1]], &[names[0]]]));
        }
        for (name, f) in &functions {
            for spec in &specs {
                let divided = sharded(|x: &Tensor| f(x), &grid.mesh, spec, None);
                compare(&format!("{name} with {spec}"), &divided, f, &x);
            }
        }
    }
}

#[test]
fn maxima_over_a_divided_axis_are_maxima() {
    let grid = Grid::new(&[2, 3]);
    let x = noise(&[6, 12], 1);
    for dims in [[&["a"][..], &["b"]], [&["b"], &["a"]], [&[], &["a", "b"]]] {
        let spec = spec(&grid, &dims);
        for axis in [0, 1] {
            let max = sharded(|x: &Tensor| x.max(axis), &grid.mesh, &spec, None);
            assert_eq!(max(&x).to_vec::<f64>(), x.max(axis).to_vec::<f64>());
            let argmax = sharded(|x: &Tensor| x.argmax(axis), &grid.mesh, &spec, None);
            assert_eq!(argmax(&x).to_vec::<i64>(), x.argmax(axis).to_vec::<i64>());
        }
    }
}

#[derive(Clone, Tree)]
struct Perceptron {
    u: Tensor,
    w: Tensor,
}

fn loss((net, x): &(Perceptron, Tensor)) -> Tensor {
    x.matmul(&net.u).tanh().matmul(&net.w).square().mean(..)
}

#[test]
fn a_step_of_training_is_that_of_one_device() {
    let grid = Grid::new(&[2, 2]);
    let net = Perceptron {
        u: noise(&[6, 12], 1),
        w: noise(&[12, 4], 2),
    };
    let x = noise(&[9, 6], 3);
    let (expected, slope) = value_and_grad(loss)(&(net.clone(), x.clone()));
    let weights = [
        ("u", Some(spec(&grid, &[&[], &["b"]]))),
        ("w", Some(spec(&grid, &[&["b"], &[]]))),
    ];
    let rows = spec(&grid, &[&["a"], &[]]);
    let all: [Specs; 3] = [
        (None, rows.clone()).into(),
        (weights.clone(), None).into(),
        (weights, rows).into(),
    ];
    for specs in all {
        let divided = sharded(loss, &grid.mesh, specs, None);
        let (value, found) = value_and_grad(divided)(&(net.clone(), x.clone()));
        assert_near(&value, &expected, "loss");
        assert_near(&found.0.u, &slope.0.u, "u");
        assert_near(&found.0.w, &slope.0.w, "w");
        assert_near(&found.1, &slope.1, "x");
    }
}

/// Row S1.34 of the requirements.
#[test]
fn specs_of_tensors_and_constraints_place_values() {
    let grid = Grid::new(&[2]);
    let rows = spec(&grid, &[&["a"], &[]]);
    let columns = spec(&grid, &[&[], &["a"]]);
    let x = noise(&[4, 6], 1);
    let f = |x: &Tensor| with_sharding(&x.sin(), &columns).sum(1);
    let divided = sharded(f, &grid.mesh, None, None);
    compare("constraint", &divided, &|x: &Tensor| x.sin().sum(1), &x);
    let sent = |x: &Tensor, f: &dyn Fn(&Tensor) -> Tensor| {
        let explained = explain_sharding(
            |x: &Tensor| f(x),
            &grid.mesh,
            None,
            None,
            x,
            &Speed::default(),
        );
        let explained = explained.unwrap();
        explained
            .collectives
            .iter()
            .map(|of| of.name)
            .collect::<Vec<_>>()
    };
    let sum = |x: &Tensor| x.sum(0);
    assert_eq!(sent(&x, &sum), [""; 0]);
    assert_eq!(sent(&x.shard(&rows), &sum), ["all_reduce"]);
    assert_eq!(sent(&x.shard(&columns), &sum), [""; 0]);
}

#[test]
fn a_tensor_parallel_perceptron_has_one_all_reduce_in_each_direction() {
    let grid = Grid::new(&[2]);
    let (u, w) = (spec(&grid, &[&[], &["a"]]), spec(&grid, &[&["a"], &[]]));
    let args = (noise(&[4, 6], 1), noise(&[6, 8], 2), noise(&[8, 6], 3));
    let f = |(x, u, w): &(Tensor, Tensor, Tensor)| x.matmul(u).tanh().matmul(w);
    let whole = || Some(ShardingSpec::replicated(&grid.mesh, 2));
    let names = |explained: gradloom::sharding::Explanation| {
        explained
            .collectives
            .iter()
            .map(|of| of.name)
            .collect::<Vec<_>>()
    };
    let specs = (whole(), u, w);
    let forward = explain_sharding(
        f,
        &grid.mesh,
        specs.clone(),
        whole(),
        &args,
        &Speed::default(),
    );
    assert_eq!(names(forward.unwrap()), ["all_reduce"]);
    // The gradient of a loss of the replicated result: one more, for the input.
    let step = |args: &(Tensor, Tensor, Tensor)| {
        grad(|args: &(Tensor, Tensor, Tensor)| f(args).square().sum(..))(args)
    };
    let outs = specs.clone();
    let backward = explain_sharding(step, &grid.mesh, specs, outs, &args, &Speed::default());
    assert_eq!(names(backward.unwrap()), ["all_reduce", "all_reduce"]);
}

#[test]
fn specs_that_do_not_fit_are_errors() {
    let grid = Grid::new(&[2]);
    let x = noise(&[4], 1);
    let f = |x: &Tensor| -> Result<Tensor> { Ok(x.sin()) };
    let wide = spec(&grid, &[&[], &["a"]]);
    let other = Grid::new(&[4]);
    let all = [
        sharded(f, &grid.mesh, &wide, None)(&x)
            .unwrap_err()
            .to_string(),
        sharded(f, &grid.mesh, None, &wide)(&x)
            .unwrap_err()
            .to_string(),
        sharded(f, &grid.mesh, other.rows(), None)(&x)
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    sharded: `argument` is f64[4], and its spec has 2 dims: sharding<@m, [{}, {"a"}]>
    sharded: `result` is f64[4], and its spec has 2 dims: sharding<@m, [{}, {"a"}]>
    sharded: sharding<@m, [{"a"}]> does not refer to mesh @m <["a"=2]>
    "#);
}

/// Layers of `tanh(h w)` on rows that 8 devices divide: the report on a function of the weights and the rows.
fn layers(f: impl Fn(&Tensor, &Tensor) -> Tensor) -> gradloom::sharding::Explanation {
    let grid = Grid::new(&[8]);
    let (ws, x) = (
        Tensor::zeros([4, 64, 64], DType::F32),
        Tensor::zeros([128, 64], DType::F32),
    );
    let specs: Specs = (Specs::from(None), Specs::from(spec(&grid, &[&["a"]]))).into();
    let f = |(ws, x): &(Tensor, Tensor)| f(ws, x).square().sum(..);
    explain_sharding(f, &grid.mesh, specs, None, &(ws, x), &Speed::default()).unwrap()
}

fn layer((h, w): &(Tensor, Tensor)) -> Tensor {
    h.matmul(w).tanh()
}

#[test]
fn programs_that_run_once_are_divided() {
    let plain = layers(|ws, x| (0..4).fold(x.clone(), |h, i| layer(&(h, ws.i(i)))));
    let kept = layers(|ws, x| (0..4).fold(x.clone(), |h, i| checkpoint(layer)(&(h, ws.i(i)))));
    let ruled = custom_vjp(
        layer,
        |x: &(Tensor, Tensor)| (layer(x), x.clone()),
        |(h, w): &(Tensor, Tensor), ct: &Tensor| (ct.matmul(w.t()), h.t().matmul(ct)),
    );
    let ruled = layers(|ws, x| (0..4).fold(x.clone(), |h, i| ruled(&(h, ws.i(i)))));
    let grid = Grid::new(&[8]);
    let again = sharded(layer, &grid.mesh, (spec(&grid, &[&["a"]]), None), None);
    let again = layers(|ws, x| (0..4).fold(x.clone(), |h, i| again(&(h, ws.i(i)))));
    for of in [kept, ruled, again] {
        assert_eq!(of.flops, plain.flops);
        assert_eq!(of.by_kind(), plain.by_kind());
    }
    // Each device multiplies 16 rows, four times.
    assert!(plain.flops > 4.0 * 2.0 * 16.0 * 64.0 * 64.0);
}

#[test]
fn loops_and_branches_are_divided_and_counted() {
    let part = 2.0 * 16.0 * 64.0 * 64.0;
    let turns = layers(|ws, x| {
        scan(
            |h: &Tensor, w: &Tensor| (layer(&(h.clone(), w.clone())), ()),
            x,
            ws,
        )
        .0
    });
    assert!(
        turns.flops > 4.0 * part && turns.flops < 4.5 * part,
        "{}",
        turns.flops
    );
    let choice = layers(|ws, x| {
        let first = ws.i(0);
        cond(
            &x.sum(..).gt(0.0),
            |x: &Tensor| layer(&(x.clone(), first.clone())),
            Tensor::clone,
            x,
        )
    });
    assert!(
        choice.flops > part && choice.flops < 1.2 * part,
        "{}",
        choice.flops
    );
}

#[test]
fn numbers_and_shapes_take_no_memory() {
    let grid = Grid::new(&[2]);
    let shape_of = Tensor::zeros([1 << 20], DType::F32);
    let f = |x: &Tensor| (x + 1.0).sum(..) + shape_of.ones_like().sum(..);
    let x = Tensor::zeros([1024], DType::F32);
    let of = explain_sharding(f, &grid.mesh, None, None, &x, &Speed::default()).unwrap();
    assert!(of.params < 8 << 10, "{of}");
    assert!(of.memory < 16 << 10, "{of}");
}

#[test]
fn a_program_inside_of_another_has_the_same_values() {
    let grid = Grid::new(&[2, 2]);
    let rows = spec(&grid, &[&["a"], &[]]);
    let columns = spec(&grid, &[&[], &["b"]]);
    let part = ShardingSpec::parse(
        &Grid::new(&[4]).mesh,
        r#"sharding<@m, [{"a":(1)2}, {"a":(2)2}]>"#,
    )
    .unwrap();
    let other = Grid::new(&[3]);
    let x = noise(&[5, 6], 1);
    let plain = |x: &Tensor| x.sin().matmul(x.transpose()).cos();
    let inner = |x: &Tensor| x.matmul(x.transpose()).cos();
    let inner = |x: &Tensor| with_sharding(&inner(x), &rows);
    // Specs of the inner function are constraints of the outer one.
    let nested = sharded(
        |x: &Tensor| {
            let f = |x: &Tensor| x.matmul(x.transpose()).cos();
            sharded(f, &grid.mesh, &columns, &rows)(&x.sin())
        },
        &grid.mesh,
        &rows,
        None,
    );
    let plain_inner = |x: &Tensor| x.sin().matmul(x.sin().transpose()).cos();
    compare("nested", &nested, &plain_inner, &x);
    let kept = |x: &Tensor| checkpoint(|x: &Tensor| inner(&x.sin()))(x);
    let kept = sharded(kept, &grid.mesh, &rows, None);
    compare("checkpoint", &kept, &plain_inner, &x);
    // Another mesh has other devices, so all devices compute the whole.
    let f = |x: &Tensor| x.sin().matmul(x.transpose()).cos();
    let foreign = |x: &Tensor| sharded(f, &other.mesh, spec(&other, &[&["a"]]), None)(x);
    compare(
        "mesh",
        &sharded(foreign, &grid.mesh, &rows, None),
        &plain,
        &x,
    );
    let report = explain_sharding(foreign, &grid.mesh, &rows, None, &x, &Speed::default());
    let report = report.unwrap().to_string();
    assert!(report.contains("= sharded v0; no axis"), "{report}");
    // A spec of a part of an axis inside of a checkpoint.
    let four = Grid::new(&[4]);
    let parts = |x: &Tensor| checkpoint(|x: &Tensor| with_sharding(&x.sin(), &part))(x);
    let parts = sharded(parts, &four.mesh, None, None);
    compare("part", &parts, &|x| x.sin(), &x);
}

#[test]
fn a_constraint_of_another_mesh_in_a_checkpoint_is_an_error() {
    let grid = Grid::new(&[2]);
    let foreign = spec(&Grid::new(&[3]), &[&["a"]]);
    let f = |x: &Tensor| checkpoint(|x: &Tensor| with_sharding(&x.sin(), &foreign))(x);
    let x = noise(&[6], 1);
    let error = explain_sharding(f, &grid.mesh, None, None, &x, &Speed::default());
    insta::assert_snapshot!(error.unwrap_err(), @r#"explain_sharding: the spec of `v3`: the spec refers to mesh @m <["a"=3]>, expected mesh @m <["a"=2]>"#);
}

#[test]
fn the_report_tells_what_all_devices_compute() {
    let grid = Grid::new(&[2]);
    let x = Tensor::zeros([64, 64], DType::F32);
    let f = |x: &Tensor| {
        let h = scan(|h: &Tensor, x: &Tensor| (h + x, ()), &x.i(0), x).0;
        while_loop(|h: &Tensor| h.sum(..).lt(1.0), |h: &Tensor| h * 2.0, &h)
    };
    let report = |f: &dyn Fn(&Tensor) -> Tensor, specs: Specs| {
        explain_sharding(f, &grid.mesh, specs, None, &x, &Speed::default()).unwrap()
    };
    insta::assert_snapshot!(report(&f, None.into()), @r#"
    mesh @m <["a"=2]>
    param  v0: f32[64, 64] [{}, {}], 16.00 KiB per device
    v7: f32[] [] = full 
    v8: f32[] [] = scalar v7
    v9: f32[64] [{}] = full 
    v10: f32[] [] = scalar v9
    v3: f32[64, 64] [{}, {}] = full 
    v4: f32[64] [{}] = select_index v0, v3
    v5: f32[64] [{}] = scan v4, v0; all devices compute it whole
    v6: f32[64] [{}] = while v8, v10, v5; no axis of the op can be split, so all devices compute it whole; one turn of it counts
    result v6: f32[64] [{}], 256 B per device

    each device sends 0 B and computes 4.225e3 flops
    estimated time: 0.07 us, of which 0.07 us compute and 0.00 us collectives
    memory per device: 16.50 KiB, of which 16.00 KiB parameters
    "#);
    // Cotangents of a mean repeat a number, and so are no parameters.
    let labels = Tensor::zeros([64], DType::I64);
    let loss = |x: &Tensor| grad(|x: &Tensor| x.cross_entropy(&labels))(x);
    let params = report(&loss, grid.rows().into()).to_string();
    let params: Vec<&str> = params
        .lines()
        .filter(|line| line.starts_with("param"))
        .collect();
    insta::assert_snapshot!(params.join("\n"), @r#"param  v0: f32[64, 64] [{"a"}, {}], 8.00 KiB per device"#);
}

#[test]
fn a_collective_before_a_loop_has_the_line_of_the_loop() {
    let grid = Grid::new(&[2]);
    let (x, rows) = (Tensor::zeros([8, 4], DType::F32), grid.rows());
    let lines = |f: &dyn Fn(&Tensor) -> Tensor| -> Vec<u32> {
        let of = explain_sharding(f, &grid.mesh, &rows, None, &x, &Speed::default()).unwrap();
        let lines = of.by_line();
        assert_eq!(lines.len(), 1, "{of}");
        lines
            .iter()
            .map(|(line, ..)| line.unwrap().line())
            .collect()
    };
    let looped = |x: &Tensor| scan(|h: &Tensor, x: &Tensor| (h + x, ()), &x.i(0), x).0;
    assert_eq!(lines(&looped), [line!() - 1]);
    let fallible = |h: &Tensor, x: &Tensor| -> Result<(Tensor, ())> { Ok((h + x, ())) };
    let looped = |x: &Tensor| {
        let y = x.neg();
        let out = scan(fallible, &Tensor::zeros([4], DType::F32), &y);
        out.unwrap().0
    };
    assert_eq!(lines(&looped), [line!() - 4]);
    let kept = |x: &Tensor| checkpoint(|x: &Tensor| x.cumsum(0))(x);
    assert_eq!(lines(&kept), [line!() - 1]);
}

#[test]
fn results_and_parameters_carry_their_specs() {
    let grid = Grid::new(&[2, 2]);
    let (rows, columns) = (spec(&grid, &[&["a"], &[]]), spec(&grid, &[&[], &["b"]]));
    let x = noise(&[4, 6], 1);
    let f = |x: &Tensor| (x.sin(), x.sum(..), x.cos());
    let specs: Specs = (&rows, None, &columns).into();
    let (y, sum, z) = sharded(f, &grid.mesh, None, specs.clone())(&x);
    let carried = || [y.sharding(), sum.sharding(), z.sharding()];
    assert_eq!(carried(), [Some(&rows), None, Some(&columns)]);
    assert_near(&y, &x.sin(), "values");
    // Reading the values does not change that.
    assert_eq!(carried(), [Some(&rows), None, Some(&columns)]);
    // The next function takes its argument as it is.
    let next = explain_sharding(
        |x: &Tensor| x * 2.0,
        &grid.mesh,
        None,
        None,
        &y,
        &Speed::default(),
    );
    assert!(next.unwrap().to_string().contains(r#"[{"a"}, {}]"#));
    let lanes = Tensor::stack(&[x.clone(), x.clone()], 0);
    let all = vmap(sharded(|x: &Tensor| x.sin(), &grid.mesh, None, &rows))(&lanes);
    assert_eq!(all.to_vec::<f64>(), lanes.sin().to_vec::<f64>());

    let w = Param::new(x.shard(&rows)).unwrap();
    assert_eq!(w.tensor().sharding(), Some(&rows));
    for _ in 0..2 {
        w.zero_grad();
        w.tensor().square().sum(..).backward().unwrap();
        w.set(w.tensor() - w.grad().unwrap() * 0.1).unwrap();
        assert_eq!(w.tensor().sharding(), Some(&rows));
    }
    assert_near(&w.tensor(), &(&x * 0.64), "training");
    // A function that captures it has it in place.
    let captures = |x: &Tensor| x.matmul(w.tensor());
    let found = explain_sharding(
        captures,
        &grid.mesh,
        None,
        None,
        &x.transpose(),
        &Speed::default(),
    );
    let found = found.unwrap().to_string();
    assert!(found.contains(r#"f64[4, 6] [{"a"}, {}]"#), "{found}");
    w.set(x.shard(&columns)).unwrap();
    assert_eq!(w.tensor().sharding(), Some(&columns));
    assert!(w.set(Tensor::zeros([2], DType::F64)).is_err());
}
