//! Files of NumPy and PyTorch: `goldens/make.py` writes them, and reads what `save` writes.

use gradloom::prelude::*;
use gradloom::{bf16, f16};
use gradloom_files::{FileError, Format, Loader, TensorFile, load, save};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens")).join(name)
}

fn open(name: &str) -> TensorFile {
    TensorFile::open(golden(name)).unwrap()
}

/// Checks shape and elements of a tensor, whose dtype is that of the elements.
#[track_caller]
fn check<T: gradloom::Element + PartialEq + std::fmt::Debug>(
    file: &TensorFile,
    name: &str,
    shape: &[usize],
    elements: &[T],
) {
    let x = file.tensor(name).unwrap();
    assert_eq!(x.dtype(), T::DTYPE, "{name}");
    assert_eq!(x.shape(), shape, "{name}");
    assert_eq!(x.to_vec::<T>(), elements, "{name}");
}

#[test]
fn arrays_of_numpy_are_read_in_every_order() {
    for name in ["numpy.npz", "numpy_compressed.npz"] {
        let file = open(name);
        assert_eq!(file.format(), Format::Npz);
        assert_eq!(file.names().count(), 12);
        check(
            &file,
            "layers.0.weight",
            &[2, 3],
            &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5],
        );
        check(&file, "layers.0.bias", &[2], &[1.5f64, -2.5]);
        check(&file, "fortran", &[2, 3], &[0i32, 1, 2, 3, 4, 5]);
        check(&file, "big", &[2, 3], &[0.0f64, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(&file, "fortran_big", &[2, 3], &[0i32, 1, 2, 3, 4, 5]);
        check(&file, "scalar", &[], &[7i64]);
        check::<f32>(&file, "empty", &[0, 3], &[]);
        check(&file, "half", &[2], &[1.5, -0.25].map(f16::from_f32));
        check(&file, "flags", &[2], &[true, false]);
        check(&file, "bytes", &[2], &[200u8, 3]);
        check(&file, "words", &[1], &[u32::MAX as i64]);
        check(&file, "cube", &[2, 3, 4], &(0..24).collect::<Vec<i64>>());
    }
    let x = load(&Tensor::zeros([2, 3], DType::F32), golden("fortran.npy")).unwrap();
    assert_eq!(x.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn dtypes_of_numpy_without_counterpart_are_errors() {
    for (name, found) in [
        ("structured.npy", "[('a', '<i4'), ('b', '<f4')]"),
        ("complex.npy", "<c8"),
        ("object.npy", "|O"),
    ] {
        let error = load(&Tensor::from(0.0f32), golden(name)).unwrap_err();
        // The shape of the leaf is checked first.
        assert!(matches!(error, FileError::Shape { .. }), "{error}");
        let error = open(name).tensor("").unwrap_err();
        let end = format!("has the dtype {found}, which has no counterpart here");
        assert!(error.to_string().ends_with(&end), "{error}");
    }
}

/// The tree that `make.py` expects in `written.npz`.
fn written() -> BTreeMap<String, Tensor> {
    let x = Tensor::arange(6, DType::F32).reshape([2, 3]) / 2.0;
    let named = |(name, x): (&str, Tensor)| (name.to_owned(), x);
    BTreeMap::from(
        [
            ("layers.0", x),
            ("layers.1", Tensor::from([1.5f64, -2.5])),
            ("scalar", Tensor::from(7i64)),
            ("flags", Tensor::from([true, false])),
            ("empty", Tensor::zeros([0, 3], DType::I32)),
        ]
        .map(named),
    )
}

/// Checks the bytes of a saved file, which NumPy reads in `make.py`.
fn check_saved<T: Tree>(tree: &T, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    save(tree, &path).unwrap();
    let found = std::fs::read(path).unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(golden(name), &found).unwrap();
    }
    assert_eq!(found, std::fs::read(golden(name)).unwrap(), "{name}");
}

#[test]
fn arrays_are_saved_as_numpy_reads_them() {
    check_saved(&written(), "written.npz");
    check_saved(&Tensor::from([1i64, 2, 3]), "written.npy");
    let like = written().map(&mut |x| x.zeros_like());
    let loaded = load(&like, golden("written.npz")).unwrap();
    gradloom::tree::assert_close(&loaded, &written(), 0.0);
    let x = load(&Tensor::zeros([3], DType::I64), golden("written.npy")).unwrap();
    assert_eq!(x.to_vec::<i64>(), [1, 2, 3]);
}

#[test]
fn checkpoints_of_pytorch_are_read() {
    for name in ["values.pt", "values_protocol4.pt"] {
        let file = open(name);
        assert_eq!(file.format(), Format::PyTorch);
        check(&file, "dense", &[2, 3], &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5]);
        check(
            &file,
            "transposed",
            &[3, 2],
            &[0.0f32, 1.5, 0.5, 2.0, 1.0, 2.5],
        );
        check(&file, "shared.low", &[4], &[0i64, 1, 2, 3]);
        check(&file, "shared.odd", &[5], &[1i64, 3, 5, 7, 9]);
        check(&file, "shared.last", &[], &[9i64]);
        check(&file, "repeated", &[2, 3], &[3.0f32; 6]);
        check(&file, "half", &[2], &[1.5, -0.25].map(f16::from_f32));
        check(&file, "brain", &[2], &[1.0, -2.5].map(bf16::from_f32));
        check(&file, "double", &[], &[2.5f64]);
        check(&file, "bytes", &[2], &[200u8, 3]);
        check(&file, "short", &[1], &[-5i32]);
        check(&file, "flags", &[2], &[true, false]);
        check::<f32>(&file, "empty", &[0, 3], &[]);
        check(&file, "parameter", &[1], &[4.0f32]);
        check(&file, "list.0", &[1], &[5i32]);
        check(&file, "list.1.a", &[1], &[6i64]);
        assert_eq!(file.names().count(), 16);
        let texts = [
            ("done", "false"),
            ("epoch", "3"),
            ("large", "-1099511627776"),
            ("loss", "0.5"),
            ("name", "run"),
            ("nothing", "None"),
            ("size.0", "2"),
            ("size.1", "3"),
        ];
        let found: Vec<_> = file.metadata().iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, texts);
    }
    check(&open("dense_big.pt"), "x", &[2], &[1.5f32, -2.0]);
    check(
        &open("tensor.pt"),
        "",
        &[2, 3],
        &[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5],
    );
    let training = open("training.pt");
    check(
        &training,
        "model.0.weight",
        &[3, 2],
        &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0],
    );
    check(&training, "optimiser.state.0.step", &[], &[1.0f32]);
    assert_eq!(training.metadata()["optimiser.param_groups.0.lr"], "0.001");
}

#[derive(Clone, Debug, Tree)]
struct Dense {
    weight: Tensor,
    bias: Tensor,
}

#[derive(Clone, Debug, Tree)]
struct Net {
    body: Dense,
    head: Tensor,
}

#[test]
fn one_loader_renames_and_reports_in_every_format() {
    let net = Net {
        body: Dense {
            weight: Tensor::zeros([3, 2], DType::F64),
            bias: Tensor::zeros([3], DType::F32),
        },
        head: Tensor::from(4.0f32),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut paths = vec![(golden("model.pth"), ""), (golden("training.pt"), "model.")];
    for name in ["model.npz", "model.safetensors"] {
        let file = open("model.pth");
        let tensors = file
            .names()
            .map(|name| (name.to_owned(), file.tensor(name).unwrap()));
        let path = folder.path().join(name);
        save(&tensors.collect::<BTreeMap<_, _>>(), &path).unwrap();
        paths.push((path, ""));
    }
    for (path, prefix) in paths {
        let loader = Loader::new()
            .rename(|name| name.replace("body", "0"))
            .rename(|name| format!("{prefix}{name}"));
        let error = loader.load(&net, &path).unwrap_err();
        assert!(matches!(error, FileError::Names { .. }), "{error}");
        let (loaded, report) = loader.lenient().load(&net, &path).unwrap();
        // A wider dtype holds all numbers.
        assert_eq!(
            loaded.body.weight.to_vec::<f64>(),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert_eq!(loaded.body.bias.to_vec::<f32>(), [1.0, 2.0, 3.0]);
        assert_eq!(loaded.head.item::<f32>(), 4.0);
        assert_eq!(report.missing, [format!("{prefix}head")]);
        let norm = |name: &str| format!("{prefix}2.{name}");
        let left = [
            "bias",
            "num_batches_tracked",
            "running_mean",
            "running_var",
            "weight",
        ];
        let unexpected = report
            .unexpected
            .iter()
            .filter(|name| !name.starts_with("opt"));
        assert_eq!(unexpected.cloned().collect::<Vec<_>>(), left.map(norm));
    }
}

#[test]
fn formats_that_are_not_written_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str, tree: &Vec<Tensor>| {
        let path = folder.path().join(name);
        let error = save(tree, &path).unwrap_err().to_string();
        assert!(!path.exists());
        error.split_once("` ").unwrap().1.to_owned()
    };
    let pair = vec![Tensor::from(1.0f32), Tensor::from(2.0f32)];
    assert_eq!(
        text("x.npy", &pair),
        "as a npy file: it has one tensor without a name, and the tree has [\"0\", \"1\"]"
    );
    assert_eq!(
        text("x.pt", &pair),
        "as a PyTorch file: this format is only read; PyTorch loads `.safetensors`"
    );
    let outside = BTreeMap::from([("/etc/x".to_owned(), Tensor::from(1.0f32))]);
    let error = save(&outside, folder.path().join("x.npz")).unwrap_err();
    assert!(
        error.to_string().contains("leads out of the archive"),
        "{error}"
    );
}
