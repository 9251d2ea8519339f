//! Tensors of mapped files have the bits of copies, and nothing writes to them.

use gradloom::optim::AdamW;
use gradloom::prelude::*;
use gradloom::{bf16, f16};
use gradloom_files::{FileError, Loader, TensorFile, save};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn map(path: &Path) -> Result<TensorFile, FileError> {
    // SAFETY: no test writes to a file while it is mapped.
    unsafe { TensorFile::map(path) }
}

/// Returns a file of these bytes.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Returns a safetensors file with this header.
fn with_header(header: &str, elements: &[u8]) -> Vec<u8> {
    let len = (header.len() as u64).to_le_bytes();
    [&len, header.as_bytes(), elements].concat()
}

fn saved<T: Tree>(tree: &T) -> (TempDir, PathBuf) {
    let (folder, path) = file(&[]);
    save(tree, &path).unwrap();
    (folder, path)
}

/// Returns the bits of all elements, in order.
fn bits(x: &Tensor) -> Vec<u64> {
    match x.dtype() {
        DType::F32 => x
            .to_vec::<f32>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::F64 => x.to_vec::<f64>().iter().map(|x| x.to_bits()).collect(),
        DType::BF16 => x
            .to_vec::<bf16>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::F16 => x
            .to_vec::<f16>()
            .iter()
            .map(|x| x.to_bits().into())
            .collect(),
        DType::I32 => x.to_vec::<i32>().iter().map(|x| *x as u64).collect(),
        DType::I64 => x.to_vec::<i64>().iter().map(|x| *x as u64).collect(),
        DType::I8 => x.to_vec::<i8>().iter().map(|x| *x as u64).collect(),
        DType::U8 => x.to_vec::<u8>().iter().map(|x| (*x).into()).collect(),
        DType::Bool => x.to_vec::<bool>().iter().map(|x| (*x).into()).collect(),
    }
}

/// Checks that a mapped file has the tensors of a copied one, or the same errors. Returns their number.
#[track_caller]
fn check_same(path: &Path) -> usize {
    let (copied, mapped) = match (TensorFile::open(path), map(path)) {
        (Ok(copied), Ok(mapped)) => (copied, mapped),
        (copied, mapped) => {
            let errors = [copied, mapped].map(|file| file.unwrap_err().to_string());
            assert_eq!(errors[0], errors[1]);
            return 0;
        }
    };
    assert!(copied.names().eq(mapped.names()));
    assert_eq!(copied.metadata(), mapped.metadata());
    for name in copied.names() {
        match (copied.tensor(name), mapped.tensor(name)) {
            (Ok(x), Ok(y)) => {
                assert_eq!(x.aval(), y.aval(), "{name}");
                assert_eq!(bits(&x), bits(&y), "{name}");
            }
            (x, y) => assert_eq!(x.unwrap_err().to_string(), y.unwrap_err().to_string()),
        }
    }
    copied.names().count()
}

fn of_each_dtype() -> BTreeMap<String, Tensor> {
    let nan = f32::from_bits(0x7fc1_2345);
    let halves = [1.5f32, -0.0, f32::INFINITY];
    let named = |(name, x): (&str, Tensor)| (name.to_owned(), x);
    let tensors = [
        ("f32", Tensor::from([1.5f32, -0.0, nan])),
        (
            "f64",
            Tensor::from([[1.5f64, f64::MIN_POSITIVE], [-0.0, f64::NEG_INFINITY]]),
        ),
        ("bf16", Tensor::from(halves.map(bf16::from_f32))),
        ("f16", Tensor::from(halves.map(f16::from_f32))),
        ("i32", Tensor::from([i32::MIN, -1, 7])),
        ("i64", Tensor::from([i64::MIN, -1, 7])),
        ("i8", Tensor::from([i8::MIN, -1, 7])),
        ("u8", Tensor::from([0u8, 255, 7])),
        ("bool", Tensor::from([true, false, true])),
        ("scalar", Tensor::from(2.5f32)),
        ("empty", Tensor::zeros([0, 3], DType::F64)),
    ];
    BTreeMap::from(tensors.map(named))
}

#[test]
fn mapped_tensors_have_the_bits_of_copies_in_each_dtype() {
    let (_folder, path) = saved(&of_each_dtype());
    assert_eq!(check_same(&path), 11);
}

#[test]
fn mapped_files_of_numpy_and_pytorch_have_the_tensors_and_the_errors_of_copies() {
    let goldens = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"));
    let mut n = 0;
    for entry in std::fs::read_dir(goldens).unwrap() {
        n += check_same(&entry.unwrap().path());
    }
    assert!(n > 50, "{n}");
}

#[test]
fn elements_that_are_not_aligned_are_those_of_a_copy() {
    // The header has any length, so the elements begin at any byte.
    for pad in 0..8 {
        let header = r#"{"a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}, "b": {"dtype": "BOOL", "shape": [3], "data_offsets": [16, 19]}, "c": {"dtype": "F32", "shape": [1], "data_offsets": [19, 23]}, "d": {"dtype": "U16", "shape": [1], "data_offsets": [23, 25]}}"#;
        let header = format!("{header}{}", " ".repeat(pad));
        let mut elements = [1.5f64, -2.5].map(f64::to_le_bytes).concat();
        // A byte that is neither 0 nor 1 is `true`, as in a copy.
        elements.extend([0, 1, 2]);
        elements.extend(0.5f32.to_le_bytes());
        elements.extend(u16::MAX.to_le_bytes());
        let (_folder, path) = file(&with_header(&header, &elements));
        assert_eq!(check_same(&path), 4);
        let file = map(&path).unwrap();
        assert_eq!(file.tensor("a").unwrap().to_vec::<f64>(), [1.5, -2.5]);
        assert_eq!(
            file.tensor("b").unwrap().to_vec::<bool>(),
            [false, true, true]
        );
        assert_eq!(file.tensor("d").unwrap().to_vec::<i32>(), [65535]);
    }
}

#[test]
fn broken_files_have_the_errors_of_copies() {
    let (_folder, path) = saved(&of_each_dtype());
    let whole = std::fs::read(&path).unwrap();
    for n in 0..whole.len() {
        // Another file, so that no map of this process is of a file that changes.
        let (_folder, path) = file(&whole[..n]);
        assert!(matches!(map(&path), Err(FileError::Format { .. })), "{n}");
        check_same(&path);
    }
    let headers = [
        "{",
        r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [18446744073709551615, 2], "data_offsets": [0, 4]}}"#,
        // A dtype without a counterpart is an error of the tensor.
        r#"{"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}"#,
    ];
    for header in headers {
        let (_folder, path) = file(&with_header(header, &[0; 4]));
        check_same(&path);
    }
    let (folder, _) = file(&[]);
    check_same(&folder.path().join("missing.safetensors"));
    check_same(folder.path());
}

#[test]
fn leaves_that_do_not_fit_a_mapped_file_have_the_errors_of_copies() {
    let (_folder, path) = saved(&of_each_dtype());
    let narrow = |(name, x): (&String, &Tensor)| match x.dtype() {
        DType::F64 => (name.clone(), x.cast(DType::F32)),
        _ => (name.clone(), x.clone()),
    };
    let mut other_shape = of_each_dtype();
    other_shape.insert("i32".to_owned(), Tensor::from([1i32]));
    let trees = [
        of_each_dtype().iter().map(narrow).collect(),
        other_shape,
        BTreeMap::from([("g".to_owned(), Tensor::from(1.0f32))]),
    ];
    let file = map(&path).unwrap();
    for tree in trees {
        let copied = Loader::new().load(&tree, &path).unwrap_err();
        let mapped = Loader::new().load_from(&tree, &file).unwrap_err();
        assert_eq!(copied.to_string(), mapped.to_string());
    }
}

/// Number of elements of a buffer that a thread keeps for reuse, and of one that goes to the pool.
const SIZES: [usize; 2] = [16, 1 << 16];

#[traced]
fn stepped(x: &Tensor) -> Tensor {
    x * 0.5 + 1.0
}

#[test]
fn operations_on_the_only_handle_of_a_mapped_tensor_do_not_write_to_the_file() {
    for n in SIZES {
        let x = Tensor::arange(n as i64, DType::F32);
        let (_folder, path) = saved(&x);
        let before = std::fs::read(&path).unwrap();
        let expected: Vec<f32> = x.to_vec();
        let file = map(&path).unwrap();
        let x = || file.tensor("").unwrap();
        for _ in 0..3 {
            assert_eq!((x() + 1.0).to_vec::<f32>()[1], 2.0);
            assert_eq!(x().set(1, 8.0).to_vec::<f32>()[..3], [0.0, 8.0, 2.0]);
            let mut y = x();
            y += 1.0;
            assert_eq!(y.to_vec::<f32>()[0], 1.0);
            // The argument is dropped before the call runs, which may then write into its buffer.
            let mut y = x();
            for _ in 0..3 {
                y = stepped(&y);
            }
            assert_eq!(y.to_vec::<f32>()[8], 2.75);
            // Buffers of dropped tensors are reused for results.
            drop((x(), x()));
            let z = Tensor::zeros([n], DType::F32) + 3.0;
            assert_eq!(z.to_vec::<f32>()[n - 1], 3.0);
        }
        assert_eq!(x().to_vec::<f32>(), expected);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[derive(Clone, Debug, Tree)]
struct Affine {
    weight: Tensor,
    bias: Tensor,
}

#[traced]
fn loss(model: &Affine, #[nodiff] x: &Tensor) -> Tensor {
    (x.matmul(&model.weight) + &model.bias - 1.0)
        .square()
        .mean(..)
}

#[test]
fn a_training_that_begins_with_mapped_weights_has_the_bits_of_one_with_copies() {
    for n in [4, 256] {
        let [weight, bias, x] = Key::new(3).split_n();
        let model = Affine {
            weight: weight.normal([n, n], DType::F32),
            bias: bias.normal([n], DType::F32),
        };
        let x = x.normal([8, n], DType::F32);
        let (_folder, path) = saved(&model);
        let before = std::fs::read(&path).unwrap();
        let trained = |file: TensorFile| {
            let (mut model, _) = Loader::new().load_from(&model, &file).unwrap();
            drop(file);
            let adam = AdamW::default();
            let mut state = adam.init(&model);
            for _ in 0..4 {
                let (_, grads) = loss::value_and_grad(&model, &x);
                (model, state) = adam.step(&model, &grads.model, &state);
            }
            [bits(&model.weight), bits(&model.bias)]
        };
        let copied = trained(TensorFile::open(&path).unwrap());
        assert_eq!(copied, trained(map(&path).unwrap()));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_mapped_tensor_outlives_its_file() {
    let (folder, path) = saved(&vec![Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32])]);
    let file = map(&path).unwrap();
    let x = file.tensor("0").unwrap();
    drop(file);
    // Another file takes the name, and then none has it.
    save(&vec![Tensor::from([7.0f32; 9])], &path).unwrap();
    assert_eq!((&x * 2.0).to_vec::<f32>(), [2.0, 4.0]);
    drop(folder);
    let y = std::thread::spawn(move || x).join().unwrap();
    assert_eq!(y.to_vec::<f32>(), [1.0, 2.0]);
}
