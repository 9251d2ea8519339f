//! Records that code asks for.

use crate::records_of;
use gradloom::dump::{
    Config, Error, Format, TraceRecord, dump_trace, dump_trace_with_context, is_enabled, read,
    read_values, with_config,
};
use gradloom::prelude::*;
use std::fs;

/// S3.4, S3.5, S3.39: one call writes one file, with the facts of the tensor.
#[test]
fn a_call_writes_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new/folder");
    let x = Tensor::from([[1.0f32, 2.0, 2.0]]) * 2.0;
    with_config(Config::new(&dir), || dump_trace("blk0/attn_norm", &x)).unwrap();
    let text = fs::read_to_string(dir.join("blk0_attn_norm.trace")).unwrap();
    let record = TraceRecord::from_json(&text).unwrap();
    let bytes: Vec<u8> = [2.0f32, 4.0, 4.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    assert_eq!(
        record,
        TraceRecord {
            name: "blk0/attn_norm".to_owned(),
            shape: vec![1, 3],
            dtype: "F32".to_owned(),
            blake3: blake3::hash(&bytes).to_hex().to_string(),
            rms: 12f64.sqrt(),
            num_elements: 3,
            seq_index: None,
            layer_idx: None,
            stage: None,
        }
    );
    let keys = text.lines().filter(|line| line.starts_with("  \"")).count();
    assert_eq!(keys, 6, "{text}");
}

/// S3.32, S3.33: both functions in one trace; the first is the second without context.
#[test]
fn context_is_optional() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from([1.0f32, 2.0]);
    with_config(Config::new(folder.path()), || {
        dump_trace("a", &x)?;
        dump_trace_with_context("b", &x, None, None, None)?;
        dump_trace_with_context("c", &x, Some(4), Some(2), Some("attention"))
    })
    .unwrap();
    let found = records_of(folder.path());
    let [a, b, c] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        TraceRecord {
            name: "a".to_owned(),
            ..b.clone()
        },
        *a
    );
    assert_eq!(
        (c.seq_index, c.layer_idx, c.stage.as_deref()),
        (Some(4), Some(2), Some("attention"))
    );
}

/// S3.11, S3.20, S3.39: the dtype before the conversion to `f32`.
#[test]
fn all_dtypes_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let of_f32 = Tensor::from([0.0f32, 1.0, 1.0]);
    let tensors = DType::ALL.map(|dtype| of_f32.cast(dtype));
    with_config(Config::new(folder.path()).with_values(), || {
        for x in &tensors {
            dump_trace(&format!("{:?}", x.dtype()), x).unwrap();
        }
        // It rounds as a cast does.
        dump_trace("wide", &Tensor::from([0.1f64, 1e300])).unwrap();
        dump_trace("narrow", &Tensor::from([0.1f32, f32::INFINITY])).unwrap();
    });
    let trace = read(folder.path()).unwrap();
    let records: Vec<_> = trace.entries.iter().map(|entry| &entry.record).collect();
    let dtypes: Vec<&str> = records[..9].iter().map(|record| &*record.dtype).collect();
    let expected = [
        "F32", "F64", "BF16", "F16", "I32", "I64", "I8", "U8", "Bool",
    ];
    assert_eq!(dtypes, expected);
    assert!(
        records[..9]
            .iter()
            .all(|record| record.blake3 == records[0].blake3)
    );
    assert_eq!(records[9].blake3, records[10].blake3);
    for entry in &trace.entries[..9] {
        let values = read_values(entry.values.as_ref().unwrap()).unwrap();
        assert_eq!(
            (&values.shape[..], &values.elements[..]),
            (&[3][..], &[0.0, 1.0, 1.0][..])
        );
    }
    let wide = read_values(trace.entries[9].values.as_ref().unwrap()).unwrap();
    assert_eq!(wide.elements, [0.1, 1e300], "values keep their dtype");
}

/// S3.10, S3.13, S3.14, S3.39: all ranks, and no elements.
#[test]
fn all_shapes_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let shapes: [&[usize]; 6] = [&[], &[5], &[2, 3], &[2, 1, 3], &[2, 1, 3, 2], &[3, 0]];
    with_config(Config::new(folder.path()), || {
        for shape in shapes {
            dump_trace("x", &Tensor::ones(shape, DType::F32)).unwrap();
        }
    });
    for (record, shape) in records_of(folder.path()).into_iter().zip(shapes) {
        assert_eq!(
            (&record.shape[..], record.num_elements),
            (shape, shape.iter().product())
        );
        assert_eq!(record.rms, if record.num_elements == 0 { 0.0 } else { 1.0 });
    }
}

/// S3.20: views are recorded in their logical order.
#[test]
fn a_view_has_the_record_of_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    with_config(Config::new(folder.path()), || {
        dump_trace("view", &x.transpose()).unwrap();
        dump_trace(
            "copy",
            &Tensor::from([[1.0f32, 4.0], [2.0, 5.0], [3.0, 6.0]]),
        )
        .unwrap();
        dump_trace("part", &x.i((.., 1..3))).unwrap();
        dump_trace("its copy", &Tensor::from([[2.0f32, 3.0], [5.0, 6.0]])).unwrap();
    });
    let hashes: Vec<_> = records_of(folder.path())
        .into_iter()
        .map(|record| record.blake3)
        .collect();
    assert_eq!((&hashes[0], &hashes[2]), (&hashes[1], &hashes[3]));
}

/// S3.3, S3.18, S3.38: without settings nothing is written, computed or an error.
#[test]
fn without_a_folder_nothing_happens() {
    assert!(!is_enabled(), "the tests run without `GRADLOOM_TRACE_DIR`");
    let x = Tensor::from([1.0f32]) + 1.0;
    dump_trace("x", &x).unwrap();
    assert!(!x.is_realised());
    let folder = tempfile::tempdir().unwrap();
    with_config(Config::new(folder.path()).points("y"), || {
        dump_trace("x", &x)
    })
    .unwrap();
    assert!(!x.is_realised(), "its name is not selected");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// S3.21: an error has the name or the path, and no call panics.
#[test]
fn errors_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::from([1.0f32, 2.0]);
    let label = Tensor::from(7i64);
    let wrong = x.unsqueeze(0).cross_entropy(label.unsqueeze(0));
    let error = with_config(Config::new(folder.path()), || dump_trace("loss", &wrong)).unwrap_err();
    assert!(matches!(error, Error::Tensor { .. }));
    assert!(
        error.to_string().starts_with("cannot trace `loss`: "),
        "{error}"
    );
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = with_config(Config::new(&file), || dump_trace("x", &x)).unwrap_err();
    assert!(
        error.to_string().contains(&file.display().to_string()),
        "{error}"
    );
}

/// S3.7: two threads dump at once.
#[test]
fn threads_have_settings_of_their_own() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    std::thread::scope(|threads| {
        for (t, folder) in folders.iter().enumerate() {
            threads.spawn(move || {
                with_config(Config::new(folder.path()).format(Format::Lines), || {
                    for i in 0..20 {
                        dump_trace("x", &Tensor::from([(t * 100 + i) as f32])).unwrap();
                    }
                });
                assert!(!is_enabled());
            });
        }
    });
    for (t, folder) in folders.iter().enumerate() {
        let found: Vec<f64> = records_of(folder.path())
            .iter()
            .map(|record| record.rms)
            .collect();
        assert_eq!(found, Vec::from_iter((0..20).map(|i| (t * 100 + i) as f64)));
    }
}

/// S3.6: the settings end with the closure, also after a panic, and nest.
#[test]
fn settings_end_with_the_closure() {
    let folder = tempfile::tempdir().unwrap();
    let config = || Config::new(folder.path());
    let panicked = std::panic::catch_unwind(|| with_config(config(), || panic!("in the closure")));
    assert!(panicked.is_err() && !is_enabled());
    with_config(config(), || {
        with_config(Config::new("/nowhere"), || ());
        assert!(is_enabled());
    });
}
