//! Traces: the rows S0 of the requirements, and those of S2 on `trace`.

use gradloom::prelude::*;
use gradloom::trace::{
    Attribute, NodeOutput, Program, ProgramPlan, TraceContext, TraceFault, TraceNode, TracedTensor,
    parse, pending, run, trace, verify,
};
use gradloom::{ForwardLevel, TraceFault as Fault, detect_anomaly, events, scan};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn operations(nodes: &[Arc<TraceNode>]) -> Vec<String> {
    nodes.iter().map(|node| node.to_string()).collect()
}

fn fault(error: Error) -> TraceFault {
    match error {
        Error::Trace(fault) => *fault,
        other => panic!("{other}"),
    }
}

/// S0.57, S0.38, S0.13, S0.25: the example of the document, and exactly its listing.
///
/// Row S0.7 of the requirements.
#[test]
fn the_example_of_the_document() {
    let trace = TraceContext::new();
    let x = TracedTensor::named_input(&Tensor::from([1i32, 2, 3]), "x");
    let y = TracedTensor::named_input(&Tensor::from([4i32, 5, 6]), "y");
    let result = x.add(&y).unwrap();
    let last = result.multiply(&x).unwrap();
    trace.register_output("final", last.node()).unwrap();
    insta::assert_snapshot!(trace, @r"
    Trace:
      input([3])
      input([3])
      add([3])
      multiply([3])
    ");
    assert!(trace.to_string().ends_with("multiply([3])\n"));
    assert_eq!(x.node().name(), Some("x"));
    assert_eq!(x.node().operation(), "input");
}

/// S0.3, S0.32, S0.54: every op of the library becomes a node, in the order of the program.
///
/// Rows S0.45, S2.15e of the requirements.
#[test]
fn every_op_is_recorded_in_order() {
    let trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([[1.0f32, -2.0], [3.0, 4.0]]));
    let y = x.tanh().matmul(&x).sum(-1) * 2.0 + 1.0;
    let _ = y.softmax(-1);
    assert_eq!(
        operations(&trace.nodes()),
        [
            "input([2, 2])",
            "tanh([2, 2])",
            "matmul([2, 2])",
            "sum([2])",
            "multiply([2])",
            "add([2])",
            "softmax([2])"
        ]
    );
    let nodes = trace.nodes();
    let mut seen = HashSet::new();
    for node in &nodes {
        assert!(
            node.inputs()
                .iter()
                .all(|input| seen.contains(&input.node.id()))
        );
        seen.insert(node.id());
    }
    assert_eq!(nodes[4].attribute("number"), Some(&Attribute::Float(2.0)));
    assert_eq!(nodes[3].attribute("axes"), Some(&Attribute::Int(-1)));
}

/// S0.6, S0.8: nodes with equal contents differ, and an operand that is used twice is listed twice.
#[test]
fn identities_and_repeated_operands() {
    let _trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32]));
    let (a, b) = (x.multiply(&x).unwrap(), x.multiply(&x).unwrap());
    assert_ne!(a.node().id(), b.node().id());
    let inputs: Vec<_> = a.node().inputs().iter().map(|i| i.node.id()).collect();
    assert_eq!(inputs, [x.node().id(), x.node().id()]);
    assert!(x.node().inputs().is_empty());
}

/// S0.4, S0.9, S0.10, S0.18, S0.19, S0.52: the node has the dtype and shape of the value, for all dtypes.
///
/// Rows S0.14, S0.21 of the requirements.
#[test]
fn dtypes_and_shapes_are_those_of_the_values() {
    let _trace = TraceContext::new();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool] {
        let x = TracedTensor::input(&Tensor::ones([2, 0, 3], dtype));
        let y = x.apply(|x| x.sum(1)).unwrap();
        assert_eq!(y.node().outputs()[0], *y.underlying().aval());
        assert_eq!((y.node().shape(), y.node().dtype()), (y.shape(), y.dtype()));
        assert_eq!(x.node().dtype(), dtype);
    }
}

/// S0.11: attributes are ordered, comparable by bits, and have the types of static arguments.
#[test]
fn attributes() {
    let trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([[1.0f32, 2.0]]));
    let _ = x
        .rms_norm(Tensor::ones([2], DType::F32), 1e-5)
        .cast(DType::F64)
        .transpose();
    let attributes: Vec<String> = trace.nodes()[1..]
        .iter()
        .map(|node| {
            let all = node.attributes().iter();
            let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}[{}]", node.operation(), all.join(", "))
        })
        .collect();
    insta::assert_debug_snapshot!(attributes);
    assert_eq!(Attribute::from(f64::NAN), Attribute::from(f64::NAN));
    assert_ne!(Attribute::from(0.0), Attribute::from(-0.0));
}

/// S0.12, S0.22: operations that the library does not know, and the order of their operands.
#[test]
fn operations_of_users() {
    let trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32, 2.0]));
    let y = x.relu().unwrap();
    let sorted = Tensor::from([2.0f32, 1.0]);
    let attributes = vec![("descending".into(), Attribute::Bool(true))];
    let z = TracedTensor::of_operation(&sorted, "my_sort", &[&y, &x], attributes).unwrap();
    assert_eq!(z.node().to_string(), "my_sort([2])");
    assert_eq!(z.node().inputs()[0].node.id(), y.node().id());
    assert_eq!(
        z.node().attribute("descending"),
        Some(&Attribute::Bool(true))
    );
    let after = z.relu().unwrap();
    assert_eq!(after.node().inputs()[0].node.id(), z.node().id());
    assert_eq!(trace.nodes().len(), 4);
}

/// S0.15 to S0.17, S0.20, S0.23, S0.28: a traced tensor has a value, also while the trace is open.
///
/// Rows S0.2, S0.16, S0.24, S0.48 of the requirements.
#[test]
fn values_are_there_while_tracing() {
    let _trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32, 2.0]));
    let y = &x + &x;
    assert_eq!(y.underlying().to_vec::<f32>(), [2.0, 4.0]);
    let z = &y * &x;
    assert_eq!(z.node().inputs()[0].node.id(), y.node().id());
    let plain: Tensor = z.into();
    assert_eq!(plain.to_vec::<f32>(), [2.0, 8.0]);
}

/// S0.26: shapes that do not fit are an error, not a panic.
#[test]
fn shapes_are_checked() {
    let _trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::ones([2, 3], DType::F32));
    let error = x.matmul(&x).unwrap_err();
    insta::assert_snapshot!(error);
}

/// S0.5, S0.29 to S0.31, S0.34, S0.37, S0.53: contexts nest, restore the outer one, and may close in any order.
///
/// Row S0.49 of the requirements.
#[test]
fn contexts_nest() {
    assert!(TraceContext::current().is_none());
    let outer = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32]));
    let inner = TraceContext::new();
    assert!(inner.is_active() && !outer.is_active());
    let y = TracedTensor::input(&Tensor::from([1.0f32]));
    y.relu().unwrap();
    assert_eq!(inner.nodes().len(), 2);
    drop(inner);
    assert!(outer.is_active());
    x.relu().unwrap();
    assert_eq!(outer.nodes().len(), 2);

    let second = TraceContext::new();
    let third = TraceContext::new();
    let kept = second.close();
    assert!(third.is_active() && !kept.is_active());
    drop(third);
    assert!(outer.is_active());
    drop(outer);
    assert!(TraceContext::current().is_none());
}

/// S0.5: a panic inside of a context makes the outer one active again.
#[test]
fn a_panic_restores_the_outer_context() {
    let outer = TraceContext::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _inner = TraceContext::new();
        panic!("inside");
    }));
    assert!(result.is_err() && outer.is_active());
    let after = std::thread::spawn(|| TraceContext::current().is_none());
    assert!(after.join().unwrap());
}

/// S0.33, S0.36: outputs are listed by name in the order of registration, and a name may be used again.
#[test]
fn named_outputs() {
    let trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32]));
    let (y, z) = (x.relu().unwrap(), (&x + &x));
    trace.register_output("b", &y).unwrap();
    trace.register_output("a", &x).unwrap();
    trace.register_output("b", &z).unwrap();
    let outputs = trace.named_outputs();
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(outputs[0].1.node.id(), z.node().id());
}

/// S0.35, S0.36: a context that is not active refuses nodes and outputs.
#[test]
fn an_inactive_context_refuses() {
    let closed = TraceContext::new().close();
    let aval = Tensor::from([1.0f32]).aval().clone();
    let node = Arc::new(TraceNode::new("custom", vec![], vec![aval], vec![]));
    let error = closed.record_node(node.clone()).unwrap_err();
    assert!(
        error.to_string().contains("Trace context is not active"),
        "{error}"
    );
    assert_eq!(fault(error), Fault::Inactive);
    assert_eq!(
        fault(closed.register_output("y", &node).unwrap_err()),
        Fault::Inactive
    );
    let outer = TraceContext::new();
    let _inner = TraceContext::new();
    assert_eq!(fault(outer.record_node(node).unwrap_err()), Fault::Inactive);
}

/// A node from outside of the trace is refused, with its name.
#[test]
fn nodes_from_outside_are_refused() {
    let outside = TracedTensor::named_input(&Tensor::from([1.0f32]), "w");
    let trace = TraceContext::new();
    let error = outside.relu().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`input([1])`, is not a node of this trace"),
        "{error}"
    );
    let output = NodeOutput::from(&outside);
    let aval = output.aval().clone();
    let node = TraceNode::new("custom", vec![output], vec![aval], vec![]);
    assert!(trace.record_node(Arc::new(node)).is_err());
    assert!(trace.register_output("y", &outside).is_err());
    assert!(trace.nodes().is_empty());
    // A plain tensor from outside is a constant.
    let x = TracedTensor::input(&Tensor::from([1.0f32]));
    let _ = x.apply(|x| x + outside.underlying()).unwrap();
    assert_eq!(
        operations(&trace.nodes()),
        ["input([1])", "constant([1])", "add([1])"]
    );
}

/// S0.50: without a context, operations work and link their nodes.
///
/// Row S0.27 of the requirements.
#[test]
fn operations_without_a_context() {
    let x = TracedTensor::input(&Tensor::from([1.0f32, -1.0]));
    let y = x.relu().unwrap().add(&x).unwrap();
    assert_eq!(y.node().to_string(), "add([2])");
    assert_eq!(y.node().inputs()[0].node.to_string(), "relu([2])");
    assert_eq!(y.node().inputs()[1].node.id(), x.node().id());
    assert!(TraceContext::current().is_none());
}

/// S0.30, S0.53, S0.56: two threads trace at once, and their traces are equal and independent.
#[test]
fn threads_trace_independently() {
    let work = || {
        let trace = TraceContext::new();
        let mut x = TracedTensor::input(&Tensor::from([1.0f32, 2.0]));
        for _ in 0..100 {
            x = x.apply(|x| x.tanh() * 0.5).unwrap();
        }
        trace.to_string()
    };
    let threads = [std::thread::spawn(work), std::thread::spawn(work)];
    let [a, b] = threads.map(|thread| thread.join().unwrap());
    assert_eq!(a, b);
    assert_eq!(a.lines().count(), 202);
}

/// A million nodes in a chain are dropped without recursion.
#[test]
fn a_long_chain_is_dropped() {
    let aval = Tensor::from(1.0f32).aval().clone();
    let leaf = || TraceNode::new("input", vec![], vec![aval.clone()], vec![]);
    let mut node = Arc::new(leaf());
    for _ in 0..1_000_000 {
        let input = NodeOutput::from(&node);
        node = Arc::new(TraceNode::new(
            "next",
            vec![input],
            vec![aval.clone()],
            vec![],
        ));
    }
    drop(node);
}

#[traced]
fn dense(x: &Tensor, w: &Tensor) -> Tensor {
    let h = x.matmul(w);
    h.tanh()
}

/// Ops of traced functions, derivatives and batches are recorded, and results have the same bits.
#[test]
fn traced_functions_and_derivatives_are_recorded() {
    let (x, w) = (
        Tensor::from([[1.0f32, 2.0]]),
        Tensor::from([[0.5f32], [0.25]]),
    );
    let before = dense(&x, &w).to_vec::<f32>();
    let gradient = |w: &Tensor| grad(|w: &Tensor| dense(&x, w).sum(..))(w);
    let expected = gradient(&w).to_vec::<f32>();
    let trace = TraceContext::new();
    let y = dense(&x, &w);
    assert_eq!(y.to_vec::<f32>(), before);
    let names = operations(&trace.nodes());
    assert_eq!(
        names,
        [
            "constant([1, 2])",
            "constant([2, 1])",
            "matmul([1, 1])",
            "tanh([1, 1])"
        ]
    );
    let line = trace.nodes()[2]
        .line()
        .expect("a call of a method recorded it");
    assert!(line.file().ends_with("traces.rs"));
    assert_eq!(gradient(&w).to_vec::<f32>(), expected);
    let all = trace.nodes();
    assert!(all.len() > names.len() + 4);
    assert!(
        all.iter()
            .any(|node| node.line().is_none() && !node.inputs().is_empty())
    );
    let n = all.len();
    let lanes = vmap(|x: &Tensor| x.square().sum(..))(&x);
    assert_eq!(lanes.to_vec::<f32>(), [5.0]);
    assert!(trace.nodes().len() > n);
    drop(trace);
    assert_eq!(dense(&x, &w).to_vec::<f32>(), before);
}

/// S1.12, S1.18, S2.15b: the results of one op share its node.
///
/// Rows S1.8, S1.9, S1.37 of the requirements.
#[test]
fn results_share_a_node() {
    let trace = TraceContext::new();
    let x = TracedTensor::input(&Tensor::from([1.0f32, 2.0, 3.0, 4.0]));
    let parts = x.split_sizes([1, 3], 0);
    let [a, b] = [&parts[0], &parts[1]].map(|part| trace.find(part).unwrap());
    assert!(Arc::ptr_eq(a.node(), b.node()));
    assert_eq!((a.output_index(), b.output_index()), (0, 1));
    gradloom::evaluate((&parts[0], &parts[1])).unwrap();
    assert_eq!(trace.find(&parts[1]).unwrap().output_index(), 1);
    let [a, b, ..] = x.unbind::<4>(0);
    let [a, b] = [a, b].map(|part| trace.find(&part).unwrap());
    assert!(Arc::ptr_eq(a.node(), b.node()));
    assert_eq!(b.node().outputs().len(), 4);
}

/// S2.34: the nodes of `x * 2 + 1` are a product and a sum.
///
/// Row S2.15c of the requirements.
#[test]
fn trace_of_a_closure() {
    let x = Tensor::from([1.0f32, 2.0]);
    let t = trace(|x: &Tensor| x * 2.0 + 1.0, &x);
    assert_eq!(operations(&t.nodes()), ["multiply([2])", "add([2])"]);
    assert_eq!(t.nodes()[0].inputs()[0].node.name(), Some("x"));
    assert_eq!(t.inputs(), [x.aval().clone()]);
    assert_eq!(t.call(&x).to_vec::<f32>(), [3.0, 5.0]);
    assert_eq!(
        grad(|x: &Tensor| t.call(x).sum(..))(&x).to_vec::<f32>(),
        [2.0, 2.0]
    );
    let rows = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    assert_eq!(
        vmap(|x: &Tensor| t.call(x))(&rows).to_vec::<f32>(),
        [3.0, 5.0, 7.0, 9.0]
    );
    insta::assert_snapshot!(t);
}

/// S2.35: captured tensors are reported, and have the values of the time of tracing.
#[test]
fn equations_have_lines() {
    let x = Tensor::from([1.0f64, 2.0]);
    let slope = |x: &Tensor| grad(|x: &Tensor| x.sin().sum(..))(x) * 2.0;
    let here = line!() - 1;
    let trace = trace(slope, &x);
    let lines = trace.lines();
    assert_eq!(lines.len(), trace.program().eqns.len());
    let known = lines.iter().flatten().map(|at| at.line());
    assert_eq!(known.collect::<HashSet<_>>(), HashSet::from([here]));
    // The derivative of the result for itself is the only op that nobody wrote.
    assert_eq!(lines.iter().filter(|at| at.is_none()).count(), 1);
}

#[test]
fn captured_tensors_are_parameters() {
    let (w, b) = (Tensor::from([[2.0f32], [3.0]]), Tensor::from([10.0f32]));
    let t = trace(
        |x: &(Tensor, Tensor)| x.0.matmul(&w) * &x.1 + &b,
        &(Tensor::from([[1.0f32, 1.0]]), Tensor::from(2.0f32)),
    );
    let captured: Vec<_> = t.captured().iter().map(|x| x.to_vec::<f32>()).collect();
    assert_eq!(captured, [vec![2.0, 3.0], vec![10.0]]);
    insta::assert_snapshot!(t);
    assert_eq!(t.outputs()[0].to_string(), "f32[1, 1]");
}

/// Nothing is computed while tracing, and a value without elements is a named error.
#[test]
fn reading_an_argument_is_an_error() {
    let x = Tensor::from([1.0f32]);
    let error = trace(
        |x: &Tensor| -> Result<Tensor> { Ok(x * x.try_item::<f32>()?) },
        &x,
    );
    let error = error.unwrap_err();
    assert_eq!(error, Error::Abstract);
    insta::assert_snapshot!(error);
    // Inside of a loop, the value is that of a turn.
    let error = trace(
        |x: &Tensor| -> Result<Tensor> {
            let (last, _) = scan(
                |h: &Tensor, x: &Tensor| -> Result<(Tensor, ())> {
                    Ok((h + x.try_item::<f32>()?, ()))
                },
                &Tensor::from(0.0f32),
                x,
            )?;
            Ok(last)
        },
        &x,
    );
    assert_eq!(error.unwrap_err(), Error::Lane);
}

/// A value that leaves the closure is still one of the trace: its error does not speak of lanes.
#[test]
fn reading_a_value_that_left_the_closure_is_an_error() {
    let x = Tensor::from([1.0f32]);
    let mut left = Vec::new();
    trace(
        |x: &Tensor| {
            left.extend([x.clone(), x.tanh(), x.split_sizes([1, 0], 0).remove(0)]);
            left.extend([grad(|x: &Tensor| x.square().sum(..))(x)]);
            x * 2.0
        },
        &x,
    );
    for x in &left {
        assert_eq!(x.try_item::<f32>().unwrap_err(), Error::Abstract);
        assert_eq!((x * 2.0).try_item::<f32>().unwrap_err(), Error::Abstract);
    }
    // A lane that is read inside of a trace is a lane, and one that left `vmap` stays one.
    let lane = std::cell::RefCell::new(None);
    let t = trace(
        |x: &Tensor| {
            vmap(|x: &Tensor| {
                lane.replace(Some(x.clone()));
                x.exp()
            })(x)
        },
        &x,
    );
    assert_eq!(
        lane.take().unwrap().try_item::<f32>().unwrap_err(),
        Error::Lane
    );
    assert_eq!(t.call(&x).to_vec::<f32>(), [1f32.exp()]);
    // An argument of a trace that is read by a lane.
    let error = trace(
        |x: &Tensor| -> Result<Tensor> {
            vmap(|y: &Tensor| -> Result<Tensor> { Ok(y * x.try_item::<f32>()?) })(x)
        },
        &x,
    );
    assert_eq!(error.unwrap_err(), Error::Abstract);
}

/// S0.51: the text of a trace parses back, also with loops, and runs.
///
/// Row S1.23 of the requirements.
#[test]
fn a_trace_parses_back() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let w = Tensor::from(0.5f32);
    let body = |h: &Tensor, x: &Tensor| {
        let h = (h * &w + x).tanh();
        (h.clone(), h)
    };
    let t = trace(|x: &Tensor| scan(body, &Tensor::from(0.0f32), x), &x);
    let program = parse(&t.to_string()).unwrap();
    assert!(verify(&program).is_empty());
    assert_eq!(program.to_string(), t.program().to_string());
    let mut args = vec![x.clone()];
    args.extend(t.captured());
    let outs = run(&program, &args).unwrap();
    let (last, all) = t.call(&x);
    assert_eq!(outs[0].to_vec::<f32>(), last.to_vec::<f32>());
    assert_eq!(outs[1].to_vec::<f32>(), all.to_vec::<f32>());
}

/// Texts that are not traces have an error each.
#[test]
fn malformed_traces() {
    let t = trace(|x: &Tensor| x.exp(), &Tensor::from([1.0f32]));
    let text = t.to_string();
    let messages: Vec<String> = [
        "".to_owned(),
        "(x: f32[1]) {\n  return x\n}".to_owned(),
        text.replace("trace 1", "trace 2"),
        text.replace("exp", "expo"),
        text.replace("exp x", "exp y"),
        text.replace("exp x", "matmul x, x"),
    ]
    .iter()
    .map(|text| parse(text).unwrap_err().to_string())
    .collect();
    insta::assert_debug_snapshot!(messages);
    // Truncated at every byte: an error, or a program, and never a panic.
    for end in 0..text.len() {
        let _ = parse(&text[..end]);
    }
}

/// A program that is run checks its arguments.
///
/// Rows S0.1, S1.24 of the requirements.
#[test]
fn run_checks_arguments() {
    let t = trace(|x: &Tensor| x.exp(), &Tensor::from([1.0f32]));
    let wrong = [Tensor::from([1.0f64]), Tensor::from([1.0f32, 2.0])];
    let messages: Vec<String> = wrong
        .iter()
        .map(|x| {
            run(t.program(), std::slice::from_ref(x))
                .unwrap_err()
                .to_string()
        })
        .chain([run(t.program(), &[]).unwrap_err().to_string()])
        .chain([t.try_call(&wrong[0]).unwrap_err().to_string()])
        .chain([run(&dense::PROGRAM.parse().unwrap(), &[])
            .unwrap_err()
            .to_string()])
        .collect();
    insta::assert_debug_snapshot!(messages);
    let x = Tensor::from([[1.0f32, 2.0]]);
    let dense: Program = dense::PROGRAM.parse().unwrap();
    let y = run(&dense, &[x.clone(), x.transpose()]).unwrap();
    assert_eq!(y[0].to_vec::<f32>(), [5f32.tanh()]);
}

/// S2.42: the operations behind a promise, in topological order.
///
/// Rows S1.2, S1.16a, S2.2, S2.9, S2.32, S2.47 of the requirements.
#[test]
fn pending_programs() {
    let x = Tensor::from([1.0f32, 2.0]);
    let y = x.tanh() * &x;
    let (program, read) = pending(&y);
    assert_eq!((program.eqns.len(), read.len()), (2, 1));
    gradloom::evaluate(&y).unwrap();
    let (program, read) = pending(&y);
    assert_eq!((program.eqns.len(), read.len()), (0, 1));
}

#[traced]
fn roots(x: &Tensor) -> Tensor {
    x.sqrt().sum(..)
}

/// The first op that gives a NaN or an infinity is named, with its place and pass.
#[test]
fn anomalies_are_located() {
    fn message(f: impl Fn() -> Result<Tensor>) -> String {
        let error =
            detect_anomaly(|| grad(|_: &Tensor| f().map(|y| y.sum(..)))(&Tensor::from(0.0f32)));
        let text = error.unwrap_err().to_string();
        // Places depend on the layout of this file.
        text.split(", called at").next().unwrap().to_owned()
    }
    let x = Tensor::from([[1.0f32, 4.0], [0.0, 2.0]]);
    let mut messages = vec![
        message(|| Ok(x.log() * 2.0)),
        message(|| Ok((&x / &x).exp())),
        message(|| Ok(&x * &Tensor::from([f32::NAN, 1.0]))),
    ];
    // A mask has infinities, which the sum explains; `inf - inf` is a NaN of its own.
    let mask = Tensor::from([0.0f32, f32::NEG_INFINITY]);
    detect_anomaly(|| (&x + &mask).softmax(-1).to_vec::<f32>());
    messages.push(message(|| Ok((&x + &mask) - &mask)));
    // An infinity explains only what is computed from it.
    messages.push(message(|| Ok((&x + &mask) * f32::MAX * 2.0)));
    let root = detect_anomaly(|| -> Result<Tensor> {
        grad(|x: &Tensor| -> Result<Tensor> { Ok(x.sqrt().sum(..)) })(&x)
    });
    messages.push(root.unwrap_err().to_string());
    insta::assert_debug_snapshot!(messages);
    let error = catch_unwind(|| detect_anomaly(|| dense(&x.log(), &x))).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(text.contains("`log` gave -inf at [1, 0] of f32[2, 2], in the forward pass, called at core/tests/traces.rs"), "{text}");
    let error = catch_unwind(|| detect_anomaly(|| roots::grad(&x))).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(
        text.contains(
            "at [1, 0] of f32[2, 2], in the backward pass, called at core/tests/traces.rs"
        ),
        "{text}"
    );
    // The mode ends with the closure, also by a panic.
    assert_eq!(x.log().to_vec::<f32>()[2], f32::NEG_INFINITY);
}

/// S1.28: tangents that are attached to tensors, on x * x, nested, and read in the middle.
///
/// Row S1.16b of the requirements.
#[test]
fn attached_tangents() {
    let level = ForwardLevel::new();
    let x = level.dual(&Tensor::from([2.0f64, 3.0]), &Tensor::from([1.0f64, 0.5]));
    let mut y = x.clone();
    for _ in 0..2 {
        y = &y * &x;
        let tangent = level.tangent(&y).unwrap();
        assert_eq!(tangent.shape(), [2]);
    }
    assert_eq!(level.tangent(&y).unwrap().to_vec::<f64>(), [12.0, 13.5]);
    assert_eq!(level.tangent(&x).unwrap().to_vec::<f64>(), [1.0, 0.5]);
    assert!(level.tangent(&x.stop_gradient()).is_none());
    // d/dx (x * d/dy (x + y)) is 1, not 2: the tangents of the two levels do not mix.
    let outer = ForwardLevel::new();
    let one = Tensor::from(1.0f64);
    let x = outer.dual(&Tensor::from(3.0f64), &one);
    let inner = ForwardLevel::new();
    let y = inner.dual(&Tensor::from(1.0f64), &one);
    let slope = inner.tangent(&(&x + &y)).unwrap();
    assert_eq!(outer.tangent(&(&x * &slope)).unwrap().item::<f64>(), 1.0);
    // The second derivative of x^3.
    let y = inner.dual(&x, &one);
    let slope = inner.tangent(&(&y * &y * &y)).unwrap();
    assert_eq!(outer.tangent(&slope).unwrap().item::<f64>(), 18.0);
    // Traced functions carry tangents on.
    let w = outer.dual(&Tensor::from([[0.5f64]]), &Tensor::from([[1.0f64]]));
    let y = dense(&Tensor::from([[2.0f64]]), &w);
    let expected = 2.0 * (1.0 - 1f64.tanh().powi(2));
    assert!((outer.tangent(&y).unwrap().item::<f64>() - expected).abs() < 1e-15);
    let errors = [
        catch_unwind(|| ForwardLevel::new().dual(&Tensor::from(1i64), &Tensor::from(1i64))),
        catch_unwind(|| ForwardLevel::new().dual(&Tensor::from(1.0f32), &Tensor::from(1.0f64))),
    ];
    let texts = errors.map(|error| error.unwrap_err().downcast_ref::<String>().unwrap().clone());
    insta::assert_debug_snapshot!(texts);
}

/// S1.31, S1.55: the defaults of a thread, which a guard restores, also after a panic.
#[test]
fn defaults_of_a_thread() {
    use gradloom::defaults::{self, Device};
    let zeros = || Tensor::zeros([1], defaults::dtype()).dtype();
    let wide = defaults::set_dtype(DType::F64);
    let inner = catch_unwind(|| {
        let _guard = defaults::set_dtype(DType::I32);
        panic!("inside");
    });
    assert!(inner.is_err());
    assert_eq!(zeros(), DType::F64);
    let other = std::thread::spawn(defaults::dtype).join().unwrap();
    assert_eq!(other, DType::F32);
    drop(wide);
    assert_eq!((zeros(), defaults::device()), (DType::F32, Device::Cpu));
}

#[traced(pure)]
fn of_default(x: &Tensor) -> Tensor {
    x.exp()
}

/// A profile has the kernels, their bytes and arithmetic, and a timeline that parses.
#[test]
fn profiles() {
    let x = Tensor::ones([32, 32], DType::F32);
    let work = || gradloom::evaluate(&(x.matmul(&x) + 1.0).sum(-1)).unwrap();
    work();
    let ((), profile) = gradloom::profile(work);
    let kernels = profile.kernels();
    let product = kernels.iter().find(|k| k.name.contains("matmul")).unwrap();
    assert!(product.flops.unwrap() >= 2 * 32 * 32 * 32, "{product:?}");
    assert!(product.bytes >= 32 * 32 * 4);
    assert!(product.gflops().unwrap() > 0.0 && product.gb_per_second() > 0.0);
    let text = profile.to_string();
    assert!(
        text.contains("GFLOP/s") && text.contains("matmul"),
        "{text}"
    );
    let json = profile.chrome_trace();
    assert_eq!(
        json.matches("\"ph\":\"X\"").count(),
        json.matches("\"dur\"").count()
    );
    assert!(json.contains("\"cat\":\"kernel\"") && json.contains("\"GFLOP/s\""));
    let path = std::env::temp_dir().join(format!("gradloom-profile-{}.json", std::process::id()));
    profile.write_chrome_trace(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), json);
    std::fs::remove_file(&path).unwrap();
    // A plan that is made is a slice of its own, and calls of traced functions are profiled, too.
    let ((), profile) = gradloom::profile(|| {
        let y = of_default(&Tensor::ones([7, 3], DType::F32));
        gradloom::evaluate(&y).unwrap();
    });
    assert!(profile.chrome_trace().contains("\"cat\":\"plan\""));
    assert!(
        profile.kernels().iter().any(|kernel| kernel.name == "exp"),
        "{profile}"
    );
}

/// S0.55: tracing plans and runs nothing.
#[test]
fn tracing_computes_nothing() {
    let x = Tensor::from([[1.0f32, 2.0]]);
    let ((), events) = gradloom::events::record(|| {
        let t = trace(|x: &Tensor| dense(x, &x.transpose()), &x);
        assert_eq!(t.nodes().len(), 3);
        let context = TraceContext::new();
        let _ = dense(&x, &x.transpose());
        assert_eq!(context.nodes().len(), 4);
    });
    let names: Vec<String> = events.iter().map(|event| event.to_string()).collect();
    assert_eq!(names, ["traced: 3 equations"]);
}

/// S0.44: equal avals have equal hashes, however they were made, and a batch prefix makes another aval.
#[test]
fn avals_hash_as_they_compare() {
    let hash = |x: &Tensor| {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        x.aval().hash(&mut hasher);
        hasher.finish()
    };
    for shape in [&[5, 3, 4][..], &[], &[2, 1, 3, 1, 2, 1], &[0, 7]] {
        let x = Tensor::zeros(shape, DType::F32);
        let same = [
            x.exp(),
            x.cast(DType::F64).cast(DType::F32),
            x.unsqueeze(0).squeeze(0),
        ];
        for y in same {
            assert_eq!(x.aval(), y.aval());
            assert_eq!(hash(&x), hash(&y));
        }
        assert_ne!(hash(&x), hash(&x.cast(DType::F64)));
    }
    let x = Tensor::zeros([5, 3, 4], DType::F32);
    let prefixed = x.incr_batch_dims();
    assert_ne!(x.aval(), prefixed.aval());
    assert_ne!(hash(&x), hash(&prefixed));
    let back = prefixed.decr_batch_dims();
    assert_eq!((x.aval(), hash(&x)), (back.aval(), hash(&back)));
}

/// S2.41: a tensor with one element converts to a number.
#[test]
fn conversions_to_numbers() {
    let x = Tensor::from([[2.5f32]]) * 2.0;
    assert_eq!(f32::try_from(&x).unwrap(), 5.0);
    assert!(f64::try_from(&x).is_err());
    assert!(f32::try_from(&Tensor::from([1.0f32, 2.0])).is_err());
    assert!(bool::try_from(&x.gt(1.0)).unwrap());
}

/// S1.10: a level that is dropped lets its values and tangents go.
#[test]
fn a_dropped_level_frees_its_tangents() {
    // A value that a level holds cannot give its buffer away; one that it let go can.
    let level = ForwardLevel::new();
    let dx = Tensor::ones([1 << 16], DType::F32);
    let y = level.dual(&dx, &dx).exp();
    let dy = level.tangent(&y).unwrap();
    drop((level, y));
    gradloom::evaluate((&dy, &dx)).unwrap();
    assert_eq!(dy.to_vec::<f32>()[0], 1f32.exp());
}

/// The page of a trace has the source lines, both programs, the plan, and statistics of the right values.
#[cfg(feature = "view")]
#[test]
fn pages_of_traces() {
    let x = Tensor::from([[1.0f32, 2.0]]);
    let w = Tensor::from([[3.0f32], [f32::INFINITY]]);
    let t = trace(|x: &Tensor| (x.matmul(&w) * 2.0).sum(..), &x);
    let page = t.page("dense").html();
    assert!(page.contains("core/tests/traces.rs") && page.contains("matmul"));
    assert!(
        !page.contains("infinite"),
        "no statistics without an argument"
    );
    let page = t.page_of("dense", &x).html();
    assert!(page.contains("ct_") && page.contains("infinit"), "{page}");
    // An argument that has no gradient has no pullback, and a page all the same.
    let n = Tensor::from([1i64, 2]);
    let t = trace(|n: &Tensor| n + 1, &n);
    assert!(t.page("count").html().contains("add"));
    // Labels have no gradient, and the numbers beside them have one.
    let of = |(x, n): &(Tensor, Tensor)| x.select_index(0, 0) * 2.0 + n.cast(DType::F32);
    let t = trace(of, &(x, n));
    let (_, pullback) = t.vjp_programs().unwrap();
    assert_eq!(pullback.outs.len(), 1);
    assert!(t.page("labels").html().contains("ct_"));
}

/// Inputs that are made of one tensor are different nodes, and `multiply` has the operands of the call.
#[test]
fn inputs_of_one_tensor_are_told_apart() {
    let v = Tensor::from([1.0f32, 2.0]);
    let _trace = TraceContext::new();
    let a = TracedTensor::named_input(&v, "a");
    let b = TracedTensor::named_input(&v, "b");
    let names = |x: &TracedTensor| -> Vec<Option<String>> {
        let inputs = x.node().inputs().iter();
        inputs.map(|i| i.node.name().map(str::to_owned)).collect()
    };
    let [one, two] = ["a", "b"].map(|name| Some(name.to_owned()));
    assert_eq!(names(&a.multiply(&b).unwrap()), [one.clone(), two.clone()]);
    assert_eq!(names(&b.multiply(&a).unwrap()), [two.clone(), one.clone()]);
    assert_eq!(names(&a.apply(|v| v * &*b).unwrap()), [one, two]);
}

/// Results that do not depend on the argument are repeated, as by `vmap` of a call.
#[test]
fn batched_programs_have_lanes_in_each_result() {
    let w = Tensor::from([2.0f32, 3.0]);
    let t = trace(
        |x: &Tensor| vec![x * 2.0, w.clone()],
        &Tensor::scalar(1.0f32),
    );
    let lanes = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let program = t.vmap_program(4).unwrap();
    let found = run(&program, &[lanes.clone(), w.clone()]).unwrap();
    let expected = vmap(|x: &Tensor| t.call(x))(&lanes);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.shape(), expected.shape());
        assert_eq!(found.to_vec::<f32>(), expected.to_vec::<f32>());
    }
}

/// A planned program runs without records, takes promises, and refuses what has no derivative.
#[test]
fn a_planned_program_computes_at_once() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let f = |x: &Tensor| (x.matmul(x), x.sum(0), x.clone());
    let t = trace(f, &x);
    let plan = ProgramPlan::new(t.program()).unwrap();
    let promise = &x + 1.0;
    let expected = f(&promise);
    evaluate((&expected, &promise)).unwrap();
    let (found, log) = events::record(|| plan.run(std::slice::from_ref(&promise)).unwrap());
    assert!(
        matches!(log[..], [events::Event::Ran { .. }]),
        "no look-up: {log:?}"
    );
    assert!(found.iter().all(Tensor::is_realised));
    let expected = [&expected.0, &expected.1, &expected.2];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.shape(), expected.shape());
        assert_eq!(found.to_vec::<f32>(), expected.to_vec::<f32>());
    }
    let error = |args: &[Tensor]| plan.run(args).unwrap_err().to_string();
    assert_eq!(error(&[]), "the program takes 1 arguments, and 0 are given");
    assert_eq!(
        error(&[x.i(0)]),
        "`x` is f32[2], and the function was traced with f32[2, 2]"
    );
    let lost = |x: &Tensor| -> Result<Tensor> { Ok(plan.run(std::slice::from_ref(x))?.remove(1)) };
    let error = vjp(lost, &x).err().unwrap().to_string();
    assert!(error.starts_with("`x` is traced by a transform"), "{error}");
    // A label that is not a class is an error of the run.
    let labels = Tensor::from([0i64, 1]);
    let loss = |(x, labels): &(Tensor, Tensor)| x.cross_entropy(labels);
    let t = trace(loss, &(x.clone(), labels.clone()));
    let plan = ProgramPlan::new(t.program()).unwrap();
    assert!(plan.run(&[x.clone(), labels]).is_ok());
    assert!(plan.run(&[x, Tensor::from([0i64, 2])]).is_err());
    // A call is no part of a program, and an unknown shape has no plan.
    let unknown: Program = "(x: f32[N]) { y = sin x return y }".parse().unwrap();
    assert!(ProgramPlan::new(&unknown).is_err());
}

/// A parameter that a traced closure uses for the first time is captured with the path to it.
#[test]
fn parameters_are_captured() {
    let x = Tensor::from(2.0f64);
    let p = gradloom::Param::new(Tensor::from(3.0f64)).unwrap();
    let t = trace(|x: &Tensor| x * p.tensor(), &x);
    assert!(t.captured().iter().any(Tensor::requires_grad));
    (t.call(&x) * p.tensor()).backward().unwrap();
    assert_eq!(p.grad().unwrap().item::<f64>(), 12.0);
}

#[traced(pure)]
fn of_the_default(x: &Tensor) -> Tensor {
    x.cast(default_dtype())
}

fn default_dtype() -> DType {
    gradloom::defaults::dtype()
}

/// A function that reads a default is recorded at each call, also if it claims to be pure.
#[test]
fn a_default_is_read_at_each_call() {
    let x = Tensor::from([1.0f32]);
    assert_eq!(of_the_default(&x).dtype(), DType::F32);
    let _wide = gradloom::defaults::set_dtype(DType::F64);
    assert_eq!(of_the_default(&x).dtype(), DType::F64);
}

/// Paths that are spelled alike as identifiers have names of their own.
#[test]
fn leaves_of_one_spelling_parse_back() {
    let leaf = |x: f32| Tensor::from([x]);
    let x = std::collections::BTreeMap::from([
        ("layer.1".to_owned(), leaf(1.0)),
        ("layer_1".to_owned(), leaf(2.0)),
    ]);
    let product = |x: &std::collections::BTreeMap<String, Tensor>| &x["layer.1"] * &x["layer_1"];
    let t = trace(product, &x);
    let text = t.to_string();
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.to_string(), t.program().to_string());
}

/// Fields are dropped in the order of their declaration.
#[test]
fn guards_may_be_dropped_in_any_order() {
    use gradloom::{NoGrad, Param, defaults};
    struct Two<T>(T, T);
    let p = Param::new(Tensor::from(2.0f32)).unwrap();
    drop(Two(NoGrad::new(), NoGrad::new()));
    assert!((p.tensor() * 2.0).requires_grad());
    let (first, second) = (
        defaults::set_dtype(DType::F64),
        defaults::set_dtype(DType::I32),
    );
    drop(first);
    assert_eq!(defaults::dtype(), DType::I32);
    drop(second);
    assert_eq!(defaults::dtype(), DType::F32);
}
