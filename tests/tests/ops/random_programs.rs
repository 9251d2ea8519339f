//! Random programs give what a plain interpreter of the definitions gives: evaluated together, op by
//! op and in pieces, in both modes of differentiation, and on lanes.
//!
//! `GRADLOOM_PROGRAMS=100000 cargo test --release -p gradloom-tests --test ops random_programs` tests
//! more programs, and `GRADLOOM_PROGRAMS=57343..57344` those with these seeds. `docs/perf-log.md` has the
//! results. Programs whose results depend on rounding are drawn but not compared.

use gradloom::__private::replay;
use gradloom::{DType, Tensor, Vmap, evaluate, jvp, vjp};
use gradloom_ir::{Op, Program, Var, ad};
use gradloom_tests::graphs::{Graph, Kind, Node, Rng, Step, graph, interpret};
use gradloom_tests::noise;
use gradloom_tests::rng::seeds;

/// Default number of programs.
const PROGRAMS: u64 = 2000;

/// Number of wrong programs that are printed, the shortest first.
const SHOWN: usize = 8;

/// A graph as a function of its leaves. Its results are floats without consumers.
struct Function {
    graph: Graph,
    leaves: Vec<Tensor>,
    /// The leaves of dtype `f64`.
    floats: Vec<usize>,
    results: Vec<usize>,
}

impl Function {
    fn new(graph: Graph, values: &[Tensor]) -> Function {
        let leaves = graph.nodes.iter().filter_map(|node| match node {
            Node::Leaf(x) => Some(x.clone()),
            Node::Step(_) => None,
        });
        let leaves: Vec<Tensor> = leaves.collect();
        let is_float = |x: &Tensor| x.dtype() == DType::F64;
        let floats = (0..leaves.len())
            .filter(|i| is_float(&leaves[*i]))
            .collect();
        let read: Vec<usize> = graph.steps().flat_map(|step| step.data.clone()).collect();
        let results =
            (0..values.len()).filter(|v| values[*v].dtype().is_float() && !read.contains(v));
        Function {
            results: results.collect(),
            graph,
            leaves,
            floats,
        }
    }

    /// Returns all leaves, with other float leaves.
    fn with_floats(&self, x: &[Tensor]) -> Vec<Tensor> {
        let mut leaves = self.leaves.clone();
        for (i, x) in self.floats.iter().zip(x) {
            leaves[*i] = x.clone();
        }
        leaves
    }

    fn call(&self, leaves: &[Tensor]) -> Vec<Tensor> {
        let values = self.graph.record(Some(leaves), |_, _| {});
        let values = values.expect("the generator has checked the operands");
        self.results.iter().map(|v| values[*v].clone()).collect()
    }

    fn floats(&self) -> Vec<Tensor> {
        self.floats
            .iter()
            .map(|i| self.leaves[*i].clone())
            .collect()
    }
}

/// Returns tensors with other numbers.
fn noises(like: &[Tensor], seed: u64) -> Vec<Tensor> {
    let all = like.iter().enumerate();
    all.map(|(i, x)| noise(x.shape(), seed + i as u64))
        .collect()
}

/// The program of the results, and a derivative of it.
fn check_derivatives(f: &Function, seed: u64) -> Result<bool, String> {
    let (mut program, values) = f.graph.program();
    program.outs = f.results.iter().map(|v| values[*v]).collect();
    let wrt: Vec<_> = f.floats.iter().map(|i| program.params[*i]).collect();
    let x = f.floats();
    let dx = noises(&x, seed);
    let call = |x: &Vec<Tensor>| f.call(&f.with_floats(x));

    let by_rules = ad::jvp(&program, &wrt, ad::Calls::Joint);
    let args = [f.leaves.clone(), dx.clone()].concat();
    let expected = interpret(&by_rules.program, &args);
    if !expected.is_stable() {
        return Ok(false);
    }
    let (y, dy) = jvp(call, &x, &dx);
    let tangents = dy
        .iter()
        .zip(&by_rules.active)
        .filter(|(_, active)| **active);
    for (i, found) in y.iter().chain(tangents.map(|(dy, _)| dy)).enumerate() {
        expected.near(i, found).map_err(|e| format!("jvp: {e}"))?;
    }

    // <ct, dy> = <ct_x, dx>
    let ct = noises(&y, seed + 100);
    let ct_x = vjp(call, &x).1.call(&ct);
    let inner = |a: &[Tensor], b: &[Tensor]| {
        let products = a.iter().zip(b).flat_map(|(a, b)| (a * b).to_vec::<f64>());
        let products: Vec<f64> = products.collect();
        let size: f64 = products.iter().map(|x| x.abs()).sum();
        (products.iter().sum::<f64>(), size)
    };
    let ((forward, size), (reverse, other_size)) = (inner(&ct, &dy), inner(&ct_x, &dx));
    if (forward - reverse).abs() > 1e-9 * size.max(other_size).max(1.0) {
        return Err(format!(
            "vjp: {reverse:e} in reverse mode, {forward:e} in forward mode"
        ));
    }
    // Lanes of the gradient.
    let lanes = [x.clone(), x.iter().map(|x| x * 0.97).collect()];
    let stacked: Vec<Tensor> = (0..x.len())
        .map(|i| Tensor::stack(&[&lanes[0][i], &lanes[1][i]], 0))
        .collect();
    let gradient = |x: &Vec<Tensor>| vjp(call, x).1.call(&ct);
    let batched = Vmap::new(gradient).axis_size(2).call(&stacked);
    for (n, lane) in lanes.iter().enumerate() {
        for (of_lanes, alone) in batched.iter().zip(gradient(lane)) {
            let found = of_lanes.slice([n as i64], [n as i64 + 1], [1]).squeeze(0);
            let gap = (found - &alone).abs().to_vec::<f64>();
            let size = alone
                .to_vec::<f64>()
                .iter()
                .fold(1.0, |m: f64, x| x.abs().max(m));
            if gap.iter().any(|gap| *gap > 1e-8 * size) {
                return Err(format!("vmap of vjp: lane {n} differs by {gap:?}"));
            }
        }
    }
    Ok(true)
}

/// Returns the kind of programs with this seed.
fn kind_of(seed: u64) -> Kind {
    match seed.is_multiple_of(2) {
        true => Kind::Exact,
        false => Kind::Smooth,
    }
}

/// Draws a program. Returns the generator in the state after it.
fn drawn(seed: u64) -> (Graph, Rng) {
    let mut rng = Rng::new(5 << 40 | seed);
    // One of four exact programs and one of four smooth ones, which have derivatives, are long.
    let n_steps = 1 + rng.below(if seed % 8 < 2 { 60 } else { 12 });
    (graph(&mut rng, kind_of(seed), n_steps), rng)
}

/// Compares all ways to evaluate the program of a seed. Returns `None` if its numbers depend on rounding.
fn check(seed: u64) -> Option<(Graph, Result<(), String>)> {
    let (graph, mut rng) = drawn(seed);
    let result = check_graph(&graph, kind_of(seed), seed, &mut rng)?;
    Some((graph, result))
}

/// Compares all ways to evaluate a program. Returns `None` if its numbers depend on rounding.
fn check_graph(graph: &Graph, kind: Kind, seed: u64, rng: &mut Rng) -> Option<Result<(), String>> {
    let lazy = graph.record(None, |_, _| {}).ok()?;
    let f = Function::new(graph.clone(), &lazy);
    let expected = graph.interpreted(&f.leaves);
    if !expected.is_stable() {
        return None;
    }
    let compare = |what: &str, values: &[Tensor]| -> Result<(), String> {
        let mut all = values.iter().enumerate();
        all.try_for_each(|(i, x)| expected.near(i, x).map_err(|e| format!("{what}: {e}")))
    };
    let mut check_all = || {
        evaluate(&lazy).map_err(|e| e.to_string())?;
        compare("together", &lazy)?;
        let pieces = graph.record(None, |values, start| {
            if rng.once_in(3) {
                evaluate(&values[start..].to_vec()).expect("the generator has computed it");
            }
        });
        compare("in pieces", &pieces.map_err(|e| e.to_string())?)?;
        let single = graph.record(None, |values, start| {
            evaluate(&values[start..].to_vec()).expect("the generator has computed it");
        });
        compare("op by op", &single.map_err(|e| e.to_string())?)?;
        check_lanes(&f, rng)?;
        if kind == Kind::Smooth && !f.floats.is_empty() && !f.results.is_empty() {
            check_derivatives(&f, seed)?;
        }
        Ok(())
    };
    Some(check_all())
}

/// Returns a leaf for another lane, or `None` if its ops may not accept other numbers.
fn of_other_lane(graph: &Graph, leaf: usize, x: &Tensor) -> Option<Tensor> {
    let steers = |step: &Step| match step.op {
        Op::Switch | Op::While => step.data[0] == leaf,
        _ => false,
    };
    let reads = |step: &Step| step.data.contains(&leaf) || step.likes.contains(&leaf);
    match x.dtype() {
        DType::F64 | DType::F32 => Some(x * 0.96875),
        _ if !x.shape().is_empty() => Some(x.flip(0)),
        _ if !graph.steps().filter(|step| reads(step)).all(steers) => None,
        DType::Bool => Some(!x),
        _ => Some(x + 1),
    }
}

/// Compares lanes of the results with the interpreter. Some leaves differ between lanes, and with them
/// conditions and numbers of turns.
fn check_lanes(f: &Function, rng: &mut Rng) -> Result<(), String> {
    let nodes = f.graph.leaves().into_iter().zip(&f.leaves);
    let others: Vec<Option<Tensor>> = nodes
        .map(|(leaf, x)| of_other_lane(&f.graph, leaf, x).filter(|_| !rng.once_in(3)))
        .collect();
    let all = f.leaves.iter().zip(&others);
    let other = all.clone().map(|(x, other)| other.as_ref().unwrap_or(x));
    let lanes = [f.leaves.clone(), other.cloned().collect()];
    // Other numbers may be a division by zero.
    let alone = lanes[1..].iter().map(|leaves| f.call(leaves));
    if !alone.map(|y| evaluate(&y)).all(|y| y.is_ok()) {
        return Ok(());
    }
    let expected = lanes.each_ref().map(|leaves| f.graph.interpreted(leaves));
    if !expected.iter().all(|expected| expected.is_stable()) {
        return Ok(());
    }
    let inputs = all.map(|(x, other)| match other {
        Some(other) => Tensor::stack(&[x, other], 0),
        None => x.clone(),
    });
    let axes: Vec<Option<i32>> = others.iter().map(|x| x.as_ref().map(|_| 0)).collect();
    let batched = Vmap::new(|leaves: &Vec<Tensor>| f.call(leaves))
        .in_axes(&axes[..])
        .axis_size(2);
    let found = batched.call(&inputs.collect());
    for (n, expected) in expected.iter().enumerate() {
        for (v, found) in f.results.iter().zip(&found) {
            let found = found.slice([n as i64], [n as i64 + 1], [1]).squeeze(0);
            expected
                .near(*v, &found)
                .map_err(|e| format!("lane {n}: {e}"))?;
        }
    }
    Ok(())
}

/// Programs that once differed from their definitions, or are like these.
const ONCE_WRONG: &[&str] = &[
    "(k: i64[2]) { y = random_bits[shape=[3]] k return y }",
    "(k: i64[2]) { y = random_permutation[len=4] k return y }",
    "(x: f64[5, 2], i: i64[5]) { y = segment_sum[segments=3] x, i return y }",
    "(x: f64[3, 2], i: i64[5]) { y = segment_sum_t[segments=3] x, i return y }",
    "(x: i64[5], y: i64[1]) { z = pow y, x return z }",
    "(x: i32[5], y: bool[5]) { z = cast_t[dtype=i32] x, like y return z }",
    "(x: i64[5], y: f64[1]) { a = neg x b = cast[dtype=f64] a, like a z = atan2 b, y return z }",
    // Zeros of both signs are equal in an order.
    "(x: f64[5]) { zero = full[shape=[5], value=0, dtype=f64] y = mul x, zero z = argsort[axis=0, descending=true] y return z }",
    "(x: f64[5]) { zero = full[shape=[5], value=0, dtype=f64] y = mul x, zero z = top_k_indices[count=3, axis=0] y return z }",
    "(x: f64[5]) { zero = full[shape=[5], value=0, dtype=f64] y = mul x, zero s = sort[axis=0, descending=true] y z = signbit s return z }",
    // Loops in the body of a `while`, which reverse mode runs again.
    "(w: f64[2], i: i32[], x: f64[2]) { m, y = while[cond_body=<(w: f64[2], i: i32[], x: f64[2]) { zero = full[shape=[], value=0, dtype=i32] c = lt i, zero return c } | (w: f64[2], i: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] j = add i, one y = scan[body=<(w: f64[2], c: f64[2]) { a = mul w, c b = sin a return b }>, turns=3, consts=1, carry=1, reverse=false] w, x return j, y }>, consts=1] w, i, x return m, y }",
    "(w: f64[2], i: i32[], x: f64[2]) { m, y = while[cond_body=<(w: f64[2], i: i32[], x: f64[2]) { zero = full[shape=[], value=0, dtype=i32] c = lt i, zero return c } | (w: f64[2], i: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] j = add i, one k, y = while[cond_body=<(w: f64[2], i: i32[], x: f64[2]) { zero = full[shape=[], value=0, dtype=i32] c = lt i, zero return c } | (w: f64[2], i: i32[], x: f64[2]) { one = full[shape=[], value=1, dtype=i32] j = add i, one a = mul w, x y = sin a return j, y }>, consts=1] w, i, x return j, y }>, consts=1] w, i, x return m, y }",
];

/// Returns a program as a graph on these leaves.
fn graph_of(program: &Program, leaves: &[Tensor]) -> Graph {
    let mut vars = program.params.clone();
    let mut nodes: Vec<Node> = leaves.iter().cloned().map(Node::Leaf).collect();
    for eqn in &program.eqns {
        let value = |var: &Var| vars.iter().position(|v| v == var);
        nodes.push(Node::Step(Step {
            op: eqn.op,
            statics: eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect(),
            data: eqn
                .args
                .iter()
                .map(|arg| value(arg).expect("operands are bound before"))
                .collect(),
            likes: Vec::new(),
            n_outs: eqn.outs.len(),
        }));
        vars.extend(&eqn.outs);
    }
    Graph { nodes }
}

#[test]
fn programs_that_were_wrong_are_right() {
    for text in ONCE_WRONG {
        let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let args = program.params.iter().map(|param| {
            let aval = program.aval(*param);
            let shape = aval.shape.known().expect("the shapes are written out");
            let numbers = (0..shape.iter().product::<usize>()).map(|i| i as i64 % 5 - 2);
            let numbers: Vec<i64> = numbers.collect();
            Tensor::from_vec(numbers, shape).cast(aval.dtype.expect("the dtypes are written out"))
        });
        let args: Vec<Tensor> = args.collect();
        let found = replay(&program, &args).unwrap();
        interpret(&program, &args)
            .near(0, &found[0])
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        // Both modes, lanes, and evaluation in pieces.
        let graph = graph_of(&program, &args);
        match check_graph(&graph, Kind::Smooth, 1, &mut Rng::new(1)) {
            Some(result) => result.unwrap_or_else(|e| panic!("{e}\n{text}")),
            None => panic!("the numbers depend on rounding\n{text}"),
        }
    }
}

#[test]
fn a_random_program_gives_what_its_definitions_give() {
    let (n, seeds) = seeds(PROGRAMS);
    let (mut n_checked, mut seed) = (0, seeds.start);
    let mut wrong = Vec::new();
    while n_checked < n && seed < seeds.end {
        let checked = std::panic::catch_unwind(|| check(seed));
        match checked {
            Ok(None) => {}
            Ok(Some((_, Ok(())))) => n_checked += 1,
            Ok(Some((graph, Err(e)))) => {
                n_checked += 1;
                let text = graph.program().0.to_string();
                println!("seed {seed} is wrong: {e}");
                wrong.push((graph.nodes.len(), format!("seed {seed}: {e}\n{text}")));
            }
            Err(_) => {
                n_checked += 1;
                let (graph, _) = drawn(seed);
                let text = graph.program().0;
                wrong.push((graph.nodes.len(), format!("seed {seed} panics\n{text}")));
            }
        }
        seed += 1;
        if seed.is_multiple_of(10_000) {
            println!(
                "{n_checked} of {seed} programs checked, {} are wrong",
                wrong.len()
            );
        }
        assert!(
            seed < n.saturating_mul(4).saturating_add(100),
            "{n_checked} of {seed} programs do not depend on rounding"
        );
    }
    println!("{n_checked} of {seed} programs checked");
    wrong.sort();
    let shown: Vec<&str> = wrong.iter().take(SHOWN).map(|(_, text)| &**text).collect();
    assert!(
        wrong.is_empty(),
        "{} programs are wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
