//! Checkpoints load onto other meshes, and refuse files that are not those that were written.

use gradloom::prelude::*;
use gradloom::sharding::{
    CheckpointError, Mesh, ShardingSpec, Specs, load_checkpoint, save_checkpoint,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Tree)]
struct Model {
    layers: Vec<Layer>,
    table: BTreeMap<String, Tensor>,
    step: Tensor,
    is_frozen: Tensor,
}

/// A model with leaves of each dtype, of lengths that no number of devices divides. `seed` changes all of them.
fn model(seed: i64) -> Model {
    let numbers = |n: usize| (0..n).map(|i| (i as i64 * 37 + seed * 11) % 101 - 50);
    let f32s = |shape: &[usize]| {
        let n = shape.iter().product();
        Tensor::from_vec(numbers(n).map(|x| x as f32 / 8.0).collect(), shape)
    };
    let table = Tensor::from_vec(numbers(30).map(|x| x as f64 / 3.0).collect(), [5, 1, 6]);
    let counts = Tensor::from_vec(numbers(3).map(|x| x as i32).collect(), [3]);
    Model {
        layers: vec![
            Layer {
                w: f32s(&[7, 5]),
                b: f32s(&[5]),
            },
            Layer {
                w: f32s(&[5, 1]),
                b: f32s(&[0]),
            },
        ],
        table: [
            ("\"words\"".to_owned(), table),
            ("counts".to_owned(), counts),
        ]
        .into(),
        step: Tensor::from(seed),
        is_frozen: Tensor::from([true, false, seed % 2 == 0]),
    }
}

/// The meshes (4), (2), (2, 2), (3), and one that reverses its devices.
fn meshes() -> Vec<Arc<Mesh>> {
    let mesh = |axes: &[(&str, usize)]| Mesh::new("m", axes).unwrap();
    let reversed = Mesh::with_devices("r", &[("a", 2), ("b", 2)], vec![3, 2, 1, 0]).unwrap();
    let all = [
        mesh(&[("a", 4)]),
        mesh(&[("a", 2)]),
        mesh(&[("a", 2), ("b", 2)]),
        mesh(&[("a", 3)]),
        reversed,
    ];
    all.map(Arc::new).into()
}

/// Specs for a model on a mesh: by rows, or by the last axis of the mesh in other ways.
fn specs(mesh: &Arc<Mesh>, by_rows: bool) -> Specs {
    let last = mesh.axes().last().unwrap().name.as_str();
    let spec = |dims: &[&[&str]]| Some(ShardingSpec::split(mesh, dims).unwrap());
    let all: Vec<&str> = mesh.axes().iter().map(|axis| axis.name.as_str()).collect();
    match by_rows {
        true => [("layers", spec(&[&all])), ("is_frozen", spec(&[&[last]]))].into(),
        false => [("layers", spec(&[])), ("is_frozen", None)].into(),
    }
}

#[track_caller]
fn assert_equal(found: &Model, expected: &Model) {
    let pairs = [found, expected].map(gradloom::tree::leaves_with_paths);
    let [found, expected] = pairs;
    assert_eq!(found.len(), expected.len());
    for ((path, x), (_, y)) in found.iter().zip(&expected) {
        assert_eq!(x.aval(), y.aval(), "{path}");
        let bits = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
        assert_eq!(bits(x), bits(y), "{path}");
    }
}

fn zeros(model: &Model) -> Model {
    model.map(&mut Tensor::zeros_like)
}

#[test]
fn a_checkpoint_of_one_mesh_loads_onto_any_other() {
    let expected = model(1);
    for from in meshes() {
        for by_rows in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            save_checkpoint(folder.path(), &expected, &from, specs(&from, by_rows)).unwrap();
            let whole = load_checkpoint(folder.path(), &zeros(&expected), None).unwrap();
            assert_equal(&whole, &expected);
            assert_eq!(whole.layers[0].w.sharding(), None);
            for to in meshes() {
                let wanted = specs(&to, true);
                let found = load_checkpoint(folder.path(), &zeros(&expected), wanted).unwrap();
                assert_equal(&found, &expected);
                let placed = found.layers[0].w.sharding().unwrap();
                assert_eq!(placed.mesh(), &to);
                assert_eq!(placed.n_parts()[0], to.n_devices());
            }
        }
    }
}

#[test]
fn a_leaf_is_saved_and_loaded_by_the_spec_that_it_carries() {
    let mesh = meshes().remove(0);
    let rows = ShardingSpec::split(&mesh, &[&["a"], &[]]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from_vec((0..20).collect::<Vec<i32>>(), [10, 2]);
    save_checkpoint(folder.path(), &x.shard(&rows), &mesh, None).unwrap();
    assert_eq!(shards(folder.path()).len(), 4);
    let like = Tensor::zeros([10, 2], DType::I32).shard(&rows);
    let found = load_checkpoint(folder.path(), &like, None).unwrap();
    assert_eq!(found.sharding(), Some(&rows));
    assert_eq!(found.to_vec::<i32>(), x.to_vec::<i32>());
}

#[test]
fn devices_that_hold_the_same_boxes_share_the_writing() {
    let mesh = meshes().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let leaves: Vec<Tensor> = (0..8)
        .map(|i| Tensor::full([1000], i as f32, DType::F32))
        .collect();
    save_checkpoint(folder.path(), &leaves, &mesh, None).unwrap();
    let lens = shards(folder.path())
        .into_iter()
        .map(|path| fs::metadata(path).unwrap().len());
    let lens: Vec<u64> = lens.collect();
    assert_eq!(lens.len(), 4);
    assert!(
        lens.iter().all(|len| (8000..9000).contains(len)),
        "{lens:?}"
    );
}

#[test]
fn a_batch_prefix_is_kept() {
    let mesh = meshes().remove(0);
    let rows = ShardingSpec::split(&mesh, &[&["a"]]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from_vec((0..10).collect::<Vec<i32>>(), [2, 5]);
    let lanes = x.move_axis_to_batch_dims(0);
    save_checkpoint(folder.path(), &lanes, &mesh, rows.clone()).unwrap();
    let found = load_checkpoint(folder.path(), &lanes.zeros_like(), rows).unwrap();
    assert_eq!(found.aval(), lanes.aval());
    assert_eq!(found.to_vec::<i32>(), x.to_vec::<i32>());
    let error = load_checkpoint(folder.path(), &x, None).unwrap_err();
    assert!(matches!(error, CheckpointError::Mismatch { .. }), "{error}");
}

/// The shards of a folder, in order.
fn shards(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut shards: Vec<PathBuf> = paths
        .filter(|path| path.extension().unwrap() != "json")
        .collect();
    shards.sort();
    shards
}

/// A checkpoint of a vector of five numbers on four devices, the last of which has none.
struct Saved(tempfile::TempDir);

impl Saved {
    fn new() -> Saved {
        let mesh = meshes().remove(0);
        let rows = ShardingSpec::split(&mesh, &[&["a"]]).unwrap();
        let saved = Saved(tempfile::tempdir().unwrap());
        let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0]);
        save_checkpoint(saved.0.path(), &x, &mesh, rows).unwrap();
        assert_eq!(shards(saved.0.path()).len(), 3);
        saved
    }

    /// Changes the text of the index.
    fn edit(&self, from: &str, to: &str) {
        let path = self.0.path().join("index.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// The message of an error, without the folder and the hashes.
    fn error(&self, like: &impl Tree) -> String {
        let error = load_checkpoint(self.0.path(), like, None)
            .map(drop)
            .unwrap_err();
        let text = error
            .to_string()
            .replace(&format!("{}/", self.0.path().display()), "");
        let mut words = text
            .split('-')
            .map(|word| match word.split_once(".safetensors") {
                Some((hash, rest)) if hash.len() == 16 => format!("HASH.safetensors{rest}"),
                _ => word.to_owned(),
            });
        let first = words.next().unwrap();
        words.fold(first, |text, word| format!("{text}-{word}"))
    }
}

fn like() -> Tensor {
    Tensor::zeros([5], DType::F32)
}

#[test]
fn a_missing_shard_is_named() {
    let saved = Saved::new();
    fs::remove_file(&shards(saved.0.path())[1]).unwrap();
    assert_eq!(
        saved.error(&like()),
        "`shard-1-HASH.safetensors` is missing, and the index of the checkpoint lists it"
    );
}

#[test]
fn a_torn_or_changed_shard_is_named() {
    let saved = Saved::new();
    let shard = &shards(saved.0.path())[2];
    let bytes = fs::read(shard).unwrap();
    fs::write(shard, &bytes[..bytes.len() - 1]).unwrap();
    let torn = format!(
        "`shard-2-HASH.safetensors` has {} bytes, expected {}: it is torn",
        bytes.len() - 1,
        bytes.len()
    );
    assert_eq!(saved.error(&like()), torn);
    // Every bit matters.
    for i in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[i] ^= 1 << (i % 8);
        fs::write(shard, changed).unwrap();
        assert_eq!(
            saved.error(&like()),
            "`shard-2-HASH.safetensors` does not have the hash that the index lists: its bytes were changed"
        );
    }
}

#[test]
fn a_shard_of_another_checkpoint_is_named() {
    let saved = Saved::new();
    // The boxes of two files change places.
    for (from, to) in [("[0,2]", "x.x"), ("[2,4]", "[0,2]"), ("x.x", "[2,4]")] {
        saved.edit(from, to);
    }
    assert_eq!(
        saved.error(&like()),
        "`shard-0-HASH.safetensors` is not a file of this checkpoint: it has no tensor `value[2..4]`"
    );
}

#[test]
fn doubled_and_overlapping_boxes_are_named() {
    let saved = Saved::new();
    saved.edit("[4,5]", "[3,5]");
    assert_eq!(
        saved.error(&like()),
        "the boxes [2..4] in `shard-1-HASH.safetensors` and [3..5] in `shard-2-HASH.safetensors` of `value` overlap"
    );
    let saved = Saved::new();
    let names: Vec<String> = shards(saved.0.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    saved.edit(&names[1], &names[0]);
    assert_eq!(
        saved.error(&like()),
        "`index.json` lists `shard-0-HASH.safetensors` twice"
    );
}

#[test]
fn boxes_that_do_not_cover_or_do_not_fit_are_named() {
    let saved = Saved::new();
    saved.edit("[4,5]", "[4,6]");
    assert_eq!(
        saved.error(&like()),
        "`shard-2-HASH.safetensors` has the box [4..6] of `value`, whose shape is [5]"
    );
    let saved = Saved::new();
    saved.edit("[2,4]", "[2,3]");
    assert_eq!(
        saved.error(&like()),
        "the boxes of `value` have 4 of its 5 elements"
    );
}

#[test]
fn leaves_that_differ_are_named() {
    let saved = Saved::new();
    assert_eq!(
        saved.error(&(like(), like())),
        "the checkpoint `index.json` has no leaf `0`"
    );
    assert_eq!(
        saved.error(&Tensor::zeros([4], DType::F32)),
        "`value` is f32[5] in the checkpoint, expected f32[4]"
    );
    assert_eq!(
        saved.error(&Tensor::zeros([5], DType::I32)),
        "`value` is f32[5] in the checkpoint, expected i32[5]"
    );
    assert_eq!(
        saved.error(&Vec::<Tensor>::new()),
        "the checkpoint `index.json` has a leaf `value`, and the tree has none of this path"
    );
}

#[test]
fn an_index_of_another_format_is_named() {
    let saved = Saved::new();
    saved.edit("\"version\":1", "\"version\":2");
    assert_eq!(
        saved.error(&like()),
        "`index.json` has version 2, expected version 1: a later release of gradloom wrote it"
    );
    let saved = Saved::new();
    saved.edit("shard-0", "../shard-0");
    let error = saved.error(&like());
    assert!(
        error.starts_with("`index.json` is not an index of a checkpoint: `../shard-0"),
        "{error}"
    );
    let saved = Saved::new();
    saved.edit("\"leaf\":\"value\"", "\"leaf\":\"other\"");
    assert_eq!(
        saved.error(&like()),
        "the boxes of `value` have 3 of its 5 elements"
    );
    let path = saved.0.path().join("index.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, &text[..text.len() / 2]).unwrap();
    let error = saved.error(&like());
    assert!(
        error.starts_with("`index.json` is not an index of a checkpoint: EOF"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let error = load_checkpoint(folder.path(), &like(), None).unwrap_err();
    assert!(matches!(error, CheckpointError::Read { .. }), "{error}");
}

#[test]
fn specs_that_do_not_fit_are_refused_before_anything_is_written() {
    let mesh = meshes().remove(0);
    let other = meshes().remove(1);
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("new");
    let rows = |mesh: &Arc<Mesh>, dims: &[&[&str]]| ShardingSpec::split(mesh, dims).unwrap();
    let error = save_checkpoint(&missing, &like(), &mesh, rows(&other, &[&["a"]])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "save_checkpoint: sharding<@m, [{\"a\"}]> does not refer to mesh @m <[\"a\"=4]>"
    );
    let error = save_checkpoint(&missing, &like(), &mesh, rows(&mesh, &[&[], &["a"]])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "save_checkpoint: `value` is f32[5], and its spec has 2 dims: sharding<@m, [{}, {\"a\"}]>"
    );
    assert!(!missing.exists());
}

const FOLDER: &str = "GRADLOOM_TEST_CHECKPOINTS";

/// Saves checkpoints until it is killed, as a child process of the next test.
#[test]
fn child_that_saves_checkpoints() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mesh = meshes().remove(0);
    for seed in 1.. {
        save_checkpoint(&folder, &model(seed), &mesh, specs(&mesh, true)).unwrap();
    }
}

#[test]
fn a_killed_process_leaves_a_whole_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = meshes().remove(0);
    save_checkpoint(folder.path(), &model(0), &mesh, specs(&mesh, true)).unwrap();
    let mut seeds = Vec::new();
    for turn in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "checkpoint::child_that_saves_checkpoints"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(60 + 7 * turn));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = load_checkpoint(folder.path(), &zeros(&model(0)), None).unwrap();
        let seed = found.step.item::<i64>();
        assert_equal(&found, &model(seed));
        seeds.push(seed);
    }
    assert!(
        seeds.iter().any(|seed| *seed > 0),
        "the child saved: {seeds:?}"
    );
}
