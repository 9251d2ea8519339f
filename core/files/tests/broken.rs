//! Broken files, and files that do not fit, are errors that name what is wrong.

use gradloom::prelude::*;
use gradloom::{bf16, f16};
use gradloom_files::{FileError, Loader, TensorFile, load, save};
use std::path::PathBuf;
use tempfile::TempDir;

/// Returns a file with this header and these bytes of elements.
fn file(header: &str, elements: &[u8]) -> (TempDir, PathBuf) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(elements);
    raw(&bytes)
}

fn raw(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[derive(Clone, Debug, Tree)]
struct Pair {
    a: Tensor,
    b: Tensor,
}

fn pair() -> Pair {
    Pair {
        a: Tensor::from([1.0f32, 2.0]),
        b: Tensor::from([3i64]),
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let (_folder, path) = raw(&[]);
    save(&pair(), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(load(&pair(), &path).unwrap().b.item::<i64>(), 3);
    for n in 0..whole.len() {
        std::fs::write(&path, &whole[..n]).unwrap();
        let error = load(&pair(), &path).unwrap_err();
        assert!(matches!(error, FileError::Format { .. }), "{n}: {error}");
    }
    std::fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    let error = load(&pair(), &path).unwrap_err().to_string();
    assert!(
        error.ends_with("it has 17 bytes of elements, and its header names 16"),
        "{error}"
    );
}

#[test]
fn broken_headers_are_errors() {
    let huge = [u64::MAX.to_le_bytes().to_vec(), vec![0; 64]].concat();
    let (_folder, path) = raw(&huge);
    let error = TensorFile::open(path).unwrap_err().to_string();
    assert!(
        error.ends_with("its header has 18446744073709551615 bytes, and the file 72"),
        "{error}"
    );
    let broken = [
        "",
        "{",
        "[]",
        r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [18446744073709551615, 2], "data_offsets": [0, 4]}}"#,
        // Two tensors that overlap, and a hole.
        r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [0], "data_offsets": [4, 4]}}"#,
        // The same name twice, and a number that JSON does not have.
        r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {"dtype": "I32", "shape": [1], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}"#,
    ];
    for header in broken {
        let (_folder, path) = file(header, &[0; 4]);
        let error = TensorFile::open(path).unwrap_err();
        assert!(
            matches!(error, FileError::Format { .. }),
            "{header}: {error}"
        );
    }
}

#[test]
fn tensors_that_do_not_fit_are_errors() {
    let text = |error: FileError| {
        let text = error.to_string();
        let (start, rest) = text.split_once("` in `").unwrap();
        format!(
            "{start}` in .. {}",
            rest.split_once("safetensors`").unwrap().1.trim_start()
        )
    };
    let header = r#"{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}"#;
    let (_folder, path) = file(header, &1.5f64.to_le_bytes());
    let named = |a: Tensor| std::collections::BTreeMap::from([("a".to_owned(), a)]);
    let error = load(&named(Tensor::from([0.0f32])), &path).unwrap_err();
    let narrow = "`a` in .. has the dtype F64, and the leaf `[\"a\"]` has F32, which does not hold all of its numbers; \
                  load a leaf of F64 and cast it";
    assert_eq!(text(error), narrow);
    let error = load(&named(Tensor::from([[0.0f64]])), &path).unwrap_err();
    assert_eq!(
        text(error),
        "`a` in .. has the shape [1], and the leaf `[\"a\"]` has [1, 1]"
    );

    let header = r#"{"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}"#;
    let (_folder, path) = file(header, &[0]);
    let error = load(&named(Tensor::from([0.0f32])), &path).unwrap_err();
    assert_eq!(
        text(error),
        "`a` in .. has the dtype F8_E4M3, which has no counterpart here"
    );
}

#[test]
fn names_that_do_not_match_are_listed() {
    let (_folder, path) = raw(&[]);
    save(&pair(), &path).unwrap();
    let error = load(&(Tensor::from(1.0f32), Tensor::from(2i64)), &path).unwrap_err();
    let FileError::Names {
        missing,
        unexpected,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (missing, unexpected),
        (vec!["0".into(), "1".into()], vec!["a".into(), "b".into()])
    );
    let same = Loader::new()
        .rename(|_| "a".into())
        .load(&pair(), &path)
        .unwrap_err();
    assert_eq!(
        same.to_string(),
        "the leaves `a` and `b` have the same name in a file, `a`"
    );
}

#[test]
fn a_failed_save_keeps_the_file() {
    let (_folder, path) = raw(b"before");
    let broken = Tensor::from([1i64]) / Tensor::from([0i64]);
    assert!(save(&(Tensor::from(1.0f32), broken), &path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    let missing = path.with_file_name("folder").join("x.safetensors");
    assert!(matches!(
        save(&pair(), missing),
        Err(FileError::Write { .. })
    ));
}

#[test]
fn numbers_of_8_and_16_bits_keep_their_dtype() {
    let header = r#"{"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}, "c": {"dtype": "F16", "shape": [1], "data_offsets": [5, 7]}}"#;
    let mut bytes = Vec::new();
    bytes.extend([0x80, 0x3f, 0x20, 0xc0, 200]);
    bytes.extend([0x00, 0x3e]);
    let (_folder, path) = file(header, &bytes);
    let file = TensorFile::open(path).unwrap();
    let a = file.tensor("a").unwrap().to_vec::<bf16>();
    assert_eq!(a, [1.0, -2.5].map(bf16::from_f32));
    assert_eq!(file.tensor("b").unwrap().to_vec::<u8>(), [200]);
    assert_eq!(
        file.tensor("c").unwrap().to_vec::<f16>(),
        [f16::from_f32(1.5)]
    );
}

#[test]
fn a_file_that_another_one_replaces_is_read_as_it_was_opened() {
    let (_folder, path) = raw(&[]);
    save(&pair(), &path).unwrap();
    let before = TensorFile::open(&path).unwrap();
    let other = Pair {
        a: Tensor::from([7i64; 9]),
        b: Tensor::from([8i64]),
    };
    save(&other, &path).unwrap();
    assert_eq!(before.tensor("a").unwrap().to_vec::<f32>(), [1.0, 2.0]);
    assert_eq!(before.tensor("b").unwrap().to_vec::<i64>(), [3]);
    let after = TensorFile::open(&path).unwrap();
    assert_eq!(after.tensor("a").unwrap().to_vec::<i64>(), [7; 9]);
}

#[cfg(unix)]
#[test]
fn a_saved_file_has_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = raw(&[]);
    save(&pair(), &path).unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, []).unwrap();
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}
