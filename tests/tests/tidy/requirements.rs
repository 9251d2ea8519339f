//! The tables of requirements: each row names a test that exists, or says why there is none.
//!
//! `tests/requirements/*.txt` hold a row in each line: id, requirement, tests or a reason, and how.

use super::{files_in, read, root, rust_files};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A row of a table.
struct Row {
    id: String,
    requirement: String,
    /// Tests, `no: reason`, or `doc: file, item`.
    evidence: String,
    how: String,
}

fn rows(file: &str) -> Vec<Row> {
    let text = read(&format!("tests/requirements/{file}"));
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut cells = line.splitn(4, " | ").map(|cell| cell.trim().to_owned());
        let mut next = || cells.next().unwrap_or_default();
        Row {
            id: next(),
            requirement: next(),
            evidence: next(),
            how: next(),
        }
    };
    lines.map(row).collect()
}

/// Returns an error unless the file has a test of this name that is run.
fn check_test(name: &str) -> Result<(), String> {
    let (file, test) = name
        .rsplit_once("::")
        .ok_or(format!("`{name}` names no test"))?;
    let text = fs::read_to_string(root().join(file)).map_err(|_| format!("there is no {file}"))?;
    let head = format!("fn {test}(");
    let at = text.find(&head).ok_or(format!("{file} has no `{test}`"))?;
    let before = text[..at].trim_end_matches(|c: char| c.is_alphabetic() || c == ' ');
    let attributes: Vec<&str> = before
        .lines()
        .rev()
        .map(str::trim)
        .take_while(|line| line.starts_with("#["))
        .collect();
    match attributes.contains(&"#[test]") {
        // A macro may add the attribute.
        false if !text.contains(&format!("{test},")) => {
            Err(format!("`{test}` in {file} is no test"))
        }
        _ if attributes.iter().any(|a| a.starts_with("#[ignore")) => {
            Err(format!("`{name}` is ignored"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a file has a row's id in a doc comment, or in the name of a function.
fn names_row(file: &str, id: &str) -> bool {
    let Ok(text) = fs::read_to_string(root().join(file)) else {
        return false;
    };
    let in_name = id.to_lowercase().replace('.', "_");
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
    let has = |word: &str| text.split(word).skip(1).any(ends);
    has(id) || has(&in_name)
}

#[test]
fn each_requirement_has_a_test_or_a_reason() {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for file in files_in("tests/requirements", "txt") {
        for row in rows(&file) {
            if !seen.insert(row.id.clone()) {
                faults.push(format!("{} stands twice", row.id));
            }
            let evidence = row.evidence.as_str();
            if row.requirement.is_empty() || evidence.is_empty() {
                faults.push(format!("{} is incomplete", row.id));
            } else if let Some(item) = evidence.strip_prefix("doc: ") {
                let file = item.split(',').next().unwrap();
                if !root().join(file).exists() {
                    faults.push(format!("{}: there is no {file}", row.id));
                }
            } else if !evidence.starts_with("no: ") {
                let wrong = evidence
                    .split(", ")
                    .filter_map(|test| check_test(test).err());
                faults.extend(wrong.map(|fault| format!("{}: {fault}", row.id)));
                let mut files = evidence
                    .split(", ")
                    .filter_map(|test| test.split("::").next());
                if !files.any(|file| names_row(file, &row.id)) {
                    faults.push(format!("{}: none of its tests names the row", row.id));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A test whose documentation names a row that no table has is a mistake of one of them.
#[test]
fn rows_that_tests_name_exist() {
    let known: BTreeSet<String> = files_in("tests/requirements", "txt")
        .iter()
        .flat_map(|file| rows(file))
        .map(|row| row.id)
        .collect();
    let mut files = Vec::new();
    for dir in ["core", "tests"] {
        rust_files(&root().join(dir), &mut files);
    }
    let is_id = |word: &&str| {
        let rest = word.strip_prefix('S').and_then(|rest| rest.split_once('.'));
        rest.is_some_and(|(seed, row)| {
            let seed_fits = seed.len() == 1 && seed.as_bytes()[0].is_ascii_digit();
            seed_fits && row.starts_with(|c: char| c.is_ascii_digit())
        })
    };
    let mut unknown = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("///"))
        {
            let words = line.split(|c: char| !(c.is_alphanumeric() || c == '.'));
            let words = words.map(|word| word.trim_end_matches('.'));
            for id in words.filter(is_id).filter(|id| !known.contains(*id)) {
                unknown.push(format!("{id} in {}", file.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// Returns the tables as a chapter of the book.
fn chapter() -> String {
    let mut text = String::from(
        "# Requirements\n\n*Which test shows that a requirement of the design documents is met?*\n\n\
        The rows are those of the five documents with which the project began: tracing (S0), tensors and\n\
        transforms (S1), the graph engine (S2), tracing to disk (S3) and custom functions (S4). A row names its\n\
        test, or says why it has none. `tests/requirements` holds the rows, and `BLESS=1 cargo test --workspace\n\
        --test tidy` writes this chapter.\n",
    );
    for file in files_in("tests/requirements", "txt") {
        let seed = Path::new(&file)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_uppercase();
        text += &format!("\n## {seed}\n\n| row | requirement | test |\n|---|---|---|\n");
        for row in rows(&file) {
            let evidence = match row.evidence.split_once(": ") {
                Some(("no", reason)) => format!("None: {reason}"),
                Some(("doc", item)) => format!("Example of `{}`", item.replace(", ", "`, `")),
                _ => row
                    .evidence
                    .split(", ")
                    .map(|test| format!("`{test}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let how = match row.how.is_empty() {
                true => String::new(),
                false => format!(". {}", row.how.trim_start_matches("how: ")),
            };
            let cells = [row.id, row.requirement, format!("{evidence}{how}")];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

/// `BLESS=1` writes the chapter.
#[test]
fn the_chapter_of_requirements_is_made_from_the_rows() {
    let path = root().join("docs/book/src/requirements.md");
    let wanted = chapter();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    assert!(
        fs::read_to_string(path).is_ok_and(|found| found == wanted),
        "docs/book/src/requirements.md and tests/requirements differ; `BLESS=1` writes the chapter"
    );
}
