//! Plans for a transformer of 7 billion parameters, made from shapes alone.
//!
//! `cargo test -p gradloom-ir --test spmd_plan -- --nocapture` prints the tables of
//! `docs/book/src/sharding.md`.

use gradloom_ir::sharding::{Mesh, ShardingSpec};
use gradloom_ir::spmd::{Constraints, Explanation, Speed, shard};
use gradloom_ir::{Program, Var, ad};
use std::fmt::Write;
use std::sync::Arc;

const LAYERS: usize = 32;
const WIDTH: usize = 4096;
const HEADS: usize = 32;
const HIDDEN: usize = 11008;
const WORDS: usize = 32000;
const LEN: usize = 2048;

/// The names of the weights of a layer, with their shapes, and their dims along `model`.
fn weights() -> [(&'static str, Vec<usize>, &'static str); 9] {
    let (columns, rows) = (r#"[{}, {"model"}]"#, r#"[{"model"}, {}]"#);
    let square = || vec![WIDTH, WIDTH];
    [
        ("n", vec![WIDTH], "[{}]"),
        ("wq", square(), columns),
        ("wk", square(), columns),
        ("wv", square(), columns),
        ("wo", square(), rows),
        ("m", vec![WIDTH], "[{}]"),
        ("wg", vec![WIDTH, HIDDEN], columns),
        ("wu", vec![WIDTH, HIDDEN], columns),
        ("wd", vec![HIDDEN, WIDTH], rows),
    ]
}

/// Returns the loss of a decoder as a program, and the spec of each parameter.
///
/// Each layer has attention by heads with rotary positions left out, and a gated perceptron, as in
/// Touvron et al.: LLaMA (2023).
fn decoder(batch: usize) -> (Program, Vec<String>) {
    let mut params = vec![
        format!("tokens: i64[{batch}, {LEN}]"),
        format!("labels: i64[{batch}, {LEN}]"),
        format!("table: f32[{WORDS}, {WIDTH}]"),
    ];
    let rows = r#"[{"data"}, {}]"#;
    let mut specs = vec![rows, rows, r#"[{}, {"model"}]"#];
    for layer in 0..LAYERS {
        for (name, shape, spec) in weights() {
            params.push(format!("{name}_{layer}: f32{shape:?}"));
            specs.push(spec);
        }
    }
    params.push(format!("last: f32[{WIDTH}]"));
    params.push(format!("head: f32[{WIDTH}, {WORDS}]"));
    specs.extend(["[{}]", r#"[{}, {"model"}]"#]);
    let mut body =
        "h_0 = take[axis=0, along=false, last=false] table, tokens, like table\n".to_owned();
    let size = WIDTH / HEADS;
    for i in 0..LAYERS {
        writeln!(body, "x_{i} = rms_norm[eps=1e-5] h_{i}, n_{i}").unwrap();
        for c in ["q", "k", "v"] {
            writeln!(
                body,
                "{c}_{i} = matmul x_{i}, w{c}_{i}, like x_{i}, like w{c}_{i}
                {c}r_{i} = reshape[shape=[{batch}, {LEN}, {HEADS}, {size}]] {c}_{i}, like {c}_{i}
                {c}h_{i} = swap_axes[a=1, b=2] {c}r_{i}"
            )
            .unwrap();
        }
        let next = i + 1;
        writeln!(
            body,
            "o_{i} = attention[causal=true] qh_{i}, kh_{i}, vh_{i}
            oh_{i} = swap_axes[a=1, b=2] o_{i}
            or_{i} = reshape[shape=[{batch}, {LEN}, {WIDTH}]] oh_{i}, like oh_{i}
            p_{i} = matmul or_{i}, wo_{i}, like or_{i}, like wo_{i}
            a_{i} = add h_{i}, p_{i}
            y_{i} = rms_norm[eps=1e-5] a_{i}, m_{i}
            g_{i} = matmul y_{i}, wg_{i}, like y_{i}, like wg_{i}
            u_{i} = matmul y_{i}, wu_{i}, like y_{i}, like wu_{i}
            s_{i} = silu g_{i}
            t_{i} = mul s_{i}, u_{i}
            d_{i} = matmul t_{i}, wd_{i}, like t_{i}, like wd_{i}
            h_{next} = add a_{i}, d_{i}"
        )
        .unwrap();
    }
    writeln!(
        body,
        "z = rms_norm[eps=1e-5] h_{LAYERS}, last
        logits = matmul z, head, like z, like head
        loss = cross_entropy logits, labels"
    )
    .unwrap();
    let text = format!("({}) {{\n{body}return loss\n}}", params.join(", "));
    let program = text.parse().unwrap_or_else(|e| panic!("{e}"));
    (program, specs.into_iter().map(str::to_owned).collect())
}

/// Returns the plan of a step: the loss and all gradients.
fn plan(data: usize, model: usize) -> Explanation {
    let mesh = Mesh::new("pod", &[("data", data), ("model", model)]).unwrap();
    let mesh = Arc::new(mesh);
    let (program, texts) = decoder(data);
    let is_float = |var: &Var| program.aval(*var).dtype.is_some_and(|d| d.is_float());
    let wrt: Vec<Var> = program.params.iter().copied().filter(is_float).collect();
    let step = ad::grad_program(&program, &wrt).program;
    let spec = |text: &String| {
        let text = format!("sharding<@pod, {text}>");
        Some(ShardingSpec::parse(&mesh, &text).unwrap_or_else(|e| panic!("{text}: {e}")))
    };
    let params: Vec<_> = texts.iter().map(spec).collect();
    // Each gradient is placed as its parameter.
    let loss = Some(ShardingSpec::replicated(&mesh, 0));
    let outs = std::iter::once(loss).chain(params[2..].iter().cloned());
    let constraints = Constraints {
        outs: outs.collect(),
        params,
    };
    let sharded = shard(&step, &mesh, &constraints).unwrap_or_else(|e| panic!("{e}"));
    sharded.explain(&Speed::default())
}

/// Returns the number of collectives of a kind.
fn count(of: &Explanation, name: &str, axis: &str) -> usize {
    let kinds = of.by_kind().into_iter();
    let of_kind = kinds.filter(|(kind, axes, ..)| {
        *kind == name && axes.len() == 1 && axes[0].name.as_str() == axis
    });
    of_kind.map(|(_, _, n, _)| n).sum()
}

#[test]
fn a_step_of_7_billion_parameters_is_planned_for_1024_devices() {
    let start = std::time::Instant::now();
    for (data, model) in [(1, 8), (8, 8), (128, 8)] {
        let of = plan(data, model);
        println!("\ndata = {data}, model = {model}\n{}", of.summary());
        // In each layer, two sums are scattered and gathered again in both directions. The gradients of the
        // norms are gathered. The table and the head add a few.
        let scattered = count(&of, "reduce_scatter", "model");
        assert!(
            (4 * LAYERS..4 * LAYERS + 3).contains(&scattered),
            "{}",
            of.summary()
        );
        let gathered = count(&of, "all_gather", "model");
        assert!(
            (6 * LAYERS..6 * LAYERS + 5).contains(&gathered),
            "{}",
            of.summary()
        );
        let n_weights = 9 * LAYERS + 3;
        let reduced = count(&of, "all_reduce", "data");
        let expected = match data {
            1 => 0..=0,
            _ => n_weights..=n_weights + 1,
        };
        assert!(expected.contains(&reduced), "{}", of.summary());
        // Megatron-LM sends (Korthikanti et al., 2022) four sums of a layer's values, and all gradients.
        let (n, d) = (model as f64, data as f64);
        let values = (LEN * WIDTH * 4) as f64;
        let sums = 4.0 * LAYERS as f64 * 2.0 * (n - 1.0) / n * values;
        let gradients = 2.0 * (d - 1.0) / d * of.params as f64;
        let most = 1.02 * (sums + gradients);
        assert!((of.sent() as f64) < most, "{most}\n{}", of.summary());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\nplanned in {seconds:.1} s");
    assert!(seconds < 120.0, "{seconds}");
}
