//! The op behind a tensor, for debugging.

use super::backward::{is_leaf, name_of, release_context};
use crate::Tensor;
use crate::graph::engine::Engine;
use crate::graph::value::{Producer, Shared};
use crate::transform::{DependentGraph, cut_to_params};
use gradloom_ir::Entity;
use std::fmt;
use std::panic::Location;

/// The op that computes a tensor that depends on a [`Param`](crate::Param).
///
/// It prints as the program of the graph behind the tensor. A custom function is shown with its name and the number of
/// its call.
///
/// ```
/// use gradloom::{Param, Tensor};
///
/// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
/// let y = (w.tensor() * 3.0).sin();
/// let sin = y.grad_fn().unwrap();
/// assert_eq!(sin.name(), "sin");
/// let mul = sin.operands()[0].grad_fn().unwrap();
/// assert_eq!(mul.name(), "mul");
/// assert!(sin.to_string().contains("sin"), "{sin}");
/// assert!(sin.to_dot().starts_with("digraph"));
/// // The value of a parameter has no op.
/// assert!(w.tensor().grad_fn().is_none());
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Clone)]
pub struct GradFn {
    y: Tensor,
    /// The value that owns the op.
    op: Tensor,
    operands: Vec<Tensor>,
}

impl Tensor {
    /// Returns the op that computes the tensor, if it depends on a [`Param`](crate::Param) and a backward pass has not
    /// released the graph. See [`GradFn`].
    pub fn grad_fn(&self) -> Option<GradFn> {
        let value: &Shared = self.physical_value();
        if !self.requires_grad() || is_leaf(value) {
            return None;
        }
        let engine = Engine::lock();
        let (op, args) = match value.producer(&engine.edges) {
            Producer::Nothing => return None,
            Producer::Op(args) => (value, args),
            Producer::Part(op, _) => (op, op.operands(&engine.edges)),
        };
        let operands = args.iter().map(Tensor::of).collect();
        let op = Tensor::of(op);
        drop(engine);
        Some(GradFn {
            y: self.physical(),
            op,
            operands,
        })
    }
}

impl GradFn {
    /// Returns the name of the op, or the name of the custom function and the number of its call.
    pub fn name(&self) -> String {
        name_of(&self.op.0)
    }

    /// Returns the operands, in order. Those of a custom function are its inner results, and then its arguments.
    pub fn operands(&self) -> &[Tensor] {
        &self.operands
    }

    /// Drops the contexts of all custom functions in the graph behind the tensor, as a backward pass does. A backward
    /// pass through them is then an error. Does nothing if they are released.
    #[track_caller]
    pub fn release(&self) {
        let at = Location::caller();
        for value in &self.graph().values {
            release_context(value, at);
        }
    }

    /// Returns the graph behind the tensor in the DOT language of Graphviz.
    pub fn to_dot(&self) -> String {
        let program = self.graph().program;
        let mut text = String::from("digraph {\n");
        for param in &program.params {
            text += &format!(
                "  v{} [label=\"{}\", shape=box];\n",
                param.index(),
                program.aval(*param)
            );
        }
        for (i, eqn) in program.eqns.iter().enumerate() {
            let code = eqn.attrs.iter().find_map(|attr| program.attr(*attr).code());
            let name = code.map_or_else(|| eqn.op.to_string(), |code| code.get().name());
            text += &format!("  op{i} [label=\"{name}\"];\n");
            for arg in &eqn.args {
                text += &format!("  v{} -> op{i};\n", arg.index());
            }
            for out in &eqn.outs {
                text += &format!(
                    "  v{} [label=\"{}\", shape=plain];\n",
                    out.index(),
                    program.aval(*out)
                );
                text += &format!("  op{i} -> v{};\n", out.index());
            }
        }
        text + "}\n"
    }

    fn graph(&self) -> DependentGraph {
        cut_to_params(&[], &self.y)
    }
}

impl fmt::Display for GradFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.graph().program, f)
    }
}

impl fmt::Debug for GradFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GradFn").field(&self.name()).finish()
    }
}
