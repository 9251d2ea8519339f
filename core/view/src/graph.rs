//! The graph of a program: nodes with labels, and edges from producers to consumers.

use crate::listing::Listing;
use gradloom_ir::flow::{Block, Flow, Node as FlowNode};
use gradloom_ir::op::Count;
use gradloom_ir::{Aval, Eqn, Op, Program, SecondaryMap, Static, Var};

/// The most results of an equation that its label lists.
const MOST_LINES: usize = 6;

/// The mark of a result that only the pullback reads.
const RESIDUAL: &str = "residual";

/// A section of a drawing. Sections are drawn one below the other.
pub(crate) enum Section<'a> {
    /// A straight-line program.
    Graph(Diagram<'a>),
    /// A line of host code, or a `return`.
    Line(String),
    /// Host code with a body.
    Scope {
        head: String,
        body: Vec<Section<'a>>,
    },
}

/// The graph of a straight-line program. Its nodes stand in the order of the program.
pub(crate) struct Diagram<'a> {
    pub(crate) program: &'a Program,
    pub(crate) nodes: Vec<DiagramNode<'a>>,
}

/// A parameter or an equation.
pub(crate) struct DiagramNode<'a> {
    /// Unique in the drawing: `p0` for a parameter, `e3` for an equation, after a prefix.
    pub(crate) id: String,
    /// The equation, or `None` for a parameter.
    pub(crate) eqn: Option<&'a Eqn>,
    /// The variables that the node binds.
    pub(crate) vars: Vec<Var>,
    pub(crate) operands: Vec<NodeOperand>,
    /// The roles in the program: `parameter 0`, `result 1`.
    pub(crate) marks: Vec<String>,
    /// Whether a variable is a result, and not only a residual.
    pub(crate) is_result: bool,
    /// The op with its operands, or nothing for a parameter.
    pub(crate) expression: String,
    /// The static arguments: names and values, without programs.
    pub(crate) statics: Vec<(&'static str, String)>,
    /// The programs that the equation runs, with titles.
    pub(crate) nested: Vec<(String, Diagram<'a>)>,
    pub(crate) kind: NodeKind,
}

/// The kind of a node, for its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Param,
    /// A view or a copy.
    Move,
    Elementwise,
    /// Matrix products, convolutions, attention.
    Product,
    /// An op that runs programs, or a call.
    Control,
    Other,
}

impl NodeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeKind::Param => "param",
            NodeKind::Move => "move",
            NodeKind::Elementwise => "each",
            NodeKind::Product => "product",
            NodeKind::Control => "control",
            NodeKind::Other => "other",
        }
    }

    fn of_op(op: Op) -> NodeKind {
        if op.control().is_some() || op.is_call() {
            return NodeKind::Control;
        }
        match op.def().count() {
            Count::View | Count::Copy => NodeKind::Move,
            Count::Each(_) => NodeKind::Elementwise,
            Count::Product | Count::Attention { .. } | Count::Convolution { .. } => {
                NodeKind::Product
            }
            _ => NodeKind::Other,
        }
    }
}

/// An operand of an equation.
pub(crate) struct NodeOperand {
    /// The name of the variable, or the number of a scalar.
    pub(crate) text: String,
    /// The index of the node that binds it. A scalar and an unbound variable have none.
    pub(crate) node: Option<usize>,
    /// Whether only dtype and shape are read.
    pub(crate) is_like: bool,
}

/// Returns the drawing of a program or flow. `prefix` starts the ids of all nodes.
///
/// The results of a program from `n_results` on are residuals.
pub(crate) fn parts<'a>(code: &'a Listing, prefix: &str, n_results: usize) -> Vec<Section<'a>> {
    match code {
        Listing::Program(program) => {
            let result = |i: usize| match i < n_results {
                true => format!("result {i}"),
                false => RESIDUAL.to_owned(),
            };
            let param = |i: usize| format!("parameter {i}");
            vec![Section::Graph(make(program, prefix, &param, &result))]
        }
        Listing::Flow(flow) => flow_parts(flow, &flow.body, prefix),
    }
}

/// Returns all graphs of a drawing that are not inside of nodes.
pub(crate) fn graphs<'p, 'a>(parts: &'p [Section<'a>], out: &mut Vec<&'p Diagram<'a>>) {
    for part in parts {
        match part {
            Section::Graph(graph) => out.push(graph),
            Section::Line(_) => {}
            Section::Scope { body, .. } => graphs(body, out),
        }
    }
}

/// Returns the graph of a program.
pub(crate) fn graph<'a>(program: &'a Program, prefix: &str) -> Diagram<'a> {
    let result = |i: usize| format!("result {i}");
    make(program, prefix, &|i| format!("parameter {i}"), &result)
}

fn make<'a>(
    program: &'a Program,
    prefix: &str,
    param_mark: &dyn Fn(usize) -> String,
    result_mark: &dyn Fn(usize) -> String,
) -> Diagram<'a> {
    let mut results: SecondaryMap<Var, Vec<usize>> = SecondaryMap::new();
    for (i, var) in program.outs.iter().enumerate() {
        match results.get_mut(*var) {
            Some(places) => places.push(i),
            None => {
                results.insert(*var, vec![i]);
            }
        }
    }
    let marks_of = |vars: &[Var]| -> Vec<String> {
        let places = vars.iter().filter_map(|v| results.get(*v)).flatten();
        let mut marks: Vec<String> = places.map(|i| result_mark(*i)).collect();
        marks.dedup();
        marks
    };
    let is_result = |marks: &[String]| marks.iter().any(|mark| mark != RESIDUAL);
    // The numbers of folded scalars, and the nodes of the other variables.
    let mut scalars: SecondaryMap<Var, String> = SecondaryMap::new();
    let mut bound: SecondaryMap<Var, usize> = SecondaryMap::new();
    let mut nodes: Vec<DiagramNode<'a>> = Vec::new();
    for (i, param) in program.params.iter().enumerate() {
        bound.insert(*param, nodes.len());
        let results = marks_of(&[*param]);
        nodes.push(DiagramNode {
            id: format!("{prefix}p{i}"),
            eqn: None,
            vars: vec![*param],
            operands: Vec::new(),
            is_result: is_result(&results),
            marks: [param_mark(i)].into_iter().chain(results).collect(),
            expression: String::new(),
            statics: Vec::new(),
            nested: Vec::new(),
            kind: NodeKind::Param,
        });
    }
    for (i, eqn) in program.eqns.iter().enumerate() {
        let results = marks_of(&eqn.outs);
        let statics = || {
            let names = eqn.op.def().statics().iter().map(|arg| arg.name);
            let values = eqn.attrs.iter().map(|a| program.attrs.get(a.0 as usize));
            names.zip(values).filter_map(|(name, v)| Some((name, v?)))
        };
        if let (Op::Scalar, [out], true) = (eqn.op, &eqn.outs[..], results.is_empty())
            && let Some((_, value)) = statics().next()
        {
            scalars.insert(*out, value.to_string());
            continue;
        }
        let n_data = eqn.data().len();
        let operands = eqn.args.iter().enumerate().map(|(at, var)| {
            let scalar = scalars.get(*var).cloned();
            NodeOperand {
                text: scalar.unwrap_or_else(|| program.show(*var)),
                node: bound.get(*var).copied(),
                is_like: at >= n_data,
            }
        });
        let operands: Vec<NodeOperand> = operands.collect();
        let id = format!("{prefix}e{i}");
        nodes.push(DiagramNode {
            expression: expression(eqn.op, &operands),
            statics: statics()
                .filter(|(_, value)| value.programs().is_none())
                .map(|(name, value)| (name, value.to_string()))
                .collect(),
            nested: nested(statics(), &id),
            kind: NodeKind::of_op(eqn.op),
            id,
            eqn: Some(eqn),
            vars: eqn.outs.to_vec(),
            operands,
            is_result: is_result(&results),
            marks: results,
        });
        for out in &eqn.outs {
            bound.insert(*out, nodes.len() - 1);
        }
    }
    Diagram { program, nodes }
}

/// Returns the op with its operands. A like operand that is also read as data is left out.
fn expression(op: Op, operands: &[NodeOperand]) -> String {
    let is_data = |x: &&NodeOperand| !x.is_like;
    let is_read = |text: &str| operands.iter().filter(is_data).any(|x| x.text == text);
    let operands: Vec<String> = operands
        .iter()
        .filter(|x| !x.is_like || !is_read(&x.text))
        .map(|x| match x.is_like {
            true => format!("like {}", x.text),
            false => x.text.clone(),
        })
        .collect();
    match operands.is_empty() {
        true => op.to_string(),
        false => format!("{op} {}", operands.join(", ")),
    }
}

fn nested<'a>(
    statics: impl Iterator<Item = (&'static str, &'a Static)>,
    id: &str,
) -> Vec<(String, Diagram<'a>)> {
    let programs = statics.filter_map(|(name, value)| Some((name, value.programs()?)));
    let titled = programs.flat_map(|(name, all)| {
        // A static argument such as `cond_body` names each of its programs.
        let words: Vec<&str> = name.split('_').collect();
        all.iter().enumerate().map(move |(i, program)| {
            let title = match (all.len(), words.len()) {
                (1, _) => name.to_owned(),
                (n, words_len) if n == words_len => words[i].to_owned(),
                _ => format!("{name} {i}"),
            };
            (title, program)
        })
    });
    titled
        .enumerate()
        .map(|(i, (title, program))| (title, graph(program, &format!("{id}-{i}-"))))
        .collect()
}

fn flow_parts<'a>(
    flow: &'a Flow<String>,
    nodes: &'a [FlowNode<String>],
    prefix: &str,
) -> Vec<Section<'a>> {
    let show = |var: &Var| match flow.blocks.first() {
        Some(block) => block.program.show(*var),
        None => var.to_string(),
    };
    let parts = nodes.iter().map(|node| match node {
        FlowNode::Block(i) => {
            let Block { program, targets } = &flow.blocks[*i];
            let input = |at: usize| {
                let place = flow.params.iter().position(|p| *p == program.params[at]);
                match place {
                    Some(i) => format!("parameter {i}"),
                    None => "read".to_owned(),
                }
            };
            let output = |at: usize| {
                let place = flow.results.iter().position(|slot| *slot == targets[at]);
                match place {
                    Some(i) => format!("result {i}"),
                    None if targets[at] == program.outs[at] => "kept".to_owned(),
                    None => format!("stored in {}", show(&targets[at])),
                }
            };
            Section::Graph(make(program, &format!("{prefix}b{i}-"), &input, &output))
        }
        FlowNode::Host(host) => Section::Line(host.clone()),
        FlowNode::Scope { head, body } => Section::Scope {
            head: head.clone(),
            body: flow_parts(flow, body, prefix),
        },
        FlowNode::Return(values) => {
            let values: Vec<String> = values.iter().map(show).collect();
            Section::Line(
                format!("return {}", values.join(", "))
                    .trim_end()
                    .to_owned(),
            )
        }
    });
    parts.collect()
}

/// A line of a label: a strong and a plain piece of text.
pub(crate) struct LabelLine {
    pub(crate) strong: String,
    pub(crate) plain: String,
}

impl LabelLine {
    fn plain(text: String) -> LabelLine {
        LabelLine {
            strong: String::new(),
            plain: text,
        }
    }
}

impl Diagram<'_> {
    /// Returns the text of a variable with its aval, if that is known.
    pub(crate) fn binding(&self, var: Var) -> LabelLine {
        let strong = self.program.show(var);
        let plain = match self.program.aval(var) {
            aval if *aval == Aval::UNKNOWN => String::new(),
            aval => format!(": {aval}"),
        };
        LabelLine { strong, plain }
    }

    /// Returns the label of a node.
    pub(crate) fn label(&self, node: &DiagramNode<'_>) -> Vec<LabelLine> {
        let shown = match node.vars.len() <= MOST_LINES {
            true => node.vars.len(),
            false => MOST_LINES - 1,
        };
        let mut lines: Vec<LabelLine> = node.vars[..shown]
            .iter()
            .map(|v| self.binding(*v))
            .collect();
        if shown < node.vars.len() {
            let more = node.vars.len() - shown;
            lines.push(LabelLine::plain(format!("and {more} more")));
        }
        if !node.expression.is_empty() {
            lines.push(LabelLine::plain(node.expression.clone()));
        }
        if !node.statics.is_empty() {
            let statics = node.statics.iter().map(|(name, v)| format!("{name}={v}"));
            lines.push(LabelLine::plain(statics.collect::<Vec<_>>().join(", ")));
        }
        if !node.marks.is_empty() {
            lines.push(LabelLine::plain(node.marks.join(", ")));
        }
        lines
    }

    /// Returns the edges between nodes, each once: producer, consumer, and whether only dtype and
    /// shape are read.
    pub(crate) fn edges(&self) -> Vec<(usize, usize, bool)> {
        let mut edges = Vec::new();
        for (to, node) in self.nodes.iter().enumerate() {
            let mut sources: Vec<(usize, bool)> = Vec::new();
            for (from, is_like) in node
                .operands
                .iter()
                .filter_map(|x| Some((x.node?, x.is_like)))
            {
                // A value that is also read as data has one edge. Data operands come first.
                if !sources.iter().any(|(source, _)| *source == from) {
                    sources.push((from, is_like));
                }
            }
            edges.extend(sources.into_iter().map(|(from, like)| (from, to, like)));
        }
        edges
    }
}
