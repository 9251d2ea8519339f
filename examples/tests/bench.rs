//! The benchmark workloads compute the same values as other frameworks, and the output has the
//! documented format.

use gradloom_examples::bench::{Loops, Options, Row, WORKLOADS};
use std::process::Command;

/// The checks as computed by JAX 0.12.0.1, of W8, W11 and W17 to W19 by JAX 0.10.2.
const CHECKS: &[(&str, f64)] = &[
    ("W1", 2.2997961044311523),
    ("W2", 0.368123859167099),
    ("W3", 0.09002963478884618),
    ("W3_sdpa", 0.09002963478884618),
    ("W3f", 0.385772168636322),
    ("W3f_sdpa", 0.385772168636322),
    ("W4f", -4495718.0),
    ("W4g", 2836908.870755631),
    ("W5_64", 2.1050302596716204),
    ("W5_128", 3.0153780063145152),
    ("W5_256", 4.245420652137306),
    ("W5_512", 6.028598121053561),
    ("W5_1024", 8.53125333730082),
    ("W5_2048", 12.040991279193884),
    ("W7", 13.858965174295008),
    ("W7_eager", 13.858965174295008),
    ("W8", 30.021813739372252),
    ("W9_softmax", 4096.00000067668),
    ("W9_layernorm", 3629813.0961926207),
    ("W9_sum0", 92785.98653459549),
    ("W9_sum1", 179797.9110302925),
    ("W10", 0.04545649141073227),
    ("W11", 418.090031),
    ("W11_scores", 37.40174),
    ("W12", 0.06749407844096562),
    ("W17_sentence", 15.7436841),
    ("W17_batch", 497.830877),
    ("W18_decode", 461.842388),
    ("W18_gradient", 2785.12179),
    ("W19_pairwise", 14150.9575),
    ("W19_pairwise_vjp", 12747.1411),
    ("W19_nbody_vjp", 307872.587),
    ("W19_batch_stats", 454815.886),
    ("W19_batch_stats_vjp", 3.12627176),
    ("W19_layer_norm_net_vjp", 235.060969),
    ("W19_filter", 1104.59327),
    ("W19_filter_vjp", 1.74902304),
    ("W19_lstm_vjp", 0.719927334),
    ("W19_rk4_vjp", 12.5402093),
    ("W19_vocabulary_vjp", 13.3926244),
    ("W19_f64_vjp", 164.422302),
    ("W19_sum_rows3", 852118.035),
    ("W19_sum_rows8", 686133.683),
    ("W19_sum_transposed", 86408.8805),
    ("W19_max_transposed", 16128.3876),
    ("W19_permute4", 1048542.71),
    ("W19_permute3210", 982728.465),
    ("W19_transpose", 999748.578),
    ("W19_stride", 1048438.62),
    ("W19_slice_pad", 515913.627),
    ("W19_max_vjp", 12162.9385),
    ("W19_max_last_vjp", 15312.7343),
    ("W19_softmax0_vjp", 5.99822651),
    ("W19_second", 1351820.72),
    ("W19_hessian50", 54284.1793),
    ("W19_jacobian50", 161.582637),
];

#[test]
fn every_workload_computes_what_jax_computes() {
    let once = Options {
        min_time: 0.0,
        loops: Loops::Beside,
        memory: false,
        threads: 1,
    };
    let mut rows: Vec<Row> = Vec::new();
    // The large model only shows the speed of memory.
    for workload in WORKLOADS.iter().filter(|w| w.name != "W18_large") {
        workload.run(once, &mut |row| rows.push(row)).unwrap();
    }
    let (small, checked): (Vec<(&str, f64)>, Vec<_>) = rows
        .iter()
        .filter_map(|row| Some((&*row.workload, row.check?)))
        .partition(|(name, _)| name.starts_with("W18_decode_"));
    // Weights of fewer bits give scores that are near.
    assert_eq!(small.len(), 3);
    for (name, check) in small {
        assert!((check / 461.842388 - 1.0).abs() < 1e-3, "{name} is {check}");
    }
    let (beside, checked): (Vec<(&str, f64)>, Vec<_>) =
        checked.into_iter().partition(|(name, _)| {
            ["W13", "W14", "W15", "W16"]
                .iter()
                .any(|w| name.starts_with(w))
        });
    // Each of these rows stands beside that of a plain loop.
    for pair in beside.chunks(2) {
        let [(name, check), (plain, expected)] = pair else {
            panic!("{pair:?}");
        };
        assert_eq!(*plain, format!("{name}_loop"));
        assert!((check / expected - 1.0).abs() < 1e-5, "{pair:?}");
    }
    assert_eq!(checked.len(), CHECKS.len(), "{checked:?}");
    for ((name, check), (expected_name, expected)) in checked.iter().zip(CHECKS) {
        assert_eq!(name, expected_name);
        let error = (check / expected - 1.0).abs();
        assert!(error < 1e-5, "{name} is {check}, and {expected} in JAX");
    }
}

#[test]
fn rows_are_lines_of_json_and_lines_of_the_table() {
    let bench = |more: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_bench"))
            .args(["--workloads", "W2,W9", "--min-time", "0"])
            .args(more)
            .output()
            .unwrap();
        assert!(run.status.success());
        String::from_utf8(run.stdout).unwrap()
    };
    let lines = bench(&[]);
    let rows: Vec<Row> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = rows.iter().map(|row| &*row.workload).collect();
    let rows_of_w9 = ["W9_softmax", "W9_layernorm", "W9_sum0", "W9_sum1"];
    assert_eq!(names[0], "W2");
    assert_eq!(names[1..], rows_of_w9);
    assert_eq!((&*rows[0].unit, rows[0].n, rows[0].threads), ("us", 1, 1));
    assert_eq!(rows[1].unit, "ms");

    let table = bench(&["--table"]);
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    assert_eq!(table.lines().count(), 2 + names.len(), "{table}");
}

#[test]
fn a_workload_that_does_not_exist_is_named() {
    let run = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--workloads", "W99"])
        .output()
        .unwrap();
    assert!(!run.status.success());
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(
        errors.contains("no workload `W99`; see `--list`"),
        "{errors}"
    );
}
