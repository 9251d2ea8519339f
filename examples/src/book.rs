//! Paragraphs of the book.

use std::path::{Path, PathBuf};

/// Returns the paragraphs of the chapters in a folder, with the names of their files.
///
/// # Errors
///
/// If a chapter cannot be read.
pub fn paragraphs(folder: &Path) -> std::io::Result<Vec<(String, String)>> {
    let mut chapters = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    chapters.retain(|path| path.extension().is_some_and(|ext| ext == "md"));
    chapters.sort();
    let mut all = Vec::new();
    for path in chapters {
        let text = std::fs::read_to_string(&path)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Text outside of code.
        let prose = text.split("```").step_by(2);
        for part in prose.flat_map(|prose| prose.split("\n\n")) {
            let words = part.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_prose = words.len() > 60 && !words.starts_with(['|', '#']);
            if is_prose {
                all.push((name.clone(), words));
            }
        }
    }
    Ok(all)
}
