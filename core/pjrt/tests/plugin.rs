//! Programs run by a plugin. `GRADLOOM_PJRT_PLUGIN` names the shared library, such as `xla_cpu_pjrt.so` of the Python
//! package `xla-cpu-pjrt`. `XLA_FLAGS=--xla_force_host_platform_device_count=4` gives its CPU four devices.

use gradloom_pjrt::{Buffer, Client, Element, PjrtError, Plugin};
use std::io::Write as _;
use std::path::Path;
use std::sync::Once;

/// Returns a client, or `None` after a line that says that the tests are skipped.
fn client() -> Option<Client> {
    let Some(path) = std::env::var_os("GRADLOOM_PJRT_PLUGIN") else {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            // The harness shows the line although the tests pass.
            let _ = writeln!(
                std::io::stderr(),
                "programs for a plugin are skipped: `.ci/outside` runs them"
            );
        });
        return None;
    };
    let plugin = Plugin::load(Path::new(&path)).expect("the plugin loads");
    Some(plugin.client().expect("the plugin has devices"))
}

fn floats(client: &Client, shape: &[usize], numbers: &[f32], device: usize) -> Buffer {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    client
        .buffer(Element::F32, shape, &bytes, device)
        .expect("the device has memory")
}

fn numbers(buffer: &Buffer) -> Vec<f32> {
    let bytes = buffer.to_bytes().expect("the elements are computed");
    let (chunks, _) = bytes.as_chunks::<4>();
    chunks.iter().map(|x| f32::from_le_bytes(*x)).collect()
}

const DOUBLE: &str = "module @m {
  func.func public @main(%x: tensor<2x2xf32>, %n: tensor<i64>) -> (tensor<2x2xf32>, tensor<i64>) {
    %0 = stablehlo.add %x, %x : tensor<2x2xf32>
    %1 = stablehlo.add %n, %n : tensor<i64>
    return %0, %1 : tensor<2x2xf32>, tensor<i64>
  }
}";

#[test]
fn results_of_a_step_are_arguments_of_the_next() {
    let Some(client) = client() else { return };
    let double = client.compile(DOUBLE, 1).expect("the text is valid");
    assert_eq!(double.n_outs(), 2);
    let x = floats(&client, &[2, 2], &[1.0, 2.0, 3.0, -0.5], 0);
    let n = client
        .buffer(Element::I64, &[], &3i64.to_le_bytes(), 0)
        .expect("it has memory");
    let mut state = double.run(&[&x, &n]).expect("it runs");
    for _ in 0..9 {
        state = double.run(&[&state[0], &state[1]]).expect("it runs");
    }
    assert_eq!(numbers(&state[0]), [1024.0, 2048.0, 3072.0, -512.0]);
    assert_eq!(state[1].to_bytes(), Ok((3i64 << 10).to_le_bytes().to_vec()));
    assert_eq!(state[0].shape(), Ok(vec![2, 2]));
    assert_eq!(state[1].element(), Ok(Element::I64));
    // The arguments are unchanged, and buffers outlive the executable and the client.
    drop((double, client));
    assert_eq!(numbers(&x), [1.0, 2.0, 3.0, -0.5]);
}

#[test]
fn a_donated_buffer_is_gone_after_a_run() {
    let Some(client) = client() else { return };
    let text = DOUBLE.replace(
        "%x: tensor<2x2xf32>",
        "%x: tensor<2x2xf32> {jax.buffer_donor = true}",
    );
    let double = client.compile(&text, 1).expect("the text is valid");
    let x = floats(&client, &[2, 2], &[1.0, 2.0, 3.0, -0.5], 0);
    let n = client
        .buffer(Element::I64, &[], &3i64.to_le_bytes(), 0)
        .expect("it has memory");
    let outs = double.run(&[&x, &n]).expect("it runs");
    assert_eq!(numbers(&outs[0]), [2.0, 4.0, 6.0, -1.0]);
    assert_eq!(n.to_bytes(), Ok(3i64.to_le_bytes().to_vec()));
    let error = x.to_bytes().expect_err("it was donated");
    assert!(matches!(error, PjrtError::Refused { .. }), "{error}");
    let error = double.run(&[&x, &n]).expect_err("it was donated");
    assert!(matches!(error, PjrtError::Refused { .. }), "{error}");
}

#[test]
fn errors_of_xla_are_errors_of_ours() {
    let Some(client) = client() else { return };
    let error = client
        .compile("module { nonsense }", 1)
        .expect_err("it is no module");
    assert!(
        matches!(
            &error,
            PjrtError::Refused {
                call: "compile the program",
                ..
            }
        ),
        "{error}"
    );
    let error = client
        .buffer(Element::F64, &[2], &[0; 8], 0)
        .expect_err("bytes are missing");
    let expected = PjrtError::Length {
        what: "bytes",
        found: 8,
        expected: 16,
    };
    assert_eq!(error, expected);
    let n = client.n_devices();
    let error = client
        .compile(DOUBLE, n + 1)
        .expect_err("there are fewer devices");
    assert_eq!(
        error,
        PjrtError::ProgramDevices {
            found: n + 1,
            n_devices: n,
        }
    );
}

#[test]
fn a_file_that_is_no_plugin_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let error = Plugin::load(&path).expect_err("it is no library");
    assert!(matches!(error, PjrtError::NotAPlugin { .. }), "{error}");
    let error = Plugin::load(Path::new("/nowhere.so")).expect_err("there is no file");
    assert!(
        error
            .to_string()
            .starts_with("`/nowhere.so` is not a PJRT plugin"),
        "{error}"
    );
}

/// Two rows of devices share the rows of `x`, and two columns the terms of the products.
const SHARDED: &str = "module @m {
  sdy.mesh @mesh = <[\"data\"=2, \"model\"=2]>
  func.func public @main(
      %x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {\"model\"}]>},
      %w: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"model\"}, {}]>})
      -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}";

#[test]
fn a_sharded_program_runs_on_four_devices() {
    let Some(client) = client() else { return };
    if client.n_devices() < 4 {
        println!(
            "skipped: `XLA_FLAGS=--xla_force_host_platform_device_count=4` gives the plugin four devices"
        );
        return;
    }
    let product = client.compile(SHARDED, 4).expect("the text is valid");
    let x: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let w: Vec<f32> = (0..8).map(|i| (i % 3) as f32).collect();
    let buffers: Vec<[Buffer; 2]> = (0..4)
        .map(|device| {
            let (row, column) = (device / 2, device % 2);
            let part = |i: usize| x[(2 * row + i) * 4 + 2 * column..][..2].to_vec();
            [
                floats(&client, &[2, 2], &[part(0), part(1)].concat(), device),
                floats(&client, &[2, 2], &w[4 * column..][..4], device),
            ]
        })
        .collect();
    let args: Vec<[&Buffer; 2]> = buffers.iter().map(|[x, w]| [x, w]).collect();
    let lists: Vec<&[&Buffer]> = args.iter().map(|args| &args[..]).collect();
    let outs = product.run_on(&lists).expect("it runs");
    for (device, outs) in outs.iter().enumerate() {
        let term = |i: usize, j: usize| (0..4).map(|k| x[i * 4 + k] * w[k * 2 + j]).sum::<f32>();
        let rows = [2 * (device / 2), 2 * (device / 2) + 1];
        let expected: Vec<f32> = rows
            .iter()
            .flat_map(|i| [term(*i, 0), term(*i, 1)])
            .collect();
        assert_eq!(numbers(&outs[0]), expected, "device {device}");
    }
    assert!(matches!(
        product.run(lists[0]),
        Err(PjrtError::Length { .. })
    ));
}

#[test]
fn maxima_and_minima_keep_nan() {
    let Some(client) = client() else { return };
    // The whole, and windows of 2 as in a cumulative maximum or a pooling.
    let text = |op: &str, none: &str| {
        format!(
            "module @m {{
  func.func public @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<3xf32>) {{
    %none = stablehlo.constant dense<{none}> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %none) applies stablehlo.{op} across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %1 = \"stablehlo.reduce_window\"(%x, %none) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.{op} %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }}) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
    return %0, %1 : tensor<f32>, tensor<3xf32>
  }}
}}"
        )
    };
    for (op, none) in [("maximum", "0xFF800000"), ("minimum", "0x7F800000")] {
        let of = client
            .compile(&text(op, none), 1)
            .expect("the text is valid");
        for at in 0..4 {
            let mut xs = [3.0, 1.0, 5.0, 2.0];
            xs[at] = f32::NAN;
            let x = floats(&client, &[4], &xs, 0);
            let outs = of.run(&[&x]).expect("it runs");
            assert!(numbers(&outs[0])[0].is_nan(), "{op} {at}");
            let windows = numbers(&outs[1]);
            for (i, y) in windows.iter().enumerate() {
                let has_nan = i == at || i + 1 == at;
                assert_eq!(y.is_nan(), has_nan, "{op} {at}: {windows:?}");
            }
        }
    }
}

#[test]
fn arguments_of_other_types_are_refused() {
    let Some(client) = client() else { return };
    let double = client.compile(DOUBLE, 1).expect("the text is valid");
    let n = client
        .buffer(Element::I64, &[], &3i64.to_le_bytes(), 0)
        .expect("it has memory");
    let message = |x: &Buffer| double.run(&[x, &n]).expect_err("it is refused").to_string();
    assert_eq!(
        message(&floats(&client, &[4], &[1.0; 4], 0)),
        "argument 0 on device 0 is F32[4], expected F32[2, 2]"
    );
    let ints = client.buffer(Element::I32, &[2, 2], &[0; 16], 0);
    assert_eq!(
        message(&ints.expect("it has memory")),
        "argument 0 on device 0 is I32[2, 2], expected F32[2, 2]"
    );
    let error = double.run(&[&n]).expect_err("an argument is missing");
    assert_eq!(error.to_string(), "1 arguments, expected 2");
    let error = client.compile(DOUBLE, 0).expect_err("there is no device");
    let n = client.n_devices();
    assert_eq!(
        error.to_string(),
        format!(
            "a program cannot be compiled for 0 devices: at least 1, and up to {n}, are possible"
        )
    );
    let error = client.buffer(Element::I32, &[], &[0; 4], 99);
    let error = error.expect_err("there is no such device");
    assert_eq!(
        error.to_string(),
        format!("there is no device 99: the client has {n}")
    );
}
