//! Programs that the tests draw, and the elements of what is drawn.

#![allow(dead_code, unreachable_pub)] // each test uses a part

use gradloom_ir::{Aval, Builder, DType, Op, Program, Static, ad};
use gradloom_view::Listing;
use std::collections::BTreeMap;
use std::path::Path;

/// The programs in `tests/programs`.
pub const FILES: [&str; 5] = ["control", "dense", "digits", "flow", "transformer_block"];

pub fn code(name: &str) -> Listing {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a file");
    text.parse().expect("the program of a test parses")
}

/// Returns a program with `n` copies of the block in `transformer_block.txt`, one after the other.
pub fn transformer(n: usize) -> Program {
    let Listing::Program(block) = code("transformer_block") else {
        panic!("the block is straight-line code");
    };
    let mut b = Builder::new();
    let mut x = b.param(block.aval(block.params[0]).clone());
    let mask = b.param(block.aval(block.params[1]).clone());
    b.name(x, "x");
    b.name(mask, "mask");
    let mut params = vec![x, mask];
    for layer in 0..n {
        let mut vars = BTreeMap::from([(block.params[0], x), (block.params[1], mask)]);
        for param in &block.params[2..] {
            let copy = b.param(block.aval(*param).clone());
            b.name(copy, &format!("l{layer}_{}", block.show(*param)));
            params.push(copy);
            vars.insert(*param, copy);
        }
        for eqn in &block.eqns {
            let attrs: Vec<_> = eqn
                .attrs
                .iter()
                .map(|a| b.attr(block.attr(*a).clone()))
                .collect();
            let args: Vec<_> = eqn.args.iter().map(|v| vars[v]).collect();
            let out = b.emit(eqn.op, &attrs, &args);
            if let Some(name) = block.names.get(eqn.out()) {
                b.name(out, &format!("l{layer}_{name}"));
            }
            vars.insert(eqn.out(), out);
        }
        x = vars[&block.outs[0]];
    }
    b.finish(params, vec![x])
}

/// Returns the gradient of the sum of the results of `n` blocks, as one program.
///
/// Its equations read values that are far above.
pub fn gradient(n: usize) -> Program {
    let blocks = transformer(n);
    let mut b = Builder::after(&blocks);
    blocks.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    let (axes, keepdims) = (b.attr(Static::All), b.attr(false));
    let loss = b.sum(blocks.outs[0], blocks.outs[0], axes, keepdims);
    let program = b.finish(blocks.params.clone(), vec![loss]);
    ad::grad_program(&program, &program.params).program
}

/// A name that ends scripts, attributes, comments and strings.
pub const HOSTILE: &str = "</script><b onclick='x'>\"&]]>-->\\`\u{0}";

/// Returns a program whose names and host expressions are hostile.
pub fn hostile() -> Program {
    let mut b = Builder::new();
    let x = b.param(Aval::new(DType::F32, &[2]));
    let shape = b.attr(Static::Host(HOSTILE.to_owned()));
    let y = b.emit(Op::Reshape, &[shape], &[x, x]);
    let mut program = b.finish(vec![x], vec![y]);
    program.names.insert(x, HOSTILE.to_owned());
    program.names.insert(y, format!("y{HOSTILE}"));
    program
}

/// A tag with its attributes, and the text up to the next tag.
#[derive(Debug)]
pub struct Tag {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub text: String,
    /// The ids of the elements around the tag, from the outermost.
    pub inside: Vec<String>,
}

/// Parses XML, or HTML written like XML, strictly.
///
/// # Panics
///
/// If it is not well-formed, an attribute stands twice, or an id is not unique. The content of
/// `script` and `style` is skipped.
pub fn tags(text: &str) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    let mut open: Vec<(String, Option<String>)> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while let Some(start) = rest.find('<') {
        let before = &rest[..start];
        assert!(!before.contains('>'), "`>` in {before:?}");
        if let Some(tag) = tags.last_mut() {
            tag.text += &unescape(before);
        }
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let (opened, _) = open.pop().expect("an open element");
            assert_eq!(opened, name);
            continue;
        }
        let is_closed = tag.ends_with('/');
        let tag = tag.strip_suffix('/').unwrap_or(tag);
        let (name, mut list) = tag.split_once(' ').unwrap_or((tag, ""));
        let is_letter = |c: char| c.is_ascii_alphanumeric();
        assert!(!name.is_empty() && name.chars().all(is_letter), "<{tag}>");
        let mut attributes = BTreeMap::new();
        while !list.trim().is_empty() {
            let (key, after) = list.split_once("=\"").expect("a quoted attribute");
            let (value, after) = after.split_once('"').expect("a closing quote");
            let key = key.trim().to_owned();
            assert!(
                key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
                "<{tag}>"
            );
            assert!(attributes.insert(key, unescape(value)).is_none(), "<{tag}>");
            list = after;
        }
        let id = attributes.get("id").cloned();
        if let Some(id) = &id {
            assert!(!ids.contains(id), "the id {id} is not unique");
            ids.push(id.clone());
        }
        tags.push(Tag {
            name: name.to_owned(),
            attributes,
            text: String::new(),
            inside: open.iter().filter_map(|(_, id)| id.clone()).collect(),
        });
        if is_closed {
            continue;
        }
        open.push((name.to_owned(), id));
        if ["script", "style"].contains(&name) {
            let end = rest.find(&format!("</{name}")).expect("a closing tag");
            rest = &rest[end..];
        }
    }
    assert!(open.is_empty(), "{open:?} are open");
    assert_eq!(rest.trim(), "");
    tags
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out += &rest[..start];
        let (entity, after) = rest[start + 1..].split_once(';').expect("an entity");
        out += match entity {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "#39" => "'",
            other => panic!("the entity {other}"),
        };
        rest = after;
    }
    out + rest
}
