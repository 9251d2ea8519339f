//! all-MiniLM-L6-v2 gives the embeddings that PyTorch gives, with the published weights.
//!
//! `GRADLOOM_MINILM` names the folder with `model.safetensors`: see `src/bin/semantic_search.rs`.

use gradloom::prelude::*;
use gradloom_examples::minilm::MiniLm;
use std::path::PathBuf;

#[derive(serde::Deserialize)]
struct Reference {
    ids: Vec<Vec<i64>>,
    mask: Vec<Vec<i64>>,
    embeddings: Vec<Vec<f32>>,
}

fn matrix<T: gradloom::Element>(rows: &[Vec<T>]) -> Tensor {
    let all: Vec<T> = rows.iter().flatten().copied().collect();
    Tensor::from_vec(all, [rows.len(), rows[0].len()])
}

#[test]
fn embeddings_agree_with_those_of_pytorch() {
    let Some(folder) = std::env::var_os("GRADLOOM_MINILM").map(PathBuf::from) else {
        println!("not run: `GRADLOOM_MINILM` does not name a folder with the weights");
        return;
    };
    let (model, report) = MiniLm::load(folder.join("model.safetensors")).unwrap();
    assert!(report.missing.is_empty(), "{report:?}");
    let pooler = ["pooler.dense.bias", "pooler.dense.weight"];
    let other: Vec<&String> = report
        .unexpected
        .iter()
        .filter(|name| !pooler.contains(&&***name))
        .collect();
    assert!(
        other.iter().all(|name| name.ends_with("position_ids")),
        "{other:?}"
    );

    let reference: Reference =
        serde_json::from_str(include_str!("../data/minilm_embeddings.json")).unwrap();
    let found = model.embed(
        &matrix(&reference.ids),
        &matrix(&reference.mask).cast(DType::Bool),
    );
    let gap = (found - matrix(&reference.embeddings))
        .abs()
        .max(..)
        .item::<f32>();
    println!("greatest difference {gap:e}");
    assert!(gap < 1e-5, "{gap:e}");
}
