//! `GRADLOOM_DUMP=name` prints the program of a function after each step, and the expansion.

use super::hvp;
use crate::derivative::programs;
use crate::input::{Func, text};
use crate::program::Body;
use proc_macro2::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree};
use std::collections::VecDeque;
use syn::visit_mut::VisitMut;

/// Prints the report to standard error if `GRADLOOM_DUMP` is the function's name, `Type::method` or
/// `all`.
pub(crate) fn dump(func: &Func, body: &Body, expansion: impl FnOnce() -> TokenStream) {
    let asked = asked();
    if !asked.is_empty() && ["all".to_owned(), func.name(), name(func)].contains(&asked) {
        eprintln!("{}", report(func, body, expansion()));
    }
}

/// Says that a traced impl block of the type in `GRADLOOM_DUMP=Type::method` lacks the method.
///
/// A misspelt function or type is not reported, because no expansion knows the others.
pub(crate) fn missed(ty: &syn::Type, traced: &[Func]) {
    if let Some(message) = missing(&asked(), ty, traced) {
        eprintln!("{message}");
    }
}

/// Returns the message of [`missed`] for a value of `GRADLOOM_DUMP`.
pub(crate) fn missing(asked: &str, ty: &syn::Type, traced: &[Func]) -> Option<String> {
    let (owner, _) = asked.split_once("::")?;
    if owner != self::owner(ty) || traced.iter().any(|func| name(func) == asked) {
        return None;
    }
    let names: Vec<String> = traced.iter().map(|f| format!("`{}`", name(f))).collect();
    let names = match names.is_empty() {
        true => "nothing".to_owned(),
        false => names.join(", "),
    };
    Some(format!(
        "GRADLOOM_DUMP: a traced impl block of `{owner}` does not trace `{asked}`; it traces {names}"
    ))
}

fn asked() -> String {
    std::env::var("GRADLOOM_DUMP").unwrap_or_default()
}

/// Returns the name of a function, or `Type::method`.
fn name(func: &Func) -> String {
    match &func.owner {
        Some(imp) => format!("{}::{}", owner(&imp.self_ty), func.name()),
        None => func.name(),
    }
}

/// Returns the last name of a type, without generic arguments.
fn owner(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    }
    .unwrap_or_else(|| text(ty))
}

/// Returns the text of the dump.
pub(crate) fn report(func: &Func, body: &Body, expansion: TokenStream) -> String {
    let (mut out, name) = (String::new(), name(func));
    match body {
        Body::Compiled(flow) => match flow.straight() {
            Some(low) => {
                let hvp = hvp::program(func, low).map(|hvp| ("hvp", hvp.program));
                for (step, program) in programs(low).into_iter().chain(hvp) {
                    out += &format!("// {name}: {step}\n{program}\n\n");
                }
            }
            None => out += &format!("// {name}: lowered\n{}\n\n", flow.flow),
        },
        Body::Recorded(reason) => out += &format!("// {name}: recorded at run time: {reason}\n\n"),
    }
    let expansion = printed(expansion);
    out + &format!("// {name}: expansion, {LEGEND}\n{expansion}")
}

/// Returns the text of an expansion, without what distracts a reader.
pub(crate) fn printed(expansion: TokenStream) -> String {
    let expansion = short(without_attributes(expansion));
    match syn::parse2::<syn::File>(expansion.clone()) {
        Ok(mut file) => {
            WithoutTreeBounds.visit_file_mut(&mut file);
            joined(&prettyplease::unparse(&file))
        }
        Err(_) => expansion.to_string(),
    }
}

/// Removes `where Self: Tree`, which is only for the message about a type that is not a tree.
struct WithoutTreeBounds;

impl VisitMut for WithoutTreeBounds {
    fn visit_signature_mut(&mut self, sig: &mut syn::Signature) {
        let bounds = std::mem::take(&mut sig.generics.where_clause);
        let kept = bounds.into_iter().flat_map(|clause| clause.predicates);
        let kept: Vec<_> = kept
            .filter(|bound| text(bound) != "Self : rt::Tree")
            .collect();
        if !kept.is_empty() {
            sig.generics.make_where_clause().predicates.extend(kept);
        }
    }
}

/// What the printed expansion leaves out.
const LEGEND: &str = "where `rt` is `::gradloom::__private`, without\n// the attributes for lints, inlining and rustdoc";

/// Names in the prelude, which the expansion spells with their whole paths.
const PRELUDE: [&str; 18] = [
    "Some", "None", "Ok", "Err", "Option", "Result", "Clone", "Fn", "FnMut", "FnOnce", "Sized",
    "Into", "Iterator", "Default", "Extend", "Vec", "String", "Box",
];

/// Returns the tokens with short paths: `rt` for the module of the run time, and bare names for
/// those in the prelude.
fn short(tokens: TokenStream) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let token = match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), short(group.stream()));
                inner.set_span(group.span());
                inner.into()
            }
            TokenTree::Literal(literal) => without_suffix(literal).into(),
            other => other,
        };
        let TokenTree::Ident(ident) = &token else {
            out.push(token);
            continue;
        };
        let (ident, written) = (ident.to_string(), path_before(&out));
        let names: Vec<&str> = written.iter().map(|segment| segment.0.as_str()).collect();
        if ident == "__private" {
            out.truncate(written.first().map_or(out.len(), |first| first.1));
            out.push(Ident::new("rt", token.span()).into());
        } else {
            let in_prelude = match *names {
                ["core" | "std", module] => module != "fmt",
                // A variant follows its type, whose path is short already.
                [ty] => ["Option", "Result"].contains(&ty),
                _ => false,
            };
            if in_prelude && PRELUDE.contains(&&*ident) {
                out.truncate(written[0].1);
            }
            out.push(token);
        }
    }
    out.into_iter().collect()
}

/// Returns the segments of the path that these tokens end with, if they end with `::`, and the
/// position at which the path up to each segment starts.
fn path_before(tokens: &[TokenTree]) -> Vec<(String, usize)> {
    let is_colon =
        |i: usize| matches!(&tokens[i], TokenTree::Punct(colon) if colon.as_char() == ':');
    let mut segments: Vec<(String, usize)> = Vec::new();
    let mut end = tokens.len();
    while end >= 2 && is_colon(end - 1) && is_colon(end - 2) {
        end -= 2;
        match end.checked_sub(1).map(|i| &tokens[i]) {
            Some(TokenTree::Ident(ident)) if is_segment(ident) => {
                end -= 1;
                segments.insert(0, (ident.to_string(), end));
            }
            _ => {
                // The path starts with `::`.
                if let Some(first) = segments.first_mut() {
                    first.1 = end;
                }
                break;
            }
        }
    }
    segments
}

/// Returns whether an identifier is a segment of a path, and not a keyword before a path.
fn is_segment(ident: &Ident) -> bool {
    let name = ident.to_string();
    ["Self", "self", "crate", "super"].contains(&&*name) || syn::parse_str::<Ident>(&name).is_ok()
}

/// Returns `3` for `3usize`.
fn without_suffix(literal: Literal) -> Literal {
    let number = literal.to_string();
    let number = number.strip_suffix("usize").and_then(|n| n.parse().ok());
    number.map_or(literal, Literal::u64_unsuffixed)
}

/// Removes the attributes that do not change what the code does: those for lints, inlining and
/// rustdoc.
fn without_attributes(tokens: TokenStream) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let TokenTree::Group(group) = token else {
            out.push(token);
            continue;
        };
        let is_hash =
            |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '#');
        if group.delimiter() == Delimiter::Bracket
            && out.last().is_some_and(is_hash)
            && let Some(TokenTree::Ident(name)) = group.stream().into_iter().next()
            && ["allow", "automatically_derived", "doc", "inline"]
                .iter()
                .any(|n| name == n)
        {
            out.pop();
            continue;
        }
        let mut inner = Group::new(group.delimiter(), without_attributes(group.stream()));
        inner.set_span(group.span());
        out.push(inner.into());
    }
    out.into_iter().collect()
}

/// Greatest length of a line that is put together from several.
const WIDTH: usize = 120;

/// Puts calls, lists and blocks of one expression on one line, if it is short enough.
///
/// The printer has no setting for the width of a line.
fn joined(text: &str) -> String {
    let mut lines: VecDeque<String> = reflowed(text).into();
    let mut out = String::new();
    while let Some(line) = lines.pop_front() {
        match join(&line, lines.make_contiguous()) {
            // The last of the lines may open the next group.
            Some((line, n)) => {
                lines.drain(..n);
                lines.push_front(line);
            }
            None => {
                out += &(line.clone() + "\n");
                fill(&line, &mut lines);
            }
        }
    }
    out
}

/// Returns the lines of a text, with longer lines in the macros of the run time.
fn reflowed(text: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines: Vec<String> = Vec::new();
    // Indent of the line that opens a macro.
    let mut inside: Option<usize> = None;
    for line in text.lines() {
        let opened = inside.filter(|opened| indent(line) > *opened);
        let Some(opened) = opened else {
            let opens =
                line.contains("rt::") && ["!(", "! {", "!["].iter().any(|end| line.ends_with(end));
            inside = opens.then(|| indent(line));
            lines.push(line.to_owned());
            continue;
        };
        for word in words(line) {
            match lines.last_mut() {
                Some(last)
                    if indent(last) > opened && last.len() + word.len() < WIDTH && word != "fn" =>
                {
                    if !is_glued(last, word) {
                        last.push(' ');
                    }
                    last.push_str(word);
                }
                _ => lines.push(format!("{}{word}", " ".repeat(opened + 4))),
            }
        }
    }
    lines
}

/// Returns whether no space belongs between tokens that the printer of macros separates.
fn is_glued(line: &str, word: &str) -> bool {
    line.ends_with(['&', '<', '[', '(', '.'])
        || line.ends_with('>') && word.starts_with('(')
        || line.ends_with("::") && word == "<"
        || [">", ":", ";"].contains(&word)
        || word.starts_with('.')
}

/// Returns the words of a line; a string is one word.
fn words(line: &str) -> Vec<&str> {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_end = move |c: char| {
        is_string ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c == ' ' && !is_string
    };
    let words = line.trim_start().split(is_end);
    words.filter(|word| !word.is_empty()).collect()
}

/// Puts the short fields or arguments after an opening line on as few lines as they need.
fn fill(opening: &str, lines: &mut VecDeque<String>) {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_item = |line: &&String| indent(line) == indent(opening) + 4 && line.ends_with(',');
    let n = lines.iter().take_while(is_item).count();
    let is_end = |line: &String| indent(line) == indent(opening);
    let is_match = lines.iter().take(n).any(|line| line.contains("=>"));
    if !opening.ends_with(['(', '[', '{']) || is_match || !lines.get(n).is_some_and(is_end) {
        return;
    }
    let mut filled: Vec<String> = Vec::new();
    for field in lines.drain(..n) {
        match filled.last_mut() {
            Some(last) if last.len() + field.trim_start().len() < WIDTH => {
                last.push(' ');
                last.push_str(field.trim_start());
            }
            _ => filled.push(field),
        }
    }
    filled
        .into_iter()
        .rev()
        .for_each(|line| lines.push_front(line));
}

/// Returns a line that ends with an open bracket together with the lines up to the closing bracket,
/// and their number. Returns `None` if they are statements or too long.
fn join(line: &str, rest: &[String]) -> Option<(String, usize)> {
    let next = rest.first()?.trim_start();
    let is_attribute = line.trim_start().starts_with("#[") && line.ends_with(']');
    if is_attribute || ["||", "&&"].iter().any(|op| next.starts_with(op)) || next == "{" {
        let line = format!("{line} {next}");
        return (line.len() <= WIDTH).then_some((line, 1));
    }
    if next.starts_with('.') && !line.ends_with('}') {
        let line = format!("{line}{next}");
        return (line.len() <= WIDTH).then_some((line, 1));
    }
    if !line.ends_with(['(', '[', '{']) || line.trim_start().starts_with("//") {
        return None;
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_last = |next: &String| indent(next) <= indent(line);
    let n = rest.iter().position(is_last)? + 1;
    let mut out = line.to_owned();
    for next in &rest[..n] {
        let next = next.trim_start();
        let closes = next.starts_with([')', ']', '}']);
        if closes {
            out.truncate(out.trim_end_matches(',').len());
        }
        if !(out.ends_with(['(', '[']) || next.starts_with([')', ']'])) {
            out.push(' ');
        }
        out += next;
        let is_statement = n > 2 && next.ends_with(';') && !closes || next.contains("=>");
        if is_statement || out.len() > WIDTH {
            return None;
        }
    }
    Some((out, n))
}
