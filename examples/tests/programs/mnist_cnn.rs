//! Trains the convolutional network on digits of seven segments, which the test draws.

use super::{folder, run};
use std::fs;

const SIDE: usize = 28;
const N: usize = 1000;

/// Segments of each digit, from the lowest bit: top, both upper ones, middle, both lower ones, bottom.
const SEGMENTS: [u8; 10] = [
    0b111_0111, 0b010_0100, 0b101_1101, 0b110_1101, 0b010_1110, 0b110_1011, 0b111_1011, 0b010_0101,
    0b111_1111, 0b110_1111,
];

/// Corners of the segments: left, top, width and height.
const BARS: [[usize; 4]; 7] = [
    [0, 0, 10, 2],
    [0, 0, 2, 8],
    [8, 0, 2, 8],
    [0, 7, 10, 2],
    [0, 8, 2, 8],
    [8, 8, 2, 8],
    [0, 14, 10, 2],
];

/// Writes IDX files of digits at random places, of random brightness, over noise.
fn draw(folder: &std::path::Path) {
    let mut seed = 1u32;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) as usize % n
    };
    let mut images = vec![0, 0, 8, 3];
    for len in [N, SIDE, SIDE] {
        images.extend((len as u32).to_be_bytes());
    }
    let mut labels = vec![0, 0, 8, 1];
    labels.extend((N as u32).to_be_bytes());
    for _ in 0..N {
        let digit = below(10);
        let (left, top, brightness) = (7 + below(5), 4 + below(5), 120 + below(80));
        let mut image: Vec<usize> = (0..SIDE * SIDE).map(|_| below(50)).collect();
        for (i, [x, y, width, height]) in BARS.into_iter().enumerate() {
            if SEGMENTS[digit] >> i & 1 == 1 {
                for row in top + y..top + y + height {
                    image[row * SIDE + left + x..][..width].fill(brightness);
                }
            }
        }
        images.extend(image.into_iter().map(|pixel| pixel as u8));
        labels.push(digit as u8);
    }
    fs::write(folder.join("drawn-images-idx3-ubyte"), images).unwrap();
    fs::write(folder.join("drawn-labels-idx1-ubyte"), labels).unwrap();
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_mnist_cnn");

#[test]
fn mnist_cnn_learns_drawn_digits() {
    let folder = folder("mnist-cnn");
    draw(&folder);
    let (success, text, errors) = run(PROGRAM, &[".", "--short"], &folder);
    assert!(success, "{text}{errors}");
    let drawn = fs::read_to_string(folder.join("target/mnist_cnn-loss.svg")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(drawn.contains("training"));
    let (_, accuracy) = text.trim_end().rsplit_once("test accuracy: ").unwrap();
    assert!(accuracy.parse::<f32>().unwrap() >= 0.9, "{text}");
}

#[test]
fn a_folder_without_images_is_named() {
    let folder = folder("mnist-cnn-empty");
    let (success, _, errors) = run(PROGRAM, &[".", "--short"], &folder);
    fs::remove_dir_all(folder).unwrap();
    assert!(!success);
    assert!(
        errors.contains("`.` has no file with `images-idx3` in its name"),
        "{errors}"
    );
}
