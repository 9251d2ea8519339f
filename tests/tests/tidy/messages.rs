//! Every error of the macro is shown by a test: a case of `tests/ui`, a snapshot, or a test of `macros`.

use super::{root, rust_files};
use proc_macro2::{Literal, TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// Locals and constants whose text becomes a message.
const MESSAGES: [&str; 5] = ["message", "missing", "wrong", "hint", "WORDS"];

/// Locals to which errors are pushed, and parsers that make errors.
const ERRORS: [&str; 6] = ["errors", "unsound", "meta", "entry", "input", "inner"];

/// Messages that users do not see, because the parser tries another form next.
const UNSEEN: [&str; 1] = ["a body stands in braces"];

/// Returns whether the identifier at `i` is the name of a call that makes an error.
fn makes_error(tokens: &[TokenTree], i: usize) -> bool {
    let text = |i: Option<usize>| i.map_or(String::new(), |i| tokens[i].to_string());
    let owner = |n: usize| text(i.checked_sub(n));
    match text(Some(i)).as_str() {
        "push" | "push_at" => owner(1) == "." && ERRORS.contains(&owner(2).as_str()),
        "error" => owner(1) != "." || ERRORS.contains(&owner(2).as_str()),
        "new" | "new_spanned" => owner(1) == ":" && owner(3) == "Error",
        _ => false,
    }
}

/// Collects the texts of the messages in source code.
fn messages(stream: TokenStream, out: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        let next = tokens.get(i + 1);
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                if let (true, Some(TokenTree::Group(args))) = (makes_error(&tokens, i), next) {
                    texts(args.stream(), out);
                }
                if MESSAGES.contains(&name.as_str())
                    && i > 0
                    && ["let", "const"].contains(&tokens[i - 1].to_string().as_str())
                {
                    let is_end = |t: &&TokenTree| t.to_string() != ";";
                    texts(
                        tokens[i..].iter().take_while(is_end).cloned().collect(),
                        out,
                    );
                }
            }
            TokenTree::Group(group) => messages(group.stream(), out),
            _ => {}
        }
    }
}

/// Collects the string literals of more than one word in these tokens.
fn texts(stream: TokenStream, out: &mut Vec<String>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => texts(group.stream(), out),
            TokenTree::Literal(literal) => out.extend(text(&literal).filter(|t| t.contains(' '))),
            _ => {}
        }
    }
}

/// Returns the text of a string literal.
fn text(literal: &Literal) -> Option<String> {
    let literal = literal.to_string();
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut lines = inner.split("\\\n");
    let first = lines.next()?.to_owned();
    let text = lines.fold(first, |text, line| text + line.trim_start());
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// Returns the parts of a message that are always the same: those outside of braces.
fn fixed_parts(message: &str) -> Vec<String> {
    let message = message.replace("{{", "\0").replace("}}", "\u{1}");
    let parts = message.split('{').enumerate().map(|(i, part)| match i {
        0 => part,
        _ => part.split_once('}').map_or(part, |(_, rest)| rest),
    });
    parts
        .map(|part| part.replace('\0', "{").replace('\u{1}', "}"))
        .collect()
}

/// Returns the files with this extension in a folder and the folders below it.
fn files(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

#[test]
fn every_error_of_the_macro_has_a_test() {
    let macros = root().join("macros/src");
    let is_test = |path: &Path| {
        let path = path.strip_prefix(&macros).unwrap_or(path);
        path.components()
            .any(|c| c.as_os_str().to_string_lossy().starts_with("tests"))
    };
    let (mut sources, mut shown) = (Vec::new(), Vec::new());
    rust_files(&macros, &mut sources);
    files(&root().join("tests/ui"), "stderr", &mut shown);
    files(&macros, "snap", &mut shown);
    let mut shown: String = shown
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut found = Vec::new();
    for path in sources {
        let source = fs::read_to_string(&path).unwrap();
        let (code, tests) = match is_test(&path) {
            true => ("", source.as_str()),
            false => source.split_at(source.find("\nmod tests {").unwrap_or(source.len())),
        };
        shown += &tests.replace("\\\"", "\"");
        let name = path.strip_prefix(&macros).unwrap().display().to_string();
        if !code.is_empty() {
            let mut messages_here = Vec::new();
            let tokens = code.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
            messages(tokens, &mut messages_here);
            found.extend(
                messages_here
                    .into_iter()
                    .map(|message| (name.clone(), message)),
            );
        }
    }
    assert!(found.len() > 120, "{} messages", found.len());
    let is_shown = |message: &str| {
        let parts = fixed_parts(message);
        shown.lines().any(|line| {
            let mut rest = Some(line);
            for part in &parts {
                rest = rest
                    .and_then(|rest| rest.split_once(part.as_str()))
                    .map(|(_, rest)| rest);
            }
            rest.is_some()
        })
    };
    let missing: Vec<String> = found
        .iter()
        .filter(|(_, message)| !UNSEEN.contains(&message.as_str()) && !is_shown(message))
        .map(|(file, message)| format!("{file}: {message}"))
        .collect();
    assert!(
        missing.is_empty(),
        "no test shows these messages:\n{}",
        missing.join("\n")
    );
}
