//! Checkpoints of training: a run goes on with the same bits, and no stop loses the last whole checkpoint.

use gradloom::optim::{AdamState, AdamW};
use gradloom::prelude::*;
use gradloom::sharding::CheckpointError;
use gradloom::tree::leaves_with_paths;
use gradloom_files::Checkpoints;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Debug, Tree)]
struct Model {
    hidden: Tensor,
    out: Tensor,
}

#[derive(Tree)]
struct State {
    model: Model,
    adam: AdamState<Model>,
    key: Key,
    step: Tensor,
}

#[traced]
fn loss(model: &Model, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (x.matmul(&model.hidden).tanh().matmul(&model.out) - y)
        .square()
        .mean(..)
}

fn init(seed: u64) -> State {
    let [hidden, out, key] = Key::new(seed).split_n();
    let model = Model {
        hidden: hidden.normal([3, 8], DType::F32),
        out: out.normal([8, 3], DType::F32),
    };
    State {
        adam: AdamW::default().init(&model),
        model,
        key,
        step: Tensor::from(0i64),
    }
}

fn train(state: State, n: usize) -> State {
    let mut state = state;
    for _ in 0..n {
        let [x, noise, key] = state.key.split_n();
        let x = x.normal([16, 3], DType::F32);
        let y = x.square() + noise.normal([16, 3], DType::F32) * 0.1;
        let (_, grads) = loss::value_and_grad(&state.model, &x, &y);
        let (model, adam) = AdamW::default().step(&state.model, &grads.model, &state.adam);
        state = State {
            model,
            adam,
            key,
            step: state.step + 1i64,
        };
    }
    state
}

/// Returns the bits of all leaves. An integer of 32 bits and an `f32` are different elements of 64 bits.
fn bits(state: &State) -> Vec<(String, Vec<u64>)> {
    let bits = |x: &Tensor| match x.dtype() {
        DType::F32 => x
            .to_vec::<f32>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::I64 => x.to_vec::<i64>().iter().map(|x| *x as u64).collect(),
        dtype => panic!("{dtype:?}"),
    };
    let leaves = leaves_with_paths(state);
    leaves
        .iter()
        .map(|(path, x)| (path.clone(), bits(x)))
        .collect()
}

#[test]
fn a_resumed_run_has_the_bits_of_the_run_that_did_not_stop() {
    let folder = tempfile::tempdir().unwrap();
    let whole = train(init(7), 12);
    let checkpoints = Checkpoints::new(folder.path().join("run"));
    assert_eq!(checkpoints.latest().unwrap().step, None);
    checkpoints.save(5, &train(init(7), 5)).unwrap();
    // The structure comes from a state with other values.
    let found = checkpoints.latest().unwrap();
    assert_eq!(found.step, Some(5));
    let resumed = checkpoints.load(5, &init(8)).unwrap();
    assert_eq!(bits(&resumed), bits(&train(init(7), 5)));
    assert_eq!(bits(&train(resumed, 7)), bits(&whole));
}

#[test]
fn the_last_checkpoints_stay() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).keep(3);
    for step in [1, 2, 30, 4, 50] {
        checkpoints.save(step, &Tensor::from(step as i64)).unwrap();
    }
    assert_eq!(checkpoints.steps().unwrap(), [4, 30, 50]);
    // A run that goes on from an earlier step keeps what it saves.
    Checkpoints::new(folder.path())
        .keep(1)
        .save(5, &Tensor::from(5i64))
        .unwrap();
    assert_eq!(checkpoints.steps().unwrap(), [5]);
    // Other files stay, also in a folder with the name of a step.
    std::fs::create_dir(folder.path().join("step-1")).unwrap();
    std::fs::write(folder.path().join("step-1/note"), "x").unwrap();
    std::fs::create_dir(folder.path().join("step-2")).unwrap();
    std::fs::create_dir(folder.path().join("step-02")).unwrap();
    checkpoints.save(6, &Tensor::from(6i64)).unwrap();
    assert_eq!(checkpoints.steps().unwrap(), [1, 5, 6]);
    assert!(folder.path().join("step-02").exists());
    assert!(folder.path().join("step-1/note").exists());
}

/// Breaks the checkpoint of step 2 and returns the error that `latest` gives for it.
fn broken(change: impl FnOnce(&Path)) -> CheckpointError {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path());
    for step in [1, 2] {
        let state = (Tensor::from([step as f32]), Tensor::from(step as i64));
        checkpoints.save(step, &state).unwrap();
    }
    change(&folder.path().join("step-2"));
    let mut found = checkpoints.latest().unwrap();
    assert_eq!(found.step, Some(1));
    let like = (Tensor::from([0.0f32]), Tensor::from(0i64));
    let loaded = checkpoints.load(1, &like).unwrap();
    assert_eq!(loaded.0.to_vec::<f32>(), [1.0]);
    assert!(checkpoints.load(2, &like).is_err());
    let (step, error) = found.skipped.pop().unwrap();
    assert!(step == 2 && found.skipped.is_empty());
    error
}

fn shard(folder: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    files
        .find(|path| path.extension().unwrap() == "safetensors")
        .unwrap()
}

#[test]
fn latest_goes_back_over_broken_checkpoints_and_says_why() {
    use CheckpointError::{Changed, Index, Length, MissingFile, Read, Version};
    let cut = |n: usize| {
        broken(|folder| {
            let bytes = std::fs::read(shard(folder)).unwrap();
            std::fs::write(shard(folder), &bytes[..bytes.len() - n]).unwrap();
        })
    };
    assert!(matches!(cut(1), Length { .. }));
    assert!(matches!(cut(100), Length { .. }));
    let flipped = broken(|folder| {
        let mut bytes = std::fs::read(shard(folder)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(shard(folder), bytes).unwrap();
    });
    assert!(matches!(flipped, Changed { .. }));
    let missing = broken(|folder| std::fs::remove_file(shard(folder)).unwrap());
    assert!(matches!(missing, MissingFile { .. }));
    let index =
        |text: &'static str| broken(|f| std::fs::write(f.join("index.json"), text).unwrap());
    assert!(matches!(index("{\"version\": 1"), Index { .. }));
    assert!(matches!(
        index("{\"version\": 99}"),
        Version { found: 99, .. }
    ));
    let none = broken(|folder| std::fs::remove_file(folder.join("index.json")).unwrap());
    assert!(matches!(none, Read { .. }));
    let foreign = broken(|folder| {
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::write(folder, "not a folder").unwrap();
    });
    assert!(matches!(foreign, Read { .. }));
}

#[test]
fn a_state_that_does_not_fit_is_an_error_that_names_the_leaf() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path());
    checkpoints.save(1, &vec![Tensor::from([1.0f32])]).unwrap();
    let text = |like: &Vec<Tensor>| checkpoints.load(1, like).unwrap_err().to_string();
    let wrong = text(&vec![Tensor::from([1.0f64])]);
    assert_eq!(wrong, "`[0]` is f32[1] in the checkpoint, expected f64[1]");
    assert!(text(&Vec::new()).ends_with("has a leaf `[0]`, and the tree has none of this path"));
    let two = vec![Tensor::from([1.0f32]); 2];
    assert!(text(&two).ends_with("has no leaf `[1]`"));
    let missing = checkpoints.load(2, &two).unwrap_err();
    assert!(missing.to_string().contains("step-2"), "{missing}");
}

#[test]
#[should_panic(expected = "`Checkpoints::keep`: 0 checkpoints to keep, expected at least 1")]
fn keeping_no_checkpoint_is_an_error() {
    let _ = Checkpoints::new("x").keep(0);
}

const FOLDER: &str = "GRADLOOM_CHECKPOINTS_OF_THE_CHILD";

fn numbered(step: u64) -> (Tensor, Key) {
    (
        Tensor::full([4000], step as f64, DType::F64),
        Key::new(step),
    )
}

/// The process that the next test kills: it saves without end, and prints the steps that it has saved.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let checkpoints = Checkpoints::new(folder).keep(2);
    let first = checkpoints.latest().unwrap().step.unwrap_or(0) + 1;
    for step in first.. {
        checkpoints.save(step, &numbered(step)).unwrap();
        println!("saved {step}");
    }
}

#[test]
fn a_process_that_is_killed_while_it_saves_loses_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).keep(2);
    let mut n_saved = 0;
    for _ in 0..50 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let random = RandomState::new().hash_one(0);
        std::thread::sleep(Duration::from_micros(random % 200_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut text = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        // A last line may be cut, and the harness may write before the first one.
        let (lines, _) = text.rsplit_once('\n').unwrap_or_default();
        let saved = lines.lines().filter_map(|line| line.split_once("saved "));
        let saved = saved.map(|(_, step)| step.parse().unwrap());
        n_saved = saved.max().unwrap_or(n_saved);

        let found = checkpoints.latest().unwrap();
        let step = found.step.unwrap_or(0);
        assert!(step >= n_saved, "{step} of {n_saved}: {:?}", found.skipped);
        if step > 0 {
            let (x, key) = checkpoints.load(step, &numbered(0)).unwrap();
            assert_eq!(x.to_vec::<f64>(), [step as f64; 4000]);
            assert_eq!(key.into_words(), Key::new(step).into_words());
        }
    }
    assert!(n_saved > 0);
    // What the killed processes left is removed.
    checkpoints.save(n_saved + 10, &numbered(0)).unwrap();
    assert_eq!(checkpoints.steps().unwrap().len(), 2);
}
