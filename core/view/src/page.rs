//! The page: one HTML document that needs no network.

use crate::escape::Xml;
use crate::graph::{Diagram, DiagramNode, NodeOperand, Section, graphs, parts};
use crate::info::{Metadata, PlanTable, Statistics, VarInfo};
use crate::listing::Listing;
use crate::svg::{Marks, STYLE, draw};
use gradloom_ir::{Cost, Poly, Program, Var, cost, verify};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

/// A page for the browser that shows a program.
///
/// The page is one HTML document without references to other files. It has the graph with zoom and
/// pan, a search, and for each node its op, static arguments, shapes, cost, operands and consumers. A
/// backward program is drawn beside the forward program; values of both are marked together. The
/// fragment of the address selects a node.
///
/// ```
/// use gradloom_view::{Metadata, Page};
///
/// let program: gradloom_ir::Program = "(x: f32[3]) { y = mul x, x return y }".parse()?;
/// let html = Page::new("square").forward(&program, Metadata::new()).html();
/// assert!(html.starts_with("<!DOCTYPE html>"));
/// # Ok::<(), gradloom_ir::text::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    forward: Option<(Listing, Metadata)>,
    /// The number of results of the forward program that are not residuals.
    n_results: usize,
    backward: Option<(Listing, Metadata)>,
    plan: Option<PlanTable>,
}

impl Page {
    /// Returns a page without a program.
    ///
    /// ```
    /// assert!(gradloom_view::Page::new("a < b").html().contains("<h1>a &lt; b</h1>"));
    /// ```
    pub fn new(title: impl Into<String>) -> Page {
        Page {
            title: title.into(),
            forward: None,
            n_results: usize::MAX,
            backward: None,
            plan: None,
        }
    }

    /// Shows a program or flow, with what is known about its values. See [`Page`] for an example.
    pub fn forward(self, code: impl Into<Listing>, metadata: Metadata) -> Page {
        Page {
            forward: Some((code.into(), metadata)),
            ..self
        }
    }

    /// Marks all results of the forward program but the first `n` as residuals. [`Page::backward`] has
    /// an example.
    pub fn results(self, n: usize) -> Page {
        Page {
            n_results: n,
            ..self
        }
    }

    /// Shows a program beside the forward program, such as its pullback.
    ///
    /// A value of both programs has one name in both, or is a parameter of the backward program with
    /// the number that it has in the forward program. A cotangent has the name of its value after
    /// `ct_`.
    ///
    /// ```
    /// use gradloom_ir::{Program, ad};
    /// use gradloom_view::{Metadata, Page};
    ///
    /// let program: Program = "(x: f32[3]) { y = tanh x return y }".parse()?;
    /// let vjp = ad::vjp(&program, &program.params);
    /// let page = Page::new("tanh")
    ///     .forward(vjp.primal, Metadata::new())
    ///     .results(1)
    ///     .backward(vjp.pullback, Metadata::new());
    /// assert!(page.html().contains("ct_y"));
    /// # Ok::<(), gradloom_ir::text::ParseError>(())
    /// ```
    pub fn backward(self, code: impl Into<Listing>, metadata: Metadata) -> Page {
        Page {
            backward: Some((code.into(), metadata)),
            ..self
        }
    }

    /// Shows a plan in a tab.
    ///
    /// ```
    /// use gradloom_view::{Page, PlanTable};
    ///
    /// let plan = PlanTable { text: "1 task".into(), ..PlanTable::default() };
    /// assert!(Page::new("f").plan(plan).html().contains("1 task"));
    /// ```
    pub fn plan(self, plan: PlanTable) -> Page {
        Page {
            plan: Some(plan),
            ..self
        }
    }

    /// Returns the document.
    pub fn html(&self) -> String {
        let given = [
            ("forward", "f-", &self.forward, self.n_results),
            ("backward", "b-", &self.backward, usize::MAX),
        ];
        let panels: Vec<Panel<'_>> = given
            .into_iter()
            .filter_map(|(title, prefix, given, n_results)| {
                let (code, metadata) = given.as_ref()?;
                Some(Panel {
                    title,
                    code,
                    metadata,
                    n_results,
                    parts: parts(code, prefix, n_results),
                })
            })
            .collect();
        let links = Links::new(&panels);
        let title = Xml(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n\
             <nav role=\"tablist\" aria-label=\"Views\">\n",
            include_str!("page.css")
        );
        tab("graph", "Graph", State::Open, &mut out);
        if self.plan.is_some() {
            tab("plan", "Plan", State::Closed, &mut out);
        }
        tab("text", "Text", State::Closed, &mut out);
        out += "</nav>\n<div class=\"search\">\n<span id=\"count\" aria-live=\"polite\"></span>\n\
                <input id=\"search\" type=\"search\" placeholder=\"Search names and ops ( / )\" \
                aria-label=\"Search names and ops\" aria-controls=\"hits\" size=\"26\" autocomplete=\"off\"/>\n\
                <ol id=\"hits\"></ol>\n</div>\n</header>\n<main>\n\
                <div id=\"graph\" class=\"view\" role=\"tabpanel\" aria-labelledby=\"tab-graph\">\n";
        for panel in &panels {
            panel.write(&links, &mut out);
        }
        out += "<aside aria-label=\"Details\" aria-live=\"polite\">\n";
        overview(&panels, &mut out);
        for panel in &panels {
            panel.write_articles(&links, &mut out);
        }
        out += "</aside>\n</div>\n";
        if let Some(plan) = &self.plan {
            write_plan(plan, &links, &mut out);
        }
        out += "<div id=\"text\" class=\"view text\" role=\"tabpanel\" aria-labelledby=\"tab-text\" hidden=\"\">\n";
        for panel in &panels {
            let text = panel.code.to_string();
            let _ = writeln!(out, "<h2>{}</h2>\n<pre>{}</pre>", panel.title, Xml(&text));
        }
        let script = include_str!("page.js");
        let _ = write!(
            out,
            "</div>\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
        );
        out
    }
}

/// A program on the page.
struct Panel<'a> {
    title: &'static str,
    code: &'a Listing,
    metadata: &'a Metadata,
    /// The number of results that are not residuals.
    n_results: usize,
    parts: Vec<Section<'a>>,
}

/// Whether a tab is open.
#[derive(PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

fn tab(id: &str, title: &str, state: State, out: &mut String) {
    let is_open = state == State::Open;
    let index = if is_open { "0" } else { "-1" };
    let _ = writeln!(
        out,
        "<button type=\"button\" role=\"tab\" id=\"tab-{id}\" aria-controls=\"{id}\" aria-selected=\"{is_open}\" \
         tabindex=\"{index}\">{title}</button>"
    );
}

/// A node that has the same value as a node of the other program, or its cotangent.
struct RelatedNode {
    id: String,
    /// The text of the link.
    text: String,
}

/// Links between nodes.
struct Links {
    /// The node that binds each name, by the title of the panel.
    nodes: BTreeMap<(&'static str, String), String>,
    /// The related nodes of the other program, by the id of a node.
    same: BTreeMap<String, Vec<RelatedNode>>,
}

impl Links {
    fn new(panels: &[Panel<'_>]) -> Links {
        let mut links = Links {
            nodes: BTreeMap::new(),
            same: BTreeMap::new(),
        };
        for panel in panels {
            panel.each_outer(&mut |graph, node| {
                for var in &node.vars {
                    let name = (panel.title, graph.program.show(*var));
                    links.nodes.insert(name, node.id.clone());
                }
            });
        }
        if let [forward, backward] = panels {
            backward.each_outer(&mut |graph, node| {
                for var in &node.vars {
                    let text = graph.program.show(*var);
                    // Numbers of equations of the two programs are unrelated.
                    if graph.program.names.contains(*var) || node.eqn.is_none() {
                        links.join(forward.title, &text, &node.id, &text);
                    }
                    if let Some(value) = text.strip_prefix("ct_") {
                        links.join(forward.title, value, &node.id, &text);
                    }
                }
            });
        }
        links
    }

    /// Joins the node of a name in the forward program with a node of the backward program.
    fn join(&mut self, forward: &'static str, name: &str, backward_id: &str, text: &str) {
        let Some(id) = self.nodes.get(&(forward, name.to_owned())).cloned() else {
            return;
        };
        let mut add = |from: &str, to: &str, text: &str| {
            let same = self.same.entry(from.to_owned()).or_default();
            if !same.iter().any(|other| other.id == to) {
                let (id, text) = (to.to_owned(), text.to_owned());
                same.push(RelatedNode { id, text });
            }
        };
        add(&id, backward_id, text);
        add(backward_id, &id, name);
    }

    fn same(&self, id: &str) -> &[RelatedNode] {
        self.same.get(id).map_or(&[], Vec::as_slice)
    }
}

impl<'a> Panel<'a> {
    /// Calls `f` for each node that is not inside of another one.
    fn each_outer(&self, f: &mut dyn FnMut(&Diagram<'a>, &DiagramNode<'a>)) {
        let mut all = Vec::new();
        graphs(&self.parts, &mut all);
        for graph in all {
            graph.nodes.iter().for_each(|node| f(graph, node));
        }
    }

    /// Returns what is known about a variable of a program that is not inside of a node.
    fn info(&self, var: Var) -> Option<&VarInfo> {
        self.metadata.get(var)
    }

    fn write(&self, links: &Links, out: &mut String) {
        let mut outer = std::collections::BTreeSet::new();
        self.each_outer(&mut |_, node| {
            outer.insert(node.id.clone());
        });
        let marks = |node: &DiagramNode<'_>| {
            let same: Vec<&str> = links.same(&node.id).iter().map(|s| s.id.as_str()).collect();
            let is_bad = |v: &Var| {
                let statistics = self.info(*v).and_then(|info| info.statistics);
                statistics.is_some_and(|s| s.has_faults())
            };
            let is_bad = outer.contains(&node.id) && node.vars.iter().any(is_bad);
            let same = match same.is_empty() {
                true => String::new(),
                false => format!(" data-same=\"{}\"", Xml(&same.join(" "))),
            };
            Marks {
                class: if is_bad { " bad" } else { "" },
                attributes: format!(" tabindex=\"-1\" role=\"button\"{same}"),
            }
        };
        let drawing = draw(&self.parts, &marks);
        let _ = writeln!(
            out,
            "<section class=\"panel\" aria-label=\"{0}\">\n<div><b>{0}</b><span title=\"{1}\">{1}</span>",
            self.title,
            self.summary()
        );
        for (action, title, text) in [
            ("in", "Zoom in (+)", "+"),
            ("out", "Zoom out (-)", "−"),
            ("fit", "Show everything (0)", "Fit"),
            ("read", "Show the start in a legible size (1)", "1:1"),
        ] {
            let _ = writeln!(
                out,
                "<button type=\"button\" data-do=\"{action}\" title=\"{title}\" aria-label=\"{title}\">{text}</button>"
            );
        }
        let _ = writeln!(
            out,
            "</div>\n<svg xmlns=\"http://www.w3.org/2000/svg\" tabindex=\"0\" role=\"group\" \
             aria-label=\"graph of the {} program\" data-width=\"{w}\" data-height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\">\n{}</svg>\n</section>",
            self.title,
            drawing.content,
            w = drawing.width,
            h = drawing.height,
        );
    }

    fn summary(&self) -> String {
        let plural = |n: usize, word: &str| match n {
            1 => format!("1 {word}"),
            n => format!("{n} {word}s"),
        };
        match self.code {
            Listing::Program(program) => {
                let n_results = program.outs.len().min(self.n_results);
                let text = format!(
                    "{}, {}, {}",
                    plural(program.eqns.len(), "equation"),
                    plural(program.params.len(), "parameter"),
                    plural(n_results, "result")
                );
                match program.outs.len() - n_results {
                    0 => text,
                    n => format!("{text}, {}", plural(n, "residual")),
                }
            }
            Listing::Flow(flow) => {
                let n_eqns = flow.blocks.iter().map(|b| b.program.eqns.len()).sum();
                let blocks = plural(flow.blocks.len(), "block");
                format!("{} in {blocks}", plural(n_eqns, "equation"))
            }
        }
    }

    fn write_articles(&self, links: &Links, out: &mut String) {
        let mut all = Vec::new();
        graphs(&self.parts, &mut all);
        for graph in all {
            self.write_graph(graph, Some(links), out);
        }
    }

    /// Writes the articles of a graph, and of the programs in its nodes. Only a graph outside of
    /// nodes has links to the other program, and facts from the caller.
    fn write_graph(&self, graph: &Diagram<'_>, links: Option<&Links>, out: &mut String) {
        let consumers = consumers(graph);
        let costs_known = verify(graph.program).is_empty();
        for (node, consumers) in graph.nodes.iter().zip(consumers) {
            let article = Article {
                panel: self,
                graph,
                node,
                consumers,
                links,
                costs_known,
            };
            article.write(out);
            for (_, inner) in &node.nested {
                self.write_graph(inner, None, out);
            }
        }
    }
}

/// Returns the indices of the nodes that read each node.
fn consumers(graph: &Diagram<'_>) -> Vec<Vec<usize>> {
    let mut consumers = vec![Vec::new(); graph.nodes.len()];
    for (from, to, _) in graph.edges() {
        consumers[from].push(to);
    }
    consumers
}

/// The details of a node.
struct Article<'p, 'a> {
    panel: &'p Panel<'a>,
    graph: &'p Diagram<'p>,
    node: &'p DiagramNode<'p>,
    consumers: Vec<usize>,
    links: Option<&'p Links>,
    /// Whether the program is valid, so that its costs can be computed.
    costs_known: bool,
}

impl Article<'_, '_> {
    fn write(&self, out: &mut String) {
        let (node, program) = (self.node, self.graph.program);
        let names: Vec<String> = node.vars.iter().map(|v| program.show(*v)).collect();
        let bindings: Vec<String> = node
            .vars
            .iter()
            .map(|v| {
                let line = self.graph.binding(*v);
                line.strong + &line.plain
            })
            .collect();
        let text = match node.eqn {
            Some(eqn) => program.show_eqn(eqn),
            None => bindings.join(", "),
        };
        let id = Xml(&node.id);
        let _ = writeln!(
            out,
            "<article id=\"about-{id}\" data-node=\"{id}\" hidden=\"\">\n<h2>{}</h2>\n<pre>{}</pre>\n<dl>",
            Xml(&names.join(", ")),
            Xml(&text)
        );
        row("program", self.panel.title, out);
        if !node.marks.is_empty() {
            row("role", node.marks.join(", "), out);
        }
        if let Some(eqn) = node.eqn {
            row("op", eqn.op, out);
        }
        for (name, value) in &node.statics {
            row(name, value, out);
        }
        self.write_cost(out);
        if let [var] = node.vars[..] {
            self.write_var(var, out);
        }
        let operands: Vec<String> = node.operands.iter().map(|x| self.operand(x)).collect();
        linked_row("operands", &operands, out);
        let consumers: Vec<String> = self
            .consumers
            .iter()
            .map(|i| {
                let consumer = &self.graph.nodes[*i];
                let name = program.show(consumer.vars[0]);
                link(&consumer.id, &name)
            })
            .collect();
        linked_row("consumers", &consumers, out);
        if let Some(links) = self.links {
            let same = links.same(&node.id);
            let same: Vec<String> = same.iter().map(|s| link(&s.id, &s.text)).collect();
            let title = match self.panel.title {
                "forward" => "backward",
                _ => "forward",
            };
            linked_row(title, &same, out);
        }
        out.push_str("</dl>\n");
        if node.vars.len() > 1 {
            for var in &node.vars {
                let _ = writeln!(out, "<h3>{}</h3>\n<dl>", Xml(&program.show(*var)));
                self.write_var(*var, out);
                out.push_str("</dl>\n");
            }
        }
        out.push_str("</article>\n");
    }

    fn operand(&self, operand: &NodeOperand) -> String {
        let text = match operand.node {
            Some(node) => link(&self.graph.nodes[node].id, &operand.text),
            None => Xml(&operand.text).to_string(),
        };
        match operand.is_like {
            true => format!("like {text}"),
            false => text,
        }
    }

    fn write_cost(&self, out: &mut String) {
        let Some(eqn) = self.node.eqn else {
            return;
        };
        let given = self
            .node
            .vars
            .iter()
            .find_map(|v| self.info(*v)?.cost.clone());
        let computed = || {
            self.costs_known
                .then(|| cost::of_eqn(self.graph.program, eqn))
        };
        if let Some(cost) = given.or_else(computed) {
            cost_rows(&cost, out);
        }
    }

    fn info(&self, var: Var) -> Option<&VarInfo> {
        self.links.and_then(|_| self.panel.info(var))
    }

    fn write_var(&self, var: Var, out: &mut String) {
        let aval = self.graph.program.aval(var);
        match aval.dtype {
            Some(dtype) => row("dtype", dtype, out),
            None => row("dtype", "unknown", out),
        }
        row("shape", &aval.shape, out);
        if let Some(bytes) = cost::bytes(aval) {
            row("size", amount(&bytes, "bytes"), out);
        }
        let Some(info) = self.info(var) else {
            return;
        };
        if let Some(source) = &info.source {
            let source = source.to_string();
            let _ = writeln!(
                out,
                "<dt>source</dt><dd data-source=\"\">{}</dd>",
                Xml(&source)
            );
        }
        if let Some(statistics) = info.statistics {
            statistics_rows(&statistics, out);
        }
        for (title, text) in &info.notes {
            row(title, text, out);
        }
    }
}

fn row(title: &str, value: impl Display, out: &mut String) {
    let value = value.to_string();
    let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", Xml(title), Xml(&value));
}

/// Writes a row of links, which are escaped already. Writes nothing if there is none.
fn linked_row(title: &str, links: &[String], out: &mut String) {
    if !links.is_empty() {
        let _ = writeln!(out, "<dt>{title}</dt><dd>{}</dd>", links.join(", "));
    }
}

fn link(id: &str, text: &str) -> String {
    format!("<a href=\"#{}\">{}</a>", Xml(id), Xml(text))
}

fn cost_rows(cost: &Cost, out: &mut String) {
    for (title, value) in [("flops", &cost.flops), ("functions", &cost.transcendentals)] {
        if let Some(value) = value
            && *value != Poly::ZERO
        {
            row(title, amount(value, ""), out);
        }
    }
    if let Some(bytes) = &cost.bytes {
        row("traffic", amount(bytes, "bytes"), out);
    }
}

/// Returns a number with a unit, and with a prefix if it is large.
fn amount(value: &Poly, unit: &str) -> String {
    let Some(n) = value.as_constant() else {
        return format!("{value} {unit}").trim_end().to_owned();
    };
    let short = match n {
        ..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1} thousand", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} million", n as f64 / 1e6),
        _ => format!("{:.1} billion", n as f64 / 1e9),
    };
    format!("{short} {unit}").trim_end().to_owned()
}

/// A number with six digits.
struct Digits(f64);

impl Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        match self.0 == 0.0 || (1e-3..1e6).contains(&size) || !self.0.is_finite() {
            true => write!(f, "{}", (self.0 * 1e6).round() / 1e6),
            false => write!(f, "{:.5e}", self.0),
        }
    }
}

fn statistics_rows(statistics: &Statistics, out: &mut String) {
    let Statistics {
        min,
        max,
        mean,
        rms,
        nans,
        infinities,
    } = *statistics;
    for (title, value) in [("min", min), ("max", max), ("mean", mean), ("rms", rms)] {
        row(title, Digits(value), out);
    }
    for (title, count) in [("NaN", nans), ("infinite", infinities)] {
        let class = if count > 0 { " class=\"bad\"" } else { "" };
        let _ = writeln!(out, "<dt>{title}</dt><dd{class}>{count}</dd>");
    }
}

/// Writes what is shown while no node is selected.
fn overview(panels: &[Panel<'_>], out: &mut String) {
    out.push_str("<article id=\"about\">\n");
    for panel in panels {
        let _ = writeln!(out, "<h3>{}</h3>\n<dl>", panel.title);
        row("contents", panel.summary(), out);
        if let Listing::Program(program) = panel.code
            && verify(program).is_empty()
        {
            cost_rows(&total_cost(program, panel.metadata), out);
        }
        out.push_str("</dl>\n");
        let mut rows: [Vec<String>; 2] = Default::default();
        panel.each_outer(&mut |graph, node| {
            let name = graph.program.show(node.vars[0]);
            if node.eqn.is_none() {
                rows[0].push(link(&node.id, &name));
            }
            if node.is_result {
                rows[1].push(link(&node.id, &name));
            }
        });
        if let Listing::Program(_) = panel.code {
            out.push_str("<dl>\n");
            linked_row("parameters", &rows[0], out);
            linked_row("results", &rows[1], out);
            out.push_str("</dl>\n");
        }
    }
    out.push_str(
        "<h3>Lines</h3>\n<dl class=\"prose\">\n\
         <dt>solid</dt><dd>the value is read</dd>\n\
         <dt>dashed</dt><dd>only dtype and shape are read</dd>\n\
         <dt><span class=\"key\" style=\"color: var(--in)\"></span></dt><dd>to an operand of the selected node</dd>\n\
         <dt><span class=\"key\" style=\"color: var(--out)\"></span></dt><dd>to a consumer of it</dd>\n\
         <dt><span class=\"key\" style=\"color: var(--same)\"></span></dt><dd>related value of the other program</dd>\n\
         </dl>\n<h3>Keys</h3>\n<dl class=\"prose\">\n\
         <dt>drag, wheel</dt><dd>move</dd>\n\
         <dt><kbd>Ctrl</kbd> wheel, <kbd>+</kbd> <kbd>-</kbd></dt><dd>zoom</dd>\n\
         <dt><kbd>0</kbd> <kbd>1</kbd></dt><dd>show everything; legible size</dd>\n\
         <dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>first operand, first consumer</dd>\n\
         <dt><kbd>←</kbd> <kbd>→</kbd></dt><dd>node before, node after</dd>\n\
         <dt><kbd>Shift</kbd> <kbd>↓</kbd></dt><dd>move</dd>\n\
         <dt><kbd>/</kbd></dt><dd>search</dd>\n\
         <dt><kbd>Esc</kbd></dt><dd>select nothing</dd>\n\
         </dl>\n</article>\n",
    );
}

fn total_cost(program: &Program, metadata: &Metadata) -> Cost {
    program.eqns.iter().fold(Cost::ZERO, |sum, eqn| {
        let given = eqn.outs.iter().find_map(|v| metadata.get(*v)?.cost.clone());
        sum.plus(&given.unwrap_or_else(|| cost::of_eqn(program, eqn)))
    })
}

fn write_plan(plan: &PlanTable, links: &Links, out: &mut String) {
    out.push_str(
        "<div id=\"plan\" class=\"view text\" role=\"tabpanel\" aria-labelledby=\"tab-plan\" hidden=\"\">\n",
    );
    if !plan.steps.is_empty() {
        out.push_str(
            "<table>\n<thead><tr><th>step</th><th>kernel</th><th>values</th><th>bytes</th><th></th></tr></thead>\n<tbody>\n",
        );
        for (i, step) in plan.steps.iter().enumerate() {
            let value = |name: &String| {
                let node = ["forward", "backward"]
                    .iter()
                    .find_map(|panel| links.nodes.get(&(*panel, name.clone())));
                match node {
                    Some(id) => link(id, name),
                    None => Xml(name).to_string(),
                }
            };
            let values: Vec<String> = step.values.iter().map(value).collect();
            let bytes = step.bytes.map(|n| n.to_string()).unwrap_or_default();
            let _ = writeln!(
                out,
                "<tr><td class=\"number\">{i}</td><td>{}</td><td>{}</td><td class=\"number\">{bytes}</td><td>{}</td></tr>",
                Xml(&step.kernel),
                values.join(", "),
                Xml(&step.note)
            );
        }
        out.push_str("</tbody>\n</table>\n");
    }
    if !plan.text.is_empty() {
        let _ = writeln!(out, "<pre>{}</pre>", Xml(&plan.text));
    }
    out.push_str("</div>\n");
}
