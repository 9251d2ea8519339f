//! Graphviz DOT.

use crate::escape::DotString;
use crate::graph::{Diagram, NodeKind, Section, graph, parts};
use crate::listing::Listing;
use gradloom_ir::Program;
use std::fmt::Write;

/// Returns a program as a graph in the language of Graphviz.
///
/// Parameters are ellipses and results have double borders. An edge is dashed if only dtype and
/// shape are read. A program that an equation runs is a cluster.
///
/// ```
/// let program: gradloom_ir::Program = "(x: f32[3]) { y = mul x, x return y }".parse()?;
/// let dot = gradloom_view::dot(&program);
/// assert!(dot.contains("\"p0\" -> \"e0\""));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
pub fn dot(program: &Program) -> String {
    write(&[Section::Graph(graph(program, ""))])
}

/// Returns a program or flow as a graph in the language of Graphviz. A scope is a cluster.
///
/// ```
/// let code: gradloom_view::Listing = "(x) { `if c` { y = tanh x return y } return x }".parse()?;
/// assert!(gradloom_view::dot_of_listing(&code).contains("label=\"if c\""));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
pub fn dot_of_listing(code: &Listing) -> String {
    write(&parts(code, "", usize::MAX))
}

fn write(parts: &[Section<'_>]) -> String {
    let mut out = String::from("digraph program {\n");
    out += "  node [shape=box, fontname=\"monospace\", fontsize=10];\n";
    let mut n_clusters = 0;
    for (i, part) in parts.iter().enumerate() {
        write_part(part, &i.to_string(), 1, &mut n_clusters, &mut out);
    }
    out + "}\n"
}

fn write_part(
    part: &Section<'_>,
    path: &str,
    depth: usize,
    n_clusters: &mut usize,
    out: &mut String,
) {
    let indent = "  ".repeat(depth);
    match part {
        Section::Graph(graph) => write_graph(graph, depth, n_clusters, out),
        Section::Line(text) => {
            let (id, label) = (format!("host{path}"), format!("{text}\n"));
            let _ = writeln!(
                out,
                "{indent}{} [label={}, shape=plain];",
                DotString(&id),
                DotString(&label)
            );
        }
        Section::Scope { head, body } => {
            open_cluster(head, depth, n_clusters, out);
            for (i, part) in body.iter().enumerate() {
                write_part(part, &format!("{path}-{i}"), depth + 1, n_clusters, out);
            }
            let _ = writeln!(out, "{indent}}}");
        }
    }
}

fn open_cluster(label: &str, depth: usize, n_clusters: &mut usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = writeln!(
        out,
        "{indent}subgraph cluster{n_clusters} {{\n{indent}  label={};",
        DotString(label)
    );
    *n_clusters += 1;
}

fn write_graph(graph: &Diagram<'_>, depth: usize, n_clusters: &mut usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for node in &graph.nodes {
        let lines = graph.label(node);
        let label: String = lines
            .iter()
            .map(|line| format!("{}{}\n", line.strong, line.plain))
            .collect();
        let shape = match node.kind {
            NodeKind::Param => ", shape=ellipse",
            _ => "",
        };
        let border = if node.is_result {
            ", peripheries=2"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "{indent}{} [label={}{shape}{border}];",
            DotString(&node.id),
            DotString(&label)
        );
        for (title, inner) in &node.nested {
            let title = format!("{title} of {}", graph.program.show(node.vars[0]));
            open_cluster(&title, depth, n_clusters, out);
            write_graph(inner, depth + 1, n_clusters, out);
            let _ = writeln!(out, "{indent}}}");
        }
    }
    for (from, to, is_like) in graph.edges() {
        let (from, to) = (&graph.nodes[from].id, &graph.nodes[to].id);
        let style = if is_like { " [style=dashed]" } else { "" };
        let _ = writeln!(
            out,
            "{indent}{} -> {}{style};",
            DotString(from),
            DotString(to)
        );
    }
}
