//! Runs the variational autoencoder as a user would.

use std::fs;
use std::process::Command;

#[test]
fn vae_exceeds_a_model_without_codes_and_draws_its_samples() {
    let folder = std::env::temp_dir().join(format!("gradloom-vae-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_vae"))
        .arg("--short")
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{text}{errors}");
    let drawn = fs::read_to_string(folder.join("target/vae-samples.svg")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    // Two grids of 8 * 8 images of 8 * 8 pixels.
    assert_eq!(drawn.matches("<rect").count(), 2 * 64 * 64);

    let number = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        let end = |c: char| !"-.0123456789".contains(c);
        let found = rest.trim_start().split(end).next().unwrap();
        found.parse::<f64>().unwrap()
    };
    let after = number("before,");
    assert!(after > number("test images: "), "{text}");
    assert!(after > number("without codes: "), "{text}");
}
