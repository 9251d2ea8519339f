//! Runs the variational autoencoder as a user would.

use super::{folder, number, short_in};
use std::fs;

#[test]
fn vae_exceeds_a_model_without_codes_and_draws_its_samples() {
    let folder = folder("vae");
    let text = short_in(&folder, env!("CARGO_BIN_EXE_vae"));
    let drawn = fs::read_to_string(folder.join("target/vae-samples.svg")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    // Two grids of 8 * 8 images of 8 * 8 pixels.
    assert_eq!(drawn.matches("<rect").count(), 2 * 64 * 64);

    let after = number(&text, "before,");
    assert!(after > number(&text, "test images: "), "{text}");
    assert!(after > number(&text, "without codes: "), "{text}");
}
