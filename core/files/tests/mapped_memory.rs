//! Memory of mapped files. The test is alone in its process, because it measures all memory of the process.

use gradloom::prelude::*;
use gradloom::report;
use gradloom_files::TensorFile;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Size of one tensor, and number of tensors.
const BYTES: usize = 1 << 20;
const TENSORS: usize = 64;

/// Writes a file of zeros whose elements begin `skipped` bytes after a multiple of 8.
fn write(folder: &Path, skipped: usize) -> PathBuf {
    let tensor = |i: usize| {
        let (n, start) = (BYTES / 4, i * BYTES);
        format!(
            r#""{i}":{{"dtype":"F32","shape":[{n}],"data_offsets":[{start},{}]}}"#,
            start + BYTES
        )
    };
    let tensors: Vec<String> = (0..TENSORS).map(tensor).collect();
    let mut header = format!("{{{}}}", tensors.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len() + skipped));
    let path = folder.join(format!("{skipped}.safetensors"));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.seek(SeekFrom::Current((TENSORS * BYTES - 1) as i64))
        .unwrap();
    file.write_all(&[0]).unwrap();
    path
}

/// Returns all tensors of a file.
fn tensors(file: &TensorFile) -> Vec<Tensor> {
    let tensors = file.names().map(|name| file.tensor(name).unwrap());
    tensors.collect()
}

/// Returns by how much a value grows.
fn growth<T>(of: impl Fn() -> usize, run: impl FnOnce() -> T) -> (usize, T) {
    let before = of();
    let result = run();
    (of().saturating_sub(before), result)
}

/// Returns the resident memory of the process in bytes, or 0 if the system does not tell it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or(0, |line| {
        let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib << 10
    })
}

#[test]
fn a_mapped_tensor_has_no_memory_of_its_own_until_its_pages_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (aligned, unaligned) = (write(folder.path(), 0), write(folder.path(), 2));
    let live = || report::memory().live_bytes;
    // SAFETY: nothing writes to the files in this folder.
    let map = |path: &Path| unsafe { TensorFile::map(path) }.unwrap();
    // The first sum also makes a plan.
    assert_eq!(
        Tensor::zeros([BYTES / 4], DType::F32).sum(..).item::<f32>(),
        0.0
    );

    let read_one = || {
        let all = tensors(&map(&aligned));
        assert_eq!(all[7].sum(..).item::<f32>(), 0.0);
        all
    };
    let (grown, all) = growth(resident, || growth(live, read_one));
    assert!(all.0 < BYTES, "the elements stay in the file: {}", all.0);
    assert!(grown < 8 * BYTES, "one tensor was read: {grown}");
    let sum = || -> f32 { all.1.iter().map(|x| x.sum(..).item::<f32>()).sum() };
    let (grown, sum) = growth(resident, sum);
    assert_eq!(sum, 0.0);
    let measured = resident() > 0;
    assert!(
        !measured || grown > 32 * BYTES,
        "all tensors were read: {grown}"
    );

    let file = map(&unaligned);
    let (grown, copies) = growth(live, || tensors(&file));
    assert!(grown >= TENSORS * BYTES, "they are not aligned: {grown}");
    drop(copies);
    let file = TensorFile::open(&aligned).unwrap();
    let (grown, _copies) = growth(live, || tensors(&file));
    assert!(grown >= TENSORS * BYTES, "they are copies: {grown}");
}
