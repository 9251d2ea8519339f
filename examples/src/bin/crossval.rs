//! Cross-validation of two runs of a transformer with twelve layers, which generates 1, 2 and 4
//! tokens. The second run has one weight changed, and the comparison of the traces finds its layer.
//!
//! `cargo run --release --bin crossval [FOLDER]` keeps the traces and the reports in the folder.

use gradloom::dump::{self, Config, Status, diff, read, report, scope, with_config};
use gradloom::prelude::*;
use std::error::Error;
use std::path::{Path, PathBuf};

const LAYERS: usize = 12;
const WIDTH: usize = 64;
const WORDS: usize = 50;
/// Layer and element of the weight that the second run changes.
const CHANGED: (usize, usize) = (7, 130);

#[derive(Clone, Tree)]
struct Attention {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
}

#[traced]
impl Attention {
    fn forward(&self, x: &Tensor) -> Tensor {
        let q_proj = x.matmul(&self.query);
        let k_proj = x.matmul(&self.key);
        let v_proj = x.matmul(&self.value);
        let position = Tensor::arange(x.dim(0), DType::I64);
        let sees = position.unsqueeze(1).ge(&position);
        let scores = q_proj.matmul(k_proj.swap_axes(0, 1)) * 0.125;
        let attn_scores_softmax = sees.select(&scores, -1e9).softmax(-1);
        let mixed = attn_scores_softmax.matmul(&v_proj);
        mixed.matmul(&self.out)
    }
}

#[derive(Clone, Tree)]
struct Blk {
    gain: Tensor,
    attention: Attention,
    up: Tensor,
    down: Tensor,
}

#[traced]
impl Blk {
    fn forward(&self, x: &Tensor) -> Tensor {
        let attn_norm = x.rms_norm(&self.gain, 1e-5);
        let attn_output = x + self.attention.forward(&attn_norm);
        let ffn_output = attn_output.matmul(&self.up).gelu().matmul(&self.down);
        attn_output + ffn_output
    }
}

#[derive(Clone, Tree)]
struct Model {
    words: Tensor,
    layers: Vec<Blk>,
}

#[traced]
impl Model {
    /// Returns the scores of the next word after each position.
    fn forward(&self, #[nodiff] tokens: &Tensor) -> Tensor {
        let embeddings = self.words.take(tokens, 0);
        let mut hidden = embeddings * 1.0;
        for layer in &self.layers {
            hidden = layer.forward(&hidden);
        }
        let logits = hidden.matmul(self.words.swap_axes(0, 1));
        logits * 1.0
    }
}

fn model() -> Model {
    let keys: [Key; 1 + LAYERS * 6] = Key::new(12).split_n();
    let mut keys = keys.into_iter();
    let mut weight = |rows: usize, columns: usize| {
        let key = keys.next().expect("a key for each weight");
        key.normal([rows, columns], DType::F32) / (rows as f64).sqrt()
    };
    let words = weight(WORDS, WIDTH);
    let layers = (0..LAYERS).map(|_| Blk {
        gain: Tensor::ones([WIDTH], DType::F32),
        attention: Attention {
            query: weight(WIDTH, WIDTH),
            key: weight(WIDTH, WIDTH),
            value: weight(WIDTH, WIDTH),
            out: weight(WIDTH, WIDTH),
        },
        up: weight(WIDTH, 4 * WIDTH),
        down: weight(4 * WIDTH, WIDTH),
    });
    let layers = layers.collect();
    Model { words, layers }
}

/// Returns the model with one weight changed by a thousandth.
fn changed(mut model: Model) -> Model {
    let (layer, element) = CHANGED;
    let weight = &mut model.layers[layer].attention.key;
    let mut elements = weight.to_vec::<f32>();
    elements[element] += 1e-3;
    *weight = Tensor::from_vec(elements, weight.shape());
    model
}

/// Generates tokens, each the most likely one, and writes the trace.
fn generate(model: &Model, n: usize, folder: &Path) -> Vec<i64> {
    let config = Config::new(folder).points("*").with_values();
    with_config(config, || {
        let mut tokens = vec![2i64, 11, 2, 40];
        for step in 0..n {
            let _step = scope(&format!("t{step}"));
            let logits = model.forward(&Tensor::from(tokens.clone()));
            let next = logits.argmax(-1).to_vec::<i64>();
            tokens.extend(next.last());
        }
        tokens
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let kept = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = kept
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("crossval-{}", std::process::id())));
    let (first, second) = (model(), changed(model()));
    let mut summary = String::from(
        "| tokens | records | equal | lowest cosine similarity | first divergence |\n|---|---|---|---|---|\n",
    );
    let mut found = Vec::new();
    for n in [1, 2, 4] {
        let paths = ["a", "b"].map(|run| folder.join(format!("{n}-tokens/{run}")));
        generate(&first, n, &paths[0]);
        generate(&second, n, &paths[1]);
        let [a, b] = paths.map(|path| read(&path));
        let diff = diff(&a?, &b?, 0.0)?;
        let values = diff.items.iter().filter_map(|item| item.values.as_ref());
        let lowest = values.map(|v| v.cosine_similarity).fold(1.0, f64::min);
        let (name, layer) = diff
            .first()
            .map_or(("none", None), |item| (&item.name, item.layer));
        summary += &format!(
            "| {n} | {} | {} | {lowest:.6} | `{name}` |\n",
            diff.items.len(),
            diff.count(Status::Equal)
        );
        found.push(layer);
        std::fs::write(
            folder.join(format!("{n}-tokens.md")),
            report::markdown(&diff),
        )?;
        std::fs::write(folder.join(format!("{n}-tokens.html")), report::html(&diff))?;
        if n == 1 {
            let report = report::text(&diff);
            let lines: Vec<&str> = report.lines().take(16).collect();
            println!("{}\n...\n", lines.join("\n"));
        }
    }
    println!("{summary}");
    match kept {
        Some(folder) => println!("the traces and reports are in {}", folder.display()),
        None => std::fs::remove_dir_all(&folder)?,
    }
    let wanted = Some(CHANGED.0);
    match found.iter().all(|layer| *layer == wanted) {
        true => println!("the changed weight is in layer {}", CHANGED.0),
        false => {
            return Err(format!(
                "the weight of layer {} was changed, and the reports name {found:?}",
                CHANGED.0
            )
            .into());
        }
    }
    debug_assert!(!dump::is_enabled(), "the trace ended");
    Ok(())
}
