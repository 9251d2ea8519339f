//! SVG.

use crate::escape::Xml;
use crate::graph::{Diagram, DiagramNode, LabelLine, NodeKind, Section, graph, parts};
use crate::layout::{Descent, Placement, Size, far_edges, layout};
use crate::listing::Listing;
use gradloom_ir::Program;
use std::fmt::Write;

/// Colours and fonts, light and dark.
pub(crate) const STYLE: &str = include_str!("svg.css");

/// Upper bound of the width of a character, in a monospaced font of 12 pixels.
const CHARACTER: f64 = 7.5;
/// Height of a line of text.
const LINE: f64 = 17.0;
/// Space between text and the border of its box.
const PAD: f64 = 10.0;
/// Width of the coloured bar of a box.
const BAR: f64 = 4.0;
/// The longest line of a label, in characters. The rest is replaced by `…`.
const LONGEST: usize = 44;
/// Space around the drawing, and between its parts.
const MARGIN: f64 = 16.0;

/// Returns a program as an SVG document.
///
/// Each node shows its names with dtype and shape, the op with its operands, static arguments, and
/// whether it is a parameter or a result. An edge is dashed if only dtype and shape are read. Numbers
/// stand in the node that reads them. The programs of ops such as `scan` are drawn inside of their
/// node. In a large program, the name of a value stands beside a consumer that is far away, instead of
/// an edge. Colours follow the preference of the reader for light or dark.
///
/// ```
/// let program: gradloom_ir::Program = "(x: f32[3]) { y = mul x, x return y }".parse()?;
/// let svg = gradloom_view::svg(&program);
/// assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
pub fn svg(program: &Program) -> String {
    document(&[Section::Graph(graph(program, ""))])
}

/// Returns a program or flow as an SVG document. A scope of a flow is a box around its blocks.
///
/// ```
/// let code: gradloom_view::Listing = "(x) { `if c` { y = tanh x return y } return x }".parse()?;
/// assert!(gradloom_view::svg_of_listing(&code).contains(">if c</text>"));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
pub fn svg_of_listing(code: &Listing) -> String {
    document(&parts(code, "", usize::MAX))
}

fn document(parts: &[Section<'_>]) -> String {
    let drawing = draw(parts, &|_| Marks::default());
    let (w, h) = (drawing.width, drawing.height);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\">\n\
         <style>\n{STYLE}</style>\n\
         <path d=\"M0 0H{w}V{h}H0Z\" style=\"fill: var(--paper)\"/>\n{}</svg>\n",
        drawing.content
    )
}

/// The content of an SVG element, and its size.
pub(crate) struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) content: String,
}

/// Further classes and attributes of a node, each after a space.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) class: &'static str,
    pub(crate) attributes: String,
}

/// Returns the marks of a node.
pub(crate) type MarksOf<'f> = dyn Fn(&DiagramNode<'_>) -> Marks + 'f;

/// Draws parts one below the other.
pub(crate) fn draw(parts: &[Section<'_>], marks: &MarksOf<'_>) -> Drawing {
    let placed: Vec<PlacedSection<'_, '_>> = parts.iter().map(place).collect();
    let size = stack_size(&placed);
    let mut content = String::new();
    write_stack(&placed, (MARGIN, MARGIN), marks, &mut content);
    Drawing {
        width: (size.width + 2.0 * MARGIN).ceil(),
        height: (size.height + 2.0 * MARGIN).ceil(),
        content,
    }
}

/// A part with its size, and the places of what it holds.
enum PlacedSection<'p, 'a> {
    Graph(PlacedGraph<'p, 'a>),
    Line(&'p str),
    Scope(&'p str, Vec<PlacedSection<'p, 'a>>),
}

struct PlacedGraph<'p, 'a> {
    graph: &'p Diagram<'a>,
    nodes: Vec<PlacedNode<'p, 'a>>,
    /// Boxes that stand for a producer that is far above. They follow the nodes in the layout.
    chips: Vec<Chip>,
    edges: Vec<DrawnEdge>,
    layout: Placement,
}

/// A box with the name of a node.
struct Chip {
    node: usize,
    text: String,
    size: Size,
}

/// An edge from a node, or from a chip of it.
struct DrawnEdge {
    from: usize,
    to: usize,
    is_like: bool,
}

struct PlacedNode<'p, 'a> {
    node: &'p DiagramNode<'a>,
    lines: Vec<LabelLine>,
    inner: Vec<(&'p str, PlacedGraph<'p, 'a>)>,
    size: Size,
}

/// Returns the number of columns of a text. Characters that may be wide count twice.
fn columns(text: &str) -> usize {
    text.chars()
        .map(|c| {
            if u32::from(c) < 0x250 || ['…', '↑'].contains(&c) {
                1
            } else {
                2
            }
        })
        .sum()
}

/// Shortens a text to a number of columns.
fn shorten(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        if columns(&short) + columns(c.encode_utf8(&mut [0; 4])) >= most {
            break;
        }
        short.push(c);
    }
    short + "…"
}

/// Shortens a line. The strong piece has precedence.
fn shorten_line(line: LabelLine) -> LabelLine {
    let strong = shorten(&line.strong, LONGEST - 8);
    let plain = shorten(&line.plain, LONGEST - columns(&strong));
    LabelLine { strong, plain }
}

fn text_width(text: &str) -> f64 {
    columns(text) as f64 * CHARACTER
}

fn place<'p, 'a>(part: &'p Section<'a>) -> PlacedSection<'p, 'a> {
    match part {
        Section::Graph(graph) => PlacedSection::Graph(place_graph(graph)),
        Section::Line(text) => PlacedSection::Line(text),
        Section::Scope { head, body } => {
            PlacedSection::Scope(head, body.iter().map(place).collect())
        }
    }
}

fn place_graph<'p, 'a>(graph: &'p Diagram<'a>) -> PlacedGraph<'p, 'a> {
    let nodes: Vec<PlacedNode<'p, 'a>> = graph.nodes.iter().map(|n| place_node(graph, n)).collect();
    let edges = graph.edges();
    let mut sizes: Vec<Size> = nodes.iter().map(|n| n.size).collect();
    let mut ends: Vec<(usize, usize)> = edges.iter().map(|(from, to, _)| (*from, *to)).collect();
    let mut chips = Vec::new();
    let are_far = far_edges(nodes.len(), &ends);
    for (end, is_far) in ends.iter_mut().zip(are_far) {
        if is_far {
            let chip = chip(graph, end.0);
            end.0 = sizes.len();
            sizes.push(chip.size);
            chips.push(chip);
        }
    }
    let drawn = edges
        .into_iter()
        .map(|(from, to, is_like)| DrawnEdge { from, to, is_like });
    PlacedGraph {
        graph,
        nodes,
        chips,
        edges: drawn.collect(),
        layout: layout(&sizes, &ends),
    }
}

/// Returns a box that stands for a node.
fn chip(graph: &Diagram<'_>, node: usize) -> Chip {
    let name = graph.program.show(graph.nodes[node].vars[0]);
    let text = format!("↑ {}", shorten(&name, LONGEST));
    Chip {
        node,
        size: Size {
            width: text_width(&text) + PAD,
            height: LINE + 4.0,
        },
        text,
    }
}

fn place_node<'p, 'a>(graph: &Diagram<'a>, node: &'p DiagramNode<'a>) -> PlacedNode<'p, 'a> {
    let lines: Vec<LabelLine> = graph.label(node).into_iter().map(shorten_line).collect();
    let inner: Vec<(&str, PlacedGraph<'_, '_>)> = node
        .nested
        .iter()
        .map(|(title, graph)| (title.as_str(), place_graph(graph)))
        .collect();
    let line_width = |line: &LabelLine| text_width(&line.strong) + text_width(&line.plain);
    let text = lines.iter().map(line_width).fold(40.0, f64::max);
    let boxes: Vec<Size> = inner.iter().map(|(t, g)| inner_size(t, g)).collect();
    let inner_width: f64 = boxes.iter().map(|b| b.width + PAD).sum::<f64>() - PAD;
    let inner_height = boxes.iter().map(|b| b.height).fold(0.0, f64::max);
    let mut size = Size {
        width: text.max(inner_width) + 2.0 * PAD + BAR,
        height: lines.len() as f64 * LINE + PAD,
    };
    if !boxes.is_empty() {
        size.height += inner_height + PAD;
    }
    PlacedNode {
        node,
        lines,
        inner,
        size,
    }
}

fn graph_size(graph: &PlacedGraph<'_, '_>) -> Size {
    Size {
        width: graph.layout.width,
        height: graph.layout.height,
    }
}

/// Returns the size of the box around a program inside of a node.
fn inner_size(title: &str, graph: &PlacedGraph<'_, '_>) -> Size {
    let size = graph_size(graph);
    Size {
        width: size.width.max(text_width(title)) + 2.0 * PAD,
        height: size.height + LINE + 2.0 * PAD,
    }
}

fn size(part: &PlacedSection<'_, '_>) -> Size {
    match part {
        PlacedSection::Graph(graph) => graph_size(graph),
        PlacedSection::Line(text) => Size {
            width: text_width(&shorten(text, 2 * LONGEST)),
            height: LINE,
        },
        PlacedSection::Scope(head, body) => {
            let size = stack_size(body);
            let head = text_width(&shorten(head, 2 * LONGEST));
            Size {
                width: size.width.max(head) + 2.0 * MARGIN,
                height: size.height + LINE + 3.0 * PAD,
            }
        }
    }
}

fn stack_size(parts: &[PlacedSection<'_, '_>]) -> Size {
    let sizes = parts.iter().map(size);
    let sum = sizes.fold((0.0f64, 0.0), |(width, height), size| {
        (width.max(size.width), height + size.height + MARGIN)
    });
    Size {
        width: sum.0,
        height: (sum.1 - MARGIN).max(0.0),
    }
}

fn write_stack(
    parts: &[PlacedSection<'_, '_>],
    (x, mut y): (f64, f64),
    marks: &MarksOf<'_>,
    out: &mut String,
) {
    for part in parts {
        let size = size(part);
        match part {
            PlacedSection::Graph(graph) => write_graph(graph, (x, y), marks, out),
            PlacedSection::Line(text) => {
                write_text("host", &shorten(text, 2 * LONGEST), (x, y), out)
            }
            PlacedSection::Scope(head, body) => {
                write_rect("scope", (x, y), size, out);
                let head = shorten(head, 2 * LONGEST);
                write_text("host", &head, (x + MARGIN, y + PAD / 2.0), out);
                let inside = (x + MARGIN, y + LINE + 2.0 * PAD);
                write_stack(body, inside, marks, out);
            }
        }
        y += size.height + MARGIN;
    }
}

fn write_rect(class: &str, (x, y): (f64, f64), size: Size, out: &mut String) {
    let Size { width, height } = size;
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\"/>"
    );
}

/// Writes a line of text whose upper left corner is at `(x, y)`.
fn write_text(class: &str, text: &str, (x, y): (f64, f64), out: &mut String) {
    let base = y + LINE - 4.5;
    let text = Xml(text);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{base:.1}\">{text}</text>"
    );
}

fn write_graph(
    placed: &PlacedGraph<'_, '_>,
    (x, y): (f64, f64),
    marks: &MarksOf<'_>,
    out: &mut String,
) {
    for (edge, way) in placed.edges.iter().zip(&placed.layout.ways) {
        let class = if edge.is_like { "edge like" } else { "edge" };
        let id = |i: usize| Xml(&placed.nodes[i].node.id);
        let _ = writeln!(
            out,
            "<path class=\"{class}\" data-from=\"{}\" data-to=\"{}\" d=\"{}\"/>",
            id(edge.from),
            id(edge.to),
            way_path(way, (x, y))
        );
    }
    let mut corners = placed.layout.corners.iter().map(|c| (x + c.0, y + c.1));
    for (node, corner) in placed.nodes.iter().zip(&mut corners) {
        write_node(placed.graph, node, corner, marks, out);
    }
    for (chip, (left, top)) in placed.chips.iter().zip(corners) {
        let id = Xml(&placed.nodes[chip.node].node.id);
        let _ = writeln!(
            out,
            "<g class=\"far\" data-node=\"{id}\">\n<title>further up</title>"
        );
        write_rect("chip", (left, top), chip.size, out);
        write_text("name", &chip.text, (left + PAD / 2.0, top + 1.0), out);
        out.push_str("</g>\n");
    }
}

/// Returns the path of an edge, with its arrowhead.
fn way_path(way: &[Descent], (x, y): (f64, f64)) -> String {
    let mut path = String::new();
    let mut before: Option<&Descent> = None;
    for piece in way {
        let (px, top) = (piece.x + x, piece.top + y);
        let _ = match before {
            None => write!(path, "M{px:.1} {top:.1}"),
            Some(before) if (before.x - piece.x).abs() < 0.5 => Ok(()),
            Some(before) => {
                let (bx, bottom) = (before.x + x, before.bottom + y);
                let middle = (bottom + top) / 2.0;
                write!(
                    path,
                    "V{bottom:.1}C{bx:.1} {middle:.1} {px:.1} {middle:.1} {px:.1} {top:.1}"
                )
            }
        };
        before = Some(piece);
    }
    if let Some(end) = before {
        let (px, tip) = (end.x + x, end.bottom + y);
        let (left, right, back) = (px - 3.5, px + 3.5, tip - 6.0);
        let _ = write!(
            path,
            "V{tip:.1}M{left:.1} {back:.1}L{px:.1} {tip:.1}L{right:.1} {back:.1}"
        );
    }
    path
}

fn write_node(
    graph: &Diagram<'_>,
    placed: &PlacedNode<'_, '_>,
    (x, y): (f64, f64),
    marks: &MarksOf<'_>,
    out: &mut String,
) {
    let node = placed.node;
    let Marks { class, attributes } = marks(node);
    let result = if node.is_result { " result" } else { "" };
    let _ = writeln!(
        out,
        "<g class=\"node {}{result}{class}\" id=\"{}\"{attributes}>",
        node.kind.name(),
        Xml(&node.id),
    );
    let title = match node.eqn {
        Some(eqn) if node.nested.is_empty() => graph.program.show_eqn(eqn),
        _ => {
            let line = |line: &LabelLine| format!("{}{}", line.strong, line.plain);
            let lines: Vec<String> = graph.label(node).iter().map(line).collect();
            lines.join("\n")
        }
    };
    let _ = writeln!(out, "<title>{}</title>", Xml(&title));
    write_rect("body", (x, y), placed.size, out);
    let height = placed.size.height;
    let _ = writeln!(
        out,
        "<path class=\"bar\" d=\"M{x:.1} {:.1}h{BAR}v{:.1}h-{BAR}z\"/>",
        y + 3.0,
        height - 6.0
    );
    let left = x + PAD + BAR;
    let n_vars = node.vars.len();
    for (i, line) in placed.lines.iter().enumerate() {
        let base = y + PAD / 2.0 + LINE * (i + 1) as f64 - 4.5;
        let is_expression = node.kind != NodeKind::Param && line.strong.is_empty() && i == n_vars;
        let class = if is_expression { "" } else { " class=\"soft\"" };
        let _ = write!(out, "<text x=\"{left:.1}\" y=\"{base:.1}\"{class}>");
        if !line.strong.is_empty() {
            let strong = Xml(&line.strong);
            let _ = write!(out, "<tspan class=\"strong\">{strong}</tspan>");
        }
        let _ = writeln!(out, "{}</text>", Xml(&line.plain));
    }
    let inner_y = y + PAD / 2.0 + LINE * placed.lines.len() as f64 + PAD / 2.0;
    let mut inner_x = left;
    for (title, inner) in &placed.inner {
        let size = inner_size(title, inner);
        write_rect("inner", (inner_x, inner_y), size, out);
        write_text("title", title, (inner_x + PAD, inner_y + PAD / 2.0), out);
        let inside = (inner_x + PAD, inner_y + PAD + LINE);
        write_graph(inner, inside, marks, out);
        inner_x += size.width + PAD;
    }
    out.push_str("</g>\n");
}
