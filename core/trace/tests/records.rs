//! Records: their JSON, hashes and names.

use gradloom_trace::{TraceRecord, digest, digest_f32, sanitize_filename};
use std::collections::BTreeSet;

/// Deterministic bits.
fn bits(seed: u64, n: usize) -> Vec<u32> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 16) as u32
    };
    (0..n).map(next).collect()
}

fn record() -> TraceRecord {
    digest_f32(&[3.0, 4.0]).record("blk0/attn_norm", &[1, 2], "F32")
}

/// S3.2, S3.9 to S3.15: six fields in this order, two spaces, the hash of the bytes.
#[test]
fn a_record_without_context_is_the_json_of_the_document() {
    insta::assert_snapshot!(record().to_json().unwrap(), @r#"
    {
      "name": "blk0/attn_norm",
      "shape": [
        1,
        2
      ],
      "dtype": "F32",
      "blake3": "dfe073d5e326cab17f6167b31c0127cc4f4ba1a345616acb00220034cfb07f70",
      "rms": 3.5355339059327378,
      "num_elements": 2
    }
    "#);
}

/// S3.29, S3.30, S3.44: the optional fields follow, and all are read back.
#[test]
fn a_record_with_context_has_nine_fields_and_round_trips() {
    let record = TraceRecord {
        seq_index: Some(4),
        layer_idx: Some(0),
        stage: Some("attention".to_owned()),
        ..record()
    };
    let text = record.to_json().unwrap();
    assert!(text.ends_with("\"num_elements\": 2,\n  \"seq_index\": 4,\n  \"layer_idx\": 0,\n  \"stage\": \"attention\"\n}"), "{text}");
    assert_eq!(TraceRecord::from_json(&text).unwrap(), record);
}

/// S3.8, S3.34: outside code constructs all nine fields, and clones, prints and serialises a record.
#[test]
fn a_struct_literal_names_all_fields() {
    let record = TraceRecord {
        name: "x".to_owned(),
        shape: vec![],
        dtype: "F64".to_owned(),
        blake3: "0".repeat(64),
        rms: 1.0,
        num_elements: 1,
        seq_index: None,
        layer_idx: None,
        stage: None,
    };
    assert_eq!(record.check(), Ok(()));
    assert!(format!("{:?}", record.clone()).contains("F64"));
}

/// S3.30, S3.34, S3.35: a text of six fields parses, unknown fields are ignored, and no version is
/// needed.
#[test]
fn old_and_newer_texts_parse() {
    let old =
        r#"{"name":"blk0","shape":[1],"dtype":"BF16","blake3":"abc","rms":1,"num_elements":1}"#;
    let record = TraceRecord::from_json(old).unwrap();
    assert_eq!(
        (record.seq_index, record.layer_idx, &record.stage),
        (None, None, &None)
    );
    let newer = old.replace(
        '}',
        r#","block_type":"q_proj","version":{"major":[2]},"stage":null}"#,
    );
    assert_eq!(TraceRecord::from_json(&newer).unwrap(), record);
}

/// S3.12, S3.23, S3.44: equal elements have equal hashes, and any changed bit changes the hash.
///
/// Row S3.22 of the requirements.
#[test]
fn the_hash_is_that_of_the_little_endian_bytes() {
    for (seed, n) in [(1, 1), (2, 7), (3, 4095), (4, 4096), (5, 4097), (6, 20_001)] {
        let x: Vec<f32> = bits(seed, n).into_iter().map(f32::from_bits).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let found = digest_f32(&x);
        assert_eq!(found.blake3, blake3::hash(&bytes).to_hex().as_str());
        assert_eq!(found.blake3, digest_f32(&x).blake3);
        let filled = digest(n, |start, out| {
            out.copy_from_slice(&x[start..start + out.len()])
        });
        assert_eq!(
            (filled.blake3, filled.rms.to_bits()),
            (found.blake3.clone(), found.rms.to_bits())
        );
        for i in [0, n / 2, n - 1] {
            for bit in [0, 22, 31] {
                let mut y = x.clone();
                y[i] = f32::from_bits(y[i].to_bits() ^ 1 << bit);
                assert_ne!(
                    digest_f32(&y).blake3,
                    found.blake3,
                    "element {i}, bit {bit}"
                );
            }
        }
    }
    let of_nan = |bits| digest_f32(&[f32::from_bits(bits)]).blake3;
    assert_ne!(of_nan(0x7fc0_0000), of_nan(0x7fc0_0001), "payloads count");
    assert_ne!(
        digest_f32(&[0.0]).blake3,
        digest_f32(&[-0.0]).blake3,
        "signs of zeros count"
    );
}

/// S3.13: summed in `f64`; no elements have the root mean square 0.
#[test]
fn the_root_mean_square_is_accurate() {
    let x: Vec<f32> = bits(9, 100_003)
        .into_iter()
        .map(|b| (b % 1000) as f32 * 1e15)
        .collect();
    let exact: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len() as f64;
    let found = digest_f32(&x).rms;
    assert!(
        (found / exact.sqrt() - 1.0).abs() < 1e-12,
        "{found} and {}",
        exact.sqrt()
    );
    let empty = digest_f32(&[]);
    assert_eq!((empty.rms, empty.num_elements), (0.0, 0));
    assert_eq!(empty.blake3, blake3::hash(b"").to_hex().as_str());
    assert_eq!(digest_f32(&[f32::MAX]).rms, f64::from(f32::MAX));
}

/// S3.13: JSON has no NaN and no infinity.
#[test]
fn a_root_mean_square_that_is_no_number_is_null() {
    for x in [f32::NAN, f32::INFINITY] {
        let record = digest_f32(&[x]).record("x", &[1], "F32");
        let text = record.to_json().unwrap();
        assert!(text.contains("\"rms\": null"), "{text}");
        assert!(TraceRecord::from_json(&text).unwrap().rms.is_nan());
    }
}

/// S3.44: every finite number is read back with its bits.
#[test]
fn numbers_are_read_back_with_their_bits() {
    let mut seen = BTreeSet::new();
    for pair in bits(11, 4000).chunks(2) {
        let rms = f64::from_bits(u64::from(pair[0]) << 32 | u64::from(pair[1])).abs();
        if rms.is_finite() {
            let record = TraceRecord { rms, ..record() };
            let text = record.to_json().unwrap();
            assert_eq!(
                TraceRecord::from_json(&text).unwrap().rms.to_bits(),
                rms.to_bits()
            );
            seen.insert(rms.to_bits());
        }
    }
    assert!(seen.len() > 1900);
}

/// S3.16, S3.38.
///
/// Row S3.38 of the requirements.
#[test]
fn separators_of_paths_become_underscores() {
    assert_eq!(sanitize_filename("blk0/attn_norm"), "blk0_attn_norm");
    assert_eq!(sanitize_filename("layer\\weights"), "layer_weights");
    assert_eq!(sanitize_filename("simple_name"), "simple_name");
    assert_eq!(sanitize_filename("a\0b\n"), "a_b_");
}

/// S3.31: all three helpers, and `None` for what is malformed.
#[test]
fn names_are_parsed() {
    let of = |name: &str| {
        let record = TraceRecord {
            name: name.to_owned(),
            ..record()
        };
        (
            record.parse_sequence_index(),
            record.parse_layer_index(),
            record.parse_stage(),
        )
    };
    let stage = |name: &str| Some(name.to_owned());
    assert_eq!(
        of("t42/blk3/attn_norm"),
        (Some(42), Some(3), stage("attn_norm"))
    );
    assert_eq!(of("t0/logits"), (Some(0), None, stage("logits")));
    assert_eq!(of("logits"), (None, None, stage("logits")));
    assert_eq!(of("t/blk/x"), (None, None, stage("x")));
    assert_eq!(of("t-1/blk+3/x"), (None, None, stage("x")));
    assert_eq!(of("t1x/blk3x/"), (None, None, None));
    assert_eq!(of(""), (None, None, None));
    assert_eq!(
        of("t99999999999999999999/blk99999999999999999999"),
        (None, None, stage("blk99999999999999999999"))
    );
}
