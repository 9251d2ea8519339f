//! The order of the modules of each crate: no import leads to a module above.

use super::{read, root, rust_files};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A place that a module imports from: the first name of a path from the root of the crate.
type Names = BTreeSet<String>;

/// Reads the table of ARCHITECTURE: the modules of each crate, from bottom to top.
fn orders() -> Vec<(String, Vec<String>)> {
    let text = read("core/ARCHITECTURE.md");
    let rows = text
        .lines()
        .skip_while(|l| !l.starts_with("| crate | modules"));
    let rows = rows.skip(2).take_while(|l| l.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let modules = cells[2].split(['`', ',', ' ']).filter(|m| !m.is_empty());
        (
            cells[1].trim_matches('`').to_owned(),
            modules.map(String::from).collect(),
        )
    })
    .collect()
}

/// Returns the names of a `use` tree or path that follows `crate::` or the like.
fn first_names(tokens: &[TokenTree], names: &mut Names) {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => {
            names.insert(name.to_string());
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
            inner
                .split(is_comma)
                .for_each(|part| first_names(part, names));
        }
        _ => {}
    }
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(name)) if *name == word)
}

/// Returns whether the tokens begin with `::`.
fn is_path_separator(tokens: &[TokenTree]) -> bool {
    let colon =
        |t: Option<&TokenTree>| matches!(t, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(tokens.first()) && colon(tokens.get(1))
}

/// Collects the names that code at this depth below the root imports from the root.
fn imports(stream: TokenStream, depth: usize, names: &mut Names) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut i = 0;
    while i < tokens.len() {
        if let TokenTree::Punct(p) = &tokens[i]
            && p.as_char() == '#'
            && let Some(TokenTree::Group(attribute)) = tokens.get(i + 1)
            && attribute
                .stream()
                .to_string()
                .replace(' ', "")
                .starts_with("cfg(test)")
        {
            // Skips the item that the attribute belongs to.
            i += 2;
            while i < tokens.len() {
                let ends = match &tokens[i] {
                    TokenTree::Punct(p) => p.as_char() == ';',
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    _ => false,
                };
                i += 1;
                if ends {
                    break;
                }
            }
            continue;
        }
        if is_word(tokens.get(i), "crate") && is_path_separator(&tokens[i + 1..]) {
            first_names(&tokens[i + 3..], names);
            i += 3;
            continue;
        }
        let mut n_supers = 0;
        while is_word(tokens.get(i), "super") && is_path_separator(&tokens[i + 1..]) {
            n_supers += 1;
            i += 3;
        }
        if n_supers > 0 {
            if n_supers == depth {
                first_names(&tokens[i..], names);
            }
            continue;
        }
        if let TokenTree::Group(group) = &tokens[i] {
            let is_module = i >= 2 && is_word(tokens.get(i - 2), "mod");
            imports(group.stream(), depth + usize::from(is_module), names);
        }
        i += 1;
    }
}

/// Returns the module that each re-exported name of the root comes from.
fn reexports(root: TokenStream, modules: &Names) -> BTreeMap<String, String> {
    fn names(tokens: &[TokenTree], out: &mut Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => out.push(name.to_string()),
                TokenTree::Group(group) => {
                    names(&group.stream().into_iter().collect::<Vec<_>>(), out);
                }
                _ => {}
            }
        }
    }
    let tokens: Vec<TokenTree> = root.into_iter().collect();
    let mut found = BTreeMap::new();
    for (i, token) in tokens.iter().enumerate() {
        if !is_word(Some(token), "use") {
            continue;
        }
        let ends = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ';');
        let end = i + tokens[i..].iter().position(ends).unwrap();
        let mut all = Vec::new();
        names(&tokens[i + 1..end], &mut all);
        if let Some((module, rest)) = all.split_first()
            && modules.contains(module)
        {
            found.extend(rest.iter().map(|name| (name.clone(), module.clone())));
        }
    }
    found
}

fn tokens_of(path: &Path) -> TokenStream {
    let text = fs::read_to_string(path).unwrap();
    text.parse()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the imports that lead up, as `file: module -> module`.
fn upward(folder: &str, order: &[String]) -> Vec<String> {
    let base = root().join(folder);
    let modules: Names = order.iter().cloned().collect();
    assert_eq!(
        modules.len(),
        order.len(),
        "{folder}: a module is listed twice"
    );
    let reexports = reexports(tokens_of(&base.join("lib.rs")), &modules);
    let place = |name: &str| order.iter().position(|module| module == name);
    let mut files = Vec::new();
    rust_files(&base, &mut files);
    let (mut found, mut seen) = (Vec::new(), Names::new());
    for file in files {
        let inside = file.strip_prefix(&base).unwrap().with_extension("");
        let mut path: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if path == ["lib"] || path.contains(&"tests") {
            continue;
        }
        if path.last() == Some(&"mod") {
            path.pop();
        }
        if folder == "core/src" && path[0] == "private" {
            path[0] = "__private";
        }
        let Some(from) = place(path[0]) else {
            panic!("{folder}: ARCHITECTURE does not list `{}`", path[0]);
        };
        seen.insert(path[0].to_owned());
        let mut names = Names::new();
        imports(tokens_of(&file), path.len(), &mut names);
        for name in names {
            let module = reexports.get(&name).unwrap_or(&name);
            if let Some(to) = place(module)
                && to > from
            {
                found.push(format!("{}: {} -> {module}", file.display(), path[0]));
            }
        }
    }
    assert_eq!(
        seen, modules,
        "{folder}: the modules and those of ARCHITECTURE"
    );
    found
}

/// Rows S0.47, S1.59 of the requirements.
#[test]
fn no_import_leads_to_a_module_above() {
    let orders = orders();
    assert_eq!(
        orders.len(),
        12,
        "ARCHITECTURE orders the modules of twelve crates"
    );
    let found: Vec<String> = orders
        .iter()
        .flat_map(|(c, order)| upward(c, order))
        .collect();
    assert!(
        found.is_empty(),
        "imports that lead up:\n{}",
        found.join("\n")
    );
}

#[test]
fn an_import_is_found_in_each_form() {
    let names = |code: &str, depth| {
        let mut names = Names::new();
        imports(code.parse().unwrap(), depth, &mut names);
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("use crate::{a::b, c::{self, d}, E};", 1), "E a c");
    assert_eq!(names("fn f() { crate::a::b() }", 1), "a");
    assert_eq!(names("use super::a; use super::super::b;", 2), "b");
    assert_eq!(names("macro_rules! m { () => { $crate::a::B } }", 1), "a");
    assert_eq!(
        names("#[cfg(test)] mod tests { use crate::a; } use crate::b;", 1),
        "b"
    );
    assert_eq!(names("mod inner { use super::super::a; }", 1), "a");
}
